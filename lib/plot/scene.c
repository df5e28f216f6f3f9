/* Stores a drawing as a list of items, and writes it as SVG. */
#include "plot/scene.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"

uint32_t scene_rgb(int colour)
{
	static const uint32_t rgb[SCENE_COLOURS] = {0xffffff, 0x1c1c1c, 0x5c5c5c, 0xe2e2e2, 0x0b62a4, 0xd1510a,
	                                            0x078466, 0xa63a84, 0x8a6a00, 0x333333, 0x2c8ed0, 0xb3303a};

	return rgb[colour];
}

int scene_dash(int dash, const double **lengths)
{
	static const double patterns[SCENE_DASHES][6] = {{0}, {7, 3}, {2, 2.5}, {8, 3, 2, 3}, {13, 4}, {8, 2.5, 2, 2.5, 2, 2.5}};
	static const int n[SCENE_DASHES] = {0, 2, 2, 4, 2, 6};

	*lengths = patterns[dash];
	return n[dash];
}

void scene_release(struct scene *s)
{
	for (int i = 0; i < s->n; i++) {
		mem_free(s->item[i].xy);
		mem_free(s->item[i].text);
	}
	mem_free(s->item);
	mem_free(s->title);
	mem_free(s->about);
	memset(s, 0, sizeof *s);
}

void scene_name(struct scene *s, const char *title, const char *about)
{
	mem_free(s->title);
	mem_free(s->about);
	s->title = mem_strdup(title);
	s->about = mem_strdup(about);
}

static struct scene_item *item_add(struct scene *s, const double *xy, int n)
{
	struct scene_item *item;

	if ((s->n & (s->n - 1)) == 0)
		s->item = mem_resize(s->item, s->n ? 2 * (size_t)s->n : 1, sizeof *s->item);
	item = &s->item[s->n++];
	*item = (struct scene_item){.n = n, .xy = mem_zalloc((size_t)n, 2 * sizeof *xy)};
	memcpy(item->xy, xy, (size_t)n * 2 * sizeof *xy);
	return item;
}

void scene_line(struct scene *s, const double *xy, int n, struct scene_pen pen)
{
	if (n >= 2)
		item_add(s, xy, n)->pen = pen;
}

void scene_area(struct scene *s, const double *xy, int n, int colour, double opacity)
{
	if (n >= 3)
		item_add(s, xy, n)->pen = (struct scene_pen){.colour = colour, .opacity = opacity};
}

void scene_text(struct scene *s, double x, double y, double size, enum scene_anchor anchor, int colour, int bold, const char *text)
{
	const double at[2] = {x, y};
	struct scene_item *item = item_add(s, at, 1);

	item->pen = (struct scene_pen){.colour = colour, .opacity = 1};
	item->text = mem_strdup(text);
	item->size = size;
	item->anchor = anchor;
	item->bold = bold;
}

void scene_segment(struct scene *s, double x0, double y0, double x1, double y1, struct scene_pen pen)
{
	const double xy[4] = {x0, y0, x1, y1};

	scene_line(s, xy, 2, pen);
}

void scene_box(struct scene *s, double x0, double y0, double x1, double y1, int colour, double opacity)
{
	const double xy[8] = {x0, y0, x1, y0, x1, y1, x0, y1};

	scene_area(s, xy, 4, colour, opacity);
}

