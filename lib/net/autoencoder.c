/* Opens and runs autoencoders: sizes of pictures and latents, scaling, and the tape of each size. */
#include "net/autoencoderimpl.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/weightfile.h"
#include "net/taehv.h"
#include "net/taesd.h"

/* ---- opening ---- */

/* The path of the weights in a folder: those of the whole autoencoder if they are there, else those of this half. Caller frees with mem_free. */
static char *weights_path(const char *dir, int half, struct err *e)
{
	static const char *const names[] = {"diffusion_pytorch_model.safetensors", "model.safetensors"};
	const char *one = half == AUTOENCODER_ENCODE ? "encoder.safetensors" : "decoder.safetensors";
	char *path;

	if (taesd_is(dir))
		return taesd_file(dir, half, e);
	if (taehv_is(dir))
		return taehv_file(dir, e);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		path = path_join(dir, names[i]);
		if (path_exists(path))
			return path;
		mem_free(path);
	}
	path = path_join(dir, one);
	if (path_exists(path))
		return path;
	mem_free(path);
	return weightfile_locate(dir, NULL, e);
}

/* The recordings of the two halves by kind, and their names in files. */
static const struct {
	runner_record *record[2];
	int (*names)(const struct autoencoder_config *c, int half, struct renames *out);
} kinds[] = {
    [AUTOENCODER_KL] = {{autokl_encoder, autokl_decoder}, autokl_names},
    [AUTOENCODER_TINY] = {{autotiny_encoder, autotiny_decoder}, autotiny_names},
    [AUTOENCODER_TAEHV] = {{taehv_encoder, taehv_decoder}, taehv_names},
    [AUTOENCODER_WAN] = {{wanvae_encoder, wanvae_decoder}, wanvae_names},
};

/* The smallest size that a half can be recorded for. */
static void smallest(const struct autoencoder_config *c, int encodes, int64_t *size)
{
	int64_t side = 2 * (encodes ? autoencoder_factor(c) : 1);

	size[0] = autoencoder_joins_frames(c) ? 1 : encodes ? c->in_channels : c->latent_channels;
	size[1] = size[2] = side;
}

static int load_half(struct autoencoder *a, const char *dir, int half, int64_t capacity, enum compact_type bulk, struct device *d, struct err *e)
{
	const struct autoencoder_config *c = &a->config;
	int encodes = half == AUTOENCODER_ENCODE, n, rc = -1;
	int64_t size[3];
	char *path = weights_path(dir, half, e);
	struct safetensors *s = path ? weightfile_load(path, NULL, e) : NULL;
	struct renames names[AUTOENCODER_FAMILIES];
	const struct renames *known[AUTOENCODER_FAMILIES];
	struct runner *r = NULL;

	smallest(c, encodes, size);
	n = kinds[c->kind].names(c, half, names);
	for (int i = 0; i < n; i++)
		known[i] = &names[i];
	if (s && !(r = runner_new(kinds[c->kind].record[!encodes], c, size, autoencoder_joins_frames(c) ? 1 : capacity, bulk, d, e)))
		st_free(s);
	if (r)
		rc = runner_weights(r, s, path, known, n, e) || runner_load(r, NULL, NULL, e) ? -1 : 0;
	*(encodes ? &a->encoder : &a->decoder) = r;
	mem_free(path);
	return rc;
}

static int read_config(const char *dir, struct autoencoder_config *c, struct err *e)
{
	char *path;
	json_t *o;
	int rc;

	if (taesd_is(dir))
		return taesd_config(dir, c, e);
	if (taehv_is(dir))
		return taehv_config(dir, c, e);
	path = path_join(dir, "config.json");
	o = jsonio_load(path, e);
	rc = o ? autoencoder_parse(o, path, c, e) : -1;
	json_decref(o);
	mem_free(path);
	return rc;
}

struct autoencoder *autoencoder_open(const char *dir, int halves, int64_t capacity, enum compact_type bulk, struct device *d, struct err *e)
{
	struct autoencoder *a = mem_zalloc(1, sizeof *a);
	int rc = read_config(dir, &a->config, e);

	for (int half = AUTOENCODER_ENCODE; half <= AUTOENCODER_DECODE && !rc; half++)
		if (halves & half)
			rc = load_half(a, dir, half, capacity, bulk, d, e);
	if (!rc)
		return a;
	autoencoder_free(a);
	return NULL;
}

int autoencoder_hash(const char *dir, int half, char hex[65], struct err *e)
{
	char *path = weights_path(dir, half, e);
	struct autoencoder_config c;
	struct str what = {0};
	int rc = -1;

	if (path && !read_config(dir, &c, e) && !weightfile_hash_at(path, hex, e)) {
		autoencoder_describe(&what, &c);
		str_printf(&what, ", weights %s", hex);
		sha256_text(what.p, hex);
		rc = 0;
	}
	str_release(&what);
	mem_free(path);
	return rc;
}

