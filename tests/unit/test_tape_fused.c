/* tape: where the derivative of an activation becomes part of the product before it (LINEAR_DX), and where it must not. The gradients must have the
 * bits of a tape that copies the activation's output, which keeps them apart. Where a norm takes in the GATE before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "net/net.h"
#include "tape/ops.h"
#include "tape/record.h"
#include "tests/unit/trunknet.h"

enum { INPUTS = 4, CAPACITY = 2 };

/* x: (2, 3, 5), then matrices (w0, 5), (w1, 4), (w1, 4) and a second operand (2, 3, 4), which is the last that is used. */
struct graph {
	struct tape *t;
	struct tensor *x[5];
	int apart; /* copy what an activation gives */
};

static struct tensor *product(struct graph *g, struct tensor *x, int w)
{
	return op_linear(g->t, x, g->x[w], NULL);
}

static struct tensor *activated(struct graph *g, struct tensor *h)
{
	return g->apart ? op_copy(g->t, h) : h;
}

static struct tensor *hidden(struct graph *g, enum unary act)
{
	return activated(g, op_linear_act(g->t, g->x[0], g->x[1], NULL, act));
}

static struct tensor *mlp(struct graph *g)
{
	return product(g, hidden(g, UNARY_GELU_TANH), 2);
}

static struct tensor *mlp_silu(struct graph *g)
{
	return product(g, hidden(g, UNARY_SILU), 2);
}

static struct tensor *mlp_unary(struct graph *g)
{
	return product(g, activated(g, op_unary(g->t, product(g, g->x[0], 1), UNARY_GELU_ERF)), 2);
}

static struct tensor *some_columns(struct graph *g)
{
	return product(g, activated(g, op_unary(g->t, op_slice(g->t, product(g, g->x[0], 1), 2, 1, 4), UNARY_SILU)), 2);
}

static struct tensor *some_rows(struct graph *g)
{
	return product(g, activated(g, op_unary(g->t, op_slice(g->t, product(g, g->x[0], 1), 1, 1, 2), UNARY_SILU)), 2);
}

static struct tensor *around(struct graph *g)
{
	struct tensor *h = hidden(g, UNARY_GELU_TANH);

	return op_add(g->t, product(g, h, 2), h);
}

static struct tensor *branches(struct graph *g)
{
	struct tensor *h = hidden(g, UNARY_TANH);

	return op_add(g->t, product(g, h, 2), product(g, h, 3));
}

/* The gradient of a sum is that of both operands: the derivative must not be multiplied into the second's. */
static struct tensor *sum(struct graph *g)
{
	return product(g, op_add(g->t, hidden(g, UNARY_GELU_TANH), g->x[4]), 2);
}

static struct tensor *sum_of_two(struct graph *g)
{
	return product(g, op_add(g->t, hidden(g, UNARY_GELU_TANH), op_unary(g->t, g->x[4], UNARY_TANH)), 2);
}

static struct tensor *in_a_block(struct graph *g)
{
	struct tensor *y;

	tape_recompute(g->t, RECOMPUTE_BLOCKS);
	tape_block_begin(g->t);
	y = mlp(g);
	tape_block_end(g->t);
	return y;
}

/* The first block is computed again after the gradient that would need its pre-activation. */
static struct tensor *across_blocks(struct graph *g)
{
	struct tensor *h;

	tape_recompute(g->t, RECOMPUTE_BLOCKS);
	tape_block_begin(g->t);
	h = hidden(g, UNARY_GELU_TANH);
	tape_block_end(g->t);
	tape_block_begin(g->t);
	h = product(g, h, 2);
	tape_block_end(g->t);
	return h;
}

static struct tensor *repeated(struct graph *g)
{
	tape_recompute(g->t, RECOMPUTE_ACTS);
	return mlp(g);
}

static int64_t count(const struct tensor *x)
{
	int64_t n = 1;

	for (int d = 0; d < x->rank; d++)
		n *= x->shape[d];
	return n;
}

