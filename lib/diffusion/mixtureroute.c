/* Computes the weights of a mixture's experts for the rows of a batch: asks the router, keeps budgets, measures distances. */
#include "diffusion/mixtureimpl.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "diffusion/ondevice.h"

int mixture_clusters(const struct mixture *m)
{
	return m->clusters ? m->clusters : m->k;
}

int mixture_guides(const struct mixture *m, const struct expert *x)
{
	return m->cfg != 1 && (m->guide || x->classes > 0 || x->text_tokens > 0 || x->without_first);
}

int mixture_pairs(const struct mixture *m, const struct expert *x)
{
	return mixture_guides(m, x) && !m->guide;
}

void mixture_costs(const struct mixture *m, double *cost)
{
	for (int k = 0; k < m->k; k++)
		cost[k] =
		    !m->expert[k].velocity
			? 0
			: 1e-9 * (m->expert[k].flops * (1 + mixture_pairs(m, &m->expert[k])) + (m->cfg != 1 && m->guide ? m->guide[k].flops : 0));
}

/* What an entry asks for logits: the router, the experts' uncertainties, or nothing. */
static const struct router *asked(const struct mixture *m, const struct policy_entry *y)
{
	return route_asks_router(y) ? m->router : route_asks_uncertainty(y) ? m->uncertainty : NULL;
}

/* GFLOP of an entry's weights at one evaluation. */
static double weights_gflop(const struct mixture *m, const struct policy_entry *y)
{
	const struct router *r = asked(m, y);

	return r ? 1e-9 * r->flops : 0;
}

double mixture_least_gflop(const struct mixture *m, int64_t evaluations)
{
	unsigned char present[m->k];
	double cost[m->k];

	mixture_costs(m, cost);
	for (int k = 0; k < m->k; k++)
		present[k] = m->expert[k].velocity != NULL;
	return (double)evaluations * (weights_gflop(m, &m->policy.entry[0]) + route_dearest(m->k, cost, present));
}

/* Adds the entropies of the call's weights to sum (steps), and their number to rows (steps). */
static void count_entropy(const struct mixer *x, const struct mixture_call *c, int64_t steps, int64_t *sum, int64_t *rows)
{
	int k = x->m->k;

	if (c->stage || c->step >= steps)
		return;
	for (int64_t i = 0; i < c->n; i++)
		sum[c->step] += llrint(route_entropy(k, x->prob + i * k) * MIXTURE_UNIT);
	rows[c->step] += c->n;
}

static int router_logits(struct mixer *x, const struct router *r, int64_t n, const float *rows, float *out, struct err *e)
{
	int rc;

	device_range(x->device, "router");
	rc = r->logits(r->arg, n, rows, x->t, out, e);
	device_range_end(x->device);
	return rc;
}

double mixture_linear_time(const struct mixture *m, double t)
{
	return m->own ? path_time(&path_linear, path_at(m->own, t).logsnr) : t;
}

