/* The layout of contact sheets: pictures of one size in rows on one picture. All programs' sheets are laid out here. */
#ifndef DDM_FILE_CONTACTSHEET_H
#define DDM_FILE_CONTACTSHEET_H

#include <stdint.h>

#include "core/err.h"
#include "file/still.h"

enum { CONTACTSHEET_GAP = 2 }; /* pixels between two pictures */

struct contactsheet {
	int64_t columns;
	int64_t side;   /* of a picture on the sheet, in pixels */
	int64_t margin; /* pixels around the whole grid */
	int channels;   /* 1 or 3 */
	uint8_t paper;  /* background, the value of every channel */
};

/* The least number of columns that makes a sheet of n pictures no taller than wide. */
int64_t contactsheet_columns(int64_t n);

/* Size in pixels of a sheet of `rows` rows. heads: the total height of the label bands. */
int64_t contactsheet_width(const struct contactsheet *c);
int64_t contactsheet_height(const struct contactsheet *c, int64_t rows, int64_t heads);

/* An empty sheet. ERR_NOMEM. Release with picture_release. */
int contactsheet_new(struct picture *sheet, const struct contactsheet *c, int64_t rows, int64_t heads, struct err *e);

/* Copy a square picture to its place, counted row by row. heads: the total height of the label bands above it. A smaller picture is enlarged by a
 * whole factor without smoothing. Grey becomes RGB on a sheet of 3 channels; alpha is dropped. */
void contactsheet_put(struct picture *sheet, const struct contactsheet *c, int64_t place, int64_t heads, const struct picture *p);

#endif
