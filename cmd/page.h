/* Writes a self-contained HTML page: style, charts (SVG) and pictures are embedded, and there are no scripts. */
#ifndef DDM_CMD_PAGE_H
#define DDM_CMD_PAGE_H

#include "core/err.h"
#include "core/str.h"
#include "plot/chart.h"

struct page {
	struct str html;
	int charts;  /* number of charts so far, for their ids */
	size_t most; /* size limit in bytes of an embedded picture file */
	int refresh; /* seconds after which a browser loads the page again; 0: never */
};

/* Begin and end the page. `stamp` is a line of JSON, stored as metadata. */
void page_start(struct page *p, const char *title, const char *stamp);
void page_end(struct page *p);

/* Append text. This and the functions below escape it for HTML. */
void page_text(struct page *p, const char *text);
void page_paragraph(struct page *p, const char *text);
/* A section heading; id is the target of links. */
void page_heading(struct page *p, const char *id, const char *text);
void page_pre(struct page *p, const char *text);

/* A table: page_table, a page_row for each row, page_table_end. The first cell of a row is its heading; the others are aligned right. */
void page_table(struct page *p, const char *caption, const char *const *heading, int columns);
void page_row(struct page *p, const char *const *cell, int columns);
void page_table_end(struct page *p);

/* Charts between page_charts and page_charts_end stand side by side if the page is wide enough. */
void page_charts(struct page *p);
void page_charts_end(struct page *p);
void page_chart(struct page *p, const struct scene *s, const char *caption);

/* Embed a picture file. A PNG or JPEG of at most p->most bytes and 1700 pixels width is embedded unchanged, any other as a smaller JPEG. */
int page_picture(struct page *p, const char *path, const char *alt, const char *caption, struct err *e);
/* Embed an animated WebP unchanged. ERR_DATA if it is something else, or larger than four times p->most. */
int page_film(struct page *p, const char *path, const char *alt, const char *caption, struct err *e);

#endif
