/* Tests that SUM of a sample does not depend on the other samples of the batch. */
#ifndef DDM_TESTS_ALONE_H
#define DDM_TESTS_ALONE_H

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "tests/op/optest.h"

/* A sample's sum has the same bits alone and in a batch, in any layout: also if samples begin between two SIMD packs, are interleaved, or share
 * the same memory. */
static inline void sums_alone(const struct kernel *kernel)
{
	enum { SAMPLES = 5, ROOM = SAMPLES * 700 };
	static const struct {
		int64_t rows, cols, stride[3];
		unsigned summed;
	} ways[] = {
	    {40, 16, {640, 16, 1}, 6},
	    {40, 16, {643, 16, 1}, 6},
	    {40, 16, {643, 16, 1}, 4},
	    {40, 16, {643, 16, 1}, 2},
	    {600, 1, {603, 1, 1}, 2},
	    {1, 600, {603, 600, 1}, 4},
	    {1, 600, {1, 600 * SAMPLES, SAMPLES}, 4},
	    {600, 1, {1, SAMPLES, 1}, 2},
	    {1, 600, {0, 600, 1}, 4},
	    {30, 20, {20, 20 * SAMPLES, 1}, 6},
	    {30, 20, {20, 20 * SAMPLES, 1}, 4},
	    {30, 20, {20, 20 * SAMPLES, 1}, 2},
	};
	float *x = mem_alloc(ROOM * sizeof *x), y[2][ROOM];

	for (int64_t i = 0; i < ROOM; i++)
		x[i] = sinf((float)i) * powf(2, (float)(i * 7 % 23));
	for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
		int64_t rows = ways[k].summed & 2 ? 1 : ways[k].rows, cols = ways[k].summed & 4 ? 1 : ways[k].cols;

		for (int many = 0; many < 2; many++) {
			int64_t n = many ? SAMPLES : 1;
			struct op_call c = {.nin = 1,
			                    .nout = 1,
			                    .attr.sum = {1},
			                    .in = {{x, DT_F32, 3, {n, ways[k].rows, ways[k].cols}, {0}}},
			                    .out = {{y[many], DT_F32, 3, {n, rows, cols}, {rows * cols, cols, 1}}}};

			memcpy(c.in[0].stride, ways[k].stride, sizeof ways[k].stride);
			if (!many && !ways[k].stride[0])
				c.in[0].stride[0] = ways[k].rows * ways[k].cols; /* one sample: no broadcast */
			c.scratch = mem_zalloc(kernel->scratch(&c, 1) + 1, 1);
			optest_call(kernel, &c);
			mem_free(c.scratch);
		}
		if (memcmp(y[0], y[1], (size_t)(rows * cols) * sizeof y[0][0]))
			fail_msg("way %zu: a sample alone has other sums than one of %d", k, SAMPLES);
	}
	mem_free(x);
}

#endif
