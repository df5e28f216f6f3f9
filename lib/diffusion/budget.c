/* Splits an ensemble's distance from the optimum of its data into the experts' errors and the router's. */
#include "diffusion/budget.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "diffusion/route.h"

/* The contribution of one state to the sums of one route. */
struct share {
	double total, expert, router, cross, loss, least;
};

struct budget {
	const struct budget_plan *p;
	int64_t capacity;
	unsigned char *present;                  /* (k) */
	unsigned char *every;                    /* (k) ones: the router's own weights cover absent experts too */
	double *shares;                          /* (k) sizes of the reference's clusters */
	struct device *device, *own;             /* own: the device if budget_new made it, else NULL */
	float *there_x, *there_v, *there_logits; /* (capacity, d) twice, (capacity, k), on the device */
	float *v;                                /* (k, capacity, d) */
	double *mean, *mass;                     /* (k, capacity, d), (k, capacity) of the reference */
	float *logits, *exact;                   /* (capacity, k) of the router, of the reference */
	float *time;                             /* (capacity) */
	int32_t *label;                          /* (capacity) null labels */
	struct path_point *at;                   /* (capacity) */
	double *best;                            /* (capacity, k) w* */
	double *w;                               /* (routes, capacity, k) */
	double *prob;                            /* (capacity, k) of the router */
	struct share *share;                     /* (routes, capacity) */
	double *flow;                            /* (capacity) */
	struct err *bad;                         /* (capacity) */
	/* arguments of the current budget_add */
	float t;
	const float *x, *target;
	const int32_t *cluster;
	const int64_t *index;
	/* sums */
	struct budget_sum *sum; /* (routes, 1 + k) */
	double *weight;         /* (routes, 1 + k, k) */
	struct budget_routing routing[2];
};

int budget_route_parse(const char *text, struct budget_route *r, struct err *e)
{
	memset(r, 0, sizeof *r);
	if (!strcmp(text, "optimum")) {
		r->exact_router = r->exact_experts = 1;
		r->policy = policy_of("full");
		return 0;
	}
	r->exact_router = !strncmp(text, "exact:", 6);
	if (policy_parse(text + (r->exact_router ? 6 : 0), &r->policy, e))
		return err_prefix(e, "expected optimum, exact:POLICY or a policy");
	if (r->exact_router && !policy_uses(&r->policy, WEIGHT_ROUTER))
		return err_set(e, ERR_USAGE, "route '%s': exact: replaces the router, and that policy uses none", text);
	return 0;
}

static int check_route(const struct budget *b, const struct budget_route *r, struct err *e)
{
	const struct budget_plan *p = b->p;
	int own = 0;

	if (p->whole && p->k > 1 &&
	    ((r->exact_router && !r->exact_experts) || policy_uses(&r->policy, WEIGHT_ORACLE) || policy_uses(&r->policy, WEIGHT_PRIOR)))
		return err_set(e, ERR_USAGE, "the routes exact:POLICY, oracle and prior need a model whose clusters are those of the law");
	if (policy_uses(&r->policy, WEIGHT_ROUTER) && !r->exact_router && !p->router)
		return err_set(e, ERR_USAGE,
		               "a route needs a router, and the model has none; optimum, exact:POLICY, oracle, prior and expert:I need none");
	if (policy_needs_trajectory(&r->policy))
		return err_set(e, ERR_USAGE,
		               "a route with distance, density, keep:MARGIN or budget:GFLOP needs trajectories, and the states here have no "
		               "evaluation before them");
	for (int i = 0; i < r->policy.entries; i++)
		own |= policy_entry_own(&r->policy.entry[i]);
	for (int k = 0; k < p->k && own; k++)
		if (!b->present[k])
			return err_set(e, ERR_USAGE, "routes oracle and prior need every expert, and expert %d is missing", k);
	return policy_check(&r->policy, p->k, b->present, e);
}

