/* The main() of a fuzz target without a fuzzer: replays a corpus, and a fixed number of mutations of each input.
 *
 * With clang: cc -fsanitize=fuzzer,address,undefined -DFUZZER -Ilib -I. tests/fuzz/fuzz_npy.c build/libddm.a ...
 * Here:       build/tests/fuzz/fuzz_npy [-once] [FILE | FOLDER]...        by default the target's corpus; -once: no mutations */
#ifndef DDM_TESTS_FUZZ_REPLAY_H
#define DDM_TESTS_FUZZ_REPLAY_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#ifndef FUZZER

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/mem.h"
#include "core/rng.h"
#include "file/fileio.h"

static uint64_t mutations = 400;

static uint64_t pick(uint64_t n, uint64_t step, uint64_t index, uint32_t lane)
{
	return n ? rng_below(n, 1, RNG_TEST, step, index, lane) : 0;
}

/* Apply one to four edits in place: flip a bit, set a byte, write a boundary value of eight bytes, cut, or move a block. Returns the new length. */
static size_t mutate(uint8_t *p, size_t n, uint64_t index)
{
	static const uint64_t edges[] = {0, 1, 0x7f, 0xff, 0x7fffffff, 0xffffffff, 0x7fffffffffffffff, ~0ull};
	uint64_t edits = 1 + pick(4, 0, index, 0);

	for (uint64_t k = 0; k < edits && n; k++) {
		uint64_t at = pick(n, 1 + k, index, 0), kind = pick(6, 1 + k, index, 1), v = pick(256, 1 + k, index, 2), from;

		switch (kind) {
		case 0:
		case 1:
			p[at] ^= (uint8_t)(1u << v % 8);
			break;
		case 2:
			p[at] = (uint8_t)v;
			break;
		case 3:
			for (size_t i = 0; i < 8 && at + i < n; i++)
				p[at + i] = (uint8_t)(edges[v % 8] >> 8 * i);
			break;
		case 4:
			n = v < 64 ? at : n;
			break;
		case 5:
			from = pick(n, 1 + k, index, 3);
			memmove(p + at, p + from, (size_t)(n - (at > from ? at : from)) / 2);
			break;
		}
	}
	return n;
}

/* Each input is copied to a block of exactly its size, so that a sanitizer detects reads past the end. */
static int replay_file(const char *path)
{
	struct err e = {0};
	size_t len, n;
	uint8_t *p = file_load(path, 1 << 20, &len, &e);

	if (!p) {
		printf("# %s\n", e.msg);
		return -1;
	}
	for (uint64_t i = 0; i <= mutations; i++) {
		uint8_t *whole = memcpy(mem_alloc(len), p, len), *exact;

		n = i ? mutate(whole, len, i) : len;
		exact = memcpy(mem_alloc(n), whole, n);
		LLVMFuzzerTestOneInput(exact, n);
		mem_free(whole);
		mem_free(exact);
	}
	mem_free(p);
	return 0;
}

static int replay_path(const char *path)
{
	struct err e = {0};
	struct stat st;
	char **names;
	size_t n;
	int rc = 0;

	if (!stat(path, &st) && !S_ISDIR(st.st_mode))
		return replay_file(path) ? -1 : 1;
	if (dir_list(path, &names, &n, &e)) {
		printf("# %s\n", e.msg);
		return -1;
	}
	for (size_t i = 0; i < n && rc >= 0; i++) {
		char *sub = path_join(path, names[i]);
		int k = replay_path(sub);

		rc = k < 0 ? -1 : rc + k;
		mem_free(sub);
	}
	names_free(names, n);
	return rc;
}

static int replay_main(int argc, char **argv, const char *corpus)
{
	int inputs = 0, bad = 0, first = 1;

	if (argc > 1 && !strcmp(argv[1], "-once")) {
		mutations = 0;
		first++;
	}
	for (int i = argc > first ? first : 0; i < (argc > first ? argc : 1); i++) {
		int k = replay_path(argc > first ? argv[i] : corpus);

		bad |= k <= 0;
		inputs += k > 0 ? k : 0;
	}
	printf("1..1\n%sok 1 - %d inputs, %d mutations of each\n", bad ? "not " : "", inputs, (int)mutations);
	return bad;
}

/* clang-format off */
#define REPLAY_MAIN(corpus)                           \
	int main(int argc, char **argv)                   \
	{                                                 \
		return replay_main(argc, argv, corpus);       \
	}
/* clang-format on */

#else
#define REPLAY_MAIN(corpus)
#endif

#endif
