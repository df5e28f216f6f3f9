/* bench_cuda [-pq] [-s SECONDS] [PATTERN]: products, attention, one-pass kernels, k-means, training and sampling on the GPU, beside the rate
 * of its fastest product and of a copy, which are measured first. A line is `name value unit ratio spread`, separated by tabs
 * (tests/bench/RESULTS.md). The ratio is the fraction of the product's rate, or, for one-pass kernels and copies, of the copy's rate; a line of
 * latency has none. No array that is timed is zero.
 * Lines that begin with # end the output: the products of cuBLASLt by shape, the algorithms tried, the first against the best, an epilogue against
 * a pass of our own, and what is used (cublaslt_log).
 * -p adds such lines after each line of training and sampling: the time of a few more steps by op, and by op and shape (kernels/profile.h).
 * -q takes networks and arrays so small that a CPU can try the program (DDM_TEST_DEVICE=cpu). */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/opendevice.h"
#include "core/clock.h"
#include "core/mem.h"
#include "core/rng.h"
#include "core/shortfloat.h"
#include "core/str.h"
#include "diffusion/ensemble.h"
#include "diffusion/sampler.h"
#include "file/commit.h"
#include "file/filehash.h"
#include "file/fileio.h"
#include "file/safetensors.h"
#include "kernels/profile.h"
#include "net/model.h"
#include "net/trunkconfig.h"
#include "tests/cuda/quantile.h"
#include "tests/cuda/remote.h"
#include "train/noised.h"
#include "train/update.h"

enum { SLOTS = 64, EXPERTS = 8 };

static struct device *dev;
static struct pool *pool;
static const char *pattern;
static double seconds = 2, peak, copy_rate;
static int quick, profiling;

static void must(int rc, const struct err *e)
{
	if (!rc)
		return;
	fprintf(stderr, "bench_cuda: %s\n", e->msg);
	exit(e->code);
}

static void finish(void)
{
	struct err e = {0};

	must(dev->sync(dev, &e), &e);
}

static int wanted(const char *name)
{
	return !pattern || strstr(name, pattern);
}

static void line(const char *name, double value, const char *unit, double ratio, double spread)
{
	printf("%s\t%.6g\t%s\t%.4f\t%.4f\n", name, value, unit, ratio, spread);
	fflush(stdout);
}

static void comment(void *arg, const char *text)
{
	(void)arg;
	printf("# %s\n", text);
}

/* With -p: the times of the ops in a few more calls. The first call is not counted, because it makes the graphs with timers. */
static void profile(void (*once)(void *), void *arg)
{
	struct profile *p;

	if (!profiling)
		return;
	finish();
	p = profile_new(dev);
	for (int i = 0; i < 4; i++)
		once(arg);
	profile_table(p, comment, NULL);
	profile_shapes(p, comment, NULL);
	profile_free(p);
	fflush(stdout);
}

struct timing {
	double each, spread; /* seconds of one call, the median over slots; half the distance of the quartiles, as a fraction of the median */
};

static double slot_of(void (*once)(void *), void *arg, int64_t calls)
{
	double start;

	finish();
	start = clock_seconds();
	for (int64_t i = 0; i < calls; i++)
		once(arg);
	finish();
	return (clock_seconds() - start) / (double)calls;
}

/* Time slots of a twentieth of the time, but at least one call. Three calls before them choose algorithms and capture graphs. */
static struct timing time_of(void (*once)(void *), void *arg)
{
	double v[SLOTS], end;
	struct timing t;
	int64_t calls;
	int n = 0;

	for (int i = 0; i < 3; i++)
		once(arg);
	calls = (int64_t)(seconds / 20 / slot_of(once, arg, 1)) + 1;
	end = clock_seconds() + seconds;
	while (n < SLOTS && (n < 3 || clock_seconds() < end))
		v[n++] = slot_of(once, arg, calls);
	qsort(v, (size_t)n, sizeof *v, by_value);
	t.each = quantile(v, n, .5);
	t.spread = (quantile(v, n, .75) - quantile(v, n, .25)) / 2 / t.each;
	return t;
}

static void *memory(size_t bytes)
{
	struct err e = {0};
	void *p = dev->alloc(dev, bytes, "arrays", &e);

	must(!p, &e);
	return p;
}

