/* Plans trainings from stamps, and shares the networks that stay. */
#include "inspect/retrainplan.h"

#include <string.h>
#include <sys/stat.h>

#include "core/mem.h"
#include "core/str.h"
#include "diffusion/ensemble.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/share.h"
#include "file/weightfile.h"
#include "train/traincommand.h"

static char *parent_of(const struct lineage_network *x)
{
	const char *slash = strrchr(x->dir, '/');

	return slash ? mem_strndup(x->dir, (size_t)(slash - x->dir)) : mem_strdup(".");
}

/* Where the weights of a network that others started from will be: in its new folder, if it is trained again. */
static const char *start_of(const struct retrain_plan *p, const char *dir)
{
	for (int i = 0; dir && i < p->n; i++)
		if (!strcmp(p->v[i].x->dir, dir))
			return p->v[i].out;
	return dir;
}

/* The paths of a training whose samples are in `shards`, and in `beside` if it had other samples too. */
static struct traincommand_paths paths_of(const struct lineage_network *x, const char *shards, const char *beside)
{
	int pictures = !strcmp(x->input, "pictures");

	return (struct traincommand_paths){.shards = pictures ? beside : shards, .pictures = pictures ? shards : beside};
}

/* Compare the command on the old files with the recorded run: it must differ in the samples alone. */
static void check_command(struct retrain_step *s, const char *shards, const char *beside, struct err *e)
{
	char *experts = parent_of(s->x);
	struct traincommand_paths paths = paths_of(s->x, shards, beside);
	json_t *words;
	struct str what = {0};
	struct err why = {0};
	int n;

	paths.out = s->out;
	paths.init = s->x->init;
	paths.from = s->x->from;
	paths.experts = experts;
	words = traincommand_words(s->x->stamp, &paths, e);
	n = words ? traincommand_differs(words, s->x->stamp, s->x->input, &what, &why) : 0;
	if (n < 0)
		s->note = str_new("the command could not be compared with the recorded run: %s", why.code ? why.msg : "its stamp is damaged");
	else if (n > 0)
		s->note = str_new("options do not give the recorded run: %s", str_text(&what));
	str_release(&what);
	json_decref(words);
	mem_free(experts);
}

static int add(struct retrain_plan *p, const struct lineage_network *x, const char *shards, const char *beside, const char *model, struct err *e)
{
	struct traincommand_paths paths = paths_of(x, shards, beside);
	struct retrain_step *s;

	p->v = mem_resize(p->v, (size_t)p->n + 1, sizeof *p->v);
	s = &p->v[p->n++];
	*s = (struct retrain_step){.x = x};
	s->out = x->model ? str_new("%s-start%d/%s", model, x->model, x->name) : str_new("%s/%s", model, x->name);
	paths.out = s->out;
	paths.init = start_of(p, x->init);
	paths.from = start_of(p, x->from);
	paths.experts = model;
	s->words = traincommand_words(x->stamp, &paths, e);
	if (!s->words)
		return err_prefix(e, "%s", x->dir);
	check_command(s, shards, beside, e);
	return 0;
}

int retrainplan_make(struct retrain_plan *p, const struct lineage *l, const char *shards, const char *beside, const char *model, struct err *e)
{
	*p = (struct retrain_plan){0};
	/* First the networks of other folders, then the first folder's experts, then its router and their uncertainties, which learn from these. */
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < l->n; i++) {
			const struct lineage_network *x = &l->v[i];
			int turn = x->model ? 0 : ensemble_number(x->name) >= 0 ? 1 : 2;

			if (x->saw == LINEAGE_TRAINED && !x->keep && turn == round && add(p, x, shards, beside, model, e))
				return -1;
		}
	return 0;
}

void retrainplan_release(struct retrain_plan *p)
{
	for (int i = 0; i < p->n; i++) {
		mem_free(p->v[i].out);
		mem_free(p->v[i].note);
		json_decref(p->v[i].words);
	}
	mem_free(p->v);
	*p = (struct retrain_plan){0};
}

const struct retrain_step *retrainplan_find(const struct retrain_plan *p, const struct lineage_network *x)
{
	for (int i = 0; i < p->n; i++)
		if (p->v[i].x == x)
			return &p->v[i];
	return NULL;
}

/* ERR_EXISTS if both folders are networks and have different weights. */
static int check_shared(const char *from, const char *to, struct err *e)
{
	char *a = weightfile_locate(from, NULL, NULL), *b = weightfile_locate(to, NULL, NULL), x[65], y[65];
	int rc = 0;

	if (a && (!b || weightfile_hash_at(a, x, e) || weightfile_hash_at(b, y, e) || strcmp(x, y)))
		rc = err_set(e, ERR_EXISTS, "%s exists, and its weights are not those of %s", to, from);
	mem_free(a);
	mem_free(b);
	return rc;
}

static int share_folder(const char *from, const char *to, struct err *e)
{
	struct outdir d = {0};
	int rc;

	if (path_exists(to))
		return check_shared(from, to, e);
	rc = outdir_begin(&d, to, e) || folder_share(from, d.tmp, e) || outdir_commit(&d, e) ? -1 : 0;
	outdir_abort(&d);
	return rc;
}

int retrainplan_share(const struct retrain_plan *p, const char *from, const char *model, struct err *e)
{
	struct stat st, to;
	char **names;
	size_t n;
	int rc = 0;

	if (dir_make(model, e) || dir_list(from, &names, &n, e))
		return -1;
	if (stat(model, &to))
		rc = err_errno(e, "%s", model);
	for (size_t i = 0; i < n && !rc; i++) {
		char *a = path_join(from, names[i]), *b = path_join(model, names[i]);
		/* The new model may lie in the old one. */
		int skip = names[i][0] == '.' || stat(a, &st) || (st.st_ino == to.st_ino && st.st_dev == to.st_dev);

		for (int k = 0; k < p->n; k++)
			skip |= !strcmp(p->v[k].out, b);
		if (!skip)
			rc = S_ISDIR(st.st_mode) ? share_folder(a, b, e) : path_exists(b) ? 0 : file_share(a, b, e);
		mem_free(a);
		mem_free(b);
	}
	names_free(names, n);
	return rc;
}
