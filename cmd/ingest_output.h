/* From decoded frames to what the decoder of ddm-ingest sends: RGB pixels, turned upright; for clips also frames scaled down. */
#ifndef DDM_CMD_INGEST_OUTPUT_H
#define DDM_CMD_INGEST_OUTPUT_H

#include <libavutil/frame.h>
#include <libavutil/rational.h>
#include <libswscale/swscale.h>

#include "cmd/ingest.h"
#include "data/clipgrid.h"

/* Zero-initialise and set put, arg and limits. */
struct output {
	frame_put *put;
	void *arg;
	const struct decode_limits *limits;
	int quarter_turns;             /* clockwise turns of the frames, 0 to 3 */
	struct SwsContext *sws, *down; /* to RGB; to RGB scaled down */
	uint8_t *rgb, *rotated;        /* (height, width, 3); rotated is NULL without turns */
	uint8_t *small;                /* (small_height, small_width, 3) */
	int width, height;             /* of rgb */
	int small_of[2];               /* width and height of the frames that `small` was made for */
	int small_width, small_height;
	uint8_t *planes;         /* of a frame that is sent so */
	int planes_of[3];        /* width, height and format of the frames that `planes` was made for */
	uint64_t index, decoded; /* frames sent; frames added */
	struct clipgrid grid;    /* for clips */
	int64_t start;           /* the file's beginning, nanoseconds */
	AVFrame *held;           /* for clips: the frame that waits for its end */
};

/* Set the unit of the file's times and the usual frame rate, 0/1 if it is not known. */
void output_rate(struct output *o, AVRational unit, AVRational rate);

/* Add the next frame in order of display, whose data may be moved; unit is that of its times, start the file's beginning in microseconds. 0; 1 if no
 * more frames are wanted; -1 on error. */
int output_add(struct output *o, AVFrame *f, AVRational unit, int64_t start, struct err *e);
/* After the last frame. */
int output_end(struct output *o, struct err *e);
void output_release(struct output *o);

#endif
