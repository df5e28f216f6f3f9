/* The training loop: batches, steps, log, checkpoints. */
#include "train/step.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/machine.h"

static int due(int64_t step, int64_t every)
{
	return every > 0 && step % every == 0;
}

static int validated_at(const struct trainer *r, int64_t step)
{
	return (r->main.held || r->pictures.held) && (step == r->steps || due(step, r->validate_every));
}

/* Whether a line of the log follows a step. */
static int logged_at(const struct trainer *r, int64_t step)
{
	return step == r->steps || validated_at(r, step) || due(step, r->o->log_every);
}

/* Loss and gradient of one batch, on the device. The update reads the losses where the tape of `main` leaves them. */
static int batch_gradient(struct trainer *r, struct train_set *s, const struct batch *b, struct err *e)
{
	float *losses = tape_data(s->loss.tape, s->loss.loss);
	int64_t parts = r->parts, first = comm_rank(r->o->comm) * parts * r->part; /* the batch holds this rank's samples alone */

	for (int64_t i = 0; i < parts; i++) {
		int64_t at = i * r->part;
		struct clean clean;
		double t0 = clock_seconds(), t1, t2;
		int failed;

		watchdog_phase(&r->watchdog, "the forward pass");
		device_range(r->device, "upload");
		clean = (struct clean){.x0 = b->x + at * s->objective.d, .label = b->label + at, .cluster = b->cluster + at};
		if (b->text) {
			clean.text = b->text + at * r->net.text_tokens * r->net.text_width;
			clean.rows = b->rows + at;
		}
		if (b->pooled)
			clean.pooled = b->pooled + at * r->net.pooled_width;
		objective_noise(&s->objective, &s->noised, &s->loss, r->part, &clean, r->o->seed, (uint64_t)r->state.step, (uint64_t)(first + at));
		device_range_end(r->device);
		t1 = clock_seconds();
		device_range(r->device, "forward");
		failed = trainer_forward(r, s, r->part, &clean, e);
		device_range_end(r->device);
		if (failed)
			return -1;
		if (s != &r->main)
			device_copy(r->device, tape_data(r->main.loss.tape, r->main.loss.loss), losses, (size_t)r->part * sizeof *losses);
		t2 = clock_seconds();
		watchdog_phase(&r->watchdog, "the backward pass");
		device_range(r->device, "backward");
		if (i + 1 < parts)
			tape_run(s->loss.tape, r->part, s->loss.forward_end, s->loss.end);
		else
			update_backward(&r->update, s->loss.tape, r->part, s->loss.forward_end, s->loss.end);
		device_range_end(r->device);
		step_detail_put(&s->detail, r->device, r->state.step, at, r->part, s->noised.t, b->index + at, losses);
		r->data_s += t1 - t0;
		r->forward_s += t2 - t1;
		r->backward_s += clock_seconds() - t2;
		if (i + 1 < parts)
			update_part(&r->update, i);
	}
	return 0;
}

static int apply(struct trainer *r, struct err *e)
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

	int rc;

	watchdog_phase(&r->watchdog, "the update of the weights");
	device_range(r->device, "optimizer");
	rc = update_apply(&r->update, plan, logged_at(r, r->state.step + 1) ? r->state.step : -1, e);
	device_range_end(r->device);
	r->state.step += !rc;
	return rc;
}

