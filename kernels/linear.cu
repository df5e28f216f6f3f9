/* LINEAR, LINEAR_DX, LINEAR_DW on the GPU: one matrix product each. */
#include "kernels/launch.h"

extern "C" {
#include "kernels/product.h"
}

static int64_t last(const struct array *a)
{
	return a->shape[a->rank - 1];
}

/* An array as a matrix whose rows are the leading dimensions. */
static struct product_matrix rows_of(const struct array *a)
{
	struct product_matrix x = {a->data, a->dtype, 0, 0};

	array_row_stride(a, &x.ld);
	if (array_rows(a) == 1)
		x.ld = last(a);
	return x;
}

static struct product_vector vector_at(const struct array *a, int n, int i)
{
	struct product_vector v = {i < n ? a[i].data : NULL, i < n ? a[i].dtype : DT_F32};

	return v;
}

/* c = op(a) op(b). Data pointers may be NULL, when scratch is computed. */
static struct product product_of(const struct array *c, const struct array *a, int ta, const struct array *b, int tb)
{
	struct product p;

	memset(&p, 0, sizeof p);
	p.ta = ta;
	p.tb = tb;
	p.m = array_rows(c);
	p.n = last(c);
	p.k = ta ? array_rows(a) : last(a);
	p.count = 1;
	p.alpha = 1;
	p.a = rows_of(a);
	p.b = rows_of(b);
	p.c = rows_of(c);
	return p;
}

static struct product forward(const struct op_call *c)
{
	struct product p = product_of(&c->out[0], &c->in[0], 0, &c->in[1], 1);

	p.bias = vector_at(c->in, c->nin, 2);
	p.act = c->attr.linear.act;
	if (c->nout > 1 && c->out[1].data)
		p.aux = rows_of(&c->out[1]);
	return p;
}

static struct product input_gradient(const struct op_call *c)
{
	struct product p = product_of(&c->out[0], &c->in[0], 0, &c->in[1], 0);

	if (c->nin > 2 && c->in[2].data) {
		p.act = c->attr.linear.act;
		p.pre = rows_of(&c->in[2]);
	}
	return p;
}

static struct product weight_gradient(const struct op_call *c)
{
	struct product p = product_of(&c->out[0], &c->in[0], 1, &c->in[1], 0);

	p.sums = vector_at(c->out, c->nout, 1);
	return p;
}

static void linear_run(const struct op_call *c)
{
	struct product p = forward(c);

	product_rows(c, &p);
}

static size_t linear_scratch(const struct op_call *c, int)
{
	struct product p = forward(c);

	return product_scratch(&p);
}

static void linear_dx_run(const struct op_call *c)
{
	struct product p = input_gradient(c);

	product_run(c, &p);
}

static size_t linear_dx_scratch(const struct op_call *c, int)
{
	struct product p = input_gradient(c);

	return product_scratch(&p);
}

static void linear_dw_run(const struct op_call *c)
{
	struct product p = weight_gradient(c);

	product_run(c, &p);
}

static size_t linear_dw_scratch(const struct op_call *c, int)
{
	struct product p = weight_gradient(c);

	return product_scratch(&p);
}

extern "C" {
extern const struct kernel kernel_linear_cuda = {linear_run, linear_scratch};
extern const struct kernel kernel_linear_dx_cuda = {linear_dx_run, linear_dx_scratch};
extern const struct kernel kernel_linear_dw_cuda = {linear_dw_run, linear_dw_scratch};
}
