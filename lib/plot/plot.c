/* Draws a chart from a request: files become series (lib/plot/sources.c), series a drawing, and the drawing an SVG or a PNG. */
#include "plot/plot.h"

#include <string.h>

#include "core/wordsuggest.h"
#include "core/mem.h"
#include "core/seal.h"
#include "core/str.h"
#include "file/claim.h"
#include "file/commit.h"
#include "file/standing.h"
#include "file/still.h"
#include "plot/chart.h"
#include "plot/plotinput.h"
#include "plot/sources.h"

static const char *const kinds[] = {"loss", "cost", "router", "compare", "lines", "points", "bars", NULL};

int plot_kind_parse(enum plot_kind *kind, const char *name, struct err *e)
{
	char hint[WORD_SUGGESTION];

	for (int i = 0; kinds[i]; i++)
		if (!strcmp(name, kinds[i])) {
			*kind = (enum plot_kind)i;
			return 0;
		}
	return err_set(e, ERR_USAGE, "'%s' is not a kind of chart; expected loss, cost, router, compare, lines, points or bars%s", name,
	               word_suggest(hint, name, kinds));
}

int plot_is_png(const struct plot_request *r)
{
	return r->format == PLOT_BY_NAME ? str_ends(r->out, ".png") : r->format == PLOT_PNG;
}

static int parse_range(const char *text, const char *name, double range[2], int log, struct err *e)
{
	const char *colon = strchr(text, ':');
	char *first = colon ? str_new("%.*s", (int)(colon - text), text) : mem_strdup("");
	int bad = !colon || parse_f64(first, -CHART_LIMIT, CHART_LIMIT, &range[0]) || parse_f64(colon + 1, -CHART_LIMIT, CHART_LIMIT, &range[1]) ||
	          range[0] >= range[1];

	mem_free(first);
	if (bad)
		return err_set(e, ERR_USAGE, "%s %s: not LO:HI with LO < HI", name, text);
	if (log && range[0] <= 0)
		return err_set(e, ERR_USAGE, "%s %s: a logarithmic scale shows positive values only", name, text);
	return 0;
}

static enum plot_log scales_of(const struct plot_request *r)
{
	if (r->log != PLOT_LOG_USUAL)
		return r->log;
	return r->kind == PLOT_LOSS ? PLOT_LOG_Y : r->kind == PLOT_COST ? PLOT_LOG_X : PLOT_LOG_NONE;
}

/* Set the size, scales and ranges, which do not depend on the files. */
static int set_scales(struct chart *c, const struct plot_request *r, struct err *e)
{
	enum plot_log log = scales_of(r);

	c->width = (double)r->width;
	c->height = (double)r->height;
	c->log_x = log == PLOT_LOG_X || log == PLOT_LOG_XY;
	c->log_y = log == PLOT_LOG_Y || log == PLOT_LOG_XY;
	c->has_x_range = r->x_range != NULL;
	c->has_y_range = r->y_range != NULL;
	if ((r->x_range && parse_range(r->x_range, "--x-range", c->x_range, c->log_x, e)) ||
	    (r->y_range && parse_range(r->y_range, "--y-range", c->y_range, c->log_y, e)))
		return -1;
	return 0;
}

/* A text of the request replaces the one that the files suggest. */
static void set_text(char **text, const char *asked)
{
	if (asked)
		chart_text_set(text, asked);
}

/* The column of the floor for a column of distances: kd_heldout -> kd_floor; NULL: none. Caller frees with mem_free. */
static char *floor_column(const struct plot_request *r, const char *column)
{
	if (r->floor)
		return *r->floor ? mem_strdup(r->floor) : NULL;
	return str_new("%.*s_floor", (int)strcspn(column, "_"), column);
}

static int read_cost(struct chart *c, const struct plot_request *r, struct plot_input *in, struct err *e)
{
	const char *y = r->y ? r->y : "kd", *x = r->x ? r->x : "gflop_per_image";
	char *arm = r->group ? mem_strdup(r->group) : source_arm_column(in->path[0], e), *below = floor_column(r, y);
	int rc = -1;

	if (arm && below && !r->floor && !source_has(in->path[0], below)) {
		mem_free(below);
		below = NULL;
	}
	c->name_points = 1;
	if (arm)
		rc = source_cost(c, in->path, in->n, arm, x, y, below, r->level, in->hash, e);
	mem_free(arm);
	mem_free(below);
	return rc;
}

static int read_columns(struct chart *c, const struct plot_request *r, struct plot_input *in, int64_t *absent, struct err *e)
{
	int marks = r->kind == PLOT_LINES ? CHART_LINE : CHART_POINTS;

	if (!r->x || !r->y)
		return err_set(e, ERR_USAGE, "-x and -y are missing: give two columns");
	for (int i = 0; i < in->n; i++) {
		int64_t without = source_columns(c, in->path[i], in->label[i], r->x, r->y, r->group, r->low, r->high, marks, in->hash[i], e);

		if (without < 0)
			return -1;
		*absent += without;
	}
	return 0;
}

static int is_accuracy(const struct plot_request *r)
{
	return r->kind == PLOT_ROUTER && r->y && !strcmp(r->y, "accuracy");
}

static int read_router(struct chart *c, const struct plot_request *r, struct plot_input *in, struct err *e)
{
	int entropy = r->y && !strcmp(r->y, "entropy");

	if (is_accuracy(r)) {
		for (int i = 0; i < in->n; i++)
			if (source_accuracy(c, in->path[i], in->label[i], in->hash[i], e))
				return -1;
		return 0;
	}
	if (r->y && !entropy && strcmp(r->y, "weight"))
		return err_set(e, ERR_USAGE, "-y %s: expected weight, entropy or accuracy", r->y);
	if (in->n > 1)
		return err_set(e, ERR_USAGE, "a chart of router weights takes one file, not %d", in->n);
	return source_router(entropy ? NULL : c, entropy ? c : NULL, in->path[0], in->hash[0], e);
}

