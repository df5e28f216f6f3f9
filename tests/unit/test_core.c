/* core: errors, strings, random numbers, pool, hashes, facts about the machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/err.h"
#include "core/hash.h"
#include "core/machine.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "core/sha256.h"
#include "core/str.h"
#include "file/fileio.h"
#include "core/torchrng.h"
#include "tests/golden/torch_randn.h"

/* Known-answer vectors of the Random123 distribution (kat_vectors, philox4x32 10). */
static void philox_vectors(void **state)
{
	static const struct {
		uint32_t ctr[4], key[2], out[4];
	} v[] = {
	    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
	    {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
	    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
		uint32_t out[4];

		philox4x32(v[i].ctr, v[i].key, out);
		assert_memory_equal(out, v[i].out, sizeof out);
	}
}

static void log_and_sincos_against_libm(void **state)
{
	double worst_log = 0, worst_sc = 0;

	(void)state;
	for (int i = 1; i <= 1 << 20; i++) {
		float u = (float)i * 0x1p-20f, s, c;
		double v = (double)(float)((i - 1) * 0x1p-20);

		worst_log = fmax(worst_log, fabs(rng_logf(u) - log((double)u)) / fmax(1, fabs(log((double)u))));
		rng_sincos2pif((float)v, &s, &c);
		worst_sc = fmax(worst_sc, fmax(fabs(s - sin(2 * M_PI * v)), fabs(c - cos(2 * M_PI * v))));
	}
	assert_true(worst_log < 2e-7);
	assert_true(worst_sc < 4e-7);
}

/* Moments of 4e5 draws: mean within 5 / sqrt(n), variance and kurtosis likewise. A prefix does not depend on n. */
static void normals(void **state)
{
	enum { N = 400000 };
	float *x = mem_alloc(N * sizeof *x), y[7];
	double m = 0, v = 0, k = 0;

	(void)state;
	rng_normal(x, N, 42, RNG_TEST, 3, 5);
	for (int i = 0; i < N; i++) {
		m += x[i];
		v += (double)x[i] * x[i];
		k += pow(x[i], 4);
	}
	assert_true(fabs(m / N) < 5 / sqrt(N));
	assert_true(fabs(v / N - 1) < 5 * sqrt(2. / N));
	assert_true(fabs(k / N - 3) < 5 * sqrt(96. / N));
	rng_normal(y, 7, 42, RNG_TEST, 3, 5);
	assert_memory_equal(x, y, sizeof y);
	for (uint32_t b = 0; b < 1000; b++) {
		uint32_t w[4];
		float z[4];

		rng_block(42, RNG_TEST, 3, 5, b, w);
		rng_normal4(w, z);
		assert_memory_equal(x + 4 * b, z, sizeof z);
	}
	rng_normal(y, 7, 42, RNG_TEST, 3, 6);
	assert_memory_not_equal(x, y, sizeof y);
	mem_free(x);
}

static void words_are_blocks(void **state)
{
	enum { N = 203 };
	uint32_t w[N], b[4];

	(void)state;
	rng_words(w, N, 42, RNG_TEST, 3, (uint64_t)5 << 32, 7);
	for (uint32_t i = 0; i < N; i++) {
		rng_block(42, RNG_TEST, 3, (uint64_t)5 << 32, 7 + i / 4, b);
		assert_int_equal(w[i], b[i % 4]);
	}
}

static void permutations(void **state)
{
	static const uint64_t sizes[] = {1, 2, 3, 5, 64, 1000, 4097};

	(void)state;
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
		uint64_t n = sizes[s], moved = 0;
		char *seen = mem_zalloc(n, 1);

		for (uint64_t i = 0; i < n; i++) {
			uint64_t p = rng_permute(i, n, 7, RNG_SHUFFLE, 2);

			assert_true(p < n && !seen[p]);
			seen[p] = 1;
			moved += p != rng_permute(i, n, 7, RNG_SHUFFLE, 3);
		}
		if (n > 60)
			assert_true(moved > n * 9 / 10);
		mem_free(seen);
	}
}

static void uniforms_cover(void **state)
{
	int hist[10] = {0};

	(void)state;
	for (uint64_t i = 0; i < 100000; i++)
		hist[rng_below(10, 1, RNG_TEST, 0, i, 0)]++;
	for (int b = 0; b < 10; b++)
		assert_in_range(hist[b], 9500, 10500);
}

struct tally {
	_Atomic int hits[1000];
	_Atomic int worst;
};

static void hit(void *arg, int64_t task, int worker)
{
	struct tally *t = arg;

	atomic_fetch_add(&t->hits[task], 1);
	if (worker > atomic_load(&t->worst))
		atomic_store(&t->worst, worker);
}