/* Handles a step with a non-finite loss, which changed nothing. A few are tolerated; if there are many, the data or the learning rate is wrong. */
static int skipped_step(struct trainer *r, int64_t step, struct err *e)
{
	enum { FEW = 100, MANY = 1000 }; /* the share of bad steps is taken of at least this many steps */
	const struct train_state *s = &r->state;
	int64_t skipped = step - s->updates, few = r->steps < FEW ? FEW : r->steps < MANY ? r->steps : MANY;
	char line[200];

	if (!r->warned_skipped) {
		r->warned_skipped = 1;
		snprintf(line, sizeof line,
		         "step %" PRId64 ": the loss or its gradient is not finite: the step changes nothing; train.jsonl counts such steps", step);
		train_warn(r, line);
	}
	if (s->skipped_in_a_row > r->o->max_skipped)
		return err_set(e, ERR_DIVERGED, "%s: the loss was not finite for %" PRId64 " steps in a row, at step %" PRId64, r->o->out,
		               s->skipped_in_a_row, step);
	if ((double)skipped > r->o->max_skipped_share * (double)(step > few ? step : few))
		return err_set(e, ERR_DIVERGED,
		               "%s: the loss was not finite in %" PRId64 " of %" PRId64 " steps, more than a share of %g of %" PRId64
		               " (--max-skipped-share)",
		               r->o->out, skipped, step, r->o->max_skipped_share, step > few ? step : few);
	return 0;
}

/* Only the first rank holds the lock. */
static int lock_check(const struct trainer *r, struct err *e)
{
	return is_first_rank(r) ? runlock_check(&r->lock, e) : 0;
}

/* Process the steps that the device has finished; with `all`, wait for every submitted step. The log line of a step is written here, while the
 * device already works on later steps; the callers write the lines of validation and of the last step. -1 if training diverged at one of
 * the steps. */
static int account(struct trainer *r, int all, struct err *e)
{
	struct train_state *s = &r->state;
	const double *y;

	watchdog_phase(&r->watchdog, "the wait for the device");
	while ((y = update_finished(&r->update, all))) {
		int64_t step = s->step - r->update.count;

		if (rank_sum_error(&r->update.ranks.sum, e))
			return -1;
		s->updates = (int64_t)y[STATUS_UPDATES];
		s->skipped_in_a_row = (int64_t)y[STATUS_SKIPPED_IN_A_ROW];
		s->lr_squares = y[STATUS_LR_SQUARES];
		r->last_norm = y[STATUS_NORM];
		log_spike(r, step, y[STATUS_FINITE] != 0, y[STATUS_LOSS] / (double)r->o->batch);
		chain_take_step(r, y);
		if (y[STATUS_FINITE] != 0 && train_set_of(r, step - 1) == &r->pictures) {
			s->picture_loss_sum += y[STATUS_LOSS] / (double)r->o->batch;
			s->picture_loss_count++;
		} else if (y[STATUS_FINITE] != 0) {
			s->loss_sum += y[STATUS_LOSS] / (double)r->o->batch;
			s->loss_count++;
		} else if (skipped_step(r, step, e)) {
			return -1;
		}
		if (r->hooks && r->hooks->tick)
			r->hooks->tick(r->hooks->arg, step, r->steps);
		if (due(step, r->o->log_every) && !validated_at(r, step) && step < r->steps) {
			if (lock_check(r, e))
				return -1;
			log_step(r, step, NAN, NAN, NULL);
		}
	}
	return r->device->error(r->device, e) || rank_sum_error(&r->update.ranks.sum, e) ? -1 : 0;
}

static int next_batch(struct trainer *r, struct train_set *s, struct batch *b, struct err *e)
{
	int rc;

	watchdog_phase(&r->watchdog, "the reading of a batch");
	device_range(r->device, "data");
	rc = loader_next(s->loader, b, e);
	device_range_end(r->device);
	return rc;
}

/* One step. -1 only if the data cannot be read, the device is lost or training has diverged. */
static int step(struct trainer *r, struct err *e)
{
	struct train_set *s = train_set_of(r, r->state.step);
	const struct train_replay *p = r->o->replay;
	struct batch b;
	double t0 = clock_seconds();
	int failed;

	if (next_batch(r, s, &b, e))
		return -1;
	name_nonfinite(r, s, &b);
	chain_take_batch(r, s, &b);
	if (r->ordered != s)
		update_order(&r->update, s->loss.tape);
	r->ordered = s;
	r->data_s += clock_seconds() - t0;
	if (p && p->traced == r->state.step + 1)
		tape_watch(s->loss.tape, p->node, p->arg);
	failed = batch_gradient(r, s, &b, e);
	tape_watch(s->loss.tape, NULL, NULL);
	if (failed)
		return -1;
	t0 = clock_seconds();
	watchdog_phase(&r->watchdog, "the writing of a checkpoint");
	checkpoint_writer_wait_arenas(&r->writer);
	if (apply(r, e) || account(r, 0, e))
		return -1;
	r->optimizer_s += clock_seconds() - t0;
	return 0;
}

