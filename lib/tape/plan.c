/* Plans the tape's memory: drops dead nodes, lets an output overwrite an input at its last use where the op allows it, and places the other
 * values in one arena. The largest value is placed first, each at the lowest offset that is free during its lifetime. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tape/opdef.h"

enum { LEAST_NARROW = 1 << 14 }; /* least elements of a tensor that is stored in bfloat16 because only products read it */

static void mark_live(struct tape *t)
{
	for (struct storage *s = t->storages; s; s = s->next) {
		int64_t off = 0;
		struct storage *end = storage_end(s, &off);

		end->keep |= s->keep;
	}
	for (struct storage *s = t->storages; s; s = s->next)
		s->needed = s->keep || s->kind == STORE_GRAD;
	for (int i = t->nnodes - 1; i >= 0; i--) {
		struct node *n = &t->node[i];

		n->live = 0;
		if (op_def_of(n->op)->view)
			continue;
		for (int k = 0; k < n->nout; k++)
			n->live |= n->out[k] && tensor_home(n->out[k])->needed;
		for (int j = 0; n->live && j < n->nin; j++)
			if (n->in[j])
				tensor_home(n->in[j])->needed = 1;
	}
}

static void fuse_nodes(struct tape *t)
{
	for (int i = 0; i < t->nnodes; i++)
		if (t->node[i].live && op_def_of(t->node[i].op)->fuse)
			op_def_of(t->node[i].op)->fuse(t, i);
}

/* Drop optional outputs that no node reads, such as values for a backward pass that was not recorded. */
static void drop_optional(struct tape *t)
{
	for (int i = 0; i < t->nnodes; i++) {
		struct node *n = &t->node[i];

		for (int k = 0; n->live && k < n->nout; k++)
			if ((op_def_of(n->op)->optional >> k & 1) && n->out[k] && !tensor_home(n->out[k])->needed)
				n->out[k] = NULL;
	}
}

/* For a plan in bfloat16. */
static void mark_exact(struct tape *t)
{
	for (int i = 0; i < t->nnodes; i++)
		for (int k = 0; k < t->node[i].nout; k++)
			if (t->node[i].out[k] && op_def_of(t->node[i].op)->exact >> k & 1)
				t->node[i].out[k]->st->exact = 1;
}

/* For a CPU that multiplies bf16 numbers: everything is exact but what only kernels read that round it first, such as products. Small tensors are
 * exact too, because they would save neither time nor memory. */
static void mark_read_exactly(struct tape *t)
{
	for (struct storage *s = t->storages; s; s = s->next)
		s->exact |= s->elements < LEAST_NARROW;
	for (int i = 0; i < t->nnodes; i++) {
		const struct node *n = &t->node[i];
		const struct op_def *def = op_def_of(n->op);
		unsigned narrow = !def->narrows || def->narrows(n) ? def->narrow : 0;

		for (int j = 0; n->live && j < n->nin; j++)
			if (n->in[j] && !(def->rounds >> j & 1))
				n->in[j]->st->exact = 1;
		for (int k = 0; n->live && k < n->nout; k++)
			if (n->out[k] && !(narrow >> k & 1))
				n->out[k]->st->exact = 1;
	}
}

/* Choose bfloat16 for every storage that need not be exact. Merged storages are exact if one of them is. */
static void choose_storage(struct tape *t)
{
	for (struct storage *s = t->storages; s; s = s->next) {
		int64_t off = 0;
		struct storage *end = storage_end(s, &off);

		end->exact |= s->exact || s->keep || s->kind != STORE_ARENA || s->dtype != DT_F32;
	}
	for (int i = 0; i < t->ntensors; i++) {
		struct storage *s = t->tensor[i]->st, *end = tensor_home(t->tensor[i]);

		if (!end->exact)
			t->tensor[i]->dtype = s->dtype = end->dtype = DT_BF16;
	}
}

static void touch(const struct tensor *x, int node)
{
	struct storage *s = tensor_home(x);

	if (s->first < 0)
		s->first = node;
	s->last = node;
}

static void find_lifetimes(struct tape *t)
{
	for (struct storage *s = t->storages; s; s = s->next)
		s->first = s->last = -1;
	for (int i = 0; i < t->nnodes; i++) {
		const struct node *n = &t->node[i];

		if (!n->live)
			continue;
		for (int j = 0; j < n->nin; j++)
			if (n->in[j])
				touch(n->in[j], i);
		for (int k = 0; k < n->nout; k++)
			if (n->out[k])
				touch(n->out[k], i);
	}
	for (struct storage *s = t->storages; s; s = s->next)
		if (s->keep)
			s->last = t->nnodes;
}

static int fills_its_storage(const struct tensor *x)
{
	return x->st->kind == STORE_ARENA && !x->st->into && x->offset == 0 && tensor_contiguous(x) && tensor_count(x) == x->st->elements;
}

static void reuse_in_place(struct tape *t)
{
	for (int i = 0; i < t->nnodes; i++) {
		const struct node *n = &t->node[i];
		int which = op_def_of(n->op)->in_place - 1, shared = 0;
		struct tensor *from, *to;

		if (!n->live || which < 0)
			continue;
		from = n->in[which];
		to = n->out[0];
		if (!from || !fills_its_storage(from) || !fills_its_storage(to) || from->st == to->st || from->st->elements != to->st->elements ||
		    from->dtype != to->dtype)
			continue;
		for (int j = 0; j < n->nin; j++)
			shared |= j != which && n->in[j] && tensor_home(n->in[j]) == from->st;
		if (shared || from->st->last != i || to->st->first != i)
			continue;
		to->st->into = from->st;
		from->st->last = to->st->last;
		from->st->keep |= to->st->keep;
	}
}

