/* A device for tests that detects wrong uses of device memory. It runs the CPU's kernels.
 * Memory: it is mapped without access rights, except while a kernel or a transfer runs, so a host that dereferences it crashes. Every allocation
 * ends at an inaccessible page, and released memory is unmapped.
 * Fetches: the destination stays NaN until the host has waited, or has recorded two more events.
 * Order: events must order a send after all earlier uses of its destination, and all later uses after the send. Each stream counts its operations
 * and knows how far the other streams were when it last followed them.
 * Graphs: captured work runs only when the graph is launched. */
#ifndef DDM_TESTS_FAR_H
#define DDM_TESTS_FAR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/str.h"
#include "kernels/device.h"

enum { FAR_BLOCKS = 256, FAR_FETCHES = 64, FAR_LAZY = 2, FAR_STREAMS = 4, FAR_SENT = 64 };

/* A vector clock: the number of operations of each stream that are known to come before. */
struct far_clock {
	int64_t at[FAR_STREAMS];
};

/* A range of memory that `send` wrote, and the last use of it by each stream since. */
struct far_sent {
	char *from, *to;
	int stream;
	int64_t at, calls; /* the stream's clock after the send; kernels submitted before it */
	int64_t used[FAR_STREAMS];
};

/* A node of a graph: a kernel call, a timer, a copy or a fill. */
struct far_node {
	double *timer;
	enum op op; /* OP_VIEW: no kernel */
	struct op_call call;
	void *dst;
	const void *src; /* NULL: a fill */
	int byte;
	size_t bytes;
};

struct far_graph {
	struct far_node *node;
	int nodes;
};

struct far {
	struct device device;
	struct device *cpu;
	struct kernel kernels[OP_COUNT];
	struct far_block {
		char *map, *at;
		size_t length, bytes; /* bytes mapped, without the last page; bytes requested */
	} block[FAR_BLOCKS];
	struct far_fetch {
		void *dst, *data;
		size_t bytes;
		int stream;
		int64_t at;
	} fetch[FAR_FETCHES];
	int fetches, events;
	size_t used, most;
	uint64_t total;            /* reported size of the memory in bytes; 0: unknown */
	int64_t calls;             /* kernel calls so far */
	int64_t lost_at;           /* not 0: the device is lost at that kernel call; later reads return NaN */
	struct far_graph *capture; /* the graph being captured; NULL: work runs at once */
	int refuse;                /* 1: captures fail */
	struct str ranges;         /* names of the ranges, one per line, indented by two blanks per level */
	int nested;
	int64_t captures, launches, graphs; /* graphs: number of graphs that exist */
	size_t limit;                       /* not 0: allocations beyond this total of bytes fail */
	struct far_clock clock[FAR_STREAMS], host;
	struct far_sent sent[FAR_SENT];
	int sents;
	int64_t sends, send_bytes, overlapped; /* overlapped: sends after which kernels were submitted before a stream waited for them */
};

struct far_event {
	int number; /* events recorded so far, this one included */
	struct far_clock clock;
};

static inline void far_join(struct far_clock *a, const struct far_clock *b)
{
	for (int i = 0; i < FAR_STREAMS; i++)
		a->at[i] = b->at[i] > a->at[i] ? b->at[i] : a->at[i];
}

static inline void far_tick(struct far *f, int stream)
{
	far_join(&f->clock[stream], &f->host);
	f->clock[stream].at[stream]++;
}

static inline void far_touch(struct far *f, int stream, const void *p, size_t bytes)
{
	for (int i = 0; i < f->sents; i++) {
		struct far_sent *s = &f->sent[i];

		if ((const char *)p >= s->to || (const char *)p + bytes <= s->from)
			continue;
		assert_true(f->clock[stream].at[s->stream] >= s->at); /* otherwise the send may not have finished */
		s->used[stream] = f->clock[stream].at[stream];
	}
}

static inline void far_touch_array(struct far *f, int stream, const struct array *a)
{
	int64_t last = 0;

	for (int d = 0; d < a->rank; d++)
		last += (a->shape[d] - 1) * a->stride[d];
	if (a->data)
		far_touch(f, stream, a->data, (size_t)(last + 1) * dtype_size(a->dtype));
}

static inline void far_allow(struct far *f, int rights)
{
	for (int i = 0; i < FAR_BLOCKS; i++)
		if (f->block[i].map)
			assert_int_equal(mprotect(f->block[i].map, f->block[i].length, rights), 0);
}

static inline void far_keep(struct far *f, struct far_node n)
{
	f->capture->node = mem_resize(f->capture->node, (size_t)f->capture->nodes + 1, sizeof n);
	f->capture->node[f->capture->nodes++] = n;
}

static inline int far_lost(const struct far *f)
{
	return f->lost_at && f->calls >= f->lost_at;
}