static void pool_runs_each_task_once(void **state)
{
	static struct tally t;
	struct err e = {0};
	struct pool *p = pool_new(4, &e);

	(void)state;
	assert_non_null(p);
	for (int round = 1; round <= 2000; round++) {
		(round % 3 ? pool_run : pool_spread)(p, 1 + round % 1000, hit, &t);
		for (int i = 0; i < 1000; i++)
			assert_int_equal(atomic_exchange(&t.hits[i], 0), i < 1 + round % 1000);
	}
	assert_in_range(atomic_load(&t.worst), 0, 3);
	pool_free(p);
	pool_run(NULL, 3, hit, &t);
	pool_spread(NULL, 3, hit, &t);
	assert_int_equal(t.hits[2], 2);
}

struct firsts {
	_Atomic int begun;
	_Atomic int64_t first[4];
};

/* A worker's first task lasts until all four workers have one. */
static void hold_first(void *arg, int64_t task, int worker)
{
	struct firsts *f = arg;

	if (f->first[worker] >= 0)
		return;
	f->first[worker] = task;
	f->begun++;
	while (f->begun < 4)
		sched_yield();
}

static void pool_spreads_neighbouring_tasks(void **state)
{
	static const int64_t want[] = {0, 2, 5, 7};
	struct pool *p = pool_new(4, NULL);

	(void)state;
	assert_non_null(p);
	for (int round = 0; round < 20; round++) {
		struct firsts f = {.first = {-1, -1, -1, -1}};

		pool_spread(p, 10, hold_first, &f);
		for (int w = 0; w < 4; w++)
			assert_int_equal(f.first[w], want[w]);
	}
	pool_free(p);
}

struct nested {
	struct pool *outer, *inner;
	_Atomic int within, wrong;
};

static void count_other(void *arg, int64_t task, int worker)
{
	struct nested *n = arg;

	(void)task;
	n->wrong += worker != 0;
}

static void count_same(void *arg, int64_t task, int worker)
{
	int *of = arg;

	(void)task;
	*of = worker;
}

static void nest(void *arg, int64_t task, int worker)
{
	struct nested *n = arg;
	int same = -1;

	(void)task;
	pool_run(n->outer, 2, count_same, &same);
	n->wrong += same != worker;
	pool_run(NULL, 2, count_other, n);
	pool_run(n->inner, 2, count_other, n);
	n->within |= 1 << worker;
}

/* Scratch for a loop without a pool, or with a pool of one, has room for one worker, whichever worker of another pool runs the loop. */
static void pool_numbers_nested_workers(void **state)
{
	struct nested n = {.outer = pool_new(4, NULL), .inner = pool_new(1, NULL)};

	(void)state;
	for (int round = 0; round < 10000 && n.within != 15; round++)
		pool_run(n.outer, 16, nest, &n);
	assert_int_equal(n.within, 15);
	assert_int_equal(n.wrong, 0);
	pool_free(n.inner);
	pool_free(n.outer);
}

/* Memory is zeroed and aligned below and above the size from which large pages are used. An impossible size is an error. */
static void blocks(void **state)
{
	static const size_t size[] = {0, 1, 100, (2u << 20) - 64, 2u << 20, (5u << 20) + 3};

	(void)state;
	for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
		struct err e = {0};
		unsigned char *p = mem_try(size[i], 1, "block", &e), any = 0;

		assert_non_null(p);
		assert_int_equal((uintptr_t)p % 64, 0);
		for (size_t j = 0; j < size[i]; j++)
			any |= p[j];
		assert_int_equal(any, 0);
		memset(p, 0xff, size[i]);
		mem_free(p);
	}
	for (int i = 0; i < 2; i++) {
		struct err e = {0};

		assert_null(mem_try(SIZE_MAX / 4, i ? 8 : 1, "block", &e));
		assert_int_equal(e.code, ERR_NOMEM);
	}
}

