/* The lines that training writes into train.jsonl. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "core/jsonio.h"
#include "train/step.h"
#include "train/trainlog.h"

/* Only the first rank has a log. A process that was stopped while another took over the folder writes no line. Takes over o. */
static void put_line(const struct trainer *r, json_t *o)
{
	if (r->log >= 0 && !runlock_check(&r->lock, NULL))
		trainlog_line(r->log, o);
	else
		json_decref(o);
}

void log_start(struct trainer *r)
{
	json_t *o = json_object();
	char host[256] = "";

	gethostname(host, sizeof host - 1);
	json_object_set_new(o, "event", json_string("start"));
	json_object_set_new(o, "step", json_integer(r->state.step));
	json_object_set_new(o, "steps", json_integer(r->steps));
	json_object_set_new(o, "attempt", json_integer(r->past.attempts + 1));
	json_object_set_new(o, "seconds_before", jsonio_real(r->past.seconds));
	json_object_set_new(o, "time", json_integer((json_int_t)time(NULL)));
	json_object_set_new(o, "host", json_string(host));
	json_object_set_new(o, "pid", json_integer(getpid()));
	json_object_set_new(o, "device", json_string(r->device->name));
	if (r->o->comm) {
		json_object_set_new(o, "ranks", json_integer(comm_size(r->o->comm)));
		json_object_set_new(o, "engine", json_string(comm_engine_name(r->o->comm)));
		json_object_set_new(o, "sums", json_string(rank_sum_text(&r->update.ranks.sum)));
		json_object_set_new(o, "network", json_string(comm_network(r->o->comm)));
	}
	json_object_set_new(o, "threads", json_integer(pool_threads(r->device->pool)));
	json_object_set_new(o, "peak_gflops", jsonio_real(r->peak * 1e-9));
	json_object_set_new(o, "parameters", json_integer(params_count(&r->params, 0)));
	json_object_set_new(o, "samples", json_integer(dataset_info(r->main.data)->count));
	if (r->pictures.data)
		json_object_set_new(o, "pictures", json_integer(dataset_info(r->pictures.data)->count));
	json_object_set_new(o, "gflop_per_image", jsonio_real(r->flops_per_sample * 1e-9));
	json_object_set_new(o, "stamp", json_loads(r->stamp, 0, NULL));
	put_line(r, o);
	r->started = r->mark = clock_seconds();
	r->marked = r->state.step;
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
	put_line(r, o);
}

/* Adds the free memory of the device, and warns if a part of the step does not run in a graph. */
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
	if (r->warned_uncaptured)
		return;
	r->warned_uncaptured = 1;
	snprintf(line, sizeof line, "part of each step runs outside a CUDA graph, which is slower: %s", d->uncaptured);
	train_warn(r, line);
}

/* Takes over v, which may be NULL. */
static void put_if(json_t *o, const char *key, json_t *v)
{
	if (v)
		json_object_set_new(o, key, v);
}

/* The numbers of the last comparison of the ranks, unless they are in an earlier line. */
static void log_ranks(struct trainer *r, json_t *o)
{
	struct rank_watch *w = &r->ranks;

	if (!w->fresh)
		return;
	json_object_set_new(o, "rank_busy_s", rank_watch_json(w->busy, w->n));
	json_object_set_new(o, "rank_clock_s", rank_watch_json(w->clock, w->n));
	json_object_set_new(o, "rank_clock_within_s", rank_watch_json(w->bound, w->n));
	w->fresh = 0;
}

static void call_out(void *arg, enum rank_fault what, int rank, double value, double others)
{
	struct trainer *r = arg;
	int slow = what == RANK_STRAGGLES;
	char line[300];
	json_t *o = json_object();

	json_object_set_new(o, "event", json_string(slow ? "straggler" : "clock"));
	json_object_set_new(o, "at", json_integer(r->state.step));
	json_object_set_new(o, "rank", json_integer(rank));
	json_object_set_new(o, slow ? "busy_s" : "ahead_s", jsonio_real(value));
	if (slow) {
		json_object_set_new(o, "others_s", jsonio_real(others));
		snprintf(line, sizeof line, "rank %d worked for %.1f s up to step %lld, others for %.1f s: they wait for it", rank, value,
		         (long long)r->state.step, others);
	} else {
		snprintf(line, sizeof line, "the clock of rank %d is %.1f s %s that of rank 0: times in their files and logs do not agree", rank,
		         fabs(value), value < 0 ? "behind" : "ahead of");
	}
	put_line(r, o);
	train_warn(r, line);
}

