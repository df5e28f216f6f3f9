/* NOISE and DROPOUT on the GPU, with the same bits as core/rng.h. Compiled with -fmad=false. */
#include "core/philox.h"

#include "kernels/launch.h"

enum { DRAWN_FOR_DROPOUT = 5 /* RNG_DROPOUT */ };

/* A thread draws the four normals of one Philox block. */
static __global__ void noise_blocks(int64_t samples, int64_t size, struct reals y, const struct run_keys *k)
{
	int64_t blocks = (size + 3) / 4;

	for (int64_t i = thread_index(); i < samples * blocks; i += thread_count()) {
		int64_t b = i / blocks, at = i % blocks * 4;
		uint32_t counter[4], key[2], word[4];
		float z[4];

		philox_counter(k->seed, (uint32_t)k->purpose, k->step, k->first + (uint64_t)b, (uint32_t)(at / 4), counter, key);
		philox_rounds(counter, key, word);
		philox_normal4(word, z);
		for (int j = 0; j < 4 && at + j < size; j++)
			reals_set(y, b * size + at + j, z[j]);
	}
}

static void noise_run(const struct op_call *c)
{
	int64_t n = c->out[0].shape[0], size = n ? array_count(&c->out[0]) / n : 0;

	if (n && size)
		LAUNCH(c, noise_blocks, blocks_for(n * ((size + 3) / 4)), BLOCK, n, size, reals_of(&c->out[0]), c->keys);
}

/* word[i] by selection, because a variable index would put the words into local memory. */
static __device__ inline uint32_t word_at(const uint32_t word[4], int i)
{
	return i & 2 ? (i & 1 ? word[3] : word[2]) : i & 1 ? word[1] : word[0];
}

static __global__ void dropout_any(struct strided s, int64_t size, struct reals y, struct reals x, uint32_t threshold, float scale, uint32_t base,
                                   const struct run_keys *k)
{
	if (k->no_dropout) {
		threshold = 0;
		scale = 1;
	}
	for (int64_t i = thread_index() * 4; i < (s.count + 3) / 4 * 4; i += thread_count() * 4)
		for (int64_t j = i; j < i + 4 && j < s.count; j++) {
			uint32_t counter[4], key[2], word[4];
			int64_t at[4], in_sample = j % size;

			philox_counter(k->seed, DRAWN_FOR_DROPOUT, k->step, k->first + (uint64_t)(j / size), base + (uint32_t)(in_sample / 4),
			               counter, key);
			philox_rounds(counter, key, word);
			strided_at(&s, j, at);
			reals_set(y, at[0], word_at(word, (int)(in_sample % 4)) >= threshold ? reals_get(x, at[1]) * scale : 0.f);
		}
}

static void dropout_run(const struct op_call *c)
{
	const struct array *const arrays[2] = {&c->out[0], &c->in[0]};
	struct strided s = strided_of(&c->out[0], arrays, 2);
	double p = c->attr.dropout.p;

	if (s.count)
		LAUNCH(c, dropout_any, blocks_for((s.count + 3) / 4), BLOCK, s, s.count / c->out[0].shape[0], reals_of(&c->out[0]),
		       reals_of(&c->in[0]), p < 1 ? (uint32_t)(p * 4294967296.) : UINT32_MAX, p < 1 ? (float)(1 / (1 - p)) : 0.f,
		       (uint32_t)c->attr.dropout.lane, c->keys);
}

extern "C" {
extern const struct kernel kernel_noise_cuda = {noise_run, NULL};
extern const struct kernel kernel_dropout_cuda = {dropout_run, NULL};
}
