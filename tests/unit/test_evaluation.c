/* metric: networks as extractors, the cache of features, sets in the files of other programs, and evaluations of them. The network is a fake whose
 * outputs follow simply from the pictures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/rng.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/npy.h"
#include "file/safetensors.h"
#include "file/still.h"
#include "metric/evalread.h"
#include "metric/evalreport.h"
#include "metric/evalstats.h"
#include "metric/frechet.h"
#include "metric/kd.h"
#include "metric/scores.h"
#include "net/clip.h"
#include "net/vit.h"

enum { N = 21, SIDE = 16, D = 3, CLASSES = 2 };

static char *dir;
static struct pool *three;

/* Main tap: sums of the three planes of the input; spatial: two of its pixels; logits: their difference. Counts its inputs. */
struct stub {
	int pictures, calls, largest, freed;
};

static int stub_run(void *net, struct pool *pool, float *const out[TAPS], const float *pixels, int n, struct err *e)
{
	struct stub *s = net;
	size_t side = (size_t)netinput_side(NETINPUT_TF1), plane = side * side;

	(void)pool;
	(void)e;
	s->pictures += n;
	s->calls++;
	s->largest = n > s->largest ? n : s->largest;
	for (int i = 0; i < n; i++) {
		const float *x = pixels + (size_t)i * 3 * plane;

		for (size_t c = 0; c < 3; c++) {
			double sum = 0;

			for (size_t k = 0; k < plane; k++)
				sum += x[c * plane + k];
			out[TAP_MAIN][i * D + (int)c] = (float)(sum / (double)plane);
		}
		if (out[TAP_SPATIAL])
			out[TAP_SPATIAL][i * 2] = x[0], out[TAP_SPATIAL][i * 2 + 1] = x[plane];
		if (out[TAP_LOGITS])
			out[TAP_LOGITS][i * 2] = 9 * x[0], out[TAP_LOGITS][i * 2 + 1] = 9 * x[plane];
	}
	return 0;
}

static void stub_free(void *net)
{
	((struct stub *)net)->freed++;
}

static void stub_extractor(struct extractor *x, struct stub *s, const char *weights)
{
	struct extractor_network n = {.name = "stub", .metrics = "fid", .input = NETINPUT_TF1, .batch = 8, .dims = {D, 2, CLASSES}};

	n.weights_hash = weights;
	n.run = stub_run;
	n.free = stub_free;
	n.net = s;
	extractor_from_network(x, &n);
}

/* Pixel (y, x, c) of picture i */
static uint8_t pixel(int i, int k)
{
	return (uint8_t)rng_below(256, 9, RNG_TEST, 0, (uint64_t)i, (uint32_t)k);
}

static void folder_make(const char *name, int first, int n)
{
	char *path = path_join(dir, name);
	struct err e = {0};

	if (dir_make(path, &e))
		fail_msg("%s", e.msg);
	for (int i = first; i < first + n; i++) {
		uint8_t pixels[SIDE * SIDE * 3], *png;
		struct picture p = {SIDE, SIDE, 3, pixels};
		char *file = str_new("%s/%04d.png", path, i);
		size_t len;
		FILE *f;

		for (int k = 0; k < SIDE * SIDE * 3; k++)
			pixels[k] = pixel(i, k);
		if (still_encode_png(&p, NULL, 0, &png, &len, &e))
			fail_msg("%s", e.msg);
		f = fopen(file, "wb");
		assert_non_null(f);
		assert_int_equal(fwrite(png, 1, len, f), len);
		assert_int_equal(fclose(f), 0);
		mem_free(png);
		mem_free(file);
	}
	mem_free(path);
}

static struct evalset read_set(const char *name, const struct evalset_options *o)
{
	char *path = path_join(dir, name);
	struct evalset s;
	struct err e = {0};

	if (evalset_read(&s, path, o, &e))
		fail_msg("%s", e.msg);
	mem_free(path);
	return s;
}