double mixture_time(const struct mixture_call *c, int64_t i)
{
	return c->times ? c->times[i] : c->t;
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

/* Reports non-finite logits at time t. The router is blamed only if its input was finite. */
static int not_routed(struct mixer *x, const struct policy_entry *y, double t, const float *image, uint64_t index, struct err *e)
{
	float *host = mem_alloc((size_t)x->m->d * sizeof *host);
	int finite = 1;

	device_get(x->device, host, image, (size_t)x->m->d * sizeof *host);
	for (int64_t i = 0; i < x->m->d; i++)
		finite &= isfinite(host[i]) != 0;
	mem_free(host);
	return err_set(e, ERR_FAIL,
	               finite && y->weights == WEIGHT_UNCERTAINTY ? "the experts' uncertainties for image %llu at t = %g are not finite"
	               : finite                                   ? "the router's logits for image %llu at t = %g are not finite"
	                        : "image %llu is not finite at t = %g: what an expert predicted for it before was not",
	               (unsigned long long)index, t);
}

/* Fills x->logits by r for the rows `at` of the linear path at time t, or at the rows' own times. */
static int ask_router(struct mixer *x, const struct router *r, const struct mixture_call *c, const float *at, double t, struct err *e)
{
	const struct mixture *m = x->m;
	int64_t n = c->n;
	int k = mixture_clusters(m);

	for (int64_t i = 0; i < n; i++)
		x->t[i] = (float)(c->times ? c->times[i] : t);
	for (int64_t i = 0; i < n; i += r->capacity) {
		int64_t rows = n - i < r->capacity ? n - i : r->capacity;

		if (router_logits(x, r, rows, at + i * m->d, x->out + i * k, e))
			return -1;
	}
	device_get(x->device, x->logits, x->out, (size_t)(n * k) * sizeof *x->logits);
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

const double *mixture_shares(const struct mixture *m, const struct mixture_call *c, int64_t i)
{
	int32_t label = c->label ? c->label[i] : -1;

	return m->class_shares && label >= 0 && label < m->classes ? m->class_shares + (int64_t)label * mixture_clusters(m) : m->shares;
}

/* Reports a row without weights. */
static int no_weights(struct mixer *x, const struct policy_entry *y, const struct mixture_call *c, const float *at, int64_t i, struct err *e)
{
	if (y->weights == WEIGHT_ROUTER || y->weights == WEIGHT_UNCERTAINTY)
		return not_routed(x, y, mixture_time(c, i), at + i * x->m->d, index_of(c, i), e);
	if (y->weights == WEIGHT_DISTANCE)
		return err_set(e, ERR_FAIL, "image %llu: the sample predicted before t = %g has no finite distance to the centroids",
		               (unsigned long long)index_of(c, i), c->t);
	if (y->weights == WEIGHT_DENSITY && c->evaluation > 0)
		return err_set(e, ERR_FAIL, "image %llu: the densities of the experts before t = %g are not finite",
		               (unsigned long long)index_of(c, i), c->t);
	if (y->weights == WEIGHT_PRIOR || y->weights == WEIGHT_DENSITY)
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

/* The experts of an evaluation's time, when experts own ranges of times. */
struct owning {
	int n;             /* 0: every expert is for all times */
	const int *expert; /* (n) */
};

/* Fills the weights of row i from those of the owners of the time. route_weights sees only the owners: column j of its inputs is owner j. */
static int route_owners(struct mixer *x, const struct policy_entry *y, const struct owning *own, const struct route_input *all,
                        const unsigned char *used, int64_t i)
{
	const struct owner *owner = x->m->owners.expert;
	int n = own->n, k = x->m->k, best;
	unsigned char present[n], kept[n];
	double shares[n], distance[n], prob[n], w[n];
	float logits[n];
	struct route_input in = {.k = n, .present = present, .logits = logits, .chosen = n == 1 ? 0 : -1, .u = all->u};

	for (int j = 0; j < n; j++) {
		int cluster = owner[own->expert[j]].cluster;

		present[j] = 1;
		kept[j] = 0;
		for (int q = 0; used && q < k; q++)
			kept[j] |= used[q] && (q == own->expert[j] || (cluster >= 0 && owner[q].cluster == cluster));
		logits[j] = n > 1 && cluster >= 0 && y->weights == WEIGHT_ROUTER ? all->logits[cluster] : 0;
		shares[j] = n > 1 && cluster >= 0 && all->shares ? all->shares[cluster] : 1;
		distance[j] = n > 1 && cluster >= 0 && all->distance ? all->distance[cluster] : 0;
		in.chosen = n > 1 && cluster >= 0 && cluster == all->chosen ? j : in.chosen;
	}
	in.shares = all->shares || n == 1 ? shares : NULL;
	in.distance = all->distance ? distance : NULL;
	in.kept = used ? kept : NULL;
	best = route_weights(y, &in, prob, w);
	memset(x->prob + i * k, 0, (size_t)k * sizeof *x->prob);
	memset(x->w + i * k, 0, (size_t)k * sizeof *x->w);
	for (int j = 0; j < n && best >= 0; j++) {
		x->prob[i * k + own->expert[j]] = prob[j];
		x->w[i * k + own->expert[j]] = w[j];
	}
	return best < 0 ? -1 : own->expert[best];
}

/* Fills the weights of row i. Returns its heaviest expert, or -1. */
static int route_row(struct mixer *x, const struct policy_entry *y, const struct owning *own, const struct mixture_call *c, int measured, int64_t i)
{
	const struct mixture *m = x->m;
	int k = m->k, clusters = mixture_clusters(m), best;
	unsigned char kept[k];
	struct route_input in = {.k = k,
	                         .present = x->present,
	                         .logits = x->logits + i * clusters,
	                         .shares = mixture_shares(m, c, i),
	                         .chosen = c->chosen ? c->chosen[i] : -1,
	                         .distance = measured ? x->squared + i * clusters : NULL,
	                         .density = x->density ? x->density + i * k : NULL,
	                         .confidence = x->inverse,
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
	if (own->n && y->select != SELECT_EXPERT)
		return route_owners(x, y, own, &in, in.kept, i);
	best = route_weights(y, &in, x->prob + i * k, x->w + i * k);
	if (best >= 0 && in.budget)
		spend(x, in.budget, i);
	return best;
}

int mixer_alike(const struct mixer *x, double t, double u)
{
	const struct mixture *m = x->m;
	struct time_range guided = m->guidance.interval;
	int a[m->k], b[m->k], n;

	if (t == u)
		return 1;
	if (policy_at(&m->policy, t) != policy_at(&m->policy, u) || (m->cfg != 1 && time_range_holds(guided, t) != time_range_holds(guided, u)))
		return 0;
	if (!m->owners.expert)
		return 1;
	n = owners_at(&m->owners, m->k, x->present, owners_time(&m->owners, t), a);
	return owners_at(&m->owners, m->k, x->present, owners_time(&m->owners, u), b) == n && !memcmp(a, b, (size_t)n * sizeof *a);
}

int mixer_route(struct mixer *x, const struct mixture_call *c, struct mixture_stats *s, struct err *e)
{
	const struct mixture *m = x->m;
	double t = mixture_linear_time(m, c->t);
	const struct policy_entry *y = policy_at(&m->policy, t);
	const struct router *r = asked(m, y);
	const float *at = NULL;
	int owner[m->k], measured = y->weights == WEIGHT_DISTANCE && y->select != SELECT_EXPERT && c->evaluation > 0;
	struct owning own = {0, owner};

	if (m->owners.expert)
		own.n = owners_at(&m->owners, m->k, x->present, m->own ? c->t : owners_time(&m->owners, c->t), owner);
	if (r && own.n != 1) {
		at = linear_rows(x, c, t);
		if (ask_router(x, r, c, at, t, e))
			return -1;
	}
	if (measured && own.n != 1 && m->distances(m->distances_arg, x->squared, x->x0, c->n, e))
		return -1;
	for (int64_t i = 0; i < c->n; i++) {
		if (y->weights == WEIGHT_CONFIDENCE && m->confidence && (i == 0 || c->times))
			confidence_at(m->confidence, c->times ? c->times[i] : t, x->inverse);
		x->heaviest[i] = route_row(x, y, &own, c, measured, i);
		if (x->heaviest[i] < 0)
			return no_weights(x, y, c, at, i, e);
	}
	if (s && measured && own.n != 1)
		s->distance_rows += c->n;
	if (s && at && r != m->router)
		s->uncertainty_rows += c->n;
	if (s && at && r == m->router) {
		s->router_rows += c->n;
		count_entropy(x, c, s->steps, s->entropy, s->entropy_rows);
	}
	if (s && y->weights == WEIGHT_DENSITY && y->select != SELECT_EXPERT)
		count_entropy(x, c, s->steps, s->density_entropy, s->density_rows);
	return 0;
}

int mixer_keep_prediction(struct mixer *x, const float *v, const struct mixture_call *c, struct err *e)
{
	int64_t d = x->m->d;
	size_t count = (size_t)(c->n * d);

	device_get(x->device, x->x0, c->x, count * sizeof *x->x0);
	device_get(x->device, x->host_v, v, count * sizeof *x->host_v);
	for (int64_t i = 0; i < c->n * d; i++)
		x->x0[i] = (float)(x->x0[i] - mixture_time(c, i / d) * x->host_v[i]);
	return x->device->error(x->device, e);
}
