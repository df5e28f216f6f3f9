/* Attention by cuDNN: keeps a plan for each shape, chooses between the library's configurations and our kernels by time, and submits. */
#include "kernels/cudnnimpl.h"

#include <assert.h>
#include <stdlib.h>

#include "core/mem.h"

enum { MOST_PLANS = 256, SMALL = 64 << 10, LARGE = 256 << 20 };

static int library_failed(const struct cudnn_library *l, int status, const char *what, struct err *e)
{
	if (status == DNN_OK)
		return 0;
	return err_set(e, ERR_UNAVAILABLE, "cuDNN %zu: %s: %s", l->version(), what, l->status_text(status));
}

struct cudnn *cudnn_new(const struct cudnn_library *l, const struct cublaslt_host *h)
{
	struct cudnn *t = mem_zalloc(1, sizeof *t);

	t->lib = l;
	t->host = h;
	cudnn_file_init(t);
	return t;
}

void cudnn_drop_plans(struct cudnn *t)
{
	for (size_t i = 0; i < t->nplans; i++) {
		cudnn_graph_release(&t->plan[i]->graph, t->lib);
		mem_free(t->plan[i]);
	}
	mem_free(t->plan);
	t->plan = NULL;
	t->nplans = 0;
}

void cudnn_free(struct cudnn *t)
{
	if (!t)
		return;
	cudnn_drop_plans(t);
	if (t->handle)
		t->lib->destroy(t->handle);
	tuning_release(&t->tuning);
	mem_free(t);
}

void cudnn_force(struct cudnn *t, int config)
{
	cudnn_drop_plans(t);
	t->forced = config;
}

static size_t align_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

static size_t delta_bytes(const struct cudnn_attention *p)
{
	return p->grad ? align_up((size_t)(p->samples * p->heads * p->t) * sizeof(float), CUBLASLT_ALIGN) : 0;
}

/* The deterministic gradient keeps gradients of scores in bfloat16, with both lengths rounded up to 128; the rest is a few hundred bytes. */
static size_t shape_workspace(const struct cudnn_attention *p)
{
	double scores =
	    p->grad ? 2. * (double)(p->samples * p->heads) * (double)align_up((size_t)p->t, 128) * (double)align_up((size_t)p->s, 128) : 0;

	if (p->samples < 1 || p->samples & (p->samples - 1) || p->d % 8 || p->d > 128 || p->t < 1 || p->s < 1 || scores > LARGE)
		return 0;
	return SMALL + (size_t)scores + delta_bytes(p);
}

static struct cudnn_key key_of(const struct cudnn_attention *p)
{
	const struct cudnn_side *side[KEY_SIDES] = {&p->q, &p->k, &p->v, &p->o, &p->dy, &p->dq, &p->dk, &p->dv};
	struct cudnn_key k = {{p->grad, p->samples, p->t, p->s, p->heads, p->d}};
	int64_t *to = k.v + KEY_STRIDES;

	for (int i = 0; i < (p->grad ? KEY_SIDES : 4); i++, to += 3)
		to[0] = side[i]->sample, to[1] = side[i]->token, to[2] = side[i]->head;
	to = k.v + KEYS - 3;
	to[0] = p->lse_sample, to[1] = p->lse_token, to[2] = p->lse_head;
	return k;
}

size_t cudnn_workspace(const struct cudnn *t, const struct cudnn_attention *p)
{
	struct cudnn_key key = key_of(p);
	struct cudnn_chosen known;

	if (!t->forced && (!t->tuning.path || (cudnn_find_tuned(t, &key, &known) && !known.config)))
		return 0;
	return shape_workspace(p);
}

size_t cudnn_most_workspace(const struct cudnn *t, const struct cudnn_attention *p)
{
	struct cudnn_attention q = *p;
	size_t most = 0;

	for (q.samples = 1; q.samples <= p->samples; q.samples *= 2) {
		size_t bytes = cudnn_workspace(t, &q);

		most = bytes > most ? bytes : most;
	}
	return most;
}

/* Submit `run` to the stream. Returns the library's status. */
static int submit(struct cudnn *t, int stream, const struct cudnn_attention *p, void *run, void *workspace)
{
	const struct cudnn_library *l = t->lib;
	const float one = 1;
	int64_t id[] = {ID_Q, ID_K, ID_V, ID_O, ID_LSE, ID_SCALE, ID_DQ, ID_DK, ID_DV, ID_DY, ID_ONE, ID_DELTA};
	const void *at[] = {p->q.p, p->k.p, p->v.p, p->o.p, p->lse, &p->scale, p->dq.p, p->dk.p, p->dv.p, p->dy.p, &one, workspace};
	int64_t n = p->grad ? (int64_t)(sizeof id / sizeof *id) : 6;
	void *rest = (char *)workspace + delta_bytes(p), *pack = NULL;
	int status;

	if ((status = l->desc_create(DNN_VARIANT_PACK, &pack)) != DNN_OK)
		return status;
	if ((status = l->desc_set(pack, DNN_PACK_IDS, DNN_TYPE_INT64, n, id)) == DNN_OK &&
	    (status = l->desc_set(pack, DNN_PACK_POINTERS, DNN_TYPE_VOID_PTR, n, at)) == DNN_OK &&
	    (status = l->desc_set(pack, DNN_PACK_WORKSPACE, DNN_TYPE_VOID_PTR, 1, &rest)) == DNN_OK && (status = l->desc_finalize(pack)) == DNN_OK &&
	    (status = l->set_stream(t->handle, t->host->stream(t->host->arg, stream))) == DNN_OK)
		status = l->execute(t->handle, run, pack);
	l->desc_destroy(pack);
	return status;
}

