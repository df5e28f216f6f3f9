/* Checks a run's checkpoints, weights and shards against its hash chain. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/manifest.h"
#include "file/safetensors.h"
#include "inspect/auditimpl.h"
#include "net/model.h"
#include "train/chain.h"
#include "train/state.h"

void audit_tell(struct audit *a, const char *check, const char *result, const char *fmt, ...)
{
	char detail[1200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(detail, sizeof detail, fmt, ap);
	va_end(ap);
	a->o->tell(a->o->arg, check, result, detail);
}

/* A check has failed for the reason e. */
static void fail(struct audit *a, const char *check, const struct err *e)
{
	audit_tell(a, check, "failed", "%s", e->msg);
	err_set(a->e, e->code, "%s", e->msg);
}

static const struct chain_line *last_line(const struct audit *a)
{
	return &a->chain.v[a->chain.n - 1];
}

static int check_chain(struct audit *a)
{
	char *path = str_new("%s/train/%s", a->o->run, CHAIN_NAME);
	struct err e = {0};
	int rc = chain_file_load(&a->chain, path, &e);

	if (!rc && a->o->head && chain_file_find(&a->chain, a->o->head) < 0)
		rc = err_set(&e, ERR_DATA, "%s: the chain holds no line with the hash %s: it is another one, or cut off", path, a->o->head);
	if (!rc && a->chain.v[0].step)
		rc =
		    err_set(&e, ERR_DATA, "%s: the chain begins at step %" PRId64 ": nothing is known of the steps before", path, a->chain.v[0].step);
	if (rc)
		fail(a, "chain", &e);
	else
		audit_tell(a, "chain", "ok", "%d lines to step %" PRId64 "%s, head %s", a->chain.n, last_line(a)->step,
		           a->chain.torn ? " and an unfinished one" : "", last_line(a)->hash);
	mem_free(path);
	return rc;
}

/* Whether something was made with the options that the chain claims. */
static int check_stamp(const struct audit *a, const json_t *run, const char *where, const char *stamp, struct err *e)
{
	struct str what = {0};
	char *claimed = chain_stamp(run);
	int differ = run_differs(claimed, stamp, &what);

	if (differ)
		err_set(e, ERR_DATA, "%s was made with other options than %s claims (%s)", where, a->chain.path, str_text(&what));
	str_release(&what);
	mem_free(claimed);
	return differ ? -1 : 0;
}

/* The arenas of a checkpoint against the state of its step: 0, 1 if the chain has no such state. */
static int check_arenas(const struct audit *a, const char *path, const struct checkpoint *c, struct err *e)
{
	int at = chain_file_state(&a->chain, c->step), here = chain_file_find(&a->chain, c->line);
	const json_t *state, *hash;
	const char *name;

	if (!c->line[0])
		return err_set(e, ERR_DATA, "%s: was saved without a chain", path);
	if (here < 0)
		return err_set(e, ERR_DATA, "%s: was saved after a line that %s does not hold: the chain is another one, or cut off", path,
		               a->chain.path);
	if (a->chain.v[here].step > c->step)
		return err_set(e, ERR_DATA, "%s: was saved before the line of the chain that it follows", path);
	if (at < 0)
		return 1;
	if (at != here && chain_file_run(&a->chain, here) != a->chain.v[here].o)
		return err_set(e, ERR_DATA, "%s: was saved after another line of the chain than that of its step", path);
	state = a->chain.v[at].o;
	json_object_foreach (json_object_get(state, "hashes"), name, hash) {
		char *file = path_join(path, name);
		int rc = chain_check_file(chain_file_run(&a->chain, at), state, name, file, e);

		mem_free(file);
		if (rc)
			return -1;
	}
	return 0;
}

static void check_checkpoint(struct audit *a, const char *path, int64_t step)
{
	struct checkpoint c;
	struct err e = {0};
	char name[64], *stamp = NULL;
	int rc = checkpoint_inspect(path, 1, &c, &e), at;

	snprintf(name, sizeof name, "checkpoint %" PRId64, step);
	if (!rc && c.step != step)
		rc = err_set(&e, ERR_DATA, "%s: its manifest says step %" PRId64, path, c.step);
	if (!rc)
		rc = check_arenas(a, path, &c, &e);
	at = rc < 0 ? -1 : chain_file_find(&a->chain, c.line);
	if (at >= 0) {
		stamp = jsonio_line(c.stamp);
		if (check_stamp(a, chain_file_run(&a->chain, at), path, stamp, &e))
			rc = -1;
	}
	if (rc < 0)
		fail(a, name, &e);
	else if (rc)
		audit_tell(a, name, "open", "lies between two lines of the chain: only a replay past it can tell");
	else
		audit_tell(a, name, "ok", "weights, averages and moments are those of the chain");
	mem_free(stamp);
	json_decref(c.stamp);
}

