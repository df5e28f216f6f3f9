/* State of an encoding, shared by its files: encoding.c opens the encoders, reads batches and returns samples, encodinglatents.c runs the
 * autoencoder, encodingclips.c runs it on clips, encodingtexts.c the text encoder. */
#ifndef DDM_DATA_ENCODINGIMPL_H
#define DDM_DATA_ENCODINGIMPL_H

#include "core/ahead.h"
#include "data/encoding.h"
#include "data/textencoder.h"
#include "file/frames.h"
#include "file/still.h"
#include "net/autoencoder.h"

enum { ENCODING_AT_ONCE = 64, ENCODING_PICTURES = 4, ENCODING_TEXTS = 16 };

/* A sample in progress: read and decoded, encoded, returned to the caller. */
struct encoding_item {
	char *key, *origin;
	struct sample_member *member; /* owned, like their data */
	int n;
	struct picture picture;
	struct clip clip;                                /* in place of the picture; its pixels are a member's, NULL: the sample is no clip */
	float *z;                                        /* latent to decode, (C, zh, zw), or of a clip (zf, C, zh, zw) */
	int64_t zf, zh, zw;                              /* zf: 0 for a picture */
	struct str latent[2], std[2], text, pooled, png; /* the members to add; empty: none. [1]: of the mirrored picture */
	struct err err;
};

struct encoding_batch {
	int n, at; /* at: items already returned to the caller */
	int end;   /* this is the last batch */
	struct encoding_item item[ENCODING_AT_ONCE];
	struct err err; /* error met when reading after the last item */
};

struct encoding {
	struct encoding_options o;
	struct autoencoder *vae;
	struct textencoder *text;
	char vae_hash[65];
	int64_t factor;
	struct pool *readers;
	struct ahead ahead;
	struct samples *samples;
	struct encoding_batch *now, *next;
	struct sample_member *out; /* members of the sample returned last */
	float *pixels, *moments;   /* buffers for one run of the autoencoder */
	int64_t room, room_moments;
	struct encoding_batch *piece; /* of several ranks: the batch that is computed here; NULL before the first */
	struct encoding_place place;  /* position after the samples returned so far */
	int begun, passing;           /* passing: skipping samples that an earlier run encoded */
	int shared, ended;            /* shared: by encoding_read, which leaves the pixels undecoded; ended: it has given the last batch */
};

/* encoding.c: read the next batch into x->next; decode the pixels of a batch; encode it; clear it; fill an item with a sample. */
void encoding_read_next(void *arg);
void encoding_decode(struct encoding *x, struct encoding_batch *b);
int encoding_run(struct encoding *x, struct encoding_batch *b, struct err *e);
void encoding_clear(struct encoding_batch *b);
void encoding_fill(struct encoding_item *it, const struct sample *s);

/* Crop a picture at its centre to multiples of `factor`. ERR_DATA naming `key` if it is too small. */
int encoding_crop(struct picture *p, int factor, const char *key, struct err *e);
/* If the sample is a clip of pixels, fill it->clip or set it->err, and return 1; else 0. */
int encoding_find_clip(struct encoding_item *it, const struct sample *s);
/* Encode or decode one clip. An error of the clip alone is stored in its err. */
int encoding_encode_clip(struct encoding *x, struct encoding_item *it, struct err *e);
int encoding_decode_clip(struct encoding *x, struct encoding_item *it, struct err *e);

/* The item as a sample; its key and members are borrowed. */
struct sample encoding_item_sample(const struct encoding_item *it);

/* Encode the pictures of a batch, or decode its latents. An error of one item alone is stored in its err. */
int encoding_pictures(struct encoding *x, struct encoding_batch *b, struct err *e);
/* Encode the captions of a batch. */
int encoding_texts(struct encoding *x, struct encoding_batch *b, struct err *e);

#endif
