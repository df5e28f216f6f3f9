/* Writes self-contained HTML pages: headings, tables, charts, pictures. */
#include "cmd/page.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "file/fileio.h"
#include "file/resize.h"
#include "file/still.h"

/* Most bytes of a picture file; most pixels of its width on the page; how many times larger than a picture a film may be, which cannot be compressed
 * again. */
enum { MOST_PICTURE = 1 << 28, WIDEST = 1700, FILM_TIMES = 4 };

/* The style sheet. Classes fN and lN are the colours of charts (plot/scene.h): N is 0 for paper, 1 ink, 2 soft, 3 grid, from 4 on the series. */
static const char style[] =
    ":root{color-scheme:light dark;--paper:#fff;--ink:#1c1c1c;--soft:#565656;--line:#dcdcdc;--panel:#f5f5f3;--link:#0b5394;"
    "--a:#0b62a4;--b:#d1510a;--c:#078466;--d:#a63a84;--e:#8a6a00;--f:#333;--g:#2c8ed0;--h:#b3303a}\n"
    "@media(prefers-color-scheme:dark){:root{--paper:#16181b;--ink:#ececec;--soft:#b4b4b4;--line:#3b3e43;--panel:#202327;--link:#8cc4ff;"
    "--a:#6cb4f5;--b:#ff9a5c;--c:#3fd0a4;--d:#ee8fd0;--e:#e3c04a;--f:#d0d0d0;--g:#9bd6ff;--h:#ff8088}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;padding:1rem;max-width:70rem;background:var(--paper);color:var(--ink);font:1rem/1.5 system-ui,'DejaVu Sans',Arial,"
    "sans-serif;overflow-wrap:break-word}\n"
    "h1{font-size:1.7rem;line-height:1.2;margin:.4rem 0}h2{font-size:1.25rem;margin:2.2rem 0 .5rem;border-bottom:1px solid var(--line)}\n"
    "p,dl,pre,ul{max-width:46rem}a{color:var(--link)}nav ul{padding:0;margin:.6rem 0;display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;list-style:none}\n"
    "nav a{display:inline-block;padding:.35rem 0}\n"
    ".scroll{overflow-x:auto;max-width:100%}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.5rem 0}caption{text-align:left;color:var(--soft);padding:.2rem 0}\n"
    "th,td{padding:.3rem .6rem;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}\n"
    "thead th{border-bottom:2px solid var(--soft);vertical-align:bottom}tbody th{white-space:nowrap}.n{text-align:right}\n"
    "tbody tr:nth-child(even){background:var(--panel)}\n"
    "dt{font-weight:600;margin-top:.6rem}dd{margin:0 0 0 1rem}code,pre{font-family:ui-monospace,'DejaVu Sans Mono',monospace;font-size:.86rem}\n"
    "code{overflow-wrap:anywhere}pre{background:var(--panel);padding:.8rem;white-space:pre-wrap;overflow-wrap:anywhere;border-radius:.3rem}\n"
    "figure{margin:1rem 0}figcaption{color:var(--soft);font-size:.92rem;max-width:46rem}\n"
    "figure img{max-width:100%;height:auto;display:block;background:#fff;border:1px solid var(--line)}\n"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr));gap:.5rem 1.5rem}.charts figure{min-width:0}\n"
    "svg{width:100%;max-width:30rem;height:auto;display:block}\n"
    "svg .f0{fill:var(--paper)}svg .f1{fill:var(--ink)}svg .l1{stroke:var(--ink)}svg .f2{fill:var(--soft)}svg .l2{stroke:var(--soft)}\n"
    "svg .l3{stroke:var(--line)}svg .f4{fill:var(--a)}svg .l4{stroke:var(--a)}svg .f5{fill:var(--b)}svg .l5{stroke:var(--b)}\n"
    "svg .f6{fill:var(--c)}svg .l6{stroke:var(--c)}svg .f7{fill:var(--d)}svg .l7{stroke:var(--d)}svg .f8{fill:var(--e)}svg .l8{stroke:var(--e)}\n"
    "svg .f9{fill:var(--f)}svg .l9{stroke:var(--f)}svg .f10{fill:var(--g)}svg .l10{stroke:var(--g)}svg .f11{fill:var(--h)}"
    "svg .l11{stroke:var(--h)}\n"
    "@media(max-width:40rem){table{font-size:.9rem}th,td{padding:.3rem .4rem}dd{margin-left:.6rem}}\n"
    "@media print{:root{color-scheme:light;--paper:#fff;--ink:#000;--soft:#444;--line:#ccc;--panel:#fff;--link:#000;--a:#0b62a4;--b:#d1510a;"
    "--c:#078466;--d:#a63a84;--e:#8a6a00;--f:#333;--g:#2c8ed0;--h:#b3303a}body{max-width:none;padding:0;font-size:10pt}nav{display:none}"
    ".charts{grid-template-columns:1fr 1fr}dt{break-after:avoid}"
    "figure,tr{break-inside:avoid}h2{break-after:avoid}table{font-size:8.5pt}th,td{padding:.15rem .35rem}.scroll{overflow:visible}"
    "figure img{max-height:22cm;max-width:100%;width:auto}}\n";

