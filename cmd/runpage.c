/* Writes the page of ddm-html: reads the files of a run, and writes the sections on results and samples. */
#include "cmd/runpage.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/cmd.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "file/fileio.h"
#include "file/standing.h"
#include "plot/frame.h"
#include "plot/glossary.h"
#include "plot/sources.h"

enum { CHART_WIDTH = 400, CHART_HEIGHT = 300, BARS_WIDTH = 480 };

/* Read the facts of a log from its last start line. */
static int log_facts(struct runlog *l, struct err *e)
{
	struct frame *f = frame_load(l->path, e);

	if (!f)
		return -1;
	for (int64_t i = 0; i < frame_rows(f); i++)
		if (!strcmp(frame_text(f, i, "event"), "start") &&
		    (frame_number(f, i, "parameters", &l->parameters, e) < 0 || frame_number(f, i, "steps", &l->steps, e) < 0 ||
		     frame_number(f, i, "stamp.batch", &l->batch, e) < 0 || frame_number(f, i, "samples", &l->samples, e) < 0 ||
		     frame_number(f, i, "gflop_per_image", &l->gflop, e) < 0)) {
			frame_free(f);
			return -1;
		}
	frame_free(f);
	return 0;
}

/* Add the log of the network `name` in `group`, if it has one. */
static int log_add(struct runpage *r, const char *group, const char *name, struct err *e)
{
	char *path = str_new("%s/%s/%s/train.jsonl", r->dir, group, name);

	if (!path_exists(path)) {
		mem_free(path);
		return 0;
	}
	r->log = mem_resize(r->log, (size_t)r->logs + 1, sizeof *r->log);
	r->log[r->logs] = (struct runlog){.path = path, .name = mem_strdup(name), .router = !strcmp(name, "router")};
	r->log[r->logs].group = mem_strdup(*group ? group : "model");
	return log_facts(&r->log[r->logs++], e);
}

/* Add the logs in the folder `group` ("": the run's folder itself): experts in the order of their numbers, then the router. The passes add names with
 * one digit, with two digits, and the router, so that expert_2 comes before expert_10. */
static int find_in_group(struct runpage *r, const char *group, struct err *e)
{
	char *path = path_join(r->dir, group), **name = NULL;
	struct stat st;
	size_t n = 0;
	int rc = 0;

	if (*group != '.' && !stat(path, &st) && S_ISDIR(st.st_mode))
		rc = dir_list(path, &name, &n, e);
	for (size_t pass = 1; pass <= 3 && !rc; pass++)
		for (size_t j = 0; j < n && !rc; j++) {
			size_t digits = strncmp(name[j], "expert_", 7) ? 0 : strlen(name[j]) - 7;

			if (pass == 3 ? !strcmp(name[j], "router") : digits == pass)
				rc = log_add(r, group, name[j], e);
		}
	names_free(name, n);
	mem_free(path);
	return rc;
}

static int find_logs(struct runpage *r, struct err *e)
{
	char **group;
	size_t n;
	int rc = 0;

	if (dir_list(r->dir, &group, &n, e))
		return -1;
	for (size_t i = 0; i < n && !rc; i++)
		rc = find_in_group(r, group[i], e);
	names_free(group, n);
	return rc;
}

static int run_open(struct runpage *r, char *const *dir, int n, const char *partition, struct err *e)
{
	char *shards = path_join(partition ? partition : dir[0], "shards"), *manifest = path_join(shards, "MANIFEST.tsv");
	int rc = 0;

	r->dir = dir[0];
	r->partition = partition ? partition : dir[0];
	r->ntables = n;
	r->tables = mem_zalloc((size_t)n, sizeof *r->tables);
	for (int i = 0; i < n; i++)
		r->tables[i] = path_join(dir[i], "report.tsv");
	r->report = tsv_load(r->tables[0], e);
	if (!r->report || (path_exists(manifest) && manifest_load(&r->manifest, shards, e)) || find_logs(r, e))
		rc = -1;
	mem_free(shards);
	mem_free(manifest);
	return rc;
}

static int model_open(struct runpage *r, char *const *dir, int n, struct err *e)
{
	r->model = 1;
	r->dir = r->partition = dir[0];
	if (n > 1)
		return err_set(e, ERR_USAGE, "%s holds a model without report.tsv: a page shows only one such model", dir[0]);
	return find_in_group(r, "", e);
}

