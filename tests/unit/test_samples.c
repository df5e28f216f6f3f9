/* One iterator over folders, lists, tars and shards: keys, order, refusals, and the same contents from every container. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/str.h"
#include "data/entries.h"
#include "data/samples.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/manifest.h"
#include "file/npy.h"
#include "file/safetensors.h"
#include "file/shard.h"
#include "file/tarfile.h"
#include "tests/unit/scratch.h"

static int skipped;
static char last_bad[1200];

static void bad(void *arg, const char *why)
{
	(void)arg;
	skipped++;
	snprintf(last_bad, sizeof last_bad, "%s", why);
}

static uint8_t *png(int side, uint8_t value, size_t *len)
{
	struct picture p = {side, side, 3, mem_alloc((size_t)side * (size_t)side * 3)};
	struct err e = {0};
	uint8_t *out;

	memset(p.pixels, value, (size_t)side * (size_t)side * 3);
	p.pixels[0] = 255;
	assert_int_equal(still_encode_png(&p, NULL, 0, &out, len, &e), 0);
	picture_release(&p);
	return out;
}

static char *write_file(const char *name, const void *data, size_t len)
{
	char *path = path_join(dir, name), *slash = strrchr(path, '/');
	struct err e = {0};

	*slash = 0;
	assert_int_equal(dir_make(path, &e), 0);
	*slash = '/';
	assert_int_equal(commit_bytes(path, data, len, &e), 0);
	return path;
}

static void write_png(const char *name, int value)
{
	size_t len;
	uint8_t *data = png(8, (uint8_t)value, &len);

	mem_free(write_file(name, data, len));
	mem_free(data);
}

static void write_text(const char *name, const char *text)
{
	mem_free(write_file(name, text, strlen(text)));
}

static struct samples *open_one(const char *source, const struct samples_options *o, struct err *e)
{
	static const struct samples_options none = {0};

	*e = (struct err){0};
	return samples_open(&source, 1, o ? o : &none, e);
}

/* "key(ext,ext) key(...)" of everything, or the error as "!code message". */
static void list(struct str *out, const char *source, const struct samples_options *o)
{
	struct sample x;
	struct err e;
	struct samples *s = open_one(source, o, &e);
	int rc = s ? 1 : -1;

	str_reset(out);
	while (rc > 0 && (rc = samples_next(s, &x, &e)) > 0) {
		str_printf(out, "%s%s(", out->len ? " " : "", x.key);
		for (int i = 0; i < x.n; i++)
			str_printf(out, i ? ",%s" : "%s", x.member[i].ext);
		str_puts(out, ")");
	}
	if (rc < 0)
		str_printf(out, "!%d %s", e.code, e.msg);
	samples_close(s);
}

/* "KEYS" in full, or "KEYS!CODE words": exactly those keys, then an error with that code whose message holds the words. */
static void expect(const char *source, const struct samples_options *o, const char *what)
{
	struct str got = {0};
	const char *error = strchr(what, '!');
	size_t exact = error ? (size_t)(error - what) + 4 : strlen(what) + 1;

	list(&got, source, o);
	if (strncmp(str_text(&got), what, exact) || (error && !strstr(str_text(&got) + exact, error + 4)))
		fail_msg("'%s', not '%s'", str_text(&got), what);
	str_release(&got);
}

static void expect_in(const char *name, const struct samples_options *o, const char *what)
{
	char *path = path_join(dir, name);

	expect(path, o, what);
	mem_free(path);
}

