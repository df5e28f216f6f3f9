/* Choices by time on a GPU, for products (kernels/cublaslt.h) and for attention (kernels/cudnn.h): the measurement, and the file of choices.
 *
 * Several processes may share a tuning file. It is text: a first line that names the format, the GPU and the library, then a line for each choice,
 * with its key, its words in hexadecimal and its numbers. */
#ifndef DDM_KERNELS_TUNING_H
#define DDM_KERNELS_TUNING_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "file/runlock.h"

struct cublaslt_host;

/* Time n ways to compute the same on a stream, and return the index of the fastest, or -1 if none runs. run(arg, i) submits way i; other than 0:
 * it fails. seconds[i]: the least time of a run of way i; INFINITY: it does not run. */
int tuning_race(const struct cublaslt_host *h, int stream, int (*run)(void *arg, int i), void *arg, int n, double *seconds);

/* 0 for INFINITY. */
int64_t tuning_nanoseconds(double seconds);

struct tuning {
	const char *format;                 /* the name and version of the format, such as "ddm-tuning 2"; borrowed */
	char *gpu, *library;                /* owned; a file of others is not read */
	int keys, words, numbers;           /* of a choice */
	int (*valid)(const int64_t *value); /* NULL, or 0 for words and numbers that cannot be, which make the file a damaged one */
	char *path;                         /* NULL before tuning_open */
	int64_t *rows;                      /* [n][keys + words + numbers] */
	size_t n;
	struct runlock lock;
};

/* library: the name of a library, to which its version is added. Release with tuning_release. */
void tuning_init(struct tuning *t, const char *gpu, const char *library, size_t version);
void tuning_release(struct tuning *t);

/* Forget all choices, and read those in the file at `path`, where later ones are stored. Returns how many there are; a damaged file has none. */
size_t tuning_open(struct tuning *t, const char *path);
/* The same in a folder, under a name made of GPU and library. */
size_t tuning_open_in(struct tuning *t, const char *dir);

/* The words and numbers stored for a key, or NULL; borrowed until the next choice is stored. */
const int64_t *tuning_find(const struct tuning *t, const int64_t *key);

/* Store a choice, in two steps between which other processes wait. tuning_begin returns what another process has stored for the key since, or NULL.
 * tuning_end stores `value` for the key, or with NULL leaves the key as it is, and writes the file. */
const int64_t *tuning_begin(struct tuning *t, const int64_t *key);
int tuning_end(struct tuning *t, const int64_t *key, const int64_t *value, struct err *e);

#endif
