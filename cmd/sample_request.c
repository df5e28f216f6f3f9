/* ddm-sample: whether the options fit each other, and what they come to, before anything of the model is read. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cmd/cmd.h"
#include "cmd/sample_run.h"

const char *const sample_times[] = {"even", "paris", NULL}, *const sample_noises[] = {"philox", "torch", NULL};
const char *const sample_formats[] = {[FORMAT_PNG] = "png", [FORMAT_WEBP] = "webp", [FORMAT_NPZ] = "npz", [FORMAT_LATENT] = "latent",
                                      [FORMAT_JPG] = "jpg", NULL};
const char *const sample_converts[] = {"match", "native", NULL};
const char *const sample_weights[] = {"f32", "bf16", "int8", "tf32", NULL};

static int check_outputs(const struct run *r, struct err *e)
{
	const char *const paths[] = {r->ask.out, r->ask.grid, r->ask.report, r->ask.log, r->ask.timing};

	if (cmd_binary(r->ask.out, "-o FILE.png, -o FILE.tar, -o DIR/ or a pipe takes pictures", e))
		return -1;
	if (cmd_binary(r->ask.grid, "--grid FILE.png", e))
		return -1;
	return output_claim(paths, sizeof paths / sizeof *paths, e) || sample_views(r->ask.report, r->ask.log, r->ask.timing, e) ? -1 : 0;
}

/* What a file's name says of one sample, or of an array of all. */
static const struct {
	const char *ending;
	enum sample_format format;
} named[] = {{".png", FORMAT_PNG}, {".jpg", FORMAT_JPG},    {".jpeg", FORMAT_JPG},
             {".webp", FORMAT_WEBP}, {".npy", FORMAT_LATENT}, {".npz", FORMAT_NPZ}};

static int by_name(const char *path)
{
	const char *dot = strrchr(path, '.');

	for (size_t i = 0; dot && i < sizeof named / sizeof *named; i++)
		if (!strcasecmp(dot, named[i].ending))
			return (int)i;
	return -1;
}

/* A tar, unless the name ends otherwise, or there is none and a sheet is all that is asked for. */
static int settle_output(struct run *r, struct err *e)
{
	struct sample_ask *a = &r->ask;
	int i;

	if (!a->out && a->grid) {
		r->sink = SINK_NOTHING;
		return a->format_given ? err_set(e, ERR_USAGE, "--format %s: no samples are written with --grid alone; -o FILE tells where to",
		                                 sample_formats[a->format]) : 0;
	}
	a->out = a->out ? a->out : "-";
	i = by_name(a->out);
	if (i >= 0 && a->format_given && a->format != (int)named[i].format)
		return err_set(e, ERR_USAGE, "-o %s with --format %s: the name says %s", a->out, sample_formats[a->format],
		               sample_formats[named[i].format]);
	if (i >= 0)
		a->format = named[i].format;
	r->sink = i >= 0 ? SINK_FILE : SINK_TAR;
	if (*a->out && a->out[strlen(a->out) - 1] == '/')
		r->sink = SINK_FOLDER;
	if (a->format == FORMAT_NPZ && (r->sink == SINK_FOLDER || !strcmp(a->out, "-")))
		return err_set(e, ERR_USAGE, "--format npz goes to a file: -o FILE");
	if (a->format == FORMAT_NPZ)
		r->sink = SINK_NPZ;
	return 0;
}

/* Of a model that is one network there is nothing to choose: `full` and the default are that network. */
static int settle_route(struct run *r, const char *dir, struct err *e)
{
	int lone = ensemble_lone(dir);

	if (lone >= 0 && (!r->ask.route || !strcmp(r->ask.route, "full"))) {
		snprintf(r->lone_route, sizeof r->lone_route, "expert:%d", lone);
		r->ask.route = r->lone_route;
	}
	return r->ask.route ? 0 : err_set(e, ERR_USAGE, "--route is missing: top-K, full, threshold:P, switch:T, sample, oracle, prior or expert:I");
}

/* That of the command, or what a pipeline of diffusers says, where nothing is asked for that is of the flow alone. */
static int settle_solver(struct run *r, const char *dir, struct err *e)
{
	int rc = r->ask.solver || r->ask.times_given || r->ask.convert >= 0 || r->ask.preset >= 0 ? 0 : ensemble_solver(&r->ask.scheduled, dir, e);

	if (rc < 0)
		return -1;
	if (rc > 0) {
		r->ask.solver = r->ask.scheduled.text;
		r->ask.times = r->ask.scheduled.last_is_small;
	} else if (!r->ask.solver) {
		r->ask.solver = "euler";
	}
	return solver_parse(r->ask.solver, &r->solver, e) ? err_prefix(e, "--solver") : 0;
}

int sample_request(struct run *r, const char *dir, struct err *e)
{
	if (r->ask.prompt && r->ask.prompts)
		return err_set(e, ERR_USAGE, "--prompt and --prompts: one of them");
	if (r->ask.preset == 0) {
		r->ask.route = r->ask.route ? r->ask.route : "top-2";
		r->ask.steps = r->ask.steps_given ? r->ask.steps : 50;
		r->ask.times = r->ask.times_given ? r->ask.times : 1;
		r->ask.cfg = r->ask.cfg_given ? r->ask.cfg : 7.5;
	}
	if (settle_route(r, dir, e))
		return -1;
	if (policy_parse(r->ask.route, &r->policy, e))
		return err_prefix(e, "--route");
	if (settle_solver(r, dir, e))
		return -1;
	if (r->solver.discrete && r->ask.convert >= 0)
		return err_set(e, ERR_USAGE, "--expert-time is for euler and heun: %s asks experts on their own path", r->solver.name);
	if (r->solver.discrete && r->ask.times)
		return err_set(e, ERR_USAGE, "--timesteps is for euler and heun: %s takes spacing=HOW", r->solver.name);
	r->ask.convert = r->ask.convert < 0 ? 0 : r->ask.convert;
	r->labelled = r->ask.class && !strcmp(r->ask.class, "labels");
	if (r->labelled && !r->ask.labels)
		return err_set(e, ERR_USAGE, "--class labels needs --labels, a table with a column 'cluster'");
	if (r->policy.kind == POLICY_ORACLE && !r->ask.labels)
		return err_set(e, ERR_USAGE, "--route oracle needs --labels, a table with a column 'cluster'");
	if (r->policy.kind != POLICY_ORACLE && !r->labelled && r->ask.labels)
		return err_set(e, ERR_USAGE, "--labels is for --route oracle or --class labels");
	return settle_output(r, e) || check_outputs(r, e) ? -1 : 0;
}
