/* Any bytes as .npy, as .npz, and as features of texts. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/mem.h"
#include "data/textarray.h"
#include "file/npy.h"
#include "tests/fuzz/replay.h"

static void convert(const struct npy *a)
{
	size_t n = (size_t)npy_count(a);
	double *d = mem_alloc(n * sizeof *d);
	int64_t *i = mem_alloc(n * sizeof *i);
	float *f = mem_alloc(n * sizeof *f);

	npy_to_f64(d, a);
	npy_to_f32(f, a);
	npy_to_i64(i, a, "fuzz", NULL);
	mem_free(d);
	mem_free(i);
	mem_free(f);
}

static void as_zip(const uint8_t *data, size_t len)
{
	int fd = memfd_create("fuzz", 0);
	struct err e = {0};
	char path[64];
	struct npz *z;

	if (fd < 0 || fd_write(fd, data, len))
		abort();
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	z = npz_load(path, &e);
	if (!z && e.code != ERR_DATA)
		abort();
	for (int i = 0; z && i < npz_entries(z); i++)
		convert(npz_find(z, npz_name(z, i)));
	npz_free(z);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct err e = {0};
	struct textarray t;
	struct npy a;

	if (!npy_parse(&a, data, len, "fuzz", &e))
		convert(&a);
	else if (e.code != ERR_DATA)
		abort();
	as_zip(data, len);
	e = (struct err){0};
	if (textarray_parse(&t, data, len, "fuzz", &e) && e.code != ERR_DATA)
		abort();
	for (int64_t i = 0; t.length && !e.code && i < t.a.shape[0]; i++)
		if (t.length[i] < 1 || t.length[i] > t.a.shape[1])
			abort();
	textarray_release(&t);
	return 0;
}

REPLAY_MAIN("tests/fuzz/corpus/npy")
