/* Encoders on the emulated CUDA kernels: in float they agree with the CPU; in bfloat16 they agree within its 8 bits, and take less memory. */
#include "tests/unit/encoderrun.h"

#include "net/autoencoder.h"
#include "tests/op/emulated.h"

static struct device *d;

static int set_up(void **state)
{
	(void)state;
	d = device_emulated(NULL);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	device_free(d);
	return 0;
}

/* A float product is three of tf32, with an error of 4e-6; bfloat16 stores every result with 8 bits. */
static void towers(void **state)
{
	struct err e = {0};

	(void)state;
	for (int k = 0; k < ENCODER_GOLDENS; k++) {
		double exact = encoder_error(encoder_goldens[k], d, COMPACT_NONE, &e), half = encoder_error(encoder_goldens[k], d, COMPACT_BF16, &e);

		print_message("%s: off by %.2g of the largest value in f32, %.2g in bf16\n", encoder_goldens[k], exact, half);
		if (!(exact < 5e-5) || !(half > 1e-4 && half < .05))
			fail_msg("%s: off by %.3g of the largest value in f32, %.3g in bf16: %s", encoder_goldens[k], exact, half, e.msg);
	}
	assert_true(isnan(encoder_error("t5", d, COMPACT_INT8, &e)));
	assert_int_equal(e.code, ERR_USAGE);
}

/* Encode or decode with an autoencoder; returns the largest error against the golden over the largest value. */
static double way(const char *dir, int half, const char *in, const char *want, enum compact_type bulk)
{
	struct err e = {0};
	struct safetensors *s = st_open("tests/golden/convnets.safetensors", &e);
	struct autoencoder *a = s ? autoencoder_open(dir, half, 2, bulk, d, &e) : NULL;
	const struct st_tensor *x, *y;
	struct golden g = {.io = s};
	double off = NAN;

	if (a) {
		float *values, *out;

		x = st_find(s, in);
		y = st_find(s, want);
		values = reals(&g, in);
		out = mem_zalloc((size_t)st_count(y), sizeof *out);
		if ((half == AUTOENCODER_ENCODE ? autoencoder_encode : autoencoder_decode)(a, x->shape[0], values, x->shape[2], x->shape[3], 0, out,
		                                                                           &e))
			fail_msg("%s", e.msg);
		off = error_rows(&g, want, out, 1, 1);
		mem_free(values);
		mem_free(out);
	}
	if (!a)
		fail_msg("%s", e.msg);
	autoencoder_free(a);
	st_free(s);
	return off;
}

static void autoencoders(void **state)
{
	static const struct {
		const char *dir, *in, *out;
		int half;
	} ways[] = {{"tests/golden/autokl", "kl/x", "kl/moments", AUTOENCODER_ENCODE},
	            {"tests/golden/autokl", "kl/z", "kl/decoded", AUTOENCODER_DECODE},
	            {"tests/golden/autotiny", "tiny/x", "tiny/latent", AUTOENCODER_ENCODE},
	            {"tests/golden/autotiny", "tiny/z", "tiny/decoded", AUTOENCODER_DECODE}};

	(void)state;
	for (int k = 0; k < 4; k++) {
		double exact = way(ways[k].dir, ways[k].half, ways[k].in, ways[k].out, COMPACT_NONE);
		double half = way(ways[k].dir, ways[k].half, ways[k].in, ways[k].out, COMPACT_BF16);

		print_message("%s: off by %.2g of the largest value in f32, %.2g in bf16\n", ways[k].out, exact, half);
		if (!(exact < 5e-5) || !(half > 1e-4 && half < .05))
			fail_msg("%s: off by %.3g of the largest value in f32, %.3g in bf16", ways[k].out, exact, half);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(towers), cmocka_unit_test(autoencoders)};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