/* Normal values, drawn and rounded to bfloat16 by the host; a short block is repeated. */
static void *values(int64_t n, enum dtype type, float scale)
{
	enum { PIECE = 1 << 20 };
	static float z[PIECE];
	static uint16_t h[PIECE];
	size_t size = dtype_size(type);
	char *p = memory((size_t)n * size);

	rng_normal(z, PIECE, 1, RNG_TEST, 0, 0);
	for (int i = 0; i < PIECE; i++) {
		z[i] *= scale;
		h[i] = f32_to_bf16(z[i]);
	}
	for (int64_t at = 0; at < n; at += PIECE)
		device_put(dev, p + (size_t)at * size, type == DT_BF16 ? (void *)h : z, (size_t)(n - at < PIECE ? n - at : PIECE) * size);
	return p;
}

static struct array array_of(void *data, enum dtype type, int rank, int64_t a, int64_t b, int64_t c, int64_t d)
{
	struct array x = {.data = data, .dtype = type, .rank = rank, .shape = {a, b, c, d}};
	int64_t step = 1;

	for (int i = rank - 1; i >= 0; i--) {
		x.stride[i] = step;
		step *= x.shape[i];
	}
	return x;
}

static void copy_once(void *arg)
{
	char *p = arg;
	size_t bytes = quick ? 1 << 20 : (size_t)1 << 32;

	device_copy(dev, p, p + bytes, bytes);
}

static void ceilings(void)
{
	size_t bytes = quick ? 1 << 20 : (size_t)1 << 32;
	char *p = values((int64_t)bytes / 2, DT_F32, 1);
	struct timing t = time_of(copy_once, p);

	copy_rate = 2. * (double)bytes / t.each;
	dev->release(dev, p);
	peak = dev->peak_flops(dev);
	line("copy", copy_rate * 1e-12, "TB/s", 1, t.spread);
	line("fastest product", peak * 1e-12, "TFLOP/s", 1, 0);
}

/* An op that runs outside a tape. */
struct job {
	enum op op;
	struct op_call c;
	void *scratch;
};

static void job_once(void *arg)
{
	struct job *j = arg;

	device_run(dev, j->op, &j->c, j->scratch);
}

/* Time a job. flops, bytes: of one call; one of them is 0. */
static void job(const char *name, struct job *j, double flops, double bytes)
{
	size_t need = device_scratch(dev, j->op, &j->c);
	struct timing t;

	j->scratch = need ? memory(need) : NULL;
	t = time_of(job_once, j);
	if (flops > 0)
		line(name, flops / t.each * 1e-12, "TFLOP/s", flops / t.each / peak, t.spread);
	else
		line(name, bytes / t.each * 1e-12, "TB/s", bytes / t.each / copy_rate, t.spread);
	dev->release(dev, j->scratch);
}

static enum dtype storage(void)
{
	return dev->storage >> DT_BF16 & 1 ? DT_BF16 : DT_F32;
}

/* The linear layers of a block of DiT-XL on 64k tokens, and their gradients; fc2's also times the derivative of the GELU before it. */
static void products(void)
{
	static const struct {
		const char *name;
		int64_t k, n;
	} layers[] = {{"qkv", 1152, 3456}, {"proj", 1152, 1152}, {"fc1", 1152, 4608}, {"fc2", 4608, 1152}};
	enum dtype s = storage();
	int64_t rows = quick ? 64 : 65536;

	for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
		for (int kind = 0; kind < (i == 3 ? 4 : 3); kind++) {
			static const enum op ops[] = {OP_LINEAR, OP_LINEAR_DX, OP_LINEAR_DW, OP_LINEAR_DX};
			static const char *const kinds[] = {"", " dx", " dw", " dx gelu"};
			int64_t k = layers[i].k / (quick ? 16 : 1), n = layers[i].n / (quick ? 16 : 1);
			struct job j = {.op = ops[kind]};
			char name[64];

			snprintf(name, sizeof name, "product xl %s%s", layers[i].name, kinds[kind]);
			if (!wanted(name))
				continue;
			{
				struct array x = array_of(values(rows * k, s, 1), s, 2, rows, k, 0, 0);
				struct array y = array_of(values(rows * n, s, 1), s, 2, rows, n, 0, 0);
				struct array w = array_of(values(n * k, s, .02f), s, 2, n, k, 0, 0);
				struct array dw = array_of(memory((size_t)(n * k) * 4), DT_F32, 2, n, k, 0, 0);
				struct array pre = {0};

				j.c = (struct op_call){.nin = kind % 3 ? 2 : 3, .nout = kind & 1 ? 1 : 2};
				j.c.in[0] = kind ? y : x;
				j.c.in[1] = kind == 2 ? x : w;
				j.c.out[0] = kind == 2 ? dw : kind ? x : y;
				if (kind == 3) {
					j.c.in[2] = pre = array_of(values(rows * k, s, 1), s, 2, rows, k, 0, 0);
					j.c.attr.linear.act = 1 + UNARY_GELU_TANH;
				}
				job(name, &j, 2. * (double)rows * (double)k * (double)n, 0);
				dev->release(dev, x.data), dev->release(dev, y.data), dev->release(dev, w.data), dev->release(dev, dw.data);
				dev->release(dev, pre.data);
			}
		}
}

