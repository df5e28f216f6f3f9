#include "train/step.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/jsonio.h"
#include "train/trainlog.h"

double schedule_rate(const struct train_options *o, int64_t steps, int64_t s)
{
	double x;

	if (s < o->warmup)
		return o->lr * (double)(s + 1) / (double)o->warmup;
	if (o->schedule == SCHEDULE_CONSTANT || steps <= o->warmup)
		return o->lr;
	x = (double)(s - o->warmup) / (double)(steps - o->warmup);
	return o->lr * .5 * (1 + cos(M_PI * x));
}

void log_start(struct trainer *r)
{
	json_t *o = json_object();
	char host[256] = "";

	gethostname(host, sizeof host - 1);
	json_object_set_new(o, "event", json_string("start"));
	json_object_set_new(o, "step", json_integer(r->state.step));
	json_object_set_new(o, "steps", json_integer(r->steps));
	json_object_set_new(o, "time", json_integer((json_int_t)time(NULL)));
	json_object_set_new(o, "host", json_string(host));
	json_object_set_new(o, "pid", json_integer(getpid()));
	json_object_set_new(o, "device", json_string(r->device->name));
	json_object_set_new(o, "threads", json_integer(pool_threads(r->device->pool)));
	json_object_set_new(o, "peak_gflops", jsonio_real(r->peak * 1e-9));
	json_object_set_new(o, "parameters", json_integer(params_count(&r->params, 0)));
	json_object_set_new(o, "samples", json_integer(dataset_info(r->data)->count));
	json_object_set_new(o, "gflop_per_image", jsonio_real(r->flops_per_sample * 1e-9));
	json_object_set_new(o, "stamp", json_loads(r->stamp, 0, NULL));
	trainlog_line(r->log, o);
	r->started = r->mark = clock_seconds();
}

void log_end(struct trainer *r)
{
	json_t *o = json_object();

	json_object_set_new(o, "event", json_string("end"));
	json_object_set_new(o, "step", json_integer(r->state.step));
	json_object_set_new(o, "updates", json_integer(r->state.updates));
	if (r->state.best && isfinite(r->state.best_loss)) {
		json_object_set_new(o, "best_step", json_integer(r->state.best_step));
		json_object_set_new(o, "best_val_loss", jsonio_real(r->state.best_loss));
	}
	json_object_set_new(o, "seconds", jsonio_real(clock_seconds() - r->started));
	trainlog_line(r->log, o);
}

/* What the device has left, and what does not run as it should. */
static void log_device(struct trainer *r, json_t *o, struct train_step *s)
{
	struct device *d = r->device;
	char line[sizeof d->uncaptured + 80];

	d->memory(d, &s->memory);
	json_object_set_new(o, "memory_peak", json_integer((json_int_t)s->memory.peak));
	if (s->memory.total) {
		json_object_set_new(o, "memory_free", json_integer((json_int_t)s->memory.free));
		json_object_set_new(o, "memory_total", json_integer((json_int_t)s->memory.total));
	}
	if (!d->uncaptured[0])
		return;
	json_object_set_new(o, "uncaptured", jsonio_text(d->uncaptured));
	if (r->told_uncaptured)
		return;
	r->told_uncaptured = 1;
	snprintf(line, sizeof line, "a part of each step runs outside a graph, which is slower: %s", d->uncaptured);
	train_warn(r, line);
}

/* Of `step`, when it is the last that was heard of. */
static void log_step(struct trainer *r, int64_t step, double val_loss, json_t *detail)
{
	double now = clock_seconds(), seconds = now - r->mark;
	int64_t n = step - r->loss_since;
	double images = n ? (double)(n * r->o->batch) / seconds : NAN;
	struct train_step s = {
	    .step = step,
	    .steps = r->steps,
	    .skipped = r->skipped,
	    .loss = r->loss_count ? r->loss_sum / (double)r->loss_count : NAN,
	    .grad_norm = r->last_norm,
	    .lr = schedule_rate(r->o, r->steps, step - 1),
	    .val_loss = val_loss,
	    .images_per_s = images,
	    .flops = images * r->flops_per_sample,
	    .peak_fraction = images * r->flops_per_sample / r->peak,
	    .seconds_left = n ? (double)(r->steps - step) * seconds / (double)n : NAN,
	};
	json_t *o = json_object();

	json_object_set_new(o, "step", json_integer(s.step));
	json_object_set_new(o, "loss", jsonio_real(s.loss));
	json_object_set_new(o, "grad_norm", jsonio_real(s.grad_norm));
	json_object_set_new(o, "lr", jsonio_real(s.lr));
	json_object_set_new(o, "skipped", json_integer(s.skipped));
	if (!isnan(val_loss))
		json_object_set_new(o, "val_loss", jsonio_real(val_loss));
	if (detail)
		json_object_set_new(o, "val_by_time", detail);
	json_object_set_new(o, "images_per_s", jsonio_real(s.images_per_s));
	json_object_set_new(o, "gflops", jsonio_real(s.flops * 1e-9));
	json_object_set_new(o, "percent_of_peak", jsonio_real(100 * s.peak_fraction));
	json_object_set_new(o, "data_s", jsonio_real(r->data_s));
	json_object_set_new(o, "forward_s", jsonio_real(r->forward_s));
	json_object_set_new(o, "backward_s", jsonio_real(r->backward_s));
	json_object_set_new(o, "optimizer_s", jsonio_real(r->optimizer_s));
	log_device(r, o, &s);
	trainlog_line(r->log, o);
	if (r->hooks && r->hooks->step)
		r->hooks->step(r->hooks->arg, &s);
	r->data_s = r->forward_s = r->backward_s = r->optimizer_s = 0;
	r->loss_sum = 0;
	r->loss_count = 0;
	r->loss_since = step;
	r->mark = clock_seconds();
}

