/* data: encoding samples with an autoencoder and a text encoder, against direct calls of both and the formulas of a latent, for any batch and number
 * of threads, in order, with bad samples among them; and decoding latents to pictures. */
#include "tests/unit/pretrained.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/rng.h"
#include "data/encoding.h"
#include "file/commit.h"
#include "file/npy.h"
#include "net/autoencoder.h"

enum { N = 70, CAPTIONS = 6, FACTOR = 4, C = 3, MOST = 28 * 24 };

static const char vae[] = "tests/golden/autokl", text[] = "tests/golden/pretrained/text-clip";
static const int sizes[3][2] = {{16, 12}, {19, 27}, {16, 12}}; /* width, height; the second is cut to 16 x 24 */
static char *folder;

static void draw(struct picture *p, int i)
{
	uint32_t block[4];

	assert_int_equal(picture_alloc(p, sizes[i % 3][0], sizes[i % 3][1], 3, NULL), 0);
	for (int k = 0; k < p->width * p->height * 3; k++) {
		rng_block(1, RNG_TEST, 0, (uint64_t)i, (uint32_t)k, block);
		p->pixels[k] = (uint8_t)block[0];
	}
}

static void put(int i, const char *ext, const void *data, size_t len)
{
	char *path = str_new("%s/%03d.%s", folder, i, ext);

	assert_int_equal(commit_bytes(path, data, len, NULL), 0);
	mem_free(path);
}

static void captions(struct golden *g, char **held, const char **caption)
{
	golden_open(g, "text-clip");
	*held = mem_strndup(st_find(g->io, "texts")->data, (size_t)st_count(st_find(g->io, "texts")));
	for (int i = 0; i < CAPTIONS; i++) {
		char *end = strchr(i ? caption[i - 1] + strlen(caption[i - 1]) + 1 : *held, '\n');

		caption[i] = i ? caption[i - 1] + strlen(caption[i - 1]) + 1 : *held;
		if (end)
			*end = 0;
	}
}

