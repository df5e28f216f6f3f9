/* Subtitles: the text that is shown during a time, from SubRip (.srt) and WebVTT (.vtt). The two differ little, and files mix them, so one parser
 * reads both. */
#ifndef DDM_DATA_CUES_H
#define DDM_DATA_CUES_H

#include <stddef.h>

#include "core/err.h"
#include "core/str.h"

struct cue {
	double start, end; /* seconds; shown from start to before end */
	double latest;     /* the greatest end of this and all earlier cues */
	size_t at, len;    /* of its text in cues.text */
};

/* Zero-initialised is empty. */
struct cues {
	struct cue *v; /* (n), by start; cues of equal start in the order of the file */
	size_t n;
	struct str text;
};

enum { CUES_MOST = 200000 };

/* Parse the text of a file. A cue is a line "START --> END", with times [HH:]MM:SS.mmm or with a comma, and the lines up to the next empty line.
 * Tags <...> and {\...} are dropped, &amp; &lt; &gt; &nbsp; and the like replaced, white space is made one blank, and bytes that are not UTF-8 become
 * '?'. Cues without text, or whose end is not after their start, are left out, and so is everything between cues. ERR_DATA if there is no line
 * with "-->", if the text holds a NUL byte (UTF-16), or if there are more than CUES_MOST cues. Release with cues_release, also after failure. */
int cues_parse(struct cues *c, const char *text, size_t len, const char *name, struct err *e);
void cues_release(struct cues *c);

/* Append the texts of all cues that are shown at any time from start to before end, a blank between them. A text that equals the one before it, or
 * begins with it, as captions that are written word by word do, replaces it. */
void cues_between(struct str *out, const struct cues *c, double start, double end);

#endif
