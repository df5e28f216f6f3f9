/* Translates a scheduler configuration of diffusers to a solver. Defaults and meanings are those of diffusers 0.42: scheduling_ddpm, _ddim,
 * _euler_discrete, _dpmsolver_multistep, _dpmsolver_singlestep, _unipc_multistep, _flow_match_euler_discrete. */
#include "diffusion/scheduler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/str.h"
#include "diffusion/flowgrid.h"

enum { DDPM, DDIM, EULER, MULTISTEP, SINGLESTEP, UNIPC, FLOW, CLASSES };
enum { OF_DDPM = 1 << DDPM, OF_DDIM = 1 << DDIM, OF_EULER = 1 << EULER, OF_MULTI = 1 << MULTISTEP, OF_SINGLE = 1 << SINGLESTEP, OF_FLOW = 1 << FLOW };
enum { OF_DPM = OF_MULTI | OF_SINGLE, OF_UNIPC = 1 << UNIPC, OF_SIGMA = OF_DPM | OF_EULER, OF_ANY = (1 << CLASSES) - 1 };

static const char *const classes[CLASSES][3] = {{"DDPMScheduler", "DDPMParallelScheduler"},
                                                {"DDIMScheduler", "DDIMParallelScheduler"},
                                                {"EulerDiscreteScheduler"},
                                                {"DPMSolverMultistepScheduler"},
                                                {"DPMSolverSinglestepScheduler"},
                                                {"UniPCMultistepScheduler"},
                                                {"FlowMatchEulerDiscreteScheduler"}};

struct reader {
	const json_t *o;
	const char *where;
	int class;
	int64_t tokens;
	struct str text;
	struct err *e;
};

static int find_class(const char *name)
{
	for (int i = 0; i < CLASSES; i++)
		for (int k = 0; classes[i][k]; k++)
			if (!strcmp(classes[i][k], name))
				return i;
	return -1;
}

static int refuse(struct reader *r, const char *key)
{
	char *value = json_dumps(json_object_get(r->o, key), JSON_ENCODE_ANY | JSON_COMPACT);

	err_set(r->e, ERR_DATA, "%s: \"%s\": %.80s is not supported: give --solver", r->where, key, value ? value : "?");
	free(value);
	return -1;
}

/* The index in `words` of the key's value; `otherwise` if the key is missing or null; -1 and the error for another value. */
static int word(struct reader *r, const char *key, const char *const *words, int otherwise)
{
	const json_t *v = json_object_get(r->o, key);
	const char *text = json_string_value(v);

	if (!v || json_is_null(v))
		return otherwise;
	for (int i = 0; text && words[i]; i++)
		if (!strcmp(text, words[i]))
			return i;
	return refuse(r, key);
}

static int flag(struct reader *r, const char *key, int otherwise)
{
	const json_t *v = json_object_get(r->o, key);

	if (!v || json_is_null(v))
		return otherwise;
	return json_is_boolean(v) ? json_is_true(v) : refuse(r, key);
}

/* Refuses keys that select an unsupported feature: flags in `off` must be false, values in `unset` must be missing. */
static int check_rest(struct reader *r)
{
	static const struct {
		int of;
		const char *key;
	} off[] = {{OF_ANY, "thresholding"},
	           {OF_ANY, "rescale_betas_zero_snr"},
	           {OF_ANY & ~OF_FLOW, "use_exponential_sigmas"},
	           {OF_ANY & ~OF_FLOW, "use_beta_sigmas"},
	           {OF_ANY, "use_lu_lambdas"},
	           {OF_ANY, "use_flow_sigmas"},
	           {OF_ANY & ~OF_FLOW, "use_dynamic_shifting"},
	           {OF_ANY, "invert_sigmas"},
	           {OF_ANY, "stochastic_sampling"},
	           {OF_MULTI, "euler_at_final"}};
	static const struct {
		int of;
		const char *key;
	} unset[] = {{OF_EULER | OF_UNIPC, "sigma_min"}, {OF_EULER | OF_UNIPC, "sigma_max"}, {OF_UNIPC, "solver_p"}, {OF_DPM, "lambda_min_clipped"}};
	static const char *const linear[] = {"linear", NULL}, *const discrete[] = {"discrete", NULL};

	for (size_t i = 0; i < sizeof off / sizeof *off; i++)
		if ((off[i].of & 1 << r->class) && flag(r, off[i].key, 0))
			return r->e->code ? -1 : refuse(r, off[i].key);
	for (size_t i = 0; i < sizeof unset / sizeof *unset; i++) {
		const json_t *v = json_object_get(r->o, unset[i].key);

		if ((unset[i].of & 1 << r->class) && v && !json_is_null(v))
			return refuse(r, unset[i].key);
	}
	return r->class == EULER && (word(r, "interpolation_type", linear, 0) < 0 || word(r, "timestep_type", discrete, 0) < 0) ? -1 : 0;
}

