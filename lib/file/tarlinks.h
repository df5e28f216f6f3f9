/* Hard links of a tar: which member each name means in the end, and the contents of those members. The reader (file/tarfile.h) uses them; a link may
 * stand before its member. */
#ifndef DDM_FILE_TARLINKS_H
#define DDM_FILE_TARLINKS_H

#include <stddef.h>
#include <stdint.h>

#include "core/mem.h"
#include "file/nametable.h"

struct err;
struct tar_member;

/* Zero-initialised is none. */
struct tar_links {
	struct nametable names; /* of links, to their number */
	struct nametable files; /* of the members that links mean, to their number */
	struct tar_link {
		const char *target;
		int file; /* -1: a link to nothing, or in a circle */
	} * link;
	struct tar_linked {
		uint8_t *data;
		size_t size;
		int there;
	} * file;
	int links, nfiles;
	uint64_t bytes; /* of the members kept */
	struct arena memory;
};

/* The archive is read twice: first every link is learned, from its name to what it names, and all are resolved; then the members are offered, of
 * which those that links mean are kept. They may have so many bytes together: ERR_DATA where they have more. */
void tar_links_learn(struct tar_links *l, const char *name, const char *target);
void tar_links_resolve(struct tar_links *l);
int tar_links_keep(struct tar_links *l, const struct tar_member *m, uint64_t bytes, const char *where, struct err *e);
void tar_links_release(struct tar_links *l);

/* What a link means: NULL where it is not in the archive. */
const struct tar_linked *tar_links_find(const struct tar_links *l, const char *name);

#endif
