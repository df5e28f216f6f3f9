/* Prepares a training: stamp, folder, network, data, resume. */
#include "train/trainer.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/manifest.h"
#include "file/npy.h"
#include "file/safetensors.h"
#include "file/weightfile.h"
#include "kernels/profile.h"
#include "net/model.h"
#include "train/run.h"
#include "train/step.h"
#include "train/trainlog.h"
#include "train/usual.h"

/* The real numbers of a stamp that are not the ones its text gives back, because that has nine digits: {"lr": "0.00123456789123"}. Caller
 * json_decref()s. */
static json_t *inexact_reals(const json_t *stamp)
{
	json_t *o = json_object(), *v;
	const char *key;

	json_object_foreach ((json_t *)(uintptr_t)stamp, key, v) {
		char nine[F64_TEXT], text[F64_TEXT];
		double back = 0;

		if (!json_is_real(v))
			continue;
		snprintf(nine, sizeof nine, "%.9g", json_real_value(v));
		print_f64(text, json_real_value(v));
		if (parse_f64(nine, -INFINITY, INFINITY, &back) || back != json_real_value(v))
			json_object_set_new(o, key, json_string(text));
	}
	return o;
}

/* The stamp: everything that determines the weights. */
static int make_stamp(struct trainer *r, struct err *e)
{
	const struct train_options *o = r->o;
	struct train_options same = *o;
	struct stamp *s = stamp_new(o->program);
	char hex[65];

	if (same.precision == PRECISION_BF16_EMULATED) /* the same numbers, so that such a run can move between CPUs */
		same.precision = PRECISION_BF16;
	options_stamp(s, &same);
	stamp_input(s, "shards", r->manifest);
	if (o->init_from && weightfile_hash_at(o->init_from, hex, e)) {
		stamp_free(s);
		return -1;
	}
	if (o->init_from)
		stamp_input(s, "init", hex);
	if (o->pictures)
		stamp_input(s, "pictures", r->picture_manifest);
	if (r->frozen)
		stamp_input(s, "experts", frozen_info(r->frozen).hash);
	if (null_text_stamp(r, s, e) || start_open(r, s, e)) {
		stamp_free(s);
		return -1;
	}
	r->stamp = stamp_line(s);
	json_decref(r->exact);
	r->exact = inexact_reals(stamp_root(s));
	stamp_free(s);
	return 0;
}

/* A network pretrained on steps 0 .. T - 1 reads (T - 1) t as its time on a continuous path (net/adopt.h). On a path of T steps, step k is at k/T. */
static void tell_steps(const struct path *path, struct net_config *c)
{
	const struct schedule *s = schedule_of(path);

	if (s && c->time_scale == (double)(s->steps - 1))
		c->time_scale = (double)s->steps;
}

/* The network's shape follows from the data. */
static int fit_network(struct trainer *r, struct err *e)
{
	const struct train_options *o = r->o;
	const struct dataset_info *info = dataset_info(r->main.data);
	struct net_config *c = &r->net;

	net_init(c, o->net.def);
	net_shape_copy(c, &o->net);
	if (info->height != info->width)
		return err_set(e, ERR_DATA, "%s: the samples are %d x %d, and networks read square ones: make the shards with --size", o->shards,
		               info->width, info->height);
	c->channels = c->out_channels = info->channels;
	c->size = info->height;
	c->frames = info->frames;
	c->first_frame = o->first_frame;
	c->frame_dropout = o->first_frame ? o->first_frame_drop : 0;
	if (net_reads(c, NET_IN_TEXT)) {
		c->text_tokens = info->text_tokens;
		c->text_width = info->text_width;
		c->pooled_width = info->pooled_width;
	}
	c->dropout = o->dropout;
	c->classes = 0;
	c->class_dropout = net_reads(c, NET_IN_TEXT) ? o->text_drop : 0;
	if (net_is_classifier(c)) {
		c->out_channels = 0;
		c->clusters = r->frozen ? frozen_info(r->frozen).k : info->clusters;
		if (r->frozen && frozen_fits(r, e))
			return -1;
	} else if (o->condition == CONDITION_CLASS) {
		if (!info->classes)
			return err_set(e, ERR_DATA, "%s: the samples carry no class labels (.cls)", o->shards);
		c->classes = info->classes;
		c->class_dropout = o->class_dropout;
	} else if (o->condition == CONDITION_CLUSTER) {
		c->classes = info->clusters;
		c->class_dropout = o->class_dropout;
	}
	r->path = path_choice_open(&o->objective.path, &r->schedule);
	if (time_check(&o->objective.time, o->objective.range, r->path, e))
		return err_prefix(e, "--time-range");
	if (start_config(r, e))
		return -1;
	if (net_check(c, e))
		return err_prefix(e, "%s", o->shards);
	tell_steps(r->path, c);
	return o->objective.prediction != PREDICT_X0 ? net_check_noise(c, e) : 0;
}

