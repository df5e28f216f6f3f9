/* Contact sheets with a row of pictures per cluster; of a clip its middle frame. */
#include "data/sheet.h"

#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "data/clipread.h"
#include "file/resize.h"

int sheet_init(struct sheet *s, int rows, int columns, int cell, struct err *e)
{
	*s = (struct sheet){.rows = rows, .layout = {.columns = columns, .side = cell, .margin = CONTACTSHEET_GAP, .channels = 3, .paper = 255}};
	return contactsheet_new(&s->picture, &s->layout, rows, 0, e);
}

void sheet_release(struct sheet *s)
{
	picture_release(&s->picture);
	*s = (struct sheet){0};
}

/* Draw the centre square of a picture in the given row and column. */
static int sheet_put(struct sheet *s, int row, int column, const struct picture *p, struct err *e)
{
	struct picture small;

	if (picture_square(&small, p, (int)s->layout.side, RESIZE_LANCZOS, e))
		return -1;
	contactsheet_put(&s->picture, &s->layout, row * s->layout.columns + column, 0, &small);
	picture_release(&small);
	return 0;
}

struct choice {
	uint64_t hash;
	int64_t index;
	int32_t cluster, column;
};

static int by_hash(const void *a, const void *b)
{
	const struct choice *x = a, *y = b;

	if (x->cluster != y->cluster)
		return x->cluster < y->cluster ? -1 : 1;
	return x->hash < y->hash ? -1 : x->hash > y->hash ? 1 : (x->index > y->index) - (x->index < y->index);
}

static int by_index(const void *a, const void *b)
{
	const struct choice *x = a, *y = b;

	return (x->index > y->index) - (x->index < y->index);
}

/* Choose the samples to show, in sample order. */
static struct choice *choose(const struct sheet *s, char *const *key, const int32_t *cluster, int64_t n, int64_t *chosen)
{
	struct choice *v = mem_zalloc((size_t)n, sizeof *v);
	int64_t at = 0;
	int column = 0;

	for (int64_t i = 0; i < n; i++)
		v[i] = (struct choice){hash64(key[i], strlen(key[i])), i, cluster[i], 0};
	qsort(v, (size_t)n, sizeof *v, by_hash);
	for (int64_t i = 0; i < n; i++) {
		column = i && v[i].cluster == v[i - 1].cluster ? column + 1 : 0;
		if (column < s->layout.columns && v[i].cluster < s->rows) {
			v[at] = v[i];
			v[at++].column = column;
		}
	}
	qsort(v, (size_t)at, sizeof *v, by_index);
	*chosen = at;
	return v;
}

/* The picture of a sample, or the middle frame of a clip. */
static int picture_of(struct picture *p, const struct sample *x, const struct samples_options *o, struct err *e)
{
	struct sample_clip c = {0};
	int is_clip = sample_picture(x) ? 0 : sample_clip(&c, x, e), rc;

	if (is_clip < 0)
		return -1;
	rc = is_clip ? clip_frame(p, &c.clip, c.clip.frames / 2, c.clip.channels, e) : sample_pixels(p, x, o, e);
	sample_clip_release(&c);
	return rc;
}

static int show(struct sheet *s, const struct choice *c, const struct sample *x, const struct samples_options *o, struct err *e)
{
	struct picture p;
	int rc;

	if (picture_of(&p, x, o, e))
		return -1;
	rc = sheet_put(s, c->cluster, c->column, &p, e);
	picture_release(&p);
	return rc;
}

int sheet_fill(struct sheet *s, struct samples *samples, char *const *key, const int32_t *cluster, int64_t n, struct err *e)
{
	int64_t chosen, at = 0;
	struct choice *v = choose(s, key, cluster, n, &chosen);
	int rc = samples_rewind(samples, e);

	while (!rc && at < chosen) {
		struct sample x;
		int got = samples_next(samples, &x, e);

		if (got <= 0)
			rc = got < 0 ? -1 : err_set(e, ERR_DATA, "the samples have changed: \"%s\" is missing", key[v[at].index]);
		else if (!strcmp(x.key, key[v[at].index]))
			rc = show(s, &v[at++], &x, samples_settings(samples), e);
	}
	mem_free(v);
	return rc;
}
