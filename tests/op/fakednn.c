/* The fake of cuDNN: keeps the attributes of descriptors, and interprets graphs. */
#include "tests/op/fakednn.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/mem.h"
#include "core/shortfloat.h"

struct fake_dnn fake_dnn;

enum { MOST = 16, MOST_BYTES = 256 };

struct attribute {
	int name, type;
	int64_t count;
	unsigned char value[MOST_BYTES];
};

struct desc {
	int kind, final, n;
	struct attribute a[MOST];
	int config;         /* of a configuration or an engine: its index */
	struct desc *graph; /* of a configuration */
	double *values;     /* of a virtual tensor, while a graph runs */
};

static size_t size_of(int type)
{
	return type == DNN_TYPE_BOOLEAN ? 1 : type == DNN_TYPE_INT64 || type == DNN_TYPE_DESCRIPTOR || type == DNN_TYPE_VOID_PTR || !type ? 8 : 4;
}

static struct attribute *find(struct desc *d, int name)
{
	for (int i = 0; i < d->n; i++)
		if (d->a[i].name == name)
			return &d->a[i];
	return NULL;
}

static struct attribute *must(struct desc *d, int name)
{
	struct attribute *a = find(d, name);

	if (!a)
		fail_msg("a descriptor of kind %d has no attribute %d", d->kind, name);
	return a;
}

static struct desc *desc_at(struct desc *d, int name, int64_t i)
{
	struct attribute *a = must(d, name);
	struct desc *p;

	assert_true(i < a->count && a->type == DNN_TYPE_DESCRIPTOR);
	memcpy(&p, a->value + 8 * i, sizeof p);
	return p;
}

static int64_t int_at(struct desc *d, int name, int64_t i)
{
	struct attribute *a = must(d, name);
	int64_t v = 0;

	assert_true(i < a->count);
	memcpy(&v, a->value + (size_t)i * size_of(a->type), size_of(a->type));
	return v;
}

static size_t version(void)
{
	return fake_dnn.version;
}

static const char *text(int status)
{
	return status == 5000 ? "five thousand" : "another";
}

static int create(void **handle)
{
	if (fake_dnn.begins)
		return fake_dnn.begins;
	fake_dnn.alive++;
	*handle = mem_zalloc(1, 1);
	return DNN_OK;
}

static int destroy(void *handle)
{
	fake_dnn.alive--;
	mem_free(handle);
	return DNN_OK;
}

static int set_stream(void *handle, void *stream)
{
	assert_non_null(handle);
	assert_ptr_equal(stream, &fake_dnn);
	return DNN_OK;
}

static int desc_create(int kind, void **d)
{
	*d = mem_zalloc(1, sizeof(struct desc));
	((struct desc *)*d)->kind = kind;
	fake_dnn.alive++;
	return DNN_OK;
}

static int desc_destroy(void *d)
{
	assert_non_null(d);
	fake_dnn.alive--;
	fake_dnn.plans -= ((struct desc *)d)->kind == DNN_PLAN && ((struct desc *)d)->final;
	mem_free(d);
	return DNN_OK;
}

static int desc_finalize(void *p)
{
	struct desc *d = p;

	assert_false(d->final);
	for (int i = 0; i < d->n; i++) /* what it refers to is complete */
		for (int64_t k = 0; d->a[i].type == DNN_TYPE_DESCRIPTOR && k < d->a[i].count; k++)
			assert_true(desc_at(d, d->a[i].name, k)->final);
	fake_dnn.graphs += d->kind == DNN_GRAPH;
	fake_dnn.plans += d->kind == DNN_PLAN;
	d->final = 1;
	return DNN_OK;
}

static int desc_set(void *p, int name, int type, int64_t count, const void *values)
{
	struct desc *d = p;
	struct attribute *a = &d->a[d->n++];

	assert_true(!d->final && d->n <= MOST && (size_t)count * size_of(type) <= MOST_BYTES);
	a->name = name, a->type = type, a->count = count;
	memcpy(a->value, values, (size_t)count * size_of(type));
	return DNN_OK;
}

static int desc_get(void *p, int name, int type, int64_t want, int64_t *count, void *values)
{
	struct desc *d = p, *const *to = values;
	int64_t number;

	(void)type;
	*count = 1;
	switch (name) {
	case DNN_HEUR_RESULTS:
		assert_true(d->final && int_at(d, DNN_HEUR_MODE, 0) == DNN_HEUR_A);
		*count = fake_dnn.configs < want ? fake_dnn.configs : want;
		for (int i = 0; i < *count; i++) {
			to[i]->config = i;
			to[i]->graph = desc_at(d, DNN_HEUR_GRAPH, 0);
			to[i]->final = 1;
		}
		return DNN_OK;
	case DNN_CFG_ENGINE:
		to[0]->config = d->config;
		return DNN_OK;
	case DNN_ENGINE_INDEX:
		number = 10 + d->config + fake_dnn.engine_shift;
		memcpy(values, &number, sizeof number);
		return DNN_OK;
	case DNN_ENGINE_NOTES:
		*count = fake_dnn.random >> d->config & 1;
		*(int *)values = DNN_NOTE_NONDETERMINISTIC;
		return DNN_OK;
	case DNN_PLAN_WORKSPACE:
		memcpy(values, &fake_dnn.workspace, sizeof fake_dnn.workspace);
		return DNN_OK;
	default:
		fail_msg("attribute %d is asked for", name);
		return 2000;
	}
}

