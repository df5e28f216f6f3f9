/* Computes the mixture's velocity: selects the experts for each row of a batch, runs them, and sums their predictions by weight. */
#include "diffusion/mixture.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "diffusion/ondevice.h"

enum { GROUP = 4 };

struct mixer {
	const struct mixture *m;
	int64_t capacity, chunk;                           /* chunk: rows of the largest expert call */
	unsigned char *present;                            /* (k) */
	void (*tell)(void *arg, const int *expert, int n); /* see mixer_tell; NULL: not set */
	void *tell_arg;
	int *order;                  /* (k) */
	struct device *device, *own; /* own: the device if mixer_new made it, else NULL */
	float *logits;               /* (capacity, k) */
	double *prob, *w;            /* (capacity, k) */
	int32_t *heaviest;           /* (capacity) */
	int32_t *label;              /* (chunk) */
	float *t;                    /* (max(capacity, chunk)) */
	unsigned char *begun;        /* (capacity) v already holds a contribution */
	double *cost;                /* (k) GFLOP of one evaluation of each expert */
	double *spent, *entropy;     /* (capacity) of a budget: GFLOP so far, entropy of the weights at the first evaluation */
	int32_t *group;              /* (4, chunk): the vectors of struct group_rows (weights as floats), then rows of the texts */
	/* on the device */
	float *out;           /* (capacity, k) */
	float *x, *v;         /* (chunk, d), (chunk, columns) */
	float *routed;        /* (capacity, d) the router's input if the path is not linear */
	float *text, *mask;   /* (chunk, text_tokens, text_width), (chunk, text_tokens); NULL if no expert reads text */
	int32_t *group_there; /* copy of group */
};

void mixture_stats_init(struct mixture_stats *s, int k, int64_t steps)
{
	memset(s, 0, sizeof *s);
	s->k = k;
	s->steps = steps;
	s->rows = mem_zalloc((size_t)k, sizeof *s->rows);
	s->mass = mem_zalloc((size_t)k, sizeof *s->mass);
	s->entropy = mem_zalloc((size_t)steps, sizeof *s->entropy);
	s->entropy_rows = mem_zalloc((size_t)steps, sizeof *s->entropy_rows);
}

void mixture_stats_release(struct mixture_stats *s)
{
	mem_free(s->rows);
	mem_free(s->mass);
	mem_free(s->entropy);
	mem_free(s->entropy_rows);
	memset(s, 0, sizeof *s);
}

/* Elements of one expert output. */
static int64_t columns(const struct mixture *m)
{
	return m->out ? m->out : m->d;
}

static int guided(const struct mixture *m, const struct expert *x)
{
	return m->cfg != 1 && (x->classes > 0 || x->text_tokens > 0);
}

/* cost (k) = GFLOP of one row by each expert, twice with guidance; 0 for absent ones. */
static void fill_costs(const struct mixture *m, double *cost)
{
	for (int k = 0; k < m->k; k++)
		cost[k] = m->expert[k].velocity ? 1e-9 * m->expert[k].flops * (1 + guided(m, &m->expert[k])) : 0;
}

/* GFLOP of an entry's weights at one evaluation. */
static double weights_gflop(const struct mixture *m, const struct policy_entry *y)
{
	return route_asks_router(y) ? 1e-9 * m->router->flops : 0;
}

double mixture_least_gflop(const struct mixture *m, int64_t evaluations)
{
	unsigned char present[m->k];
	double cost[m->k];

	fill_costs(m, cost);
	for (int k = 0; k < m->k; k++)
		present[k] = m->expert[k].velocity != NULL;
	return (double)evaluations * (weights_gflop(m, &m->policy.entry[0]) + route_dearest(m->k, cost, present));
}

