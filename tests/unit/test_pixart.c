/* A PixArt-alpha pipeline saved by diffusers (tests/golden/pixart.py describes io.safetensors): ddm-sample's pictures for prompts against diffusers'.
 * DDM_TEST_PIXART: another folder than the golden one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/textencoder.h"
#include "tests/unit/wholemodel.h"

enum { N = 3, D = 4 * 8 * 8, EDGE = 32, TOKENS = 9, WIDTH = 12 };

static const char options[] = "--route expert:0 --solver dpm++2m --steps 6 --cfg 4.5";

static int open_pixart(void **state)
{
	(void)state;
	return open_model("tests/golden/pixart-model.tar.gz", getenv("DDM_TEST_PIXART"));
}

/* 1e-6 to 2e-6 was measured. */
static void latents(void **state)
{
	static float want[N * D];

	(void)state;
	need("x", N * D, want);
	check_latents(options, want, N, D);
}

static void pictures(void **state)
{
	(void)state;
	check_pictures(options, N, EDGE);
}

/* Whether both give the same features. */
static int alike(const char *encoder, const char *a, const char *b)
{
	struct device *d = device_cpu(NULL, DT_F32);
	struct textencoder *t = textencoder_open(encoder, &(struct textencoder_options){.tokens = TOKENS, .device = d}, NULL);
	const char *const texts[] = {a, b};
	float *hidden, *rest;
	int same;

	assert_non_null(t);
	hidden = mem_zalloc(2 * TOKENS * WIDTH, sizeof *hidden);
	rest = hidden + TOKENS * WIDTH;
	assert_int_equal(textencoder_run(t, 2, texts, NULL, &(struct text_features){.hidden = hidden}, NULL), 0);
	same = !memcmp(hidden, rest, TOKENS * WIDTH * sizeof *hidden);
	mem_free(hidden);
	textencoder_free(t);
	device_free(d);
	return same;
}

/* Texts become lower case for a pipeline's encoder, but not for a separate one. */
static void lower_case(void **state)
{
	char *model = path_join(folder, "model"), *encoder = path_join(model, "text_encoder");
	static const char low[] = "the brown caf\303\251";

	(void)state;
	assert_true(alike(model, low, " \302\240The BROWN Caf\303\211 \n"));
	assert_true(alike(encoder, low, "THE BROWN CAF\303\211"));
	assert_true(alike(model, "", " \t"));
	assert_false(alike(model, low, "the brown cafe"));
	mem_free(encoder);
	mem_free(model);
}

static void move(const char *from, const char *to)
{
	char *a = path_join(made, from), *b = path_join(made, to);

	assert_int_equal(rename(a, b), 0);
	mem_free(a);
	mem_free(b);
}

/* With a folder of only the network and the text encoder elsewhere, texts still become lower case. The last test, because it takes the model apart.
 * */
static void encoder_elsewhere(void **state)
{
	static float want[N * D];
	char *bare = path_join(made, "bare"), *more = str_new("%s --text-encoder '%s'", options, bare);

	(void)state;
	if (strcmp(folder, made))
		skip();
	assert_int_equal(dir_make(bare, NULL), 0);
	move("model/text_encoder", "bare/text_encoder");
	move("model/tokenizer", "bare/tokenizer");
	move("model/model_index.json", "model_index.json");
	assert_false(alike(bare, "the brown", "THE brown"));
	need("x", N * D, want);
	check_latents(more, want, N, D);
	mem_free(more);
	mem_free(bare);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(latents),
    cmocka_unit_test(pictures),
    cmocka_unit_test(lower_case),
    cmocka_unit_test(encoder_elsewhere),
};

int main(void)
{
	return cmocka_run_group_tests_name("pixart", tests, open_pixart, close_model);
}