void autoencoder_free(struct autoencoder *a)
{
	if (!a)
		return;
	runner_free(a->encoder);
	runner_free(a->decoder);
	mem_free(a);
}

const struct autoencoder_config *autoencoder_config(const struct autoencoder *a)
{
	return &a->config;
}

int autoencoder_decode_flops(struct autoencoder *a, int64_t h, int64_t w, double *flops, struct err *e)
{
	int64_t first = autoencoder_joins_frames(&a->config) ? 1 : a->config.latent_channels;

	if (runner_plan(a->decoder, (int64_t[3]){first, h, w}, e))
		return -1;
	*flops = runner_flops(a->decoder);
	return 0;
}

/* ---- running ---- */

/* A direction, encoding or decoding. Sizes are in pixels or in positions of the latent. */
struct way {
	struct autoencoder *a;
	struct runner *net;
	int64_t in, out;  /* channels */
	int64_t up, down; /* output size = input size * up / down */
	/* The side of a tile and the distance between tiles, in the input; the width over which tiles are blended and what is kept of a tile, in the
	 * output. */
	int64_t tile, step, blend, keep;
	float in_scale, in_shift, out_scale, out_shift; /* the tiny autoencoders take pictures in [0, 1] */
};

static struct way way_in(struct autoencoder *a)
{
	const struct autoencoder_config *c = &a->config;
	int64_t latent = c->sample_size / autoencoder_factor(c);
	struct way w = {a,
	                a->encoder,
	                c->in_channels,
	                autoencoder_moments(c),
	                1,
	                autoencoder_factor(c),
	                c->sample_size,
	                c->sample_size * 3 / 4,
	                latent / 4,
	                latent - latent / 4,
	                1,
	                0,
	                1,
	                0};

	if (c->kind == AUTOENCODER_TINY)
		w.in_scale = w.in_shift = .5f;
	return w;
}

static struct way way_out(struct autoencoder *a)
{
	const struct autoencoder_config *c = &a->config;
	int64_t latent = c->sample_size / autoencoder_factor(c);
	struct way w = {a,
	                a->decoder,
	                c->latent_channels,
	                c->out_channels,
	                autoencoder_factor(c),
	                1,
	                latent,
	                latent * 3 / 4,
	                c->sample_size / 4,
	                c->sample_size - c->sample_size / 4,
	                1,
	                0,
	                1,
	                0};

	if (c->kind == AUTOENCODER_TINY) {
		w.out_scale = 2;
		w.out_shift = -1;
	}
	return w;
}

/* Run n whole inputs, batch by batch. Inputs that must be scaled are copied first. */
static int run_whole(const struct way *w, int64_t n, const float *x, int64_t h, int64_t width, float *out, struct err *e)
{
	int64_t size[3] = {w->in, h, width}, each = w->in * h * width, one = w->out * (h * w->up / w->down) * (width * w->up / w->down);
	int64_t batch = runner_capacity(w->net);
	float *copy = NULL;

	if (runner_plan(w->net, size, e) || (w->in_shift != 0 && !(copy = mem_try((size_t)(batch * each), sizeof *copy, "pictures", e))))
		return -1;
	for (int64_t at = 0; at < n; at += batch) {
		int64_t k = n - at < batch ? n - at : batch;

		for (int64_t i = 0; copy && i < k * each; i++)
			copy[i] = x[at * each + i] * w->in_scale + w->in_shift;
		runner_run(w->net, k, (const void *const[]){copy ? copy : x + at * each}, (float *const[]){out + at * one});
	}
	for (int64_t i = 0; w->out_shift != 0 && i < n * one; i++)
		out[i] = out[i] * w->out_scale + w->out_shift;
	mem_free(copy);
	return 0;
}

/* A tile of the output (channels, h, w). */
struct tile {
	int64_t h, w;
	float *v;
};

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Blend at most `most` first rows of b linearly with the last rows of a, the tile above it. */
static void blend_down(const struct tile *a, struct tile *b, int64_t channels, int64_t most)
{
	int64_t n = least(least(a->h, b->h), most);

	for (int64_t c = 0; c < channels; c++)
		for (int64_t y = 0; y < n; y++)
			for (int64_t x = 0; x < b->w; x++) {
				float *to = &b->v[(c * b->h + y) * b->w + x], share = (float)y / (float)n;

				*to = a->v[(c * a->h + a->h - n + y) * a->w + x] * (1 - share) + *to * share;
			}
}

