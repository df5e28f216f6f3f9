/* Gives files that are never changed in place a second name, in an output folder that is being filled (file/commit.h). */
#ifndef DDM_FILE_SHARE_H
#define DDM_FILE_SHARE_H

#include "core/err.h"

/* Make `to` a hard link of the file `from`, or a copy where no link is possible (another file system). The folder of `to` must exist. */
int file_share(const char *from, const char *to, struct err *e);
/* Make `to` a copy of the folder `from`: its files are shared, but for logs (.jsonl), which programs append to and which are copied. Names that
 * begin with a dot, such as locks, are left out. Makes `to`. */
int folder_share(const char *from, const char *to, struct err *e);

#endif
