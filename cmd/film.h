/* Films: clips shown one by one or side by side, as mp4, webm, gif, animated webp, or a png with the frames in rows. The parts of ddm-play. */
#ifndef DDM_CMD_FILM_H
#define DDM_CMD_FILM_H

#include <stdint.h>

#include "core/err.h"
#include "core/option.h"
#include "core/str.h"
#include "file/still.h"

enum film_format { FILM_MP4, FILM_WEBM, FILM_GIF, FILM_WEBP, FILM_PNG, FILM_FORMATS };
extern const char *const film_formats[]; /* their names, which are also the endings of files; ends with NULL */

struct film_request {
	const char *out; /* a file, "-", or a folder if it ends with a slash */
	int format;      /* enum film_format, or FILM_FORMATS: by the ending of `out` */
	double fps;      /* frames a second; 0: those of the first clip */
	int64_t scale;   /* whole factor that frames are enlarged by; 0: to at least FILM_SIDE pixels */
	int64_t columns; /* clips in a row of one film; 0: a square */
	int64_t max;     /* most clips */
	int spread;      /* clips at equal distances over all sources, not the first */
	int quiet;
	const char *const *source; /* samples (n) */
	int n;
};

enum { FILM_SIDE = 128, FILM_RATE = 8 /* frames a second of a clip that does not say */ };

extern const struct option film_options[];
struct film_request film_defaults(void);

/* Make the film or films. An output that stands with the same stamp is left alone. ERR_DATA if there is no clip, or clips of unequal size for one
 * film. */
int film_make(const struct film_request *q, struct err *e);

/* Frames of a film, one after the other: 0 and *p, which the caller frees with picture_release. */
typedef int film_frame(void *arg, int64_t i, struct picture *p, struct err *e);

/* Encode n frames of one size as "mp4", "webm" or "gif", by the program film-encoder, which links FFmpeg: the file's bytes are appended to *out.
 * ERR_UNAVAILABLE if it cannot be started or lacks an encoder. */
int film_encode(struct str *out, const char *format, int64_t n, double fps, film_frame *frame, void *arg, struct err *e);

/* Append the versions of FFmpeg's libraries in that program: another version may write other bytes, so stamps hold them. */
int film_versions(struct str *out, struct err *e);

/* The first argument of film-encoder that makes it print them. */
#define FILM_ENCODER "film-encoder"
#define FILM_VERSIONS "--versions"

#endif
