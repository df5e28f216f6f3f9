/* Collects the time, FLOPs and bytes of every op that a device runs, and prints them as tables by op and by shape. */
#include "kernels/profile.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/hash.h"
#include "core/mem.h"
#include "kernels/compact.h"

enum { WAITING = 64 };

/* An op that was submitted between two timers. */
struct span {
	size_t shape; /* index */
	double flops, bytes;
	void *from, *to;
};

/* Calls of one op with arrays of the same shapes and types. */
struct shape_profile {
	enum op op;
	uint64_t hash;
	char text[128];
	struct op_profile sum;
};

struct profile {
	struct device *device;
	struct shape_profile *shape;
	size_t shapes;
	struct span span[WAITING];
	int waiting;
};

static double array_bytes(const struct array *a)
{
	return a->dtype == DT_COMPACT ? (double)compact_bytes(a->data) : (double)array_count(a) * (double)dtype_size(a->dtype);
}

static double bytes_touched(const struct op_call *c)
{
	double b = 0;

	for (int j = 0; j < c->nin; j++)
		if (c->in[j].rank)
			b += array_bytes(&c->in[j]);
	for (int k = 0; k < c->nout; k++)
		if (c->out[k].rank)
			b += array_bytes(&c->out[k]);
	return b;
}

static const char *const type_names[] = {[DT_F32] = "f32", [DT_F64] = "f64", [DT_BF16] = "bf16", [DT_I32] = "i32", [DT_COMPACT] = "compact"};

/* " 256x1152:bf16"; nothing for an array that is not there. */
static void put_shape(char *text, size_t size, const struct array *a)
{
	size_t at = strlen(text);

	if (!a->rank)
		return;
	for (int d = 0; d < a->rank && at < size; d++)
		at += (size_t)snprintf(text + at, size - at, "%s%" PRId64, d ? "x" : " ", a->shape[d]);
	if (at < size)
		snprintf(text + at, size - at, ":%s", type_names[a->dtype]);
}

static uint64_t hash_arrays(uint64_t h, const struct array *a, int n)
{
	for (int i = 0; i < n; i++) {
		int64_t key[ARRAY_RANK + 3] = {(int64_t)h, a[i].rank, a[i].rank ? (int64_t)a[i].dtype : 0};

		for (int d = 0; d < a[i].rank; d++)
			key[3 + d] = a[i].shape[d];
		h = hash64(key, sizeof key);
	}
	return h;
}

/* The index of the call's op and shapes. */
static size_t shape_of(struct profile *p, enum op op, const struct op_call *c)
{
	uint64_t h = hash_arrays(hash_arrays((uint64_t)op, c->in, c->nin), c->out, c->nout);
	struct shape_profile *s;

	for (size_t i = 0; i < p->shapes; i++)
		if (p->shape[i].hash == h && p->shape[i].op == op)
			return i;
	p->shape = mem_resize(p->shape, p->shapes + 1, sizeof *p->shape);
	s = &p->shape[p->shapes];
	*s = (struct shape_profile){.op = op, .hash = h};
	for (int i = 0; i < c->nin; i++)
		put_shape(s->text, sizeof s->text, &c->in[i]);
	if (strlen(s->text) + 4 < sizeof s->text)
		memcpy(s->text + strlen(s->text), " ->", 4);
	for (int i = 0; i < c->nout; i++)
		put_shape(s->text, sizeof s->text, &c->out[i]);
	return p->shapes++;
}

static void add(struct op_profile *to, const struct op_profile *x)
{
	to->count += x->count;
	to->seconds += x->seconds;
	to->flops += x->flops;
	to->bytes += x->bytes;
}

static void count(struct profile *p, size_t shape, double flops, double bytes, double seconds)
{
	add(&p->shape[shape].sum, &(struct op_profile){1, seconds, flops, bytes});
}

struct profile *profile_new(struct device *d)
{
	struct profile *p = mem_zalloc(1, sizeof *p);

	assert(!d->profile);
	p->device = d;
	for (int i = 0; d->timer_new && i < WAITING; i++) {
		p->span[i].from = d->timer_new(d);
		p->span[i].to = d->timer_new(d);
	}
	d->profile = p;
	return p;
}

void profile_free(struct profile *p)
{
	if (!p)
		return;
	for (int i = 0; p->device->timer_new && i < WAITING; i++) {
		p->device->event_free(p->device, p->span[i].from);
		p->device->event_free(p->device, p->span[i].to);
	}
	p->device->profile = NULL;
	mem_free(p->shape);
	mem_free(p);
}

static void collect(struct profile *p)
{
	struct device *d = p->device;

	if (!p->waiting)
		return;
	d->sync(d, NULL);
	for (int i = 0; i < p->waiting; i++) {
		const struct span *s = &p->span[i];

		count(p, s->shape, s->flops, s->bytes, d->timer_seconds(d, s->from, s->to));
	}
	p->waiting = 0;
}

