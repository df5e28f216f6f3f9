/* Execution: resolve each node's arrays for this batch and call the device's kernel. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/profile.h"
#include "tape/opdef.h"

static char *address(const struct tape *t, const struct tensor *x)
{
	int64_t off = x->offset;
	const struct storage *s = storage_end(x->st, &off);
	int64_t size = (int64_t)dtype_size(s->dtype);

	switch (s->kind) {
	case STORE_ARENA:
		return t->arena ? t->arena + s->place + off * size : NULL;
	case STORE_INPUT:
		return s->bound ? (char *)s->bound + off * size : NULL;
	case STORE_PARAM:
		assert(!t->values || t->params->v[s->param].offset >= 0);
		return t->values ? (char *)t->values + (t->params->v[s->param].offset + off) * size : NULL;
	default:
		return t->grad_values ? (char *)t->grad_values + (t->params->v[s->param].offset + off) * size : NULL;
	}
}

static void resolve(const struct tape *t, const struct tensor *x, int64_t samples, struct array *a)
{
	tensor_array(x, a);
	if (!x)
		return;
	a->data = address(t, x);
	if (x->batched)
		a->shape[0] = a->shape[0] / t->capacity * samples;
}

/* The struct compact that holds input j of a node (a parameter or one of its parts), or NULL. */
static const struct compact *compact_input(const struct tape *t, const struct node *n, int j)
{
	const struct tensor *x = n->in[j];
	const struct compact *w;
	const struct param *q;
	int64_t size;

	if (!t->compact || !x || !(op_def_of(n->op)->compact >> j & 1) || x->st->kind != STORE_PARAM)
		return NULL;
	q = &t->params->v[x->st->param];
	size = q->count / q->parts;
	w = &t->compact[q->part + x->offset / size];
	assert(!w->type || (x->offset % size == 0 && w->n == x->shape[0] && w->k == x->shape[1]));
	return w->type ? w : NULL;
}

/* Whether input j of a node is a weight, a parameter that a product may read in bfloat16. */
static int is_weight(const struct node *n, int j)
{
	return (op_def_of(n->op)->weight >> j & 1) && n->in[j]->st->kind == STORE_PARAM;
}

/* Whether input j is the bias of an output that is stored in bfloat16. */
static int is_bias(const struct node *n, int j)
{
	return (op_def_of(n->op)->bias >> j & 1) && n->in[j] && n->in[j]->st->kind == STORE_PARAM && n->out[0]->dtype == DT_BF16;
}

static void resolve_rounded(const struct tape *t, const struct tensor *x, struct array *a)
{
	int64_t off = x->offset;
	const struct storage *s = storage_end(x->st, &off);

	tensor_array(x, a);
	a->dtype = DT_BF16;
	a->data = t->rounded ? (void *)(uintptr_t)(t->rounded + t->params->v[s->param].offset + off) : NULL;
}

static void resolve_input(const struct tape *t, const struct node *n, int j, int64_t samples, struct array *a)
{
	const struct compact *w = compact_input(t, n, j);

	if (!w && t->options.bf16_weights && (is_weight(n, j) || is_bias(n, j))) {
		resolve_rounded(t, n->in[j], a);
		return;
	}
	if (!w) {
		resolve(t, n->in[j], samples, a);
		return;
	}
	tensor_array(n->in[j], a);
	a->dtype = DT_COMPACT;
	a->data = (void *)w;
}

void node_call(const struct tape *t, const struct node *n, int64_t samples, struct op_call *c)
{
	c->nin = n->nin;
	c->nout = n->nout;
	for (int j = 0; j < n->nin; j++)
		resolve_input(t, n, j, samples, &c->in[j]);
	for (int k = 0; k < n->nout; k++)
		resolve(t, n->out[k], samples, &c->out[k]);
	for (int j = n->nin; j < OP_IN; j++)
		tensor_array(NULL, &c->in[j]);
	for (int k = n->nout; k < OP_OUT; k++)
		tensor_array(NULL, &c->out[k]);
	c->attr = n->attr;
	c->keys = t->device_keys;
	c->device = t->device;
	c->stream = n->stream;
	c->pool = t->device ? t->device->pool : NULL;
	c->scratch = t->scratch;
}

/* Set every byte to 0xff, which is NaN in every float type. */
static void poison(struct tape *t, int stream, int64_t from, int64_t bytes)
{
	t->device->fill(t->device, stream, t->arena + from, 0xff, (size_t)bytes);
}

