/* Chooses a product's algorithm in cuBLASLt: the library's recommendations and variants that split K, timed on the device. */
#include "kernels/cublasltimpl.h"

#include <math.h>

enum { CANDIDATES = CUBLASLT_CANDIDATES, RECOMMENDED = 16, SPLIT_FROM = 4 };

static int set_preference(const struct cublaslt_library *l, void *pref, const struct cublaslt_key *k, uint64_t workspace)
{
	uint32_t reduction = LT_REDUCTION_COMPUTE_TYPE;
	uint32_t a = (uint32_t)k->v[KEY_ALIGN_B], b = (uint32_t)k->v[KEY_ALIGN_A], c = (uint32_t)k->v[KEY_ALIGN_C];
	int status;

	if ((status = l->preference_set(pref, LT_PREF_WORKSPACE, &workspace, sizeof workspace)) ||
	    (status = l->preference_set(pref, LT_PREF_REDUCTION, &reduction, sizeof reduction)) ||
	    (status = l->preference_set(pref, LT_PREF_ALIGN_A, &a, sizeof a)) || (status = l->preference_set(pref, LT_PREF_ALIGN_B, &b, sizeof b)) ||
	    (status = l->preference_set(pref, LT_PREF_ALIGN_C, &c, sizeof c)))
		return status;
	return l->preference_set(pref, LT_PREF_ALIGN_D, &c, sizeof c);
}

/* Get up to `most` algorithms that the library recommends, best first. Returns their number, 0 if the library refuses. */
static int recommended(const struct cublaslt *t, const struct cublaslt_plan *plan, size_t workspace, int most, struct cublaslt_algo *found)
{
	const struct cublaslt_library *l = t->lib;
	struct cublaslt_choice choice[RECOMMENDED];
	void *pref = NULL;
	int n = 0, got = 0;

	memset(choice, 0, sizeof choice);
	if (l->preference_create(&pref) || set_preference(l, pref, &plan->key, workspace) ||
	    l->recommend(t->handle, plan->desc, plan->a, plan->b, plan->c, plan->c, pref, most, choice, &got))
		got = 0;
	if (pref)
		l->preference_destroy(pref);
	for (int i = 0; i < got; i++)
		if (choice[i].state == LT_OK && choice[i].workspace <= workspace)
			found[n++] = choice[i].algo;
	return n;
}

int cublaslt_runs_with(const struct cublaslt *t, const struct cublaslt_plan *plan, const struct cublaslt_algo *algo, size_t workspace)
{
	struct cublaslt_choice result = {.state = LT_OK};

	return t->lib->check(t->handle, plan->desc, plan->a, plan->b, plan->c, plan->c, algo, &result) == LT_OK && result.state == LT_OK &&
	       result.workspace <= workspace;
}

/* Add variants that split K: a small result with a long sum, such as a weight gradient, otherwise leaves multiprocessors idle. */
static int add_splits(const struct cublaslt *t, const struct cublaslt_plan *plan, size_t workspace, struct cublaslt_algo *algo, int n)
{
	static const int32_t parts[] = {2, 3, 4, 6, 8};
	const int64_t *v = plan->key.v;
	uint32_t reduction = LT_REDUCTION_COMPUTE_TYPE;
	int first = n < SPLIT_FROM ? n : SPLIT_FROM;

	if (v[KEY_COUNT] * ((v[KEY_M] + 127) / 128) * ((v[KEY_N] + 127) / 128) >= 2 * (int64_t)t->host->processors ||
	    v[KEY_K] < 4 * (v[KEY_M] < v[KEY_N] ? v[KEY_M] : v[KEY_N]))
		return n;
	for (int i = 0; i < first; i++)
		for (size_t s = 0; s < sizeof parts / sizeof *parts && n < CANDIDATES; s++) {
			algo[n] = algo[i];
			if (t->lib->config_set(&algo[n], LT_CONFIG_SPLIT_K, &parts[s], sizeof parts[s]) == LT_OK &&
			    t->lib->config_set(&algo[n], LT_CONFIG_REDUCTION, &reduction, sizeof reduction) == LT_OK &&
			    cublaslt_runs_with(t, plan, &algo[n], workspace))
				n++;
		}
	return n;
}

/* A way to compute `asked`: by a plan, and by `finish` if it is not NULL. */
struct trial {
	const struct cublaslt_plan *plan;
	const struct product *p, *asked;
	const struct cublaslt_algo *algo;
	const struct cublaslt_finish *finish;
};

struct trials {
	const struct cublaslt *t;
	int stream;
	const struct trial *x;
	void *workspace;
};

static int trial_run(void *arg, int i)
{
	const struct trials *r = arg;
	const struct trial *x = &r->x[i];
	int status = cublaslt_submit(r->t, r->stream, x->plan, x->p, x->algo, r->workspace);

	if (status == LT_OK && x->finish)
		x->finish->run(x->finish->arg, x->asked, x->p, r->workspace);
	return status;
}

