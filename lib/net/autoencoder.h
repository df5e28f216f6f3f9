/* Runs the autoencoders of latent diffusion: AutoencoderKL (Rombach et al. 2022) and TAESD. A folder holds config.json and weights as diffusers
 * writes them, diffusion_pytorch_model.safetensors, or in another format of file/weightfile.h. Tensor names are those of diffusers, old (query, key,
 * value, proj_attn) or new, or those of a latent-diffusion single file (first_stage_model.encoder.down.0.block.0..). TAESD weights may also be
 * encoder.safetensors and decoder.safetensors with the layer numbers of taesd.py, with or without the normalised middle blocks of FLUX.2, and need no
 * config.json (net/taesd.h).
 *
 * Pictures are (n, C, H, W) in [-1, 1], for any n and any size that fits in memory. Decoding an encoded picture restores its size if H and W are
 * multiples of autoencoder_factor. */
#ifndef DDM_NET_AUTOENCODER_H
#define DDM_NET_AUTOENCODER_H

#include <jansson.h>

#include "net/runner.h"

enum { AUTOENCODER_STAGES = 8 };

enum autoencoder_kind { AUTOENCODER_KL, AUTOENCODER_TINY };

/* The contents of config.json, under diffusers' keys. */
struct autoencoder_config {
	enum autoencoder_kind kind;
	int64_t in_channels, out_channels, latent_channels;
	int64_t stages;
	int64_t width[AUTOENCODER_STAGES];                                              /* block_out_channels */
	int64_t encoder_blocks[AUTOENCODER_STAGES], decoder_blocks[AUTOENCODER_STAGES]; /* tiny: residual blocks by stage */
	int64_t layers, groups, sample_size;                                            /* KL */
	int quant_conv, post_quant_conv, attention;                                     /* KL */
	int middle_norm;                                                                /* tiny: use_midblock_gn */
	double scale, shift;                                                            /* a diffusion model's latent is (z - shift) scale */
};

/* Parse config.json. Absent keys get diffusers' defaults. ERR_DATA naming `where`: inconsistent numbers, or an unsupported class or option. */
int autoencoder_parse(const json_t *o, const char *where, struct autoencoder_config *c, struct err *e);

/* The downsampling factor: a latent's height and width are the picture's divided by it. */
int64_t autoencoder_factor(const struct autoencoder_config *c);
/* Channels of the encoder's output: 2 latent_channels (means, then log variances) for KL, latent_channels for the tiny kind. */
int64_t autoencoder_moments(const struct autoencoder_config *c);

struct autoencoder;

enum { AUTOENCODER_ENCODE = 1, AUTOENCODER_DECODE = 2 };

/* Open `halves` (AUTOENCODER_ENCODE | AUTOENCODER_DECODE) of the folder `dir` (or DIR/NAME as in net/taesd.h) for batches of up to `capacity`.
 * bulk: storage type of the matrices, as for runner_new; convolutions are floats on the CPU. The device is borrowed. ERR_DATA naming a tensor that is
 * missing, superfluous or of another shape. Caller frees with autoencoder_free. */
struct autoencoder *autoencoder_open(const char *dir, int halves, int64_t capacity, enum compact_type bulk, struct device *d, struct err *e);
void autoencoder_free(struct autoencoder *a);
const struct autoencoder_config *autoencoder_config(const struct autoencoder *a);
/* SHA-256 of all that determines the output of one half: the configuration and the weights file of that half. */
int autoencoder_hash(const char *dir, int half, char hex[65], struct err *e);

/* Encode x (n, in_channels, H, W) to out (n, autoencoder_moments, H / factor, W / factor), unscaled, both in host memory. With `tile` (KL only),
 * pictures larger than sample_size are encoded in overlapping tiles of that size, blended as in diffusers; this changes the result, because group
 * norms are computed per tile. -1 if memory is short; errors of the device stick to it. */
int autoencoder_encode(struct autoencoder *a, int64_t n, const float *x, int64_t h, int64_t w, int tile, float *out, struct err *e);
/* Decode unscaled latents z (n, latent_channels, h, w) to out (n, out_channels, h factor, w factor). Otherwise as autoencoder_encode. */
int autoencoder_decode(struct autoencoder *a, int64_t n, const float *z, int64_t h, int64_t w, int tile, float *out, struct err *e);

/* *flops = those of decoding one latent of h x w without tiles. -1 if memory is short. */
int autoencoder_decode_flops(struct autoencoder *a, int64_t h, int64_t w, double *flops, struct err *e);

/* Turn one picture's moments (autoencoder_moments, area) into a diffusion model's latent: out (latent_channels, area) = (z - shift) scale with
 * z = mean + exp(logvar / 2) noise, logvar clamped to [-30, 20]; z = mean if noise is NULL. For the tiny kind the moments are z. */
void autoencoder_latent(const struct autoencoder_config *c, const float *moments, const float *noise, int64_t area, float *out);
/* The inverse for `count` elements: z = latent / scale + shift. z may be `latent`. */
void autoencoder_unscale(const struct autoencoder_config *c, const float *latent, int64_t count, float *z);

/* Private to lib/net: the recordings by kind; the configuration is a struct autoencoder_config. */
runner_record autokl_encoder, autokl_decoder, autotiny_encoder, autotiny_decoder;
/* The families of weight names of one half, in out[AUTOENCODER_FAMILIES]. Returns their number. */
enum { AUTOENCODER_FAMILIES = 9 };
int autokl_names(const struct autoencoder_config *c, int half, struct renames *out);
int autotiny_names(const struct autoencoder_config *c, int half, struct renames *out);

#endif