static inline void far_run(const struct op_call *c, enum op op)
{
	struct far *f = (struct far *)c->device;
	struct op_call call = *c;

	if (f->capture) {
		far_keep(f, (struct far_node){.op = op, .call = *c});
		return;
	}
	far_tick(f, c->stream);
	for (int i = 0; i < c->nin; i++)
		far_touch_array(f, c->stream, &c->in[i]);
	for (int i = 0; i < c->nout; i++)
		far_touch_array(f, c->stream, &c->out[i]);
	f->calls++;
	if (far_lost(f))
		return;
	call.device = f->cpu;
	far_allow(f, PROT_READ | PROT_WRITE);
	f->cpu->kernel[op]->run(&call);
	far_allow(f, PROT_NONE);
}

/* Record a timer: the time is one millisecond per kernel call so far. */
static inline void far_record(struct far *f, double *timer)
{
	*timer = 1e-3 * (double)f->calls;
}

#define X(id, fn) \
	static void far_run_##fn(const struct op_call *c) \
	{ \
		far_run(c, OP_##id); \
	}
OPS(X)
#undef X

static inline size_t far_round(size_t n, size_t unit)
{
	return (n + unit - 1) / unit * unit;
}

static void *far_alloc(struct device *d, size_t bytes, const char *what, struct err *e)
{
	struct far *f = (struct far *)d;
	size_t page = (size_t)sysconf(_SC_PAGESIZE), length = far_round(bytes + 1, page);
	int i = 0;
	char *p;

	if (f->limit && f->used + bytes > f->limit) {
		err_set(e, ERR_NOMEM, "far: out of memory: %s needs %zu bytes, free are %zu", what, bytes, f->limit - f->used);
		return NULL;
	}
	while (f->block[i].map)
		assert_true(++i < FAR_BLOCKS);
	p = mmap(NULL, length + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) {
		err_set(e, ERR_NOMEM, "no memory for %s: %zu bytes", what, bytes);
		return NULL;
	}
	f->block[i] = (struct far_block){p, p + length - far_round(bytes, 64), length, bytes};
	f->used += bytes;
	f->most = f->used > f->most ? f->used : f->most;
	return f->block[i].at;
}

static void far_release(struct device *d, void *p)
{
	struct far *f = (struct far *)d;

	for (int i = 0; p && i < FAR_BLOCKS; i++)
		if (f->block[i].at == p) {
			for (int k = 0; k < f->sents; k++)
				if (f->sent[k].from >= (char *)p && f->sent[k].from < (char *)p + f->block[i].bytes)
					f->sent[k--] = f->sent[--f->sents];
			munmap(f->block[i].map, f->block[i].length + (size_t)sysconf(_SC_PAGESIZE));
			f->used -= f->block[i].bytes;
			f->block[i] = (struct far_block){0};
			return;
		}
	assert_null(p);
}

static void far_memory(struct device *d, struct device_memory *m)
{
	const struct far *f = (const struct far *)d;

	*m =
	    (struct device_memory){.used = f->used, .peak = f->most, .total = f->total, .free = f->total - (f->used < f->total ? f->used : f->total)};
}

/* put; also the transfers of get, fetch and copy. dst and src may be host or device memory. */
static void far_move(struct device *d, int stream, void *dst, const void *src, size_t bytes)
{
	struct far *f = (struct far *)d;

	assert_null(f->capture);
	far_tick(f, stream);
	far_touch(f, stream, dst, bytes);
	far_touch(f, stream, src, bytes);
	far_allow(f, PROT_READ | PROT_WRITE);
	f->cpu->copy(f->cpu, stream, dst, src, bytes);
	far_allow(f, PROT_NONE);
}

static void far_copy(struct device *d, int stream, void *dst, const void *src, size_t bytes)
{
	struct far *f = (struct far *)d;

	if (f->capture)
		far_keep(f, (struct far_node){.dst = dst, .src = src, .bytes = bytes});
	else
		far_move(d, stream, dst, src, bytes);
}

static void far_fill(struct device *d, int stream, void *dst, int byte, size_t bytes)
{
	struct far *f = (struct far *)d;

	if (f->capture) {
		far_keep(f, (struct far_node){.dst = dst, .byte = byte, .bytes = bytes});
		return;
	}
	far_allow(f, PROT_READ | PROT_WRITE);
	f->cpu->fill(f->cpu, stream, dst, byte, bytes);
	far_allow(f, PROT_NONE);
}

static inline void far_deliver(struct far *f, int i)
{
	struct far_fetch t = f->fetch[i];

	memcpy(t.dst, t.data, t.bytes);
	mem_free(t.data);
	f->fetches--;
	memmove(f->fetch + i, f->fetch + i + 1, (size_t)(f->fetches - i) * sizeof *f->fetch);
}

/* Deliver the fetches that were submitted before the clock c. */
static inline void far_deliver_until(struct far *f, const struct far_clock *c)
{
	for (int i = 0; i < f->fetches;)
		if (f->fetch[i].at <= c->at[f->fetch[i].stream])
			far_deliver(f, i);
		else
			i++;
}

static void far_send(struct device *d, int stream, void *dst, const void *src, size_t bytes)
{
	struct far *f = (struct far *)d;
	struct far_sent *s = f->sent;

	assert_null(f->capture);
	while (s < f->sent + f->sents && s->from != dst)
		s++;
	if (s == f->sent + f->sents)
		assert_true(++f->sents <= FAR_SENT);
	far_tick(f, stream);
	for (int i = 0; i < FAR_STREAMS; i++)
		assert_true(f->clock[stream].at[i] >= s->used[i]); /* otherwise a stream may still use the old contents */
	for (int i = 0; i < f->fetches; i++)
		if ((const char *)src < (char *)f->fetch[i].dst + f->fetch[i].bytes && (char *)f->fetch[i].dst < (const char *)src + bytes) {
			assert_true(f->clock[stream].at[f->fetch[i].stream] >= f->fetch[i].at); /* otherwise it is not finished */
			far_deliver(f, i--);
		}
	far_allow(f, PROT_READ | PROT_WRITE);
	memcpy(dst, src, bytes);
	far_allow(f, PROT_NONE);
	*s = (struct far_sent){.from = dst, .to = (char *)dst + bytes, .stream = stream, .at = f->clock[stream].at[stream], .calls = f->calls};
	f->sends++;
	f->send_bytes += (int64_t)bytes;
}

static void far_fetch(struct device *d, int stream, void *dst, const void *src, size_t bytes)
{
	struct far *f = (struct far *)d;
	struct far_fetch *t = &f->fetch[f->fetches++];

	assert_true(f->fetches < FAR_FETCHES);
	*t = (struct far_fetch){dst, mem_alloc(bytes), bytes, stream, 0};
	far_move(d, stream, t->data, src, bytes);
	t->at = f->clock[stream].at[stream];
	memset(dst, 0xff, bytes);
}

static void *far_event_new(struct device *d)
{
	(void)d;
	return mem_zalloc(1, sizeof(struct far_event));
}

static void far_event_free(struct device *d, void *event)
{
	(void)d;
	mem_free(event);
}

static void far_event_record(struct device *d, void *event, int stream)
{
	struct far *f = (struct far *)d;

	*(struct far_event *)event = (struct far_event){++f->events, f->clock[stream]};
}

static void far_event_follow(struct device *d, void *event, int stream)
{
	struct far *f = (struct far *)d;
	const struct far_clock *then = &((struct far_event *)event)->clock;

	for (int i = 0; i < f->sents; i++) {
		const struct far_sent *s = &f->sent[i];

		if (s->at > f->clock[stream].at[s->stream] && s->at <= then->at[s->stream])
			f->overlapped += f->calls > s->calls;
	}
	far_join(&f->clock[stream], then);
}

static int far_event_passed(struct device *d, void *event, int wait)
{
	struct far *f = (struct far *)d;
	const struct far_event *v = event;

	if (!wait && f->events - v->number < FAR_LAZY)
		return 0;
	far_deliver_until(f, &v->clock);
	far_join(&f->host, &v->clock);
	return 1;
}

static void *far_timer_new(struct device *d)
{
	(void)d;
	return mem_zalloc(1, sizeof(double));
}

static void far_timer_record(struct device *d, void *timer, int stream)
{
	struct far *f = (struct far *)d;

	(void)stream;
	if (f->capture)
		far_keep(f, (struct far_node){.timer = timer});
	else
		far_record(f, timer);
}

static double far_timer_seconds(struct device *d, void *from, void *to)
{
	(void)d;
	return *(double *)to - *(double *)from;
}

static void far_range_begin(struct device *d, const char *name)
{
	struct far *f = (struct far *)d;

	str_printf(&f->ranges, "%*s%s\n", 2 * f->nested++, "", name);
}

static void far_range_end(struct device *d)
{
	assert_true(((struct far *)d)->nested-- > 0);
}

static int far_capture_begin(struct device *d, int stream)
{
	struct far *f = (struct far *)d;

	(void)stream;
	assert_null(f->capture);
	f->capture = mem_zalloc(1, sizeof *f->capture);
	return 0;
}

static void far_graph_free(struct device *d, void *graph)
{
	struct far_graph *g = graph;

	mem_free(g->node);
	mem_free(g);
	((struct far *)d)->graphs--;
}

static void *far_capture_end(struct device *d, int stream)
{
	struct far *f = (struct far *)d;
	struct far_graph *g = f->capture;

	(void)stream;
	f->capture = NULL;
	f->graphs++;
	if (f->refuse) {
		snprintf(d->uncaptured, sizeof d->uncaptured, "far: refused");
		far_graph_free(d, g);
		return NULL;
	}
	f->captures++;
	return g;
}

static void far_graph_launch(struct device *d, void *graph, int stream)
{
	const struct far_graph *g = graph;

	((struct far *)d)->launches++;
	for (int i = 0; i < g->nodes; i++) {
		const struct far_node *n = &g->node[i];

		if (n->timer)
			far_record((struct far *)d, n->timer);
		else if (n->op != OP_VIEW)
			far_run(&n->call, n->op);
		else if (n->src)
			far_move(d, stream, n->dst, n->src, n->bytes);
		else
			far_fill(d, stream, n->dst, n->byte, n->bytes);
	}
}

static int far_error(struct device *d, struct err *e)
{
	return far_lost((struct far *)d) ? err_set(e, ERR_UNAVAILABLE, "far: the device is lost") : 0;
}

static void far_get(struct device *d, int stream, void *dst, const void *src, size_t bytes)
{
	far_move(d, stream, dst, src, bytes);
	far_join(&((struct far *)d)->host, &((struct far *)d)->clock[stream]);
	if (far_lost((struct far *)d))
		memset(dst, 0xff, bytes);
}

static int far_sync(struct device *d, struct err *e)
{
	while (((struct far *)d)->fetches)
		far_deliver((struct far *)d, 0);
	for (int i = 0; i < FAR_STREAMS; i++)
		far_join(&((struct far *)d)->host, &((struct far *)d)->clock[i]);
	return far_error(d, e);
}

static void far_close(struct device *d)
{
	struct far *f = (struct far *)d;

	for (int i = 0; i < FAR_BLOCKS; i++)
		assert_null(f->block[i].map); /* everything was released */
	assert_int_equal(f->graphs, 0);
	assert_int_equal(f->nested, 0);
	str_release(&f->ranges);
	for (int i = 0; i < f->fetches; i++) /* fetches of a device that was lost */
		mem_free(f->fetch[i].data);
	device_free(f->cpu);
	mem_free(f);
}

static double far_peak(struct device *d)
{
	struct far *f = (struct far *)d;

	return f->cpu->peak_flops(f->cpu);
}

static double far_peak_bytes(struct device *d)
{
	struct far *f = (struct far *)d;

	return f->cpu->peak_bytes(f->cpu);
}

static void *far_alloc_host(struct device *d, size_t bytes, const char *what, struct err *e)
{
	(void)d;
	return mem_try(bytes, 1, what, e);
}

static void far_release_host(struct device *d, void *p)
{
	(void)d;
	mem_free(p);
}

/* Caller frees with device_free, which fails the test if memory was not released. */
static inline struct device *device_far(struct pool *pool)
{
	struct far *f = mem_zalloc(1, sizeof *f);
	static void (*const run[OP_COUNT])(const struct op_call *) = {
#define X(id, fn) [OP_##id] = far_run_##fn,
	    OPS(X)
#undef X
	};

	f->cpu = device_cpu(pool, DT_F32);
	f->device = (struct device){
	    .name = "far",
	    .real = DT_F32,
	    .storage = 1u << DT_F32,
	    .streams = FAR_STREAMS,
	    .pool = pool,
	    .alloc = far_alloc,
	    .release = far_release,
	    .alloc_host = far_alloc_host,
	    .release_host = far_release_host,
	    .memory = far_memory,
	    .put = far_move,
	    .get = far_get,
	    .fetch = far_fetch,
	    .send = far_send,
	    .copy = far_copy,
	    .fill = far_fill,
	    .error = far_error,
	    .sync = far_sync,
	    .event_new = far_event_new,
	    .event_free = far_event_free,
	    .event_record = far_event_record,
	    .event_follow = far_event_follow,
	    .event_passed = far_event_passed,
	    .timer_new = far_timer_new,
	    .timer_record = far_timer_record,
	    .timer_seconds = far_timer_seconds,
	    .range_begin = far_range_begin,
	    .range_end = far_range_end,
	    .capture_begin = far_capture_begin,
	    .capture_end = far_capture_end,
	    .graph_launch = far_graph_launch,
	    .graph_free = far_graph_free,
	    .peak_flops = far_peak,
	    .peak_bytes = far_peak_bytes,
	    .close = far_close,
	};
	for (int i = 0; i < OP_COUNT; i++)
		if (run[i]) {
			f->kernels[i] = (struct kernel){run[i], f->cpu->kernel[i]->scratch};
			f->device.kernel[i] = &f->kernels[i];
		}
	return &f->device;
}

#endif
