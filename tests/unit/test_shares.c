/* The shares of the ranks in the optimizer's state: they tile the arena, cut no chunk of the norm, or of Muon no matrix, and are about equal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>

#include "core/mem.h"
#include "kernels/optimizer.h"
#include "train/rankupdate.h"

enum { BLOCKS = 6, WIDTH = 96, MOST = 16 };

/* Blocks of packed queries, keys and values, a bias and two matrices of an MLP; a frozen table at the end. */
static struct params network(void)
{
	const int64_t qkv[2] = {3 * WIDTH, WIDTH}, up[2] = {4 * WIDTH, WIDTH}, down[2] = {WIDTH, 4 * WIDTH}, bias = 77;
	const struct init zero = {.kind = INIT_ZERO};
	struct params p = {0};

	for (int i = 0; i < BLOCKS; i++) {
		char name[40];

		snprintf(name, sizeof name, "%d.qkv", i);
		params_add(&p, name, 2, qkv, PARAM_BULK | PARAM_QKV, zero);
		snprintf(name, sizeof name, "%d.bias", i);
		params_add(&p, name, 1, &bias, 0, zero);
		snprintf(name, sizeof name, "%d.up", i);
		params_add(&p, name, 2, up, PARAM_BULK, zero);
		snprintf(name, sizeof name, "%d.down", i);
		params_add(&p, name, 2, down, PARAM_BULK, zero);
	}
	params_add(&p, "table", 1, &bias, PARAM_FROZEN, zero);
	params_layout(&p);
	return p;
}

/* Each element belongs to one rank, whose packed ranges lie one after the other. */
static void check_tiles(const struct params *p, int muon, int ranks)
{
	char *owners = mem_zalloc((size_t)p->trainable, 1);

	for (int rank = 0; rank < ranks; rank++) {
		struct shares s;
		int64_t packed = 0;

		shares_init(&s, p, muon, rank, ranks);
		for (int g = 0; g < s.groups; g++) {
			const struct share_range *o = &s.own[g];

			assert_true(o->packed == packed && o->at == shares_cut(&s, g)[comm_place(rank, ranks)]);
			assert_true(o->at % (muon ? DECAY_RUN : SUMSQ_CHUNK) == 0 || o->at == p->trainable);
			for (int64_t i = o->at; i < o->at + o->n; i++)
				owners[i]++;
			packed += o->n;
		}
		assert_true(s.count == packed && s.count <= s.most);
		shares_release(&s);
	}
	for (int64_t i = 0; i < p->trainable; i++)
		assert_int_equal(owners[i], 1);
	mem_free(owners);
}

static void shares_tile_the_arena(void **state)
{
	struct params p = network();

	(void)state;
	for (int ranks = 1; ranks <= MOST; ranks *= 2) {
		check_tiles(&p, 0, ranks);
		check_tiles(&p, 1, ranks);
	}
	params_release(&p);
}

static void no_share_cuts_a_matrix(void **state)
{
	struct params p = network();
	int64_t largest = 4 * WIDTH * WIDTH;

	(void)state;
	for (int ranks = 2; ranks <= MOST; ranks *= 2) {
		struct shares s;

		shares_init(&s, &p, 1, 0, ranks);
		for (int r = 0; r <= ranks; r++)
			for (int i = 0; i < p.n; i++)
				assert_false((p.v[i].flags & PARAM_BULK) && shares_cut(&s, 0)[r] > p.v[i].offset &&
				             shares_cut(&s, 0)[r] < p.v[i].offset + p.v[i].count);
		assert_true(s.most <= p.trainable / ranks + largest);
		shares_release(&s);
	}
	params_release(&p);
}

/* Of AdamW a step sends the gradient and the weights once, less the share; of Muon the gradient twice. */
static void bytes_of_a_step(void **state)
{
	struct params p = network();
	const double vector = sizeof(float) * (double)p.trainable;

	(void)state;
	for (int ranks = 2; ranks <= 8; ranks *= 2)
		for (int muon = 0; muon < 2; muon++) {
			struct shares s;
			double bytes, want = (muon ? 3 : 2) * vector * (ranks - 1) / ranks;

			shares_init(&s, &p, muon, 0, ranks);
			bytes = (double)rank_update_step_bytes(&s, 64);
			assert_true(bytes > .93 * want && bytes < 1.07 * want);
			shares_release(&s);
		}
	params_release(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(shares_tile_the_arena),
	    cmocka_unit_test(no_share_cuts_a_matrix),
	    cmocka_unit_test(bytes_of_a_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
