/* data/textarray: features of texts as other programs write them, and invalid ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "data/texthalves.h"
#include "data/textarray.h"
#include "tests/unit/scratch.h"

enum { N = 2, TOKENS = 3, WIDTH = 4 };

static float features[N * TOKENS * WIDTH];

static char *write_npz(const struct npz_entry *entries, int n)
{
	char *path = path_join(dir, "t.npz");
	struct err e = {0};

	assert_int_equal(npz_write(path, entries, n, &e), 0);
	return path;
}

/* Load in both ways; the code of the error, and the words that its message must hold. */
static void load(struct textarray *t, const struct npz_entry *entries, int n, int code, const char *why)
{
	char *path = write_npz(entries, n), *bytes;
	struct err e = {0};
	size_t len;

	assert_int_equal(textarray_load(t, path, &e), code ? -1 : 0);
	assert_int_equal(e.code, code);
	if (why)
		assert_non_null(strstr(e.msg, why));
	textarray_release(t);
	e = (struct err){0};
	bytes = file_load(path, 1 << 20, &len, &e);
	assert_int_equal(textarray_parse(t, bytes, len, "t.npz", &e), code ? -1 : 0);
	assert_int_equal(e.code, code);
	textarray_release(t);
	mem_free(bytes);
	e = (struct err){0};
	assert_int_equal(textarray_load(t, path, &e), code ? -1 : 0);
	mem_free(path);
}

static void shapes(void **s)
{
	static const int64_t mask[N * TOKENS] = {1, 1, 0, 1, 0, 0};
	static const uint8_t truth[TOKENS] = {1, 1, 1};
	const struct npz_entry pixart[] = {{"caption_feature", NPY_F4, 3, {N, TOKENS, WIDTH}, features},
	                                   {"attention_mask", NPY_I8, 2, {N, TOKENS}, mask}};
	const struct npz_entry four[] = {{"prompt_attention_mask", NPY_I8, 4, {N, 1, 1, TOKENS}, mask},
	                                 {"prompt_embeds", NPY_F4, 4, {N, 1, TOKENS, WIDTH}, features}};
	const struct npz_entry two[] = {{"caption_features", NPY_F4, 2, {TOKENS, WIDTH}, features}, {"attention_mask", NPY_U1, 1, {TOKENS}, truth}};
	const struct npz_entry *const both[] = {pixart, four};
	struct textarray t;

	(void)s;
	for (int i = 0; i < 2; i++) {
		float x[N * TOKENS * WIDTH];

		load(&t, both[i], 2, 0, NULL);
		assert_int_equal(t.a.rank, 3);
		assert_int_equal(t.a.shape[0], N);
		assert_int_equal(t.a.shape[1], TOKENS);
		assert_int_equal(t.a.shape[2], WIDTH);
		assert_int_equal(t.length[0], 2);
		assert_int_equal(t.length[1], 1);
		npy_to_f32(x, &t.a);
		assert_memory_equal(x, features, sizeof x);
		textarray_release(&t);
	}
	load(&t, pixart, 1, 0, NULL);
	assert_null(t.length);
	textarray_release(&t);
	load(&t, two, 2, 0, NULL);
	assert_int_equal(t.a.rank, 3);
	assert_int_equal(t.a.shape[0], 1);
	assert_int_equal(t.length[0], TOKENS);
	textarray_release(&t);
}

static void refusals(void **s)
{
	static const int64_t hole[N * TOKENS] = {1, 0, 1, 1, 0, 0}, none[N * TOKENS] = {1, 1, 1, 0, 0, 0}, two[N * TOKENS] = {2, 0, 0, 1, 1, 1};
	static const int64_t *const masks[] = {hole, none, two};
	const struct npz_entry x = {"caption_feature", NPY_F4, 3, {N, TOKENS, WIDTH}, features};
	const struct npz_entry others[] = {{"mu", NPY_F4, 3, {N, TOKENS, WIDTH}, features},
	                                   {"caption_feature", NPY_I4, 3, {N, TOKENS, WIDTH}, features},
	                                   {"caption_feature", NPY_F4, 1, {WIDTH}, features},
	                                   {"caption_feature", NPY_F4, 4, {N, TOKENS, 2, 2}, features},
	                                   {"caption_feature", NPY_F4, 3, {0, TOKENS, WIDTH}, features}};
	const struct npz_entry fewer[] = {x, {"attention_mask", NPY_I8, 2, {1, TOKENS}, hole}};
	const struct npz_entry turned[] = {x, {"attention_mask", NPY_I8, 2, {TOKENS, N}, hole}};
	struct textarray t;

	(void)s;
	for (int i = 0; i < 3; i++) {
		const struct npz_entry entries[] = {x, {"attention_mask", NPY_I8, 2, {N, TOKENS}, masks[i]}};

		load(&t, entries, 2, ERR_DATA, "must be ones for its first tokens");
		textarray_release(&t);
	}
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		load(&t, &others[i], 1, ERR_DATA, i ? "must be floating-point numbers" : "contains no text features");
		textarray_release(&t);
	}
	load(&t, fewer, 2, ERR_DATA, "the mask does not have the shape of its 2 texts of 3 tokens");
	textarray_release(&t);
	load(&t, turned, 2, ERR_DATA, "the mask does not have the shape");
	textarray_release(&t);
}

/* Of a training text only the tokens that are not padding are kept. */
static void of_a_training(void **s)
{
	static const int64_t mask[TOKENS] = {1, 1, 0};
	const struct npz_entry entries[] = {{"caption_feature", NPY_F4, 3, {1, TOKENS, WIDTH}, features},
	                                    {"attention_mask", NPY_I8, 2, {1, TOKENS}, mask}};
	char *path = write_npz(entries, 2), *bytes;
	struct err e = {0};
	int64_t rows, width;
	uint16_t *text;
	size_t len;

	(void)s;
	bytes = file_load(path, 1 << 20, &len, &e);
	text = texthalves_tokens(bytes, len, path, 2, &rows, &width, &e); /* three would be too many */
	assert_non_null(text);
	assert_int_equal(rows, 2);
	assert_int_equal(width, WIDTH);
	mem_free(text);
	mem_free(bytes);
	mem_free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(shapes), cmocka_unit_test(refusals), cmocka_unit_test(of_a_training)};

	for (int i = 0; i < N * TOKENS * WIDTH; i++)
		features[i] = (float)i / 8;
	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