static void networks(void **state)
{
	struct stub counts = {0};
	struct extractor x, other;
	struct evalset_options o = {.extractor = &x, .taps = 1u << TAP_SPATIAL | 1u << TAP_LOGITS, .pool = three};
	struct evalset a, b, c;

	(void)state;
	folder_make("pictures", 0, N);
	stub_extractor(&x, &counts, "1");
	a = read_set("pictures", &o);
	assert_int_equal(a.n, N);
	assert_int_equal(counts.pictures, N);
	assert_int_equal(counts.largest, 8);
	assert_string_equal(a.recipe.input, "tf1");
	assert_int_equal(a.spatial.dims, 2);
	assert_int_equal(a.logits.dims, CLASSES);
	/* the corner of the input is the corner of the picture, (v - 128) / 128, and rows are in the order of the keys */
	for (int i = 0; i < N; i++)
		for (int c0 = 0; c0 < 2; c0++) {
			float want = ((float)pixel(i, c0) - 128) / 128;

			assert_true(a.spatial.x[a.order[i] * 2 + c0] == want);
			assert_true(a.logits.x[a.order[i] * 2 + c0] == 9 * want);
		}
	o.taps = 0;
	o.pool = NULL;
	b = read_set("pictures", &o);
	assert_int_equal(b.spatial.dims, 0);
	assert_null(b.logits.x);
	assert_memory_equal(a.features, b.features, N * D * sizeof(float));
	assert_string_equal(a.hash, b.hash);
	assert_int_equal(evalset_agree(&a, "a", &b, "b", NULL), 0);
	/* other weights */
	stub_extractor(&other, &counts, "2");
	o.extractor = &other;
	c = read_set("pictures", &o);
	assert_int_equal(evalset_agree(&a, "a", &c, "c", NULL), -1);
	evalset_release(&a);
	evalset_release(&b);
	evalset_release(&c);
	x.free(x.own);
	other.free(other.own);
	assert_int_equal(counts.freed, 2);
}

static int never_told;

static void told(void *arg, const char *what)
{
	(void)arg;
	(void)what;
	never_told = 1;
}

/* Cached features are read instead of computed, and are equal. If the pictures or the recipe changed, they are computed. */
static void cache(void **state)
{
	struct stub counts = {0};
	struct extractor x;
	struct evalset_options o = {.extractor = &x, .cache = "", .warn = told};
	char *one = path_join(dir, "cached/0003.png");
	struct evalset a, b;
	struct err e = {0};
	char **names;
	size_t n;

	(void)state;
	folder_make("cached", 0, N);
	stub_extractor(&x, &counts, "1");
	a = read_set("cached", &o);
	assert_int_equal(counts.pictures, N);
	b = read_set("cached/", &o);
	assert_int_equal(counts.pictures, N);
	assert_string_equal(a.hash, b.hash);
	assert_memory_equal(a.features, b.features, N * D * sizeof(float));
	assert_memory_equal(a.thumbs, b.thumbs, (size_t)N * (size_t)a.thumb);
	assert_memory_equal(a.order, b.order, N * sizeof *a.order);
	assert_int_equal(evalset_agree(&a, "a", &b, "b", NULL), 0);
	evalset_release(&b);
	/* another tap or size is computed; the second time it is not */
	o.taps = 1u << TAP_LOGITS;
	b = read_set("cached", &o);
	assert_int_equal(counts.pictures, 2 * N);
	evalset_release(&b);
	b = read_set("cached", &o);
	assert_int_equal(counts.pictures, 2 * N);
	assert_int_equal(b.logits.dims, CLASSES);
	for (int i = 0; i < N; i++)
		assert_true(b.logits.x[b.order[i] * 2] == 9 * (((float)pixel(i, 0) - 128) / 128));
	evalset_release(&b);
	o.taps = 0;
	o.size = 20;
	b = read_set("cached", &o);
	assert_int_equal(counts.pictures, 3 * N);
	assert_int_equal(b.recipe.width, 20);
	evalset_release(&b);
	o.size = 0;
	/* one picture more; one less */
	folder_make("cached", 50, 1);
	b = read_set("cached", &o);
	assert_int_equal(b.n, N + 1);
	assert_int_equal(counts.pictures, 4 * N + 1);
	evalset_release(&b);
	assert_int_equal(dir_list(dir, &names, &n, &e), 0);
	for (size_t i = 0; i < n; i++)
		assert_null(strstr(names[i], ".tmp"));
	names_free(names, n);
	assert_int_equal(unlink(one), 0);
	b = read_set("cached", &o);
	assert_int_equal(b.n, N);
	assert_int_equal(counts.pictures, 5 * N + 1);
	assert_string_not_equal(a.hash, b.hash);
	evalset_release(&b);
	assert_false(never_told);
	evalset_release(&a);
	mem_free(one);
	x.free(x.own);
}

