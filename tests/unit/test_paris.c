/* A text-to-image ensemble in the released layout (tests/golden/paris.py describes io.safetensors) against PyTorch: every step of the sampler, and
 * ddm-sample with the prompts. DDM_TEST_PARIS: another folder than the golden one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "diffusion/ensemble.h"
#include "diffusion/mixture.h"
#include "tests/unit/wholemodel.h"

enum { N = 3, K = 3, STEPS = 6, D = 4 * 8 * 8, TOKENS = 77, WIDTH = 8, EDGE = 64 };

static const char preset[] = "--preset paris --steps 6";

static int open_paris(void **state)
{
	(void)state;
	return open_model("tests/golden/paris-model.tar.gz", getenv("DDM_TEST_PARIS"));
}

/* Rounding to float is 6e-8 of a number, multiplied by the guidance, 7.5, and by the number of operations: 1e-6 was measured. */
static void every_step(void **state)
{
	static float text[2 * N * TOKENS * WIDTH], want[(STEPS + 1) * N * D], weight[STEPS * N * K], x[N * D], v[N * D];
	static const int32_t asked[N] = {0, 1, 2}, negative[N] = {3, 4, 5};
	struct ensemble_options o = {.policy = policy_of("top-2"), .capacity = 2 * N, .device = device_cpu(NULL, DT_F32)};
	struct texts texts = {.features = text, .rows = 2 * N};
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
		struct mixture_call c = {.n = N, .step = i, .t = (double)t[i], .x = x, .texts = &texts, .text = asked, .negative = negative};

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

static void program_latents(void **state)
{
	static float want[(STEPS + 1) * N * D];

	(void)state;
	need("x", (STEPS + 1) * N * D, want);
	check_latents(preset, want + STEPS * N * D, N, D);
}

static void program_pictures(void **state)
{
	(void)state;
	check_pictures(preset, N, EDGE);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_step),
    cmocka_unit_test(program_latents),
    cmocka_unit_test(program_pictures),
};

int main(void)
{
	return cmocka_run_group_tests_name("paris", tests, open_paris, close_model);
}