static void blend_right(const struct tile *a, struct tile *b, int64_t channels, int64_t most)
{
	int64_t n = least(least(a->w, b->w), most);

	for (int64_t c = 0; c < channels; c++)
		for (int64_t y = 0; y < b->h; y++)
			for (int64_t x = 0; x < n; x++) {
				float *to = &b->v[(c * b->h + y) * b->w + x], share = (float)x / (float)n;

				*to = a->v[(c * a->h + y) * a->w + a->w - n + x] * (1 - share) + *to * share;
			}
}

/* Run the tile of x (in, h, width) whose upper left corner is at (y0, x0). */
static int run_tile(const struct way *w, const float *x, int64_t h, int64_t width, int64_t y0, int64_t x0, struct tile *t, struct err *e)
{
	int64_t th = least(w->tile, h - y0), tw = least(w->tile, width - x0);
	float *in = mem_try((size_t)(w->in * th * tw), sizeof *in, "a tile", e);
	int rc = -1;

	t->h = th * w->up / w->down;
	t->w = tw * w->up / w->down;
	t->v = in ? mem_try((size_t)(w->out * t->h * t->w), sizeof *t->v, "a tile", e) : NULL;
	if (t->v) {
		for (int64_t c = 0; c < w->in; c++)
			for (int64_t y = 0; y < th; y++)
				memcpy(in + (c * th + y) * tw, x + (c * h + y0 + y) * width + x0, (size_t)tw * sizeof *in);
		rc = run_whole(w, 1, in, th, tw, t->v, e);
	}
	mem_free(in);
	return rc;
}

static void place_tile(const struct way *w, const struct tile *t, float *out, int64_t h, int64_t width, int64_t i, int64_t j)
{
	int64_t rows = least(least(w->keep, t->h), h - i * w->keep), columns = least(least(w->keep, t->w), width - j * w->keep);

	for (int64_t c = 0; c < w->out; c++)
		for (int64_t y = 0; y < rows; y++)
			memcpy(out + (c * h + i * w->keep + y) * width + j * w->keep, t->v + (c * t->h + y) * t->w, (size_t)columns * sizeof *out);
}

/* Run one input in tiles. A tile is blended with the blended tile above it, then with the blended tile to its left. */
static int run_tiles(const struct way *w, const float *x, int64_t h, int64_t width, float *out, struct err *e)
{
	int64_t across = (width + w->step - 1) / w->step, down = (h + w->step - 1) / w->step, oh = h * w->up / w->down;
	int64_t ow = width * w->up / w->down;
	struct tile *above = mem_zalloc((size_t)across, sizeof *above), *row = mem_zalloc((size_t)across, sizeof *row), *swap;
	int rc = 0;

	for (int64_t i = 0; i < down && !rc; i++) {
		for (int64_t j = 0; j < across && !rc; j++) {
			mem_free(row[j].v);
			row[j].v = NULL;
			if ((rc = run_tile(w, x, h, width, i * w->step, j * w->step, &row[j], e)))
				break;
			if (i)
				blend_down(&above[j], &row[j], w->out, w->blend);
			if (j)
				blend_right(&row[j - 1], &row[j], w->out, w->blend);
			if (i * w->keep < oh && j * w->keep < ow)
				place_tile(w, &row[j], out, oh, ow, i, j);
		}
		swap = above;
		above = row;
		row = swap;
	}
	for (int64_t j = 0; j < across; j++) {
		mem_free(above[j].v);
		mem_free(row[j].v);
	}
	mem_free(above);
	mem_free(row);
	return rc;
}

static int run(const struct way *w, int64_t n, const float *x, int64_t h, int64_t width, int tile, float *out, struct err *e)
{
	int64_t one = w->out * (h * w->up / w->down) * (width * w->up / w->down);

	assert(w->net);
	if (!tile || w->a->config.kind != AUTOENCODER_KL || (h <= w->tile && width <= w->tile) || !w->step)
		return run_whole(w, n, x, h, width, out, e);
	for (int64_t i = 0; i < n; i++)
		if (run_tiles(w, x + i * w->in * h * width, h, width, out + i * one, e))
			return -1;
	return 0;
}

int autoencoder_encode(struct autoencoder *a, int64_t n, const float *x, int64_t h, int64_t w, int tile, float *out, struct err *e)
{
	struct way way = way_in(a);

	if (autoencoder_joins_frames(&a->config))
		return autoclip_encode_pictures(a, n, x, h, w, tile, out, e);
	return run(&way, n, x, h, w, tile, out, e);
}

int autoencoder_decode(struct autoencoder *a, int64_t n, const float *z, int64_t h, int64_t w, int tile, float *out, struct err *e)
{
	struct way way = way_out(a);

	if (autoencoder_joins_frames(&a->config))
		return autoclip_decode_pictures(a, n, z, h, w, tile, out, e);
	return run(&way, n, z, h, w, tile, out, e);
}
