/* Views, tensors that share memory: recording and gradients. */
#include <assert.h>
#include <string.h>

#include "tape/opsimpl.h"

static struct tensor *view_node(struct tape *t, enum view_kind kind, struct tensor *x, struct tensor *v)
{
	struct op_attr attr = {.view = {.kind = kind}};

	return node_one(t, OP_VIEW, 1, &x, v, &attr);
}

struct tensor *tensor_dense(struct tape *t, struct tensor *x)
{
	return tensor_contiguous(x) ? x : op_copy(t, x);
}

struct tensor *tensor_rows(struct tape *t, struct tensor *x)
{
	assert(x->root == x);
	return x->shape[x->rank - 1] == 1 || x->stride[x->rank - 1] == 1 ? x : op_copy(t, x);
}

struct tensor *tensor_matrix(struct tape *t, struct tensor *x)
{
	struct array a;
	int64_t step;

	x = tensor_rows(t, x);
	tensor_array(x, &a);
	return array_row_stride(&a, &step) ? x : op_copy(t, x);
}

/* Find the strides of x in a new shape. Dimensions of x are grouped into runs that are contiguous in memory, and the new dimensions must
 * split those runs. Returns 0 if they do not. */
static int reshape_strides(const struct tensor *x, int rank, const int64_t *shape, int64_t *stride)
{
	int64_t dim[ARRAY_RANK], step[ARRAY_RANK];
	int n = 0, i = 0, j = 0;

	for (int d = 0; d < x->rank; d++)
		if (x->shape[d] != 1) {
			dim[n] = x->shape[d];
			step[n++] = x->stride[d];
		}
	while (i < n && j < rank) {
		int64_t have = dim[i], want = shape[j];
		int i0 = i, j0 = j;

		while (have != want)
			if (have < want) {
				if (++i == n)
					return 0;
				have *= dim[i];
			} else {
				if (++j == rank)
					return 0;
				want *= shape[j];
			}
		for (int k = i0; k < i; k++)
			if (step[k] != dim[k + 1] * step[k + 1])
				return 0;
		stride[j] = step[i];
		for (int k = j; k > j0; k--)
			stride[k - 1] = stride[k] * shape[k];
		i++;
		j++;
	}
	for (; j < rank; j++)
		stride[j] = 1;
	return 1;
}

struct tensor *op_reshape(struct tape *t, struct tensor *x, int rank, const int64_t *shape)
{
	int64_t stride[ARRAY_RANK], n = 1;
	int batched = x->batched;

	for (int d = 0; d < rank; d++)
		n *= shape[d];
	assert(n == tensor_count(x) && x->root == x);
	if (rank == x->rank && !memcmp(shape, x->shape, (size_t)rank * sizeof *shape))
		return x;
	if (!reshape_strides(x, rank, shape, stride)) {
		x = op_copy(t, x);
		reshape_strides(x, rank, shape, stride);
	}
	return view_node(t, VIEW_RESHAPE, x, tensor_view(t, x, rank, shape, stride, x->offset, batched));
}

struct tensor *op_permute(struct tape *t, struct tensor *x, const int *order)
{
	struct op_attr attr = {.view = {.kind = VIEW_PERMUTE}};
	int64_t shape[ARRAY_RANK], stride[ARRAY_RANK];

	assert(x->root == x && (!x->batched || order[0] == 0));
	for (int d = x->rank - 1; d >= 0; d--) {
		shape[d] = x->shape[order[d]];
		stride[d] = x->stride[order[d]];
		attr.view.order[d] = order[d];
	}
	return node_one(t, OP_VIEW, 1, &x, tensor_view(t, x, x->rank, shape, stride, x->offset, x->batched), &attr);
}

struct tensor *op_expand(struct tape *t, struct tensor *x, const int64_t *shape)
{
	int64_t stride[ARRAY_RANK];

	assert(x->root == x);
	for (int d = 0; d < x->rank; d++) {
		assert(x->shape[d] == shape[d] || (x->shape[d] == 1 && !(d == 0 && x->batched)));
		stride[d] = x->shape[d] == shape[d] ? x->stride[d] : 0;
	}
	return view_node(t, VIEW_EXPAND, x, tensor_view(t, x, x->rank, shape, stride, x->offset, x->batched));
}

struct tensor *op_repeat(struct tape *t, struct tensor *x)
{
	int64_t shape[ARRAY_RANK], stride[ARRAY_RANK];

	assert(x->root == x && x->rank > 0 && x->shape[0] == 1 && !x->batched);
	memcpy(shape, x->shape, sizeof shape);
	memcpy(stride, x->stride, sizeof stride);
	shape[0] = t->capacity;
	stride[0] = 0;
	return view_node(t, VIEW_EXPAND, x, tensor_view(t, x, x->rank, shape, stride, x->offset, 1));
}

static struct tensor *part(struct tape *t, const struct tensor *x, int dim, int64_t from, int64_t length)
{
	int64_t shape[ARRAY_RANK];

	memcpy(shape, x->shape, sizeof shape);
	shape[dim] = length;
	return tensor_view(t, x, x->rank, shape, x->stride, x->offset + from * x->stride[dim], x->batched);
}

