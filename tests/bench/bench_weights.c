/* bench_weights [-t THREADS] [-s SECONDS] [PATTERN]: experts' weights as bf16 and int8 against f32. The ratio is the speed over that of f32; for
 * memory it is the size of f32 over the size. A DiT-S/4 (width 384, 64 tokens) with batches of 1, 8 and 64, and the four linear layers of a block.
 * "bf16, portable" does not use the CPU's bf16 instructions. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "kernels/compact.h"
#include "net/model.h"
#include "net/netdef.h"
#include "tests/bench/meter.h"

static const struct way {
	const char *name;
	enum compact_type type;
	int portable;
} ways[] = {{"bf16", COMPACT_BF16, 0}, {"int8", COMPACT_INT8, 0}, {"bf16, portable", COMPACT_BF16, 1}};

enum { WAYS = 3, ELEMENTS = 3 * 32 * 32 };

static void die(const struct err *e)
{
	fprintf(stderr, "bench_weights: %s\n", e->msg);
	exit(e->code);
}

static void *memory(size_t n, size_t size)
{
	struct err e = {0};
	void *p = mem_try(n, size, "operands", &e);

	if (!p)
		die(&e);
	return p;
}

static float *normals(int64_t n, float size, uint64_t stream)
{
	float *x = memory((size_t)n, sizeof *x);

	rng_normal(x, (size_t)n, 1, RNG_TEST, 0, stream);
	for (int64_t i = 0; i < n; i++)
		x[i] *= size;
	return x;
}

/* ---- the four layers of a block ---- */

enum { LAYERS = 4 };

static const int64_t layer[LAYERS][2] = {{3, 1}, {1, 1}, {4, 1}, {1, 4}}; /* (N, K) in widths */

struct block {
	struct pool *pool;
	int64_t rows, width;
	const float *x, *w; /* (rows, 4 width), (4 width, width) */
	float *y;           /* (rows, 4 width) */
	enum compact_isa isa;
	struct compact compact[LAYERS];
	void *scratch;
};

static struct gemm product(const struct block *k, int i)
{
	int64_t n = layer[i][0] * k->width, depth = layer[i][1] * k->width;

	return (struct gemm){.tb = GEMM_T, .m = k->rows, .n = n, .k = depth, .lda = depth, .ldb = depth, .ldc = n};
}

static void block_f32(void *arg)
{
	const struct block *k = arg;

	for (int i = 0; i < LAYERS; i++) {
		struct gemm g = product(k, i);

		gemm_run_f32(k->pool, &g, k->y, k->x, k->w, NULL, k->scratch);
	}
}

static void block_compact(void *arg)
{
	const struct block *k = arg;

	for (int i = 0; i < LAYERS; i++) {
		struct gemm g = product(k, i);

		compact_run(k->pool, k->isa, &k->compact[i], g.m, k->y, g.n, k->x, g.k, NULL, k->scratch);
	}
}

static void block_measure(struct bench *b, int64_t rows, int64_t width, const struct way *v)
{
	struct block k = {.pool = b->pool, .rows = rows, .width = width, .isa = v->portable ? COMPACT_PORTABLE : compact_isa()};
	double flops = 24. * (double)(rows * width * width);
	struct duty work = {block_compact, &k, flops}, yard = {block_f32, &k, flops};
	size_t bytes = compact_scratch(NULL, pool_threads(b->pool));
	struct err e = {0};
	struct reading r;
	float *x, *w;
	char name[80];

	snprintf(name, sizeof name, "weights %s, block %dx%d", v->name, (int)rows, (int)width);
	if (!bench_wants(b, name))
		return;
	k.x = x = normals(rows * 4 * width, 1, 0);
	k.w = w = normals(4 * width * width, .05f, 1);
	k.y = memory((size_t)(rows * 4 * width), sizeof *k.y);
	for (int i = 0; i < LAYERS; i++) {
		struct gemm g = product(&k, i);
		size_t need = gemm_scratch_f32(&g, pool_threads(b->pool));

		bytes = need > bytes ? need : bytes;
		if (compact_init(&k.compact[i], v->type, g.n, g.k, &e))
			die(&e);
		compact_pack(&k.compact[i], w);
	}
	k.scratch = memory(bytes, 1);
	r = bench_read(b, &work, &yard, .02, .3);
	bench_print(name, r.rate * 1e-9, "GFLOP/s", &r);
	for (int i = 0; i < LAYERS; i++)
		compact_release(&k.compact[i]);
	mem_free(x);
	mem_free(w);
	mem_free(k.y);
	mem_free(k.scratch);
}