static int64_t text_tokens(const struct trainer *r)
{
	const struct net_config *c = &r->o->net;

	if (c->text_tokens || !net_text_tokens(c))
		return c->text_tokens;
	return r->from.net.text_tokens ? r->from.net.text_tokens : net_text_tokens(c);
}

/* The steps of `epochs` passes over n samples; steps that take pictures are between those. */
static int64_t passes(const struct train_options *o, int64_t n)
{
	double steps = ceil(o->epochs * (double)n / (double)o->batch);

	return (int64_t)(o->pictures ? ceil(steps / (1 - o->picture_share)) : steps);
}

static int open_data(struct trainer *r, struct err *e)
{
	const struct train_options *o = r->o;
	struct dataset_options d = {.cluster = o->cluster,
	                            .size = o->size,
	                            .channels = o->grey,
	                            .verify = o->verify,
	                            .deviations = 1,
	                            .mirrored = o->flip,
	                            .text = net_reads(&o->net, NET_IN_TEXT),
	                            .text_tokens = text_tokens(r),
	                            .pooled = net_may_read(&o->net, NET_IN_POOLED),
	                            .pool = r->device->pool};
	const struct dataset_info *info;
	int64_t held;

	d.labelled = (o->condition == CONDITION_CLASS && !(o->class_dropout > 0)) ||
	             (r->frozen && frozen_info(r->frozen).classes && !frozen_info(r->frozen).null_label);
	if (train_set_open(r, &r->main, o->shards, &d, e))
		return -1;
	info = dataset_info(r->main.data);
	if (o->grey && info->channels != 1)
		return err_set(e, ERR_USAGE, "%s: the samples are arrays of %d channels, and only pictures become grey", o->shards, info->channels);
	if (o->calibrate && !r->main.held)
		return err_set(e, ERR_USAGE, "--calibrate: %s has no held-out samples to fit a temperature on: make it with ddm-shard --holdout",
		               o->shards);
	r->steps = o->steps ? o->steps : passes(o, info->count);
	r->chain_every = o->replay ? 1 : o->chain_every < 0 ? usual_chain(r->steps) : o->chain_every;
	r->part = o->batch / o->accumulate;
	r->parts = rank_parts(o);
	if (fit_network(r, e) || null_text_open(r, e) || (o->pictures && pictures_open(r, &d, e)))
		return -1;
	/* If the weights of the best validation are kept, the number of validations changes the result; it then depends on the steps alone. */
	held = o->keep_best ? 0 : r->main.validations + r->pictures.validations;
	r->validate_every = o->validate_every ? o->validate_every : usual_validation(r->steps, o->batch, held);
	return 0;
}

static int put_loss_seeds(struct trainer *r, struct err *e)
{
	size_t bytes = (size_t)r->part * sizeof(float);
	float *host = mem_alloc(bytes);

	for (int64_t i = 0; i < r->part; i++)
		host[i] = (float)(1. / (double)r->o->batch);
	r->dloss = r->device->alloc(r->device, bytes, "loss seeds", e);
	if (r->dloss)
		device_put(r->device, r->dloss, host, bytes);
	mem_free(host);
	return r->dloss ? 0 : -1;
}

static int allocate(struct trainer *r, struct err *e)
{
	struct net_config pictures = picture_net(&r->net);

	if (tape_allocate(r->main.loss.tape, e) || (r->frozen && frozen_allocate(r->frozen, e)) || ranks_allocate(r, e) || put_loss_seeds(r, e) ||
	    train_set_allocate(r, &r->main, &r->net, e))
		return -1;
	if (r->pictures.data && (tape_allocate(r->pictures.loss.tape, e) || train_set_allocate(r, &r->pictures, &pictures, e)))
		return -1;
	r->state.config = trainer_config(r);
	return 0;
}

