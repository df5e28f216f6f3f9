/* Inputs on servers, without a server: headers of answers, addresses of S3, and the cache of blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <sys/stat.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/blockcache.h"
#include "file/bytesource.h"
#include "file/httpanswer.h"
#include "file/remoteinput.h"
#include "file/s3url.h"
#include "tests/unit/scratch.h"

static int take(struct http_answer *a, const char *header)
{
	const char *end;
	int rc = 0;

	httpanswer_reset(a);
	a->bytes = 0;
	for (; *header && !rc; header = end) {
		end = strchr(header, '\n') + 1;
		rc = httpanswer_line(a, header, (size_t)(end - header));
	}
	return rc;
}

static void test_answer(void **state)
{
	struct http_answer a, b;

	(void)state;
	assert_int_equal(take(&a, "HTTP/1.1 206 Partial Content\r\nETag: \"x\"\r\nContent-Range: bytes 5-9/20\r\ncontent-length:  5 \r\n\r\n"), 0);
	assert_int_equal(a.status, 206);
	assert_int_equal(a.from, 5);
	assert_int_equal(a.to, 9);
	assert_int_equal(a.total, 20);
	assert_int_equal(a.length, 5);
	assert_string_equal(a.etag, "\"x\"");
	assert_int_equal(httpanswer_is_strong(&a), 1);
	/* A later status line begins anew: that of a redirection does not leave its length. */
	assert_int_equal(take(&b, "HTTP/1.1 302 Found\nContent-Length: 7\nETag: \"r\"\n\nHTTP/1.1 200 OK\nLast-Modified: today\n\n"), 0);
	assert_int_equal(b.status, 200);
	assert_int_equal(b.length, -1);
	assert_string_equal(b.etag, "");
	assert_string_equal(b.modified, "today");
	/* One has an ETag, the other a date: nothing contradicts. */
	assert_int_equal(httpanswer_differs(&a, &b), 0);
	assert_int_equal(take(&b, "HTTP/1.1 416 No\nContent-Range: bytes */20\nETag: W/\"x\"\n"), 0);
	assert_int_equal(b.total, 20);
	assert_int_equal(b.from, -1);
	assert_int_equal(httpanswer_differs(&a, &b), 1);
	assert_int_equal(httpanswer_is_strong(&b), 0);
	assert_int_equal(take(&b, "HTTP/2 206\nContent-Range: bytes 0-9/*\n"), 0);
	assert_int_equal(b.total, -1);
}

static void test_bad_answers(void **state)
{
	static const char *const bad[] = {"HTTP/1.1\n",
	                                  "HTTP/1.1 99 x\n",
	                                  "HTTP/1.1 1000 x\n",
	                                  "HTTP/1.1 two\n",
	                                  "Content-Length: -1\n",
	                                  "Content-Length: 5x\n",
	                                  "Content-Length:\n",
	                                  "Content-Length: 99999999999999999999\n",
	                                  "Content-Range: bytes 5-4/9\n",
	                                  "Content-Range: bytes 5-9/9\n",
	                                  "Content-Range: bytes 5/9\n",
	                                  "Content-Range: bytes 0-4\n",
	                                  "Content-Range: pages 0-4/9\n",
	                                  "Content-Range: bytes 0-4/9x\n"};
	struct http_answer a;
	char line[1000];

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (!take(&a, bad[i]))
			fail_msg("accepted: %s", bad[i]);
	memset(line, 'x', sizeof line);
	httpanswer_reset(&a);
	a.bytes = 0;
	for (int i = 0; i < HTTP_HEADER_MOST / 1000; i++)
		assert_int_equal(httpanswer_line(&a, line, sizeof line), 0);
	assert_int_equal(httpanswer_line(&a, line, sizeof line), -1);
}

static void same_url(const char *path, const struct remote_options *o, const char *want)
{
	struct err e = {0};
	char *url = s3url(path, o, &e);

	if (want)
		assert_string_equal(url ? url : e.msg, want);
	else
		assert_null(url);
	if (!want)
		assert_int_equal(e.code, ERR_USAGE);
	mem_free(url);
}

static void test_s3url(void **state)
{
	struct remote_options o = {.region = "eu-west-1"};

	(void)state;
	same_url("s3://data/a/b c=d+e~f.tar", &o, "https://data.s3.eu-west-1.amazonaws.com/a/b%20c%3Dd%2Be~f.tar");
	same_url("s3://my.data/\xc3\xa9", &o, "https://s3.eu-west-1.amazonaws.com/my.data/%C3%A9");
	same_url("s3://data", &o, NULL);
	same_url("s3://data/", &o, NULL);
	same_url("s3://da/x", &o, NULL);
	same_url("s3://DATA/x", &o, NULL);
	same_url("s3:///x", &o, NULL);
	o.endpoint = "http://localhost:9000/";
	same_url("s3://data/x", &o, "http://localhost:9000/data/x");
	o.endpoint = "file:///etc";
	same_url("s3://data/x", &o, NULL);
}