/* Ask the library for its configurations of the plan's graph, those it recommends first. Returns their number, at most CUDNN_CONFIGS. */
static int configurations(struct cudnn *t, struct cudnn_plan *plan, void *config[CUDNN_CONFIGS])
{
	const struct cudnn_library *l = t->lib;
	const int mode = DNN_HEUR_A;
	void *heuristics;
	int64_t n = 0;

	if (cudnn_make(l, &plan->graph, DNN_ENGINEHEUR, &heuristics) != DNN_OK ||
	    l->desc_set(heuristics, DNN_HEUR_GRAPH, DNN_TYPE_DESCRIPTOR, 1, &plan->graph.graph) != DNN_OK ||
	    l->desc_set(heuristics, DNN_HEUR_MODE, DNN_TYPE_HEUR_MODE, 1, &mode) != DNN_OK || l->desc_finalize(heuristics) != DNN_OK)
		return 0;
	for (int i = 0; i < CUDNN_CONFIGS; i++)
		if (cudnn_make(l, &plan->graph, DNN_ENGINECFG, &config[i]) != DNN_OK)
			return 0;
	if (l->desc_get(heuristics, DNN_HEUR_RESULTS, DNN_TYPE_DESCRIPTOR, CUDNN_CONFIGS, &n, config) != DNN_OK)
		return 0;
	return n < 0 ? 0 : n < CUDNN_CONFIGS ? (int)n : CUDNN_CONFIGS;
}

/* The number of a configuration's engine, or -1 if it is unknown or gives other results in each run. */
static int64_t engine_of(struct cudnn *t, struct cudnn_plan *plan, void *config)
{
	const struct cudnn_library *l = t->lib;
	void *engine;
	int64_t n = 0, number = -1, notes = 0;
	int note[DNN_NOTES];

	if (cudnn_make(l, &plan->graph, DNN_ENGINE, &engine) != DNN_OK ||
	    l->desc_get(config, DNN_CFG_ENGINE, DNN_TYPE_DESCRIPTOR, 1, &n, &engine) != DNN_OK ||
	    l->desc_get(engine, DNN_ENGINE_INDEX, DNN_TYPE_INT64, 1, &n, &number) != DNN_OK ||
	    l->desc_get(engine, DNN_ENGINE_NOTES, DNN_TYPE_NOTE, DNN_NOTES, &notes, note) != DNN_OK)
		return -1;
	for (int64_t i = 0; i < notes && i < DNN_NOTES; i++)
		if (note[i] == DNN_NOTE_NONDETERMINISTIC)
			return -1;
	return number;
}

/* Compile a configuration. NULL if the library cannot, or its workspace is larger than ours. */
static void *compile(struct cudnn *t, struct cudnn_plan *plan, const struct cudnn_attention *p, void *config)
{
	const struct cudnn_library *l = t->lib;
	void *run;
	int64_t n = 0, bytes = -1;

	if (cudnn_make(l, &plan->graph, DNN_PLAN, &run) != DNN_OK)
		return NULL;
	if (l->desc_set(run, DNN_PLAN_HANDLE, DNN_TYPE_HANDLE, 1, &t->handle) != DNN_OK ||
	    l->desc_set(run, DNN_PLAN_CFG, DNN_TYPE_DESCRIPTOR, 1, &config) != DNN_OK || l->desc_finalize(run) != DNN_OK ||
	    l->desc_get(run, DNN_PLAN_WORKSPACE, DNN_TYPE_INT64, 1, &n, &bytes) != DNN_OK || bytes < 0 ||
	    (uint64_t)bytes > shape_workspace(p) - delta_bytes(p)) {
		cudnn_unmake(l, &plan->graph, run);
		return NULL;
	}
	return run;
}

/* A way to compute a pass: a plan of the library, or with NULL our kernels. */
struct trial {
	void *run;
	int config; /* 1 + its index; 0: ours */
	int64_t engine;
};

struct trials {
	struct cudnn *t;
	int stream;
	const struct cudnn_attention *p;
	const struct cudnn_own *own;
	void *workspace;
	const struct trial *x;
};

