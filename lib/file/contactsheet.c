/* Lays pictures of one size out in rows. */
#include "file/contactsheet.h"

#include <assert.h>
#include <string.h>

int64_t contactsheet_columns(int64_t n)
{
	int64_t columns = 0;

	while (columns * columns < n)
		columns++;
	return columns;
}

static int64_t extent(const struct contactsheet *c, int64_t n)
{
	return 2 * c->margin + n * (c->side + CONTACTSHEET_GAP) - CONTACTSHEET_GAP;
}

int64_t contactsheet_width(const struct contactsheet *c)
{
	return extent(c, c->columns);
}

int64_t contactsheet_height(const struct contactsheet *c, int64_t rows, int64_t heads)
{
	return extent(c, rows) + heads;
}

int contactsheet_new(struct picture *sheet, const struct contactsheet *c, int64_t rows, int64_t heads, struct err *e)
{
	if (picture_alloc(sheet, (int)contactsheet_width(c), (int)contactsheet_height(c, rows, heads), c->channels, e))
		return -1;
	memset(sheet->pixels, c->paper, (size_t)sheet->width * (size_t)sheet->height * (size_t)c->channels);
	return 0;
}

void contactsheet_put(struct picture *sheet, const struct contactsheet *c, int64_t place, int64_t heads, const struct picture *p)
{
	int64_t pitch = c->side + CONTACTSHEET_GAP, factor = c->side / p->width;
	int64_t x0 = c->margin + place % c->columns * pitch, y0 = c->margin + heads + place / c->columns * pitch;

	assert(p->width == p->height && p->width * factor == c->side && (sheet->channels == 3 || p->channels == 1));
	assert(x0 + c->side <= sheet->width && y0 + c->side <= sheet->height);
	for (int64_t y = 0; y < c->side; y++)
		for (int64_t x = 0; x < c->side; x++) {
			const uint8_t *from = p->pixels + (y / factor * p->width + x / factor) * p->channels;
			uint8_t *to = sheet->pixels + ((y0 + y) * sheet->width + x0 + x) * sheet->channels;

			for (int a = 0; a < sheet->channels; a++)
				to[a] = from[p->channels < 3 ? 0 : a];
		}
}
