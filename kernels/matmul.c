/* MATMUL on the CPU, by the matrix product of kernels/gemm.h. */
#include "kernels/device.h"

#include "kernels/gemm.h"
#include "kernels/walk.h"

/* From so many batched products on, each is one task; fewer are each spread over the pool. The bits are the same (kernels/gemm.h). */
enum { MANY = 8 };

struct matmul {
	const struct op_call *c;
	struct walk w; /* the batch dimensions of c, a, b, and a last one of size 1 */
	struct gemm g;
	int64_t batch;
	size_t stride; /* of scratch, per worker */
};

static void zero_rows(real *y, int64_t ld, int64_t m, int64_t n)
{
	for (int64_t i = 0; i < m; i++)
		memset(y + i * ld, 0, (size_t)n * sizeof *y);
}

static void matmul_one(const struct matmul *k, int64_t i, struct pool *pool, int serial, void *scratch)
{
	const struct op_call *c = k->c;
	struct walk_pos pos;
	real *y, *a, *b;

	walk_seek(&k->w, i, &pos);
	y = (real *)c->out[0].data + pos.offset[0];
	a = (real *)c->in[0].data + pos.offset[1];
	b = (real *)c->in[1].data + pos.offset[2];
	if (c->attr.matmul.alpha == 0) /* struct gemm takes 0 as 1 */
		zero_rows(y, k->g.ldc, k->g.m, k->g.n);
	else if (serial)
		REAL_NAME(gemm_serial)(&k->g, y, a, b, NULL, scratch);
	else
		REAL_NAME(gemm_run)(pool, &k->g, y, a, b, NULL, scratch);
}

static void matmul_task(void *arg, int64_t task, int worker)
{
	const struct matmul *k = arg;

	matmul_one(k, task, NULL, 1, (char *)k->c->scratch + (size_t)worker * k->stride);
}

static int64_t row_stride(const struct array *a)
{
	return a->stride[a->rank - 2];
}

static void matmul_init(struct matmul *k, const struct op_call *c)
{
	const struct array *y = &c->out[0], *a = &c->in[0], *b = &c->in[1];
	int r = y->rank;

	k->c = c;
	k->g = (struct gemm){
	    .ta = c->attr.matmul.ta ? GEMM_T : GEMM_N,
	    .tb = c->attr.matmul.tb ? GEMM_T : GEMM_N,
	    .m = y->shape[r - 2],
	    .n = y->shape[r - 1],
	    .k = a->shape[c->attr.matmul.ta ? r - 2 : r - 1],
	    .lda = row_stride(a),
	    .ldb = row_stride(b),
	    .ldc = row_stride(y),
	    .alpha = c->attr.matmul.alpha,
	};
	walk_init(&k->w, y);
	walk_add(&k->w, y);
	walk_add(&k->w, a);
	walk_add(&k->w, b);
	k->w.rank--;
	k->w.shape[r - 2] = 1;
	k->batch = walk_rows(&k->w);
	k->stride = (REAL_NAME(gemm_scratch)(&k->g, 1) + 63) / 64 * 64;
}

static void matmul_run(const struct op_call *c)
{
	struct matmul k;

	matmul_init(&k, c);
	if (k.batch >= MANY)
		pool_spread(c->pool, k.batch, matmul_task, &k);
	else
		for (int64_t i = 0; i < k.batch; i++)
			matmul_one(&k, i, c->pool, 0, c->scratch);
}

static size_t matmul_scratch(const struct op_call *c, int workers)
{
	struct matmul k;
	size_t one;

	matmul_init(&k, c);
	one = REAL_NAME(gemm_scratch)(&k.g, workers);
	return one > k.stride * (size_t)workers ? one : k.stride * (size_t)workers;
}

const struct kernel REAL_NAME(kernel_matmul) = {matmul_run, matmul_scratch};
