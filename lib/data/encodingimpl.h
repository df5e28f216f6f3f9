/* Samples being encoded, shared by the files: encoding.c opens the encoders, reads batches and hands them out, encodinglatents.c runs the
 * autoencoder, encodingtexts.c the text encoder. */
#ifndef DDM_DATA_ENCODINGIMPL_H
#define DDM_DATA_ENCODINGIMPL_H

#include "core/ahead.h"
#include "data/encoding.h"
#include "data/textencoder.h"
#include "file/still.h"
#include "net/autoencoder.h"

enum { ENCODING_AT_ONCE = 64, ENCODING_PICTURES = 4, ENCODING_TEXTS = 16 };

/* A sample on its way: read and decoded, encoded, handed out. */
struct encoding_item {
	char *key, *origin;
	struct sample_member *member; /* of memory of their own */
	int n;
	struct picture picture;
	float *z; /* to be decoded (C, zh, zw) */
	int64_t zh, zw;
	struct str latent[2], std[2], text, png; /* what is added; empty: none. [1]: of the mirrored picture */
	struct err err;
};

struct encoding_batch {
	int n, at; /* handed out */
	int end;   /* nothing comes after it */
	struct encoding_item item[ENCODING_AT_ONCE];
	struct err err; /* of reading, after the items */
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
	struct sample_member *out; /* of the sample that was handed out */
	float *pixels, *moments;   /* of a run */
	int64_t room, room_moments;
	struct encoding_place place; /* of what was handed out */
	int begun, passing;          /* passing: what is read was encoded before */
};

/* Borrows. */
struct sample encoding_item_sample(const struct encoding_item *it);

/* Encodes the pictures of a batch, or decodes its latents. What is wrong with one item alone is in its err. */
int encoding_pictures(struct encoding *x, struct encoding_batch *b, struct err *e);
/* Encodes its captions. */
int encoding_texts(struct encoding *x, struct encoding_batch *b, struct err *e);

#endif
