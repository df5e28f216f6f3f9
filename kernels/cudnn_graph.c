/* Describes both passes of attention to cuDNN, in the operations and the order from which the library recognizes them ("Attention" in NVIDIA's
 * documentation of cuDNN). Tensors have the dimensions (samples, heads, rows, columns). */
#include "kernels/cudnnimpl.h"

#include <assert.h>

/* The first failure sticks, and later calls do nothing. */
struct builder {
	const struct cudnn_library *l;
	struct cudnn_graph *g;
	int status;
	int64_t virtual_id;
	const struct cudnn_attention *p;
	void *op[24];
	int ops;
};

int cudnn_make(const struct cudnn_library *l, struct cudnn_graph *g, int kind, void **desc)
{
	int status;

	assert(g->nmade < MADE);
	*desc = NULL;
	if ((status = l->desc_create(kind, desc)) == DNN_OK)
		g->made[g->nmade++] = *desc;
	return status;
}

void cudnn_unmake(const struct cudnn_library *l, struct cudnn_graph *g, void *desc)
{
	int n = 0;

	l->desc_destroy(desc);
	for (int i = 0; i < g->nmade; i++)
		if (g->made[i] != desc)
			g->made[n++] = g->made[i];
	g->nmade = n;
}

static void *make(struct builder *b, int kind)
{
	void *d = NULL;

	if (b->status == DNN_OK)
		b->status = cudnn_make(b->l, b->g, kind, &d);
	return d;
}

static void set(struct builder *b, void *d, int attribute, int type, int64_t count, const void *values)
{
	if (b->status == DNN_OK)
		b->status = b->l->desc_set(d, attribute, type, count, values);
}

static void set_int(struct builder *b, void *d, int attribute, int type, int value)
{
	set(b, d, attribute, type, 1, &value);
}

static void set_desc(struct builder *b, void *d, int attribute, void *value)
{
	set(b, d, attribute, DNN_TYPE_DESCRIPTOR, 1, &value);
}

static void *finish(struct builder *b, void *d)
{
	if (b->status == DNN_OK)
		b->status = b->l->desc_finalize(d);
	return d;
}

enum { ARRAY, VIRTUAL, NUMBER };

static void *tensor(struct builder *b, int64_t id, int kind, int type, const int64_t dim[4], const int64_t stride[4])
{
	const int64_t alignment = kind == NUMBER ? 4 : 16;
	const unsigned char yes = 1;
	void *d = make(b, DNN_TENSOR);

	set(b, d, DNN_TENSOR_ID, DNN_TYPE_INT64, 1, &id);
	set_int(b, d, DNN_TENSOR_TYPE, DNN_TYPE_DATA_TYPE, type);
	set(b, d, DNN_TENSOR_DIMENSIONS, DNN_TYPE_INT64, 4, dim);
	set(b, d, DNN_TENSOR_STRIDES, DNN_TYPE_INT64, 4, stride);
	set(b, d, DNN_TENSOR_ALIGNMENT, DNN_TYPE_INT64, 1, &alignment);
	if (kind != ARRAY)
		set(b, d, kind == VIRTUAL ? DNN_TENSOR_VIRTUAL : DNN_TENSOR_BY_VALUE, DNN_TYPE_BOOLEAN, 1, &yes);
	return finish(b, d);
}

/* An operand of `rows` tokens, or its transpose (.., d, rows). */
static void *operand(struct builder *b, int64_t id, int kind, const struct cudnn_side *s, int64_t rows, int transposed)
{
	const struct cudnn_attention *p = b->p;
	const int64_t dim[2][4] = {{p->samples, p->heads, rows, p->d}, {p->samples, p->heads, p->d, rows}};
	const int64_t stride[2][4] = {{s->sample, s->head, s->token, 1}, {s->sample, s->head, 1, s->token}};

	return tensor(b, id, kind, DNN_BFLOAT16, dim[transposed], stride[transposed]);
}

static void *number(struct builder *b, int64_t id)
{
	static const int64_t one[4] = {1, 1, 1, 1};

	return tensor(b, id, NUMBER, DNN_FLOAT, one, one);
}