static int allocate(struct budget *b, struct err *e)
{
	size_t n = (size_t)b->capacity, k = (size_t)b->p->k, d = (size_t)b->p->d, r = (size_t)b->p->routes;
	struct device *dev = b->device;

	if (!(b->there_x = dev->alloc(dev, n * d * sizeof *b->there_x, "states", e)) ||
	    !(b->there_v = dev->alloc(dev, n * d * sizeof *b->there_v, "velocities", e)) ||
	    !(b->there_logits = dev->alloc(dev, n * k * sizeof *b->there_logits, "logits", e)))
		return -1;
	if (!(b->v = mem_try(n * k * d, sizeof *b->v, "velocities", e)) || !(b->mean = mem_try(n * k * d, sizeof *b->mean, "means", e)) ||
	    !(b->mass = mem_try(n * k, sizeof *b->mass, "masses", e)) || !(b->logits = mem_try(n * k, sizeof *b->logits, "logits", e)) ||
	    !(b->exact = mem_try(n * k, sizeof *b->exact, "logits", e)) || !(b->time = mem_try(n, sizeof *b->time, "times", e)) ||
	    !(b->label = mem_try(n, sizeof *b->label, "labels", e)) || !(b->at = mem_try(n, sizeof *b->at, "times", e)) ||
	    !(b->best = mem_try(n * k, sizeof *b->best, "weights", e)) || !(b->w = mem_try(r * n * k, sizeof *b->w, "weights", e)) ||
	    !(b->prob = mem_try(n * k, sizeof *b->prob, "weights", e)) || !(b->share = mem_try(r * n, sizeof *b->share, "errors", e)) ||
	    !(b->flow = mem_try(n, sizeof *b->flow, "errors", e)) || !(b->bad = mem_try(n, sizeof *b->bad, "errors", e)))
		return -1;
	b->sum = mem_zalloc(r * (1 + k), sizeof *b->sum);
	b->weight = mem_zalloc(r * (1 + k) * k, sizeof *b->weight);
	return 0;
}

struct budget *budget_new(const struct budget_plan *p, int64_t capacity, struct err *e)
{
	const struct law *l = p->reference;
	struct budget *b = mem_zalloc(1, sizeof *b);
	int rc = 0;

	assert((l->clusters == p->k || p->whole) && l->d == p->d);
	b->p = p;
	b->capacity = capacity;
	b->own = p->device ? NULL : device_cpu(p->pool, DT_F32);
	b->device = p->device ? p->device : b->own;
	b->present = mem_zalloc((size_t)p->k, 1);
	b->every = mem_zalloc((size_t)p->k, 1);
	memset(b->every, 1, (size_t)p->k);
	b->shares = mem_zalloc((size_t)p->k, sizeof *b->shares);
	for (int k = 0; k < p->k && !rc; k++) {
		b->present[k] = p->expert[k].velocity != NULL;
		b->shares[k] = p->whole ? 1 : l->share[k];
		if (b->present[k] && b->shares[k] == 0)
			rc = err_set(e, ERR_DATA, "expert %d cannot be measured: there is no sample of its cluster", k);
	}
	for (int r = 0; r < p->routes && !rc; r++)
		rc = check_route(b, &p->route[r], e);
	if (!rc && !allocate(b, e))
		return b;
	budget_free(b);
	return NULL;
}

void budget_free(struct budget *b)
{
	if (!b)
		return;
	b->device->release(b->device, b->there_x);
	b->device->release(b->device, b->there_v);
	b->device->release(b->device, b->there_logits);
	device_free(b->own);
	mem_free(b->present);
	mem_free(b->every);
	mem_free(b->shares);
	mem_free(b->v);
	mem_free(b->mean);
	mem_free(b->mass);
	mem_free(b->logits);
	mem_free(b->exact);
	mem_free(b->time);
	mem_free(b->label);
	mem_free(b->at);
	mem_free(b->best);
	mem_free(b->w);
	mem_free(b->prob);
	mem_free(b->share);
	mem_free(b->flow);
	mem_free(b->bad);
	mem_free(b->sum);
	mem_free(b->weight);
	mem_free(b);
}

void budget_clear(struct budget *b)
{
	size_t k = (size_t)b->p->k, r = (size_t)b->p->routes;

	memset(b->sum, 0, r * (1 + k) * sizeof *b->sum);
	memset(b->weight, 0, r * (1 + k) * k * sizeof *b->weight);
	memset(b->routing, 0, sizeof b->routing);
}

/* Mass and mean of cluster k of the reference; with `whole` the mean of the whole reference and a mass of 0. */
static void find_optimum(struct budget *b, int k, int64_t n)
{
	struct law *l = b->p->reference;
	int64_t d = b->p->d;
	double *mass = b->mass + k * b->capacity, *mean = b->mean + k * b->capacity * d;

	if (!b->p->whole) {
		law_posterior(l, k, n, b->x, b->at, mass, mean);
		return;
	}
	memset(mass, 0, (size_t)n * sizeof *mass);
	if (k)
		memcpy(mean, b->mean, (size_t)(n * d) * sizeof *mean);
	else
		law_posterior(l, LAW_ALL, n, b->x, b->at, NULL, mean);
}