void page_text(struct page *p, const char *text)
{
	scene_escape(&p->html, text);
}

void page_start(struct page *p, const char *title, const char *stamp)
{
	struct str *h = &p->html;

	str_puts(h, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, "
	            "initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src "
	            "'unsafe-inline'\">\n");
	if (p->refresh)
		str_printf(h, "<meta http-equiv=\"refresh\" content=\"%d\">\n", p->refresh);
	str_puts(h, "<meta name=\"ddm\" content=\"");
	page_text(p, stamp);
	str_puts(h, "\">\n<title>");
	page_text(p, title);
	str_printf(h, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n<h1>", style);
	page_text(p, title);
	str_puts(h, "</h1>\n");
}

void page_end(struct page *p)
{
	str_puts(&p->html, "</main>\n</body>\n</html>\n");
}

static void element(struct page *p, const char *start, const char *text, const char *end)
{
	str_puts(&p->html, start);
	page_text(p, text);
	str_puts(&p->html, end);
}

void page_paragraph(struct page *p, const char *text)
{
	element(p, "<p>", text, "</p>\n");
}

void page_heading(struct page *p, const char *id, const char *text)
{
	str_printf(&p->html, "<h2 id=\"%s\">", id);
	element(p, "", text, "</h2>\n");
}

void page_pre(struct page *p, const char *text)
{
	element(p, "<pre>", text, "</pre>\n");
}

/* Append a column's name with line breaks allowed after underscores. */
static void breakable(struct page *p, const char *text)
{
	while (*text) {
		size_t n = strcspn(text, "_");
		char *part = str_new("%.*s", (int)(n + (text[n] == '_')), text);

		element(p, "", part, text[n] ? "<wbr>" : "");
		text += strlen(part);
		mem_free(part);
	}
}

void page_table(struct page *p, const char *caption, const char *const *heading, int columns)
{
	element(p, "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"", caption, "\">\n<table>\n<caption>");
	element(p, "", caption, "</caption>\n<thead><tr>");
	for (int i = 0; i < columns; i++) {
		str_puts(&p->html, i ? "<th scope=\"col\" class=\"n\">" : "<th scope=\"col\">");
		breakable(p, heading[i]);
		str_puts(&p->html, "</th>");
	}
	str_puts(&p->html, "</tr></thead>\n<tbody>\n");
}

void page_row(struct page *p, const char *const *cell, int columns)
{
	str_puts(&p->html, "<tr>");
	for (int i = 0; i < columns; i++)
		element(p, i ? "<td class=\"n\">" : "<th scope=\"row\">", cell[i], i ? "</td>" : "</th>");
	str_puts(&p->html, "</tr>\n");
}

void page_table_end(struct page *p)
{
	str_puts(&p->html, "</tbody>\n</table>\n</div>\n");
}

void page_charts(struct page *p)
{
	str_puts(&p->html, "<div class=\"charts\">\n");
}

void page_charts_end(struct page *p)
{
	str_puts(&p->html, "</div>\n");
}

void page_chart(struct page *p, const struct scene *s, const char *caption)
{
	char id[20];

	snprintf(id, sizeof id, "c%d", ++p->charts);
	str_puts(&p->html, "<figure>\n");
	scene_svg(&p->html, s, id, NULL);
	element(p, "<figcaption>", caption, "</figcaption>\n</figure>\n");
}

static void base64(struct str *out, const uint8_t *data, size_t n)
{
	static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = (uint32_t)data[i] << 16 | (i + 1 < n ? (uint32_t)data[i + 1] << 8 : 0) | (i + 2 < n ? data[i + 2] : 0);
		const char four[4] = {digit[v >> 18], digit[v >> 12 & 63], i + 1 < n ? digit[v >> 6 & 63] : '=', i + 2 < n ? digit[v & 63] : '='};

		str_add(out, four, 4);
	}
}

