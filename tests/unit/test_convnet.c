/* net: autoencoders, Inception and LPIPS against PyTorch in double (tests/golden/convnets.py). The errors of the float kernels over up to 50 layers
 * are within 1e-5 of the largest value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/shortfloat.h"
#include "core/str.h"
#include "file/fileio.h"
#include "metric/extractor.h"
#include "net/autoencoder.h"
#include "net/inception.h"
#include "net/lpips.h"
#include "net/taesd.h"
#include "tests/unit/drawnnet.h"

static const double TOL = 1e-5;

static struct safetensors *golden;
static struct pool *pool;
static struct device *device;

static const float *values(const char *name, int64_t *count)
{
	const struct st_tensor *t = st_find(golden, name);

	if (!t || t->type != ST_F32)
		fail_msg("convnets.safetensors has no %s", name);
	*count = st_count(t);
	return t->data;
}

static double worst(const float *got, const float *want, int64_t n)
{
	double top = 0, off = 0;

	for (int64_t i = 0; i < n; i++) {
		top = fmax(top, fabs((double)want[i]));
		off = isfinite(got[i]) ? fmax(off, fabs((double)got[i] - (double)want[i])) : INFINITY;
	}
	return off / top;
}

static void near(const char *name, const float *got, double tol)
{
	int64_t n;
	const float *want = values(name, &n);
	double off = worst(got, want, n);

	print_message("%s: %.1e of the largest value\n", name, off);
	if (!(off <= tol))
		fail_msg("%s: off by %.3g of the largest value, %.3g allowed", name, off, tol);
}

static float *room(const char *name)
{
	int64_t n;

	values(name, &n);
	return mem_zalloc((size_t)n, sizeof(float));
}

static void open_failed(const struct err *e)
{
	fail_msg("%s", e->msg);
}

/* Shape (n, _, h, w) of a golden tensor. */
static const int64_t *shape_of(const char *name)
{
	return st_find(golden, name)->shape;
}

static void way(struct autoencoder *a, int half, const char *in, const char *want, int tile)
{
	struct err e = {0};
	const int64_t *s = shape_of(in);
	int64_t n;
	const float *x = values(in, &n);
	float *out = room(want);

	if ((half == AUTOENCODER_ENCODE ? autoencoder_encode : autoencoder_decode)(a, s[0], x, s[2], s[3], tile, out, &e))
		open_failed(&e);
	near(want, out, TOL);
	mem_free(out);
}

static void kl(void **state)
{
	struct err e = {0};
	struct autoencoder *a = autoencoder_open("tests/golden/autokl", AUTOENCODER_ENCODE | AUTOENCODER_DECODE, 2, COMPACT_NONE, device, &e);
	const struct autoencoder_config *c;

	(void)state;
	if (!a)
		open_failed(&e);
	c = autoencoder_config(a);
	assert_int_equal(autoencoder_factor(c), 4);
	assert_int_equal(autoencoder_moments(c), 6);
	assert_true(fabs(c->scale - .3611) < 1e-12 && fabs(c->shift - .1159) < 1e-12);
	way(a, AUTOENCODER_ENCODE, "kl/x", "kl/moments", 0);
	way(a, AUTOENCODER_DECODE, "kl/z", "kl/decoded", 0);
	way(a, AUTOENCODER_ENCODE, "kl/x", "kl/tiled_moments", 1);
	way(a, AUTOENCODER_DECODE, "kl/z", "kl/tiled_decoded", 1);
	autoencoder_free(a);
}

static void tiny(void **state)
{
	struct err e = {0};
	struct autoencoder *a = autoencoder_open("tests/golden/autotiny", AUTOENCODER_ENCODE | AUTOENCODER_DECODE, 3, COMPACT_NONE, device, &e);

	(void)state;
	if (!a)
		open_failed(&e);
	way(a, AUTOENCODER_ENCODE, "tiny/x", "tiny/latent", 0);
	way(a, AUTOENCODER_DECODE, "tiny/z", "tiny/decoded", 0);
	autoencoder_free(a);
}

