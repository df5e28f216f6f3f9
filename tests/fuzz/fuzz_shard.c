/* Any bytes as a shard: as they are, and with corrected hashes of index and frames, so that the rest of the reader is reached. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/mem.h"
#include "file/fileio.h"
#include "file/shard.h"
#include "file/shardindex.h"
#include "tests/fuzz/replay.h"

static void use(const uint8_t *data, size_t len)
{
	int fd = memfd_create("fuzz", 0);
	struct err e = {0};
	struct shard *s;
	char path[64];

	if (fd < 0 || fd_write(fd, data, len))
		abort();
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	s = shard_open(path, &e);
	if (!s && e.code != ERR_DATA)
		abort();
	for (int64_t i = 0; s && i < shard_count(s); i++) {
		struct shard_sample x;
		size_t bytes = 0;

		if (shard_read(s, i, &x, NULL))
			continue;
		for (int k = 0; k < x.members; k++)
			for (size_t b = 0; b < x.member[k].size; b++)
				bytes += x.member[k].data[b];
		shard_sample_release(&x);
		if (bytes == SIZE_MAX)
			abort();
	}
	if (s)
		shard_verify(s, NULL);
	shard_free(s);
	close(fd);
}

static void mend(uint8_t *p, size_t len)
{
	XXH3_state_t *h;
	uint64_t frames, table, index, at = 0;

	if (len < SHARD_FOOT_BYTES + 8 + SHARD_END_BYTES)
		return;
	frames = shard_get32(p + len - SHARD_FOOT_BYTES);
	table = 8 + frames * SHARD_ENTRY_BYTES + SHARD_FOOT_BYTES;
	if (table + SHARD_END_BYTES > len)
		return;
	table = len - table;
	index = shard_get64(p + table - SHARD_END_BYTES + 16);
	if (index > table - SHARD_END_BYTES || table - index < 16 + 8 * frames + SHARD_END_BYTES)
		return;
	for (uint64_t i = 0; i < frames; i++) {
		uint64_t n = shard_get32(p + table + 8 + i * SHARD_ENTRY_BYTES);

		if (n > index - at)
			break;
		shard_put64(p + index + 16 + 8 * i, XXH3_64bits(p + at, n));
		at += n;
	}
	h = XXH3_createState();
	XXH3_64bits_reset(h);
	XXH3_64bits_update(h, p + index, table - 8 - index);
	XXH3_64bits_update(h, p + table, len - table);
	shard_put64(p + table - 8, XXH3_64bits_digest(h));
	XXH3_freeState(h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	uint8_t *copy = memcpy(mem_alloc(len), data, len);

	use(data, len);
	mend(copy, len);
	use(copy, len);
	mem_free(copy);
	return 0;
}

REPLAY_MAIN("tests/fuzz/corpus/shard")
