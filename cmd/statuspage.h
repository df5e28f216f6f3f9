/* The page of ddm-status. */
#ifndef DDM_CMD_STATUSPAGE_H
#define DDM_CMD_STATUSPAGE_H

#include "cmd/statustable.h"
#include "core/err.h"

/* Write one self-contained HTML page about the runs to `path`, by the commit protocol. `now`: seconds since 1970. A browser loads it again every
 * `refresh` seconds, until all runs are finished. */
int status_page(const char *path, const struct runs *r, const struct status_style *s, const char *program, double now, int refresh, struct err *e);

#endif
