/* The fake of cuBLASLt: computes products on the host from the library's descriptors. */
#include "tests/op/fakelt.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/mem.h"
#include "core/shortfloat.h"

struct fake fake;

struct layout {
	int type;
	int64_t rows, cols, ld, stride;
	int32_t count;
};

struct desc {
	int compute;
	int32_t ta, tb, bias_type;
	uint32_t epilogue;
	void *bias, *aux;
	int64_t aux_ld;
};

struct preference {
	uint64_t workspace;
	uint32_t reduction, align[4];
};

static size_t fake_version(void)
{
	return fake.version;
}

static const char *fake_text(int status)
{
	return status == 14 ? "fourteen" : "another";
}

static int make(void **p, size_t size)
{
	*p = mem_zalloc(1, size);
	fake.alive++;
	return LT_OK;
}

static int destroy(void *p)
{
	assert_non_null(p);
	mem_free(p);
	fake.alive--;
	return LT_OK;
}

static int fake_create(void **p)
{
	return make(p, 1);
}

static int fake_layout(void **p, int type, uint64_t rows, uint64_t cols, int64_t ld)
{
	make(p, sizeof(struct layout));
	assert_true(type == LT_R_32F || type == LT_R_16BF);
	assert_true(rows && cols && ld >= (int64_t)rows);
	*(struct layout *)*p = (struct layout){type, (int64_t)rows, (int64_t)cols, ld, 0, 1};
	return LT_OK;
}

static void take(void *to, size_t want, const void *value, size_t size)
{
	assert_int_equal(size, want);
	memcpy(to, value, size);
}

static int fake_layout_set(void *p, int attribute, const void *value, size_t size)
{
	struct layout *l = p;

	if (attribute == LT_LAYOUT_BATCH_COUNT)
		take(&l->count, sizeof l->count, value, size);
	else if (attribute == LT_LAYOUT_BATCH_STRIDE)
		take(&l->stride, sizeof l->stride, value, size);
	else
		fail();
	return LT_OK;
}

static int fake_desc(void **p, int compute, int scale)
{
	make(p, sizeof(struct desc));
	assert_int_equal(scale, LT_R_32F);
	((struct desc *)*p)->compute = compute;
	return LT_OK;
}

static int fake_desc_set(void *p, int attribute, const void *value, size_t size)
{
	struct desc *d = p;

	switch (attribute) {
	case LT_DESC_TRANSA:
		take(&d->ta, sizeof d->ta, value, size);
		break;
	case LT_DESC_TRANSB:
		take(&d->tb, sizeof d->tb, value, size);
		break;
	case LT_DESC_EPILOGUE:
		take(&d->epilogue, sizeof d->epilogue, value, size);
		break;
	case LT_DESC_BIAS_POINTER:
		take(&d->bias, sizeof d->bias, value, size);
		break;
	case LT_DESC_BIAS_TYPE:
		take(&d->bias_type, sizeof d->bias_type, value, size);
		break;
	case LT_DESC_AUX_POINTER:
		take(&d->aux, sizeof d->aux, value, size);
		break;
	case LT_DESC_AUX_LD:
		take(&d->aux_ld, sizeof d->aux_ld, value, size);
		break;
	default:
		fail();
	}
	return LT_OK;
}

static int fake_preference(void **p)
{
	return make(p, sizeof(struct preference));
}

static int fake_preference_set(void *p, int attribute, const void *value, size_t size)
{
	struct preference *f = p;

	switch (attribute) {
	case LT_PREF_WORKSPACE:
		take(&f->workspace, sizeof f->workspace, value, size);
		break;
	case LT_PREF_REDUCTION:
		take(&f->reduction, sizeof f->reduction, value, size);
		break;
	case LT_PREF_ALIGN_A:
	case LT_PREF_ALIGN_B:
	case LT_PREF_ALIGN_C:
	case LT_PREF_ALIGN_D:
		take(&f->align[attribute - LT_PREF_ALIGN_A], sizeof f->align[0], value, size);
		break;
	default:
		fail();
	}
	return LT_OK;
}

