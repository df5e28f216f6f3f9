/* The methods of guidance by name, and the op that computes them. */
#include "diffusion/guidance.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "diffusion/ondevice.h"

#define KEY(member) OPTION_FIELD(struct guidance, member)
#define NUMBER(least, most) .type = OPTION_REAL, .lo = least, .hi = most

/* apg: adaptive projected guidance, arXiv 2410.02416. The defaults project and do nothing else, because r is a norm, which grows with the root of the
 * number of elements, and the best beta depends on the solver. */
static const struct option apg_keys[] = {{"r", KEY(limit), NUMBER(0, 1e9), .preset = "0"},
                                         {"beta", KEY(momentum), NUMBER(-1, 1), .preset = "0"},
                                         {"eta", KEY(parallel), NUMBER(-10, 10), .preset = "0"},
                                         {0}};

/* zero: CFG-Zero*, arXiv 2503.18886. */
static const struct option zero_keys[] = {{"steps", KEY(still), .type = OPTION_INT, .lo = 0, .hi = 100000, .preset = "1"}, {0}};

static const struct guidance_method methods[] = {
    {"cfg", "cfg", GUIDE_LINEAR, GUIDANCE_ANY, NULL},
    {"apg", "apg[:r=R,beta=B,eta=E]", GUIDE_PROJECT, GUIDANCE_X0, apg_keys},
    {"zero", "zero[:STEPS]", GUIDE_FIT, GUIDANCE_VELOCITY, zero_keys},
};

enum { METHODS = sizeof methods / sizeof *methods };

const char *const guidance_words[] = {"cfg", "apg", "apg:", "zero", "zero:", NULL};

/* P(z) = a x + b z with b at least this large: nearer to the end of a path the coefficients are taken so far from it. */
static const double LEAST = 1e-4;

static const struct guidance_method *method_of(const struct guidance *g)
{
	return g->method ? g->method : &methods[0];
}

static int set_key(struct guidance *g, const struct guidance_method *m, char *item, struct err *e)
{
	const char *known[8] = {NULL}, *value = strchr(item, '=');

	if (!value && m->keys && !strcmp(m->keys->name, "steps"))
		return option_set(&m->keys[0], g, item, e);
	if (!value)
		return err_set(e, ERR_USAGE, "'%s' is not KEY=VALUE", item);
	item[value++ - item] = 0;
	for (int i = 0; m->keys && !option_is_end(&m->keys[i]); i++) {
		known[i] = m->keys[i].name;
		if (!strcmp(known[i], item))
			return option_set(&m->keys[i], g, value, e);
	}
	return known[0] ? option_choice(m->name, item, known, e) < 0 ? -1 : 0
	                : err_set(e, ERR_USAGE, "%s has no keys, and there is '%s'", m->name, item);
}

int guidance_parse(struct guidance *g, const char *text, struct err *e)
{
	const char *names[METHODS + 1] = {NULL}, *at = text + strcspn(text, ":");
	char item[64];
	int which;

	for (int i = 0; i < METHODS; i++)
		names[i] = methods[i].name;
	snprintf(item, sizeof item, "%.*s", at - text < (int)sizeof item ? (int)(at - text) : (int)sizeof item - 1, text);
	if ((which = option_choice(NULL, item, names, e)) < 0)
		return -1;
	g->method = &methods[which];
	g->limit = g->momentum = g->parallel = 0;
	g->still = 0;
	if (g->method->keys)
		option_presets(g->method->keys, g);
	while (*at) {
		size_t n = strcspn(at + 1, ",");

		if (n >= sizeof item)
			return err_set(e, ERR_USAGE, "'%s': a key is too long", text);
		snprintf(item, sizeof item, "%.*s", (int)n, at + 1);
		at += 1 + n;
		if (set_key(g, g->method, item, e))
			return err_prefix(e, "'%s'", text);
	}
	return 0;
}

