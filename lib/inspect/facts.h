/* Collects facts about the contents of a file as members of a JSON object, for ddm-info. */
#ifndef DDM_INSPECT_FACTS_H
#define DDM_INSPECT_FACTS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* The content of a file. All borrowed. */
struct facts_source {
	const char *name;    /* for messages */
	const char *path;    /* NULL: it came through a pipe */
	const uint8_t *data; /* NULL: it is at the URL `path`, and not read yet; for tars and shards only */
	size_t len;
};

struct facts_options {
	int full;  /* list every tensor, array and key, not only their numbers */
	int check; /* read everything: hashes, end marks, numbers, pixels; otherwise only headers, tables and sizes */
};

/* Each adds members to o, in the order in which they should be printed. Sizes are in bytes, hashes in hexadecimal; "stamp" holds what
 * determined the content. On failure (ERR_DATA: damaged) the members found until then stay in o. The members:
 *   tensors parameters types data_bytes metadata list       of safetensors; with check also not_finite
 *   layout members tensors_of .. not_read for_example       of a PyTorch file: the members of the outermost dict, and which one holds the tensors
 *   type shape elements order                               of .npy; stamp from its sidecar
 *   arrays                                                  of .npz
 *   samples frames tar_bytes content first last ..          of a shard, and first_sample; with full keys
 *   columns rows clusters end                               of a table
 *   rate channels bits seconds                              of a FLAC file, as its head says; its sound is not decoded
 *   format width height mode bits orientation upright ..    of a picture */
int facts_safetensors(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e);
int facts_torch(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e);
int facts_npy(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e);
int facts_npz(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e);
int facts_shard(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e); /* needs a path */
int facts_table(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e);
/* Of a table that is too large to be read whole: from its first and last lines, which `s` holds; what is between them may be left out. */
int facts_table_ends(json_t *o, const struct facts_source *s, struct err *e);
int facts_flac(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e);
int facts_still(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e);

int facts_markup(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e); /* SVG or HTML; the stamp needs a path */
/* The stamp of any other file whose sidecar holds its hash. Needs a path. */
int facts_other(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e);

/* Facts about weights in any form that weightfile_open (file/weightfile.h) takes: "files", and the members of safetensors. */
int facts_weights(json_t *o, const char *path, const struct facts_options *f, struct err *e);

/* Set o["stamp"] from a line of JSON, or as text if it is not JSON. NULL: nothing is set. */
void facts_stamp(json_t *o, const char *line);

/* Set o[key] to: a number; a text, in which invalid UTF-8 is replaced; v, unless it is NULL or null. */
void facts_i64(json_t *o, const char *key, int64_t v);
void facts_text(json_t *o, const char *key, const char *text);
void facts_copy(json_t *o, const char *key, const json_t *v);

/* A shape as an array like [3, 32, 32]. Caller json_decref()s it. */
json_t *facts_shape(int rank, const int64_t *shape);

#endif
