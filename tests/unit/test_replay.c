/* tape/run: a device with graphs captures a run once, launches it from then on, and gives the same bytes as a device without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "kernels/profile.h"
#include "tape/ops.h"
#include "tests/unit/far.h"

enum { CAPACITY = 40, WIDTH = 6, OUT = 5 };

/* y = gelu(dropout(x + noise) w + b), loss = sum dy y, on two streams. */
struct net {
	struct device *device;
	struct tape *tape;
	struct params params;
	struct tensor *x, *y, *dy, *dx;
	int forward, end;
	float *in[2], *seed, *values[2], *grads; /* on the device */
};

static void net_open(struct net *n, int far, int graphs)
{
	const int64_t x[2] = {CAPACITY, WIDTH}, w[2] = {OUT, WIDTH}, b[1] = {OUT};
	const struct init normal = {INIT_NORMAL, .5, 0, NULL};
	struct tape *t = tape_new(DT_F32, CAPACITY);
	struct device *d = far ? device_far(NULL) : device_cpu(NULL, DT_F32);
	struct tensor *h;
	struct err e = {0};
	float *host;

	memset(n, 0, sizeof *n);
	if (!graphs)
		d->capture_begin = NULL;
	n->device = d;
	n->tape = t;
	n->x = tape_input(t, DT_F32, 2, x, TAPE_BATCHED | TAPE_GRAD);
	h = op_dropout(t, op_add(t, n->x, op_noise(t, 2, x)), .25);
	tape_stream(t, 1);
	h = op_linear(t, h, tape_param(t, &n->params, "w", 2, w, 0, normal), tape_param(t, &n->params, "b", 1, b, 0, normal));
	tape_stream(t, 0);
	n->y = op_unary(t, h, UNARY_GELU_TANH);
	tape_keep(t, n->y);
	n->forward = tape_mark(t);
	n->dy = tape_input(t, DT_F32, 2, (const int64_t[]){CAPACITY, OUT}, TAPE_BATCHED);
	tape_backward(t, n->y, n->dy);
	n->dx = tape_grad(t, n->x);
	n->end = tape_mark(t);
	params_layout(&n->params);
	tape_layout(t, d, NULL);
	assert_int_equal(tape_allocate(t, &e), 0);
	host = mem_zalloc((size_t)(n->params.total + CAPACITY * WIDTH), sizeof *host);
	for (int i = 0; i < 2; i++) {
		n->values[i] = d->alloc(d, (size_t)n->params.total * sizeof(float), "values", &e);
		params_init(&n->params, (uint64_t)i, host);
		device_put(d, n->values[i], host, (size_t)n->params.total * sizeof *host);
		n->in[i] = d->alloc(d, CAPACITY * WIDTH * sizeof(float), "x", &e);
	}
	n->grads = d->alloc(d, (size_t)n->params.trainable * sizeof(float), "grads", &e);
	n->seed = d->alloc(d, CAPACITY * OUT * sizeof(float), "dy", &e);
	for (int i = 0; i < CAPACITY * OUT; i++)
		host[i % (CAPACITY * WIDTH)] = (float)sin(i);
	device_put(d, n->seed, host, CAPACITY * OUT * sizeof *host);
	tape_bind(t, n->dy, n->seed);
	mem_free(host);
}

static void net_close(struct net *n)
{
	struct device *d = n->device;

	tape_free(n->tape);
	for (int i = 0; i < 2; i++) {
		d->release(d, n->values[i]);
		d->release(d, n->in[i]);
	}
	d->release(d, n->grads);
	d->release(d, n->seed);
	params_release(&n->params);
	device_free(d);
}

/* A run: its input, parameters and number of samples, and all its results. */
struct given {
	float y[CAPACITY * OUT], dx[CAPACITY * WIDTH], grads[64];
};

static void net_forward(struct net *n, int k, int in, int params, int64_t samples, float *y)
{
	const struct run_keys keys = {3, (uint64_t)k, 17, 1, 0};
	struct device *d = n->device;
	float x[CAPACITY * WIDTH];

	for (int i = 0; i < CAPACITY * WIDTH; i++)
		x[i] = (float)cos(i + 100 * k);
	device_put(d, n->in[in], x, sizeof x);
	tape_bind(n->tape, n->x, n->in[in]);
	tape_bind_params(n->tape, n->values[params], n->grads);
	tape_seed(n->tape, &keys);
	tape_run(n->tape, samples, 0, n->forward);
	device_get(d, y, tape_data(n->tape, n->y), (size_t)(samples * OUT) * sizeof *y);
}

static void net_run(struct net *n, int k, int in, int params, int64_t samples, struct given *g)
{
	struct device *d = n->device;

	memset(g, 0, sizeof *g);
	net_forward(n, k, in, params, samples, g->y);
	tape_run(n->tape, samples, n->forward, n->end);
	device_get(d, g->dx, tape_data(n->tape, n->dx), (size_t)(samples * WIDTH) * sizeof *g->dx);
	device_get(d, g->grads, n->grads, (size_t)n->params.trainable * sizeof *g->grads);
}

