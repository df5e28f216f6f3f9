/* Plans of cuBLASLt on a fake of the library: how algorithms are chosen, timed, stored and read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cmd/opendevice.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "tests/op/fakelt.h"

static struct device device; /* with the fake */
static _Alignas(CUBLASLT_ALIGN) float room[1 << 20];

static void begin(void)
{
	device.cublaslt = fake_open();
}

static void end(void)
{
	fake_close(device.cublaslt);
	device.cublaslt = NULL;
}

static float place[3][64 * 64 + 8];

static int run_one(int64_t m, int64_t n, int64_t k, int shift)
{
	struct product p = {.ta = 1,
	                    .m = m,
	                    .n = n,
	                    .k = k,
	                    .count = 1,
	                    .alpha = 1,
	                    .a = {place[0] + shift, DT_F32, m, 0},
	                    .b = {place[1], DT_F32, n, 0},
	                    .c = {place[2], DT_F32, n, 0}};

	assert_true(cublaslt_workspace(&p) <= sizeof room);
	return cublaslt_run(device.cublaslt, 0, &p, NULL, room);
}

/* There is one plan for each shape and alignment, and the number of plans is bounded. */
static void plans(void **state)
{
	(void)state;
	begin();
	for (int i = 0; i < 3; i++)
		assert_int_equal(run_one(8, 8, 8, 0), 1);
	assert_int_equal(run_one(8, 8, 8, 4), 1); /* still aligned to 16 bytes */
	assert_int_equal(fake.asked, 1);
	assert_int_equal(run_one(8, 8, 8, 1), 1);
	assert_int_equal(fake.asked, 2);
	assert_int_equal(fake.timed, 0);
	assert_int_equal(fake.compute, LT_COMPUTE_32F);
	cublaslt_allow_tf32(device.cublaslt, 1);
	assert_int_equal(run_one(8, 8, 8, 0), 1);
	assert_int_equal(fake.compute, LT_COMPUTE_32F_FAST_TF32);
	for (int m = 1; m <= 64; m++)
		for (int n = 1; n <= 64; n++)
			for (int k = 1; k <= 2; k++)
				assert_int_equal(run_one(m, n, k, 0), 1);
	assert_true(fake.alive < 20000);
	end();
}

/* Every algorithm that tuning would time can be forced; there is none after the last. */
static void forced(void **state)
{
	(void)state;
	begin();
	for (int i = 1; i <= CUBLASLT_CANDIDATES; i++) {
		cublaslt_force(device.cublaslt, i);
		assert_int_equal(run_one(64, 64, 8, 0), i <= FAKE_ALGOS);
		if (i <= FAKE_ALGOS)
			assert_true(fake.algo == (uint64_t)i && fake.split == 0);
	}
	cublaslt_force(device.cublaslt, FAKE_ALGOS + 1); /* a small result of long sums: the first algorithm with the sum in two parts */
	assert_int_equal(run_one(8, 8, 64, 0), 1);
	assert_true(fake.algo == 1 && fake.split == 2);
	cublaslt_force(device.cublaslt, 0);
	assert_int_equal(run_one(8, 8, 64, 0), 1);
	assert_true(fake.algo == 1 && fake.split == 0);
	assert_int_equal(fake.timed, 0);
	end();
}

static char folder[64];

static const char *tuning_path(void)
{
	static char path[80];

	snprintf(path, sizeof path, "%s/tuning", folder);
	return path;
}

static size_t tune_anew(void)
{
	cublaslt_free(device.cublaslt);
	device.cublaslt = cublaslt_new(&fake.library, &fake.host, NULL);
	return cublaslt_tune(device.cublaslt, tuning_path());
}

static void rewrite(const char *text, size_t len)
{
	assert_int_equal(commit_bytes(tuning_path(), text, len, NULL), 0);
}

/* The fastest algorithm is chosen, stored, and read again without timing. A choice that the file lacks, or that is of another GPU or library, is
 * timed. */
