/* Execution: resolve each node's arrays for this batch and call the device's kernel. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "tape/record.h"

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

/* Whether input j of a node is a matrix held as struct compact. */
static const struct compact *compact_input(const struct tape *t, const struct node *n, int j)
{
	const struct tensor *x = n->in[j];
	const struct compact *w;

	if (!t->compact || !x || n->op != OP_LINEAR || j != 1 || x->st->kind != STORE_PARAM)
		return NULL;
	w = &t->compact[x->st->param];
	assert(!w->type || (x->offset == 0 && w->n == x->shape[0] && w->k == x->shape[1]));
	return w->type ? w : NULL;
}

/* Whether input j of a node is a parameter that a product multiplies with. */
static int is_weight(const struct node *n, int j)
{
	return (n->op == OP_LINEAR || n->op == OP_LINEAR_DX || n->op == OP_CONV || n->op == OP_CONV_DX) && j == 1 &&
	       n->in[j]->st->kind == STORE_PARAM;
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

	if (!w && t->options.bf16_weights && is_weight(n, j)) {
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

/* Every byte 0xff: NaN in every float type. */
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

/* Everything is in order: memory is shared along the list of nodes, not along streams. */
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

static void run_node(struct tape *t, int i, int64_t samples)
{
	const struct node *n = &t->node[i];
	struct op_profile *p = &t->profile[n->op];
	struct op_call c;
	double start = 0;

	node_call(t, n, samples, &c);
	if (t->profiling) {
		t->device->sync(t->device, NULL);
		start = clock_seconds();
	}
	t->device->kernel[n->op]->run(&c);
	if (t->profiling) {
		t->device->sync(t->device, NULL);
		p->count++;
		p->seconds += clock_seconds() - start;
		p->flops += op_defs[n->op].flops ? op_defs[n->op].flops(&c) : 0;
		p->bytes += bytes_touched(&c);
	}
	if (n->then)
		n->then(n->then_arg, t->device, n->stream);
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
}

void replay_drop(struct tape *t)
{
	for (int i = 0; i < t->replays; i++)
		if (t->replay[i].graph)
			t->device->graph_free(t->device, t->replay[i].graph);
	t->replays = 0;
}

static int may_replay(const struct tape *t, int from, int to)
{
	if (!t->device->capture_begin || t->profiling || t->options.poison)
		return 0;
	for (int i = from; i < to; i++)
		if (t->node[i].then)
			return 0;
	return 1;
}

/* The place of a run that is known, or NULL after making one for it: of those never used the first, else the one longest unused. */
static struct replay *find_replay(struct tape *t, int64_t n, int from, int to)
{
	struct replay *oldest = &t->replay[0];

	t->runs++;
	for (int i = 0; i < t->replays; i++) {
		struct replay *r = &t->replay[i];

		if (r->n == n && r->from == from && r->to == to && r->values == t->values && r->grad_values == t->grad_values) {
			r->used = t->runs;
			return r;
		}
		oldest = r->used < oldest->used ? r : oldest;
	}
	if (t->replays < TAPE_GRAPHS)
		oldest = &t->replay[t->replays++];
	else if (oldest->graph)
		t->device->graph_free(t->device, oldest->graph);
	*oldest = (struct replay){.n = n, .used = t->runs, .from = from, .to = to, .values = t->values, .grad_values = t->grad_values};
	return NULL;
}

/* The first run is not captured: libraries choose their algorithms, and kernels are loaded, when they are first called. */
static void replay_run(struct tape *t, int64_t n, int from, int to)
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
}

void tape_run(struct tape *t, int64_t n, int from, int to)
{
	assert(n > 0 && n <= t->capacity && from >= 0 && to <= t->nnodes && t->arena);
	if (t->keys_changed)
		device_put(t->device, t->device_keys, &t->keys, sizeof t->keys);
	t->keys_changed = 0;
	if (t->options.poison && from == 0)
		poison(t, 0, 0, t->arena_bytes);
	if (may_replay(t, from, to))
		replay_run(t, n, from, to);
	else
		submit(t, n, from, to);
}

void *tape_data(struct tape *t, const struct tensor *x)
{
	return address(t, x);
}

double tape_flops(const struct tape *t, int64_t n, int from, int to)
{
	double sum = 0;

	for (int i = from; i < to; i++) {
		const struct node *nd = &t->node[i];
		struct op_call c;

		if ((t->device && !nd->live) || nd->again || !op_defs[nd->op].flops)
			continue;
		node_call(t, nd, n, &c);
		sum += op_defs[nd->op].flops(&c);
	}
	return sum;
}

void tape_profile(struct tape *t, int on)
{
	t->profiling = on;
	if (on)
		memset(t->profile, 0, sizeof t->profile);
}

void tape_profile_read(const struct tape *t, struct op_profile out[OP_COUNT])
{
	memcpy(out, t->profile, sizeof t->profile);
}