static void attention(void)
{
	static const int64_t dims[] = {64, 72, 128}, lengths[] = {256, 1024, 4096};
	enum dtype s = storage();

	for (int i = 0; i < 9; i++) {
		int64_t d = dims[i % 3], n = quick ? 32 : lengths[i / 3], heads = quick ? 2 : 16, b = quick ? 1 : 65536 / n,
			count = b * n * heads * d;
		double flops = 4. * (double)(b * heads) * (double)(n * n) * (double)d;
		struct array a[8], lse;
		struct job f = {.op = OP_ATTENTION}, g = {.op = OP_ATTENTION_GRAD};
		char name[64];

		snprintf(name, sizeof name, "attention head %d, %d tokens", (int)d, (int)lengths[i / 3]);
		if (!wanted(name))
			continue;
		for (int k = 0; k < 8; k++)
			a[k] = array_of(values(count, s, 1), s, 4, b, n, heads, d);
		lse = array_of(values(b * heads * n, DT_F32, 1), DT_F32, 3, b, heads, n, 0);
		f.c =
		    (struct op_call){.nin = 3, .nout = 2, .in = {a[0], a[1], a[2]}, .out = {a[3], lse}, .attr.attention.scale = 1 / sqrt((double)d)};
		g.c = (struct op_call){.nin = 6, .nout = 3, .in = {a[4], a[0], a[1], a[2], a[3], lse}, .out = {a[5], a[6], a[7]}, .attr = f.c.attr};
		job(name, &f, flops, 0);
		snprintf(name, sizeof name, "attention gradient head %d, %d tokens", (int)d, (int)lengths[i / 3]);
		job(name, &g, 2.5 * flops, 0);
		for (int k = 0; k < 8; k++)
			dev->release(dev, a[k].data);
		dev->release(dev, lse.data);
	}
}

/* One-pass kernels on rows of DiT-XL's width, 256 samples of 256 tokens: several times the size of the cache. */
static void one_pass(void)
{
	enum dtype s = storage();
	int64_t b = quick ? 2 : 256, t = quick ? 8 : 256, c = 1152, n = b * t * c;
	double bytes = (double)n * (double)dtype_size(s);
	struct array x = array_of(values(n, s, 1), s, 3, b, t, c, 0), y = array_of(values(n, s, 1), s, 3, b, t, c, 0);
	struct array z = array_of(values(n, s, 1), s, 3, b, t, c, 0), w = array_of(values(n, s, 1), s, 3, b, t, c, 0);
	struct array stats = array_of(values(b * t * 2, DT_F32, 1), DT_F32, 3, b, t, 2, 0), m = array_of(values(b * c, s, 1), s, 3, b, t, c, 0);
	struct array v = array_of(values(n, s, 1), s, 3, b, t, c, 0), dm[3];
	struct job j;

	m.stride[0] = c, m.stride[1] = 0;
	for (int i = 0; i < 3; i++)
		dm[i] = array_of(memory((size_t)(b * c) * 4), DT_F32, 3, b, 1, c, 0);
#define JOB(title, kind, passes, ...) \
	if (wanted(title)) { \
		j = (struct job){.op = kind, .c = {__VA_ARGS__}}; \
		job(title, &j, 0, (passes)*bytes); \
	}
	JOB("norm, modulated", OP_NORM, 2, .nin = 3, .nout = 2, .in = {x, m, m}, .out = {y, stats}, .attr.norm = {NORM_LAYER, 1, 1e-6})
	JOB("norm gradient", OP_NORM_GRAD, 4, .nin = 5, .nout = 3, .in = {z, x, stats, m, w}, .out = {y, dm[0], dm[1]},
	    .attr.norm = {NORM_LAYER, 1, 1e-6})
	JOB("gate", OP_GATE, 3, .nin = 3, .nout = 1, .in = {x, m, y}, .out = {z})
	JOB("gate gradient", OP_GATE_GRAD, 3, .nin = 3, .nout = 2, .in = {x, m, y}, .out = {z, dm[0]})
	if (dev->gated_norms) {
		JOB("gate and norm", OP_NORM, 4, .nin = 5, .nout = 3, .in = {x, m, m, m, y}, .out = {z, stats, w}, .attr.norm = {NORM_LAYER, 1, 1e-6})
		JOB("their gradients", OP_NORM_GRAD, 6, .nin = 7, .nout = 5, .in = {z, x, stats, m, w, m, y}, .out = {w, dm[0], dm[1], v, dm[2]},
		    .attr.norm = {NORM_LAYER, 1, 1e-6})
	}
	JOB("gelu", OP_UNARY, 2, .nin = 1, .nout = 1, .in = {x}, .out = {y}, .attr.unary = {UNARY_GELU_TANH})
	JOB("gelu gradient", OP_UNARY_GRAD, 3, .nin = 2, .nout = 1, .in = {x, y}, .out = {z}, .attr.unary = {UNARY_GELU_TANH})
	JOB("add", OP_ADD, 3, .nin = 2, .nout = 1, .in = {x, y}, .out = {z}, .attr = {.add = {1, 1}})
#undef JOB
	dev->release(dev, x.data), dev->release(dev, y.data), dev->release(dev, z.data), dev->release(dev, w.data);
	dev->release(dev, stats.data), dev->release(dev, m.data), dev->release(dev, dm[0].data), dev->release(dev, dm[1].data);
	dev->release(dev, dm[2].data), dev->release(dev, v.data);
}

