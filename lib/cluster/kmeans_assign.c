/* Finds the nearest centre of every point, and the offsets of a balanced partition. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "cluster/kmeansimpl.h"
#include "kernels/gemm.h"

/* POINTS: points of a task. CENTRES: centres whose scores a task computes at a time. ROUNDS: most rounds of points_balance. */
enum { POINTS = 256, CENTRES = 4096, ROUNDS = 1000 };

struct assign_job {
	struct points *p;
	const struct kmeans *m;
	const float *norm; /* [k] |c|^2 */
	float *score;      /* per worker: x c, (min(k, CENTRES), POINTS) */
	int keep;
	char *scratch;
	size_t scratch_size; /* per worker */
	double *sum;         /* per task */
};

static struct gemm product_of(int64_t centres, int64_t points, int64_t d)
{
	return (struct gemm){.tb = GEMM_T, .m = centres, .n = points, .k = d, .lda = d, .ldb = d, .ldc = POINTS};
}

static int32_t lowest(const float *score, const float *offset, int k)
{
	int32_t best = 0;

	for (int32_t c = 1; c < k; c++)
		if (score[c] + offset[c] < score[best] + offset[best])
			best = c;
	return best;
}

/* The best centre so far of every point of a task. */
struct best {
	float price[POINTS]; /* score + offset */
	float score[POINTS]; /* |c|^2 - 2 x c */
	int32_t cluster[POINTS];
};

/* Update the best centres with one more centre; product [POINTS] is x c. The arrays are indexed by point, so the loop vectorises. */
static void best_update(struct best *restrict b, const float *restrict product, float norm, float offset, int32_t c)
{
	for (int i = 0; i < POINTS; i++) {
		float score = norm - 2.f * product[i], price = score + offset;
		int better = price < b->price[i];

		b->price[i] = better ? price : b->price[i];
		b->score[i] = better ? score : b->score[i];
		b->cluster[i] = better ? c : b->cluster[i];
	}
}

static void assign_task(void *arg, int64_t task, int worker)
{
	struct assign_job *j = arg;
	struct points *p = j->p;
	int k = j->m->k, most = k < CENTRES ? k : CENTRES;
	int64_t at = task * POINTS, n = p->n - at < POINTS ? p->n - at : POINTS;
	float *products = j->score + (int64_t)worker * most * POINTS;
	struct best best = {.cluster = {0}};
	double sum = 0;

	for (int i = 0; i < POINTS; i++)
		best.price[i] = best.score[i] = INFINITY;
	for (int c0 = 0; c0 < k; c0 += CENTRES) {
		int centres = k - c0 < CENTRES ? k - c0 : CENTRES;
		struct gemm g = product_of(centres, n, p->d);

		gemm_serial_f32(&g, products, j->m->centroids + c0 * p->d, p->x + at * p->d, NULL, j->scratch + (size_t)worker * j->scratch_size);
		for (int c = 0; c < centres; c++) {
			const float *x = products + (int64_t)c * POINTS;

			best_update(&best, x, j->norm[c0 + c], j->m->offset[c0 + c], c0 + c);
			for (int64_t i = 0; j->keep && i < n; i++)
				p->score[(at + i) * k + c0 + c] = j->norm[c0 + c] - 2.f * x[i];
		}
	}
	for (int64_t i = 0; i < n; i++) {
		float near = p->length[at + i] + best.score[i];

		p->cluster[at + i] = best.cluster[i];
		p->near[at + i] = near > 0 ? near : 0;
		sum += (p->weight ? p->weight[at + i] : 1.) * p->near[at + i];
	}
	j->sum[task] = sum;
}

static int assign_on_device(struct points *p, const struct kmeans *m, double *inertia, struct err *e)
{
	int64_t tasks = (p->n + POINTS_SCAN - 1) / POINTS_SCAN;
	double *sum = mem_zalloc((size_t)tasks, sizeof *sum);
	int rc = device_points_pass(p->on, PASS_ADD, m->centroids, m->offset, m->k, sum, e);

	*inertia = 0;
	for (int64_t t = 0; t < tasks; t++)
		*inertia += sum[t];
	mem_free(sum);
	return rc;
}

int points_assign(struct points *p, const struct kmeans *m, double *inertia, int keep_scores, struct err *e)
{
	int workers = pool_threads(p->pool), k = m->k, most = k < CENTRES ? k : CENTRES;
	int64_t tasks = (p->n + POINTS - 1) / POINTS;
	struct gemm g = product_of(most, POINTS, p->d);
	struct assign_job job = {.p = p, .m = m, .keep = keep_scores};
	float *norm;
	int rc = -1;

	assert(!p->on || !keep_scores);
	if (p->on)
		return assign_on_device(p, m, inertia, e);
	job.norm = norm = mem_zalloc((size_t)k, sizeof *norm);
	job.scratch_size = (gemm_scratch_f32(&g, 1) + 63) / 64 * 64;
	job.scratch = mem_try((size_t)workers, job.scratch_size, "k-means scratch", e);
	job.sum = mem_try((size_t)tasks, sizeof *job.sum, "k-means sums", e);
	job.score = mem_try((size_t)workers * POINTS * (size_t)most, sizeof *job.score, "k-means scores", e);
	if (keep_scores && !p->score)
		p->score = mem_try((size_t)(p->n * k), sizeof *p->score, "k-means scores", e);
	if (job.scratch && job.sum && job.score && (p->score || !keep_scores)) {
		for (int c = 0; c < k; c++)
			norm[c] = points_length2(m->centroids + c * p->d, p->d);
		pool_run(p->pool, tasks, assign_task, &job);
		*inertia = 0;
		for (int64_t t = 0; t < tasks; t++)
			*inertia += job.sum[t];
		rc = 0;
	}
	mem_free(job.score);
	mem_free(job.sum);
	mem_free(job.scratch);
	mem_free(norm);
	return rc;
}

