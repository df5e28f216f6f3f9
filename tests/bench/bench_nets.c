/* bench_nets [-t THREADS] [-s SECONDS] [PATTERN]: convolutions of one layer and whole pretrained networks with random weights, beside the
 * best product in cache. FLOPs are those of the plain convolutions. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/rng.h"
#include "core/str.h"
#include "net/autoencoder.h"
#include "net/inception.h"
#include "net/vit.h"
#include "tests/bench/meter.h"

static const struct autoencoder_config sd = {.kind = AUTOENCODER_KL,
                                             .in_channels = 3,
                                             .out_channels = 3,
                                             .latent_channels = 4,
                                             .stages = 4,
                                             .width = {128, 256, 512, 512},
                                             .layers = 2,
                                             .groups = 32,
                                             .sample_size = 512,
                                             .quant_conv = 1,
                                             .post_quant_conv = 1,
                                             .attention = 1,
                                             .scale = 1};
static const struct autoencoder_config taesd = {.kind = AUTOENCODER_TINY,
                                                .in_channels = 3,
                                                .out_channels = 3,
                                                .latent_channels = 4,
                                                .stages = 4,
                                                .width = {64, 64, 64, 64},
                                                .encoder_blocks = {1, 3, 3, 3},
                                                .decoder_blocks = {3, 3, 3, 1},
                                                .scale = 1};

/* One convolution: its input, output channels and kernel. */
struct layer {
	int64_t out, kh, kw;
};

static void one_layer(struct recording *r, const void *config, const int64_t *size)
{
	const struct layer *c = config;
	const struct layers *l = &r->l;
	struct tensor *x = recording_input(r, DT_F32, 3, size, 1);

	x = op_reshape(l->t, x, 4, (int64_t[]){x->shape[0], x->shape[2], x->shape[3], x->shape[1]}); /* the values do not matter */
	recording_output(r, layer_conv(l, x, "conv",
	                               &(struct conv){.out = c->out, .kh = c->kh, .kw = c->kw, .pad = {c->kh / 2, c->kw / 2, c->kh / 2, c->kw / 2}}));
}

static const struct {
	const char *name;
	runner_record *record;
	const void *config;
	int64_t batch, size[3];
} works[] = {
    {"conv 3x3 128 at 128x128", one_layer, &(struct layer){128, 3, 3}, 1, {128, 128, 128}},
    {"conv 3x3 512 at 32x32", one_layer, &(struct layer){512, 3, 3}, 1, {512, 32, 32}},
    {"conv 3x3 64 at 128x128", one_layer, &(struct layer){64, 3, 3}, 1, {64, 128, 128}},
    {"conv 1x7 160 at 17x17", one_layer, &(struct layer){160, 1, 7}, 8, {160, 17, 17}},
    {"conv 1x1 2048 at 8x8", one_layer, &(struct layer){320, 1, 1}, 8, {2048, 8, 8}},
    {"vae sd encode 128", autokl_encoder, &sd, 1, {3, 128, 128}},
    {"vae sd decode 128", autokl_decoder, &sd, 1, {4, 16, 16}},
    {"taesd encode 256", autotiny_encoder, &taesd, 1, {3, 256, 256}},
    {"taesd decode 256", autotiny_decoder, &taesd, 1, {4, 32, 32}},
    {"inception", inception_record, NULL, 8, {3, 299, 299}},
};

struct setup {
	struct runner *net;
	float *x;
	int64_t batch;
};

static void must(int rc, const struct err *e)
{
	if (rc) {
		fprintf(stderr, "bench_nets: %s\n", e->msg);
		exit(1);
	}
}

static int random_values(void *arg, const struct param *p, float *out, struct err *e)
{
	(void)arg;
	(void)e;
	rng_normal(out, (size_t)p->count, 1, RNG_TEST, (uint64_t)p->count, 0);
	for (int64_t i = 0; p->rank > 1 && i < p->count; i++)
		out[i] *= 1.f / (float)(p->count / p->shape[0]);
	return 0;
}

static void run(void *arg)
{
	struct setup *s = arg;

	runner_run(s->net, s->batch, (const void *const[]){s->x}, (float *const[RUNNER_OUTPUTS]){NULL});
}

static void measure(struct bench *b, size_t i)
{
	struct device *d = device_cpu(b->pool, DT_F32);
	int64_t pixels = works[i].size[0] * works[i].size[1] * works[i].size[2];
	struct setup s = {.batch = works[i].batch};
	struct duty work = {run, &s, 0};
	struct err e = {0};
	struct reading r;

	s.net = runner_new(works[i].record, works[i].config, works[i].size, s.batch, COMPACT_NONE, d, &e);
	must(!s.net || runner_fill(s.net, random_values, NULL, &e) || runner_plan(s.net, works[i].size, &e), &e);
	s.x = mem_alloc((size_t)(s.batch * pixels) * sizeof *s.x);
	rng_normal(s.x, (size_t)(s.batch * pixels), 2, RNG_TEST, 0, 0);
	work.amount = (double)s.batch * runner_flops(s.net);
	r = bench_read(b, &work, yard_product(b), .05, 4);
	bench_print(works[i].name, r.rate / work.amount * (double)s.batch, "pictures/s", &r);
	mem_free(s.x);
	runner_free(s.net);
	device_free(d);
}

