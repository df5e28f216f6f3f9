/* ddm-sample: whether the options fit each other, and what they come to, before anything of the model is read. */
#include <string.h>

#include "cmd/sample_run.h"

const char *const sample_times[] = {"even", "paris", NULL}, *const sample_noises[] = {"philox", "torch", NULL};
const char *const sample_formats[] = {[FORMAT_PNG] = "png", [FORMAT_WEBP] = "webp", [FORMAT_NPZ] = "npz", [FORMAT_LATENT] = "latent", NULL};
const char *const sample_converts[] = {"match", "native", NULL};
const char *const sample_weights[] = {"f32", "bf16", "int8", "tf32", NULL};

static int check_outputs(const struct run *r, struct err *e)
{
	const char *const paths[] = {r->ask.out, r->ask.grid, r->ask.report, r->ask.log, r->ask.timing};

	return output_claim(paths, sizeof paths / sizeof *paths, e);
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
	if (!r->ask.each && !r->ask.prompt && !r->ask.prompts && !r->ask.features)
		return err_set(e, ERR_USAGE, "-n is missing: how many pictures");
	if (r->ask.preset == 0) {
		r->ask.route = r->ask.route ? r->ask.route : "top-2";
		r->ask.steps = r->ask.steps_given ? r->ask.steps : 50;
		r->ask.times = r->ask.times_given ? r->ask.times : 1;
		r->ask.cfg = r->ask.cfg_given ? r->ask.cfg : 7.5;
	}
	if (!r->ask.route)
		return err_set(e, ERR_USAGE, "--route is missing: top-K, full, threshold:P, switch:T, sample, oracle, prior or expert:I");
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
	if (r->ask.format == FORMAT_NPZ && !strcmp(r->ask.out, "-"))
		return err_set(e, ERR_USAGE, "--format npz goes to a file: -o FILE");
	return check_outputs(r, e);
}
