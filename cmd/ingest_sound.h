/* The sound of clips. A decoder process of its own (cmd/ingest_decoder.c) decodes the sound of a film in the same sandbox as the frames, converts it
 * to one rate and layout, and answers questions for intervals of it with FLAC. Intervals are asked for in order of their beginnings, so that the
 * decoder goes through the film once and holds one interval at a time. */
#ifndef DDM_CMD_INGEST_SOUND_H
#define DDM_CMD_INGEST_SOUND_H

#include <stdint.h>

#include "cmd/ingest.h"

/* argv[1] of a decoder that serves sound; `bare` as DECODER_BARE. Then RATE CHANNELS MEMORY MOST: MOST is the largest `count` of a question. */
#define SOUND_SERVE "--serve-sound"
#define SOUND_BARE "--serve-sound-bare"

enum { SOUND_RATE_LEAST = 8000, SOUND_RATE_MOST = 96000, SOUND_CHANNELS_MOST = 2, SOUND_SECONDS_MOST = 300 /* of a clip */ };

/* Sound whose time stamp differs by at most this from the end of the sound before goes on from there; otherwise its stamp counts. */
#define SOUND_SLACK .02 /* seconds */
/* A clip whose interval lacks more sound than this gets none. */
#define SOUND_LACK .1 /* seconds */

#define SOUND_MAGIC 0x31444e53u

/* A question, on the decoder's standard input: the samples [first, first + count) at RATE, counted from time 0 of the file's own clock. `first` must
 * not be less than in the question before. */
struct sound_ask {
	uint64_t magic;
	int64_t first, count;
};

enum sound_kind {
	SOUND_CLIP = 1, /* the answer: `size` bytes of FLAC, 0 if the interval lacks too much sound */
	SOUND_BUSY,     /* comes now and then while the decoder gets on; size 0 */
	SOUND_NOTE,     /* before the first answer: why the file has no sound that can be decoded; a text */
	SOUND_FAILED    /* the end; a text */
};

/* The header of each message of the decoder, on its standard output. `size` bytes follow. */
struct sound_head {
	uint64_t magic, kind, size;
	int64_t present; /* of SOUND_CLIP: samples of the interval that are in the film; of SOUND_FAILED: the error code */
};

/* Serve sound: decodes the file on DECODER_MEDIA_FD until standard input ends. For the decoder's main(), after it entered the sandbox. Returns the
 * exit status. */
int sound_serve(int rate, int channels, int64_t most);
/* The last message of a decoder that cannot serve. Returns its exit status. */
int sound_fail(const struct err *e);

/* The parent's side. */
struct sounder;

/* The samples of sound of a clip: those of its time, rounded to a whole number, but at least one. */
int64_t sound_samples(const struct clip_options *o, double fps);

/* Memory in bytes that the decoder of sound may use, for clips of n frames at `fps`. */
uint64_t sound_memory(const struct sound_options *o, int64_t frames, double fps);

/* Start a decoder of the sound of the file on descriptor `fd`, which stays the caller's. ERR_UNAVAILABLE if it cannot be started. `name` is used in
 * messages, and borrowed like l. Close with sounder_close. */
struct sounder *sounder_open(int fd, const char *name, const struct sound_options *o, const struct decode_limits *l, uint64_t memory, int64_t most,
                             struct err *e);
/* The sound of the samples [first, first + count): *flac (caller frees with mem_free; NULL if the interval lacks too much sound) and its *len, and
 * *present, the share of the interval for which the film has sound. ERR_DATA: the decoder crashed, gives nothing for `timeout`, or sends nonsense. */
int sounder_ask(struct sounder *s, uint8_t **flac, size_t *len, double *present, int64_t first, int64_t count, int (*stop)(void), struct err *e);
/* Why no sound of the file can be decoded, or NULL; borrowed. Known after the first question. */
const char *sounder_note(const struct sounder *s);
void sounder_close(struct sounder *s); /* NULL is allowed */

#endif
