/* Collects the time, FLOPs and bytes of every op that a device runs, and prints them as a table. */
#include "kernels/profile.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "core/clock.h"
#include "core/mem.h"
#include "kernels/compact.h"

enum { WAITING = 64 };

/* An op that was submitted between two timers. */
struct span {
	enum op op;
	double flops, bytes;
	void *from, *to;
};

struct profile {
	struct device *device;
	struct op_profile op[OP_COUNT];
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

static void count(struct profile *p, enum op op, double flops, double bytes, double seconds)
{
	struct op_profile *q = &p->op[op];

	q->count++;
	q->seconds += seconds;
	q->flops += flops;
	q->bytes += bytes;
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

		count(p, s->op, s->flops, s->bytes, d->timer_seconds(d, s->from, s->to));
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
	s->op = op;
	s->flops = flops;
	s->bytes = bytes_touched(c);
	d->timer_record(d, s->from, c->stream);
	d->kernel[op]->run(c);
	d->timer_record(d, s->to, c->stream);
}

void profile_add(struct profile *p, enum op op, const struct op_call *c, double flops, double seconds)
{
	count(p, op, flops, bytes_touched(c), seconds);
}

void profile_read(struct profile *p, struct op_profile out[OP_COUNT])
{
	collect(p);
	for (int i = 0; i < OP_COUNT; i++)
		out[i] = p->op[i];
}

/* Units and denominators of the table. */
struct scale {
	struct device_peaks peak;
	double all, unit; /* all: total seconds; unit: 1e9 or 1e12, for FLOP/s and bytes/s */
};

static double rate(double n, double seconds)
{
	return seconds > 0 ? n / seconds : 0;
}

static void row_text(char text[128], const char *name, const struct op_profile *q, const struct scale *s)
{
	double flops = rate(q->flops, q->seconds), bytes = rate(q->bytes, q->seconds);

	snprintf(text, 128, "%-16s %9" PRId64 " %9.3f %5.1f%% %9.1f %5.1f%% %8.*f %5.1f%%", name, q->count, q->seconds,
	         100 * rate(q->seconds, s->all), flops / s->unit, 100 * rate(flops, s->peak.flops), s->unit > 1e9 ? 3 : 1, bytes / s->unit,
	         100 * rate(bytes, s->peak.bytes));
}

void profile_table(struct profile *p, void (*line)(void *arg, const char *text), void *arg)
{
	struct scale s = {.peak = device_peaks(p->device)};
	struct op_profile sum = {0};
	char text[128];

	collect(p);
	s.unit = s.peak.flops < 1e13 ? 1e9 : 1e12;
	for (int i = 0; i < OP_COUNT; i++) {
		sum.count += p->op[i].count;
		sum.seconds += p->op[i].seconds;
		sum.flops += p->op[i].flops;
		sum.bytes += p->op[i].bytes;
	}
	s.all = sum.seconds;
	snprintf(text, sizeof text, "%-16s %9s %9s %6s %9s %6s %8s %6s", "op", "calls", "seconds", "share", s.unit > 1e9 ? "TFLOP/s" : "GFLOP/s",
	         "peak", s.unit > 1e9 ? "TB/s" : "GB/s", "copy");
	line(arg, text);
	for (int i = 0; i < OP_COUNT; i++)
		if (p->op[i].count) {
			row_text(text, op_name((enum op)i), &p->op[i], &s);
			line(arg, text);
		}
	row_text(text, "all", &sum, &s);
	line(arg, text);
}
