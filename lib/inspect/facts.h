/* The kind and contents of a file, as members of a JSON object, for ddm-info. */
#ifndef DDM_INSPECT_FACTS_H
#define DDM_INSPECT_FACTS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* A file's content. */
struct facts_source {
	const char *name; /* for messages */
	const char *path; /* NULL: it came through a pipe and has none */
	const uint8_t *data;
	size_t len;
};

struct facts_options {
	int full;  /* list every tensor, array and key, not only how many */
	int check; /* read everything: hashes, end marks, numbers, pixels; without it, headers, tables and sizes alone */
};

/* Each adds to o, in an order worth printing; sizes in bytes, hashes in hexadecimal, "stamp" what determined the content. On failure
 * (ERR_DATA: damaged) what was found before stays in o. The names hold for the members of o:
 *   tensors parameters types data_bytes metadata list     of safetensors; with check also not_finite
 *   layout members tensors_of .. not_read for_example      of a file of PyTorch's: what its outermost dict holds, and whose tensors these are
 *   type shape elements order                              of .npy; stamp of its sidecar
 *   arrays                                                 of .npz
 *   samples frames tar_bytes content first last members    of a shard; keys
 *   columns rows clusters end                              of a table
 *   format width height mode bits orientation seen_as ..   of a picture */
int facts_safetensors(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e);
int facts_torch(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e);
int facts_npy(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e);
int facts_npz(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e);
int facts_shard(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e); /* needs a path */
int facts_table(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e);
int facts_still(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e);

int facts_markup(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e); /* the stamp needs a path */
/* Of any other file whose sidecar holds its hash; needs a path. */
int facts_other(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e);

/* Weights in any form that weightfile_open (file/weightfile.h) takes: files, and as of safetensors. */
int facts_weights(json_t *o, const char *path, const struct facts_options *f, struct err *e);

/* o["stamp"] from a line of JSON, or as text where it is none; NULL: nothing. */
void facts_stamp(json_t *o, const char *line);

/* o[key] = a number; a text, with bytes that are no UTF-8 replaced; v, where there is one. */
void facts_i64(json_t *o, const char *key, int64_t v);
void facts_text(json_t *o, const char *key, const char *text);
void facts_copy(json_t *o, const char *key, const json_t *v);

/* [3, 32, 32] */
json_t *facts_shape(int rank, const int64_t *shape);

#endif