static int due(int64_t step, int64_t every)
{
	return every > 0 && step % every == 0;
}

static int validated_at(const struct trainer *r, int64_t step)
{
	return r->held && (step == r->steps || due(step, r->validate_every));
}

/* Loss and gradient of one batch, on the device. */
static void batch_gradient(struct trainer *r, const struct batch *b)
{
	int64_t parts = r->o->accumulate;

	for (int64_t i = 0; i < parts; i++) {
		int64_t at = i * r->part;
		struct clean clean;
		double t0 = clock_seconds(), t1, t2;

		device_range(r->device, "upload");
		clean = (struct clean){.x0 = b->x + at * r->objective.d, .label = b->label + at, .cluster = b->cluster + at};
		if (b->text) {
			clean.text = b->text + at * r->net.text_tokens * r->net.text_width;
			clean.rows = b->rows + at;
		}
		objective_noise(&r->objective, &r->noised, &r->loss, r->part, &clean, r->o->seed, (uint64_t)r->state.step, (uint64_t)at);
		device_range_end(r->device);
		t1 = clock_seconds();
		device_range(r->device, "forward");
		tape_run(r->loss.tape, r->part, 0, r->loss.forward_end);
		device_range_end(r->device);
		t2 = clock_seconds();
		device_range(r->device, "backward");
		tape_run(r->loss.tape, r->part, r->loss.forward_end, r->loss.end);
		device_range_end(r->device);
		r->data_s += t1 - t0;
		r->forward_s += t2 - t1;
		r->backward_s += clock_seconds() - t2;
		if (i + 1 < parts)
			update_part(&r->update, i);
	}
}

static void apply(struct trainer *r)
{
	const struct train_options *o = r->o;
	const double plan[PLAN_COUNT] = {
	    [PLAN_LR] = schedule_rate(o, r->steps, r->state.step),
	    [PLAN_BETA1] = o->beta1,
	    [PLAN_BETA2] = o->beta2,
	    [PLAN_EPS] = o->eps,
	    [PLAN_DECAY] = o->weight_decay,
	    [PLAN_EMA] = r->ema_decay,
	    [PLAN_CLIP] = o->clip,
	};

	device_range(r->device, "optimizer");
	update_apply(&r->update, plan);
	device_range_end(r->device);
	r->state.step++;
}

/* Take account of steps that are done; with `all`, of those submitted. A line of the log is written when its step is heard of, while
 * the device is at later ones; the lines of validation and of the last step are their callers'. -1 when training has diverged at one,
 * whatever came after it. */
static int account(struct trainer *r, int all, struct err *e)
{
	struct train_state *s = &r->state;
	const double *y;

	while ((y = update_heard(&r->update, all))) {
		int64_t step = s->step - r->update.count;

		s->updates = (int64_t)y[STATUS_UPDATES];
		s->skipped_in_a_row = (int64_t)y[STATUS_SKIPPED_IN_A_ROW];
		r->last_norm = y[STATUS_NORM];
		if (y[STATUS_FINITE] != 0) {
			r->loss_sum += y[STATUS_LOSS] / (double)r->o->batch;
			r->loss_count++;
		} else {
			r->skipped++;
		}
		if (s->skipped_in_a_row > r->o->max_skipped)
			return err_set(e, ERR_DIVERGED, "%s: the loss was not finite for %" PRId64 " steps in a row, at step %" PRId64,
			               r->o->out, s->skipped_in_a_row, step);
		if (due(step, r->o->log_every) && !validated_at(r, step) && step < r->steps) {
			if (runlock_check(&r->lock, e))
				return -1;
			log_step(r, step, NAN, NULL);
		}
	}
	return r->device->error(r->device, e);
}

static int next_batch(struct trainer *r, struct batch *b, struct err *e)
{
	int rc;

	device_range(r->device, "data");
	rc = loader_next(r->loader, b, e);
	device_range_end(r->device);
	return rc;
}

