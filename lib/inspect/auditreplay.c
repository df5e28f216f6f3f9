/* Trains a part of a run again and compares every line of the chain and every checkpoint on the way. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/safetensors.h"
#include "inspect/auditimpl.h"
#include "inspect/trace.h"
#include "net/model.h"
#include "train/chain.h"
#include "train/state.h"

struct replaying {
	struct audit *a;
	struct train_replay how;
	int64_t from, to; /* the steps asked for */
	int64_t base;     /* the step to begin at */
	int first;        /* the first line to be written again */
	int next;         /* the line expected next */
	int same, other;  /* lines that agree; that another version or processor computed */
	double sum[2];    /* of the losses of the latter, as recorded and as they come out here */
	char *dir;        /* the new run: scratch/run */
	struct err why;   /* the first difference */
	struct trace trace;
};

static int parse_range(struct replaying *r, struct err *e)
{
	const struct chain_file *c = &r->a->chain;
	int64_t last = c->v[c->n - 1].step;
	const char *text = r->a->o->replay ? r->a->o->replay : "all", *dots = strstr(text, "..");
	char *from = dots ? mem_strndup(text, (size_t)(dots - text)) : NULL;
	int bad = strcmp(text, "all") != 0;

	r->from = 0;
	r->to = last;
	if (r->a->o->trace) {
		r->from = r->a->o->trace - 1;
		r->to = r->a->o->trace;
		bad = r->a->o->trace < 1;
	}
	if (dots)
		bad = parse_i64(from, 0, INT64_MAX, &r->from) || parse_i64(dots + 2, 1, INT64_MAX, &r->to) || r->from >= r->to;
	mem_free(from);
	if (bad)
		return err_set(e, ERR_USAGE, "--replay: '%s' is neither all nor A..B with steps A < B", text);
	if (r->to > last)
		return err_set(e, ERR_USAGE, "%s: the chain ends at step %" PRId64 ", before %" PRId64, r->a->o->trace ? "--trace" : "--replay", last,
		               r->to);
	return 0;
}

/* The newest checkpoint at or before `from`; its line of the chain decides which lines are written again. */
static int choose_base(struct replaying *r, struct err *e)
{
	char *dir = path_join(r->a->o->run, "train");
	int64_t *steps;
	int n;

	if (checkpoint_steps(dir, &steps, &n, e)) {
		mem_free(dir);
		return -1;
	}
	for (int i = 0; i < n && !r->base; i++)
		if (steps[i] <= r->from) {
			char *path = checkpoint_path(dir, steps[i]);
			struct checkpoint c;

			if (!checkpoint_inspect(path, 0, &c, NULL)) {
				r->base = steps[i];
				r->first = 1 + chain_file_find(&r->a->chain, c.line);
			}
			json_decref(c.stamp);
			mem_free(path);
		}
	mem_free(steps);
	mem_free(dir);
	return 0;
}

/* The lines and checkpoints on the way. The part ends at a line, because only lines can be compared. */
static int choose_steps(struct replaying *r, int64_t **lines, int64_t **saves, struct err *e)
{
	const struct chain_file *c = &r->a->chain;
	char *dir = path_join(r->a->o->run, "train");
	int64_t *steps = NULL;
	int n = 0, rc = 0;

	*lines = mem_zalloc((size_t)c->n, sizeof **lines);
	r->how.until = 0;
	for (int i = r->first; i < c->n && r->how.until < r->to; i++) {
		if (c->v[i].describes && i > r->first && c->v[i].step < r->to) {
			rc = err_set(e, ERR_USAGE, "--replay: the run was extended at step %" PRId64 ": replay what lies before and after it apart",
			             c->v[i].step);
			break;
		}
		if (c->v[i].describes || c->v[i].step <= r->base)
			continue;
		(*lines)[r->how.line_count++] = r->how.until = c->v[i].step;
	}
	if (!rc && !r->how.line_count)
		rc = err_set(e, ERR_USAGE, "--replay: the chain has no line after step %" PRId64, r->base);
	if (!rc && !(rc = checkpoint_steps(dir, &steps, &n, e))) {
		*saves = mem_zalloc((size_t)n, sizeof **saves);
		for (int i = n; i-- > 0;)
			if (steps[i] > r->base && steps[i] <= r->how.until)
				(*saves)[r->how.save_count++] = steps[i];
	}
	mem_free(steps);
	mem_free(dir);
	return rc;
}

