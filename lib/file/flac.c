/* Parses the head of a FLAC file: the mark "fLaC", then a block header of 4 bytes, then STREAMINFO (RFC 9639, section 8.2), 34 bytes. */
#include "file/flac.h"

#include <string.h>

enum { BLOCK_AT = 4, INFO_AT = 8, INFO_BYTES = 34 };

int flac_sniff(const void *data, size_t len)
{
	return len >= BLOCK_AT && !memcmp(data, "fLaC", BLOCK_AT);
}

int flac_parse(struct flac_info *f, const void *data, size_t len, const char *name, struct err *e)
{
	const uint8_t *p = data, *info = p + INFO_AT;
	uint64_t packed = 0;

	if (!flac_sniff(data, len) || len < INFO_AT + INFO_BYTES)
		return err_set(e, ERR_DATA, "%s: %s", name, flac_sniff(data, len) ? "FLAC without its whole head" : "not a FLAC file");
	if ((p[BLOCK_AT] & 0x7f) || p[5] || p[6] || p[7] != INFO_BYTES)
		return err_set(e, ERR_DATA, "%s: FLAC whose first block is not STREAMINFO", name);
	/* 64 bits behind the sizes of blocks and frames: 20 of the rate, 3 of the channels less 1, 5 of the bits less 1, 36 of the number of samples */
	for (int i = 0; i < 8; i++)
		packed = packed << 8 | info[10 + i];
	*f = (struct flac_info){.rate = (int)(packed >> 44),
	                        .channels = (int)(packed >> 41 & 7) + 1,
	                        .bits = (int)(packed >> 36 & 31) + 1,
	                        .samples = (int64_t)(packed & 0xfffffffff)};
	if (!f->rate || f->bits < 4)
		return err_set(e, ERR_DATA, "%s: FLAC with a rate of %d and %d bits a sample", name, f->rate, f->bits);
	return 0;
}