/* An iteration of k-means over points in device memory, in the chunks of cluster/kmeans_device.c. */
struct lloyd {
	struct job find, add;
	char *x;
	int64_t n, chunk;
};

static void lloyd_once(void *arg)
{
	struct lloyd *l = arg;
	int64_t d = l->find.c.in[0].shape[1];

	for (int64_t at = 0; at < l->n; at += l->chunk) {
		l->find.c.in[0].data = l->add.c.in[0].data = l->x + (size_t)(at * d) * sizeof(float);
		l->add.c.attr.total.anew = !at;
		job_once(&l->find);
		job_once(&l->add);
	}
}

/* The number of rows of d floats, in whole chunks: `most`, or as many as fit into 80% of the free memory. */
static int64_t rows_that_fit(int64_t most, int64_t chunk, int64_t d)
{
	struct device_memory m = {0};
	int64_t rows;

	dev->memory(dev, &m);
	rows = m.total ? (int64_t)((double)m.free * .8 / (double)(d * (int64_t)sizeof(float))) : most;
	rows = (rows < most ? rows : most) / chunk * chunk;
	return rows ? rows : chunk;
}

static void clusters_of(int64_t k)
{
	int64_t chunk = quick ? 512 : 65536, d = quick ? 64 : 1024, n = rows_that_fit(quick ? 1024 : 153 * 65536, chunk, d);
	struct lloyd l = {.find.op = OP_NEAREST, .add.op = OP_SEGMENT_SUM, .x = values(n * d, DT_F32, 1), .n = n, .chunk = chunk};
	struct array x = array_of(l.x, DT_F32, 2, chunk, d, 0, 0), c = array_of(values(k * d, DT_F32, .9f), DT_F32, 2, k, d, 0, 0);
	struct array at = array_of(memory((size_t)chunk * 4), DT_I32, 1, chunk, 0, 0, 0);
	struct array near = array_of(memory((size_t)chunk * 4), DT_F32, 1, chunk, 0, 0, 0);
	struct array pieces = array_of(memory((size_t)chunk / NEAREST_PIECE * 8), DT_F64, 1, chunk / NEAREST_PIECE, 0, 0, 0);
	struct array sum = array_of(memory((size_t)(k * d) * 8), DT_F64, 2, k, d, 0, 0),
		     size = array_of(memory((size_t)k * 4), DT_I32, 1, k, 0, 0, 0);
	struct array all[] = {x, c, at, near, pieces, sum, size};
	double flops = 2. * (double)k * (double)d;
	char name[64];
	size_t need;
	struct timing t;

	l.find.c = (struct op_call){.nin = 3, .nout = 3, .in = {x, c}, .out = {at, near, pieces}};
	l.add.c = (struct op_call){.nin = 2, .nout = 2, .in = {x, at}, .out = {sum, size}, .attr.segment_sum = {1}};
	snprintf(name, sizeof name, "clusters %d, nearest", (int)k);
	job(name, &l.find, (double)chunk * flops, 0);
	snprintf(name, sizeof name, "clusters %d, sums", (int)k);
	job(name, &l.add, 0, (double)(chunk * d) * sizeof(float));
	need = device_scratch(dev, OP_NEAREST, &l.find.c) + device_scratch(dev, OP_SEGMENT_SUM, &l.add.c);
	l.find.scratch = l.add.scratch = memory(need);
	t = time_of(lloyd_once, &l);
	snprintf(name, sizeof name, "clusters %d, iteration of %.1fM", (int)k, (double)n * 1e-6);
	line(name, t.each, "s", (double)n * flops / t.each / peak, t.spread);
	dev->release(dev, l.find.scratch);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		dev->release(dev, all[i].data);
}

