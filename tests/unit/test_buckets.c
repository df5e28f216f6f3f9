/* Buckets of a gradient: they tile the arena, their shares are whole chunks of the norm and equal, and their order is that of the backward pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "kernels/optimizer.h"
#include "tape/ops.h"
#include "train/buckets.h"

static void check_tiles(int64_t n, int ranks)
{
	struct buckets b;
	int64_t at = 0;

	buckets_init(&b, n, ranks);
	assert_true(b.n >= 1 && b.n <= BUCKETS);
	for (int i = 0; i < b.n; i++) {
		const struct bucket *v = &b.v[i];
		int64_t least = INT64_MAX, most = 0;

		assert_true(v->lo == at && v->hi > v->lo && v->cut[0] == v->lo && v->cut[ranks] == v->hi);
		for (int p = 0; p < ranks; p++) {
			int64_t chunks = (v->cut[p + 1] - v->cut[p] + SUMSQ_CHUNK - 1) / SUMSQ_CHUNK;

			assert_true(v->cut[p] <= v->cut[p + 1]);
			assert_true(v->cut[p] % SUMSQ_CHUNK == 0 || v->cut[p] == n);
			least = chunks < least ? chunks : least;
			most = chunks > most ? chunks : most;
		}
		assert_true(most - least <= (i ? 0 : 1));
		assert_true(i == 0 || v->hi - v->lo >= b.v[0].hi - b.v[0].lo - SUMSQ_CHUNK);
		at = v->hi;
	}
	assert_int_equal(at, n);
	buckets_release(&b);
}

static void buckets_tile_the_arena(void **state)
{
	static const int64_t n[] = {1, 16, SUMSQ_CHUNK - 16, SUMSQ_CHUNK, SUMSQ_CHUNK + 16, 5 * SUMSQ_CHUNK, 592128, 33000000, 605000016};

	(void)state;
	for (size_t i = 0; i < sizeof n / sizeof *n; i++)
		for (int ranks = 2; ranks <= 64; ranks *= 2)
			check_tiles(n[i], ranks);
}

/* Layers in a row, of which the first one's matrix is read a second time by the last: its gradient is complete last. The backward pass completes the
 * others from the last to the second. */
static void order_follows_the_backward_pass(void **state)
{
	enum { LAYERS = 8, WIDTH = 256 };
	const int64_t shape[2] = {1, WIDTH}, size[2] = {WIDTH, WIDTH};
	struct device *d = device_cpu(NULL, DT_F32);
	struct tape *t = tape_new(DT_F32, 1);
	struct params p = {0};
	struct tensor *x = tape_input(t, DT_F32, 2, shape, TAPE_BATCHED), *dy = tape_input(t, DT_F32, 2, shape, TAPE_BATCHED), *first = NULL;
	struct buckets b;

	(void)state;
	for (int i = 0; i < LAYERS; i++) {
		char name[16];
		struct tensor *w;

		snprintf(name, sizeof name, "%d.weight", i);
		w = tape_param(t, &p, name, 2, size, 0, (struct init){.kind = INIT_ONE});
		first = first ? first : w;
		x = op_linear(t, x, w, NULL);
	}
	x = op_linear(t, x, first, NULL);
	tape_keep(t, x);
	tape_backward(t, x, dy);
	params_layout(&p);
	tape_layout(t, d, NULL);
	buckets_init(&b, p.trainable, 2);
	assert_int_equal(b.n, BUCKETS);
	buckets_order(&b, t, &p);
	for (int i = 0; i < b.n; i++) {
		assert_true(i == 0 || b.v[i].mark >= b.v[i - 1].mark);
		assert_int_equal(b.v[i].lo / (WIDTH * WIDTH), LAYERS - 1 - i * LAYERS / b.n);
	}
	assert_true(b.v[0].mark < b.v[BUCKETS - 1].mark && b.v[BUCKETS - 1].mark <= tape_mark(t));
	buckets_release(&b);
	tape_free(t);
	device_free(d);
	params_release(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(buckets_tile_the_arena),
	    cmocka_unit_test(order_follows_the_backward_pass),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
