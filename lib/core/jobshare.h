/* The part of a work that one of several jobs does, each given the same inputs: option --shard I/N. The jobs need nothing of each other: whether a
 * source belongs to a job follows from its key alone, so that more sources move no other. */
#ifndef DDM_CORE_JOBSHARE_H
#define DDM_CORE_JOBSHARE_H

#include <stdint.h>

#include "core/err.h"

struct job_share {
	int64_t index, count; /* 0 <= index < count; count 0: one job does everything */
};

enum { JOBSHARE_MOST = 1000000 };

/* The parse function of the option (core/option.h): "I/N" with 0 <= I < N <= JOBSHARE_MOST, else ERR_USAGE. field: struct job_share. */
int jobshare_parse(void *field, const char *label, const char *text, struct err *e);

/* 1 if the source of this key belongs to the job: its XXH3-64 modulo N is I. */
int jobshare_takes(const struct job_share *s, const char *key);

#endif