static int derivatives(const struct tape *t)
{
	int n = 0;

	for (int i = 0; i < t->nnodes; i++)
		n += t->node[i].op == OP_UNARY_GRAD && t->node[i].live;
	return n;
}

static float *drawn(int64_t n, uint64_t stream)
{
	float *x = mem_alloc((size_t)n * sizeof *x);

	rng_normal(x, (size_t)n, 11, RNG_TEST, stream, 0);
	return x;
}

/* The gradients of all inputs, one after another, in *got, which the caller frees. Returns the number of derivatives that are ops. */
static int gradients_of(struct tensor *(*build)(struct graph *g), int64_t wide, int64_t out, int apart, float **got, int64_t *n)
{
	const int64_t shapes[5][3] = {{CAPACITY, 3, 5}, {wide, 5}, {out, 4}, {out, 4}, {CAPACITY, 3, 4}};
	struct graph g = {.t = tape_new(DT_F32, CAPACITY), .apart = apart};
	struct device *d = device_cpu(NULL, DT_F32);
	struct tensor *y, *dy;
	float *memory[6];
	int slopes;

	for (int i = 0; i < 5; i++) {
		int batched = i == 0 || i == 4;

		g.x[i] = tape_input(g.t, DT_F32, batched ? 3 : 2, shapes[i], TAPE_GRAD | (batched ? TAPE_BATCHED : 0));
		memory[i] = drawn(count(g.x[i]), (uint64_t)i);
	}
	y = build(&g);
	dy = tape_input(g.t, DT_F32, y->rank, y->shape, TAPE_BATCHED);
	memory[5] = drawn(count(dy), 5);
	tape_backward(g.t, y, dy);
	tape_layout(g.t, d, &(struct plan_options){.poison = 1});
	assert_int_equal(tape_allocate(g.t, NULL), 0);
	for (int i = 0; i < 5; i++)
		tape_bind(g.t, g.x[i], memory[i]);
	tape_bind(g.t, dy, memory[5]);
	tape_run(g.t, CAPACITY, 0, tape_mark(g.t));
	*got = NULL;
	*n = 0;
	for (int i = 0; i < 5; i++) {
		struct tensor *dx = tape_grad(g.t, g.x[i]);

		if (!dx)
			continue;
		assert_true(tensor_contiguous(dx));
		*got = mem_resize(*got, (size_t)(*n + count(dx)), sizeof **got);
		memcpy(*got + *n, tape_data(g.t, dx), (size_t)count(dx) * sizeof **got);
		*n += count(dx);
	}
	slopes = derivatives(g.t);
	for (int i = 0; i < 6; i++)
		mem_free(memory[i]);
	tape_free(g.t);
	device_free(d);
	return slopes;
}