/* A result that is not stored: (.., rows, columns). */
static void *between(struct builder *b, int type, int64_t rows, int64_t columns, int64_t row, int64_t column)
{
	const struct cudnn_attention *p = b->p;
	const int64_t dim[4] = {p->samples, p->heads, rows, columns}, stride[4] = {p->heads * rows * columns, rows * columns, row, column};

	return tensor(b, b->virtual_id++, VIRTUAL, type, dim, stride);
}

static void *scores(struct builder *b)
{
	return between(b, DNN_FLOAT, b->p->t, b->p->s, b->p->s, 1);
}

static void *statistics(struct builder *b)
{
	return between(b, DNN_FLOAT, b->p->t, 1, 1, 1);
}

static void *lse_of(struct builder *b)
{
	const struct cudnn_attention *p = b->p;
	const int64_t dim[4] = {p->samples, p->heads, p->t, 1}, stride[4] = {p->lse_sample, p->lse_head, p->lse_token, 1};

	return tensor(b, ID_LSE, ARRAY, DNN_FLOAT, dim, stride);
}

static void add_op(struct builder *b, void *op)
{
	assert(b->ops < (int)(sizeof b->op / sizeof *b->op));
	b->op[b->ops++] = finish(b, op);
}

/* y = mode(x, z); z may be NULL. Returns y. */
static void *pointwise(struct builder *b, int mode, void *x, void *z, void *y)
{
	void *how = make(b, DNN_POINTWISE), *op = make(b, DNN_OP_POINTWISE);

	set_int(b, how, DNN_POINTWISE_MODE, DNN_TYPE_POINTWISE_MODE, mode);
	set_int(b, how, DNN_POINTWISE_PRECISION, DNN_TYPE_DATA_TYPE, DNN_FLOAT);
	set_desc(b, op, DNN_OP_POINTWISE_DESC, finish(b, how));
	set_desc(b, op, DNN_OP_POINTWISE_X, x);
	if (z)
		set_desc(b, op, DNN_OP_POINTWISE_B, z);
	set_desc(b, op, DNN_OP_POINTWISE_Y, y);
	add_op(b, op);
	return y;
}

static void *matmul(struct builder *b, void *x, void *z, void *y)
{
	void *how = make(b, DNN_MATMUL), *op = make(b, DNN_OP_MATMUL);

	set_int(b, how, DNN_MATMUL_PRECISION, DNN_TYPE_DATA_TYPE, DNN_FLOAT);
	set_desc(b, op, DNN_OP_MATMUL_DESC, finish(b, how));
	set_desc(b, op, DNN_OP_MATMUL_A, x);
	set_desc(b, op, DNN_OP_MATMUL_B, z);
	set_desc(b, op, DNN_OP_MATMUL_C, y);
	add_op(b, op);
	return y;
}

/* Over the dimensions that have size 1 in y. */
static void *reduction(struct builder *b, int mode, void *x, void *y)
{
	void *how = make(b, DNN_REDUCTION), *op = make(b, DNN_OP_REDUCTION);

	set_int(b, how, DNN_REDUCTION_OPERATOR, DNN_TYPE_REDUCTION, mode);
	set_int(b, how, DNN_REDUCTION_PRECISION, DNN_TYPE_DATA_TYPE, DNN_FLOAT);
	set_desc(b, op, DNN_OP_REDUCTION_DESC, finish(b, how));
	set_desc(b, op, DNN_OP_REDUCTION_X, x);
	set_desc(b, op, DNN_OP_REDUCTION_Y, y);
	add_op(b, op);
	return y;
}

static void *reshape(struct builder *b, void *x, void *y)
{
	void *op = make(b, DNN_OP_RESHAPE);

	set_desc(b, op, DNN_OP_RESHAPE_X, x);
	set_desc(b, op, DNN_OP_RESHAPE_Y, y);
	add_op(b, op);
	return y;
}

