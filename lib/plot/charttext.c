/* Writes the texts of a chart into its drawing. */
#include "plot/charttext.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "plot/strokefont.h"

double charttext_title(struct scene *s, const char *title, double left)
{
	double size = 15.5, room = s->width - left - CHARTTEXT_MARGIN;

	if (!title || !*title)
		return CHARTTEXT_MARGIN;
	while (size > 10 && 1.06 * strokefont_width(title, size) > room)
		size -= .5;
	scene_text(s, left, CHARTTEXT_MARGIN + 12, size, SCENE_START, SCENE_INK, 1, title);
	return CHARTTEXT_MARGIN + 22;
}

void charttext_label(struct scene *s, double x, double y, enum scene_anchor anchor, int colour, const char *text, double room)
{
	char *copy = mem_strdup(text);
	size_t n = strlen(copy);

	if (strokefont_width(copy, CHARTTEXT_SIZE) > room) {
		copy = mem_resize(copy, n + 4, 1);
		do {
			n--;
			while (n && ((unsigned char)copy[n] & 0xc0) == 0x80)
				n--;
			snprintf(copy + n, 4, "...");
		} while (n && strokefont_width(copy, CHARTTEXT_SIZE) > room);
	}
	scene_text(s, x, y, CHARTTEXT_SIZE, anchor, colour, 0, copy);
	mem_free(copy);
}

void charttext_note(struct scene *s, double x, double y, enum scene_anchor anchor, const char *text)
{
	double width = strokefont_width(text, CHARTTEXT_SIZE), left = x - (anchor == SCENE_START ? 0 : anchor == SCENE_END ? width : width / 2);

	scene_box(s, left - 2, y - 11, left + width + 2, y + 3, SCENE_PAPER, .8);
	scene_text(s, x, y, CHARTTEXT_SIZE, anchor, SCENE_SOFT, 0, text);
}
