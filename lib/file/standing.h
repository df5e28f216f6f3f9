/* Checks the file that already has the name of an output. A command given again must recognise its own output and leave it alone; a command
 * with other options must not replace it. */
#ifndef DDM_FILE_STANDING_H
#define DDM_FILE_STANDING_H

#include "core/err.h"
#include "file/stamp.h"

/* Whether an output is there: a regular file with content. 0 for "-" and for a device, which has to be written each time. */
int standing_is_file(const char *path);

/* Whether all outputs (n, NULL: none) are there. */
int standing_are_files(const char *const *path, int n);

/* The stamp of a file as a line of JSON. It is looked for in a tar, a table, a PNG, an SVG or HTML page, and a JSON text (its "stamp", or the whole
 * text if it names a "program"), and otherwise in the sidecar PATH.json. NULL without a stamp, also in a damaged file; NULL and *e (may be NULL)
 * if the file cannot be read. Caller frees with mem_free. */
char *standing_stamp(const char *path, struct err *e);

/* Whether an output with stamp `s` may be written to `path`: 0 if nothing is there ("-", no file, an empty file, a device) or a file with the same
 * stamp; otherwise -1 and ERR_EXISTS, which names the difference. `partial`: keys that only the old stamp has are not compared, because `s`
 * does not have all its keys before the work is done. */
int standing_check(const char *path, const struct stamp *s, int partial, struct err *e);

/* The same for all outputs of a command (n, NULL: none): 1 if all are there with this stamp, 0 if there is work to do. ERR_USAGE if several are "-".
 */
int standing_all(const char *const *path, int n, const struct stamp *s, struct err *e);

/* The same for a view of other outputs (a chart, a page, a table of numbers), which may replace an older view made with any options: 0 if nothing
 * is there, or a file whose stamp names the same program. If `keys` (ends with NULL) is not NULL, also a text whose first line is a JSON object
 * with all these keys. Otherwise -1 and ERR_EXISTS: only the user may remove that file. */
int standing_view(const char *path, const char *program, const char *const *keys, struct err *e);

#endif
