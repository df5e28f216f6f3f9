/* Latents with deviations, and texts: reading, drawing, dropping. Networks that read texts learn from them, on the CPU and on a device with its own
 * memory, with the same bytes however they ran, and with PyTorch's step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/shortfloat.h"
#include "data/dataset.h"
#include "file/commit.h"
#include "net/model.h"
#include "net/trunkconfig.h"
#include "tests/unit/folderhash.h"
#include "tests/unit/far.h"
#include "tests/unit/tinyrun.h"
#include "tests/unit/told.h"
#include "train/trainer.h"

static char dir[] = "/tmp/ddm-captions-XXXXXX", *shards;

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	shards = make_captions(dir, "shards", &(struct captions){.std = 1, .flip = 1});
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	mem_free(shards);
	return dir_remove(dir, NULL);
}

static const struct dataset_options everything = {
    .cluster = DATASET_ALL, .verify = 1, .deviations = 1, .mirrored = 1, .text = 1, .text_tokens = TOKENS + 1};

static void check_item(struct dataset *d, int64_t i, int mirrored)
{
	float x[TINT], std[TINT];
	uint16_t text[(TOKENS + 1) * WIDTH];
	struct dataset_item it = {.mirrored = mirrored, .x = x, .std = std, .text = text};
	struct err e = {0};

	memset(text, 0xff, sizeof text);
	if (dataset_item(d, i, &it, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(it.rows, tint_rows(i));
	assert_int_equal(it.label, -1);
	assert_int_equal(it.cluster, 0);
	for (int k = 0; k < TINT; k++) {
		int at = mirrored ? k / TINT_SIDE * TINT_SIDE + TINT_SIDE - 1 - k % TINT_SIDE : k;

		assert_true(x[k] == (mirrored ? tint_mean(i, at) + .25f : tint_mean(i, at)));
		assert_true(std[k] == (mirrored ? 3 * tint_std(i, at) : tint_std(i, at)));
	}
	for (int r = 0; r <= TOKENS; r++)
		for (int c = 0; c < WIDTH; c++)
			assert_true(f16_to_f32(text[r * WIDTH + c]) == (r < it.rows ? tint_text(i, r, c) : 0));
}

/* Read from the shards and, the second time, from memory; of all samples, some, none. */
static void reads(void **state)
{
	static const uint64_t budgets[] = {1, 4000, 0};

	(void)state;
	for (int b = 0; b < 3; b++) {
		struct dataset_options o = everything;
		const struct dataset_info *info;
		struct err e = {0};
		struct dataset *d;

		o.budget = budgets[b];
		d = dataset_open(shards, &o, &e);
		if (!d)
			fail_msg("%s", e.msg);
		info = dataset_info(d);
		assert_int_equal(info->count, TINTED);
		assert_true(info->arrays && info->deviations);
		assert_int_equal(info->text_tokens, TOKENS + 1);
		assert_int_equal(info->text_width, WIDTH);
		if (b == 2)
			assert_int_equal(info->kept_bytes, TINTED * (4 * TINT * sizeof(float) + (TOKENS + 1) * WIDTH * sizeof(uint16_t)));
		for (int again = 0; again < 2; again++)
			for (int64_t i = 0; i < TINTED; i++)
				check_item(d, i, (i + again) % 2);
		dataset_free(d);
	}
}

/* A reader that does not request deviations gets the mean. */
static void reads_no_more_than_asked(void **state)
{
	struct dataset_options o = {.cluster = DATASET_ALL};
	struct err e = {0};
	struct dataset *d = dataset_open(shards, &o, &e);
	float x[TINT];

	(void)state;
	assert_non_null(d);
	assert_int_equal(dataset_info(d)->kept_bytes, TINTED * TINT * sizeof(float));
	assert_int_equal(dataset_info(d)->text_tokens, 0);
	assert_false(dataset_info(d)->deviations);
	assert_int_equal(dataset_read(d, 3, x, NULL, NULL, &e), 0);
	for (int k = 0; k < TINT; k++)
		assert_true(x[k] == tint_mean(3, k));
	dataset_free(d);
}

