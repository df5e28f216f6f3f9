/* file/torchfile, file/pickle and file/weightfile: the tensors are those of torch.load, and hostile files are refused.
 * Goldens: tests/golden/torchfiles.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/shortfloat.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/kind.h"
#include "file/npy.h"
#include "file/pickle.h"
#include "file/torchfile.h"
#include "file/weightfile.h"

static char dir[3000];

static char *golden(const char *name)
{
	return str_new("tests/golden/torch/%s", name);
}

static void equals_digest(const void *p, size_t n, const char *want, const char *what)
{
	struct sha256 s;
	char hex[65];

	sha256_init(&s);
	sha256_add(&s, p, n);
	sha256_end(&s, hex);
	if (strncmp(hex, want, 16))
		fail_msg("%s: %.16s where torch has %s", what, hex, want);
}

static void equals_row(struct weightfile *w, char *const *v)
{
	int i = weightfile_find(w, v[2]);
	const struct st_tensor *t = i < 0 ? NULL : weightfile_get(w, i);
	struct str shape = {0};
	struct err e = {0};
	uint16_t *half;
	float *f;
	size_t n;

	if (!t)
		fail_msg("%s: no %s", v[0], v[2]);
	for (int d = 0; d < t->rank; d++)
		str_printf(&shape, "%s%lld", d ? "," : "", (long long)t->shape[d]);
	assert_string_equal(t->rank ? str_text(&shape) : "-", v[4]);
	assert_string_equal(st_type_name(t->type), v[3]);
	n = (size_t)st_count(t);
	f = mem_alloc(n * sizeof *f);
	half = mem_alloc(n * sizeof *half);
	if (weightfile_f32(w, i, f, &e))
		fail_msg("%s", e.msg);
	for (size_t k = 0; k < n; k++)
		half[k] = f32_to_bf16(f[k]);
	equals_digest(f, n * sizeof *f, v[5], v[2]);
	equals_digest(half, n * sizeof *half, v[6], v[2]);
	mem_free(f);
	mem_free(half);
	str_release(&shape);
}

/* Rows of the same file and root are adjacent. */
static void as_torch_reads(void **state)
{
	struct err e = {0};
	size_t n;
	char *text = file_load("tests/golden/torch/values.tsv", 1 << 20, &n, &e), *line, *rest = text, last[200] = "";
	struct weightfile *w = NULL;
	int rows = 0, files = 0;

	(void)state;
	while ((line = strsep(&rest, "\n")) && *line) {
		char *v[7], *file, now[200];

		for (int i = 0; i < 7; i++)
			v[i] = strsep(&line, "\t");
		assert_non_null(v[6]);
		snprintf(now, sizeof now, "%s %s", v[0], v[1]);
		if (strcmp(now, last)) {
			assert_true(!w || weightfile_count(w) == rows);
			weightfile_free(w);
			file = golden(v[0]);
			w = weightfile_open(file, strcmp(v[1], "?") ? v[1] : NULL, &e);
			if (!w)
				fail_msg("%s", e.msg);
			mem_free(file);
			rows = 0;
			files++;
		}
		memcpy(last, now, sizeof last);
		equals_row(w, v);
		rows++;
	}
	assert_int_equal(weightfile_count(w), rows);
	assert_in_range(files, 14, 100);
	weightfile_free(w);
	mem_free(text);
}

/* Contiguous tensors are used in the mapped file. */
static void in_place(void **state)
{
	static const struct {
		const char *file, *name;
		int there;
	} v[] = {{"zip.pt", "base", 1},   {"zip.pt", "row", 1},     {"zip.pt", "transposed", 0}, {"zip.pt", "expanded", 0},
	         {"zip.pt", "scalar", 1}, {"legacy.pt", "base", 1}, {"deflated.pt", "base", 0},  {"big.pt", "b", 0}};

	(void)state;
	for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
		char *file = golden(v[i].file);
		struct err e = {0};
		struct weightfile *w = weightfile_open(file, "", &e);
		int k = w ? weightfile_find(w, v[i].name) : -1;

		assert_true(k >= 0);
		assert_int_equal(weightfile_get(w, k)->data != NULL, v[i].there);
		weightfile_free(w);
		mem_free(file);
	}
}