static int add_spacing(struct reader *r)
{
	static const char *const words[] = {"leading", "linspace", "trailing", NULL};
	int spacing = word(r, "timestep_spacing", words, r->class <= DDIM ? 0 : 1);
	int64_t offset = 0;

	if (spacing < 0 || (json_object_get(r->o, "steps_offset") && jsonio_i64(r->o, "steps_offset", 1, 0, 1000, &offset, r->where, r->e)))
		return -1;
	str_printf(&r->text, ",spacing=%s", words[spacing]);
	if (offset)
		str_printf(&r->text, ",offset=%lld", (long long)offset);
	return 0;
}

static int add_clip(struct reader *r)
{
	int clip = flag(r, "clip_sample", 1);
	double range = 1;

	if (clip < 0 || jsonio_f64(r->o, "clip_sample_range", 0, 1e-3, 1e6, &range, r->where, r->e))
		return -1;
	if (clip)
		str_printf(&r->text, ",clip=%g", range);
	return 0;
}

static int add_ddpm(struct reader *r)
{
	static const char *const kinds[] = {"fixed_small", "fixed_small_log", "fixed_large", "fixed_large_log", "learned_range", NULL};
	static const char *const ours[] = {"small", "small", "large", "large", "learned"};
	int kind = word(r, "variance_type", kinds, 0);

	if (kind < 0 || add_spacing(r) || add_clip(r))
		return -1;
	str_printf(&r->text, ",variance=%s", ours[kind]);
	return 0;
}

static int add_ddim(struct reader *r)
{
	int one = flag(r, "set_alpha_to_one", 1);

	if (one < 0 || add_spacing(r) || add_clip(r))
		return -1;
	str_puts(&r->text, one ? "" : ",final=min");
	return 0;
}

/* The keys shared by the schedulers in sigma. */
static int add_sigmas(struct reader *r)
{
	static const char *const finals[] = {"zero", "sigma_min", NULL};
	int karras = flag(r, "use_karras_sigmas", 0), final = word(r, "final_sigmas_type", finals, 0);

	if (karras < 0 || final < 0)
		return -1;
	str_printf(&r->text, "%s%s", final ? ",final=min" : "", karras ? ",sigmas=karras" : "");
	return 0;
}

static int add_dpm(struct reader *r)
{
	static const char *const algorithms[] = {"dpmsolver++", "deis", "sde-dpmsolver++", NULL};
	static const char *const types[] = {"midpoint", "logrho", "bh1", "bh2", "heun", NULL};
	int algorithm = word(r, "algorithm_type", algorithms, 0), type = word(r, "solver_type", types, 0);
	int lower = flag(r, "lower_order_final", r->class == MULTISTEP);
	int64_t order = 2;

	if (algorithm < 0 || type < 0 || lower < 0 || jsonio_i64(r->o, "solver_order", 0, 1, 3, &order, r->where, r->e))
		return -1;
	if (algorithm == 2 && (r->class == SINGLESTEP || order == 3))
		return refuse(r, r->class == SINGLESTEP ? "algorithm_type" : "solver_order");
	if (r->class == SINGLESTEP && order == 1)
		return refuse(r, "solver_order");
	str_printf(&r->text, "dpm++%lld%s", (long long)order, order == 1 ? "" : r->class == MULTISTEP ? "m" : "s");
	if ((r->class == MULTISTEP && add_spacing(r)) || add_sigmas(r))
		return -1;
	str_printf(&r->text, "%s%s%s", type == 4 ? ",type=heun" : "", lower ? "" : ",lower=no", algorithm == 2 ? ",sde=yes" : "");
	return 0;
}

static int add_unipc(struct reader *r)
{
	static const char *const types[] = {"bh2", "midpoint", "heun", "logrho", "bh1", NULL};
	int type = word(r, "solver_type", types, 0), lower = flag(r, "lower_order_final", 1), x0 = flag(r, "predict_x0", 1);
	const json_t *without = json_object_get(r->o, "disable_corrector");
	int64_t order = 2;

	if (type < 0 || lower < 0 || x0 < 0 || jsonio_i64(r->o, "solver_order", 0, 1, 3, &order, r->where, r->e))
		return -1;
	if (!x0)
		return refuse(r, "predict_x0");
	if (without && !json_is_null(without) && (!json_is_array(without) || json_array_size(without)))
		return refuse(r, "disable_corrector");
	str_printf(&r->text, "unipc%lld", (long long)order);
	if (add_spacing(r) || add_sigmas(r))
		return -1;
	str_printf(&r->text, "%s%s", type == 4 ? ",type=bh1" : "", lower ? "" : ",lower=no");
	return 0;
}