static void refuses(void **state)
{
	static const struct {
		enum caption_fault fault;
		const char *says;
	} bad[] = {{NO_TEXT, "no features of a text"},
	           {WIDE_TEXT, "of width 5, the others of 6"},
	           {FLAT_TEXT, "of shape (tokens, width)"},
	           {HUGE_TEXT, "a text feature of 70000 does not fit into float16"},
	           {EMPTY_TEXT, "impossible size"},
	           {WHOLE_TEXT, "must be floating-point numbers"},
	           {NO_STD, "flip.std.npy without std.npy"},
	           {ODD_STD, "std.npy is of another shape"},
	           {NO_FLIP, "no flip.npy"},
	           {NO_FLIP_STD, "std.npy without flip.std.npy"}};
	struct dataset_options o = everything;
	struct dataset_item it = {0};
	struct dataset *d;
	struct err e = {0};
	char *root;

	(void)state;
	for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
		struct captions c = {.std = 1, .flip = 1, .fault = bad[k].fault, .bad_at = 4};
		char *name = str_new("bad%d", (int)k);

		root = make_captions(dir, name, &c);
		d = dataset_open(root, &everything, &e);
		assert_non_null(d);
		assert_int_equal(dataset_item(d, 3, &it, &e), 0);
		assert_int_equal(dataset_item(d, 4, &it, &e), -1);
		if (e.code != ERR_DATA || !strstr(e.msg, bad[k].says) || !strstr(e.msg, "t00004"))
			fail_msg("%s", e.msg);
		e = (struct err){0};
		dataset_free(d);
		mem_free(root);
		mem_free(name);
	}
	o.mirrored = 0;
	root = make_captions(dir, "bad", &(struct captions){.std = 1, .fault = NO_STD, .bad_at = 9});
	d = dataset_open(root, &o, &e);
	assert_non_null(d);
	assert_int_equal(dataset_item(d, 9, &it, &e), -1);
	assert_non_null(strstr(e.msg, "has no std.npy, unlike the others"));
	dataset_free(d);
	mem_free(root);
	o.text_tokens = TOKENS - 1;
	e = (struct err){0};
	assert_null(dataset_open(shards, &o, &e));
	assert_non_null(strstr(e.msg, "the text has 3 tokens, more than the limit of 2"));
}

static struct dataset *open_all(int mirrored)
{
	struct dataset_options o = everything;
	struct err e = {0};
	struct dataset *d;

	o.mirrored = mirrored;
	d = dataset_open(shards, &o, &e);
	if (!d)
		fail_msg("%s", e.msg);
	return d;
}

/* Over n passes, mean and variance of each element are those of the sample within 5 standard errors, and the draws of two positions are
 * independent. */
static void latents_are_drawn(void **state)
{
	enum { N = 4000 };
	struct dataset *d = open_all(0);
	struct loader_options o = {.batch = TINTED, .seed = 5};
	struct err e = {0};
	struct loader *l = loader_new(d, &o, &e);
	struct batch b;
	double sum = 0, square = 0, cross = 0, last = 0, expected = 0;
	int64_t n = 0;

	(void)state;
	for (int64_t s = 0; s < N / TINTED; s++) {
		assert_int_equal(loader_next(l, &b, &e), 0);
		for (int j = 0; j < TINTED; j++)
			for (int k = 0; k < TINT; k++) {
				double z = ((double)b.x[j * TINT + k] - (double)tint_mean(b.index[j], k)) / (double)tint_std(b.index[j], k);

				sum += z;
				square += z * z;
				cross += z * last;
				last = z;
				n++;
			}
	}
	expected = sqrt((double)n);
	assert_true(fabs(sum) < 5 * expected);
	assert_true(fabs(square - (double)n) < 5 * sqrt(2) * expected);
	assert_true(fabs(cross) < 5 * expected);
	loader_free(l);
	dataset_free(d);
}

