/* Classes and pixels of samples. */
#include <assert.h>
#include <limits.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "data/entries.h"
#include "data/samples.h"
#include "file/frames.h"
#include "file/resize.h"

enum { MAX_PIXELS = 1 << 26 };
static const size_t BATCH_BYTES = (size_t)128 << 20; /* limit for the encoded pictures, and for the decoded ones if they keep their size */

int sample_class(const struct sample *s, int32_t *label, struct err *e)
{
	const struct sample_member *m = sample_find(s, "cls");
	char text[16];
	size_t len;
	int64_t v;

	*label = -1;
	if (!m)
		return 0;
	for (len = m->len; len && strchr(" \r\n", ((const char *)m->data)[len - 1]); len--)
		;
	if (len < sizeof text) {
		memcpy(text, m->data, len);
		text[len] = 0;
	}
	if (len >= sizeof text || memchr(text, 0, len) || parse_i64(text, 0, INT32_MAX - 1, &v))
		return err_set(e, ERR_DATA, "%s: the class of \"%s\" is not a number in 0..%d", s->origin, s->key, INT32_MAX - 1);
	*label = (int32_t)v;
	return 0;
}

static int decode(struct picture *out, const void *data, size_t len, const char *name, const struct samples_options *o, struct err *e)
{
	struct still_limits limits = o->limits;
	struct picture p;
	int rc, side;

	if (!limits.max_pixels)
		limits.max_pixels = MAX_PIXELS;
	if (still_decode(&p, data, len, name, o->channels ? o->channels : 3, &limits, e))
		return -1;
	side = p.width < p.height ? p.width : p.height;
	if (!o->size || (p.width == o->size && p.height == o->size)) {
		*out = p;
		return 0;
	}
	/* Enlarging cannot be used as a decompression bomb: even a 1 x 1 picture costs no more than size^2. */
	rc = picture_square(out, &p, o->size, o->size < side ? RESIZE_LANCZOS : RESIZE_BICUBIC, e);
	picture_release(&p);
	return rc;
}

/* The frames of a clip, one below the other. */
static int decode_clip(struct picture *out, int *frames, const void *data, size_t len, const char *name, struct err *e)
{
	struct npy a;
	struct clip c;
	int rc = -1;

	if (npy_parse(&a, data, len, name, e))
		return -1;
	if (!clip_of(&c, &a, name, e)) {
		if (npy_count(&a) > MAX_PIXELS || (int64_t)c.frames * c.height > INT_MAX)
			err_set(e, ERR_DATA, "%s: a clip of more than %d numbers", name, MAX_PIXELS);
		else
			rc = picture_alloc(out, c.width, c.frames * c.height, c.channels, e);
		for (int i = 0; !rc && i < c.frames; i++)
			clip_pixels(out->pixels + (size_t)i * (size_t)c.height * (size_t)c.width * (size_t)c.channels, &c, i, c.channels);
		*frames = c.frames;
	}
	npy_release(&a);
	return rc;
}

/* The name of a sample in messages: "ORIGIN" for a file, "ORIGIN: key" for a member of an archive. */
static char *describe(const struct sample *s)
{
	return strstr(s->origin, s->key) ? mem_strdup(s->origin) : str_new("%s: \"%s\"", s->origin, s->key);
}

int sample_pixels(struct picture *out, const struct sample *s, const struct samples_options *o, struct err *e)
{
	const struct sample_member *m = sample_picture(s);
	char *name;
	int rc;

	*out = (struct picture){0};
	name = describe(s);
	rc = m ? decode(out, m->data, m->len, name, o, e) : err_set(e, ERR_DATA, "%s has no picture", name);
	mem_free(name);
	return rc;
}

/* One picture to be decoded by the pool. */
struct job {
	char *key, *name, *text;
	void *data;
	size_t len;
	int32_t label;
	int clip, frames; /* clip: data is an array of frames */
	struct picture picture;
	struct err err;
};

struct jobs {
	struct job *v;
	const struct samples_options *o;
};

static void decode_task(void *arg, int64_t task, int worker)
{
	struct jobs *a = arg;
	struct job *j = &a->v[task];

	(void)worker;
	if (!j->err.code && j->clip)
		decode_clip(&j->picture, &j->frames, j->data, j->len, j->name, &j->err);
	else if (!j->err.code)
		decode(&j->picture, j->data, j->len, j->name, a->o, &j->err);
	mem_free(j->data);
	j->data = NULL;
}