struct tensor *op_slice(struct tape *t, struct tensor *x, int dim, int64_t from, int64_t length)
{
	struct op_attr attr = {.view = {.kind = VIEW_SLICE, .dim = dim, .from = from}};

	assert(x->root == x && dim < x->rank && from >= 0 && length > 0 && from + length <= x->shape[dim] && !(dim == 0 && x->batched));
	return node_one(t, OP_VIEW, 1, &x, part(t, x, dim, from, length), &attr);
}

static struct tensor *pick(struct tape *t, const struct tensor *x, int dim, int64_t i)
{
	int64_t shape[ARRAY_RANK], stride[ARRAY_RANK];
	int r = 0;

	for (int d = 0; d < x->rank; d++)
		if (d != dim) {
			shape[r] = x->shape[d];
			stride[r++] = x->stride[d];
		}
	return tensor_view(t, x, r, shape, stride, x->offset + i * x->stride[dim], x->batched);
}

void op_unstack(struct tape *t, struct tensor *x, int dim, struct tensor **out)
{
	struct op_attr attr = {.view = {.kind = VIEW_UNSTACK, .dim = dim}};
	int n = (int)x->shape[dim];

	assert(x->root == x && x->shape[dim] <= OP_OUT && !(dim == 0 && x->batched));
	for (int i = 0; i < n; i++)
		out[i] = pick(t, x, dim, i);
	node_add(t, OP_VIEW, 1, &x, n, out, &attr);
}

struct tensor *op_concat(struct tape *t, int dim, int n, struct tensor *const *xs)
{
	struct op_attr attr = {.view = {.kind = VIEW_JOIN, .dim = dim}};
	struct tensor *y, *slice[OP_IN];
	int64_t shape[ARRAY_RANK], at = 0;

	assert(n > 0 && n <= OP_IN && !(dim == 0 && xs[0]->batched));
	memcpy(shape, xs[0]->shape, sizeof shape);
	shape[dim] = 0;
	for (int i = 0; i < n; i++)
		shape[dim] += xs[i]->shape[dim];
	y = tensor_new(t, xs[0]->dtype, xs[0]->rank, shape, xs[0]->batched);
	for (int i = 0; i < n; i++) {
		struct tensor *x = xs[i];

		slice[i] = part(t, y, dim, at, x->shape[dim]);
		node_add(t, OP_COPY, 1, &x, 1, &slice[i], NULL);
		at += x->shape[dim];
	}
	node_add(t, OP_VIEW, n, slice, 1, &y, &attr);
	return y;
}

static void fill_zero(struct tape *t, struct tensor *x)
{
	node_add(t, OP_FILL, 0, NULL, 1, &x, NULL);
}

/* The gradient of a slice is the gradient of its tensor with zeros around it. */
static struct tensor *slice_backward(struct tape *t, const struct node *n, struct tensor *dy)
{
	struct tensor *x = n->in[0], *g = tensor_like(t, x);
	int dim = n->attr.view.dim;
	int64_t from = n->attr.view.from, length = n->out[0]->shape[dim], end = from + length;

	if (from)
		fill_zero(t, part(t, g, dim, 0, from));
	grad_place(t, dy, part(t, g, dim, from, length));
	if (end < x->shape[dim])
		fill_zero(t, part(t, g, dim, end, x->shape[dim] - end));
	return g;
}

static struct tensor *unstack_backward(struct vjp *v)
{
	struct tensor *x = v->n->in[0], *g = tensor_like(v->t, x);
	int dim = v->n->attr.view.dim;

	for (int i = 0; i < v->n->nout; i++) {
		struct tensor *slot = pick(v->t, g, dim, i);

		if (v->dy[i])
			grad_place(v->t, v->dy[i], slot);
		else
			fill_zero(v->t, slot);
	}
	return g;
}

static struct tensor *permute_backward(struct tape *t, const struct node *n, struct tensor *dy)
{
	int back[ARRAY_RANK];

	for (int d = 0; d < dy->rank; d++)
		back[n->attr.view.order[d]] = d;
	return op_permute(t, dy, back);
}

static void view_vjp(struct vjp *v)
{
	const struct node *n = v->n;
	struct tape *t = v->t;

	switch (n->attr.view.kind) {
	case VIEW_RESHAPE:
		v->dx[0] = op_reshape(t, v->dy[0], n->in[0]->rank, n->in[0]->shape);
		break;
	case VIEW_PERMUTE:
		v->dx[0] = permute_backward(t, n, v->dy[0]);
		break;
	case VIEW_EXPAND:
		v->dx[0] = op_sum(t, v->dy[0], n->in[0]->shape, 1);
		break;
	case VIEW_SLICE:
		v->dx[0] = slice_backward(t, n, v->dy[0]);
		break;
	case VIEW_UNSTACK:
		v->dx[0] = unstack_backward(v);
		break;
	case VIEW_JOIN:
		for (int j = 0, at = 0; j < n->nin; at += (int)n->in[j]->shape[n->attr.view.dim], j++)
			if (v->need[j])
				v->dx[j] = op_slice(t, v->dy[0], n->attr.view.dim, at, n->in[j]->shape[n->attr.view.dim]);
		break;
	}
}

const struct op_def op_def_view = {.vjp = view_vjp, .view = 1};
