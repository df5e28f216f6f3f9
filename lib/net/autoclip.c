/* Runs autoencoders on clips, a few frames at a time, so that memory does not grow with their length. An autoencoder for pictures codes frame by
 * frame. The networks of one for clips keep states between runs (net/runner.h), and a clip is one sequence of runs. */
#include <assert.h>
#include <string.h>

#include "core/mem.h"
#include "net/autoencoderimpl.h"

enum {
	RUN_PIXELS = 1 << 18, /* pixels of the frames of one run, at most */
	RUN_LATENTS = 8,      /* its frames of latents, at most */
	WAN_WIDER = 4         /* the layers of Wan's autoencoder need so much more memory for a pixel than those of TAEHV */
};

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
	if (c->kind == AUTOENCODER_WAN)
		n /= WAN_WIDER;
	n = n < 1 ? 1 : least(n, RUN_LATENTS);
	return least(n, latents);
}

/* Whether the first frame of latents stands for one frame, and has a stage of the network for itself. */
static int first_alone(const struct autoencoder_config *c)
{
	return c->kind == AUTOENCODER_WAN;
}

/* A run: of frames of latents [at, at + latents), with room for `room` of them, by a stage; their frames of the clip begin at `frame`. */
struct piece {
	int64_t at, latents, room, frame, frames; /* frames: of all the room */
	int stage;
};

/* The run that follows after `at` frames of latents, of which there are `latents`, if k run together. */
static struct piece next_piece(const struct autoencoder_config *c, int64_t at, int64_t latents, int64_t k)
{
	int64_t t = autoencoder_time_factor(c);

	if (!first_alone(c))
		return (struct piece){at, least(k, latents - at), k, at * t, k * t, 0};
	if (!at)
		return (struct piece){0, 1, 1, 0, 1, 0};
	return (struct piece){at, least(k, latents - at), k, 1 + (at - 1) * t, k * t, 1};
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
	int64_t t = autoencoder_time_factor(c), length = AUTOENCODER_CHUNK_LATENTS * t, frames = autoencoder_clip_frames(c, latents), at = i;

	if (c->timing == TIMING_CHUNKS)
		at = i % length < t - 1 ? -1 : i / length * (length - t + 1) + i % length - (t - 1);
	else if (!first_alone(c) && !(c->timing == TIMING_COGVIDEOX && latents % 2 == 0))
		at = i - (t - 1);
	return at < 0 || at >= frames ? -1 : at;
}

/* Read frame i for the encoder into x. The pictures of TAEHV are in [0, 1], and where there is no frame it reads zeros. */
static int read_frame(const struct sequence *q, int64_t i, clip_read *read, void *arg, float *x, struct err *e)
{
	const struct autoencoder_config *c = &q->a->config;
	int64_t n = c->in_channels * q->h * q->w;
	struct clip_part p = {frame_read(c, i, q->frames), 1, q->top, q->left, q->h, q->w};

	if (p.frame < 0) {
		memset(x, 0, (size_t)n * sizeof *x);
		return 0;
	}
	if (read(arg, &p, x, e))
		return -1;
	for (int64_t j = 0; j < n && c->kind == AUTOENCODER_TAEHV; j++)
		x[j] = x[j] * .5f + .5f;
	return 0;
}

/* Run a stage on its input x, which is input number `stage` of the network, as z is its output. */
static void run_stage(struct runner *r, int stage, const float *x, float *z)
{
	const void *in[RUNNER_INPUTS] = {NULL};
	float *out[RUNNER_OUTPUTS] = {NULL};

	in[stage] = x;
	out[stage] = z;
	runner_stage(r, stage, in, out);
}

/* The last run may have fewer frames of latents than the others; it then repeats the last frame of the clip, and what is made of that is dropped. */
int autoclip_encode_sequence(const struct sequence *q, clip_read *read, void *arg, float *out, struct err *e)
{
	const struct autoencoder_config *c = &q->a->config;
	struct runner *r = q->a->encoder;
	int64_t f = autoencoder_factor(c), latents = autoencoder_latent_frames(c, q->frames), k = at_once(c, latents, q->h, q->w);
	int64_t in = c->in_channels * q->h * q->w, one = autoencoder_moments(c) * (q->h / f) * (q->w / f);
	float *x, *z;
	int rc = runner_plan(r, (int64_t[3]){k, q->h, q->w}, e);

	x = rc ? NULL : mem_try((size_t)(k * autoencoder_time_factor(c) * in), sizeof *x, "frames of a clip", e);
	z = x ? mem_try((size_t)(k * one), sizeof *z, "frames of latents", e) : NULL;
	rc = z ? 0 : -1;
	for (struct piece p = {0}; p.at < latents && !rc; p.at += p.latents) {
		p = next_piece(c, p.at, latents, k);
		if (!p.at || (c->timing == TIMING_CHUNKS && p.at % AUTOENCODER_CHUNK_LATENTS == 0))
			runner_restart(r);
		for (int64_t j = 0; j < p.frames && !rc; j++)
			rc = read_frame(q, p.frame + j, read, arg, x + j * in, e);
		if (rc)
			break;
		run_stage(r, p.stage, x, z);
		memcpy(out + p.at * one, z, (size_t)(p.latents * one) * sizeof *z);
	}
	mem_free(x);
	mem_free(z);
	return rc;
}