/* Whether a folder holds the log of an expert or a router. */
static int has_experts(const char *dir)
{
	char **name;
	size_t n;
	int found = 0;

	if (dir_list(dir, &name, &n, NULL))
		return 0;
	for (size_t i = 0; i < n && !found; i++) {
		char *path = str_new("%s/%s/train.jsonl", dir, name[i]);

		found = (!strncmp(name[i], "expert_", 7) || !strcmp(name[i], "router")) && path_exists(path);
		mem_free(path);
	}
	names_free(name, n);
	return found;
}

int runpage_open(struct runpage *r, char *const *dir, int n, const char *partition, struct err *e)
{
	char *table = path_join(dir[0], "report.tsv");
	int model = !path_exists(table) && has_experts(dir[0]);

	mem_free(table);
	return model ? model_open(r, dir, n, e) : run_open(r, dir, n, partition, e);
}

void runpage_model(struct runpage *r)
{
	page_paragraph(&r->page, "The training of one model: experts, each trained alone on one cluster of the pictures, and their router where it "
	                         "has one.");
	str_puts(&r->page.html, "<nav aria-label=\"Contents\"><ul><li><a href=\"#training\">Training</a></li><li><a href=\"#again\">To do it "
	                        "again</a></li></ul></nav>\n");
}

void runpage_release(struct runpage *r)
{
	for (int i = 0; i < r->ntables; i++)
		mem_free(r->tables[i]);
	for (int i = 0; i < r->logs; i++) {
		mem_free(r->log[i].path);
		mem_free(r->log[i].group);
		mem_free(r->log[i].name);
	}
	mem_free(r->tables);
	mem_free(r->log);
	tsv_free(r->report);
	manifest_release(&r->manifest);
	str_release(&r->page.html);
}

int runpage_experts(const struct runpage *r, const char *group)
{
	int n = 0;

	for (int i = 0; i < r->logs; i++)
		n += !r->log[i].router && !strcmp(r->log[i].group, group);
	return n;
}

char *runpage_log_name(const struct runpage *r, const struct runlog *l)
{
	const char *digits = l->router ? "" : l->name + strlen("expert_");

	if (!l->router && runpage_experts(r, l->group) == 1)
		return mem_strdup(l->group);
	return str_new("%s%s%s%s", strcmp(l->group, "model") ? l->group : "", strcmp(l->group, "model") ? " " : "", l->router ? "router" : "expert ",
	               digits);
}

static int64_t total(const int64_t *v, int n)
{
	int64_t sum = 0;

	for (int i = 0; i < n; i++)
		sum += v[i];
	return sum;
}

int runpage_summary(struct runpage *r, struct err *e)
{
	const struct manifest *m = &r->manifest;
	struct str text = {0};

	(void)e;
	str_puts(&text, "An ensemble of diffusion models, the experts, each trained alone on one cluster of the pictures, and a router that weights "
	                "them at every step of sampling; beside it the monolith, one model of all pictures. ");
	if (m->rows)
		str_printf(&text, "%lld pictures to train on in %d clusters, %lld held out. ", (long long)total(m->train, m->clusters), m->clusters,
		           (long long)total(m->held, m->clusters));
	if (r->ntables > 1)
		str_printf(&text, "The first of %d runs that differ in their seed.", r->ntables);
	else
		str_puts(&text, "One training seed: differences may be chance, and no winner is named.");
	page_paragraph(&r->page, str_text(&text));
	str_release(&text);
	str_puts(&r->page.html,
	         "<nav aria-label=\"Contents\"><ul><li><a href=\"#results\">Results</a></li><li><a href=\"#samples\">Samples</a></li>"
	         "<li><a href=\"#training\">Training</a></li><li><a href=\"#routing\">Routing</a></li><li><a href=\"#data\">Data</a></li>"
	         "<li><a href=\"#again\">To do it again</a></li></ul></nav>\n");
	return 0;
}

static void result_table(struct runpage *r)
{
	const struct tsv *t = r->report;
	int columns = tsv_columns(t);
	const char **cell = mem_zalloc((size_t)columns, sizeof *cell);
	char(*text)[32] = mem_zalloc((size_t)columns, sizeof *text);

	for (int i = 0; i < columns; i++)
		cell[i] = tsv_name(t, i);
	page_table(&r->page, "What each strategy reached", cell, columns);
	for (int64_t row = 0; row < tsv_rows(t); row++) {
		for (int i = 0; i < columns; i++) {
			double v;

			cell[i] = tsv_get(t, row, i);
			if (i && !parse_f64(cell[i], -1e300, 1e300, &v)) {
				axis_number(text[i], v);
				cell[i] = text[i];
			}
		}
		page_row(&r->page, cell, columns);
	}
	page_table_end(&r->page);
	mem_free(cell);
	mem_free(text);
}

