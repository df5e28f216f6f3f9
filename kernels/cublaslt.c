/* Matrix products by cuBLASLt: describes products to the library, chooses among its algorithms by timing, and stores the choices in a file. */
#include "kernels/cublaslt.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/runlock.h"

enum { CANDIDATES = CUBLASLT_CANDIDATES, RECOMMENDED = 16, SPLIT_FROM = 4, ROUNDS = 5, RUNS = 4, MOST_PLANS = 4096, ALIGNMENT = 16 };
enum { FILE_LIMIT = 16 << 20, WORKSPACE = 32 << 20 };

/* The key of a plan, all that the choice of an algorithm depends on, in the order of the tuning file's first column. */
enum {
	/* clang-format off */
	KEY_TA, KEY_TB, KEY_M, KEY_N, KEY_K, KEY_COUNT, KEY_LDA, KEY_LDB, KEY_LDC, KEY_BATCH_A, KEY_BATCH_B, KEY_BATCH_C, KEY_TYPE_A,
	KEY_TYPE_B, KEY_TYPE_C, KEY_COMPUTE, KEY_EPILOGUE, KEY_LDAUX, KEY_ALIGN_A, KEY_ALIGN_B, KEY_ALIGN_C, KEY_ALIGN_AUX,
	KEY_ALIGN_VECTOR, KEYS
	/* clang-format on */
};

struct key {
	int64_t v[KEYS];
};

struct plan {
	struct key key;
	void *desc, *a, *b, *c; /* a describes the product's B, b its A, because the library's matrices are column-major */
	struct cublaslt_algo algo;
	int usable; /* 0: no algorithm can do this product */
};

struct tuned {
	struct key key;
	struct cublaslt_algo algo;
};

struct cublaslt {
	const struct cublaslt_library *lib;
	const struct cublaslt_host *host;
	void *handle;
	int tf32, forced;   /* forced: 1 + the index of the candidate that every plan uses; 0: chosen */
	struct plan **slot; /* hash table; a power of two */
	size_t slots, plans;
	char *path; /* of the tuning file, or NULL */
	struct tuned *tuned;
	size_t ntuned;
};

static int library_failed(const struct cublaslt_library *l, int status, const char *what, struct err *e)
{
	if (status == LT_OK)
		return 0;
	return err_set(e, ERR_UNAVAILABLE, "cuBLASLt %zu: %s: %s", l->version(), what, l->status_text(status));
}

struct cublaslt *cublaslt_new(const struct cublaslt_library *l, const struct cublaslt_host *h, struct err *e)
{
	struct cublaslt *t;
	void *handle = NULL;

	if (library_failed(l, l->create(&handle), "cannot begin", e))
		return NULL;
	t = mem_zalloc(1, sizeof *t);
	t->lib = l;
	t->host = h;
	t->handle = handle;
	return t;
}

static void plan_free(const struct cublaslt_library *l, struct plan *p)
{
	if (p->desc)
		l->desc_destroy(p->desc);
	if (p->a)
		l->layout_destroy(p->a);
	if (p->b)
		l->layout_destroy(p->b);
	if (p->c)
		l->layout_destroy(p->c);
	mem_free(p);
}

static void drop_plans(struct cublaslt *t)
{
	for (size_t i = 0; i < t->slots; i++)
		if (t->slot[i])
			plan_free(t->lib, t->slot[i]);
	mem_free(t->slot);
	t->slot = NULL;
	t->slots = t->plans = 0;
}

void cublaslt_free(struct cublaslt *t)
{
	if (!t)
		return;
	drop_plans(t);
	t->lib->destroy(t->handle);
	mem_free(t->path);
	mem_free(t->tuned);
	mem_free(t);
}

void cublaslt_allow_tf32(struct cublaslt *t, int on)
{
	t->tf32 = on;
}

void cublaslt_force(struct cublaslt *t, int candidate)
{
	drop_plans(t);
	t->forced = candidate;
}

size_t cublaslt_workspace(const struct product *p)
{
	double want = 65536 + 64.0 * (double)p->m * (double)p->n * (double)p->count; /* 64 bytes an element: room to split K into sixteen parts */

	return want < WORKSPACE ? (size_t)want / 64 * 64 : WORKSPACE;
}

static int type_of(enum dtype t)
{
	return t == DT_BF16 ? LT_R_16BF : LT_R_32F;
}

/* The alignment of p, at most ALIGNMENT, the most that loads need, so that the choice of an algorithm does not depend on an array's address. */
static int64_t aligned(const void *p)
{
	int64_t a = ALIGNMENT;

	while (p && (uintptr_t)p % (uintptr_t)a)
		a /= 2;
	return a;
}