static int mixture_check(const struct mixture *m, struct err *e)
{
	const struct policy *p = &m->policy;
	unsigned char present[m->k];
	int any = 0, unguided = 0;

	for (int k = 0; k < m->k; k++) {
		present[k] = m->expert[k].velocity != NULL;
		any |= present[k];
		unguided += m->expert[k].velocity && !m->expert[k].classes && !m->expert[k].text_tokens;
	}
	if (!any)
		return err_set(e, ERR_USAGE, "the model has no expert");
	if (policy_uses(p, WEIGHT_ROUTER) && !m->router)
		return err_set(e, ERR_USAGE,
		               "this route needs a router, and the model has none; oracle, prior, uniform|SELECTION and expert:I need none");
	if (policy_uses(p, WEIGHT_PRIOR) && !m->shares && !m->class_shares)
		return err_set(e, ERR_USAGE, "route prior needs the sizes of the clusters, and no config.json of the model has them");
	if (policy_check(p, m->k, present, e))
		return -1;
	if (m->cfg != 1 && unguided)
		return err_set(e, ERR_USAGE, "guidance %g needs experts that read classes or text, and these read neither", m->cfg);
	return 0;
}

static int alloc_text(struct mixer *x, struct err *e)
{
	struct device *dev = x->device;
	int64_t tokens = 0, text = 0;

	for (int k = 0; k < x->m->k; k++) {
		const struct expert *ex = &x->m->expert[k];

		if (ex->velocity && ex->text_tokens) {
			assert(!tokens || (tokens == ex->text_tokens && text == tokens * ex->text_width));
			tokens = ex->text_tokens;
			text = tokens * ex->text_width;
		}
	}
	return !tokens || ((x->text = dev->alloc(dev, (size_t)(x->chunk * text) * sizeof *x->text, "gathered texts", e)) &&
	                   (x->mask = dev->alloc(dev, (size_t)(x->chunk * tokens) * sizeof *x->mask, "gathered texts", e)))
	           ? 0
	           : -1;
}

static int mixer_alloc(struct mixer *x, struct err *e)
{
	const struct mixture *m = x->m;
	struct device *dev = x->device;
	size_t n = (size_t)x->capacity, c = (size_t)x->chunk, k = (size_t)m->k, d = (size_t)m->d;

	x->present = mem_zalloc(k, 1);
	x->order = mem_zalloc(k, sizeof *x->order);
	x->cost = mem_zalloc(k, sizeof *x->cost);
	x->spent = mem_zalloc(n, sizeof *x->spent);
	x->entropy = mem_zalloc(n, sizeof *x->entropy);
	fill_costs(m, x->cost);
	for (size_t i = 0; i < k; i++)
		x->present[i] = m->expert[i].velocity != NULL;
	if (!(x->logits = mem_try(n * k, sizeof *x->logits, "router logits", e)) ||
	    !(x->prob = mem_try(n * k, sizeof *x->prob, "router weights", e)) || !(x->w = mem_try(n * k, sizeof *x->w, "router weights", e)) ||
	    !(x->heaviest = mem_try(n, sizeof *x->heaviest, "routing", e)) || !(x->begun = mem_try(n, 1, "routing", e)) ||
	    !(x->label = mem_try(c, sizeof *x->label, "labels", e)) || !(x->t = mem_try(n > c ? n : c, sizeof *x->t, "times", e)) ||
	    !(x->group = mem_try(GROUP * c, sizeof *x->group, "routing", e)) ||
	    !(x->group_there = dev->alloc(dev, GROUP * c * sizeof *x->group_there, "routing", e)) ||
	    !(x->out = dev->alloc(dev, n * k * sizeof *x->out, "router logits", e)) ||
	    !(x->x = dev->alloc(dev, c * d * sizeof *x->x, "gathered samples", e)) ||
	    !(x->v = dev->alloc(dev, c * (size_t)columns(m) * sizeof *x->v, "gathered velocities", e)) ||
	    (m->own && m->router && !(x->routed = dev->alloc(dev, n * d * sizeof *x->routed, "the router's input", e))))
		return -1;
	return alloc_text(x, e);
}

