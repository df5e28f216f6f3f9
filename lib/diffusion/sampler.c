/* Draws the initial noise, and runs a solver on a batch. */
#include "diffusion/sampler.h"

#include <assert.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "core/torchrng.h"
#include "diffusion/dopri5.h"
#include "diffusion/rankorder.h"

/* The arrays of numbers that say something of the rows of a call: label, chosen, text, negative, first. */
enum { ROW_NUMBERS = 5 };

struct sampler_state {
	const struct sampler *s;
	struct mixer *mixer;
	struct device *device;
	float *x, *work;           /* (batch, d), and the solver's work space; on the device, like keys */
	struct discrete_plan plan; /* of a discrete-time solver */
	const struct sampler_call *now;
	struct run_keys *keys; /* of the noise */
	struct torch_rng rng;  /* PyTorch's noise: if started, seeded with rng_seed, with `drawn` images taken */
	uint64_t rng_seed;
	int64_t drawn;
	int started;
	float *noise;                  /* (d), on the host */
	struct torch_rng *after;       /* (batch) generators of the steps' noise, used in the first row of a run (follows); NULL: unused */
	struct texts texts;            /* texts of the current call, on the device */
	int64_t text_rows, first_rows; /* rows allocated in texts */
	struct mixture_call call;
	struct mixture_stats *stats;
	int32_t *heaviest; /* (batch) with dopri5, else NULL: the mixer has them */
	struct {           /* (batch) with dopri5: what a call says of its rows */
		int64_t *index;
		uint64_t *seed;
		int32_t *label, *chosen, *text, *negative, *first;
	} row;
	int follows, flows; /* the mixer is told the steps with noise, or those of the flow, for weights by density */
};

static int64_t columns(const struct sampler *s)
{
	return s->mixture->out ? s->mixture->out : s->mixture->d;
}

static int make_plan(struct sampler_state *st, struct err *e)
{
	const struct sampler *s = st->s;

	return s->discrete ? discrete_plan_make(&st->plan, s->discrete, s->solver.steps, s->schedule, s->kind, columns(s) >= 2 * s->mixture->d, e)
	                   : 0;
}

static int allocate(struct sampler_state *st, struct err *e)
{
	const struct sampler *s = st->s;
	struct device *d = st->device;
	int64_t count = s->batch * s->mixture->d;
	int64_t work = s->discrete ? discrete_work(s->batch, s->mixture->d, columns(s)) : solver_work(&s->solver, count);

	return (st->x = d->alloc(d, (size_t)count * sizeof *st->x, "samples", e)) &&
	               (st->work = d->alloc(d, (size_t)work * sizeof *st->work, "solver", e)) &&
	               (st->keys = d->alloc(d, sizeof *st->keys, "keys of the noise", e))
	           ? 0
	           : -1;
}

/* A budget must pay one expert at every evaluation. */
static int check_budget(const struct sampler *s, struct err *e)
{
	const struct policy_entry *y = &s->mixture->policy.entry[0];
	double least = mixture_least_gflop(s->mixture, sampler_evaluations(s));

	if (y->select != SELECT_BUDGET || y->number >= least * (1 - 1e-9))
		return 0;
	return err_set(e, ERR_USAGE, "route budget:%.10g: %lld evaluations with one expert each take %.10g GFLOP a picture", y->number,
	               (long long)sampler_evaluations(s), least);
}

static int is_adaptive(const struct sampler *s)
{
	return !s->discrete && s->solver.kind == SOLVER_DOPRI5;
}

/* The error control of dopri5 needs a velocity that depends on x and t alone. */
static int check_adaptive(const struct sampler *s, struct err *e)
{
	const struct policy *p = &s->mixture->policy;
	const char *what = NULL;

	for (int i = 0; i < p->entries && is_adaptive(s); i++) {
		const struct policy_entry *y = &p->entry[i];

		if (y->select == SELECT_BUDGET)
			what = "a budget";
		else if (y->weights == WEIGHT_DISTANCE)
			what = "weights by distance";
		else if (y->keep > 0)
			what = "keep";
		else if (y->select == SELECT_SAMPLE &&
		         (y->weights == WEIGHT_ROUTER || y->weights == WEIGHT_CONFIDENCE || y->weights == WEIGHT_UNCERTAINTY))
			what = "an expert drawn at every evaluation";
	}
	return what
	           ? err_set(e, ERR_USAGE, "dopri5 is not possible with a route of %s: its steps need a velocity that depends on x and t alone", what)
	           : 0;
}

