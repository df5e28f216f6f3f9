/* data: text encoders with their tokenizers against transformers (tests/golden/pretrained.py), and folders that hold none. */
#include "tests/unit/pretrained.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/textencoder.h"
#include "text/tokenizer.h"

enum { MOST = 16 };

/* The texts of the golden; *held owns the memory. */
static int64_t texts_of(const struct golden *g, char **held, const char **texts)
{
	const struct st_tensor *t = st_find(g->io, "texts");
	int64_t n = 1;

	*held = mem_strndup(t->data, (size_t)st_count(t));
	texts[0] = *held;
	for (char *p = *held; *p; p++)
		if (*p == '\n') {
			*p = 0;
			texts[n++] = p + 1;
		}
	assert_true(n <= MOST);
	return n;
}

static struct textencoder *must_open(const char *dir, int64_t tokens, int64_t batch, struct device *d)
{
	struct err e = {0};
	struct textencoder *t = textencoder_open(dir, &(struct textencoder_options){.tokens = tokens, .batch = batch, .device = d}, &e);

	if (!t)
		fail_msg("%s", e.msg);
	return t;
}

static void clip(void **state)
{
	static const char *const folders[] = {"", "/text_encoder", "/text_encoder_2/"};
	static const int which[] = {0, 0, 1};
	struct golden g;

	(void)state;
	golden_open(&g, "text-clip");
	for (int k = 0; k < 3; k++)
		for (int64_t batch = 1; batch <= 8; batch += 7) {
			char *dir = str_new("%s%s", g.dir, folders[k]), *held, *hidden = str_new("hidden%d", which[k]);
			char *embedding = str_new("embedding%d", which[k]);
			struct textencoder *t = must_open(dir, 0, batch, g.device);
			const struct textencoder_info *i = textencoder_info(t);
			const char *texts[MOST];
			int64_t n = texts_of(&g, &held, texts);
			int32_t length[MOST];
			struct text_features f = {.length = length};

			assert_int_equal(i->kind, TEXTENCODER_CLIP);
			assert_int_equal(i->tokens, 16);
			assert_int_equal(i->width, 8);
			assert_int_equal(i->projected, which[k]);
			assert_int_equal(i->embedding, which[k] ? 5 : 8);
			f.hidden = mem_zalloc((size_t)(n * 16 * 8), sizeof *f.hidden);
			f.embedding = mem_zalloc((size_t)(n * i->embedding), sizeof *f.embedding);
			assert_int_equal(textencoder_run(t, n, texts, NULL, &f, NULL), 0);
			compare(&g, hidden, f.hidden);
			compare(&g, embedding, f.embedding);
			assert_int_equal(f.cut, 1);
			for (int64_t k2 = 0; k2 < n; k2++)
				assert_int_equal(length[k2], 16);
			textencoder_free(t);
			mem_free(f.hidden);
			mem_free(f.embedding);
			mem_free(held);
			mem_free(hidden);
			mem_free(embedding);
			mem_free(dir);
		}
	golden_close(&g);
}

/* The rows of the padding are zero; tokens beyond the length do not change a text; a text ends at its number of bytes. */
static void t5(void **state)
{
	struct golden g;
	const char *texts[MOST];
	char *held;
	int64_t n;
	size_t lens[MOST];
	int32_t length[MOST];
	const int32_t *want;
	struct textencoder *t;
	struct text_features f = {.length = length};
	float *longer;

	(void)state;
	golden_open(&g, "text-t5");
	n = texts_of(&g, &held, texts);
	want = st_find(g.io, "length")->data;
	t = must_open(g.dir, 20, 4, g.device);
	assert_int_equal(textencoder_info(t)->kind, TEXTENCODER_T5);
	assert_int_equal(textencoder_info(t)->embedding, 0);
	f.hidden = mem_zalloc((size_t)(n * 20 * 10), sizeof *f.hidden);
	assert_int_equal(textencoder_run(t, n, texts, NULL, &f, NULL), 0);
	compare(&g, "hidden", f.hidden);
	assert_memory_equal(length, want, (size_t)n * sizeof *length);
	assert_int_equal(f.cut, 2);
	textencoder_free(t);

	t = must_open(g.dir, 0, 0, g.device);
	assert_int_equal(textencoder_info(t)->tokens, TEXTENCODER_T5_TOKENS);
	longer = f.hidden;
	f = (struct text_features){.hidden = mem_zalloc(TEXTENCODER_T5_TOKENS * 10, sizeof *f.hidden)};
	lens[0] = 1;
	assert_int_equal(textencoder_run(t, 1, (const char *const[]){"a photo"}, lens, &f, NULL), 0);
	for (int64_t i = 0; i < want[n - 1] * 10; i++)
		assert_true(fabsf(f.hidden[i] - longer[(n - 1) * 200 + i]) < 1e-5f);
	f.embedding = longer;
	assert_int_equal(textencoder_run(t, 1, texts, NULL, &f, NULL), -1);
	textencoder_free(t);
	mem_free(f.hidden);
	mem_free(longer);
	mem_free(held);
	golden_close(&g);
}

