/* SEGMENT_SUM on the GPU. A segment is the rows with one index, from none to all. Rows are sorted by their index, each segment is divided into
 * parts of PART rows, and the parts' sums are added in order. The sort is a stable counting sort: a warp counts the indices in a stretch of
 * rows, 32 at a time; then prefix sums run over the stretches and over the segments. */
#include "kernels/launch.h"

enum { PART = 128, STRETCH = 1024, COLUMNS = 4 /* of a thread */ };

struct segment {
	const float *x;
	const int32_t *index;
	double *sum;
	int32_t *count;
	int64_t n, d, k, stretch, stretches, parts; /* parts: at most */
	int anew, packed;
	int32_t *rank;   /* [n] number of rows before this one in its stretch with the same index */
	int32_t *before; /* (stretches, k) rows with index k in a stretch, then in all stretches before it */
	int32_t *size;   /* [k] */
	int32_t *first;  /* [k + 1] start of each segment in `order` */
	int32_t *part;   /* [k + 1] first part of each segment */
	int32_t *order;  /* [n] rows sorted by segment */
	double *partial; /* (parts, d) */
};

static __global__ void clear_counts(struct segment s)
{
	for (int64_t i = thread_index(); i < s.stretches * s.k; i += thread_count())
		s.before[i] = 0;
}

/* Compute `rank` and the counts in `before`; a warp per stretch. */
static __global__ void rank_rows(struct segment s)
{
	const int lane = (int)threadIdx.x;

	for (int64_t t = blockIdx.x; t < s.stretches; t += gridDim.x) {
		int32_t *have = s.before + t * s.k;
		int64_t end = (t + 1) * s.stretch < s.n ? (t + 1) * s.stretch : s.n;

		for (int64_t i = t * s.stretch + lane; i - lane < end; i += WARP) {
			int32_t own = i < end ? s.index[i] : -1;
			unsigned same = __match_any_sync(0xffffffffu, own);
			int ahead = __popc(same & ((1u << lane) - 1)), all = __popc(same), had = own < 0 ? 0 : have[own];

			__syncwarp();
			if (own >= 0)
				s.rank[i] = had + ahead;
			if (own >= 0 && !ahead)
				have[own] = had + all;
			__syncwarp();
		}
	}
}

static __global__ void add_stretches(struct segment s)
{
	for (int64_t k = thread_index(); k < s.k; k += thread_count()) {
		int32_t run = 0;

		for (int64_t t = 0; t < s.stretches; t++) {
			int32_t have = s.before[t * s.k + k];

			s.before[t * s.k + k] = run;
			run += have;
		}
		s.size[k] = run;
		s.count[k] = run + (s.anew ? 0 : s.count[k]);
	}
}

/* Prefix sums over the segments, `first` and `part`, in one block; a thread has consecutive segments. */
static __global__ void add_segments(struct segment s)
{
	__shared__ int32_t rows[BLOCK], parts[BLOCK];
	int64_t each = (s.k + BLOCK - 1) / BLOCK, begin = threadIdx.x * each, end = begin + each < s.k ? begin + each : s.k;
	int32_t row = 0, part = 0;

	for (int64_t k = begin; k < end; k++) {
		row += s.size[k];
		part += (s.size[k] + PART - 1) / PART;
	}
	rows[threadIdx.x] = row;
	parts[threadIdx.x] = part;
	__syncthreads();
	row = part = 0;
	for (unsigned t = 0; t < threadIdx.x; t++) {
		row += rows[t];
		part += parts[t];
	}
	for (int64_t k = begin; k < end; k++) {
		s.first[k] = row;
		s.part[k] = part;
		row += s.size[k];
		part += (s.size[k] + PART - 1) / PART;
	}
	if (begin < s.k && end == s.k) {
		s.first[s.k] = row;
		s.part[s.k] = part;
	}
}

static __global__ void place_rows(struct segment s)
{
	for (int64_t i = thread_index(); i < s.n; i += thread_count()) {
		int32_t k = s.index[i];

		s.order[s.first[k] + s.before[i / s.stretch * s.k + k] + s.rank[i]] = (int32_t)i;
	}
}