static void tuning(void **state)
{
	static const char other[] = "Other sm_90 132 processors";
	size_t len;
	char *text;

	(void)state;
	begin();
	fake.swift = 3;
	assert_int_equal(cublaslt_tune(device.cublaslt, tuning_path()), 0);
	run_one(8, 8, 8, 0);
	assert_true(fake.timed >= 3 * FAKE_ALGOS && fake.algo == 3 && fake.split == 0);
	fake.swift_split = 4; /* a small result of long sums */
	run_one(8, 8, 64, 0);
	assert_true(fake.algo == 3 && fake.split == 4);
	fake.swift_split = 8; /* needs more workspace than there is */
	run_one(8, 8, 72, 0);
	assert_true(fake.split < 8);
	fake.swift_split = 4;
	assert_int_equal(tune_anew(), 3);
	fake.timed = 0;
	run_one(8, 8, 8, 0);
	assert_true(fake.algo == 3 && fake.split == 0);
	run_one(8, 8, 64, 0);
	assert_true(fake.algo == 3 && fake.split == 4 && fake.timed == 0);
	text = file_load(tuning_path(), 1 << 20, &len, NULL);
	assert_non_null(text);
	for (size_t cut = 0; cut < len; cut += 3) { /* a cut file is read up to its last whole line, or not at all */
		size_t read;

		rewrite(text, cut);
		read = tune_anew();
		assert_true(read == 0 || (read < 3 && text[cut - 1] == '\n'));
	}
	rewrite(text, len);
	assert_int_equal(tune_anew(), 3);
	fake.version++; /* choices of another library, or for another GPU */
	assert_int_equal(tune_anew(), 0);
	fake.version--;
	assert_int_equal(tune_anew(), 3);
	fake.host.gpu = other;
	assert_int_equal(tune_anew(), 0);
	fake.capturing = 1;
	run_one(8, 8, 8, 0);
	assert_true(fake.algo == 1 && fake.timed == 0);
	end();
	mem_free(text);
}

/* If the library no longer accepts a stored algorithm, another is chosen. */
static void stale(void **state)
{
	char *text, *at;
	size_t len;

	(void)state;
	unlink(tuning_path());
	begin();
	fake.swift = 2;
	cublaslt_tune(device.cublaslt, tuning_path());
	run_one(8, 8, 8, 0);
	text = file_load(tuning_path(), 1 << 20, &len, NULL);
	assert_non_null(text);
	at = strstr(text, "0000000000000002");
	assert_non_null(at);
	at[15] = '9';
	rewrite(text, len);
	assert_int_equal(tune_anew(), 1);
	fake.timed = 0;
	run_one(8, 8, 8, 0);
	assert_true(fake.algo == 2 && fake.timed > 0);
	assert_int_equal(tune_anew(), 1);
	mem_free(text);
	end();
}

static struct cublaslt *another(size_t *known)
{
	struct cublaslt *t = cublaslt_new(&fake.library, &fake.host, NULL);

	*known = cublaslt_tune_in(t, folder);
	return t;
}

static void run_by(struct cublaslt *t, int64_t k)
{
	struct cublaslt *mine = device.cublaslt;

	device.cublaslt = t;
	assert_int_equal(run_one(8, 8, k, 0), 1);
	device.cublaslt = mine;
}

/* Numbers of rows that differ by less than an eighth share a choice, also for the gradient of weights, unless the library refuses it for one of
 * them. */
