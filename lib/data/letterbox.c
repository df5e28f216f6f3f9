/* Finds black bars. Each side is searched from the border inwards, at most up to the box found so far, so frames with little black cost little. */
#include <stddef.h>

#include "data/letterbox.h"

/* The limit on a line's mean, for sums of 299 R + 587 G + 114 B. */
#define LIMIT (1000 * (24 - 16) * 255.0 / 219)

/* Whether the line of n pixels from (x, y), going down or to the right, has content. */
static int line_has_content(const struct picture *p, int x, int y, int down)
{
	const uint8_t *at = p->pixels + ((size_t)y * p->width + x) * 3;
	size_t n = (size_t)(down ? p->height : p->width), step = down ? (size_t)p->width * 3 : 3;
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++, at += step)
		sum += 299u * at[0] + 587u * at[1] + 114u * at[2];
	return (double)sum > LIMIT * (double)n;
}

void letterbox_add(struct letterbox *b, const struct picture *p)
{
	int i;

	if (b->width != p->width || b->height != p->height)
		*b = (struct letterbox){.width = p->width, .height = p->height, .left = p->width, .top = p->height};
	for (i = 0; i < b->top && !line_has_content(p, 0, i, 0); i++)
		;
	b->top = i;
	for (i = p->height; i > b->bottom && !line_has_content(p, 0, i - 1, 0); i--)
		;
	b->bottom = i;
	for (i = 0; i < b->left && !line_has_content(p, i, 0, 1); i++)
		;
	b->left = i;
	for (i = p->width; i > b->right && !line_has_content(p, i - 1, 0, 1); i--)
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
