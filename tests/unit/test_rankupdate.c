/* Training steps of several ranks, each a process with a share of the state, against one process that adds the same gradients: the same bytes of
 * weights, averages and moments, for each optimizer. Also on a device whose memory counts as another than the host's, so that all is copied. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "tests/unit/socketranks.h"
#include "train/update.h"

enum { STEPS = 5, SKIPPED = 2, WIDTH = 150 };

/* What the children run. */
static struct {
	enum optimizer_kind optimizer;
	int apart;       /* the device's memory is not the host's */
	int64_t offload; /* elements of a range */
} setting;

struct world {
	struct params params;
	struct device *device;
	struct shares shares;
	struct train_state state;
	struct update update;
	float loss;
};

/* Matrices with biases between them, and a frozen table. */
static void add_params(struct params *p)
{
	const int64_t size[2] = {WIDTH, WIDTH}, packed[2] = {3 * WIDTH, WIDTH}, bias = 53;
	const struct init zero = {.kind = INIT_ZERO};

	params_add(p, "a.bias", 1, &bias, 0, zero);
	params_add(p, "a.weight", 2, packed, PARAM_DECAY | PARAM_BULK | PARAM_QKV, zero);
	params_add(p, "b.table", 1, &bias, PARAM_FROZEN, zero);
	params_add(p, "b.weight", 2, size, PARAM_DECAY | PARAM_BULK, zero);
	params_add(p, "b.bias", 1, &bias, 0, zero);
	params_layout(p);
}

static int begin_world(struct world *w, struct comm *c, int64_t parts, int apart)
{
	struct err e = {0};

	*w = (struct world){.device = device_cpu(NULL, DT_F32), .loss = 1};
	w->device->host = !apart;
	add_params(&w->params);
	if (c)
		shares_init(&w->shares, &w->params, setting.optimizer == OPTIMIZER_MUON, comm_rank(c), comm_size(c));
	if (state_init(&w->state, w->device, &w->params, 1, 0, setting.offload, c ? &w->shares : NULL, &e))
		return -1;
	w->state.optimizer = setting.optimizer;
	if (update_init(&w->update, &w->state, parts, &w->loss, 1, c, &e))
		return -1;
	w->state.comm = c;
	w->state.whole = w->update.grads;
	w->state.host = w->update.ranks.host;
	for (int i = 0; i < w->params.n; i++)
		rng_normal(w->state.values + w->params.v[i].offset, (size_t)w->params.v[i].count, 1, RNG_TEST, 0, (uint64_t)i);
	state_begin(&w->state);
	update_begin(&w->update, &w->state);
	return 0;
}

static void end_world(struct world *w)
{
	update_release(&w->update);
	state_release(&w->state);
	shares_release(&w->shares);
	params_release(&w->params);
	device_free(w->device);
}

/* The gradient of a part of a step. One step has an infinity, and changes nothing. */
static void put_gradient(struct world *w, int step, int part)
{
	const struct params *p = &w->params;

	memset(w->update.grads, 0, (size_t)p->trainable * sizeof(float));
	for (int i = 0; i < p->n; i++)
		if (!(p->v[i].flags & PARAM_FROZEN))
			rng_normal(w->update.grads + p->v[i].offset, (size_t)p->v[i].count, 1, RNG_TEST, (uint64_t)(100 * step + part + 1),
			           (uint64_t)i);
	if (step == SKIPPED && part == 0)
		w->update.grads[p->v[1].offset] = INFINITY;
}

static int apply(struct world *w, int step)
{
	const double plan[PLAN_COUNT] = {
	    [PLAN_LR] = .01, [PLAN_BETA1] = .9, [PLAN_BETA2] = .99, [PLAN_EPS] = 1e-8, [PLAN_DECAY] = .05, [PLAN_EMA] = .8, [PLAN_CLIP] = 40};
	struct err e = {0};

	if (update_apply(&w->update, plan, step % 2 ? step : -1, &e))
		return -1;
	return update_finished(&w->update, 1)[STATUS_FINITE] == (step != SKIPPED) ? 0 : -1;
}

static int same_arenas(struct world *w, struct world *alone)
{
	struct state_part part[STATE_PARTS];
	int n = state_parts(&alone->state, part);
	struct err e = {0};

	for (int i = 0; i < n; i++) {
		float *x;

		if (state_gather(&w->state, i, &x, &e) ||
		    memcmp(x, part[i].data, (size_t)(part[i].total ? w->params.total : w->params.trainable) * sizeof *x) != 0)
			return 0;
	}
	return 1;
}

/* The arenas of the process alone, loaded on rank 0 and dealt out. */
static int deal_out(struct world *w, struct world *alone)
{
	struct state_part part[STATE_PARTS];
	int n = state_parts(&alone->state, part);
	struct err e = {0};

	state_clear(&w->state);
	if (comm_rank(w->state.comm))
		return state_follow(&w->state, &e);
	for (int i = 0; i < n; i++) {
		memcpy(state_room(&w->state, i), part[i].data, (size_t)(part[i].total ? w->params.total : w->params.trainable) * sizeof(float));
		if (state_keep(&w->state, i, &e))
			return -1;
	}
	return state_dismiss(&w->state, &e);
}

/* Every rank computes what one process would, and compares. */
static int train(struct comm *c)
{
	int size = comm_size(c);
	struct world w, alone;

	if (begin_world(&w, c, 1, setting.apart) || begin_world(&alone, NULL, size, 0))
		return 1;
	for (int step = 0; step < STEPS; step++) {
		put_gradient(&w, step, comm_rank(c));
		for (int k = 0; k < w.update.ranks.buckets.n; k++)
			rank_update_begin_sum(&w.update.ranks, k);
		for (int part = 0; part < size; part++) {
			put_gradient(&alone, step, part);
			if (part < size - 1)
				update_part(&alone.update, part);
		}
		if (apply(&w, step) || apply(&alone, step))
			return 2;
		if (step == 3) {
			state_take_best(&w.state);
			state_take_best(&alone.state);
		}
		if (!same_arenas(&w, &alone))
			return 3;
		if (step == 3 && (deal_out(&w, &alone) || !same_arenas(&w, &alone)))
			return 4;
	}
	end_world(&w);
	end_world(&alone);
	comm_close(c);
	return 0;
}

static void check_training(enum optimizer_kind optimizer, int64_t offload)
{
	int status[MOST];

	for (int n = 1; n <= 4; n *= 2)
		for (int apart = 0; apart < 2; apart++) {
			setting.optimizer = optimizer;
			setting.apart = apart;
			setting.offload = offload;
			on_ranks(n, 60, train, status);
			for (int r = 0; r < n; r++)
				assert_int_equal(status[r], 0);
		}
}

static void adamw(void **state)
{
	(void)state;
	check_training(OPTIMIZER_ADAMW, 0);
	check_training(OPTIMIZER_ADAMW, 16000);
}

static void schedule_free(void **state)
{
	(void)state;
	check_training(OPTIMIZER_SCHEDULE_FREE, 0);
	check_training(OPTIMIZER_SCHEDULE_FREE, 16000);
}

static void muon(void **state)
{
	(void)state;
	check_training(OPTIMIZER_MUON, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(adamw),
	    cmocka_unit_test(schedule_free),
	    cmocka_unit_test(muon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