static void shared_rows(void **state)
{
	struct product p = {.m = 100, .n = 8, .k = 8, .count = 1, .alpha = 1};

	(void)state;
	unlink(tuning_path());
	begin();
	p.a = (struct product_matrix){place[0], DT_F32, 8, 0};
	p.b = (struct product_matrix){place[1], DT_F32, 8, 0};
	p.c = (struct product_matrix){place[2], DT_F32, 8, 0};
	fake.swift = 3;
	assert_int_equal(cublaslt_tune(device.cublaslt, tuning_path()), 0);
	run_one(8, 8, 100, 0);
	assert_int_equal(cublaslt_run(device.cublaslt, 0, &p, NULL, room), 1);
	fake.timed = 0;
	fake.swift = 2;
	for (int rows = 97; rows <= 104; rows++) {
		p.m = rows;
		assert_int_equal(run_one(8, 8, rows, 0), 1);
		assert_int_equal(cublaslt_run(device.cublaslt, 0, &p, NULL, room), 1);
		assert_true(fake.algo == 3 && fake.timed == 0);
	}
	run_one(8, 8, 105, 0);
	assert_true(fake.algo == 2 && fake.timed > 0);
	assert_int_equal(tune_anew(), 3);
	fake.refuse_k = 99;
	run_one(8, 8, 98, 0);
	assert_true(fake.algo == 3);
	run_one(8, 8, 99, 0);
	assert_true(fake.algo == 2);
	fake.timed = 0;
	run_one(8, 8, 100, 0);
	assert_true(fake.algo == 3);
	assert_int_equal(tune_anew(), 4);
	run_one(8, 8, 99, 0);
	assert_true(fake.algo == 2 && fake.timed == 0);
	end();
}

static int finished;
static struct product asked_for, left;

static void finish_product(void *arg, const struct product *asked, const struct product *done, void *workspace)
{
	assert_ptr_equal(arg, &finished);
	assert_ptr_equal(workspace, room);
	asked_for = *asked;
	left = *done;
	finished++;
}

/* y (rows, 8) = gelu(x w + bias) with K = 8; the values before gelu are stored too. */
static int run_gelu(int rows)
{
	static uint16_t x[16 * 8], w[8 * 8], y[16 * 8], pre[16 * 8], bias[8];
	const struct cublaslt_finish finish = {finish_product, &finished};
	struct product p = {.m = rows,
	                    .n = 8,
	                    .k = 8,
	                    .count = 1,
	                    .alpha = 1,
	                    .act = 1 + UNARY_GELU_TANH,
	                    .a = {x, DT_BF16, 8, 0},
	                    .b = {w, DT_BF16, 8, 0},
	                    .c = {y, DT_BF16, 8, 0},
	                    .bias = {bias, DT_BF16},
	                    .aux = {pre, DT_BF16, 8, 0}};

	return cublaslt_run(device.cublaslt, 0, &p, &finish, room);
}

/* An epilogue that is slower than our own pass is not used, also after the file is read again; a faster one is used. */
static void slow_epilogues(void **state)
{
	enum { EPILOGUE = LT_EPILOGUE_GELU | LT_EPILOGUE_AUX | LT_EPILOGUE_BIAS };

	(void)state;
	unlink(tuning_path());
	begin();
	fake.slow = LT_EPILOGUE_AUX;
	cublaslt_tune(device.cublaslt, tuning_path());
	assert_int_equal(run_gelu(8), 1);
	assert_true(fake.seen[EPILOGUE] > 0 && fake.timed > 0);
	for (int again = 0; again < 2; again++) {
		fake.seen[EPILOGUE] = fake.seen[LT_EPILOGUE_BIAS] = finished = fake.timed = 0;
		assert_int_equal(run_gelu(8), 1);
		assert_true(fake.seen[EPILOGUE] == 0 && fake.seen[LT_EPILOGUE_BIAS] == 1 && finished == 1 && fake.timed == 0);
		assert_true(left.c.p == asked_for.aux.p && left.bias.p && !left.act && asked_for.act);
		assert_int_equal(tune_anew(), 2);
	}
	unlink(tuning_path());
	assert_int_equal(tune_anew(), 0);
	fake.slow = LT_EPILOGUE_BIAS; /* equally slow: our own pass remains */
	fake.swift = 2;
	assert_int_equal(run_gelu(8), 1);
	finished = 0;
	assert_int_equal(run_gelu(8), 1);
	assert_int_equal(finished, 0);
	end();
}

static int log_has(const char *text)
{
	struct str s = {0};
	int found;

	cublaslt_log(device.cublaslt, &s);
	found = strstr(str_text(&s), text) != NULL;
	if (!found)
		print_message("%s", str_text(&s));
	str_release(&s);
	return found;
}

