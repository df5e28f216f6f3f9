/* transnet: TransNet V2 against its PyTorch version, with weights and frames that both make by formulas (tests/golden/transnet.py); its windows over
 * a video, and the jumps and cuts that follow from probabilities. */
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
#include "core/pool.h"
#include "core/str.h"
#include "data/shotnet.h"
#include "file/safetensors.h"
#include "tests/golden/transnet_values.h"
#include "tests/unit/formula.h"

enum { N = 130, TENSORS_MAX = 100, PARAMETERS = 7618050 };

static const double near_enough = 1e-5; /* of probabilities near .3: sums of up to 4864 products in float, in another order */

static struct {
	struct st_tensor v[TENSORS_MAX];
	int n;
} made;

static char path[] = "/tmp/ddm-transnet-XXXXXX";
static struct pool *pool;
static struct device *device;
static struct transnet *net;
static uint8_t frame[N][TRANSNET_BYTES];

/* The next tensor, as weights() of transnet.py. */
static void add(char *name, int rank, const int64_t *shape)
{
	struct st_tensor *t = &made.v[made.n++];
	double scale = .1, offset = 0;
	float *x;

	*t = (struct st_tensor){.name = name, .type = ST_F32, .rank = rank};
	memcpy(t->shape, shape, (size_t)rank * sizeof *shape);
	if (str_ends(name, "running_var")) {
		scale = .5;
		offset = 1;
	} else if (str_ends(name, "bn.weight")) {
		scale = .2;
		offset = 1;
	} else if (str_ends(name, "weight")) {
		scale = sqrt(3 / (double)(st_count(t) / shape[0]));
	}
	if (!strncmp(name, "cls", 3))
		scale *= 4;
	x = mem_alloc((size_t)st_count(t) * sizeof *x);
	for (int64_t i = 0; i < st_count(t); i++)
		x[i] = (float)(offset + scale * formula_uniform((uint32_t)i, (uint32_t)made.n));
	t->data = x;
}

static void add_layer(const char *name, int64_t out, int64_t in)
{
	add(str_new("%s.weight", name), 2, (const int64_t[]){out, in});
	add(str_new("%s.bias", name), 1, &out);
}

static void add_all(void)
{
	static const char *const norm[4] = {"weight", "bias", "running_mean", "running_var"};
	int64_t in = 3;

	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 2; j++) {
			int64_t width = 16 << i, all = 4 * width;

			for (int d = 1; d <= 8; d *= 2) {
				add(str_new("SDDCNN.%d.DDCNN.%d.Conv3D_%d.layers.0.weight", i, j, d), 5, (const int64_t[]){2 * width, in, 1, 3, 3});
				add(str_new("SDDCNN.%d.DDCNN.%d.Conv3D_%d.layers.1.weight", i, j, d), 5,
				    (const int64_t[]){width, 2 * width, 3, 1, 1});
			}
			for (int k = 0; k < 4; k++)
				add(str_new("SDDCNN.%d.DDCNN.%d.bn.%s", i, j, norm[k]), 1, &all);
			in = all;
		}
	add_layer("frame_sim_layer.projection", 128, 448);
	add_layer("frame_sim_layer.fc", 128, 101);
	add_layer("color_hist_layer.fc", 128, 101);
	add_layer("fc1", 1024, 4864);
	add_layer("cls_layer1", 1, 1024);
	add_layer("cls_layer2", 1, 1024);
}

/* As frames() of transnet.py. */
static void frames_make(void)
{
	for (int t = 0; t < N; t++)
		for (int i = 0; i < TRANSNET_BYTES; i++) {
			int c = i % 3, x = i / 3 % 48, y = i / 3 / 48, scene = t / 37, moved = (x + t) % 48;

			frame[t][i] = (uint8_t)(moved * (3 + scene) + y * (5 - scene) + c * (40 + 17 * scene) + scene * 61 + (moved * y) % 23);
		}
}

static int prepare(void **state)
{
	struct err e = {0};
	int fd = mkstemp(path);

	(void)state;
	pool = pool_new(0, NULL);
	device = device_cpu(pool, DT_F32);
	add_all();
	frames_make();
	if (fd < 0 || close(fd) || unlink(path) || st_write(path, made.v, made.n, NULL, 0, NULL))
		return -1;
	net = transnet_open(path, device, &e);
	if (!net)
		print_message("%s\n", e.msg);
	return net ? 0 : -1;
}

static int clean(void **state)
{
	(void)state;
	for (int i = 0; i < made.n; i++) {
		mem_free((void *)(uintptr_t)made.v[i].name);
		mem_free((void *)(uintptr_t)made.v[i].data);
	}
	transnet_free(net);
	device_free(device);
	pool_free(pool);
	return unlink(path);
}

/* All numbers of the published weights but its six counts of batches; the network's own table has the norms folded in. */
static void parameters(void **state)
{
	struct params p = {0};
	int64_t all = 0, norms = 0;

	(void)state;
	for (int i = 0; i < made.n; i++) {
		all += st_count(&made.v[i]);
		norms += strstr(made.v[i].name, ".bn.") ? st_count(&made.v[i]) : 0;
	}
	assert_int_equal(all, PARAMETERS);
	transnet_params(&p);
	assert_int_equal(params_count(&p, 0), PARAMETERS - norms * 3 / 4);
	params_release(&p);
}

/* The frames that the PyTorch version passes to the network for window w of the first n frames: padded_inputs[50 w ..] of predict_frames. */
static void window_of(const uint8_t **at, int w, int n)
{
	for (int t = 0; t < TRANSNET_FRAMES; t++) {
		int i = 50 * w + t - 25;

		at[t] = frame[i < 0 ? 0 : i >= n ? n - 1 : i];
	}
}

