/* Shards of MosaicML's streaming: written by its writer (tests/golden/mds.py), and damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "data/samples.h"
#include "file/commit.h"
#include "file/tarfile.h"
#include "tests/unit/scratch.h"

static int set_up(void **state)
{
	struct tar_reader *t = tar_open("tests/golden/mds.tar.gz", NULL, NULL);
	struct tar_member m;

	if (make_dir(state) || !t)
		return -1;
	while (tar_next(t, &m, NULL) > 0) {
		char *path = path_join(dir, m.name), *slash = strrchr(path, '/');

		*slash = 0;
		assert_int_equal(dir_make(path, NULL), 0);
		*slash = '/';
		assert_int_equal(commit_bytes(path, m.data, m.size, NULL), 0);
		mem_free(path);
	}
	tar_close(t);
	return 0;
}

static void hash_of(const void *p, size_t n, char hex[65])
{
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, p, n);
	sha256_end(&s, hex);
}

/* A line of mds.tsv for a member; for a picture, of its pixels as in Pillow. */
static void tell(struct str *out, const char *set, const char *key, const struct sample_member *m)
{
	char hex[65];

	if (!strcmp(set, "pillow") && !strcmp(m->ext, "png")) {
		int grey = ((const uint8_t *)m->data)[25] == 0; /* colour type of IHDR */
		struct picture p = {0};
		size_t n;

		assert_int_equal(still_decode(&p, m->data, m->len, "png", grey ? 1 : 3, NULL, NULL), 0);
		n = (size_t)p.width * (size_t)p.height * (size_t)p.channels;
		hash_of(p.pixels, n, hex);
		str_printf(out, "%s\t%s\t%s\t%zu\t%s\n", set, key, m->ext, n, hex);
		picture_release(&p);
		return;
	}
	hash_of(m->data, m->len, hex);
	str_printf(out, "%s\t%s\t%s\t%zu\t%s\n", set, key, m->ext, m->len, hex);
}

/* Read everything in a set, twice. */
static void tell_set(struct str *out, const char *path, const char *set)
{
	struct samples_options o = {0};
	struct err e = {0};
	struct samples *s = samples_open(&path, 1, &o, &e);
	struct sample x;
	size_t from = out->len, once;
	struct str again = {0};
	int rc;

	if (!s)
		fail_msg("%s", e.msg);
	while ((rc = samples_next(s, &x, &e)) == 1)
		for (int i = 0; i < x.n; i++)
			tell(out, set, x.key, &x.member[i]);
	if (rc)
		fail_msg("%s", e.msg);
	once = out->len - from;
	assert_int_equal(samples_rewind(s, &e), 0);
	while (samples_next(s, &x, &e) == 1)
		for (int i = 0; i < x.n; i++)
			tell(&again, set, x.key, &x.member[i]);
	assert_int_equal(again.len, once);
	assert_memory_equal(again.p, out->p + from, once);
	samples_close(s);
	str_release(&again);
}

static void as_streaming_wrote_it(void **state)
{
	static const char *const sets[] = {"plain", "zstd", "gz", "arrays", "pillow"};
	struct str got = {0};
	size_t len;
	char *want = file_load("tests/golden/mds.tsv", 1 << 20, &len, NULL);

	(void)state;
	assert_non_null(want);
	str_puts(&got, "# set\tkey\text\tbytes\tsha256\n");
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
		char *path = path_join(dir, sets[i]), *index = path_join(path, "index.json");
		size_t from = got.len;
		struct str by_file = {0};

		tell_set(&got, path, sets[i]);
		tell_set(&by_file, index, sets[i]);
		assert_string_equal(by_file.p, got.p + from);
		str_release(&by_file);
		mem_free(path);
		mem_free(index);
	}
	for (size_t i = 0, line = 0; i < got.len; i++) {
		if (got.p[i] != want[i])
			fail_msg("%.200s\nis not\n%.200s", got.p + line, want + line);
		line = got.p[i] == '\n' ? i + 1 : line;
	}
	assert_int_equal(got.len, len);
	str_release(&got);
	mem_free(want);
}

/* ---- A hand-made set, to be damaged ---- */

static void put32(struct str *s, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		str_add(s, (char[]){(char)(v >> 8 * i)}, 1);
}

/* Two samples, each a text and an array of 2 x 2 bytes: a size of 4 bytes, the text, the array. */
static void shard_bytes(struct str *s)
{
	put32(s, 2);
	put32(s, 16);
	put32(s, 16 + 4 + 3 + 4);
	put32(s, 16 + 4 + 3 + 4 + 4 + 1 + 4);
	put32(s, 3);
	str_add(s, "one\1\2\3\4", 7);
	put32(s, 1);
	str_add(s, "2\5\6\7\10", 5);
}

static const char index_text[] =
    "{\"version\": 2, \"shards\": [{\"version\": 2, \"format\": \"mds\", \"samples\": 2, \"column_names\": [\"caption\", \"x\"], "
    "\"column_encodings\": [\"str\", \"ndarray:uint8:2,2\"], \"column_sizes\": [null, 4], \"compression\": null, \"hashes\": [], "
    "\"raw_data\": {\"basename\": \"shard.00000.mds\", \"bytes\": 36, \"hashes\": {}}, \"zip_data\": null}]}";

