/* Turns a job into samples: decodes, resizes and encodes its pictures. Several threads run jobs at once. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/ingest.h"
#include "core/hash.h"
#include "core/mem.h"
#include "core/openread.h"
#include "data/entries.h"
#include "data/samples.h"
#include "file/fileio.h"
#include "file/resize.h"

#define FILE_MAX ((size_t)1 << 30)    /* most bytes of a picture file */
#define SIDECAR_MAX ((size_t)1 << 20) /* most bytes of a .cls, .json or .txt */

void item_release(struct item *it)
{
	for (int i = 0; i < it->n; i++)
		mem_free(it->m[i].data);
	mem_free(it->m);
	mem_free(it->key);
	*it = (struct item){0};
}

/* As item_add, but takes ownership of data. */
static void item_take(struct item *it, const char *ext, uint8_t *data, size_t len)
{
	int at = it->n;

	it->m = mem_resize(it->m, (size_t)it->n + 1, sizeof *it->m);
	while (at > 0 && strcmp(it->m[at - 1].ext, ext) > 0) {
		it->m[at] = it->m[at - 1];
		at--;
	}
	it->m[at] = (struct item_member){.data = data, .len = len};
	snprintf(it->m[at].ext, sizeof it->m[at].ext, "%s", ext);
	it->n++;
}

void item_add(struct item *it, const char *ext, const void *data, size_t len)
{
	uint8_t *copy = mem_alloc(len);

	if (len)
		memcpy(copy, data, len);
	item_take(it, ext, copy, len);
}

void result_release(struct result *r)
{
	for (int i = 0; i < r->n; i++)
		item_release(&r->v[i]);
	mem_free(r->v);
	*r = (struct result){0};
}

static void result_add(struct result *r, const struct item *it)
{
	if (r->n == r->cap) {
		r->cap = r->cap ? 2 * r->cap : 4;
		r->v = mem_resize(r->v, (size_t)r->cap, sizeof *r->v);
	}
	r->v[r->n++] = *it;
}

/* Add a frame to the result, where it waits to be written; takes ownership. 0 if the budget has no room for it: the result is then emptied and
 * marked, and the job must be run again alone. */
static int frame_wait(struct result *r, struct item *it, const struct work_options *o)
{
	uint64_t bytes = 0;

	for (int i = 0; i < it->n; i++)
		bytes += it->m[i].len;
	if (o->alone || !budget_wait(o->budget, bytes)) {
		result_add(r, it);
		return 1;
	}
	item_release(it);
	result_release(r);
	r->unkept = 1;
	return 0;
}

/* Resize p in place. */
static int picture_fit(struct picture *p, const struct work_options *o, struct err *e)
{
	int filter = 0, size = (int)o->size, rc;
	struct picture to;

	if (!size || (p->width == size && p->height == size))
		return 0;
	while (resize_filter_names[filter] && strcmp(resize_filter_names[filter], o->resize))
		filter++;
	if (resize_filter_names[filter])
		rc = picture_square(&to, p, size, (enum resize_filter)filter, e);
	else
		rc = picture_square_adm(&to, p, size, e);
	if (rc)
		return -1;
	picture_release(p);
	*p = to;
	return 0;
}

static uint64_t picture_hash(const struct picture *p)
{
	uint64_t dims[2] = {(uint64_t)p->width, (uint64_t)p->height};

	return hash64(p->pixels, (size_t)p->width * p->height * p->channels) ^ hash64(dims, sizeof dims);
}

/* Resize p, add it to the sample as a PNG, and release it. */
static int picture_store(struct item *it, struct picture *p, const struct work_options *o, struct err *e)
{
	uint8_t *data;
	size_t len;
	int rc = picture_fit(p, o, e);

	if (!rc) {
		it->hash = picture_hash(p);
		rc = still_encode_png(p, NULL, 0, &data, &len, e);
	}
	picture_release(p);
	if (!rc)
		item_take(it, "png", data, len);
	return rc;
}