/* As tuning_race. */
static int fastest(const struct cublaslt *t, int stream, const struct trial *x, int n, void *workspace, double *seconds)
{
	struct trials r = {t, stream, x, workspace};

	return tuning_race(t->host, stream, trial_run, &r, n, seconds);
}

/* The epilogues known to be slow in some versions of the library are timed against a kernel of our own: GELU, its derivative, and sums. */
static int slow_part(const struct product *p)
{
	return p->act ? (p->bias.p ? CUBLASLT_BIASED : CUBLASLT_BARE) : p->sums.p ? CUBLASLT_BARE : CUBLASLT_FUSED;
}

/* Decide chosen.apart. */
static int race_apart(struct cublaslt *t, int stream, struct cublaslt_plan *plan, const struct product *p, const struct cublaslt_finish *finish,
                      void *workspace, struct err *e)
{
	struct trial x[2] = {{.plan = plan, .p = p, .asked = p, .algo = &plan->chosen.algo}};
	const struct cublaslt_plan *other;
	struct product q;
	double seconds[2];

	if (!finish || slow_part(p) == CUBLASLT_FUSED || !cublaslt_part(p, slow_part(p), &q) || !cublaslt_expressible(t, &q))
		return 0;
	other = cublaslt_plan_of(t, stream, &q, NULL, workspace, e);
	if (!other)
		return -1;
	if (!other->usable)
		return 0;
	x[1] = (struct trial){.plan = other, .p = &q, .asked = p, .algo = &other->chosen.algo, .finish = finish};
	plan->chosen.apart = fastest(t, stream, x, 2, workspace, seconds) == 1;
	plan->chosen.apart_ns = tuning_nanoseconds(seconds[1]);
	if (isfinite(seconds[0]))
		plan->chosen.best_ns = tuning_nanoseconds(seconds[0]);
	return 0;
}

/* Choose among n algorithms by time, and store the choice under this key. */
static int race(struct cublaslt *t, int stream, struct cublaslt_plan *plan, const struct product *p, const struct cublaslt_finish *finish,
                void *workspace, const struct cublaslt_key *key, const struct cublaslt_algo *algo, int n, struct err *e)
{
	struct trial x[CANDIDATES];
	double seconds[CANDIDATES];
	int best;

	for (int i = 0; i < n; i++)
		x[i] = (struct trial){.plan = plan, .p = p, .asked = p, .algo = &algo[i]};
	best = fastest(t, stream, x, n, workspace, seconds);
	plan->usable = best >= 0;
	if (best < 0)
		return 0;
	plan->chosen = (struct cublaslt_chosen){
	    .algo = algo[best], .tried = n, .first_ns = tuning_nanoseconds(seconds[0]), .best_ns = tuning_nanoseconds(seconds[best])};
	if (race_apart(t, stream, plan, p, finish, workspace, e))
		return -1;
	return cublaslt_keep(t, key, plan, cublaslt_workspace(p), e);
}

/* The key of the choice that a product shares: with rows rounded up to four binary digits. Rows are K where a weight's gradient is computed. */
static struct cublaslt_key shared_key(const struct cublaslt_key *k)
{
	struct cublaslt_key s = *k;
	int64_t *rows = &s.v[k->v[KEY_TA] ? KEY_K : KEY_M], step = 1;

	while (*rows / step >= 16)
		step *= 2;
	*rows = (*rows + step - 1) / step * step;
	return s;
}

/* Use the stored choice if there is one and the library takes it for this product. */
static int use_known(const struct cublaslt *t, struct cublaslt_plan *plan, const struct cublaslt_key *key, size_t workspace)
{
	struct cublaslt_chosen known;

	if (!cublaslt_find_tuned(t, key, &known) || !cublaslt_runs_with(t, plan, &known.algo, workspace))
		return 0;
	plan->chosen = known;
	plan->usable = 1;
	return 1;
}

int cublaslt_choose(struct cublaslt *t, int stream, struct cublaslt_plan *plan, const struct product *p, const struct cublaslt_finish *finish,
                    void *workspace, struct err *e)
{
	struct cublaslt_key shared = shared_key(&plan->key);
	struct cublaslt_algo algo[CANDIDATES];
	size_t bytes = cublaslt_workspace(p);
	int timed = t->tuning.path && !t->forced && !t->host->capturing(t->host->arg, stream), n, pick = t->forced ? t->forced - 1 : 0;

	if (!t->forced && (use_known(t, plan, &shared, bytes) || use_known(t, plan, &plan->key, bytes)))
		return 0;
	n = recommended(t, plan, bytes, timed || t->forced ? RECOMMENDED : 1, algo);
	if (timed || t->forced)
		n = add_splits(t, plan, bytes, algo, n);
	if (n && timed) /* a shared choice that this product alone cannot use stays */
		return race(t, stream, plan, p, finish, workspace, tuning_find(&t->tuning, shared.v) ? &plan->key : &shared, algo, n, e);
	plan->usable = pick < n;
	if (plan->usable)
		plan->chosen.algo = algo[pick];
	return 0;
}