static int init_weights(struct trainer *r, struct err *e)
{
	size_t bytes = (size_t)r->params.total * sizeof(float);
	float *host = mem_try(bytes, 1, "initial weights", e);

	if (!host)
		return -1;
	params_init(&r->params, r->o->seed, host);
	if (start_weights(r, host, e)) {
		mem_free(host);
		return -1;
	}
	null_text_keep(r, host);
	device_put(r->device, r->state.values, host, bytes);
	mem_free(host);
	if (r->o->init_from && model_read_weights(r->o->init_from, &r->params, r->device, r->state.values, e))
		return -1;
	state_begin(&r->state);
	return 0;
}

static int begin_weights(struct trainer *r, struct err *e)
{
	struct train_state *s = &r->state;
	int loaded = ranks_load(r, e), rc = loaded;

	if (rc > 0 && r->extending && s->step >= r->steps)
		rc = err_set(e, ERR_USAGE, "%s is at step %" PRId64 " already, and --extend asks for only %" PRId64 " steps in all", r->o->out,
		             s->step, r->steps);
	if (rc > 0 && s->step)
		train_say(r, "continuing from step %" PRId64 " of %" PRId64, s->step, r->steps);
	rc = rc < 0 || (!rc && init_weights(r, e)) ? -1 : 0;
	if (ranks_share_done(r->o->comm, rc, e) || ranks_share_state(r, loaded, e) || ranks_join_devices(r, e))
		return -1;
	trainer_bind(r, s->values);
	update_begin(&r->update, s);
	return 0;
}

static int open_log(struct trainer *r, struct err *e)
{
	char *path;

	if (!is_first_rank(r))
		return 0;
	if (runlock_check(&r->lock, e)) /* to open the log is to shorten it, and the data may have taken long to read */
		return -1;
	path = path_join(r->o->out, "train.jsonl");
	r->log = trainlog_open(path, r->state.step, &r->past, e);
	mem_free(path);
	return r->log < 0 ? -1 : 0;
}

static void release(struct trainer *r)
{
	watchdog_end(&r->watchdog);
	profile_free(r->profile);
	train_set_release(r, &r->main);
	train_set_release(r, &r->pictures);
	state_release(&r->state);
	shares_release(&r->shares);
	update_release(&r->update);
	r->device->release(r->device, r->dloss);
	params_release(&r->params);
	frozen_free(r->frozen);
	mem_free(r->null_text);
	mem_free(r->null_pooled);
	model_config_release(&r->from);
	json_decref(r->from_report);
	schedule_release(&r->schedule);
	mem_free(r->stamp);
	json_decref(r->exact);
	chain_close(&r->chain);
	rank_watch_release(&r->ranks);
	mem_free(r->train_dir);
	if (r->log >= 0)
		close(r->log);
}

/* The fn of a struct progress. */
static int says_stop(void *arg, const char *what, int64_t done, int64_t total)
{
	const struct trainer *r = arg;

	(void)what, (void)done, (void)total;
	return trainer_is_stopped(r);
}

/* Open the data; their hashes, which can take minutes, are not computed to the end if the run is stopped. */
static int open_data_unless_stopped(struct trainer *r, struct err *e)
{
	struct progress progress = {says_stop, r};
	int rc;

	pool_set_progress(r->device->pool, &progress);
	rc = open_data(r, e);
	pool_set_progress(r->device->pool, NULL);
	if (rc && e && e->code == ERR_AGAIN) {
		*e = (struct err){0};
		err_set(e, ERR_AGAIN, "interrupted before training began: run the same command again");
	}
	return rc;
}

/* What can fail on one rank alone: its data and its memory. */
static int prepare(struct trainer *r, struct err *e)
{
	struct train_plan plan;

	if (device_set_precision(r->device, r->o->precision, e) || open_data_unless_stopped(r, e))
		return -1;
	trainer_record(r);
	trainer_plan(r, &plan);
	if (trainer_fits(r, &plan, e) || allocate(r, e))
		return -1;
	return is_first_rank(r) ? dir_make(r->train_dir, e) : 0;
}