static int read_loss(struct chart *c, const struct plot_request *r, struct plot_input *in, struct err *e)
{
	for (int i = 0; i < in->n; i++)
		if (source_loss(c, in->path[i], in->label[i], r->smooth, in->hash[i], e))
			return -1;
	return 0;
}

static int draw_chart(struct scene *s, const struct plot_request *r, struct plot_input *in, int64_t *absent, struct err *e)
{
	struct chart c = {0};
	int rc = set_scales(&c, r, e);

	if (!rc && r->kind == PLOT_LOSS)
		rc = read_loss(&c, r, in, e);
	else if (!rc && r->kind == PLOT_COST)
		rc = read_cost(&c, r, in, e);
	else if (!rc && r->kind == PLOT_ROUTER)
		rc = read_router(&c, r, in, e);
	else if (!rc)
		rc = read_columns(&c, r, in, absent, e);
	set_text(&c.title, r->title);
	set_text(&c.x_label, r->x_label);
	set_text(&c.y_label, r->y_label);
	if (!rc)
		rc = chart_draw(s, &c, e);
	chart_release(&c);
	return rc;
}

static int check_bars(const struct plot_request *r, const struct plot_input *in, struct err *e)
{
	if (!r->x || !r->y)
		return err_set(e, ERR_USAGE, "-x and -y are missing: give the column of names and the column of values");
	if (!r->low != !r->high)
		return err_set(e, ERR_USAGE, "--low and --high must be given together");
	return in->n > 1 ? err_set(e, ERR_USAGE, "a chart of bars takes one file, not %d", in->n) : 0;
}

static int draw_bars(struct scene *s, const struct plot_request *r, struct plot_input *in, struct err *e)
{
	struct bars b = {.width = (double)r->width};
	int rc = r->kind == PLOT_BARS ? check_bars(r, in, e) : 0;

	set_text(&b.title, r->title);
	set_text(&b.x_label, r->x_label);
	for (int i = 0; i < in->n && !rc; i++)
		rc = r->kind == PLOT_BARS ? source_bars(&b, in->path[i], r->x, r->y, r->low, r->high, r->level, in->hash[i], e)
		                          : source_compare(&b, in->path[i], r->y, in->hash[i], e);
	if (!rc)
		rc = bars_draw(s, &b, e);
	bars_release(&b);
	return rc;
}

/* The stamp as a line of JSON. Caller frees with mem_free. */
static char *make_stamp(const struct plot_request *r, const struct plot_input *in)
{
	struct stamp *s = stamp_new(r->program);
	char *line;

	stamp_text(s, "kind", kinds[r->kind]);
	for (int i = 0; i < in->n; i++) {
		char *role = str_new("%d %s", i, in->label[i]);

		stamp_input(s, role, in->hash[i]);
		mem_free(role);
	}
	line = stamp_line(s);
	stamp_free(s);
	return line;
}

static int write_svg(const struct scene *s, const struct plot_request *r, const char *stamp, struct err *e)
{
	struct str text = {0};
	int rc;

	scene_svg(&text, s, "chart", stamp);
	seal_markup(&text);
	rc = commit_bytes(r->out, text.p, text.len, e);
	str_release(&text);
	return rc;
}

static int write_png(const struct scene *s, const struct plot_request *r, const char *stamp, struct err *e)
{
	struct still_text text[] = {{"Title", s->title}, {"Description", s->about}, {"ddm", stamp}};
	struct picture p = {0};
	uint8_t *data = NULL;
	size_t len;
	int rc = scene_picture(&p, s, r->scale, e) || still_encode_png(&p, text, 3, &data, &len, e) || commit_bytes(r->out, data, len, e) ? -1 : 0;

	picture_release(&p);
	mem_free(data);
	return rc;
}

/* What a folder among the sources stands for, by the kind of chart. */
static enum plot_folder folder_of(const struct plot_request *r)
{
	return r->kind == PLOT_LOSS ? FOLDER_EXPERTS : is_accuracy(r) ? FOLDER_ROUTER : FOLDER_NONE;
}

static int make(const struct plot_request *r, struct plot_input *in, int64_t *absent, struct err *e)
{
	struct scene s = {0};
	const char *out = r->out;
	char *stamp;
	int rc;

	if (claim_take(&out, 1, e) || standing_view(out, r->program, NULL, e))
		return -1;
	rc = r->kind == PLOT_COMPARE || r->kind == PLOT_BARS ? draw_bars(&s, r, in, e) : draw_chart(&s, r, in, absent, e);
	if (!rc) {
		stamp = make_stamp(r, in);
		rc = (plot_is_png(r) ? write_png : write_svg)(&s, r, stamp, e);
		mem_free(stamp);
	}
	scene_release(&s);
	return rc;
}

int plot_make(const struct plot_request *r, int64_t *absent, struct err *e)
{
	struct plot_request usual = plot_defaults();
	struct plot_input in = {0};
	int rc = option_check_request(plot_options, r, &usual, e);

	*absent = 0;
	if (!rc && r->n < 1)
		rc = err_set(e, ERR_USAGE, "no file to draw");
	if (!rc)
		rc = plot_input_init(&in, r->source, r->n, folder_of(r), e);
	if (!rc)
		rc = make(r, &in, absent, e);
	plot_input_release(&in);
	return rc;
}