/* The segment that part i belongs to. */
static __device__ inline int64_t segment_of(const struct segment &s, int32_t i)
{
	int64_t low = 0, high = s.k;

	while (high - low > 1) {
		int64_t middle = low + (high - low) / 2;

		if (s.part[middle] <= i)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static __device__ inline void add_columns(const struct segment &s, int64_t row, int64_t col, double sum[COLUMNS])
{
	const float *x = s.x + row * s.d + col;

	if (s.packed) {
		float4 v = *(const float4 *)WIDE(x);

		sum[0] += (double)v.x;
		sum[1] += (double)v.y;
		sum[2] += (double)v.z;
		sum[3] += (double)v.w;
	} else
		for (int i = 0; i < COLUMNS && col + i < s.d; i++)
			sum[i] += (double)x[i];
}

/* Sum a part into `partial`; a block per part. */
static __global__ void sum_parts(struct segment s)
{
	__shared__ int32_t order[PART];
	int32_t part = (int32_t)blockIdx.x, begin, end;
	int64_t k;

	if (part >= s.part[s.k])
		return;
	k = segment_of(s, part);
	begin = s.first[k] + (part - s.part[k]) * PART;
	end = begin + PART < s.first[k + 1] ? begin + PART : s.first[k + 1];
	for (int32_t i = (int32_t)threadIdx.x; i < end - begin; i += (int32_t)blockDim.x)
		order[i] = s.order[begin + i];
	__syncthreads();
	for (int64_t col = threadIdx.x * COLUMNS; col < s.d; col += blockDim.x * COLUMNS) {
		double sum[COLUMNS] = {0};

		for (int32_t i = 0; i < end - begin; i++)
			add_columns(s, order[i], col, sum);
		for (int i = 0; i < COLUMNS && col + i < s.d; i++)
			s.partial[part * s.d + col + i] = sum[i];
	}
}

static __global__ void add_parts(struct segment s)
{
	for (int64_t i = thread_index(); i < s.k * s.d; i += thread_count()) {
		int64_t k = i / s.d, col = i % s.d;
		double sum = s.anew ? 0. : s.sum[i];

		for (int32_t part = s.part[k]; part < s.part[k + 1]; part++)
			sum += s.partial[part * s.d + col];
		s.sum[i] = sum;
	}
}

/* Lay out the scratch. A stretch has at least k rows, so that `before` has no more than about n + k elements. */
static struct segment segment_of_call(const struct op_call *c, void *scratch, size_t *bytes)
{
	const struct array *x = &c->in[0];
	struct segment s;
	int64_t word = sizeof(int32_t);

	memset(&s, 0, sizeof s);
	s.x = (const float *)x->data;
	s.index = (const int32_t *)c->in[1].data;
	s.sum = (double *)c->out[0].data;
	s.count = (int32_t *)c->out[1].data;
	s.n = x->shape[0];
	s.d = x->shape[1];
	s.k = c->out[1].shape[0];
	s.anew = c->attr.segment_sum.anew != 0;
	s.packed = s.d % COLUMNS == 0 && (uintptr_t)x->data % 16 == 0;
	s.stretch = s.k > STRETCH ? s.k : (int64_t)STRETCH;
	s.stretches = (s.n + s.stretch - 1) / s.stretch;
	s.parts = s.n / PART + (s.k < s.n ? s.k : s.n);
	s.rank = (int32_t *)scratch_part(scratch, bytes, s.n * word);
	s.before = (int32_t *)scratch_part(scratch, bytes, s.stretches * s.k * word);
	s.size = (int32_t *)scratch_part(scratch, bytes, s.k * word);
	s.first = (int32_t *)scratch_part(scratch, bytes, (s.k + 1) * word);
	s.part = (int32_t *)scratch_part(scratch, bytes, (s.k + 1) * word);
	s.order = (int32_t *)scratch_part(scratch, bytes, s.n * word);
	s.partial = (double *)scratch_part(scratch, bytes, s.parts * s.d * (int64_t)sizeof(double));
	return s;
}

static void segment_sum_run(const struct op_call *c)
{
	size_t bytes = 0;
	struct segment s = segment_of_call(c, c->scratch, &bytes);
	int64_t threads = (s.d + COLUMNS * WARP - 1) / (COLUMNS * WARP) * WARP;

	if (!s.k || !s.d)
		return;
	if (s.n)
		LAUNCH(c, clear_counts, blocks_for(s.stretches * s.k), BLOCK, s);
	if (s.n)
		LAUNCH(c, rank_rows, (unsigned)(s.stretches < 1 << 20 ? s.stretches : 1 << 20), WARP, s);
	LAUNCH(c, add_stretches, blocks_for(s.k), BLOCK, s);
	LAUNCH(c, add_segments, 1, BLOCK, s);
	if (s.n)
		LAUNCH(c, place_rows, blocks_for(s.n), BLOCK, s);
	if (s.n)
		LAUNCH(c, sum_parts, (unsigned)s.parts, threads < BLOCK ? (unsigned)threads : (unsigned)BLOCK, s);
	LAUNCH(c, add_parts, blocks_for(s.k * s.d), BLOCK, s);
}

static size_t segment_sum_scratch(const struct op_call *c, int)
{
	size_t bytes = 0;

	segment_of_call(c, NULL, &bytes);
	return bytes;
}

extern "C" {
extern const struct kernel kernel_segment_sum_cuda = {segment_sum_run, segment_sum_scratch};
}