/* dz (rows, 8) = (dy w) gelu'(z) with K = 8; z begins `shift` elements after a multiple of 16 bytes. */
static int run_slope(int rows, int shift)
{
	static _Alignas(16) uint16_t dy[16 * 8], w[8 * 8], dz[16 * 8], z[17 * 8];
	const struct cublaslt_finish finish = {finish_product, &finished};
	struct product p = {.m = rows,
	                    .n = 8,
	                    .k = 8,
	                    .count = 1,
	                    .alpha = 1,
	                    .act = 1 + UNARY_GELU_TANH,
	                    .a = {dy, DT_BF16, 8, 0},
	                    .b = {w, DT_BF16, 8, 0},
	                    .c = {dz, DT_BF16, 8, 0},
	                    .pre = {z + shift, DT_BF16, 8, 0}};

	return cublaslt_run(device.cublaslt, 0, &p, &finish, room);
}

/* The derivative of GELU is the library's unless our own pass is faster or the library refuses it. */
static void slow_slope(void **state)
{
	(void)state;
	for (int slow = 0; slow < 2; slow++) {
		unlink(tuning_path());
		begin();
		cublaslt_tune(device.cublaslt, tuning_path());
		fake.slow = slow ? LT_EPILOGUE_AUX : LT_EPILOGUE_DEFAULT;
		assert_int_equal(run_slope(8, 0), 1);
		for (int again = 0; again < 2; again++) {
			fake.seen[LT_EPILOGUE_DGELU] = fake.seen[LT_EPILOGUE_DEFAULT] = finished = fake.timed = 0;
			assert_int_equal(run_slope(8, 0), 1);
			assert_true(fake.seen[LT_EPILOGUE_DGELU] == !slow && fake.seen[LT_EPILOGUE_DEFAULT] == slow && finished == slow);
			assert_int_equal(fake.timed, 0);
			if (slow)
				assert_true(left.c.p == asked_for.c.p && !left.act && !left.pre.p && asked_for.act && asked_for.pre.p);
			assert_true(log_has(slow ? "\t+dgelu\t2\t3\t1000.0\t1000.0\t" : "\t+dgelu\t2\t3\t"));
			assert_true(log_has(slow ? "\tapart\n" : "\tlibrary\n"));
			tune_anew();
			assert_int_equal(run_slope(8, 0), 1);
		}
		fake.refuse = LT_EPILOGUE_DGELU;
		finished = 0;
		assert_int_equal(run_slope(9, 0), 1);
		assert_int_equal(finished, 1);
		fake.refuse = fake.seen[LT_EPILOGUE_DGELU] = 0; /* the library reads z in units of 16 bytes */
		assert_int_equal(run_slope(10, 1), 1);
		assert_true(finished > 1 && fake.seen[LT_EPILOGUE_DGELU] == 0);
		end();
	}
}

/* The log has a line for each shape with its choice. */
static void log_of_products(void **state)
{
	(void)state;
	unlink(tuning_path());
	begin();
	cublaslt_tune(device.cublaslt, tuning_path());
	fake.swift = 3;
	fake.slow = LT_EPILOGUE_AUX;
	run_one(8, 8, 16, 0);
	run_one(8, 8, 16, 0);
	run_gelu(8);
	assert_true(log_has("1x8x8x16\tTN\tf32,f32,f32\t-\t2\t3\t10."));
	assert_true(log_has("\t1.0\t0.0\tlibrary\n"));
	assert_true(log_has("1x8x8x8\tNN\tbf16,bf16,bf16\t+bias+gelu+aux\t1\t3\t1000.0\t1000.0\t1.0\tapart\n"));
	assert_true(log_has("1x8x8x8\tNN\tbf16,bf16,bf16\t+bias\t1\t3\t"));
	fake.refuse = LT_EPILOGUE_GELU;
	run_gelu(9);
	assert_true(log_has("1x9x8x8\tNN\tbf16,bf16,bf16\t+bias+gelu+aux\t1\t0\t0.0\t0.0\t0.0\trefused\n"));
	fake.refuse = ~0;
	assert_int_equal(run_gelu(10), 0);
	assert_int_equal(run_gelu(10), 0);
	assert_true(log_has("1x10x8x8\tNN\tbf16,bf16,bf16\t-\t2\t0\t0.0\t0.0\t0.0\town\n"));
	end();
}