static void poison_dead(struct tape *t, int node)
{
	for (struct storage *s = t->storages; s; s = s->next)
		if (s->kind == STORE_ARENA && !s->into && s->last == node)
			poison(t, t->node[node].stream, s->place, s->elements * (int64_t)dtype_size(s->dtype));
}

/* Make stream `to` wait for stream `from`. The plan shares memory in node order, so nodes must run in that order on any stream. */
static void change_stream(struct tape *t, int from, int to)
{
	struct device *d = t->device;

	if (from == to)
		return;
	if (!t->hop)
		t->hop = d->event_new(d);
	d->event_record(d, t->hop, from);
	d->event_follow(d, t->hop, to);
}

static double node_flops(const struct node *n, const struct op_call *c)
{
	const struct op_def *def = op_def_of(n->op);

	return def->flops ? def->flops(c) : 0;
}

void tape_watch(struct tape *t, void (*watch)(void *arg, const struct tape_event *v), void *arg)
{
	t->watch = watch;
	t->watch_arg = arg;
}

static const char *param_name(const struct tape *t, const struct tensor *x)
{
	int64_t off = 0;
	const struct storage *s = x ? storage_end(x->st, &off) : NULL;

	return s && (s->kind == STORE_PARAM || s->kind == STORE_GRAD) ? t->params->v[s->param].name : NULL;
}

static void tell_watch(const struct tape *t, const struct node *n, const struct op_call *c, int after)
{
	struct tape_event v = {.op = n->op, .call = c, .after = after};

	for (int j = 0; j < n->nin; j++)
		v.in[j] = param_name(t, n->in[j]);
	for (int k = 0; k < n->nout; k++)
		v.out[k] = param_name(t, n->out[k]);
	t->watch(t->watch_arg, &v);
}

static void run_node(struct tape *t, int i, int64_t samples)
{
	const struct node *n = &t->node[i];
	struct device *d = t->device;
	struct op_call c;

	node_call(t, n, samples, &c);
	if (t->watch)
		tell_watch(t, n, &c, 0);
	if (d->profile && d->timer_new) {
		d->timer_record(d, t->timer[i], n->stream);
		d->kernel[n->op]->run(&c);
	} else if (d->profile) {
		profile_run(d->profile, n->op, &c, node_flops(n, &c));
	} else {
		d->kernel[n->op]->run(&c);
	}
	if (t->watch)
		tell_watch(t, n, &c, 1);
	if (n->then)
		n->then(n->then_arg, d, n->stream);
}

/* Create a timer for the start of each node, and one for the end of a run. */
static void make_timers(struct tape *t)
{
	struct device *d = t->device;

	if (t->timer || !d->profile || !d->timer_new)
		return;
	t->timer = mem_zalloc((size_t)t->nnodes + 1, sizeof *t->timer);
	for (int i = 0; i <= t->nnodes; i++)
		t->timer[i] = d->timer_new(d);
}

void timers_drop(struct tape *t)
{
	for (int i = 0; t->timer && i <= t->nnodes; i++)
		t->device->event_free(t->device, t->timer[i]);
	mem_free(t->timer);
	t->timer = NULL;
}

/* Add the nodes' times to the profile. A node's time ends where the next node's begins. */
static void read_timers(struct tape *t, int64_t samples, int from, int to)
{
	struct device *d = t->device;
	void *end = t->timer[t->nnodes];

	d->sync(d, NULL);
	for (int i = to - 1; i >= from; i--) {
		struct op_call c;

		if (!t->node[i].live)
			continue;
		node_call(t, &t->node[i], samples, &c);
		profile_add(d->profile, t->node[i].op, &c, node_flops(&t->node[i], &c), d->timer_seconds(d, t->timer[i], end));
		end = t->timer[i];
	}
}

static void submit(struct tape *t, int64_t n, int from, int to)
{
	int stream = 0;

	for (int i = from; i < to; i++) {
		if (!t->node[i].live)
			continue;
		change_stream(t, stream, t->node[i].stream);
		stream = t->node[i].stream;
		run_node(t, i, n);
		if (t->options.poison)
			poison_dead(t, i);
	}
	change_stream(t, stream, 0);
	if (t->device->profile && t->device->timer_new)
		t->device->timer_record(t->device, t->timer[t->nnodes], 0);
}

void replay_drop(struct tape *t)
{
	for (int i = 0; i < t->replays; i++)
		if (t->replay[i].graph)
			t->device->graph_free(t->device, t->replay[i].graph);
	mem_free(t->replay);
	t->replay = NULL;
	t->replays = 0;
}

