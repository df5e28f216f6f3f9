/* The list of prompts of a request, given directly or read from a file. */
#ifndef DDM_SAMPLE_PROMPTS_H
#define DDM_SAMPLE_PROMPTS_H

#include <stdint.h>

#include "core/err.h"

struct prompt {
	char *text;     /* UTF-8 */
	char *negative; /* NULL: the request's negative prompt */
	uint64_t seed;
	int seeded; /* 1: `seed` is set and replaces the request's */
};

struct prompts {
	struct prompt *v;
	int64_t n;
};

/* Add the prompts of a file ("-": standard input) to *p, one per line. If the first byte is '{', each line is a JSON object with "prompt" and
 * optionally "negative" (or "negative_prompt") and "seed"; other keys are ignored. An empty line is the empty prompt. ERR_DATA names the line
 * that is not UTF-8 or has a wrong type; an empty file is ERR_DATA too. Release with prompts_release, after failure too. */
int prompts_load(struct prompts *p, const char *path, struct err *e);
void prompts_add(struct prompts *p, const char *text);
void prompts_hash(const struct prompts *p, char hex[65]); /* SHA-256 of texts, negative prompts and seeds, in order */
void prompts_release(struct prompts *p);

#endif