static int validate_now(struct trainer *r, double *val_loss, double *val_pictures, json_t **detail, struct err *e)
{
	struct train_state *s = &r->state;
	double began = clock_seconds();

	watchdog_phase(&r->watchdog, "a validation");
	if ((r->pictures.held && validate(r, &r->pictures, val_pictures, NULL, e)) || (r->main.held && validate(r, &r->main, val_loss, detail, e)))
		return -1;
	watchdog_turn(&r->watchdog, s->step);
	if (s->best && *val_loss < s->best_loss) {
		s->best_loss = *val_loss;
		s->best_step = s->step;
		checkpoint_writer_wait_arenas(&r->writer);
		state_take_best(s);
	}
	r->validate_s += clock_seconds() - began;
	return 0;
}

static void prune(struct trainer *r, int64_t step)
{
	if (!is_first_rank(r))
		return;
	checkpoint_prune(r->train_dir, step, r->o->keep > 0 ? r->o->keep : 1, r->o->keep_every,
	                 r->o->checkpoint.seconds > 0 ? 0 : r->o->checkpoint.steps, r->steps);
}

/* Wait for the checkpoint in the background, if there is one, and take over its result. If it could not be written, the run warns and tries again
 * when the next is due. *saved becomes the step of a complete one. If another process has taken over the folder, the run ends and removes nothing
 * there. It also ends if another rank is lost, whose share of the state the checkpoint lacks. */
static int end_background(struct trainer *r, int64_t *saved, struct err *e)
{
	struct err why = {0};
	double seconds;
	int64_t step;
	int rc = checkpoint_writer_end(&r->writer, &step, &seconds, &why);

	if (rc > 0)
		return 0;
	r->save_s = fmax(r->save_s, seconds);
	if (runlock_check(&r->lock, e))
		return -1;
	if (!rc) {
		prune(r, step);
		*saved = step;
		if (step == r->asked)
			train_say(r, "step %" PRId64 " of %" PRId64 " is saved", step, r->steps);
		return 0;
	}
	if (comm_is_lost(r->o->comm))
		return err_set(e, why.code, "%s", why.msg);
	train_warn(r, why.msg);
	log_unsaved(r, step, why.msg);
	return 0;
}

/* A sheet of samples that cannot be written causes a warning only, unless another process has taken over the folder. */
static int draw(struct trainer *r, struct err *e)
{
	struct err why = {0};
	float *average;
	int rc;

	watchdog_phase(&r->watchdog, "the drawing of samples");
	if (state_gather(&r->state, STATE_AVERAGE, &average, e))
		return -1;
	rc = is_first_rank(r) ? sample_grid(r, average, &why) : 0;
	watchdog_turn(&r->watchdog, r->state.step);
	if (!rc)
		return 0;
	if (runlock_check(&r->lock, e))
		return -1;
	train_warn(r, why.msg);
	return 0;
}

/* Bytes of host memory that a copy of the state may take. */
static uint64_t copy_room(void)
{
	struct machine_memory m;

	machine_memory(&m, "");
	return m.free ? m.free / 2 : UINT64_MAX;
}

/* On rank 0. */
static int save_first(struct trainer *r, int must, int64_t *saved, struct err *e)
{
	watchdog_phase(&r->watchdog, "the writing of a checkpoint");
	if (end_background(r, saved, e) || runlock_check(&r->lock, e))
		return -1;
	chain_keep(r);
	watchdog_turn(&r->watchdog, r->state.step);
	if (!must) {
		checkpoint_writer_start(&r->writer, r->train_dir, &r->state, r->stamp, copy_room());
		return 0;
	}
	if (checkpoint_save(r->train_dir, &r->state, r->stamp, NULL, NULL, e) || runlock_check(&r->lock, e))
		return -1;
	*saved = r->state.step;
	prune(r, *saved);
	return 0;
}

