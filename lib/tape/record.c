/* Recording: creates tensors, their storages, and nodes. */
#include "tape/record.h"

#include <assert.h>
#include <string.h>

static struct storage *storage_new(struct tape *t, enum storage_kind kind, enum dtype dtype, int64_t elements)
{
	struct storage *s = arena_alloc(&t->mem, sizeof *s);

	s->kind = kind;
	s->dtype = dtype;
	s->elements = elements;
	s->next = t->storages;
	t->storages = s;
	return s;
}

static struct tensor *tensor_add(struct tape *t, struct storage *st, int rank, const int64_t *shape, int batched)
{
	struct tensor *x = arena_alloc(&t->mem, sizeof *x);

	assert(rank >= 0 && rank <= ARRAY_RANK);
	if (t->ntensors == t->tensor_cap) {
		t->tensor_cap = t->tensor_cap ? 2 * t->tensor_cap : 256;
		t->tensor = mem_resize(t->tensor, (size_t)t->tensor_cap, sizeof *t->tensor);
	}
	x->id = t->ntensors;
	t->tensor[t->ntensors++] = x;
	x->dtype = st->dtype;
	x->rank = rank;
	memcpy(x->shape, shape, (size_t)rank * sizeof *shape);
	x->batched = batched;
	assert(!batched || (rank > 0 && shape[0] % t->capacity == 0));
	x->root = x;
	x->st = st;
	st->tensors++;
	return x;
}

static void row_major(struct tensor *x)
{
	int64_t step = 1;

	for (int d = x->rank - 1; d >= 0; d--) {
		x->stride[d] = step;
		step *= x->shape[d];
	}
}

static int64_t count_of(int rank, const int64_t *shape)
{
	int64_t n = 1;

	for (int d = 0; d < rank; d++)
		n *= shape[d];
	return n;
}

static struct tensor *tensor_in(struct tape *t, enum storage_kind kind, enum dtype dtype, int rank, const int64_t *shape, int batched)
{
	struct tensor *x = tensor_add(t, storage_new(t, kind, dtype, count_of(rank, shape)), rank, shape, batched);

	row_major(x);
	return x;
}

struct tensor *tensor_new(struct tape *t, enum dtype dtype, int rank, const int64_t *shape, int batched)
{
	return tensor_in(t, STORE_ARENA, dtype, rank, shape, batched);
}

struct tensor *tensor_like(struct tape *t, const struct tensor *x)
{
	return tensor_new(t, x->dtype, x->rank, x->shape, x->batched);
}

struct tensor *tensor_view(struct tape *t, const struct tensor *x, int rank, const int64_t *shape, const int64_t *stride, int64_t offset, int batched)
{
	struct tensor *v = tensor_add(t, x->st, rank, shape, batched);

	memcpy(v->stride, stride, (size_t)rank * sizeof *stride);
	v->offset = offset;
	v->needs_grad = x->needs_grad;
	return v;
}

struct tensor *tensor_stretch(struct tape *t, struct tensor *x, const struct tensor *to)
{
	int64_t stride[ARRAY_RANK];
	int same = x->rank == to->rank, lead = to->rank - x->rank;
	struct tensor *v;

	assert(lead >= 0 && x->root == x);
	for (int d = 0; d < to->rank; d++) {
		int64_t have = d < lead ? 1 : x->shape[d - lead];

		assert(have == to->shape[d] || have == 1);
		same = same && have == to->shape[d];
		stride[d] = have == to->shape[d] && d >= lead ? x->stride[d - lead] : 0;
	}
	if (same)
		return x;
	v = tensor_view(t, x, to->rank, to->shape, stride, x->offset, to->batched);
	v->root = x;
	return v;
}

void tensor_array(const struct tensor *x, struct array *a)
{
	memset(a, 0, sizeof *a);
	if (!x)
		return;
	a->dtype = x->dtype;
	a->rank = x->rank;
	memcpy(a->shape, x->shape, sizeof a->shape);
	memcpy(a->stride, x->stride, sizeof a->stride);
}