/* The network of the run, from a config.json of its own. */
static int find_network(const struct replaying *r, struct net_config *net, struct err *e)
{
	char *dir = r->base ? str_new("%s/train", r->a->o->run) : NULL;
	char *at = dir ? checkpoint_path(dir, r->base) : mem_strdup(r->a->o->run);
	struct model_config c;
	int64_t *steps = NULL;
	int n, rc;

	if (!path_holds(at, "config.json")) {
		mem_free(dir);
		mem_free(at);
		dir = path_join(r->a->o->run, "train");
		rc = checkpoint_steps(dir, &steps, &n, e);
		if (!rc && !n)
			rc = err_set(e, ERR_NOINPUT, "%s: holds neither a config.json nor a checkpoint, so its network is unknown", r->a->o->run);
		at = rc ? NULL : checkpoint_path(dir, steps[0]);
	}
	rc = at ? model_config_load(at, &c, e) : -1;
	if (!rc) {
		*net = c.net;
		model_config_release(&c);
	}
	mem_free(steps);
	mem_free(dir);
	mem_free(at);
	return rc;
}

/* Whether the first state that is computed again was computed with emulated bf16. */
static int was_emulated(const struct replaying *r)
{
	const struct chain_file *c = &r->a->chain;
	int i = r->first;
	const char *name;

	while (i < c->n - 1 && (c->v[i].describes || c->v[i].step <= r->base))
		i++;
	name = json_string_value(json_object_get(c->v[i].o, "precision"));
	return name && !strcmp(name, precision_names[PRECISION_BF16_EMULATED]);
}

/* The options of the run, which must lead to its stamp again. */
static int find_options(struct replaying *r, const json_t *run, struct train_options *o, struct err *e)
{
	const struct audit_options *have = r->a->o;
	struct net_config net;
	struct str what = {0};
	char *claimed, *now;
	int rc;

	if (find_network(r, &net, e) || train_options_of(o, json_object_get(run, "stamp"), json_object_get(run, "exact"), &net, e))
		return -1;
	o->shards = have->shards;
	o->init_from = have->init_weights;
	o->from = have->pretrained;
	o->experts = have->experts;
	o->pictures = have->pictures;
	o->null_text = have->null_text;
	o->null_pooled = have->null_pooled;
	o->out = r->dir;
	o->extend = json_object_get(json_object_get(run, "stamp"), "extended") != NULL;
	o->keep = INT_MAX;
	o->max_skipped_share = 1;
	o->checkpoint = (struct train_interval){0};
	o->replay = &r->how;
	if (!(now = train_stamp(o, e)))
		return -1;
	claimed = chain_stamp(run);
	rc = o->extend ? extend_differs(claimed, now, &what) : run_differs(claimed, now, &what);
	if (rc)
		rc = err_set(e, ERR_DATA, "these files and the options found do not make the stamp that %s claims (%s)", r->a->chain.path,
		             str_text(&what));
	if (!rc && o->precision == PRECISION_BF16 && have->device->host &&
	    (was_emulated(r) || device_set_precision(have->device, PRECISION_BF16, NULL)))
		o->precision = PRECISION_BF16_EMULATED;
	str_release(&what);
	mem_free(claimed);
	mem_free(now);
	return rc;
}

/* Put what the replay begins with into its folder: a link to the checkpoint, and the chain up to it. */
static int prepare_folder(struct replaying *r, struct err *e)
{
	const struct chain_file *c = &r->a->chain;
	char *train = path_join(r->dir, "train"), *from, *to, *chain, *real = NULL, *dir;
	int rc;

	if (path_exists(r->dir)) {
		rc = err_set(e, ERR_EXISTS, "%s exists: name a new folder for the replay", r->dir);
		mem_free(train);
		return rc;
	}
	rc = dir_make(train, e);
	if (!rc && r->base) {
		dir = path_join(r->a->o->run, "train");
		from = checkpoint_path(dir, r->base);
		to = checkpoint_path(train, r->base);
		chain = path_join(train, CHAIN_NAME);
		real = realpath(from, NULL);
		if (!real || symlink(real, to))
			rc = err_errno(e, "%s", to);
		else
			rc = commit_bytes(chain, c->text, (size_t)(c->v[r->first - 1].text + c->v[r->first - 1].len + 1 - c->text), e);
		free(real);
		mem_free(dir);
		mem_free(from);
		mem_free(to);
		mem_free(chain);
	}
	mem_free(train);
	return rc;
}

