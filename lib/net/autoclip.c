/* Runs autoencoders on clips, a few frames at a time, so that memory does not grow with their length. An autoencoder for pictures codes frame by
 * frame. The networks of one for clips keep states between runs (net/runner.h), and a clip is one sequence of runs. */
#include <assert.h>
#include <string.h>

#include "core/mem.h"
#include "net/autoencoderimpl.h"

enum { RUN_PIXELS = 1 << 18, RUN_LATENTS = 8 }; /* pixels of the frames of one run, and its frames of latents, at most */

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Frames of latents in one run. No bit of the result depends on it, so only speed and memory count. */
static int64_t at_once(const struct autoencoder_config *c, int64_t latents, int64_t h, int64_t w)
{
	int64_t n = RUN_PIXELS / (autoencoder_time_factor(c) * h * w);

	if (c->timing == TIMING_CHUNKS) /* a chunk begins with empty states */
		return 1;
	n = n < 1 ? 1 : least(n, RUN_LATENTS);
	return least(n, latents);
}

/* ---- frame by frame ---- */

static struct clip_part frame_of(int64_t i, int64_t h, int64_t w)
{
	return (struct clip_part){i, 1, 0, 0, h, w};
}

/* How many pictures run together. */
static int64_t pictures(const struct runner *r, int64_t frames)
{
	return least(runner_capacity(r), frames);
}

static int encode_frames(struct autoencoder *a, int64_t frames, int64_t h, int64_t w, int tile, clip_read *read, void *arg, float *out, struct err *e)
{
	const struct autoencoder_config *c = &a->config;
	int64_t f = autoencoder_factor(c), k = pictures(a->encoder, frames), in = c->in_channels * h * w,
		one = autoencoder_moments(c) * (h / f) * (w / f);
	float *x = mem_try((size_t)(k * in), sizeof *x, "frames of a clip", e);
	int rc = x ? 0 : -1;

	for (int64_t i = 0; i < frames && !rc; i += k) {
		int64_t n = least(k, frames - i);

		for (int64_t j = 0; j < n && !rc; j++) {
			struct clip_part p = frame_of(i + j, h, w);

			rc = read(arg, &p, x + j * in, e);
		}
		if (!rc)
			rc = autoencoder_encode(a, n, x, h, w, tile, out + i * one, e);
	}
	mem_free(x);
	return rc;
}

static int decode_frames(struct autoencoder *a, int64_t frames, const float *z, int64_t h, int64_t w, int tile, clip_write *write, void *arg,
                         struct err *e)
{
	const struct autoencoder_config *c = &a->config;
	int64_t f = autoencoder_factor(c), k = pictures(a->decoder, frames), in = c->latent_channels * h * w, one = c->out_channels * h * f * w * f;
	float *x = mem_try((size_t)(k * one), sizeof *x, "frames of a clip", e);
	int rc = x ? 0 : -1;

	for (int64_t i = 0; i < frames && !rc; i += k) {
		struct clip_part p = {i, least(k, frames - i), 0, 0, h * f, w * f};

		rc = autoencoder_decode(a, p.frames, z + i * in, h, w, tile, x, e);
		if (!rc)
			rc = write(arg, &p, x, e);
	}
	mem_free(x);
	return rc;
}

/* ---- one sequence ---- */

/* The frame of the clip that is frame i of what the encoder reads; -1: a black frame. The last frame is repeated as often as needed. */
static int64_t frame_read(const struct autoencoder_config *c, int64_t i, int64_t frames)
{
	int64_t t = autoencoder_time_factor(c), length = AUTOENCODER_CHUNK_LATENTS * t, black = length - AUTOENCODER_CHUNK_FRAMES;

	if (c->timing != TIMING_CHUNKS)
		return least(i, frames - 1);
	return i % length < black ? -1 : least(i / length * AUTOENCODER_CHUNK_FRAMES + i % length - black, frames - 1);
}