struct approach_job {
	struct points *p;
	const float *centre, *norm; /* (count, d), [count] |c|^2 */
	int count, first;
	float *product; /* per worker: x c, (count, POINTS); NULL: distances are computed directly */
	char *scratch;
	size_t scratch_size; /* per worker */
	float slack;         /* a distance from products has an error below slack (|x|^2 + |c|^2) */
	double *sum;
};

static void approach(struct points *p, int64_t i, const float *centre)
{
	float d = points_distance2(p->x + i * p->d, centre, p->d);

	if (d < p->near[i])
		p->near[i] = d;
}

enum { LANES = 16 };

/* 1 if the centre may be nearer than the best so far to any of LANES points, or if a value is NaN. */
static int may_approach(const struct points *p, int64_t i, const float *product, float norm, float slack)
{
	int far = 0;

	for (int l = 0; l < LANES; l++) {
		float both = p->length[i + l] + norm;

		far += both - 2.f * product[l] - slack * both >= p->near[i + l];
	}
	return far < LANES;
}

/* Update near of n points with the new centres. A matrix product finds the groups of LANES points that may have come nearer. Only their distances are
 * computed directly, because |x|^2 + |c|^2 - 2 x c loses digits. */
static void approach_block(const struct approach_job *j, int64_t at, int64_t n, int worker)
{
	struct points *p = j->p;
	float *product = j->product + (int64_t)worker * j->count * POINTS;
	struct gemm g = product_of(j->count, n, p->d);

	gemm_serial_f32(&g, product, j->centre, p->x + at * p->d, NULL, j->scratch + (size_t)worker * j->scratch_size);
	for (int c = 0; c < j->count; c++)
		for (int64_t i = 0; i < n; i += LANES) {
			int64_t end = i + LANES < n ? i + LANES : n;

			if (end - i < LANES || may_approach(p, at + i, product + c * POINTS + i, j->norm[c], j->slack))
				for (int64_t o = i; o < end; o++)
					approach(p, at + o, j->centre + c * p->d);
		}
}

static void approach_task(void *arg, int64_t task, int worker)
{
	const struct approach_job *j = arg;
	struct points *p = j->p;
	int64_t begin = task * POINTS_SCAN, end = begin + POINTS_SCAN < p->n ? begin + POINTS_SCAN : p->n;
	double sum = 0;

	for (int64_t i = begin; i < end && j->first; i++)
		p->near[i] = INFINITY;
	for (int64_t at = begin; at < end; at += POINTS) {
		int64_t n = end - at < POINTS ? end - at : POINTS;

		if (j->product)
			approach_block(j, at, n, worker);
		for (int64_t i = at; i < at + n && !j->product; i++)
			for (int c = 0; c < j->count; c++)
				approach(p, i, j->centre + c * p->d);
	}
	for (int64_t i = begin; i < end; i++)
		sum += (p->weight ? p->weight[i] : 1.) * p->near[i];
	j->sum[task] = sum;
}

int points_approach(struct points *p, const float *centre, int count, int first, double *sum, struct err *e)
{
	enum { BY_PRODUCTS = 4 };
	size_t workers = (size_t)pool_threads(p->pool);
	struct gemm g = product_of(count, POINTS, p->d);
	struct approach_job j = {.p = p, .centre = centre, .count = count, .first = first, .sum = sum, .slack = (float)(p->d + 64) * 0x1p-23f};
	int by_products = count >= BY_PRODUCTS;
	float *norm;

	if (p->on)
		return device_points_pass(p->on, first ? PASS_FIRST : PASS_LOWER, centre, NULL, count, sum, e);
	j.norm = norm = mem_zalloc((size_t)count, sizeof *norm);
	j.scratch_size = (gemm_scratch_f32(&g, 1) + 63) / 64 * 64;
	if (by_products) {
		for (int c = 0; c < count; c++)
			norm[c] = points_length2(centre + c * p->d, p->d);
		j.scratch = mem_try(workers, j.scratch_size, "k-means scratch", e);
		j.product = mem_try(workers * POINTS, (size_t)count * sizeof *j.product, "k-means products", e);
	}
	if (!by_products || (j.scratch && j.product))
		pool_run(p->pool, (p->n + POINTS_SCAN - 1) / POINTS_SCAN, approach_task, &j);
	mem_free(j.product);
	mem_free(j.scratch);
	mem_free(norm);
	return e->code ? -1 : 0;
}

/* The value that v[k] would have if v were sorted (Hoare's FIND). v is reordered. */
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

/* Raise the offsets of the full clusters, those with in[c] set, all by the same amount, and reassign their points. A point's margin is the increase
 * from which it prefers a cluster that is not full; the increase is the `excess`-th smallest margin, so that about `excess` points leave. It is at
 * least `least`, because otherwise points between two clusters could move back and forth in tiny steps. margin [n] is scratch. */
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

/* Mark the full clusters, those of at least `room` points, in `in` [k]. Returns by how many points they exceed `room` together; 0 if none does. */
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

/* The auction of points_balance needs a free place for the last point, so the room of a cluster is at least n / k + 1. */
int64_t kmeans_room(double share, int64_t n, int k)
{
	int64_t room = (int64_t)floor(share * (double)n / k), least = n / k + 1;

	return room > least ? room : least;
}

/* Balance by an auction in which the offsets are prices. In each round all full clusters raise their prices together, just enough for their surplus
 * to move to clusters with room. If they raised them one by one, the surplus would only circulate among the full clusters. The smallest increase
 * grows every round, which ends the case of equal points that move back and forth together. If too many points are equal for the balance, no prices
 * exist, and ROUNDS ends the loop. */
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
