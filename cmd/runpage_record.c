/* Writes the last sections of a run's page: its data, and the settings and stamps that are needed to repeat the run. */
#include <stdio.h>
#include <string.h>

#include "cmd/runpage.h"
#include "config.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/version.h"
#include "file/fileio.h"
#include "file/standing.h"
#include "plot/frame.h"

static void cluster_table(struct runpage *r)
{
	static const char *const heading[] = {"cluster", "trained on", "held out"};
	const struct manifest *m = &r->manifest;

	page_table(&r->page, "Pictures of each cluster", heading, 3);
	for (int i = 0; i < m->clusters; i++) {
		char text[3][24];
		const char *const cell[] = {text[0], text[1], text[2]};

		snprintf(text[0], sizeof text[0], "%d", i);
		snprintf(text[1], sizeof text[1], "%lld", (long long)m->train[i]);
		snprintf(text[2], sizeof text[2], "%lld", (long long)m->held[i]);
		page_row(&r->page, cell, 3);
	}
	page_table_end(&r->page);
}

int runpage_data(struct runpage *r, struct err *e)
{
	char *sheet = path_join(r->partition, "clusters.png");
	int rc = 0;

	page_heading(&r->page, "data", "Data");
	if (r->manifest.rows)
		cluster_table(r);
	if (path_exists(sheet))
		rc = page_picture(&r->page, sheet, "Rows of small pictures, one row for each cluster, cluster 0 on top.",
		                  "Some pictures of each cluster, a row for each, cluster 0 on top.", e);
	mem_free(sheet);
	return rc;
}

/* The options in a stamp as one line, "KEY VALUE, ...", without the inputs. Caller frees with mem_free. */
static char *options_line(const json_t *stamp)
{
	struct str text = {0};
	const char *key;
	json_t *v;

	json_object_foreach ((json_t *)stamp, key, v) {
		char *value;

		if (!strcmp(key, "program") || !strcmp(key, "version") || !strcmp(key, "inputs") || json_is_object(v) || json_is_array(v))
			continue;
		value = json_is_string(v) ? mem_strdup(json_string_value(v)) : json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
		str_printf(&text, "%s%s %s", text.len ? ", " : "", key, value);
		mem_free(value);
	}
	return text.p ? text.p : mem_strdup("");
}

/* Write the program, version, options and inputs of a stamp; nothing if it names no program. */
static void stamp_put(struct page *p, const char *what, const char *line)
{
	json_t *stamp = json_loads(line, 0, NULL), *v;
	const char *role, *program = json_string_value(json_object_get(stamp, "program"));
	char *options = options_line(stamp);

	if (program) {
		str_puts(&p->html, "<dt>");
		page_text(p, what);
		str_puts(&p->html, "</dt><dd>");
		page_text(p, program);
		page_text(p, " ");
		page_text(p, json_string_value(json_object_get(stamp, "version")) ? json_string_value(json_object_get(stamp, "version")) : "");
		page_text(p, *options ? ": " : "");
		page_text(p, options);
		json_object_foreach (json_object_get(stamp, "inputs"), role, v) {
			str_puts(&p->html, "<br>");
			page_text(p, role);
			str_puts(&p->html, " <code>");
			page_text(p, json_string_value(v) ? json_string_value(v) : "");
			str_puts(&p->html, "</code>");
		}
		str_puts(&p->html, "</dd>\n");
	}
	json_decref(stamp);
	mem_free(options);
}

/* Write the stamps of the outputs and of the training logs. */
static int record(struct runpage *r, struct err *e)
{
	static const char *const files[] = {"samples.tar", "assign.tsv", "shards/MANIFEST.tsv"};

	str_puts(&r->page.html, "<h3>What the outputs say of themselves</h3>\n<dl>\n");
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		char *path = path_join(i ? r->partition : r->dir, files[i]), *line = path_exists(path) ? standing_stamp(path, e) : NULL;

		if (line)
			stamp_put(&r->page, files[i], line);
		mem_free(path);
		mem_free(line);
	}
	for (int i = 0; i < r->logs; i++) {
		struct frame *f = frame_load(r->log[i].path, e);
		char *name = runpage_log_name(r, &r->log[i]), *line = f ? frame_json(f, "stamp") : NULL;

		if (line)
			stamp_put(&r->page, name, line);
		mem_free(name);
		mem_free(line);
		frame_free(f);
	}
	str_puts(&r->page.html, "</dl>\n");
	return e->code ? -1 : 0;
}

int runpage_again(struct runpage *r, struct err *e)
{
	page_heading(&r->page, "again", "To do it again");
	if (r->settings) {
		page_paragraph(&r->page,
		               "With this in a Makefile, make report does everything again, and a run with another SEED and RUN shows what chance "
		               "does. The same build on the same model of processor gives the same bytes.");
		page_pre(&r->page, r->settings);
	}
	page_paragraph(&r->page, "Versions: ddm " DDM_VERSION ", built with");
	page_pre(&r->page, DDM_BUILD);
	return record(r, e);
}