/* Every random choice follows from its key: order, mirroring, noise, dropping; from any first batch, with and without prefetching. */
static void batches(void **state)
{
	static const struct {
		int64_t first;
		int ahead;
	} ways[] = {{0, 0}, {0, 2}, {7, 1}};
	enum { B = 5, BATCHES = 40 };
	struct dataset *d = open_all(1);
	uint16_t none[(TOKENS + 1) * WIDTH] = {0};
	struct err e = {0};
	int64_t dropped = 0, total = 0;

	(void)state;
	for (int c = 0; c < WIDTH; c++)
		none[c] = f32_to_f16(null_text(0, c));
	for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
		struct loader_options o = {.batch = B, .seed = 11, .flip = 1, .text_drop = .3, .null_text = none, .null_rows = 1};
		struct loader *l;
		struct batch b;

		o.first = ways[w].first;
		o.ahead = ways[w].ahead;
		l = loader_new(d, &o, &e);
		assert_non_null(l);
		for (int64_t s = o.first; s < BATCHES; s++) {
			assert_int_equal(loader_next(l, &b, &e), 0);
			for (int64_t j = 0; j < B; j++) {
				uint64_t p = (uint64_t)(s * B + j);
				int64_t i = (int64_t)rng_permute(p % TINTED, TINTED, 11, RNG_SHUFFLE, p / TINTED);
				int drop = rng_uniform(11, RNG_LABEL, (uint64_t)s, (uint64_t)j, 0) < .3;
				int mirrored = rng_uniform(11, RNG_FLIP, 0, p, 0) < .5;
				float x[TINT], std[TINT], z[TINT];
				struct dataset_item it = {.mirrored = mirrored, .x = x, .std = std};

				total++;
				dropped += drop;
				assert_int_equal(dataset_item(d, i, &it, &e), 0);
				rng_normal(z, TINT, 11, RNG_LATENT, 0, p);
				for (int k = 0; k < TINT; k++)
					assert_true(b.x[j * TINT + k] == x[k] + std[k] * z[k]);
				assert_int_equal(b.index[j], i);
				assert_int_equal(b.rows[j], drop ? 1 : tint_rows(i));
				for (int r = 0; r <= TOKENS; r++)
					for (int c = 0; c < WIDTH; c++) {
						float own = r < tint_rows(i) ? tint_text(i, r, c) : 0;

						assert_true(b.text[(j * (TOKENS + 1) + r) * WIDTH + c] == (drop ? null_text(r, c) : own));
					}
			}
		}
		loader_free(l);
	}
	/* 5 standard deviations of a binomial. */
	assert_true(fabs((double)dropped - .3 * (double)total) < 5 * sqrt(.21 * (double)total));
	dataset_free(d);
}

static struct train_options tiny(const struct net_def *def, const char *out)
{
	struct train_options o = tiny_run(def, shards, out);

	trunk_edit(&o.net)->hidden = 24;
	trunk_edit(&o.net)->depth = 1;
	o.sample_every = 8;
	o.validate_every = 4;
	o.validate_samples = 7;
	o.log_every = 1;
	o.ema_half_life = -1;
	return o;
}

struct watch {
	volatile sig_atomic_t stop;
	int64_t stop_at;
	double sum, val_loss, loss, norm;
};

static void on_step(void *arg, const struct train_step *s)
{
	struct watch *w = arg;

	w->sum += (double)s->step * (s->loss + s->grad_norm + (isnan(s->val_loss) ? 0 : s->val_loss));
	w->loss = s->loss;
	w->norm = s->grad_norm;
	w->val_loss = isnan(s->val_loss) ? w->val_loss : s->val_loss;
	w->stop = s->step == w->stop_at;
}

static int run(const struct train_options *o, int far, int threads, struct watch *w, struct err *e)
{
	struct train_hooks h = {.step = on_step, .arg = w, .stop = &w->stop};
	struct pool *pool = pool_new(threads, e);
	struct device *d = far ? device_far(pool) : device_cpu(pool, DT_F32);
	int rc = train_run(o, d, &h, e);

	device_free(d);
	pool_free(pool);
	return rc;
}

