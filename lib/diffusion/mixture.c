/* Computes the mixture's velocity: selects the experts for each row of a batch, runs them, and sums their predictions by weight. */
#include "diffusion/mixtureimpl.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "diffusion/ondevice.h"

enum { GROUP = 4 };

int64_t mixture_columns(const struct mixture *m)
{
	return m->out ? m->out : m->d;
}

/* The path and the kind of what is mixed. */
static const struct path *path_of(const struct mixture *m)
{
	return m->own ? m->own : &path_linear;
}

static enum prediction kind_of(const struct mixture *m)
{
	return m->own ? m->kind : PREDICT_VELOCITY;
}

static int guidance_check(const struct mixture *m, struct err *e)
{
	const struct guidance *g = &m->guidance;

	if (m->cfg == 1)
		return 0;
	for (int k = 0; k < m->k; k++) {
		const struct expert *x = &m->expert[k];

		if (x->velocity && m->guide && !m->guide[k].velocity)
			return err_set(e, ERR_USAGE, "the guide has no expert %d, which the model has", k);
		if (x->velocity && !mixture_guides(m, x))
			return err_set(e, ERR_USAGE, "guidance %g needs experts that read classes, text or a first frame, and these read none",
			               m->cfg);
	}
	if (g->momentum != 0 && !g->mixed)
		return err_set(e, ERR_USAGE,
		               "guidance with a momentum needs --cfg-after-mixing: the momentum belongs to a picture, not to an expert");
	if (m->policy.entry[0].select == SELECT_BUDGET && (g->still || time_range_end(g->interval) < 1 || g->interval.from > 0))
		return err_set(e, ERR_USAGE, "route budget is not possible with guidance at a part of the steps: it shares out equal costs");
	if (policy_uses(&m->policy, WEIGHT_DISTANCE) && g->still)
		return err_set(e, ERR_USAGE, "weights by distance are not possible with steps of velocity 0, which predict no sample: use zero:0");
	return 0;
}

static int mixture_check(const struct mixture *m, struct err *e)
{
	const struct policy *p = &m->policy;
	unsigned char present[m->k];
	int any = 0;

	for (int k = 0; k < m->k; k++) {
		present[k] = m->expert[k].velocity != NULL;
		any |= present[k];
	}
	if (!any)
		return err_set(e, ERR_USAGE, "the model has no expert");
	if (policy_check(p, m->k, present, e) || owners_check(&m->owners, m->k, present, p, e))
		return -1;
	if (owners_weigh(&m->owners, m->k, present, p, WEIGHT_ROUTER) && !m->router)
		return err_set(e, ERR_USAGE,
		               "this route needs a router, and the model has none; oracle, prior, uniform|SELECTION and expert:I need none");
	if (owners_weigh(&m->owners, m->k, present, p, WEIGHT_PRIOR) && !m->shares && !m->class_shares)
		return err_set(e, ERR_USAGE, "route prior needs the sizes of the clusters, and no config.json of the model has them");
	if (policy_uses(p, WEIGHT_DISTANCE) && m->own)
		return err_set(e, ERR_USAGE, "weights by distance need a flow solver: euler or another on the linear path");
	if (policy_uses(p, WEIGHT_DISTANCE) && !m->distances)
		return err_set(e, ERR_USAGE, "weights by distance need the centroids of the clusters");
	if (policy_uses(p, WEIGHT_UNCERTAINTY) && !m->uncertainty)
		return err_set(e, ERR_USAGE, "weights by uncertainty need the learned uncertainties of the experts");
	if (policy_uses(p, WEIGHT_CONFIDENCE) && m->owners.expert)
		return err_set(e, ERR_USAGE, "weights by confidence need experts for all times, and those of this model are for different times");
	if (policy_uses(p, WEIGHT_CONFIDENCE) && !m->confidence)
		return err_set(e, ERR_USAGE, "weights by confidence need the measured losses of the experts");
	return mixture_check_density(m, e) || guidance_check(m, e) ? -1 : 0;
}

struct text_sizes mixture_texts(const struct mixture *m)
{
	struct text_sizes s = {0};

