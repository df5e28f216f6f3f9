/* What closes a shard: how the two skippable frames at its end are laid out. Shared by reader and writer; callers use
 * file/shard.h.
 *
 * All integers little-endian. After the zstd frames 0 .. F-1:
 *
 *   u32 0x184D2A5B, u32 size            our index, a skippable frame
 *     "DDMSHRD1"
 *     F x { u64 XXH3-64 of the frame's compressed bytes }
 *     N x { u32 frame, u32 offset in the frame, u32 bytes of tar, u32 length of key, key }
 *     end record: u64 F, u64 N, u64 compressed bytes of the frames, u64 uncompressed bytes,
 *                 u64 XXH3-64 of the uncompressed stream, u64 XXH3-64 of everything else in the two skippable frames
 *   u32 0x184D2A5E, u32 size            seek table, zstd's seekable format 0.1.0
 *     F x { u32 compressed, u32 uncompressed, u32 low half of XXH64 of the uncompressed frame }
 *     u32 F, u8 0x80 (checksums), u32 0x8F92EAB1 */
#ifndef DDM_FILE_SHARDINDEX_H
#define DDM_FILE_SHARDINDEX_H

#include <stdint.h>

enum {
	SHARD_INDEX_MAGIC = 0x184D2A5B,
	SHARD_TABLE_MAGIC = 0x184D2A5E,
	SHARD_END_BYTES = 48, /* end record */
	SHARD_FOOT_BYTES = 9, /* of the seek table */
	SHARD_ENTRY_BYTES = 12
};

#define SHARD_SEEK_MAGIC 0x8F92EAB1u
#define SHARD_NAME "DDMSHRD1"

static inline uint32_t shard_get32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t shard_get64(const uint8_t *p)
{
	return shard_get32(p) | (uint64_t)shard_get32(p + 4) << 32;
}

static inline void shard_put32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

static inline void shard_put64(uint8_t *p, uint64_t v)
{
	shard_put32(p, (uint32_t)v);
	shard_put32(p + 4, (uint32_t)(v >> 32));
}

#endif
