/* Codes clips in tiles: rectangles of all frames, each a sequence of its own, which overlap and are blended linearly, first with the tile above, then
 * with the tile to the left (diffusers' tiled_encode and tiled_decode). Of a tile that is done only the rows and columns that later tiles blend with
 * are kept. */
#include <string.h>

#include "core/mem.h"
#include "net/autoencoderimpl.h"

/* The edge of a tile: for each frame (channels, h, w). */
struct edge {
	int64_t h, w;
	float *v;
};

/* A grid of tiles, measured in the output. */
struct grid {
	int64_t frames, channels, h, w, across, down;
	int64_t keep, blend;                     /* the distance between tiles, and the most rows or columns that are blended */
	struct edge *above, *below, left, right; /* above[across], below[across]: bottom edges of the tiles of the row before, and of this one */
	/* the present tile */
	int64_t i, j, tile_h, tile_w;
	float *one; /* its frame in work; NULL: not allocated yet */
	int pixels; /* 1: what is written is clamped to [-1, 1] */
	clip_write *write;
	void *arg;
};

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Blend the first rows of b (channels, h, w) with those of edge a, the last one of which touches b's row n - 1. */
static void blend_rows(const struct grid *g, const struct edge *a, int64_t frame, float *b)
{
	int64_t n = least(a->h, g->tile_h), w = g->tile_w;

	for (int64_t c = 0; c < g->channels; c++)
		for (int64_t y = 0; y < n; y++)
			for (int64_t x = 0; x < w; x++) {
				float *to = &b[(c * g->tile_h + y) * w + x], share = (float)y / (float)n;

				*to = a->v[((frame * g->channels + c) * a->h + a->h - n + y) * w + x] * (1 - share) + *to * share;
			}
}

static void blend_columns(const struct grid *g, const struct edge *a, int64_t frame, float *b)
{
	int64_t n = least(a->w, g->tile_w), h = g->tile_h;

	for (int64_t c = 0; c < g->channels; c++)
		for (int64_t y = 0; y < h; y++)
			for (int64_t x = 0; x < n; x++) {
				float *to = &b[(c * h + y) * g->tile_w + x], share = (float)x / (float)n;

				*to = a->v[((frame * g->channels + c) * h + y) * a->w + a->w - n + x] * (1 - share) + *to * share;
			}
}

/* Copy the rectangle h x w of v (channels, tile_h, tile_w) at (top, left). */
static void cut(const struct grid *g, const float *v, int64_t top, int64_t left, int64_t h, int64_t w, float *out)
{
	for (int64_t c = 0; c < g->channels; c++)
		for (int64_t y = 0; y < h; y++)
			memcpy(out + (c * h + y) * w, v + (c * g->tile_h + top + y) * g->tile_w + left, (size_t)w * sizeof *out);
}

/* Keep the last h rows and w columns of a frame of the tile. */
static void keep_edge(const struct grid *g, struct edge *a, int64_t frame, const float *v)
{
	if (a->v)
		cut(g, v, g->tile_h - a->h, g->tile_w - a->w, a->h, a->w, a->v + frame * g->channels * a->h * a->w);
}

/* Blend a frame of the present tile, v (channels, tile_h, tile_w), keep its edges, and write what of it no other tile covers. v is changed. */
static int put_frame(struct grid *g, int64_t frame, float *v, struct err *e)
{
	struct clip_part p = {frame, 1, g->i * g->keep, g->j * g->keep, 0, 0};

	if (g->i)
		blend_rows(g, &g->above[g->j], frame, v);
	if (g->j)
		blend_columns(g, &g->left, frame, v);
	keep_edge(g, &g->below[g->j], frame, v);
	keep_edge(g, &g->right, frame, v);
	p.height = least(least(g->keep, g->tile_h), g->h - p.top);
	p.width = least(least(g->keep, g->tile_w), g->w - p.left);
	if (p.height != g->tile_h || p.width != g->tile_w) /* in place: each row moves towards the start */
		for (int64_t r = 0; r < g->channels * p.height; r++)
			memmove(v + r * p.width, v + (r / p.height * g->tile_h + r % p.height) * g->tile_w, (size_t)p.width * sizeof *v);
	if (g->pixels)
		autoclip_clamp(v, g->channels * p.height * p.width);
	return g->write(g->arg, &p, v, e);
}

static int take_decoded(void *arg, const struct clip_part *p, const float *x, struct err *e)
{
	struct grid *g = arg;

	memcpy(g->one, x, (size_t)(g->channels * g->tile_h * g->tile_w) * sizeof *x);
	return put_frame(g, p->frame, g->one, e);
}

static int make_edge(const struct grid *g, struct edge *a, int64_t h, int64_t w, struct err *e)
{
	*a = (struct edge){h, w, mem_try((size_t)(g->frames * g->channels * h), (size_t)w * sizeof(float), "the edges of tiles", e)};
	return a->v ? 0 : -1;
}

static void drop_edge(struct edge *a)
{
	mem_free(a->v);
	*a = (struct edge){0};
}