/* k-means of features of a large vision network, with the final number of clusters and with that of the first step. */
static void clusters(void)
{
	if (wanted("clusters 8"))
		clusters_of(8);
	if (wanted("clusters 1024"))
		clusters_of(quick ? 70 : 1024);
}

/* Whole training steps, submitted as the trainer does. */
struct training {
	struct params params;
	struct loss_tape loss;
	struct train_state state;
	struct objective objective;
	struct noised noised;
	struct update update;
	float *dloss, *x0;
	int32_t *label;
	int64_t batch, step, updates; /* updates: steps whose status has been read */
	double loss_of_step;          /* of the last step whose status has been read, mean over the batch */
};

static int bf16(void)
{
	return storage() == DT_BF16;
}

/* A network of this name; with -q one of a single block. */
static void preset_read(const char *preset, struct net_config *c)
{
	struct err e = {0};

	must(net_preset(quick ? "dit-nano/2" : preset, c, &e), &e);
	if (quick)
		trunk_edit(c)->depth = 1;
}

/* Set the batch to the largest power of two up to `most` that fits into 90% of the free memory. */
static void fit(struct training *s, const struct net_config *c, int64_t most)
{
	struct device_memory m = {0};
	uint64_t need;

	dev->memory(dev, &m);
	for (s->batch = most;; s->batch /= 2) {
		loss_record(&s->loss, c, LOSS_SQUARED, &s->params, DT_F32, s->batch, 1, 0);
		tape_layout(s->loss.tape, dev, &(struct plan_options){.bf16 = bf16(), .bf16_weights = bf16()});
		need = (uint64_t)tape_arena_bytes(s->loss.tape) + (uint64_t)tape_scratch_bytes(s->loss.tape) +
		       state_bytes(&s->params, 0, bf16(), 0, s->params.trainable) + update_bytes(&s->params, 1, 1);
		if (s->batch == 1 || !m.total || (double)need < .9 * (double)m.free)
			return;
		tape_free(s->loss.tape);
		params_release(&s->params);
	}
}

/* Check the status of a step (may be NULL). The benchmark fails if loss or gradient are not finite, because such a step skips AdamW and its time
 * means nothing. */
static void heard(struct training *s, const double *status)
{
	if (!status)
		return;
	s->loss_of_step = status[STATUS_LOSS] / (double)s->batch;
	if (!isfinite(s->loss_of_step) || !isfinite(status[STATUS_NORM]) || !(status[STATUS_FINITE] > 0)) {
		finish(); /* a lost device leaves no status */
		fprintf(stderr, "bench_cuda: training: after %.0f updates: the loss is %g, the gradient's norm %g\n", status[STATUS_UPDATES],
		        s->loss_of_step, status[STATUS_NORM]);
		exit(1);
	}
	s->updates = (int64_t)status[STATUS_UPDATES];
}

static void step_once(void *arg)
{
	static const double plan[PLAN_COUNT] = {[PLAN_LR] = 1e-4, [PLAN_BETA1] = .9, [PLAN_BETA2] = .999, [PLAN_EPS] = 1e-8, [PLAN_EMA] = .999};
	struct training *s = arg;

	objective_noise(&s->objective, &s->noised, &s->loss, s->batch, &(struct clean){.x0 = s->x0, .label = s->label, .cluster = s->label}, 1,
	                (uint64_t)++s->step, 0);
	tape_run(s->loss.tape, s->batch, 0, s->loss.forward_end);
	tape_run(s->loss.tape, s->batch, s->loss.forward_end, s->loss.end);
	update_apply(&s->update, plan, -1, NULL);
	heard(s, update_finished(&s->update, 0));
}

