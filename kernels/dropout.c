/* DROPOUT on the CPU. */
#include "core/rng.h"

#include "kernels/device.h"

#include "kernels/walk.h"

/* Word at % 4 of block i0 + at / 4 of a sample's stream decides whether element `at` is kept. */
struct dropout {
	const struct op_call *c;
	struct walk w;
	int64_t rows, rows_sample, rows_task, cols;
	uint32_t threshold; /* an element is kept if its word is not below this */
	real scale;
};

static void keep(real *y, const real *x, const uint32_t *word, uint32_t threshold, real scale, int64_t n)
{
	INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = word[i] >= threshold ? x[i] * scale : 0;
}

static void dropout_row(const struct dropout *k, real *y, const real *x, int64_t row)
{
	enum { PIECE = 1024 };
	const struct op_call *c = k->c;
	uint64_t sample = c->keys->first + (uint64_t)(row / k->rows_sample), at = (uint64_t)(row % k->rows_sample * k->cols);
	uint32_t word[PIECE];

	for (int64_t i = 0, n; i < k->cols; i += n, at += (uint64_t)n) {
		uint32_t skip = (uint32_t)(at % 4);

		n = k->cols - i < PIECE - 3 ? k->cols - i : (PIECE - 3) / 4 * 4;
		rng_words(word, (size_t)n + skip, c->keys->seed, RNG_DROPOUT, c->keys->step, sample,
		          (uint32_t)c->attr.dropout.lane + (uint32_t)(at / 4));
		keep(y + i, x + i, word + skip, k->threshold, k->scale, n);
	}
}

static void dropout_task(void *arg, int64_t task, int worker)
{
	const struct dropout *k = arg;
	int64_t first = task * k->rows_task, last = first + k->rows_task < k->rows ? first + k->rows_task : k->rows;
	struct walk_pos pos;

	(void)worker;
	walk_seek(&k->w, first, &pos);
	for (int64_t r = first; r < last; r++) {
		dropout_row(k, (real *)k->c->out[0].data + pos.offset[0], (const real *)k->c->in[0].data + pos.offset[1], r);
		walk_step(&k->w, &pos);
	}
}

static void dropout_run(const struct op_call *c)
{
	struct dropout k = {.c = c};
	const struct array *y = &c->out[0];

	walk_init(&k.w, y);
	walk_add(&k.w, y);
	walk_add(&k.w, &c->in[0]);
	if (y->rank == 1) { /* a row is a sample of one value */
		k.w.rank = 2;
		k.w.shape[1] = 1;
		k.w.stride[0][1] = k.w.stride[1][1] = 1;
	}
	k.cols = k.w.shape[k.w.rank - 1];
	k.rows = walk_rows(&k.w);
	k.rows_sample = y->shape[0] ? k.rows / y->shape[0] : 1;
	k.rows_task = WALK_GRAIN / 8 / (k.cols + 1) + 1;
	if (c->keys->no_dropout) {
		k.threshold = 0;
		k.scale = 1;
	} else {
		k.threshold = c->attr.dropout.p < 1 ? (uint32_t)(c->attr.dropout.p * 0x1p32) : UINT32_MAX;
		k.scale = c->attr.dropout.p < 1 ? (real)(1 / (1 - c->attr.dropout.p)) : 0;
	}
	walk_run(c, k.rows * k.cols, (k.rows + k.rows_task - 1) / k.rows_task, dropout_task, &k);
}

const struct kernel REAL_NAME(kernel_dropout) = {dropout_run, NULL};