/* A cell of a table of ddm-compare: a rounded number, or "" if it is not a number. Returns `text` or "". */
static const char *short_number(char text[32], const struct tsv *t, int64_t row, const char *column)
{
	double v;

	if (parse_f64(tsv_get(t, row, tsv_column(t, column)), -1e300, 1e300, &v))
		return "";
	axis_number(text, v);
	return text;
}

/* Write the table of one key, whose rows begin at `row`. Returns the number of rows. */
static int64_t comparison(struct runpage *r, const struct tsv *t, int64_t row)
{
	static const char *const heading[] = {"arm", "mean", "standard deviation", "difference", "low", "high", "p", "p, corrected (Holm)"};
	static const char *const column[] = {"arm", "mean", "sd", "difference", "low", "high", "p", "p_holm"};
	const int columns = tsv_column(t, "p_holm") < 0 ? 7 : 8;
	const char *key = tsv_get(t, row, tsv_column(t, "key")), *seeds = tsv_get(t, row, tsv_column(t, "seeds"));
	char *caption = str_new("%s: mean over %s seeds, difference from %s and its interval", key, seeds, tsv_get(t, row, tsv_column(t, "arm")));
	int64_t first = row;

	page_table(&r->page, caption, heading, columns);
	for (; row < tsv_rows(t) && !strcmp(tsv_get(t, row, tsv_column(t, "key")), key); row++) {
		char text[8][32];
		const char *cell[8] = {tsv_get(t, row, tsv_column(t, "arm"))};

		for (int i = 1; i < columns; i++)
			cell[i] = short_number(text[i], t, row, column[i]);
		page_row(&r->page, cell, columns);
	}
	page_table_end(&r->page);
	mem_free(caption);
	return row - first;
}

static int comparison_chart(struct runpage *r, const char *key, struct err *e)
{
	struct bars b = {.width = BARS_WIDTH};
	struct scene s = {0};
	int rc = source_compare(&b, r->compare, key, NULL, e);

	if (!rc && b.n)
		rc = bars_draw(&s, &b, e);
	if (!rc && b.n)
		page_chart(&r->page, &s, "Differences and their intervals: where one holds zero, these seeds do not tell the arms apart.");
	bars_release(&b);
	scene_release(&s);
	return rc;
}

/* Write the tables of ddm-compare, with charts for the first two keys, which are the main metrics. */
static int comparisons(struct runpage *r, struct err *e)
{
	static const char *const needed[] = {"key", "arm", "seeds", "mean", "sd", "difference", "low", "high", "p"};
	struct tsv *t = tsv_load(r->compare, e);
	int rc = t ? 0 : -1;
	int64_t row = 0, keys = 0;

	for (size_t i = 0; i < sizeof needed / sizeof *needed && !rc; i++)
		if (tsv_column(t, needed[i]) < 0)
			rc = err_set(e, ERR_DATA, "%s: has no column \"%s\", so it is not a table of ddm-compare", r->compare, needed[i]);
	while (!rc && row < tsv_rows(t)) {
		const char *key = tsv_get(t, row, tsv_column(t, "key"));

		row += comparison(r, t, row);
		if (keys++ < 2)
			rc = comparison_chart(r, key, e);
	}
	tsv_free(t);
	if (!rc)
		str_puts(&r->page.html, r->ntables > 1 ? "<h3>The first run</h3>\n" : "<h3>This run</h3>\n");
	return rc;
}

static void meanings(struct runpage *r)
{
	str_puts(&r->page.html, "<h3>What the columns mean</h3>\n<dl>\n");
	for (int i = 0; i < tsv_columns(r->report); i++) {
		const struct glossary *g = glossary_find(tsv_name(r->report, i));

		if (!g)
			continue;
		str_puts(&r->page.html, "<dt>");
		page_text(&r->page, tsv_name(r->report, i));
		str_puts(&r->page.html, "</dt><dd>");
		page_text(&r->page, g->meaning);
		str_puts(&r->page.html, "</dd>\n");
	}
	str_puts(&r->page.html, "</dl>\n");
}

int runpage_chart(struct runpage *r, struct chart *c, const char *caption, struct err *e)
{
	struct scene s = {0};
	int rc;

	c->width = CHART_WIDTH;
	c->height = CHART_HEIGHT;
	rc = chart_draw(&s, c, e);
	if (!rc)
		page_chart(&r->page, &s, caption);
	scene_release(&s);
	return rc;
}