/* One step: -1 only when the data cannot be read, the device is lost or training has diverged. */
static int step(struct trainer *r, struct err *e)
{
	struct batch b;
	double t0 = clock_seconds();

	if (next_batch(r, &b, e))
		return -1;
	r->data_s += clock_seconds() - t0;
	batch_gradient(r, &b);
	t0 = clock_seconds();
	apply(r);
	if (account(r, 0, e))
		return -1;
	r->optimizer_s += clock_seconds() - t0;
	return 0;
}

static int validate_now(struct trainer *r, double *val_loss, json_t **detail, struct err *e)
{
	struct train_state *s = &r->state;

	if (validate(r, val_loss, detail, e))
		return -1;
	if (s->best && *val_loss < s->best_loss) {
		s->best_loss = *val_loss;
		s->best_step = s->step;
		device_copy(s->device, s->best, s->ema, (size_t)r->params.total * sizeof *s->best);
	}
	return 0;
}

static void prune(struct trainer *r)
{
	checkpoint_prune(r->train_dir, r->state.step, r->o->keep > 0 ? r->o->keep : 1);
}

static void log_unsaved(struct trainer *r, const char *why)
{
	json_t *o = json_object();

	json_object_set_new(o, "event", json_string("unsaved"));
	json_object_set_new(o, "at", json_integer(r->state.step));
	json_object_set_new(o, "why", jsonio_text(why));
	trainlog_line(r->log, o);
}

/* One on the way that cannot be written is reported and survived, the next is tried at the next due time; the one that the run ends
 * with must be. A run whose folder is another's by now ends in any case, and removes nothing there. */
static int checkpoint(struct trainer *r, int must, struct err *e)
{
	struct err why = {0};
	int failed = runlock_check(&r->lock, e) || checkpoint_save(r->train_dir, &r->state, r->stamp, must ? e : &why);

	if (runlock_check(&r->lock, e))
		return -1;
	if (!failed) {
		prune(r);
		return 0;
	}
	if (must)
		return -1;
	r->unsaved++;
	train_warn(r, why.msg);
	log_unsaved(r, why.msg);
	return 0;
}

/* A sheet is for looking at: one that cannot be written is reported, and training goes on. */
static void draw(struct trainer *r)
{
	struct err why = {0};

	if (sample_grid(r, &why))
		train_warn(r, why.msg);
}

static int is_stopped(const struct trainer *r)
{
	return r->hooks && r->hooks->stop && *r->hooks->stop;
}

/* The state as it stands into a checkpoint; *saved becomes its step, unless it could not be written and need not be. */
static int save(struct trainer *r, int must, int64_t *saved, struct err *e)
{
	int64_t failed = r->unsaved;

	if (account(r, 1, e) || checkpoint(r, must, e))
		return -1;
	if (r->unsaved == failed)
		*saved = r->state.step;
	return 0;
}

/* Between two steps: what has been trained and is not in a checkpoint yet is put into one. */
static int end_early(struct trainer *r, int64_t saved, struct err *e)
{
	int64_t step = r->state.step;

	if (step != saved && save(r, 1, &saved, e))
		return -1;
	if (!step)
		return err_set(e, ERR_AGAIN, "interrupted before the first step: run the same command again");
	return err_set(e, ERR_AGAIN, "interrupted; step %" PRId64 " of %" PRId64 " is saved: run the same command again", step, r->steps);
}

int train_steps(struct trainer *r, struct err *e)
{
	const struct train_options *o = r->o;
	struct train_state *s = &r->state;
	double since = clock_seconds();
	int64_t saved = s->step;

	r->loss_since = s->step;
	while (s->step < r->steps) {
		double val_loss = NAN;
		json_t *detail = NULL;
		int failed, last, validated;

		if (is_stopped(r))
			return end_early(r, saved, e);
		device_range(r->device, "step");
		failed = step(r, e);
		device_range_end(r->device);
		if (failed)
			return -1;
		last = s->step == r->steps;
		validated = validated_at(r, s->step);
		if ((validated || last) && account(r, 1, e))
			return -1;
		if (validated && validate_now(r, &val_loss, &detail, e))
			return -1;
		if ((validated || last || due(s->step, o->sample_every)) && runlock_check(&r->lock, e)) {
			json_decref(detail);
			return -1;
		}
		if (validated || last)
			log_step(r, s->step, val_loss, detail);
		if (due(s->step, o->sample_every))
			draw(r);
		if (last || due(s->step, o->checkpoint_steps) ||
		    (o->checkpoint_seconds > 0 && clock_seconds() - since >= o->checkpoint_seconds)) {
			if (save(r, last, &saved, e))
				return -1;
			since = clock_seconds();
		}
	}
	if (runlock_check(&r->lock, e))
		return -1;
	prune(r); /* what a kill right after the last checkpoint left */
	return 0;
}