/* Computes mu from the number of tokens of a picture, as diffusers' pipelines do. */
static int add_mu(struct reader *r)
{
	static const char *const laws[] = {"exponential", "linear", NULL};
	struct flow_line l = {.5, 1.15, 256, 4096};
	int law = word(r, "time_shift_type", laws, 0);
	double mu;

	if (law < 0 || jsonio_f64(r->o, "base_shift", 0, -20, 20, &l.base_shift, r->where, r->e) ||
	    jsonio_f64(r->o, "max_shift", 0, -20, 20, &l.max_shift, r->where, r->e) ||
	    jsonio_i64(r->o, "base_image_seq_len", 0, 1, 1 << 30, &l.base_tokens, r->where, r->e) ||
	    jsonio_i64(r->o, "max_image_seq_len", 0, 1, 1 << 30, &l.max_tokens, r->where, r->e))
		return -1;
	if (l.base_tokens == l.max_tokens)
		return refuse(r, "max_image_seq_len");
	mu = r->tokens ? flow_line_mu(&l, r->tokens) : NAN;
	if (!(fabs(mu) <= 20) || (law && mu <= 0))
		return refuse(r, "use_dynamic_shifting");
	str_printf(&r->text, ",mu=%.10g%s", mu, law ? ",law=linear" : "");
	return 0;
}

static int add_flow(struct reader *r)
{
	static const char *const keys[] = {"use_karras_sigmas", "use_exponential_sigmas", "use_beta_sigmas"};
	static const char *const ours[] = {"karras", "exponential", "beta"};
	int64_t steps = 1000;
	double shift = 1, terminal = 0;
	int dynamic = flag(r, "use_dynamic_shifting", 0), used = -1;

	if (dynamic < 0 || jsonio_f64(r->o, "shift", 0, 1e-3, 1e3, &shift, r->where, r->e) ||
	    jsonio_i64(r->o, "num_train_timesteps", 0, 1, 100000, &steps, r->where, r->e) ||
	    jsonio_f64(r->o, "shift_terminal", 0, 0, .999, &terminal, r->where, r->e))
		return -1;
	if (steps != 1000)
		return refuse(r, "num_train_timesteps");
	if (terminal > 0 && terminal < 1e-6)
		return refuse(r, "shift_terminal");
	if (dynamic ? add_mu(r) : 0)
		return -1;
	if (!dynamic && shift != 1)
		str_printf(&r->text, ",shift=%.10g", shift);
	if (terminal > 0)
		str_printf(&r->text, ",terminal=%.10g", terminal);
	for (int i = 0; i < 3; i++) {
		int on = flag(r, keys[i], 0);

		if (on < 0)
			return -1;
		if (on && used >= 0)
			return refuse(r, keys[i]);
		used = on ? i : used;
	}
	if (used >= 0)
		str_printf(&r->text, ",sigmas=%s", ours[used]);
	return 0;
}

static int read_solver(struct reader *r)
{
	static const char *const names[CLASSES] = {"ddpm", "ddim", "euler-discrete", "", "", "", "euler"};
	const char *class = "";

	if (jsonio_str(r->o, "_class_name", 1, &class, r->where, r->e))
		return -1;
	if ((r->class = find_class(class)) < 0)
		return refuse(r, "_class_name");
	if (check_rest(r))
		return -1;
	str_puts(&r->text, names[r->class]);
	switch (r->class) {
	case DDPM:
		return add_ddpm(r);
	case DDIM:
		return add_ddim(r);
	case EULER:
		return add_spacing(r) || add_sigmas(r) ? -1 : 0;
	case UNIPC:
		return add_unipc(r);
	case FLOW:
		return add_flow(r);
	default:
		return add_dpm(r);
	}
}

int scheduler_solver(struct scheduler_solver *s, const json_t *o, int64_t tokens, const char *where, struct err *e)
{
	struct reader r = {.o = o, .where = where, .tokens = tokens, .e = e};
	int rc = read_solver(&r);

	*s = (struct scheduler_solver){.last_is_small = !rc && r.class == FLOW};
	if (!rc)
		snprintf(s->text, sizeof s->text, "%s", str_text(&r.text));
	str_release(&r.text);
	return rc;
}
