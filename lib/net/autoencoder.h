/* Autoencoders of latent diffusion, forward only: AutoencoderKL (Rombach et al. 2022) and the tiny ones of TAESD, from folders as
 * diffusers writes them: config.json and diffusion_pytorch_model.safetensors, or weights in another form (file/weightfile.h).
 * Tensor names may be those of diffusers, old (query, key, value, proj_attn) or new, or those of a latent-diffusion single file
 * (first_stage_model.encoder.down.0.block.0..); the tiny ones also come as encoder.safetensors and decoder.safetensors under the
 * numbers of taesd.py, with or without its normalised middle blocks (FLUX.2), and without config.json as net/taesd.h finds them.
 *
 * Pictures are (n, C, H, W) in [-1, 1]. Any number and, within what memory holds, any size; H and W are multiples of
 * autoencoder_factor for the way back to have the size of the way in. */
#ifndef DDM_NET_AUTOENCODER_H
#define DDM_NET_AUTOENCODER_H

#include <jansson.h>

#include "net/runner.h"

enum { AUTOENCODER_STAGES = 8 };

enum autoencoder_kind { AUTOENCODER_KL, AUTOENCODER_TINY };

/* config.json, the keys of diffusers. */
struct autoencoder_config {
	enum autoencoder_kind kind;
	int64_t in_channels, out_channels, latent_channels;
	int64_t stages;
	int64_t width[AUTOENCODER_STAGES];                                              /* block_out_channels */
	int64_t encoder_blocks[AUTOENCODER_STAGES], decoder_blocks[AUTOENCODER_STAGES]; /* of the tiny kind, by stage */
	int64_t layers, groups, sample_size;                                            /* KL */
	int quant_conv, post_quant_conv, attention;                                     /* KL */
	int middle_norm;                                                                /* tiny: use_midblock_gn */
	double scale, shift; /* a latent as diffusion models take it is (z - shift) scale */
};

/* Absent keys have the values of diffusers. Numbers that do not fit together, a class or an option that is not known: ERR_DATA. */
int autoencoder_parse(const json_t *o, const char *where, struct autoencoder_config *c, struct err *e);

/* A latent's height and width are a picture's over this. */
int64_t autoencoder_factor(const struct autoencoder_config *c);
/* Channels that the encoder gives: means and log variances (KL), or the latent itself. */
int64_t autoencoder_moments(const struct autoencoder_config *c);

struct autoencoder;

enum { AUTOENCODER_ENCODE = 1, AUTOENCODER_DECODE = 2 };

/* The halves that are wanted, of the folder `dir` (or DIR/NAME of net/taesd.h), for batches of up to `capacity`. bulk: of the weights, as
 * runner_new takes it; convolutions are floats on the CPU. The device is borrowed. Tensors that are missing, of other shapes, or more than the
 * network has: ERR_DATA naming one. */
struct autoencoder *autoencoder_open(const char *dir, int halves, int64_t capacity, enum compact_type bulk, struct device *d, struct err *e);
void autoencoder_free(struct autoencoder *a);
const struct autoencoder_config *autoencoder_config(const struct autoencoder *a);
/* SHA-256 of all that determines what one half of the folder does: the configuration and the weights that half is read from. */
int autoencoder_hash(const char *dir, int half, char hex[65], struct err *e);

/* out (n, autoencoder_moments, H / factor, W / factor) of x (n, in_channels, H, W), both of the host, unscaled. With `tile` pictures
 * larger than sample_size are encoded by overlapping tiles of that size, blended as diffusers does; group norms see a tile alone, so
 * it changes the result. KL only. -1 where there is no memory; errors of the device stick to it. */
int autoencoder_encode(struct autoencoder *a, int64_t n, const float *x, int64_t h, int64_t w, int tile, float *out, struct err *e);
/* out (n, out_channels, h factor, w factor) of latents z (n, latent_channels, h, w), unscaled. */
int autoencoder_decode(struct autoencoder *a, int64_t n, const float *z, int64_t h, int64_t w, int tile, float *out, struct err *e);

/* One picture's moments to what a diffusion model takes: z = mean + exp(logvar / 2) noise with logvar within [-30, 20], or the mean
 * where noise is NULL; out (latent_channels, area) = (z - shift) scale. Of the tiny kind the moments are z. */
void autoencoder_latent(const struct autoencoder_config *c, const float *moments, const float *noise, int64_t area, float *out);
/* The way back: z = out / scale + shift. In place is allowed. */
void autoencoder_unscale(const struct autoencoder_config *c, const float *latent, int64_t count, float *z);

/* Inside, by kind: what is recorded of a struct autoencoder_config. */
runner_record autokl_encoder, autokl_decoder, autotiny_encoder, autotiny_decoder;
/* The families that names of a half's weights are in, out[AUTOENCODER_FAMILIES]: how many. */
enum { AUTOENCODER_FAMILIES = 9 };
int autokl_names(const struct autoencoder_config *c, int half, struct renames *out);
int autotiny_names(const struct autoencoder_config *c, int half, struct renames *out);

#endif
