/* Matrix products by cuBLASLt: describes products to the library, keeps a plan for each shape, and submits. */
#include "kernels/cublasltimpl.h"

#include <assert.h>
#include <stdlib.h>

#include "core/hash.h"
#include "core/mem.h"

enum { MOST_PLANS = 4096, ALIGNMENT = 16, WORKSPACE = 32 << 20 };

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
	cublaslt_file_init(t);
	return t;
}

static void plan_free(const struct cublaslt_library *l, struct cublaslt_plan *p)
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

void cublaslt_drop_plans(struct cublaslt *t)
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
	cublaslt_drop_plans(t);
	t->lib->destroy(t->handle);
	tuning_release(&t->tuning);
	mem_free(t);
}

void cublaslt_allow_tf32(struct cublaslt *t, int on)
{
	t->tf32 = on;
}

void cublaslt_force(struct cublaslt *t, int candidate)
{
	cublaslt_drop_plans(t);
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

/* The array beside C that an epilogue of GELU writes or reads. */
static const struct product_matrix *aux_of(const struct product *p)
{
	return p->pre.p ? &p->pre : &p->aux;
}

/* Whether the library takes this array beside C. */
static int aux_fits(const struct product *p, const struct product_matrix *aux)
{
	return aux->dtype == p->c.dtype && aux->ld % 8 == 0 && aux->ld >= p->n && aligned(aux->p) == ALIGNMENT;
}

/* The library's epilogue for p, or 0 if it has none. The accuracy of its GELU is undocumented, so float products do not use it. The epilogue of
 * the derivative could also sum the columns, but in the type of C, and the gradient of a bias is kept in float. */
static int epilogue_of(const struct cublaslt *t, const struct product *p)
{
	int act = p->act == UNARY_GELU_TANH + 1 && (p->a.dtype != DT_F32 || t->tf32);

	if ((p->act && !act) || (p->bias.p && p->bias.dtype != p->c.dtype) || (p->count != 1 && (p->bias.p || aux_of(p)->p || p->act)))
		return 0;
	if (aux_of(p)->p && (!act || !aux_fits(p, aux_of(p))))
		return 0;
	if (p->pre.p)
		return p->bias.p || p->aux.p || p->sums.p ? 0 : LT_EPILOGUE_DGELU;
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

int cublaslt_expressible(const struct cublaslt *t, const struct product *p)
{
	return p->m > 0 && p->n > 0 && p->k > 0 && p->count > 0 && p->m <= INT32_MAX && p->n <= INT32_MAX && p->k <= INT32_MAX &&
	       p->count <= INT32_MAX && p->alpha != 0 && p->a.dtype == p->b.dtype && fits(&p->a, p->ta ? p->m : p->k) &&
	       fits(&p->b, p->tb ? p->k : p->n) && fits(&p->c, p->n) && epilogue_of(t, p);
}

static struct cublaslt_key key_of(const struct cublaslt *t, const struct product *p)
{
	int floats = p->a.dtype == DT_F32 && t->tf32;

	return (struct cublaslt_key){{
	    /* clang-format off */
	    [KEY_TA] = !!p->ta, [KEY_TB] = !!p->tb, [KEY_M] = p->m, [KEY_N] = p->n, [KEY_K] = p->k, [KEY_COUNT] = p->count,
	    [KEY_LDA] = p->a.ld, [KEY_LDB] = p->b.ld, [KEY_LDC] = p->c.ld, [KEY_BATCH_A] = p->count > 1 ? p->a.batch : 0,
	    [KEY_BATCH_B] = p->count > 1 ? p->b.batch : 0, [KEY_BATCH_C] = p->count > 1 ? p->c.batch : 0,
	    [KEY_TYPE_A] = type_of(p->a.dtype), [KEY_TYPE_B] = type_of(p->b.dtype), [KEY_TYPE_C] = type_of(p->c.dtype),
	    [KEY_COMPUTE] = floats ? LT_COMPUTE_32F_FAST_TF32 : LT_COMPUTE_32F, [KEY_EPILOGUE] = epilogue_of(t, p),
	    [KEY_LDAUX] = aux_of(p)->p ? aux_of(p)->ld : 0, [KEY_ALIGN_A] = aligned(p->a.p), [KEY_ALIGN_B] = aligned(p->b.p),
	    [KEY_ALIGN_C] = aligned(p->c.p), [KEY_ALIGN_AUX] = aligned(aux_of(p)->p),
	    /* clang-format on */
	    [KEY_ALIGN_VECTOR] = aligned(p->bias.p ? p->bias.p : p->sums.p),
	}};
}

/* The slot of the plan with this key, or the empty slot for it. */
static struct cublaslt_plan **find_slot(struct cublaslt_plan **slot, size_t slots, const struct cublaslt_key *k)
{
	size_t i = (size_t)hash64(k, sizeof *k) & (slots - 1);

	while (slot[i] && !cublaslt_same_key(&slot[i]->key, k))
		i = (i + 1) & (slots - 1);
	return &slot[i];
}

static void grow_table(struct cublaslt *t)
{
	size_t slots = t->slots ? t->slots * 2 : 64;
	struct cublaslt_plan **slot = mem_zalloc(slots, sizeof *slot);

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
static int describe(const struct cublaslt_library *l, struct cublaslt_plan *plan, const struct product *p)
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
static int set_pointers(const struct cublaslt_library *l, const struct cublaslt_plan *plan, const struct product *p)
{
	const struct product_vector *v = p->bias.p ? &p->bias : &p->sums;
	const struct product_matrix *aux = aux_of(p);
	int32_t type = type_of(v->dtype);
	int status = LT_OK;

	if (v->p && !(status = l->desc_set(plan->desc, LT_DESC_BIAS_POINTER, &v->p, sizeof v->p)))
		status = l->desc_set(plan->desc, LT_DESC_BIAS_TYPE, &type, sizeof type);
	if (status == LT_OK && aux->p && !(status = l->desc_set(plan->desc, LT_DESC_AUX_POINTER, &aux->p, sizeof aux->p)))
		status = l->desc_set(plan->desc, LT_DESC_AUX_LD, &aux->ld, sizeof aux->ld);
	return status;
}

int cublaslt_submit(const struct cublaslt *t, int stream, const struct cublaslt_plan *plan, const struct product *p, const struct cublaslt_algo *algo,
                    void *workspace)
{
	const float zero = 0;

	return t->lib->matmul(t->handle, plan->desc, &p->alpha, p->b.p, plan->a, p->a.p, plan->b, &zero, p->c.p, plan->c, p->c.p, plan->c, algo,
	                      workspace, cublaslt_workspace(p), t->host->stream(t->host->arg, stream));
}

int cublaslt_part(const struct product *p, int part, struct product *q)
{
	*q = *p;
	if (part == CUBLASLT_FUSED)
		return 1;
	if (p->count != 1 || (part == CUBLASLT_BIASED ? !p->act || !p->bias.p : !p->act && !p->bias.p && !p->aux.p && !p->sums.p))
		return 0;
	if (p->aux.p && p->aux.dtype == p->c.dtype)
		q->c = p->aux;
	q->act = 0;
	q->aux.p = q->pre.p = q->sums.p = NULL;
	if (part == CUBLASLT_BARE)
		q->bias.p = NULL;
	return 1;
}

static struct cublaslt_plan **slot_for(struct cublaslt *t, const struct cublaslt_key *key)
{
	if (t->plans >= MOST_PLANS)
		cublaslt_drop_plans(t);
	if (2 * t->plans >= t->slots)
		grow_table(t);
	return find_slot(t->slot, t->slots, key);
}

struct cublaslt_plan *cublaslt_plan_of(struct cublaslt *t, int stream, const struct product *p, const struct cublaslt_finish *finish, void *workspace,
                                       struct err *e)
{
	struct cublaslt_key key = key_of(t, p);
	struct cublaslt_plan *plan = *slot_for(t, &key);

	if (plan)
		return library_failed(t->lib, set_pointers(t->lib, plan, p), "the arrays of an epilogue", e) ? NULL : plan;
	plan = mem_zalloc(1, sizeof *plan);
	plan->key = key;
	if (library_failed(t->lib, describe(t->lib, plan, p), "a product's description", e) ||
	    library_failed(t->lib, set_pointers(t->lib, plan, p), "the arrays of an epilogue", e) ||
	    cublaslt_choose(t, stream, plan, p, finish, workspace, e)) {
		plan_free(t->lib, plan);
		return NULL;
	}
	*slot_for(t, &key) = plan; /* after cublaslt_choose, which may make other plans */
	t->plans++;
	return plan;
}

/* Whether the status means that the library refused a product and started nothing, which happens even with recommended algorithms. */
static int refused(int status)
{
	return status == LT_INVALID_VALUE || status == LT_ARCH_MISMATCH || status == LT_NOT_SUPPORTED;
}

/* Run one part, as cublaslt_run. finish: what could complete a smaller part, or NULL. */
static int run_part(struct cublaslt *t, int stream, const struct product *p, const struct cublaslt_finish *finish, void *workspace)
{
	struct err e = {0};
	struct cublaslt_plan *plan;
	int status;

	if (!cublaslt_expressible(t, p))
		return 0;
	plan = cublaslt_plan_of(t, stream, p, finish, workspace, &e);
	if (plan)
		plan->calls++;
	if (plan && (!plan->usable || (finish && plan->chosen.apart)))
		return 0;
	status = plan ? cublaslt_submit(t, stream, plan, p, &plan->chosen.algo, workspace) : LT_OK;
	if (refused(status)) {
		plan->usable = 0;
		return 0;
	}
	if (!plan || library_failed(t->lib, status, "a product", &e))
		t->host->failed(t->host->arg, &e);
	return 1;
}

/* Count a product that is left to other kernels, under a key without an epilogue. */
static void count_own(struct cublaslt *t, const struct product *p)
{
	struct cublaslt_key key = key_of(t, p);
	struct cublaslt_plan **slot;

	key.v[KEY_EPILOGUE] = 0;
	slot = slot_for(t, &key);
	if (!*slot) {
		*slot = mem_zalloc(1, sizeof **slot);
		(*slot)->key = key;
		t->plans++;
	}
	(*slot)->own++;
}

int cublaslt_run(struct cublaslt *t, int stream, const struct product *p, const struct cublaslt_finish *finish, void *workspace)
{
	struct product q;

	assert((uintptr_t)workspace % CUBLASLT_ALIGN == 0);
	for (int part = CUBLASLT_FUSED; part < (finish ? CUBLASLT_PARTS : CUBLASLT_BIASED); part++)
		if (cublaslt_part(p, part, &q) && run_part(t, stream, &q, part == CUBLASLT_FUSED ? finish : NULL, workspace)) {
			if (part != CUBLASLT_FUSED)
				finish->run(finish->arg, p, &q, workspace);
			return 1;
		}
	count_own(t, p);
	return 0;
}