static void sha256_vectors(void **state)
{
	struct sha256 s;
	char hex[65];
	char a[1000];

	(void)state;
	sha256_init(&s);
	sha256_end(&s, hex);
	assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	sha256_init(&s);
	sha256_add(&s, "abc", 3);
	sha256_end(&s, hex);
	assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	memset(a, 'a', sizeof a);
	sha256_init(&s);
	for (int left = 1000000, n = 1; left; left -= n, n = n % 997 + 1) {
		n = n < left ? n : left;
		sha256_add(&s, a, (size_t)n);
	}
	sha256_end(&s, hex);
	assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* With all instruction sets of the processor the blocks are equal. */
static void sha256_by_instructions(void **state)
{
	uint8_t data[64 * 9];
	uint32_t a[8], b[8], was[8];

	(void)state;
	rng_words((uint32_t *)(void *)data, sizeof data / 4, 1, RNG_TEST, 5, 0, 0);
	rng_words(a, 8, 1, RNG_TEST, 6, 0, 0);
	for (size_t n = 0; n <= 8; n++) {
		memcpy(was, a, sizeof a);
		sha256_blocks(a, data + n, n);
		for (int isa = 0; isa < SHA256_ISAS; isa++) {
			memcpy(b, was, sizeof was);
			if (!sha256_has((enum sha256_isa)isa))
				continue;
			sha256_blocks_by((enum sha256_isa)isa, b, data + n, n);
			assert_memory_equal(a, b, sizeof a);
		}
	}
}

/* The share of held-out keys is the fraction; larger fractions contain the smaller ones; frames of a source are held out together. */
static void held_out_keys(void **state)
{
	char key[40], frame[40];
	int held = 0;

	(void)state;
	for (int i = 0; i < 10000; i++) {
		snprintf(key, sizeof key, "a/clip-%d", i);
		snprintf(frame, sizeof frame, "a/clip-%d@%06d", i, i * 7);
		held += hash_holdout(key, .2);
		assert_int_equal(hash_holdout(key, .2), hash_holdout(frame, .2));
		assert_true(hash_holdout(key, .3) >= hash_holdout(key, .2));
		assert_int_equal(hash_holdout(key, 0), 0);
		assert_int_equal(hash_holdout(key, 1), 1);
	}
	assert_in_range(held, 1800, 2200);
}

static void numbers(void **state)
{
	int64_t i = -1;
	double d = -1;
	uint64_t u;

	(void)state;
	assert_int_equal(parse_i64("12", 0, 20, &i), 0);
	assert_int_equal(i, 12);
	assert_int_equal(parse_i64("21", 0, 20, &i), -1);
	assert_int_equal(parse_i64("1x", 0, 20, &i), -1);
	assert_int_equal(parse_i64("", 0, 20, &i), -1);
	assert_int_equal(parse_i64(" 1", 0, 20, &i), -1);
	assert_int_equal(parse_i64("99999999999999999999", 0, INT64_MAX, &i), -1);
	assert_int_equal(parse_f64("nan", -1, 1, &d), -1);
	assert_int_equal(parse_f64("1e-3", 0, 1, &d), 0);
	assert_int_equal(parse_duration("15m", &d), 0);
	assert_true(d == 900);
	assert_int_equal(parse_duration("15mm", &d), -1);
	assert_int_equal(parse_duration("1e308d", &d), -1);
	assert_int_equal(parse_size("2K", &u), 0);
	assert_int_equal(u, 2048);
}

static void numbers_are_printed_short(void **state)
{
	static const struct {
		double v;
		const char *text;
	} cases[] = {{0, "0"},       {.1, "0.1"}, {16, "16"}, {1e6, "1000000"}, {1e-5, "1e-05"}, {-120, "-120"}, {.1 + .2, "0.30000000000000004"},
	             {1e20, "1e+20"}};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[F64_TEXT];

		print_f64(text, cases[i].v);
		assert_string_equal(text, cases[i].text);
		assert_true(strtod(text, NULL) == cases[i].v);
	}
}

static void first_error_wins(void **state)
{
	struct err e = {0};

	(void)state;
	assert_int_equal(err_set(&e, ERR_DATA, "a %d", 1), -1);
	err_set(&e, ERR_IO, "b");
	err_prefix(&e, "x.tar");
	assert_int_equal(e.code, ERR_DATA);
	assert_string_equal(e.msg, "x.tar: a 1");
	assert_int_equal(err_set(NULL, ERR_IO, "c"), -1);
}

/* The bits of PyTorch's numbers. Calls for fewer than 16 use PyTorch's other method, which keeps its second number for the next such call. */
static void draws_of_torch(void **state)
{
	static float x[65536 + 32];

	(void)state;
	for (size_t i = 0; i < sizeof golden_randn / sizeof *golden_randn; i++) {
		struct torch_rng r;
		struct sha256 h;
		int64_t n = 0;
		uint32_t last;
		char hex[65];

		torch_seed(&r, golden_randn[i].seed);
		for (int k = 0; k < 3 && golden_randn[i].n[k]; n += golden_randn[i].n[k++])
			torch_randn(&r, x + n, golden_randn[i].n[k]);
		memcpy(&last, x + n - 1, sizeof last);
		assert_int_equal(last, golden_randn[i].last);
		sha256_init(&h);
		sha256_add(&h, x, (size_t)n * sizeof *x);
		sha256_end(&h, hex);
		assert_string_equal(hex, golden_randn[i].sha256);
	}
}

