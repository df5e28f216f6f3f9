/* Reads a set of clips (moving pictures) and computes, for each clip, what the metrics of clips compare: features of single frames, features of the
 * movement, and scores.
 *
 * A clip is a sample with the member npy, bytes of the shape (frames, channels, height, width) with 1 or 3 channels. All clips of a set have
 * one shape. Content and movement are kept apart: features of frames are taken from frames drawn without regard to their order in time, and
 * features of the movement from the optical flow. */
#ifndef DDM_METRIC_EVALCLIPS_H
#define DDM_METRIC_EVALCLIPS_H

#include <stdint.h>

#include "core/err.h"
#include "metric/evalset.h"
#include "net/i3d.h"

/* Altered clips, whose distance to unaltered ones shows what a metric sees. */
enum altered {
	ALTERED_SHUFFLED, /* the frames in a random order */
	ALTERED_REVERSED, /* the last frame first */
	ALTERED_FROZEN,   /* one frame of the clip, drawn at random, for all of them */
	ALTERED_SLOW,     /* every frame of the first half twice */
	ALTERATIONS
};

extern const char *const altered_names[ALTERATIONS + 1]; /* "shuffled" ..., NULL-terminated */

enum {
	ALTERED_CLIPS = 256, /* so many clips of a set are altered: the first ones in the order of the set */
	CLIP_MOMENTS = 4,    /* frames of a thumbnail, at equal distances from the first to the last */
	CLIP_DRAWS = 4       /* frames of a clip whose features are computed, unless it has fewer */
};

enum clip_part {
	CLIP_CONTENT = 1,
	CLIP_MOTION = 2,
	CLIP_FLICKER = 4,
	CLIP_WARP = 8,
	CLIP_THUMBS = 16,
	CLIP_FVD = 32,
	CLIP_EMBEDDING = 64
}; /* what to compute */

/* Rows are in the order of the evalset that was read with them. Arrays that were not asked for are NULL. All are owned. */
struct evalclips {
	int drawn;                       /* frames of each clip in `content` */
	float *content;                  /* (n, drawn, dims of the set's recipe) */
	float *motion;                   /* (n, MOTION_DIMS) */
	double *flicker, *warp;          /* (n) */
	float *fvd;                      /* (n, I3D_CLASSES): mean logits of the first I3D_FRAMES frames */
	float *embedding;                /* (n, dims): the mean over all frames of the features scaled to unit length */
	int thumb;                       /* bytes of one thumbnail */
	uint8_t *thumbs;                 /* (n, thumb): CLIP_MOMENTS frames in their order, as RGB box means on 16 x 16 */
	float *content_of[ALTERED_SLOW]; /* `content` of altered clips; rows from ALTERED_CLIPS on are not meaningful */
	float *motion_of[ALTERATIONS];   /* the same of `motion` */
};

struct evalclips_options {
	const struct evalset_options *set; /* as for pictures; cache and taps have no effect */
	struct i3d *i3d;                   /* for CLIP_FVD; borrowed */
	unsigned parts;                    /* CLIP_CONTENT | ... */
	int alter;                         /* 1: also compute content_of and motion_of */
};

/* Read the clips of `source` (data/samples.h; SHARDS:holdout and so on as evalset_read) into *s, which receives the recipe, the number and the hash,
 * and *c. Errors: ERR_DATA for a sample that is no clip of bytes, for clips that are too small or differ in shape; those of samples_open. Release
 * both also after a failure. */
int evalclips_read(struct evalset *s, struct evalclips *c, const char *source, const struct evalclips_options *o, struct err *e);
void evalclips_release(struct evalclips *c); /* a zeroed one is allowed */

/* 1 if the first sample of `source` is a clip. 0 otherwise, also if it cannot be read, and for standard input. */
int evalclips_peek(const char *source, const struct evalset_options *o);

#endif
