/* Reads what the head of a FLAC file (RFC 9639) says of its sound. The sound itself is not decoded. */
#ifndef DDM_FILE_FLAC_H
#define DDM_FILE_FLAC_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct flac_info {
	int rate;        /* samples a second, of each channel */
	int channels;    /* 1 to 8 */
	int bits;        /* of a sample, 4 to 32 */
	int64_t samples; /* of each channel; 0: not known */
};

/* 1 if the bytes begin like a FLAC file. */
int flac_sniff(const void *data, size_t len);

/* Parse the block STREAMINFO. ERR_DATA if it is damaged or cut. `name` is used in messages. */
int flac_parse(struct flac_info *f, const void *data, size_t len, const char *name, struct err *e);

#endif