static void in_small_graphs(void **state)
{
	static const struct {
		const char *name;
		struct tensor *(*build)(struct graph *g);
		int64_t wide, out;  /* rows of the first and the second matrix */
		int slopes, copied; /* derivatives that are ops of their own, and with copies */
	} cases[] = {
	    {"mlp", mlp, 4, 6, 0, 1},
	    {"silu", mlp_silu, 4, 6, 0, 1},
	    {"unary", mlp_unary, 4, 6, 0, 1},
	    {"some columns", some_columns, 7, 6, 0, 1},
	    {"some rows", some_rows, 4, 6, 1, 1},
	    {"around", around, 4, 4, 1, 1},
	    {"branches", branches, 4, 6, 1, 1},
	    {"sum", sum, 4, 6, 1, 1},
	    {"sum of two", sum_of_two, 4, 6, 2, 2},
	    {"in a block", in_a_block, 4, 6, 0, 1},
	    {"across blocks", across_blocks, 4, 6, 1, 1},
	    {"activation repeated", repeated, 4, 6, 0, 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		float *got, *want;
		int64_t n, m;
		int slopes = gradients_of(cases[i].build, cases[i].wide, cases[i].out, 0, &got, &n);
		int copied = gradients_of(cases[i].build, cases[i].wide, cases[i].out, 1, &want, &m);

		if (slopes != cases[i].slopes || copied != cases[i].copied)
			fail_msg("%s: %d derivatives are ops, and %d with copies", cases[i].name, slopes, copied);
		if (n != m || memcmp(got, want, (size_t)n * sizeof *got))
			fail_msg("%s: other gradients", cases[i].name);
		mem_free(got);
		mem_free(want);
	}
}

/* All products of transformers take their derivatives in, but for that of the conditioning of DiT: its gradient is a sum over the blocks. */
static void in_networks(void **state)
{
	static const struct net_def *const defs[] = {&net_dit, &net_paris, &net_pixart};
	static const int own[] = {1, 0, 0};

	(void)state;
	for (int k = 0; k < 3; k++) {
		struct net_config c = {.def = defs[k], .channels = 4, .out_channels = 4, .size = 8, .classes = k ? 0 : 5, .time_scale = 1000};
		struct net_input in = {0};
		int64_t shape[4] = {CAPACITY, 4, 8, 8};
		struct tape *t = tape_new(DT_F32, CAPACITY);
		struct device *d = device_cpu(NULL, DT_F32);
		struct params p = {0};
		struct tensor *y;

		c.text_tokens = k ? 3 : 0;
		c.text_width = k ? 16 : 0;
		c = trunk_net(c, (struct trunk_config){.patch = 2, .hidden = 32, .depth = 5, .heads = 2, .mlp_ratio = 4});
		in.x = tape_input(t, DT_F32, 4, shape, TAPE_BATCHED);
		in.time = tape_input(t, DT_F32, 1, shape, TAPE_BATCHED);
		if (!k)
			in.label = tape_input(t, DT_I32, 1, shape, TAPE_BATCHED);
		net_inputs(t, &c, &in);
		y = net_record(t, &p, &c, &in);
		tape_keep(t, y);
		tape_backward(t, y, tape_input(t, DT_F32, 4, shape, TAPE_BATCHED));
		params_layout(&p);
		tape_layout(t, d, NULL);
		assert_int_equal(derivatives(t), own[k]);
		tape_free(t);
		device_free(d);
		params_release(&p);
	}
}

/* The GATEs that stay, with a norm of their sum, and a node between the two that writes to the memory of input `written` of the GATE. 3: of another
 * tensor. */
static int gates_left(int written)
{
	const int64_t shape[3] = {CAPACITY, 3, 5};
	struct tape *t = tape_new(DT_F32, CAPACITY);
	struct device *d = device_cpu(NULL, DT_F32);
	struct tensor *x[4], *from = tape_input(t, DT_F32, 3, shape, TAPE_BATCHED), *to, *sum;
	int left = 0;

	d->gated_norms = 1; /* nothing is run */
	for (int k = 0; k < 4; k++)
		x[k] = op_copy(t, from);
	sum = op_gate(t, x[0], x[1], x[2]);
	to = tensor_view(t, x[written], 3, shape, x[written]->stride, 0, 1);
	node_one(t, OP_COPY, 1, &from, to, NULL);
	tape_keep(t, op_norm(t, sum, NULL, NULL, NORM_LAYER, 1e-5, 0));
	tape_keep(t, to);
	tape_layout(t, d, NULL);
	for (int i = 0; i < t->nnodes; i++)
		left += t->node[i].op == OP_GATE && t->node[i].live;
	tape_free(t);
	device_free(d);
	return left;
}

/* A norm that takes in a GATE reads what the GATE reads, only later. */
static void gate_inputs(void **state)
{
	(void)state;
	for (int written = 0; written < 4; written++)
		if (gates_left(written) != (written < 3))
			fail_msg("input %d is overwritten before the norm: %d gates are left", written, gates_left(written));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(in_small_graphs), cmocka_unit_test(in_networks), cmocka_unit_test(gate_inputs)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
