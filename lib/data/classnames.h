/* The names of classes that come with samples: classes.txt of a folder, one a line, or "class_names" in the stamp of a tar or of shards. */
#ifndef DDM_DATA_CLASSNAMES_H
#define DDM_DATA_CLASSNAMES_H

#include <jansson.h>

#include "core/err.h"

/* New references. NULL if there are no names, or if they are not a list of different names (core/names.h). */
json_t *classnames_of_folder(const char *dir);
json_t *classnames_of_stamp(const char *line);

/* Merge the lists of several sources: *all becomes the longer of *all and `list`. The longer list must begin with the shorter one, else ERR_DATA
 * with a message that names `where` and ends with `advice`. Takes the reference of `list`, which may be NULL. */
int classnames_join(json_t **all, json_t *list, const char *where, const char *advice, struct err *e);

#endif
