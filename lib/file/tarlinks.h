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

/* Zero-initialised: no links. Release with tar_links_release. */
struct tar_links {
	struct nametable names; /* name of a link -> index in link */
	struct nametable files; /* name of a target -> index in file */
	struct tar_link {
		const char *target;
		int file; /* index in file; -1: part of a cycle, or not resolved yet */
	} * link;
	struct tar_linked {
		uint8_t *data;
		size_t size;
		int there; /* 1: the member was found, data holds its content */
	} * file;
	int links, nfiles;
	uint64_t bytes; /* total size of the members kept */
	struct arena memory;
};

/* The archive is read twice. The first pass calls tar_links_learn for each link, then tar_links_resolve once. The second pass calls tar_links_keep
 * for each member. */
void tar_links_learn(struct tar_links *l, const char *name, const char *target);
void tar_links_resolve(struct tar_links *l);
/* Copy member m if it is the target of a link. All copies together may take `bytes` bytes; more is ERR_DATA. ERR_NOMEM. */
int tar_links_keep(struct tar_links *l, const struct tar_member *m, uint64_t bytes, const char *where, struct err *e);
void tar_links_release(struct tar_links *l);

/* The target's content for the link `name`; NULL if the archive does not hold the target. Borrowed until tar_links_release. */
const struct tar_linked *tar_links_find(const struct tar_links *l, const char *name);

#endif