static void windows(void **state)
{
	const uint8_t *at[TRANSNET_FRAMES];
	float cut[TRANSNET_FRAMES], within[TRANSNET_FRAMES];
	double worst = 0;
	struct err e = {0};

	(void)state;
	for (int w = 0; 50 * w < N; w++) {
		window_of(at, w, N);
		assert_int_equal(transnet_run(net, cut, within, at, &e), 0);
		for (int t = 50 * w; t < 50 * w + 50 && t < N; t++) {
			worst = fmax(worst, fabs((double)cut[t - 50 * w + 25] - golden_cut[t]));
			worst = fmax(worst, fabs((double)within[t - 50 * w + 25] - golden_within[t]));
		}
	}
	print_message("largest difference %.2g\n", worst);
	assert_true(worst < near_enough);
}

/* What a shotnet finds in the first n frames. */
struct told {
	int n, cuts, jump[N + 2], cut[N];
	float score[N];
	int64_t settled;
};

static void told_take(struct told *a, struct shotnet *s)
{
	struct scene_found f;

	while (shotnet_next(s, &f)) {
		assert_true(a->n < N);
		a->score[a->n++] = (float)f.score;
		assert_true(f.settled == a->n + 1);
		if (f.jump >= 0)
			a->jump[f.jump] = 1;
		if (f.cut >= 0)
			a->cut[a->cuts++] = (int)f.cut;
	}
}

static void tell(struct told *a, int n, double threshold)
{
	struct shotnet *s = shotnet_new(net, threshold);
	struct err e = {0};

	*a = (struct told){0};
	for (int t = 0; t < n; t++) {
		assert_int_equal(shotnet_add(s, frame[t], &e), 0);
		told_take(a, s);
		assert_true(t + 1 - a->n < SHOTNET_AHEAD);
	}
	while (shotnet_end(s, &e) > 0)
		told_take(a, s);
	assert_int_equal(shotnet_end(s, &e), 0);
	assert_int_equal(a->n, n);
	shotnet_free(s);
}

/* As predictions_to_scenes of the PyTorch version: the first frames of the scenes but the first. */
static int scenes_of(int *start, const float *p, int n, double threshold)
{
	int scenes = 0, was = 0, any = 0;

	for (int i = 0; i < n; i++) {
		int above = (double)p[i] > threshold;

		if (was && !above && any)
			start[scenes++] = i;
		any |= !above;
		was = above;
	}
	return scenes;
}

/* A threshold below all golden probabilities, and two among them. */
static void transitions(void **state)
{
	static const double thresholds[] = {.01, .05};
	int found = 0;

	(void)state;
	for (size_t k = 0; k < sizeof thresholds / sizeof *thresholds; k++) {
		double threshold = thresholds[k];
		int start[N], scenes;
		struct told a;

		for (int t = 0; t < N; t++)
			if (fabs(golden_cut[t] - threshold) < 2 * near_enough)
				threshold += 4 * near_enough;
		scenes = scenes_of(start, golden_cut, N, threshold);
		tell(&a, N, threshold);
		assert_int_equal(a.cuts, scenes);
		for (int i = 0; i < scenes; i++)
			assert_int_equal(a.cut[i], start[i]);
		for (int t = 0; t < N; t++) {
			assert_true(fabs((double)a.score[t] - golden_cut[t]) < near_enough);
			assert_int_equal(a.jump[t + 1], (double)golden_cut[t] > threshold);
		}
		assert_int_equal(a.jump[0], 0);
		found += scenes;
	}
	assert_true(found > 4);
}

/* Videos of any length: every frame is decided once, and those of the last window as that window says. */
static void lengths(void **state)
{
	static const int length[] = {0, 1, 76};

	(void)state;
	for (size_t k = 0; k < sizeof length / sizeof *length; k++) {
		const uint8_t *at[TRANSNET_FRAMES];
		float cut[TRANSNET_FRAMES];
		struct told a;

		tell(&a, length[k], .5);
		for (int last = (length[k] - 1) / 50, t = 50 * last; t < length[k]; t++) {
			if (t == 50 * last) {
				window_of(at, last, length[k]);
				assert_int_equal(transnet_run(net, cut, NULL, at, NULL), 0);
			}
			assert_true(a.score[t] == cut[t % 50 + 25]);
		}
	}
}

static void refused(void **state)
{
	struct st_tensor kept = made.v[8], last = made.v[made.n - 1];
	struct err e = {0};

	(void)state;
	assert_null(transnet_open("/nowhere/transnet.pth", device, &e));
	assert_int_equal(e.code, ERR_NOINPUT);
	for (int k = 0; k < 2; k++) {
		char *other = str_new("%s-%d", path, k);

		e = (struct err){0};
		if (k)
			made.v[8].shape[0]--; /* of the running mean */
		assert_int_equal(st_write(other, made.v, made.n - !k, NULL, 0, NULL), 0);
		assert_null(transnet_open(other, device, &e));
		assert_int_equal(e.code, ERR_DATA);
		assert_non_null(strstr(e.msg, "is no TransNet V2"));
		assert_non_null(strstr(e.msg, k ? kept.name : last.name));
		made.v[8] = kept;
		unlink(other);
		mem_free(other);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(parameters), cmocka_unit_test(windows), cmocka_unit_test(transitions),
	    cmocka_unit_test(lengths),    cmocka_unit_test(refused),
	};

	return cmocka_run_group_tests(tests, prepare, clean);
}