/* The hash covers everything that determines the features, but not the paths of the parts and not the number of tokens. */
static void hashes(void **state)
{
	static const char *const folders[] = {"text-clip", "text-clip/text_encoder", "text-clip/text_encoder_2", "text-t5", "text-t5"};
	char seen[5][65];
	struct golden g;

	(void)state;
	golden_open(&g, "text-t5");
	for (int i = 0; i < 5; i++) {
		char *dir = str_new("%.*s%s", (int)(strlen(g.dir) - 7), g.dir, folders[i]);
		struct textencoder *t = must_open(dir, i == 3 ? 11 : 0, 0, g.device);

		memcpy(seen[i], textencoder_info(t)->hash, 65);
		assert_int_equal(strlen(seen[i]), 64);
		assert_int_equal(textencoder_sniff(dir), 1);
		textencoder_free(t);
		mem_free(dir);
	}
	assert_string_equal(seen[0], seen[1]);
	assert_string_equal(seen[3], seen[4]);
	assert_string_not_equal(seen[0], seen[2]);
	assert_string_not_equal(seen[0], seen[3]);
	golden_close(&g);
}

static void put(const char *dir, const char *name, const char *text)
{
	char *path = str_new("%s/%s", dir, name);
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	fclose(f);
	mem_free(path);
}

static void lend(const char *dir, const char *name, const char *golden)
{
	char *to = str_new("%s/%s", dir, name), *from = realpath(golden, NULL);

	unlink(to);
	assert_non_null(from);
	assert_int_equal(symlink(from, to), 0);
	mem_free(to);
	free(from);
}

static void refused(const char *dir, int64_t tokens, int code, const char *says)
{
	struct err e = {0};
	struct device *d = device_cpu(NULL, DT_F32);

	assert_null(textencoder_open(dir, &(struct textencoder_options){.tokens = tokens, .device = d}, &e));
	if (e.code != code || !strstr(e.msg, says))
		fail_msg("%d %s, and not %d with \"%s\"", e.code, e.msg, code, says);
	device_free(d);
}

static void refusals(void **state)
{
	char *dir = str_new("%s/enc-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(textencoder_sniff(dir), 0);
	refused(dir, 0, ERR_NOINPUT, "config.json");
	put(dir, "config.json", "{\"model_type\": \"bert\"}");
	refused(dir, 0, ERR_DATA, "model_type");
	lend(dir, "config.json", "tests/golden/pretrained/text-t5/config.json");
	refused(dir, 0, ERR_NOINPUT, "tokenizer");
	lend(dir, "model.safetensors", "tests/golden/pretrained/text-t5/model.safetensors");
	lend(dir, "tokenizer.json", "tests/golden/pretrained/text-clip/tokenizer_2/tokenizer.json");
	assert_int_equal(textencoder_sniff(dir), 1);
	refused(dir, 0, ERR_DATA, "but the encoder knows only");
	put(dir, "tokenizer_config.json", "{\"pad_token\": \"no such\"}");
	refused(dir, 0, ERR_DATA, "pads with");
	refused("tests/golden/pretrained/text-clip", 20, ERR_USAGE, "--tokens 20");
	refused("tests/golden/pretrained/text-t5", 1 << 20, ERR_USAGE, "out of range");
	mem_free(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(clip), cmocka_unit_test(t5), cmocka_unit_test(hashes), cmocka_unit_test(refusals)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