/* A momentum is a state of the trajectory that changes once a step, and steps of velocity 0 are counted. */
static int check_guidance(const struct sampler *s, struct err *e)
{
	const struct mixture *m = s->mixture;

	if (m->cfg == 1)
		return 0;
	if (m->guidance.momentum != 0 && sampler_evaluations(s) != s->solver.steps)
		return err_set(e, ERR_USAGE, "guidance with a momentum needs a solver with one evaluation a step: the momentum changes once a step");
	if (m->guidance.still && is_adaptive(s))
		return err_set(e, ERR_USAGE, "dopri5 is not possible with steps of velocity 0, which are counted: use zero:0");
	return 0;
}

static int check_density(const struct sampler *s, struct err *e)
{
	if (!policy_uses(&s->mixture->policy, WEIGHT_DENSITY))
		return 0;
	if (!s->discrete && !s->mixture->pull && s->solver.kind == SOLVER_SDE && s->solver.add.ancestral)
		return 0;
	if (!s->discrete && s->mixture->pull && solver_is_runge_kutta(s->solver.kind))
		return 0;
	return err_set(e, ERR_USAGE, "weights by density follow %s: they need %s", s->mixture->pull ? "the flow" : "ancestral steps",
	               s->mixture->pull ? "one of the solvers " SOLVER_RUNGE_KUTTA : "the solver sde,step=ancestral");
}

static void allocate_rows(struct sampler_state *st)
{
	size_t n = (size_t)st->s->batch;

	st->heaviest = mem_zalloc(n, sizeof *st->heaviest);
	st->row.index = mem_zalloc(n, sizeof *st->row.index);
	st->row.seed = mem_zalloc(n, sizeof *st->row.seed);
	st->row.label = mem_zalloc(ROW_NUMBERS * n, sizeof *st->row.label);
	st->row.chosen = st->row.label + n;
	st->row.text = st->row.chosen + n;
	st->row.negative = st->row.text + n;
	st->row.first = st->row.negative + n;
}

struct sampler_state *sampler_new(const struct sampler *s, struct err *e)
{
	const struct mixture *m = s->mixture;
	struct sampler_state *st;
	struct mixer *mixer;

	if (check_density(s, e) || !(mixer = mixer_new(m, s->batch, e)))
		return NULL;
	st = mem_zalloc(1, sizeof *st);
	st->s = s;
	st->mixer = mixer;
	mixer_tell(mixer, s->order, s->order_arg);
	st->device = mixer_device(mixer);
	st->follows = policy_uses(&m->policy, WEIGHT_DENSITY) && !m->pull;
	st->flows = policy_uses(&m->policy, WEIGHT_DENSITY) && m->pull;
	st->noise = s->torch ? mem_alloc((size_t)m->d * sizeof *st->noise) : NULL;
	if (!check_adaptive(s, e) && !check_guidance(s, e) && !check_budget(s, e) && !make_plan(st, e) && !allocate(st, e)) {
		st->after =
		    s->torch && (s->discrete ? st->plan.noisy : solver_draws(&s->solver)) ? mem_alloc((size_t)s->batch * sizeof *st->after) : NULL;
		if (is_adaptive(s))
			allocate_rows(st);
		return st;
	}
	sampler_free(st);
	return NULL;
}

static void release_texts(struct sampler_state *st)
{
	st->device->release(st->device, (void *)(uintptr_t)st->texts.features);
	st->device->release(st->device, (void *)(uintptr_t)st->texts.mask);
	st->device->release(st->device, (void *)(uintptr_t)st->texts.pooled);
	st->device->release(st->device, (void *)(uintptr_t)st->texts.first);
	st->texts = (struct texts){0};
	st->text_rows = st->first_rows = 0;
}

void sampler_free(struct sampler_state *st)
{
	if (!st)
		return;
	st->device->release(st->device, st->x);
	st->device->release(st->device, st->work);
	st->device->release(st->device, st->keys);
	release_texts(st);
	discrete_plan_release(&st->plan);
	mixer_free(st->mixer);
	mem_free(st->noise);
	mem_free(st->after);
	mem_free(st->heaviest);
	mem_free(st->row.index);
	mem_free(st->row.seed);
	mem_free(st->row.label);
	mem_free(st);
}

static uint64_t seed_of(const struct sampler_state *st, const struct sampler_call *c, int64_t i)
{
	return c->seed ? c->seed[i] : st->s->seed;
}

static int64_t images_of(const struct sampler_call *c, int64_t i)
{
	return c->of ? c->of[i] : c->index[i] + 1;
}