static void check_shapes(const struct desc *d, const struct layout *a, const struct layout *b, const struct layout *c)
{
	assert_int_equal(d->ta == LT_OP_T ? a->cols : a->rows, c->rows);
	assert_int_equal(d->tb == LT_OP_T ? b->rows : b->cols, c->cols);
	assert_int_equal(d->ta == LT_OP_T ? a->rows : a->cols, d->tb == LT_OP_T ? b->cols : b->rows);
	assert_true(a->count == c->count && b->count == c->count);
}

/* As in cuBLASLt, A and B have one type, and C is not narrower. */
static int fake_recommend(void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference, int want, struct cublaslt_choice *found,
                          int *count)
{
	const struct desc *e = desc;
	const struct layout *la = a, *lb = b, *lc = c;
	const struct preference *f = preference;

	assert_non_null(handle);
	assert_ptr_equal(c, d);
	check_shapes(e, la, lb, lc);
	assert_int_equal(f->reduction, LT_REDUCTION_COMPUTE_TYPE);
	assert_true(f->workspace >= 65536);
	for (int i = 0; i < 4; i++)
		assert_true(f->align[i] >= (lc->type == LT_R_32F && la->type == LT_R_32F ? 4 : 2) && f->align[i] <= 16);
	fake.asked++;
	*count = 0;
	if (la->type != lb->type || (la->type == LT_R_32F && lc->type == LT_R_16BF) || (int)e->epilogue & fake.refuse)
		return 15; /* CUBLAS_STATUS_NOT_SUPPORTED */
	for (int i = 0; i < want && i < FAKE_ALGOS; i++, ++*count)
		found[i] = (struct cublaslt_choice){.algo = {{(uint64_t)i + 1}}, .workspace = 4096};
	return LT_OK;
}

static int fake_check(void *handle, void *desc, void *a, void *b, void *c, void *d, const struct cublaslt_algo *algo, struct cublaslt_choice *result)
{
	(void)handle;
	assert_ptr_equal(c, d);
	check_shapes(desc, a, b, c);
	result->state = LT_OK;
	if (fake.refuse_k && (((struct desc *)desc)->ta == LT_OP_T ? ((struct layout *)a)->rows : ((struct layout *)a)->cols) == fake.refuse_k &&
	    algo->data[0] != 2)
		return LT_NOT_SUPPORTED;
	result->workspace = algo->data[1] > 6 ? (size_t)1 << 40 : 4096;
	return algo->data[0] >= 1 && algo->data[0] <= FAKE_ALGOS ? LT_OK : 7;
}

static int fake_config(struct cublaslt_algo *algo, int attribute, const void *value, size_t size)
{
	assert_int_equal(size, 4);
	assert_true(attribute == LT_CONFIG_SPLIT_K || attribute == LT_CONFIG_REDUCTION);
	algo->data[attribute == LT_CONFIG_SPLIT_K ? 1 : 2] = *(const uint32_t *)value;
	return LT_OK;
}

static double load(const void *p, int type, int64_t i)
{
	return type == LT_R_16BF ? (double)bf16_to_f32(((const uint16_t *)p)[i]) : (double)((const float *)p)[i];
}

static void save(void *p, int type, int64_t i, double v)
{
	if (type == LT_R_16BF)
		((uint16_t *)p)[i] = f32_to_bf16((float)v);
	else
		((float *)p)[i] = (float)v;
}

static double op_at(const struct layout *l, int transposed, const void *p, int64_t batch, int64_t row, int64_t col)
{
	return load(p, l->type, batch * l->stride + (transposed ? col + row * l->ld : row + col * l->ld));
}

static double gelu(double x)
{
	return .5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + .044715 * x * x * x)));
}

