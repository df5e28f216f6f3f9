/* Submits the end of a training step to the device: sum of gradients, clipping, the optimizer and the average. */
#include "train/update.h"

#include <assert.h>
#include <string.h>

#include "core/mem.h"

/* The number of partial sums that the tree over `parts` parts keeps. The last part is added to them, and is kept in none. */
static int tree_levels(int64_t parts)
{
	int n = 0;

	while ((parts - 1) >> n)
		n++;
	return n;
}

/* Of several ranks the gradient's memory also holds a whole arena of the state, frozen parameters included, between two steps. */
static int64_t gradient_room(const struct params *p, int shared)
{
	return shared ? p->total : p->trainable;
}

uint64_t update_bytes(const struct params *p, int64_t parts, int ranks)
{
	return sizeof(float) * (uint64_t)(gradient_room(p, ranks > 1) + p->trainable * tree_levels(parts)) + rank_update_bytes(p->trainable, ranks);
}

uint64_t update_mask_bytes(const struct params *p)
{
	return sizeof(float) * (uint64_t)params_decay_runs(p);
}

uint64_t update_lane_bytes(const struct params *p, int64_t range)
{
	return 2 * UPDATE_LANES * sizeof(float) * (uint64_t)(range < p->trainable ? range : p->trainable);
}

static struct op_call norm_call(struct update *u)
{
	return (struct op_call){.nin = 1, .nout = 1, .in = {array_vector(DT_F32, u->grads, u->n)}, .out = {array_vector(DT_F64, u->sumsq, 1)}};
}

/* If the device has several streams, the copies to and from it get one each. */
static int stream_of(const struct device *d, int want)
{
	return want < d->streams ? want : d->streams - 1;
}

static int make_lanes(struct update *u, int64_t range, struct err *e)
{
	struct device *d = u->device;

	assert(range % DECAY_RUN == 0);
	u->range = range < u->n ? range : u->n;
	for (int i = 0; range && i < UPDATE_LANES; i++) {
		struct update_lane *l = &u->lane[i];

		if (!(l->m = d->alloc(d, 2 * (size_t)u->range * sizeof *l->m, "moments on their way", e)))
			return -1;
		l->v = l->m + u->range;
		l->come = d->event_new(d);
		l->done = d->event_new(d);
		l->gone = d->event_new(d);
	}
	return 0;
}

static int put_mask(struct update *u, const struct params *p, struct err *e)
{
	size_t runs = (size_t)params_decay_runs(p);
	float *mask = mem_try(runs, sizeof *mask, "decay mask", e);

	if (!mask)
		return -1;
	params_decay_mask(p, mask);
	device_put(u->device, u->mask, mask, runs * sizeof *mask);
	mem_free(mask);
	return 0;
}

static int allocate(struct update *u, int64_t parts, struct err *e)
{
	struct device *d = u->device;
	size_t bytes = (size_t)u->n * sizeof(float);
	struct op_call norm = norm_call(u);

	u->vectors = d->alloc(d, (PLAN_COUNT + STATUS_COUNT + COEF_COUNT + 2) * sizeof *u->vectors, "state of the optimizer", e);
	u->grads = d->alloc(d, (size_t)gradient_room(u->state->params, u->state->shares != NULL) * sizeof *u->grads, "gradients", e);
	u->mask = d->alloc(d, update_mask_bytes(u->state->params), "decay mask", e);
	u->scratch = d->alloc(d, device_scratch(d, OP_SUMSQ, &norm), "kernel scratch", e);
	u->seen = d->alloc_host(d, UPDATE_AHEAD * STATUS_COUNT * sizeof *u->seen, "state of the optimizer", e);
	if (!u->vectors || !u->grads || !u->mask || !u->scratch || !u->seen)
		return -1;
	for (int i = 0; i < tree_levels(parts); i++)
		if (!(u->tree[i] = d->alloc(d, bytes, "gradient sums", e)))
			return -1;
	for (int i = 0; i < UPDATE_AHEAD; i++)
		u->event[i] = d->event_new(d);
	return 0;
}