struct pair {
	struct net with, without;
	struct far *far;
};

static void pair_open(struct pair *p, int graphs)
{
	net_open(&p->with, 1, graphs);
	net_open(&p->without, 0, 0);
	p->far = (struct far *)p->with.device;
}

static void pair_close(struct pair *p)
{
	net_close(&p->with);
	net_close(&p->without);
}

static void both(struct pair *p, int k, int in, int params, int64_t samples)
{
	struct given a, b;

	net_run(&p->with, k, in, params, samples, &a);
	net_run(&p->without, k, in, params, samples, &b);
	assert_memory_equal(&a, &b, sizeof a);
	assert_true(a.y[0] != 0 && a.grads[32] != 0); /* of the bias */
}

static void forward_both(struct pair *p, int k, int64_t samples)
{
	float a[CAPACITY * OUT], b[CAPACITY * OUT];

	net_forward(&p->with, k, 0, 0, samples, a);
	net_forward(&p->without, k, 0, 0, samples, b);
	assert_memory_equal(a, b, (size_t)(samples * OUT) * sizeof *a);
}

/* Forward and backward are one graph each. Other inputs, keys and weights in the same memory use the same graphs. */
static void captured_once(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, 1);
	for (int k = 0; k < 6; k++) {
		both(&p, k, 0, 0, 7);
		assert_int_equal(p.far->captures, k ? 2 : 0);
		assert_int_equal(p.far->launches, 2 * k);
	}
	pair_close(&p);
}

/* Another number of samples is another graph. Replacing the input drops all graphs; other parameters keep both. */
static void captured_again(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, 1);
	for (int k = 0; k < 3; k++)
		for (int64_t n = 1; n <= 3; n++)
			both(&p, k, 0, 0, n);
	assert_int_equal(p.far->captures, 6);
	for (int k = 0; k < 8; k++)
		both(&p, k, 0, k % 2, 2);
	assert_int_equal(p.far->captures, 8);
	for (int k = 0; k < 4; k++)
		both(&p, k, 1, 0, 2);
	assert_int_equal(p.far->captures, 10);
	assert_int_equal(p.far->graphs, 2);
	pair_close(&p);
}

/* With more runs than places, the least recently used one is dropped. */
static void the_oldest_goes(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, 1);
	for (int64_t n = 1; n <= CAPACITY; n++)
		for (int k = 0; k < 2; k++)
			both(&p, k, 0, 0, n);
	assert_int_equal(p.far->captures, 2 * CAPACITY);
	assert_int_equal(p.far->graphs, CAPACITY);
	both(&p, 5, 0, 0, CAPACITY);
	assert_int_equal(p.far->captures, 2 * CAPACITY);
	both(&p, 6, 0, 0, 1);
	both(&p, 7, 0, 0, 1);
	assert_int_equal(p.far->captures, 2 * CAPACITY + 2);
	pair_close(&p);
}

/* The numbers of samples that routing gives an expert, in any order: each is captured once and kept. */
static void every_number_of_samples(void **state)
{
	struct pair p;
	int captures = 0;

	(void)state;
	pair_open(&p, 1);
	for (int k = 0; k < 5; k++) {
		for (int64_t n = 0; n < CAPACITY; n++)
			forward_both(&p, k, n * 7 % CAPACITY + 1);
		if (k == 1)
			captures = p.far->captures;
	}
	assert_int_equal(captures, CAPACITY);
	assert_int_equal(p.far->captures, CAPACITY);
	assert_int_equal(p.far->graphs, CAPACITY);
	pair_close(&p);
}

static void nothing(void *arg, struct device *d, int stream)
{
	(void)d;
	(void)stream;
	++*(int *)arg;
}

static void add_line(void *arg, const char *text)
{
	str_printf(arg, "%s\n", text);
}

/* The clock of the far device advances by a millisecond with each kernel. The counts are the CPU's, except for the first run. Runs still are graphs,
 * and other ones than those without timers. */
