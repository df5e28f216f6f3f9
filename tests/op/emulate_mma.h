/* The instructions of kernels/mma.h on the host. In a product each lane reads the operands of all 32 lanes, in the layouts of kernels/mma.h, and
 * computes its elements of C in the order of k. The destination of a copy is NaN until the thread waits for it. */
#ifndef DDM_TESTS_EMULATE_MMA_H
#define DDM_TESTS_EMULATE_MMA_H

#include "tests/op/emulate.h"

#include <math.h>

enum { EMULATED_SHARED = 227 << 10 /* of a block of the H100 */, EMULATED_COPIES = 256 };

/* The most that a block may have. A launch that has not asked for it has at most 99 KB, as on every supported GPU. */
extern "C" {
inline size_t emulated_shared_limit = EMULATED_SHARED;
}
inline int emulated_shared_asked;

struct op_call;
static inline size_t cuda_shared_limit(const struct op_call *)
{
	emulated_shared_asked = 1;
	return emulated_shared_limit;
}

struct emulated_lane_state {
	int turn; /* which offer is written next; other lanes may still read the one before */
	struct {
		uint32_t a[4], b[2];
		const uint16_t *row;
	} offer[2];
	struct {
		void *to;
		const void *from;
	} copy[EMULATED_COPIES];
	int copies;
};

inline emulated_lane_state emulated_lanes[EMULATED_THREADS];
alignas(16) inline unsigned char emulated_shared[EMULATED_SHARED + 64];

static inline emulated_lane_state *emulated_self(void)
{
	return &emulated_lanes[emulated_now - emulated];
}

/* The offer of lane i of this warp. All lanes must have written theirs. */
#define EMULATED_OFFER(i) emulated_lanes[(emulated_now - emulated) / EMULATED_WARP * EMULATED_WARP + (i)].offer[turn]

static inline float emulated_half(uint32_t word, int high)
{
	uint32_t u = high ? word & 0xffff0000u : word << 16;
	float f;

	memcpy(&f, &u, sizeof f);
	return f;
}

static inline float emulated_tf32(uint32_t word)
{
	float f;

	word &= 0xffffe000u;
	memcpy(&f, &word, sizeof f);
	return f;
}

static inline int emulated_offer(const void *a, const void *b)
{
	emulated_lane_state *s = emulated_self();
	int turn = s->turn;

	memcpy(s->offer[turn].a, a, sizeof s->offer[turn].a);
	memcpy(s->offer[turn].b, b, sizeof s->offer[turn].b);
	s->turn = !turn;
	__syncwarp();
	return turn;
}

/* A tensor core does not round: it aligns the addends to the largest, with 25 bits here, drops what is below, and drops what does not fit the
 * result (Fasi et al., "Numerical behavior of NVIDIA tensor cores", 2021). */
static inline float emulated_truncated(const double *x, int n)
{
	double top = 0, sum = 0, unit;
	uint64_t bits;
	int64_t units = 0;
	float f;

	for (int i = 0; i < n; i++) {
		top = top > fabs(x[i]) ? top : fabs(x[i]);
		sum += x[i];
	}
	if (!(top > 1e-200) || !(fabs(sum) < 1e200))
		return (float)sum;
	memcpy(&bits, &top, sizeof bits);
	bits = (bits & 0x7ff0000000000000u) - ((uint64_t)24 << 52); /* the power of two of the lowest of 25 bits */
	memcpy(&unit, &bits, sizeof unit);
	for (int i = 0; i < n; i++)
		units += (int64_t)(x[i] * (1 / unit));
	sum = (double)units * unit;
	f = (float)sum;
	return fabs((double)f) > fabs(sum) ? nextafterf(f, 0) : f;
}

/* C (16, 8) += A (16, k) B (k, 8): a lane's four elements lie in rows g and g + 8 of A and in columns 2t and 2t + 1 of B. */
template <int K> static inline void emulated_product(float c[4], const double a[2][K], const double b[2][K])
{
	for (int e = 0; e < 4; e++) {
		double x[K + 1];

		x[0] = (double)c[e];
		for (int k = 0; k < K; k++)
			x[k + 1] = a[e / 2][k] * b[e % 2][k];
		c[e] = emulated_truncated(x, K + 1);
	}
}

static inline void mma_bf16(float c[4], const uint32_t a[4], const uint32_t b[2])
{
	int turn = emulated_offer(a, b), g = emulated_lane() / 4, t = emulated_lane() % 4;
	double x[2][16], y[2][16];

	for (int lane = 0; lane < 4; lane++)
		for (int i = 0; i < 2; i++) {
			const uint32_t *p = EMULATED_OFFER(g * 4 + lane).a + i, *q = EMULATED_OFFER((2 * t + i) * 4 + lane).b;

			for (int k = 0; k < 2; k++) {
				x[i][2 * lane + k] = (double)emulated_half(p[0], k);
				x[i][2 * lane + k + 8] = (double)emulated_half(p[2], k);
				y[i][2 * lane + k] = (double)emulated_half(q[0], k);
				y[i][2 * lane + k + 8] = (double)emulated_half(q[1], k);
			}
		}
	emulated_product<16>(c, x, y);
}

