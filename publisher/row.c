/* publisher/row.c - see row.h. */
#include "publisher/row.h"

#include <stdlib.h>

relmq__row *relmq__row_new(void)
{
	relmq__row *row = calloc(1, sizeof(*row));
	if (row == NULL)
		return NULL;
	row->msg = relmq__msg_new();
	if (row->msg == NULL) {
		free(row);
		return NULL;
	}
	return row;
}

void relmq__row_free(relmq__row *row)
{
	if (row == NULL)
		return;
	relmq__msg_free(row->msg);
	free(row);
}