/* Whether row i continues the generator of the row before it: same seed, next image. */
static int follows(const struct sampler_state *st, const struct sampler_call *c, int64_t i)
{
	return i && seed_of(st, c, i) == seed_of(st, c, i - 1) && c->index[i] == c->index[i - 1] + 1 && images_of(c, i) == images_of(c, i - 1);
}

static void pass_torch(struct sampler_state *st, struct torch_rng *r, int64_t images)
{
	for (int64_t i = 0; i < images; i++)
		torch_randn(r, st->noise, st->s->mixture->d);
}

/* Draws the initial noise. The generator only moves forward: for an earlier image or another seed it is seeded again. */
static void start_torch(struct sampler_state *st, const struct sampler_call *call)
{
	int64_t d = st->s->mixture->d;

	for (int64_t i = 0; i < call->n; i++) {
		uint64_t seed = seed_of(st, call, i);

		if (!st->started || seed != st->rng_seed || call->index[i] < st->drawn) {
			torch_seed(&st->rng, seed);
			st->rng_seed = seed;
			st->drawn = 0;
			st->started = 1;
		}
		for (; st->drawn <= call->index[i]; st->drawn++)
			torch_randn(&st->rng, st->noise, d);
		device_put(st->device, st->x + i * d, st->noise, (size_t)d * sizeof *st->noise);
		if (st->after) {
			st->after[i] = st->rng;
			if (!follows(st, call, i))
				pass_torch(st, &st->after[i], images_of(call, i) - 1);
		}
	}
}

/* Draws the noise that a step adds. A generator draws it for all its images in turn; the noise of images outside this batch is skipped. */
static void draw_torch(struct sampler_state *st, float *z)
{
	const struct sampler_call *call = st->now;
	int64_t d = st->s->mixture->d;

	for (int64_t i = 0, end; i < call->n; i = end) {
		struct torch_rng *r = &st->after[i];

		for (end = i; end == i || (end < call->n && follows(st, call, end)); end++) {
			torch_randn(r, st->noise, d);
			device_put(st->device, z + end * d, st->noise, (size_t)d * sizeof *st->noise);
		}
		pass_torch(st, r, images_of(call, i) - (end - i));
	}
}

/* x (n, d) = standard normals; step 0 is the initial noise. One op per run of consecutive images. */
static void draw(struct sampler_state *st, const struct sampler_call *call, float *x, int64_t step)
{
	const int64_t *index = call->index;
	int64_t d = st->s->mixture->d, n = call->n;

	for (int64_t i = 0, end; i < n; i = end) {
		const struct run_keys keys = {seed_of(st, call, i), (uint64_t)step, (uint64_t)index[i], RNG_SAMPLE, 0};
		struct op_call c = {.nout = 1, .keys = st->keys};

		for (end = i + 1; end < n && index[end] == index[i] + (end - i) && seed_of(st, call, end) == keys.seed;)
			end++;
		c.out[0] = (struct array){.data = x + i * d, .dtype = DT_F32, .rank = 2, .shape = {end - i, d}, .stride = {d, 1}};
		device_put(st->device, st->keys, &keys, sizeof keys);
		device_run(st->device, OP_NOISE, &c, NULL);
	}
}

/* Bring the log-densities to the state of stage `stage` of a step. */
static void follow_flow(struct sampler_state *st, int64_t step, int stage)
{
	const struct solver *s = &st->s->solver;
	double h, f[SOLVER_STAGES];

	int n;

	if (!stage && !step)
		return;
	n = stage ? solver_beside(s, step, stage, &h, f) : solver_beside(s, step - 1, -1, &h, f);
	mixer_moved(st->mixer, h, f, n, st->call.n, !stage);
}

static int field(void *arg, float *v, const float *x, double t, int64_t step, int stage, struct err *e)
{
	struct sampler_state *st = arg;

	if (!stage && progress_tell(st->s->progress, "steps", step, st->s->solver.steps))
		return err_set(e, ERR_AGAIN, "interrupted");
	st->call.x = x;
	st->call.t = t;
	st->call.step = step;
	st->call.stage = stage;
	if (st->flows)
		follow_flow(st, step, stage);
	if (mixer_velocity(st->mixer, v, &st->call, st->stats, e))
		return -1;
	st->call.evaluation++;
	if (st->s->observe && !stage)
		st->s->observe(st->s->observe_arg, step, t, st->call.n, mixer_weights(st->mixer));
	return 0;
}

static int discrete_ask(void *arg, float *out, const float *x, double time, int64_t step, struct err *e)
{
	return field(arg, out, x, time, step, 0, e);
}

