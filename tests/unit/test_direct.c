/* file/direct: the bytes arrive in the file in order, past the page cache, and errors of the writing thread are reported. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/direct.h"
#include "tests/unit/scratch.h"

enum { MB = 1 << 20, MOST = 19 * MB, PAGE = 4096 };

static uint8_t *data;

static int new_file(void)
{
	char *path = path_join(dir, "x");
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);

	assert_true(fd >= 0);
	mem_free(path);
	return fd;
}

/* How many pages of the file's first n bytes are in the page cache. */
static size_t cached_pages(int fd, size_t n)
{
	size_t pages = n / PAGE, cached = 0;
	void *map = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, 0);
	unsigned char *in = mem_alloc(pages);

	assert_true(map != MAP_FAILED);
	assert_int_equal(mincore(map, n, in), 0);
	for (size_t i = 0; i < pages; i++)
		cached += in[i] & 1;
	munmap(map, n);
	mem_free(in);
	return cached;
}

static void assert_file(int fd, const uint8_t *want, size_t n)
{
	uint8_t *got = mem_alloc(n);
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, n);
	assert_int_equal(pread(fd, got, n, 0), n);
	assert_true(!memcmp(got, want, n));
	mem_free(got);
}

/* Skips the test where the file system has no direct writes. */
static struct direct *begin(int fd)
{
	struct direct *d = direct_begin(fd);

	if (!d) {
		close(fd);
		print_message("# the file system of %s has no direct writes\n", dir);
		skip();
	}
	return d;
}

static void any_length(void **state)
{
	static const size_t length[] = {0, 1, PAGE - 1, PAGE, PAGE + 1, 4 * MB - 1, 4 * MB, 8 * MB, 12 * MB + 5 * PAGE, 16 * MB + 3, MOST};

	(void)state;
	for (size_t k = 0; k < sizeof length / sizeof *length; k++) {
		int fd = new_file();
		struct direct *d = begin(fd);

		for (size_t at = 0, n; at < length[k]; at += n) {
			n = 1 + (uint32_t)(at + k) * 2654435761u % 300000;
			n = n < length[k] - at ? n : length[k] - at;
			assert_int_equal(direct_write(d, data + at, n), 0);
		}
		assert_int_equal(direct_end(d), 0);
		assert_int_equal(lseek(fd, 0, SEEK_CUR), length[k]);
		assert_int_equal(fcntl(fd, F_GETFL) & O_DIRECT, 0);
		if (length[k] >= PAGE)
			assert_int_equal(cached_pages(fd, length[k] / PAGE * PAGE), 0);
		assert_file(fd, data, length[k]);
		assert_int_equal(write(fd, "tail", 4), 4);
		close(fd);
	}
}

/* A size limit within a block lets a part of a write succeed. direct_write fails when two more buffers are full, direct_end in any case. With the
 * last length nothing is left for direct_end to write, so that only the thread meets the limit. */
static void errors_arrive(void **state)
{
	static const size_t limit[] = {3 * MB, 4 * MB + 100, 9 * MB + PAGE, 17 * MB + 5, 5 * MB}, length[] = {MOST, MOST, MOST, MOST, 8 * MB};
	struct rlimit old;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	for (size_t k = 0; k < sizeof limit / sizeof *limit; k++) {
		struct rlimit low = {limit[k], old.rlim_max};
		int fd = new_file(), rc = 0, last;
		struct direct *d = begin(fd);

		assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
		for (size_t at = 0; !rc && at < length[k]; at += MB)
			rc = direct_write(d, data + at, MB);
		assert_true(!rc || errno == EFBIG);
		assert_true(rc || limit[k] > 9 * MB + PAGE || length[k] < MOST);
		errno = 0;
		last = direct_end(d);
		assert_true(last == -1 && errno == EFBIG);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
		assert_file(fd, data, limit[k]);
		close(fd);
	}
}

/* A large file with its hash, as checkpoints write it. The first is given up, the second is committed. */
static void large_file(void **state)
{
	size_t n = DIRECT_LEAST + 12345;
	char *path = path_join(dir, "large"), hex[65], want[65];
	struct outfile o = {0};
	struct err e = {0};
	struct sha256 sum;
	uint64_t bytes;

	(void)state;
	for (int whole = 0; whole < 2; whole++) {
		sha256_init(&sum);
		assert_int_equal(outfile_open(&o, path, &e), 0);
		o.sum = &sum;
		outfile_expect(&o, n);
		assert_int_equal(outfile_write(&o, "head", 4, &e), 0);
		for (size_t at = 4, some; at < n; at += some) {
			some = n - at < MOST ? n - at : MOST;
			assert_int_equal(outfile_write(&o, data, some, &e), 0);
		}
		if (whole) {
			assert_int_equal(outfile_commit(&o, &e), 0);
		} else {
			outfile_abort(&o);
			assert_int_equal(access(path, F_OK), -1);
		}
	}
	sha256_end(&sum, hex);
	assert_int_equal(sha256_file(path, want, &bytes, &e), 0);
	assert_int_equal(bytes, n);
	assert_string_equal(hex, want);
	assert_int_equal(remove(path), 0);
	mem_free(path);
}

static void full_disk(void **state)
{
	struct outfile o = {0};
	struct err e = {0};
	struct rlimit old, low;
	char *path = path_join(dir, "large"), want[4096];
	int rc = 0;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	low = (struct rlimit){30 * MB, old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
	assert_int_equal(outfile_open(&o, path, &e), 0);
	outfile_expect(&o, DIRECT_LEAST);
	for (size_t at = 0; !rc && at < DIRECT_LEAST; at += 16 * MB)
		rc = outfile_write(&o, data, 16 * MB, &e);
	rc = rc || outfile_commit(&o, &e) ? -1 : 0;
	outfile_abort(&o);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(rc, -1);
	snprintf(want, sizeof want, "%s: write: File too large", path);
	assert_string_equal(e.msg, want);
	assert_int_equal(access(path, F_OK), -1);
	mem_free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(any_length),
	    cmocka_unit_test(errors_arrive),
	    cmocka_unit_test(large_file),
	    cmocka_unit_test(full_disk),
	};
	int rc;

	data = mem_alloc(MOST);
	for (size_t i = 0; i < MOST; i++)
		data[i] = (uint8_t)(i * 2654435761u >> 20);
	rc = cmocka_run_group_tests(tests, make_dir, remove_dir);
	mem_free(data);
	return rc;
}
