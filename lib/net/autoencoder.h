/* Runs the autoencoders of latent diffusion: AutoencoderKL (Rombach et al. 2022) and TAESD for pictures, that of Wan 2.1 and TAEHV for clips. A
 * folder holds config.json and weights as diffusers writes them, diffusion_pytorch_model.safetensors, or in another format of file/weightfile.h.
 * Tensor names are those of diffusers, old (query, key, value, proj_attn) or new, or, of AutoencoderKL, those of a latent-diffusion single file
 * (first_stage_model.encoder.down.0.block.0..). TAESD weights may also be encoder.safetensors and decoder.safetensors with the layer numbers of
 * taesd.py, with or without the normalised middle blocks of FLUX.2, and need no config.json (net/taesd.h). TAEHV is one file without config.json
 * (net/taehv.h).
 *
 * Pictures are (n, C, H, W) in [-1, 1], for any n and any size that fits in memory. Decoding an encoded picture restores its size if H and W are
 * multiples of autoencoder_factor.
 *
 * Clips are (F, C, H, W) with the same numbers. An autoencoder for pictures codes each frame by itself, so a latent has as many frames as its clip.
 * One for clips also joins frames in time: autoencoder_latent_frames. A picture is to it a clip of one frame. */
#ifndef DDM_NET_AUTOENCODER_H
#define DDM_NET_AUTOENCODER_H

#include <jansson.h>

#include "net/runner.h"

enum { AUTOENCODER_STAGES = 8, AUTOENCODER_CHANNELS = 64 };

enum autoencoder_kind { AUTOENCODER_KL, AUTOENCODER_TINY, AUTOENCODER_TAEHV, AUTOENCODER_WAN };

/* How the frames of a clip and of its latent correspond, for an autoencoder that joins t frames to one. */
enum autoencoder_timing {
	TIMING_CAUSAL,    /* the first latent frame decodes to one frame, each later one to t: 1 + (F - 1) / t latent frames */
	TIMING_COGVIDEOX, /* the same for an odd number of latent frames; an even number L decodes to t L frames (taecvx) */
	TIMING_CHUNKS     /* each 17 frames are coded alone, as 5 latent frames, and the last 3 latent frames are dropped (taeh3) */
};

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
	/* for clips */
	enum autoencoder_timing timing;
	int64_t pool[AUTOENCODER_STAGES], grow[AUTOENCODER_STAGES]; /* frames that a stage of the encoder joins, or of the decoder makes of one */
	int64_t patch;                                              /* TAEHV: side of the squares of pixels that become channels; 0: 1 */
	int64_t decoder_width[AUTOENCODER_STAGES]; /* TAEHV: channels by stage; [3]: before the last convolution. Wan: like `width` */
	int super;                                 /* TAEHV: the decoder has wide depthwise convolutions */
	int by_channel;                            /* Wan: each channel c has a shift latents_mean[c] and a scale 1 / latents_std[c] */
	double latents_mean[AUTOENCODER_CHANNELS], latents_std[AUTOENCODER_CHANNELS];
};

/* Parse config.json. Absent keys get diffusers' defaults. ERR_DATA naming `where`: inconsistent numbers, or an unsupported class or option. */
int autoencoder_parse(const json_t *o, const char *where, struct autoencoder_config *c, struct err *e);

/* TIMING_CHUNKS: frames of a chunk, its latent frames, and how many of these are dropped at the end. */
enum { AUTOENCODER_CHUNK_FRAMES = 17, AUTOENCODER_CHUNK_LATENTS = 5, AUTOENCODER_CHUNK_DROPPED = 3 };

/* The downsampling factor: a latent's height and width are the picture's divided by it. */
int64_t autoencoder_factor(const struct autoencoder_config *c);
/* 1 if the encoder gives a distribution (mean and variance) of the latent, 0 if it gives the latent. */
int autoencoder_has_posterior(const struct autoencoder_config *c);
/* Channels of the encoder's output: 2 latent_channels (means, then log variances) with a posterior, else latent_channels. */
int64_t autoencoder_moments(const struct autoencoder_config *c);
/* 1 for an autoencoder for clips, 0 for one for pictures. */
int autoencoder_joins_frames(const struct autoencoder_config *c);
/* The number of frames that it joins to one; 1 for pictures. */
int64_t autoencoder_time_factor(const struct autoencoder_config *c);
/* Frames of the latent of a clip of `frames` frames, and frames of the clip that `latents` latent frames decode to. */
int64_t autoencoder_latent_frames(const struct autoencoder_config *c, int64_t frames);
int64_t autoencoder_clip_frames(const struct autoencoder_config *c, int64_t latents);

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