static void check_checkpoints(struct audit *a)
{
	char *dir = path_join(a->o->run, "train");
	struct err e = {0};
	int64_t *steps;
	int n;

	if (checkpoint_steps(dir, &steps, &n, &e))
		fail(a, "checkpoints", &e);
	for (int i = n; i-- > 0;) {
		char *path = checkpoint_path(dir, steps[i]);

		check_checkpoint(a, path, steps[i]);
		mem_free(path);
	}
	mem_free(steps);
	mem_free(dir);
}

/* The result: the average at the last step, or a router's best one. */
static int check_result(const struct audit *a, const char *path, struct err *e)
{
	const struct chain_line *last = last_line(a);
	const json_t *run = chain_file_run(&a->chain, a->chain.n - 1), *best = json_object_get(last->o, "best_step");
	const char *as = best ? "best.safetensors" : "ema.safetensors", *was;
	struct safetensors *s = st_open(path, e);
	int rc = s ? 0 : -1;

	was = s ? st_meta(s, "stamp") : NULL;
	if (s && !was)
		rc = err_set(e, ERR_DATA, "%s: has no stamp", path);
	if (!rc)
		rc = check_stamp(a, run, path, was, e);
	if (!rc && last->step != json_integer_value(json_object_get(run, "steps")))
		rc = err_set(e, ERR_DATA, "%s: the chain is cut off: the run is finished, and the last line is of step %" PRId64 " of %" PRId64,
		             a->chain.path, last->step, (int64_t)json_integer_value(json_object_get(run, "steps")));
	st_free(s);
	if (rc)
		return -1;
	if (json_is_true(json_object_get(json_object_get(run, "stamp"), "calibrate")) ||
	    json_integer_value(json_object_get(json_object_get(run, "stamp"), "calibrate")))
		return 1;
	return chain_check_file(run, last->o, as, path, e);
}

static void check_results(struct audit *a)
{
	for (int role = NET_EXPERT; role <= NET_CLASSIFIER; role++) {
		const char *name = model_weights_name((enum net_role)role);
		char *path = path_join(a->o->run, name);
		struct err e = {0};
		int rc = path_exists(path) ? check_result(a, path, &e) : 2;

		if (rc < 0)
			fail(a, "result", &e);
		else if (rc == 1)
			audit_tell(a, "result", "open", "--calibrate has divided its last layer after the last line of the chain");
		else if (!rc)
			audit_tell(a, "result", "ok", "%s is the state after the last step", name);
		mem_free(path);
	}
}

/* A training of one cluster reads the shards of that cluster; a router also the held-out ones, which choose its best weights. */
static int is_read(const struct manifest_row *row, const json_t *stamp)
{
	const json_t *cluster = json_object_get(stamp, "cluster");
	int all = !cluster || json_integer_value(cluster) < 0;

	return (all || row->cluster == json_integer_value(cluster)) && (!row->holdout || json_object_get(stamp, "validate_samples"));
}

static int check_rows(const struct audit *a, const struct manifest *m, const json_t *stamp, int64_t *count, struct err *e)
{
	const char *claimed = json_string_value(json_object_get(json_object_get(stamp, "inputs"), "shards"));

	if (!claimed || strcmp(claimed, m->sha256))
		return err_set(e, ERR_DATA, "%s: these are other shards than %s names: the hash of their manifest is %s, not %s", a->o->shards,
		               a->chain.path, m->sha256, claimed ? claimed : "recorded");
	for (int64_t i = 0; i < m->n; i++)
		if (is_read(&m->rows[i], stamp)) {
			if (manifest_check(m, i, e))
				return -1;
			++*count;
		}
	return 0;
}

static void check_shards(struct audit *a)
{
	const json_t *stamp = json_object_get(chain_file_run(&a->chain, a->chain.n - 1), "stamp");
	struct manifest m = {0};
	struct err e = {0};
	int64_t count = 0;
	int rc;

	if (!a->o->shards) {
		audit_tell(a, "shards", "open", "not read: name their folder to check them");
		return;
	}
	if ((rc = manifest_load(&m, a->o->shards, &e)) || (rc = check_rows(a, &m, stamp, &count, &e)))
		fail(a, "shards", &e);
	else
		audit_tell(a, "shards", "ok", "the manifest is the one that the chain names, and so are the shards that were read: %" PRId64, count);
	manifest_release(&m);
}

int audit_run(const struct audit_options *o, struct err *e)
{
	struct err first = {0}, why = {0};
	struct audit a = {.o = o, .e = &first};

	if (!check_chain(&a)) {
		check_checkpoints(&a);
		check_results(&a);
		check_shards(&a);
		if (!first.code && (o->replay || o->trace) && audit_replay(&a, &why))
			fail(&a, "replay", &why);
	}
	chain_file_release(&a.chain);
	return first.code ? err_set(e, first.code, "%s", first.msg) : 0;
}
