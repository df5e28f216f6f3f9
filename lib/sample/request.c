/* Checks the options against each other and fills in defaults, before the model is opened. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/mem.h"
#include "core/str.h"
#include "sample/sampling.h"

static int check_outputs(const struct sampling *r, struct err *e)
{
	const char *const paths[] = {r->ask.out, r->ask.grid, r->ask.report, r->ask.log, r->ask.timing};

	return output_claim(paths, sizeof paths / sizeof *paths, e) || samplereport_check(&r->ask, e) ? -1 : 0;
}

/* The formats that the ending of an output file selects. */
static const struct {
	const char *ending;
	enum sample_format format;
} named[] = {{".png", FORMAT_PNG},   {".jpg", FORMAT_JPG},    {".jpeg", FORMAT_JPG},
             {".webp", FORMAT_WEBP}, {".npy", FORMAT_LATENT}, {".npz", FORMAT_NPZ}};

static int by_name(const char *path)
{
	const char *dot = strrchr(path, '.');

	for (size_t i = 0; dot && i < sizeof named / sizeof *named; i++)
		if (!strcasecmp(dot, named[i].ending))
			return (int)i;
	return -1;
}

/* Choose format and container by the ending of the name; a tar is the default. */
static int settle_output(struct sampling *r, struct err *e)
{
	struct sample_request *a = &r->ask;
	int i, format_open = a->format < 0;

	if (!a->out) {
		r->sink = SINK_NOTHING;
		if (a->format >= 0 && a->grid)
			return err_set(e, ERR_USAGE, "--format %s needs -o FILE: with --grid alone no samples are written",
			               sample_formats[a->format]);
		a->format = a->format < 0 ? FORMAT_PNG : a->format;
		return 0;
	}
	i = by_name(a->out);
	if (i >= 0 && a->format >= 0 && a->format != (int)named[i].format)
		return err_set(e, ERR_USAGE, "-o %s contradicts --format %s: that name means %s", a->out, sample_formats[a->format],
		               sample_formats[named[i].format]);
	a->format = i >= 0 ? (int)named[i].format : a->format < 0 ? FORMAT_PNG : a->format;
	r->sink = i >= 0 ? SINK_FILE : SINK_TAR;
	if (*a->out && a->out[strlen(a->out) - 1] == '/')
		r->sink = SINK_FOLDER;
	r->format_open = format_open && r->sink == SINK_TAR;
	if (a->format == FORMAT_NPZ && (r->sink == SINK_FOLDER || !strcmp(a->out, "-")))
		return err_set(e, ERR_USAGE, "--format npz needs -o FILE: it is not written to a folder or to standard output");
	if (a->format == FORMAT_NPZ)
		r->sink = SINK_NPZ;
	return 0;
}

/* Parse the route. A long form becomes canonical, so that pictures of one policy have one stamp. A model of one network needs no route: `full` and
 * the default become expert:I. The default of one without a router whose experts are for parts of the times is `time`. */
static int settle_route(struct sampling *r, struct err *e)
{
	struct sample_request *a = &r->ask;
	int timed = ensemble_timed(a->model), lone = timed ? -1 : ensemble_lone(a->model);

	if (a->route && policy_parse(a->route, &r->policy, e))
		return err_prefix(e, "--route");
	if (a->route && policy_is_long(a->route))
		a->route = r->route = policy_text(&r->policy);
	if (lone >= 0 && (!a->route || !strcmp(a->route, "full"))) {
		mem_free(r->route);
		a->route = r->route = str_new("expert:%d", lone);
		r->policy = policy_of(a->route);
	}
	if (!a->route && timed) {
		a->route = "time";
		r->policy = policy_of(a->route);
	}
	return a->route ? 0 : err_set(e, ERR_USAGE, "--route is missing: give one of %s", POLICY_FORMS);
}

/* Use the requested solver; else that of a diffusers pipeline, unless an option for flow solvers or a preset is given; else euler. */
static int settle_solver(struct sampling *r, struct err *e)
{
	struct sample_request *a = &r->ask;
	int rc = a->solver || a->timesteps >= 0 || a->convert >= 0 || a->preset >= 0 ? 0 : ensemble_solver(&r->scheduled, a->model, e);

	if (rc < 0)
		return -1;
	if (rc > 0) {
		a->solver = r->scheduled.text;
		a->timesteps = r->scheduled.last_is_small;
	} else if (!a->solver) {
		a->solver = "euler";
	}
	return solver_parse(a->solver, &r->solver, e) ? err_prefix(e, "--solver") : 0;
}

/* Fill options that were not given from the preset; settle_numbers fills the rest. */
static void apply_preset(struct sample_request *a)
{
	if (a->preset < 0)
		return;
	a->route = a->route ? a->route : "top-2";
	a->steps = a->steps ? a->steps : 50;
	a->timesteps = a->timesteps >= 0 ? a->timesteps : 1;
	a->cfg = isnan(a->cfg) ? 7.5 : a->cfg;
}

/* Only the first rank writes. */
static void drop_outputs(struct sampling *r)
{
	struct sample_request *a = &r->ask;

	a->out = a->grid = a->report = a->log = a->timing = a->prompt = a->prompts = a->labels = NULL;
	r->sink = SINK_NOTHING;
}

static int is_adaptive(const struct sampling *r)
{
	return !r->solver.discrete && r->solver.kind == SOLVER_DOPRI5;
}