/* The frame of the clip that is frame i of what the decoder makes of `latents` frames; -1: none, it is dropped. */
static int64_t frame_made(const struct autoencoder_config *c, int64_t i, int64_t latents)
{
	int64_t t = autoencoder_time_factor(c), length = AUTOENCODER_CHUNK_LATENTS * t, frames = autoencoder_clip_frames(c, latents), at;

	if (c->timing == TIMING_CHUNKS)
		at = i % length < t - 1 ? -1 : i / length * (length - t + 1) + i % length - (t - 1);
	else
		at = c->timing == TIMING_COGVIDEOX && latents % 2 == 0 ? i : i - (t - 1);
	return at < 0 || at >= frames ? -1 : at;
}

/* Read one frame for the encoder, whose pictures are in [0, 1]. */
static int read_frame(const struct autoencoder_config *c, int64_t i, int64_t frames, int64_t h, int64_t w, clip_read *read, void *arg, float *x,
                      struct err *e)
{
	int64_t from = frame_read(c, i, frames), n = c->in_channels * h * w;
	struct clip_part p = frame_of(from, h, w);

	if (from < 0) {
		memset(x, 0, (size_t)n * sizeof *x);
		return 0;
	}
	if (read(arg, &p, x, e))
		return -1;
	for (int64_t j = 0; j < n; j++)
		x[j] = x[j] * .5f + .5f;
	return 0;
}

/* The last run may have fewer frames of latents than the others; it then repeats the last frame of the clip, and what is made of that is dropped. */
static int encode_sequence(struct autoencoder *a, int64_t frames, int64_t h, int64_t w, clip_read *read, void *arg, float *out, struct err *e)
{
	const struct autoencoder_config *c = &a->config;
	int64_t f = autoencoder_factor(c), t = autoencoder_time_factor(c), latents = autoencoder_latent_frames(c, frames),
		k = at_once(c, latents, h, w);
	int64_t in = c->in_channels * h * w, one = autoencoder_moments(c) * (h / f) * (w / f);
	float *x, *z;
	int rc = runner_plan(a->encoder, (int64_t[3]){k, h, w}, e);

	x = rc ? NULL : mem_try((size_t)(k * t * in), sizeof *x, "frames of a clip", e);
	z = x ? mem_try((size_t)(k * one), sizeof *z, "frames of latents", e) : NULL;
	rc = z ? 0 : -1;
	for (int64_t i = 0; i < latents && !rc; i += k) {
		if (!i || (c->timing == TIMING_CHUNKS && i % AUTOENCODER_CHUNK_LATENTS == 0))
			runner_restart(a->encoder);
		for (int64_t j = 0; j < k * t && !rc; j++)
			rc = read_frame(c, i * t + j, frames, h, w, read, arg, x + j * in, e);
		if (rc)
			break;
		runner_stage(a->encoder, 0, (const void *const[RUNNER_INPUTS]){x}, (float *const[RUNNER_OUTPUTS]){z});
		memcpy(out + i * one, z, (size_t)(least(k, latents - i) * one) * sizeof *z);
	}
	mem_free(x);
	mem_free(z);
	return rc;
}

/* Scale from [0, 1] to [-1, 1], and clamp. A NaN stays one. */
static void clamp(float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		float v = x[i] * 2 - 1;

		x[i] = v < -1 ? -1 : v > 1 ? 1 : v;
	}
}