static void keys(void **state)
{
	static const struct {
		const char *name, *hint, *key, *ext;
		int rc;
	} cases[] = {
	    {"a/b.seg.PNG", NULL, "a/b", "seg.png", 0},
	    {"./a.d/b.jpg", NULL, "a.d/b", "jpg", 0},
	    {"../../x/y.JPG", NULL, "x/y", "jpg", 0},
	    {"/abs/y.webp", NULL, "abs/y", "webp", 0},
	    {"a/.hidden.png", NULL, NULL, NULL, 1},
	    {"a/plain", NULL, NULL, NULL, 1},
	    {"a/plain", "jpg", "a/plain", "jpg", 0},
	    {"a/../b.png", NULL, NULL, NULL, -1},
	    {"a/b\tc.png", NULL, NULL, NULL, -1},
	    {"a/b\nc.png", NULL, NULL, NULL, -1},
	    {"a..b/c.png", NULL, "a..b/c", "png", 0},
	    {"a/..", "png", NULL, NULL, 1},
	    {"", "png", NULL, NULL, 1},
	    {"x@000012.png", NULL, "x@000012", "png", 0},
	};
	struct arena a = {0};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *key, *ext;
		struct err e = {0};
		int rc = entry_key(&a, cases[i].name, cases[i].hint, &key, &ext, &e);

		if (rc != cases[i].rc)
			fail_msg("'%s': %d, not %d", cases[i].name, rc, cases[i].rc);
		if (rc)
			continue;
		assert_string_equal(key, cases[i].key);
		assert_string_equal(ext, cases[i].ext);
	}
	arena_release(&a);
}

/* Bytewise order of keys, not of paths: "a" before "a-b", although "a-b.png" < "a.png". */
static void folder(void **state)
{
	size_t len;
	uint8_t *data = png(8, 9, &len);

	(void)state;
	write_png("f/a-b.png", 1);
	write_png("f/a.png", 2);
	write_text("f/a.txt", "a caption");
	write_text("f/a.cls", "3\n");
	write_png("f/B/z.PNG", 3);
	write_png("f/.hidden/z.png", 4);
	write_png("f/.z.png", 4);
	write_text("f/CREDITS.txt", "nobody");
	write_text("f/notes", "not a picture");
	mem_free(write_file("f/dotless", data, len));
	mem_free(data);
	expect_in("f", NULL, "B/z(png) a(cls,png,txt) a-b(png) dotless(png)");
	expect_in("f/a.png", NULL, "a(png)");
	expect_in("f/notes", NULL, "!65 neither");
	expect_in("nothing", NULL, "!66 nothing");
	mem_free(write_file("empty/x.txt", "x", 1));
	expect_in("empty", NULL, "!65 no samples");
}

static void tar_put(struct str *t, const char *name, const void *data, size_t len)
{
	struct err e = {0};

	assert_int_equal(tar_put_member(t, name, data, len, &e), 0);
}

static void tars(void **state)
{
	struct str t = {0}, many = {0};
	size_t len;
	uint8_t *data = png(8, 5, &len);
	struct samples_options skip = {.skip_bad = 1, .bad = bad, .max_errors = 1};
	struct samples_options small = {.skip_bad = 1, .bad = bad, .max_member = 1000};

	(void)state;
	tar_put(&t, "./s/1.png", data, len);
	tar_put(&t, "./s/1.txt", "one", 3);
	tar_put(&t, "README.txt", "text", 4);
	tar_put(&t, "s/0.PNG", data, len);
	str_add(&many, t.p, t.len);
	tar_put(&many, "s/up/../2.png", data, len);
	tar_put(&many, "s/3.png", data, len);
	tar_put_end(&t);
	tar_put_end(&many);
	mem_free(write_file("t.tar", t.p, t.len));
	expect_in("t.tar", NULL, "s/1(png,txt) s/0(png)");
	mem_free(write_file("u.tar", many.p, many.len));
	expect_in("u.tar", NULL, "s/1(png,txt) s/0(png)!65 leaves its folder");
	skipped = 0;
	expect_in("u.tar", &skip, "s/1(png,txt) s/0(png) s/3(png)");
	assert_int_equal(skipped, 1);
	mem_free(write_file("cut.tar", t.p, t.len - 2048));
	expect_in("cut.tar", NULL, "s/1(png,txt)!65 cut.tar");

	str_reset(&t);
	tar_put(&t, "a.png", data, len);
	tar_put(&t, "a.png", data, len);
	tar_put(&t, "b.png", data, len);
	tar_put_end(&t);
	mem_free(write_file("twin.tar", t.p, t.len));
	expect_in("twin.tar", NULL, "!65 two members");
	skipped = 0;
	expect_in("twin.tar", &skip, "b(png)");
	assert_int_equal(skipped, 1);

	str_reset(&t);
	tar_put(&t, "a.png", data, len);
	tar_put(&t, "b.png", data, len);
	tar_put(&t, "a.jpg", data, len);
	tar_put_end(&t);
	mem_free(write_file("again.tar", t.p, t.len));
	expect_in("again.tar", NULL, "a(png) b(png)!65 appears twice");

	/* A member above the limit ends the archive even with skip_bad, because the rest cannot be trusted. */
	str_reset(&t);
	tar_put(&t, "a.png", data, len);
	str_reset(&many);
	for (int i = 0; i < 5000; i++)
		str_puts(&many, "x");
	tar_put(&t, "b.png", many.p, many.len);
	tar_put_end(&t);
	mem_free(write_file("large.tar", t.p, t.len));
	expect_in("large.tar", &small, "!65 large.tar");
	str_release(&t);
	str_release(&many);
	mem_free(data);
}