static void profiled(void **state)
{
	enum { RUNS = 5 };
	struct op_profile far[OP_COUNT], cpu[OP_COUNT];
	struct op_call attention = {0};
	struct profile *p[2];
	struct str table = {0};
	struct pair q;
	int64_t calls;

	(void)state;
	pair_open(&q, 1);
	for (int k = 0; k < 3; k++)
		both(&q, k, 0, 0, 7);
	assert_int_equal(q.far->captures, 2);
	calls = q.far->calls;
	p[0] = profile_new(q.with.device);
	p[1] = profile_new(q.without.device);
	for (int k = 0; k < RUNS; k++)
		both(&q, k, 0, 0, 7);
	assert_int_equal(q.far->captures, 4);
	assert_int_equal(q.far->launches, 4 + 2 * (RUNS - 1));
	profile_read(p[0], far);
	profile_read(p[1], cpu);
	for (int i = 0; i < OP_COUNT; i++) {
		assert_int_equal(cpu[i].count % RUNS, 0);
		assert_int_equal(far[i].count, cpu[i].count / RUNS * (RUNS - 1));
		assert_true(fabs(far[i].seconds - 1e-3 * (double)far[i].count) < 1e-9);
		assert_true(far[i].flops == cpu[i].flops / RUNS * (RUNS - 1) && far[i].bytes == cpu[i].bytes / RUNS * (RUNS - 1));
		calls += cpu[i].count;
	}
	assert_int_equal(calls, q.far->calls);
	assert_int_equal(far[OP_LINEAR].count, RUNS - 1);
	assert_true(far[OP_LINEAR].flops == (RUNS - 1) * 2. * 7 * OUT * WIDTH);
	assert_true(far[OP_LINEAR].bytes >= (RUNS - 1) * 4. * (7 * OUT + 7 * WIDTH + OUT * WIDTH + OUT));
	profile_table(p[0], add_line, &table);
	assert_non_null(strstr(str_text(&table), "\nLINEAR "));
	assert_non_null(strstr(str_text(&table), "\nall "));
	str_release(&table);
	q.with.device->no_cudnn[0] = 'W';
	profile_table(p[0], add_line, &table);
	assert_null(strstr(str_text(&table), "cuDNN"));
	str_release(&table);
	profile_add(p[0], OP_ATTENTION, &attention, 1, 1);
	profile_table(p[0], add_line, &table);
	assert_non_null(strstr(str_text(&table), "\nattention ran without cuDNN: W\n"));
	str_release(&table);
	q.with.device->no_cudnn[0] = 0;
	profile_table(p[0], add_line, &table);
	assert_null(strstr(str_text(&table), "cuDNN"));
	str_release(&table);
	profile_shapes(p[0], add_line, &table);
	assert_non_null(strstr(str_text(&table), " 7x6:f32 5x6:f32 5:f32 -> 7x5:f32\n"));
	assert_null(strstr(str_text(&table), "\nall "));
	str_release(&table);
	profile_free(p[0]);
	profile_free(p[1]);
	for (int k = 0; k < 2; k++)
		both(&q, k, 0, 0, 7);
	assert_int_equal(q.far->captures, 4);
	pair_close(&q);
}

/* Timers of work outside a tape are read when more are waiting than there are, and at the end. */
static void profiled_outside(void **state)
{
	enum { N = 500, CALLS = 150 };
	struct device *d = device_far(NULL);
	float *x = d->alloc(d, N * sizeof *x, "x", NULL);
	struct profile *p = profile_new(d);
	struct op_profile seen[OP_COUNT];

	(void)state;
	for (int i = 0; i < CALLS; i++) {
		struct array a = array_vector(DT_F32, x, N);
		struct op_call add = {.nin = 2, .nout = 1, .in = {a, a}, .out = {a}, .attr = {.add = {1, 1}}};
		struct op_call fill = {.nout = 1, .out = {a}, .attr = {.fill = {3}}};

		device_run(d, OP_FILL, &fill, NULL);
		device_run(d, OP_ADD, &add, NULL);
		if (i % 100 == 50) {
			profile_read(p, seen);
			assert_int_equal(seen[OP_ADD].count, i + 1);
		}
	}
	profile_read(p, seen);
	assert_int_equal(seen[OP_FILL].count, CALLS);
	assert_int_equal(seen[OP_ADD].count, CALLS);
	assert_true(fabs(seen[OP_ADD].seconds - 1e-3 * CALLS) < 1e-9);
	assert_true(seen[OP_ADD].bytes == 3. * 4 * N * CALLS && seen[OP_FILL].bytes == 1. * 4 * N * CALLS);
	profile_free(p);
	assert_null(d->profile);
	d->release(d, x);
	device_free(d);
}

/* A device that fails to capture, or has no graphs, runs each node. So does a profile without timers, and a node with a tape_then. */
static void without_graphs(void **state)
{
	struct profile *profile = NULL;
	struct pair p;
	int called = 0;

	(void)state;
	for (int how = 0; how < 4; how++) {
		pair_open(&p, how != 0);
		p.far->refuse = how == 1;
		if (how == 2) {
			p.far->device.timer_new = NULL;
			profile = profile_new(p.with.device);
		}
		if (how == 3)
			for (int i = 0; i < p.with.end; i++)
				tape_then(p.with.tape, i, nothing, &called);
		for (int k = 0; k < 4; k++)
			both(&p, k, 0, 0, 3);
		assert_int_equal(p.far->launches, 0);
		assert_int_equal(p.far->captures, 0);
		assert_int_equal(p.with.device->uncaptured[0] != 0, how == 1);
		profile_free(profile);
		profile = NULL;
		pair_close(&p);
	}
	assert_true(called > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(captured_once),   cmocka_unit_test(captured_again),
	                                   cmocka_unit_test(the_oldest_goes), cmocka_unit_test(every_number_of_samples),
	                                   cmocka_unit_test(profiled),        cmocka_unit_test(profiled_outside),
	                                   cmocka_unit_test(without_graphs)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