static double loss_sum(const json_t *o)
{
	const char *sum = json_string_value(json_object_get(o, "loss_sum"));
	double v = NAN;

	if (sum)
		parse_f64(sum, -INFINITY, INFINITY, &v);
	return v;
}

static int differs(const json_t *a, const json_t *b, const char *key)
{
	const json_t *v = json_object_get(a, key), *w = json_object_get(b, key);

	return !v != !w || (v && !json_equal(v, w));
}

/* The first line of "build" is the version. */
static int same_version(const json_t *a, const json_t *b)
{
	const char *x = json_string_value(json_object_get(a, "build")), *y = json_string_value(json_object_get(b, "build"));

	return x && y && strcspn(x, "\n") == strcspn(y, "\n") && !strncmp(x, y, strcspn(x, "\n"));
}

/* Whether the two lines must agree to the bit: computed by the same build on the same processor, or where neither matters. */
static int must_agree(const json_t *a, const json_t *b)
{
	if (differs(a, b, "precision") || differs(a, b, "portable"))
		return 0;
	if (json_is_true(json_object_get(a, "portable")))
		return same_version(a, b);
	return !differs(a, b, "machine") && !differs(a, b, "build");
}

/* Whether two lines say the same; what follows from the line before and from the text itself, and who computed it, does not count. */
static int same_line(const json_t *a, const json_t *b)
{
	static const char *const apart[] = {"prev", "seal", "machine", "build"};
	json_t *x = json_copy((json_t *)(uintptr_t)a), *y = json_copy((json_t *)(uintptr_t)b);
	int same;

	for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
		json_object_del(x, apart[i]);
		json_object_del(y, apart[i]);
	}
	same = json_equal(x, y);
	json_decref(x);
	json_decref(y);
	return same;
}

/* The first step since the line before whose loss or norm differs; 0: none. */
static int64_t first_step(const struct chain_line *want, const json_t *is, int64_t before)
{
	const char *x = json_string_value(json_object_get(want->o, "losses")), *y = json_string_value(json_object_get(is, "losses"));
	int64_t n = want->step - before;

	for (int64_t i = 0; x && y && i < n && strlen(y) >= (size_t)(i + 1) * CHAIN_BRIEF; i++)
		if (strncmp(x + i * CHAIN_BRIEF, y + i * CHAIN_BRIEF, CHAIN_BRIEF))
			return before + i + 1;
	return 0;
}

/* Name the arenas that differ, and in the first of them the parameter. */
static void say_arenas(struct str *s, const struct replaying *r, const json_t *want, const json_t *is)
{
	const json_t *run = chain_file_run(&r->a->chain, r->next), *hash, *hashes = json_object_get(want, "hashes");
	const char *name, *first = NULL, *in = NULL;
	int count, n = 0, more = 0;

	json_object_foreach ((json_t *)(uintptr_t)hashes, name, hash) {
		const json_t *other = json_object_get(json_object_get(is, "hashes"), name);

		if (json_equal(hash, other))
			continue;
		str_printf(s, "%s%s", n++ ? ", " : "; differing: ", name);
		if (!first) {
			first = chain_first_differing(run, name, hash, other, &count);
			in = name;
			more = count - 1;
		}
	}
	if (first)
		str_printf(s, "; the first parameter of %s that differs is %s (%d more)", in, first, more);
	else if (n)
		str_puts(s, "; the hashes of single parameters agree");
}

