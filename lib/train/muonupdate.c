/* Submits the passes and matrix products of Muon's update. Newton-Schulz multiplies on the side of the smaller dimension, so that a tall matrix
 * needs no transposed copy. */
#include "train/muonupdate.h"

#include <math.h>

#include "core/mem.h"
#include "kernels/optimizer.h"

enum { ITERATIONS = 5 };
static const double MOMENTUM = .95, A = 3.4445, B = -4.775, C = 2.0315, RMS = .2;

static int is_for_muon(const struct param *q)
{
	return q->rank == 2 && (q->flags & PARAM_BULK) && !(q->flags & PARAM_FROZEN);
}

static struct muon_param matrices_of(const struct param *q)
{
	int parts = q->flags & (PARAM_THIRDS | PARAM_QKV) ? 3 : 1;

	return (struct muon_param){.at = q->offset,
	                           .end = q->offset + (q->count + DECAY_RUN - 1) / DECAY_RUN * DECAY_RUN,
	                           .rows = q->shape[0] / parts,
	                           .columns = q->shape[1],
	                           .parts = parts};
}

static int64_t smaller(const struct muon_param *q)
{
	return q->rows < q->columns ? q->rows : q->columns;
}

static struct array matrix(float *data, int64_t rows, int64_t columns)
{
	return (struct array){.dtype = DT_F32, .rank = 3, .shape = {1, rows, columns}, .stride = {rows * columns, columns, 1}, .data = data};
}

/* c = alpha op(a) op(b). */
static struct op_call product(struct array c, struct array a, struct array b, int ta, int tb, double alpha)
{
	return (struct op_call){.nin = 2, .nout = 1, .in = {a, b}, .out = {c}, .attr = {.matmul = {ta, tb, alpha}}};
}

/* The three products of an iteration of q: A = X X^T, c A A, and the next X. A tall X uses X^T X, and multiplies from the right. */
static void products_of(const struct muon *m, const struct muon_param *q, struct op_call call[3])
{
	int64_t k = smaller(q);
	int tall = q->rows > q->columns;
	struct array x = matrix(m->x, q->rows, q->columns), next = matrix(m->next, q->rows, q->columns), gram = matrix(m->gram, k, k),
		     squared = matrix(m->squared, k, k);

	call[0] = product(gram, x, x, tall, !tall, 1);
	call[1] = product(squared, gram, gram, 0, 0, C);
	call[2] = tall ? product(next, x, squared, 0, 0, 1) : product(next, squared, x, 0, 0, 1);
}

static struct op_call sumsq_of(const struct muon *m, int64_t n)
{
	return (struct op_call){.nin = 1, .nout = 1, .in = {array_vector(DT_F32, m->x, n)}, .out = {array_vector(DT_F64, m->sumsq, 1)}};
}

/* What the work space must hold: elements of a matrix, of a square one, and bytes of kernels' scratch. */
struct need {
	int64_t matrix, square;
	size_t scratch;
};

static void widen(size_t *most, size_t bytes)
{
	*most = bytes > *most ? bytes : *most;
}

static struct need need_of(const struct params *p, struct device *d)
{
	struct need need = {0, 0, 0};
	const struct muon none = {0};

	for (int i = 0; i < p->n; i++) {
		struct muon_param q = matrices_of(&p->v[i]);
		int64_t size = q.rows * q.columns, square = smaller(&q) * smaller(&q);
		struct op_call call[3], sumsq = sumsq_of(&none, size);

		if (!is_for_muon(&p->v[i]))
			continue;
		need.matrix = size > need.matrix ? size : need.matrix;
		need.square = square > need.square ? square : need.square;
		products_of(&none, &q, call);
		for (int k = 0; k < 3; k++)
			widen(&need.scratch, device_scratch(d, OP_MATMUL, &call[k]));
		widen(&need.scratch, device_scratch(d, OP_SUMSQ, &sumsq));
	}
	return need;
}

int64_t muon_cut(const struct params *p, int64_t at)
{
	for (int i = 0; i < p->n; i++) {
		struct muon_param q = matrices_of(&p->v[i]);

		if (is_for_muon(&p->v[i]) && q.at < at && at < q.end)
			return at - q.at < q.end - at ? q.at : q.end;
	}
	return at / DECAY_RUN * DECAY_RUN;
}

uint64_t muon_bytes(const struct params *p, struct device *d)
{
	struct need need = need_of(p, d);

	return 2 * sizeof(float) * (uint64_t)(need.matrix + need.square) + need.scratch + sizeof(double);
}