static void settle_numbers(struct sampling *r)
{
	struct sample_request *a = &r->ask;

	a->steps = a->steps ? a->steps : is_adaptive(r) ? 1000 : 50;
	a->timesteps = a->timesteps < 0 ? 0 : a->timesteps;
	a->cfg = isnan(a->cfg) ? 1 : a->cfg;
	a->convert = a->convert < 0 ? 0 : a->convert;
	r->encoder_dtype_given = a->encoder_dtype >= 0;
	a->encoder_dtype = r->encoder_dtype_given ? a->encoder_dtype : COMPACT_NONE;
}

static int check_labels(struct sampling *r, struct err *e)
{
	int oracle = policy_uses(&r->policy, WEIGHT_ORACLE);

	r->labelled = r->ask.class && !strcmp(r->ask.class, "labels");
	if (r->labelled && !r->ask.labels)
		return err_set(e, ERR_USAGE, "--class labels needs --labels, a table with a column 'cluster'");
	if (oracle && !r->ask.labels)
		return err_set(e, ERR_USAGE, "--route oracle needs --labels, a table with a column 'cluster'");
	if (!oracle && !r->labelled && r->ask.labels)
		return err_set(e, ERR_USAGE, "--labels has an effect only with --route oracle or --class labels");
	return 0;
}

static int check_centroids(const struct sampling *r, struct err *e)
{
	int distance = policy_uses(&r->policy, WEIGHT_DISTANCE);

	if (distance && !r->ask.centroids)
		return err_set(e, ERR_USAGE, "--route distance needs --centroids, the centroids that ddm-cluster wrote");
	if (!distance && r->ask.centroids)
		return err_set(e, ERR_USAGE, "--centroids has an effect only with --route distance");
	return 0;
}

static int check_density(const struct sampling *r, struct err *e)
{
	if (!policy_uses(&r->policy, WEIGHT_DENSITY) || (!r->solver.discrete && r->solver.kind == SOLVER_SDE && r->solver.add.ancestral))
		return 0;
	if (!request_follows_flow(r))
		return err_set(e, ERR_USAGE, "--route density needs --solver " SOLVER_RUNGE_KUTTA " or sde,step=ancestral");
	if (r->ask.map || r->ask.dtype == SAMPLE_BF16 || r->ask.dtype == SAMPLE_INT8)
		return err_set(e, ERR_USAGE,
		               "--route density with --solver %s takes gradients of the experts, whose weights must be plain f32: drop %s",
		               r->solver.name, r->ask.map ? "--map" : "--weight-dtype");
	return 0;
}

int request_follows_flow(const struct sampling *r)
{
	return policy_uses(&r->policy, WEIGHT_DENSITY) && !r->solver.discrete && solver_is_runge_kutta(r->solver.kind);
}

int request_pairs(const struct sample_request *settled)
{
	return settled->cfg != 1 && !settled->guide;
}

static int check_guide(const struct sampling *r, struct err *e)
{
	if (!r->ask.guide || r->ask.cfg != 1)
		return 0;
	return err_set(e, ERR_USAGE, "--guide %s has no effect with a scale of 1: give --cfg S", r->ask.guide);
}

/* Check the ranges of values. Parsing checks those of a command line, but a C program fills the request itself. */
static int check_ranges(const struct sample_request *q, struct err *e)
{
	const struct sample_request usual = sample_defaults();

	return option_check_request(sample_options, q, &usual, e) || option_check_request(sample_output_options, q, &usual, e) ||
	               option_check_request(sample_machine_options, q, &usual, e)
	           ? -1
	           : 0;
}

int request_settle(struct sampling *r, struct err *e)
{
	struct sample_request *a = &r->ask;

	if (check_ranges(a, e))
		return -1;
	if (a->prompt && a->prompts)
		return err_set(e, ERR_USAGE, "give either --prompt or --prompts, not both");
	apply_preset(a);
	if (settle_route(r, e) || settle_solver(r, e))
		return -1;
	if (r->solver.discrete && a->convert >= 0)
		return err_set(e, ERR_USAGE,
		               "--expert-time has an effect only with the flow solvers, " SOLVER_FLOW_NAMES
		               "and %s calls each expert on its own path",
		               r->solver.name);
	if (r->solver.discrete && a->timesteps > 0)
		return err_set(e, ERR_USAGE,
		               "--timesteps has an effect only with the flow solvers, " SOLVER_FLOW_NAMES "and not with %s: use spacing=HOW there",
		               r->solver.name);
	if (is_adaptive(r) && a->timesteps > 0)
		return err_set(e, ERR_USAGE, "--timesteps has no effect with dopri5, which chooses its own steps");
	if (is_adaptive(r) && a->log)
		return err_set(e, ERR_USAGE, "--log is not possible with dopri5: each picture has its own steps");
	settle_numbers(r);
	if (check_labels(r, e) || check_centroids(r, e) || check_density(r, e) || check_guide(r, e) || settle_output(r, e))
		return -1;
	r->logs = a->log && (!sampling_takes_orders(r) || sampling_spreads_pictures(r));
	if (a->comm && !sampling_spreads_pictures(r) && request_follows_flow(r))
		return err_set(
		    e, ERR_USAGE,
		    "--route density with --solver %s takes gradients of all experts, so they cannot be on several ranks: use --spread pictures",
		    r->solver.name);
	if (!sampling_takes_orders(r))
		return check_outputs(r, e);
	drop_outputs(r);
	return 0;
}