/* Say how a line differs from the recorded one. */
static void explain(struct replaying *r, const struct chain_line *want, const json_t *is, struct err *e)
{
	static const char *const others[] = {"loss_sum", "loss_count", "updates", "skipped_in_a_row", "best_step", "best_loss", "step"};
	int64_t before = r->next ? r->a->chain.v[r->next - 1].step : 0, step = first_step(want, is, before);
	struct str s = {0};

	str_printf(&s, "%s:%d: step %" PRId64 " comes out otherwise", r->a->chain.path, r->next + 1, want->step);
	if (want->describes && differs(want->o, is, "stamp"))
		str_puts(&s, "; the stamp differs");
	else if (want->describes)
		str_puts(&s, "; what the run is differs");
	if (differs(want->o, is, "keys"))
		str_puts(&s, "; other samples were read");
	if (step)
		str_printf(&s, "; the first step whose loss or gradient differs is %" PRId64, step);
	say_arenas(&s, r, want->o, is);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (differs(want->o, is, others[i]))
			str_printf(&s, "; \"%s\" differs", others[i]);
	err_set(e, ERR_DATA, "%s", str_text(&s));
	str_release(&s);
}

/* A line that another version or processor computed: the same samples; its losses count for the mean of the part. */
static void compare_loosely(struct replaying *r, const struct chain_line *want, const json_t *is)
{
	r->other++;
	r->sum[0] += loss_sum(want->o);
	r->sum[1] += loss_sum(is);
	if (differs(want->o, is, "keys"))
		err_set(&r->why, ERR_DATA, "%s:%d: before step %" PRId64 " other samples were read", r->a->chain.path, r->next + 1, want->step);
}

/* The hook of the replay: compare a line, and end with the first that differs. */
static void compare_line(void *arg, const char *text)
{
	struct replaying *r = arg;
	const struct chain_line *want = r->next < r->a->chain.n ? &r->a->chain.v[r->next] : NULL;
	json_t *is = json_loads(text, 0, NULL);

	if (r->why.code || !want)
		goto out;
	if (same_line(want->o, is))
		r->same++;
	else if (!want->describes && !must_agree(want->o, is))
		compare_loosely(r, want, is);
	else
		explain(r, want, is, &r->why);
	r->next++;
	if (r->why.code)
		r->how.until = 0;
out:
	json_decref(is);
}

/* Files of a checkpoint on the way, byte by byte by the hashes of its manifest. */
static int same_files(const char *a, const char *b, int *same, struct err *e)
{
	char *pa = path_join(a, "MANIFEST.json"), *pb = path_join(b, "MANIFEST.json");
	json_t *x = jsonio_load(pa, e), *y = x ? jsonio_load(pb, e) : NULL;

	*same = y && !differs(x, y, "files");
	json_decref(x);
	json_decref(y);
	mem_free(pa);
	mem_free(pb);
	return y ? 0 : -1;
}

static int compare_checkpoints(struct replaying *r, struct err *e)
{
	for (int i = 0; i < r->how.save_count; i++) {
		int64_t step = r->how.saves[i];
		char *da = path_join(r->a->o->run, "train"), *db = path_join(r->dir, "train");
		char *a = checkpoint_path(da, step), *b = checkpoint_path(db, step);
		int same = 0, rc = same_files(a, b, &same, e);

		if (!rc && !same)
			rc = err_set(e, ERR_DATA, "%s: the replay comes to another checkpoint", a);
		mem_free(da);
		mem_free(db);
		mem_free(a);
		mem_free(b);
		if (rc)
			return -1;
	}
	return 0;
}

static void tell_warning(void *arg, const char *line)
{
	audit_tell(arg, "replay", "open", "%s", line);
}

/* Of a part that another version or processor computed. */
static int compare_losses(struct replaying *r, struct err *e)
{
	double x = r->sum[0], y = r->sum[1], gap = x == y ? 0 : fabs(x - y) / fmax(fabs(x), fabs(y));

	if (!(gap <= AUDIT_LOSS_BOUND))
		return err_set(e, ERR_DATA,
		               "%s: another version or processor computed steps %" PRId64 " to %" PRId64
		               ", and their mean loss is %.2g times apart from the one here, more than %g",
		               r->a->chain.path, r->base, r->how.until, gap, AUDIT_LOSS_BOUND);
	audit_tell(r->a, "replay", "near",
	           "steps %" PRId64 " to %" PRId64 ": another version or processor computed %d of the lines, so that hashes cannot agree; the "
	           "samples are the same, and the mean losses %.2g "
	           "apart (bound %g)",
	           r->base, r->how.until, r->other, gap, AUDIT_LOSS_BOUND);
	return 0;
}

