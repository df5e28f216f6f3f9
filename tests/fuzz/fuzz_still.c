/* Any bytes as a picture. A PNG is also read with corrected checksums, which mutations seldom hit. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/hash.h"
#include "core/mem.h"
#include "file/still.h"
#include "tests/fuzz/replay.h"

static const struct still_limits limits = {1 << 18, 32 << 20};

static void decode(const uint8_t *data, size_t len, int want)
{
	struct err e = {0};
	struct picture p;
	int w, h;

	still_size(data, len, "fuzz", &w, &h, NULL);
	if (still_decode(&p, data, len, "fuzz", want, &limits, &e)) {
		if (e.code != ERR_DATA)
			abort();
		return;
	}
	if (p.channels != want || (int64_t)p.width * p.height > limits.max_pixels)
		abort();
	/* Read every pixel. */
	if (hash64(p.pixels, (size_t)p.width * p.height * want) == 1)
		abort();
	picture_release(&p);
}

static void checksums_repair(uint8_t *p, size_t len)
{
	for (size_t at = 8; len - at >= 12;) {
		size_t n = (size_t)p[at] << 24 | p[at + 1] << 16 | p[at + 2] << 8 | p[at + 3];
		uint32_t crc;

		if (n > len - at - 12)
			break;
		crc = (uint32_t)crc32(0, p + at + 4, (unsigned)n + 4);
		for (int i = 0; i < 4; i++)
			p[at + 8 + n + i] = (uint8_t)(crc >> (24 - 8 * i));
		at += 12 + n;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	decode(data, len, 3);
	decode(data, len, 1);
	if (still_sniff(data, len) == STILL_PNG) {
		uint8_t *copy = memcpy(mem_alloc(len), data, len);

		checksums_repair(copy, len);
		decode(copy, len, 3);
		mem_free(copy);
	}
	return 0;
}

REPLAY_MAIN("tests/golden/stills")
