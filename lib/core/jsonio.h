/* JSON over jansson: typed reading with errors that name the file and the key, and one-line output. */
#ifndef DDM_CORE_JSONIO_H
#define DDM_CORE_JSONIO_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"

/* Parse a whole file ("-": standard input; at most 64 MiB) whose root must be an object. A broken seal (core/seal.h) is
 * ERR_DATA. Caller json_decref()s. */
json_t *jsonio_load(const char *path, struct err *e);
/* The same, but integers are read as reals: transformers writes 1000000000000000019884624838656 for "no limit", which no int64 holds. */
json_t *jsonio_load_real(const char *path, struct err *e);

/* Members of an object. Missing: leave *out alone and return 0 when `required` is 0, else ERR_DATA. Wrong type or range:
 * ERR_DATA. `where` (a path) starts the message. jsonio_str borrows from the object. */
int jsonio_i64(const json_t *o, const char *key, int required, int64_t lo, int64_t hi, int64_t *out, const char *where, struct err *e);
int jsonio_f64(const json_t *o, const char *key, int required, double lo, double hi, double *out, const char *where, struct err *e);
int jsonio_bool(const json_t *o, const char *key, int required, int *out, const char *where, struct err *e);
int jsonio_str(const json_t *o, const char *key, int required, const char **out, const char *where, struct err *e);

/* Compact text in insertion order, no newline; non-finite numbers cannot be represented and must not be put in. Caller
 * frees with mem_free. */
char *jsonio_line(const json_t *o);
/* Text for a file, with a last member "seal" (core/seal.h) that covers all bytes from the opening to the closing brace. jsonio_sealed_line
 * writes one line without a newline; jsonio_pretty indents by two and ends with a newline. Caller frees with mem_free. */
char *jsonio_sealed_line(const json_t *o);
char *jsonio_pretty(const json_t *o);

/* Check the seals of all objects in a text of one or more JSON objects. A broken seal is ERR_DATA; an object without a seal is accepted. */
int jsonio_check_seals(const char *text, size_t len, const char *name, struct err *e);

/* json_string for any bytes: if the text is not UTF-8, every byte above 127 becomes '?'. */
json_t *jsonio_text(const char *text);

/* json_real(v), or json_null() if v is not finite. */
json_t *jsonio_real(double v);

#endif
