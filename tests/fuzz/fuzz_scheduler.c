/* Any bytes as diffusers' scheduler_config.json: its table of betas, and its solver, which runs on that table. */
#include <math.h>
#include <stdlib.h>

#include "core/mem.h"
#include "diffusion/scheduler.h"
#include "diffusion/solverchoice.h"
#include "tests/fuzz/folder.h"
#include "tests/fuzz/replay.h"

enum { STEPS = 7, TABLE_MOST = 2000 };

static void make_steps(const struct scheduler_solver *named, const char *path, const char *prediction, const struct betas *b)
{
	struct discrete_plan p = {0};
	struct solver_choice c;
	struct schedule s;
	struct err e = {0};

	if (solver_parse(named->text, &c, &e))
		abort();
	if (!c.discrete) {
		double t[STEPS + 1];

		flow_grid_times(&c.grid, STEPS, 1, t);
		for (int i = 0; i <= STEPS; i++)
			if (!(t[i] >= 0 && t[i] <= 1))
				abort();
		return;
	}
	if (!b->steps || b->steps > TABLE_MOST || schedule_init(&s, path, b, &e))
		return;
	if (discrete_plan_make(&p, &c.how, STEPS, &s, (enum prediction)prediction_find(prediction), c.how.variance == VARIANCE_LEARNED, &e)) {
		if (e.code != ERR_USAGE)
			abort();
	} else {
		for (int i = 0; i < STEPS; i++)
			if (!isfinite(p.step[i].time) || p.step[i].time < 0 || p.step[i].time > 1)
				abort();
	}
	discrete_plan_release(&p);
	schedule_release(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const char *path, *prediction;
	struct scheduler_solver named;
	struct err e = {0}, other = {0};
	struct betas b = {0};
	char *file;
	json_t *o;
	int table;

	folder_put("scheduler_config.json", data, len);
	file = folder_path("scheduler_config.json");
	o = scheduler_load(file, &e);
	if (!o) {
		if (e.code != ERR_DATA)
			abort();
		mem_free(file);
		return 0;
	}
	table = !scheduler_parse(o, file, &path, &prediction, &b, &e);
	if (!scheduler_solver(&named, o, 1024, file, &other)) {
		if (table)
			make_steps(&named, path, prediction, &b);
	} else if (other.code != ERR_DATA) {
		abort();
	}
	if (!table && e.code != ERR_DATA)
		abort();
	betas_release(&b);
	json_decref(o);
	mem_free(file);
	return 0;
}

REPLAY_MAIN("tests/fuzz/corpus/scheduler")