/* Save the current state: in the background, or, if it must be saved, before this returns. *saved becomes the step of the last checkpoint that is
 * known to be complete; on other ranks than 0 it is the step of the last one. */
static int save(struct trainer *r, int must, int64_t *saved, struct err *e)
{
	int rc = 0;

	if (account(r, 1, e))
		return -1;
	if (is_first_rank(r))
		rc = save_first(r, must, saved, e);
	else
		*saved = r->state.step;
	return ranks_end_following(r, rc, e);
}

/* Stop between two steps: save a checkpoint unless the current step has one. `why` begins the message. */
static int end_early(struct trainer *r, const char *why, int64_t saved, struct err *e)
{
	int64_t step = r->state.step;
	int unsaved;

	if (end_background(r, &saved, e) || ranks_any(r->o->comm, step != saved, &unsaved, e) || (unsaved && save(r, 1, &saved, e)))
		return -1;
	if (!step)
		return err_set(e, ERR_AGAIN, "%s before the first step: run the same command again", why);
	return err_set(e, ERR_AGAIN, "%s; step %" PRId64 " of %" PRId64 " is saved: run the same command again", why, step, r->steps);
}

/* The turns of the loop in this process: a step each, with the validation after it, without the wait for a checkpoint. */
struct turns {
	int64_t n;
	double total, longest; /* seconds */
};

static void count_turn(struct turns *t, double seconds)
{
	t->n++;
	t->total += seconds;
	t->longest = fmax(t->longest, seconds);
}

/* Bytes a second; assumed of a disk until it has written a checkpoint of this run. */
#define ASSUMED_DISK_SPEED 1e8

/* Whether there is no time for another step. Before the deadline the device has to finish the steps submitted to it, and two checkpoints have to be
 * written: the last one, and before it the one that may be in the background. */
static int is_late(const struct trainer *r, const struct turns *t)
{
	double pending;

	if (!r->hooks || !r->hooks->deadline || !t->n)
		return 0;
	pending = (double)r->update.count * t->total / (double)t->n;
	return clock_seconds() + t->longest + pending + 2 * r->save_s > r->hooks->deadline;
}

/* Whether a signal to this process asks for a checkpoint. The request is withdrawn before the state is saved, so that a later one finds the later
 * state. */
static int is_asked_for(struct trainer *r)
{
	if (!r->hooks || !r->hooks->save || !*r->hooks->save)
		return 0;
	*r->hooks->save = 0;
	return 1;
}

/* What one rank asks of all before a step. Signals and clocks differ between ranks, and all must do the same, so they first tell each other. SAVE: a
 * signal asks for a checkpoint; TIMED: one is due by the clock. */
enum { STOPPED = 1, LATE = 2, SAVE = 4, TIMED = 8 };

/* Set *asked to what any rank asks for. `since`: this rank's clock at the last checkpoint. */
static int ask_ranks(struct trainer *r, const struct turns *turns, double since, int *asked, struct err *e)
{
	const struct train_interval *every = &r->o->checkpoint;
	int mine = trainer_is_stopped(r) ? STOPPED : is_late(r, turns) ? LATE : 0;

	if (turns->n && is_asked_for(r)) /* before the first step there is nothing new to save, so the request waits for it */
		mine |= SAVE;
	if (!r->o->replay && every->seconds > 0 && clock_seconds() - since >= every->seconds)
		mine |= TIMED;
	watchdog_phase(&r->watchdog, "the question whether to stop");
	return ranks_any(r->o->comm, mine, asked, e);
}

static int is_among(int64_t step, const int64_t *list, int n)
{
	for (int i = 0; i < n; i++)
		if (list[i] == step)
			return 1;
	return 0;
}

