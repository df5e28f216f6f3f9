/* Fills the tables of rotary positions, for the networks that call op_rotary. */
#include "net/rotarytable.h"

#include <assert.h>

#include "core/mem.h"
#include "core/samemath.h"

void rotary_split(int64_t width, int64_t pairs[ROTARY_AXES])
{
	pairs[1] = pairs[2] = width / 6;
	pairs[0] = width / 2 - 2 * (width / 6);
}

static int64_t tokens_of(const struct rotary_axes *a)
{
	int64_t n = 1;

	for (int k = 0; k < a->axes; k++)
		n *= a->size[k];
	return n;
}

static int64_t pairs_of(const struct rotary_axes *a)
{
	int64_t n = 0;

	for (int k = 0; k < a->axes; k++)
		n += a->pairs[k];
	return n;
}

void rotary_fill(const struct rotary_axes *a, double *cosine, double *sine)
{
	int64_t tokens = tokens_of(a), width = pairs_of(a), column = 0, after = tokens;

	assert(a->axes > 0 && a->axes <= ROTARY_AXES);
	for (int k = 0; k < a->axes; k++) {
		after /= a->size[k]; /* tokens from one position of this axis to the next */
		for (int64_t i = 0; i < a->pairs[k]; i++, column++) {
			double frequency = same_pow(a->theta, -(double)i / (double)a->pairs[k]);

			for (int64_t n = 0; n < tokens; n++) {
				double angle = (a->start[k] + (double)(n / after % a->size[k])) * frequency;

				cosine[n * width + column] = same_cos(angle);
				sine[n * width + column] = same_sin(angle);
			}
		}
	}
}

void rotary_record(struct tape *t, const struct rotary_axes *a, struct tensor **cosine, struct tensor **sine)
{
	int64_t shape[2] = {tokens_of(a), pairs_of(a)};
	double *table = mem_alloc((size_t)(2 * shape[0] * shape[1]) * sizeof *table), *other = table + shape[0] * shape[1];

	rotary_fill(a, table, other);
	*cosine = tape_constant(t, 2, shape, table);
	*sine = tape_constant(t, 2, shape, other);
	mem_free(table);
}
