/* A self-contained HTML page: its style, charts as SVG and pictures are embedded. No scripts. */
#ifndef DDM_CMD_PAGE_H
#define DDM_CMD_PAGE_H

#include "core/err.h"
#include "core/str.h"
#include "plot/chart.h"

struct page {
	struct str html;
	int charts;  /* for their ids */
	size_t most; /* bytes a picture may take; larger ones are compressed and reduced */
};

/* `stamp`: a line of JSON, kept as metadata. */
void page_start(struct page *p, const char *title, const char *stamp);
void page_end(struct page *p);

/* Escaped text; the functions below escape too. */
void page_text(struct page *p, const char *text);
void page_paragraph(struct page *p, const char *text);
void page_heading(struct page *p, const char *id, const char *text);
void page_pre(struct page *p, const char *text);

/* A table: captions and headings say what is in it; the first cell of a row heads it, cells that are numbers stand right. */
void page_table(struct page *p, const char *caption, const char *const *heading, int columns);
void page_row(struct page *p, const char *const *cell, int columns);
void page_table_end(struct page *p);

/* Between page_charts and page_charts_end charts stand side by side where there is room. */
void page_charts(struct page *p);
void page_charts_end(struct page *p);
void page_chart(struct page *p, const struct scene *s, const char *caption);

/* A picture file, as it is when it is a PNG or JPEG of at most p->most bytes. */
int page_picture(struct page *p, const char *path, const char *alt, const char *caption, struct err *e);

#endif
