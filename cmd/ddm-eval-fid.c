/* ddm-eval-fid: measures how far samples are from reference pictures: kernel and Frechet distances of features, copies of training pictures, and
 * the metrics common in publications. */
#include <stdlib.h>

#include "cmd/cmd.h"
#include "cmd/opendevice.h"
#include "core/pool.h"
#include "metric/evaluation.h"

static struct eval_request request;
static const char *device_name;
static int64_t threads;

static const struct option_table tables[] = {{eval_options, &request}, {0}};

static const struct option options[] = {
    OPTION_GROUP("Features"),
    {"--device", .type = OPTION_TEXT, .value = &device_name, .arg = "NAME", .preset = "auto",
     .help = "auto, cpu, cuda or cuda:N: where the network runs",
     .when = {{USE_NEEDS, "--features=inception:* --features=dinov2:* --features=clip:* --lpips --i3d"}}},
    OPTION_GROUP("Cache and output"),
    {"--threads", .type = OPTION_INT, .value = &threads, .lo = 1, .hi = 4096, .arg = "N", .help = "threads; changes no result",
     .said = "default: all processors that it may use", OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-eval-fid",
    .operands = "REFERENCE SAMPLES",
    .about = "Measure how far samples are from a reference set of pictures. kd, the unbiased kernel distance, is 0 on average "
	     "where both sets come from one source; fd, the Frechet distance, falls to its floor there, which is printed beside it. memorised is the "
	     "share of samples that are copies.",
    .tables = tables,
    .options = options,
};

static void warn(void *arg, const char *line)
{
	(void)arg;
	cmd_warn("%s", line);
}

static void evaluate(struct err *e)
{
	const struct eval_hooks hooks = {.warn = warn, .progress = cmd_progress()};
	struct evaluation *v = evaluation_new(&request, &hooks, e);
	struct pool *pool = v ? pool_new((int)threads, e) : NULL;
	struct device *device = NULL;

	if (pool && (!evaluation_needs_device(v) || (device = open_device(device_name, pool, e))))
		evaluation_run(v, pool, device, e);
	evaluation_free(v);
	device_free(device);
	pool_free(pool);
}

int main(int argc, char **argv)
{
	struct err e = {0};

	request = eval_defaults();
	cmd_start(&program, argc, argv, 2, 2);
	cmd_catch_signals();
	request.reference = argv[1];
	request.samples = argv[2];
	request.spool = getenv("TMPDIR");
	evaluate(&e);
	return cmd_end_over(&e);
}
