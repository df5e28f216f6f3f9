/* A text-to-image ensemble in the released layout (tests/golden/paris.py, which says what io.safetensors holds) against PyTorch: every
 * step of the sampler, and what ddm-sample makes of the prompts. DDM_TEST_PARIS: another folder than the golden one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "diffusion/ensemble.h"
#include "diffusion/mixture.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/npy.h"
#include "file/safetensors.h"
#include "file/still.h"
#include "file/tarfile.h"

enum { N = 3, K = 3, STEPS = 6, D = 4 * 8 * 8, TOKENS = 77, WIDTH = 8, EDGE = 64 };

static char folder[3000], made[3000];
static struct safetensors *io;

static void unpack_member(const struct tar_member *m)
{
	char *path = path_join(made, m->name), *slash = strrchr(path, '/');

	*slash = 0;
	assert_int_equal(dir_make(path, NULL), 0);
	*slash = '/';
	assert_int_equal(commit_bytes(path, m->data, m->size, NULL), 0);
	mem_free(path);
}

static int unpack(void **state)
{
	const char *other = getenv("DDM_TEST_PARIS");
	struct tar_reader *t;
	struct tar_member m;
	char *path;

	(void)state;
	snprintf(made, sizeof made, "%s/ddm-paris-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	if (!mkdtemp(made))
		return -1;
	snprintf(folder, sizeof folder, "%s", other ? other : made);
	if (!other) {
		t = tar_open("tests/golden/paris-model.tar.gz", NULL, NULL);
		while (t && tar_next(t, &m, NULL) > 0)
			unpack_member(&m);
		tar_close(t);
	}
	path = path_join(folder, "io.safetensors");
	io = st_open(path, NULL);
	mem_free(path);
	return io ? 0 : -1;
}

static int clean(void **state)
{
	(void)state;
	st_free(io);
	return dir_remove(made, NULL);
}

static void need(const char *name, int64_t count, float *out)
{
	const struct st_tensor *t = st_find(io, name);

	assert_non_null(t);
	assert_int_equal(st_count(t), count);
	st_to_f32(out, t);
}

/* Root of the sum of squares of a - b over that of b. */
static double apart(const float *a, const float *b, int64_t n)
{
	double difference = 0, size = 0;

	for (int64_t i = 0; i < n; i++) {
		difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
		size += (double)b[i] * b[i];
	}
	return sqrt(difference / size);
}

/* Rounding to float is 6e-8 of a number; it grows by the guidance, 7.5, and by the number of operations: 1e-6 is seen. */
static void every_step(void **state)
{
	static float text[2 * N * TOKENS * WIDTH], want[(STEPS + 1) * N * D], weight[STEPS * N * K], x[N * D], v[N * D];
	static const int32_t asked[N] = {0, 1, 2}, away[N] = {3, 4, 5};
	struct ensemble_options o = {.policy = {POLICY_TOP, 2, 0}, .capacity = 2 * N, .device = device_cpu(NULL, DT_F32)};
	struct texts texts = {text, NULL, 2 * N};
	char *model = path_join(folder, "model");
	float t[STEPS + 1];
	struct ensemble s;
	struct mixture m;
	struct mixer *mixer;
	struct err e = {0};

	(void)state;
	need("text", N * TOKENS * WIDTH, text);
	need("away", N * TOKENS * WIDTH, text + N * TOKENS * WIDTH);
	need("x", (STEPS + 1) * N * D, want);
	need("weight", STEPS * N * K, weight);
	need("noise", N * D, x);
	need("t", STEPS + 1, t);
	assert_int_equal(ensemble_open(&s, model, &o, &e), 0);
	assert_true(s.k == K && s.d == D && s.text_tokens == TOKENS && s.text_width == WIDTH && !s.masked && !s.classes);
	m = (struct mixture){.k = s.k, .d = s.d, .expert = s.expert, .router = &s.router, .policy = o.policy, .cfg = 7.5, .device = o.device};
	mixer = mixer_new(&m, N, &e);
	for (int i = 0; i < STEPS; i++) {
		struct mixture_call c = {.n = N, .step = i, .t = (double)t[i], .x = x, .texts = &texts, .text = asked, .away = away};

		assert_true(apart(x, want + i * N * D, N * D) < 1e-5);
		assert_int_equal(mixer_velocity(mixer, v, &c, NULL, &e), 0);
		for (int j = 0; j < N * K; j++) {
			assert_int_equal(mixer_weights(mixer)[j] > 0, weight[i * N * K + j] > 0);
			assert_true(fabs(mixer_weights(mixer)[j] - (double)weight[i * N * K + j]) < 1e-5);
		}
		for (int j = 0; j < N * D; j++)
			x[j] += (t[i + 1] - t[i]) * v[j];
	}
	assert_true(apart(x, want + STEPS * N * D, N * D) < 1e-5);
	mixer_free(mixer);
	ensemble_release(&s);
	device_free(o.device);
	mem_free(model);
}

