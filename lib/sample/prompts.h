/* Prompts, from a request and from files. */
#ifndef DDM_SAMPLE_PROMPTS_H
#define DDM_SAMPLE_PROMPTS_H

#include <stdint.h>

#include "core/err.h"

struct prompt {
	char *text;     /* UTF-8 */
	char *negative; /* NULL: that of the request */
	uint64_t seed;
	int seeded;     /* has a seed of its own */
};

struct prompts {
	struct prompt *v;
	int64_t n;
};

/* One prompt a line ("-": standard input); or, where the first byte is '{', one JSON object a line with "prompt" and, if wanted, "negative"
 * (or "negative_prompt") and "seed"; other keys are left alone. An empty line is the empty prompt. No line at all, no UTF-8, other
 * types: ERR_DATA naming the line. Added to *p; prompts_release, after failure too. */
int prompts_load(struct prompts *p, const char *path, struct err *e);
void prompts_add(struct prompts *p, const char *text);
void prompts_hash(const struct prompts *p, char hex[65]); /* SHA-256 of texts, negative prompts and seeds, in order */
void prompts_release(struct prompts *p);

#endif