/* In the index `from` is replaced by `to` (NULL: unchanged), in the shard 4 bytes at `at` (-1: unchanged). Reading fails with the message `said`, or
 * with skip_bad gives `left` samples. said NULL: no error. */
static void reads(const char *from, const char *to, int at, uint32_t v, const char *said, int left)
{
	char *set = path_join(dir, "mine"), *index = path_join(set, "index.json"), *file = path_join(set, "shard.00000.mds");
	struct str text = {0}, shard = {0}, four = {0};
	struct samples_options o = {0};
	const char *const operand = set, *hit = from ? strstr(index_text, from) : NULL;
	struct err e = {0};
	struct sample x;

	assert_int_equal(dir_make(set, &e), 0);
	shard_bytes(&shard);
	put32(&four, v);
	if (at >= 0)
		memcpy(shard.p + at, four.p, 4);
	if (from) {
		assert_non_null(hit);
		str_add(&text, index_text, (size_t)(hit - index_text));
		str_puts(&text, to);
		str_puts(&text, hit + strlen(from));
	} else {
		str_puts(&text, index_text);
	}
	assert_int_equal(commit_bytes(index, text.p, text.len, &e), 0);
	assert_int_equal(commit_bytes(file, shard.p, shard.len, &e), 0);
	for (int skip = 0; skip < 2; skip++) {
		struct samples *s;
		int n = 0, rc = -1;

		o.skip_bad = skip;
		e = (struct err){0};
		s = samples_open(&operand, 1, &o, &e);
		while (s && (rc = samples_next(s, &x, &e)) == 1)
			n++;
		samples_close(s);
		if (!said || (skip && left)) {
			if (rc)
				fail_msg("%s -> %s: %s", from ? from : "", to ? to : "", e.msg);
			assert_int_equal(n, said ? left : 2);
		} else {
			assert_int_equal(rc, -1);
			if (!strstr(e.msg, said) && !(skip && strstr(e.msg, "none of 2 samples is readable")))
				fail_msg("%s -> %s at %d: %s", from ? from : "", to ? to : "", at, e.msg);
			assert_true(e.code == ERR_DATA || e.code == ERR_NOINPUT);
		}
	}
	str_release(&text);
	str_release(&shard);
	str_release(&four);
	mem_free(set);
	mem_free(index);
	mem_free(file);
}

static void what_is_broken(void **state)
{
	(void)state;
	reads(NULL, NULL, -1, 0, NULL, 0);
	/* The index */
	reads("\"mds\"", "\"csv\"", -1, 0, "the shards have format \"csv\"", 0);
	reads("\"version\": 2, \"format\"", "\"version\": 3, \"format\"", -1, 0, "version 3", 0);
	reads("shard.00000.mds", "../shard.00000.mds", -1, 0, "not the name of a file beside it", 0);
	reads("shard.00000.mds", ".mds", -1, 0, "not the name of a file beside it", 0);
	reads("shard.00000.mds", "shard\\tmds", -1, 0, "control characters", 0);
	reads("shard.00000.mds", "other.mds", -1, 0, "other.mds", 0);
	reads("\"bytes\": 36", "\"bytes\": 37", -1, 0, "36 bytes where the index says 37", 0);
	reads("\"bytes\": 36", "\"bytes\": -1", -1, 0, "not an integer in 0..4294967295", 0);
	reads("\"bytes\": 36", "\"bytes\": 4294967296", -1, 0, "not an integer in", 0);
	reads("\"samples\": 2", "\"samples\": 3", -1, 0, "not a shard of 3 samples", 0);
	reads("\"samples\": 2", "\"samples\": 1000000000", -1, 0, "not a shard of 1000000000 samples", 0);
	reads("\"samples\": 2", "\"samples\": -2", -1, 0, "\"samples\" is not an integer", 0);
	reads("\"str\"", "\"string\"", -1, 0, "has encoding \"string\", which is not supported", 0);
	reads("ndarray:uint8:2,2", "ndarray:complex64:2,2", -1, 0, "has encoding \"ndarray:complex64", 0);
	reads("ndarray:uint8:2,2", "ndarray:uint8:0,2", -1, 0, "which is not supported", 0);
	reads("ndarray:uint8:2,2", "ndarray:uint8:1,1,1,1,1,1,1,2,2", -1, 0, "which is not supported", 0);
	reads("[null, 4]", "[null]", -1, 0, "lists of columns", 0);
	reads("[null, 4]", "[null, -4]", -1, 0, "is invalid", 0);
	reads("\"zip_data\": null", "\"zip_data\": 3", -1, 0, "\"zip_data\" is not an object", 0);
	/* The head of the shard */
	reads(NULL, NULL, 0, 3, "not a shard of 2 samples", 0);
	reads(NULL, NULL, 4, 15, "offset 15 of sample 0", 0);
	reads(NULL, NULL, 8, 37, "offset 37 of sample 1", 0);
	reads(NULL, NULL, 8, 0x80000000, "offset 2147483648 of sample 1", 0);
	reads(NULL, NULL, 8, 15, "offset 15 of sample 1", 0);
	reads(NULL, NULL, 12, 35, "1 bytes after the last sample", 0);
	/* A damaged sample: the other one is read */
	reads(NULL, NULL, 16, 4, "sample 0: a column that ends beyond the sample", 1);
	reads(NULL, NULL, 16, 0xffffffff, "sample 0: a column that ends beyond the sample", 1);
	reads(NULL, NULL, 16, 2, "sample 0: more bytes than its columns have", 1);
	reads("[null, 4]", "[null, 5]", -1, 0, "sample 0: a column that ends beyond the sample", 0);
	reads("ndarray:uint8:2,2", "ndarray:uint8:2,3", -1, 0, "sample 0: an array whose size does not match its shape", 0);
	reads("ndarray:uint8:2,2", "ndarray:uint8:4294967295,4294967295,4294967295", -1, 0, "an array whose shape is invalid", 0);
	reads("ndarray:uint8:2,2", "ndarray", -1, 0, "sample 0: an array of an unknown type", 0);
	reads("ndarray:uint8:2,2", "ndarray:uint8", -1, 0, "an array whose shape is invalid", 0);
	reads("ndarray:uint8:2,2", "pil", -1, 0, "too short for a picture of Pillow's", 0);
	reads("ndarray:uint8:2,2", "int", -1, 0, "a number whose size does not match its encoding", 0);
	/* Hashes of known kinds must be right. */
	reads("\"hashes\": {}", "\"hashes\": {\"sha1\": \"0\", \"md5\": \"0\"}", -1, 0, NULL, 0);
	reads("\"hashes\": {}", "\"hashes\": {\"xxh64\": \"0\"}", -1, 0, "its xxh64 is ", 0);
	reads("\"hashes\": {}", "\"hashes\": {\"sha256\": 7}", -1, 0, "and the index says nothing", 0);
}