static void bad_pictures(void **state)
{
	struct samples_options skip = {.skip_bad = 1, .bad = bad, .max_errors = 2}, strict = {0};
	struct picture_batch b = {0};
	struct err e;
	struct pool *p = pool_new(3, &e);
	char *path = path_join(dir, "bad");
	struct samples *s;
	int n, total = 0;

	(void)state;
	for (int i = 0; i < 20; i++) {
		char *name = str_new("bad/%02d.png", i);

		if (i % 7 == 3)
			write_text(name, "\x89PNG\r\n\x1a\n and then nothing");
		else
			write_png(name, i);
		mem_free(name);
	}
	write_text("bad/05.cls", "seven");
	s = open_one(path, &strict, &e);
	assert_non_null(s);
	assert_int_equal(samples_pictures(s, p, 8, &b, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	assert_non_null(strstr(e.msg, "bad/03.png"));
	samples_close(s);

	skipped = 0;
	s = open_one(path, &skip, &e);
	while ((n = samples_pictures(s, p, 8, &b, &e)) > 0)
		for (int i = 0; i < n; i++, total++) {
			assert_int_equal(b.picture[i].pixels[3], atol(b.key[i]));
			assert_int_equal(b.label[i], -1);
		}
	assert_int_equal(n, 0);
	assert_int_equal(total, 16);
	assert_int_equal(skipped, 4);
	assert_int_equal(samples_skipped(s), 4);
	assert_int_equal(samples_check(s, &e), -1);
	assert_int_equal(e.code, ERR_SKIPPED);
	/* The second pass reports nothing again. */
	e = (struct err){0};
	assert_int_equal(samples_rewind(s, &e), 0);
	for (total = 0; (n = samples_pictures(s, p, 5, &b, &e)) > 0; total += n)
		;
	assert_int_equal(total, 16);
	assert_int_equal(skipped, 4);
	picture_batch_release(&b);
	samples_close(s);
	pool_free(p);
	mem_free(path);
}

static void sizes(void **state)
{
	struct samples_options o = {.size = 4, .channels = 1};
	struct err e;
	char *path = path_join(dir, "f");
	struct samples *s = open_one(path, &o, &e);
	struct sample x;
	struct picture p;
	int32_t label;

	(void)state;
	assert_non_null(s);
	assert_int_equal(samples_next(s, &x, &e), 1);
	assert_int_equal(samples_next(s, &x, &e), 1);
	assert_string_equal(x.key, "a");
	assert_int_equal(sample_pixels(&p, &x, &o, &e), 0);
	assert_int_equal(p.width, 4);
	assert_int_equal(p.channels, 1);
	assert_int_equal(sample_class(&x, &label, &e), 0);
	assert_int_equal(label, 3);
	assert_non_null(sample_find(&x, "txt"));
	assert_null(sample_find(&x, "npy"));
	picture_release(&p);
	samples_close(s);
	mem_free(path);
}

/* Read fd 0 from the given file, as a file or through a pipe. */
static void feed(const char *text, size_t len, int pipe_it)
{
	int fd[2];

	if (pipe_it) {
		assert_int_equal(pipe(fd), 0);
		assert_int_equal(fd_write(fd[1], text, len), 0);
		close(fd[1]);
	} else {
		char *path = write_file("stdin", text, len);

		fd[0] = open(path, O_RDONLY);
		mem_free(path);
	}
	dup2(fd[0], 0);
	close(fd[0]);
}

static void standard_input(void **state)
{
	struct samples_options nul = {.nul_list = 1}, once = {.once = 1};
	struct samples *s;
	int fd[2];
	struct str t = {0};
	const char *twice[] = {"-", "-"};
	size_t len;
	uint8_t *data = png(8, 5, &len);
	struct err e = {0};
	int saved = dup(0);

	(void)state;
	assert_int_equal(chdir(dir), 0);
	tar_put(&t, "x.png", data, len);
	tar_put_end(&t);
	for (int piped = 0; piped < 2; piped++) {
		feed("f/a.png\n./f/B/z.PNG\n\nf/dotless", 30, piped);
		expect("-", NULL, "f/a(png) f/B/z(png) f/dotless(png)");
		feed("f/a.png\0f/a-b.png\0", 18, piped);
		expect("-", &nul, "f/a(png) f/a-b(png)");
		feed("f/a.png\nf/none.png\n", 19, piped);
		expect("-", NULL, "f/a(png)!66 f/none.png");
		feed(t.p, t.len, piped);
		expect("-", NULL, "x(png)");
		feed(t.p, t.len, piped);
		expect("-", &once, "x(png)");
		feed(t.p, 700, piped);
		expect("-", &once, "!65 stdin");
		feed("f/a.png\n", 8, piped);
		expect("-", &once, "f/a(png)");
		feed("", 0, piped);
		expect("-", NULL, "!65 stdin: no samples");
	}
	/* Closed while the writer keeps its end open and has more data: the thread is stopped. */
	assert_int_equal(pipe(fd), 0);
	dup2(fd[0], 0);
	close(fd[0]);
	assert_int_equal(fd_write(fd[1], t.p, t.len - 1024), 0);
	assert_int_equal(fd_write(fd[1], t.p, t.len - 1024), 0);
	s = open_one("-", &once, &e);
	assert_non_null(s);
	usleep(50000); /* until the thread has passed on everything and waits */
	samples_close(s);
	close(fd[1]);
	feed("f/a.png\n", 8, 1);
	assert_null(samples_open(twice, 2, &nul, &e));
	assert_int_equal(e.code, ERR_USAGE);
	dup2(saved, 0);
	close(saved);
	assert_int_equal(chdir("/"), 0);
	str_release(&t);
	mem_free(data);
}

static void put_shard(const char *root, int cluster, int holdout, const char *source, struct manifest_row *row)
{
	char *name = manifest_name(cluster, holdout, 0), *path = path_join(root, name), *slash = strrchr(path, '/');
	struct err e;
	struct samples *s = open_one(source, NULL, &e);
	struct shard_writer *w;
	struct sample x;

	*slash = 0;
	assert_int_equal(dir_make(path, &e), 0);
	*slash = '/';
	w = shard_create(path, NULL, &e);
	assert_non_null(w);
	while (samples_next(s, &x, &e) > 0) {
		struct shard_member m[8];
		char *key = str_new("%d%d/%s", cluster, holdout, x.key);

		for (int i = 0; i < x.n; i++)
			m[i] = (struct shard_member){x.member[i].ext, x.member[i].data, x.member[i].len};
		assert_int_equal(shard_add(w, key, m, x.n, &e), 0);
		mem_free(key);
	}
	assert_int_equal(shard_commit(w, row, &e), 0);
	row->path = name;
	row->cluster = cluster;
	row->holdout = holdout;
	samples_close(s);
	mem_free(path);
}

static void shards(void **state)
{
	struct samples_options train = {.part = SAMPLES_TRAIN}, held = {.part = SAMPLES_HOLDOUT};
	struct manifest_row row[3] = {{0}};
	struct err e = {0};
	char *root = path_join(dir, "S"), *f = path_join(dir, "f/B"), *t = path_join(dir, "t.tar"), *extra;
	uint8_t *data;
	size_t len;

	(void)state;
	put_shard(root, 0, 0, f, &row[0]);
	put_shard(root, 1, 0, t, &row[1]);
	put_shard(root, 1, 1, f, &row[2]);
	assert_int_equal(manifest_write(root, row, 3, 2, NULL, &e), 0);
	expect(root, NULL, "00/z(png) 10/s/1(png,txt) 10/s/0(png) 11/z(png)");
	expect(root, &train, "00/z(png) 10/s/1(png,txt) 10/s/0(png)");
	expect(root, &held, "11/z(png)");
	expect_in("S/cluster-1", NULL, "10/s/1(png,txt) 10/s/0(png)");
	expect_in("S/holdout", NULL, "11/z(png)");
	expect_in("S/holdout/cluster-1", NULL, "11/z(png)");
	expect_in("S/cluster-0/000000.tar.zst", NULL, "00/z(png)");
	/* Files that the manifest does not list are not read; listed ones must exist. */
	write_png("S/cluster-0/stray.png", 1);
	expect_in("S/cluster-0", NULL, "00/z(png)");
	extra = path_join(root, "cluster-1/000000.tar.zst");
	data = file_load(extra, 1 << 20, &len, &e);
	mem_free(write_file("S/cluster-0/000000.tar.zst", data, len));
	mem_free(data);
	expect_in("S/cluster-0", NULL, "!65 cluster-0/000000.tar.zst");
	assert_int_equal(unlink(extra), 0);
	expect_in("S/cluster-1", NULL, "!66 000000.tar.zst");
	for (int i = 0; i < 3; i++)
		manifest_row_release(&row[i]);
	mem_free(extra);
	mem_free(root);
	mem_free(f);
	mem_free(t);
}

/* A folder and a tar with the same files in the same order have the same digest; a changed byte changes it. */
static void digests(void **state)
{
	char hex[3][65];
	struct str t = {0};
	struct sample x;
	struct err e;
	char *path = path_join(dir, "bad/00.png");
	size_t len;
	uint8_t *data = file_load(path, 1 << 20, &len, &e);
	static const char *const sources[] = {"one", "one.tar", "two.tar"};

	(void)state;
	tar_put(&t, "a.png", data, len);
	tar_put_end(&t);
	mem_free(write_file("one/a.png", data, len));
	mem_free(write_file("one.tar", t.p, t.len));
	t.p[512 + len - 5] ^= 1;
	mem_free(write_file("two.tar", t.p, t.len));
	for (int i = 0; i < 3; i++) {
		char *source = path_join(dir, sources[i]);
		struct samples *s = open_one(source, NULL, &e);

		while (samples_next(s, &x, &e) > 0)
			;
		samples_digest(s, hex[i]);
		samples_close(s);
		mem_free(source);
	}
	assert_string_equal(hex[0], hex[1]);
	assert_string_not_equal(hex[1], hex[2]);
	str_release(&t);
	mem_free(data);
	mem_free(path);
}

static void loops(void **state)
{
	char *path = path_join(dir, "loop/again");

	(void)state;
	write_png("loop/a.png", 1);
	assert_int_equal(symlink("..", path), 0);
	expect_in("loop", NULL, "!65 link");
	mem_free(path);
}

/* The class of every sample: "key=class ..". */
static void expect_classes(const char *name, const char *what)
{
	char *path = path_join(dir, name);
	struct str got = {0};
	struct sample x;
	struct err e;
	struct samples *s = open_one(path, NULL, &e);
	int rc = s ? 1 : -1;
	int32_t label;

	while (rc > 0 && (rc = samples_next(s, &x, &e)) > 0) {
		assert_int_equal(sample_class(&x, &label, &e), 0);
		str_printf(&got, "%s%s=%d", got.len ? " " : "", x.key, (int)label);
	}
	if (rc < 0)
		fail_msg("%s", e.msg);
	assert_string_equal(str_text(&got), what);
	str_release(&got);
	samples_close(s);
	mem_free(path);
}

/* The format of StyleGAN, EDM and REPA: a class for each path. */
static void classes_in_a_table(void **state)
{
	(void)state;
	write_png("edm/00000/img0.png", 1);
	write_png("edm/00000/img1.png", 2);
	write_png("edm/00001/img2.png", 3);
	write_text("edm/00001/img2.cls", "8");
	write_png("edm/00001/img3.png", 4);
	write_text("edm/dataset.json", "{\"labels\": [[\"00000/img0.png\", 6], [\"00000/img1.png\", 0], [\"00001/img2.png\", 1]]}");
	expect_in("edm", NULL, "00000/img0(cls,png) 00000/img1(cls,png) 00001/img2(cls,png) 00001/img3(png)");
	expect_classes("edm", "00000/img0=6 00000/img1=0 00001/img2=8 00001/img3=-1");
	write_text("edm/dataset.json", "{\"labels\": null}");
	expect_classes("edm", "00000/img0=-1 00000/img1=-1 00001/img2=8 00001/img3=-1");
	write_text("edm/dataset.json", "{\"labels\": [[\"a\", 6], [\"a\", 7]]}");
	expect_in("edm", NULL, "!65 two classes for 'a'");
	write_text("edm/dataset.json", "{\"labels\": [[\"a\", -1]]}");
	expect_in("edm", NULL, "!65 is not [path, class]");
	write_text("edm/dataset.json", "{\"labels\": ");
	expect_in("edm", NULL, "!65 dataset.json");
}

static void write_array(const char *name, enum npy_type type, int rank, const int64_t *shape, const void *data)
{
	struct str bytes = {0};

	npy_encode(&bytes, type, rank, shape, data);
	mem_free(write_file(name, bytes.p, bytes.len));
	str_release(&bytes);
}

/* The format of fast-DiT: a file of features and one of labels for each sample. */
static void classes_in_a_folder(void **state)
{
	static const float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	static const int64_t shape[] = {1, 2, 2, 2}, class[] = {11, 3, -1};

	(void)state;
	for (int i = 0; i < 3; i++) {
		char name[100];

		snprintf(name, sizeof name, "fast/imagenet256_features/%d.npy", i);
		write_array(name, NPY_F4, 4, shape, x);
		snprintf(name, sizeof name, "fast/imagenet256_labels/%d.npy", i);
		if (i < 2)
			write_array(name, NPY_I8, 1, shape, &class[i]);
	}
	expect_in("fast", NULL, "0(cls,npy) 1(cls,npy)!65 imagenet256_labels: no class for '2.npy'");
	write_array("fast/imagenet256_labels/2.npy", NPY_I8, 1, shape, &class[2]);
	expect_in("fast", NULL, "0(cls,npy) 1(cls,npy)!65 -1 is not a class");
	write_array("fast/imagenet256_labels/2.npy", NPY_I8, 1, shape, &class[1]);
	expect_classes("fast", "0=11 1=3 2=3");
	write_array("fast/b_features/0.npy", NPY_F4, 4, shape, x);
	write_array("fast/b_labels/0.npy", NPY_I8, 1, shape, &class[1]);
	expect_in("fast", NULL, "!65 several folders of features");
	expect_in("fast/b_features", NULL, "0(npy)");
}

static char *write_latents(const char *name, int n, enum st_type type, const void *data, const int64_t *class, int flip)
{
	char *path = write_file(name, "", 0);
	struct st_tensor t[3] = {
	    {"latents", type, 4, {n, 1, 2, 2}, data}, {"labels", ST_I64, 1, {n}, class}, {"latents_flip", type, 4, {n, 1, 2, 2}, data}};
	struct err e = {0};

	unlink(path);
	assert_int_equal(st_write(path, t, 2 + flip, NULL, 0, &e), 0);
	return path;
}

/* The format of LightningDiT: latents of many samples in one file. */
static void latents(void **state)
{
	static const float x[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
	static const uint16_t half[4] = {0x3c00, 0x4000, 0x4200, 0x4400};
	static const int64_t class[] = {5, 0, 999};
	char *a = write_latents("light/latents_rank00_shard000.safetensors", 3, ST_F32, x, class, 1);
	char *b = write_latents("light/latents_rank01_shard000.safetensors", 1, ST_F16, half, class, 0);
	struct err e;
	struct samples *s;
	struct sample sample;
	struct npy v;
	float out[4];

	(void)state;
	write_text("light/latents_stats.pt", "not read");
	expect_in("light", NULL,
	          "latents_rank00_shard000/000000(cls,flip.npy,npy) latents_rank00_shard000/000001(cls,flip.npy,npy) "
	          "latents_rank00_shard000/000002(cls,flip.npy,npy) latents_rank01_shard000/000000(cls,npy)");
	expect_classes("light/latents_rank00_shard000.safetensors",
	               "latents_rank00_shard000/000000=5 latents_rank00_shard000/000001=0 latents_rank00_shard000/000002=999");
	s = open_one(a, NULL, &e);
	assert_int_equal(samples_next(s, &sample, &e), 1);
	assert_int_equal(samples_next(s, &sample, &e), 1);
	assert_int_equal(npy_parse(&v, sample_find(&sample, "npy")->data, sample_find(&sample, "npy")->len, "x", &e), 0);
	assert_true(v.rank == 3 && v.shape[0] == 1 && v.shape[2] == 2);
	npy_to_f32(out, &v);
	assert_memory_equal(out, x + 4, sizeof out);
	samples_close(s);
	s = open_one(b, NULL, &e);
	assert_int_equal(samples_next(s, &sample, &e), 1);
	assert_int_equal(npy_parse(&v, sample_find(&sample, "npy")->data, sample_find(&sample, "npy")->len, "x", &e), 0);
	assert_int_equal(v.type, NPY_F2);
	npy_to_f32(out, &v);
	assert_true(out[0] == 1 && out[3] == 4);
	samples_close(s);
	mem_free(a);
	mem_free(b);
}

/* The format of img2dataset: tables and counts beside the archives are not samples. */
static void tables_beside(void **state)
{
	struct str t = {0};
	size_t len;
	uint8_t *data = png(8, 1, &len);

	(void)state;
	tar_put(&t, "000000007.png", data, len);
	tar_put(&t, "000000007.txt", "a caption", 9);
	tar_put(&t, "000000007.json", "{}", 2);
	tar_put_end(&t);
	mem_free(write_file("img2dataset/00000.tar", t.p, t.len));
	write_text("img2dataset/00000.parquet", "PAR1....PAR1");
	write_text("img2dataset/00000_stats.json", "{\"count\": 1}");
	expect_in("img2dataset", NULL, "000000007(json,png,txt)");
	str_release(&t);
	mem_free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(keys),
	    cmocka_unit_test(folder),
	    cmocka_unit_test(tars),
	    cmocka_unit_test(bad_pictures),
	    cmocka_unit_test(sizes),
	    cmocka_unit_test(standard_input),
	    cmocka_unit_test(shards),
	    cmocka_unit_test(digests),
	    cmocka_unit_test(loops),
	    cmocka_unit_test(classes_in_a_table),
	    cmocka_unit_test(classes_in_a_folder),
	    cmocka_unit_test(latents),
	    cmocka_unit_test(tables_beside),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
