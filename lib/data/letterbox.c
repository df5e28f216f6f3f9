/* Finds black bars. Each side is searched from the border inwards, at most up to the box found so far, so frames with little black cost little. */
#include <stddef.h>

#include "data/letterbox.h"

/* Whether the line from (x, y), going down or to the right, has a mean above the limit. */
static int line_has_content(const struct picture *p, int x, int y, int down, double limit)
{
	const uint8_t *at = p->pixels + ((size_t)y * (size_t)p->width + (size_t)x) * (size_t)p->channels;
	size_t n = (size_t)(down ? p->height : p->width), step = (size_t)p->channels * (down ? (size_t)p->width : 1);
	uint64_t sum = 0;

	if (p->channels == 1) {
		for (size_t i = 0; i < n; i++, at += step)
			sum += *at;
		return (double)sum > limit * (double)n;
	}
	for (size_t i = 0; i < n; i++, at += step)
		sum += 299u * at[0] + 587u * at[1] + 114u * at[2];
	return (double)sum > 1000 * limit * (double)n;
}

void letterbox_add(struct letterbox *b, const struct picture *p, int limited)
{
	double limit = limited ? 24 : (24 - 16) * 255.0 / 219;
	int i;

	if (b->width != p->width || b->height != p->height)
		*b = (struct letterbox){.width = p->width, .height = p->height, .left = p->width, .top = p->height};
	for (i = 0; i < b->top && !line_has_content(p, 0, i, 0, limit); i++)
		;
	b->top = i;
	for (i = p->height; i > b->bottom && !line_has_content(p, 0, i - 1, 0, limit); i--)
		;
	b->bottom = i;
	for (i = 0; i < b->left && !line_has_content(p, i, 0, 1, limit); i++)
		;
	b->left = i;
	for (i = p->width; i > b->right && !line_has_content(p, i - 1, 0, 1, limit); i--)
		;
	b->right = i;
}

void letterbox_content(const struct letterbox *b, int *x, int *y, int *w, int *h)
{
	int whole = 2 * (b->right - b->left) < b->width || 2 * (b->bottom - b->top) < b->height;

	*x = whole ? 0 : b->left;
	*y = whole ? 0 : b->top;
	*w = whole ? b->width : b->right - b->left;
	*h = whole ? b->height : b->bottom - b->top;
}