int update_init(struct update *u, const struct train_state *s, int64_t parts, const float *each, int64_t samples, struct comm *comm, struct err *e)
{
	*u = (struct update){.device = s->device, .state = s, .each = each, .samples = samples, .parts = parts, .n = s->params->trainable};
	u->all = (struct share_range){0, u->n, 0};
	if (allocate(u, parts, e) || block_norms_init(&u->blocks, s->device, s->params, e) ||
	    rank_update_init(&u->ranks, s->device, comm, s->shares, u->grads, s->params->total, parts, samples, e) || make_lanes(u, s->offload, e) ||
	    (s->optimizer == OPTIMIZER_MUON && muon_init(&u->muon, s->device, s->params, e)) || put_mask(u, s->params, e))
		return -1;
	u->plan = u->vectors;
	u->status = u->plan + PLAN_COUNT;
	u->coef = u->status + STATUS_COUNT;
	u->sumsq = u->coef + COEF_COUNT;
	u->loss = u->sumsq + 1;
	return 0;
}

static void drop_graph(struct update *u, struct update_graph *g)
{
	if (g->graph)
		u->device->graph_free(u->device, g->graph);
}

void update_release(struct update *u)
{
	struct device *d = u->device;

	if (!d)
		return;
	drop_graph(u, &u->whole);
	for (size_t i = 0; i < sizeof u->part / sizeof *u->part; i++)
		drop_graph(u, &u->part[i]);
	for (int i = 0; i < UPDATE_AHEAD; i++)
		if (u->event[i])
			d->event_free(d, u->event[i]);
	for (int i = 0; i < UPDATE_LANES; i++) {
		struct update_lane *l = &u->lane[i];
		void *const event[] = {l->come, l->done, l->gone};

		d->release(d, l->m);
		for (int k = 0; k < 3; k++)
			if (event[k])
				d->event_free(d, event[k]);
	}
	for (size_t i = 0; i < sizeof u->tree / sizeof *u->tree; i++)
		d->release(d, u->tree[i]);
	muon_release(&u->muon);
	block_norms_release(&u->blocks, d);
	rank_update_release(&u->ranks);
	d->release(d, u->vectors);
	d->release(d, u->grads);
	d->release(d, u->mask);
	d->release(d, u->scratch);
	d->release_host(d, u->seen);
	memset(u, 0, sizeof *u);
}

void update_begin(struct update *u, const struct train_state *s)
{
	double status[STATUS_COUNT] = {0};

	status[STATUS_UPDATES] = (double)s->updates;
	status[STATUS_SKIPPED_IN_A_ROW] = (double)s->skipped_in_a_row;
	status[STATUS_LR_SQUARES] = s->lr_squares;
	device_put(u->device, u->status, status, sizeof status);
}

/* grads += other, in [lo, hi). */
static void add(struct update *u, float *other, int64_t lo, int64_t hi)
{
	struct array grads = array_vector(DT_F32, u->grads + lo, hi - lo);
	struct op_call c = {.nin = 2, .nout = 1, .in = {grads, array_vector(DT_F32, other + lo, hi - lo)}, .out = {grads}, .attr = {.add = {1, 1}}};

	device_run(u->device, OP_ADD, &c, NULL);
}

/* Gradients of parts are added as a binary tree over their index, so that any power-of-two share of them can be summed elsewhere
 * to the same bits. After part i the sums of complete subtrees lie in tree[level]. */
static void tree_push(struct update *u, int64_t i)
{
	int level = 0;

	for (; i & 1; i >>= 1)
		add(u, u->tree[level++], 0, u->n);
	device_copy(u->device, u->tree[level], u->grads, (size_t)u->n * sizeof *u->grads);
}

/* Add the sums of all earlier parts to the gradient of the last part, in [lo, hi). The bits of its index say which subtrees are complete. */
static void tree_finish(struct update *u, int64_t lo, int64_t hi)
{
	for (int level = 0; (u->parts - 1) >> level; level++)
		if ((u->parts - 1) >> level & 1)
			add(u, u->tree[level], lo, hi);
}

static void add_losses(struct update *u, const float *x, int64_t n, int anew)
{
	struct op_call c = {.nin = 1,
	                    .nout = 1,
	                    .in = {array_vector(DT_F32, (void *)(uintptr_t)x, n)},
	                    .out = {array_vector(DT_F64, u->loss, 1)},
	                    .attr = {.total = {anew}}};

	device_run(u->device, OP_TOTAL, &c, NULL);
}

/* With several ranks the losses are kept, and added when those of all ranks are there, because their sum has one order too. */
static void submit_losses(struct update *u, int64_t i)
{
	if (u->ranks.comm)
		rank_update_take_losses(&u->ranks, i, u->each);
	else
		add_losses(u, u->each, u->samples, i == 0);
}

static void submit_part(struct update *u, int64_t i)
{
	submit_losses(u, i);
	tree_push(u, i);
}

