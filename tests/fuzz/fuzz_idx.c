/* Any bytes as an idx file of pictures and its labels: as they are, with names that end with .gz, and with corrected numbers in their headers. The
 * first byte says how many 256ths of the other bytes are the pictures. */
#include <stdlib.h>
#include <string.h>

#include "data/samples.h"
#include "tests/fuzz/folder.h"
#include "tests/fuzz/replay.h"

static void use(const char *pictures, const void *x, size_t n, const char *labels, const void *y, size_t len)
{
	const char *const operand = folder_path(NULL);
	struct samples_options o = {.skip_bad = 1, .max_member = 1 << 20};
	struct err e = {0};
	struct samples *s;
	struct sample one;
	int rc = 0;

	folder_put(pictures, x, n);
	folder_put(labels, y, len);
	s = samples_open(&operand, 1, &o, &e);
	while (s && (rc = samples_next(s, &one, &e)) == 1)
		if (!sample_picture(&one))
			abort();
	if ((!s || rc < 0) && e.code != ERR_DATA && e.code != ERR_NOINPUT)
		abort();
	samples_close(s);
	folder_put(pictures, NULL, 0);
	folder_put(labels, NULL, 0);
}

static void put_be32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (24 - 8 * i));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	enum { HEAD = 16, LABELS = 8 };
	size_t half = n ? (n - 1) * data[0] / 256 : 0, rest = n ? n - 1 - half : 0;
	const uint8_t *x = data + (n > 0), *y = x + half;

	use("a-images-idx3-ubyte", x, half, "a-labels-idx1-ubyte", y, rest);
	use("a-images-idx3-ubyte.gz", x, half, "a-labels-idx1-ubyte.gz", y, rest);
	if (half > HEAD && rest > LABELS) {
		uint8_t *p = malloc(half), *q = malloc(rest);
		uint32_t w = 1 + x[15] % 8, h = 1 + x[11] % 8, count = (uint32_t)((half - HEAD) / (w * h));

		memcpy(p, x, half);
		memcpy(q, y, rest);
		put_be32(p, 2051);
		put_be32(p + 4, count);
		put_be32(p + 8, h);
		put_be32(p + 12, w);
		put_be32(q, 2049);
		put_be32(q + 4, (uint32_t)(rest - LABELS));
		use("a-images-idx3-ubyte", p, HEAD + (size_t)count * w * h, "a-labels-idx1-ubyte", q, rest);
		free(p);
		free(q);
	}
	return 0;
}

REPLAY_MAIN("tests/fuzz/corpus/idx")
