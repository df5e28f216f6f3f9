/* Names of clusters and of classes: a JSON list of strings in which the name of number i is the i-th. Assignments, shards and models keep
 * them as "cluster_names" and "class_names" (ddm-formats(5)); options and reports take and show them beside the numbers. */
#ifndef DDM_CORE_NAMES_H
#define DDM_CORE_NAMES_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"

/* NULL if `name` may name a cluster, or else why not. A name is UTF-8 of 1 to 200 bytes without control characters. It is neither "all" nor a
 * number, because options give these a meaning. */
const char *names_refuse(const char *name);
/* The same for a class, which may be called "all" or a number: the classes of handwritten digits are. */
const char *names_refuse_class(const char *name);

/* Read member `key` of an object: a list of n different names (n negative: of any length). *out receives a new reference, or NULL if there is no
 * such member. Anything else is ERR_DATA; the message starts with `where`. */
int names_load(json_t **out, const json_t *o, const char *key, int64_t n, const char *where, struct err *e);

/* The name of number i, borrowed; NULL if it has none. The list may be NULL. */
const char *names_get(const json_t *list, int64_t i);
/* The number of a name, or -1 if it is not in the list. The list may be NULL. */
int64_t names_find(const json_t *list, const char *name);

/* Convert the value of an option to a number in 0 .. n - 1. `text` is such a number or a name; a number takes precedence over a name made of
 * digits. Otherwise ERR_USAGE with a message that starts with `option` and lists the names. `thing` is "cluster" or "class". */
int names_parse(const json_t *list, int64_t n, const char *text, const char *option, const char *thing, int64_t *out, struct err *e);

#endif