/* Two processes without a file: the second reads the choices that the first makes meanwhile, and neither loses choices of the other. */
static void shared(void **state)
{
	static const char other[] = "NVIDIA/other sm_90";
	struct cublaslt *a, *b, *c;
	const char *own;
	size_t known;

	(void)state;
	begin();
	own = fake.host.gpu;
	a = another(&known);
	b = another(&known);
	assert_int_equal(known, 0);
	fake.swift = 3;
	run_by(a, 8);
	fake.swift = 2;
	run_by(b, 8);
	assert_true(fake.algo == 3);
	run_by(b, 16);
	assert_true(fake.algo == 2);
	run_by(a, 24);
	c = another(&known);
	assert_int_equal(known, 3);
	cublaslt_free(c);
	fake.host.gpu = other; /* another GPU has another file */
	c = another(&known);
	assert_int_equal(known, 0);
	run_by(c, 8);
	cublaslt_free(c);
	fake.host.gpu = own;
	c = another(&known);
	assert_int_equal(known, 3);
	cublaslt_free(c);
	cublaslt_free(a);
	cublaslt_free(b);
	end();
}

/* As in the programs: the file is in the user's cache folder. Without one nothing is stored and nothing fails. */
static void in_the_users_cache(void **state)
{
	char *cache = path_join(folder, "cache"), *dir = path_join(cache, "ddm"), *found;

	(void)state;
	setenv("XDG_CACHE_HOME", cache, 1);
	begin();
	assert_int_equal(keep_tuning(&device), 1);
	assert_int_equal(run_one(8, 8, 8, 0), 1);
	assert_true(fake.timed > 0);
	assert_int_equal(cublaslt_tune_in(device.cublaslt, dir), 1);
	end();
	setenv("XDG_CACHE_HOME", "not/absolute", 1);
	setenv("HOME", "/proc/none", 1);
	found = tuning_folder();
	assert_string_equal(found, "/proc/none/.cache/ddm");
	mem_free(found);
	begin();
	assert_int_equal(keep_tuning(&device), 0);
	assert_int_equal(run_one(8, 8, 8, 0), 1);
	assert_true(fake.timed == 0);
	unsetenv("HOME");
	assert_null(tuning_folder());
	end();
	mem_free(dir);
	mem_free(cache);
}

static void failures(void **state)
{
	static const char *const none[] = {"libnosuchlibrary.so.1", NULL}, *const wrong[] = {"libm.so.6", NULL};
	struct cublaslt_library l;
	struct err e = {0};

	(void)state;
	assert_int_equal(cublaslt_open(&l, none, &e), -1);
	assert_int_equal(e.code, ERR_UNAVAILABLE);
	assert_non_null(strstr(e.msg, "libnosuchlibrary.so.1"));
	assert_non_null(strstr(e.msg, "libcublas"));
	e.code = 0;
	assert_int_equal(cublaslt_open(&l, wrong, &e), -1);
	assert_non_null(strstr(e.msg, "cublasLtGetVersion"));
	begin();
	fake.fails = 14; /* CUBLAS_STATUS_INTERNAL_ERROR */
	assert_int_equal(run_one(4, 4, 4, 0), 1);
	assert_int_equal(fake.fail_count, 1);
	assert_non_null(strstr(fake.failed.msg, "fourteen"));
	fake.fails = 0;
	cublaslt_tune(device.cublaslt, "/nonexistent/folder/tuning");
	assert_int_equal(run_one(4, 4, 4, 0), 1);
	assert_int_equal(fake.fail_count, 2);
	assert_non_null(strstr(fake.failed.msg, "/nonexistent"));
	fake.fail_count = 0;
	end();
}

/* If the library recommends an algorithm and then fails, our own kernels are used, and the library is not tried again; the same if no algorithm of a
 * product could be timed. */