/* The library's epilogue for p, or 0 if it has none. The accuracy of its GELU is undocumented, so float products do not use it. */
static int epilogue_of(const struct cublaslt *t, const struct product *p)
{
	int act = p->act == UNARY_GELU_TANH + 1 && (p->a.dtype != DT_F32 || t->tf32);

	if ((p->act && !act) || (p->bias.p && p->bias.dtype != p->c.dtype) || (p->count != 1 && (p->bias.p || p->aux.p || p->act)))
		return 0;
	if (p->aux.p && (!act || p->aux.dtype != p->c.dtype || p->aux.ld % 8 || p->aux.ld < p->n))
		return 0;
	if (p->sums.p)
		return p->act || p->bias.p || p->count != 1 || !p->ta || p->sums.dtype != p->c.dtype ? 0 : LT_EPILOGUE_BGRADB;
	if (!act && !p->bias.p)
		return LT_EPILOGUE_DEFAULT;
	return (act ? LT_EPILOGUE_GELU : 0) | (p->bias.p ? LT_EPILOGUE_BIAS : 0) | (p->aux.p ? LT_EPILOGUE_AUX : 0);
}

static int fits(const struct product_matrix *x, int64_t cols)
{
	return x->ld >= cols && x->batch >= 0;
}

/* Whether the library can describe this product. */
static int expressible(const struct cublaslt *t, const struct product *p)
{
	return p->m > 0 && p->n > 0 && p->k > 0 && p->count > 0 && p->m <= INT32_MAX && p->n <= INT32_MAX && p->k <= INT32_MAX &&
	       p->count <= INT32_MAX && p->alpha != 0 && p->a.dtype == p->b.dtype && fits(&p->a, p->ta ? p->m : p->k) &&
	       fits(&p->b, p->tb ? p->k : p->n) && fits(&p->c, p->n) && epilogue_of(t, p);
}

static struct key key_of(const struct cublaslt *t, const struct product *p)
{
	int floats = p->a.dtype == DT_F32 && t->tf32;

	return (struct key){{
	    /* clang-format off */
	    [KEY_TA] = !!p->ta, [KEY_TB] = !!p->tb, [KEY_M] = p->m, [KEY_N] = p->n, [KEY_K] = p->k, [KEY_COUNT] = p->count,
	    [KEY_LDA] = p->a.ld, [KEY_LDB] = p->b.ld, [KEY_LDC] = p->c.ld, [KEY_BATCH_A] = p->count > 1 ? p->a.batch : 0,
	    [KEY_BATCH_B] = p->count > 1 ? p->b.batch : 0, [KEY_BATCH_C] = p->count > 1 ? p->c.batch : 0,
	    [KEY_TYPE_A] = type_of(p->a.dtype), [KEY_TYPE_B] = type_of(p->b.dtype), [KEY_TYPE_C] = type_of(p->c.dtype),
	    [KEY_COMPUTE] = floats ? LT_COMPUTE_32F_FAST_TF32 : LT_COMPUTE_32F, [KEY_EPILOGUE] = epilogue_of(t, p),
	    [KEY_LDAUX] = p->aux.p ? p->aux.ld : 0, [KEY_ALIGN_A] = aligned(p->a.p), [KEY_ALIGN_B] = aligned(p->b.p),
	    [KEY_ALIGN_C] = aligned(p->c.p), [KEY_ALIGN_AUX] = aligned(p->aux.p),
	    /* clang-format on */
	    [KEY_ALIGN_VECTOR] = aligned(p->bias.p ? p->bias.p : p->sums.p),
	}};
}

static int same_key(const struct key *a, const struct key *b)
{
	return !memcmp(a, b, sizeof *a);
}

/* The slot of the plan with this key, or the empty slot for it. */
static struct plan **find_slot(struct plan **slot, size_t slots, const struct key *k)
{
	size_t i = (size_t)hash64(k, sizeof *k) & (slots - 1);

	while (slot[i] && !same_key(&slot[i]->key, k))
		i = (i + 1) & (slots - 1);
	return &slot[i];
}

static void grow_table(struct cublaslt *t)
{
	size_t slots = t->slots ? t->slots * 2 : 64;
	struct plan **slot = mem_zalloc(slots, sizeof *slot);

	for (size_t i = 0; i < t->slots; i++)
		if (t->slot[i])
			*find_slot(slot, slots, &t->slot[i]->key) = t->slot[i];
	mem_free(t->slot);
	t->slot = slot;
	t->slots = slots;
}

