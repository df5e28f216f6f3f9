/* net: the autoencoder of Wan 2.1 against diffusers in double (tests/golden/wanvae.py), whole and in tiles, in any number of pieces, and what its
 * configuration refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/safetensors.h"
#include "tests/unit/clips.h"

/* Errors of float kernels over 40 layers. The norms over four channels of this small network amplify them where a vector is short: PyTorch in
 * float is off by 2.0e-5 in the decoder. */
static const double TOL = 1e-5, DECODER_TOL = 5e-5;

static struct safetensors *golden;
static struct pool *pool;
static struct device *device;

static const struct st_tensor *tensor(const char *name)
{
	const struct st_tensor *t = st_find(golden, name);

	if (!t)
		fail_msg("wanvae.safetensors has no %s", name);
	return t;
}

static float *values(const char *name)
{
	const struct st_tensor *t = tensor(name);
	float *v = mem_alloc((size_t)st_count(t) * sizeof *v);

	st_to_f32(v, t);
	return v;
}

static void near(const char *name, const float *got, double tol)
{
	float *want = values(name);
	double top = 0, off = 0;

	for (int64_t i = 0; i < st_count(tensor(name)); i++) {
		top = fmax(top, fabs((double)want[i]));
		off = isfinite(got[i]) ? fmax(off, fabs((double)got[i] - (double)want[i])) : INFINITY;
	}
	print_message("%s: %.1e of the largest value\n", name, off / top);
	if (!(off <= tol * top))
		fail_msg("%s: off by %.3g of the largest value, %.3g allowed", name, off / top, tol);
	mem_free(want);
}

static struct autoencoder *open_golden(void)
{
	struct err e = {0};
	struct autoencoder *a = autoencoder_open("tests/golden/wanvae", AUTOENCODER_ENCODE | AUTOENCODER_DECODE, 4, COMPACT_NONE, device, &e);

	if (!a)
		fail_msg("%s", e.msg);
	return a;
}

/* Encode a clip, compare moments and latents, and return the golden latents unscaled. */
static float *check_encoder(struct autoencoder *a, const struct clip *in, int tile, const char *moments, const char *latent)
{
	const struct autoencoder_config *c = autoencoder_config(a);
	const int64_t *s = tensor(moments)->shape;
	int64_t area = s[2] * s[3], n = s[0] * c->latent_channels * area;
	float *got = mem_alloc((size_t)(2 * n) * sizeof *got), *z = mem_alloc((size_t)n * sizeof *z), *want = values(latent);

	assert_int_equal(autoencoder_latent_frames(c, in->frames), s[0]);
	encode_clip(a, in, tile, got);
	near(moments, got, TOL);
	for (int64_t i = 0; i < s[0]; i++)
		autoencoder_latent(c, got + i * 2 * c->latent_channels * area, NULL, area, z + i * c->latent_channels * area);
	near(latent, z, TOL);
	autoencoder_unscale(c, want, s[0], area, want);
	mem_free(got);
	mem_free(z);
	return want;
}

static struct clip clip_room(int64_t frames, int64_t h, int64_t w)
{
	return (struct clip){.x = mem_zalloc((size_t)(frames * 3 * h * w), sizeof(float)), .frames = frames, .h = h, .w = w};
}

static void whole(void **state)
{
	struct autoencoder *a = open_golden();
	const struct autoencoder_config *c = autoencoder_config(a);
	const struct st_tensor *x = tensor("clip/x");
	struct clip in = {.x = values("clip/x"), .frames = x->shape[0], .h = x->shape[2], .w = x->shape[3]}, out = clip_room(9, in.h, in.w);
	float *z;

	(void)state;
	assert_int_equal(autoencoder_factor(c), 8);
	assert_int_equal(autoencoder_time_factor(c), 4);
	assert_int_equal(autoencoder_moments(c), 6);
	assert_int_equal(autoencoder_latent_frames(c, 10), 3);
	assert_int_equal(autoencoder_clip_frames(c, 3), 9);
	z = check_encoder(a, &in, 1, "clip/moments", "clip/latent"); /* too small for tiles */
	decode_clip(a, 3, z, 1, &out);
	near("clip/decoded", out.x, DECODER_TOL);
	mem_free(z);
	mem_free(in.x);
	mem_free(out.x);
	autoencoder_free(a);
}

static void tiles(void **state)
{
	enum { H = 264, W = 8, FRAME = 3 * H * W };
	struct autoencoder *a = open_golden();
	struct clip in = clip_room(5, H, W), out = clip_room(5, H, W);
	float *z;

	(void)state;
	for (int64_t i = 0; i < 5 * FRAME; i++)
		in.x[i] = (float)(i * 7919 % 251) / 127.5f - 1;
	z = check_encoder(a, &in, 1, "tiles/moments", "tiles/latent");
	decode_clip(a, 2, z, 1, &out);
	memcpy(out.x + FRAME, out.x + 4 * FRAME, sizeof(float[FRAME]));
	near("tiles/decoded", out.x, DECODER_TOL);
	mem_free(z);
	mem_free(in.x);
	mem_free(out.x);
	autoencoder_free(a);
}

