/* bench_ops [-t THREADS] [-s SECONDS] [PATTERN]: the kernels between the matrix products at the sizes of small DiTs; attention
 * beside the best product in cache, the others beside a copy of as many bytes as their arrays have. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "kernels/device.h"
#include "tests/bench/meter.h"

static struct device *device;

/* A dense array of values in [-1, 1]. Dimensions whose bits are set in bcast have one element. */
static struct array make(int rank, const int64_t shape[], unsigned bcast)
{
	struct array a = {.dtype = DT_F32, .rank = rank};
	int64_t step = 1;

	for (int d = rank - 1; d >= 0; d--) {
		int one = bcast >> d & 1;

		a.shape[d] = shape[d];
		a.stride[d] = one ? 0 : step;
		step *= one ? 1 : shape[d];
	}
	a.data = mem_alloc((size_t)step * sizeof(float) + 64);
	for (int64_t i = 0; i < step; i++)
		((float *)a.data)[i] = (float)(i * 7919 % 1009) / 504.f - 1.f;
	return a;
}

static double stored_bytes(const struct array *a)
{
	double n = a->rank ? 4 : 0;

	for (int d = 0; d < a->rank; d++)
		n *= a->stride[d] ? (double)a->shape[d] : 1;
	return n;
}

static void drop(struct op_call *c)
{
	for (int i = 0; i < c->nin; i++)
		mem_free(c->in[i].data);
	for (int i = 0; i < c->nout; i++)
		mem_free(c->out[i].data);
}

struct call {
	const struct kernel *k;
	struct op_call *c;
};

static void once(void *arg)
{
	const struct call *call = arg;

	call->k->run(call->c);
}

/* Time an op and free its arrays. flops 0: the yardstick is a copy of as many bytes as the arrays have. */
static void measure(struct bench *b, const char *name, enum op op, struct op_call *c, double flops)
{
	static const struct run_keys keys = {.seed = 1};
	struct call call = {device->kernel[op], c};
	struct duty work = {once, &call, flops};
	size_t need = call.k->scratch ? call.k->scratch(c, pool_threads(b->pool)) : 0;
	struct reading r;

	if (!bench_wants(b, name)) {
		drop(c);
		return;
	}
	for (int i = 0; !flops && i < c->nin; i++)
		work.amount += stored_bytes(&c->in[i]);
	for (int i = 0; !flops && i < c->nout; i++)
		work.amount += stored_bytes(&c->out[i]);
	c->pool = b->pool;
	c->keys = &keys;
	c->scratch = mem_try(need + 64, 1, "scratch", NULL);
	r = bench_read(b, &work, flops > 0 ? yard_product(b) : yard_copy(b, work.amount), .01, .15);
	bench_print(name, r.rate * 1e-9, flops > 0 ? "GFLOP/s" : "GB/s", &r);
	mem_free(c->scratch);
	drop(c);
}

static void attention(struct bench *b, int64_t n, int64_t t, int64_t heads, int64_t d)
{
	const int64_t packed[] = {n, t, 3, heads, d}, token[] = {n, t, heads, d}, row[] = {n, heads, t};
	struct array qkv = make(5, packed, 0), dqkv = make(5, packed, 0), part[3];
	struct op_call f = {.nin = 3, .nout = 2, .attr.attention = {.scale = 1 / sqrt((double)d)}};
	struct op_call g = {.nin = 6, .nout = 3, .attr.attention = {.scale = 1 / sqrt((double)d)}};
	double flops = 4. * (double)(n * heads * t * t * d);
	char name[80];

	for (int i = 0; i < 3; i++) {
		part[i] = (struct array){(float *)qkv.data + i * heads * d, DT_F32, 4, {n, t, heads, d}, {qkv.stride[0], qkv.stride[1], d, 1}};
		f.in[i] = g.in[1 + i] = part[i];
		part[i].data = (float *)dqkv.data + i * heads * d;
		g.out[i] = part[i];
	}
	f.out[0] = make(4, token, 0);
	f.out[1] = make(3, row, 0);
	g.in[0] = make(4, token, 0);
	g.in[4] = f.out[0];
	g.in[5] = f.out[1];
	snprintf(name, sizeof name, "attention %dx%dx%dx%d", (int)n, (int)t, (int)heads, (int)d);
	f.nin = f.nout = g.nin = g.nout = 0; /* the arrays are freed below */
	measure(b, name, OP_ATTENTION, &f, flops);
	snprintf(name, sizeof name, "attention_grad %dx%dx%dx%d", (int)n, (int)t, (int)heads, (int)d);
	measure(b, name, OP_ATTENTION_GRAD, &g, 2 * flops);
	mem_free(qkv.data);
	mem_free(dqkv.data);
	mem_free(f.out[0].data);
	mem_free(f.out[1].data);
	mem_free(g.in[0].data);
}