char *guidance_text(const struct guidance *g)
{
	const struct guidance_method *m = method_of(g);
	struct guidance usual = {0};
	struct str s = {0};
	char *text;
	int n = 0;

	str_puts(&s, m->name);
	if (m->keys)
		option_presets(m->keys, &usual);
	for (const struct option *o = m->keys; o && !option_is_end(o); o++) {
		const void *mine = (const char *)g + o->field, *theirs = (const char *)&usual + o->field;

		if (!memcmp(mine, theirs, o->size))
			continue;
		str_puts(&s, n++ ? "," : ":");
		if (o->type == OPTION_INT)
			str_printf(&s, "%lld", (long long)*(const int64_t *)mine);
		else
			str_printf(&s, "%s=%.15g", o->name, *(const double *)mine);
	}
	text = mem_strdup(str_text(&s));
	str_release(&s);
	return text;
}

int guidance_is_linear(const struct guidance *g)
{
	return method_of(g)->rule == GUIDE_LINEAR && g->rescale == 0;
}

int guidance_stills(const struct guidance *g, int64_t step, double t)
{
	return step < g->still && time_range_holds(g->interval, t);
}

int guidance_holds(const struct guidance *g, int64_t step, double t)
{
	return time_range_holds(g->interval, t) && step >= g->still;
}

/* P(z) = a x + b z for predictions z of r->kind at p, and P the prediction of the method's kind. */
static void relate(const struct path_point *p, enum prediction kind, enum guidance_space space, const struct guidance_native *native, double *a,
                   double *b)
{
	double c, d, c2 = 1, d2 = 0, det;

	path_target_weights(p, kind, &c, &d);
	if (space == GUIDANCE_ANY || (space == GUIDANCE_NATIVE && !native)) {
		c2 = c;
		d2 = d;
	} else if (space == GUIDANCE_VELOCITY) {
		c2 = -1;
		d2 = 1;
	} else if (space == GUIDANCE_NATIVE) {
		struct path_point q = path_at(native->path, path_time(native->path, p->logsnr));

		path_target_weights(&q, native->kind, &c2, &d2);
	}
	det = p->alpha * d - p->sigma * c;
	*a = c2 == c && d2 == d ? 0 : (c2 * d - d2 * c) / det;
	*b = c2 == c && d2 == d ? 1 : (d2 * p->alpha - c2 * p->sigma) / det;
}

/* At the end of a path where the prediction of one kind says nothing about another, b is 0, as of epsilon from the velocity at t = 1. There the
 * coefficients are those of a point that is a little less noisy, or a little noisier. */
static void coefficients(const struct guidance_rows *r, enum guidance_space space, double *a, double *b)
{
	struct path_point p = r->at;

	relate(&p, r->kind, space, r->native, a, b);
	if (isfinite(*a) && isfinite(*b) && fabs(*b) >= LEAST)
		return;
	if (p.alpha < p.sigma)
		p.alpha = fmax(p.alpha, LEAST * p.sigma);
	else
		p.sigma = fmax(p.sigma, LEAST * p.alpha);
	p.logsnr = 2 * log(p.alpha / p.sigma);
	relate(&p, r->kind, space, r->native, a, b);
}

static void submit(struct device *d, const struct guidance_rows *r, const struct op_attr *attr, const float *u, float *y, int moving)
{
	ondevice_guide(d, attr, y, r->x, r->c, u, moving && r->moved ? r->momentum : NULL, moving ? r->momentum : NULL, r->n, r->cols, r->step, r->d);
}

void guidance_run(struct device *d, const struct guidance *g, double scale, const struct guidance_rows *r)
{
	const struct guidance_method *m = method_of(g);
	struct op_attr attr = {
	    .guide = {.rule = m->rule, .scale = scale, .limit = g->limit, .parallel = g->parallel, .momentum = g->momentum, .blend = g->rescale}};

	coefficients(r, m->space, &attr.guide.a, &attr.guide.b);
	submit(d, r, &attr, r->u, g->rescale > 0 ? r->u : r->c, g->momentum != 0);
	if (!(g->rescale > 0))
		return;
	attr.guide.rule = GUIDE_STD;
	coefficients(r, GUIDANCE_NATIVE, &attr.guide.a, &attr.guide.b);
	submit(d, r, &attr, r->u, r->c, 0);
}

void guidance_still(struct device *d, const struct guidance_rows *r)
{
	struct op_attr attr = {.guide = {.rule = GUIDE_STILL}};

	coefficients(r, GUIDANCE_VELOCITY, &attr.guide.a, &attr.guide.b);
	submit(d, r, &attr, NULL, r->c, 0);
}