/* Whether at least one row has a number in this column. */
static int has_numbers(const struct tsv *t, const char *column)
{
	int i = tsv_column(t, column);
	double v;

	for (int64_t row = 0; i >= 0 && row < tsv_rows(t); row++)
		if (!parse_f64(tsv_get(t, row, i), -CHART_LIMIT, CHART_LIMIT, &v))
			return 1;
	return 0;
}

/* A chart of the metric y against the cost per picture. `floor`: column of the metric's value for real pictures. */
static int cost_chart(struct runpage *r, const char *y, const char *floor, const char *title, struct err *e)
{
	struct chart c = {.log_x = 1, .name_points = 1};
	struct str caption = {0};
	int rc;

	chart_text_set(&c.title, title);
	str_puts(&caption, "Further down is closer to real pictures, further left is cheaper.");
	if (r->ntables > 1)
		str_printf(&caption, " Means of %d runs with 95%% intervals.", r->ntables);
	rc = source_cost(&c, r->tables, r->ntables, tsv_name(r->report, 0), "gflop_per_image", y, tsv_column(r->report, floor) < 0 ? NULL : floor,
	                 .95, NULL, e);
	if (!rc)
		rc = runpage_chart(r, &c, str_text(&caption), e);
	str_release(&caption);
	chart_release(&c);
	return rc;
}

int runpage_results(struct runpage *r, struct err *e)
{
	int kd = has_numbers(r->report, "kd") && has_numbers(r->report, "gflop_per_image");
	int fd = has_numbers(r->report, "fd") && has_numbers(r->report, "gflop_per_image"), rc = 0;

	page_heading(&r->page, "results", "Results");
	if (r->compare && comparisons(r, e))
		return -1;
	result_table(r);
	page_charts(&r->page);
	if (kd)
		rc = cost_chart(r, "kd", "kd_floor", "Kernel distance and cost", e);
	if (fd && !rc)
		rc = cost_chart(r, "fd", "fd_floor", "Frechet distance and cost", e);
	page_charts_end(&r->page);
	meanings(r);
	return rc;
}

/* The row labels in the stamp of a sheet of ddm-grid, such as "training pictures, monolith, top-1". Caller frees with mem_free. */
static char *sheet_labels(const char *path, struct err *e)
{
	char *line = standing_stamp(path, e), key[32];
	json_t *stamp = line ? json_loads(line, 0, NULL) : NULL;
	struct str text = {0};
	const char *label;

	for (int i = 0; snprintf(key, sizeof key, "label %d", i), (label = json_string_value(json_object_get(stamp, key))); i++)
		str_printf(&text, "%s%s", i ? ", " : "", label);
	json_decref(stamp);
	mem_free(line);
	return text.p ? text.p : mem_strdup("rows of pictures");
}

/* The films of the run, films/NAME.webp, in the order of their names. *shown: their number. */
static int show_films(struct runpage *r, int *shown, struct err *e)
{
	char *dir = path_join(r->dir, "films"), **names = NULL;
	size_t n = 0;
	int rc = path_exists(dir) ? dir_list(dir, &names, &n, e) : 0;

	*shown = 0;
	for (size_t i = 0; i < n && !rc; i++) {
		char *path, *name, *alt;

		if (!str_ends(names[i], ".webp"))
			continue;
		if (!(*shown)++)
			page_charts(&r->page);
		path = path_join(dir, names[i]);
		name = mem_strndup(names[i], strlen(names[i]) - strlen(".webp"));
		alt = str_new("A film of clips that move, side by side: %s.", name);
		rc = page_film(&r->page, path, alt, name, e);
		mem_free(path);
		mem_free(name);
		mem_free(alt);
	}
	if (*shown)
		page_charts_end(&r->page);
	names_free(names, n);
	mem_free(dir);
	return rc;
}

int runpage_pictures(struct runpage *r, struct err *e)
{
	char *path = path_join(r->dir, "samples.png"), *labels, *alt;
	int rc = 0, films;

	page_heading(&r->page, "samples", "Samples");
	if (show_films(r, &films, e)) {
		mem_free(path);
		return -1;
	}
	if (path_exists(path)) {
		labels = sheet_labels(path, e);
		alt = str_new("Rows of small pictures, from top to bottom: %s.", labels);
		rc = e->code ? -1 : page_picture(&r->page, path, alt, "Pictures at equal distances over each source, none chosen.", e);
		mem_free(labels);
		mem_free(alt);
	} else if (!films) {
		page_paragraph(&r->page, "There is no sheet of samples in this run.");
	}
	mem_free(path);
	return rc;
}