int muon_init(struct muon *m, struct device *d, const struct params *p, struct err *e)
{
	struct need need = need_of(p, d);
	size_t matrix_bytes = (size_t)need.matrix * sizeof(float), square_bytes = (size_t)need.square * sizeof(float);

	*m = (struct muon){.device = d, .v = mem_zalloc((size_t)p->n, sizeof *m->v)};
	for (int i = 0; i < p->n; i++)
		if (is_for_muon(&p->v[i]))
			m->v[m->n++] = matrices_of(&p->v[i]);
	if ((m->x = d->alloc(d, matrix_bytes, "work space of Muon", e)) && (m->next = d->alloc(d, matrix_bytes, "work space of Muon", e)) &&
	    (m->gram = d->alloc(d, square_bytes, "work space of Muon", e)) && (m->squared = d->alloc(d, square_bytes, "work space of Muon", e)) &&
	    (m->sumsq = d->alloc(d, sizeof *m->sumsq, "work space of Muon", e)) && (m->scratch = d->alloc(d, need.scratch, "work space of Muon", e)))
		return 0;
	return -1;
}

void muon_release(struct muon *m)
{
	void *const all[] = {m->x, m->next, m->gram, m->squared, m->sumsq, m->scratch};

	for (size_t i = 0; m->device && i < sizeof all / sizeof *all; i++)
		m->device->release(m->device, all[i]);
	mem_free(m->v);
	*m = (struct muon){0};
}

/* y = y + a x, for n elements. */
static void add(struct muon *m, float *y, double a, float *x, int64_t n)
{
	struct array sum = array_vector(DT_F32, y, n);
	struct op_call c = {.nin = 2, .nout = 1, .in = {sum, array_vector(DT_F32, x, n)}, .out = {sum}, .attr = {.add = {1, a}}};

	device_run(m->device, OP_ADD, &c, NULL);
}

/* m->x becomes close to U V^T, where U S V^T was its singular value decomposition. The products A X and A A commute with the final sum, so that
 * b A + c A^2 is formed once per iteration. */
static void newton_schulz(struct muon *m, const struct muon_param *q)
{
	int64_t n = q->rows * q->columns, k = smaller(q);

	for (int i = 0; i < ITERATIONS; i++) {
		struct op_call call[3];
		float *last = m->x;

		products_of(m, q, call);
		device_run(m->device, OP_MATMUL, &call[0], m->scratch);
		device_run(m->device, OP_MATMUL, &call[1], m->scratch);
		add(m, m->squared, B, m->gram, k * k);
		device_run(m->device, OP_MATMUL, &call[2], m->scratch);
		add(m, m->next, A, m->x, n);
		m->x = m->next;
		m->next = last;
	}
}

static void change_matrix(struct muon *m, const struct muon_param *q, int64_t at, const struct train_state *s, int64_t shift, const double *coef,
                          float *grads)
{
	int64_t n = q->rows * q->columns;
	const double larger = (double)(q->rows > q->columns ? q->rows : q->columns);
	struct array k = array_vector(DT_F64, (void *)(uintptr_t)coef, COEF_COUNT), x = array_vector(DT_F32, m->x, n);
	struct op_call momentum = {.nin = 2,
	                           .nout = 2,
	                           .in = {k, array_vector(DT_F32, grads + at, n)},
	                           .out = {array_vector(DT_F32, s->m + at - shift, n), x},
	                           .attr = {.muon = {.momentum = MOMENTUM}}};
	struct op_call sumsq = sumsq_of(m, n), unit = {.nin = 1, .nout = 1, .in = {sumsq.out[0]}, .out = {x}};
	struct op_call apply = {.nin = 2,
	                        .nout = s->rounded ? 3 : 2,
	                        .in = {k},
	                        .out = {array_vector(DT_F32, s->values + at, n), array_vector(DT_F32, s->ema + at - shift, n),
	                                array_vector(DT_BF16, s->rounded ? s->rounded + at : NULL, n)},
	                        .attr = {.muon = {.scale = RMS * sqrt(larger)}}};

	device_run(m->device, OP_MUON_MOMENTUM, &momentum, NULL);
	device_run(m->device, OP_SUMSQ, &sumsq, m->scratch);
	device_run(m->device, OP_MUON_UNIT, &unit, NULL);
	newton_schulz(m, q);
	apply.in[1] = array_vector(DT_F32, m->x, n);
	device_run(m->device, OP_MUON_APPLY, &apply, NULL);
}

/* The iterates take turns in two buffers. Each matrix starts in the same one, so that a graph of the step can be launched again. */
void muon_change(struct muon *m, int i, const struct train_state *s, int64_t shift, const double *coef, float *grads)
{
	const struct muon_param *q = &m->v[i];
	float *x = m->x, *next = m->next;

	for (int part = 0; part < q->parts; part++) {
		change_matrix(m, q, q->at + part * q->rows * q->columns, s, shift, coef, grads);
		m->x = x;
		m->next = next;
	}
}
