/* Computes the mean of a training set's samples. */
#include "core/mem.h"
#include "data/dataset.h"

int dataset_mean(struct dataset *d, int64_t most, int flip, float *mean, struct err *e)
{
	const struct dataset_info *info = dataset_info(d);
	int64_t n = info->count < most ? info->count : most, count = info->numel;
	double *sum = mem_zalloc((size_t)count, sizeof *sum);
	float *x = mem_alloc(2 * (size_t)count * sizeof *x);
	int rc = 0;

	for (int64_t k = 0; k < n * (1 + !!flip) && !rc; k++) {
		struct dataset_item it = {.x = x, .std = x + count, .mirrored = k >= n};

		rc = dataset_item(d, k % n * info->count / n, &it, e);
		for (int64_t i = 0; i < count && !rc; i++)
			sum[i] += (double)x[i];
	}
	for (int64_t i = 0; i < count; i++)
		mean[i] = (float)(sum[i] / (double)(n * (1 + !!flip)));
	mem_free(sum);
	mem_free(x);
	return rc;
}
