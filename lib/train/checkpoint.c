/* Saves, finds, loads and prunes checkpoints. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/safetensors.h"
#include "file/stamp.h"
#include "net/model.h"
#include "train/chain.h"
#include "train/state.h"

enum { FORMAT = 1, FILES = STATE_PARTS };

/* The table without its frozen parameters; the names and offsets are the same. Release with mem_free(v). */
static struct params table_of(const struct params *p, int total)
{
	struct params t = *p;

	t.v = mem_zalloc((size_t)p->n, sizeof *t.v);
	t.n = 0;
	for (int i = 0; i < p->n; i++)
		if (total || !(p->v[i].flags & PARAM_FROZEN))
			t.v[t.n++] = p->v[i];
	return t;
}

/* What a checkpoint saves: the arenas and their files. A task writes one file. */
struct saving {
	const struct train_state *s;
	struct state_part part[FILES];
	char *path[FILES], hex[FILES][65];
	uint64_t bytes[FILES];
	struct err e[FILES];
	int rc[FILES];
};

/* x: the whole arena, on the device or, where the part says so, in host memory. The disk writes one piece of the file while the next is hashed. */
static int write_part(struct saving *h, int i, const float *x, struct err *e)
{
	const struct state_part *part = &h->part[i];
	struct params table = table_of(h->s->params, part->total);
	struct sha256 sum;
	int rc;

	sha256_init(&sum);
	rc = model_write_summed(h->path[i], &table, part->host && x == part->data ? NULL : h->s->device, x, NULL, 0, &sum, e);
	h->bytes[i] = sum.bytes;
	sha256_end(&sum, h->hex[i]);
	mem_free(table.v);
	return rc;
}

static void write_file(void *arg, int64_t task, int worker)
{
	struct saving *h = arg;

	(void)worker;
	h->rc[task] = write_part(h, (int)task, h->part[task].data, &h->e[task]);
}

/* Write several at a time; every arena is whole in host memory. */
static int write_files(struct saving *h, int n, struct err *e)
{
	const struct train_state *s = h->s;
	int threads = s->savers < 1 ? 1 : s->savers < n ? s->savers : n;
	struct pool *own = s->device ? NULL : pool_new(threads, NULL);

	pool_run(s->device ? s->device->pool : own, n, write_file, h);
	pool_free(own);
	for (int i = 0; i < n; i++)
		if (h->rc[i]) {
			if (e)
				*e = h->e[i];
			return -1;
		}
	return 0;
}

static int save_parts(const char *dir, const struct train_state *s, void (*copied)(void *arg), void *arg, json_t *files, struct err *e)
{
	struct saving h = {.s = s};
	int n = state_parts(s, h.part), rc = s->device && s->offload ? s->device->sync(s->device, e) : 0;
	int at_hand = !s->shares && (!s->device || s->device->host);

	for (int i = 0; i < n; i++)
		h.path[i] = path_join(dir, h.part[i].name);
	if (!rc && at_hand)
		rc = write_files(&h, n, e);
	for (int i = 0; !rc && !at_hand && i < n; i++) {
		float *x;

		rc = state_whole(s, i, &x, e) || write_part(&h, i, x, e) ? -1 : 0;
	}
	if (copied)
		copied(arg);
	for (int i = 0; !rc && i < n; i++)
		json_array_append_new(files,
		                      json_pack("{s:s, s:I, s:s}", "name", h.part[i].name, "size", (json_int_t)h.bytes[i], "sha256", h.hex[i]));
	for (int i = 0; i < n; i++)
		mem_free(h.path[i]);
	return rc;
}

/* With config.json other programs can read a checkpoint as a model. */
static int save_config(const char *dir, const struct train_state *s, json_t *files, struct err *e)
{
	char *path = path_join(dir, "config.json"), hex[65];
	size_t len = s->config ? strlen(s->config) : 0;
	int rc = 0;

	if (s->config && !(rc = commit_bytes(path, s->config, len, e))) {
		sha256_text(s->config, hex);
		json_array_append_new(files, json_pack("{s:s, s:I, s:s}", "name", "config.json", "size", (json_int_t)len, "sha256", hex));
	}
	mem_free(path);
	return rc;
}

