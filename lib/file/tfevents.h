/* Writes the records of a TensorBoard event file: messages of tfevents.proto, each framed by its length and two CRC-32C. */
#ifndef DDM_FILE_TFEVENTS_H
#define DDM_FILE_TFEVENTS_H

#include <stdint.h>

#include "core/err.h"
#include "core/str.h"

/* 0 if this build can write such files; -1 and ERR_UNAVAILABLE, saying what it needs, if not. The functions below then add nothing. */
int tfevents_available(struct err *e);

/* Append the first two records of a file: the version of the format, and the start of a session that goes on with `step`. Readers drop what earlier
 * files of the folder hold of that step and later ones. `time`: seconds since 1970. */
void tfevents_begin(struct str *out, double time, int64_t step);

/* Append a record of n numbers of a step: (n) tags and values, which may be NaN. */
void tfevents_numbers(struct str *out, double time, int64_t step, const char *const *tag, const double *value, int n);

/* 1 if the file begins as one of tfevents_begin does. */
int tfevents_sniff(const void *data, size_t len);

#endif
