/* The times at which a video is sampled for clips, and which frame is shown at each. All times are in nanoseconds.
 *
 * Target j lies j / rate after the first frame. The frame of a target is the one that is shown then: the last whose time is not after it. A frame can
 * thus be taken several times, or not at all; the steps between targets are equal also if the frame rate of the file varies. */
#ifndef DDM_DATA_CLIPGRID_H
#define DDM_DATA_CLIPGRID_H

#include <stdint.h>

#define CLIPGRID_UNKNOWN INT64_MIN
#define CLIPGRID_SECOND ((int64_t)1000000000)

/* A frame that stays longer than this, or times that go back by more than CLIPGRID_BACK, are a gap: what follows is another segment. */
#define CLIPGRID_GAP (10 * CLIPGRID_SECOND)
#define CLIPGRID_BACK CLIPGRID_SECOND

/* Zero-initialise, then set rate and slack. */
struct clipgrid {
	double rate;      /* targets per second */
	int64_t slack;    /* a frame counts as shown this much before its time: the rounding of times in the file, see clipgrid_slack */
	int64_t origin;   /* time of the first frame */
	int64_t shift;    /* added to the file's times, since they went back */
	int64_t time;     /* of the frame that waits for its end */
	int64_t length;   /* its duration by the file, or by the frames before it */
	uint64_t next;    /* the next target */
	uint64_t segment; /* number of gaps before the frame that waits */
	int any;          /* 1: a frame waits */
};

/* Frame shown at `targets` targets from `first` on. */
struct clipgrid_shown {
	int64_t time, length; /* of the frame; length: until the next frame, or its duration */
	uint64_t first, targets, segment;
};

/* The slack for a file whose unit of time is this long: one unit, at least a microsecond and at most a millisecond. Matroska rounds times to
 * milliseconds; two roundings can add up to one unit. */
int64_t clipgrid_slack(int64_t unit);

/* Add the next frame in order of display, with its time and duration by the file (CLIPGRID_UNKNOWN: missing; 0: no duration). Returns 1 and *shown
 * for the frame before it, 0 if it is the first. */
int clipgrid_add(struct clipgrid *g, int64_t time, int64_t length, struct clipgrid_shown *shown);

/* After the last frame: 1 and *shown for it, 0 if there was no frame. */
int clipgrid_end(struct clipgrid *g, struct clipgrid_shown *shown);

#endif