	for (int k = 0; k < m->k; k++) {
		const struct expert *ex = &m->expert[k];

		if (ex->velocity && ex->first_frame)
			s.first_frame = ex->first_frame;
		if (!ex->velocity || !ex->text_tokens)
			continue;
		assert(!s.tokens || (s.tokens == ex->text_tokens && s.width == ex->text_width));
		assert(!s.pooled || !ex->pooled_width || s.pooled == ex->pooled_width);
		s.tokens = ex->text_tokens;
		s.width = ex->text_width;
		s.pooled = ex->pooled_width ? ex->pooled_width : s.pooled;
	}
	return s;
}

static int alloc_text(struct mixer *x, struct err *e)
{
	struct device *dev = x->device;
	struct text_sizes s = mixture_texts(x->m);

	x->pooled_width = s.pooled;
	if (s.pooled && !(x->pooled = dev->alloc(dev, (size_t)(x->chunk * s.pooled) * sizeof *x->pooled, "gathered texts", e)))
		return -1;
	if (s.first_frame && !(x->first = dev->alloc(dev, (size_t)(x->chunk * s.first_frame) * sizeof *x->first, "gathered first frames", e)))
		return -1;
	return !s.tokens || ((x->text = dev->alloc(dev, (size_t)(x->chunk * s.tokens * s.width) * sizeof *x->text, "gathered texts", e)) &&
	                     (x->mask = dev->alloc(dev, (size_t)(x->chunk * s.tokens) * sizeof *x->mask, "gathered texts", e)))
	           ? 0
	           : -1;
}

static int mixer_alloc(struct mixer *x, struct err *e)
{
	const struct mixture *m = x->m;
	struct device *dev = x->device;
	size_t n = (size_t)x->capacity, c = (size_t)x->chunk, k = (size_t)m->k, clusters = (size_t)mixture_clusters(m), d = (size_t)m->d;

	x->present = mem_zalloc(k, 1);
	x->order = mem_zalloc(k, sizeof *x->order);
	x->cost = mem_zalloc(k, sizeof *x->cost);
	x->inverse = mem_zalloc(k, sizeof *x->inverse);
	x->spent = mem_zalloc(n, sizeof *x->spent);
	x->entropy = mem_zalloc(n, sizeof *x->entropy);
	mixture_costs(m, x->cost);
	for (size_t i = 0; i < k; i++)
		x->present[i] = m->expert[i].velocity != NULL;
	if (!(x->logits = mem_try(n * clusters, sizeof *x->logits, "router logits", e)) ||
	    !(x->prob = mem_try(n * k, sizeof *x->prob, "router weights", e)) || !(x->w = mem_try(n * k, sizeof *x->w, "router weights", e)) ||
	    !(x->heaviest = mem_try(n, sizeof *x->heaviest, "routing", e)) || !(x->begun = mem_try(n, 1, "routing", e)) ||
	    !(x->label = mem_try(c, sizeof *x->label, "labels", e)) || !(x->t = mem_try(n > c ? n : c, sizeof *x->t, "times", e)) ||
	    !(x->group = mem_try(GROUP * c, sizeof *x->group, "routing", e)) ||
	    !(x->group_there = dev->alloc(dev, GROUP * c * sizeof *x->group_there, "routing", e)) ||
	    !(x->out = dev->alloc(dev, n * clusters * sizeof *x->out, "router logits", e)) ||
	    !(x->x = dev->alloc(dev, c * d * sizeof *x->x, "gathered samples", e)) ||
	    !(x->v = dev->alloc(dev, c * (size_t)mixture_columns(m) * sizeof *x->v, "gathered velocities", e)) ||
	    (m->cfg != 1 && m->guidance.mixed && !(x->u = dev->alloc(dev, n * (size_t)mixture_columns(m) * sizeof *x->u, "guidance", e))) ||
	    (m->cfg != 1 && m->guidance.momentum != 0 && !(x->momentum = dev->alloc(dev, n * d * sizeof *x->momentum, "guidance", e))) ||
	    (m->own && (m->router || m->uncertainty) && !(x->routed = dev->alloc(dev, n * d * sizeof *x->routed, "the router's input", e))))
		return -1;
	if (policy_uses(&m->policy, WEIGHT_DISTANCE) &&
	    (!(x->x0 = mem_try(n * d, sizeof *x->x0, "predicted samples", e)) || !(x->host_v = mem_try(n * d, sizeof *x->host_v, "velocities", e)) ||
	     !(x->squared = mem_try(n * clusters, sizeof *x->squared, "distances", e))))
		return -1;
	return mixer_alloc_density(x, e) || alloc_text(x, e) || mixer_alloc_ranks(x, e) ? -1 : 0;
}