static inline void mma_bf16_half(float c[4], const uint32_t a[2], uint32_t b)
{
	const uint32_t a4[4] = {a[0], a[1]}, b2[2] = {b};
	int turn = emulated_offer(a4, b2), g = emulated_lane() / 4, t = emulated_lane() % 4;
	double x[2][8], y[2][8];

	for (int lane = 0; lane < 4; lane++)
		for (int i = 0; i < 2; i++)
			for (int k = 0; k < 2; k++) {
				x[i][2 * lane + k] = (double)emulated_half(EMULATED_OFFER(g * 4 + lane).a[i], k);
				y[i][2 * lane + k] = (double)emulated_half(EMULATED_OFFER((2 * t + i) * 4 + lane).b[0], k);
			}
	emulated_product<8>(c, x, y);
}

static inline void mma_tf32(float c[4], const float a[4], const float b[2])
{
	int turn = emulated_offer(a, b), g = emulated_lane() / 4, t = emulated_lane() % 4;
	double x[2][8], y[2][8];

	for (int lane = 0; lane < 4; lane++)
		for (int i = 0; i < 2; i++) {
			const uint32_t *p = EMULATED_OFFER(g * 4 + lane).a + i, *q = EMULATED_OFFER((2 * t + i) * 4 + lane).b;

			x[i][lane] = (double)emulated_tf32(p[0]);
			x[i][lane + 4] = (double)emulated_tf32(p[2]);
			y[i][lane] = (double)emulated_tf32(q[0]);
			y[i][lane + 4] = (double)emulated_tf32(q[1]);
		}
	emulated_product<8>(c, x, y);
}

static inline void emulated_rows(uint32_t *x, int matrices, const uint16_t *row, int trans)
{
	emulated_lane_state *s = emulated_self();
	int turn = s->turn, g = emulated_lane() / 4, t = emulated_lane() % 4;

	if ((uintptr_t)row % 16) {
		fprintf(stderr, "emulated kernel: ldmatrix of a row that is not aligned to 16 bytes\n");
		abort();
	}
	s->offer[turn].row = row;
	s->turn = !turn;
	__syncwarp();
	for (int m = 0; m < matrices; m++) {
		uint16_t low, high;

		if (trans) {
			low = EMULATED_OFFER(8 * m + 2 * t).row[g];
			high = EMULATED_OFFER(8 * m + 2 * t + 1).row[g];
		} else {
			low = EMULATED_OFFER(8 * m + g).row[2 * t];
			high = EMULATED_OFFER(8 * m + g).row[2 * t + 1];
		}
		x[m] = (uint32_t)low | (uint32_t)high << 16;
	}
}

static inline void ldmatrix(uint32_t x[4], const uint16_t *row)
{
	emulated_rows(x, 4, row, 0);
}

static inline void ldmatrix_trans(uint32_t x[4], const uint16_t *row)
{
	emulated_rows(x, 4, row, 1);
}

static inline void ldmatrix_two(uint32_t x[2], const uint16_t *row)
{
	emulated_rows(x, 2, row, 0);
}

static inline void ldmatrix_two_trans(uint32_t x[2], const uint16_t *row)
{
	emulated_rows(x, 2, row, 1);
}

static inline float exp2_fast(float x)
{
	return exp2f(x);
}

static inline void copy_async(void *shared, const void *global, int valid)
{
	emulated_lane_state *s = emulated_self();

	if ((uintptr_t)shared % 16 || (valid && (uintptr_t)global % 16) || s->copies == EMULATED_COPIES) {
		fprintf(stderr, "emulated kernel: a copy that is not aligned to 16 bytes, or more than %d\n", EMULATED_COPIES);
		abort();
	}
	memset(shared, 0xff, 16);
	s->copy[s->copies].to = shared;
	s->copy[s->copies++].from = valid ? global : NULL;
}

static inline void copy_wait(void)
{
	emulated_lane_state *s = emulated_self();

	for (int i = 0; i < s->copies; i++) {
		if (s->copy[i].from)
			memcpy(s->copy[i].to, s->copy[i].from, 16);
		else
			memset(s->copy[i].to, 0, 16);
	}
	s->copies = 0;
}

#define SHARED_BYTES(name) unsigned char *name = emulated_shared

/* Shared memory is NaN at the first block and keeps its contents from block to block. Writes beyond `bytes` and unfinished copies abort. */
template <class F> static inline void emulate_shared(dim3 grid, dim3 block, size_t bytes, int asked, F body)
{
	if (bytes > (asked ? emulated_shared_limit : 99 << 10)) {
		fprintf(stderr, "emulated kernel: %zu bytes of shared memory\n", bytes);
		abort();
	}
	memset(emulated_shared, 0xff, sizeof emulated_shared);
	emulate(grid, block, body);
	for (size_t i = bytes; i < sizeof emulated_shared; i++)
		if (emulated_shared[i] != 0xff) {
			fprintf(stderr, "emulated kernel: writes beyond its %zu bytes of shared memory\n", bytes);
			abort();
		}
	for (int i = 0; i < EMULATED_THREADS; i++)
		if (emulated_lanes[i].copies) {
			fprintf(stderr, "emulated kernel: a thread ends before its copies are done\n");
			abort();
		}
}

template <class K, class... A>
static inline void emulated_launch_shared(const struct op_call *c, dim3 grid, dim3 block, size_t bytes, K kernel, A... a)
{
	const int asked = emulated_shared_asked;

	emulated_shared_asked = 0;
	emulated_later(c, [=] { emulate_shared(grid, block, bytes, asked, [=] { kernel(a...); }); });
}

#define LAUNCH_SHARED(call, kernel, grid, block, bytes, ...) \
	emulated_launch_shared( \
	    call, grid, block, bytes, [=](auto... launched) { kernel(launched...); }, __VA_ARGS__)

#endif