struct mixer *mixer_new(const struct mixture *m, int64_t capacity, struct err *e)
{
	struct mixer *x;

	assert(capacity > 0 && m->k > 0 && m->d > 0);
	if (mixture_check(m, e))
		return NULL;
	x = mem_zalloc(1, sizeof *x);
	x->m = m;
	x->capacity = capacity;
	x->own = m->device ? NULL : device_cpu(NULL, DT_F32);
	x->device = m->device ? m->device : x->own;
	for (int k = 0; k < m->k; k++) {
		const struct expert *ex = &m->expert[k];
		int64_t need = guided(m, ex) ? 2 * capacity : capacity;

		if (ex->velocity && x->chunk < (need < ex->capacity ? need : ex->capacity))
			x->chunk = need < ex->capacity ? need : ex->capacity;
		assert(!ex->velocity || ex->capacity >= 1 + guided(m, ex));
	}
	if (mixer_alloc(x, e)) {
		mixer_free(x);
		return NULL;
	}
	return x;
}

void mixer_free(struct mixer *x)
{
	if (!x)
		return;
	void *const there[] = {x->group_there, x->out, x->x, x->v, x->routed, x->text, x->mask};

	mem_free(x->present);
	mem_free(x->order);
	mem_free(x->logits);
	mem_free(x->prob);
	mem_free(x->w);
	mem_free(x->heaviest);
	mem_free(x->begun);
	mem_free(x->cost);
	mem_free(x->spent);
	mem_free(x->entropy);
	mem_free(x->label);
	mem_free(x->t);
	mem_free(x->group);
	for (size_t i = 0; i < sizeof there / sizeof *there; i++)
		x->device->release(x->device, there[i]);
	device_free(x->own);
	mem_free(x);
}

static void count_entropy(const struct mixer *x, const struct mixture_call *c, struct mixture_stats *s)
{
	int k = x->m->k;

	if (c->stage || c->step >= s->steps)
		return;
	for (int64_t i = 0; i < c->n; i++)
		s->entropy[c->step] += llrint(route_entropy(k, x->prob + i * k) * MIXTURE_UNIT);
	s->entropy_rows[c->step] += c->n;
}

static int router_logits(struct mixer *x, int64_t n, const float *rows, float *out, struct err *e)
{
	const struct router *r = x->m->router;
	int rc;

	device_range(x->device, "router");
	rc = r->logits(r->arg, n, rows, x->t, out, e);
	device_range_end(x->device);
	return rc;
}

/* The call's time on the linear path, at equal log-SNR. */
static double linear_time(const struct mixer *x, const struct mixture_call *c)
{
	return x->m->own ? path_time(&path_linear, path_at(x->m->own, c->t).logsnr) : c->t;
}

/* The call's x rescaled to time t of the linear path, for the router. */
static const float *linear_rows(struct mixer *x, const struct mixture_call *c, double t)
{
	struct path_point p;

	if (!x->m->own)
		return c->x;
	p = path_at(x->m->own, c->t);
	ondevice_advance(x->device, x->routed, NULL, hypot(1 - t, t) / hypot(p.alpha, p.sigma), c->x, NULL, c->n * x->m->d);
	return x->routed;
}

/* Reports non-finite logits. The router is blamed only if its input was finite. */
static int not_routed(struct mixer *x, const struct mixture_call *c, const float *image, uint64_t index, struct err *e)
{
	float *host = mem_alloc((size_t)x->m->d * sizeof *host);
	int finite = 1;

	device_get(x->device, host, image, (size_t)x->m->d * sizeof *host);
	for (int64_t i = 0; i < x->m->d; i++)
		finite &= isfinite(host[i]) != 0;
	mem_free(host);
	return err_set(e, ERR_FAIL,
	               finite ? "the router's logits for image %llu at t = %g are not finite"
	                      : "image %llu is not finite at t = %g: what an expert predicted for it before was not",
	               (unsigned long long)index, c->t);
}

