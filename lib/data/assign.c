/* The nearest centre of every point, and the prices of a balanced partition. */
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "data/kmeansimpl.h"
#include "kernels/gemm.h"

enum { ROWS = 256, ROUNDS = 1000 };

struct assign_job {
	struct points *p;
	const struct kmeans *m;
	const float *norm;  /* [k] |c|^2 */
	float *score;       /* per worker (ROWS, k), or (n, k) of all points */
	int keep;
	char *scratch;
	size_t scratch_size; /* per worker */
	double *sum;         /* per task */
};

static int32_t lowest(const float *score, const float *offset, int k)
{
	int32_t best = 0;

	for (int32_t c = 1; c < k; c++)
		if (score[c] + offset[c] < score[best] + offset[best])
			best = c;
	return best;
}

static void assign_task(void *arg, int64_t task, int worker)
{
	struct assign_job *j = arg;
	struct points *p = j->p;
	int k = j->m->k;
	int64_t at = task * ROWS, rows = p->n - at < ROWS ? p->n - at : ROWS;
	float *score = j->keep ? j->score + at * k : j->score + (int64_t)worker * ROWS * k;
	struct gemm g = {.tb = GEMM_T, .m = rows, .n = k, .k = p->d, .lda = p->d, .ldb = p->d, .ldc = k};
	double sum = 0;

	gemm_serial_f32(&g, score, p->x + at * p->d, j->m->centroids, NULL, j->scratch + (size_t)worker * j->scratch_size);
	for (int64_t i = 0; i < rows; i++) {
		float *s = score + i * k, near;
		int32_t c;

		for (int a = 0; a < k; a++)
			s[a] = j->norm[a] - 2.f * s[a];
		c = lowest(s, j->m->offset, k);
		near = p->length[at + i] + s[c];
		p->cluster[at + i] = c;
		p->near[at + i] = near > 0 ? near : 0;
		sum += (p->weight ? p->weight[at + i] : 1.) * p->near[at + i];
	}
	j->sum[task] = sum;
}

int points_assign(struct points *p, const struct kmeans *m, double *inertia, int keep_scores, struct err *e)
{
	int workers = pool_threads(p->pool), k = m->k;
	int64_t tasks = (p->n + ROWS - 1) / ROWS;
	struct gemm g = {.tb = GEMM_T, .m = ROWS, .n = k, .k = p->d, .lda = p->d, .ldb = p->d, .ldc = k};
	struct assign_job job = {.p = p, .m = m, .keep = keep_scores};
	float *norm = mem_zalloc((size_t)k, sizeof *norm);
	int rc = -1;

	job.norm = norm;
	job.scratch_size = (gemm_scratch_f32(&g, 1) + 63) / 64 * 64;
	job.scratch = mem_try((size_t)workers, job.scratch_size, "k-means scratch", e);
	job.sum = mem_try((size_t)tasks, sizeof *job.sum, "k-means sums", e);
	if (keep_scores && !p->score)
		p->score = mem_try((size_t)(p->n * k), sizeof *p->score, "k-means scores", e);
	job.score = keep_scores ? p->score : mem_try((size_t)workers * ROWS * (size_t)k, sizeof *job.score, "k-means scores", e);
	if (job.scratch && job.sum && job.score) {
		for (int c = 0; c < k; c++)
			norm[c] = points_length2(m->centroids + c * p->d, p->d);
		pool_run(p->pool, tasks, assign_task, &job);
		*inertia = 0;
		for (int64_t t = 0; t < tasks; t++)
			*inertia += job.sum[t];
		rc = 0;
	}
	if (!keep_scores)
		mem_free(job.score);
	mem_free(job.sum);
	mem_free(job.scratch);
	mem_free(norm);
	return rc;
}

/* The value that would stand at place k were v sorted (Hoare's FIND); v is reordered. */
static float select_value(float *v, int64_t n, int64_t k)
{
	int64_t lo = 0, hi = n - 1;

	while (lo < hi) {
		float pivot = v[lo + (hi - lo) / 2];
		int64_t i = lo, j = hi;

		while (i <= j) {
			while (v[i] < pivot)
				i++;
			while (v[j] > pivot)
				j--;
			if (i <= j) {
				float t = v[i];

				v[i++] = v[j];
				v[j--] = t;
			}
		}
		if (k <= j)
			hi = j;
		else if (k >= i)
			lo = i;
		else
			break;
	}
	return v[k];
}

static float cheapest(const float *score, const float *offset, const uint8_t *in, int want, int k)
{
	float best = INFINITY;

	for (int c = 0; c < k; c++)
		if (in[c] == want && score[c] + offset[c] < best)
			best = score[c] + offset[c];
	return best;
}

/* Raise the prices of the clusters that are `in` by what their `excess` least attached points need to prefer one that is not,
 * and let the points choose again. Never by less than `least`, or a point between two clusters would go to and fro. */
static void raise_prices(struct points *p, struct kmeans *m, const uint8_t *in, int64_t excess, float least, float *margin)
{
	int64_t n = 0;
	float by;

	for (int64_t i = 0; i < p->n; i++) {
		const float *s = p->score + i * m->k;

		if (in[p->cluster[i]])
			margin[n++] = cheapest(s, m->offset, in, 0, m->k) - cheapest(s, m->offset, in, 1, m->k);
	}
	by = select_value(margin, n, excess - 1);
	by = by > least ? by : least;
	for (int c = 0; c < m->k; c++)
		if (in[c])
			m->offset[c] = nextafterf(m->offset[c] + by, INFINITY);
	for (int64_t i = 0; i < p->n; i++)
		if (in[p->cluster[i]])
			p->cluster[i] = lowest(p->score + i * m->k, m->offset, m->k);
}

/* Clusters at or above `room`, and how many points those hold too many; 0 when no cluster is above. */
static int64_t find_full(uint8_t *in, const struct points *p, int k, int64_t room)
{
	int64_t *size = mem_zalloc((size_t)k, sizeof *size), excess = 0;

	for (int64_t i = 0; i < p->n; i++)
		size[p->cluster[i]]++;
	for (int c = 0; c < k; c++) {
		in[c] = size[c] >= room;
		excess += in[c] ? size[c] - room : 0;
	}
	mem_free(size);
	return excess;
}

/* Prices find no place for the last point where there is no free one, so there is always one more than needed. */
int64_t kmeans_room(double share, int64_t n, int k)
{
	int64_t room = (int64_t)floor(share * (double)n / k), least = n / k + 1;

	return room > least ? room : least;
}

/* Full clusters raise their prices together, just enough for their surplus to go where there is room: raised one by one
 * they would only pass it round among themselves. The least step grows, so that equal points that go to and fro together
 * end it. Each round moves points unless they are equal; ROUNDS ends that. */
int points_balance(struct points *p, struct kmeans *m, double share, double *inertia)
{
	int64_t room = kmeans_room(share, p->n, m->k), excess;
	float least = (float)(1e-5 * *inertia / (double)p->n);
	uint8_t *in = mem_zalloc((size_t)m->k, 1);
	float *margin = mem_zalloc((size_t)p->n, sizeof *margin);

	for (int round = 0; m->k > 1 && round < ROUNDS && (excess = find_full(in, p, m->k, room)) > 0; round++) {
		raise_prices(p, m, in, excess, least, margin);
		least *= 1.01f;
	}
	*inertia = 0;
	for (int64_t i = 0; i < p->n; i++) {
		float near = p->length[i] + p->score[i * m->k + p->cluster[i]];

		p->near[i] = near > 0 ? near : 0;
		*inertia += p->near[i];
	}
	mem_free(margin);
	mem_free(in);
	return 0;
}
