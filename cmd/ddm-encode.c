/* ddm-encode: runs pretrained encoders on samples. It adds latents and text features, writes a table of features, or decodes latents. */
#include <stdlib.h>

#include "cmd/cmd.h"
#include "cmd/opendevice.h"
#include "cmd/ranks.h"
#include "core/pool.h"
#include "metric/encodejob.h"

static struct encode_request request;
static const char *device_name;
static int64_t threads;
static struct rank_request ranks;
static int quiet;

static const struct option options[] = {
    OPTION_GROUP("Machine"),
    {"--device", .type = OPTION_TEXT, .value = &device_name, .arg = "NAME", .preset = "auto", .help = "auto, cpu, cuda or cuda:N", OPTION_ALWAYS},
    {"--threads", .type = OPTION_INT, .value = &threads, .lo = 1, .hi = 4096, .arg = "N", .help = "threads",
     .said = "default: all processors that it may use", OPTION_ALWAYS},
    RANK_ROWS(ranks),
    OPTION_GROUP("Reading and output"),
    {"--quiet", 'q', OPTION_FLAG, .value = &quiet, .help = "no report on stderr", OPTION_ALWAYS},
    {0},
};

static const struct option_table tables[] = {{encode_options, &request}, {encoding_option_rows, &request.encoding}, {0}};

static const struct program program = {
    .name = "ddm-encode",
    .about = "Run pretrained encoders on samples: latents, features of captions, features of pictures",
    .tables = tables,
    .options = options,
    .operands = "SAMPLES...",
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

static void say_report(const struct encode_report *r)
{
	if (!r->written || quiet)
		return;
	cmd_say("%lld samples", (long long)r->samples);
	if (r->skipped)
		cmd_warn("%lld samples skipped", (long long)r->skipped);
	if (r->cut)
		cmd_warn("%lld captions were longer than the encoder reads, and were cut", (long long)r->cut);
}

static void encode(struct err *e)
{
	const struct encode_hooks first = {.say = quiet ? NULL : say, .warn = warn, .progress = cmd_progress()};
	const struct encode_hooks hooks = comm_rank(request.comm) ? (struct encode_hooks){0} : first;
	struct encodejob *w = encodejob_new(&request, &hooks, e);
	struct encode_report report = {0};
	struct pool *pool = NULL;
	struct device *device;
	int ready = 0;

	if (w && (launched_ranks() > 1 || encodejob_makes_features(w) || !cmd_binary(request.out, "-o FILE.tar or a pipe", e)) &&
	    (pool = pool_new((int)threads, e)))
		ready = 1;
	if (!open_rank_device(&device, device_name, request.comm, ready, pool, e)) {
		encodejob_run(w, device, &report, e);
		say_report(&report);
	}
	encodejob_free(w);
	device_free(device);
	pool_free(pool);
}

int main(int argc, char **argv)
{
	struct err e = {0};

	request = encode_defaults();
	request.sources = cmd_start(&program, argc, argv, 1, -1);
	request.source = (const char *const *)argv + 1;
	request.spool = getenv("TMPDIR");
	if (ranks.ranks > 1 && cmd_binary(request.out, "-o FILE.tar or a pipe", &e)) /* the ranks cannot tell */
		return cmd_end(&e);
	start_ranks(ranks.ranks, threads == 0);
	cmd_catch_signals();
	if (!join_ranks(&request.comm, ranks.timeout, &e)) {
		if (!quiet)
			say_ranks(request.comm);
		encode(&e);
	}
	return end_ranks(request.comm, &e);
}