/* Most rows of a call of expert k that are guided together: with a guide, rows of each network; else an expert has each row twice. */
static int64_t group_limit(const struct mixture *m, int k, int guided)
{
	const struct expert *x = &m->expert[k];

	if (m->cfg != 1 && m->guide)
		return x->capacity < m->guide[k].capacity ? x->capacity : m->guide[k].capacity;
	return guided && mixture_pairs(m, x) ? x->capacity / 2 : x->capacity;
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
		int64_t most, chunk;

		if (!ex->velocity)
			continue;
		most = group_limit(m, k, 0);
		chunk = capacity * (1 + mixture_pairs(m, ex));
		chunk = (chunk < most ? chunk : most) * (1 + (m->cfg != 1 && m->guide));
		x->chunk = x->chunk < chunk ? chunk : x->chunk;
		assert(most >= 1 + mixture_pairs(m, ex));
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
	void *const there[] = {x->group_there, x->out, x->x, x->v, x->u, x->momentum, x->routed, x->text, x->mask, x->pooled, x->first};

	mem_free(x->present);
	mem_free(x->order);
	mem_free(x->logits);
	mem_free(x->prob);
	mem_free(x->w);
	mem_free(x->heaviest);
	mem_free(x->begun);
	mem_free(x->cost);
	mem_free(x->inverse);
	mem_free(x->x0);
	mem_free(x->host_v);
	mem_free(x->squared);
	mixer_free_density(x);
	mixer_free_ranks(x);
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

/* Copies index, begun and weights of the n rows in x->group to the device, and marks the rows as begun if they are `mixed`. */
static struct group_rows send_group(struct mixer *x, int k, int64_t n, int mixed)
{
	int32_t *row = x->group, *begun = row + n;
	float *w = (float *)(void *)(begun + n);
	struct group_rows there = {x->group_there, x->group_there + n, (float *)(void *)(x->group_there + 2 * n)};

	for (int64_t i = 0; i < n; i++) {
		begun[i] = x->begun[row[i]];
		x->begun[row[i]] |= mixed != 0;
		w[i] = (float)x->w[row[i] * x->m->k + k];
	}
	device_put(x->device, x->group_there, x->group, (size_t)(3 * n) * sizeof *x->group);
	return there;
}

/* Copies which[row] of the n rows in x->group to the device, behind what send_group put there; without `which`, zeros. */
static const int32_t *send_rows(struct mixer *x, const int32_t *which, int64_t n)
{
	int32_t *row = x->group + 3 * n, *there = x->group_there + 3 * n;

	for (int64_t i = 0; i < n; i++)
		row[i] = which ? which[x->group[i]] : 0;
	device_put(x->device, there, row, (size_t)n * sizeof *row);
	return there;
}

/* Gathers the first frames of the n rows in x->group, or nothing as the first frame, into the rows from `at` on of the expert's input. */
static void gather_first(struct mixer *x, const struct mixture_call *c, const struct expert *ex, int none, int64_t n, int64_t at)
{
	ondevice_gather(x->device, x->first + at * ex->first_frame, c->texts->first, send_rows(x, none ? NULL : c->first, n), n, c->texts->firsts,
	                ex->first_frame);
}

/* Gathers the texts which[row] of the n rows in x->group, prompts or negative prompts, into the rows from `at` on of the expert's text input. Call
 * after send_group. */
static void gather_texts(struct mixer *x, const struct mixture_call *c, const struct expert *ex, const int32_t *which, int64_t n, int64_t at)
{
	int64_t width = ex->text_tokens * ex->text_width;
	const int32_t *there = send_rows(x, which, n);

	ondevice_gather(x->device, x->text + at * width, c->texts->features, there, n, c->texts->rows, width);
	if (c->texts->mask)
		ondevice_gather(x->device, x->mask + at * ex->text_tokens, c->texts->mask, there, n, c->texts->rows, ex->text_tokens);
	if (x->pooled)
		ondevice_gather(x->device, x->pooled + at * x->pooled_width, c->texts->pooled, there, n, c->texts->rows, x->pooled_width);
}

/* The columns that are guided; the others are the conditional output alone. */
static int64_t guided_columns(const struct mixture *m)
{
	return m->guided ? m->guided : m->d;
}

/* The predictions c and u (n, columns) at the samples s (n, d) of a call, to guide. */
static struct guidance_rows rows_of(const struct mixer *x, int64_t n, const float *s, float *c, float *u)
{
	const struct mixture *m = x->m;

	return (struct guidance_rows){.n = n,
	                              .cols = guided_columns(m),
	                              .step = mixture_columns(m),
	                              .x = s,
	                              .c = c,
	                              .u = u,
	                              .momentum = x->momentum,
	                              .d = m->d,
	                              .moved = x->moved,
	                              .kind = kind_of(m)};
}

/* Guides the rows, or with `still` makes their velocity 0. Row i is row[i] of the call; NULL: row i. Rows of one time after the other go together. */
static void guide(const struct mixer *x, const struct mixture_call *call, const int32_t *row, const struct guidance_rows *all, int still)
{
	const struct mixture *m = x->m;

	for (int64_t i = 0, end; i < all->n; i = end) {
		struct guidance_rows r = *all;
		double t = mixture_time(call, row ? row[i] : i);

		for (end = call->times ? i + 1 : all->n; end < all->n && mixture_time(call, row ? row[end] : end) == t;)
			end++;
		r.n = end - i;
		r.x += i * r.d;
		r.c += i * r.step;
		r.u = r.u ? r.u + i * r.step : NULL;
		r.momentum = r.momentum ? r.momentum + i * r.d : NULL;
		r.at = path_at(path_of(m), t);
		if (still)
			guidance_still(x->device, &r);
		else
			guidance_run(x->device, &m->guidance, m->cfg, &r);
	}
}

/* Adds the outputs of expert k, guided. x->v holds those with the condition, and with_u those to lead away from after them. */
static void mix(struct mixer *x, float *v, const struct mixture_call *c, int k, const struct group_rows *there, int64_t n, int with_u)
{
	const struct mixture *m = x->m;
	int64_t cols = mixture_columns(m), few;

	if (with_u && m->guidance.mixed) {
		ondevice_mix(x->device, x->u, c->n, x->v + n * cols, NULL, 1, there, n, cols, cols);
		with_u = 0;
	} else if (with_u && !guidance_is_linear(&m->guidance)) {
		struct guidance_rows r = rows_of(x, n, x->x, x->v, x->v + n * cols);

		r.native = m->native ? &m->native[k] : NULL;
		guide(x, c, x->group, &r, 0);
		with_u = 0;
	}
	few = with_u ? guided_columns(m) : cols;
	ondevice_mix(x->device, v, c->n, x->v, with_u ? x->v + n * cols : NULL, (double)(float)m->cfg, there, n, few, cols);
	if (few < cols)
		ondevice_mix(x->device, v + few, c->n, x->v + few, NULL, 1, there, n, cols - few, cols);
}

/* Rows of a group's call of its expert: n rows with their labels and prompts, and where the expert guides itself the same n rows again with the null
 * label, the negative prompts and, if it can do without, no first frame. */
static int64_t rows_asked(const struct mixer *x, int k, int64_t n, int mixed)
{
	return mixed && x->guided && mixture_pairs(x->m, &x->m->expert[k]) ? 2 * n : n;
}

/* Whether a guide runs after the expert, on the first n rows. */
static int by_guide(const struct mixer *x, int mixed)
{
	return mixed && x->guided && x->m->guide;
}

int mixer_has_branches(const struct mixer *x, int k, int mixed)
{
	return rows_asked(x, k, 1, mixed) > 1 || by_guide(x, mixed);
}

int64_t mixer_predicted(const struct mixer *x, int k, int64_t n, int mixed, enum branch branch)
{
	return (branch == BRANCH_BOTH && mixer_has_branches(x, k, mixed) ? 2 * n : n) * mixture_columns(x->m);
}

/* Computes x->v. index: x->group on the device. */
static int predict(struct mixer *x, const struct mixture_call *c, int k, int64_t n, int mixed, enum branch branch, const int32_t *index,
                   struct err *e)
{
	const struct mixture *m = x->m;
	const struct expert *ex = &m->expert[k];
	int guide = by_guide(x, mixed) && branch != BRANCH_GIVEN;
	int64_t from = branch == BRANCH_AWAY && !guide ? n : 0, rows = branch == BRANCH_BOTH ? rows_asked(x, k, n, mixed) : n;
	struct condition given = {.label = ex->classes ? x->label : NULL};
	float *v = x->v;

	for (int64_t i = 0; i < rows; i++) {
		int64_t row = x->group[i % n];

		x->t[i] = (float)mixture_time(c, row);
		x->label[i] = c->label && c->label[row] >= 0 && from + i < n ? c->label[row] : ex->classes;
	}
	for (int64_t i = 0; i < rows; i += n)
		ondevice_gather(x->device, x->x + i * m->d, c->x, index, n, c->n, m->d);
	if (ex->text_tokens) {
		for (int64_t i = 0; i < rows; i += n)
			gather_texts(x, c, ex, from + i ? c->negative : c->text, n, i);
		given.text = x->text;
		given.mask = c->texts->mask ? x->mask : NULL;
		given.pooled = x->pooled;
	}
	if (ex->first_frame && c->first) {
		for (int64_t i = 0; i < rows; i += n)
			gather_first(x, c, ex, ex->without_first && from + i > 0, n, i);
		given.first = x->first;
	}
	if (!guide || branch == BRANCH_BOTH) {
		if (ex->velocity(ex->arg, rows, x->x, x->t, &given, v, e))
			return -1;
		v += n * mixture_columns(m);
	}
	return guide ? m->guide[k].velocity(m->guide[k].arg, n, x->x, x->t, &given, v, e) : 0;
}

int mixer_predict(struct mixer *x, const struct mixture_call *c, int k, int64_t n, int mixed, enum branch branch, struct err *e)
{
	device_put(x->device, x->group_there, x->group, (size_t)n * sizeof *x->group);
	return predict(x, c, k, n, mixed, branch, x->group_there, e);
}

/* Runs expert k on the n rows in x->group, or takes what its rank predicted, and adds w v to them. The first contribution is stored instead of added
 * to 0, so a single expert of weight 1 keeps its bits. Rows that are not `mixed`, whose weight is 0, run without guidance and for their density
 * alone. */
static int mix_group(struct mixer *x, float *v, const struct mixture_call *c, int k, int64_t n, int mixed, struct err *e)
{
	struct group_rows there = send_group(x, k, n, mixed);

	if (x->ranks) {
		ondevice_gather(x->device, x->x, c->x, there.index, n, c->n, x->m->d);
		mixer_take(x, k, n, mixed);
	} else if (predict(x, c, k, n, mixed, BRANCH_BOTH, there.index, e)) {
		return -1;
	}
	if (x->following)
		mixer_keep_own(x, k, n);
	if (mixed)
		mix(x, v, c, k, &there, n, mixer_has_branches(x, k, mixed));
	return 0;
}

static int run_group(struct mixer *x, const struct mixture_call *c, int k, int64_t n, int mixed, void *v, struct err *e)
{
	int rc;

	device_range_number(x->device, "expert", k);
	rc = mix_group(x, v, c, k, n, mixed, e);
	device_range_end(x->device);
	return rc;
}

int mixer_groups(struct mixer *x, const struct mixture_call *c, int k, int mixed, mixer_group_fn *fn, void *arg, struct err *e)
{
	const struct mixture *m = x->m;
	int64_t limit = group_limit(m, k, mixed && x->guided), n = 0;

	for (int64_t i = 0; i < c->n; i++) {
		double w = x->w[i * m->k + k];

		if (mixed ? w == 0 : w != 0 || !mixer_needs(x, i, k))
			continue;
		x->group[n++] = (int32_t)i;
		if (n == limit) {
			if (fn(x, c, k, n, mixed, arg, e))
				return -1;
			n = 0;
		}
	}
	return n ? fn(x, c, k, n, mixed, arg, e) : 0;
}

/* A product with the Jacobian costs a forward and a backward pass, which is about twice as long. */
enum { PULLED_ROWS = 3 };

static void count_weights(const struct mixer *x, const struct mixture_call *c, struct mixture_stats *s)
{
	int k = x->m->k;

	s->evaluations += c->n;
	for (int64_t i = 0; i < c->n; i++)
		for (int j = 0; j < k; j++) {
			double w = x->w[i * k + j];

			s->rows[j] += mixer_probes(x, i, j) ? PULLED_ROWS : 0;
			if (w == 0) {
				s->rows[j] += mixer_needs(x, i, j);
				continue;
			}
			s->used++;
			s->mass[j] += llrint(w * MIXTURE_UNIT);
			s->rows[j] += 1 + (x->guided && mixture_pairs(x->m, &x->m->expert[j]));
			s->guide_rows[j] += x->guided && x->m->guide;
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
			if (x->w[i * k + j] != 0 || mixer_needs(x, i, j)) {
				x->order[used++] = j;
				break;
			}
	x->tell(x->tell_arg, x->order, used);
}

/* Sets whether this call is guided. A momentum starts anew with a trajectory. */
static void begin_guidance(struct mixer *x, const struct mixture_call *c)
{
	const struct mixture *m = x->m;

	x->guided = m->cfg != 1 && guidance_holds(&m->guidance, c->step, mixture_linear_time(m, c->t));
	x->moved = x->moved && c->evaluation;
}

/* What of guidance follows the mixing. */
static void end_guidance(struct mixer *x, float *v, const struct mixture_call *c)
{
	const struct mixture *m = x->m;
	const struct guidance_rows r = rows_of(x, c->n, c->x, v, x->u);

	if (x->guided && m->guidance.mixed) {
		guide(x, c, NULL, &r, 0);
		x->moved = x->momentum != NULL;
	}
	if (m->cfg != 1 && guidance_stills(&m->guidance, c->step, mixture_linear_time(m, c->t)))
		guide(x, c, NULL, &r, 1);
}

int mixer_velocity(struct mixer *x, float *v, const struct mixture_call *c, struct mixture_stats *stats, struct err *e)
{
	const struct mixture *m = x->m;

	assert(c->n <= x->capacity && !(c->times && m->own));
	begin_guidance(x, c);
	mixer_follow(x, c);
	if (mixer_route(x, c, stats, e))
		return -1;
	if (x->tell)
		tell_order(x, c->n);
	if (x->ranks && mixer_ask_ranks(x, c, e))
		return -1;
	memset(x->begun, 0, (size_t)c->n);
	for (int k = 0; k < m->k; k++)
		if (mixer_groups(x, c, k, 1, run_group, v, e) || (x->following && mixer_groups(x, c, k, 0, run_group, v, e)))
			return -1;
	end_guidance(x, v, c);
	if (stats)
		count_weights(x, c, stats);
	if (x->following && mixer_keep_mixed(x, v, c->n, e))
		return -1;
	if (x->flowing && mixer_find_rates(x, v, c, e))
		return -1;
	return x->x0 ? mixer_keep_prediction(x, v, c, e) : 0;
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
	double flop = (m->router ? (double)s->router_rows * m->router->flops : 0) +
	              (m->uncertainty ? (double)s->uncertainty_rows * m->uncertainty->flops : 0) + (double)s->distance_rows * m->distances_flops;

	for (int k = 0; k < m->k; k++)
		flop += (double)s->rows[k] * m->expert[k].flops + (m->guide ? (double)s->guide_rows[k] * m->guide[k].flops : 0);
	return flop * 1e-9;
}
