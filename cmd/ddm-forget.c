/* ddm-forget: writes a SHARDS folder without some samples, finds the networks that saw them, and trains these again. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/cmd.h"
#include "cmd/forgetreport.h"
#include "cmd/forgetrun.h"
#include "core/mem.h"
#include "core/str.h"
#include "data/operand.h"
#include "file/fileio.h"

enum { KEYS_MOST = 1 << 30 };

static const char *out, *list, *new_model, *beside;
static struct option_list models;
static struct forget_training training;
static int nul_list, as_json, run, keep_router;

static const struct option options[] = {
    OPTION_GROUP("Samples"),
    {"--output", 'o', .type = OPTION_TEXT, .value = &out, .arg = "NEW_SHARDS", .required = "the folder to make",
     .help = "folder to make: the shards without the samples", OPTION_ALWAYS},
    {"--keys", .type = OPTION_TEXT, .value = &list, .arg = "FILE", .help = "also the keys in this file, one a line; -: standard input",
     OPTION_ALWAYS},
    {"--null", '0', .type = OPTION_FLAG, .value = &nul_list, .help = "keys in the file end with NUL, not newline", .when = {{USE_NEEDS, "--keys"}}},
    OPTION_GROUP("Networks"),
    {"--model", 'm', .type = OPTION_LIST, .value = &models, .arg = "MODEL",
     .help = "say which networks of this model saw the samples; further ones: where its networks started from", OPTION_ALWAYS},
    {"--new-model", .type = OPTION_TEXT, .value = &new_model, .arg = "DIR", .help = "folder of the model after the trainings",
     .said = "default: MODEL.new", .when = {{USE_NEEDS, "--model"}}},
    {"--beside", .type = OPTION_TEXT, .value = &beside, .arg = "SHARDS",
     .help = "the clips, or pictures, that its networks were trained on beside these samples", .when = {{USE_NEEDS, "--model"}}},
    {"--run", .type = OPTION_FLAG, .value = &run, .help = "train these networks again, and link the others into the new model",
     .when = {{USE_NEEDS, "--model"}}},
    {"--keep-router", .type = OPTION_FLAG, .value = &keep_router, .help = "do not train the router again, though it saw the samples",
     .when = {{USE_NEEDS, "--model"}}},
    {"--device", .type = OPTION_TEXT, .value = &training.device, .arg = "NAME", .help = "where to train: auto, cpu, cuda or cuda:N",
     .when = {{USE_NEEDS, "--run"}}},
    {"--threads", .type = OPTION_INT, .value = &training.threads, .lo = 1, .hi = 1024, .arg = "N", .help = "threads of a training; changes no result",
     .said = "default: all processors that it may use", .when = {{USE_NEEDS, "--run"}}},
    OPTION_GROUP("Output"),
    {"--json", 'j', .type = OPTION_FLAG, .value = &as_json, .help = "print one line of JSON, not a script", OPTION_ALWAYS},
    {"--quiet", 'q', .type = OPTION_FLAG, .value = &training.quiet, .help = "trainings say nothing but errors", .when = {{USE_NEEDS, "--run"}}},
    {0},
};

static const struct program program = {
    .name = "ddm-forget",
    .operands = "SHARDS [KEY...]",
    .about = "Write shards without some samples, and retrain the networks that saw them",
    .options = options,
};

/* Add the keys of the list. *text keeps them. */
static int read_keys(char ***key, size_t *n, char **text, struct err *e)
{
	char end = nul_list ? 0 : '\n';
	size_t len;

	if (!list)
		return 0;
	*text = file_load(list, KEYS_MOST, &len, e);
	for (char *p = *text, *stop = p + len; p && p < stop;) {
		char *next = memchr(p, end, (size_t)(stop - p));

		next = next ? next : stop;
		*next = 0;
		if (*p) {
			*key = mem_resize(*key, *n + 1, sizeof **key);
			(*key)[(*n)++] = p;
		}
		p = next + 1;
	}
	return *text ? 0 : -1;
}

/* "model/" -> "model.new" */
static char *default_model(const char *model)
{
	size_t n = strlen(model);

	while (n > 1 && model[n - 1] == '/')
		n--;
	return str_new("%.*s.new", (int)n, model);
}

static void spare_router(struct lineage *l)
{
	for (int i = 0; keep_router && i < l->n; i++)
		l->v[i].keep = !l->v[i].model && !strcmp(l->v[i].name, "router");
}

/* Check the folders before anything is written. */
static int check_folders(const char *shards, const char *model, struct err *e)
{
	struct stat old, new;

	if (operand_shards(shards, e) || lineage_check(models.v, models.n, e))
		return -1;
	if (models.n && !stat(models.v[0], &old) && !stat(model, &new) && old.st_dev == new.st_dev && old.st_ino == new.st_ino)
		return err_set(e, ERR_USAGE, "--new-model %s: the new model needs another folder than the old one", model);
	return 0;
}

static int look_at_networks(const struct forget_report *r, struct lineage *l, struct retrain_plan *p, struct err *e)
{
	struct lineage_samples s = {r->result->known, r->result->clusters, r->result->train, r->result->held};

	if (!r->from)
		return 0;
	if (lineage_find(l, models.v, models.n, &s, e))
		return -1;
	spare_router(l);
	return retrainplan_make(p, l, r->out, beside, r->model, e);
}

static int forget(const char *shards, char **key, size_t n, const char *model, struct err *e)
{
	struct progress progress = cmd_progress();
	struct forget_request request = {shards, out, key, n, &progress};
	struct forget_result result = {0};
	struct lineage lineage = {0};
	struct retrain_plan plan = {0};
	struct forget_report report = {shards, out, models.n ? models.v[0] : NULL, model, &result, &lineage, &plan};
	int rc;

	rc = check_folders(shards, model, e) || forget_make(&request, &result, e) || look_at_networks(&report, &lineage, &plan, e) ? -1 : 0;
	if (!rc) {
		(as_json ? forgetreport_json : forgetreport_script)(&report);
		fflush(stdout);
	}
	if (!rc && run)
		rc = forgetrun_all(&report, &training, e);
	retrainplan_release(&plan);
	lineage_release(&lineage);
	forget_result_release(&result);
	return rc;
}

int main(int argc, char **argv)
{
	struct err e = {0};
	char **key, *text = NULL, *model;
	int operands = cmd_start(&program, argc, argv, 1, -1);
	size_t n = (size_t)operands - 1;

	cmd_allow_files();
	cmd_catch_signals();
	key = mem_zalloc(n + 1, sizeof *key);
	memcpy(key, argv + 2, n * sizeof *key);
	model = new_model ? mem_strdup(new_model) : models.n ? default_model(models.v[0]) : NULL;
	if (!read_keys(&key, &n, &text, &e) && !n)
		err_set(&e, ERR_USAGE, "no keys: give them as operands, or with --keys FILE");
	else if (!e.code)
		forget(argv[1], key, n, model, &e);
	mem_free(key);
	mem_free(text);
	mem_free(model);
	if (!run)
		return cmd_end_over(&e);
	return cmd_end_saved(&e); /* a training has saved its state */
}