/* Fills x->logits for the rows `at` of the linear path at time t. */
static int ask_router(struct mixer *x, int64_t n, const float *at, double t, struct err *e)
{
	const struct mixture *m = x->m;

	for (int64_t i = 0; i < n; i++)
		x->t[i] = (float)t;
	for (int64_t i = 0; i < n; i += m->router->capacity) {
		int64_t rows = n - i < m->router->capacity ? n - i : m->router->capacity;

		if (router_logits(x, rows, at + i * m->d, x->out + i * m->k, e))
			return -1;
	}
	device_get(x->device, x->logits, x->out, (size_t)(n * m->k) * sizeof *x->logits);
	return x->device->error(x->device, e);
}

static uint64_t index_of(const struct mixture_call *c, int64_t i)
{
	return (uint64_t)(c->index ? c->index[i] : i);
}

static double draw_of(const struct mixer *x, const struct policy_entry *y, const struct mixture_call *c, int64_t i)
{
	uint64_t seed = c->seed ? c->seed[i] : x->m->seed;
	int once = route_draws_once(y);

	return y->select == SELECT_SAMPLE
	           ? rng_uniform(seed, RNG_ROUTE, once ? 0 : (uint64_t)c->step + 1, index_of(c, i), once ? 0 : (uint32_t)c->stage)
	           : 0;
}

/* The shares of the row's class, or those of all samples; NULL: unknown. */
static const double *shares_of(const struct mixture *m, const struct mixture_call *c, int64_t i)
{
	int32_t label = c->label ? c->label[i] : -1;

	return m->class_shares && label >= 0 && label < m->classes ? m->class_shares + (int64_t)label * m->k : m->shares;
}

/* Reports a row without weights. */
static int no_weights(struct mixer *x, const struct policy_entry *y, const struct mixture_call *c, const float *at, int64_t i, struct err *e)
{
	if (y->weights == WEIGHT_ROUTER)
		return not_routed(x, c, at + i * x->m->d, index_of(c, i), e);
	if (y->weights == WEIGHT_PRIOR)
		return err_set(e, ERR_USAGE, "image %lld: every expert that the model has is of an empty cluster", (long long)index_of(c, i));
	return err_set(e, ERR_USAGE, "image %lld is assigned to expert %d, which is missing", (long long)index_of(c, i),
	               c->chosen ? c->chosen[i] : -1);
}

/* What row i may still spend. */
static struct route_budget budget_of(struct mixer *x, const struct policy_entry *y, const struct mixture_call *c, int64_t i)
{
	if (!c->evaluation)
		x->spent[i] = 0;
	return (struct route_budget){.gflop = y->number - x->spent[i],
	                             .weights = weights_gflop(x->m, y),
	                             .cost = x->cost,
	                             .entropy = x->entropy[i],
	                             .total = c->evaluations,
	                             .left = c->evaluations - c->evaluation};
}

/* Counts what the chosen experts of row i cost. */
static void spend(struct mixer *x, const struct route_budget *b, int64_t i)
{
	int k = x->m->k;

	if (b->left == b->total)
		x->entropy[i] = route_entropy(k, x->prob + i * k);
	x->spent[i] += b->weights;
	for (int j = 0; j < k; j++)
		x->spent[i] += x->w[i * k + j] != 0 ? x->cost[j] : 0;
}

