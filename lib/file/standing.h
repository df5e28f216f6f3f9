/* What stands under the name of an output already: a command given again must find its own work and leave it alone, and one with
 * other options must not replace it. */
#ifndef DDM_FILE_STANDING_H
#define DDM_FILE_STANDING_H

#include "core/err.h"
#include "file/stamp.h"

/* The stamp that a file carries, as a line of JSON: of a tar, a table, a PNG, an SVG or a page, a JSON text (its "stamp", or all of it when it names
 * a "program"), else of the sidecar PATH.json. NULL where there is none, and with *e (may be NULL) where it cannot be read: damage is no
 * error. Caller frees with mem_free. */
char *standing_stamp(const char *path, struct err *e);

/* Whether an output determined by `s` may go to `path`. 0 when nothing stands there ("-", no file, an empty one, a device) or
 * something of the same stamp; otherwise -1 and ERR_EXISTS naming what differs. `partial`: s lacks keys that only the work itself
 * can tell; what the old stamp has beyond s is not compared. */
int standing_check(const char *path, const struct stamp *s, int partial, struct err *e);

/* For views of other outputs (charts, pages, tables of numbers), which a newer one may replace whatever its options: 0 when nothing stands there,
 * as above, or a view of the same program, known by its stamp; where `keys` (up to a NULL) is not NULL also text whose first line is a JSON
 * object with all of them. Otherwise -1 and ERR_EXISTS: what stands there is no view, and only the user may remove it. */
int standing_view(const char *path, const char *program, const char *const *keys, struct err *e);

#endif
