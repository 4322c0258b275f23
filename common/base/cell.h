/* base/cell.h - text and bytes that came from strangers, printed for a person: nothing of
 * it moves a cursor, forges a line or turns the direction of what is around it. */
#ifndef RELMQ_BASE_CELL_H
#define RELMQ_BASE_CELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { RELMQ__AGE_SIZE = 24 };

/** A cell of a table: cut or filled to `width` characters; '.' for what may not be printed,
 *  '?' for what is no UTF-8. */
void relmq__cell_print(FILE *out, const char *text, size_t len, int width);
/** The whole of it in one line; what may not be printed as \xNN. */
void relmq__cell_print_whole(FILE *out, const char *text, size_t len);
/** Is this a text of lines that can be printed as it is? */
bool relmq__cell_is_text(const char *bytes, size_t len);
/** As it is if it is a text, else in hex, 32 bytes a line. Ends the line. */
void relmq__cell_print_body(FILE *out, const char *bytes, size_t len);
/** "90s", "12m", "5h", "3d"; "?" below 0. */
void relmq__age_text(int64_t s, char out[RELMQ__AGE_SIZE]);

#endif