/* A pack of pointers, by identifier. */
static void *pointer_of(struct desc *pack, int64_t id)
{
	struct attribute *ids = must(pack, DNN_PACK_IDS), *at = must(pack, DNN_PACK_POINTERS);
	void *p;

	assert_int_equal(ids->count, at->count);
	for (int64_t i = 0; i < ids->count; i++)
		if (int_at(pack, DNN_PACK_IDS, i) == id) {
			memcpy(&p, at->value + 8 * i, sizeof p);
			return p;
		}
	fail_msg("tensor %d has no pointer", (int)id);
	return NULL;
}

static int64_t dim(struct desc *t, int i)
{
	return int_at(t, DNN_TENSOR_DIMENSIONS, i);
}

/* The element of t at idx, where dimensions of size 1 are broadcast. */
static int64_t place(struct desc *t, const int64_t idx[4])
{
	int64_t at = 0;

	for (int i = 0; i < 4; i++)
		at += (dim(t, i) == 1 ? 0 : idx[i]) * int_at(t, DNN_TENSOR_STRIDES, i);
	return at;
}

static double load(struct desc *t, struct desc *pack, const int64_t idx[4])
{
	int64_t at = place(t, idx);
	const void *p;

	if (find(t, DNN_TENSOR_VIRTUAL)) {
		assert_non_null(t->values); /* computed before */
		return t->values[at];
	}
	p = pointer_of(pack, int_at(t, DNN_TENSOR_ID, 0));
	return int_at(t, DNN_TENSOR_TYPE, 0) == DNN_BFLOAT16 ? (double)bf16_to_f32(((const uint16_t *)p)[at]) : (double)((const float *)p)[at];
}

static void store(struct desc *t, struct desc *pack, const int64_t idx[4], double v)
{
	int64_t at = place(t, idx);
	const int half = int_at(t, DNN_TENSOR_TYPE, 0) == DNN_BFLOAT16;
	void *p;

	if (find(t, DNN_TENSOR_VIRTUAL)) {
		if (!t->values)
			t->values = mem_zalloc((size_t)(dim(t, 0) * int_at(t, DNN_TENSOR_STRIDES, 0)), sizeof *t->values);
		t->values[at] = half ? (double)bf16_to_f32(f32_to_bf16((float)v)) : (double)(float)v;
		return;
	}
	p = pointer_of(pack, int_at(t, DNN_TENSOR_ID, 0));
	if (half)
		((uint16_t *)p)[at] = f32_to_bf16((float)v);
	else
		((float *)p)[at] = (float)v;
}

static int next(struct desc *t, int64_t idx[4])
{
	for (int i = 3; i >= 0; i--) {
		if (++idx[i] < dim(t, i))
			return 1;
		idx[i] = 0;
	}
	return 0;
}

static double apply(int64_t mode, double x, double z)
{
	switch (mode) {
	case DNN_ADD:
		return x + z;
	case DNN_MUL:
		return x * z;
	case DNN_DIV:
		return x / z;
	case DNN_SUB:
		return x - z;
	case DNN_EXP:
		return exp(x);
	case DNN_LOG:
		return log(x);
	default:
		fail_msg("pointwise mode %d", (int)mode);
		return 0;
	}
}

static void run_pointwise(struct desc *op, struct desc *pack)
{
	struct desc *x = desc_at(op, DNN_OP_POINTWISE_X, 0), *y = desc_at(op, DNN_OP_POINTWISE_Y, 0);
	struct desc *z = find(op, DNN_OP_POINTWISE_B) ? desc_at(op, DNN_OP_POINTWISE_B, 0) : NULL;
	int64_t mode = int_at(desc_at(op, DNN_OP_POINTWISE_DESC, 0), DNN_POINTWISE_MODE, 0), idx[4] = {0};

	do
		store(y, pack, idx, apply(mode, load(x, pack, idx), z ? load(z, pack, idx) : 0));
	while (next(y, idx));
}

static void run_matmul(struct desc *op, struct desc *pack)
{
	struct desc *x = desc_at(op, DNN_OP_MATMUL_A, 0), *z = desc_at(op, DNN_OP_MATMUL_B, 0), *y = desc_at(op, DNN_OP_MATMUL_C, 0);
	int64_t idx[4] = {0};

	assert_true(dim(x, 2) == dim(y, 2) && dim(x, 3) == dim(z, 2) && dim(z, 3) == dim(y, 3));
	do {
		double sum = 0;

		for (int64_t k = 0; k < dim(x, 3); k++)
			sum += load(x, pack, (int64_t[4]){idx[0], idx[1], idx[2], k}) * load(z, pack, (int64_t[4]){idx[0], idx[1], k, idx[3]});
		store(y, pack, idx, sum);
	} while (next(y, idx));
}

