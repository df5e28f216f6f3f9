/* State of reading samples, shared by the files: samplesopen.c lists the units that the sources consist of, samplesread.c reads samples from each
 * kind of unit, samples.c goes from unit to unit. */
#ifndef DDM_DATA_SAMPLESIMPL_H
#define DDM_DATA_SAMPLESIMPL_H

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "data/entries.h"
#include "data/feed.h"
#include "data/idx.h"
#include "data/keyset.h"
#include "data/labels.h"
#include "data/latents.h"
#include "data/mds.h"
#include "data/samples.h"
#include "file/manifest.h"
#include "file/shard.h"
#include "file/tarfile.h"
#include "text/captionlines.h"

#define SAMPLES_APART "they cannot be used together" /* sources whose class names differ */

enum { MEMBERS = 64 };

/* The sources are read unit by unit: the files of a folder or list, a tar, a shard, a text of captions. */
enum unit_kind { UNIT_FILES, UNIT_TAR, UNIT_SHARD, UNIT_LATENTS, UNIT_IDX, UNIT_MDS, UNIT_LINES };

struct unit {
	enum unit_kind kind;
	struct entries files;            /* UNIT_FILES */
	struct labels *labels;           /* labels of these files, or NULL */
	char *path, *name;               /* name: the path for messages (remote_shown) */
	uint64_t hash;                   /* UNIT_TAR: of its bytes in the first pass (tar_hash) */
	int fd;                          /* for stdin: the feed's descriptor, borrowed; else -1 */
	const struct manifest *manifest; /* UNIT_SHARD listed in a manifest, borrowed from the iterator */
	int64_t row;
};

struct samples {
	struct samples_options o;
	struct unit *unit;
	size_t units;
	struct manifest **manifest;
	size_t manifests;
	char *what;       /* the operands, for messages */
	struct feed feed; /* stdin */
	int stdin_used;

	size_t at;    /* unit being read */
	int64_t next; /* next entry of the files, or next sample of the shard */
	struct tar_reader *tar;
	struct tar_member ahead; /* tar: the member that begins the next sample */
	int have_ahead;
	struct shard *shard;
	struct shard_sample read;
	struct latents *latents;
	struct idx *idx;
	struct mds *mds;
	struct captionlines *lines;
	int64_t line;        /* line number, counted over all texts */
	struct str key;      /* key of a latent, a picture of an idx file, or a line */
	json_t *class_names; /* of all sources so far; NULL: none */
	int stamp_read;      /* the stamp of the tar has been read */

	struct str bytes; /* of the current sample */
	size_t start[MEMBERS];
	struct sample_member member[MEMBERS];
	struct arena names; /* of the current sample */
	struct keyset keys;

	int second; /* this is not the first pass */
	int64_t count, skipped;
	struct sha256 digest;
	struct str passed; /* description of tar members that are not files */
};

/* Fill *out with the next sample of a unit: 1 a sample, 0 the end of the unit, -1 the unit is broken, 2 a bad sample (*e says why) that can be
 * skipped. */
int samplesread_next(struct samples *s, struct unit *u, struct sample *out, struct err *e);

#endif