static void must_run(const struct train_options *o, int far, int threads, struct watch *w)
{
	struct err e = {0};

	if (run(o, far, threads, w, &e))
		fail_msg("%s", e.msg);
}

/* On other numbers of threads, with recomputation, with device memory, interrupted and resumed: the same bytes, also of a sheet of samples. */
static void same_bytes(void **state)
{
	static const struct net_def *const kinds[] = {&net_paris, &net_pixart};
	static const char *const files[] = {"diffusion_pytorch_model.safetensors", "train/samples-00000008.png"};

	for (int k = 0; k < 2; k++) {
		char *base = str_new("%s/base%d", dir, k), *other = str_new("%s/other%d", dir, k), want[2][65], hex[65];
		struct train_options o = tiny(kinds[k], base);
		struct watch w = {0}, v = {0};

		(void)state;
		o.flip = k;
		o.accumulate = 3 - k;
		must_run(&o, 0, 1, &w);
		file_hash(base, files[0], want[0]);
		file_hash(base, files[1], want[1]);
		o.out = other;
		for (int way = 0; way < 3; way++) {
			static const int64_t stops[] = {3, 4, 6};

			v = (struct watch){0};
			o.recompute = way == 0;
			for (int s = 0; s < 3 && way == 2; s++) {
				struct watch u = {.stop_at = stops[s]};
				struct err e = {0};

				assert_int_equal(run(&o, s % 2, 2, &u, &e), -1);
				assert_int_equal(e.code, ERR_AGAIN);
			}
			must_run(&o, way > 0, 3, &v);
			assert_true(way == 2 || v.sum == w.sum);
			for (int f = 0; f < 2; f++) {
				file_hash(other, files[f], hex);
				assert_string_equal(hex, want[f]);
			}
			dir_remove(other, NULL);
		}
		o.recompute = 0;
		o.text_drop = .9;
		must_run(&o, 0, 2, &v);
		file_hash(other, files[0], hex);
		assert_string_not_equal(hex, want[0]);
		mem_free(base);
		mem_free(other);
	}
}

/* With a mask the length of the padding does not matter, without one it does. */
static void padding_is_masked(void **state)
{
	static const struct net_def *const kinds[] = {&net_paris, &net_pixart};

	(void)state;
	for (int k = 0; k < 2; k++) {
		struct watch w[2] = {{0}};

		for (int more = 0; more < 2; more++) {
			char *out = str_new("%s/padded%d%d", dir, k, more);
			struct train_options o = tiny(kinds[k], out);

			o.net.text_tokens = TOKENS + 4 * more;
			o.sample_every = 0;
			must_run(&o, 0, 1, &w[more]);
			mem_free(out);
		}
		assert_true(w[0].val_loss > 0);
		assert_true((fabs(w[1].val_loss / w[0].val_loss - 1) < 1e-5) == (kinds[k] == &net_pixart));
		assert_true((fabs(w[1].sum / w[0].sum - 1) < 1e-5) == (kinds[k] == &net_pixart));
	}
}

enum { ASKED = TINTS * 8 };
enum whose { RIGHT, WRONG, NOBODYS };