static void run_reduction(struct desc *op, struct desc *pack)
{
	struct desc *x = desc_at(op, DNN_OP_REDUCTION_X, 0), *y = desc_at(op, DNN_OP_REDUCTION_Y, 0);
	int64_t mode = int_at(desc_at(op, DNN_OP_REDUCTION_DESC, 0), DNN_REDUCTION_OPERATOR, 0), idx[4] = {0};

	assert_int_equal(dim(y, 3), 1);
	do {
		double sum = mode == DNN_MAX ? -INFINITY : 0;

		for (int64_t k = 0; k < dim(x, 3); k++) {
			double v = load(x, pack, (int64_t[4]){idx[0], idx[1], idx[2], k});

			sum = mode == DNN_MAX ? fmax(sum, v) : sum + v;
		}
		store(y, pack, idx, sum);
	} while (next(y, idx));
}

/* Another view of the same memory; here always the transpose. */
static void run_reshape(struct desc *op, struct desc *pack)
{
	struct desc *x = desc_at(op, DNN_OP_RESHAPE_X, 0), *y = desc_at(op, DNN_OP_RESHAPE_Y, 0);
	int64_t idx[4] = {0};

	for (int i = 0; i < 4; i++) {
		int other = i < 2 ? i : 5 - i;

		assert_int_equal(dim(y, i), dim(x, other));
		assert_int_equal(int_at(y, DNN_TENSOR_STRIDES, i), int_at(x, DNN_TENSOR_STRIDES, other));
	}
	do
		store(y, pack, idx, load(x, pack, (int64_t[4]){idx[0], idx[1], idx[3], idx[2]}));
	while (next(y, idx));
}

static void forget(struct desc *op)
{
	for (int i = 0; i < op->n; i++)
		if (op->a[i].type == DNN_TYPE_DESCRIPTOR) {
			struct desc *t = desc_at(op, op->a[i].name, 0);

			mem_free(t->values);
			t->values = NULL;
		}
}

static int execute(void *handle, void *plan, void *pack)
{
	struct desc *config = desc_at(plan, DNN_PLAN_CFG, 0), *g = config->graph;
	char *workspace;

	assert_non_null(handle);
	assert_true(((struct desc *)plan)->final && ((struct desc *)pack)->final);
	if (fake_dnn.fails)
		return fake_dnn.fails;
	memcpy(&workspace, must(pack, DNN_PACK_WORKSPACE)->value, sizeof workspace);
	memset(workspace, 0x5a, (size_t)fake_dnn.workspace);
	for (int64_t i = 0; i < must(g, DNN_GRAPH_OPS)->count; i++) {
		struct desc *op = desc_at(g, DNN_GRAPH_OPS, i);

		switch (op->kind) {
		case DNN_OP_POINTWISE:
			run_pointwise(op, pack);
			break;
		case DNN_OP_MATMUL:
			run_matmul(op, pack);
			break;
		case DNN_OP_REDUCTION:
			run_reduction(op, pack);
			break;
		case DNN_OP_RESHAPE:
			run_reshape(op, pack);
			break;
		default:
			fail_msg("an operation of kind %d", op->kind);
		}
	}
	for (int64_t i = 0; i < must(g, DNN_GRAPH_OPS)->count; i++)
		forget(desc_at(g, DNN_GRAPH_OPS, i));
	fake_dnn.ran++;
	fake_dnn.last = 1 + config->config;
	return DNN_OK;
}

static void *stream(void *arg, int i)
{
	assert_ptr_equal(arg, &fake_dnn);
	assert_int_equal(i, 0);
	return &fake_dnn;
}

static int capturing(void *arg, int i)
{
	(void)arg;
	(void)i;
	return fake_dnn.capturing;
}

static int ran_before;

static void start(void *arg, int i)
{
	(void)arg;
	(void)i;
	assert_false(fake_dnn.capturing);
	ran_before = fake_dnn.ran;
}

/* The fastest takes a microsecond, others more. */
static double stop(void *arg, int i)
{
	(void)arg;
	(void)i;
	fake_dnn.timed++;
	return (fake_dnn.ran == ran_before ? 0 : fake_dnn.last) == fake_dnn.swift ? 4e-6 : 4e-5;
}

static void failed(void *arg, const struct err *e)
{
	(void)arg;
	fake_dnn.fail_count++;
	fake_dnn.failed = *e;
}

void fake_dnn_init(void)
{
	fake_dnn = (struct fake_dnn){
	    .library = {version, text, create, destroy, set_stream, desc_create, desc_destroy, desc_finalize, desc_set, desc_get, execute},
	    .host = {&fake_dnn, "Fake GPU", 132, stream, capturing, start, stop, failed},
	    .version = 91900,
	    .configs = 2,
	    .workspace = 256};
}
