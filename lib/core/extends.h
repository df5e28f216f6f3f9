/* The partitions that another one extends (ddm-cluster --extend): it has their clusters, with the same numbers, and more. Tables, centroids, shards
 * and models keep the list as "extends" (ddm-formats(5)), the oldest first: [{"partition": SHA-256, "clusters": K}, ...]. A network of one of them
 * still belongs beside networks of the extended partition. */
#ifndef DDM_CORE_EXTENDS_H
#define DDM_CORE_EXTENDS_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"

/* Read the member "extends" of an object. *out receives a new reference, or NULL if there is no such member. ERR_DATA, in a message that starts with
 * `where`, if it is anything but the list above, with ever more clusters. */
int extends_load(json_t **out, const json_t *o, const char *where, struct err *e);

/* Whether the list, which may be NULL, has this partition into so many clusters. */
int extends_has(const json_t *list, const char *partition, int64_t clusters);
/* The partition that was extended last, borrowed. NULL if the list is. */
const char *extends_last(const json_t *list);

/* A new list: `list`, which may be NULL, and after it this partition. Caller json_decref()s it. */
json_t *extends_add(const json_t *list, const char *partition, int64_t clusters);

#endif