static double gelu_slope(double x)
{
	double u = sqrt(2 / M_PI) * (x + .044715 * x * x * x), t = tanh(u);

	return .5 * (1 + t) + .5 * x * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * .044715 * x * x);
}

/* Apply the epilogue to an element; called in the order of the columns of D. */
static void epilogue_at(const struct desc *d, const struct layout *c, void *out, int64_t batch, int64_t row, int64_t col, double z)
{
	int e = (int)d->epilogue;

	if (e == LT_EPILOGUE_DGELU) {
		save(out, c->type, batch * c->stride + row + col * c->ld, z * gelu_slope(load(d->aux, c->type, row + col * d->aux_ld)));
		return;
	}
	if (e & LT_EPILOGUE_BIAS)
		z += load(d->bias, d->bias_type, row);
	if (e & LT_EPILOGUE_AUX)
		save(d->aux, c->type, row + col * d->aux_ld, z);
	save(out, c->type, batch * c->stride + row + col * c->ld, e & LT_EPILOGUE_GELU ? gelu(z) : z);
}

/* A product as it was submitted: descriptions may change or go before it runs. */
struct work {
	struct desc d;
	struct layout a, b, c;
	const void *pa, *pb;
	void *out, *workspace;
	size_t bytes; /* of workspace */
	float alpha;
	int varies;
};

static int64_t depth_of(const struct work *w)
{
	return w->d.ta == LT_OP_T ? w->a.rows : w->a.cols;
}

static void sum_b(const struct work *w)
{
	for (int64_t col = 0; col < w->c.cols; col++) {
		double s = 0;

		for (int64_t i = 0; i < depth_of(w); i++)
			s += op_at(&w->b, w->d.tb == LT_OP_T, w->pb, 0, i, col);
		save(w->d.bias, w->d.bias_type, col, s);
	}
}

enum { TOGETHER = 4 }; /* columns whose sums are computed together */

/* z (TOGETHER, m) = a (k, m) times TOGETHER columns of op(B) from `first` on; columns that do not exist are 0. Sums are in the order of K. */
static void work_columns(const struct work *w, int64_t item, int64_t first, const double *restrict a, double *restrict z)
{
	int64_t m = w->c.rows, k = depth_of(w);

	memset(z, 0, (size_t)(TOGETHER * m) * sizeof *z);
	for (int64_t j = 0; j < k; j++, a += m) {
		double b[TOGETHER];

		for (int64_t t = 0; t < TOGETHER; t++)
			b[t] = first + t < w->c.cols ? op_at(&w->b, w->d.tb == LT_OP_T, w->pb, item, j, first + t) : 0;
		for (int64_t row = 0; row < m; row++)
			for (int t = 0; t < TOGETHER; t++)
				z[t * m + row] += a[row] * b[t];
	}
}

/* One product of a batch. */
static void work_item(const struct work *w, int64_t item)
{
	int64_t m = w->c.rows, k = depth_of(w);
	double *a = mem_alloc((size_t)(m * k) * sizeof *a), *z = mem_alloc((size_t)(TOGETHER * m) * sizeof *z);
	double scale = (double)w->alpha * (w->varies ? 1 + 0x1p-20 * (double)(w->c.cols % 64) : 1);

	for (int64_t j = 0; j < k; j++)
		for (int64_t row = 0; row < m; row++)
			a[j * m + row] = op_at(&w->a, w->d.ta == LT_OP_T, w->pa, item, row, j);
	for (int64_t col = 0; col < w->c.cols; col++) {
		if (col % TOGETHER == 0)
			work_columns(w, item, col, a, z);
		for (int64_t row = 0; row < m; row++)
			epilogue_at(&w->d, &w->c, w->out, item, row, col, z[col % TOGETHER * m + row] * scale);
	}
	mem_free(a);
	mem_free(z);
}

static void work_run(void *body)
{
	const struct work *w = body;

	memset(w->workspace, 0xff, w->bytes);
	for (int32_t i = 0; i < w->c.count; i++)
		work_item(w, i);
	if (w->d.epilogue & LT_EPILOGUE_BGRADB)
		sum_b(w);
}

