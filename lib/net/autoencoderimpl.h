/* An open autoencoder, shared by its files: autoencoder.c opens one and runs it on pictures, autoclip.c runs it on clips,
 * autocliptiles.c on clips in tiles. */
#ifndef DDM_NET_AUTOENCODERIMPL_H
#define DDM_NET_AUTOENCODERIMPL_H

#include "net/autoencoder.h"

struct autoencoder {
	struct autoencoder_config config;
	struct runner *encoder, *decoder; /* NULL if that half is not open */
};

/* What runs as one sequence: all frames of a clip or latent, or a rectangle of them, measured in the input of the half that runs. */
struct sequence {
	struct autoencoder *a;
	int64_t frames, top, left, h, w;
	int raw; /* decoding: do not clamp, because tiles are blended first */
};

/* autoclip.c, for an autoencoder for clips: encode a sequence to out (latent frames, moments, h / factor, w / factor); decode that of z (frames,
 * latent_channels, h, w). */
int autoclip_encode_sequence(const struct sequence *q, clip_read *read, void *arg, float *out, struct err *e);
int autoclip_decode_sequence(const struct sequence *q, const float *z, int64_t h, int64_t w, clip_write *write, void *arg, struct err *e);

/* autoclip.c: clamp pixels to [-1, 1]. A NaN stays one. */
void autoclip_clamp(float *x, int64_t n);

/* autocliptiles.c: whether frames of h x w pixels are large enough for tiles, and the coding in tiles. */
int autoclip_tiles(const struct autoencoder_config *c, int64_t h, int64_t w);
int autoclip_encode_tiles(struct autoencoder *a, int64_t frames, int64_t h, int64_t w, clip_read *read, void *arg, float *out, struct err *e);
int autoclip_decode_tiles(struct autoencoder *a, int64_t latents, const float *z, int64_t h, int64_t w, clip_write *write, void *arg, struct err *e);

/* autoclip.c: autoencoder_encode and autoencoder_decode for an autoencoder for clips. */
int autoclip_encode_pictures(struct autoencoder *a, int64_t n, const float *x, int64_t h, int64_t w, int tile, float *out, struct err *e);
int autoclip_decode_pictures(struct autoencoder *a, int64_t n, const float *z, int64_t h, int64_t w, int tile, float *out, struct err *e);

#endif