/* ---- DINOv2 ---- */

struct features {
	struct vit *vit;
	float *x, *out;
	int64_t batch;
};

static void features_run(void *arg)
{
	struct features *f = arg;

	vit_run(f->vit, f->batch, f->x, f->out, NULL);
}

/* Write a file of random weights with the network's own names. */
static struct vit *random_vit(const struct vit_config *c, enum vit_tokens tokens, int64_t batch, struct device *d)
{
	const char *dir = getenv("TMPDIR");
	char *path = str_new("%s/bench_nets-%ld.safetensors", dir ? dir : "/tmp", (long)getpid());
	struct st_tensor *t;
	struct params p = {0};
	struct err e = {0};
	struct vit *v;
	float *values;

	vit_params(c, &p);
	t = mem_zalloc((size_t)p.n, sizeof *t);
	values = mem_alloc((size_t)p.total * sizeof *values);
	rng_normal(values, (size_t)p.total, 3, RNG_TEST, 0, 0);
	for (int64_t i = 0; i < p.total; i++)
		values[i] *= .02f;
	for (int i = 0; i < p.n; i++) {
		t[i] = (struct st_tensor){.name = p.v[i].name, .type = ST_F32, .rank = p.v[i].rank, .data = values + p.v[i].offset};
		memcpy(t[i].shape, p.v[i].shape, sizeof p.v[i].shape);
	}
	must(st_write(path, t, p.n, NULL, 0, &e), &e);
	v = vit_new(c, path, tokens, batch, COMPACT_NONE, d, &e);
	unlink(path);
	must(v ? 0 : -1, &e);
	mem_free(path);
	mem_free(values);
	mem_free(t);
	params_release(&p);
	return v;
}

/* FLOPs of a picture: the patches, and in each block four square products, two of the MLP, and the two of attention. For the class token alone, the
 * last block still computes keys and values of all tokens. */
static double vit_work(const struct vit_config *c, enum vit_tokens tokens)
{
	double patches = (double)(c->size / c->patch * (c->size / c->patch)), t = patches + 1 + (double)c->registers, h = (double)c->hidden;
	double token = 2 * h * (2 * h + 2 * (double)c->wide) + 4 * t * h, others = tokens == VIT_CLASS ? t - 1 : 0;

	return 2 * patches * h * (double)(c->channels * c->patch * c->patch) + (double)c->depth * t * (token + 4 * h * h) - others * token;
}

static void measure_features(struct bench *b, const char *name, const char *preset, enum vit_tokens tokens, int64_t batch)
{
	struct device *d = device_cpu(b->pool, DT_F32);
	struct features f = {.batch = batch};
	struct duty work = {features_run, &f, 0};
	struct vit_config c;
	struct err e = {0};
	struct reading r;
	int64_t pixels;

	must(vit_preset(preset, &c, &e), &e);
	pixels = batch * c.channels * c.size * c.size;
	f.vit = random_vit(&c, tokens, batch, d);
	f.x = mem_alloc((size_t)pixels * sizeof *f.x);
	f.out = mem_alloc((size_t)(batch * c.hidden) * sizeof *f.out);
	rng_normal(f.x, (size_t)pixels, 2, RNG_TEST, 0, 0);
	work.amount = (double)batch * vit_work(&c, tokens);
	r = bench_read(b, &work, yard_product(b), .05, 4);
	bench_print(name, r.rate / work.amount * (double)batch, "pictures/s", &r);
	mem_free(f.x);
	mem_free(f.out);
	vit_free(f.vit);
	device_free(d);
}

int main(int argc, char **argv)
{
	static const char *const dinov2[] = {[VIT_ALL] = "dinov2-b tokens 224", [VIT_CLASS] = "dinov2-b features 224"};
	struct bench b;

	bench_start(&b, "bench_nets", argc, argv);
	for (size_t i = 0; i < sizeof works / sizeof *works; i++)
		if (bench_wants(&b, works[i].name))
			measure(&b, i);
	for (enum vit_tokens tokens = VIT_ALL; tokens <= VIT_CLASS; tokens++)
		if (bench_wants(&b, dinov2[tokens]))
			measure_features(&b, dinov2[tokens], "dinov2_vitb14", tokens, 4);
	bench_end(&b);
	return 0;
}