void profile_run(struct profile *p, enum op op, const struct op_call *c, double flops)
{
	struct device *d = p->device;
	struct span *s;
	double start;

	if (!d->timer_new) {
		d->sync(d, NULL);
		start = clock_seconds();
		d->kernel[op]->run(c);
		d->sync(d, NULL);
		profile_add(p, op, c, flops, clock_seconds() - start);
		return;
	}
	if (p->waiting == WAITING)
		collect(p);
	s = &p->span[p->waiting++];
	s->shape = shape_of(p, op, c);
	s->flops = flops;
	s->bytes = bytes_touched(c);
	d->timer_record(d, s->from, c->stream);
	d->kernel[op]->run(c);
	d->timer_record(d, s->to, c->stream);
}

void profile_add(struct profile *p, enum op op, const struct op_call *c, double flops, double seconds)
{
	count(p, shape_of(p, op, c), flops, bytes_touched(c), seconds);
}

void profile_read(struct profile *p, struct op_profile out[OP_COUNT])
{
	collect(p);
	memset(out, 0, OP_COUNT * sizeof *out);
	for (size_t i = 0; i < p->shapes; i++)
		add(&out[p->shape[i].op], &p->shape[i].sum);
}

/* Units and denominators of the table. */
struct scale {
	struct device_peaks peak;
	double all, unit; /* all: total seconds; unit: 1e9 or 1e12, for FLOP/s and bytes/s */
	int ms;           /* times in milliseconds */
};

static double rate(double n, double seconds)
{
	return seconds > 0 ? n / seconds : 0;
}

static void row_text(char text[128], const char *name, const struct op_profile *q, const struct scale *s)
{
	double flops = rate(q->flops, q->seconds), bytes = rate(q->bytes, q->seconds);

	snprintf(text, 128, "%-16s %9" PRId64 " %9.3f %5.1f%% %9.1f %5.1f%% %8.*f %5.1f%%", name, q->count, q->seconds * (s->ms ? 1e3 : 1),
	         100 * rate(q->seconds, s->all), flops / s->unit, 100 * rate(flops, s->peak.flops), s->unit > 1e9 ? 3 : 1, bytes / s->unit,
	         100 * rate(bytes, s->peak.bytes));
}

static struct scale scale_of(struct profile *p, struct op_profile *sum)
{
	struct scale s = {.peak = device_peaks(p->device)};

	collect(p);
	*sum = (struct op_profile){0};
	for (size_t i = 0; i < p->shapes; i++)
		add(sum, &p->shape[i].sum);
	s.unit = s.peak.flops < 1e13 ? 1e9 : 1e12;
	s.all = sum->seconds;
	return s;
}

static void head_text(char text[128], const struct scale *s)
{
	snprintf(text, 128, "%-16s %9s %9s %6s %9s %6s %8s %6s", "op", "calls", s->ms ? "ms" : "seconds", "share",
	         s->unit > 1e9 ? "TFLOP/s" : "GFLOP/s", "peak", s->unit > 1e9 ? "TB/s" : "GB/s", "copy");
}

void profile_table(struct profile *p, void (*line)(void *arg, const char *text), void *arg)
{
	struct op_profile sum, op[OP_COUNT];
	struct scale s = scale_of(p, &sum);
	char text[128];

	profile_read(p, op);
	head_text(text, &s);
	line(arg, text);
	for (int i = 0; i < OP_COUNT; i++)
		if (op[i].count) {
			row_text(text, op_name((enum op)i), &op[i], &s);
			line(arg, text);
		}
	row_text(text, "all", &sum, &s);
	line(arg, text);
	if (*p->device->no_cudnn && (op[OP_ATTENTION].count || op[OP_ATTENTION_GRAD].count)) {
		char why[sizeof p->device->no_cudnn + 64];

		snprintf(why, sizeof why, "attention ran without cuDNN: %s", p->device->no_cudnn);
		line(arg, why);
	}
}

static int by_seconds(const void *a, const void *b)
{
	double x = (*(const struct shape_profile *const *)a)->sum.seconds, y = (*(const struct shape_profile *const *)b)->sum.seconds;

	return (x < y) - (x > y);
}

void profile_shapes(struct profile *p, void (*line)(void *arg, const char *text), void *arg)
{
	const struct shape_profile **order;
	struct op_profile sum;
	struct scale s = scale_of(p, &sum);
	char text[128], both[272];

	s.ms = 1;
	head_text(text, &s);
	line(arg, text);
	order = mem_alloc((p->shapes + 1) * sizeof *order);
	for (size_t i = 0; i < p->shapes; i++)
		order[i] = &p->shape[i];
	qsort(order, p->shapes, sizeof *order, by_seconds);
	for (size_t i = 0; i < p->shapes; i++) {
		row_text(text, op_name(order[i]->op), &order[i]->sum, &s);
		snprintf(both, sizeof both, "%s %s", text, order[i]->text);
		line(arg, both);
	}
	mem_free(order);
}
