/* Tokenizers against the tokens of the reference libraries (tests/golden/tokens.py), and damaged files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "text/tokenizer.h"
#include "text/unicode.h"
#include "file/fileio.h"

static json_t *golden(void)
{
	struct err e = {0};
	json_t *o = jsonio_load("tests/golden/tokenizers/tokens.json", &e);

	if (!o)
		fail_msg("%s", e.msg);
	return o;
}

/* NULL if the test data are absent. */
static char *data_path(const char *name)
{
	const char *places[] = {getenv("DDM_TEST_DATA"), "shared/data", "../shared/data"};

	for (int i = 0; i < 3; i++) {
		char *path = places[i] ? path_join(places[i], name) : NULL;

		if (path && path_exists(path))
			return path;
		mem_free(path);
	}
	return NULL;
}

static void same(const char *text, const char *what, const json_t *want, const int32_t *got, int64_t n)
{
	struct str s = {0};
	int bad = (int64_t)json_array_size(want) != n;

	for (int64_t i = 0; i < n; i++) {
		bad = bad || json_integer_value(json_array_get(want, (size_t)i)) != got[i];
		str_printf(&s, " %d", got[i]);
	}
	if (bad) {
		char *w = json_dumps(want, JSON_COMPACT);

		print_message("want %s\n", w);
		free(w);
		fail_msg("%s, \"%s\":%s", what, text, str_text(&s));
	}
	str_release(&s);
}

/* All rows; `end`: the reference's tokens lack the end token that we add. */
static void check(const char *path, const char *key, int end)
{
	struct err e = {0};
	struct tokenizer *t = tokenizer_open(path, &e);
	json_t *o = golden(), *row;
	size_t i;

	if (!t)
		fail_msg("%s", e.msg);
	json_array_foreach (json_object_get(o, "rows"), i, row) {
		const char *text = json_string_value(json_object_get(row, "text"));
		size_t len = json_string_length(json_object_get(row, "text"));
		int32_t *ids, padded[77];
		int64_t n;

		if (!json_object_get(row, key)) /* the references disagree here */
			continue;
		n = tokenizer_encode_all(t, text, len, &ids);
		same(text, key, json_object_get(row, key), ids, n - end);
		mem_free(ids);
		if (!strcmp(key, "clip")) {
			int64_t all = tokenizer_encode(t, text, len, 77, padded);

			same(text, "padded", json_object_get(row, "padded"), padded, 77);
			assert_int_equal(all, n);
		}
	}
	json_decref(o);
	tokenizer_free(t);
}

static void clip(void **state)
{
	char *path = data_path("weights/clip-bpe/bpe_simple_vocab_16e6.txt.gz");

	(void)state;
	if (!path)
		skip();
	check(path, "clip", 0);
	mem_free(path);
}

static void shared_model(void **state)
{
	char *path = data_path("weights/sentencepiece/test_model.model");

	(void)state;
	if (!path)
		skip();
	check(path, "shared", 1);
	mem_free(path);
}

static void plain_model(void **state)
{
	(void)state;
	check("tests/golden/tokenizers/plain.model", "plain", 1);
}

static void special_model(void **state)
{
	(void)state;
	check("tests/golden/tokenizers/special.model", "special", 1);
}

static void plain_json(void **state)
{
	(void)state;
	check("tests/golden/tokenizers/plain.json", "json", 1);
}

/* A truncated text keeps its end token; a short one is padded with <pad>, or as requested. */
static void cut_and_pad(void **state)
{
	struct tokenizer *t = tokenizer_open("tests/golden/tokenizers/plain.json", NULL);
	int32_t *all, ids[40];
	int64_t n;

	(void)state;
	assert_non_null(t);
	n = tokenizer_encode_all(t, "the quick brown fox", 19, &all);
	assert_true(n > 3 && n < 30);
	assert_int_equal(all[n - 1], 1);
	assert_int_equal(tokenizer_encode(t, "the quick brown fox", 19, 3, ids), n);
	assert_memory_equal(ids, all, 2 * sizeof *ids);
	assert_int_equal(ids[2], 1);
	assert_int_equal(tokenizer_encode(t, "the quick brown fox", 19, 40, ids), n);
	assert_memory_equal(ids, all, (size_t)n * sizeof *ids);
	for (int64_t i = n; i < 40; i++)
		assert_int_equal(ids[i], 0);
	tokenizer_pad_with(t, 7);
	tokenizer_encode(t, "", 0, 40, ids);
	assert_int_equal(ids[0], 1);
	assert_int_equal(ids[1], 7);
	mem_free(all);
	tokenizer_free(t);
}

