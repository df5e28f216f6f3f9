/* A table of cuBLASLt's products: how often each ran, and the times its choice rests on. */
#include "kernels/cublasltimpl.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/mem.h"
#include "core/str.h"

static const char *used(const struct cublaslt_plan *p)
{
	if (!p->desc)
		return "own";
	return p->chosen.apart ? "apart" : p->usable ? "library" : "refused";
}

/* Nanoseconds of all its products, as far as they are known. */
static double cost(const struct cublaslt_plan *p)
{
	return (double)p->calls * (double)(p->chosen.apart ? p->chosen.apart_ns : p->chosen.best_ns);
}

static int by_cost(const void *a, const void *b)
{
	const struct cublaslt_plan *const *p = a, *const *q = b;
	double x = cost(*p), y = cost(*q);

	return x == y ? memcmp(&(*p)->key, &(*q)->key, sizeof(*p)->key) : x < y ? 1 : -1;
}

static const char *type_name(int64_t type)
{
	return type == LT_R_16BF ? "bf16" : "f32";
}

static void put_epilogue(struct str *s, int64_t e)
{
	str_printf(s, "\t%s%s%s%s", e & LT_EPILOGUE_BIAS ? "+bias" : "", e & LT_EPILOGUE_GELU ? "+gelu" : "",
	           e == LT_EPILOGUE_DGELU ? "+dgelu"
	           : e & LT_EPILOGUE_AUX  ? "+aux"
	                                  : "",
	           e & LT_EPILOGUE_BGRADB              ? "+sums"
	           : e & ~(int64_t)LT_EPILOGUE_DEFAULT ? ""
	                                               : "-");
}

static void put_plan(struct str *s, const struct cublaslt_plan *p)
{
	const struct cublaslt_chosen *c = &p->chosen;
	const int64_t *v = p->key.v;

	str_printf(s, "%" PRId64 "x%" PRId64 "x%" PRId64 "x%" PRId64 "\t%c%c\t%s,%s,%s", v[KEY_COUNT], v[KEY_M], v[KEY_N], v[KEY_K],
	           v[KEY_TA] ? 'T' : 'N', v[KEY_TB] ? 'T' : 'N', type_name(v[KEY_TYPE_A]), type_name(v[KEY_TYPE_B]), type_name(v[KEY_TYPE_C]));
	put_epilogue(s, v[KEY_EPILOGUE]);
	str_printf(s, "\t%" PRId64 "\t%" PRId64 "\t%.1f\t%.1f\t%.1f\t%s\n", p->calls + p->own, c->tried, 1e-3 * (double)c->first_ns,
	           1e-3 * (double)c->best_ns, 1e-3 * (double)c->apart_ns, used(p));
}

void cublaslt_log(const struct cublaslt *t, struct str *s)
{
	const struct cublaslt_plan **plan = mem_alloc(t->plans * sizeof *plan + 1);
	size_t n = 0;

	for (size_t i = 0; i < t->slots; i++)
		if (t->slot[i] && t->slot[i]->calls + t->slot[i]->own)
			plan[n++] = t->slot[i];
	qsort(plan, n, sizeof *plan, by_cost);
	str_puts(s, "count x M x N x K\ttransposed\ttypes\tepilogue\tcalls\talgorithms\tfirst us\tbest us\tapart us\tused\n");
	for (size_t i = 0; i < n; i++)
		put_plan(s, plan[i]);
	mem_free(plan);
}