/* Computes the weights of every row. */
static int route(struct mixer *x, const struct mixture_call *c, struct mixture_stats *s, struct err *e)
{
	const struct mixture *m = x->m;
	double t = linear_time(x, c);
	const struct policy_entry *y = policy_at(&m->policy, t);
	const float *at = NULL;
	int k = m->k;

	if (route_asks_router(y)) {
		at = linear_rows(x, c, t);
		if (ask_router(x, c->n, at, t, e))
			return -1;
	}
	for (int64_t i = 0; i < c->n; i++) {
		unsigned char kept[k];
		struct route_input in = {.k = k,
		                         .present = x->present,
		                         .logits = x->logits + i * k,
		                         .shares = shares_of(m, c, i),
		                         .chosen = c->chosen ? c->chosen[i] : -1,
		                         .u = draw_of(x, y, c, i)};
		struct route_budget budget;

		if (y->select == SELECT_BUDGET) {
			budget = budget_of(x, y, c, i);
			in.budget = &budget;
		}
		if (y->keep > 0 && (c->step || c->stage)) {
			for (int j = 0; j < k; j++)
				kept[j] = x->w[i * k + j] != 0;
			in.kept = kept;
		}
		x->heaviest[i] = route_weights(y, &in, x->prob + i * k, x->w + i * k);
		if (x->heaviest[i] < 0)
			return no_weights(x, y, c, at, i, e);
		if (in.budget)
			spend(x, in.budget, i);
	}
	if (s && at) {
		s->router_rows += c->n;
		count_entropy(x, c, s);
	}
	return 0;
}

/* Copies index, begun and weights of the n rows in x->group to the device, and marks the rows as begun. */
static struct group_rows send_group(struct mixer *x, int k, int64_t n)
{
	int32_t *row = x->group, *begun = row + n;
	float *w = (float *)(void *)(begun + n);
	struct group_rows there = {x->group_there, x->group_there + n, (float *)(void *)(x->group_there + 2 * n)};

	for (int64_t i = 0; i < n; i++) {
		begun[i] = x->begun[row[i]];
		x->begun[row[i]] = 1;
		w[i] = (float)x->w[row[i] * x->m->k + k];
	}
	device_put(x->device, x->group_there, x->group, (size_t)(3 * n) * sizeof *x->group);
	return there;
}

/* Gathers the texts which[row] of the n rows in x->group, prompts or negative prompts, into the rows from `at` on of the expert's text input. Call
 * after send_group. */
static void gather_texts(struct mixer *x, const struct mixture_call *c, const struct expert *ex, const int32_t *which, int64_t n, int64_t at)
{
	int64_t width = ex->text_tokens * ex->text_width;
	int32_t *row = x->group + 3 * n, *there = x->group_there + 3 * n;

	for (int64_t i = 0; i < n; i++)
		row[i] = which[x->group[i]];
	device_put(x->device, there, row, (size_t)n * sizeof *row);
	ondevice_gather(x->device, x->text + at * width, c->texts->features, there, n, c->texts->rows, width);
	if (c->texts->mask)
		ondevice_gather(x->device, x->mask + at * ex->text_tokens, c->texts->mask, there, n, c->texts->rows, ex->text_tokens);
}

/* Columns from `few` on are not guided: they are the conditional output alone. */
static void mix(struct mixer *x, float *v, const struct mixture_call *c, const struct group_rows *there, int64_t n, int with_null)
{
	const struct mixture *m = x->m;
	int64_t cols = columns(m), few = !with_null ? cols : m->guided ? m->guided : m->d;

	ondevice_mix(x->device, v, c->n, x->v, with_null ? x->v + n * cols : NULL, (double)(float)m->cfg, there, n, few, cols);
	if (few < cols)
		ondevice_mix(x->device, v + few, c->n, x->v + few, NULL, 1, there, n, cols - few, cols);
}

/* Runs expert k on the n rows in x->group and adds w v to them. A guided group holds n rows with their labels and prompts, then the same n rows
 * with the null label and the negative prompts. The first contribution is stored instead of added to 0, so a single expert of weight 1 keeps
 * its bits. */