static void put(const char *path, const void *data, size_t len)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	fclose(f);
}

/* vocab.json and merges.txt give the ids of the vocabulary, tokenizer.json the same ids with both forms of merges. */
static void bpe_files(void **state)
{
	static const char merges[] = "#version: 0.2\nl o\nlo w</w>\nn e\n", text[] = "low <|startoftext|>new LO";
	static const int32_t want[] = {1, 11, 1, 12, 8, 5, 9, 2};
	char dir[] = "/tmp/ddm-bpe-XXXXXX", *path[3];
	json_t *vocab = json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i}", "<|startoftext|>", 1, "<|endoftext|>", 2, "l", 3, "o", 4,
	                          "l</w>", 6, "o</w>", 9, "n", 7, "w</w>", 8, "e", 10, "low</w>", 11, "ne", 12, "lo", 5);
	json_t *o = json_pack("{s:{s:s,s:O,s:[s,s,[s,s]]}}", "model", "type", "BPE", "vocab", vocab, "merges", "l o", "lo w</w>", "n", "e");
	char *json = json_dumps(vocab, 0), *whole = json_dumps(o, 0);

	(void)state;
	assert_non_null(o);
	assert_non_null(mkdtemp(dir));
	path[0] = path_join(dir, "merges.txt");
	path[1] = path_join(dir, "vocab.json");
	path[2] = path_join(dir, "tokenizer.json");
	put(path[0], merges, sizeof merges - 1);
	put(path[1], json, strlen(json));
	for (int k = 0; k < 2; k++) {
		struct err e = {0};
		struct tokenizer *t = tokenizer_open(dir, &e);
		int32_t *ids;

		if (!t)
			fail_msg("%s", e.msg);
		/* low, the start, ne w</w>, and l o</w>, which no merge joins */
		assert_int_equal(tokenizer_encode_all(t, text, sizeof text - 1, &ids), 8);
		assert_memory_equal(ids, ((int32_t[]){want[0], want[1], want[2], want[3], want[4], 3, want[6], want[7]}), 8 * sizeof *ids);
		mem_free(ids);
		tokenizer_free(t);
		put(path[2], whole, strlen(whole)); /* which is read first */
	}
	for (int i = 0; i < 3; i++) {
		remove(path[i]);
		mem_free(path[i]);
	}
	rmdir(dir);
	free(json);
	free(whole);
	json_decref(vocab);
	json_decref(o);
}

/* Every truncation of a model, and every changed byte of its head: it is refused or read, without any other fault. */
static void damaged(void **state)
{
	char dir[] = "/tmp/ddm-spm-XXXXXX", *path;
	size_t len;
	uint8_t *data = file_load("tests/golden/tokenizers/plain.model", 1 << 24, &len, NULL);
	int refused = 0;

	(void)state;
	assert_non_null(data);
	assert_non_null(mkdtemp(dir));
	path = path_join(dir, "x.model");
	for (size_t i = 0; i < 400; i++) {
		struct err e = {0};
		struct tokenizer *t;
		uint8_t was = data[i * len / 400];
		size_t cut = i % 2 ? i * len / 400 : len;

		data[i * len / 400] ^= (uint8_t)(1u << i % 8);
		put(path, data, cut);
		t = tokenizer_open(path, &e);
		data[i * len / 400] = was;
		if (t) {
			int32_t *ids;

			tokenizer_encode_all(t, "the \xef\xbc\xa1 quick \xff fox", 18, &ids);
			mem_free(ids);
			tokenizer_free(t);
		} else {
			assert_int_equal(e.code, ERR_DATA);
			refused++;
		}
	}
	assert_true(refused > 50);
	remove(path);
	rmdir(dir);
	mem_free(path);
	mem_free(data);
}

