/* net: TAEHV against PyTorch in double (tests/golden/taehv.py), in any number of pieces, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/safetensors.h"
#include "net/taehv.h"
#include "tests/unit/clips.h"
#include "tests/unit/scratch.h"

/* Errors of float kernels over 30 layers. */
static const double TOL = 1e-5;

static struct safetensors *golden;
static struct pool *pool;
static struct device *device;

static const struct st_tensor *tensor(const char *rule, const char *what)
{
	char *name = str_new("%s/%s", rule, what);
	const struct st_tensor *t = st_find(golden, name);

	if (!t)
		fail_msg("taehv.safetensors has no %s", name);
	mem_free(name);
	return t;
}

static float *values(const struct st_tensor *t)
{
	float *v = mem_alloc((size_t)st_count(t) * sizeof *v);

	st_to_f32(v, t);
	return v;
}

static void near(const char *what, const float *got, const struct st_tensor *t)
{
	float *want = values(t);
	double top = 0, off = 0;

	for (int64_t i = 0; i < st_count(t); i++) {
		top = fmax(top, fabs((double)want[i]));
		off = isfinite(got[i]) ? fmax(off, fabs((double)got[i] - (double)want[i])) : INFINITY;
	}
	print_message("%s: %.1e of the largest value\n", what, off / top);
	if (!(off <= TOL * top))
		fail_msg("%s: off by %.3g of the largest value, %.3g allowed", what, off / top, TOL);
	mem_free(want);
}

/* The small network under a name that decides how frames are counted. */
static struct autoencoder *open_as(const char *name)
{
	struct err e = {0};
	char *path = str_new("%s/%s.safetensors", dir, name);
	size_t len;
	void *bytes = file_load("tests/golden/taehv/taew2_2.safetensors", 1 << 20, &len, &e);
	struct autoencoder *a;

	if (!bytes || commit_bytes(path, bytes, len, &e) || !(a = autoencoder_open(path, 3, 4, COMPACT_NONE, device, &e)))
		fail_msg("%s", e.msg);
	unlink(path);
	mem_free(bytes);
	mem_free(path);
	return a;
}

static void check_rule(const char *name, const char *rule)
{
	struct autoencoder *a = open_as(name);
	const struct autoencoder_config *c = autoencoder_config(a);
	const struct st_tensor *x = tensor(rule, "x"), *z = tensor(rule, "latent"), *y = tensor(rule, "decoded");
	struct clip in = {.x = values(x), .frames = x->shape[0], .h = x->shape[2], .w = x->shape[3]};
	struct clip out = {.x = mem_alloc((size_t)st_count(y) * sizeof(float)), .frames = y->shape[0], .h = y->shape[2], .w = y->shape[3]};
	float *got = mem_alloc((size_t)st_count(z) * sizeof *got), *latent = values(z);

	assert_int_equal(autoencoder_factor(c), 16);
	assert_int_equal(autoencoder_time_factor(c), 4);
	assert_int_equal(c->latent_channels, 5);
	assert_int_equal(autoencoder_latent_frames(c, in.frames), z->shape[0]);
	assert_int_equal(autoencoder_clip_frames(c, z->shape[0]), y->shape[0]);
	encode_clip(a, &in, 0, got);
	near("latent", got, z);
	decode_clip(a, z->shape[0], latent, 0, &out);
	near("decoded", out.x, y);
	mem_free(in.x);
	mem_free(out.x);
	mem_free(got);
	mem_free(latent);
	autoencoder_free(a);
}

static void causal(void **state)
{
	(void)state;
	check_rule("taew2_2", "causal");
}

static void chunks(void **state)
{
	(void)state;
	check_rule("taeh3", "chunks");
}

/* An even number of latent frames gives no frame less. */
static void cogvideox(void **state)
{
	struct autoencoder *a = open_as("taecvx");
	const struct st_tensor *z = tensor("causal", "latent"), *y = tensor("cogvideox", "decoded");
	struct clip out = {.x = mem_alloc((size_t)st_count(y) * sizeof(float)), .frames = y->shape[0], .h = y->shape[2], .w = y->shape[3]};
	float *latent = values(z);

	(void)state;
	assert_int_equal(autoencoder_clip_frames(autoencoder_config(a), 2), 8);
	assert_int_equal(autoencoder_clip_frames(autoencoder_config(a), 3), 9);
	decode_clip(a, 2, latent, 0, &out);
	near("decoded", out.x, y);
	mem_free(out.x);
	mem_free(latent);
	autoencoder_free(a);
}

