/* Pictures of glyphs whose factors are known: what ddm-synth glyphs draws. The glyphs of some fonts, a law of position, size, rotation and grey
 * levels, and the picture of each draw. */
#ifndef DDM_DATA_GLYPHS_H
#define DDM_DATA_GLYPHS_H

#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/pool.h"
#include "file/font.h"

enum { GLYPH_RANGES = 64, GLYPH_SIDE = 512, GLYPH_CLASSES = 4096 };

/* Characters: those of `scripts`, and all in `range`. */
struct glyph_choice {
	uint32_t scripts; /* bit s: script_names[s] (text/scripts.h) */
	int ranges;
	uint32_t range[GLYPH_RANGES][2]; /* first and last */
};

/* The law of the factors. Zeros: the glyph in the middle, white on black. */
struct glyph_law {
	double em;       /* the size without `scale`, as a share of the picture's side */
	double position; /* largest shift to each side, as a share of the picture's side: uniform */
	double scale;    /* 0, or the smallest size as a share of em: uniform in the logarithm from that to 1 */
	double rotation; /* largest angle in degrees, to both sides: uniform */
	double
	    contrast; /* 0, or the smallest difference of the grey levels as a share of 255: the difference is uniform from that to 1, the darker level
	                  * uniform where both fit, and which of them the glyph has is a coin */
};

struct glyph {
	uint32_t code_point;
	int32_t face;
};

struct glyph_face {
	char *name;      /* family and style */
	int weight;      /* font_weight */
	int file, index; /* private: its file, and its number there */
};

/* The glyphs of fonts, each outline once. */
struct glyph_set {
	int64_t n;
	struct glyph *glyph; /* [n] by face, by character */
	int faces;
	struct glyph_face *face; /* [faces] */
	int64_t characters;
	uint32_t *character;                 /* [characters] those of the glyphs, ascending */
	int64_t missing, blank, repetitions; /* characters times faces: not in the face; nothing to draw; outlines that an earlier glyph has */
	char hash[65];                       /* SHA-256 of the files, in order */

	int files, workers; /* private from here */
	struct glyph_file {
		char *name;
		void *data;
		size_t len;
	} * file;
	struct font **open; /* (workers, faces); each worker opens those that it needs */
};

/* Collect the glyphs of all faces of n font files. ERR_UNAVAILABLE without FreeType; ERR_NOINPUT; ERR_DATA: a file is no font, or no face has any of
 * the characters; ERR_AGAIN. The same for any number of threads. Release with glyph_set_release, after a failure too. */
int glyph_set_open(struct glyph_set *s, const char *const *path, int n, const struct glyph_choice *c, struct pool *pool,
                   const struct progress *progress, struct err *e);
void glyph_set_release(struct glyph_set *s);

/* The position of a glyph's character in s->character. */
int64_t glyph_set_character(const struct glyph_set *s, const struct glyph *g);

struct glyph_draw {
	const struct glyph *glyph;
	struct font_pose pose;
	uint8_t ink, ground; /* grey levels of the glyph and of the rest */
};

/* Draw sample i for pictures of this side: every n samples have every glyph once, in an order of their own. Depends on s, the law, the seed and i
 * alone. Sizes and places are multiples of 1/64 pixel, angles of 1/16 degree. */
struct glyph_draw glyph_draw(const struct glyph_set *s, const struct glyph_law *law, int side, uint64_t seed, uint64_t i);

/* The picture of a draw: pixels (side, side). worker: of the pool that s was opened with. */
int glyph_picture(const struct glyph_set *s, int worker, const struct glyph_draw *d, uint8_t *pixels, int side, struct err *e);

#endif