/* Whether a checkpoint of the state after `step` is due by the number of steps. */
static int save_is_due(const struct trainer *r, int64_t step)
{
	const struct train_options *o = r->o;

	if (o->replay)
		return is_among(step, o->replay->saves, o->replay->save_count);
	return step == r->steps || due(step, o->checkpoint.steps) || due(step, o->keep_every);
}

/* Whether a line of the hash chain is due after `step`. */
static int chain_is_due(const struct trainer *r, int64_t step)
{
	const struct train_replay *p = r->o->replay;

	return p ? is_among(step, p->lines, p->line_count) : r->chain_every && (step == r->steps || due(step, r->chain_every));
}

static int run_steps(struct trainer *r, struct err *e)
{
	const struct train_options *o = r->o;
	struct train_state *s = &r->state;
	double since = clock_seconds();
	struct turns turns = {0};
	int64_t saved = s->step, newest = s->step; /* the step of the last checkpoint that is complete; of the last one that was begun */

	rank_watch_begin(&r->ranks, o->comm);
	r->save_s = (double)state_bytes(&r->params, s->best != NULL, 0, 0, r->params.trainable) / ASSUMED_DISK_SPEED;
	while (s->step < r->steps) {
		double val_loss = NAN, val_pictures = NAN, began = clock_seconds();
		json_t *detail = NULL;
		int failed, last, validated, asked;

		if (ask_ranks(r, &turns, since, &asked, e))
			return -1;
		if (o->replay && s->step >= o->replay->until)
			return end_early(r, "replayed", saved, e);
		if (asked & (STOPPED | LATE))
			return end_early(r, asked & STOPPED ? "interrupted" : "out of time", saved, e);
		if (asked & SAVE)
			r->asked = s->step;
		if (checkpoint_writer_has_finished(&r->writer) && end_background(r, &saved, e))
			return -1;
		if (asked && newest != s->step) {
			double before = clock_seconds();

			if (save(r, 0, &saved, e))
				return -1;
			newest = s->step;
			since = clock_seconds();
			began += since - before;
		}
		device_range(r->device, "step");
		failed = step(r, e);
		watchdog_turn(&r->watchdog, s->step);
		device_range_end(r->device);
		if (failed)
			return -1;
		last = s->step == r->steps;
		validated = validated_at(r, s->step);
		if ((validated || last) && account(r, 1, e))
			return -1;
		if ((validated || last) && rank_watch_compare(&r->ranks, o->comm, e))
			return -1;
		if (validated && validate_now(r, &val_loss, &val_pictures, &detail, e))
			return -1;
		if ((validated || last || due(s->step, o->sample_every)) && lock_check(r, e)) {
			json_decref(detail);
			return -1;
		}
		if (validated || last) {
			log_step(r, s->step, val_loss, val_pictures, detail);
			log_rank_watch(r);
			rank_watch_begin(&r->ranks, o->comm);
		}
		if (due(s->step, o->sample_every) && draw(r, e))
			return -1;
		if (chain_is_due(r, s->step) && (account(r, 1, e) || chain_line(r, e)))
			return -1;
		count_turn(&turns, clock_seconds() - began);
		if (save_is_due(r, s->step)) {
			if (save(r, last, &saved, e))
				return -1;
			newest = s->step;
			since = clock_seconds();
		}
	}
	if (lock_check(r, e))
		return -1;
	prune(r, s->step); /* in case the run was killed right after its last checkpoint */
	return 0;
}

int train_steps(struct trainer *r, struct err *e)
{
	int64_t saved = 0;
	int rc;

	if (comm_rank(r->o->comm) == 0)
		checkpoint_writer_prepare(&r->writer, &r->state, copy_room());
	rc = run_steps(r, e);
	rank_sum_leave(&r->update.ranks.sum, !rc || (e && e->code == ERR_AGAIN));
	/* After an error the checkpoint in the background is still good. */
	end_background(r, &saved, NULL);
	checkpoint_writer_release(&r->writer);
	return rc;
}
