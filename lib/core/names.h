/* Names of clusters and of classes: a JSON list of strings in which the name of number i is the i-th. Assignments, shards and models keep
 * them as "cluster_names" and "class_names" (ddm-formats(5)); options and reports take and show them beside the numbers. */
#ifndef DDM_CORE_NAMES_H
#define DDM_CORE_NAMES_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"

/* A name is UTF-8 of 1 to 200 bytes without control characters, and is neither "all" nor a number, which options understand otherwise.
 * What speaks against it, or NULL. */
const char *names_refuse(const char *name);
/* The same of the name of a class, which may be a number or "all": digits are called that. */
const char *names_refuse_class(const char *name);

/* Member `key` of an object, a list of n names (negative: any number) that differ: a new reference in *out, NULL where there is none.
 * ERR_DATA, starting with `where`, for anything else. */
int names_load(json_t **out, const json_t *o, const char *key, int64_t n, const char *where, struct err *e);

/* The name of number i, borrowed; NULL where there is none. The list may be NULL. */
const char *names_get(const json_t *list, int64_t i);
/* The number of a name; -1 where it is not in the list, or there is no list. */
int64_t names_find(const json_t *list, const char *name);

/* What an option says, a number in 0 .. n - 1 (which goes before a name of digits) or a name, as a number; ERR_USAGE, starting with
 * `option`, lists the names there are. `thing`: "cluster" or "class". */
int names_parse(const json_t *list, int64_t n, const char *text, const char *option, const char *thing, int64_t *out, struct err *e);

#endif