int tensor_contiguous(const struct tensor *x)
{
	struct array a;

	tensor_array(x, &a);
	return array_contiguous(&a);
}

int64_t tensor_count(const struct tensor *x)
{
	return count_of(x->rank, x->shape);
}

struct tensor *tape_input(struct tape *t, enum dtype dtype, int rank, const int64_t *shape, int flags)
{
	struct tensor *x;

	assert(dtype == DT_I32 || dtype == t->real);
	x = tensor_in(t, STORE_INPUT, dtype, rank, shape, flags & TAPE_BATCHED);
	x->needs_grad = (flags & TAPE_GRAD) != 0;
	return x;
}

struct tensor *tape_constant(struct tape *t, int rank, const int64_t *shape, const double *values)
{
	struct tensor *x = tape_input(t, t->real, rank, shape, 0);
	int64_t n = tensor_count(x);
	double *wide = arena_alloc(&t->mem, (size_t)n * sizeof *wide);
	float *narrow = (float *)(void *)wide;

	if (t->real == DT_F64)
		memcpy(wide, values, (size_t)n * sizeof *wide);
	else
		for (int64_t i = 0; i < n; i++)
			narrow[i] = (float)values[i];
	x->st->constant = wide;
	return x;
}

struct tensor *tape_param(struct tape *t, struct params *p, const char *name, int rank, const int64_t *shape, int flags, struct init init)
{
	struct tensor *x = tensor_in(t, STORE_PARAM, t->real, rank, shape, 0);

	assert(!t->params || t->params == p);
	t->params = p;
	x->st->owner = x;
	x->st->param = params_add(p, name, rank, shape, flags, init);
	x->needs_grad = !(flags & PARAM_FROZEN) && !params_freezes(p, name) && !t->frozen;
	return x;
}

struct node *node_add(struct tape *t, enum op op, int nin, struct tensor *const *in, int nout, struct tensor *const *out, const struct op_attr *attr)
{
	struct node *n;
	int needs = 0;

	assert(nin <= OP_IN && nout <= OP_OUT);
	if (t->nnodes == t->node_cap) {
		t->node_cap = t->node_cap ? 2 * t->node_cap : 256;
		t->node = mem_resize(t->node, (size_t)t->node_cap, sizeof *t->node);
	}
	n = &t->node[t->nnodes++];
	memset(n, 0, sizeof *n);
	n->op = op;
	n->nin = nin;
	n->nout = nout;
	if (nin)
		memcpy(n->in, in, (size_t)nin * sizeof *in);
	memcpy(n->out, out, (size_t)nout * sizeof *out);
	if (attr)
		n->attr = *attr;
	n->block = t->block;
	n->again = t->again;
	n->stream = t->stream;
	for (int i = 0; i < nin; i++)
		needs |= in[i] && in[i]->root->needs_grad;
	for (int i = 0; i < nout; i++)
		if (out[i])
			out[i]->needs_grad = needs;
	return n;
}

struct tensor *node_one(struct tape *t, enum op op, int nin, struct tensor *const *in, struct tensor *y, const struct op_attr *attr)
{
	node_add(t, op, nin, in, 1, &y, attr);
	return y;
}

struct storage *storage_end(struct storage *s, int64_t *offset)
{
	while (s->into) {
		*offset += s->into_offset;
		s = s->into;
	}
	return s;
}

struct storage *tensor_home(const struct tensor *x)
{
	int64_t offset = 0;

	return storage_end(x->st, &offset);
}

static int has_memory(struct tensor *const *v, int n, const struct storage *home)
{
	for (int i = 0; i < n; i++)
		if (v[i] && tensor_home(v[i]) == home)
			return 1;
	return 0;
}

int memory_used(const struct tape *t, int from, int to, const struct tensor *x, int writes)
{
	const struct storage *home = x ? tensor_home(x) : NULL;

	for (int i = from + 1; x && i < to; i++) {
		const struct node *n = &t->node[i];

		if (t->device && !n->live)
			continue;
		if (has_memory(n->out, n->nout, home) || (!writes && has_memory(n->in, n->nin, home)))
			return 1;
	}
	return 0;
}
