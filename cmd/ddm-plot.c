/* Charts of the files that the other programs write. */
#include <math.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/plotinput.h"
#include "core/mem.h"
#include "core/meant.h"
#include "core/seal.h"
#include "core/str.h"
#include "file/claim.h"
#include "file/commit.h"
#include "file/standing.h"
#include "file/still.h"
#include "plot/chart.h"
#include "plot/sources.h"

static int64_t width = 640, height = 400, smooth;
static double scale = 2, level = .95;
static const char *x_column, *y_column, *group, *low, *high, *title, *x_label, *y_label, *x_range, *y_range, *floor_column, *out_path = "-";
static int format_choice = -1, log_choice;
static int log_given;
static const char *const formats[] = {"svg", "png", NULL};
static const char *const logs[] = {"none", "x", "y", "xy", NULL};

static const struct option options[] = {
    OPTION_GROUP("Columns"),
    {.name = "--x", .letter = 'x', .type = OPTION_TEXT, .value = &x_column, .arg = "COLUMN", .help = "from left to right; of bars: what names them",
     .when = {{USE_NEEDS, "1=cost 1=lines 1=points 1=bars"}}},
    {.name = "--y", .letter = 'y', .type = OPTION_TEXT, .value = &y_column, .arg = "COLUMN",
     .help = "what is drawn (cost: default kd; router: weight, entropy or accuracy; compare: the key)",
     .when = {{USE_NEEDS, "1=cost 1=router 1=compare 1=lines 1=points 1=bars"}}},
    {.name = "--group", .letter = 'g', .type = OPTION_TEXT, .value = &group, .arg = "COLUMN",
     .help = "one series for each value of this column (cost: the arms, default the first column)",
     .when = {{USE_NEEDS, "1=cost 1=lines 1=points"}}},
    {.name = "--low", .type = OPTION_TEXT, .value = &low, .arg = "COLUMN", .help = "lower ends of intervals",
     .when = {{USE_NEEDS, "1=lines 1=points 1=bars"}}},
    {.name = "--high", .type = OPTION_TEXT, .value = &high, .arg = "COLUMN", .help = "upper ends of intervals",
     .when = {{USE_NEEDS, "1=lines 1=points 1=bars"}}},
    {.name = "--level", .type = OPTION_REAL, .value = &level, .lo = .5, .hi = .9999, .arg = "P",
     .help = "of intervals over several files (default 0.95)", .when = {{USE_NEEDS, "1=cost 1=lines 1=points 1=bars"}}},
    {.name = "--floor", .type = OPTION_TEXT, .value = &floor_column, .arg = "COLUMN",
     .help = "of cost: draw a line there (default: kd_floor beside kd or kd_heldout, and so on; '' is none)",
     .when = {{USE_NEEDS, "1=cost"}}},
    OPTION_GROUP("Curves and axes"),
    {.name = "--smooth", .type = OPTION_INT, .value = &smooth, .lo = 0, .hi = 1e9, .arg = "N",
     .help = "of loss: mean over N lines, 1 is none (default 0: a twentieth of the lines)", .when = {{USE_NEEDS, "1=loss"}}},
    {.name = "--log", .type = OPTION_CHOICE, .value = &log_choice, .arg = "AXES", .choices = logs, .given = &log_given,
     .help = "logarithmic scales (default: y of loss, x of cost)", .when = {{USE_AGAINST, "1=bars 1=compare"}}},
    {.name = "--x-range", .type = OPTION_TEXT, .value = &x_range, .arg = "LO:HI", .help = "show this part of x",
     .when = {{USE_AGAINST, "1=bars 1=compare"}}},
    {.name = "--y-range", .type = OPTION_TEXT, .value = &y_range, .arg = "LO:HI", .help = "show this part of y",
     .when = {{USE_AGAINST, "1=bars 1=compare"}}},
    OPTION_GROUP("Texts"),
    {.name = "--title", .letter = 't', .type = OPTION_TEXT, .value = &title, .arg = "TEXT", .help = "title", OPTION_ALWAYS},
    {.name = "--x-label", .type = OPTION_TEXT, .value = &x_label, .arg = "TEXT", .help = "below the scale of x (default: the column)",
     OPTION_ALWAYS},
    {.name = "--y-label", .type = OPTION_TEXT, .value = &y_label, .arg = "TEXT", .help = "above the scale of y (default: the column)",
     .when = {{USE_AGAINST, "1=bars 1=compare"}}},
    OPTION_GROUP("Output"),
    {.name = "--width", .type = OPTION_INT, .value = &width, .lo = 200, .hi = 4000, .arg = "N", .help = "pixels (default 640)", OPTION_ALWAYS},
    {.name = "--height", .type = OPTION_INT, .value = &height, .lo = 150, .hi = 4000, .arg = "N", .help = "pixels, but of bars (default 400)",
     .when = {{USE_AGAINST, "1=bars 1=compare"}}},
    {.name = "--scale", .type = OPTION_REAL, .value = &scale, .lo = .25, .hi = 8, .arg = "F",
     .help = "of a PNG: pixels of the picture to one of the chart (default 2)", .when = {{USE_NEEDS, "--format=png --output=*.png"}}},
    {.name = "--format", .letter = 'f', .type = OPTION_CHOICE, .value = &format_choice, .arg = "NAME", .choices = formats,
     .help = "kind of file (default: as FILE ends, else svg)", OPTION_ALWAYS},
    {.name = "--output", .letter = 'o', .type = OPTION_TEXT, .value = &out_path, .arg = "FILE", .help = "where it goes (default -, standard output)",
     OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-plot",
    .operands = "KIND [LABEL=]FILE...",
    .about = "Draw a chart, SVG or PNG. KIND is loss, cost, router or compare, for logs of training, tables of ddm-report, logs of "
             "ddm-sample and lines of ddm-compare; or lines, points or bars, for columns of any table or JSON lines.",
    .options = options,
};

enum kind { KIND_LOSS, KIND_COST, KIND_ROUTER, KIND_COMPARE, KIND_LINES, KIND_POINTS, KIND_BARS, KINDS };

static const char *const kinds[] = {"loss", "cost", "router", "compare", "lines", "points", "bars", NULL};

static int range_parse(const char *text, const char *name, double range[2], int log, struct err *e)
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

static int chart_options(struct chart *c, enum kind kind, struct err *e)
{
	int logarithmic = log_given ? log_choice : kind == KIND_LOSS ? 2 : kind == KIND_COST ? 1 : 0;

	c->width = (double)width;
	c->height = (double)height;
	c->log_x = logarithmic & 1;
	c->log_y = logarithmic >> 1;
	c->has_x_range = x_range != NULL;
	c->has_y_range = y_range != NULL;
	if (title)
		chart_text_set(&c->title, title);
	if (x_label)
		chart_text_set(&c->x_label, x_label);
	if (y_label)
		chart_text_set(&c->y_label, y_label);
	if ((x_range && range_parse(x_range, "--x-range", c->x_range, c->log_x, e)) ||
	    (y_range && range_parse(y_range, "--y-range", c->y_range, c->log_y, e)))
		return -1;
	return 0;
}

/* The column of the floor that belongs to a column of distances: kd_heldout -> kd_floor. */
static char *floor_of(const char *column)
{
	if (floor_column)
		return *floor_column ? mem_strdup(floor_column) : NULL;
	return str_new("%.*s_floor", (int)strcspn(column, "_"), column);
}

static int cost(struct chart *c, struct input *in, struct err *e)
{
	const char *y = y_column ? y_column : "kd", *x = x_column ? x_column : "gflop_per_image";
	char *arm = group ? mem_strdup(group) : source_arm_column(in->path[0], e), *below = floor_of(y);
	int rc = -1;

	if (arm && below && !floor_column && !source_has(in->path[0], below)) {
		mem_free(below);
		below = NULL;
	}
	c->name_points = 1;
	if (arm)
		rc = source_cost(c, in->path, in->n, arm, x, y, below, level, in->hash, e);
	mem_free(arm);
	mem_free(below);
	return rc;
}

static int columns(struct chart *c, struct input *in, int marks, struct err *e)
{
	if (!x_column || !y_column)
		return err_set(e, ERR_USAGE, "-x and -y are missing: columns");
	for (int i = 0; i < in->n; i++) {
		int64_t absent = source_columns(c, in->path[i], in->label[i], x_column, y_column, group, low, high, marks, in->hash[i], e);

		if (absent < 0)
			return -1;
		in->absent += absent;
	}
	return 0;
}

static int router(struct chart *c, struct input *in, struct err *e)
{
	int entropy = y_column && !strcmp(y_column, "entropy");

	if (y_column && !strcmp(y_column, "accuracy")) {
		for (int i = 0; i < in->n; i++)
			if (source_accuracy(c, in->path[i], in->label[i], in->hash[i], e))
				return -1;
		return 0;
	}
	if (y_column && !entropy && strcmp(y_column, "weight"))
		return err_set(e, ERR_USAGE, "-y %s: weight, entropy or accuracy", y_column);
	if (in->n > 1)
		return err_set(e, ERR_USAGE, "of router weights one file makes a chart, not %d", in->n);
	return source_router(entropy ? NULL : c, entropy ? c : NULL, in->path[0], in->hash[0], e);
}

static int draw_chart(struct scene *s, enum kind kind, struct input *in, struct err *e)
{
	struct chart c = {0};
	int rc = chart_options(&c, kind, e);

	for (int i = 0; i < in->n && kind == KIND_LOSS && !rc; i++)
		rc = source_loss(&c, in->path[i], in->label[i], smooth, in->hash[i], e);
	if (!rc && kind == KIND_COST)
		rc = cost(&c, in, e);
	else if (!rc && kind == KIND_ROUTER)
		rc = router(&c, in, e);
	else if (!rc && kind != KIND_LOSS)
		rc = columns(&c, in, kind == KIND_LINES ? CHART_LINE : CHART_POINTS, e);
	if (!rc && chart_options(&c, kind, e) == 0)
		rc = chart_draw(s, &c, e);
	chart_release(&c);
	return rc;
}

static int draw_bars(struct scene *s, enum kind kind, struct input *in, struct err *e)
{
	struct bars b = {.width = (double)width};
	int rc = 0;

	if (title)
		chart_text_set(&b.title, title);
	if (x_label)
		chart_text_set(&b.x_label, x_label);
	if (kind == KIND_BARS && (!x_column || !y_column))
		rc = err_set(e, ERR_USAGE, "-x and -y are missing: the column of names and that of values");
	if (kind == KIND_BARS && !rc && !low != !high)
		rc = err_set(e, ERR_USAGE, "--low and --high go together");
	if (!rc && kind == KIND_BARS && in->n > 1)
		rc = err_set(e, ERR_USAGE, "bars are of one file, not %d", in->n);
	for (int i = 0; i < in->n && !rc; i++)
		rc = kind == KIND_BARS ? source_bars(&b, in->path[i], x_column, y_column, low, high, level, in->hash[i], e)
		                       : source_compare(&b, in->path[i], y_column, in->hash[i], e);
	if (!rc)
		rc = bars_draw(s, &b, e);
	bars_release(&b);
	return rc;
}

static char *stamp(enum kind kind, const struct input *in)
{
	struct stamp *s = stamp_new(program.name);
	char *line;

	stamp_text(s, "kind", kinds[kind]);
	for (int i = 0; i < in->n; i++) {
		char *role = str_new("%d %s", i, in->label[i]);

		stamp_input(s, role, in->hash[i]);
		mem_free(role);
	}
	line = stamp_line(s);
	stamp_free(s);
	return line;
}

static int write_svg(const struct scene *s, const char *line, struct err *e)
{
	struct str text = {0};
	int rc;

	scene_svg(&text, s, "chart", line);
	seal_markup(&text);
	rc = commit_bytes(out_path, text.p, text.len, e);
	str_release(&text);
	return rc;
}

static int write_png(const struct scene *s, const char *line, struct err *e)
{
	struct still_text text[] = {{"Title", s->title}, {"Description", s->about}, {"ddm", line}};
	struct picture p = {0};
	uint8_t *data = NULL;
	size_t len;
	int rc = scene_picture(&p, s, scale, e) || still_encode_png(&p, text, 3, &data, &len, e) || commit_bytes(out_path, data, len, e) ? -1 : 0;

	picture_release(&p);
	mem_free(data);
	return rc;
}

static int run(struct input *in, const char *name, struct err *e)
{
	struct scene s = {0};
	int kind = 0, png = format_choice < 0 ? str_ends(out_path, ".png") : format_choice, rc;
	char meant[WORD_MEANT];
	char *line;

	while (kind < KINDS && strcmp(name, kinds[kind]))
		kind++;
	if (kind == KINDS)
		return err_set(e, ERR_USAGE, "'%s' is no kind of chart: loss, cost, router, compare, lines, points, bars%s", name,
		               word_meant(meant, name, kinds));
	if (png && cmd_binary(out_path, "-o FILE.png, or --format svg", e))
		return -1;
	if (claim_take(&out_path, 1, e) || standing_view(out_path, program.name, NULL, e))
		return -1;
	rc = kind == KIND_COMPARE || kind == KIND_BARS ? draw_bars(&s, kind, in, e) : draw_chart(&s, kind, in, e);
	if (!rc) {
		line = stamp(kind, in);
		rc = (png ? write_png : write_svg)(&s, line, e);
		mem_free(line);
	}
	if (!rc && in->absent)
		cmd_say("ddm-plot: %lld rows without %s or %s", (long long)in->absent, x_column, y_column);
	scene_release(&s);
	return rc;
}

/* A model folder is drawn by the logs in it. */
static enum plot_folder folder_of(const char *kind)
{
	if (!strcmp(kind, kinds[KIND_LOSS]))
		return FOLDER_EXPERTS;
	return !strcmp(kind, kinds[KIND_ROUTER]) && y_column && !strcmp(y_column, "accuracy") ? FOLDER_ROUTER : FOLDER_NONE;
}

int main(int argc, char **argv)
{
	struct err e = {0};
	struct input in = {0};
	int n = cmd_start(&program, argc, argv, 2, -1);

	if (!input_init(&in, argv + 2, n - 1, folder_of(argv[1]), &e))
		run(&in, argv[1], &e);
	input_release(&in);
	return cmd_end(&e);
}