static int64_t bytes_of(const struct storage *s)
{
	return (s->elements * (int64_t)dtype_size(s->dtype) + 63) / 64 * 64;
}

static int by_size(const void *a, const void *b)
{
	const struct storage *x = *(struct storage *const *)a, *y = *(struct storage *const *)b;

	int64_t m = bytes_of(x), n = bytes_of(y);

	if (m != n)
		return m < n ? 1 : -1;
	if (x->elements != y->elements)
		return x->elements < y->elements ? 1 : -1;
	return x->first < y->first ? -1 : x->first > y->first;
}

static int by_place(const void *a, const void *b)
{
	const struct storage *x = *(struct storage *const *)a, *y = *(struct storage *const *)b;

	return x->place < y->place ? -1 : x->place > y->place;
}

static int64_t place_all(struct tape *t)
{
	int n = 0, placed = 0;
	int64_t end = 0;
	struct storage **v, **busy;

	for (struct storage *s = t->storages; s; s = s->next)
		n += s->kind == STORE_ARENA && !s->into && s->first >= 0;
	v = mem_zalloc((size_t)n, sizeof *v);
	busy = mem_zalloc((size_t)n, sizeof *busy);
	n = 0;
	for (struct storage *s = t->storages; s; s = s->next)
		if (s->kind == STORE_ARENA && !s->into && s->first >= 0)
			v[n++] = s;
	qsort(v, (size_t)n, sizeof *v, by_size);
	for (; placed < n; placed++) {
		struct storage *s = v[placed];
		int64_t at = 0;
		int m = 0;

		if (t->options.no_reuse) {
			s->place = end;
			end += bytes_of(s);
			continue;
		}
		for (int k = 0; k < placed; k++)
			if (v[k]->first <= s->last && s->first <= v[k]->last)
				busy[m++] = v[k];
		qsort(busy, (size_t)m, sizeof *busy, by_place);
		for (int k = 0; k < m; k++) {
			if (busy[k]->place >= at + bytes_of(s))
				break;
			if (busy[k]->place + bytes_of(busy[k]) > at)
				at = busy[k]->place + bytes_of(busy[k]);
		}
		s->place = at;
		if (at + bytes_of(s) > end)
			end = at + bytes_of(s);
	}
	mem_free(v);
	mem_free(busy);
	return end;
}

static int64_t most_scratch(struct tape *t)
{
	int64_t most = 0;

	for (int i = 0; i < t->nnodes; i++) {
		const struct node *n = &t->node[i];
		const struct kernel *k = t->device->kernel[n->op];
		struct op_call c;
		int64_t bytes;

		if (!n->live || !k || !k->scratch)
			continue;
		node_call(t, n, t->capacity, &c);
		bytes = (int64_t)k->scratch(&c, pool_threads(t->device->pool));
		if (bytes > most)
			most = bytes;
	}
	return most;
}

void tape_layout(struct tape *t, struct device *d, const struct plan_options *o)
{
	assert(!t->device && d->real == t->real && (!t->compact || d->compact));
	t->device = d;
	if (o)
		t->options = *o;
	mark_live(t);
	fuse_nodes(t);
	drop_optional(t);
	if (t->options.bf16) {
		mark_exact(t);
		choose_storage(t);
	} else if (device_has_bf16_products(d) && !t->compact && !t->options.float_operands) {
		mark_read_exactly(t);
		choose_storage(t);
	}
	find_lifetimes(t);
	if (!t->options.no_reuse)
		reuse_in_place(t);
	t->arena_bytes = place_all(t);
	t->scratch_bytes = most_scratch(t);
}

int64_t tape_arena_bytes(const struct tape *t)
{
	return t->arena_bytes;
}

int64_t tape_scratch_bytes(const struct tape *t)
{
	return t->scratch_bytes;
}

int tape_allocate(struct tape *t, struct err *e)
{
	struct device *d = t->device;

	if ((t->options.bf16 || t->options.bf16_weights) && !(d->storage >> DT_BF16 & 1))
		return err_set(e, ERR_UNAVAILABLE, "device %s does not compute in bfloat16", d->name);
	for (int i = 0; i < t->nnodes; i++)
		if (t->node[i].live && !d->kernel[t->node[i].op])
			return err_set(e, ERR_UNAVAILABLE, "device %s has no kernel for %s", d->name, op_name(t->node[i].op));
	if (!(t->arena = d->alloc(d, (size_t)t->arena_bytes, "activations", e)) ||
	    !(t->scratch = d->alloc(d, (size_t)t->scratch_bytes, "kernel scratch", e)) ||
	    !(t->device_keys = d->alloc(d, sizeof *t->device_keys, "keys of random draws", e)))
		return -1;
	for (struct storage *c = t->storages; c; c = c->next) {
		size_t bytes = (size_t)c->elements * (c->dtype == DT_F64 ? sizeof(double) : sizeof(float));

		if (!c->constant)
			continue;
		if (!(c->bound = d->alloc(d, bytes, "constant tables", e)))
			return -1;
		d->put(d, 0, c->bound, c->constant, bytes);
	}
	return 0;
}
