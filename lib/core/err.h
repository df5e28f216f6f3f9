/* Errors as values.
 *
 * A function that can fail for reasons outside the program (a bad file, a full disk, an impossible request) returns 0 or a
 * pointer on success and -1 or NULL on failure, and puts one sentence that names the thing and the values into its last
 * argument. The code is the exit status a program should end with (man/ddm.7, EXIT STATUS). Bugs are assertions, not errors. */
#ifndef DDM_CORE_ERR_H
#define DDM_CORE_ERR_H

enum err_code {
	ERR_NONE = 0,
	ERR_FAIL = 1,         /* failed, unclassified */
	ERR_USAGE = 2,        /* wrong options or an impossible request, such as K > N */
	ERR_SKIPPED = 3,      /* finished, but more records were skipped than allowed */
	ERR_DATA = 65,        /* input corrupt, or well-formed but incompatible */
	ERR_NOINPUT = 66,     /* input missing */
	ERR_UNAVAILABLE = 69, /* peer or device lost or absent */
	ERR_INTERNAL = 70,    /* should not happen */
	ERR_NOMEM = 71,       /* out of memory */
	ERR_EXISTS = 73,      /* locked, or the output exists and was made with other options */
	ERR_IO = 74,          /* I/O error, a full disk included */
	ERR_AGAIN = 75,       /* interrupted, state saved: run the same command again */
	ERR_DIVERGED = 76     /* training diverged */
};

struct err {
	int code; /* enum err_code */
	char msg[1000];
};

/* Set *e (NULL is allowed) and return -1, so that callers write `return err_set(...)`. The first error wins: a struct err
 * that already holds one is left alone. fmt has no trailing newline or full stop. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* As err_set with ": strerror(errno)" appended. The code is chosen from errno: ENOENT/ENOTDIR -> ERR_NOINPUT, ENOMEM ->
 * ERR_NOMEM, EEXIST -> ERR_EXISTS, EINTR -> ERR_AGAIN, anything else ERR_IO. */
int err_errno(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Put "prefix: " in front of the message of an error that is set. Returns -1. */
int err_prefix(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* If the error is ERR_NOINPUT, append how to download what is missing: "; fetch-weights NAME gets it" for published weights, or how to list
 * them if `name` is NULL. Leaves other errors alone, and one that has the hint already. Returns -1. */
int err_lacking(struct err *e, const char *name);

#endif