static int mix_group(struct mixer *x, float *v, const struct mixture_call *c, int k, int64_t n, struct err *e)
{
	const struct mixture *m = x->m;
	const struct expert *ex = &m->expert[k];
	int64_t d = m->d, rows = guided(m, ex) ? 2 * n : n;
	struct condition given = {.label = ex->classes ? x->label : NULL};
	struct group_rows there;

	for (int64_t i = 0; i < rows; i++) {
		int64_t row = x->group[i % n];

		x->t[i] = (float)c->t;
		x->label[i] = c->label && c->label[row] >= 0 && i < n ? c->label[row] : ex->classes;
	}
	there = send_group(x, k, n);
	for (int64_t i = 0; i < rows; i += n)
		ondevice_gather(x->device, x->x + i * d, c->x, there.index, n, c->n, d);
	if (ex->text_tokens) {
		for (int64_t i = 0; i < rows; i += n)
			gather_texts(x, c, ex, i ? c->negative : c->text, n, i);
		given.text = x->text;
		given.mask = c->texts->mask ? x->mask : NULL;
	}
	if (ex->velocity(ex->arg, rows, x->x, x->t, &given, x->v, e))
		return -1;
	mix(x, v, c, &there, n, rows > n);
	return 0;
}

static int run_group(struct mixer *x, float *v, const struct mixture_call *c, int k, int64_t n, struct err *e)
{
	int rc;

	device_range_number(x->device, "expert", k);
	rc = mix_group(x, v, c, k, n, e);
	device_range_end(x->device);
	return rc;
}

static void count_weights(const struct mixer *x, const struct mixture_call *c, struct mixture_stats *s)
{
	int k = x->m->k;

	s->evaluations += c->n;
	for (int64_t i = 0; i < c->n; i++)
		for (int j = 0; j < k; j++) {
			double w = x->w[i * k + j];

			if (w == 0)
				continue;
			s->used++;
			s->mass[j] += llrint(w * MIXTURE_UNIT);
			s->rows[j] += 1 + guided(x->m, &x->m->expert[j]);
		}
}

void mixer_tell(struct mixer *x, void (*order)(void *arg, const int *expert, int n), void *arg)
{
	x->tell = order;
	x->tell_arg = arg;
}

static void tell_order(struct mixer *x, int64_t n)
{
	int k = x->m->k, used = 0;

	for (int j = 0; j < k; j++)
		for (int64_t i = 0; i < n; i++)
			if (x->w[i * k + j] != 0) {
				x->order[used++] = j;
				break;
			}
	x->tell(x->tell_arg, x->order, used);
}

int mixer_velocity(struct mixer *x, float *v, const struct mixture_call *c, struct mixture_stats *stats, struct err *e)
{
	const struct mixture *m = x->m;

	assert(c->n <= x->capacity);
	if (route(x, c, stats, e))
		return -1;
	if (x->tell)
		tell_order(x, c->n);
	memset(x->begun, 0, (size_t)c->n);
	for (int k = 0; k < m->k; k++) {
		int64_t limit = m->expert[k].capacity / (1 + guided(m, &m->expert[k])), n = 0;

		for (int64_t i = 0; i < c->n; i++) {
			if (x->w[i * m->k + k] == 0)
				continue;
			x->group[n++] = (int32_t)i;
			if (n == limit) {
				if (run_group(x, v, c, k, n, e))
					return -1;
				n = 0;
			}
		}
		if (n && run_group(x, v, c, k, n, e))
			return -1;
	}
	if (stats)
		count_weights(x, c, stats);
	return 0;
}

struct device *mixer_device(const struct mixer *x)
{
	return x->device;
}

const double *mixer_weights(const struct mixer *x)
{
	return x->w;
}

const int32_t *mixer_heaviest(const struct mixer *x)
{
	return x->heaviest;
}

double mixture_gflop(const struct mixture *m, const struct mixture_stats *s)
{
	double flop = m->router ? (double)s->router_rows * m->router->flops : 0;

	for (int k = 0; k < m->k; k++)
		flop += (double)s->rows[k] * m->expert[k].flops;
	return flop * 1e-9;
}