static void refusals(void **state)
{
	static const char *const bad[] = {"{}",
	                                  "{\"model\":{\"type\":\"WordPiece\"}}",
	                                  "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}",
	                                  "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",-1]],\"unk_id\":3}}",
	                                  "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":1},\"merges\":[\"a b\"]}}",
	                                  "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":1},\"merges\":[[\"a\"]]}}",
	                                  "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",-1]],\"unk_id\":0},"
	                                  "\"normalizer\":{\"precompiled_charsmap\":\"AAA\"}}"};
	char path[] = "/tmp/ddm-tok-XXXXXX.json";
	int fd = mkstemps(path, 5);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct err e = {0};

		put(path, bad[i], strlen(bad[i]));
		assert_null(tokenizer_open(path, &e));
		assert_int_equal(e.code, ERR_DATA);
	}
	remove(path);
	assert_null(tokenizer_open("/tmp", NULL));
	assert_null(tokenizer_open("/nonexistent/merges.txt", NULL));
}

static void utf8(void **state)
{
	static const char *const bad[] = {"\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80", "\xe2\x82", "\xff"};
	struct str s = {0};
	size_t len;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(utf8_read(bad[i], strlen(bad[i]), &len), 0xfffd);
		assert_int_equal(len, 1);
	}
	for (uint32_t c = 1; c < 0x110000; c += c < 0x3000 ? 1 : 997) {
		if (c >= 0xd800 && c < 0xe000)
			continue;
		str_reset(&s);
		utf8_add(&s, c);
		assert_int_equal(utf8_read(s.p, s.len, &len), c);
		assert_int_equal(len, s.len);
	}
	str_release(&s);
}

/* Expected by the text of the Unicode standard: chapter 3.11 (normal forms), 3.12 (Hangul), SpecialCasing.txt. */
static void forms(void **state)
{
	static const struct {
		const char *text, *nfc, *lower;
	} cases[] = {
	    {"E\u0301te\u0301", "\u00c9t\u00e9", "\u00e9t\u00e9"},
	    {"a\u0315\u0300\u05ae", "\u00e0\u05ae\u0315", "\u00e0\u05ae\u0315"}, /* marks in the order of their classes */
	    {"\u212b\u03a9", "\u00c5\u03a9", "\u00e5\u03c9"},
	    {"\u1100\u1161\u11a8", "\uac01", "\uac01"},
	    {"\uac00\u11a7\u11a8", "\uac00\u11a7\u11a8", "\uac00\u11a7\u11a8"}, /* U+11A7 composes with nothing */
	    {"\u0958", "\u0915\u093c", "\u0915\u093c"},                         /* excluded from composition */
	    {"I\u0130\u03a3", "I\u0130\u03a3", "ii\u0307\u03c3"},
	    {"caf\xe9", "caf\ufffd", "caf\ufffd"},
	    {"", "", ""},
	};
	struct str nfc = {0}, lower = {0};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		str_reset(&nfc);
		str_reset(&lower);
		unicode_nfc(&nfc, cases[i].text, strlen(cases[i].text));
		unicode_lower(&lower, str_text(&nfc), nfc.len);
		assert_string_equal(str_text(&nfc), cases[i].nfc);
		assert_string_equal(str_text(&lower), cases[i].lower);
	}
	str_release(&nfc);
	str_release(&lower);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(clip),       cmocka_unit_test(shared_model), cmocka_unit_test(plain_model), cmocka_unit_test(special_model),
	    cmocka_unit_test(plain_json), cmocka_unit_test(cut_and_pad),  cmocka_unit_test(bpe_files),   cmocka_unit_test(damaged),
	    cmocka_unit_test(refusals),   cmocka_unit_test(utf8),         cmocka_unit_test(forms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