/* Begin tile (i, j) of tile_h x tile_w. */
static int begin_tile(struct grid *g, int64_t i, int64_t j, int64_t tile_h, int64_t tile_w, struct err *e)
{
	g->i = i;
	g->j = j;
	g->tile_h = tile_h;
	g->tile_w = tile_w;
	if (!g->one && !(g->one = mem_try((size_t)(g->channels * tile_h * tile_w), sizeof *g->one, "a tile", e))) /* the first is the largest */
		return -1;
	if (i + 1 < g->down && make_edge(g, &g->below[j], least(g->blend, tile_h), tile_w, e))
		return -1;
	return j + 1 < g->across ? make_edge(g, &g->right, tile_h, least(g->blend, tile_w), e) : 0;
}

static void end_tile(struct grid *g)
{
	struct edge *row = g->above;

	drop_edge(&g->left);
	g->left = g->right;
	g->right = (struct edge){0};
	drop_edge(&g->above[g->j]);
	if (g->j + 1 < g->across)
		return;
	drop_edge(&g->left);
	g->above = g->below;
	g->below = row;
}

static void open_grid(struct grid *g)
{
	g->above = mem_zalloc((size_t)g->across, sizeof *g->above);
	g->below = mem_zalloc((size_t)g->across, sizeof *g->below);
}

static void close_grid(struct grid *g)
{
	for (int64_t j = 0; j < g->across; j++) {
		drop_edge(&g->above[j]);
		drop_edge(&g->below[j]);
	}
	drop_edge(&g->left);
	drop_edge(&g->right);
	mem_free(g->above);
	mem_free(g->below);
	mem_free(g->one);
}

int autoclip_tiles(const struct autoencoder_config *c, int64_t h, int64_t w)
{
	return c->kind == AUTOENCODER_WAN && (h > c->sample_size || w > c->sample_size);
}

int autoclip_decode_tiles(struct autoencoder *a, int64_t latents, const float *z, int64_t h, int64_t w, clip_write *write, void *arg, struct err *e)
{
	const struct autoencoder_config *c = &a->config;
	int64_t f = autoencoder_factor(c), tile = c->sample_size / f, step = c->sample_size * 3 / 4 / f;
	struct grid g = {.frames = autoencoder_clip_frames(c, latents),
	                 .channels = c->out_channels,
	                 .h = h * f,
	                 .w = w * f,
	                 .across = (w + step - 1) / step,
	                 .down = (h + step - 1) / step,
	                 .keep = step * f,
	                 .blend = (tile - step) * f,
	                 .write = write,
	                 .arg = arg,
	                 .pixels = 1};
	int rc = 0;

	open_grid(&g);
	for (int64_t k = 0; k < g.down * g.across && !rc; k++) {
		int64_t i = k / g.across, j = k % g.across;
		struct sequence q = {a, latents, i * step, j * step, least(tile, h - i * step), least(tile, w - j * step), 1};

		rc = begin_tile(&g, i, j, q.h * f, q.w * f, e) || autoclip_decode_sequence(&q, z, h, w, take_decoded, &g, e) ? -1 : 0;
		if (!rc)
			end_tile(&g);
	}
	close_grid(&g);
	return rc;
}

/* The latents of a tile's frame, for put_frame. */
struct latents {
	float *out; /* (frames, channels, h, w) */
	int64_t channels, h, w;
};

static int place_latents(void *arg, const struct clip_part *p, const float *x, struct err *e)
{
	struct latents *l = arg;

	(void)e;
	for (int64_t r = 0; r < l->channels * p->height; r++)
		memcpy(l->out + ((p->frame * l->channels + r / p->height) * l->h + p->top + r % p->height) * l->w + p->left, x + r * p->width,
		       (size_t)p->width * sizeof *x);
	return 0;
}

int autoclip_encode_tiles(struct autoencoder *a, int64_t frames, int64_t h, int64_t w, clip_read *read, void *arg, float *out, struct err *e)
{
	const struct autoencoder_config *c = &a->config;
	int64_t f = autoencoder_factor(c), tile = c->sample_size, step = tile * 3 / 4;
	struct latents l = {out, autoencoder_moments(c), h / f, w / f};
	struct grid g = {.frames = autoencoder_latent_frames(c, frames),
	                 .channels = l.channels,
	                 .h = l.h,
	                 .w = l.w,
	                 .across = (w + step - 1) / step,
	                 .down = (h + step - 1) / step,
	                 .keep = step / f,
	                 .blend = (tile - step) / f,
	                 .write = place_latents,
	                 .arg = &l};
	float *all = mem_try((size_t)(g.frames * g.channels * (tile / f)), (size_t)(tile / f) * sizeof *all, "latents of a tile", e);
	int rc = all ? 0 : -1;

	open_grid(&g);
	for (int64_t k = 0; k < g.down * g.across && !rc; k++) {
		int64_t i = k / g.across, j = k % g.across;
		struct sequence q = {a, frames, i * step, j * step, least(tile, h - i * step), least(tile, w - j * step), 0};

		rc = begin_tile(&g, i, j, q.h / f, q.w / f, e) || autoclip_encode_sequence(&q, read, arg, all, e) ? -1 : 0;
		for (int64_t n = 0; n < g.frames && !rc; n++)
			rc = put_frame(&g, n, all + n * g.channels * g.tile_h * g.tile_w, e);
		if (!rc)
			end_tile(&g);
	}
	close_grid(&g);
	mem_free(all);
	return rc;
}