/* A picture's bits do not depend on its batch, the number of threads, or the sizes that were run before. */
static void same_bits(void **state)
{
	struct err e = {0};
	int64_t n, one;
	const float *x = values("kl/x", &n);
	const int64_t *s = shape_of("kl/x");
	float *out[3];

	(void)state;
	for (int k = 0; k < 3; k++) {
		struct device *d = k ? device : device_cpu(NULL, DT_F32);
		struct autoencoder *a = autoencoder_open("tests/golden/autokl", AUTOENCODER_ENCODE, k == 2 ? 5 : 1, COMPACT_NONE, d, &e);

		if (!a)
			open_failed(&e);
		out[k] = room("kl/moments");
		if (k == 2)
			assert_int_equal(autoencoder_encode(a, 1, x, 8, 16, 0, out[k], &e), 0);
		assert_int_equal(autoencoder_encode(a, s[0], x, s[2], s[3], 0, out[k], &e), 0);
		autoencoder_free(a);
		if (!k)
			device_free(d);
	}
	values("kl/moments", &one);
	assert_memory_equal(out[0], out[1], (size_t)one * sizeof(float));
	assert_memory_equal(out[0], out[2], (size_t)one * sizeof(float));
	for (int k = 0; k < 3; k++)
		mem_free(out[k]);
}

/* ---- other names, wrong files ---- */

static void copy_config(const char *dir)
{
	FILE *in = fopen("tests/golden/autokl/config.json", "r"), *out;
	char *to = str_new("%s/config.json", dir), buf[4096];
	size_t got = fread(buf, 1, sizeof buf, in);

	fclose(in);
	out = fopen(to, "w");
	assert_int_equal(fwrite(buf, 1, got, out), got);
	fclose(out);
	mem_free(to);
}

/* A copy of autokl with other names in DIR; a tensor for which rename returns NULL is left out. */
static void rewrite(const char *dir, char *(*rename_one)(const char *name, int i), int squeeze_back)
{
	struct err e = {0};
	struct safetensors *s = st_open("tests/golden/autokl/diffusion_pytorch_model.safetensors", &e);
	struct st_tensor t[512];
	char *path = str_new("%s/diffusion_pytorch_model.safetensors", dir);
	int n = 0;

	mkdir(dir, 0777);
	copy_config(dir);
	for (int i = 0; i < st_tensors(s); i++) {
		char *name = rename_one(st_get(s, i)->name, i);

		if (!name)
			continue;
		t[n] = *st_get(s, i);
		t[n].name = name;
		if (squeeze_back && strstr(name, "attn_1") && t[n].rank == 2) {
			t[n].rank = 4;
			t[n].shape[2] = t[n].shape[3] = 1;
		}
		n++;
	}
	assert_int_equal(st_write(path, t, n, NULL, 0, &e), 0);
	for (int i = 0; i < n; i++)
		mem_free((char *)t[i].name);
	mem_free(path);
	st_free(s);
}

static char *swap(const char *name, const char *const pairs[][2])
{
	char *out = str_new("%s", name);

	for (int i = 0; pairs[i][0]; i++) {
		char *at = strstr(out, pairs[i][0]), *next;

		if (!at)
			continue;
		next = str_new("%.*s%s%s", (int)(at - out), out, pairs[i][1], at + strlen(pairs[i][0]));
		mem_free(out);
		out = next;
	}
	return out;
}

static char *old_name(const char *name, int i)
{
	static const char *const pairs[][2] = {{"to_q", "query"}, {"to_k", "key"}, {"to_v", "value"}, {"to_out.0", "proj_attn"}, {0}};

	(void)i;
	return swap(name, pairs);
}

