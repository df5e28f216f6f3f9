/* The kinds of files and folders, and the facts about them. They are made by hand here, so that every number is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "inspect/samplefacts.h"
#include "file/commit.h"
#include "inspect/facts.h"
#include "file/fileio.h"
#include "file/kind.h"
#include "file/safetensors.h"
#include "file/tarfile.h"
#include "tests/unit/scratch.h"
#include "inspect/jsonfacts.h"
#include "inspect/modelfacts.h"
#include "train/trainlog.h"

static void put(const char *name, const void *data, size_t len)
{
	char *path = path_join(dir, name), *slash = path + strlen(dir) + 1;

	for (; (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		mkdir(path, 0777);
		*slash = '/';
	}
	assert_int_equal(commit_bytes(path, data, len, NULL), 0);
	mem_free(path);
}

static enum kind folder_kind(const char *name)
{
	char *path = path_join(dir, name);
	enum kind k = KIND_UNKNOWN;

	assert_int_equal(kind_of_folder(path, &k, NULL), 0);
	mem_free(path);
	return k;
}

/* Compare o as a line with the text, and release o. */
static void check_line(json_t *o, const char *text)
{
	char *line = jsonio_line(o);

	assert_string_equal(line, text);
	mem_free(line);
	json_decref(o);
}

static struct facts_source source(const void *data, size_t len)
{
	return (struct facts_source){.name = "it", .data = data, .len = len};
}

static const struct facts_options look, check = {.check = 1}, full = {.full = 1};

/* Write a header of n bytes, preceded by its length and followed by data. */
static size_t safetensors_put(uint8_t *to, const char *header, const void *data, size_t bytes)
{
	size_t n = strlen(header);

	memset(to, 0, 8);
	to[0] = (uint8_t)n;
	memcpy(to + 8, header, n);
	memcpy(to + 8 + n, data, bytes);
	return 8 + n + bytes;
}

static void kinds_of_bytes(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		enum kind kind;
	} all[] = {
	    {"\x93NUMPY\1\0", 8, KIND_NPY},
	    {"PK\3\4", 4, KIND_NPZ},
	    {"PK\5\6", 4, KIND_NPZ},
	    {"PK\1\2", 4, KIND_UNKNOWN},
	    {"\x89PNG\r\n\x1a\n", 8, KIND_STILL},
	    {"\xff\xd8\xff\xe0", 4, KIND_STILL},
	    {"fLaC", 4, KIND_FLAC},
	    {"fLa", 3, KIND_UNKNOWN},
	    {"\2\0\0\0\0\0\0\0{}", 10, KIND_SAFETENSORS},
	    {"\xff\xff\xff\xff\0\0\0\0{", 9, KIND_SAFETENSORS},
	    {"\2\0\0\0\1\0\0\0{}", 10, KIND_UNKNOWN},
	    {"\2\0\0\0\0\0\0\0[]", 10, KIND_UNKNOWN},
	    {"#a\tb\n#stamp {}\n", 15, KIND_TABLE},
	    {"#a\tb\n#stam", 10, KIND_UNKNOWN},
	    {"#a\tb", 4, KIND_UNKNOWN},
	    {" \t\r\n{", 5, KIND_JSON},
	    {"{", 1, KIND_JSON},
	    {"[1]", 3, KIND_UNKNOWN},
	    {"   ", 3, KIND_UNKNOWN},
	    {"\0{", 2, KIND_UNKNOWN},
	    {"\x1f\x8b\x08\0\0\0\0\0\0\3", 10, KIND_TAR},
	    {"\x28\xb5\x2f\xfd", 4, KIND_TAR},
	    {"", 0, KIND_UNKNOWN},
	    {"x", 1, KIND_UNKNOWN},
	    /* the footer of the seekable format: frames, descriptor with checksums, magic */
	    {"\x28\xb5\x2f\xfd........\1\0\0\0\x80\xb1\xea\x92\x8f", 21, KIND_SHARD},
	    {"\x28\xb5\x2f\xfd........\1\0\0\0\x00\xb1\xea\x92\x8f", 21, KIND_TAR},
	};

	(void)state;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		uint8_t *exact = memcpy(mem_alloc(all[i].len), all[i].bytes, all[i].len);

		assert_int_equal(kind_of_bytes(exact, all[i].len), all[i].kind);
		mem_free(exact);
	}
}