static void super_decoder(void **state)
{
	struct err e = {0};
	struct autoencoder *a = autoencoder_open("tests/golden/taehv/super", AUTOENCODER_DECODE, 1, COMPACT_NONE, device, &e);
	const struct st_tensor *z = tensor("super", "latent"), *y = tensor("super", "decoded");
	struct clip out = {.x = mem_alloc((size_t)st_count(y) * sizeof(float)), .frames = y->shape[0], .h = y->shape[2], .w = y->shape[3]};
	float *latent = values(z);

	(void)state;
	if (!a)
		fail_msg("%s", e.msg);
	decode_clip(a, z->shape[0], latent, 0, &out);
	near("decoded", out.x, y);
	mem_free(out.x);
	mem_free(latent);
	autoencoder_free(a);
}

/* How many frames of latents run at once depends on the number of them and on the size of the frames. A part from the start of a clip therefore
 * runs in other pieces than the whole, and must have the same bits: a network that sees all frames at once and one that sees them one by one
 * agree. */
static void pieces(void **state)
{
	enum { H = 32, W = 16, FRAMES = 77, LATENTS = 20, ONE = 5 * 2, PIXELS = 3 * H * W };
	static const int64_t some[] = {1, 2, 3, 7, 8, 9, 17};
	struct autoencoder *a = open_as("taew2_2");
	struct clip whole = {.x = mem_alloc(sizeof(float[FRAMES * PIXELS])), .frames = FRAMES, .h = H, .w = W}, again = whole, part;
	static float z[LATENTS * ONE], piece[LATENTS * ONE];

	(void)state;
	for (int i = 0; i < FRAMES * PIXELS; i++)
		whole.x[i] = (float)sin(.37 * i + 1e-4 * i * (i % 97));
	encode_clip(a, &whole, 0, z);
	again.x = mem_alloc(sizeof(float[FRAMES * PIXELS]));
	decode_clip(a, LATENTS, z, 0, &again);
	for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
		part = (struct clip){.x = whole.x, .frames = 4 * some[k], .h = H, .w = W};
		encode_clip(a, &part, 0, piece);
		assert_memory_equal(piece, z, (size_t)(some[k] * ONE) * sizeof *z);
		part = (struct clip){.x = mem_alloc(sizeof(float[FRAMES * PIXELS])), .frames = 4 * some[k] - 3, .h = H, .w = W};
		decode_clip(a, some[k], z, 0, &part);
		assert_memory_equal(part.x, again.x, (size_t)(part.frames * PIXELS) * sizeof(float));
		mem_free(part.x);
	}
	/* A clip that ends within a group of frames repeats its last frame. */
	part = (struct clip){.x = whole.x, .frames = 75, .h = H, .w = W};
	memcpy(whole.x + 75 * PIXELS, whole.x + 74 * PIXELS, sizeof(float[PIXELS]));
	whole.frames = 76;
	encode_clip(a, &whole, 0, z);
	encode_clip(a, &part, 0, piece);
	assert_memory_equal(piece, z, sizeof(float[19 * ONE]));
	mem_free(whole.x);
	mem_free(again.x);
	autoencoder_free(a);
}

/* A picture is a clip of one frame. */
static void picture(void **state)
{
	enum { H = 32, W = 48, N = 3 };
	struct err e = {0};
	struct autoencoder *a = open_as("taehv");
	static float x[N * 3 * H * W], z[N * 5 * 6], one[5 * 6], y[N * 3 * H * W], back[3 * H * W];
	struct clip in = {.x = x + 3 * H * W, .frames = 1, .h = H, .w = W}, out = {.x = back, .frames = 1, .h = H, .w = W};

	(void)state;
	for (int i = 0; i < N * 3 * H * W; i++)
		x[i] = (float)cos(.1 * i);
	assert_int_equal(autoencoder_encode(a, N, x, H, W, 0, z, &e), 0);
	assert_int_equal(autoencoder_decode(a, N, z, 2, 3, 0, y, &e), 0);
	encode_clip(a, &in, 0, one);
	assert_memory_equal(one, z + 30, sizeof one);
	decode_clip(a, 1, one, 0, &out);
	assert_memory_equal(back, y + 3 * H * W, sizeof back);
	autoencoder_free(a);
	a = open_as("taeh3");
	assert_int_equal(autoencoder_encode(a, N, x, H, W, 0, z, &e), -1);
	assert_non_null(strstr(e.msg, "2 frames of latents"));
	autoencoder_free(a);
}