/* Decode a picture to check it and to hash its pixels. With --size, also add the resized picture. data stays the caller's. */
static int still_take(struct item *it, const uint8_t *data, size_t len, const char *name, const struct work_options *o, struct err *e)
{
	struct still_limits limits = {o->max_pixels, o->memory};
	struct picture p;

	if (still_decode(&p, data, len, name, 3, &limits, e))
		return -1;
	if (o->size)
		return picture_store(it, &p, o, e);
	it->hash = picture_hash(&p);
	picture_release(&p);
	return 0;
}

/* Add a still picture to the sample: the file's own bytes, or with --size a resized PNG. Takes ownership of data. `name` is used in messages. */
static int still_store(struct item *it, uint8_t *data, size_t len, const char *name, const struct work_options *o, struct err *e)
{
	static const char *const ext[] = {[STILL_JPEG] = "jpg", [STILL_PNG] = "png", [STILL_WEBP] = "webp"};
	uint64_t bytes;
	int rc;

	if (still_budget(o->budget, data, len, name, o, &bytes, e)) {
		mem_free(data);
		return -1;
	}
	budget_take(o->budget, bytes);
	rc = still_take(it, data, len, name, o, e);
	budget_give(o->budget, bytes);
	if (rc || o->size)
		mem_free(data);
	else
		item_take(it, ext[still_sniff(data, len)], data, len);
	return rc;
}

/* Add the caption, class and facts beside a picture: NAME.txt for NAME.jpg. If the key is the whole name, IMG.1.jpg takes IMG.1.txt, or else
 * IMG.txt. */
static int sidecars_load(struct item *it, const struct job *j, struct err *e)
{
	static const char *const ext[] = {"cls", "json", "txt"};
	const char *slash = strrchr(j->path, '/'), *dot = strrchr(j->path, '.');
	size_t base = slash ? (size_t)(slash + 1 - j->path) : 0, stem = base + strcspn(j->path + base, ".");
	size_t whole = j->whole_name && dot ? (size_t)(dot - j->path) : stem;

	for (size_t i = 0; i < sizeof ext / sizeof *ext; i++) {
		char *name = str_new("%.*s.%s", (int)whole, j->path, ext[i]);
		uint8_t *data = NULL;
		size_t len;
		int there = path_exists(name);

		if (!there && whole != stem) {
			mem_free(name);
			name = str_new("%.*s.%s", (int)stem, j->path, ext[i]);
			there = path_exists(name);
		}
		if (there && (data = file_load(name, SIDECAR_MAX, &len, e)))
			item_take(it, ext[i], data, len);
		mem_free(name);
		if (there && !data)
			return -1;
	}
	return 0;
}

/* Check that the .cls is a number, because other programs would refuse the sample. With --classes it is replaced anyway and not checked. */
static int class_check(const struct item *it, const char *origin, const struct work_options *o, struct err *e)
{
	int32_t label;

	for (int i = 0; i < it->n && !o->classes; i++)
		if (!strcmp(it->m[i].ext, "cls")) {
			struct sample_member m = {"cls", it->m[i].data, it->m[i].len};
			struct sample s = {it->key, origin, 1, &m};

			return sample_class(&s, &label, e);
		}
	return 0;
}

static int still_work(struct item *it, const struct job *j, const struct work_options *o, struct err *e)
{
	size_t len;
	uint8_t *data = file_load(j->path, FILE_MAX, &len, e);

	return data ? still_store(it, data, len, j->path, o, e) : -1;
}

static struct decode_limits limits_for(const struct work_options *o, int64_t frames)
{
	return (struct decode_limits){frames, o->fps, o->max_pixels, o->timeout, o->bare, o->alone, o->size, o->budget};
}

static int file_open(struct decoder *d, const struct job *j, const struct work_options *o, int64_t frames, struct err *e)
{
	struct decode_limits l = limits_for(o, frames);
	int fd = open_seekable(j->path, e), rc;

	if (fd < 0)
		return -1;
	rc = decoder_open_file(d, fd, j->path, &l, e);
	close(fd);
	return rc;
}

