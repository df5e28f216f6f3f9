/* Tells the state of trainings from their logs, locks and checkpoints. */
#include "inspect/runstatus.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "core/jsonio.h"
#include "core/median.h"
#include "core/mem.h"
#include "core/pace.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/runlock.h"
#include "train/state.h"

enum {
	STALE_SECONDS = 600,
	STALE_INTERVALS = 3,
	RECENT = 10,        /* log lines that the remaining time and the interval between lines are computed from */
	EXPERTS_MOST = 9999 /* highest number of a folder expert_K */
};

const char *const run_state_names[] = {"never started", "failed to start", "running", "stale", "stopped", "finished", NULL};

static int is_folder(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* Whether a trainer has begun to write in the folder. */
static int is_begun(const char *dir)
{
	return path_holds(dir, "train.jsonl") || path_holds(dir, "train") || path_holds(dir, ".lock");
}

/* The number of a name such as "expert_12", or -1. */
static int64_t expert_number(const char *name)
{
	int64_t k;

	if (strncmp(name, "expert_", 7) || strspn(name + 7, "0123456789") != strlen(name + 7) || parse_i64(name + 7, 0, EXPERTS_MOST, &k))
		return -1;
	return k;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* Takes over dir and name. */
static void run_add(struct runs *r, char *dir, char *name)
{
	char *log = path_join(dir, "train.jsonl");

	r->v = mem_resize(r->v, (size_t)r->n + 1, sizeof *r->v);
	r->v[r->n++] =
	    (struct run){.dir = dir, .name = name, .router = !strcmp(last_part(dir), "router"), .log = loghistory_new(log), .host = mem_strdup("")};
	mem_free(log);
}

/* Add the folder `name` in the operand; `several`: the operand's name is shown too. */
static void child_add(struct runs *r, const char *operand, const char *name, int several)
{
	char *dir = path_join(operand, name);

	run_add(r, dir, mem_strdup(several ? dir : name));
}

/* Add the trainings in a folder. Returns how many it has, or -1. */
static int children_add(struct runs *r, const char *dir, int64_t experts, int several, struct err *e)
{
	char **name = NULL, number[32];
	size_t n = 0;
	int before = r->n;
	int64_t k = experts;

	if (dir_list(dir, &name, &n, e))
		return -1;
	for (size_t i = 0; i < n; i++)
		if (expert_number(name[i]) >= k)
			k = expert_number(name[i]) + 1;
	for (int64_t i = 0; i < k; i++) {
		snprintf(number, sizeof number, "expert_%" PRId64, i);
		child_add(r, dir, number, several);
	}
	for (int others = 0; others < 2; others++)
		for (size_t i = 0; i < n; i++) {
			char *path = path_join(dir, name[i]), *log = path_join(path, "train.jsonl");

			if (others == !!strcmp(name[i], "router") && expert_number(name[i]) < 0 && (others ? path_exists(log) : is_folder(path)))
				child_add(r, dir, name[i], several);
			mem_free(path);
			mem_free(log);
		}
	names_free(name, n);
	return r->n - before;
}

static int operand_add(struct runs *r, const char *operand, int64_t experts, int several, struct err *e)
{
	size_t n = strlen(operand);
	char *dir;
	int found = 0, own;

	while (n > 1 && operand[n - 1] == '/')
		n--;
	dir = mem_strndup(operand, n);
	own = is_begun(dir) || expert_number(last_part(dir)) >= 0 || !strcmp(last_part(dir), "router");
	if (!own)
		found = children_add(r, dir, experts, several, e);
	if (own || (!found && path_holds(dir, "config.json")))
		run_add(r, mem_strdup(dir), mem_strdup(several ? dir : last_part(dir)));
	else if (!found)
		found =
		    err_set(e, ERR_NOINPUT, "%s: neither a training's folder nor a folder of them: it has no train.jsonl, expert_K or router", dir);
	mem_free(dir);
	return found < 0 ? -1 : 0;
}

int runs_find(struct runs *r, char *const *operand, int n, int64_t experts, struct err *e)
{
	for (int i = 0; i < n; i++)
		if (operand_add(r, operand[i], experts, n > 1, e))
			return -1;
	return 0;
}

static void notes_release(struct runs *r)
{
	for (int i = 0; i < r->notes; i++)
		mem_free(r->note[i]);
	mem_free(r->note);
	r->note = NULL;
	r->notes = 0;
}

void runs_release(struct runs *r)
{
	for (int i = 0; i < r->n; i++) {
		mem_free(r->v[i].dir);
		mem_free(r->v[i].name);
		mem_free(r->v[i].host);
		loghistory_free(r->v[i].log);
	}
	notes_release(r);
	mem_free(r->v);
	*r = (struct runs){0};
}

/* Seconds since a file was written; NaN if there is none. A clock that is behind the file's gives 0. */
static double age_of(const char *path, double now)
{
	struct stat st;
	double age;

	if (stat(path, &st))
		return NAN;
	age = now - (double)st.st_mtim.tv_sec - (double)st.st_mtim.tv_nsec * 1e-9;
	return age > 0 ? age : 0;
}

/* The newest checkpoint that has its manifest. */
static void find_checkpoint(struct run *x, double now)
{
	char *train = path_join(x->dir, "train");
	int64_t *steps = NULL;
	int n = 0;

	x->saved = -1;
	x->saved_age = NAN;
	if (!checkpoint_steps(train, &steps, &n, NULL))
		for (int i = 0; i < n && x->saved < 0; i++) {
			char *dir = checkpoint_path(train, steps[i]), *manifest = path_join(dir, "MANIFEST.json");

			x->saved_age = age_of(manifest, now);
			if (!isnan(x->saved_age))
				x->saved = steps[i];
			mem_free(manifest);
			mem_free(dir);
		}
	mem_free(steps);
	mem_free(train);
}

/* Seconds for a step, and the longest time between two lines, over the last lines of the current attempt. */
static double step_seconds(struct run *x)
{
	const struct loghistory *h = x->log;
	const struct log_column *c = loghistory_column(h, "seconds");
	int64_t last = h->n - 1, first = last;

	x->log_interval = NAN;
	while (c && first > 0 && last - first < RECENT && h->of[first - 1] == h->of[last]) {
		double interval = c->v[first] - c->v[first - 1];

		if (!(x->log_interval >= interval))
			x->log_interval = interval;
		first--;
	}
	return first < last ? (c->v[last] - c->v[first]) / (double)(h->step[last] - h->step[first]) : NAN;
}

static void read_log(struct run *x, double now)
{
	const struct loghistory *h = x->log;
	const struct log_attempt *a;
	double per_step;

	x->why = (struct err){0};
	loghistory_update(x->log, &x->why);
	if (x->why.code == ERR_NOINPUT)
		x->why = (struct err){0};
	if (!x->why.code && h->damaged)
		err_set(&x->why, ERR_DATA, "%s%s", h->why.msg, h->damaged > 1 ? ", and so are other lines" : "");
	a = h->attempts ? &h->attempt[h->attempts - 1] : NULL;
	x->log_age = age_of(h->path, now);
	x->steps = h->steps;
	x->step = h->n ? h->step[h->n - 1] : -1;
	if (a && a->step > x->step)
		x->step = a->step;
	x->images_per_s = loghistory_last(h, "images_per_s", 0);
	x->percent_of_peak = loghistory_last(h, "percent_of_peak", 0);
	x->loss = loghistory_last(h, "loss", 0);
	x->val_loss = loghistory_last(h, "val_loss", 1);
	x->memory = loghistory_last(h, "memory_peak", 1);
	x->restarts = a ? a->number - 1 : -1;
	x->seconds = loghistory_seconds(h);
	per_step = step_seconds(x);
	if (isnan(per_step) && h->batch > 0)
		per_step = (double)h->batch / x->images_per_s;
	x->eta = x->steps > x->step ? per_step * (double)(x->steps - x->step) : NAN;
	mem_free(x->host);
	x->host = mem_strdup(a ? a->host : "");
	x->router |= !strcmp(h->program, "ddm-route-train");
}

/* Whether the weights that a training writes last are there. A network of weights alone has no log. */
static int is_published(const struct run *x)
{
	static const char *const names[] = {"diffusion_pytorch_model.safetensors", "model.safetensors"};

	for (int i = 0; i < 2; i++)
		if (path_holds(x->dir, names[i]))
			return !x->log->attempts || x->step >= x->steps;
	return 0;
}

static double stale_after(const struct run *x, const struct run_limits *limits)
{
	if (limits->stale > 0)
		return limits->stale;
	return x->log_interval * STALE_INTERVALS > STALE_SECONDS ? x->log_interval * STALE_INTERVALS : STALE_SECONDS;
}

static enum run_state state_of(const struct run *x, const struct run_limits *limits)
{
	if (*x->holder)
		return x->log_age > stale_after(x, limits) ? RUN_STALE : RUN_RUNNING;
	if (x->log->finished || is_published(x))
		return RUN_FINISHED;
	if (x->log->n || x->saved >= 0)
		return RUN_STOPPED;
	return is_begun(x->dir) ? RUN_FAILED : RUN_NEVER;
}

static void note(struct runs *r, const struct run *x, const char *text)
{
	r->note = mem_resize(r->note, (size_t)r->notes + 1, sizeof *r->note);
	r->note[r->notes++] = str_new("%s: %s", x->name, text);
}

/* Whether the rate of a run is compared: a router is another network. */
static int has_rate(const struct run *x)
{
	return x->state == RUN_RUNNING && !x->router && isfinite(x->images_per_s);
}

static void find_stragglers(struct runs *r, double share)
{
	double *rate = mem_alloc(((size_t)r->n + 1) * sizeof *rate), usual;
	int n = 0;

	for (int i = 0; i < r->n; i++)
		if (has_rate(&r->v[i]))
			rate[n++] = r->v[i].images_per_s;
	usual = median(rate, n);
	for (int i = 0; i < r->n; i++) {
		struct run *x = &r->v[i];
		char *text;

		x->median = NAN;
		if (!has_rate(x) || !(x->images_per_s < share * usual))
			continue;
		x->median = usual;
		text = str_new("slow: %.4g images/s, %.0f%% of %.4g, the median of %d running experts", x->images_per_s,
		               100 * x->images_per_s / usual, usual, n);
		note(r, x, text);
		mem_free(text);
	}
	mem_free(rate);
}

static void note_state(struct runs *r, const struct run *x)
{
	char age[PACE_TEXT], *text = NULL;

	if (x->state == RUN_STALE)
		text = str_new("stale: nothing was logged for %s, but a process holds the lock (host and pid: %s)", pace_text(age, x->log_age),
		               x->holder);
	else if (x->state == RUN_FAILED)
		text = str_new("failed to start: the trainer ended before its first log line");
	else if (x->state == RUN_STOPPED && x->log->n && x->log->of[x->log->n - 1] != x->log->attempts - 1)
		text = str_new("stopped: its last start, at step %" PRId64 ", ended before its first log line",
		               x->log->attempt[x->log->attempts - 1].step);
	else if (x->state != RUN_FINISHED && x->log->n && !isfinite(x->loss))
		text = str_new("the loss at step %" PRId64 " is not finite", x->step);
	if (text)
		note(r, x, text);
	mem_free(text);
	if (x->log->unsaved && x->log->unsaved_step > x->saved) {
		text = str_new("the checkpoint of step %" PRId64 " could not be written: %s", x->log->unsaved_step, x->log->unsaved);
		note(r, x, text);
		mem_free(text);
	}
}

void runs_update(struct runs *r, double now, const struct run_limits *limits)
{
	notes_release(r);
	for (int i = 0; i < r->n; i++) {
		struct run *x = &r->v[i];

		if (!runlock_holder(x->dir, x->holder, sizeof x->holder))
			x->holder[0] = 0;
		read_log(x, now);
		find_checkpoint(x, now);
		x->state = state_of(x, limits);
		if (x->state == RUN_FINISHED && x->log->attempts)
			x->step = x->steps;
		if (!*x->holder)
			x->eta = NAN;
		note_state(r, x);
	}
	find_stragglers(r, limits->straggler);
}

int runs_count(const struct runs *r, enum run_state state)
{
	int n = 0;

	for (int i = 0; i < r->n; i++)
		n += r->v[i].state == state;
	return n;
}

static json_t *count_json(int64_t v)
{
	return v < 0 ? json_null() : json_integer(v);
}

static json_t *text_json(const char *text)
{
	return *text ? jsonio_text(text) : json_null();
}

static json_t *run_json(const struct run *x, double cost_per_hour)
{
	const struct loghistory *h = x->log;
	const struct log_attempt *a = h->attempts ? &h->attempt[h->attempts - 1] : NULL;
	json_t *o = json_object();

	json_object_set_new(o, "name", jsonio_text(x->name));
	json_object_set_new(o, "path", jsonio_text(x->dir));
	json_object_set_new(o, "network", json_string(x->router ? "router" : "expert"));
	json_object_set_new(o, "state", json_string(run_state_names[x->state]));
	json_object_set_new(o, "step", count_json(x->step));
	json_object_set_new(o, "steps", count_json(x->steps));
	json_object_set_new(o, "images_per_s", jsonio_real(x->images_per_s));
	json_object_set_new(o, "percent_of_peak", jsonio_real(x->percent_of_peak));
	json_object_set_new(o, "eta_s", jsonio_real(x->eta));
	json_object_set_new(o, "loss", jsonio_real(x->loss));
	json_object_set_new(o, "val_loss", jsonio_real(x->val_loss));
	json_object_set_new(o, "log_age_s", jsonio_real(x->log_age));
	json_object_set_new(o, "checkpoint_step", count_json(x->saved));
	json_object_set_new(o, "checkpoint_age_s", jsonio_real(x->saved_age));
	json_object_set_new(o, "restarts", count_json(x->restarts));
	json_object_set_new(o, "host", text_json(x->host));
	json_object_set_new(o, "device", text_json(a ? a->device : ""));
	json_object_set_new(o, "holder", text_json(x->holder));
	json_object_set_new(o, "memory_bytes", isfinite(x->memory) ? json_integer((json_int_t)x->memory) : json_null());
	json_object_set_new(o, "seconds", jsonio_real(x->seconds));
	if (cost_per_hour > 0)
		json_object_set_new(o, "cost", jsonio_real(x->seconds / 3600 * cost_per_hour));
	json_object_set_new(o, "straggler", json_boolean(!isnan(x->median)));
	json_object_set_new(o, "damaged_lines", json_integer(h->damaged));
	json_object_set_new(o, "error", x->why.code ? jsonio_text(x->why.msg) : json_null());
	return o;
}

json_t *runs_json(const struct runs *r, double now, double cost_per_hour)
{
	json_t *o = json_object(), *list = json_array(), *notes = json_array();
	double cost = 0;

	for (int i = 0; i < r->n; i++) {
		json_array_append_new(list, run_json(&r->v[i], cost_per_hour));
		cost += r->v[i].seconds / 3600 * cost_per_hour;
	}
	for (int i = 0; i < r->notes; i++)
		json_array_append_new(notes, jsonio_text(r->note[i]));
	json_object_set_new(o, "time", json_integer((json_int_t)now));
	json_object_set_new(o, "runs", list);
	json_object_set_new(o, "notes", notes);
	if (cost_per_hour > 0)
		json_object_set_new(o, "cost", jsonio_real(cost));
	return o;
}