static char *single_name(const char *name, int i)
{
	static const char *const pairs[][2] = {{"encoder.conv_norm_out", "encoder.norm_out"},
	                                       {"decoder.conv_norm_out", "decoder.norm_out"},
	                                       {"mid_block.resnets.0", "mid.block_1"},
	                                       {"mid_block.resnets.1", "mid.block_2"},
	                                       {"mid_block.attentions.0.group_norm", "mid.attn_1.norm"},
	                                       {"mid_block.attentions.0.to_q", "mid.attn_1.q"},
	                                       {"mid_block.attentions.0.to_k", "mid.attn_1.k"},
	                                       {"mid_block.attentions.0.to_v", "mid.attn_1.v"},
	                                       {"mid_block.attentions.0.to_out.0", "mid.attn_1.proj_out"},
	                                       {"down_blocks.0.resnets", "down.0.block"},
	                                       {"down_blocks.1.resnets", "down.1.block"},
	                                       {"down_blocks.2.resnets", "down.2.block"},
	                                       {"up_blocks.0.resnets", "up.2.block"},
	                                       {"up_blocks.1.resnets", "up.1.block"},
	                                       {"up_blocks.2.resnets", "up.0.block"},
	                                       {"down_blocks.0.downsamplers.0.conv", "down.0.downsample.conv"},
	                                       {"down_blocks.1.downsamplers.0.conv", "down.1.downsample.conv"},
	                                       {"up_blocks.0.upsamplers.0.conv", "up.2.upsample.conv"},
	                                       {"up_blocks.1.upsamplers.0.conv", "up.1.upsample.conv"},
	                                       {"conv_shortcut", "nin_shortcut"},
	                                       {0}};
	char *out = swap(name, pairs), *whole = str_new("first_stage_model.%s", out);

	(void)i;
	mem_free(out);
	return whole;
}

static char *but_one(const char *name, int i)
{
	(void)i;
	return strcmp(name, "decoder.up_blocks.1.resnets.1.norm2.bias") ? str_new("%s", name) : NULL;
}

static char *one_more(const char *name, int i)
{
	(void)i;
	return strcmp(name, "decoder.conv_out.bias") ? str_new("%s", name) : str_new("decoder.conv_out.scale");
}

static void other_names(void **state)
{
	struct err e = {0};
	static const struct {
		const char *dir;
		char *(*name)(const char *, int);
		int squeeze;
	} cases[] = {{"old", old_name, 0}, {"single", single_name, 1}};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		char *dir = str_new("%s/%s", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", cases[k].dir);
		struct autoencoder *a;

		rewrite(dir, cases[k].name, cases[k].squeeze);
		if (!(a = autoencoder_open(dir, AUTOENCODER_ENCODE | AUTOENCODER_DECODE, 2, COMPACT_NONE, device, &e)))
			open_failed(&e);
		way(a, AUTOENCODER_ENCODE, "kl/x", "kl/moments", 0);
		way(a, AUTOENCODER_DECODE, "kl/z", "kl/decoded", 0);
		autoencoder_free(a);
		mem_free(dir);
	}
}

