/* Writes the sections of ddm-html's page on training and routing. */
#include <stdio.h>
#include <string.h>

#include "cmd/runpage.h"
#include "core/mem.h"
#include "file/fileio.h"
#include "plot/frame.h"
#include "plot/sources.h"

/* Draw the losses of a group's experts (NULL: of all groups) or of all routers. Networks that are alone in their group (the monolith) are drawn for
 * comparison. */
static int loss_chart(struct runpage *r, const char *group, int routers, struct err *e)
{
	struct chart c = {.log_y = 1};
	int rc = 0;

	for (int i = 0; i < r->logs && !rc; i++) {
		const struct runlog *l = &r->log[i];
		int own = !group || !strcmp(l->group, group), alone = !l->router && runpage_experts(r, l->group) == 1;

		if (l->router == routers && (own || alone)) {
			char *label = runpage_log_name(r, l);

			rc = source_loss(&c, l->path, label, 0, NULL, e);
			mem_free(label);
		}
	}
	chart_text_set(&c.title, routers ? "Loss of the router" : group && strcmp(group, "model") ? group : "Loss of the experts");
	if (!rc && c.n)
		rc = runpage_chart(r, &c,
		                   routers ? "Cross entropy of the guessed cluster of a noisy picture."
		                           : "Lines: running means of the loss in training, the logged losses faintly behind them; points: the "
		                             "loss on held-out pictures.",
		                   e);
	chart_release(&c);
	return rc;
}

/* A row of the network table that shows only the training cost, as TFLOP. */
static void work_row(struct runpage *r, const char *name, double gflop)
{
	char work[32];
	const char *const cell[] = {name, "", "", "", "", work};

	axis_number(work, gflop * 1e-3);
	page_row(&r->page, cell, 6);
}

static double work_of(const struct runlog *l) /* GFLOP of the training */
{
	return l->gflop * l->steps * l->batch;
}

/* Write the training cost of a group's experts and router together, for comparison with the monolith. */
static void sum_row(struct runpage *r, const char *group)
{
	char *name = str_new("%s%sexperts and router", strcmp(group, "model") ? group : "", strcmp(group, "model") ? " " : "");
	double sum = 0;

	for (int i = 0; i < r->logs; i++)
		sum += strcmp(r->log[i].group, group) ? 0 : work_of(&r->log[i]);
	work_row(r, name, sum);
	mem_free(name);
}

static void network_table(struct runpage *r)
{
	static const char *const heading[] = {"network", "parameters", "pictures", "batch", "steps", "training TFLOP"};

	page_table(&r->page, "What was trained", heading, 6);
	for (int i = 0; i < r->logs; i++) {
		const struct runlog *l = &r->log[i];
		char text[5][32], *name = runpage_log_name(r, l);
		const char *const cell[] = {name, text[0], text[1], text[2], text[3], text[4]};

		snprintf(text[0], sizeof text[0], "%.0f", l->parameters);
		snprintf(text[1], sizeof text[1], "%.0f", l->samples);
		snprintf(text[2], sizeof text[2], "%.0f", l->batch);
		snprintf(text[3], sizeof text[3], "%.0f", l->steps);
		axis_number(text[4], work_of(l) * 1e-3);
		page_row(&r->page, cell, 6);
		mem_free(name);
		if (runpage_experts(r, l->group) > 1 && (i + 1 == r->logs || strcmp(l->group, r->log[i + 1].group)))
			sum_row(r, l->group);
	}
	page_table_end(&r->page);
}

int runpage_training(struct runpage *r, struct err *e)
{
	int routers = 0, rc = 0, ensembles = 0;

	page_heading(&r->page, "training", "Training");
	if (!r->logs) {
		page_paragraph(&r->page, "There are no logs of training in this run.");
		return 0;
	}
	network_table(r);
	page_charts(&r->page);
	for (int i = 0; i < r->logs && !rc; i++) {
		const char *group = r->log[i].group;

		routers += r->log[i].router;
		if ((i && !strcmp(group, r->log[i - 1].group)) || runpage_experts(r, group) < 2)
			continue;
		ensembles++;
		rc = loss_chart(r, group, 0, e);
	}
	if (!rc && !ensembles)
		rc = loss_chart(r, NULL, 0, e);
	if (!rc && routers)
		rc = loss_chart(r, NULL, 1, e);
	page_charts_end(&r->page);
	return rc;
}

/* Draw the router's weights and their entropy from a log of ddm-sample. */
static int routing_charts(struct runpage *r, const char *path, const char *name, struct err *e)
{
	struct chart weights = {0}, entropy = {0};
	char *title = str_new("Weights under %s", name);
	int rc = source_router(&weights, &entropy, path, NULL, e);

	chart_text_set(&weights.title, title);
	chart_text_set(&entropy.title, "How undecided the router is");
	page_charts(&r->page);
	if (!rc)
		rc = runpage_chart(r, &weights, "Mean weight of each expert over all samples, from noise on the left to pictures on the right.", e) ||
		             runpage_chart(r, &entropy, "0: one expert has all the weight; the dashed line: all experts have the same weight.", e)
		         ? -1
		         : 0;
	page_charts_end(&r->page);
	mem_free(title);
	chart_release(&weights);
	chart_release(&entropy);
	return rc;
}

int runpage_routing(struct runpage *r, struct err *e)
{
	static const char ending[] = ".weights.jsonl";
	char *dir = path_join(r->dir, "samples"), **name = NULL;
	size_t n = 0;
	int rc = 0, found = 0;

	page_heading(&r->page, "routing", "Routing");
	if (path_exists(dir))
		rc = dir_list(dir, &name, &n, e);
	for (size_t i = 0; i < n && !rc; i++)
		if (name[i][0] != '.' && str_ends(name[i], ending)) {
			char *path = path_join(dir, name[i]), *route = str_new("%.*s", (int)(strlen(name[i]) - strlen(ending)), name[i]);

			found++;
			rc = routing_charts(r, path, route, e);
			mem_free(path);
			mem_free(route);
		}
	if (!found)
		page_paragraph(&r->page, "No log of the router's weights was kept (ddm-sample --log).");
	names_free(name, n);
	mem_free(dir);
	return rc;
}
