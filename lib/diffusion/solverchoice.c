/* Parses a solver's name and options. */
#include "diffusion/solverchoice.h"

#include <stdio.h>
#include <string.h>

#include "core/meant.h"
#include "core/str.h"

const char *const solver_names[] = {"euler",   "heun",    "ddpm",    "ddim",    "euler-discrete", "dpm++1",
                                    "dpm++2m", "dpm++3m", "dpm++3m-corrected", "dpm++2s", "dpm++3s", NULL};

enum { ODE = 2 }; /* how many of them are not of discrete time */

static const struct {
	enum discrete_kind kind;
	int order, corrected;
} discretes[] = {{DISCRETE_DDPM, 1, 0},      {DISCRETE_DDIM, 1, 0},      {DISCRETE_EULER, 1, 0},
                 {DISCRETE_MULTISTEP, 1, 0}, {DISCRETE_MULTISTEP, 2, 0}, {DISCRETE_MULTISTEP, 3, 0},
                 {DISCRETE_MULTISTEP, 3, 1}, {DISCRETE_SINGLESTEP, 2, 0}, {DISCRETE_SINGLESTEP, 3, 0}};

static int word(const char *value, const char *const *words)
{
	for (int i = 0; words[i]; i++)
		if (!strcmp(value, words[i]))
			return i;
	return -1;
}

/* 1: not a key of this solver; -1: not a value of it. */
static int set(struct discrete *h, const char *key, const char *value)
{
	static const char *const spacings[] = {"leading", "linspace", "trailing", "respaced", NULL}, *const finals[] = {"zero", "min", NULL};
	static const char *const variances[] = {"auto", "small", "large", "learned", NULL}, *const types[] = {"midpoint", "heun", NULL};
	static const char *const lowers[] = {"yes", "no", NULL}, *const sdes[] = {"no", "yes", NULL}, *const sigmas[] = {"table", "karras", NULL};
	int dpm = h->kind >= DISCRETE_MULTISTEP, i = 0;

	if (!strcmp(key, "spacing"))
		h->spacing = (enum discrete_spacing)(i = word(value, spacings));
	else if (!strcmp(key, "offset"))
		i = parse_i64(value, 0, 1000, &h->offset) ? -1 : 0;
	else if (!strcmp(key, "clip"))
		i = parse_f64(value, 1e-3, 1e6, &h->clip) ? -1 : 0;
	else if (!strcmp(key, "final") && h->kind != DISCRETE_DDPM)
		h->final_min = i = word(value, finals);
	else if (!strcmp(key, "variance") && h->kind == DISCRETE_DDPM)
		h->variance = (enum discrete_variance)(i = word(value, variances));
	else if (!strcmp(key, "eta") && h->kind == DISCRETE_DDIM)
		i = parse_f64(value, 0, 1, &h->eta) ? -1 : 0;
	else if (!strcmp(key, "type") && dpm)
		h->heun = i = word(value, types);
	else if (!strcmp(key, "lower") && dpm)
		h->any_final = i = word(value, lowers);
	else if (!strcmp(key, "sigmas") && h->kind >= DISCRETE_EULER)
		h->karras = i = word(value, sigmas);
	else if (!strcmp(key, "sde") && h->kind == DISCRETE_MULTISTEP)
		h->sde = i = word(value, sdes);
	else
		return 1;
	return i < 0 ? -1 : 0;
}

/* The same of a solver of the flow. */
static int set_grid(struct flow_grid *g, const char *key, const char *value)
{
	static const char *const laws[] = {"exponential", "linear", NULL}, *const sigmas[] = {"even", "karras", "exponential", "beta", NULL};
	int i = 0;

	if (!strcmp(key, "shift"))
		i = parse_f64(value, 1e-3, 1e3, &g->shift) ? -1 : 0;
	else if (!strcmp(key, "mu"))
		i = (g->dynamic = !parse_f64(value, -20, 20, &g->mu)) ? 0 : -1;
	else if (!strcmp(key, "law"))
		g->law = (enum flow_law)(i = word(value, laws));
	else if (!strcmp(key, "terminal"))
		i = parse_f64(value, 1e-6, .999, &g->terminal) ? -1 : 0;
	else if (!strcmp(key, "sigmas"))
		g->sigmas = (enum flow_sigmas)(i = word(value, sigmas));
	else
		return 1;
	return i < 0 ? -1 : 0;
}

static int check_grid(const char *text, const struct flow_grid *g, struct err *e)
{
	if (g->shift > 0 && g->dynamic)
		return err_set(e, ERR_USAGE, "solver '%s': shift and mu exclude each other", text);
	if (g->law == FLOW_LINEAR && !(g->mu > 0))
		return err_set(e, ERR_USAGE, "solver '%s': law=linear needs a mu above 0", text);
	return 0;
}

static int parse_keys(const char *text, const char *keys, struct solver_choice *c, struct err *e)
{
	while (*keys) {
		char item[64], *value;
		size_t n = strcspn(keys + 1, ",");
		int rc;

		snprintf(item, sizeof item, "%.*s", (int)n, keys + 1);
		keys += 1 + n;
		value = strchr(item, '=');
		if (!value || n >= sizeof item)
			return err_set(e, ERR_USAGE, "solver '%s': '%s' is not KEY=VALUE", text, item);
		*value++ = 0;
		rc = c->discrete ? set(&c->how, item, value) : set_grid(&c->grid, item, value);
		if (rc)
			return err_set(e, ERR_USAGE, rc > 0 ? "solver '%s' knows no %s" : "solver '%s': this is no %s", text, item);
	}
	return 0;
}

static const char *meant_solver(char meant[WORD_MEANT], const char *text, size_t n)
{
	char name[32];

	snprintf(name, sizeof name, "%.*s", (int)n, text);
	return word_meant(meant, name, solver_names);
}

int solver_parse(const char *text, struct solver_choice *c, struct err *e)
{
	size_t n = strcspn(text, ",");
	char meant[WORD_MEANT];
	int i;

	memset(c, 0, sizeof *c);
	for (i = 0; solver_names[i]; i++)
		if (strlen(solver_names[i]) == n && !strncmp(text, solver_names[i], n))
			break;
	if (!solver_names[i])
		return err_set(e, ERR_USAGE,
		               "solver '%.*s' is none of euler, heun, ddpm, ddim, euler-discrete, dpm++1, dpm++2m, dpm++3m, "
		               "dpm++3m-corrected, dpm++2s, dpm++3s%s",
		               (int)n, text, meant_solver(meant, text, n));
	c->name = solver_names[i];
	c->discrete = i >= ODE;
	if (!c->discrete) {
		c->kind = i ? SOLVER_HEUN : SOLVER_EULER;
		return parse_keys(text, text + n, c, e) || check_grid(text, &c->grid, e) ? -1 : 0;
	}
	c->how = discrete_default(discretes[i - ODE].kind);
	c->how.order = discretes[i - ODE].order;
	c->how.corrected = discretes[i - ODE].corrected;
	return parse_keys(text, text + n, c, e);
}
