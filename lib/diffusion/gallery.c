/* Turns network outputs into 8-bit pictures and lays them out as contact sheets. */
#include "diffusion/gallery.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"

enum { GAP = 2 };

int gallery_picture(struct picture *p, const float *x, int64_t channels, int64_t height, int64_t width, const char *what, struct err *e)
{
	int64_t n = height * width;

	assert(channels == 1 || channels == 3);
	if (picture_alloc(p, (int)width, (int)height, (int)channels, e))
		return -1;
	for (int64_t c = 0; c < channels; c++)
		for (int64_t i = 0; i < n; i++) {
			double v = floor((x[c * n + i] + 1.) * 127.5 + .5);

			if (!isfinite(v)) {
				picture_release(p);
				return err_set(e, ERR_FAIL, "%s: not finite", what);
			}
			p->pixels[i * channels + c] = (uint8_t)fmin(fmax(v, 0), 255);
		}
	return 0;
}

void gallery_numbers(float *out, const struct picture *p, int mirrored)
{
	int64_t w = p->width, area = w * p->height, channels = p->channels;

	for (int64_t c = 0; c < channels; c++)
		for (int64_t i = 0; i < area; i++) {
			int64_t from = mirrored ? i + w - 1 - 2 * (i % w) : i;

			out[c * area + i] = (float)p->pixels[from * channels + c] / 127.5f - 1;
		}
}

static int64_t sheet_columns(int64_t n, int64_t columns)
{
	if (columns)
		return columns < n ? columns : n;
	while (columns * columns < n)
		columns++;
	return columns;
}

int gallery_sheet(struct picture *sheet, int64_t n, int64_t columns, int64_t channels, int64_t size, struct err *e)
{
	int64_t w = sheet_columns(n, columns), h = (n + w - 1) / w, pitch = size + GAP;

	*sheet = (struct picture){(int)(w * pitch - GAP), (int)(h * pitch - GAP), (int)channels, NULL};
	sheet->pixels = mem_try((size_t)sheet->width * (size_t)sheet->height, (size_t)channels, "a contact sheet", e);
	return sheet->pixels ? 0 : -1;
}

void gallery_put(struct picture *sheet, int64_t i, int64_t n, int64_t columns, const struct picture *p)
{
	int64_t w = sheet_columns(n, columns), x = i % w * (p->width + GAP), y = i / w * (p->height + GAP);
	size_t row = (size_t)p->width * (size_t)p->channels;

	assert(sheet->channels == p->channels && x + p->width <= sheet->width && y + p->height <= sheet->height);
	for (int64_t r = 0; r < p->height; r++)
		memcpy(sheet->pixels + ((y + r) * sheet->width + x) * sheet->channels, p->pixels + (size_t)r * row, row);
}
