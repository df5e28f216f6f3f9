/* The state of reading a set of clips, shared by evalclips.c, which reads them, and evalclipbatch.c, which measures them. */
#ifndef DDM_METRIC_EVALCLIPSIMPL_H
#define DDM_METRIC_EVALCLIPSIMPL_H

#include "data/flow.h"
#include "metric/clipframes.h"
#include "metric/evalclips.h"

enum {
	CLIP_BATCH = 32, /* clips at a time */
	CLIP_CONTENTS = ALTERED_SLOW,
	CLIP_THUMB_SIDE = 16
};

/* A clip of the batch. */
struct evalclips_item {
	char *key;
	void *bytes; /* of its pixels, owned */
	struct clip stored;
	struct clipframes clip;
	float *grey; /* (frames, h, w) for the movement */
	int drawn[CLIP_DRAWS];
	int alter; /* 1: this clip is altered */
	struct err err;
};

/* The state of reading a set. Rows are in reading order until the end. */
struct evalclips_intake {
	struct evalset *s;
	struct evalclips *c;
	const struct evalclips_options *o;
	int width, height; /* of every clip as stored */
	int fps_mixed;
	int w, h; /* of grey frames */
	struct digest *digest;
	int64_t cap;
	struct evalclips_item item[CLIP_BATCH];
	int n;
	size_t bytes;      /* of the batch */
	char (*least)[65]; /* [leasts], sorted: the least digests so far, of the clips that are altered */
	int leasts;
	struct flow **flow;  /* [threads] */
	struct flow **whole; /* [threads]: for frames of the clips' own size */
	int threads;
	int64_t expected;
};

/* Measure the t->n clips of the batch, whose rows begin at t->s->n. ERR_DATA, ERR_NOMEM, or what the networks give. */
int evalclips_batch(struct evalclips_intake *t, struct err *e);

#endif