static void describe_forward(struct builder *b)
{
	const struct cudnn_attention *p = b->p;
	void *q = operand(b, ID_Q, ARRAY, &p->q, p->t, 0), *kt = operand(b, ID_K, ARRAY, &p->k, p->s, 1);
	void *v = operand(b, ID_V, ARRAY, &p->v, p->s, 0), *o = operand(b, ID_O, ARRAY, &p->o, p->t, 0);
	void *scaled, *top, *e, *sum, *log;

	scaled = pointwise(b, DNN_MUL, matmul(b, q, kt, scores(b)), number(b, ID_SCALE), scores(b));
	top = reduction(b, DNN_MAX, scaled, statistics(b));
	e = pointwise(b, DNN_EXP, pointwise(b, DNN_SUB, scaled, top, scores(b)), NULL, scores(b));
	sum = reduction(b, DNN_SUM, e, statistics(b));
	log = pointwise(b, DNN_LOG, sum, NULL, statistics(b));
	pointwise(b, DNN_ADD, top, log, lse_of(b));
	matmul(b, pointwise(b, DNN_DIV, e, sum, between(b, DNN_BFLOAT16, p->t, p->s, p->s, 1)), v, o);
}

/* x (.., t, s) transposed, in bfloat16. */
static void *transposed(struct builder *b, void *x)
{
	return reshape(b, x, between(b, DNN_BFLOAT16, b->p->s, b->p->t, 1, b->p->s));
}

static void describe_gradient(struct builder *b)
{
	const struct cudnn_attention *p = b->p;
	const int64_t rows[4] = {p->samples, p->heads, p->t, 1}, packed[4] = {p->heads * p->t, p->t, 1, 1};
	void *q = operand(b, ID_Q, ARRAY, &p->q, p->t, 0), *kt = operand(b, ID_K, ARRAY, &p->k, p->s, 1);
	void *vt = operand(b, ID_V, ARRAY, &p->v, p->s, 1), *o = operand(b, ID_O, ARRAY, &p->o, p->t, 0);
	void *dy = operand(b, ID_DY, ARRAY, &p->dy, p->t, 0), *dq = operand(b, ID_DQ, ARRAY, &p->dq, p->t, 0);
	void *dk = operand(b, ID_DK, ARRAY, &p->dk, p->s, 0), *dv = operand(b, ID_DV, ARRAY, &p->dv, p->s, 0);
	void *scale = number(b, ID_SCALE), *delta = tensor(b, ID_DELTA, ARRAY, DNN_FLOAT, rows, packed), *x, *weights, *ds;

	x = pointwise(b, DNN_MUL, dy, o, between(b, DNN_FLOAT, p->t, p->d, p->d, 1));
	pointwise(b, DNN_MUL, reduction(b, DNN_SUM, x, statistics(b)), number(b, ID_ONE), delta);
	x = pointwise(b, DNN_MUL, matmul(b, q, kt, scores(b)), scale, scores(b));
	weights = pointwise(b, DNN_EXP, pointwise(b, DNN_SUB, x, lse_of(b), scores(b)), NULL, scores(b));
	matmul(b, transposed(b, weights), dy, dv);
	x = pointwise(b, DNN_SUB, matmul(b, dy, vt, scores(b)), delta, scores(b));
	ds = pointwise(b, DNN_MUL, pointwise(b, DNN_MUL, x, weights, scores(b)), scale, scores(b));
	matmul(b, transposed(b, ds), q, dk);
	matmul(b, ds, reshape(b, kt, operand(b, b->virtual_id++, VIRTUAL, &p->k, p->s, 0)), dq);
}

int cudnn_graph_init(struct cudnn_graph *g, const struct cudnn_library *l, void *handle, const struct cudnn_attention *p)
{
	struct builder b = {.l = l, .g = g, .virtual_id = ID_VIRTUAL, .p = p};

	*g = (struct cudnn_graph){0};
	if (p->grad)
		describe_gradient(&b);
	else
		describe_forward(&b);
	g->graph = make(&b, DNN_GRAPH);
	set(&b, g->graph, DNN_GRAPH_HANDLE, DNN_TYPE_HANDLE, 1, &handle);
	set(&b, g->graph, DNN_GRAPH_OPS, DNN_TYPE_DESCRIPTOR, b.ops, b.op);
	finish(&b, g->graph);
	return b.status;
}

void cudnn_graph_release(struct cudnn_graph *g, const struct cudnn_library *l)
{
	while (g->nmade)
		l->desc_destroy(g->made[--g->nmade]);
	g->graph = NULL;
}