/* In the watchdog's thread. */
static void say_hung(void *arg, const char *where)
{
	struct trainer *r = arg;
	char line[1200];

	if (r->o->comm)
		snprintf(line, sizeof line, "rank %d: %s: %s", comm_rank(r->o->comm), r->o->out, where);
	else
		snprintf(line, sizeof line, "%s: %s", r->o->out, where);
	log_hung(r, line);
	r->hooks->hung(r->hooks->arg, line);
}

static int train(struct trainer *r, struct err *e)
{
	int rc;

	if (comm_agree(r->o->comm, prepare(r, e), e))
		return -1;
	r->peak = r->device->peak_flops ? r->device->peak_flops(r->device) * comm_size(r->o->comm) : NAN; /* of as many alike */
	if (begin_weights(r, e))
		return -1;
	r->ema_decay = ema_decay_of(r->o, r->steps);
	rc = train_set_begin(r, &r->main, e) || (r->pictures.data && train_set_begin(r, &r->pictures, e)) || open_log(r, e) || chain_begin(r, e) ? -1
	                                                                                                                                         : 0;
	if (comm_agree(r->o->comm, rc, e) || chain_first_line(r, e))
		return -1;
	if (r->o->profile)
		r->profile = profile_new(r->device);
	mem_trim(); /* what measured the peak: --plan does not count it */
	log_start(r);
	start_log(r);
	train_say(r,
	          "%" PRId64 " parameters, %" PRId64 " samples, %" PRId64 " steps of %" PRId64
	          ", %s at %.3g, %.4g GFLOP per image; %s in %s, %d threads, %.0f GFLOP/s",
	          params_count(&r->params, 0), dataset_info(r->main.data)->count, r->steps, r->o->batch, optimizer_names[r->o->optimizer], r->o->lr,
	          r->flops_per_sample * 1e-9, r->device->name, precision_names[r->o->precision], pool_threads(r->device->pool), r->peak * 1e-9);
	if (watchdog_begin(&r->watchdog, r->hooks ? r->hooks->hang_timeout : 0, r->o->comm, say_hung, r, e))
		return -1;
	if (train_steps(r, e)) {
		if (e && e->code == ERR_UNAVAILABLE && is_first_rank(r) && !runlock_check(&r->lock, NULL))
			train_say_what_is_left(r, e);
		return -1;
	}
	if (r->profile && r->hooks && r->hooks->say)
		profile_table(r->profile, r->hooks->say, r->hooks->arg);
	watchdog_phase(&r->watchdog, "the writing of the result");
	if ((is_first_rank(r) && runlock_check(&r->lock, e)) || publish(r, e) || (is_first_rank(r) && runlock_check(&r->lock, e)))
		return -1;
	log_end(r);
	return 0;
}

static int manifest_hash(struct trainer *r, struct err *e)
{
	struct manifest m = {0};

	if (manifest_load(&m, r->o->shards, e))
		return -1;
	memcpy(r->manifest, m.sha256, sizeof r->manifest);
	manifest_release(&m);
	return r->o->pictures ? pictures_hash(r, e) : 0;
}

char *train_stamp(const struct train_options *o, struct err *e)
{
	struct trainer r = {.o = o, .device = device_cpu(NULL, DT_F32), .log = -1, .chain.fd = -1};

	if (!manifest_hash(&r, e) && !frozen_for(&r, 1, e))
		make_stamp(&r, e);
	frozen_free(r.frozen);
	device_free(r.device);
	model_config_release(&r.from);
	json_decref(r.exact);
	return r.stamp;
}

/* Fills in options whose default depends on the device or on another option. */
static struct train_options settled(const struct train_options *o, const struct device *device)
{
	struct train_options own = *o;

	if (own.precision < 0)
		own.precision = (int)device_precision(device);
	if (own.class_dropout < 0)
		own.class_dropout = own.condition == CONDITION_CLUSTER ? 0 : .1;
	return own;
}

/* A process that was killed at its very end, behind its result, has left its lock. */
static void drop_dead_lock(const char *out)
{
	char *path = path_join(out, ".lock"), who[128];
	struct runlock l;

	if (path_exists(path) && !runlock_holder(out, who, sizeof who) && !runlock_take(&l, out, NULL))
		runlock_drop(&l);
	mem_free(path);
}