/* ---- a network ---- */

static void write_model(const char *dir)
{
	struct model_config c = {.net = {.def = &net_dit, .channels = 3, .out_channels = 3, .size = 32, .time_scale = 1000},
	                         .prediction = "velocity",
	                         .path = "linear",
	                         .cluster = -1};
	struct device *d = device_cpu(NULL, DT_F32);
	struct tape *t = tape_new(DT_F32, 1);
	struct params p = {0};
	struct net_input in = {0};
	struct err e = {0};
	char *text, *config = path_join(dir, "config.json"), *weights = path_join(dir, model_weights_name(NET_EXPERT));
	float *values;

	if (net_preset("dit-s/4", &c.net, &e))
		die(&e);
	net_inputs(t, &c.net, &in);
	net_record(t, &p, &c.net, &in);
	params_layout(&p);
	values = normals(p.total, .02f, 2);
	text = model_config_text(&c, NULL);
	if (commit_bytes(config, text, strlen(text), &e) || model_write_weights(weights, &p, d, values, NULL, 0, &e))
		die(&e);
	mem_free(text);
	mem_free(config);
	mem_free(weights);
	mem_free(values);
	tape_free(t);
	params_release(&p);
	device_free(d);
}

struct net {
	struct model *model;
	int64_t batch;
	const float *x, *t;
	float *y;
};

static void net_once(void *arg)
{
	const struct net *n = arg;

	model_run(n->model, n->batch, &(struct model_input){.x = n->x, .t = n->t}, n->y);
}

static struct model *model_of(const char *dir, int64_t batch, enum compact_type type, struct device *d)
{
	struct err e = {0};
	struct model *m = model_open(dir, batch, type, d, NULL, &e);

	if (!m)
		die(&e);
	return m;
}

static void network(struct bench *b, const char *dir, int64_t batch, const struct way *v)
{
	struct device *d = device_cpu(b->pool, DT_F32);
	float *x = normals(batch * ELEMENTS, 1, 3), *y = memory((size_t)(batch * ELEMENTS), sizeof *y);
	float *t = memory((size_t)batch, sizeof *t);
	struct net narrow = {NULL, batch, x, t, y}, wide = narrow;
	struct duty work = {net_once, &narrow, (double)batch}, yard = {net_once, &wide, (double)batch};
	struct reading r;
	char name[80], held[80];

	snprintf(name, sizeof name, "weights %s, sample dit-s/4, batch %d", v->name, (int)batch);
	snprintf(held, sizeof held, "weights %s, memory dit-s/4", v->name);
	if (bench_wants(b, name) || (batch == 1 && bench_wants(b, held))) {
		wide.model = model_of(dir, batch, COMPACT_NONE, d);
		narrow.model = model_of(dir, batch, v->type, d);
	}
	if (bench_wants(b, name)) {
		r = bench_read(b, &work, &yard, .02, 1);
		bench_print(name, r.rate, "images/s", &r);
	}
	if (batch == 1 && bench_wants(b, held)) {
		r = (struct reading){.fraction = (double)model_bytes(wide.model) / (double)model_bytes(narrow.model)};
		bench_print(held, (double)model_bytes(narrow.model) / 0x1p20, "MiB", &r);
	}
	model_free(wide.model);
	model_free(narrow.model);
	device_free(d);
	mem_free(x);
	mem_free(y);
	mem_free(t);
}

int main(int argc, char **argv)
{
	static const int64_t rows[] = {8, 64, 2048}, widths[] = {96, 192, 384, 1152};
	const char *tmp = getenv("TMPDIR");
	char dir[4096];
	struct bench b;

	bench_start(&b, "bench_weights", argc, argv);
	snprintf(dir, sizeof dir, "%s/ddm-bench-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(dir)) {
		perror(dir);
		return 1;
	}
	write_model(dir);
	for (int64_t batch = 1; batch <= 64; batch *= 8)
		for (int v = 0; v < WAYS && !ways[v].portable; v++)
			network(&b, dir, batch, &ways[v]);
	dir_remove(dir, NULL);
	for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
		for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
			for (int v = 0; v < WAYS; v++)
				block_measure(&b, rows[r], widths[w], &ways[v]);
	bench_end(&b);
	return 0;
}
