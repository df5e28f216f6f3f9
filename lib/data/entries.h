/* The files of samples, from a folder or a list. */
#ifndef DDM_DATA_ENTRIES_H
#define DDM_DATA_ENTRIES_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/mem.h"
#include "file/still.h"

struct entry {
	const char *key, *ext, *path;
	int64_t order; /* position in the list */
};

struct entries {
	struct entry *v;
	size_t n, cap;
	char **tars; /* archives found in a folder, bytewise order */
	size_t ntars;
	char **idx; /* idx files of pictures (data/idx.h) found in a folder, bytewise order */
	size_t nidx;
	struct arena memory;
};

/* Key and extension of a name (see samples.h), allocated from `a`. 1 if the name is to be skipped (hidden, or without a dot unless ext_hint gives
 * the extension of a dotless name); -1 and ERR_DATA if it is refused. */
int entry_key(struct arena *a, const char *name, const char *ext_hint, const char **key, const char **ext, struct err *e);

/* 1 for extensions of pictures. This includes formats that cannot be decoded, so that they are reported and not silently skipped. */
int entry_is_picture(const char *ext);

/* "jpg", "png", "webp", or "" */
const char *entry_picture_ext(enum still_kind kind);

/* Find every sample file and archive under `dir`, sorted by key and extension. Links are followed; a loop of links is an error. A file whose
 * extension is unknown is opened and recognised by its first bytes. `refused` is called for names that cannot be keys, and for a second picture
 * of a key (IMG.1.jpg and IMG.2.jpg; "seg.png" beside "jpg" is a part of the sample). If it returns non-zero, the scan stops with that error. */
int entries_scan(struct entries *s, const char *dir, int (*refused)(void *arg, struct err *e), void *arg, struct err *e);

/* The paths of a list (len bytes, copied), in its order; `sep` ends an entry. Empty lines are skipped. `refused` as above. */
int entries_list(struct entries *s, const char *text, size_t len, char sep, int (*refused)(void *arg, struct err *e), void *arg, struct err *e);

/* One file; its key is made from the last component of the path. */
int entries_file(struct entries *s, const char *path, struct err *e);

void entries_release(struct entries *s);

/* Classify a file by its first bytes. -1 and *e if it cannot be read. */
enum entry_kind { ENTRY_OTHER, ENTRY_PICTURE, ENTRY_TAR };
int entry_sniff(const char *path, enum entry_kind *kind, const char **ext, struct err *e);

#endif
