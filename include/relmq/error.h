/* error.h - result codes and the caller-owned error record. */
#ifndef RELMQ_ERROR_H
#define RELMQ_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

#ifndef RELMQ_API
#define RELMQ_API __attribute__((visibility("default")))
#endif
#define RELMQ_CHECK __attribute__((warn_unused_result))

/* One list, four uses: enum, name, text, and the "every code has text" test.
 * Values are ABI: append only, never renumber. */
#define RELMQ_CODE_MAP(X)                                               \
	X(OK, 0, "success")                                             \
	X(EINVAL, 1, "invalid argument")                                \
	X(ENOMEM, 2, "out of memory")                                   \
	X(ENOTX, 3, "connection has no open transaction")               \
	X(ETOOBIG, 4, "message exceeds a limit")                        \
	X(ECONFIG, 5, "bad configuration")                              \
	X(ETIMEDOUT, 6, "timed out")                                    \
	X(ECLOSED, 7, "object is closed or closing")                    \
	X(EDB, 8, "database error")                                     \
	X(EBROKER, 9, "broker error")                                   \
	X(EUNROUTABLE, 10, "broker returned the message as unroutable") \
	X(EINTERNAL, 11, "internal invariant violated")                 \
	X(ESCHEMA, 12, "database schema is missing or of another version")

typedef enum relmq_code {
#define X(name, val, text) RELMQ_##name = val,
	RELMQ_CODE_MAP(X)
#undef X
	    RELMQ_CODE_RESERVED = 0x7fffffff /* forces int; not a code */
} relmq_code;

/* What the caller may do next. Decide on these, never on text. */
#define RELMQ_F_RETRY   0x1u /* same call may succeed later                 */
#define RELMQ_F_TX_LOST 0x2u /* transaction is gone: ROLLBACK, start over   */
#define RELMQ_F_FATAL   0x4u /* no later attempt helps: close the handle    */

typedef enum relmq_origin { /* who said no */
	RELMQ_FROM_LIB = 0,
	RELMQ_FROM_OS,
	RELMQ_FROM_MYSQL,
	RELMQ_FROM_AMQP
} relmq_origin;

/* Caller-owned, normally on the stack; never allocated, never freed. Every
 * function taking a relmq_error* accepts NULL, writes it only on failure and
 * always leaves `text` NUL-terminated. */
typedef struct relmq_error {
	relmq_code code;
	unsigned flags;
	relmq_origin origin;
	int native;       /* errno, mysql_errno() or AMQP reply-code   */
	char sqlstate[8]; /* "" unless origin is RELMQ_FROM_MYSQL      */
	char text[232];
} relmq_error;
#define RELMQ_ERROR_INIT                               \
	{                                              \
		RELMQ_OK, 0, RELMQ_FROM_LIB, 0, "", "" \
	}

RELMQ_API const char *relmq_code_name(relmq_code code); /* static; never NULL */
RELMQ_API const char *relmq_code_text(relmq_code code); /* static; never NULL */

#ifdef __cplusplus
}
#endif
#endif