/* Mean squared error of the velocity at t = .9 for new samples with their own text, another one's, or none. */
static double error_with(struct model *m, enum whose whose, int tokens)
{
	float x[ASKED * TINT], t[ASKED], v[ASKED * TINT], text[ASKED * TOKENS * WIDTH] = {0}, mask[ASKED * TOKENS], z[TINT];
	struct model_input in = {.x = x, .t = t, .text = text, .mask = model_config(m)->net.def == &net_pixart ? mask : NULL};
	double sum = 0;

	for (int i = 0; i < ASKED; i++) {
		int64_t told = whose == WRONG ? i + 1 : i;
		int rows = whose == NOBODYS ? 1 : tint_rows(told);

		rng_normal(z, TINT, 99, RNG_TEST, 0, (uint64_t)i);
		t[i] = .9f;
		for (int k = 0; k < TINT; k++)
			x[i * TINT + k] = .1f * tint_mean(i, k) + .9f * z[k];
		for (int r = 0; r < tokens; r++) {
			mask[i * tokens + r] = r < rows ? 0 : -10000;
			for (int c = 0; c < WIDTH && r < rows; c++)
				text[(i * tokens + r) * WIDTH + c] = whose == NOBODYS ? null_text(r, c) : tint_text(told, r, c);
		}
	}
	model_run(m, ASKED, &in, v);
	for (int i = 0; i < ASKED; i++) {
		rng_normal(z, TINT, 99, RNG_TEST, 0, (uint64_t)i);
		for (int k = 0; k < TINT; k++) {
			double d = (double)v[i * TINT + k] - ((double)z[k] - (double)tint_mean(i, k));

			sum += d * d / (ASKED * TINT);
		}
	}
	return sum;
}

/* The mean squared differences of the tints are 8/3 from each other, and at least 3/4 from their mean. */
static void it_listens(void **state)
{
	static const struct net_def *const kinds[] = {&net_paris, &net_pixart};

	(void)state;
	for (int k = 0; k < 2; k++) {
		char *out = str_new("%s/listens%d", dir, k);
		struct train_options o = tiny(kinds[k], out);
		struct watch w = {0};
		struct err e = {0};
		struct device *d;
		struct model *m;
		double right, wrong, none;

		o.steps = 400;
		o.batch = 16;
		o.sample_every = 0;
		o.checkpoint.steps = 400;
		o.validate_every = 400;
		o.net.text_tokens = TOKENS;
		o.schedule = SCHEDULE_COSINE;
		must_run(&o, 0, 1, &w);
		d = device_cpu(NULL, DT_F32);
		m = model_open(out, 7, COMPACT_NONE, d, NULL, &e);
		if (!m)
			fail_msg("%s", e.msg);
		right = error_with(m, RIGHT, TOKENS);
		wrong = error_with(m, WRONG, TOKENS);
		none = error_with(m, NOBODYS, TOKENS);
		print_message("%s: val_loss %.4f; told right %.4f, wrong %.4f, nothing %.4f\n", kinds[k]->name, w.val_loss, right, wrong, none);
		assert_true(right < .25);
		assert_true(wrong > 8 * right);
		assert_true(none > 2 * right && none < .6 * wrong);
		model_free(m);
		device_free(d);
		mem_free(out);
	}
}

/* A network that stores the features of the empty text keeps them. */
static void the_null_text_is_kept(void **state)
{
	char *path = str_new("%s/base1/diffusion_pytorch_model.safetensors", dir);
	struct err e = {0};
	struct safetensors *s = st_open(path, &e);
	const struct st_tensor *t;
	float *v;
	int64_t n;

	(void)state;
	if (!s)
		fail_msg("%s", e.msg);
	t = st_find(s, "y_embedder.y_embedding");
	n = st_count(t);
	assert_int_equal(n, 120 * WIDTH);
	v = mem_zalloc((size_t)n, sizeof *v);
	st_to_f32(v, t);
	for (int64_t i = 0; i < n; i++)
		assert_true(v[i] == null_text((int)(i / WIDTH), (int)(i % WIDTH)));
	mem_free(v);
	st_free(s);
	mem_free(path);
}

static void expect(struct train_options o, int code, const char *says)
{
	struct watch w = {0};
	struct err e = {0};

	assert_int_equal(run(&o, 0, 1, &w, &e), -1);
	if (e.code != code || !strstr(e.msg, says))
		fail_msg("code %d, %s", e.code, e.msg);
}