static int ask(struct budget *b, int64_t n, struct err *e)
{
	const struct budget_plan *p = b->p;
	struct device *dev = b->device;
	int64_t d = p->d;

	device_put(dev, b->there_x, b->x, (size_t)(n * d) * sizeof *b->x);
	for (int64_t i = 0; i < n; i++) {
		b->time[i] = b->t;
		b->at[i] = path_at(&path_linear, b->t);
	}
	for (int64_t i = 0; p->router && i < n; i += p->router->capacity) {
		int64_t rows = n - i < p->router->capacity ? n - i : p->router->capacity;

		if (p->router->logits(p->router->arg, rows, b->there_x + i * d, b->time, b->there_logits + i * p->k, e))
			return -1;
	}
	device_get(dev, b->logits, b->there_logits, (size_t)(n * p->k) * sizeof *b->logits);
	for (int k = 0; k < p->k; k++) {
		const struct expert *x = &p->expert[k];
		const struct condition none = {.label = x->classes ? b->label : NULL};

		find_optimum(b, k, n);
		for (int64_t i = 0; i < n; i++)
			b->label[i] = x->classes;
		for (int64_t i = 0; b->present[k] && i < n; i += x->capacity) {
			int64_t rows = n - i < x->capacity ? n - i : x->capacity;

			if (x->velocity(x->arg, rows, b->there_x + i * d, b->time, &none, b->there_v + i * d, e))
				return -1;
		}
		if (b->present[k])
			device_get(dev, b->v + k * b->capacity * d, b->there_v, (size_t)(n * d) * sizeof *b->v);
	}
	return dev->error(dev, e);
}

/* The optimal weights w* of row i, also as logits. */
static void find_best(struct budget *b, int64_t i)
{
	int K = b->p->k;
	double top = -INFINITY, sum = 0, *w = b->best + i * K;

	for (int k = 0; k < K; k++)
		top = fmax(top, b->mass[k * b->capacity + i]);
	for (int k = 0; k < K; k++) {
		w[k] = exp(b->mass[k * b->capacity + i] - top);
		b->exact[i * K + k] = (float)(b->mass[k * b->capacity + i] - top);
		sum += w[k];
	}
	for (int k = 0; k < K; k++)
		w[k] /= sum;
}

static int find_weights(struct budget *b, const struct budget_route *r, int64_t i, double *w, struct err *e)
{
	struct policy_entry y = *policy_at(&r->policy, b->t);
	int K = b->p->k;
	double prob[K];
	const struct route_input in = {.k = K,
	                               .present = b->present,
	                               .logits = (r->exact_router ? b->exact : b->logits) + i * K,
	                               .shares = b->shares,
	                               .chosen = b->cluster[i],
	                               .u = rng_uniform(b->p->seed, RNG_ROUTE, 0, (uint64_t)b->index[i], 0)};

	if (r->exact_experts) {
		memcpy(w, b->best + i * K, (size_t)K * sizeof *w);
		return 0;
	}
	if (policy_entry_own(&y))
		y.weights = WEIGHT_ORACLE;
	if (route_weights(&y, &in, prob, w) >= 0)
		return 0;
	return err_set(e, ERR_FAIL, "the router's logits for state %lld at t = %g are not finite", (long long)b->index[i], b->t);
}

/* u and u* are summed independently of the two error terms, so total = expert + router + cross is a real check. */
static void split(const struct budget *b, const struct budget_route *r, int64_t i, const double *w, struct share *s, double *flow)
{
	int K = b->p->k;
	int64_t d = b->p->d;
	const double *best = b->best + i * K;
	double t = b->t;

	memset(s, 0, sizeof *s);
	*flow = 0;
	for (int64_t j = 0; j < d; j++) {
		double u = 0, star = 0, expert = 0, router = 0, x = b->x[i * d + j];

		for (int k = 0; k < K; k++) {
			double vs, v;

			if (w[k] == 0 && best[k] == 0)
				continue;
			vs = (x - b->mean[(k * b->capacity + i) * d + j]) / t;
			v = r->exact_experts || w[k] == 0 ? vs : b->v[(k * b->capacity + i) * d + j];
			u += w[k] * v;
			star += best[k] * vs;
			expert += w[k] * (v - vs);
			router += (w[k] - best[k]) * vs;
		}
		s->total += (u - star) * (u - star);
		s->expert += expert * expert;
		s->router += router * router;
		s->cross += 2 * expert * router;
		s->loss += (u - b->target[i * d + j]) * (u - b->target[i * d + j]);
		s->least += (star - b->target[i * d + j]) * (star - b->target[i * d + j]);
		*flow += star * star;
	}
}

