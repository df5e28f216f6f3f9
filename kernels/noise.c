/* NOISE on the CPU. */
#include "core/rng.h"

#include "kernels/device.h"
#include "kernels/real.h"

/* Draw one sample's normals, as floats in both builds so that the noise is the same. */
static void widen(real *y, int64_t size, const struct run_keys *k, uint64_t index)
{
	enum { PIECE = 1024 };
	float z[PIECE];

	for (int64_t at = 0; at < size; at += PIECE) {
		int64_t n = size - at < PIECE ? size - at : PIECE;

		rng_normal_from(z, (size_t)n, k->seed, (enum rng_purpose)k->purpose, k->step, index, (uint32_t)(at / 4));
		for (int64_t i = 0; i < n; i++)
			y[at + i] = (real)z[i];
	}
}

static void noise_task(void *arg, int64_t task, int worker)
{
	const struct op_call *c = arg;
	const struct array *y = &c->out[0];
	int64_t size = array_count(y) / y->shape[0];

	(void)worker;
	widen((real *)y->data + task * size, size, c->keys, c->keys->first + (uint64_t)task);
}

static void noise_run(const struct op_call *c)
{
	pool_spread(c->pool, c->out[0].shape[0], noise_task, (void *)(uintptr_t)c);
}

const struct kernel REAL_NAME(kernel_noise) = {noise_run, NULL};