/* Update elements [at, at + n), with their moments at m and v and their average at ema. */
static void change(struct update *u, const struct train_state *s, int64_t at, int64_t n, float *m, float *v, float *ema)
{
	struct op_call c = {.nin = 3,
	                    .nout = s->rounded ? 5 : 4,
	                    .in = {array_vector(DT_F64, u->coef, COEF_COUNT), array_vector(DT_F32, u->grads + at, n),
	                           array_vector(DT_F32, u->mask + at / DECAY_RUN, (n + DECAY_RUN - 1) / DECAY_RUN)},
	                    .out = {array_vector(DT_F32, s->values + at, n), array_vector(DT_F32, m, n), array_vector(DT_F32, v, n),
	                            array_vector(DT_F32, ema, n), array_vector(DT_BF16, s->rounded ? s->rounded + at : NULL, n)}};

	device_run(u->device, s->optimizer == OPTIMIZER_SCHEDULE_FREE ? OP_SCHEDULE_FREE : OP_ADAMW, &c, NULL);
}

/* The moments of a part of a range are copied from the host while the part before it is updated, and copied back while the next one is. A part uses
 * the same lane at every step, so its copy back is done before it is fetched again. Returns the next lane. */
static int change_by_parts(struct update *u, const struct train_state *s, const struct share_range *o, int lane)
{
	struct device *d = u->device;
	int in = stream_of(d, 2), out = stream_of(d, 3);

	for (int64_t done = 0; done < o->n; done += u->range, lane = (lane + 1) % UPDATE_LANES) {
		struct update_lane *l = &u->lane[lane];
		int64_t n = o->n - done < u->range ? o->n - done : u->range, at = o->packed + done;
		size_t bytes = (size_t)n * sizeof *l->m;

		if (l->used)
			d->event_follow(d, l->gone, in);
		d->send(d, in, l->m, s->m + at, bytes);
		d->send(d, in, l->v, s->v + at, bytes);
		d->event_record(d, l->come, in);
		d->event_follow(d, l->come, 0);
		change(u, s, o->at + done, n, l->m, l->v, s->ema + at);
		d->event_record(d, l->done, 0);
		d->event_follow(d, l->done, out);
		d->fetch(d, out, s->m + at, l->m, bytes);
		d->fetch(d, out, s->v + at, l->v, bytes);
		d->event_record(d, l->gone, out);
		l->used = 1;
	}
	return lane;
}

/* Update [from, to) of the arenas, whose state begins at from - shift. */
static void change_packed(struct update *u, const struct train_state *s, int64_t from, int64_t to, int64_t shift)
{
	int64_t at = from - shift;

	if (to > from)
		change(u, s, from, to - from, s->m + at, s->v + at, s->ema + at);
}

/* Muon's matrices in a range, and the parameters between them by AdamW. */
static void change_range(struct update *u, const struct train_state *s, const struct share_range *o)
{
	int64_t at = o->at, end = o->at + o->n, shift = o->at - o->packed;

	for (int i = 0; i < u->muon.n; i++) {
		const struct muon_param *q = &u->muon.v[i];

		if (q->at < at || q->end > end)
			continue;
		change_packed(u, s, at, q->at, shift);
		muon_change(&u->muon, i, s, shift, u->coef, u->grads);
		at = q->end;
	}
	change_packed(u, s, at, end, shift);
}

/* Update what this rank keeps. */
static void change_own(struct update *u)
{
	const struct train_state *s = u->state;
	const struct share_range *own = s->shares ? s->shares->own : &u->all;
	int n = s->shares ? s->shares->groups : 1, lane = 0;

	for (int g = 0; g < n; g++)
		if (u->range)
			lane = change_by_parts(u, s, &own[g], lane);
		else
			change_range(u, s, &own[g]);
}

static void submit_rates(struct update *u)
{
	struct op_call rates = {
	    .nin = 3,
	    .nout = 2,
	    .in = {array_vector(DT_F64, u->sumsq, 1), array_vector(DT_F64, u->loss, 1), array_vector(DT_F64, u->plan, PLAN_COUNT)},
	    .out = {array_vector(DT_F64, u->coef, COEF_COUNT), array_vector(DT_F64, u->status, STATUS_COUNT)}};

	device_run(u->device, OP_RATES, &rates, NULL);
}

static void submit_block_norms(struct update *u)
{
	if (u->number >= 0)
		block_norms_submit(&u->blocks, u->device, u->grads, u->scratch, u->number);
}