static void wrong_files(void **state)
{
	struct err e = {0};
	char *dir = str_new("%s/wrong", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");

	(void)state;
	rewrite(dir, but_one, 0);
	assert_null(autoencoder_open(dir, AUTOENCODER_DECODE, 1, COMPACT_NONE, device, &e));
	assert_int_equal(e.code, ERR_DATA);
	assert_non_null(strstr(e.msg, "decoder.up_blocks.1.resnets.1.norm2.bias"));
	rewrite(dir, one_more, 0);
	assert_null(autoencoder_open(dir, AUTOENCODER_DECODE, 1, COMPACT_NONE, device, &e));
	assert_int_equal(e.code, ERR_DATA);
	mem_free(dir);
}

static int parses(const char *text)
{
	struct err e = {0};
	struct autoencoder_config c;
	json_t *o = json_loads(text, 0, NULL);
	int rc = autoencoder_parse(o, "here", &c, &e);

	assert_true(!rc || e.code == ERR_DATA);
	json_decref(o);
	return !rc;
}

/* Write a half of tests/golden/autotiny under the names of taesd.py, with extra tensors, to DIR/FILE. */
static void write_half(const char *dir, const char *file, const char *half, const char *more)
{
	struct err e = {0};
	struct safetensors *s = st_open("tests/golden/autotiny/diffusion_pytorch_model.safetensors", &e);
	struct st_tensor t[80];
	char *path = path_join(dir, file);
	int n = 0, decoder = !strcmp(half, "decoder");

	assert_non_null(s);
	for (int i = 0; i < st_tensors(s); i++) {
		int at;

		t[n] = *st_get(s, i);
		if (strncmp(t[n].name, half, strlen(half)) || sscanf(t[n].name + strlen(half), ".layers.%d", &at) != 1)
			continue;
		t[n].name = str_new("%d%s", at + decoder, t[n].name + strlen(half) + strlen(".layers.") + (at > 9 ? 2 : 1));
		n++;
	}
	assert_true(n > 20);
	for (int i = 0; i < n && more; i++)
		if (t[i].rank == (strstr(more, "weight") ? 4 : 1)) {
			t[n] = t[i];
			t[n++].name = str_new("%s", more);
			break;
		}
	mkdir(dir, 0777);
	assert_int_equal(st_write(path, t, n, NULL, 0, &e), 0);
	for (int i = 0; i < n; i++)
		mem_free((char *)t[i].name);
	mem_free(path);
	st_free(s);
}

static void refuses(const char *at, int halves, int code, const char *word)
{
	struct err e = {0};

	assert_null(autoencoder_open(at, halves, 3, COMPACT_NONE, device, &e));
	if (e.code != code || !strstr(e.msg, word))
		fail_msg("%s: %d, %s", at, e.code, e.msg);
}

/* Files without a configuration, given as a folder with one autoencoder, or as a name in a folder with several. */
static void unconfigured(void **state)
{
	const char *tmp = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
	char *dir = str_new("%s/taesd", tmp), *second = str_new("%s/second", dir), *first = str_new("%s/first", dir), *none = str_new("%s/none", dir);
	char *bare = str_new("%s/bare", tmp), *whole = realpath("tests/golden/autotiny/diffusion_pytorch_model.safetensors", NULL), hex[2][65];
	struct autoencoder *a;
	struct err e = {0};

	(void)state;
	assert_false(taesd_is(dir) || taesd_is("tests/golden/autotiny"));
	write_half(dir, "first_decoder.safetensors", "decoder", NULL);
	assert_true(taesd_is(dir) && taesd_is(first) && !taesd_is(none));
	if (!(a = autoencoder_open(dir, AUTOENCODER_DECODE, 3, COMPACT_NONE, device, &e)) || autoencoder_hash(dir, AUTOENCODER_DECODE, hex[0], &e))
		open_failed(&e);
	way(a, AUTOENCODER_DECODE, "tiny/z", "tiny/decoded", 0);
	autoencoder_free(a);
	refuses(dir, AUTOENCODER_ENCODE, ERR_NOINPUT, "first_encoder.safetensors");
	write_half(dir, "first_encoder.safetensors", "encoder", NULL);
	if (!(a = autoencoder_open(dir, AUTOENCODER_ENCODE | AUTOENCODER_DECODE, 3, COMPACT_NONE, device, &e)) ||
	    autoencoder_hash(first, AUTOENCODER_DECODE, hex[1], &e))
		open_failed(&e);
	assert_string_equal(hex[0], hex[1]);
	assert_int_equal(autoencoder_config(a)->stages, 3);
	assert_int_equal(autoencoder_config(a)->latent_channels, 5);
	way(a, AUTOENCODER_ENCODE, "tiny/x", "tiny/latent", 0);
	way(a, AUTOENCODER_DECODE, "tiny/z", "tiny/decoded", 0);
	autoencoder_free(a);
	write_half(dir, "second_encoder.safetensors", "encoder", "15.bias");
	write_half(dir, "second_decoder.safetensors", "decoder", "21.conv.0.bias");
	refuses(dir, AUTOENCODER_DECODE, ERR_USAGE, "first and second");
	refuses(second, AUTOENCODER_ENCODE, ERR_DATA, "15.bias");
	refuses(second, AUTOENCODER_DECODE, ERR_DATA, "21.conv.0.bias");
	write_half(dir, "second_encoder.safetensors", "decoder", NULL);
	refuses(second, AUTOENCODER_ENCODE, ERR_DATA, "decoder do not match");
	write_half(dir, "second_decoder.safetensors", "decoder", "21.weight");
	refuses(second, AUTOENCODER_DECODE, ERR_DATA, "second_decoder.safetensors: a stage has 0 blocks");
	if (!(a = autoencoder_open(first, AUTOENCODER_ENCODE, 3, COMPACT_NONE, device, &e)))
		open_failed(&e);
	way(a, AUTOENCODER_ENCODE, "tiny/x", "tiny/latent", 0);
	autoencoder_free(a);
	mkdir(bare, 0777);
	assert_false(taesd_is(bare));
	mem_free(first);
	first = str_new("%s/whole.safetensors", bare);
	assert_int_equal(symlink(whole, first), 0);
	for (int way_in = 0; way_in < 2; way_in++) {
		assert_true(taesd_is(way_in ? bare : first));
		if (!(a = autoencoder_open(way_in ? bare : first, AUTOENCODER_ENCODE | AUTOENCODER_DECODE, 3, COMPACT_NONE, device, &e)))
			open_failed(&e);
		assert_int_equal(autoencoder_config(a)->decoder_blocks[0], 2);
		way(a, AUTOENCODER_ENCODE, "tiny/x", "tiny/latent", 0);
		way(a, AUTOENCODER_DECODE, "tiny/z", "tiny/decoded", 0);
		autoencoder_free(a);
	}
	assert_int_equal(unlink(first), 0);
	free(whole);
	write_half(bare, "encoder.safetensors", "encoder", NULL);
	if (!(a = autoencoder_open(bare, AUTOENCODER_ENCODE, 3, COMPACT_NONE, device, &e)))
		open_failed(&e);
	way(a, AUTOENCODER_ENCODE, "tiny/x", "tiny/latent", 0);
	autoencoder_free(a);
	mem_free(dir);
	mem_free(first);
	mem_free(second);
	mem_free(none);
	mem_free(bare);
}

static void configs(void **state)
{
	(void)state;
	assert_true(parses("{\"_class_name\": \"AutoencoderKL\", \"shift_factor\": null, \"sample_size\": 512, "
	                   "\"block_out_channels\": [128, 256, 512, 512]}"));
	assert_true(parses("{\"_class_name\": \"AutoencoderTiny\", \"latent_channels\": 16}"));
	assert_false(parses("{\"_class_name\": \"AutoencoderDC\"}"));
	assert_false(parses("{\"_class_name\": \"AutoencoderKL\", \"block_out_channels\": [100]}"));
	assert_false(parses("{\"_class_name\": \"AutoencoderKL\", \"block_out_channels\": []}"));
	assert_false(parses("{\"_class_name\": \"AutoencoderKL\", \"block_out_channels\": [32, -32]}"));
	assert_false(parses("{\"_class_name\": \"AutoencoderKL\", \"act_fn\": \"gelu\"}"));
	assert_false(parses("{\"_class_name\": \"AutoencoderKL\", \"latents_mean\": [0, 0, 0, 0]}"));
	assert_false(parses("{\"_class_name\": \"AutoencoderKL\", \"block_out_channels\": [32, 32], \"sample_size\": 1}"));
	assert_false(parses("{\"_class_name\": \"AutoencoderTiny\", \"encoder_block_out_channels\": [64, 64, 64, 32]}"));
	assert_false(parses("{\"_class_name\": \"AutoencoderTiny\", \"upsampling_scaling_factor\": 3}"));
}

/* The exact parameter counts of published networks. */
static int64_t counted(const char *text, int half)
{
	struct err e = {0};
	struct autoencoder_config c;
	struct params p = {0};
	json_t *o = json_loads(text, 0, NULL);
	int64_t n, size[3] = {3, 16, 16};
	int tiny_kind;

	assert_int_equal(autoencoder_parse(o, "here", &c, &e), 0);
	tiny_kind = c.kind == AUTOENCODER_TINY;
	if (half == AUTOENCODER_DECODE) {
		size[0] = c.latent_channels;
		size[1] = size[2] = 2;
	}
	runner_params(half == AUTOENCODER_ENCODE ? (tiny_kind ? autotiny_encoder : autokl_encoder) : (tiny_kind ? autotiny_decoder : autokl_decoder),
	              &c, size, &p);
	n = params_count(&p, 0);
	params_release(&p);
	json_decref(o);
	return n;
}

static void parameters(void **state)
{
	static const char sd[] = "{\"_class_name\": \"AutoencoderKL\", \"block_out_channels\": [128, 256, 512, 512], \"layers_per_block\": 2}";
	static const char taesd[] = "{\"_class_name\": \"AutoencoderTiny\"}";

	(void)state;
	assert_int_equal(counted(sd, AUTOENCODER_ENCODE), 34163592 + 72);
	assert_int_equal(counted(sd, AUTOENCODER_DECODE), 49490179 + 20);
	assert_int_equal(counted(taesd, AUTOENCODER_ENCODE) + counted(taesd, AUTOENCODER_DECODE), 2445063);
}

static void latents(void **state)
{
	const struct autoencoder_config c = {.kind = AUTOENCODER_KL, .latent_channels = 1, .scale = 2, .shift = .5};
	const float moments[4] = {1, 2, 0, 50}, noise[2] = {1, 0x1p-14f};
	float out[2];

	(void)state;
	autoencoder_latent(&c, moments, NULL, 2, out);
	assert_true(fabsf(out[0] - 1) < 1e-7f && fabsf(out[1] - 3) < 1e-7f);
	autoencoder_latent(&c, moments, noise, 2, out);
	assert_true(fabsf(out[0] - 3) < 1e-6f && fabs((double)out[1] - (3 + 2 * exp(10) * 0x1p-14)) < 1e-5);
	autoencoder_unscale(&c, out, 1, 1, out);
	assert_true(fabsf(out[0] - 2) < 1e-6f);
}

/* ---- classifiers, with drawn weights ---- */

/* The tensors of the file from which one parameter of the recording is made. */
static void add_unit(struct drawing *d, const struct param *p)
{
	static const char *const norm[4] = {"weight", "bias", "running_mean", "running_var"};
	const char *dot = strrchr(p->name, '.');
	int64_t file[4] = {p->shape[0], p->shape[3], p->shape[1], p->shape[2]};
	char name[160];

	snprintf(name, sizeof name, "%.*s.conv.weight", (int)(dot - p->name), p->name);
	add(d, name, 4, file, he(p->count / p->shape[0]), 0);
	for (int i = 0; i < 4; i++) {
		int one = i == 0 || i == 3;

		snprintf(name, sizeof name, "%.*s.bn.%s", (int)(dot - p->name), p->name, norm[i]);
		add(d, name, 1, file, one ? .5f : .25f, one ? 1 : 0);
	}
}

/* The extractor of the metrics, with the requested preparation of pictures. */
static void inception_metrics(struct inception *n, const char *path, const struct inception_result *r)
{
	char *spec = str_new("inception:%s", path);
	float *x = mem_alloc(3 * 299 * 299 * sizeof *x), *got[TAPS];
	uint8_t pixels[20 * 30 * 3];
	struct picture p = {20, 30, 3, pixels};
	struct extractor *m;
	struct err e = {0};

	for (size_t i = 0; i < sizeof pixels; i++)
		pixels[i] = (uint8_t)(i * 7919 % 251);
	if (!(m = extractor_open(spec, &(struct extractor_options){NETINPUT_CLEAN, device, COMPACT_NONE}, &e)))
		open_failed(&e);
	assert_string_equal(m->input, "clean");
	for (int t = 0; t < TAPS; t++)
		got[t] = mem_alloc((size_t)m->dims[t] * sizeof(float));
	assert_int_equal(netinput_make(x, &p, NETINPUT_CLEAN, NULL), 0);
	if (inception_run(n, 1, x, r, &e) || m->run(m, NULL, got, &p, 1, &e))
		open_failed(&e);
	assert_memory_equal(got[TAP_MAIN], r->features, INCEPTION_FEATURES * sizeof(float));
	assert_memory_equal(got[TAP_SPATIAL], r->spatial, INCEPTION_SPATIAL * sizeof(float));
	assert_memory_equal(got[TAP_LOGITS], r->logits, INCEPTION_CLASSES * sizeof(float));
	for (int t = 0; t < TAPS; t++)
		mem_free(got[t]);
	extractor_free(m);
	mem_free(x);
	mem_free(spec);
}

static void inception(void **state)
{
	static struct drawing d;
	struct err e = {0};
	int64_t size[3] = {3, 299, 299}, area = 3 * 299 * 299;
	struct params p = {0};
	struct inception_result r = {room("inception/features"), room("inception/logits"), room("inception/spatial")};
	struct inception *n;
	float *x = mem_alloc((size_t)area * sizeof *x);
	char *path;

	(void)state;
	runner_params(inception_record, NULL, size, &p);
	for (int i = 0; i < p.n; i++)
		if (p.v[i].rank == 4)
			add_unit(&d, &p.v[i]);
	add(&d, "fc.weight", 2, (int64_t[]){1008, 2048}, he(2048), 0);
	/* torchvision's count for 1008 classes, without the unused last bias, and with one vector for each norm instead of two. */
	assert_int_equal(params_count(&p, 0), 23850960 - 1008 - 17216);
	params_release(&p);
	path = save(&d, "inception.safetensors");
	if (!(n = inception_open(path, 1, COMPACT_NONE, device, &e)))
		open_failed(&e);
	for (int64_t i = 0; i < area; i++)
		x[i] = f16_to_f32(drawn(drawn_seed("x"), i, 1, 0));
	if (inception_run(n, 1, x, &r, &e))
		open_failed(&e);
	near("inception/features", r.features, TOL);
	near("inception/logits", r.logits, TOL);
	near("inception/spatial", r.spatial, TOL);
	inception_metrics(n, path, &r);
	inception_free(n);
	mem_free(r.features);
	mem_free(r.logits);
	mem_free(r.spatial);
	mem_free(x);
	unlink(path);
	mem_free(path);
}

/* A trunk under the names of the lpips package. */
static char *sliced(const char *trunk, enum lpips_trunk k)
{
	static const struct {
		int slice[7];
	} last[] = {{{0, 3, 6, 8, 10}}, {{2, 7, 14, 21, 28}}, {{0, 4, 7, 9, 10, 11, 12}}}; /* layers of a slice */
	struct err e = {0};
	struct safetensors *s = st_open(trunk, &e);
	struct st_tensor t[80];
	char *path = str_new("%s.sliced", trunk);

	assert_non_null(s);
	for (int i = 0; i < st_tensors(s); i++) {
		int layer, slice = 0;

		t[i] = *st_get(s, i);
		assert_int_equal(sscanf(t[i].name, "features.%d", &layer), 1);
		while (last[k].slice[slice] < layer)
			slice++;
		t[i].name = str_new("net.slice%d%s", slice + 1, strchr(t[i].name, '.'));
	}
	assert_int_equal(st_write(path, t, st_tensors(s), NULL, 0, &e), 0);
	for (int i = 0; i < st_tensors(s); i++)
		mem_free((char *)(uintptr_t)t[i].name);
	st_free(s);
	return path;
}

/* The released heads: a .pth and its conversion give the same distances. */
static void released_heads(enum lpips_trunk k, const char *trunk, const float *a, const float *b)
{
	const char *data = getenv("DDM_TEST_DATA");
	float distance[2][2] = {{0}};

	for (int i = 0; data && i < 2; i++) {
		char *heads = str_new("%s/weights/lpips/%s_v0.1.%s", data, lpips_trunk_names[k], i ? "pth" : "safetensors");
		struct err e = {0};
		struct lpips *n = path_exists(heads) ? lpips_open(k, trunk, heads, 2, device, &e) : NULL;

		if (e.code || (n && lpips_run(n, 2, a, b, 67, 75, distance[i], &e)))
			open_failed(&e);
		assert_true(!n || distance[i][0] > 0);
		lpips_free(n);
		mem_free(heads);
	}
	assert_memory_equal(distance[0], distance[1], sizeof *distance);
}

static void lpips(void **state)
{
	static struct drawing d;
	static const struct {
		const char *want;
		void (*trunk)(struct drawing *);
		int heads;
		int64_t width[7];
	} cases[] = {
	    {"lpips/alex", add_alex, 5, {64, 192, 384, 256, 256}},
	    {"lpips/vgg", add_vgg, 5, {64, 128, 256, 512, 512}},
	    {"lpips/squeeze", add_squeeze, 7, {64, 128, 256, 384, 384, 512, 512}},
	};
	int64_t area = 2 * 3 * 67 * 75;
	float *a = mem_alloc((size_t)area * sizeof *a), *b = mem_alloc((size_t)area * sizeof *b);

	(void)state;
	for (int64_t i = 0; i < area; i++) {
		a[i] = f16_to_f32(drawn(drawn_seed("a"), i, 1, 0));
		b[i] = f16_to_f32(drawn(drawn_seed("b"), i, 1, 0));
	}
	for (int k = 0; k < 3; k++) {
		struct err e = {0};
		char *trunk, *heads, *other;
		struct lpips *n;
		float distance[2], same[2];

		cases[k].trunk(&d);
		trunk = save(&d, "trunk.safetensors");
		heads = save_heads("heads.safetensors", cases[k].heads, cases[k].width);
		if (!(n = lpips_open((enum lpips_trunk)k, trunk, heads, 3, device, &e)))
			open_failed(&e);
		if (lpips_run(n, 2, a, b, 67, 75, distance, &e) || lpips_run(n, 2, a, a, 67, 75, same, &e))
			open_failed(&e);
		near(cases[k].want, distance, TOL);
		assert_true(same[0] == 0 && same[1] == 0);
		lpips_free(n);
		other = sliced(trunk, (enum lpips_trunk)k);
		if (!(n = lpips_open((enum lpips_trunk)k, other, heads, 3, device, &e)) || lpips_run(n, 2, a, b, 67, 75, same, &e))
			open_failed(&e);
		assert_memory_equal(same, distance, sizeof same);
		lpips_free(n);
		unlink(other);
		mem_free(other);
		if (k == 0)
			released_heads((enum lpips_trunk)k, trunk, a, b);
		unlink(trunk);
		unlink(heads);
		mem_free(trunk);
		mem_free(heads);
	}
	mem_free(a);
	mem_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(kl),          cmocka_unit_test(tiny),         cmocka_unit_test(same_bits), cmocka_unit_test(other_names),
	    cmocka_unit_test(wrong_files), cmocka_unit_test(unconfigured), cmocka_unit_test(configs),   cmocka_unit_test(parameters),
	    cmocka_unit_test(latents),     cmocka_unit_test(inception),    cmocka_unit_test(lpips),
	};
	int failed;

	golden = st_open("tests/golden/convnets.safetensors", NULL);
	if (!golden)
		return 1;
	pool = pool_new(2, NULL);
	device = device_cpu(pool, DT_F32);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	device_free(device);
	pool_free(pool);
	st_free(golden);
	return failed;
}
