/* ddm-sample: samples pictures from an ensemble of experts. */
#include "cmd/cmd.h"
#include "cmd/opendevice.h"
#include "cmd/ranks.h"
#include "core/pool.h"
#include "sample/sample.h"

static struct sample_request request;
static struct rank_request ranks;
static const char *device_name;
static int64_t threads;
static int profile, quiet;

static const struct option options[] = {
    OPTION_GROUP("Machine and output"),
    RANK_ROWS(ranks),
    {"--threads", .type = OPTION_INT, .value = &threads, .hi = 1024, .arg = "N", .help = "threads; changes no result",
     .said = "default: all processors that it may use", OPTION_ALWAYS},
    {"--device", .type = OPTION_TEXT, .value = &device_name, .arg = "NAME", .preset = "auto", .help = "auto, cpu, cuda or cuda:N: where to compute",
     OPTION_ALWAYS},
    {"--profile", .type = OPTION_FLAG, .value = &profile, .help = "time every operation and print a table at the end", OPTION_ALWAYS},
    {"--quiet", 'q', OPTION_FLAG, .value = &quiet, .help = "no report on stderr", OPTION_ALWAYS},
    {0},
};

static const struct option_table tables[] = {{sample_options, &request}, {sample_output_options, &request}, {sample_machine_options, &request}, {0}};

static const struct program program = {
    .name = "ddm-sample",
    .about = "Make pictures with an ensemble of experts, from noise and from words; a tar of NNNNNN.png, a folder, or one file",
    .tables = tables,
    .options = options,
    .operands = "MODEL",
};

static void say(void *arg, const char *line)
{
	(void)arg;
	cmd_say("%s", line);
}

static void warn(void *arg, const char *line)
{
	(void)arg;
	cmd_warn("%s", line);
}

static void sample(struct err *e)
{
	const struct sample_hooks first = {
	    .say = quiet ? NULL : say, .warn = warn, .profile = profile ? say : NULL, .progress = cmd_progress(), .stop = &cmd_signal};
	const struct sample_hooks hooks = comm_rank(request.comm) ? (struct sample_hooks){0} : first;
	struct sampling *s;
	struct pool *pool;
	struct device *device;

	s = sampling_new(&request, &hooks, e);
	pool = s ? pool_new((int)threads, e) : NULL;
	if (!open_rank_device(&device, device_name, request.comm, pool != NULL, pool, e))
		sampling_run(s, device, e);
	sampling_free(s);
	device_free(device);
	pool_free(pool);
}

int main(int argc, char **argv)
{
	struct err e = {0};

	request = sample_defaults();
	cmd_start(&program, argc, argv, 1, 1);
	cmd_catch_signals();
	request.model = argv[1];
	if (!request.out && !request.grid)
		request.out = "-";
	if (launched_ranks() == 1 && (cmd_binary(request.out, "-o FILE.png, -o FILE.tar, -o DIR/ or a pipe takes pictures", &e) ||
	                              cmd_binary(request.grid, "--grid FILE.png", &e)))
		return cmd_end(&e);
	start_ranks(ranks.ranks, threads == 0);
	if (join_ranks(&request.comm, ranks.timeout, &e))
		return cmd_end(&e);
	if (!quiet)
		say_ranks(request.comm);
	sample(&e);
	return end_ranks(request.comm, &e);
}