/* Submit the last part and the update of the weights. */
static void submit_whole(struct update *u, int64_t last)
{
	struct op_call norm = norm_call(u);

	submit_losses(u, last);
	tree_finish(u, 0, u->n);
	submit_block_norms(u);
	device_run(u->device, OP_SUMSQ, &norm, u->scratch);
	submit_rates(u);
	change_own(u);
}

/* Run submissions as a graph, except under --profile, whose timers a graph cannot hold. The first run is not captured, because it loads the
 * kernels. Values that change with the step are read from u->plan and u->status; all addresses stay the same. */
static void submit_or_launch(struct update *u, struct update_graph *g, void (*submit)(struct update *u, int64_t i), int64_t i)
{
	struct device *d = u->device;

	if (g->ran && !g->graph && !g->refused && !d->capture_begin(d, 0)) {
		submit(u, i);
		g->graph = d->capture_end(d, 0);
		g->refused = !g->graph;
	}
	if (g->graph)
		d->graph_launch(d, g->graph, 0);
	else
		submit(u, i);
	g->ran = 1;
}

/* Not with other ranks, whose part of the batch's losses has its own address for each part. */
static int keeps_graphs(const struct update *u)
{
	return u->device->capture_begin && !u->device->profile && !u->ranks.comm;
}

/* Parts that complete the same number of tree levels submit the same work; part 0 also starts the sum of losses. */
void update_part(struct update *u, int64_t i)
{
	int same = i ? 1 : 0;

	for (int64_t rest = i; rest & 1; rest >>= 1)
		same++;
	if (keeps_graphs(u))
		submit_or_launch(u, &u->part[same], submit_part, i);
	else
		submit_part(u, i);
}

void update_order(struct update *u, const struct tape *t)
{
	if (u->ranks.comm)
		buckets_order(&u->ranks.buckets, t, u->state->params);
}

void update_backward(struct update *u, struct tape *t, int64_t n, int from, int to)
{
	int at = from;

	for (int k = 0; k < u->ranks.buckets.n; k++) {
		const struct bucket *b = &u->ranks.buckets.v[k];
		int mark = b->mark < to ? b->mark : to;

		if (mark > at) {
			tape_run(t, n, at, mark);
			at = mark;
		}
		tree_finish(u, b->lo, b->hi);
		rank_update_begin_sum(&u->ranks, k);
	}
	if (to > at)
		tape_run(t, n, at, to);
}

/* The same on several ranks. The exchange with the others is no work of the device, so it is between submissions. Only the block norms need the whole
 * gradient. Weights in bfloat16 follow those that were gathered. */
static int apply_ranks(struct update *u, struct err *e)
{
	struct rank_update *r = &u->ranks;

	submit_losses(u, u->parts - 1);
	if (rank_update_end_sums(r, u->number >= 0, e))
		return -1;
	add_losses(u, r->losses, comm_size(r->comm) * u->parts * u->samples, 1);
	submit_block_norms(u);
	if (rank_update_sumsq(r, u->sumsq, u->scratch, e))
		return -1;
	submit_rates(u);
	change_own(u);
	if (rank_update_gather(r, u->state->values, e))
		return -1;
	state_round(u->state, u->state->values);
	return 0;
}

int update_apply(struct update *u, const double *plan, int64_t number, struct err *e)
{
	struct device *d = u->device;
	int64_t at = (u->first + u->count) % UPDATE_AHEAD;

	assert(u->count < UPDATE_AHEAD);
	u->number = number;
	device_put(d, u->plan, plan, PLAN_COUNT * sizeof *plan);
	if (u->ranks.comm) {
		if (apply_ranks(u, e))
			return -1;
	} else if (keeps_graphs(u) && !u->range && number < 0) /* a graph cannot hold copies from or to the host */
		submit_or_launch(u, &u->whole, submit_whole, u->parts - 1);
	else
		submit_whole(u, u->parts - 1);
	d->fetch(d, 0, u->seen + at * STATUS_COUNT, u->status, STATUS_COUNT * sizeof *u->seen);
	d->event_record(d, u->event[at], 0);
	u->count++;
	return 0;
}

const double *update_finished(struct update *u, int wait)
{
	struct device *d = u->device;
	int64_t at = u->first % UPDATE_AHEAD;

	if (!u->count || !d->event_passed(d, u->event[at], wait || u->count == UPDATE_AHEAD))
		return NULL;
	u->first++;
	u->count--;
	return u->seen + at * STATUS_COUNT;
}