/* A part from the start of a clip runs in other pieces than the whole, and must have the same bits. */
static void pieces(void **state)
{
	enum { H = 16, W = 16, FRAMES = 45, LATENTS = 12, ONE = 6 * 4, PIXELS = 3 * H * W };
	static const int64_t some[] = {1, 2, 3, 9, 10, 11};
	struct autoencoder *a = open_golden();
	struct clip all = clip_room(FRAMES, H, W), again = clip_room(FRAMES, H, W);
	static float moments[LATENTS * ONE], piece[LATENTS * ONE], z[LATENTS * ONE / 2];

	(void)state;
	for (int i = 0; i < FRAMES * PIXELS; i++)
		all.x[i] = (float)sin(.37 * i + 1e-4 * i * (i % 97));
	encode_clip(a, &all, 0, moments);
	for (int i = 0; i < LATENTS * ONE / 2; i++)
		z[i] = moments[i];
	decode_clip(a, LATENTS, z, 0, &again);
	for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
		struct clip part = all;

		part.frames = 4 * some[k] - 1; /* two frames too many, which are not coded */
		encode_clip(a, &part, 0, piece);
		assert_memory_equal(piece, moments, (size_t)(some[k] * ONE) * sizeof *moments);
		part = clip_room(4 * some[k] - 3, H, W);
		decode_clip(a, some[k], z, 0, &part);
		assert_memory_equal(part.x, again.x, (size_t)(part.frames * PIXELS) * sizeof(float));
		mem_free(part.x);
	}
	mem_free(all.x);
	mem_free(again.x);
	autoencoder_free(a);
}

static void picture(void **state)
{
	enum { H = 16, W = 24, N = 2 };
	struct err e = {0};
	struct autoencoder *a = open_golden();
	static float x[N * 3 * H * W], z[N * 6 * 6], one[6 * 6];
	const struct clip second = {.x = x + 3 * H * W, .frames = 1, .h = H, .w = W};

	(void)state;
	for (int i = 0; i < N * 3 * H * W; i++)
		x[i] = (float)cos(.1 * i);
	assert_int_equal(autoencoder_encode(a, N, x, H, W, 0, z, &e), 0);
	encode_clip(a, &second, 0, one);
	assert_memory_equal(one, z + 36, sizeof one);
	autoencoder_free(a);
}

static void parse(const char *json, const char *why)
{
	struct autoencoder_config c;
	struct err e = {0};
	json_t *o = json_loads(json, 0, NULL);
	int rc = autoencoder_parse(o, "here", &c, &e);

	assert_non_null(o);
	json_decref(o);
	if (!why && rc)
		fail_msg("%s: %s", json, e.msg);
	if (why && (!rc || e.code != ERR_DATA || !strstr(e.msg, why)))
		fail_msg("%s: \"%s\" does not say \"%s\"", json, e.msg, why);
	if (!strcmp(json, "{\"_class_name\": \"AutoencoderKLWan\"}")) {
		assert_int_equal(c.latent_channels, 16);
		assert_int_equal(c.width[3], 384);
		assert_int_equal(autoencoder_time_factor(&c), 4);
		assert_true(c.latents_std[15] == 1.9160 && c.latents_mean[0] == -.7571);
	}
}

static void configurations(void **state)
{
#define WAN(more) "{\"_class_name\": \"AutoencoderKLWan\"" more "}"
	(void)state;
	parse(WAN(""), NULL);
	parse(WAN(", \"is_residual\": true"), "Wan 2.2");
	parse(WAN(", \"patch_size\": 2"), "\"patch_size\" is set");
	parse(WAN(", \"attn_scales\": [0.5]"), "\"attn_scales\" is not empty");
	parse(WAN(", \"z_dim\": 4"), "\"latents_mean\" is missing");
	parse(WAN(", \"z_dim\": 2, \"latents_mean\": [0, 1], \"latents_std\": [1, 0]"), "\"latents_std\"[1] is not a positive number");
	parse(WAN(", \"latents_mean\": [0, 1]"), "\"latents_mean\" is not a list of 16 numbers");
	parse(WAN(", \"dim_mult\": [1, 2]"), "\"temperal_downsample\" is not a list of 1 values");
	parse(WAN(", \"temperal_downsample\": [true, 1, false]"), "\"temperal_downsample\"[1] is neither true nor false");
	parse(WAN(", \"dim_mult\": [1, 1, 1], \"base_dim\": 3, \"temperal_downsample\": [true, true]"), "3 are not even");
	parse(WAN(", \"z_dim\": 65"), "z_dim");
	parse(WAN(", \"out_channels\": 1"), "only 3 are supported");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(whole), cmocka_unit_test(tiles), cmocka_unit_test(pieces), cmocka_unit_test(picture),
	                                   cmocka_unit_test(configurations)};
	int failed;

	pool = pool_new(3, NULL);
	device = device_cpu(pool, DT_F32);
	golden = st_open("tests/golden/wanvae.safetensors", NULL);
	failed = !golden || cmocka_run_group_tests(tests, NULL, NULL);
	st_free(golden);
	device_free(device);
	pool_free(pool);
	return failed;
}
