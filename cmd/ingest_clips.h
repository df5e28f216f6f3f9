/* Clips: runs of F frames, evenly spaced in time, of one shot. The decoder sends the frames that are shown at the targets (data/clipgrid.h), and
 * every frame scaled down; here the shots are found, and each run of F targets within a shot is made a clip. */
#ifndef DDM_CMD_INGEST_CLIPS_H
#define DDM_CMD_INGEST_CLIPS_H

#include "cmd/ingest.h"
#include "data/letterbox.h"
#include "cmd/ingest_sound.h"
#include "data/cues.h"

/* A decoded frame that clips may share. */
struct clip_frame {
	struct picture p; /* as decoded; already resized if it is not cropped */
	struct frame_facts f;
	int users;
};

/* F frames that are to become a sample. */
struct shot_clip {
	struct clip_frame **frames; /* (n), a reference to each; the same one again where a frame is shown at several targets */
	int n;
	uint64_t item;         /* the instance of the graph; 0 of a file */
	uint64_t target;       /* of the first frame */
	double start;          /* seconds since the beginning of the file */
	int64_t shot;          /* number of the shot in the file, from 0 */
	int width, height;     /* of a frame of the source, without its bars */
	struct letterbox bars; /* of the frames so far; width 0: no cropping */
	int x, y;              /* of the content */
	double sound;          /* share of its time for which the film has sound */
	uint8_t *flac;         /* its sound, owned, or NULL */
	size_t flac_bytes;
	int has_sound; /* its sample has a member of sound */
};

/* What belongs to all clips of a source. */
struct clip_source {
	const struct job *job;
	const struct work_options *options;
	struct item beside; /* members from the files beside a video */
	struct cues cues;   /* of its subtitles */
	int has_cues;
	struct sounder *sound; /* NULL: no sound */
};

/* Read the files beside the video; graphs have none. Release with clip_source_release, also after failure. */
int clip_source_open(struct clip_source *s, const struct job *j, const struct work_options *o, struct err *e);
void clip_source_release(struct clip_source *s);

/* With --sound, ask for the sound of a clip's time. Runs in the thread that opened the source: the kernel ends a decoder with the thread that started
 * it. */
int clip_listen(const struct clip_source *s, struct shot_clip *c, struct err *e);

/* Crop, resize and score the frames of a clip, and make its sample, which takes over the sound. Runs in a thread of its own. */
int clip_make(struct item *it, const struct clip_source *s, struct shot_clip *c, struct err *e);

#endif