/* NAME/index.json in which `to` overwrites the beginning of the first `from` is refused with the message `said`. */
static void packed(const char *set, const char *from, const char *to, const char *said)
{
	char *path = path_join(dir, set), *index = path_join(path, "index.json");
	const char *const operand = path;
	struct samples_options o = {0};
	struct err e = {0};
	struct samples *s;
	struct sample x;
	size_t len;
	char *text = file_load(index, 1 << 20, &len, &e), *hit = text ? strstr(text, from) : NULL, *was;
	int rc = -1;

	assert_non_null(hit);
	was = mem_strndup(hit, strlen(to));
	memcpy(hit, to, strlen(to));
	assert_int_equal(commit_bytes(index, text, len, &e), 0);
	s = samples_open(&operand, 1, &o, &e);
	while (s && (rc = samples_next(s, &x, &e)) == 1)
		;
	assert_int_equal(rc, -1);
	if (!strstr(e.msg, said))
		fail_msg("%s", e.msg);
	samples_close(s);
	memcpy(hit, was, strlen(was));
	assert_int_equal(commit_bytes(index, text, len, &e), 0);
	mem_free(was);
	mem_free(text);
	mem_free(path);
	mem_free(index);
}

static void packed_badly(void **state)
{
	char *file = path_join(dir, "gz/shard.00000.mds.gz");
	size_t len;
	struct err e = {0};
	uint8_t *bytes;

	(void)state;
	packed("zstd", "zstd:7", "snappy", "compressed with \"snappy\"; only zstd and gz are supported");
	packed("zstd", "zstd:7\"", "br\"    ", "compressed with \"br\"");
	packed("zstd", "zstd:7\"", "gz\"    ", "gzip: ");
	packed("gz", "\"gz\"", "\"zs\"", "compressed with \"zs\"");
	/* The unpacked size differs from the index: smaller, and larger. */
	packed("gz", "\"bytes\": ", "\"bytes\": 9", "bytes, not 9");
	packed("gz", "\"bytes\": ", "\"bytes\": 1", "holds more than 1");
	packed("zstd", "\"bytes\": ", "\"bytes\": 9", "bytes, not 9");
	packed("zstd", "\"bytes\": ", "\"bytes\": 1", "holds more than 1");
	bytes = file_load(file, 1 << 20, &len, &e);
	assert_non_null(bytes);
	bytes[len / 2] ^= 4;
	assert_int_equal(commit_bytes(file, bytes, len, &e), 0);
	packed("gz", "\"shards\"", "\"shards\"", "damaged: its xxh128 is");
	packed("gz", "xxh3_64", "xxh9_64", "damaged: its xxh128 is");
	mem_free(bytes);
	mem_free(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(as_streaming_wrote_it), cmocka_unit_test(what_is_broken), cmocka_unit_test(packed_badly)};

	return cmocka_run_group_tests(tests, set_up, remove_dir);
}