/* Reading a part of a tensor gives that part of the whole. */
static void pieces(void **state)
{
	static const char *const files[] = {"zip.pt", "deflated.pt", "big.pt", "legacy.pt"};

	(void)state;
	for (int c = 0; c < 4; c++) {
		char *file = golden(files[c]);
		struct err e = {0};
		size_t len;
		void *p = file_load(file, 1 << 20, &len, &e);
		struct torchfile *f = torch_open_memory(p, len, file, "", &e);
		uint8_t whole[1000], part[1000];

		for (int i = 0; i < torch_tensors(f); i++) {
			int64_t n = st_count(torch_get(f, i));
			size_t size = st_type_size(torch_get(f, i)->type);

			assert_int_equal(torch_gather(f, i, 0, n, whole, &e), 0);
			for (int64_t from = 0; from < n; from++)
				for (int64_t count = 0; count <= n - from; count++) {
					assert_int_equal(torch_gather(f, i, from, count, part, &e), 0);
					assert_memory_equal(part, whole + (size_t)from * size, (size_t)count * size);
				}
		}
		torch_free(f);
		mem_free(p);
		mem_free(file);
	}
}

static void passed_by(void **state)
{
	char *file = golden("zip.pt"), *text;
	struct err e = {0};
	const char *what;
	size_t len;
	void *p = file_load(file, 1 << 20, &len, &e);
	struct torchfile *f = torch_open_memory(p, len, file, "", &e);
	struct weightfile *w = weightfile_open(file, "", &e);
	json_t *members;

	(void)state;
	assert_int_equal(torch_skipped(f, &what), 2);
	assert_string_equal(what, "torch.ComplexFloatStorage");
	text = torch_describe(f, "args");
	assert_string_equal(text, "a call of argparse.Namespace");
	mem_free(text);
	assert_null(torch_describe(f, "args.lr"));
	members = torch_members(f);
	assert_string_equal(json_string_value(json_object_get(members, "args")), "argparse.Namespace");
	assert_int_equal(json_integer_value(json_object_get(members, "integers")), 6);
	assert_null(json_object_get(members, "base"));
	json_decref(members);
	assert_int_equal(weightfile_need(w, "sparse", -1, NULL, &e), -1);
	assert_non_null(strstr(e.msg, "'sparse' is a call of torch._utils._rebuild_sparse_tensor, not a supported tensor"));
	e.code = 0;
	assert_int_equal(weightfile_need(w, "list.0", -1, NULL, &e), -1);
	assert_non_null(strstr(e.msg, "type I64"));
	e.code = 0;
	assert_int_equal(weightfile_need(w, "base", 2, (int64_t[]){6, 4}, &e), -1);
	assert_non_null(strstr(e.msg, "(4, 6) where (6, 4)"));
	weightfile_free(w);
	e.code = 0;
	assert_null(weightfile_open(file, "absent", &e));
	assert_int_equal(e.code, ERR_DATA);
	torch_free(f);
	mem_free(p);
	mem_free(file);
}