static void check_epilogue(const struct desc *d, const struct layout *c)
{
	int e = (int)d->epilogue, vector = e & (LT_EPILOGUE_BIAS | LT_EPILOGUE_BGRADB);

	assert_true(e > 0 && e < FAKE_EPILOGUES);
	if (vector) {
		assert_non_null(d->bias);
		assert_int_equal(d->bias_type, c->type);
	}
	if (e & LT_EPILOGUE_AUX) {
		assert_non_null(d->aux);
		assert_true(d->aux_ld % 8 == 0 && d->aux_ld >= c->rows && (uintptr_t)d->aux % 16 == 0);
	}
	fake.seen[e]++;
}

static int fake_matmul(void *handle, void *desc, const void *alpha, const void *pa, void *la, const void *pb, void *lb, const void *beta,
                       const void *pc, void *lc, void *pd, void *ld, const struct cublaslt_algo *algo, void *workspace, size_t bytes, void *stream)
{
	const struct desc *d = desc;
	const struct layout *a = la, *b = lb, *c = lc;
	struct work *w;

	assert_non_null(handle);
	assert_true(pc == pd && lc == ld && *(const float *)beta == 0 && (!fake.stream || stream == fake.stream));
	check_shapes(d, a, b, c);
	check_epilogue(d, c);
	fake.ran++;
	fake.compute = d->compute;
	fake.epilogue = (int)d->epilogue;
	fake.algo = algo->data[0];
	fake.split = algo->data[1];
	if (fake.fails)
		return fake.fails;
	assert_int_equal((uintptr_t)workspace % 256, 0);
	w = malloc(sizeof *w);
	assert_non_null(w);
	*w = (struct work){*d, *a, *b, *c, pa, pb, pd, workspace, bytes, fake.poison ? NAN : *(const float *)alpha, fake.varies};
	if (fake.submit)
		return fake.submit(stream, work_run, w) ? 14 : LT_OK;
	work_run(w);
	free(w);
	return LT_OK;
}

static void *fake_stream(void *arg, int stream)
{
	assert_int_equal(stream, 0);
	return arg;
}

static int fake_capturing(void *arg, int stream)
{
	(void)arg;
	(void)stream;
	return fake.capturing;
}

static void fake_start(void *arg, int stream)
{
	(void)arg;
	(void)stream;
	fake.timed++;
}

static double fake_stop(void *arg, int stream)
{
	(void)arg;
	(void)stream;
	if (fake.fails)
		return -1;
	if (fake.epilogue & fake.slow)
		return 4e-3;
	return 4 * (fake.algo == fake.swift && fake.split == fake.swift_split ? 1e-6 : 1e-5 + 1e-7 * (double)(fake.timed % 3));
}

static void fake_failed(void *arg, const struct err *e)
{
	(void)arg;
	fake.failed = *e;
	fake.fail_count++;
}

void fake_init(void)
{
	fake = (struct fake){
	    .library = {fake_version, fake_text, fake_create, destroy, fake_layout, destroy, fake_layout_set, fake_desc, destroy, fake_desc_set,
	                fake_preference, destroy, fake_preference_set, fake_recommend, fake_check, fake_config, fake_matmul},
	    .host = {&fake, "Fake sm_00 132 processors", 132, fake_stream, fake_capturing, fake_start, fake_stop, fake_failed},
	    .version = 120000,
	    .stream = &fake,
	};
}

struct cublaslt *fake_open(void)
{
	struct err e = {0};
	struct cublaslt *t;

	fake_init();
	t = cublaslt_new(&fake.library, &fake.host, &e);
	assert_non_null(t);
	assert_int_equal(e.code, 0);
	return t;
}

void fake_close(struct cublaslt *t)
{
	cublaslt_free(t);
	assert_int_equal(fake.alive, 0);
	assert_int_equal(fake.fail_count, 0);
}
