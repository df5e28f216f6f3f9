/* Opens the GPU, or the device that DDM_TEST_DEVICE names, and runs tests on it. */
#include "tests/cuda/remote.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "core/str.h"
#include "kernels/cublaslt.h"
#include "kernels/cudnn.h"
#include "tests/op/emulated.h"
#include "tests/unit/far.h"

enum { SEGMENTS = OP_IN + OP_OUT + 2, ALIGN = 64 };

/* A part of host memory that arrays cover, and its copy on the device. */
struct segment {
	char *from, *to, *there, *at; /* at: the address of `from` on the device, with the same alignment */
	int written;
};

static struct device *device;

struct device *remote_open(struct pool *pool, struct err *e)
{
	const char *name = getenv("DDM_TEST_DEVICE");

	if (name && !strcmp(name, "far"))
		return device_far(pool);
	if (name && !strcmp(name, "emulated"))
		return device_emulated(pool);
	return device_open(name ? name : "cuda", pool, e);
}

int remote_small(void)
{
	return getenv("DDM_TEST_SMALL") || getenv("DDM_TEST_DEVICE");
}

void remote_filter(void)
{
	const char *filter = getenv("DDM_TEST_FILTER");

	if (filter)
		cmocka_set_test_filter(filter);
}

void remote_use(struct device *d)
{
	device = d;
}

static int is_far(void)
{
	return !strcmp(device->name, "far");
}

static void cover(struct segment *s, int *n, char *from, char *to, int written)
{
	for (int i = 0; i < *n; i++)
		if (from < s[i].to && s[i].from < to) {
			from = from < s[i].from ? from : s[i].from;
			to = to > s[i].to ? to : s[i].to;
			written |= s[i].written;
			s[i] = s[--*n];
			i = -1;
		}
	s[(*n)++] = (struct segment){.from = from, .to = to, .written = written};
}

static void cover_array(struct segment *s, int *n, const struct array *a, int written)
{
	char *from = a->data;
	int64_t last = 0;

	if (!from || !array_count(a))
		return;
	for (int d = 0; d < a->rank; d++)
		last += (a->shape[d] - 1) * a->stride[d];
	cover(s, n, from, from + (last + 1) * (int64_t)dtype_size(a->dtype), written);
}

static void *twin_of(const struct segment *s, int n, const void *p)
{
	const char *q = p;

	for (int i = 0; i < n; i++)
		if (q >= s[i].from && q < s[i].to)
			return s[i].at + (q - s[i].from);
	return NULL;
}

static void check(const char *what)
{
	struct err e = {0};

	if (device->sync(device, &e))
		fail_msg("%s: %s", what, e.msg);
}

static void send(struct segment *s)
{
	size_t bytes = (size_t)(s->to - s->from), lead = (uintptr_t)s->from % ALIGN;
	struct err e = {0};

	s->there = device->alloc(device, lead + bytes, "a test array", &e);
	if (!s->there)
		fail_msg("%s", e.msg);
	s->at = s->there + lead;
	device_put(device, s->at, s->from, bytes);
}

void remote_run(const struct kernel *k, const struct op_call *c)
{
	struct segment s[SEGMENTS];
	struct op_call there = *c, shapes = *c;
	int n = 0;

	for (int i = 0; i < c->nin; i++)
		cover_array(s, &n, &c->in[i], 0);
	for (int i = 0; i < c->nout; i++)
		cover_array(s, &n, &c->out[i], 1);
	for (int i = 0; i < OP_IN; i++)
		shapes.in[i].data = NULL;
	for (int i = 0; i < OP_OUT; i++)
		shapes.out[i].data = NULL;
	if (c->scratch && k->scratch && k->scratch(&shapes, 1))
		cover(s, &n, c->scratch, (char *)c->scratch + k->scratch(&shapes, 1), 1);
	if (c->keys)
		cover(s, &n, (char *)(uintptr_t)c->keys, (char *)(uintptr_t)(c->keys + 1), 0);
	for (int i = 0; i < n; i++)
		send(&s[i]);
	for (int i = 0; i < c->nin; i++)
		there.in[i].data = twin_of(s, n, c->in[i].data);
	for (int i = 0; i < c->nout; i++)
		there.out[i].data = twin_of(s, n, c->out[i].data);
	there.scratch = twin_of(s, n, c->scratch);
	there.keys = twin_of(s, n, c->keys);
	there.device = device;
	there.stream = 0;
	check("before the kernel");
	if (is_far())
		far_allow((struct far *)device, PROT_READ | PROT_WRITE);
	k->run(&there);
	if (is_far())
		far_allow((struct far *)device, PROT_NONE);
	check("the kernel");
	for (int i = 0; i < n; i++) {
		if (s[i].written)
			device_get(device, s[i].from, s[i].at, (size_t)(s[i].to - s[i].from));
		device->release(device, s[i].there);
	}
	check("after the kernel");
}

void remote_libraries(const struct device *d, void (*say)(void *arg, const char *line), void *arg)
{
	struct str s = {0};

	if (!d->cublaslt)
		return;
	cublaslt_log(d->cublaslt, &s);
	if (d->cudnn)
		cudnn_log(d->cudnn, &s);
	else
		str_printf(&s, "no cuDNN: %s\n", d->no_cudnn);
	for (char *p = s.p, *end; (end = strchr(p, '\n')); p = end + 1) {
		*end = 0;
		say(arg, p);
	}
	str_release(&s);
}
