/* support/testwriter.h - an application with a connection of its own and a writer on it, in a
 * database whose character set is not ours; and another session to look with. One a process. */
#ifndef RELMQ_TEST_WRITER_H
#define RELMQ_TEST_WRITER_H

#include <relmq/outbox.h>

#include "db/session.h"

extern relmq__mysql_settings settings;
extern char database[64];
extern relmq__db db; /* ours, to look with */
extern MYSQL *app;   /* the application's  */
extern relmq_outbox *outbox;
extern relmq_error err;

void writer_open(void);
void writer_close(void);
void app_connect(void);

void app_run(const char *sql);
void app_refused(const char *sql);
int64_t number(const char *sql);
int64_t rows(void);
/** First column of the first row, as the bytes that the server has. */
void expect_bytes(const char *sql, const void *expected, size_t n);
void expect_text(const char *sql, const char *expected);
relmq_msg message(const char *body);
void add(const relmq_msg *m, char id[RELMQ_ID_SIZE]);
/** Refused before anything was sent, so that the transaction stands. */
void expect_refused(const relmq_msg *m, relmq_code code);

#endif