static void row_task(void *arg, int64_t i, int worker)
{
	static const struct policy_entry full = {.from = 1, .weights = WEIGHT_ROUTER, .temperature = 1, .select = SELECT_FULL};
	struct budget *b = arg;
	int K = b->p->k;
	const struct route_input in = {.k = K, .present = b->every, .logits = b->logits + i * K};
	double w[K];

	(void)worker;
	b->bad[i].code = 0;
	find_best(b, i);
	if (b->p->router && route_weights(&full, &in, b->prob + i * K, w) < 0)
		err_set(&b->bad[i], ERR_FAIL, "the router's logits for state %lld at t = %g are not finite", (long long)b->index[i], b->t);
	for (int r = 0; r < b->p->routes && !b->bad[i].code; r++) {
		int64_t at = r * b->capacity + i;

		if (!find_weights(b, &b->p->route[r], i, b->w + at * K, &b->bad[i]))
			split(b, &b->p->route[r], i, b->w + at * K, &b->share[at], &b->flow[i]);
	}
}

static void add_routing(struct budget_routing *y, int K, const double *w, const double *best, int own)
{
	int top = 0, bin;

	for (int k = 1; k < K; k++)
		top = w[k] > w[top] ? k : top;
	bin = (int)(w[top] * BUDGET_BINS);
	bin = bin < BUDGET_BINS ? bin : BUDGET_BINS - 1;
	y->n++;
	y->right += top == own;
	/* A weight that underflowed to 0 counts as 1e-300, so that the sum stays finite. */
	y->cross_entropy -= log(fmax(w[own], 1e-300));
	y->entropy += route_entropy(K, w);
	for (int k = 0; k < K; k++)
		if (best[k] > 0)
			y->divergence += best[k] * (log(best[k]) - log(fmax(w[k], 1e-300)));
	y->confidence[bin] += w[top];
	y->hits[bin] += top == own;
}

static void add_row(struct budget *b, int64_t i)
{
	int K = b->p->k, own = b->cluster[i];

	for (int r = 0; r < b->p->routes; r++) {
		const struct share *s = &b->share[r * b->capacity + i];
		double d = (double)b->p->d;

		for (int both = 0; both < 2; both++) {
			int64_t cell = r * (1 + K) + (both ? 1 + own : 0);
			struct budget_sum *sum = &b->sum[cell];

			sum->n++;
			sum->total += s->total / d;
			sum->expert += s->expert / d;
			sum->router += s->router / d;
			sum->cross += s->cross / d;
			sum->loss += s->loss / d;
			sum->flow += b->flow[i] / d;
			sum->least += s->least / d;
			sum->total_squares += s->total * s->total / (d * d);
			sum->excess_squares += (s->loss - s->least) * (s->loss - s->least) / (d * d);
			for (int k = 0; k < K; k++)
				b->weight[cell * K + k] += b->w[(r * b->capacity + i) * K + k];
		}
	}
	if (b->p->router)
		add_routing(&b->routing[0], K, b->prob + i * K, b->best + i * K, own);
	add_routing(&b->routing[1], K, b->best + i * K, b->best + i * K, own);
}

int budget_add(struct budget *b, float t, int64_t n, const float *x, const float *target, const int32_t *cluster, const int64_t *index, struct err *e)
{
	assert(n > 0 && n <= b->capacity && t > 0);
	b->t = t;
	b->x = x;
	b->target = target;
	b->cluster = cluster;
	b->index = index;
	if (ask(b, n, e))
		return -1;
	pool_run(b->p->pool, n, row_task, b);
	for (int64_t i = 0; i < n; i++) {
		if (b->bad[i].code)
			return err_set(e, b->bad[i].code, "%s", b->bad[i].msg);
		add_row(b, i);
	}
	return 0;
}

struct budget_sum budget_sum(const struct budget *b, int route, int cluster, double *weight)
{
	int64_t cell = route * (1 + b->p->k) + (cluster == LAW_ALL ? 0 : 1 + cluster);

	if (weight)
		memcpy(weight, b->weight + cell * b->p->k, (size_t)b->p->k * sizeof *weight);
	return b->sum[cell];
}

double budget_error(double sum, double squares, int64_t n)
{
	double mean = sum / (double)n;

	return n > 1 ? sqrt(fmax(squares / (double)n - mean * mean, 0) / (double)(n - 1)) : NAN;
}

struct budget_routing budget_routing(const struct budget *b, int exact)
{
	return b->routing[exact != 0];
}

double budget_calibration(const struct budget_routing *r)
{
	double sum = 0;

	for (int i = 0; i < BUDGET_BINS; i++)
		sum += fabs(r->confidence[i] - r->hits[i]);
	return r->n ? sum / (double)r->n : 0;
}