/* Write the file again, with the tensor `name` replaced or left out (t NULL). */
static void alter(const char *path, const char *name, const struct st_tensor *t)
{
	struct err e = {0};
	struct safetensors *s = st_open("tests/golden/taehv/taew2_2.safetensors", &e);
	struct st_tensor all[128];
	int n = 0;

	assert_non_null(s);
	for (int i = 0; i < st_tensors(s); i++)
		if (strcmp(st_get(s, i)->name, name))
			all[n++] = *st_get(s, i);
		else if (t)
			all[n++] = *t;
	assert_int_equal(st_write(path, all, n, NULL, 0, &e), 0);
	st_free(s);
}

static void refused(const char *path, const char *why)
{
	struct err e = {0};

	assert_null(autoencoder_open(path, AUTOENCODER_ENCODE | AUTOENCODER_DECODE, 1, COMPACT_NONE, device, &e));
	assert_int_equal(e.code, ERR_DATA);
	if (!strstr(e.msg, why))
		fail_msg("\"%s\" does not say \"%s\"", e.msg, why);
}

static void refusals(void **state)
{
	static const uint16_t zeros[1 << 12];
	static const struct st_tensor odd = {.name = "encoder.2.conv.weight", .type = ST_F16, .rank = 4, .shape = {6, 13, 1, 1}, .data = zeros};
	static const struct st_tensor slow = {.name = "encoder.2.conv.weight", .type = ST_F16, .rank = 4, .shape = {6, 6, 1, 1}, .data = zeros};
	static const struct st_tensor flat = {.name = "encoder.17.weight", .type = ST_F16, .rank = 2, .shape = {5, 54}, .data = zeros};
	static const struct st_tensor wide = {.name = "decoder.14.weight", .type = ST_F16, .rank = 4, .shape = {6, 9, 3, 3}, .data = zeros};
	char *path = str_new("%s/bad.safetensors", dir), *other = str_new("%s/other.safetensors", dir);
	struct err e = {0};

	(void)state;
	alter(path, odd.name, &odd);
	refused(path, "not those of a TAEHV");
	alter(path, slow.name, &slow); /* two frames are joined, four are made */
	refused(path, "same number of frames");
	alter(path, flat.name, &flat);
	refused(path, "not those of a TAEHV");
	alter(path, wide.name, &wide);
	refused(path, "decoder.14.weight");
	alter(path, "decoder.10.conv.2.bias", NULL);
	refused(path, "decoder.10.conv.2.bias");
	alter(path, "", NULL);
	alter(other, "", NULL);
	assert_null(autoencoder_open(dir, AUTOENCODER_DECODE, 1, COMPACT_NONE, device, &e));
	assert_int_equal(e.code, ERR_USAGE);
	assert_non_null(strstr(e.msg, "name one of the files"));
	unlink(other);
	assert_true(taehv_is(dir) && taehv_is(path) && !taehv_is(other) && !taehv_is("tests/golden/autotiny") && taehv_is("tests/golden/taehv"));
	unlink(path);
	mem_free(path);
	mem_free(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(causal),        cmocka_unit_test(chunks), cmocka_unit_test(cogvideox),
	                                   cmocka_unit_test(super_decoder), cmocka_unit_test(pieces), cmocka_unit_test(picture),
	                                   cmocka_unit_test(refusals)};
	int failed;

	pool = pool_new(3, NULL);
	device = device_cpu(pool, DT_F32);
	golden = st_open("tests/golden/taehv.safetensors", NULL);
	failed = !golden || cmocka_run_group_tests(tests, make_dir, remove_dir);
	st_free(golden);
	device_free(device);
	pool_free(pool);
	return failed;
}