static int draw_step(void *arg, float *z, int64_t step, struct err *e)
{
	struct sampler_state *st = arg;

	if (st->after)
		draw_torch(st, z);
	else
		draw(st, st->now, z, step + 1);
	return st->follows ? mixer_stepped(st->mixer, solver_noise_ratio(&st->s->solver, step), z, st->call.n, e) : 0;
}

/* Says in `call` what `all` says of the n rows row[i]. */
static void choose_rows(struct sampler_state *st, struct mixture_call *call, const struct mixture_call *all, const int64_t *row, int64_t n)
{
	const int32_t *const from[] = {all->label, all->chosen, all->text, all->negative, all->first};
	int32_t *const to[] = {st->row.label, st->row.chosen, st->row.text, st->row.negative, st->row.first};

	for (int64_t i = 0; i < n; i++) {
		st->row.index[i] = all->index[row[i]];
		st->row.seed[i] = all->seed ? all->seed[row[i]] : 0;
		for (int k = 0; k < ROW_NUMBERS; k++)
			to[k][i] = from[k] ? from[k][row[i]] : 0;
	}
	call->n = n;
	call->index = st->row.index;
	call->seed = all->seed ? st->row.seed : NULL;
	call->label = all->label ? st->row.label : NULL;
	call->chosen = all->chosen ? st->row.chosen : NULL;
	call->text = all->text ? st->row.text : NULL;
	call->negative = all->negative ? st->row.negative : NULL;
	call->first = all->first ? st->row.first : NULL;
}

/* The velocities of dopri5's images, each at its own time, in as many calls as there are runs of rows with alike times. */
static int adaptive_field(void *arg, float *v, const float *x, const double *t, const int64_t *image, int64_t n, int64_t step, int stage,
                          struct err *e)
{
	struct sampler_state *st = arg;
	struct mixture_call call = st->call;
	int64_t d = st->s->mixture->d;

	if (!stage && progress_tell(st->s->progress, "steps", st->call.n - n, st->call.n))
		return err_set(e, ERR_AGAIN, "interrupted");
	call.step = step;
	call.stage = stage;
	for (int64_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && mixer_alike(st->mixer, t[i], t[end]);)
			end++;
		choose_rows(st, &call, &st->call, image + i, end - i);
		call.t = t[i];
		call.times = t + i;
		call.x = x + i * d;
		if (mixer_velocity(st->mixer, v + i * d, &call, st->stats, e))
			return -1;
		for (int64_t j = i; j < end; j++)
			st->heaviest[image[j]] = mixer_heaviest(st->mixer)[j - i];
	}
	st->call.evaluation++;
	if (st->stats && st->call.evaluation > st->stats->longest)
		st->stats->longest = st->call.evaluation;
	return 0;
}

static int solve(struct sampler_state *st, int64_t n, struct err *e)
{
	const struct sampler *s = st->s;
	const struct discrete_run r = {st->device, n, s->mixture->d, columns(s), discrete_ask, draw_step, st};

	if (s->discrete)
		return discrete_solve(&st->plan, &r, st->x, st->work, e);
	if (is_adaptive(s))
		return dopri5_run(&s->solver, st->device, st->x, n, s->mixture->d, st->work, adaptive_field, st, e);
	return solver_run(&s->solver, st->device, st->x, n * s->mixture->d, st->work, field, draw_step, st, e);
}

int64_t sampler_evaluations(const struct sampler *s)
{
	return s->discrete ? s->solver.steps : solver_evaluations(&s->solver);
}

/* The arrays of texts, and the bytes of each for `rows` texts. */
enum { FIRST = 3, TEXT_ARRAYS };
struct text_arrays {
	const float *v[TEXT_ARRAYS]; /* features, mask, pooled, first frames; NULL: there is none */
	size_t bytes[TEXT_ARRAYS];
};

static struct text_arrays arrays_of(const struct mixture *m, const struct texts *t)
{
	struct text_sizes s = mixture_texts(m);
	size_t one = (size_t)t->rows * sizeof(float);

	return (struct text_arrays){{t->features, t->mask, t->pooled, s.first_frame ? t->first : NULL},
	                            {(size_t)(s.tokens * s.width) * one, (size_t)s.tokens * one, (size_t)s.pooled * one,
	                             (size_t)(s.first_frame * t->firsts) * sizeof(float)}};
}

/* What send_texts sends before the arrays. */
enum { TEXT_HEAD = 4 };