/* Write a file below `root`, and make its folders. */
static void put(const char *root, const char *path, const char *text)
{
	char *whole = str_new("%s%s", root, path);
	FILE *f;

	for (char *p = whole + strlen(root) + 1; (p = strchr(p, '/')); p++) {
		*p = 0;
		mkdir(whole, 0777);
		*p = '/';
	}
	f = fopen(whole, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	mem_free(whole);
}

static void sees(const char *root, uint64_t total, uint64_t unused)
{
	struct machine_memory m;

	machine_memory(&m, root);
	assert_int_equal(m.total, total);
	assert_int_equal(m.free, unused);
}

static void memory_of_groups(void **state)
{
	enum { K = 1024 };
	char root[] = "/tmp/ddm-machine-XXXXXX";
	struct machine_memory m;

	(void)state;
	assert_non_null(mkdtemp(root));
	sees(root, 0, 0);
	put(root, "/proc/meminfo", "MemTotal:  1000 kB\nMemFree:   10 kB\nMemAvailable:     600 kB\nSwapTotal: 90 kB\nSwapFree:  50 kB\n");
	sees(root, 1000 * K, 650 * K);
	put(root, "/proc/self/cgroup", "12:cpu:/old\n0::/a/b\n");
	sees(root, 1000 * K, 650 * K);
	put(root, "/sys/fs/cgroup/a/memory.max", "max\n");
	put(root, "/sys/fs/cgroup/a/memory.current", "900000\n");
	sees(root, 1000 * K, 650 * K);
	put(root, "/sys/fs/cgroup/a/b/memory.max", "500000\n");
	put(root, "/sys/fs/cgroup/a/b/memory.current", "300000\n");
	sees(root, 500000, 200000);
	put(root, "/sys/fs/cgroup/a/b/memory.stat", "anon 1\nfile 90000\ninactive_anon 7\nactive_file 30000\ninactive_file 60000\n");
	sees(root, 500000, 290000);
	put(root, "/sys/fs/cgroup/memory.max", "400000\n");
	put(root, "/sys/fs/cgroup/memory.current", "390000\n");
	sees(root, 400000, 10000);
	put(root, "/sys/fs/cgroup/memory.current", "450000\n");
	sees(root, 400000, 0);
	assert_int_equal(dir_remove(root, NULL), 0);
	assert_int_equal(mkdir(root, 0777), 0);
	put(root, "/proc/meminfo", "MemTotal:  1000 kB\nMemAvailable:     600 kB\n");
	put(root, "/proc/self/cgroup", "12:cpu,memoryless:/other\n4:devices,memory:/slurm/job_7\n0::/none\n");
	put(root, "/sys/fs/cgroup/memory/other/memory.limit_in_bytes", "1\n");
	put(root, "/sys/fs/cgroup/memory/other/memory.usage_in_bytes", "1\n");
	put(root, "/sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", "9223372036854771712\n");
	put(root, "/sys/fs/cgroup/memory/slurm/memory.usage_in_bytes", "800000\n");
	sees(root, 1000 * K, 600 * K);
	put(root, "/sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "500000\n");
	put(root, "/sys/fs/cgroup/memory/slurm/job_7/memory.usage_in_bytes", "300000\n");
	put(root, "/sys/fs/cgroup/memory/slurm/job_7/memory.stat", "active_file 1\ntotal_active_file 30000\ntotal_inactive_file 60000\n");
	sees(root, 500000, 290000);
	assert_int_equal(dir_remove(root, NULL), 0);
	machine_memory(&m, "");
	assert_true(m.total > 0 && m.free > 0 && m.free < UINT64_MAX / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(philox_vectors),
	    cmocka_unit_test(log_and_sincos_against_libm),
	    cmocka_unit_test(normals),
	    cmocka_unit_test(words_are_blocks),
	    cmocka_unit_test(permutations),
	    cmocka_unit_test(uniforms_cover),
	    cmocka_unit_test(pool_runs_each_task_once),
	    cmocka_unit_test(pool_spreads_neighbouring_tasks),
	    cmocka_unit_test(pool_numbers_nested_workers),
	    cmocka_unit_test(held_out_keys),
	    cmocka_unit_test(sha256_vectors),
	    cmocka_unit_test(sha256_by_instructions),
	    cmocka_unit_test(numbers),
	    cmocka_unit_test(numbers_are_printed_short),
	    cmocka_unit_test(first_error_wins),
	    cmocka_unit_test(blocks),
	    cmocka_unit_test(draws_of_torch),
	    cmocka_unit_test(memory_of_groups),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