static int decode_sequence(struct autoencoder *a, int64_t latents, const float *z, int64_t h, int64_t w, clip_write *write, void *arg, struct err *e)
{
	const struct autoencoder_config *c = &a->config;
	int64_t f = autoencoder_factor(c), t = autoencoder_time_factor(c), k = at_once(c, latents, h * f, w * f);
	int64_t in = c->latent_channels * h * w, one = c->out_channels * h * f * w * f;
	float *x, *last;
	int rc = runner_plan(a->decoder, (int64_t[3]){k, h, w}, e);

	x = rc ? NULL : mem_try((size_t)(k * t * one), sizeof *x, "frames of a clip", e);
	last = x ? mem_try((size_t)(k * in), sizeof *last, "frames of latents", e) : NULL; /* of a run that has fewer than k: with zeros */
	rc = last ? 0 : -1;
	for (int64_t i = 0; i < latents && !rc; i += k) {
		int64_t n = least(k, latents - i);

		if (!i)
			runner_restart(a->decoder);
		memcpy(last, z + i * in, (size_t)(n * in) * sizeof *last);
		memset(last + n * in, 0, (size_t)((k - n) * in) * sizeof *last);
		runner_stage(a->decoder, 0, (const void *const[RUNNER_INPUTS]){last}, (float *const[RUNNER_OUTPUTS]){x});
		clamp(x, n * t * one);
		for (int64_t j = 0; j < n * t && !rc; j++) {
			struct clip_part p = frame_of(frame_made(c, i * t + j, latents), h * f, w * f);

			if (p.frame >= 0)
				rc = write(arg, &p, x + j * one, e);
		}
	}
	mem_free(x);
	mem_free(last);
	return rc;
}

int autoencoder_encode_clip(struct autoencoder *a, int64_t frames, int64_t h, int64_t w, int tile, clip_read *read, void *arg, float *out,
                            struct err *e)
{
	assert(a->encoder && frames > 0);
	if (!autoencoder_joins_frames(&a->config))
		return encode_frames(a, frames, h, w, tile, read, arg, out, e);
	return encode_sequence(a, frames, h, w, read, arg, out, e);
}

int autoencoder_decode_clip(struct autoencoder *a, int64_t latents, const float *z, int64_t h, int64_t w, int tile, clip_write *write, void *arg,
                            struct err *e)
{
	assert(a->decoder && latents > 0);
	if (!autoencoder_joins_frames(&a->config))
		return decode_frames(a, latents, z, h, w, tile, write, arg, e);
	return decode_sequence(a, latents, z, h, w, write, arg, e);
}

/* ---- pictures, as clips of one frame ---- */

static int read_picture(void *arg, const struct clip_part *p, float *x, struct err *e)
{
	(void)e;
	memcpy(x, arg, (size_t)(3 * p->height * p->width) * sizeof *x);
	return 0;
}

static int write_picture(void *arg, const struct clip_part *p, const float *x, struct err *e)
{
	(void)e;
	memcpy(arg, x, (size_t)(3 * p->height * p->width) * sizeof *x);
	return 0;
}

int autoclip_encode_pictures(struct autoencoder *a, int64_t n, const float *x, int64_t h, int64_t w, int tile, float *out, struct err *e)
{
	const struct autoencoder_config *c = &a->config;
	int64_t f = autoencoder_factor(c), one = autoencoder_moments(c) * (h / f) * (w / f), latents = autoencoder_latent_frames(c, 1);

	if (latents != 1)
		return err_set(e, ERR_USAGE, "this autoencoder makes %lld frames of latents of a picture, and can only encode clips",
		               (long long)latents);
	for (int64_t i = 0; i < n; i++)
		if (autoencoder_encode_clip(a, 1, h, w, tile, read_picture, (void *)(uintptr_t)(x + i * 3 * h * w), out + i * one, e))
			return -1;
	return 0;
}

int autoclip_decode_pictures(struct autoencoder *a, int64_t n, const float *z, int64_t h, int64_t w, int tile, float *out, struct err *e)
{
	int64_t f = autoencoder_factor(&a->config), in = a->config.latent_channels * h * w;

	for (int64_t i = 0; i < n; i++)
		if (autoencoder_decode_clip(a, 1, z + i * in, h, w, tile, write_picture, out + i * 3 * h * f * w * f, e))
			return -1;
	return 0;
}
