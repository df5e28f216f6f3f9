/* ddm-shard: packs samples into a SHARDS folder, one set of shards per cluster. */
#include <stdlib.h>

#include "cmd/cmd.h"
#include "cmd/opendevice.h"
#include "core/pool.h"
#include "data/shardmake.h"

static struct shard_request request;
static const char *device = "auto";
static int64_t threads;
static int quiet;

static const struct option_table tables[] = {{shard_options, &request}, {0}};

static const struct option options[] = {
    OPTION_GROUP("Encoders"),
    {"--device", .type = OPTION_TEXT, .value = &device, .arg = "NAME", .preset = "auto", .help = "auto, cpu, cuda or cuda:N: where encoders run",
     .when = {{USE_NEEDS, "--vae --text"}}},
    OPTION_GROUP("Reading"),
    {"--threads", .type = OPTION_INT, .value = &threads, .lo = 1, .hi = 4096, .arg = "N", .help = "threads",
     .said = "default: all processors that it may use", OPTION_ALWAYS},
    {"--quiet", 'q', .type = OPTION_FLAG, .value = &quiet, .help = "no report on stderr", OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-shard",
    .operands = "SAMPLES...",
    .about = "Pack samples into shards by cluster",
    .tables = tables,
    .options = options,
};

static void say_report(const struct shard_report *r)
{
	const struct sharding_result *n = &r->result;

	cmd_say("%lld samples, %lld held out, %d clusters, %lld shards", (long long)(n->train + n->held), (long long)n->held, r->clusters,
	        (long long)n->shards);
	if (n->further)
		cmd_say("training counts each sample %.4g times on average, in one cluster or in several",
		        1 + (double)n->further / (double)(n->train + n->held));
	if (n->names_lacking)
		cmd_warn("the names of classes are not kept: there are %zu, fewer than the classes of the samples", r->class_names);
	if (r->skipped || n->unused)
		cmd_warn("%lld samples skipped, %lld of the assignment not found", (long long)r->skipped, (long long)n->unused);
	if (r->cut)
		cmd_warn("%lld captions were longer than the encoder reads, and were cut", (long long)r->cut);
}

int main(int argc, char **argv)
{
	struct shard_report report = {0};
	struct device *d = NULL;
	struct pool *pool;
	struct err e = {0};
	int n, rc;

	request = shard_defaults();
	n = cmd_start(&program, argc, argv, 1, -1);
	cmd_allow_files(); /* every cluster has two open shards */
	request.sources = (const char *const *)(argv + 1);
	request.nsources = n;
	request.spool = getenv("TMPDIR");
	request.bad = cmd_skipped;
	cmd_catch_signals();
	pool = pool_new((int)threads, &e);
	rc = pool ? 0 : -1;
	if (!rc && (request.encoding.vae || request.encoding.text))
		rc = (d = open_device(device, pool, &e)) ? 0 : -1;
	if (!rc) {
		struct progress progress = cmd_progress();

		request.progress = &progress;
		request.encoding.device = d;
		request.encoding.pool = pool;
		rc = shard_make(&request, &report, &e);
	}
	if (report.made && !quiet && d && encoding_idle(&request.encoding))
		cmd_warn("%s does nothing: %s consists of convolutions, which the CPU holds as f32", encoding_idle(&request.encoding),
		         request.encoding.vae);
	if (report.made && !quiet)
		say_report(&report);
	else if (!rc && !quiet)
		cmd_say("%s: exists already", request.out);
	device_free(d);
	pool_free(pool);
	return cmd_end_over(&e);
}