/* A head by hand: 44100 = 0x0ac44, 2 channels, 16 bits, 88200 = 0x015888 samples, packed as 0ac4 42f0 0001 5888. */
static void heads_of_flac(void **state)
{
	static const uint8_t head[42] = {'f', 'L', 'a', 'C', 0x80, 0,    0,    34,   16,   0, 16, 0,    0,
	                                 0,   0,   0,   0,   0,    0x0a, 0xc4, 0x42, 0xf0, 0, 1,  0x58, 0x88};
	struct facts_options f = {0};
	struct err e = {0};
	struct {
		int at, value; /* a byte that is changed */
		size_t len;
		int good;
	} cases[] = {{0, 'f', 42, 1}, {4, 0, 42, 1},   {0, 'g', 42, 0}, {4, 0x81, 42, 0}, {7, 33, 42, 0},
	             {5, 1, 42, 0},   {0, 'f', 41, 0}, {0, 'f', 4, 0},  {0, 'f', 0, 0}};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		uint8_t *exact = mem_alloc(cases[i].len);
		struct facts_source s = {"x.flac", NULL, exact, cases[i].len};
		json_t *o = json_object();

		memcpy(exact, head, cases[i].len);
		if (cases[i].len)
			exact[cases[i].at] = (uint8_t)cases[i].value;
		assert_int_equal(facts_flac(o, &s, &f, &e), cases[i].good ? 0 : -1);
		if (cases[i].good) {
			assert_int_equal(json_integer_value(json_object_get(o, "rate")), 44100);
			assert_int_equal(json_integer_value(json_object_get(o, "channels")), 2);
			assert_int_equal(json_integer_value(json_object_get(o, "bits")), 16);
			assert_true(json_real_value(json_object_get(o, "seconds")) == 2.0);
		} else {
			assert_int_equal(e.code, ERR_DATA);
			e = (struct err){0};
		}
		json_decref(o);
		mem_free(exact);
	}
}

static void kinds_of_folders(void **state)
{
	(void)state;
	put("f1/picture.png", "", 0);
	put("f2/step-00000010/x", "", 0);
	put("f3/step-", "", 0);
	put("f4/step-12/x", "", 0);
	put("f4/train.jsonl", "", 0);
	put("f5/config.json", "", 0);
	put("f5/MANIFEST.json", "", 0);
	put("f6/expert_12/x", "", 0);
	put("f6/config.json", "", 0);
	put("f7/expert_x/x", "", 0);
	put("f8/router/x", "", 0);
	put("f9/expert_0/x", "", 0);
	put("f9/MANIFEST.tsv", "", 0);
	assert_int_equal(folder_kind("f1"), KIND_FOLDER);
	assert_int_equal(folder_kind("f2"), KIND_TRAIN);
	assert_int_equal(folder_kind("f3"), KIND_FOLDER);
	assert_int_equal(folder_kind("f4"), KIND_NETWORK);
	assert_int_equal(folder_kind("f5"), KIND_CHECKPOINT);
	assert_int_equal(folder_kind("f6"), KIND_MODEL);
	assert_int_equal(folder_kind("f7"), KIND_FOLDER);
	assert_int_equal(folder_kind("f8"), KIND_MODEL);
	assert_int_equal(folder_kind("f9"), KIND_SHARDS);
}

/* Bit patterns of IEEE 754 by type: infinity and NaN are counted, the largest number is not. */
static void finiteness(void **state)
{
	static const uint64_t f64[] = {0x7ff0000000000000, 0xfff8000000000001, 0x7fefffffffffffff, 0, 1};
	static const uint32_t f32[] = {0x7f800000, 0xffc00000, 0x7f7fffff, 0x807fffff, 0x7f800001};
	static const uint16_t f16[] = {0x7c00, 0xfe00, 0x7bff, 0x8000, 0x03ff}, bf16[] = {0x7f80, 0xff81, 0x7f7f, 0x0080, 0x7c00};
	static const uint8_t u8[] = {255, 255, 255, 255, 255};
	static const struct {
		enum st_type type;
		const void *data;
		int64_t bad;
	} all[] = {{ST_F64, f64, 2}, {ST_F32, f32, 3}, {ST_F16, f16, 2}, {ST_BF16, bf16, 2}, {ST_U8, u8, 0}};

	(void)state;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct st_tensor t = {.type = all[i].type, .rank = 1, .shape = {5}, .data = all[i].data};

		assert_int_equal(st_not_finite(&t), all[i].bad);
	}
}