static int set_layout(const struct cublaslt_library *l, void **layout, const struct product *p, const struct product_matrix *x, int64_t rows,
                      int64_t cols)
{
	int32_t count = (int32_t)p->count;
	int status = l->layout_create(layout, type_of(x->dtype), (uint64_t)rows, (uint64_t)cols, x->ld);

	if (status == LT_OK && count > 1) {
		status = l->layout_set(*layout, LT_LAYOUT_BATCH_COUNT, &count, sizeof count);
		if (status == LT_OK)
			status = l->layout_set(*layout, LT_LAYOUT_BATCH_STRIDE, &x->batch, sizeof x->batch);
	}
	return status;
}

/* Create the descriptors. A row-major matrix is its transpose in column-major order, and C^T = op(B)^T op(A)^T, so only the operands are
 * exchanged. */
static int describe(const struct cublaslt_library *l, struct plan *plan, const struct product *p)
{
	int32_t ta = p->tb ? LT_OP_T : LT_OP_N, tb = p->ta ? LT_OP_T : LT_OP_N;
	uint32_t epilogue = (uint32_t)plan->key.v[KEY_EPILOGUE];
	int status;

	if ((status = l->desc_create(&plan->desc, (int)plan->key.v[KEY_COMPUTE], LT_R_32F)) ||
	    (status = l->desc_set(plan->desc, LT_DESC_TRANSA, &ta, sizeof ta)) ||
	    (status = l->desc_set(plan->desc, LT_DESC_TRANSB, &tb, sizeof tb)) ||
	    (status = l->desc_set(plan->desc, LT_DESC_EPILOGUE, &epilogue, sizeof epilogue)) ||
	    (status = set_layout(l, &plan->a, p, &p->b, p->tb ? p->k : p->n, p->tb ? p->n : p->k)) ||
	    (status = set_layout(l, &plan->b, p, &p->a, p->ta ? p->m : p->k, p->ta ? p->k : p->m)))
		return status;
	return set_layout(l, &plan->c, p, &p->c, p->n, p->m);
}

/* Set the epilogue's pointers, which are not part of the key. */
static int set_pointers(const struct cublaslt_library *l, const struct plan *plan, const struct product *p)
{
	const struct product_vector *v = p->bias.p ? &p->bias : &p->sums;
	int32_t type = type_of(v->dtype);
	int status = LT_OK;

	if (v->p && !(status = l->desc_set(plan->desc, LT_DESC_BIAS_POINTER, &v->p, sizeof v->p)))
		status = l->desc_set(plan->desc, LT_DESC_BIAS_TYPE, &type, sizeof type);
	if (status == LT_OK && p->aux.p && !(status = l->desc_set(plan->desc, LT_DESC_AUX_POINTER, &p->aux.p, sizeof p->aux.p)))
		status = l->desc_set(plan->desc, LT_DESC_AUX_LD, &p->aux.ld, sizeof p->aux.ld);
	return status;
}

static int set_preference(const struct cublaslt_library *l, void *pref, const struct key *k, uint64_t workspace)
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
static int recommended(const struct cublaslt *t, const struct plan *plan, size_t workspace, int most, struct cublaslt_algo *found)
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

static int runs_with(const struct cublaslt *t, const struct plan *plan, const struct cublaslt_algo *algo, size_t workspace)
{
	struct cublaslt_choice result = {.state = LT_OK};

	return t->lib->check(t->handle, plan->desc, plan->a, plan->b, plan->c, plan->c, algo, &result) == LT_OK && result.state == LT_OK &&
	       result.workspace <= workspace;
}

/* Add variants that split K: a small result with a long sum, such as a weight gradient, otherwise leaves multiprocessors idle. */
static int add_splits(const struct cublaslt *t, const struct plan *plan, size_t workspace, struct cublaslt_algo *algo, int n)
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
			    runs_with(t, plan, &algo[n], workspace))
				n++;
		}
	return n;
}

static int submit(const struct cublaslt *t, int stream, const struct plan *plan, const struct product *p, const struct cublaslt_algo *algo,
                  void *workspace)
{
	const float zero = 0;

	return t->lib->matmul(t->handle, plan->desc, &p->alpha, p->b.p, plan->a, p->a.p, plan->b, &zero, p->c.p, plan->c, p->c.p, plan->c, algo,
	                      workspace, cublaslt_workspace(p), t->host->stream(t->host->arg, stream));
}