/* The program, built beside this one. */
static struct tar_reader *sampled(const char *format)
{
	const char *build = getenv("B") ? getenv("B") : "build";
	char *path = str_new("%s/%s.tar", made, format);
	char *command = str_new("'%s/ddm-sample' --preset paris --steps %d --noise torch --prompts '%s/prompts.jsonl' --format %s -o '%s' '%s/model' "
	                        "2>'%s/said'",
	                        build, STEPS, folder, format, path, folder, made);
	struct tar_reader *t;
	FILE *p = popen(command, "r");

	assert_non_null(p);
	assert_int_equal(pclose(p), 0);
	t = tar_open(path, NULL, NULL);
	assert_non_null(t);
	mem_free(command);
	mem_free(path);
	return t;
}

static void program_latents(void **state)
{
	static float want[(STEPS + 1) * N * D], x[D];
	struct tar_reader *t = sampled("latent");
	struct tar_member m;
	int n = 0;

	(void)state;
	need("x", (STEPS + 1) * N * D, want);
	while (tar_next(t, &m, NULL) > 0) {
		struct npy a;

		if (!str_ends(m.name, ".npy"))
			continue;
		assert_int_equal(npy_parse(&a, m.data, m.size, m.name, NULL), 0);
		assert_true(a.rank == 3 && a.shape[0] == 4 && a.shape[1] == 8 && a.shape[2] == 8);
		npy_to_f32(x, &a);
		assert_true(apart(x, want + (STEPS * N + n++) * D, D) < 1e-5);
		npy_release(&a);
	}
	assert_int_equal(n, N);
	tar_close(t);
}

/* A level of 255 may round the other way, in few places. */
static void program_pictures(void **state)
{
	const struct st_tensor *want = st_find(io, "picture");
	struct tar_reader *t = sampled("png");
	struct tar_member m;
	int n = 0, off = 0;

	(void)state;
	assert_true(want && want->type == ST_U8 && st_count(want) == N * EDGE * EDGE * 3);
	while (tar_next(t, &m, NULL) > 0) {
		const uint8_t *p = (const uint8_t *)want->data + n * EDGE * EDGE * 3;
		struct picture got;

		if (!str_ends(m.name, ".png"))
			continue;
		assert_int_equal(still_decode(&got, m.data, m.size, m.name, 3, NULL, NULL), 0);
		assert_true(got.width == EDGE && got.height == EDGE);
		for (int i = 0; i < EDGE * EDGE * 3; i++) {
			assert_true(abs(got.pixels[i] - p[i]) <= 1);
			off += got.pixels[i] != p[i];
		}
		picture_release(&got);
		n++;
	}
	assert_int_equal(n, N);
	assert_true(off < N * EDGE * EDGE * 3 / 1000);
	tar_close(t);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_step),
    cmocka_unit_test(program_latents),
    cmocka_unit_test(program_pictures),
};

int main(void)
{
	return cmocka_run_group_tests_name("paris", tests, unpack, clean);
}