static void tensors(void **state)
{
	static const char header[] = "{\"__metadata__\":{\"stamp\":\"{\\\"a\\\":1}\",\"format\":\"pt\"},"
				     "\"b\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
				     "\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[8,9]}}";
	static const uint8_t data[] = {0, 0, 0x80, 0x7f, 0, 0, 0x80, 0x3f, 7};
	uint8_t file[512];
	size_t n = safetensors_put(file, header, data, sizeof data);
	struct facts_source s = source(file, n);
	struct err e = {0};
	json_t *o = json_object();

	(void)state;
	assert_int_equal(facts_safetensors(o, &s, &check, &e), 0);
	check_line(o, "{\"tensors\":2,\"parameters\":3,\"types\":{\"F32\":1,\"U8\":1},\"data_bytes\":9,\"not_finite\":1,"
	              "\"metadata\":{\"format\":\"pt\"},\"stamp\":{\"a\":1}}");
	o = json_object();
	assert_int_equal(facts_safetensors(o, &s, &full, &e), 0);
	check_line(json_incref(json_object_get(o, "list")), "[{\"name\":\"b\",\"type\":\"F32\",\"shape\":[2,1],\"bytes\":8},"
	                                                    "{\"name\":\"a\",\"type\":\"U8\",\"shape\":[],\"bytes\":1}]");
	json_decref(o);
	s.len--;
	o = json_object();
	assert_int_equal(facts_safetensors(o, &s, &look, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	json_decref(o);
}

static void stamps(void **state)
{
	static const char *const all[][2] = {{"{\"a\":2}", "{\"stamp\":{\"a\":2}}"},
	                                     {"plain", "{\"stamp\":\"plain\"}"},
	                                     {"{}", "{}"},
	                                     {"[1]", "{}"},
	                                     {"{\"a\":1,\"a\":2}", "{\"stamp\":\"{\\\"a\\\":1,\\\"a\\\":2}\"}"}};

	(void)state;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		json_t *o = json_object();

		facts_stamp(o, all[i][0]);
		check_line(o, all[i][1]);
	}
	facts_stamp(NULL, NULL);
}

/* A table with rows "key cluster split" and its last line. */
static char *table(const char *rows, int n)
{
	struct str s = {0};

	str_printf(&s, "#key\tcluster\tsplit\n#stamp {\"k\":3}\n%s", rows);
	str_printf(&s, "#end %d %016llx\n", n, (unsigned long long)hash64(s.p, s.len));
	return s.p;
}

static json_t *table_facts(const char *rows, int n, const struct facts_options *f, struct err *e)
{
	char *text = table(rows, n);
	struct facts_source s = source(text, strlen(text));
	json_t *o = json_object();

	assert_int_equal(facts_table(o, &s, f, e), e->code ? -1 : 0);
	json_object_del(o, "sha256");
	mem_free(text);
	return o;
}

static void tables(void **state)
{
	struct err e = {0};
	json_t *o, *list;

	(void)state;
	check_line(table_facts("a\t2\ttrain\nb\t0\tholdout\nc\t2\tholdout\nd\t2\ttrain\n", 4, &look, &e),
	           "{\"columns\":[\"key\",\"cluster\",\"split\"],\"rows\":4,\"clusters\":["
	           "{\"cluster\":0,\"rows\":1,\"share\":0.25,\"held_out\":1},{\"cluster\":1,\"rows\":0,\"share\":0.0,\"held_out\":0},"
	           "{\"cluster\":2,\"rows\":3,\"share\":0.75,\"held_out\":1}],\"end\":\"whole: rows and hash are right\",\"stamp\":{\"k\":3}}");
	/* A single row cannot cause a million clusters. */
	o = table_facts("a\t1048575\ttrain\nb\t0\ttrain\n", 2, &look, &e);
	list = json_object_get(o, "clusters");
	assert_int_equal(json_array_size(list), 2);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 1), "cluster")), 1048575);
	json_decref(o);
	json_decref(table_facts("a\t4095\ttrain\n", 1, &look, &e));
	assert_int_equal(e.code, 0);
	o = table_facts("a\t1048576\ttrain\n", 1, &(struct facts_options){0}, (e.code = ERR_DATA, &e));
	assert_null(json_object_get(o, "clusters"));
	json_decref(o);
}

static json_t *json_facts(const char *text, const char *kind, const struct facts_options *f, int code)
{
	uint8_t *exact = memcpy(mem_alloc(strlen(text)), text, strlen(text));
	struct facts_source s = source(exact, strlen(text));
	json_t *o = json_object();
	struct err e = {0};
	const char *is;

	assert_int_equal(facts_json(o, &s, f, &is, &e), code ? -1 : 0);
	assert_int_equal(e.code, code);
	assert_string_equal(is, kind);
	mem_free(exact);
	return o;
}