static double time_of(const struct cublaslt *t, int stream, const struct plan *plan, const struct product *p, const struct cublaslt_algo *algo,
                      void *workspace)
{
	int status = LT_OK;
	double seconds;

	t->host->start(t->host->arg, stream);
	for (int i = 0; i < RUNS && status == LT_OK; i++)
		status = submit(t, stream, plan, p, algo, workspace);
	seconds = t->host->stop(t->host->arg, stream);
	return status == LT_OK && seconds >= 0 ? seconds : INFINITY;
}

/* The index of the fastest algorithm, or -1 if none runs. Algorithms are timed in turn, so that changes of the clock rate affect all alike; the
 * first round is a warm-up. The product has been computed on return, unless -1. */
static int fastest(const struct cublaslt *t, int stream, const struct plan *plan, const struct product *p, void *workspace,
                   const struct cublaslt_algo *algo, int n)
{
	double best[CANDIDATES];
	int first = 0;

	for (int i = 0; i < n; i++)
		best[i] = INFINITY;
	for (int round = 0; round <= ROUNDS; round++)
		for (int i = 0; i < n; i++) {
			double s = time_of(t, stream, plan, p, &algo[i], workspace);

			if (round && s < best[i])
				best[i] = s;
		}
	for (int i = 1; i < n; i++)
		if (best[i] < best[first])
			first = i;
	return isfinite(best[first]) ? first : -1;
}

static const struct tuned *find_tuned(const struct cublaslt *t, const struct key *k)
{
	for (size_t i = 0; i < t->ntuned; i++)
		if (same_key(&t->tuned[i].key, k))
			return &t->tuned[i];
	return NULL;
}

static void add_tuned(struct cublaslt *t, const struct key *k, const struct cublaslt_algo *algo)
{
	struct tuned *old = (struct tuned *)find_tuned(t, k);

	if (!old) {
		t->tuned = mem_resize(t->tuned, t->ntuned + 1, sizeof *t->tuned);
		old = &t->tuned[t->ntuned++];
	}
	old->key = *k;
	old->algo = *algo;
}

static void put_head(const struct cublaslt *t, struct str *s)
{
	str_printf(s, "ddm-tuning 1\t%s\tcuBLASLt %zu\n", t->host->gpu, t->lib->version());
}

static int save_tuned(const struct cublaslt *t, struct err *e)
{
	struct str s = {0};
	int rc;

	put_head(t, &s);
	for (size_t i = 0; i < t->ntuned; i++) {
		for (int k = 0; k < KEYS; k++)
			str_printf(&s, "%s%" PRId64, k ? "," : "", t->tuned[i].key.v[k]);
		for (int k = 0; k < 8; k++)
			str_printf(&s, "%c%016" PRIx64, k ? ',' : '\t', t->tuned[i].algo.data[k]);
		str_puts(&s, "\n");
	}
	rc = commit_bytes(t->path, str_text(&s), s.len, e);
	str_release(&s);
	return rc;
}

/* Parse a line of the tuning file. Returns the start of the next line, or NULL if the line is malformed. */
static const char *read_line(const char *p, struct tuned *u)
{
	char *end;

	for (int k = 0; k < KEYS; k++, p = end + 1) {
		u->key.v[k] = strtoll(p, &end, 10);
		if (end == p || *end != (k + 1 < KEYS ? ',' : '\t'))
			return NULL;
	}
	for (int k = 0; k < 8; k++, p = end + 1) {
		u->algo.data[k] = strtoull(p, &end, 16);
		if (end == p || *end != (k < 7 ? ',' : '\n'))
			return NULL;
	}
	return p;
}

/* Add the file's entries whose keys are not known yet. */
static void read_tuned(struct cublaslt *t)
{
	struct str head = {0};
	struct tuned *found = NULL, u;
	size_t len = 0, n = 0;
	char *text = file_load(t->path, FILE_LIMIT, &len, NULL);
	const char *p = text;

	put_head(t, &head);
	if (!text || len < head.len || memcmp(text, head.p, head.len))
		p = NULL;
	for (p = p ? p + head.len : NULL; p && p < text + len;)
		if ((p = read_line(p, &u))) {
			found = mem_resize(found, n + 1, sizeof *found);
			found[n++] = u;
		}
	for (size_t i = 0; p && i < n; i++)
		if (!find_tuned(t, &found[i].key))
			add_tuned(t, &found[i].key, &found[i].algo);
	mem_free(found);
	str_release(&head);
	mem_free(text);
}

size_t cublaslt_tune(struct cublaslt *t, const char *path)
{
	drop_plans(t);
	mem_free(t->path);
	t->path = mem_strdup(path);
	t->ntuned = 0;
	read_tuned(t);
	return t->ntuned;
}

