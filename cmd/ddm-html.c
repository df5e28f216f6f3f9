/* ddm-html: writes an HTML page about one run of the recipe. */
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/runpage.h"
#include "core/hash.h"
#include "core/mem.h"
#include "core/seal.h"
#include "file/claim.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/stamp.h"
#include "file/standing.h"

static const char usual_title[] = "Experts and a monolith", *title = usual_title, *settings, *partition, *compare, *out_path = "-";
static uint64_t most = 768 << 10;

static const struct option options[] = {
    {.name = "--title", .letter = 't', .type = OPTION_TEXT, .value = &title, .arg = "TEXT", .help = "heading of the page", OPTION_ALWAYS},
    {.name = "--settings",
     .type = OPTION_TEXT,
     .value = &settings,
     .arg = "TEXT",
     .help = "text of the Makefile that made the run, shown on the page",
     OPTION_ALWAYS},
    {.name = "--partition",
     .letter = 'p',
     .type = OPTION_TEXT,
     .value = &partition,
     .arg = "DIR",
     .help = "folder of assign.tsv, shards and clusters.png (default: RUN)",
     OPTION_ALWAYS},
    {.name = "--compare",
     .type = OPTION_TEXT,
     .value = &compare,
     .arg = "FILE",
     .help = "table of ddm-compare over seeds, shown first",
     OPTION_ALWAYS,
     .was = "-c"},
    {.name = "--picture-size",
     .type = OPTION_SIZE,
     .value = &most,
     .arg = "SIZE",
     .help = "size limit of an embedded sheet; a larger one is compressed (default 768K)",
     OPTION_ALWAYS},
    {.name = "--output",
     .letter = 'o',
     .type = OPTION_TEXT,
     .value = &out_path,
     .arg = "FILE",
     .help = "write the page to FILE (default -, standard output)",
     OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-html",
    .operands = "RUN...",
    .about = "Write one HTML page, complete in itself, about a run of the recipe: the table, samples, charts, data, settings. Further "
	     "runs of the same with other seeds add intervals to its charts. Of a model's folder it shows the training.",
    .options = options,
};

/* The page's stamp: the title and the hashes of the input files. Training logs contain times and are left out. Caller frees with mem_free. */
static char *stamp(const struct runpage *r, struct err *e)
{
	static const char *const files[] = {"samples.png", "clusters.png"};
	struct stamp *s = stamp_new(program.name);
	char hex[65], *line;

	stamp_text(s, "title", title);
	for (int i = 0; i < r->ntables; i++) {
		char *role = i ? str_new("report %d", i + 1) : mem_strdup("report");

		if (!sha256_file(r->tables[i], hex, NULL, e))
			stamp_input(s, role, hex);
		mem_free(role);
	}
	if (compare && !sha256_file(compare, hex, NULL, e))
		stamp_input(s, "compare", hex);
	if (r->manifest.rows)
		stamp_input(s, "shards", r->manifest.sha256);
	for (int i = 0; i < 2; i++) {
		char *path = path_join(i ? r->partition : r->dir, files[i]);

		if (path_exists(path) && !sha256_file(path, hex, NULL, e))
			stamp_input(s, files[i], hex);
		mem_free(path);
	}
	line = stamp_line(s);
	stamp_free(s);
	return line;
}

static int write_page(struct runpage *r, struct err *e)
{
	static int (*const section[])(struct runpage *, struct err *) = {runpage_summary, runpage_results, runpage_pictures, runpage_training,
	                                                                 runpage_routing, runpage_data,    runpage_again};
	char *line = stamp(r, e);
	int rc = e->code ? -1 : 0;

	r->page.most = most;
	r->settings = settings;
	r->compare = compare;
	page_start(&r->page, r->model && title == usual_title ? "The training of a model" : title, line);
	if (r->model && !rc) {
		runpage_model(r);
		rc = runpage_training(r, e) || runpage_again(r, e) ? -1 : 0;
	}
	for (size_t i = 0; i < sizeof section / sizeof *section && !rc && !r->model; i++)
		rc = section[i](r, e);
	page_end(&r->page);
	seal_markup(&r->page.html);
	mem_free(line);
	return rc ? rc : commit_bytes(out_path, r->page.html.p, r->page.html.len, e);
}

int main(int argc, char **argv)
{
	struct err e = {0};
	struct runpage r = {0};
	int n = cmd_start(&program, argc, argv, 1, -1);

	if (!claim_take(&out_path, 1, &e) && !standing_view(out_path, program.name, NULL, &e) && !runpage_open(&r, argv + 1, n, partition, &e))
		write_page(&r, &e);
	runpage_release(&r);
	return cmd_end(&e);
}