/* Bytes of the decoded picture in the batch. */
static size_t weigh(const struct sample_member *m, const struct samples_options *o)
{
	struct err ignored = {0};
	int w, h;

	if (o->size)
		return (size_t)o->size * (size_t)o->size * 3;
	if (still_size(m->data, m->len, "", &w, &h, &ignored))
		return 0;
	return (size_t)w * (size_t)h * 3;
}

static void job_fill(struct job *j, const struct sample *s, const struct samples_options *o)
{
	const struct sample_member *m = sample_picture(s), *text = sample_find(s, "txt");
	int clip = !m && o->clips && (m = sample_find(s, "npy"));

	*j = (struct job){.key = mem_strdup(s->key), .name = describe(s), .label = -1, .clip = clip, .frames = 1};
	if (!m) {
		err_set(&j->err, ERR_DATA, "%s has no picture", j->name);
		return;
	}
	if (sample_class(s, &j->label, &j->err))
		return;
	if (text)
		j->text = mem_strndup(text->data, strnlen(text->data, text->len));
	j->data = mem_alloc(m->len + 1);
	memcpy(j->data, m->data, m->len);
	j->len = m->len;
}

static void job_release(struct job *j)
{
	mem_free(j->key);
	mem_free(j->name);
	mem_free(j->text);
	mem_free(j->data);
	picture_release(&j->picture);
}

static int gather(struct samples *s, struct job *v, int max, struct err *e)
{
	const struct samples_options *o = samples_settings(s);
	size_t coded = 0, decoded = 0;
	int n = 0;

	while (n < max && coded < BATCH_BYTES && decoded < BATCH_BYTES) {
		struct sample x;
		int rc = samples_next(s, &x, e);

		if (rc < 0) {
			while (n)
				job_release(&v[--n]);
			return -1;
		}
		if (!rc)
			break;
		job_fill(&v[n], &x, o);
		coded += v[n].len;
		if (v[n].clip)
			decoded += v[n].len;
		else if (v[n].data)
			decoded += weigh(sample_picture(&x), o);
		n++;
	}
	return n;
}

static void clear(struct picture_batch *b)
{
	for (int i = 0; i < b->n; i++) {
		mem_free(b->key[i]);
		mem_free(b->text[i]);
		picture_release(&b->picture[i]);
	}
	b->n = 0;
}

static void reserve(struct picture_batch *b, int max)
{
	if (max <= b->cap)
		return;
	b->cap = max;
	b->key = mem_resize(b->key, (size_t)max, sizeof *b->key);
	b->picture = mem_resize(b->picture, (size_t)max, sizeof *b->picture);
	b->frames = mem_resize(b->frames, (size_t)max, sizeof *b->frames);
	b->label = mem_resize(b->label, (size_t)max, sizeof *b->label);
	b->text = mem_resize(b->text, (size_t)max, sizeof *b->text);
}

int samples_pictures(struct samples *s, struct pool *p, int max, struct picture_batch *b, struct err *e)
{
	struct jobs a = {mem_zalloc((size_t)max, sizeof *a.v), samples_settings(s)};
	int n, rc = 0;

	assert(max > 0);
	clear(b);
	reserve(b, max);
	do {
		n = gather(s, a.v, max, e);
		if (n > 0)
			pool_run(p, n, decode_task, &a);
		for (int i = 0; i < n; i++) {
			struct job *j = &a.v[i];

			if (j->err.code && !rc && samples_bad(s, &j->err)) {
				*e = j->err;
				rc = -1;
			} else if (!rc && j->picture.pixels) {
				b->key[b->n] = j->key;
				b->picture[b->n] = j->picture;
				b->frames[b->n] = j->frames;
				b->text[b->n] = j->text;
				b->label[b->n++] = j->label;
				j->key = j->text = NULL;
				j->picture = (struct picture){0};
			}
			job_release(j);
		}
	} while (n > 0 && !rc && !b->n);
	mem_free(a.v);
	if (n < 0 || rc)
		clear(b);
	return n < 0 || rc ? -1 : b->n;
}

void picture_batch_release(struct picture_batch *b)
{
	clear(b);
	mem_free(b->key);
	mem_free(b->picture);
	mem_free(b->frames);
	mem_free(b->label);
	mem_free(b->text);
	*b = (struct picture_batch){0};
}
