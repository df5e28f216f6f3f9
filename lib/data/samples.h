/* Reads samples from any kind of source. A sample is a key and its members: a picture (jpg, png, webp), a caption (txt), a class (cls), facts
 * (json), an array (npy).
 *
 * A source is a folder (its pictures, tars and idx files, recursively, in bytewise order), a SHARDS directory or a part of it (checked against
 * MANIFEST.tsv), a tar in any compression that libarchive reads, a picture, latents in safetensors (data/latents.h), MNIST's idx files
 * (data/idx.h), MosaicML shards given by their index.json or its folder (data/mds.h), or "-": stdin, which is a tar or a list of paths. The first
 * bytes of a file decide its kind. "pipe:COMMAND" is a tar that a command prints; another pass runs it again, and other bytes are ERR_DATA. A URL
 * (file/remoteinput.h) is a tar, a shard, or SHARDS or a part of it: these if it has no query, its last component does not contain ".tar" or end in
 * ".tgz", and it has a MANIFEST.tsv. If the samples of a folder have no .cls, their classes may be stored beside them (data/labels.h).
 *
 * The key is the path (below the folder, inside the tar, or as listed) up to the first dot of its last component, without leading "/", "./" and
 * "../"; the rest, in lower case, is the member's extension. A key that is empty, or holds a tab, a newline or a ".." component, is refused.
 * Names that begin with a dot are skipped, and so are keys without a picture or an array (README.txt in a folder of pictures). Hard links in a
 * tar are read; other links, devices and pictures whose name begins with a dot are skipped and reported. A repeated key is an error, and so is a
 * second picture of a key in a folder or list (IMG.1.jpg and IMG.2.jpg; in a tar they are members of one sample). */
#ifndef DDM_DATA_SAMPLES_H
#define DDM_DATA_SAMPLES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/jobshare.h"
#include "core/pool.h"
#include "file/still.h"
#include "file/tarfile.h"

enum samples_part { SAMPLES_ALL, SAMPLES_TRAIN, SAMPLES_HOLDOUT };

struct samples_options {
	int size;           /* pictures: the centre square, resized to size x size; 0: as they are */
	int channels;       /* 3, or 1 for grey; 0 means 3 */
	int skip_bad;       /* skip unreadable samples and report each to `bad`; 0: the first one is an error */
	int64_t max_errors; /* samples_check fails when more were skipped; negative: no limit */
	int nul_list;       /* a list of paths ends its entries with NUL, not newline */
	int clips;          /* samples_pictures gives the frames of clips of bytes, one below the other; 0: a clip is no picture */
	int captions;       /* captions without pictures are samples too; so is each line of a text file or stdin, with keys 000000000 and so on */
	struct job_share share; /* samples whose key does not belong to this job are passed over as if they were not there; zero: none */
	int once;               /* samples_rewind will not be called: a tar through a pipe is read as it comes */
	const char *spool;      /* folder for the unlinked copy of stdin when that is a pipe; NULL: /tmp */
	int repeats;            /* keys that appear twice are no error here: the caller finds them */
	enum samples_part part; /* which part of a SHARDS directory; other sources have one part only */
	void (*bad)(void *arg, const char *why);     /* called with one sentence that names the skipped sample; NULL: silent */
	void (*passed)(void *arg, const char *what); /* the same for non-files in tars, at the end; not counted. NULL: `bad` is called */
	void *bad_arg;
	struct still_limits limits; /* of pictures; zero: 2^26 pixels, 1 GiB */
	size_t max_member;          /* bytes of one member, larger is an error; 0: 256 MiB */
};

struct sample_member {
	const char *ext; /* "jpg", "seg.png" */
	const void *data;
	size_t len;
};

/* Borrowed from the iterator until its next call. */
struct sample {
	const char *key;
	const char *origin; /* for messages: the file or archive */
	int n;
	const struct sample_member *member; /* [n], bytewise order of ext */
};

struct samples;

/* 1 if a source should be read only once: standard input, or the output of a command, which another pass would run again. */
int samples_is_stream(const char *source);
/* 1 if a source is a SHARDS folder, also on a server; 0 if it is anything else, or missing; -1 and *e if a server gives no answer. */
int samples_is_shards(const char *source, struct err *e);

/* Open the operands of a program. *o is copied. NULL and ERR_NOINPUT if a source is missing; "-" more than once is ERR_USAGE. Caller closes with
 * samples_close. */
struct samples *samples_open(const char *const *sources, int n, const struct samples_options *o, struct err *e);
void samples_close(struct samples *s); /* NULL is allowed */

/* 1 and *out, 0 at the end (no sample at all: ERR_DATA), -1 on error. */
int samples_next(struct samples *s, struct sample *out, struct err *e);

/* Go back to the first sample. Samples that were skipped are skipped again, without a report and without being counted twice. */
int samples_rewind(struct samples *s, struct err *e);

/* Count a sample that the caller could not use. With skip_bad: passes e's message to `bad`, clears *e and returns 0; otherwise leaves *e and
 * returns -1. */
int samples_bad(struct samples *s, struct err *e);

/* Count n more samples as skipped: an earlier process skipped them. */
void samples_passed(struct samples *s, int64_t n);

const struct samples_options *samples_settings(const struct samples *s);

/* After the end: how many were handed out and skipped, a SHA-256 over keys, extensions and contents in order; ERR_SKIPPED
 * when more were skipped than max_errors. */
const json_t *samples_class_names(const struct samples *s); /* of all sources (data/classnames.h), borrowed; NULL: they have none */
int64_t samples_count(const struct samples *s);
/* Estimated total number of samples, from the files read so far; 0: not known yet. For progress. */
int64_t samples_expected(const struct samples *s);
int64_t samples_skipped(const struct samples *s);
void samples_digest(const struct samples *s, char hex[65]);
int samples_check(const struct samples *s, struct err *e);

/* The member with this extension, or the first member that is a picture; NULL if there is none. Borrowed like the sample. */
const struct sample_member *sample_find(const struct sample *s, const char *ext);
const struct sample_member *sample_picture(const struct sample *s);

/* Write a sample to a tar: each member is a file KEY.EXTENSION. */
int sample_put(struct tar_writer *t, const struct sample *s, struct err *e);

/* The class of a .cls member (a decimal number in 0 .. 2^31-2), -1 when there is none; ERR_DATA when it is not a number. */
int sample_class(const struct sample *s, int32_t *label, struct err *e);

/* The picture decoded (and resized as *o says): (height, width, channels). ERR_DATA when there is none or it is bad. */
int sample_pixels(struct picture *out, const struct sample *s, const struct samples_options *o, struct err *e);

/* Pictures in order, decoded by the pool's threads; the fast way through a set of pictures. */
struct picture_batch {
	int n;
	char **key;              /* [n] */
	struct picture *picture; /* [n]; of a clip, its frames one below the other */
	int *frames;             /* [n], 1 for a picture */
	int32_t *label;          /* [n], -1 without a .cls member */
	char **text;             /* [n], the .txt member as a string; NULL without one */
	int cap;                 /* private */
};

/* Replaces the batch by the next pictures (at most max; fewer when they are large): their number, 0 at the end, -1 on
 * error. Bad pictures are handled as skip_bad says. A zeroed batch is ready for use; picture_batch_release frees. */
int samples_pictures(struct samples *s, struct pool *p, int max, struct picture_batch *b, struct err *e);
void picture_batch_release(struct picture_batch *b);

#endif