static int make(void **state)
{
	const char *caption[CAPTIONS];
	struct golden g;
	char *held;

	(void)state;
	folder = str_new("%s/encoding-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	assert_non_null(mkdtemp(folder));
	captions(&g, &held, caption);
	for (int i = 0; i < N; i++) {
		struct picture p;
		uint8_t *png;
		size_t len;

		draw(&p, i);
		assert_int_equal(still_encode_png(&p, NULL, 0, &png, &len, NULL), 0);
		put(i, "png", png, len);
		put(i, "txt", caption[i % CAPTIONS], strlen(caption[i % CAPTIONS]));
		mem_free(png);
		picture_release(&p);
	}
	mem_free(held);
	golden_close(&g);
	return 0;
}

/* An encoding of `source` with everything that it needs. */
struct run {
	struct pool *pool;
	struct device *device;
	struct encoding *x;
	struct samples *s;
	struct err err;
};

static void run_open(struct run *r, const char *source, struct encoding_options o, int threads, int skip)
{
	struct samples_options so = {.once = 1, .skip_bad = skip};

	*r = (struct run){.pool = pool_new(threads, NULL)};
	o.device = r->device = device_cpu(r->pool, DT_F32);
	o.pool = r->pool;
	r->x = encoding_open(&o, &r->err);
	r->s = samples_open(&source, 1, &so, &r->err);
	if (!r->x || !r->s)
		fail_msg("%s", r->err.msg);
	encoding_begin(r->x, r->s);
}

static void run_close(struct run *r)
{
	encoding_free(r->x);
	samples_close(r->s);
	device_free(r->device);
	pool_free(r->pool);
}

static float *numbers(const struct sample *s, const char *ext, enum npy_type type, int64_t shape[3])
{
	const struct sample_member *m = sample_find(s, ext);
	struct err e = {0};
	struct npy a;
	float *v;

	assert_non_null(m);
	if (npy_parse(&a, m->data, m->len, ext, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(a.type, type);
	v = mem_zalloc((size_t)npy_count(&a), sizeof *v);
	npy_to_f32(v, &a);
	for (int i = 0; i < 3; i++)
		shape[i] = i < a.rank ? a.shape[i] : 1;
	npy_release(&a);
	return v;
}

/* The encoder's output for the centre crop of picture i, and the height and width of its latent. */
static void moments_of(struct autoencoder *a, int i, float *out, int64_t *h, int64_t *w)
{
	float x[3 * MOST];
	struct picture p;
	int64_t pw, ph, x0, y0;

	draw(&p, i);
	pw = p.width / FACTOR * FACTOR;
	ph = p.height / FACTOR * FACTOR;
	x0 = (p.width - pw) / 2;
	y0 = (p.height - ph) / 2;
	for (int64_t c = 0; c < 3; c++)
		for (int64_t k = 0; k < ph * pw; k++)
			x[c * ph * pw + k] = (float)p.pixels[((y0 + k / pw) * p.width + x0 + k % pw) * 3 + c] / 127.5f - 1;
	assert_int_equal(autoencoder_encode(a, 1, x, ph, pw, 0, out, NULL), 0);
	*h = ph / FACTOR;
	*w = pw / FACTOR;
	picture_release(&p);
}

/* The latents of a mirrored picture equal those of a mirrored file. */
static void mirrored(void **state)
{
	struct encoding_options o = {.vae = vae, .wide = 1};
	char *dir = str_new("%s-mirrored", folder), *kept = folder;
	struct run r, q;
	struct sample s, t;
	int n = 0;

	(void)state;
	assert_int_equal(mkdir(dir, 0777), 0);
	folder = dir;
	for (int i = 0; i < 6; i++) {
		struct picture p, turned;
		uint8_t *png;
		size_t len;

		draw(&p, i);
		draw(&turned, i);
		for (int k = 0; k < p.width * p.height * 3; k++)
			turned.pixels[k] = p.pixels[(k / 3 / p.width * p.width + p.width - 1 - k / 3 % p.width) * 3 + k % 3];
		assert_int_equal(still_encode_png(&turned, NULL, 0, &png, &len, NULL), 0);
		put(i, "png", png, len);
		mem_free(png);
		picture_release(&p);
		picture_release(&turned);
	}
	folder = kept;
	run_open(&q, dir, o, 1, 0);
	o.flip = 1;
	run_open(&r, folder, o, 1, 0);
	for (; encoding_next(q.x, &t, &q.err) > 0; n++) {
		static const char *const pairs[][2] = {{"flip.npy", "npy"}, {"flip.std.npy", "std.npy"}};

		assert_int_equal(encoding_next(r.x, &s, &r.err), 1);
		/* If a width is cropped unequally on both sides, the mirrored picture is cropped elsewhere. */
		for (int k = 0; k < 2 && sizes[n % 3][0] % FACTOR == 0; k++) {
			const struct sample_member *a = sample_find(&s, pairs[k][0]), *b = sample_find(&t, pairs[k][1]);

			assert_non_null(a);
			assert_int_equal(a->len, b->len);
			assert_memory_equal(a->data, b->data, a->len);
			assert_memory_not_equal(a->data, sample_find(&s, pairs[k][1])->data, a->len);
		}
		assert_int_equal(s.n, 6);
	}
	assert_int_equal(n, 6);
	run_close(&q);
	run_close(&r);
	mem_free(dir);
}

static void near(const float *got, double want, int64_t at, const char *what, int i)
{
	if (!(fabs((double)got[at] - want) <= 1e-5 * (1 + fabs(want))))
		fail_msg("%s of sample %d: element %lld is %.9g, not %.9g", what, i, (long long)at, (double)got[at], want);
}

static void latents(void **state)
{
	struct run r;
	struct autoencoder *a;
	struct sample s;
	int n = 0;

	(void)state;
	run_open(&r, folder, (struct encoding_options){.vae = vae, .wide = 1}, 2, 0);
	a = autoencoder_open(vae, AUTOENCODER_ENCODE, 1, COMPACT_NONE, r.device, NULL);
	while (encoding_next(r.x, &s, &r.err) > 0) {
		float m[2 * C * MOST / FACTOR / FACTOR], *mean, *std;
		int64_t h, w, shape[3], area;
		char key[16];

		snprintf(key, sizeof key, "%03d", n);
		assert_string_equal(s.key, key);
		moments_of(a, n, m, &h, &w);
		area = h * w;
		mean = numbers(&s, "npy", NPY_F4, shape);
		assert_true(shape[0] == C && shape[1] == h && shape[2] == w);
		std = numbers(&s, "std.npy", NPY_F4, shape);
		assert_true(shape[0] == C && shape[1] == h && shape[2] == w);
		for (int64_t k = 0; k < C * area; k++) {
			near(mean, ((double)m[k] - .1159) * .3611, k, "mean", n);
			near(std, exp(.5 * fmin(fmax((double)m[C * area + k], -30), 20)) * .3611, k, "deviation", n);
		}
		mem_free(mean);
		mem_free(std);
		assert_int_equal(s.n, 4); /* npy png std.npy txt */
		assert_string_equal(s.member[1].ext, "png");
		n++;
	}
	if (r.err.code)
		fail_msg("%s", r.err.msg);
	assert_int_equal(n, N);
	autoencoder_free(a);
	run_close(&r);
}

/* All members of all samples. */
static void gather(struct str *out, const char *source, struct encoding_options o, int threads)
{
	struct run r;
	struct sample s;
	int rc;

	run_open(&r, source, o, threads, 0);
	while ((rc = encoding_next(r.x, &s, &r.err)) > 0)
		for (int i = 0; i < s.n; i++) {
			str_printf(out, "%s.%s:", s.key, s.member[i].ext);
			str_add(out, s.member[i].data, s.member[i].len);
		}
	if (rc)
		fail_msg("%s", r.err.msg);
	run_close(&r);
}

static void any_batch(void **state)
{
	static const int64_t batches[] = {1, 3, 64};
	struct str first = {0};

	(void)state;
	gather(&first, folder, (struct encoding_options){.vae = vae, .text = text, .posterior = ENCODING_SAMPLE, .seed = 3}, 1);
	for (int k = 0; k < 3; k++) {
		struct str again = {0};

		gather(&again, folder,
		       (struct encoding_options){.vae = vae, .text = text, .posterior = ENCODING_SAMPLE, .seed = 3, .batch = batches[k]}, 1 + k);
		assert_int_equal(again.len, first.len);
		assert_memory_equal(again.p, first.p, first.len);
		str_release(&again);
	}
	str_release(&first);
}

/* Draws of the posterior are normal with its mean and deviation, and differ between seeds and between samples. */
static void draws(void **state)
{
	struct run r, q, again;
	struct sample s, t, u;
	double sum = 0, square = 0, same = 0;
	int64_t n = 0;

	(void)state;
	run_open(&r, folder, (struct encoding_options){.vae = vae, .wide = 1}, 1, 0);
	run_open(&q, folder, (struct encoding_options){.vae = vae, .wide = 1, .posterior = ENCODING_SAMPLE, .seed = 1}, 1, 0);
	run_open(&again, folder, (struct encoding_options){.vae = vae, .wide = 1, .posterior = ENCODING_SAMPLE, .seed = 2}, 1, 0);
	while (encoding_next(r.x, &s, &r.err) > 0 && encoding_next(q.x, &t, &q.err) > 0 && encoding_next(again.x, &u, &again.err) > 0) {
		int64_t shape[3];
		float *mean = numbers(&s, "npy", NPY_F4, shape), *std = numbers(&s, "std.npy", NPY_F4, shape);
		float *z = numbers(&t, "npy", NPY_F4, shape), *other = numbers(&u, "npy", NPY_F4, shape);

		assert_null(sample_find(&t, "std.npy"));
		for (int64_t k = 0; k < shape[0] * shape[1] * shape[2]; k++, n++) {
			double noise = ((double)z[k] - (double)mean[k]) / (double)std[k];

			sum += noise;
			square += noise * noise;
			same += noise * ((double)other[k] - (double)mean[k]) / (double)std[k];
		}
		mem_free(mean);
		mem_free(std);
		mem_free(z);
		mem_free(other);
	}
	assert_int_equal(samples_count(r.s), N);
	assert_true(n > 3000); /* five standard errors */
	assert_true(fabs(sum / (double)n) < 5 / sqrt((double)n));
	assert_true(fabs(square / (double)n - 1) < 5 * sqrt(2 / (double)n));
	assert_true(fabs(same / (double)n) < 5 / sqrt((double)n));
	run_close(&r);
	run_close(&q);
	run_close(&again);
}

/* Against transformers; float16 has 11 bits. */
static void texts(void **state)
{
	const char *caption[CAPTIONS];
	struct golden g;
	char *held;
	float *want, *pooled;
	struct run r;
	struct sample s;
	struct str null = {0}, null_pooled = {0};
	struct npy a;
	int n = 0;

	(void)state;
	captions(&g, &held, caption);
	want = reals(&g, "hidden0");
	pooled = reals(&g, "embedding0");
	run_open(&r, folder, (struct encoding_options){.text = text, .pooled = 1}, 1, 0);
	while (encoding_next(r.x, &s, &r.err) > 0) {
		int64_t shape[3];
		float *got = numbers(&s, "text.npy", NPY_F2, shape);

		assert_true(shape[0] == 16 && shape[1] == 8);
		for (int64_t k = 0; k < 16 * 8; k++) {
			double w = (double)want[n % CAPTIONS * 128 + k];

			assert_true(fabs((double)got[k] - w) <= 1e-4 + fabs(w) / 2048);
		}
		assert_null(sample_find(&s, "npy"));
		mem_free(got);
		got = numbers(&s, "pooled.npy", NPY_F2, shape);
		assert_int_equal(shape[0], 8);
		for (int64_t k = 0; k < 8; k++) {
			double w = (double)pooled[n % CAPTIONS * 8 + k];

			assert_true(fabs((double)got[k] - w) <= 1e-4 + fabs(w) / 2048);
		}
		mem_free(got);
		n++;
	}
	assert_int_equal(n, N);
	assert_int_equal(encoding_cut(r.x), N / CAPTIONS + (N % CAPTIONS > 4)); /* the fifth caption */
	assert_int_equal(encoding_null_text(r.x, &null, &null_pooled, NULL), 0);
	assert_int_equal(npy_parse(&a, null_pooled.p, null_pooled.len, "null", NULL), 0);
	assert_true(a.rank == 1 && a.shape[0] == 8);
	npy_release(&a);
	assert_int_equal(npy_parse(&a, null.p, null.len, "null", NULL), 0);
	assert_true(a.rank == 2 && a.shape[0] == 16 && a.shape[1] == 8);
	npy_to_f32(want + 128, &a);
	for (int k = 0; k < 128; k++) /* the first caption is empty */
		assert_true(fabsf(want[128 + k] - want[k]) <= 1e-4f + fabsf(want[k]) / 2048);
	npy_release(&a);
	run_close(&r);

	str_reset(&null);
	str_reset(&null_pooled);
	run_open(&r, folder, (struct encoding_options){.text = "tests/golden/pretrained/text-t5", .tokens = 20}, 1, 0);
	assert_int_equal(encoding_null_text(r.x, &null, &null_pooled, NULL), 0);
	assert_int_equal(null_pooled.len, 0);
	assert_int_equal(npy_parse(&a, null.p, null.len, "null", NULL), 0);
	assert_true(a.shape[0] == 1 && a.shape[1] == 10); /* </s> */
	npy_release(&a);
	run_close(&r);
	str_release(&null);
	str_release(&null_pooled);
	mem_free(pooled);
	mem_free(want);
	mem_free(held);
	golden_close(&g);
}

/* Latents that were written are decoded to the decoder's pictures. */
static void back(void **state)
{
	struct encoding_options way_in = {.vae = vae, .wide = 1, .drop = 1, .posterior = ENCODING_MEAN}, way_out = {.vae = vae, .decode = 1};
	char *dir = str_new("%s-latents", folder), *kept = folder;
	struct autoencoder *a;
	struct run r, q;
	struct sample s, t;
	int n = 0;

	(void)state;
	assert_int_equal(mkdir(dir, 0777), 0);
	run_open(&r, folder, way_in, 1, 0);
	folder = dir;
	while (encoding_next(r.x, &s, &r.err) > 0) {
		assert_null(sample_picture(&s));
		put(n++, "npy", sample_find(&s, "npy")->data, sample_find(&s, "npy")->len);
	}
	run_close(&r);
	folder = kept;
	run_open(&q, dir, way_out, 2, 0);
	run_open(&r, folder, way_in, 1, 0);
	a = autoencoder_open(vae, AUTOENCODER_DECODE, 1, COMPACT_NONE, r.device, NULL);
	for (n = 0; encoding_next(q.x, &t, &q.err) > 0; n++) {
		int64_t shape[3];
		float *z, x[3 * MOST];
		struct picture p;
		struct samples_options so = {0};

		assert_int_equal(encoding_next(r.x, &s, &r.err), 1);
		z = numbers(&s, "npy", NPY_F4, shape);
		for (int64_t k = 0; k < shape[0] * shape[1] * shape[2]; k++)
			z[k] = (float)((double)z[k] / .3611 + .1159);
		assert_int_equal(autoencoder_decode(a, 1, z, shape[1], shape[2], 0, x, NULL), 0);
		assert_int_equal(t.n, 1);
		assert_int_equal(sample_pixels(&p, &t, &so, NULL), 0);
		assert_true(p.width == FACTOR * shape[2] && p.height == FACTOR * shape[1]);
		for (int64_t k = 0; k < p.width * p.height; k++)
			for (int c = 0; c < 3; c++) {
				double v = fmin(fmax(((double)x[c * p.width * p.height + k] + 1) * 127.5, 0), 255);

				assert_true(fabs((double)p.pixels[3 * k + c] - v) <= .501);
			}
		picture_release(&p);
		mem_free(z);
	}
	assert_int_equal(n, N);
	autoencoder_free(a);
	run_close(&q);
	run_close(&r);
	mem_free(dir);
}

static void refused(struct encoding_options o, int code, const char *says)
{
	struct err e = {0};
	struct pool *pool = pool_new(1, NULL);

	o.device = device_cpu(pool, DT_F32);
	o.pool = pool;
	assert_null(encoding_open(&o, &e));
	if (e.code != code || !strstr(e.msg, says))
		fail_msg("%d %s, and not %d with \"%s\"", e.code, e.msg, code, says);
	device_free(o.device);
	pool_free(pool);
}

static void refusals(void **state)
{
	struct encoding_options both = {.vae = vae, .text = text};
	const float large[2] = {1, 70000}, none[2] = {1, NAN};
	const int64_t two = 2;
	struct str npy = {0};
	struct err e = {0};
	struct run r;
	struct sample s;
	char *path;
	int n = 0;

	(void)state;
	refused((struct encoding_options){.vae = vae, .size = 30}, ERR_USAGE, "multiple of 4");
	refused((struct encoding_options){.text = text, .decode = 1}, ERR_USAGE, "autoencoder");
	refused((struct encoding_options){.vae = "tests/golden"}, ERR_NOINPUT, "config.json");
	assert_int_equal(encoding_array(&npy, 0, 1, &two, large, "it", &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	assert_int_equal(encoding_array(&npy, 1, 1, &two, none, "it", NULL), -1);
	assert_int_equal(encoding_array(&npy, 1, 1, &two, large, "it", NULL), 0);
	str_release(&npy);

	path = str_new("%s/065.txt", folder); /* of the second batch */
	assert_int_equal(unlink(path), 0);
	put(7, "png", "\x89PNG\r\n\x1a\nno more", 15);
	run_open(&r, folder, both, 1, 0);
	while (encoding_next(r.x, &s, &r.err) > 0)
		n++;
	assert_int_equal(n, 7);
	assert_int_equal(r.err.code, ERR_DATA);
	assert_non_null(strstr(r.err.msg, "007"));
	run_close(&r);
	run_open(&r, folder, both, 1, 1);
	for (n = 0; encoding_next(r.x, &s, &r.err) > 0; n++)
		assert_true(strcmp(s.key, "007") && strcmp(s.key, "065"));
	assert_int_equal(r.err.code, 0);
	assert_int_equal(n, N - 2);
	assert_int_equal(samples_skipped(r.s), 2);
	run_close(&r);
	mem_free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(latents), cmocka_unit_test(mirrored), cmocka_unit_test(any_batch), cmocka_unit_test(draws),
	    cmocka_unit_test(texts),   cmocka_unit_test(back),     cmocka_unit_test(refusals),
	};

	return cmocka_run_group_tests(tests, make, NULL);
}