/* The other ops of a block on (n, t, c), with adaLN operands per sample. */
static void rows(struct bench *b, int64_t n, int64_t t, int64_t c)
{
	const int64_t x[] = {n, t, c}, stats[] = {n, t, 2}, one[] = {n, 1, c}, bias[] = {1, 1, c};
	struct op_call k;
	char name[80];

#define IN(...) .in = {__VA_ARGS__}
#define OUT(...) .out = {__VA_ARGS__}
#define CASE(what, op, nin_, nout_, ...) \
	k = (struct op_call){.nin = nin_, .nout = nout_, __VA_ARGS__}; \
	snprintf(name, sizeof name, what " %dx%dx%d", (int)n, (int)t, (int)c); \
	measure(b, name, op, &k, 0)

	CASE("add", OP_ADD, 2, 1, IN(make(3, x, 0), make(3, x, 0)), OUT(make(3, x, 0)), .attr = {.add = {1, 1}});
	CASE("add bias", OP_ADD, 2, 1, IN(make(3, x, 0), make(3, x, 3)), OUT(make(3, x, 0)), .attr = {.add = {1, 1}});
	CASE("sum to bias", OP_SUM, 1, 1, IN(make(3, x, 0)), OUT(make(3, bias, 0)), .attr = {.sum = {1}});
	CASE("sum tokens", OP_SUM, 1, 1, IN(make(3, x, 0)), OUT(make(3, one, 0)), .attr = {.sum = {1}});
	CASE("gelu", OP_UNARY, 1, 1, IN(make(3, x, 0)), OUT(make(3, x, 0)), .attr = {.unary = {UNARY_GELU_TANH}});
	CASE("gelu_grad", OP_UNARY_GRAD, 2, 1, IN(make(3, x, 0), make(3, x, 0)), OUT(make(3, x, 0)), .attr = {.unary = {UNARY_GELU_TANH}});
	CASE("silu", OP_UNARY, 1, 1, IN(make(3, x, 0)), OUT(make(3, x, 0)), .attr = {.unary = {UNARY_SILU}});
	CASE("norm", OP_NORM, 3, 2, IN(make(3, x, 0), make(3, x, 2), make(3, x, 2)), OUT(make(3, x, 0), make(3, stats, 0)),
	     .attr = {.norm = {NORM_LAYER, 1, 1e-6}});
	CASE("norm_grad", OP_NORM_GRAD, 5, 3, IN(make(3, x, 0), make(3, x, 0), make(3, stats, 0), make(3, x, 2), make(3, x, 0)),
	     OUT(make(3, x, 0), make(3, one, 0), make(3, one, 0)), .attr = {.norm = {NORM_LAYER, 1, 1e-6}});
	CASE("gate", OP_GATE, 3, 1, IN(make(3, x, 0), make(3, x, 2), make(3, x, 0)), OUT(make(3, x, 0)));
	CASE("gate_grad", OP_GATE_GRAD, 3, 2, IN(make(3, x, 0), make(3, x, 2), make(3, x, 0)), OUT(make(3, x, 0), make(3, one, 0)));
	CASE("softmax", OP_SOFTMAX, 1, 1, IN(make(3, x, 0)), OUT(make(3, x, 0)));
	CASE("copy", OP_COPY, 1, 1, IN(make(3, x, 0)), OUT(make(3, x, 0)));
	CASE("dropout", OP_DROPOUT, 1, 1, IN(make(3, x, 0)), OUT(make(3, x, 0)), .attr = {.dropout = {.p = .1}});
#undef CASE
}

/* Pictures (n, c, s, s) to patches of 2 x 2 and back, and the ops of a loss. */
static void pictures(struct bench *b, int64_t n, int64_t c, int64_t s)
{
	const int64_t shape[] = {n, c, s, s}, v[] = {n};
	int64_t h = s / 2;
	struct array x = make(4, shape, 0), y = make(4, shape, 0);
	struct array view = {x.data, DT_F32, 6, {n, h, h, 2, 2, c}, {c * s * s, 2 * s, 2, s, 1, s * s}};
	struct array patches = {y.data, DT_F32, 6, {n, h, h, 2, 2, c}, {c * s * s, h * 4 * c, 4 * c, 2 * c, c, 1}};
	struct op_call k = {.nin = 1, .nout = 1, IN(view), OUT(patches)};
	char name[80];

	snprintf(name, sizeof name, "patchify %dx%dx%dx%d", (int)n, (int)c, (int)s, (int)s);
	measure(b, name, OP_COPY, &k, 0);
	x = make(4, shape, 0);
	y = make(4, shape, 0);
	view.data = x.data;
	patches.data = y.data;
	k = (struct op_call){.nin = 1, .nout = 1, IN(patches), OUT(view)};
	snprintf(name, sizeof name, "unpatchify %dx%dx%dx%d", (int)n, (int)c, (int)s, (int)s);
	measure(b, name, OP_COPY, &k, 0);
	k = (struct op_call){.nin = 4, .nout = 1, IN(make(4, shape, 0), make(4, shape, 0), make(1, v, 0), make(1, v, 0)), OUT(make(4, shape, 0))};
	snprintf(name, sizeof name, "qsample %dx%dx%dx%d", (int)n, (int)c, (int)s, (int)s);
	measure(b, name, OP_QSAMPLE, &k, 0);
	k = (struct op_call){.nin = 2, .nout = 1, IN(make(4, shape, 0), make(4, shape, 0)), OUT(make(1, v, 0))};
	snprintf(name, sizeof name, "mse %dx%dx%dx%d", (int)n, (int)c, (int)s, (int)s);
	measure(b, name, OP_MSE, &k, 0);
}

int main(int argc, char **argv)
{
	struct bench b;

	bench_start(&b, "bench_ops", argc, argv);
	device = device_cpu(b.pool, DT_F32);
	attention(&b, 128, 64, 4, 24);
	attention(&b, 64, 64, 4, 32);
	attention(&b, 64, 64, 6, 32);
	attention(&b, 8, 256, 6, 64);
	attention(&b, 3072, 4, 4, 24);
	attention(&b, 512, 16, 4, 24);
	rows(&b, 128, 64, 96);
	rows(&b, 64, 64, 192);
	rows(&b, 8, 256, 384);
	pictures(&b, 128, 3, 32);
	device_free(device);
	bench_end(&b);
	return 0;
}