static int may_replay(const struct tape *t, int from, int to)
{
	if (!t->device->capture_begin || (t->device->profile && !t->device->timer_new) || t->options.poison)
		return 0;
	for (int i = from; i < to; i++)
		if (t->node[i].then)
			return 0;
	return 1;
}

static int of_these_weights(const struct tape *t, const struct replay *r)
{
	return r->values == t->values && r->grad_values == t->grad_values && r->rounded == t->rounded;
}

/* Find the replay of a run. If there is none, make one and return NULL; with the most of the same arenas it replaces the least recently
 * used. */
static struct replay *find_replay(struct tape *t, int64_t n, int from, int to)
{
	int64_t same = 0, most = t->capacity > TAPE_GRAPHS ? t->capacity : TAPE_GRAPHS;
	struct replay *oldest = NULL;

	t->runs++;
	for (int i = 0; i < t->replays; i++) {
		struct replay *r = &t->replay[i];

		if (!of_these_weights(t, r))
			continue;
		if (r->n == n && r->from == from && r->to == to && r->profile == t->device->profile) {
			r->used = t->runs;
			return r;
		}
		same++;
		oldest = !oldest || r->used < oldest->used ? r : oldest;
	}
	if (same < most) {
		t->replay = mem_resize(t->replay, (size_t)t->replays + 1, sizeof *t->replay);
		oldest = &t->replay[t->replays++];
	} else if (oldest->graph) {
		t->device->graph_free(t->device, oldest->graph);
	}
	*oldest = (struct replay){.n = n,
	                          .used = t->runs,
	                          .from = from,
	                          .to = to,
	                          .values = t->values,
	                          .grad_values = t->grad_values,
	                          .rounded = t->rounded,
	                          .profile = t->device->profile};
	return NULL;
}

/* Run nodes by a graph where possible. Returns 1 for a first run, which is not captured because libraries choose their algorithms and kernels
 * are loaded at their first call. */
static int replay_run(struct tape *t, int64_t n, int from, int to)
{
	struct device *d = t->device;
	struct replay *r = find_replay(t, n, from, to);

	if (r && !r->graph && !r->refused && !d->capture_begin(d, 0)) {
		submit(t, n, from, to);
		r->graph = d->capture_end(d, 0);
		r->refused = !r->graph;
	}
	if (r && r->graph)
		d->graph_launch(d, r->graph, 0);
	else
		submit(t, n, from, to);
	return !r;
}

void tape_run(struct tape *t, int64_t n, int from, int to)
{
	int first = 0;

	assert(n > 0 && n <= t->capacity && from >= 0 && to <= t->nnodes && t->arena);
	if (t->keys_changed)
		device_put(t->device, t->device_keys, &t->keys, sizeof t->keys);
	t->keys_changed = 0;
	if (t->options.poison && from == 0)
		poison(t, 0, 0, t->arena_bytes);
	make_timers(t);
	if (may_replay(t, from, to))
		first = replay_run(t, n, from, to);
	else
		submit(t, n, from, to);
	if (t->device->profile && t->device->timer_new && !first)
		read_timers(t, n, from, to);
}

void *tape_data(struct tape *t, const struct tensor *x)
{
	return address(t, x);
}

static void mark_grad(const struct tensor *x, int end, int *mark)
{
	const struct storage *s = x ? tensor_home(x) : NULL;

	if (s && s->kind == STORE_GRAD)
		mark[s->param] = end;
}

void tape_grad_marks(const struct tape *t, int *mark)
{
	for (int k = 0; t->params && k < t->params->n; k++)
		mark[k] = 0;
	for (int i = 0; i < t->nnodes; i++) {
		const struct node *n = &t->node[i];

		for (int j = 0; n->live && j < n->nin; j++)
			mark_grad(n->in[j], i + 1, mark);
		for (int k = 0; n->live && k < n->nout; k++)
			mark_grad(n->out[k], i + 1, mark);
	}
}

double tape_flops(const struct tape *t, int64_t n, int from, int to)
{
	double sum = 0;

	for (int i = from; i < to; i++) {
		const struct node *nd = &t->node[i];
		struct op_call c;

		if ((t->device && !nd->live) || nd->again || !op_def_of(nd->op)->flops)
			continue;
		node_call(t, nd, n, &c);
		sum += op_def_of(nd->op)->flops(&c);
	}
	return sum;
}
