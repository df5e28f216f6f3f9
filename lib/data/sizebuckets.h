/* Resolution buckets: a list of picture sizes, of which each picture takes the one that fits it best, so that every batch can be of one size without
 * cutting much off. */
#ifndef DDM_DATA_SIZEBUCKETS_H
#define DDM_DATA_SIZEBUCKETS_H

#include <stdint.h>

#include "core/err.h"
#include "file/stamp.h"

enum { BUCKETS_MOST = 64, BUCKET_SIDE_MOST = 16384 };

struct buckets {
	int n; /* 0: none */
	struct bucket {
		int width, height;
	} v[BUCKETS_MOST];
};

/* Parse sizes with commas between, each WxH, or N for NxN. ERR_USAGE if one is malformed or given twice; the caller prefixes the option's name. */
int buckets_parse(const char *text, struct buckets *b, struct err *e);
/* The same for an option whose field is a struct buckets (core/option.h), and its entry in a stamp. */
int buckets_option(void *field, const char *label, const char *text, struct err *e);
void buckets_stamp(struct stamp *s, const char *key, const void *field);

/* The bucket of a picture of w x h pixels: that whose ratio of width to height is nearest, as measured by the logarithm. Of several with one ratio,
 * the largest that the picture need not be enlarged for; if there is none, the smallest. The first of equals. b->n > 0. */
struct bucket bucket_for(const struct buckets *b, int w, int h);
/* The bucket with the most pixels; 0 x 0 if there is none. */
struct bucket bucket_largest(const struct buckets *b);

enum { BUCKET_TEXT = 24 };
/* "640x360"; returns text. */
const char *bucket_text(struct bucket b, char text[BUCKET_TEXT]);

#endif
