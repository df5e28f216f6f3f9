/* Encoders on the emulated CUDA kernels: in float they agree with the CPU; in bfloat16 they agree within its 8 bits, and take less memory. */
#include "tests/unit/encoderrun.h"

#include "net/autoencoder.h"
#include "tests/op/emulated.h"
#include "tests/unit/clips.h"

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

static double error_of(const struct golden *g, const char *want, const float *got)
{
	return error_rows(g, want, got, 1, 1);
}

/* Encode and decode a golden clip; off[]: the largest errors over the largest values. */
static void clip_way(const char *dir, const char *file, const char *group, enum compact_type bulk, double off[2])
{
	struct err e = {0};
	struct safetensors *s = st_open(file, &e);
	struct autoencoder *a = s ? autoencoder_open(dir, AUTOENCODER_ENCODE | AUTOENCODER_DECODE, 1, bulk, d, &e) : NULL;
	struct golden g = {.io = s};
	char in[32], moments[32], latent[32], decoded[32];
	const struct st_tensor *x, *z, *y;
	struct clip c, out;
	float *got, *v;

	if (!a)
		fail_msg("%s", e.msg);
	snprintf(in, sizeof in, "%s/x", group);
	snprintf(latent, sizeof latent, "%s/latent", group);
	snprintf(moments, sizeof moments, "%s/%s", group, autoencoder_has_posterior(autoencoder_config(a)) ? "moments" : "latent");
	snprintf(decoded, sizeof decoded, "%s/decoded", group);
	x = st_find(s, in);
	z = st_find(s, latent);
	y = st_find(s, decoded);
	c = (struct clip){.x = reals(&g, in), .frames = x->shape[0], .h = x->shape[2], .w = x->shape[3]};
	out = (struct clip){.x = mem_zalloc((size_t)st_count(y), sizeof(float)), .frames = y->shape[0], .h = c.h, .w = c.w};
	got = mem_zalloc((size_t)st_count(st_find(s, moments)), sizeof *got);
	encode_clip(a, &c, 0, got);
	off[0] = error_of(&g, moments, got);
	v = reals(&g, latent);
	autoencoder_unscale(autoencoder_config(a), v, z->shape[0], z->shape[2] * z->shape[3], v);
	decode_clip(a, z->shape[0], v, 0, &out);
	off[1] = error_of(&g, decoded, out.x);
	mem_free(c.x);
	mem_free(out.x);
	mem_free(got);
	mem_free(v);
	autoencoder_free(a);
	st_free(s);
}

/* The states between the runs are in device memory. The norms of Wan's small decoder amplify rounding where a vector of four channels is short: of
 * PyTorch in bfloat16 a pixel is off by .33. */
static void clips(void **state)
{
	static const struct {
		const char *dir, *file, *group;
		double half; /* allowed of pixels in bfloat16 */
	} ways[] = {{"tests/golden/taehv", "tests/golden/taehv.safetensors", "causal", .1},
	            {"tests/golden/wanvae", "tests/golden/wanvae.safetensors", "clip", .6}};

	(void)state;
	for (int k = 0; k < 2; k++) {
		double exact[2], half[2];

		clip_way(ways[k].dir, ways[k].file, ways[k].group, COMPACT_NONE, exact);
		clip_way(ways[k].dir, ways[k].file, ways[k].group, COMPACT_BF16, half);
		print_message("%s: latents off by %.2g of the largest value in f32, %.2g in bf16; pixels by %.2g, %.2g\n", ways[k].dir, exact[0],
		              half[0], exact[1], half[1]);
		for (int i = 0; i < 2; i++)
			if (!(exact[i] < 1e-4) || !(half[i] > 1e-4 && half[i] < (i ? ways[k].half : .1)))
				fail_msg("%s: off by %.3g of the largest value in f32, %.3g in bf16", ways[k].dir, exact[i], half[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(towers), cmocka_unit_test(autoencoders), cmocka_unit_test(clips)};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