static void train(const char *preset, int64_t size, int64_t most)
{
	struct net_config c = {
	    .def = &net_dit, .channels = 4, .out_channels = 4, .size = size, .time_scale = 1000, .classes = 1000, .class_dropout = .1};
	struct training s = {.dloss = NULL};
	struct err e = {0};
	struct timing t;
	float *w;
	char name[96];

	preset_read(preset, &c);
	snprintf(name, sizeof name, "train %s, %d tokens", preset, (int)(size / trunk_config(&c)->patch * size / trunk_config(&c)->patch));
	if (!wanted(name))
		return;
	c.size = quick ? 8 : size;
	fit(&s, &c, quick ? 2 : most);
	s.objective = (struct objective){
	    .path = &path_linear, .condition = CONDITION_CLASS, .classes = 1000, .class_dropout = .1, .d = c.channels * c.size * c.size};
	must(tape_allocate(s.loss.tape, &e) || state_init(&s.state, dev, &s.params, 0, bf16(), 0, NULL, &e) ||
	         noised_init(&s.noised, dev, s.batch, &c, LOSS_SQUARED, &e) ||
	         update_init(&s.update, &s.state, 1, tape_data(s.loss.tape, s.loss.loss), s.batch, NULL, &e),
	     &e);
	w = values(s.params.total, DT_F32, .02f);
	device_copy(dev, s.state.values, w, (size_t)s.params.total * sizeof *w);
	dev->release(dev, w);
	s.x0 = mem_zalloc((size_t)(s.batch * s.objective.d), sizeof *s.x0);
	rng_normal(s.x0, (size_t)(s.batch * s.objective.d), 1, RNG_TEST, 0, 0);
	s.label = mem_zalloc((size_t)s.batch, sizeof *s.label);
	s.dloss = values(s.batch, DT_F32, 1.f / (float)s.batch);
	tape_bind_params(s.loss.tape, s.state.values, s.update.grads);
	tape_bind_bf16(s.loss.tape, s.state.rounded);
	state_round(&s.state, s.state.values);
	loss_bind(&s.loss, &s.noised);
	tape_bind(s.loss.tape, s.loss.dloss, s.dloss);
	t = time_of(step_once, &s);
	snprintf(name + strlen(name), sizeof name - strlen(name), ", batch %d", (int)s.batch);
	line(name, (double)s.batch / t.each, "images/s", tape_flops(s.loss.tape, s.batch, 0, s.loss.end) / t.each / peak, t.spread);
	profile(step_once, &s);
	for (const double *status; (status = update_finished(&s.update, 1));)
		heard(&s, status);
	if (s.updates != s.step) {
		fprintf(stderr, "bench_cuda: %s: %d updates in %d steps\n", name, (int)s.updates, (int)s.step);
		exit(1);
	}
	printf("# %s: loss %.6g after %d updates\n", name, s.loss_of_step, (int)s.updates);
	if (dev->uncaptured[0])
		fprintf(stderr, "bench_cuda: %s: not a graph: %s\n", name, dev->uncaptured);
	finish();
	tape_free(s.loss.tape);
	state_release(&s.state);
	noised_release(&s.noised);
	update_release(&s.update);
	params_release(&s.params);
	dev->release(dev, s.dloss);
	mem_free(s.x0);
	mem_free(s.label);
}

/* Write random weights of an expert or a router to a model folder. */
static void write_net(const char *folder, const char *preset, int router)
{
	struct model_config m = {.path = "linear", .cluster = -1};
	struct net_config *c = &m.net;
	char *config, *weights, *text;
	struct params p = {0};
	struct err e = {0};
	float *w;

	*c = (struct net_config){.def = router ? &net_router : &net_dit, .channels = 4, .size = quick ? 8 : 32, .time_scale = 1000};
	preset_read(preset, c);
	if (router) {
		m.clusters = c->clusters = EXPERTS;
	} else {
		c->out_channels = 4;
		c->classes = 1000;
		c->class_dropout = .1;
		snprintf(m.prediction, sizeof m.prediction, "velocity");
	}
	net_params(c, &p);
	w = values(p.total, DT_F32, .02f);
	config = path_join(folder, "config.json");
	weights = path_join(folder, model_weights_name(net_role(c)));
	text = model_config_text(&m, NULL);
	must(dir_make(folder, &e) || commit_bytes(config, text, strlen(text), &e) || model_write_weights(weights, &p, dev, w, NULL, 0, &e), &e);
	dev->release(dev, w);
	mem_free(text);
	mem_free(config);
	mem_free(weights);
	params_release(&p);
}

