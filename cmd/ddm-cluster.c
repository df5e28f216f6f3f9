/* ddm-cluster: assigns each sample to a cluster. */
#include <stdlib.h>
#include <string.h>

#include "cluster/clustering.h"
#include "cmd/clusterreport.h"
#include "cmd/cmd.h"
#include "cmd/opendevice.h"
#include "core/pool.h"
#include "metric/extractor.h"

/* The values of --features that are networks. */
#define NETWORKS "--features=inception:* --features=dinov2:* --features=clip:*"

static struct cluster_request request;
static const char *device_name = "auto";
static int input = -1, weights, map, quiet;
static int64_t threads;

static const struct option_table tables[] = {{cluster_options, &request}, {0}};

static const struct option options[] = {
    OPTION_GROUP("Features"),
    {"--input", .type = OPTION_CHOICE, .value = &input, .arg = "NAME", .choices = netinput_names, .help = "preprocessing of pictures for a network",
     .said = "default: the usual one of the network", .when = {{USE_AGAINST, "--by"}, {USE_NEEDS, NETWORKS}}},
    {"--weight-dtype", .type = OPTION_CHOICE, .value = &weights, .arg = "TYPE", .choices = encoder_weights, .preset = "f32",
     .help = "type in which a network's matrices are held and multiplied", .when = {{USE_AGAINST, "--by"}, {USE_NEEDS, NETWORKS}},
     .was = "--weights"},
    {"--map", .type = OPTION_FLAG, .value = &map, .help = "leave f32 matrices in their files, mapped; changes no result",
     .when = {{USE_AGAINST, "--by --weight-dtype=bf16 --weight-dtype=int8"}, {USE_NEEDS, NETWORKS}}},
    {"--device", .type = OPTION_TEXT, .value = &device_name, .arg = "NAME", .preset = "auto",
     .help = "auto, cpu, cuda or cuda:N: where a network and k-means run", .when = {{USE_AGAINST, "--by"}, {USE_AGAINST, "--features=random"}}},
    OPTION_GROUP("Reading and output"),
    {"--threads", .type = OPTION_INT, .value = &threads, .lo = 1, .hi = 4096, .arg = "N", .help = "threads",
     .said = "default: all processors that it may use", OPTION_ALWAYS},
    {"--quiet", 'q', OPTION_FLAG, .value = &quiet, .help = "no report on stderr", OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-cluster",
    .operands = "SAMPLES...",
    .about = "Assign every sample to one of K clusters of similar pictures",
    .tables = tables,
    .options = options,
};

/* The device and the network, opened when they are needed. */
struct machine {
	struct pool *pool;
	struct device *device;       /* runs the network and k-means */
	struct extractor *extractor; /* the network that computes features */
};

static int need_device(struct machine *m, struct err *e)
{
	return m->device || (m->device = open_device(device_name, m->pool, e)) ? 0 : -1;
}

static int run_network(void *arg, float *out, const struct picture *p, int n, struct err *e)
{
	struct machine *m = arg;
	float *taps[TAPS] = {out};

	return m->extractor->run(m->extractor, m->pool, taps, p, n, e);
}

static int open_network(void *arg, struct features_measure *f, struct err *e)
{
	struct machine *m = arg;

	if (need_device(m, e))
		return -1;
	m->extractor =
	    extractor_open(request.features, &(struct extractor_options){input, m->device, compact_mapped((enum compact_type)weights, map)}, e);
	if (!m->extractor)
		return -1;
	if (m->extractor->all_floats && (weights || map) && !quiet)
		cmd_warn("%s does nothing: %s consists of convolutions, which the CPU holds as f32", weights ? "--weight-dtype" : "--map",
		         m->extractor->name);
	*f = (struct features_measure){m->extractor->dims[TAP_MAIN], m->extractor->name, m->extractor->hash, m->extractor->input, run_network, m};
	return 0;
}

/* The device for k-means: none for small problems with --device auto, which the CPU computes. */
static int find_device(void *arg, int large, struct device **d, struct err *e)
{
	struct machine *m = arg;

	if (!large && !strcmp(device_name, "auto"))
		return 0;
	if (need_device(m, e))
		return -1;
	*d = m->device;
	return 0;
}

int main(int argc, char **argv)
{
	struct progress progress = cmd_progress();
	struct cluster_report report = {0};
	struct machine m = {0};
	struct err e = {0};

	request = cluster_defaults();
	request.nsources = cmd_start(&program, argc, argv, 1, -1);
	request.sources = (const char *const *)(argv + 1);
	request.spool = getenv("TMPDIR");
	request.progress = &progress;
	request.network = !request.by && extractor_is_network(request.features) ? open_network : NULL;
	request.device = find_device;
	request.bad = cmd_skipped;
	request.arg = &m;
	cmd_catch_signals();
	request.pool = m.pool = pool_new((int)threads, &e);
	if (m.pool)
		cluster_make(&request, &report, &e);
	if (report.made && !quiet)
		clusterreport_say(&request, &report);
	cluster_report_release(&report);
	extractor_free(m.extractor);
	device_free(m.device);
	pool_free(m.pool);
	return cmd_end_over(&e);
}
