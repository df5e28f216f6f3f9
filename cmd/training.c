/* Shared by ddm-train and ddm-route-train: options, --plan and the run. */
#include "cmd/training.h"

#include <inttypes.h>
#include <stdio.h>

#include "cmd/cmd.h"
#include "cmd/opendevice.h"
#include "cmd/ranks.h"
#include "core/mem.h"
#include "data/operand.h"

static int64_t threads;
static struct rank_request ranks;
static double grace, max_time; /* seconds; 0: no limit */
static double hang_timeout;
static const char *device_name;
static int plan, quiet;

const struct option training_options[] = {
    OPTION_GROUP("Validation, checkpoints, log"),
    {"--grace", .type = OPTION_DURATION, .value = &grace, .lo = 1, .hi = 1e6, .arg = "TIME",
     .help = "time limit for the checkpoint of a signal that ends the run: 90s", .said = "default: any time", OPTION_ALWAYS},
    {"--max-time", .type = OPTION_DURATION, .value = &max_time, .lo = 1, .hi = 1e9, .arg = "TIME",
     .help = "stop with a checkpoint before the program has run this long: 4h", .said = "default: no limit", OPTION_ALWAYS},
    {"--hang-timeout", .type = OPTION_DURATION, .value = &hang_timeout, .lo = 1, .hi = 1e9, .arg = "TIME",
     .help = "end if no step ends within this time, and say where it hangs: 30m", .said = "default: never", OPTION_ALWAYS},
    OPTION_GROUP("Machine"),
    {"--threads", .type = OPTION_INT, .value = &threads, .hi = 1024, .arg = "N", .help = "threads; changes no result",
     .said = "default: all processors that it may use", OPTION_ALWAYS},
    RANK_ROWS(ranks),
    {"--device", .type = OPTION_TEXT, .value = &device_name, .arg = "NAME", .preset = "auto", .help = "auto, cpu, cuda or cuda:N: where to compute",
     OPTION_ALWAYS},
    OPTION_GROUP("Output"),
    {"--plan", .type = OPTION_FLAG, .value = &plan, .help = "print parameters, steps, work and memory of the run, and exit", OPTION_ALWAYS},
    {"--quiet", 'q', OPTION_FLAG, &quiet, .help = "say nothing but errors", OPTION_ALWAYS},
    {0},
};

static int show_plan(const struct train_options *o, struct device *device, struct err *e)
{
	struct train_plan p;

	if (train_plan(o, device, &p, e))
		return -1;
	printf("parameters\t%" PRId64 "\nsamples\t%" PRId64 "\nsteps\t%" PRId64 "\n", p.parameters, p.samples, p.steps);
	if (o->pictures)
		printf("pictures\t%" PRId64 "\n", p.pictures);
	printf("batch\t%" PRId64 "\naccumulate\t%" PRId64 "\n", o->batch, p.accumulate);
	printf("ranks\t%" PRId64 "\ncomm_bytes\t%" PRIu64 "\n", p.ranks, p.comm);
	printf("gflop_per_image\t%.6g\n", p.flops_per_sample * 1e-9);
	printf("weights_bytes\t%" PRIu64 "\ngradients_bytes\t%" PRIu64 "\noptimizer_bytes\t%" PRIu64 "\n", p.weights, p.gradients, p.optimizer);
	printf("activations_bytes\t%" PRIu64 "\nscratch_bytes\t%" PRIu64 "\nbatches_bytes\t%" PRIu64 "\n", p.activations, p.scratch, p.batches);
	printf("data_bytes\t%" PRIu64 "\nexperts_bytes\t%" PRIu64 "\ntotal_bytes\t%" PRIu64 "\n", p.data, p.experts, p.total);
	printf("offloaded_bytes\t%" PRIu64 "\n", p.offloaded);
	printf("device_bytes\t%" PRIu64 "\nfree_bytes\t%" PRIu64 "\nbeside_bytes\t%" PRIu64 "\n", p.device, p.free, p.beside);
	if (p.unfit.code)
		cmd_warn("%s", p.unfit.msg);
	return 0;
}

/* A batch is cut into at least as many parts as there are ranks. */
static void cut_batch(struct train_options *o)
{
	int64_t n = o->comm ? comm_size(o->comm) : o->ranks;

	if (o->accumulate >= n || !o->accumulate) /* 0: auto, which is refused */
		return;
	o->accumulate = n;
	if (!quiet && !comm_rank(o->comm))
		cmd_say("the batch is cut into %" PRId64 " parts, one for each rank, as by --accumulate %" PRId64, n, n);
}

static void train(struct train_options *o, const struct train_hooks *hooks, struct err *e)
{
	char *engine = engine_path("nccl-engine.so");
	struct pool *pool = NULL;
	struct device *device;

	o->device_engine = engine;
	if (!train_resolve(o, e) && !operand_shards(o->shards, e))
		pool = pool_new((int)threads, e);
	if (open_rank_device(&device, device_name, o->comm, pool != NULL, pool, e)) {
		/* e says why */
	} else if (plan) {
		show_plan(o, device, e);
	} else {
		train_run(o, device, hooks, e);
	}
	device_free(device);
	pool_free(pool);
	mem_free(engine);
}

void training_run(struct train_options *o, struct err *e)
{
	struct train_hooks hooks = training_hooks(quiet);

	hooks.hang_timeout = hang_timeout;
	hooks.deadline = max_time > 0 ? clock_seconds() + max_time : 0;
	if (!plan)
		start_ranks(ranks.ranks, threads == 0);
	if (!plan) /* before it joins the others, which can take seconds */
		training_catch_signals(o->program, grace);
	if (join_ranks(&o->comm, ranks.timeout, e))
		return;
	o->ranks = plan && ranks.ranks ? ranks.ranks : 1;
	if (comm_can_sum(o->comm ? comm_size(o->comm) : (int)o->ranks, e)) {
		comm_close(o->comm);
		return;
	}
	if (!quiet)
		say_ranks(o->comm);
	cut_batch(o);
	if (comm_rank(o->comm))
		hooks.step = NULL, hooks.tick = NULL, hooks.say = NULL;
	train(o, &hooks, e);
	leave_ranks(o->comm, e);
}
