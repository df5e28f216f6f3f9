/* Parses a solver's name and options. */
#include "diffusion/solverchoice.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/option.h"

#define FLOW_ROW(kind, name, order, evaluations, noise, help) {name, evaluations, help, 0, SOLVER_##kind, order, noise, 0, 0},
#define DISCRETE_ROW(kind, name, order, evaluations, noise, help, points, corrected) \
	{name, evaluations, help, 1, DISCRETE_##kind, order, noise, points, corrected},
const struct solver_info solver_table[] = {SOLVER_LIST(FLOW_ROW, DISCRETE_ROW){0}};
#undef FLOW_ROW
#undef DISCRETE_ROW

#define NAME(kind, name, ...) name,
const char *const solver_names[] = {SOLVER_LIST(NAME, NAME) NULL};
#undef NAME

#define KEY(member) OPTION_FIELD(struct solver_choice, member)
/* clang-format off */
#define WORDS(...) .type = OPTION_CHOICE, .choices = (const char *const[]){__VA_ARGS__, NULL}
/* clang-format on */
#define NUMBER(least, most) .type = OPTION_REAL, .lo = least, .hi = most
#define OF(kind) (1u << DISCRETE_##kind)

enum { DPM = OF(MULTISTEP) | OF(SINGLESTEP), FENCED = DPM | OF(UNIPC), DISCRETE = OF(DDPM) | OF(DDIM) | OF(EULER) | FENCED, FLOW = 1 << 16 };

#define OF_FLOW(kind) (1u << (17 + SOLVER_##kind))

/* The keys that may follow a solver's name, and the solvers that accept each. */
static const struct key {
	struct option option;
	unsigned of;
} keys[] = {
    {{"spacing", KEY(how.spacing), WORDS("leading", "linspace", "trailing", "respaced", "quadratic")}, DISCRETE},
    {{"offset", KEY(how.offset), .type = OPTION_INT, .lo = 0, .hi = 1000}, DISCRETE},
    {{"clip", KEY(how.clip), NUMBER(1e-3, 1e6)}, DISCRETE},
    {{"final", KEY(how.final_min), WORDS("zero", "min")}, OF(DDIM) | OF(EULER) | FENCED},
    {{"variance", KEY(how.variance), WORDS("auto", "small", "large", "learned")}, OF(DDPM)},
    {{"eta", KEY(how.eta), NUMBER(0, 1)}, OF(DDIM)},
    {{"type", KEY(how.heun), WORDS("midpoint", "heun")}, DPM},
    {{"type", KEY(how.bh1), WORDS("bh2", "bh1")}, OF(UNIPC)},
    {{"lower", KEY(how.any_final), WORDS("yes", "no")}, FENCED},
    {{"sigmas", KEY(how.sigmas), WORDS("table", "karras", "logsnr")}, OF(EULER) | FENCED},
    {{"sde", KEY(how.sde), WORDS("no", "yes")}, OF(MULTISTEP)},
    {{"shift", KEY(grid.shift), NUMBER(1e-3, 1e3)}, FLOW},
    {{"mu", KEY(grid.mu), NUMBER(-20, 20)}, FLOW},
    {{"law", KEY(grid.law), WORDS("exponential", "linear")}, FLOW},
    {{"terminal", KEY(grid.terminal), NUMBER(1e-6, .999)}, FLOW},
    {{"sigmas", KEY(grid.sigmas), WORDS("even", "karras", "exponential", "beta", "quadratic", "logsnr")}, FLOW},
    {{"rtol", KEY(adapt.rtol), NUMBER(1e-7, 1)}, OF_FLOW(DOPRI5)},
    {{"atol", KEY(adapt.atol), NUMBER(1e-12, 1)}, OF_FLOW(DOPRI5)},
    {{"strength", KEY(add.strength), NUMBER(0, 100)}, OF_FLOW(SDE)},
    {{"step", KEY(add.ancestral), WORDS("euler", "ancestral")}, OF_FLOW(SDE)},
    {{"churn", KEY(add.churn), NUMBER(0, 1e6)}, OF_FLOW(EDM_HEUN)},
    {{"churn-min", KEY(add.churn_min), NUMBER(0, 1e6)}, OF_FLOW(EDM_HEUN)},
    {{"churn-max", KEY(add.churn_max), NUMBER(0, 1e6)}, OF_FLOW(EDM_HEUN)},
    {{"churn-noise", KEY(add.churn_noise), NUMBER(0, 10)}, OF_FLOW(EDM_HEUN)},
};

enum { KEYS = sizeof keys / sizeof *keys };

static int set_key(struct solver_choice *c, const char *key, const char *value, struct err *e)
{
	const unsigned flow = 1u << (17 + c->kind), of = c->discrete ? 1u << c->how.kind : c->kind == SOLVER_DOPRI5 ? flow : FLOW | flow;
	const char *known[KEYS + 1] = {NULL};
	int n = 0;

	for (int i = 0; i < KEYS; i++) {
		if (!(keys[i].of & of))
			continue;
		known[n++] = keys[i].option.name;
		if (strcmp(keys[i].option.name, key))
			continue;
		c->grid.dynamic |= !strcmp(key, "mu");
		return option_set(&keys[i].option, c, value, e);
	}
	return option_choice(c->name, key, known, e) < 0 ? -1 : 0;
}

static int check_grid(const char *text, const struct flow_grid *g, struct err *e)
{
	if (g->shift > 0 && g->dynamic)
		return err_set(e, ERR_USAGE, "'%s': give either shift or mu, not both", text);
	if (g->law == FLOW_LINEAR && !(g->mu > 0))
		return err_set(e, ERR_USAGE, "'%s': law=linear needs a mu above 0", text);
	return 0;
}

static int check_noise(const char *text, const struct stochastic *a, struct err *e)
{
	if (a->ancestral && a->strength != 1)
		return err_set(e, ERR_USAGE, "'%s': strength is of step=euler; the noise of step=ancestral has no strength", text);
	return 0;
}

static int parse_keys(const char *text, const char *at, struct solver_choice *c, struct err *e)
{
	while (*at) {
		char item[64], *value;
		size_t n = strcspn(at + 1, ",");

		snprintf(item, sizeof item, "%.*s", (int)n, at + 1);
		at += 1 + n;
		value = strchr(item, '=');
		if (!value || n >= sizeof item)
			return err_set(e, ERR_USAGE, "'%s': '%s' is not KEY=VALUE", text, item);
		*value++ = 0;
		if (set_key(c, item, value, e))
			return err_prefix(e, "'%s'", text);
	}
	return 0;
}

int solver_parse(const char *text, struct solver_choice *c, struct err *e)
{
	char name[32];
	size_t n = strcspn(text, ",");
	int i;

	memset(c, 0, sizeof *c);
	snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : (int)sizeof name - 1, text);
	if ((i = option_choice(NULL, name, solver_names, e)) < 0)
		return -1;
	c->info = &solver_table[i];
	c->name = c->info->name;
	c->discrete = c->info->discrete;
	if (!c->discrete) {
		c->kind = (enum solver_kind)c->info->kind;
		c->add = (struct stochastic){.strength = 1, .churn_max = HUGE_VAL, .churn_noise = 1};
		c->adapt = (struct tolerance){.rtol = 1e-3, .atol = 1e-6};
		return parse_keys(text, text + n, c, e) || check_grid(text, &c->grid, e) || check_noise(text, &c->add, e) ? -1 : 0;
	}
	c->how = discrete_default((enum discrete_kind)c->info->kind);
	c->how.order = c->info->points;
	c->how.corrected = c->info->corrected;
	return parse_keys(text, text + n, c, e);
}