struct sampling {
	const struct ensemble *ensemble;
	struct router router;
	struct mixture mixture;
	struct sampler sampler;
	struct sampler_state *state;
	int64_t *index, batch;
	int32_t *label;
	float *x, *logits;
	double last, *step; /* (steps): seconds since the step before */
	int64_t steps, seen;
	int call;
};

/* The router runs and its output is read, but it is replaced by a fixed table: picture i at call s goes to the experts (i + s) mod 8 and
 * (3 i + s + 1) mod 8. */
static int route_table(void *arg, int64_t n, const float *x, const float *t, float *logits, struct err *e)
{
	struct sampling *s = arg;
	int call = s->call++;

	if (s->ensemble->router.logits(s->ensemble->router.arg, n, x, t, logits, e))
		return -1;
	for (int64_t i = 0; i < n; i++) {
		int64_t a = (i + call) % EXPERTS, b = (3 * i + call + 1) % EXPERTS;

		memset(s->logits + i * EXPERTS, 0, EXPERTS * sizeof *s->logits);
		s->logits[i * EXPERTS + a] = 3;
		s->logits[i * EXPERTS + (a == b ? (b + 1) % EXPERTS : b)] = 2.5f;
	}
	device_put(dev, logits, s->logits, (size_t)(n * EXPERTS) * sizeof *logits);
	return 0;
}

/* Called before every step, when the router's output of the step before has been read. */
static int on_step(void *arg, const char *what, int64_t done, int64_t total)
{
	struct sampling *s = arg;
	double now = clock_seconds();

	(void)what;
	(void)total;
	if (done)
		s->step[s->seen++] = now - s->last;
	s->last = now;
	return 0;
}

static void sample_name(char name[96], int used, double cfg, int64_t batch)
{
	snprintf(name, 96, "sample 8 x xl/2, top-%d%s, batch %d", used, cfg == 1 ? "" : ", cfg", (int)batch);
}

static void sample_once(void *arg)
{
	struct sampling *s = arg;
	struct sampler_call call = {.n = s->batch, .index = s->index, .label = s->label};
	struct err e = {0};

	s->call = 0;
	must(sampler_run(s->state, s->x, &call, NULL, NULL, &e), &e);
	for (int64_t i = 0; i < s->batch * s->ensemble->d; i++)
		if (!isfinite(s->x[i])) {
			fprintf(stderr, "bench_cuda: sampling: value %d of the pictures is %g\n", (int)i, (double)s->x[i]);
			exit(1);
		}
}