static int save_manifest(const char *dir, const struct train_state *s, const char *stamp, json_t *files, struct err *e)
{
	json_t *o = json_object();
	char *path = path_join(dir, "MANIFEST.json"), exact[32];
	int rc;

	json_object_set_new(o, "format", json_integer(FORMAT));
	json_object_set_new(o, "step", json_integer(s->step));
	json_object_set_new(o, "updates", json_integer(s->updates));
	json_object_set_new(o, "skipped_in_a_row", json_integer(s->skipped_in_a_row));
	snprintf(exact, sizeof exact, "%a", s->loss_sum);
	json_object_set_new(o, "loss_sum", json_string(exact));
	json_object_set_new(o, "loss_count", json_integer(s->loss_count));
	if (s->picture_loss_count) {
		snprintf(exact, sizeof exact, "%a", s->picture_loss_sum);
		json_object_set_new(o, "picture_loss_sum", json_string(exact));
		json_object_set_new(o, "picture_loss_count", json_integer(s->picture_loss_count));
	}
	json_object_set_new(o, "line_step", json_integer(s->line_step));
	if (s->optimizer == OPTIMIZER_SCHEDULE_FREE) {
		snprintf(exact, sizeof exact, "%a", s->lr_squares);
		json_object_set_new(o, "lr_squares", json_string(exact));
	}
	if (s->best && isfinite(s->best_loss)) {
		snprintf(exact, sizeof exact, "%a", s->best_loss);
		json_object_set_new(o, "best_loss", json_string(exact));
		json_object_set_new(o, "best_step", json_integer(s->best_step));
	}
	if (s->chain)
		json_object_set_new(o, "chain", json_loads(s->chain, 0, NULL));
	json_object_set_new(o, "stamp", json_string(stamp));
	json_object_set(o, "files", files);
	rc = commit_json(path, o, e);
	mem_free(path);
	json_decref(o);
	return rc;
}

char *checkpoint_path(const char *dir, int64_t step)
{
	return str_new("%s/step-%08" PRId64, dir, step);
}

int checkpoint_save(const char *dir, const struct train_state *s, const char *stamp, void (*copied)(void *arg), void *arg, struct err *e)
{
	char *path = checkpoint_path(dir, s->step);
	struct outdir out = {0};
	json_t *files = json_array();
	int rc = -1;

	if (path_exists(path)) {
		if (outdir_remove(path, e))
			goto out;
	}
	if (!outdir_begin(&out, path, e) && !save_parts(out.tmp, s, copied, arg, files, e) && !save_config(out.tmp, s, files, e) &&
	    !save_manifest(out.tmp, s, stamp, files, e))
		rc = outdir_commit(&out, e);
	outdir_abort(&out);
out:
	json_decref(files);
	mem_free(path);
	return rc;
}

int checkpoint_steps(const char *dir, int64_t **out, int *count, struct err *e)
{
	char **names = NULL;
	size_t n = 0;
	int64_t *steps;

	*out = NULL;
	*count = 0;
	if (!path_exists(dir))
		return 0;
	if (dir_list(dir, &names, &n, e))
		return -1;
	*out = steps = mem_zalloc(n, sizeof *steps);
	for (size_t i = n; i-- > 0;) {
		int64_t step;
		int at;

		if (strncmp(names[i], "step-", 5) || strspn(names[i] + 5, "0123456789") != strlen(names[i] + 5) ||
		    parse_i64(names[i] + 5, 0, INT64_MAX, &step))
			continue;
		for (at = (*count)++; at > 0 && steps[at - 1] < step; at--)
			steps[at] = steps[at - 1];
		steps[at] = step;
	}
	names_free(names, n);
	return 0;
}

/* Without `hashes` only the size is checked. */
static int check_file(const char *dir, const json_t *f, int hashes, struct err *e)
{
	const char *name = NULL, *want = NULL;
	char *path, hex[65] = "";
	int64_t size = -1;
	uint64_t bytes = 0;
	struct stat st;
	int rc;

	if (jsonio_str(f, "name", 1, &name, dir, e) || jsonio_i64(f, "size", 1, 0, INT64_MAX, &size, dir, e) ||
	    jsonio_str(f, "sha256", 1, &want, dir, e))
		return -1;
	if (strchr(name, '/'))
		return err_set(e, ERR_DATA, "%s: its manifest lists \"%s\", which is not a plain file name", dir, name);
	path = path_join(dir, name);
	if (hashes)
		rc = sha256_file(path, hex, &bytes, e);
	else if (!(rc = stat(path, &st) ? err_errno(e, "%s", path) : 0))
		bytes = (uint64_t)st.st_size;
	if (!rc && ((int64_t)bytes != size || (hashes && strcmp(hex, want))))
		rc = err_set(e, ERR_DATA, "%s: damaged: its size or hash is not the one in the manifest", path);
	mem_free(path);
	return rc;
}