static void test_names(void **state)
{
	char *shown = remote_shown("https://a/b.tar?secret#x"), *same = remote_shown("a?b");

	(void)state;
	assert_string_equal(shown, "https://a/b.tar");
	assert_string_equal(same, "a?b");
	mem_free(shown);
	mem_free(same);
	assert_int_equal(remote_is_url("s3://a/b"), 1);
	assert_int_equal(remote_is_url("ftp://a/b"), 0);
	assert_int_equal(remote_is_command("pipe:x"), 1);
	assert_int_equal(remote_is("pipes"), 0);
}

static int64_t block_bytes(const char *folder)
{
	char **names;
	int64_t bytes = 0;
	struct stat st;
	size_t n;

	assert_int_equal(dir_list(folder, &names, &n, NULL), 0);
	for (size_t i = 0; i < n; i++) {
		char *path = path_join(folder, names[i]);

		if (str_ends(path, ".block") && !stat(path, &st))
			bytes += st.st_size;
		mem_free(path);
	}
	names_free(names, n);
	return bytes;
}

static void test_blockcache(void **state)
{
	char *folder = path_join(dir, "blocks"), key[BLOCKCACHE_KEY], other[BLOCKCACHE_KEY];
	struct blockcache c = {folder, 10000};
	uint8_t block[1000], got[1000];

	(void)state;
	assert_int_equal(blockcache_open(&c, NULL), 0);
	blockcache_key(key, "a");
	blockcache_key(other, "b");
	assert_int_equal(blockcache_get(&c, key, 0, got, sizeof got), 0);
	for (int i = 0; i < 40; i++) {
		memset(block, i, sizeof block);
		blockcache_put(&c, key, i, block, sizeof block);
		assert_int_equal(blockcache_get(&c, key, i, got, sizeof got), 1);
		assert_memory_equal(got, block, sizeof block);
		assert_true(block_bytes(folder) <= 10000);
		assert_int_equal(blockcache_get(&c, other, i, got, sizeof got), 0);
		/* The first block stays, because it is used each time. */
		if (i)
			assert_int_equal(blockcache_get(&c, key, 0, got, sizeof got), 1);
	}
	assert_int_equal(blockcache_has(&c, key, 1), 0);
	assert_int_equal(blockcache_has(&c, key, 39), 1);
	/* Of another length: not this block. It is removed. */
	assert_int_equal(blockcache_get(&c, key, 39, got, 999), 0);
	assert_int_equal(blockcache_has(&c, key, 39), 0);
	/* Larger than the cache: not kept, and nothing else is removed for it. */
	c.most = 1000;
	blockcache_put(&c, key, 50, block, sizeof block);
	assert_int_equal(blockcache_has(&c, key, 50), 0);
	assert_int_equal(blockcache_has(&c, key, 0), 1);
	mem_free(folder);
}

/* What bytesource gives of a file and of a command. */
static void test_bytesource(void **state)
{
	struct err e = {0};
	struct bytesource *s = bytesource_open("pipe:printf 'abc'; printf 'def'", &e);
	char text[10];
	size_t got;

	(void)state;
	assert_non_null(s);
	assert_int_equal(bytesource_size(s), -1);
	assert_int_equal(bytesource_is_seekable(s), 0);
	assert_int_equal(bytesource_read(s, text, 4, &got, &e), 0);
	assert_int_equal(got, 4);
	assert_int_equal(bytesource_read(s, text + 4, 6, &got, &e), 0);
	assert_int_equal(got, 2);
	assert_memory_equal(text, "abcdef", 6);
	assert_int_equal(bytesource_read(s, text, 6, &got, &e), 0);
	assert_int_equal(got, 0);
	assert_int_equal(bytesource_at(s), 6);
	bytesource_close(s);
	s = bytesource_open("pipe:printf abc; exit 7", &e);
	assert_non_null(s);
	assert_int_equal(bytesource_read(s, text, 3, &got, &e), 0);
	assert_int_equal(bytesource_finish(s, &e), -1);
	assert_int_equal(e.code, ERR_IO);
	assert_string_equal(e.msg, "pipe:printf abc; exit 7: the command failed with status 7");
	bytesource_close(s);
	e = (struct err){0};
	assert_null(bytesource_open_seekable("pipe:true", &e));
	assert_int_equal(e.code, ERR_NOINPUT);
	e = (struct err){0};
	assert_null(bytesource_load("pipe:true", 10, &got, &e));
	assert_int_equal(e.code, ERR_NOINPUT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_answer), cmocka_unit_test(test_bad_answers), cmocka_unit_test(test_s3url),
	    cmocka_unit_test(test_names),  cmocka_unit_test(test_blockcache),  cmocka_unit_test(test_bytesource),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