static void sample(struct ensemble *ensemble, int used, double cfg, int64_t batch)
{
	struct sampling s = {.ensemble = ensemble, .steps = quick ? 2 : 50};
	const struct policy policy = policy_of(used == 1 ? "top-1" : "top-2");
	struct progress progress = {on_step, &s};
	struct err e = {0};
	char name[96], line_name[128];
	int runs = quick ? 1 : batch > 8 ? 3 : 8;
	double total = 0, flops;

	sample_name(name, used, cfg, batch);
	if (!wanted(name))
		return;
	s.batch = batch = quick && batch > 2 ? 2 : batch;
	s.router = ensemble->router;
	s.router.logits = route_table;
	s.router.arg = &s;
	s.mixture = (struct mixture){
	    .k = ensemble->k, .d = ensemble->d, .expert = ensemble->expert, .router = &s.router, .policy = policy, .cfg = cfg, .device = dev};
	s.sampler = (struct sampler){.mixture = &s.mixture,
	                             .solver = {SOLVER_EULER, s.steps, 1, 0},
	                             .seed = 1,
	                             .batch = batch,
	                             .progress = &progress,
	                             .order = ensemble_order,
	                             .order_arg = ensemble};
	must(!(s.state = sampler_new(&s.sampler, &e)), &e);
	s.x = mem_zalloc((size_t)(batch * ensemble->d), sizeof *s.x);
	s.logits = mem_zalloc((size_t)(batch * EXPERTS), sizeof *s.logits);
	s.index = mem_zalloc((size_t)batch, sizeof *s.index);
	s.label = mem_zalloc((size_t)batch, sizeof *s.label);
	s.step = mem_zalloc((size_t)((runs + 1) * s.steps), sizeof *s.step); /* profile() makes four runs */
	for (int64_t i = 0; i < batch; i++) {
		s.index[i] = i;
		s.label[i] = (int32_t)(i * 37 % 1000);
	}
	for (int r = 0; r < runs + 2; r++) {
		double start = clock_seconds();

		if (r == 2)
			s.seen = 0, total = 0;
		sample_once(&s);
		total += clock_seconds() - start;
	}
	flops = (double)(runs * batch * s.steps) * (used * (cfg == 1 ? 1 : 2) * ensemble->expert[0].flops + s.router.flops);
	line(name, (double)(runs * batch) / total, "images/s", flops / total / peak, 0);
	qsort(s.step, (size_t)s.seen, sizeof *s.step, by_value);
	snprintf(line_name, sizeof line_name, "%s, step p50", name);
	line(line_name, 1e3 * quantile(s.step, (int)s.seen, .5), "ms", 0, 0);
	snprintf(line_name, sizeof line_name, "%s, step p99", name);
	line(line_name, 1e3 * quantile(s.step, (int)s.seen, .99), "ms", 0, 0);
	s.seen = 0;
	profile(sample_once, &s);
	sampler_free(s.state);
	mem_free(s.x), mem_free(s.logits), mem_free(s.index), mem_free(s.label), mem_free(s.step);
}

/* Sample all batches with the same networks, because reading them takes a while. */
static void samples(void)
{
	static const int64_t batches[] = {64, 8, 1}; /* the most important first, in case the time runs out */
	struct ensemble_options o = {.capacity = 128, .device = dev, .bulk = bf16() ? COMPACT_BF16 : COMPACT_NONE, .policy = policy_of("full")};
	char dir[] = "/tmp/ddm-bench-XXXXXX", *first, *router;
	struct ensemble ensemble;
	struct err e = {0};
	int any = 0;

	for (int i = 0; i < 6; i++) {
		char name[96];

		sample_name(name, i % 2 + 1, 1.5, batches[i / 2]);
		any |= wanted(name);
	}
	if (!any)
		return;
	if (!mkdtemp(dir)) {
		err_errno(&e, "%s", dir);
		must(-1, &e);
	}
	filehash_remember(dir, 1 << 20); /* the eight experts share one file */
	first = path_join(dir, "expert_0");
	router = path_join(dir, "router");
	write_net(first, "dit-xl/2", 0);
	write_net(router, "dit-b/2", 1);
	for (int k = 1; k < EXPERTS; k++) {
		char *other = str_new("%s/expert_%d", dir, k);

		if (symlink("expert_0", other)) {
			err_errno(&e, "%s", other);
			must(-1, &e);
		}
		mem_free(other);
	}
	must(ensemble_open(&ensemble, dir, &o, &e), &e);
	for (int i = 0; i < 6; i++)
		sample(&ensemble, i % 2 + 1, 1.5, batches[i / 2]);
	ensemble_release(&ensemble);
	filehash_remember(NULL, 0);
	mem_free(first);
	mem_free(router);
	must(dir_remove(dir, &e), &e);
}

int main(int argc, char **argv)
{
	struct err e = {0};
	int o;

	while ((o = getopt(argc, argv, "pqs:")) != -1)
		if (o == 'q')
			quick = 1;
		else if (o == 'p')
			profiling = 1;
		else if (o != 's' || !((seconds = strtod(optarg, NULL)) > 0))
			exit(2);
	pattern = argv[optind];
	must(!(pool = pool_new(0, &e)) || !(dev = remote_open(pool, &e)), &e);
	if (dev->cublaslt)
		keep_tuning(dev);
	must(device_set_precision(dev, device_precision(dev), &e), &e);
	printf("# %s, %s\n", dev->name, precision_names[device_precision(dev)]);
	ceilings();
	products();
	attention();
	one_pass();
	clusters();
	train("dit-xl/2", 32, 256);
	train("dit-xl/2", 64, 64);
	train("dit-xl/2", 128, 16);
	train("dit-b/2", 32, 512);
	train("dit-s/2", 32, 1024);
	samples();
	remote_libraries(dev, comment, NULL);
	device_free(dev);
	pool_free(pool);
	return 0;
}