static void hostile(void **state)
{
	static const struct {
		const char *file, *why; /* NULL: it opens */
	} v[] = {
	    {"ok-tensor.pt", NULL},
	    {"bad-call.pt", NULL},
	    {"bad-root.pt", NULL},
	    {"ok-twice.pt", NULL},
	    {"bad-class.pt", NULL},
	    {"bad-many.pt", "outside its storage"},
	    {"bad-repeat.pt", NULL},
	    {"bad-deep.pt", "nested deeper"},
	    {"bad-cycle.pt", "nested deeper"},
	    {"bad-laughs.pt", "contains more than"},
	    {"bad-memo.pt", "a memo number larger than"},
	    {"bad-length.pt", "cut short"},
	    {"bad-stack.pt", "no mark"},
	    {"bad-opcode.pt", "instruction 0xff"},
	    {"bad-offset.pt", "outside its storage"},
	    {"bad-negative.pt", "shape, stride or offset"},
	    {"bad-size.pt", "24 bytes where its 7 elements need 28"},
	    {"bad-overflow.pt", "outside its storage"},
	    {"bad-stride.pt", "shape, stride or offset"},
	    {"bad-missing.pt", "storage '../0' is missing"},
	    {"bad-numel.pt", "is not that of a storage"},
	    {"bad-rank.pt", "shape, stride or offset"},
	    {"bad-overlap.pt", "another name"},
	    {"bad-nested.pt", "two members in one place"},
	    {"bad-renamed.pt", "another name"},
	    {"bad-claims.pt", "cut short"},
	    {"bad-sum.pt", "checksum"},
	    {"bad-bomb.pt", "too large"},
	    {"bad-script.pt", "TorchScript"},
	    {"bad-cut.pt", "truncated"},
	    {"bad-more.pt", "1 bytes after"},
	    {"bad-tar.pt", "tar format of PyTorch"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
		char *file = golden(v[i].file);
		struct err e = {0};
		struct weightfile *w = weightfile_open(file, NULL, &e);

		if (!w != !!v[i].why || (!w && (e.code != ERR_DATA || !strstr(e.msg, v[i].why) || !strstr(e.msg, v[i].file))))
			fail_msg("%s: %s", v[i].file, e.msg);
		if (!strcmp(v[i].file, "ok-twice.pt")) {
			assert_int_equal(weightfile_count(w), 1);
			assert_int_equal(st_count(weightfile_get(w, 0)), 4);
		}
		if (!strcmp(v[i].file, "bad-call.pt")) {
			assert_int_equal(weightfile_count(w), 1);
			assert_int_equal(weightfile_need(w, "x", -1, NULL, &e), -1);
			assert_non_null(strstr(e.msg, "'x' is a call of posix.system"));
		}
		weightfile_free(w);
		mem_free(file);
	}
	assert_int_equal(access("/tmp/ddm-pickle-was-run", F_OK), -1);
}

/* Truncation is always found. Files that are accepted after a flip have the same elements, except in the layout without checksums. */
static void truncations_and_flips(void **state)
{
	static const char *const files[] = {"ok-tensor.pt", "protocol4.pt", "newlegacy.pt"};

	(void)state;
	for (int c = 0; c < 3; c++) {
		char *file = golden(files[c]);
		struct err e = {0};
		size_t n;
		uint8_t *p = file_load(file, 1 << 20, &n, &e);

		for (size_t k = 0; k < n; k++) {
			uint8_t *exact = memcpy(mem_alloc(k), p, k);

			e.code = 0;
			assert_null(torch_open_memory(exact, k, "cut", "", &e));
			assert_int_equal(e.code, ERR_DATA);
			mem_free(exact);
		}
		for (size_t bit = 0; bit < n * 8; bit++) {
			struct torchfile *f;
			int64_t bad;

			p[bit / 8] ^= (uint8_t)(1 << bit % 8);
			f = torch_open_memory(p, n, "flip", "", NULL);
			for (int i = 0; f && i < torch_tensors(f); i++) {
				uint8_t out[4096];

				assert_in_range(st_count(torch_get(f, i)), 0, 256);
				torch_gather(f, i, 0, st_count(torch_get(f, i)), out, NULL);
			}
			if (f && torch_is_zip(f) && !torch_verify(f, &bad, NULL))
				for (int i = 0; i < torch_tensors(f) && c == 0; i++) {
					static const uint8_t zeros[24];

					assert_memory_equal(torch_get(f, i)->data, zeros, 24);
				}
			torch_free(f);
			p[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
		mem_free(p);
		mem_free(file);
	}
}

static void verified(void **state)
{
	static const char *const files[] = {"zip.pt", "legacy.pt", "deflated.pt", "nosum.pt", "big.pt", "new.pt"};
	static const int not_finite[] = {1, 1, 1, 0, 1, 2}; /* new.pt: NaN in a storage, outside the view of the tensor */
	char *file = golden("ok-tensor.pt");
	struct err e = {0};
	struct torchfile *f;
	int64_t bad;
	size_t n;
	uint8_t *p = file_load(file, 1 << 20, &n, &e), *zeros = memmem(p, n, "a/data/0", 8);

	(void)state;
	mem_free(file);
	for (int c = 0; c < 6; c++) {
		struct weightfile *w;

		file = golden(files[c]);
		w = weightfile_open(file, "", &e);
		assert_int_equal(weightfile_verify(w, &bad, &e), 0);
		assert_int_equal(bad, not_finite[c]);
		weightfile_free(w);
		mem_free(file);
	}
	zeros[8] ^= 1;
	f = torch_open_memory(p, n, "altered", "", &e);
	assert_non_null(f);
	assert_int_equal(torch_verify(f, &bad, &e), -1);
	assert_non_null(strstr(e.msg, "checksum"));
	torch_free(f);
	mem_free(p);
}

/* Instructions of pickle protocols that torch does not write. */
static void old_pickles(void **state)
{
	static const char zero[] = "(dp0\nS'a'\np1\nI12\nsVb\n(lp2\nF1.5\naI01\naL7L\nasg1\n(I1\nI2\ntp3\ns.";
	static const char inst[] = "(S'x'\nicollections\nOrderedDict\np1\n(S'k'\nN(dub.";
	static const char frozen[] = "\x80\x04\x95\x10\0\0\0\0\0\0\0(K\x01K\xff\x91\x94\x8f(J\xff\xff\xff\xff\x90\x86.";
	struct arena a = {0};
	struct err e = {0};
	struct pickle p;

	(void)state;
	assert_int_equal(pickle_parse(&p, &a, zero, sizeof zero - 1, "zero", &e), 0);
	assert_int_equal(p.used, sizeof zero - 1);
	assert_int_equal(p.root->n, 6);
	assert_int_equal(pickle_item(p.root->item[5], 1)->i, 2); /* the key given twice */
	assert_true(pickle_item(p.root->item[3], 0)->f == 1.5);
	assert_int_equal(pickle_item(p.root->item[3], 1)->kind, PICKLE_BOOL);
	assert_int_equal(pickle_item(p.root->item[3], 2)->i, 7);
	assert_int_equal(pickle_parse(&p, &a, inst, sizeof inst - 1, "inst", &e), -1); /* a key without a value */
	e.code = 0;
	assert_int_equal(pickle_parse(&p, &a, frozen, sizeof frozen - 1, "frozen", &e), 0);
	assert_int_equal(pickle_item(pickle_item(p.root, 0), 1)->i, 255);
	assert_int_equal(pickle_item(pickle_item(p.root, 1), 0)->i, -1);
	arena_release(&a);
}

static void eight_bits(void **state)
{
	(void)state;
	assert_true(f8_e4m3_to_f32(0x7e) == 448 && f8_e4m3_to_f32(0x01) == 0x1p-9f && f8_e4m3_to_f32(0x08) == 0x1p-6f);
	assert_true(isnan(f8_e4m3_to_f32(0x7f)) && isnan(f8_e4m3_to_f32(0xff)) && signbit(f8_e4m3_to_f32(0x80)));
	assert_true(f8_e5m2_to_f32(0x7b) == 57344 && isinf(f8_e5m2_to_f32(0xfc)) && isnan(f8_e5m2_to_f32(0x7d)));
	assert_true(f8_e5m2_to_f32(0x01) == 0x1p-16f);
}

/* For readers of safetensors: tensors that are not contiguous are copied, up to a limit. */
static void as_safetensors(void **state)
{
	static const char *const files[] = {"tests/golden/torch/zip.pt",     "tests/golden/torch/deflated.pt", "tests/golden/torch/big.pt",
	                                    "tests/golden/torch/parts",      "tests/golden/npy/deflated.npz",  "tests/golden/npy/big.npz",
	                                    "tests/golden/small.safetensors"};
	struct err e = {0};

	(void)state;
	for (int c = 0; c < 7; c++) {
		struct safetensors *s = weightfile_load(files[c], c < 3 ? "" : NULL, &e);
		struct weightfile *w = weightfile_open(files[c], c < 3 ? "" : NULL, &e);

		if (!s || !w)
			fail_msg("%s", e.msg);
		assert_int_equal(st_tensors(s), weightfile_count(w));
		for (int i = 0; i < weightfile_count(w); i++) {
			const struct st_tensor *t = st_find(s, weightfile_get(w, i)->name);
			float one[4096], other[4096];

			st_to_f32(one, t);
			assert_int_equal(weightfile_f32(w, i, other, &e), 0);
			assert_memory_equal(one, other, (size_t)st_count(t) * sizeof *one);
		}
		weightfile_free(w);
		st_free(s);
	}
	assert_null(weightfile_load("tests/golden/torch/bad-repeat.pt", NULL, &e));
	assert_non_null(strstr(e.msg, "is expanded too far"));
	assert_int_equal(e.code, ERR_DATA);
}

static void put_text(const char *name, const char *text)
{
	char *path = path_join(dir, name);
	struct outfile o = {0};
	struct err e = {0};

	if (outfile_open(&o, path, &e) || outfile_write(&o, text, strlen(text), &e) || outfile_commit(&o, &e))
		fail_msg("%s", e.msg);
	mem_free(path);
}

static void indexes(void **state)
{
	static const struct {
		const char *text, *why;
	} v[] = {
	    {"{\"weight_map\": {\"a\": \"x.safetensors\", \"b\": \"y.safetensors\"}}", NULL},
	    {"{\"weight_map\": {\"a\": \"x.safetensors\"}}", NULL},
	    {"{\"weight_map\": {\"a\": \"y.safetensors\"}}", "no tensor 'a'"},
	    {"{\"weight_map\": {\"a\": \"../x.safetensors\"}}", "is not a file of this folder"},
	    {"{\"weight_map\": {\"a\": \"/etc/passwd\"}}", "is not a file of this folder"},
	    {"{\"weight_map\": {\"a\": \"..\"}}", "is not a file of this folder"},
	    {"{\"weight_map\": {\"a\": \"\"}}", "is not a file of this folder"},
	    {"{\"weight_map\": {\"a\": 1}}", "gives no file"},
	    {"{\"weight_map\": []}", "no \"weight_map\""},
	    {"{\"weight_map\": {\"a\": \"none.safetensors\"}}", "none.safetensors"},
	};
	static const float one = 1, two[] = {2, 3};
	struct st_tensor a = {"a", ST_F32, 0, {0}, &one}, b = {"b", ST_F32, 1, {2}, two};
	char *x = path_join(dir, "x.safetensors"), *y = path_join(dir, "y.safetensors"), hex[65], again[65];
	struct err e = {0};
	float out[2];

	(void)state;
	assert_int_equal(st_write(x, &a, 1, NULL, 0, &e), 0);
	assert_int_equal(st_write(y, &b, 1, NULL, 0, &e), 0);
	for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
		struct weightfile *w;

		put_text("model.safetensors.index.json", v[i].text);
		e.code = 0;
		w = weightfile_open(dir, NULL, &e);
		if (!w != !!v[i].why || (!w && !strstr(e.msg, v[i].why)))
			fail_msg("%s: %s", v[i].text, e.msg);
		if (!i) {
			assert_int_equal(weightfile_count(w), 2);
			assert_int_equal(weightfile_f32(w, weightfile_find(w, "b"), out, &e), 0);
			assert_true(out[0] == 2 && out[1] == 3);
			assert_int_equal(weightfile_files(w), 3);
			assert_int_equal(weightfile_hash(w, hex, &e), 0);
		}
		if (i == 1) {
			assert_int_equal(weightfile_count(w), 1);
			assert_int_equal(weightfile_hash(w, again, &e), 0);
			assert_string_not_equal(hex, again);
		}
		weightfile_free(w);
	}
	e.code = 0;
	assert_null(weightfile_open(x, "ema", &e));
	assert_int_equal(e.code, ERR_USAGE);
	mem_free(x);
	mem_free(y);
}

static void copy_to(const char *from, const char *name)
{
	char *file = golden(from), *path = path_join(dir, name);
	struct outfile o = {0};
	struct err e = {0};
	size_t n;
	void *p = file_load(file, 1 << 20, &n, &e);

	if (outfile_open(&o, path, &e) || outfile_write(&o, p, n, &e) || outfile_commit(&o, &e))
		fail_msg("%s", e.msg);
	mem_free(p);
	mem_free(file);
	mem_free(path);
}

static void located(const char *first, const char *want)
{
	struct err e = {0};
	char *path = weightfile_locate(dir, first, &e);

	if (!path)
		assert_null(want);
	else
		assert_string_equal(strrchr(path, '/') + 1, want ? want : "nothing");
	mem_free(path);
}

static void drop(const char *name)
{
	char *path = path_join(dir, name);

	unlink(path);
	mem_free(path);
}

static void folders(void **state)
{
	enum kind kind;
	struct err e = {0};

	(void)state;
	drop("model.safetensors.index.json");
	drop("x.safetensors");
	drop("y.safetensors");
	located(NULL, NULL);
	copy_to("zip.pt", "one.pt");
	located(NULL, "one.pt");
	copy_to("legacy.pt", "two.pth");
	assert_null(weightfile_locate(dir, NULL, &e));
	assert_int_equal(e.code, ERR_DATA);
	copy_to("zip.pt", "pytorch_model.bin");
	located(NULL, "pytorch_model.bin");
	assert_int_equal(kind_of_folder(dir, &kind, &e), 0);
	assert_int_equal(kind, KIND_NETWORK);
	copy_to("zip.pt", "pytorch_model.safetensors");
	located(NULL, "pytorch_model.safetensors");
	copy_to("zip.pt", "model.safetensors");
	located(NULL, "model.safetensors");
	located("two.pth", "two.pth");
	drop("one.pt");
	drop("two.pth");
	drop("pytorch_model.bin");
	drop("pytorch_model.safetensors");
	drop("model.safetensors");
}

/* numpy's arrays and safetensors files through the same functions. */
static void other_files(void **state)
{
	struct err e = {0};
	struct weightfile *w = weightfile_open("tests/golden/npy/deflated.npz", NULL, &e);
	int64_t bad;
	float v[4];

	(void)state;
	if (!w)
		fail_msg("%s", e.msg);
	assert_int_equal(weightfile_f32(w, weightfile_need(w, "mu", 1, (int64_t[]){4}, &e), v, &e), 0);
	assert_true(v[3] == -4.5f);
	assert_int_equal(weightfile_verify(w, &bad, &e), 0);
	weightfile_free(w);
	w = weightfile_open("tests/golden/small.safetensors", NULL, &e);
	assert_string_equal(weightfile_meta(w, "format"), "pt");
	assert_int_equal(weightfile_f32(w, weightfile_find(w, "b"), v, &e), 0);
	assert_true(v[3] == 4);
	weightfile_free(w);
}

static char *data_folder(const char *name)
{
	const char *places[] = {getenv("DDM_TEST_DATA"), "shared/data", "../shared/data"};

	for (int i = 0; i < 3; i++) {
		char *path = places[i] ? path_join(places[i], name) : NULL;

		if (path && path_exists(path))
			return path;
		mem_free(path);
	}
	print_message("skip: no test data (%s): DDM_TEST_DATA\n", name);
	skip();
	return NULL;
}

static void equal_files(const char *a, const char *b)
{
	struct err e = {0};
	struct weightfile *x = weightfile_open(a, NULL, &e), *y = weightfile_open(b, NULL, &e);

	if (!x || !y)
		fail_msg("%s", e.msg);
	assert_int_equal(weightfile_count(x), weightfile_count(y));
	for (int i = 0; i < weightfile_count(x); i++) {
		const struct st_tensor *t = weightfile_get(x, i);
		size_t n = (size_t)st_count(t) * sizeof(float);
		int k = weightfile_need(y, t->name, t->rank, t->shape, &e);
		float *u = mem_alloc(n), *v = mem_alloc(n);

		if (k < 0 || weightfile_f32(x, i, u, &e) || weightfile_f32(y, k, v, &e))
			fail_msg("%s", e.msg);
		assert_memory_equal(u, v, n);
		mem_free(u);
		mem_free(v);
	}
	weightfile_free(x);
	weightfile_free(y);
}

/* Released files: LPIPS of 2018 and its conversion, a DDPM of 606,852 parameters. */
static void released(void **state)
{
	static const char *const nets[] = {"alex", "squeeze", "vgg"};
	char *lpips = data_folder("weights/lpips"), *tiny = data_folder("weights/ddpm-tiny/ddpm_mnist.pt");
	struct err e = {0};
	struct weightfile *w;
	int64_t n = 0, bad;

	(void)state;
	for (int i = 0; i < 3; i++) {
		char *a = str_new("%s/%s_v0.1.pth", lpips, nets[i]), *b = str_new("%s/%s_v0.1.safetensors", lpips, nets[i]);
		char *old = str_new("%s/%s_v0.0.pth", lpips, nets[i]);

		equal_files(a, b);
		equal_files(old, old);
		mem_free(a);
		mem_free(b);
		mem_free(old);
	}
	w = weightfile_open(tiny, NULL, &e);
	if (!w)
		fail_msg("%s", e.msg);
	for (int i = 0; i < weightfile_count(w); i++)
		n += st_count(weightfile_get(w, i));
	assert_int_equal(n, 606852);
	assert_int_equal(weightfile_verify(w, &bad, &e), 0);
	assert_int_equal(bad, 0);
	weightfile_free(w);
	mem_free(lpips);
	mem_free(tiny);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(as_torch_reads), cmocka_unit_test(in_place),    cmocka_unit_test(pieces),
	    cmocka_unit_test(passed_by),      cmocka_unit_test(hostile),     cmocka_unit_test(truncations_and_flips),
	    cmocka_unit_test(verified),       cmocka_unit_test(old_pickles), cmocka_unit_test(eight_bits),
	    cmocka_unit_test(as_safetensors), cmocka_unit_test(indexes),     cmocka_unit_test(folders),
	    cmocka_unit_test(other_files),    cmocka_unit_test(released),
	};
	struct err e = {0};
	int rc;

	snprintf(dir, sizeof dir, "%s/ddm-torch-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	if (!mkdtemp(dir))
		return 1;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	dir_remove(dir, &e);
	return rc;
}