void autoclip_clamp(float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		x[i] = x[i] < -1 ? -1 : x[i] > 1 ? 1 : x[i];
}

/* The pictures of TAEHV are in [0, 1]. */
static void finish_frame(const struct sequence *q, float *x, int64_t n)
{
	for (int64_t i = 0; i < n && q->a->config.kind == AUTOENCODER_TAEHV; i++)
		x[i] = x[i] * 2 - 1;
	if (!q->raw)
		autoclip_clamp(x, n);
}

/* z (frames, latent_channels, h, w), of which the sequence is a part of the size q->h x q->w. */
int autoclip_decode_sequence(const struct sequence *q, const float *z, int64_t h, int64_t w, clip_write *write, void *arg, struct err *e)
{
	const struct autoencoder_config *c = &q->a->config;
	struct runner *r = q->a->decoder;
	int64_t f = autoencoder_factor(c), latents = q->frames, k = at_once(c, latents, q->h * f, q->w * f), channels = c->latent_channels;
	int64_t in = channels * q->h * q->w, one = c->out_channels * q->h * f * q->w * f;
	float *x, *part;
	int rc = runner_plan(r, (int64_t[3]){k, q->h, q->w}, e);

	x = rc ? NULL : mem_try((size_t)(k * autoencoder_time_factor(c) * one), sizeof *x, "frames of a clip", e);
	part = x ? mem_try((size_t)(k * in), sizeof *part, "frames of latents", e) : NULL; /* of a run that has fewer than k: with others */
	rc = part ? 0 : -1;
	for (struct piece p = {0}; p.at < latents && !rc; p.at += p.latents) {
		p = next_piece(c, p.at, latents, k);
		if (!p.at)
			runner_restart(r);
		for (int64_t i = 0; i < p.latents * channels * q->h; i++) {
			int64_t plane = p.at * channels + i / q->h, row = q->top + i % q->h;

			memcpy(part + i * q->w, z + (plane * h + row) * w + q->left, (size_t)q->w * sizeof *part);
		}
		run_stage(r, p.stage, part, x);
		for (int64_t j = 0; j < p.frames / p.room * p.latents && !rc; j++) {
			struct clip_part out = {frame_made(c, p.frame + j, latents), 1, q->top * f, q->left * f, q->h * f, q->w * f};

			if (out.frame < 0)
				continue;
			finish_frame(q, x + j * one, one);
			rc = write(arg, &out, x + j * one, e);
		}
	}
	mem_free(x);
	mem_free(part);
	return rc;
}

int autoencoder_encode_clip(struct autoencoder *a, int64_t frames, int64_t h, int64_t w, int tile, clip_read *read, void *arg, float *out,
                            struct err *e)
{
	assert(a->encoder && frames > 0);
	if (!autoencoder_joins_frames(&a->config))
		return encode_frames(a, frames, h, w, tile, read, arg, out, e);
	if (tile && autoclip_tiles(&a->config, h, w))
		return autoclip_encode_tiles(a, frames, h, w, read, arg, out, e);
	return autoclip_encode_sequence(&(struct sequence){a, frames, 0, 0, h, w, 0}, read, arg, out, e);
}

int autoencoder_decode_clip(struct autoencoder *a, int64_t latents, const float *z, int64_t h, int64_t w, int tile, clip_write *write, void *arg,
                            struct err *e)
{
	assert(a->decoder && latents > 0);
	if (!autoencoder_joins_frames(&a->config))
		return decode_frames(a, latents, z, h, w, tile, write, arg, e);
	if (tile && autoclip_tiles(&a->config, h * autoencoder_factor(&a->config), w * autoencoder_factor(&a->config)))
		return autoclip_decode_tiles(a, latents, z, h, w, write, arg, e);
	return autoclip_decode_sequence(&(struct sequence){a, latents, 0, 0, h, w, 0}, z, h, w, write, arg, e);
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