/* The number of bytes of the UTF-8 character at s, or 0 if it is invalid or XML forbids it. */
static int character(const unsigned char *s)
{
	int n = *s < 0x80 ? 1 : *s >= 0xc2 && *s < 0xe0 ? 2 : (*s & 0xf0) == 0xe0 ? 3 : *s >= 0xf0 && *s < 0xf5 ? 4 : 0;
	uint32_t c = n == 1 ? *s : n ? *s & (0x3fu >> (n - 1)) : 0;

	for (int i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if ((n == 1 && c < 32 && c != '\t' && c != '\n') || c == 127 || (n == 3 && c < 0x800) || (n == 4 && (c < 0x10000 || c > 0x10ffff)) ||
	    (c >= 0xd800 && c < 0xe000) || (c & 0xfffe) == 0xfffe)
		return 0;
	return n;
}

void scene_escape(struct str *out, const char *text)
{
	while (*text) {
		int n = character((const unsigned char *)text);

		if (*text == '&')
			str_puts(out, "&amp;");
		else if (*text == '<')
			str_puts(out, "&lt;");
		else if (*text == '>')
			str_puts(out, "&gt;");
		else if (*text == '"')
			str_puts(out, "&quot;");
		else if (n)
			str_add(out, text, (size_t)n);
		else
			str_puts(out, "?");
		text += n ? n : 1;
	}
}

/* Append a number with at most two decimals, without trailing zeros or "-0". */
static void number(struct str *out, double v)
{
	char text[40];
	size_t n;

	v = round(v * 100) / 100;
	n = (size_t)snprintf(text, sizeof text, "%.2f", v == 0 ? 0. : v);
	while (text[n - 1] == '0')
		n--;
	str_add(out, text, text[n - 1] == '.' ? n - 1 : n);
}

static void attribute(struct str *out, const char *name, double v)
{
	str_printf(out, " %s=\"", name);
	number(out, v);
	str_puts(out, "\"");
}

static void paint(struct str *out, const struct scene_item *item)
{
	const double *length;
	int n = scene_dash(item->pen.dash, &length);

	str_printf(out, " class=\"%c%d\"", item->pen.width > 0 ? 'l' : 'f', item->pen.colour);
	str_printf(out, " %s=\"#%06x\"", item->pen.width > 0 ? "stroke" : "fill", (unsigned)scene_rgb(item->pen.colour));
	if (item->pen.width > 0)
		attribute(out, "stroke-width", item->pen.width);
	if (item->pen.opacity < 1)
		attribute(out, "opacity", item->pen.opacity);
	for (int i = 0; i < n && item->pen.width > 0; i++) {
		str_puts(out, i ? " " : " stroke-dasharray=\"");
		number(out, length[i]);
	}
	if (n && item->pen.width > 0)
		str_puts(out, "\"");
}

static void text_svg(struct str *out, const struct scene_item *item)
{
	static const char *const anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};

	str_puts(out, "<text");
	attribute(out, "x", item->xy[0]);
	attribute(out, "y", item->xy[1]);
	attribute(out, "font-size", item->size);
	str_printf(out, "%s%s", anchors[item->anchor], item->bold ? " font-weight=\"bold\"" : "");
	paint(out, item);
	str_puts(out, ">");
	scene_escape(out, item->text);
	str_puts(out, "</text>\n");
}

static void path_svg(struct str *out, const struct scene_item *item)
{
	str_puts(out, "<path d=\"");
	for (int i = 0; i < item->n; i++) {
		str_puts(out, i ? " " : "M");
		number(out, item->xy[2 * i]);
		str_puts(out, " ");
		number(out, item->xy[2 * i + 1]);
	}
	str_puts(out, item->pen.width > 0 ? "\"" : "Z\"");
	paint(out, item);
	str_puts(out, "/>\n");
}

void scene_svg(struct str *out, const struct scene *s, const char *id, const char *stamp)
{
	str_puts(out, "<svg");
	if (stamp) {
		str_puts(out, " xmlns=\"http://www.w3.org/2000/svg\"");
		attribute(out, "width", s->width);
		attribute(out, "height", s->height);
	}
	str_puts(out, " viewBox=\"0 0 ");
	number(out, s->width);
	str_puts(out, " ");
	number(out, s->height);
	str_printf(out, "\" role=\"img\" aria-labelledby=\"%st %sd\" font-family=\"system-ui, 'DejaVu Sans', Arial, sans-serif\" fill=\"none\"", id,
	           id);
	str_printf(out, " stroke-linejoin=\"round\">\n<title id=\"%st\">", id);
	scene_escape(out, s->title ? s->title : "");
	str_printf(out, "</title>\n<desc id=\"%sd\">", id);
	scene_escape(out, s->about ? s->about : "");
	str_puts(out, "</desc>\n");
	if (stamp) {
		str_puts(out, "<metadata id=\"ddm\">");
		scene_escape(out, stamp);
		str_printf(out, "</metadata>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#%06x\"/>\n", (unsigned)scene_rgb(SCENE_PAPER));
	}
	for (int i = 0; i < s->n; i++)
		(s->item[i].text ? text_svg : path_svg)(out, &s->item[i]);
	str_puts(out, "</svg>\n");
}