void log_rank_watch(struct trainer *r)
{
	if (is_first_rank(r) && r->ranks.n)
		rank_watch_tell(&r->ranks, call_out, r);
}

static double mean_of(double sum, int64_t n)
{
	return n ? sum / (double)n : NAN;
}

/* The operations of a sample in the mean over the steps since the last line. */
static double flops_since(const struct trainer *r, int64_t step)
{
	int64_t all = step - r->marked, pictures = picture_steps(r->o, step) - picture_steps(r->o, r->marked);

	return mean_of((double)(all - pictures) * r->main.flops_per_sample + (double)pictures * r->pictures.flops_per_sample, all);
}

void log_step(struct trainer *r, int64_t step, double val_loss, double val_pictures, json_t *detail)
{
	double now = clock_seconds(), training = now - r->mark - r->validate_s;
	int64_t n = step - r->marked;
	double images = n ? (double)(n * r->o->batch) / training : NAN, flops = images * flops_since(r, step);
	double loss_pictures = mean_of(r->state.picture_loss_sum, r->state.picture_loss_count);
	struct train_step s = {
	    .step = step,
	    .steps = r->steps,
	    .skipped = step - r->state.updates,
	    .loss = mean_of(r->state.loss_sum, r->state.loss_count),
	    .grad_norm = r->last_norm,
	    .lr = schedule_rate(r->o, r->steps, step - 1),
	    .val_loss = val_loss,
	    .images_per_s = images,
	    .flops = flops,
	    .peak_fraction = flops / r->peak,
	    .seconds_left = n ? (double)(r->steps - step) * training / (double)n : NAN,
	};
	json_t *o = json_object();

	json_object_set_new(o, "step", json_integer(s.step));
	json_object_set_new(o, "loss", jsonio_real(s.loss));
	if (r->pictures.data)
		json_object_set_new(o, "loss_pictures", jsonio_real(loss_pictures));
	json_object_set_new(o, "grad_norm", jsonio_real(s.grad_norm));
	json_object_set_new(o, "lr", jsonio_real(s.lr));
	json_object_set_new(o, "skipped", json_integer(s.skipped));
	if (!isnan(val_loss))
		json_object_set_new(o, "val_loss", jsonio_real(val_loss));
	if (!isnan(val_pictures))
		json_object_set_new(o, "val_loss_pictures", jsonio_real(val_pictures));
	if (detail)
		json_object_set_new(o, "val_by_time", detail);
	json_object_set_new(o, "images_per_s", jsonio_real(s.images_per_s));
	json_object_set_new(o, "gflops", jsonio_real(s.flops * 1e-9));
	json_object_set_new(o, "percent_of_peak", jsonio_real(100 * s.peak_fraction));
	json_object_set_new(o, "seconds", jsonio_real(now - r->started));
	json_object_set_new(o, "data_s", jsonio_real(r->data_s));
	json_object_set_new(o, "forward_s", jsonio_real(r->forward_s));
	json_object_set_new(o, "backward_s", jsonio_real(r->backward_s));
	json_object_set_new(o, "optimizer_s", jsonio_real(r->optimizer_s));
	if (r->validate_s > 0)
		json_object_set_new(o, "validate_s", jsonio_real(r->validate_s));
	if (r->o->comm) {
		const struct rank_sum *sum = &r->update.ranks.sum;
		uint64_t sent = comm_sent(r->o->comm) + rank_sum_sent(sum);
		double all = comm_seconds(r->o->comm) + rank_sum_seconds(sum);
		double exposed = comm_exposed_seconds(r->o->comm) + rank_sum_exposed_seconds(sum);

		json_object_set_new(o, "comm_s", jsonio_real(all - r->comm_s));
		json_object_set_new(o, "comm_exposed_s", jsonio_real(exposed - r->comm_exposed_s));
		json_object_set_new(o, "comm_bytes", json_integer((json_int_t)(sent - r->comm_bytes)));
		r->comm_s = all;
		r->comm_exposed_s = exposed;
		r->comm_bytes = sent;
		log_ranks(r, o);
	}
	put_if(o, "loss_by_time", step_detail_by_time(&r->main.detail));
	put_if(o, "loss_by_time_pictures", step_detail_by_time(&r->pictures.detail));
	put_if(o, "grad_norm_by_block", block_norms_json(&r->update.blocks, step - 1));
	log_device(r, o, &s);
	put_line(r, o);
	if (r->hooks && r->hooks->step)
		r->hooks->step(r->hooks->arg, &s);
	r->data_s = r->forward_s = r->backward_s = r->optimizer_s = r->validate_s = 0;
	r->state.loss_sum = r->state.picture_loss_sum = 0;
	r->state.loss_count = r->state.picture_loss_count = 0;
	r->state.line_step = r->marked = step;
	r->mark = clock_seconds();
}