static void json_kinds(void **state)
{
	(void)state;
	check_line(json_facts("{\"program\":\"ddm-eval-fid\",\"fd\":1,\"stamp\":{\"a\":1}}\n", "evaluation", &look, 0),
	           "{\"stamp\":{\"a\":1},\"values\":{\"program\":\"ddm-eval-fid\",\"fd\":1}}");
	json_decref(json_facts("{\"program\":\"x\"}", "report", &look, 0));
	check_line(json_facts("{\n\"a\": 1\n}\n", "json", &look, 0), "{\"values\":{\"a\":1}}");
	check_line(json_facts("{\"a\":1}\n\n{\"b\":2}\n", "lines", &check, 0), "{\"lines\":2,\"last\":{\"b\":2}}");
	check_line(json_facts("{\"a\":1}\n{]\n{\"b\":2}\n", "lines", &look, 0), "{\"lines\":3,\"last\":{\"b\":2}}");
	json_decref(json_facts("{\"a\":1}\n{]\n{\"b\":2}\n", "lines", &check, ERR_DATA));
	json_decref(json_facts("{\"a\":1}\n{\"b\":", "lines", &look, ERR_DATA));
	json_decref(json_facts("{\"a\":", "json", &look, ERR_DATA));
	json_decref(json_facts("{\"a\":1,\"a\":2}", "json", &look, ERR_DATA));
	json_decref(json_facts("{\"model_type\":\"nothing known\"}", "config", &look, ERR_DATA));
}

static void logs(void **state)
{
	static const char begun[] = "{\"event\":\"start\",\"step\":0,\"steps\":100,\"stamp\":{\"batch\":8},\"samples\":5}\n"
				    "{\"step\":10,\"loss\":2,\"val_loss\":1.5,\"images_per_s\":40}\n"
				    "{\"step\":20,\"loss\":1,\"val_loss\":1.25,\"images_per_s\":40}\n"
				    "{\"event\":\"unsaved\",\"at\":25,\"why\":\"no room\"}\n"
				    "{\"event\":\"start\",\"step\":20,\"steps\":100,\"stamp\":{\"batch\":8},\"samples\":5}\n"
				    "{\"step\":30,\"loss\":0.5,\"val_loss\":1.75,\"images_per_s\":40}\n"
				    "{\"step\":40,\"loss\":0.25,\"images_per_s\":80}\n";
	struct str s = {0};
	json_t *o = json_facts(begun, "log", &check, 0);

	(void)state;
	/* 60 steps of 8 samples remain, at 80 a second. */
	assert_true(fabs(json_number_value(json_object_get(o, "eta_s")) - 6) < 1e-9);
	assert_int_equal(json_integer_value(json_object_get(o, "step")), 40);
	assert_int_equal(json_integer_value(json_object_get(o, "best_step")), 20);
	assert_true(json_number_value(json_object_get(o, "best_val_loss")) == 1.25);
	assert_true(json_number_value(json_object_get(o, "val_loss")) == 1.75);
	assert_int_equal(json_integer_value(json_object_get(o, "runs")), 2);
	assert_null(json_object_get(o, "torn"));
	json_decref(o);
	str_puts(&s, begun);
	str_puts(&s, "{\"step\":41,\"lo");
	o = json_facts(s.p, "log", &check, 0);
	assert_true(json_is_true(json_object_get(o, "torn")));
	assert_int_equal(json_integer_value(json_object_get(o, "step")), 40);
	json_decref(o);
	str_puts(&s, "\n{\"event\":\"end\",\"step\":100}\n");
	json_decref(json_facts(s.p, "log", &check, ERR_DATA));
	o = json_facts(s.p, "log", &look, 0);
	assert_string_equal(json_string_value(json_object_get(o, "state")), "finished");
	assert_null(json_object_get(o, "eta_s"));
	json_decref(o);
	str_release(&s);
}

