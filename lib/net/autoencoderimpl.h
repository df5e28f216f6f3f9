/* An open autoencoder, shared by its files: autoencoder.c opens one and runs it on pictures, autoclip.c runs it on clips. */
#ifndef DDM_NET_AUTOENCODERIMPL_H
#define DDM_NET_AUTOENCODERIMPL_H

#include "net/autoencoder.h"

struct autoencoder {
	struct autoencoder_config config;
	struct runner *encoder, *decoder; /* NULL if that half is not open */
};

/* autoclip.c: autoencoder_encode and autoencoder_decode for an autoencoder for clips. */
int autoclip_encode_pictures(struct autoencoder *a, int64_t n, const float *x, int64_t h, int64_t w, int tile, float *out, struct err *e);
int autoclip_decode_pictures(struct autoencoder *a, int64_t n, const float *z, int64_t h, int64_t w, int tile, float *out, struct err *e);

#endif