static int load_numbers(const json_t *o, const char *where, struct train_state *s, struct err *e)
{
	const char *best = NULL, *sum = NULL, *pictures = NULL, *squares = NULL;
	const json_t *chain = json_object_get(o, "chain");
	int64_t format = 0;

	s->loss_count = s->picture_loss_count = 0;
	s->line_step = -1;
	if (jsonio_i64(o, "format", 1, FORMAT, FORMAT, &format, where, e) || jsonio_i64(o, "step", 1, 0, INT64_MAX, &s->step, where, e) ||
	    jsonio_i64(o, "updates", 1, 0, INT64_MAX, &s->updates, where, e) ||
	    jsonio_i64(o, "skipped_in_a_row", 1, 0, INT64_MAX, &s->skipped_in_a_row, where, e) || jsonio_str(o, "loss_sum", 0, &sum, where, e) ||
	    jsonio_i64(o, "loss_count", 0, 0, INT64_MAX, &s->loss_count, where, e) || jsonio_str(o, "picture_loss_sum", 0, &pictures, where, e) ||
	    jsonio_i64(o, "picture_loss_count", 0, 0, INT64_MAX, &s->picture_loss_count, where, e) ||
	    jsonio_i64(o, "line_step", 0, 0, INT64_MAX, &s->line_step, where, e) || jsonio_str(o, "best_loss", 0, &best, where, e) ||
	    jsonio_i64(o, "best_step", 0, 0, INT64_MAX, &s->best_step, where, e) ||
	    jsonio_str(o, "lr_squares", s->optimizer == OPTIMIZER_SCHEDULE_FREE, &squares, where, e))
		return -1;
	mem_free(s->chain);
	s->chain = json_is_object(chain) ? jsonio_line(chain) : NULL;
	s->best_loss = INFINITY;
	s->line_step = s->line_step < 0 ? s->step : s->line_step; /* checkpoints of earlier versions lack these three */
	s->loss_sum = s->picture_loss_sum = s->lr_squares = 0;
	if (squares && parse_f64(squares, 0, INFINITY, &s->lr_squares))
		return err_set(e, ERR_DATA, "%s: \"lr_squares\" is not a number", where);
	if (sum && parse_f64(sum, -INFINITY, INFINITY, &s->loss_sum))
		return err_set(e, ERR_DATA, "%s: \"loss_sum\" is not a number", where);
	if (pictures && parse_f64(pictures, -INFINITY, INFINITY, &s->picture_loss_sum))
		return err_set(e, ERR_DATA, "%s: \"picture_loss_sum\" is not a number", where);
	if (best && parse_f64(best, -INFINITY, INFINITY, &s->best_loss))
		return err_set(e, ERR_DATA, "%s: \"best_loss\" is not a number", where);
	return 0;
}

static int is_listed(const json_t *files, const char *name)
{
	for (size_t i = 0; i < json_array_size(files); i++) {
		const char *listed = json_string_value(json_object_get(json_array_get(files, i), "name"));

		if (listed && !strcmp(listed, name))
			return 1;
	}
	return 0;
}

/* Every part must be in the manifest, because only listed files were checked. */
static int check_files(const char *dir, const struct train_state *s, const json_t *files, struct err *e)
{
	struct state_part part[FILES];
	int n = state_parts(s, part);

	for (int i = 0; i < n; i++)
		if (!is_listed(files, part[i].name))
			return err_set(e, ERR_DATA, "%s: %s is not in its manifest", dir, part[i].name);
	for (size_t i = 0; i < json_array_size(files); i++)
		if (check_file(dir, json_array_get(files, i), 1, e))
			return -1;
	return 0;
}

static int load_parts(const char *dir, struct train_state *s, struct err *e)
{
	struct state_part part[FILES];
	int n = state_parts(s, part), rc = 0;

	for (int i = 0; !rc && i < n; i++) {
		char *path = path_join(dir, part[i].name);
		struct params table = table_of(s->params, part[i].total);
		float *x = state_room(s, i);

		rc = model_read_weights(path, &table, part[i].host && x == part[i].data ? NULL : s->device, x, e) || state_keep(s, i, e) ? -1 : 0;
		mem_free(table.v);
		mem_free(path);
	}
	return rc;
}

/* 1 loaded, 0 damaged (reason in *why), -1 made with other options. */
static int try_load(const char *dir, int64_t step, struct train_state *s, const char *stamp, int64_t extended, struct err *why, struct err *e)
{
	char *path = path_join(dir, "MANIFEST.json");
	struct str differ = {0};
	json_t *o = jsonio_load(path, why);
	const json_t *files = json_object_get(o, "files");
	const char *was = NULL;
	int rc = 0;

	if (!o || jsonio_str(o, "stamp", 1, &was, path, why))
		goto out;
	if (step == extended ? extend_differs(stamp, was, &differ) : run_differs(stamp, was, &differ)) {
		rc = err_set(e, ERR_EXISTS, "%s was made with other options (%s)", dir, str_text(&differ));
		goto out;
	}
	if (check_files(dir, s, files, why) || load_numbers(o, path, s, why))
		goto out;
	if (s->step != step)
		err_set(why, ERR_DATA, "%s: its manifest says step %" PRId64, path, s->step);
	else if (!load_parts(dir, s, why))
		rc = 1;
out:
	str_release(&differ);
	json_decref(o);
	mem_free(path);
	return rc;
}