size_t cublaslt_tune_in(struct cublaslt *t, const char *dir)
{
	char *name = str_new("%s cuBLASLt %zu", t->host->gpu, t->lib->version()), *path;
	size_t n;

	for (char *p = name; *p; p++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", *p))
			*p = '-';
	path = path_join(dir, name);
	n = cublaslt_tune(t, path);
	mem_free(path);
	mem_free(name);
	return n;
}

/* Store a choice in the file. Another process may have stored one for the same key, or be writing: this waits for its lock, and uses its choice
 * if there is one. */
static int keep_choice(struct cublaslt *t, const struct plan *plan, struct cublaslt_algo *algo, size_t workspace, struct err *e)
{
	const char *slash = strrchr(t->path, '/');
	char *dir = slash ? str_new("%.*s", (int)(slash - t->path), t->path) : mem_strdup(".");
	struct runlock lock = {.fd = -1};
	const struct tuned *theirs;
	int rc;

	runlock_take(&lock, dir, NULL);
	read_tuned(t);
	theirs = find_tuned(t, &plan->key);
	if (theirs && runs_with(t, plan, &theirs->algo, workspace))
		*algo = theirs->algo;
	else
		add_tuned(t, &plan->key, algo);
	rc = save_tuned(t, e);
	runlock_drop(&lock);
	mem_free(dir);
	return rc;
}

/* Choose the plan's algorithm. -1 if the choice cannot be stored, because a later run could then choose differently. */
static int choose(struct cublaslt *t, int stream, struct plan *plan, const struct product *p, void *workspace, struct err *e)
{
	struct cublaslt_algo algo[CANDIDATES];
	size_t bytes = cublaslt_workspace(p);
	const struct tuned *known = find_tuned(t, &plan->key);
	int timed = t->path && !t->forced && !t->host->capturing(t->host->arg, stream), n, best = t->forced ? t->forced - 1 : 0;

	plan->usable = 1;
	if (known && !t->forced && runs_with(t, plan, &known->algo, bytes)) {
		plan->algo = known->algo;
		return 0;
	}
	n = recommended(t, plan, bytes, timed || t->forced ? RECOMMENDED : 1, algo);
	if (timed || t->forced)
		n = add_splits(t, plan, bytes, algo, n);
	plan->usable = best < n;
	if (n && timed) {
		best = n > 1 ? fastest(t, stream, plan, p, workspace, algo, n) : 0;
		plan->usable = best >= 0;
		if (best >= 0 && keep_choice(t, plan, &algo[best], bytes, e))
			return -1;
	}
	if (plan->usable)
		plan->algo = algo[best];
	return 0;
}

static struct plan *plan_of(struct cublaslt *t, int stream, const struct product *p, void *workspace, struct err *e)
{
	struct key key = key_of(t, p);
	struct plan **slot, *plan;

	if (t->plans >= MOST_PLANS)
		drop_plans(t);
	if (2 * t->plans >= t->slots)
		grow_table(t);
	slot = find_slot(t->slot, t->slots, &key);
	if (*slot)
		return library_failed(t->lib, set_pointers(t->lib, *slot, p), "the arrays of an epilogue", e) ? NULL : *slot;
	plan = mem_zalloc(1, sizeof *plan);
	plan->key = key;
	if (library_failed(t->lib, describe(t->lib, plan, p), "a product's description", e) ||
	    library_failed(t->lib, set_pointers(t->lib, plan, p), "the arrays of an epilogue", e) || choose(t, stream, plan, p, workspace, e)) {
		plan_free(t->lib, plan);
		return NULL;
	}
	*slot = plan;
	t->plans++;
	return plan;
}

/* Whether the status means that the library refused a product and started nothing, which happens even with recommended algorithms. */
static int refused(int status)
{
	return status == LT_INVALID_VALUE || status == LT_ARCH_MISMATCH || status == LT_NOT_SUPPORTED;
}

int cublaslt_run(struct cublaslt *t, int stream, const struct product *p, void *workspace)
{
	struct err e = {0};
	struct plan *plan;
	int status;

	assert((uintptr_t)workspace % CUBLASLT_ALIGN == 0);
	if (!expressible(t, p))
		return 0;
	plan = plan_of(t, stream, p, workspace, &e);
	if (plan && !plan->usable)
		return 0;
	status = plan ? submit(t, stream, plan, p, &plan->algo, workspace) : LT_OK;
	if (refused(status)) {
		plan->usable = 0;
		return 0;
	}
	if (!plan || library_failed(t->lib, status, "a product", &e))
		t->host->failed(t->host->arg, &e);
	return 1;
}