/* Give the texts of a batch to the other ranks, for their experts. */
static int send_texts(const struct mixture *m, const struct texts *host, struct err *e)
{
	const struct text_arrays a = arrays_of(m, host);
	const int64_t head[TEXT_HEAD] = {host->rows, host->mask != NULL, host->pooled != NULL, a.v[FIRST] ? host->firsts : 0};
	struct str body = {0};
	int rc;

	str_add(&body, head, sizeof head);
	for (int i = 0; i < TEXT_ARRAYS; i++)
		if (a.v[i])
			str_add(&body, a.v[i], a.bytes[i]);
	rc = order_send_all(m->comm, ORDER_TEXTS, body.p, body.len, e);
	str_release(&body);
	return rc;
}

/* Copy the call's texts to the device; allocates room if needed. */
static int put_texts(struct sampler_state *st, const struct texts *host, struct err *e)
{
	const struct mixture *m = st->s->mixture;
	const struct text_arrays a = arrays_of(m, host);
	const float **const there[TEXT_ARRAYS] = {&st->texts.features, &st->texts.mask, &st->texts.pooled, &st->texts.first};
	struct device *d = st->device;

	if (!a.bytes[0] && !a.bytes[FIRST])
		return 0;
	if (host->rows > st->text_rows || !host->mask != !st->texts.mask || host->firsts > st->first_rows) {
		release_texts(st);
		for (int i = 0; i < TEXT_ARRAYS; i++)
			if (a.v[i] && !(*there[i] = d->alloc(d, a.bytes[i], "features of texts", e)))
				return -1;
		st->text_rows = host->rows;
		st->first_rows = host->firsts;
	}
	st->texts.rows = host->rows;
	st->texts.firsts = host->firsts;
	if (m->comm && !comm_rank(m->comm) && send_texts(m, host, e))
		return -1;
	for (int i = 0; i < TEXT_ARRAYS; i++)
		if (a.v[i])
			device_put(d, (void *)(uintptr_t)*there[i], a.v[i], a.bytes[i]);
	return 0;
}

int sampler_run(struct sampler_state *st, float *x, const struct sampler_call *c, int32_t *assigned, struct mixture_stats *stats, struct err *e)
{
	const struct sampler *s = st->s;
	struct device *d = st->device;
	size_t count = (size_t)(c->n * s->mixture->d);

	assert(c->n > 0 && c->n <= s->batch);
	if (put_texts(st, &c->texts, e))
		return -1;
	if (s->torch)
		start_torch(st, c);
	else
		draw(st, c, st->x, 0);
	st->now = c;
	st->call = (struct mixture_call){.n = c->n,
	                                 .evaluations = sampler_evaluations(s),
	                                 .index = c->index,
	                                 .seed = c->seed,
	                                 .label = c->label,
	                                 .chosen = c->chosen,
	                                 .texts = &st->texts,
	                                 .text = c->text,
	                                 .negative = c->negative,
	                                 .first = st->texts.first ? c->first : NULL};
	st->stats = stats;
	if (solve(st, c->n, e))
		return -1;
	device_get(d, x, st->x, count * sizeof *x);
	if (d->error(d, e))
		return -1;
	if (assigned)
		memcpy(assigned, st->heaviest ? st->heaviest : mixer_heaviest(st->mixer), (size_t)c->n * sizeof *assigned);
	return 0;
}

/* Keep the texts that send_texts sent. */
static int take_texts(struct sampler_state *st, const struct str *body, struct err *e)
{
	const int64_t *head = (const void *)body->p;
	struct texts host = {.rows = head[0], .firsts = head[3]};
	const struct text_arrays a = arrays_of(st->s->mixture, &host);
	const char *at = (const char *)(head + TEXT_HEAD);

	host.features = (const void *)at;
	at += a.bytes[0];
	if (head[1]) {
		host.mask = (const void *)at;
		at += a.bytes[1];
	}
	if (head[2]) {
		host.pooled = (const void *)at;
		at += a.bytes[2];
	}
	if (head[3])
		host.first = (const void *)at;
	return put_texts(st, &host, e);
}

int sampler_answer(struct sampler_state *st, const struct order *o, const struct str *body, struct err *e)
{
	struct comm *c = st->s->mixture->comm;
	struct str answer = {0};
	struct err failed = {0};
	int rc;

	if (o->kind == ORDER_TEXTS)
		return take_texts(st, body, e);
	if (!o->bytes)
		return 0;
	rc = mixer_answer(st->mixer, &st->texts, body, &answer, &failed);
	rc = answer_send(c, rc, &failed, answer.p, answer.len, e);
	str_release(&answer);
	return rc;
}