/* Add a picture that FFmpeg decodes: its first frame. */
static int picture_work(struct item *it, const struct job *j, const struct work_options *o, struct err *e)
{
	struct decoder d = {0};
	struct picture p;
	uint64_t item, index;
	int rc = file_open(&d, j, o, 1, e);

	if (!rc)
		rc = decoder_next(&d, &p, &item, &index, o->stop, e);
	decoder_close(&d);
	if (rc == 0)
		return err_set(e, ERR_DATA, "%s: contains no picture", j->path);
	return rc < 0 ? -1 : picture_store(it, &p, o, e);
}

static int graph_open(struct decoder *d, const struct job *j, const struct work_options *o, struct err *e)
{
	struct decode_limits l = limits_for(o, o->graph_frames);
	char **texts = mem_zalloc((size_t)j->count, sizeof *texts);
	int rc = 0, any;

	for (int i = 0; i < j->count && !rc; i++) {
		struct str s = {0};

		rc = graph_expand(&s, j->graph, j->seed + (uint64_t)i, &any, e);
		texts[i] = mem_strdup(str_text(&s));
		str_release(&s);
	}
	if (!rc)
		rc = decoder_open_graphs(d, texts, j->count, j->name, &l, e);
	for (int i = 0; i < j->count; i++)
		mem_free(texts[i]);
	mem_free(texts);
	return rc;
}

int work_open(struct decoder *d, const struct job *j, const struct work_options *o, struct err *e)
{
	return j->graph ? graph_open(d, j, o, e) : file_open(d, j, o, o->frames, e);
}

/* Digits of a frame's number in keys. */
static int frame_digits(int64_t frames)
{
	int n = snprintf(NULL, 0, "%lld", (long long)frames - 1);

	return n < 4 ? 4 : n;
}

int work_next(struct decoder *d, const struct job *j, const struct work_options *o, struct item *it, struct err *e)
{
	struct picture p;
	struct str key = {0};
	uint64_t item, index;
	int rc = decoder_next(d, &p, &item, &index, o->stop, e);

	*it = (struct item){0};
	if (rc <= 0)
		return rc;
	if (picture_store(it, &p, o, e)) {
		item_release(it);
		return -1;
	}
	if (j->graph) {
		job_instance(&key, j, (int)item);
		str_printf(&key, "@%0*llu", frame_digits(o->graph_frames), (unsigned long long)index);
	} else {
		str_printf(&key, "%s@%06llu", j->key, (unsigned long long)index);
	}
	it->key = key.p;
	return 1;
}

static void frames_work(struct result *r, const struct job *j, const struct work_options *o)
{
	struct decoder d = {0};
	struct item it;
	int rc = work_open(&d, j, o, &r->e);

	while (!rc && work_next(&d, j, o, &it, &r->e) > 0 && frame_wait(r, &it, o))
		;
	decoder_close(&d);
}

void job_work(struct result *r, const struct job *j, const struct work_options *o)
{
	struct item it = {0};
	int rc;

	if (o->stop()) {
		err_set(&r->e, ERR_AGAIN, "interrupted");
	} else if (j->kind == MEDIA_NONE && !j->graph) {
		err_set(&r->e, ERR_DATA, "%s", j->why);
	} else if (j->graph || j->kind == MEDIA_VIDEO) {
		frames_work(r, j, o);
	} else {
		rc = j->kind == MEDIA_STILL ? still_work(&it, j, o, &r->e) : picture_work(&it, j, o, &r->e);
		it.key = mem_strdup(j->key);
		if (rc || sidecars_load(&it, j, &r->e) || class_check(&it, j->path, o, &r->e)) {
			item_release(&it);
			return;
		}
		if (j->kind == MEDIA_STILL)
			result_add(r, &it);
		else
			frame_wait(r, &it, o);
	}
}

int item_fit(struct item *it, const char *origin, const struct work_options *o, struct err *e)
{
	if (class_check(it, origin, o, e))
		return -1;
	for (int i = 0; i < it->n; i++) {
		struct item_member m = it->m[i];

		if (!entry_is_picture(m.ext))
			continue;
		memmove(it->m + i, it->m + i + 1, sizeof *it->m * (size_t)(it->n - i - 1));
		it->n--;
		return still_store(it, m.data, m.len, it->key, o, e);
	}
	return 0;
}
