/* Reads first frames from samples, and gathers those of a batch of clips. */
#include "sample/firstframes.h"

#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "data/samples.h"
#include "diffusion/gallery.h"
#include "file/npy.h"
#include "net/net.h"

/* What the frames are for. */
struct wanted {
	struct net_config net; /* channels and size */
	int64_t from, clips;
	float *frame; /* (channels, size, size) */
};

static int wrong_shape(const struct wanted *w, const char *name, int64_t channels, int64_t height, int64_t width, struct err *e)
{
	char ours[NET_SAMPLE_TEXT], theirs[NET_SAMPLE_TEXT];

	return err_set(e, ERR_DATA, "--first-frame: %s is %s, and the frames of the clips are %s", name,
	               net_sample_text(0, channels, height, width, theirs), net_sample_text(0, w->net.channels, w->net.size, w->net.size, ours));
}

static int take_picture(struct wanted *w, const struct sample *s, const char *name, struct err *e)
{
	const struct samples_options o = {.channels = w->net.channels == 1 ? 1 : 3};
	struct picture p = {0};
	int rc = -1;

	if (sample_pixels(&p, s, &o, e))
		return err_prefix(e, "--first-frame");
	if (p.channels != w->net.channels || p.width != w->net.size || p.height != w->net.size) {
		wrong_shape(w, name, p.channels, p.height, p.width, e);
	} else {
		gallery_numbers(w->frame, &p, 0);
		rc = 0;
	}
	picture_release(&p);
	return rc;
}

/* The first frame of a clip, or the array itself, whose numbers come first in either. */
static int take_numbers(struct wanted *w, const struct npy *a, const char *name, struct err *e)
{
	int64_t plane = w->net.size * w->net.size, n = w->net.channels * plane;
	const int64_t *shape = a->shape + (a->rank == 4);
	float *all;

	if (a->rank != 3 && a->rank != 4)
		return err_set(e, ERR_DATA, "--first-frame: %s is an array of rank %d; (channels, height, width) or a clip was expected", name,
		               a->rank);
	if (shape[0] != w->net.channels || shape[1] != w->net.size || shape[2] != w->net.size || npy_count(a) < n)
		return wrong_shape(w, name, shape[0], shape[1], shape[2], e);
	if (a->fortran)
		return err_set(e, ERR_DATA, "--first-frame: %s is in column-major order; numpy.ascontiguousarray makes it row-major", name);
	if (npy_not_finite(a))
		return err_set(e, ERR_DATA, "--first-frame: %s has a value that is NaN or infinite", name);
	if (!(all = mem_try((size_t)npy_count(a), sizeof *all, name, e)))
		return -1;
	npy_to_f32(all, a);
	for (int64_t i = 0; i < n; i++)
		w->frame[i] = a->type == NPY_U1 ? all[i] / 127.5f - 1 : all[i];
	mem_free(all);
	return 0;
}

static int take_array(struct wanted *w, const struct sample_member *m, const char *name, struct err *e)
{
	struct npy a;
	int rc;

	if (npy_parse(&a, m->data, m->len, name, e))
		return err_prefix(e, "--first-frame");
	rc = take_numbers(w, &a, name, e);
	npy_release(&a);
	return rc;
}

static int take_sample(struct wanted *w, const struct sample *s, struct err *e)
{
	const struct sample_member *m = sample_find(s, "npy");
	char *name = str_new("%s: %s", s->origin, s->key);
	int rc = m ? take_array(w, m, name, e) : take_picture(w, s, name, e);

	mem_free(name);
	return rc;
}

/* Keep the frames of the clips that are wanted. The first sample goes to the first clip too, in case it is the only one. */
static int read_all(struct firstframes *f, struct wanted *w, struct samples *in, struct err *e)
{
	struct sample s;
	int64_t i = 0;
	int got;

	for (; (got = samples_next(in, &s, e)) > 0; i++) {
		int64_t at = i ? i - w->from : 0;

		if (at < 0 || at >= w->clips)
			continue;
		if (take_sample(w, &s, e))
			return -1;
		net_put_first(&w->net, w->frame, f->row + (1 + at) * f->elements);
	}
	if (got < 0)
		return err_prefix(e, "--first-frame");
	samples_digest(in, f->hash);
	f->n = i == 1 ? 1 : w->clips;
	if (i == 1 || i >= w->from + w->clips)
		return 0;
	return err_set(e, ERR_USAGE,
	               "--first-frame: %lld samples, and clips up to number %lld are asked for; one for all, or one for each, was expected",
	               (long long)i, (long long)(w->from + w->clips - 1));
}

/* A lone array, which is no source of samples. */
static int read_file(struct firstframes *f, struct wanted *w, const char *path, struct err *e)
{
	struct npy a;
	int rc;

	if (npy_load(&a, path, e))
		return err_prefix(e, "--first-frame");
	rc = take_numbers(w, &a, path, e) || sha256_file(path, f->hash, NULL, e) ? -1 : 0;
	npy_release(&a);
	net_put_first(&w->net, w->frame, f->row + f->elements);
	f->n = 1;
	return rc;
}

static int read_samples(struct firstframes *f, struct wanted *w, const char *path, struct err *e)
{
	const struct samples_options o = {.channels = w->net.channels == 1 ? 1 : 3, .once = 1};
	struct samples *in = samples_open(&path, 1, &o, e);
	int rc = in ? read_all(f, w, in, e) : err_prefix(e, "--first-frame");

	samples_close(in);
	return rc;
}

int firstframes_load(struct firstframes *f, const char *path, int64_t channels, int64_t side, int64_t from, int64_t clips, struct err *e)
{
	struct wanted w = {.net = {.channels = channels, .size = side}, .from = from, .clips = clips};
	int rc = -1;

	f->of = from;
	f->elements = net_first_elements(&w.net);
	w.frame = mem_zalloc((size_t)(channels * side * side), sizeof *w.frame);
	if ((f->row = mem_try((size_t)(1 + clips), (size_t)f->elements * sizeof *f->row, "first frames", e))) {
		net_put_first(&w.net, NULL, f->row);
		rc = (str_ends(path, ".npy") ? read_file : read_samples)(f, &w, path, e);
	}
	mem_free(w.frame);
	return rc;
}

void firstframes_release(struct firstframes *f)
{
	mem_free(f->row);
	mem_free(f->batch);
	memset(f, 0, sizeof *f);
}

int firstframes_batch(struct firstframes *f, int64_t n, const int64_t *index, int32_t *rows, struct texts *texts, struct err *e)
{
	size_t bytes = (size_t)f->elements * sizeof *f->row;

	texts->first = f->row;
	texts->firsts = 2;
	for (int64_t i = 0; i < n; i++)
		rows[i] = 1;
	if (f->n == 1)
		return 0;
	if (n + 1 > f->room) {
		mem_free(f->batch);
		f->room = 0;
		if (!(f->batch = mem_try((size_t)(n + 1), bytes, "first frames of a batch", e)))
			return -1;
		f->room = n + 1;
	}
	memcpy(f->batch, f->row, bytes);
	for (int64_t i = 0; i < n; i++) {
		memcpy(f->batch + (1 + i) * f->elements, f->row + (1 + index[i] - f->of) * f->elements, bytes);
		rows[i] = (int32_t)(1 + i);
	}
	texts->first = f->batch;
	texts->firsts = 1 + n;
	return 0;
}