/* Take the lock and look whether the run is finished: 1 it is, 0 it is not, -1 on failure. A finished run needs no lock and is left
 * alone, but for the temporaries and the lock of a process that died. It is checked again under the lock, as another may have finished it
 * meanwhile. */
static int begin_run(struct trainer *r, struct err *e)
{
	const struct train_options *o = r->o;
	int done;

	if (o->extend && !path_exists(r->train_dir))
		return err_set(e, ERR_NOINPUT, "%s: no such folder: --extend continues a run that was started without it", r->train_dir);
	done = already_done(r, e);
	if (done > 0)
		drop_dead_lock(o->out);
	if (!done && (dir_make(o->out, e) || runlock_take(&r->lock, o->out, e)))
		return -1;
	done = done ? done : already_done(r, e);
	if (!done && o->extend && extend_open(r, e))
		return -1;
	if (done > 0)
		train_say(r, "%s is finished; nothing to do", o->out);
	return done;
}

/* Open what a plan depends on, without hashing the shards. */
static int open_for_plan(struct trainer *r, struct err *e)
{
	const struct train_options *o = r->o;

	return device_set_precision(r->device, o->precision, e) || frozen_for(r, o->batch / o->accumulate, e) || start_open(r, NULL, e) ||
	               open_data(r, e)
	           ? -1
	           : 0;
}

/* Choose the number of parts of a batch if the options leave it open. A run that was begun keeps its number, on which its bytes depend. */
static int settle_parts(struct train_options *o, struct device *device, struct err *e)
{
	struct train_options whole = *o;
	struct trainer r = {.o = &whole, .device = device, .log = -1, .chain.fd = -1};
	json_t *begun;
	int rc = 0;

	if (options_check(o, e))
		return -1;
	if (o->accumulate)
		return 0;
	begun = run_begun(o);
	o->accumulate = json_integer_value(json_object_get(begun, "accumulate"));
	json_decref(begun);
	whole.accumulate = 1;
	whole.verify = 0;
	if (o->accumulate < 1 || o->batch % o->accumulate) {
		if (!(rc = open_for_plan(&r, e))) {
			trainer_record(&r);
			o->accumulate = trainer_parts(&r);
		}
		release(&r);
	}
	return rc;
}

int train_run(const struct train_options *asked, struct device *device, const struct train_hooks *hooks, struct err *e)
{
	struct train_options own = settled(asked, device);
	const struct train_options *o = &own;
	struct trainer r = {.o = o, .hooks = hooks, .device = device, .last_norm = NAN, .log = -1, .chain.fd = -1, .extended = -1};
	size_t there = dir_there(o->out);
	int rc = -1, done, mine;

	r.train_dir = path_join(o->out, "train");
	rc = settle_parts(&own, device, e) || manifest_hash(&r, e) || frozen_for(&r, o->batch / o->accumulate, e) || make_stamp(&r, e) ? -1 : 0;
	rc = comm_agree(o->comm, rc, e) || ranks_agree(&r, e) ? -1 : 0;
	if (rc)
		goto out;
	done = ranks_share_done(o->comm, is_first_rank(&r) ? begin_run(&r, e) : 0, e);
	rc = done ? (done > 0 ? 0 : -1) : train(&r, e);
out:
	mine = r.lock.path && !runlock_check(&r.lock, NULL);
	runlock_drop(&r.lock);
	if (rc && mine)
		dir_unmake(r.train_dir, there);
	release(&r);
	return rc;
}

int train_plan(const struct train_options *asked, struct device *device, struct train_plan *p, struct err *e)
{
	struct train_options own = settled(asked, device), *o = &own;
	struct trainer r = {.o = o, .device = device, .log = -1, .chain.fd = -1};
	int rc = -1;

	memset(p, 0, sizeof *p);
	own.verify = 0;
	if (settle_parts(&own, device, e) || open_for_plan(&r, e))
		goto out;
	trainer_record(&r);
	trainer_plan(&r, p);
	trainer_fits(&r, p, &p->unfit);
	rc = 0;
out:
	release(&r);
	return rc;
}