int checkpoint_load(const char *dir, struct train_state *s, const char *stamp, int64_t extended, void (*report)(void *arg, const char *message),
                    void *arg, struct err *e)
{
	int n, rc;
	int64_t *steps;

	rc = checkpoint_steps(dir, &steps, &n, e);
	for (int i = 0; i < n && rc == 0; i++) {
		char *path = checkpoint_path(dir, steps[i]);
		struct err why = {0};

		rc = try_load(path, steps[i], s, stamp, extended, &why, e);
		if (rc == 0)
			state_clear(s);
		if (rc == 0 && report)
			report(arg, why.msg);
		mem_free(path);
	}
	mem_free(steps);
	return rc;
}

static enum optimizer_kind stamped_optimizer(const json_t *stamp)
{
	const char *name = json_string_value(json_object_get(stamp, "optimizer"));

	for (int i = 0; name && optimizer_names[i]; i++)
		if (!strcmp(name, optimizer_names[i]))
			return (enum optimizer_kind)i;
	return OPTIMIZER_ADAMW;
}

/* Every part of a state must be listed; the stamp names the optimizer, which decides the parts. */
static int inspect_files(const char *dir, const json_t *files, int hashes, struct checkpoint *c, struct err *e)
{
	struct train_state none = {.optimizer = stamped_optimizer(c->stamp)};
	struct state_part part[FILES];
	int n = state_parts(&none, part);
	int64_t size;

	for (int i = 0; i < n; i++)
		if (!is_listed(files, part[i].name))
			return err_set(e, ERR_DATA, "%s: %s is not in its manifest", dir, part[i].name);
	for (size_t i = 0; i < json_array_size(files); i++) {
		const json_t *f = json_array_get(files, i);

		if (check_file(dir, f, hashes, e) || jsonio_i64(f, "size", 1, 0, INT64_MAX / FILES / 1000, &size, dir, e))
			return -1;
		c->bytes += size;
	}
	return 0;
}

int checkpoint_inspect(const char *path, int hashes, struct checkpoint *c, struct err *e)
{
	char *manifest = path_join(path, "MANIFEST.json");
	json_t *o = jsonio_load(manifest, e);
	const char *line = NULL;
	struct train_state s = {.best_step = -1};
	int rc = -1;

	*c = (struct checkpoint){.best_step = -1, .best_loss = INFINITY};
	if (o && !jsonio_str(o, "stamp", 1, &line, manifest, e) && !load_numbers(o, manifest, &s, e)) {
		c->step = s.step;
		c->updates = s.updates;
		c->best_step = s.best_step;
		c->best_loss = s.best_loss;
		c->stamp = json_loads(line, 0, NULL);
		chain_line_of(s.chain, c->line);
		rc = inspect_files(path, json_object_get(o, "files"), hashes, c, e);
	}
	mem_free(s.chain);
	json_decref(o);
	mem_free(manifest);
	return rc;
}

static int is_due(int64_t step, int64_t every, int64_t steps)
{
	return !every || step % every == 0 || step == steps;
}

static int is_permanent(int64_t step, int64_t keep_every)
{
	return keep_every > 0 && step % keep_every == 0;
}

void checkpoint_prune(const char *dir, int64_t step, int keep, int64_t keep_every, int64_t every, int64_t steps)
{
	int n, kept = 0, due = 0;
	int64_t *v;

	checkpoint_steps(dir, &v, &n, NULL);
	for (int i = 0; i < n; i++)
		due += v[i] <= step && (is_due(v[i], every, steps) || is_permanent(v[i], keep_every));
	for (int i = 0; i < n; i++) {
		int permanent = is_permanent(v[i], keep_every), counts = permanent || is_due(v[i], every, steps), goes = v[i] > step;
		char *path;

		if (!goes && !permanent && v[i] < step)
			goes = counts ? kept >= keep : due >= keep || step == steps;
		if (!goes) {
			kept += counts;
			continue;
		}
		path = checkpoint_path(dir, v[i]);
		outdir_remove(path, NULL);
		mem_free(path);
	}
	mem_free(v);
	commit_sweep(dir, NULL);
}
