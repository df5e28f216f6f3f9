/* What ddm-train and ddm-route-train share: options, the line per step, --plan. */
#include "cmd/training.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/opendevice.h"
#include "cmd/operand.h"
#include "core/mem.h"
#include "core/str.h"
#include "net/model.h"

struct training training;
const char *const training_schedules[] = {"constant", "cosine", NULL}, *const training_offloads[] = {"none", "optimizer", NULL};

void training_defaults(enum net_role role, const char *program)
{
	struct training *t = &training;

	t->o = train_defaults(role);
	t->o.program = program;
	t->batch = t->o.batch;
	t->accumulate = t->o.accumulate;
	t->lr = t->o.lr;
	t->weight_decay = t->o.weight_decay;
	t->beta2 = t->o.beta2;
	t->clip = t->o.clip;
	t->keep = t->o.keep;
	t->log_every = t->o.log_every;
	t->validate_samples = t->o.validate_samples;
	t->max_skipped = t->o.max_skipped;
	t->max_skipped_share = t->o.max_skipped_share;
	t->checkpoint_every = "15m";
	t->device = "auto";
	t->precision = -1;
}

/* A bare number counts steps; one with a unit is a time. */
static int parse_checkpoint(const char *text, struct train_options *o, struct err *e)
{
	o->checkpoint_steps = 0;
	o->checkpoint_seconds = 0;
	if (!parse_i64(text, 1, INT64_MAX, &o->checkpoint_steps))
		return 0;
	if (strspn(text, "0123456789.") == strlen(text) || parse_duration(text, &o->checkpoint_seconds) ||
	    o->checkpoint_seconds <= 0)
		return err_set(e, ERR_USAGE,
		               "--checkpoint-every: \"%s\" is neither a number of steps nor a time such as 90s, 15m or 2h", text);
	return 0;
}

/* The preset; without one, where a network is started from, the sizes of that. */
static int choose_network(struct train_options *o, struct err *e)
{
	struct model_config c;

	if (training.model || !o->from)
		return net_preset(training.model ? training.model : "dit-s/2", &o->net, e);
	if (model_config_load(o->from, &c, e))
		return -1;
	net_shape_copy(&o->net, &c.net);
	model_config_release(&c);
	return 0;
}

static int gather(const char *shards, struct err *e)
{
	struct training *t = &training;
	struct train_options *o = &t->o;
	const struct {
		const char *name;
		int64_t value;
	} shape[] = {{"hidden", t->hidden}, {"depth", t->depth}, {"heads", t->heads}, {"patch", t->patch}};

	if (!t->out)
		return err_set(e, ERR_USAGE, "-o is missing: the folder for the model");
	if (t->steps && t->epochs > 0)
		return err_set(e, ERR_USAGE, "--steps and --epochs say the same thing twice");
	if (choose_network(o, e) || (t->time_law && time_law_parse(t->time_law, &o->objective.time, e)) ||
	    parse_checkpoint(t->checkpoint_every, o, e))
		return -1;
	for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
		if (shape[i].value && net_shape_set(&o->net, shape[i].name, shape[i].value, e))
			return -1;
	o->objective.path = path_choice_find(path_choice_names[t->path]);
	o->shards = shards;
	o->out = t->out;
	o->steps = t->steps;
	o->epochs = t->steps ? 0 : t->epochs > 0 ? t->epochs : 100;
	o->extend = t->extend;
	o->batch = t->batch;
	o->accumulate = t->accumulate;
	o->lr = t->lr;
	o->schedule = t->schedule ? SCHEDULE_COSINE : SCHEDULE_CONSTANT;
	o->warmup = t->warmup;
	o->weight_decay = t->weight_decay;
	o->beta2 = t->beta2;
	o->clip = t->clip;
	o->ema_half_life = t->ema_half_life;
	o->flip = t->flip;
	o->size = (int)t->size;
	o->seed = t->seed;
	o->init_from = t->init_from;
	o->max_skipped = t->max_skipped;
	o->max_skipped_share = t->max_skipped_share;
	o->validate_every = t->validate_every;
	o->validate_samples = t->validate_samples;
	o->keep = (int)t->keep;
	o->log_every = t->log_every;
	o->sample_every = t->sample_every;
	o->recompute = t->recompute;
	o->offload = t->offload ? TRAIN_RANGE : 0;
	o->verify = !t->no_verify;
	o->profile = t->profile;
	return 0;
}

static int show_plan(struct device *device, struct err *e)
{
	struct train_plan p;

	if (train_plan(&training.o, device, &p, e))
		return -1;
	printf("parameters\t%" PRId64 "\nsamples\t%" PRId64 "\nsteps\t%" PRId64 "\n", p.parameters, p.samples, p.steps);
	printf("gflop_per_image\t%.6g\n", p.flops_per_sample * 1e-9);
	printf("weights_bytes\t%" PRIu64 "\ngradients_bytes\t%" PRIu64 "\noptimizer_bytes\t%" PRIu64 "\n", p.weights, p.gradients,
	       p.optimizer);
	printf("activations_bytes\t%" PRIu64 "\nscratch_bytes\t%" PRIu64 "\nbatches_bytes\t%" PRIu64 "\n", p.activations,
	       p.scratch, p.batches);
	printf("data_bytes\t%" PRIu64 "\ntotal_bytes\t%" PRIu64 "\n", p.data, p.total);
	printf("offloaded_bytes\t%" PRIu64 "\n", p.offloaded);
	printf("device_bytes\t%" PRIu64 "\nfree_bytes\t%" PRIu64 "\nbeside_bytes\t%" PRIu64 "\n", p.device, p.free, p.beside);
	if (p.unfit.code)
		cmd_warn("%s", p.unfit.msg);
	return 0;
}

void training_run(const char *shards, struct err *e)
{
	struct train_hooks hooks = training_hooks();
	struct pool *pool;
	struct device *device;

	if (gather(shards, e) || operand_shards(shards, e) || !(pool = pool_new((int)training.threads, e)))
		return;
	device = open_device(training.device, pool, e);
	if (device)
		training.o.precision = training.precision < 0 ? device_precision(device) : (enum precision)training.precision;
	if (device && training.plan) {
		show_plan(device, e);
	} else if (device) {
		training_catch_signals(training.o.program, training.grace);
		train_run(&training.o, device, &hooks, e);
	}
	device_free(device);
	pool_free(pool);
}