/* Encode as JPEG of at most `most` bytes and a width of at most WIDEST: first with lower quality, then also reduced by halves, down to a width of 200
 * pixels, which may still be too large. *p is replaced by the reduced picture. The old *data is freed. */
static int squeeze(struct picture *p, size_t most, uint8_t **data, size_t *len, struct err *e)
{
	for (int round = 0;; round++) {
		if (p->width > WIDEST || (round > 1 && p->width > 200)) {
			struct picture half = {0};

			if (picture_reduce(&half, p, 2, 2, e))
				return -1;
			picture_release(p);
			*p = half;
		}
		mem_free(*data);
		*data = NULL;
		if (still_encode_jpeg(p, round ? 70 : 88, data, len, e))
			return -1;
		if (*len <= most || p->width <= 200)
			return 0;
	}
}

int page_picture(struct page *p, const char *path, const char *alt, const char *caption, struct err *e)
{
	struct picture picture = {0};
	size_t len;
	uint8_t *data = file_load(path, MOST_PICTURE, &len, e);
	enum still_kind kind = data ? still_sniff(data, len) : STILL_UNKNOWN;

	if (!data || still_decode(&picture, data, len, path, 3, NULL, e) ||
	    ((len > p->most || picture.width > WIDEST || kind == STILL_WEBP) && (kind = STILL_JPEG, squeeze(&picture, p->most, &data, &len, e)))) {
		mem_free(data);
		picture_release(&picture);
		return -1;
	}
	element(p, "<figure>\n<img alt=\"", alt, "\"");
	str_printf(&p->html, " width=\"%d\" height=\"%d\" src=\"data:image/%s;base64,", picture.width, picture.height,
	           kind == STILL_PNG ? "png" : "jpeg");
	base64(&p->html, data, len);
	element(p, "\">\n<figcaption>", caption, "</figcaption>\n</figure>\n");
	mem_free(data);
	picture_release(&picture);
	return 0;
}

int page_film(struct page *p, const char *path, const char *alt, const char *caption, struct err *e)
{
	struct still_facts facts;
	size_t len;
	uint8_t *data = file_load(path, MOST_PICTURE, &len, e);
	int rc = data ? still_probe(&facts, data, len, path, e) : -1;

	if (!rc && facts.kind != STILL_WEBP)
		rc = err_set(e, ERR_DATA, "%s: not a WebP, which films of a page are", path);
	if (!rc && len > FILM_TIMES * p->most)
		rc = err_set(e, ERR_DATA, "%s: %zu bytes are too many for a page: show fewer clips (ddm-play -n), or give --picture-size", path, len);
	if (!rc) {
		element(p, "<figure>\n<img alt=\"", alt, "\"");
		str_printf(&p->html, " width=\"%d\" height=\"%d\" src=\"data:image/webp;base64,", facts.width, facts.height);
		base64(&p->html, data, len);
		element(p, "\">\n<figcaption>", caption, "</figcaption>\n</figure>\n");
	}
	mem_free(data);
	return rc;
}