void log_spike(struct trainer *r, int64_t step, int finite, double loss)
{
	struct train_set *set = train_set_of(r, step - 1);
	const struct step_detail *s = &set->detail;
	json_t *o = step_detail_take(&set->detail, step - 1, finite, loss, r->last_norm), *samples;
	int64_t worst[SPIKE_SAMPLES], from = (step - 1) % DETAIL_STEPS * s->n;
	struct str key = {0};
	int n;

	if (!o)
		return;
	samples = json_array();
	n = step_detail_worst(s, step - 1, worst);
	for (int i = 0; i < n; i++) {
		int64_t at = from + worst[i];

		json_array_append_new(samples, json_pack("{s:o, s:f, s:o}", "key", jsonio_text(dataset_key(set->data, s->index[at], &key)), "t",
		                                         (double)s->t[at], "loss", jsonio_real((double)s->loss[at])));
	}
	json_object_set_new(o, "event", json_string("spike"));
	json_object_set_new(o, "at", json_integer(step));
	json_object_set_new(o, "samples", samples);
	str_release(&key);
	put_line(r, o);
}

void log_unsaved(struct trainer *r, int64_t step, const char *why)
{
	json_t *o = json_object();

	json_object_set_new(o, "event", json_string("unsaved"));
	json_object_set_new(o, "at", json_integer(step));
	json_object_set_new(o, "why", jsonio_text(why));
	put_line(r, o);
}

/* A line that a thread of its own writes. */
struct last_words {
	const struct trainer *r;
	char why[1200];
	int64_t step;
	atomic_int written;
};

static void *write_last_words(void *arg)
{
	struct last_words *w = arg;
	json_t *o = json_object();

	json_object_set_new(o, "event", json_string("hung"));
	json_object_set_new(o, "at", json_integer(w->step));
	json_object_set_new(o, "why", jsonio_text(w->why));
	put_line(w->r, o);
	atomic_store(&w->written, 1);
	return NULL;
}

/* What the process hangs in may be the disk of the log, or a lock of the allocator. */
void log_hung(const struct trainer *r, const char *where)
{
	enum { PAUSE_MS = 10, MOST_MS = 3000 };
	static struct last_words w; /* outlives this call, as the thread may */
	pthread_t thread;

	w.r = r;
	w.step = r->watchdog.step;
	snprintf(w.why, sizeof w.why, "%s", where);
	if (r->log < 0 || pthread_create(&thread, NULL, write_last_words, &w))
		return;
	pthread_detach(thread);
	for (int ms = 0; ms < MOST_MS && !atomic_load(&w.written); ms += PAUSE_MS)
		nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000}, NULL);
}

void log_nonfinite(struct trainer *r, const char *key)
{
	json_t *o = json_object();

	json_object_set_new(o, "event", json_string("nonfinite"));
	json_object_set_new(o, "at", json_integer(r->state.step + 1));
	json_object_set_new(o, "sample", jsonio_text(key));
	put_line(r, o);
}