static void refusals(void **state)
{
	char *out = path_join(dir, "refused"), *base = path_join(dir, "base0"), *null = path_join(dir, "null.npy");
	int64_t shape[2] = {1, WIDTH + 1};
	float v[WIDTH + 1] = {0};
	struct train_options o = tiny(&net_paris, out), p = o;
	struct err e = {0};

	(void)state;
	assert_int_equal(npy_write(null, NPY_F4, 2, shape, v, &e), 0);
	p.null_text = "/nonexistent.npy";
	expect(p, ERR_NOINPUT, "features of the empty text");
	p.null_text = null;
	expect(p, ERR_DATA, "the features have width 7, but those of the samples have 6");
	p = o;
	p.condition = CONDITION_CLASS;
	expect(p, ERR_USAGE, "takes no class as its condition");
	p = o;
	p.net.text_tokens = 2;
	expect(p, ERR_DATA, "more than the limit of 2");
	p = o;
	p.out = base;
	p.accumulate = 3;
	p.text_drop = .2;
	expect(p, ERR_EXISTS, "text_drop");
	mem_free(out);
	mem_free(base);
	mem_free(null);
}

/* It reads only the pictures. */
static void a_router_reads_no_text(void **state)
{
	struct captions c = {.std = 1, .fault = NO_TEXT, .bad_at = 0};
	char *root = make_captions(dir, "speechless", &c), *out[2] = {path_join(dir, "r0"), path_join(dir, "r1")}, hex[2][65];

	(void)state;
	for (int k = 0; k < 2; k++) {
		struct train_options o = tiny(&net_router, out[k]);
		struct watch w = {0};

		o.shards = k ? root : shards;
		must_run(&o, 0, 1, &w);
		file_hash(out[k], "train/step-00000009/exp_avg.safetensors", hex[k]);
		mem_free(out[k]);
	}
	assert_string_equal(hex[0], hex[1]);
	mem_free(root);
}

/* The planned memory includes the texts, also those stored as float16. */
static void the_plan(void **state)
{
	struct train_options o = tiny(&net_pixart, "unused");
	struct train_plan with, without;
	struct device *d = device_cpu(NULL, DT_F32);
	struct err e = {0};
	uint64_t text = 120 * WIDTH;

	(void)state;
	assert_int_equal(train_plan(&o, d, &with, &e), 0);
	o.net.def = &net_dit;
	assert_int_equal(train_plan(&o, d, &without, &e), 0);
	assert_int_equal(with.data - without.data, (TINTED + TINTED_HELD) * text * sizeof(uint16_t));
	assert_true(with.batches - without.batches >= (3 + 1) * 6 * text * sizeof(float));
	assert_true(with.total > without.total);
	device_free(d);
}

/* The angles of the time embedding are up to 1000 t, with a float error of 3e-5. */
static const double STEP_TOL = 3e-5;

/* The tensors of a file whose names begin with a prefix, under their names without it. */
static char *tensors_of(const struct safetensors *s, const char *prefix)
{
	struct st_tensor *t = mem_zalloc((size_t)st_tensors(s), sizeof *t);
	char *path = path_join(dir, "init.safetensors");
	size_t len = strlen(prefix);
	struct err e = {0};
	int n = 0;

	for (int i = 0; i < st_tensors(s); i++)
		if (!strncmp(st_get(s, i)->name, prefix, len)) {
			t[n] = *st_get(s, i);
			t[n++].name += len;
		}
	if (st_write(path, t, n, NULL, 0, &e))
		fail_msg("%s", e.msg);
	mem_free(t);
	return path;
}