/* Encode x (n, in_channels, H, W) to out (n, autoencoder_moments, H / factor, W / factor), unscaled, both in host memory. With `tile`
 * (KL and Wan), pictures larger than sample_size are encoded in overlapping tiles of that size, blended as in diffusers; this changes the result,
 * because a tile does not see the others. -1 if memory is short; errors of the device stick to it. */
int autoencoder_encode(struct autoencoder *a, int64_t n, const float *x, int64_t h, int64_t w, int tile, float *out, struct err *e);
/* Decode unscaled latents z (n, latent_channels, h, w) to out (n, out_channels, h factor, w factor). Otherwise as autoencoder_encode. */
int autoencoder_decode(struct autoencoder *a, int64_t n, const float *z, int64_t h, int64_t w, int tile, float *out, struct err *e);

/* A part of a clip: a rectangle of consecutive frames. */
struct clip_part {
	int64_t frame, frames;
	int64_t top, left, height, width;
};

/* Called with the parts of a clip (frames, C, height, width) in [-1, 1] in host memory: to fill x with the part, or to use its values. Each part
 * that is asked for has one frame. Parts that are given are whole frames in order or, in tiles, rectangles of frames in the order of the tiles, and
 * cover each pixel once. Returns 0, or -1 and sets e, which ends
 * the coding. */
typedef int clip_read(void *arg, const struct clip_part *p, float *x, struct err *e);
typedef int clip_write(void *arg, const struct clip_part *p, const float *x, struct err *e);

/* Encode a clip of `frames` frames of h x w to out (autoencoder_latent_frames, autoencoder_moments, h / factor, w / factor), unscaled. Memory for
 * intermediates does not grow with `frames`: the network runs over a few frames at a time and keeps what later frames need, which changes no bit of
 * the result. */
int autoencoder_encode_clip(struct autoencoder *a, int64_t frames, int64_t h, int64_t w, int tile, clip_read *read, void *arg, float *out,
                            struct err *e);
/* Decode unscaled latents z (latents, latent_channels, h, w) to a clip of autoencoder_clip_frames frames, given to write(). Values of clips beyond
 * [-1, 1] are clamped by an autoencoder for clips. */
int autoencoder_decode_clip(struct autoencoder *a, int64_t latents, const float *z, int64_t h, int64_t w, int tile, clip_write *write, void *arg,
                            struct err *e);

/* *flops = those of decoding one latent of h x w without tiles. -1 if memory is short. */
int autoencoder_decode_flops(struct autoencoder *a, int64_t h, int64_t w, double *flops, struct err *e);

/* Turn one picture's moments (autoencoder_moments, area) into a diffusion model's latent: out (latent_channels, area) = (z - shift) scale with
 * z = mean + exp(logvar / 2) noise, logvar clamped to [-30, 20]; z = mean if noise is NULL. Without a posterior the moments are z. */
void autoencoder_latent(const struct autoencoder_config *c, const float *moments, const float *noise, int64_t area, float *out);
/* The standard deviation exp(logvar / 2) scale of that latent, (latent_channels, area). With a posterior. */
void autoencoder_deviation(const struct autoencoder_config *c, const float *moments, int64_t area, float *out);
/* The inverse of autoencoder_latent for n latents (n, latent_channels, area): z = latent / scale + shift. z may be `latent`. */
void autoencoder_unscale(const struct autoencoder_config *c, const float *latent, int64_t n, int64_t area, float *z);

/* Private to lib/net: the recordings by kind; the configuration is a struct autoencoder_config. */
runner_record autokl_encoder, autokl_decoder, autotiny_encoder, autotiny_decoder, taehv_encoder, taehv_decoder, wanvae_encoder, wanvae_decoder;
/* The families of weight names of one half, in out[AUTOENCODER_FAMILIES]. Returns their number. */
enum { AUTOENCODER_FAMILIES = 9 };
int autokl_names(const struct autoencoder_config *c, int half, struct renames *out);
int autotiny_names(const struct autoencoder_config *c, int half, struct renames *out);
int taehv_names(const struct autoencoder_config *c, int half, struct renames *out);
int wanvae_names(const struct autoencoder_config *c, int half, struct renames *out);
/* Append to s what determines the output, except the weights and sample_size, which matters only for tiles. */
struct str;
void autoencoder_describe(struct str *s, const struct autoencoder_config *c);

#endif
