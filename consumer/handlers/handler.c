/* handlers/handler.c - what all kinds have in common. */
#include "consumer/handler.h"

void relmq__handler_close(relmq__handler *h)
{
	if (h != NULL)
		h->ops->close(h);
}