/* One step of an expert from given weights: loss, norm and gradient are those of PyTorch (tests/golden/textstep.py). */
static void steps_as_pytorch(void **state)
{
	enum { CHANNELS = 2, SIDE = 4, D = CHANNELS * SIDE * SIDE, T = 3, W = 5 };
	const char *golden = "tests/golden/textstep.safetensors";
	char *root = path_join(dir, "one"), *out = path_join(dir, "step"), *null = path_join(root, "null-text.npy");
	char *file = manifest_name(0, 0, 0), *full = path_join(root, file), *slash = strrchr(full, '/'), *moment, *init;
	struct train_options o = tiny(&net_paris, out);
	struct manifest_row row = {0};
	struct shard_member m[3];
	struct str bytes[3] = {{0}};
	struct watch w = {0};
	struct err e = {0};
	struct safetensors *g = st_open(golden, &e), *s;
	static const char *const names[] = {"npy", "std.npy", "text.npy"};
	static const int64_t shapes[3][3] = {{CHANNELS, SIDE, SIDE}, {CHANNELS, SIDE, SIDE}, {T, W}};
	struct shard_writer *writer;
	double want[2];
	int compared = 0;

	(void)state;
	if (!g)
		fail_msg("%s", e.msg);
	*slash = 0;
	assert_int_equal(dir_make(full, &e), 0);
	*slash = '/';
	writer = shard_create(full, NULL, &e);
	for (int i = 0; i < 3; i++)
		captions_member(&m[i], &bytes[i], names[i], NPY_F4, i == 2 ? 2 : 3, shapes[i], st_find(g, names[i])->data);
	assert_int_equal(shard_add(writer, "one", m, 3, &e), 0);
	assert_int_equal(shard_commit(writer, &row, &e), 0);
	row.path = file;
	assert_int_equal(manifest_write(root, &row, 1, 1, NULL, &e), 0);
	assert_int_equal(npy_write(null, NPY_F4, 2, (int64_t[]){1, W}, st_find(g, "null")->data, &e), 0);
	o.shards = root;
	trunk_edit(&o.net)->hidden = 8;
	o.steps = 1;
	o.batch = 4;
	o.accumulate = 2;
	o.seed = 3;
	o.text_drop = .5;
	o.clip = .25;
	o.sample_every = 0;
	o.init_from = init = tensors_of(g, "w/");
	must_run(&o, 0, 1, &w);
	st_copy(want, st_find(g, "expected"));
	print_message("loss off by %.2g, norm by %.2g\n", w.loss / want[0] - 1, w.norm / want[1] - 1);
	assert_true(fabs(w.loss / want[0] - 1) < STEP_TOL);
	assert_true(fabs(w.norm / want[1] - 1) < STEP_TOL);
	moment = path_join(out, "train/step-00000001/exp_avg.safetensors");
	s = st_open(moment, &e);
	if (!s)
		fail_msg("%s", e.msg);
	for (int i = 0; i < st_tensors(s); i++) {
		const struct st_tensor *t = st_get(s, i), *ref;
		char *name = str_new("m/%s", t->name);
		float *a = mem_zalloc((size_t)st_count(t), sizeof *a), *b = mem_zalloc((size_t)st_count(t), sizeof *b);
		double off = 0, top = 0;

		ref = st_find(g, name);
		if (ref) {
			st_to_f32(a, t);
			st_to_f32(b, ref);
			for (int64_t k = 0; k < st_count(t); k++) {
				off = fmax(off, fabs((double)a[k] - (double)b[k]));
				top = fmax(top, fabs((double)b[k]));
			}
			if (!(off <= STEP_TOL * top))
				fail_msg("%s is off by %g of %g", name, off, top);
			compared++;
		}
		mem_free(a);
		mem_free(b);
		mem_free(name);
	}
	assert_int_equal(compared, 26);
	st_free(s);
	st_free(g);
	for (int i = 0; i < 3; i++)
		str_release(&bytes[i]);
	manifest_row_release(&row);
	mem_free(moment);
	mem_free(init);
	mem_free(full);
	mem_free(null);
	mem_free(root);
	mem_free(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(reads),
	    cmocka_unit_test(reads_no_more_than_asked),
	    cmocka_unit_test(refuses),
	    cmocka_unit_test(latents_are_drawn),
	    cmocka_unit_test(batches),
	    cmocka_unit_test(same_bytes),
	    cmocka_unit_test(the_null_text_is_kept),
	    cmocka_unit_test(refusals),
	    cmocka_unit_test(a_router_reads_no_text),
	    cmocka_unit_test(the_plan),
	    cmocka_unit_test(padding_is_masked),
	    cmocka_unit_test(it_listens),
	    cmocka_unit_test(steps_as_pytorch),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
