/* MATMUL on the GPU. The last batch dimensions, as far as one stride walks them, form one batched product; the outer ones are a loop. */
#include "kernels/launch.h"

extern "C" {
#include "kernels/product.h"
}

struct batches {
	struct product p;
	struct strided outer; /* batch dimensions of c, a, b that p.count does not cover */
};

static struct product_matrix matrix_at(const struct array *a)
{
	int64_t rows = a->shape[a->rank - 2], cols = a->shape[a->rank - 1];
	struct product_matrix x = {a->data, a->dtype, rows == 1 ? cols : a->stride[a->rank - 2], 0};

	return x;
}

/* An array's batch dimensions. */
static struct array batch_of(const struct array *a)
{
	struct array b = *a;

	b.rank -= 2;
	return b;
}

static struct batches batches_of(const struct op_call *c)
{
	const struct array *y = &c->out[0], *a = &c->in[0], *b = &c->in[1];
	struct array part[3] = {batch_of(y), batch_of(a), batch_of(b)};
	const struct array *const parts[3] = {&part[0], &part[1], &part[2]};
	struct batches s;
	struct product *p = &s.p;
	int r = y->rank, last;

	memset(&s, 0, sizeof s);
	p->ta = c->attr.matmul.ta;
	p->tb = c->attr.matmul.tb;
	p->m = y->shape[r - 2];
	p->n = y->shape[r - 1];
	p->k = a->shape[p->ta ? r - 2 : r - 1];
	p->alpha = (float)c->attr.matmul.alpha;
	p->a = matrix_at(a);
	p->b = matrix_at(b);
	p->c = matrix_at(y);
	s.outer = strided_of(&part[0], parts, 3);
	last = s.outer.rank - 1;
	p->count = s.outer.shape[last];
	p->c.batch = s.outer.stride[0][last];
	p->a.batch = s.outer.stride[1][last];
	p->b.batch = s.outer.stride[2][last];
	s.outer.shape[last] = 1;
	s.outer.count = p->count ? s.outer.count / p->count : 0;
	return s;
}

static void *moved(const struct array *a, int64_t elements)
{
	return (char *)a->data + elements * (int64_t)dtype_size(a->dtype);
}

static void matmul_run(const struct op_call *c)
{
	struct batches s = batches_of(c);

	for (int64_t i = 0; i < s.outer.count; i++) {
		int64_t at[3] = {0, 0, 0}, k = i;

		for (int d = s.outer.rank - 2; d >= 0; d--) {
			for (int a = 0; a < 3; a++)
				at[a] += k % s.outer.shape[d] * s.outer.stride[a][d];
			k /= s.outer.shape[d];
		}
		s.p.c.p = moved(&c->out[0], at[0]);
		s.p.a.p = moved(&c->in[0], at[1]);
		s.p.b.p = moved(&c->in[1], at[2]);
		product_run(c, &s.p);
	}
}

static size_t matmul_scratch(const struct op_call *c, int)
{
	struct batches s = batches_of(c);

	return product_scratch(&s.p);
}

extern "C" {
extern const struct kernel kernel_matmul_cuda = {matmul_run, matmul_scratch};
}