static int trial_run(void *arg, int i)
{
	const struct trials *r = arg;

	if (r->x[i].run)
		return submit(r->t, r->stream, r->p, r->x[i].run, r->workspace);
	r->own->run(r->own->arg);
	return DNN_OK;
}

/* Choose among ours, which is r->x[0], and n - 1 of the library's. Ours is used unless another is faster. */
static int race(struct cudnn_plan *plan, struct trials *r, int n, struct err *e)
{
	double seconds[1 + CUDNN_CONFIGS];
	int best = tuning_race(r->t->host, r->stream, trial_run, r, n, seconds), fast = 1;

	if (best < 0)
		best = 0;
	for (int i = 2; i < n; i++)
		if (seconds[i] < seconds[fast])
			fast = i;
	plan->chosen.config = r->x[best].config;
	plan->chosen.engine = r->x[best].engine;
	plan->chosen.tried = n - 1;
	plan->chosen.own_ns = tuning_nanoseconds(seconds[0]);
	plan->chosen.first_ns = n > 1 ? tuning_nanoseconds(seconds[1]) : 0;
	plan->chosen.best_ns = n > 1 ? tuning_nanoseconds(seconds[fast]) : 0;
	return cudnn_keep(r->t, plan, e);
}

/* Compile what was chosen, or time all and choose. */
static int choose(struct cudnn *t, int stream, struct cudnn_plan *plan, const struct cudnn_attention *p, const struct cudnn_own *own, void *workspace,
                  struct err *e)
{
	int known = !t->forced && cudnn_find_tuned(t, &plan->key, &plan->chosen);
	struct trial x[1 + CUDNN_CONFIGS] = {{0}};
	struct trials trials = {t, stream, p, own, workspace, x};
	void *config[CUDNN_CONFIGS], *run;
	int64_t want = t->forced, engine;
	int n = 1;

	if (!cudnn_workspace(t, p) || (!t->forced && !known && t->host->capturing(t->host->arg, stream)))
		return 0;
	if (known)
		want = plan->chosen.config;
	if ((t->handle || t->lib->create(&t->handle) == DNN_OK) && cudnn_graph_init(&plan->graph, t->lib, t->handle, p) == DNN_OK)
		plan->configs = configurations(t, plan, config);
	if (want) {
		engine = want <= plan->configs ? engine_of(t, plan, config[want - 1]) : -1;
		if (engine >= 0 && (t->forced || engine == plan->chosen.engine))
			plan->run = compile(t, plan, p, config[want - 1]);
		return 0;
	}
	for (int i = 0; i < plan->configs; i++) {
		engine = engine_of(t, plan, config[i]);
		if (engine >= 0 && (run = compile(t, plan, p, config[i])))
			x[n++] = (struct trial){.run = run, .config = i + 1, .engine = engine};
	}
	if (race(plan, &trials, n, e))
		return -1;
	for (int i = 1; i < n; i++)
		if (x[i].config == plan->chosen.config)
			plan->run = x[i].run;
		else
			cudnn_unmake(t->lib, &plan->graph, x[i].run);
	return 0;
}

/* NULL without an error: there are too many plans. */
static struct cudnn_plan *plan_of(struct cudnn *t, int stream, const struct cudnn_attention *p, const struct cudnn_own *own, void *workspace,
                                  struct err *e)
{
	struct cudnn_key key = key_of(p);
	struct cudnn_plan *plan;

	for (size_t i = 0; i < t->nplans; i++)
		if (!memcmp(&t->plan[i]->key, &key, sizeof key))
			return t->plan[i];
	if (t->nplans == MOST_PLANS) /* none is dropped, because a graph of the device may hold its kernel */
		return NULL;
	plan = mem_zalloc(1, sizeof *plan);
	plan->key = key;
	if (choose(t, stream, plan, p, own, workspace, e)) {
		cudnn_graph_release(&plan->graph, t->lib);
		mem_free(plan);
		return NULL;
	}
	if (!plan->run)
		cudnn_graph_release(&plan->graph, t->lib);
	t->plan = mem_resize(t->plan, t->nplans + 1, sizeof *t->plan);
	return t->plan[t->nplans++] = plan;
}

int cudnn_run(struct cudnn *t, int stream, const struct cudnn_attention *p, const struct cudnn_own *own, void *workspace)
{
	struct err e = {0};
	struct cudnn_plan *plan;

	if (!shape_workspace(p))
		return 0;
	assert((uintptr_t)workspace % CUBLASLT_ALIGN == 0);
	plan = plan_of(t, stream, p, own, workspace, &e);
	if (plan)
		plan->calls++;
	if (plan ? !plan->run : !e.code)
		return 0;
	if (!plan || library_failed(t->lib, submit(t, stream, p, plan->run, workspace), "attention", &e))
		t->host->failed(t->host->arg, &e);
	return 1;
}