static void archives(void **state)
{
	static const uint8_t array[] = "\x93NUMPY\1\0\x36\0{'descr':'<f4','fortran_order':False,'shape':(1,)}   \n\0\0\0\0";
	struct str tar = {0};
	struct facts_source s;
	struct err e = {0};
	json_t *o = json_object();

	(void)state;
	tar_put_member(&tar, "x/1.npy", array, sizeof array - 1, NULL);
	tar_put_member(&tar, "x/1.cls", "2", 1, NULL);
	tar_put_member(&tar, "x/1.txt", "words", 5, NULL);
	tar_put_member(&tar, "x/2.npy", array, sizeof array - 1, NULL);
	tar_put_member(&tar, "x/2.cls", "2", 1, NULL);
	s = source(tar.p, tar.len);
	assert_int_equal(facts_tar(o, &s, &look, &e), -1); /* no end blocks */
	assert_int_equal(e.code, ERR_DATA);
	json_decref(o);
	str_add(&tar, (char[1024]){0}, 1024);
	s = source(tar.p, tar.len);
	o = json_object();
	e.code = 0;
	assert_int_equal(facts_tar(o, &s, &check, &e), 0);
	assert_int_equal(json_integer_value(json_object_get(o, "samples")), 2);
	assert_int_equal(json_integer_value(json_object_get(o, "captions")), 1);
	assert_string_equal(json_string_value(json_object_get(o, "first")), "x/1");
	assert_string_equal(json_string_value(json_object_get(o, "last")), "x/2");
	check_line(json_incref(json_object_get(o, "members")), "{\"npy\":2,\"cls\":2,\"txt\":1}");
	json_decref(o);
	tar.p[512 + 1] = 'X'; /* of the first array's magic */
	o = json_object();
	assert_int_equal(facts_tar(o, &s, &look, &e), 0);
	json_decref(o);
	o = json_object();
	assert_int_equal(facts_tar(o, &s, &check, &e), -1);
	json_decref(o);
	str_release(&tar);
}

static json_t *network(const char *name, const struct facts_options *f, int code)
{
	char *path = path_join(dir, name);
	json_t *o = json_object();
	struct err e = {0};

	assert_int_equal(facts_network(o, path, f, &e), code ? -1 : 0);
	assert_int_equal(e.code, code);
	mem_free(path);
	return o;
}

/* The committed model, unpacked; with an infinite number; without a tensor. */
static void networks(void **state)
{
	struct tar_limits limits = {.member = 1 << 24};
	struct err e = {0};
	struct tar_reader *r = tar_open("tests/golden/tiny-model.tar", &limits, &e);
	char *path = path_join(dir, "ensemble/expert_0/diffusion_pytorch_model.safetensors");
	struct tar_member m;
	uint8_t *data;
	size_t len;
	json_t *o;

	(void)state;
	assert_non_null(r);
	while (tar_next(r, &m, &e) == 1)
		if (m.size)
			put(m.name, m.data, m.size);
	tar_close(r);
	assert_int_equal(e.code, 0);
	assert_int_equal(folder_kind("ensemble"), KIND_MODEL);
	assert_int_equal(folder_kind("ensemble/expert_0"), KIND_NETWORK);
	o = network("ensemble/expert_0", &check, 0);
	assert_string_equal(json_string_value(json_object_get(o, "network")), "dit");
	assert_int_equal(json_integer_value(json_object_get(o, "parameters")), 3584);
	check_line(json_incref(json_object_get(o, "picture")), "[1,8,8]");
	assert_non_null(json_object_get(json_object_get(o, "weights"), "sha256"));
	json_decref(o);
	data = file_load(path, 1 << 24, &len, &e);
	assert_non_null(data);
	memcpy(data + len - 4, "\0\0\x80\x7f", 4);
	assert_int_equal(commit_bytes(path, data, len, &e), 0);
	json_decref(network("ensemble/expert_0", &look, 0));
	json_decref(network("ensemble/expert_0", &check, ERR_DATA));
	assert_int_equal(commit_bytes(path, data, len - 4, &e), 0);
	json_decref(network("ensemble/expert_0", &look, ERR_DATA));
	mem_free(data);
	put("ensemble/expert_0/config.json", "{\"model_type\":1}", 16);
	json_decref(network("ensemble/expert_0", &look, ERR_DATA));
	mem_free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(kinds_of_bytes), cmocka_unit_test(heads_of_flac), cmocka_unit_test(kinds_of_folders), cmocka_unit_test(finiteness),
	    cmocka_unit_test(tensors),        cmocka_unit_test(stamps),        cmocka_unit_test(tables),           cmocka_unit_test(json_kinds),
	    cmocka_unit_test(logs),           cmocka_unit_test(archives),      cmocka_unit_test(networks),
	};

	return cmocka_run_group_tests_name("facts", tests, make_dir, remove_dir);
}