static void refusals(void **state)
{
	(void)state;
	begin();
	fake.fails = LT_INVALID_VALUE;
	assert_int_equal(run_one(4, 4, 4, 0), 0);
	assert_int_equal(fake.ran, 1);
	fake.fails = 0;
	assert_int_equal(run_one(4, 4, 4, 0), 0);
	assert_int_equal(run_one(4, 4, 5, 0), 1);
	assert_int_equal(fake.ran, 2);
	unlink(tuning_path());
	cublaslt_tune(device.cublaslt, tuning_path());
	fake.fails = 14;
	assert_int_equal(run_one(4, 4, 4, 0), 0);
	assert_true(fake.timed > 0);
	fake.fails = 0;
	assert_int_equal(tune_anew(), 0);
	assert_int_equal(fake.fail_count, 0);
	end();
}

/* If the real library is installed (no GPU is needed), it knows every attribute by number and size. */
static void library_itself(void **state)
{
	const int32_t word = 1, type = LT_R_16BF;
	const uint32_t epilogue = LT_EPILOGUE_GELU | LT_EPILOGUE_BIAS | LT_EPILOGUE_AUX, reduction = LT_REDUCTION_COMPUTE_TYPE;
	const int64_t wide = 64;
	const struct {
		int attribute;
		const void *value;
		size_t size;
	} desc[] =
	    {
		{LT_DESC_TRANSA, &word, 4},       {LT_DESC_TRANSB, &word, 4},      {LT_DESC_EPILOGUE, &epilogue, 4}, {LT_DESC_BIAS_TYPE, &type, 4},
		{LT_DESC_BIAS_POINTER, &room, 8}, {LT_DESC_AUX_POINTER, &room, 8}, {LT_DESC_AUX_LD, &wide, 8},
	    },
	  pref[] = {
	      {LT_PREF_WORKSPACE, &wide, 8}, {LT_PREF_REDUCTION, &reduction, 4}, {LT_PREF_ALIGN_A, &word, 4},
	      {LT_PREF_ALIGN_B, &word, 4},   {LT_PREF_ALIGN_C, &word, 4},        {LT_PREF_ALIGN_D, &word, 4},
	  };
	struct cublaslt_library l;
	void *d = NULL, *y = NULL, *p = NULL;

	(void)state;
	if (cublaslt_open(&l, NULL, NULL)) {
		print_message("# skip: no cuBLASLt here\n");
		skip();
	}
	assert_true(l.version() >= 120000);
	assert_int_equal(l.desc_create(&d, LT_COMPUTE_32F, LT_R_32F) | l.preference_create(&p), LT_OK);
	assert_int_equal(l.layout_create(&y, LT_R_16BF, 64, 32, 64), LT_OK);
	for (size_t i = 0; i < sizeof desc / sizeof *desc; i++) {
		assert_int_equal(l.desc_set(d, desc[i].attribute, desc[i].value, desc[i].size), LT_OK);
		assert_int_not_equal(l.desc_set(d, desc[i].attribute, desc[i].value, 3), LT_OK);
	}
	for (size_t i = 0; i < sizeof pref / sizeof *pref; i++) {
		assert_int_equal(l.preference_set(p, pref[i].attribute, pref[i].value, pref[i].size), LT_OK);
		assert_int_not_equal(l.preference_set(p, pref[i].attribute, pref[i].value, 3), LT_OK);
	}
	assert_int_equal(l.layout_set(y, LT_LAYOUT_BATCH_COUNT, &word, 4), LT_OK);
	assert_int_equal(l.layout_set(y, LT_LAYOUT_BATCH_STRIDE, &wide, 8), LT_OK);
	assert_int_equal(l.desc_destroy(d) | l.layout_destroy(y) | l.preference_destroy(p), LT_OK);
}

static int make_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof folder, "/tmp/ddm-tuning.XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	return dir_remove(folder, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(plans),          cmocka_unit_test(forced),
	    cmocka_unit_test(tuning),         cmocka_unit_test(stale),
	    cmocka_unit_test(shared_rows),    cmocka_unit_test(slow_epilogues),
	    cmocka_unit_test(slow_slope),     cmocka_unit_test(log_of_products),
	    cmocka_unit_test(shared),         cmocka_unit_test(in_the_users_cache),
	    cmocka_unit_test(failures),       cmocka_unit_test(refusals),
	    cmocka_unit_test(library_itself),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