static double number(const struct stamp *st, const char *key)
{
	const json_t *v = json_object_get(stamp_root(st), key);

	return json_is_number(v) ? json_number_value(v) : NAN;
}

/* Guided-diffusion's reference: some pictures, and the statistics of all of them, at both taps. */
static void adm_reference(void **state)
{
	char *path = path_join(dir, "VIRTUAL.npz");
	uint8_t *pixels = mem_alloc(N * SIDE * SIDE * 3);
	double mu[D] = {.1, .2, -.1}, sigma[D * D] = {.5, .1, 0, .1, .4, 0, 0, 0, .3}, mu_s[2] = {0}, sigma_s[4] = {1, 0, 0, 1}, want;
	struct npz_entry entry[] = {{.name = "arr_0", .type = NPY_U1, .rank = 4, .shape = {N, SIDE, SIDE, 3}, .data = pixels},
	                            {.name = "mu", .type = NPY_F8, .rank = 1, .shape = {D}, .data = mu},
	                            {.name = "sigma", .type = NPY_F8, .rank = 2, .shape = {D, D}, .data = sigma},
	                            {.name = "mu_s", .type = NPY_F8, .rank = 1, .shape = {2}, .data = mu_s},
	                            {.name = "sigma_s", .type = NPY_F8, .rank = 2, .shape = {2, 2}, .data = sigma_s}};
	struct stub counts = {0};
	struct extractor x, *pix = extractor_open("pix", &(struct extractor_options){.input = -1}, NULL);
	struct evalset_options o = {.extractor = &x, .taps = 1u << TAP_SPATIAL};
	struct evalset a, b, c;
	struct evalreport r = {.reference = &a, .samples = &b, .size = 10, .asked = 1};
	struct stamp *st = stamp_new("test");
	struct err e = {0};

	(void)state;
	for (int i = 0; i < N; i++)
		for (int k = 0; k < SIDE * SIDE * 3; k++)
			pixels[i * SIDE * SIDE * 3 + k] = pixel(100 + i, k);
	assert_int_equal(npz_write(path, entry, 5, NULL), 0);
	stub_extractor(&x, &counts, "1");
	folder_make("pictures", 0, N);
	folder_make("hundred", 100, N);
	a = read_set("VIRTUAL.npz", &o);
	b = read_set("pictures", &o);
	c = read_set("hundred", &o);
	assert_int_equal(counts.pictures, 3 * N);
	assert_true(a.foreign);
	assert_memory_equal(a.features, c.features, N * D * sizeof(float));
	assert_memory_equal(a.mu, mu, sizeof mu);
	r.metrics = 1u << METRIC_FID | 1u << METRIC_SFID | 1u << METRIC_PR;
	if (evalreport_fill(st, &r, &e))
		fail_msg("%s", e.msg);
	assert_int_equal(evalset_statistics(&b, NULL, NULL), 0);
	assert_int_equal(frechet_distance(&want, NULL, mu, sigma, b.mu, b.sigma, D, NULL), 0);
	assert_true(fabs(number(st, "fid-stub") - want) < 1e-9 * want);
	assert_int_equal(evaltap_statistics(&b.spatial, b.n, NULL, NULL), 0);
	assert_int_equal(frechet_distance(&want, NULL, mu_s, sigma_s, b.spatial.mu, b.spatial.sigma, 2, NULL), 0);
	assert_true(fabs(number(st, "sfid-stub") - want) < 1e-9 * want);
	assert_true(number(st, "precision-stub") >= 0);
	evalset_release(&a);
	evalset_release(&c);
	/* with statistics the pictures are not read; their recipe is unknown, which does not contradict a network */
	o.statistics = 1;
	a = read_set("VIRTUAL.npz", &o);
	assert_int_equal(counts.pictures, 3 * N);
	assert_null(a.features);
	assert_int_equal(strlen(a.hash), 64);
	assert_int_equal(evalset_agree(&a, "a", &b, "b", NULL), 0);
	assert_string_equal(evalset_features(r.reference, r.samples), "stub");
	stamp_free(st);
	st = stamp_new("test");
	assert_int_equal(evalreport_fill(st, &r, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	assert_non_null(strstr(e.msg, "pr needs the features"));
	evalset_release(&a);
	/* these statistics are of no use to features of pixels */
	o = (struct evalset_options){.extractor = pix};
	a = read_set("VIRTUAL.npz", &o);
	assert_null(a.mu);
	assert_string_equal(a.recipe.features, "pix");
	evalset_release(&a);
	evalset_release(&b);
	stamp_free(st);
	extractor_free(pix);
	x.free(x.own);
	mem_free(pixels);
	mem_free(path);
}

/* Vectors under the names of clean-fid, dgm-eval and numpy.savez, with logits. */
static void vectors_of_others(void **state)
{
	static const char *const names[] = {"feats", "reps", "features", "arr_0"};
	char *path = path_join(dir, "vectors.npz");
	struct evalset_options o = {0};
	float x[N * D], l[N * CLASSES];

	(void)state;
	rng_normal(x, N * D, 3, RNG_TEST, 1, 0);
	rng_normal(l, N * CLASSES, 3, RNG_TEST, 2, 0);
	for (int k = 0; k < 4; k++) {
		struct npz_entry entry[] = {{.name = names[k], .type = NPY_F4, .rank = 2, .shape = {N, D}, .data = x},
		                            {.name = "logits", .type = NPY_F4, .rank = 2, .shape = {N, CLASSES}, .data = l}};
		struct evalset s;

		assert_int_equal(npz_write(path, entry, 2, NULL), 0);
		s = read_set("vectors.npz", &o);
		assert_int_equal(s.n, N);
		assert_int_equal(s.recipe.dims, D);
		for (int i = 0; i < N; i++) {
			assert_memory_equal(s.features + s.order[i] * D, x + i * D, D * sizeof *x);
			assert_memory_equal(s.logits.x + s.order[i] * CLASSES, l + i * CLASSES, CLASSES * sizeof *l);
		}
		evalset_release(&s);
	}
	mem_free(path);
}

/* guided-diffusion's score depends on the order of files, ours on their contents, torch-fidelity's on its own shuffle. */
static void orders(void **state)
{
	enum { M = 5200 };
	char *path = path_join(dir, "order.npz");
	struct evalset_options o = {0};
	static float x[M * D], l[M * CLASSES];
	struct npz_entry entry[] = {{.name = "feats", .type = NPY_F4, .rank = 2, .shape = {M, D}, .data = x},
	                            {.name = "logits", .type = NPY_F4, .rank = 2, .shape = {M, CLASSES}, .data = l}};
	struct inception_score want;
	struct evalset s;
	struct evalreport r = {.reference = &s, .samples = &s, .metrics = 1u << METRIC_IS, .asked = 1};
	double got[3];

	(void)state;
	rng_normal(x, M * D, 3, RNG_TEST, 1, 0);
	rng_normal(l, M * CLASSES, 3, RNG_TEST, 2, 0);
	assert_int_equal(npz_write(path, entry, 2, NULL), 0);
	s = read_set("order.npz", &o);
	for (int k = 0; k < 3; k++) {
		struct stamp *st = stamp_new("test");
		struct err e = {0};

		r.protocol = (enum protocol[]){PROTOCOL_DDM, PROTOCOL_FIDELITY, PROTOCOL_ADM}[k];
		if (evalreport_fill(st, &r, &e))
			fail_msg("%s", e.msg);
		got[k] = number(st, "is-npy");
		stamp_free(st);
	}
	assert_int_equal(inception_score(&want, NULL, l, NULL, M, CLASSES, &(struct inception_groups){.chunk = 5000}, NULL), 0);
	assert_true(fabs(got[2] - want.mean) < 1e-14);
	assert_int_equal(inception_score(&want, NULL, s.logits.x, NULL, M, CLASSES, &(struct inception_groups){.splits = 10}, NULL), 0);
	assert_true(fabs(got[0] - want.mean) < 1e-14);
	assert_true(got[0] != got[1] && got[1] != got[2]);
	evalset_release(&s);
	mem_free(path);
}

static void text_write(const char *folder, const char *text)
{
	char *path = path_join(folder, "config.json");
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0 && !fclose(f));
	mem_free(path);
}

/* Write small random weights for a parameter table to DIR/NAME/model.safetensors. */
static char *model_write(const char *name, const char *config, struct params *p)
{
	struct st_tensor *t = mem_zalloc((size_t)p->n, sizeof *t);
	char *folder = path_join(dir, name), *path;
	struct err e = {0};

	assert_int_equal(dir_make(folder, &e), 0);
	text_write(folder, config);
	for (int i = 0; i < p->n; i++) {
		float *v = mem_alloc((size_t)p->v[i].count * sizeof *v);

		rng_normal(v, (size_t)p->v[i].count, 4, RNG_TEST, 0, (uint64_t)i);
		t[i] = (struct st_tensor){.name = p->v[i].name, .type = ST_F32, .rank = p->v[i].rank, .data = v};
		for (int k = 0; k < p->v[i].rank; k++)
			t[i].shape[k] = p->v[i].shape[k];
	}
	path = path_join(folder, "model.safetensors");
	if (st_write(path, t, p->n, NULL, 0, &e))
		fail_msg("%s", e.msg);
	for (int i = 0; i < p->n; i++)
		mem_free((void *)(uintptr_t)t[i].data);
	mem_free(t);
	mem_free(path);
	params_release(p);
	return folder;
}

/* Features of a picture from the extractor SPEC, which must use the preparation `input`. Caller frees. */
static float *extracted(const char *kind, const char *folder, int asked, enum netinput input, struct device *d, const struct picture *p,
                        float **pixels, int dims)
{
	char *spec = str_new("%s:%s", kind, folder);
	struct err e = {0};
	struct extractor *x = extractor_open(spec, &(struct extractor_options){asked, d, COMPACT_NONE}, &e);
	size_t side = (size_t)netinput_side(input);
	float *out[TAPS] = {mem_alloc((size_t)dims * sizeof(float))};

	if (!x)
		fail_msg("%s", e.msg);
	assert_string_equal(x->name, kind);
	assert_string_equal(x->input, netinput_names[input]);
	assert_int_equal(x->dims[TAP_MAIN], dims);
	assert_int_equal(x->run(x, NULL, out, p, 1, &e), 0);
	extractor_free(x);
	*pixels = mem_alloc(3 * side * side * sizeof(float));
	assert_int_equal(netinput_make(*pixels, p, input, NULL), 0);
	mem_free(spec);
	return out[TAP_MAIN];
}

static void towers(void **state)
{
	const struct vit_config v = {.size = 224,
	                             .grid = 4,
	                             .channels = 3,
	                             .patch = 56,
	                             .hidden = 8,
	                             .depth = 1,
	                             .heads = 2,
	                             .wide = 32,
	                             .layer_scale = 1,
	                             .mask_token = 1,
	                             .eps = 1e-6};
	const struct clip_config c = {
	    .hidden = 8, .depth = 1, .heads = 2, .wide = 16, .projection = 5, .quick = 1, .eps = 1e-5, .size = 336, .patch = 56, .channels = 3};
	const char *vit_text = "{\"model_type\":\"dinov2\",\"image_size\":224,\"patch_size\":56,\"hidden_size\":8,"
			       "\"num_hidden_layers\":1,\"num_attention_heads\":2}";
	const char *clip_text = "{\"model_type\":\"clip_vision_model\",\"image_size\":336,\"patch_size\":56,\"hidden_size\":8,"
				"\"num_hidden_layers\":1,\"num_attention_heads\":2,\"intermediate_size\":16,\"projection_dim\":5}";
	struct device *d = device_cpu(NULL, DT_F32);
	uint8_t bytes[40 * 30 * 3];
	struct picture p = {40, 30, 3, bytes};
	struct params table = {0};
	char *folder;
	struct clip_vision *clip;
	struct vit *vit;
	struct err e = {0}, e2 = {0};
	float *got, *pixels, want[8];

	(void)state;
	for (int k = 0; k < 40 * 30 * 3; k++)
		bytes[k] = pixel(1, k);
	vit_params(&v, &table);
	folder = model_write("dino", vit_text, &table);
	for (int k = 0; k < 2; k++) {
		got = extracted("dinov2", folder, k ? NETINPUT_DINOV2_256 : -1, k ? NETINPUT_DINOV2_256 : NETINPUT_DINOV2, d, &p, &pixels, 8);
		vit = vit_open(folder, 0, VIT_ALL, 1, COMPACT_NONE, d, &e);
		if (!vit)
			fail_msg("%s", e.msg);
		vit_run(vit, 1, pixels, want, NULL);
		assert_memory_equal(got, want, 8 * sizeof *want);
		vit_free(vit);
		mem_free(got);
		mem_free(pixels);
	}
	mem_free(folder);
	clip_vision_params(&c, &table);
	folder = model_write("clip", clip_text, &table);
	got = extracted("clip", folder, -1, NETINPUT_CMMD, d, &p, &pixels, 5);
	clip = clip_vision_open(folder, VIT_ALL, 1, COMPACT_NONE, d, &e);
	if (!clip)
		fail_msg("%s", e.msg);
	clip_vision_run(clip, 1, pixels, NULL, want);
	assert_memory_equal(got, want, 5 * sizeof *want);
	clip_vision_free(clip);
	mem_free(got);
	mem_free(pixels);
	{
		char *spec = str_new("clip:%s", folder);

		assert_null(extractor_open(spec, &(struct extractor_options){NETINPUT_TF1, d, COMPACT_NONE}, &e));
		assert_int_equal(e.code, ERR_USAGE);
		assert_null(extractor_open(spec, &(struct extractor_options){NETINPUT_CLIP, d, COMPACT_NONE}, &e2));
		assert_int_equal(e2.code, ERR_DATA);
		mem_free(spec);
	}
	mem_free(folder);
	device_free(d);
}

static int dir_start(void **state)
{
	char name[] = "/tmp/ddm-test-evaluation.XXXXXX";

	(void)state;
	dir = mem_strdup(mkdtemp(name));
	three = pool_new(3, NULL);
	return 0;
}

static int dir_end(void **state)
{
	(void)state;
	dir_remove(dir, NULL);
	mem_free(dir);
	pool_free(three);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(networks),          cmocka_unit_test(cache),  cmocka_unit_test(adm_reference),
	    cmocka_unit_test(vectors_of_others), cmocka_unit_test(orders), cmocka_unit_test(towers),
	};

	return cmocka_run_group_tests(tests, dir_start, dir_end);
}