static int repeat(struct replaying *r, const struct train_options *o, struct err *e)
{
	struct train_hooks hooks = {.warn = tell_warning, .arg = r->a, .stop = r->a->o->stop};
	struct err end = {0};
	int rc = train_run(o, r->a->o->device, &hooks, &end);

	if (r->why.code)
		return err_set(e, r->why.code, "%s", r->why.msg);
	if (rc && !(end.code == ERR_AGAIN && r->next > 0 && r->a->chain.v[r->next - 1].step >= r->how.until))
		return err_set(e, end.code, "%s", end.code == ERR_AGAIN ? "the replay was interrupted" : end.msg);
	if (r->other)
		return compare_losses(r, e);
	if (compare_checkpoints(r, e))
		return -1;
	audit_tell(r->a, "replay", "ok", "steps %" PRId64 " to %" PRId64 " come out the same: lines %d, checkpoints %d", r->base, r->how.until,
	           r->same, r->how.save_count);
	return 0;
}

/* ---- tracing ---- */

static void take_node(void *arg, const struct tape_event *v)
{
	struct replaying *r = arg;

	trace_node(&r->trace, v);
}

/* The hook of a traced replay: the state after the step. Of the lines before it, which a run from step 0 begins with, nothing is kept. */
static void take_line(void *arg, const char *text)
{
	struct replaying *r = arg;
	json_t *o = json_loads(text, 0, NULL);

	if (json_integer_value(json_object_get(o, "step")) == r->how.traced)
		trace_after(&r->trace, chain_file_run(&r->a->chain, r->first), o);
	json_decref(o);
}

/* End at the traced step, where the chain may have no line. */
static void choose_traced(struct replaying *r, int64_t *lines)
{
	r->how.traced = r->how.until = lines[0] = r->a->o->trace;
	r->how.line_count = 1;
	r->how.save_count = 0;
	r->how.node = take_node;
	r->how.line = take_line;
	trace_begin(&r->trace, r->how.traced);
}

static int write_trace(struct replaying *r, const struct train_options *o, struct err *e)
{
	struct train_hooks hooks = {.warn = tell_warning, .arg = r->a, .stop = r->a->o->stop};
	struct err end = {0};
	const char *text;

	if (!r->a->o->device->host)
		return err_set(e, ERR_USAGE, "--trace: reads what nodes compute from the memory of a CPU: --device cpu");
	if (train_run(o, r->a->o->device, &hooks, &end) && end.code != ERR_AGAIN)
		return err_set(e, end.code, "%s", end.msg);
	if (!r->trace.nodes)
		return err_set(e, ERR_AGAIN, "the replay was interrupted");
	text = str_text(&r->trace.text);
	if (commit_bytes(r->a->o->trace_to, text, strlen(text), e))
		return -1;
	audit_tell(r->a, "trace", "ok", "step %" PRId64 ": %d nodes written to %s", r->how.traced, r->trace.nodes, r->a->o->trace_to);
	return 0;
}

int audit_replay(struct audit *a, struct err *e)
{
	struct replaying r = {.a = a, .how = {.line = compare_line, .arg = &r}};
	struct train_options o;
	int64_t *lines = NULL, *saves = NULL;
	size_t there = dir_there(a->o->scratch);
	int rc = -1;

	r.dir = path_join(a->o->scratch, "run");
	if (parse_range(&r, e) || choose_base(&r, e) || choose_steps(&r, &lines, &saves, e))
		goto out;
	r.next = r.first;
	r.how.lines = lines;
	r.how.saves = saves;
	if (a->o->trace)
		choose_traced(&r, lines);
	if (find_options(&r, chain_file_run(&a->chain, r.first), &o, e) || prepare_folder(&r, e))
		goto out;
	rc = a->o->trace ? write_trace(&r, &o, e) : repeat(&r, &o, e);
	if (dir_remove(r.dir, rc ? NULL : e))
		rc = -1;
	dir_unmake(a->o->scratch, there);
out:
	mem_free(lines);
	mem_free(saves);
	mem_free(r.dir);
	str_release(&r.trace.text);
	return rc;
}
