/* file/shard and file/manifest: random access, standard tools, and every kind of damage found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/manifest.h"
#include "file/shard.h"
#include "file/spill.h"
#include "file/tarfile.h"
#include "tests/unit/scratch.h"

static char *at(const char *name)
{
	return path_join(dir, name);
}

static char *shell(const char *command)
{
	char *line = str_new("cd %s && %s", dir, command), buf[4096];
	struct str out = {0};
	FILE *p = popen(line, "r");
	size_t n;

	assert_non_null(p);
	while ((n = fread(buf, 1, sizeof buf, p)) > 0)
		str_add(&out, buf, n);
	str_puts(&out, "");
	if (pclose(p))
		fail_msg("%s", line);
	mem_free(line);
	return out.p;
}

/* The content of member j of sample i: its length and bytes follow from (i, j). */
static size_t content(uint8_t *buf, int64_t i, int j)
{
	size_t n = (size_t)rng_below(300, 5, RNG_TEST, (uint64_t)j, (uint64_t)i, 0);

	for (size_t k = 0; k < n; k++)
		buf[k] = (uint8_t)(rng_below(7, 6, RNG_TEST, (uint64_t)j, (uint64_t)i, (uint32_t)k) + (uint64_t)i);
	return n;
}

static void write_shard(const char *path, int count, const struct shard_options *o, struct manifest_row *row)
{
	struct err e = {0};
	struct shard_writer *w = shard_create(path, o, &e);

	assert_non_null(w);
	for (int i = 0; i < count; i++) {
		uint8_t a[300], b[300];
		char *key = i == 3 ? mem_strdup("d/\xe6\x97\xa5-a-rather-long-key-a-rather-long-key-a-rather-long-key-a-rather-long-key-"
		                                "a-rather-long-key-a-rather-long-key")
		                   : str_new("d/%05d", i);
		struct shard_member m[] = {{"npy", a, content(a, i, 0)}, {"cls", b, content(b, i, 1)}};

		assert_int_equal(shard_add(w, key, m, 2, &e), 0);
		mem_free(key);
	}
	assert_int_equal(shard_commit(w, row, &e), 0);
}

static void check_sample(struct shard *s, int64_t i)
{
	struct err e = {0};
	struct shard_sample x;
	struct str key = {0};
	uint8_t buf[300];

	if (shard_read(s, i, &x, &e))
		fail_msg("%s", e.msg);
	assert_string_equal(x.key, shard_key(s, i, &key));
	str_release(&key);
	assert_int_equal(x.members, 2);
	assert_string_equal(x.member[0].ext, "cls");
	assert_string_equal(x.member[1].ext, "npy");
	for (int j = 0; j < 2; j++) {
		const struct shard_member *m = &x.member[j ? 0 : 1];
		size_t n = content(buf, i, j);

		assert_int_equal(m->size, n);
		assert_memory_equal(m->data, buf, n);
		assert_int_equal((uintptr_t)m->data % 16, 0);
	}
	shard_sample_release(&x);
}

static const struct shard_options variants[] = {{.stamp = "{\"seed\":1}"}, {.frame = 4000}, {.frame = 1 << 20, .level = 9, .stamp = "{}"}, {0}};

static void round_trip(void **state)
{
	char *path = at("s.tar.zst"), *again = at("t.tar.zst");

	(void)state;
	for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
		struct manifest_row row = {0}, row2 = {0};
		struct err e = {0};
		struct shard *s;
		struct tar_reader *r;
		struct tar_member m;
		int members = 0;

		write_shard(path, 50, variants + v, &row);
		write_shard(again, 50, variants + v, &row2);
		assert_string_equal(row.sha256, row2.sha256);
		mem_free(shell("cmp s.tar.zst t.tar.zst"));
		assert_string_equal(row.first_key, "d/00000");
		assert_string_equal(row.last_key, "d/00049");
		s = shard_open(path, &e);
		assert_non_null(s);
		assert_int_equal(shard_sniff(path, NULL), 1);
		assert_int_equal(shard_count(s), 50);
		for (int i = 49; i >= 0; i -= 3)
			check_sample(s, i);
		assert_int_equal(shard_verify(s, &e), 0);
		if (variants[v].stamp)
			assert_string_equal(shard_stamp(s), variants[v].stamp);
		else
			assert_null(shard_stamp(s));
		shard_free(s);
		r = tar_open(path, NULL, &e);
		assert_non_null(r);
		while (tar_next(r, &m, &e) == 1)
			members++;
		assert_int_equal(members, 100);
		tar_close(r);
		manifest_row_release(&row);
		manifest_row_release(&row2);
	}
	mem_free(path);
	mem_free(again);
}

static void stock_tools(void **state)
{
	struct manifest_row row = {0};
	char *path = at("u.tar.zst"), *out, *sha;

	(void)state;
	write_shard(path, 9, variants, &row);
	out = shell("zstd -qt u.tar.zst && zstd -qdc u.tar.zst | tar tf - | wc -l && tar --zstd -xOf u.tar.zst d/00004.cls | wc -c");
	sha = str_new("18\n%zu\n", content((uint8_t[300]){0}, 4, 1));
	assert_string_equal(out, sha);
	mem_free(out);
	mem_free(sha);
	/* Without checksums in the frames zstd does not find this. */
	out = shell("printf x | dd of=u.tar.zst bs=1 seek=$(($(stat -c %s u.tar.zst) / 2)) conv=notrunc 2>/dev/null; zstd -qt u.tar.zst "
	            "2>/dev/null || echo refused");
	assert_string_equal(out, "refused\n");
	mem_free(out);
	write_shard(path, 9, variants, NULL);
	out = shell("sha256sum u.tar.zst | cut -d' ' -f1 | tr -d '\\n'");
	assert_string_equal(out, row.sha256);
	mem_free(out);
	mem_free(path);
	manifest_row_release(&row);
}

/* Open, read all and verify: 0 when nothing complains. */
static int accepted(const char *path, struct err *e)
{
	struct shard *s = shard_open(path, e);
	int rc = s ? 0 : -1;

	for (int64_t i = 0; !rc && i < shard_count(s); i++) {
		struct shard_sample x;

		rc = shard_read(s, i, &x, e);
		shard_sample_release(&x);
	}
	shard_free(s);
	return rc;
}

/* A file in memory: thousands are written. The name goes to `name`; caller closes. */
static int put(const void *p, size_t n, char name[64])
{
	int fd = memfd_create("test", 0);

	assert_true(fd >= 0);
	assert_int_equal(fd_write(fd, p, n), 0);
	snprintf(name, 64, "/proc/self/fd/%d", fd);
	return fd;
}

static void assert_refused(const void *p, size_t n)
{
	struct err e = {0};
	char name[64];
	int fd = put(p, n, name);

	if (!accepted(name, &e))
		fail_msg("%zu bytes are accepted", n);
	assert_int_equal(e.code, ERR_DATA);
	assert_non_null(strstr(e.msg, name));
	close(fd);
}

/* Every truncation (also at frame boundaries), and every flipped bit. Reading all samples must find all damage except in the frame of the end blocks,
 * which shard_verify must find. Without the hash of the compressed frame, flips of unused bits in zstd frame headers would pass. */
static void every_truncation_and_flip(void **state)
{
	char *path = at("v.tar.zst"), name[64];
	struct err e = {0};
	size_t len;
	uint8_t *p;

	(void)state;
	write_shard(path, 5, variants + 1, NULL);
	p = file_load(path, 1 << 20, &len, &e);
	assert_non_null(p);
	for (size_t n = 0; n < len; n++)
		assert_refused(p, n);
	for (size_t bit = 0; bit < len * 8; bit++) {
		struct shard *s;
		int fd;

		e.code = 0;
		p[bit / 8] ^= (uint8_t)(1 << bit % 8);
		fd = put(p, len, name);
		s = shard_open(name, &e);
		if (s && !shard_verify(s, &e))
			fail_msg("bit %zu of byte %zu of %zu: the change is accepted", bit % 8, bit / 8, len);
		assert_int_equal(e.code, ERR_DATA);
		shard_free(s);
		close(fd);
		p[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	mem_free(p);
	mem_free(path);
}

static void appended_and_swapped(void **state)
{
	char *path = at("w.tar.zst");
	struct err e = {0};
	struct str twice = {0};
	size_t len;
	uint8_t *p;

	(void)state;
	write_shard(path, 5, variants, NULL);
	p = file_load(path, 1 << 20, &len, &e);
	str_add(&twice, p, len);
	str_add(&twice, "\0", 1);
	assert_refused(twice.p, twice.len);
	twice.len = len;
	str_add(&twice, p, len);
	assert_refused(twice.p, twice.len);
	/* Exchange two bytes that are far apart. */
	for (size_t i = 40; i + 700 < len; i += 37) {
		uint8_t x = p[i];

		if (x == p[i + 700])
			continue;
		p[i] = p[i + 700];
		p[i + 700] = x;
		assert_refused(p, len);
		p[i + 700] = p[i];
		p[i] = x;
	}
	str_release(&twice);
	mem_free(p);
	mem_free(path);
}

static void refused_samples(void **state)
{
	static const char *const keys[] = {"a\tb", "a\nb", "a.b", "", "a/", "./a", "k"};
	struct shard_member m[] = {{"x", (const uint8_t *)"1", 1}, {"x", (const uint8_t *)"1", 1}, {"X", (const uint8_t *)"1", 1}};
	char *path = at("r.tar.zst");
	struct err e = {0};
	struct shard_writer *w = shard_create(path, NULL, &e);

	(void)state;
	assert_int_equal(shard_add(w, "k", m, 1, &e), 0);
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		e.code = 0;
		assert_int_equal(shard_add(w, keys[i], m, 1, &e), -1);
		assert_int_equal(e.code, ERR_DATA);
	}
	e.code = 0;
	assert_int_equal(shard_add(w, "l", m, 2, &e), -1);
	e.code = 0;
	assert_int_equal(shard_add(w, "l", m + 2, 1, &e), -1);
	e.code = 0;
	assert_int_equal(shard_add(w, "l", m, 0, &e), -1);
	shard_abort(w);
	assert_false(path_exists(path));
	e.code = 0;
	w = shard_create(path, NULL, &e);
	assert_int_equal(shard_commit(w, NULL, &e), -1);
	assert_false(path_exists(path));
	mem_free(path);
}

struct pack_job {
	struct shard_packer *packer;
	struct shard_frame frame[40];
};

static void pack_one(void *arg, int64_t task, int worker)
{
	struct pack_job *j = arg;
	struct err e = {0};

	assert_int_equal(shard_pack(j->packer, worker, &j->frame[task], &e), 0);
}

/* Frames that several threads make separately, in reused memory, have the bytes of shard_add. */
static void frames_made_apart(void **state)
{
	enum { N = 120, AT_ONCE = 40 };
	char *path = at("f.tar.zst"), *again = at("g.tar.zst");
	struct shard_options o = {.level = 5, .stamp = "{}"};
	struct pack_job *j = mem_zalloc(1, sizeof *j);
	struct err e = {0};
	struct pool *pool = pool_new(4, &e);
	struct shard_writer *w = shard_create(path, &o, &e), *v = shard_create(again, &o, &e);
	uint8_t a[300], b[300];

	(void)state;
	j->packer = shard_packer_new(o.level, 4, &e);
	for (int i = 0; i < N; i++) {
		char *key = str_new("%05d", i);
		struct shard_member m[] = {{"npy", a, content(a, i, 0)}, {"cls", b, content(b, i, 1)}};

		assert_int_equal(shard_add(w, key, m, 2, &e), 0);
		assert_int_equal(shard_frame_fill(&j->frame[i % AT_ONCE], key, m, 2, &e), 0);
		mem_free(key);
		if (i % AT_ONCE < AT_ONCE - 1)
			continue;
		pool_run(pool, AT_ONCE, pack_one, j);
		for (int n = 0; n < AT_ONCE; n++)
			assert_int_equal(shard_append(v, &j->frame[n], &e), 0);
	}
	assert_int_equal(shard_append(v, &j->frame[AT_ONCE - 1], &e), -1);
	assert_non_null(strstr(e.msg, "two samples"));
	assert_int_equal(shard_commit(w, NULL, &e), 0);
	assert_int_equal(shard_commit(v, NULL, &e), 0);
	mem_free(shell("cmp f.tar.zst g.tar.zst"));
	assert_int_equal(shard_frame_fill(&j->frame[0], "a.b", NULL, 0, &e), -1);
	for (int n = 0; n < AT_ONCE; n++)
		shard_frame_release(&j->frame[n]);
	shard_packer_free(j->packer);
	pool_free(pool);
	mem_free(j);
	mem_free(path);
	mem_free(again);
}

/* The size of a shard with one member: text after `magic`. */
static size_t packed_bytes(const char *magic, int level)
{
	struct shard_options o = {.level = level};
	struct manifest_row row = {0};
	char *path = at("l.tar.zst");
	struct err e = {0};
	struct shard_writer *w = shard_create(path, &o, &e);
	struct str text = {0};
	struct shard_member m = {.ext = "x"};
	size_t bytes;

	str_puts(&text, magic);
	for (int i = 0; i < 3000; i++)
		str_printf(&text, "%d ", i * i);
	m.data = (const uint8_t *)text.p;
	m.size = text.len;
	assert_int_equal(shard_add(w, "k", &m, 1, &e), 0);
	assert_int_equal(shard_commit(w, &row, &e), 0);
	bytes = row.bytes;
	str_release(&text);
	manifest_row_release(&row);
	mem_free(path);
	return bytes;
}

/* Members that look like compressed pictures are packed at a low level, up to level 3. */
static void levels(void **state)
{
	size_t picture = packed_bytes("\xff\xd8\xff", 3), text = packed_bytes("abc", 3);

	(void)state;
	assert_true(text + 1000 < picture);
	assert_int_equal(packed_bytes("abc", 0), text);
	for (int level = 0; level < 3; level++)
		assert_int_equal(packed_bytes("\xff\xd8\xff", level), picture);
	assert_true(packed_bytes("abc", 1) != text);
	assert_true(packed_bytes("\xff\xd8\xff", 4) + 1000 < picture);
}

static void read_one(void *arg, int64_t task, int worker)
{
	(void)worker;
	check_sample(arg, task % 200);
}

static void concurrent_reads(void **state)
{
	char *path = at("p.tar.zst");
	struct err e = {0};
	struct pool *pool = pool_new(8, &e);
	struct shard *s;

	(void)state;
	write_shard(path, 200, variants + 1, NULL);
	s = shard_open(path, &e);
	assert_non_null(s);
	pool_run(pool, 2000, read_one, s);
	shard_free(s);
	pool_free(pool);
	mem_free(path);
}

static void manifests(void **state)
{
	static const char *const foreign[] = {
	    "../evil.tar.zst",           "cluster-2/../000000.tar.zst", "cluster-2/000000.tar..zst",       "cluster-2/00000.tar.zst",
	    "cluster-2/000000.tar.zst/", "cluster-2/000000a.tar.zst",   "cluster-2/.000000.tar.zst",       "cluster-2/",
	    "cluster-1/000000.tar.zst",  "cluster-20/000000.tar.zst",   "holdout/cluster-2/000000.tar.zst"};
	struct manifest_row rows[3] = {{.cluster = 2}, {.cluster = 0}, {.cluster = 2, .holdout = 1}};
	char *root = at("SHARDS"), *sub, *shard;
	struct stamp *stamp = stamp_new("ddm-shard");
	struct err e = {0};
	struct manifest m;

	(void)state;
	for (int i = 0; i < 3; i++) {
		rows[i].path = manifest_name(rows[i].cluster, rows[i].holdout, 0);
		shard = path_join(root, rows[i].path);
		sub = str_new("%.*s", (int)(strrchr(shard, '/') - shard), shard);
		assert_int_equal(dir_make(sub, &e), 0);
		write_shard(shard, 10 + i, variants, rows + i);
		mem_free(sub);
		mem_free(shard);
	}
	assert_string_equal(rows[2].path, "holdout/cluster-2/000000.tar.zst");
	assert_int_equal(manifest_write(root, rows, 3, 4, stamp, &e), 0);
	mem_free(shell("cd SHARDS && sha256sum -c SHA256SUMS >/dev/null"));
	assert_int_equal(manifest_load(&m, root, &e), 0);
	assert_int_equal(m.n, 3);
	assert_int_equal(m.clusters, 4);
	assert_int_equal(m.train[0], 11);
	assert_int_equal(m.train[1], 0);
	assert_int_equal(m.train[2], 10);
	assert_int_equal(m.held[2], 12);
	assert_string_equal(m.stamp, "{\"program\":\"ddm-shard\",\"version\":\"0.1\",\"clusters\":4}");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(manifest_check(&m, i, &e), 0);
		assert_int_equal(manifest_check_quick(&m, i, &e), 0);
	}
	/* Exchange two shards: same folder, same shape, other content. */
	mem_free(shell("cd SHARDS && mv cluster-0/000000.tar.zst x && mv cluster-2/000000.tar.zst cluster-0 && "
	               "mv x cluster-2/000000.tar.zst"));
	assert_int_equal(manifest_check(&m, 0, &e), -1);
	assert_int_equal(e.code, ERR_DATA);
	e.code = 0;
	assert_int_equal(manifest_check(&m, 1, &e), -1);
	e.code = 0;
	mem_free(shell("rm SHARDS/cluster-0/000000.tar.zst"));
	assert_int_equal(manifest_check_quick(&m, 0, &e), -1);
	assert_int_equal(e.code, ERR_NOINPUT);
	manifest_release(&m);
	e.code = 0;
	assert_int_equal(manifest_load(&m, dir, &e), -1);
	assert_int_equal(e.code, ERR_NOINPUT);
	e.code = 0;
	for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
		mem_free(rows[0].path);
		rows[0].path = mem_strdup(foreign[i]);
		e.code = 0;
		assert_int_equal(manifest_write(root, rows, 3, 4, NULL, &e), 0);
		assert_int_equal(manifest_load(&m, root, &e), -1);
	}
	assert_int_equal(e.code, ERR_DATA);
	for (int i = 0; i < 3; i++)
		manifest_row_release(rows + i);
	stamp_free(stamp);
	mem_free(root);
}

/* Shards written side by side, with their indexes in one temporary file, have the bytes of those written with them in memory. */
static void indexes_in_a_file(void **state)
{
	char *path[2] = {at("s.tar.zst"), at("t.tar.zst")}, *base = at("");
	struct spill *spill = spill_new(base);
	struct manifest_row plain = {0}, row = {0};
	struct err e = {0};

	(void)state;
	write_shard(path[0], 3000, NULL, &plain);
	for (int round = 0; round < 2; round++) {
		struct shard_options o = {.spill = spill};
		struct shard_writer *w[2] = {shard_create(path[0], &o, &e), shard_create(path[1], &o, &e)};

		for (int i = 0; i < 6000; i++) {
			uint8_t a[300];
			char *key = str_new("d/%05d", i);
			struct shard_member m = {"npy", a, content(a, i, 0)};

			assert_int_equal(shard_add(w[i % 2], key, &m, 1, &e), 0);
			mem_free(key);
		}
		shard_abort(w[0]);
		write_shard(path[0], 3000, &o, &row);
		assert_string_equal(row.sha256, plain.sha256);
		manifest_row_release(&row);
		assert_int_equal(shard_commit(w[1], NULL, &e), 0);
	}
	spill_free(spill);
	manifest_row_release(&plain);
	for (int i = 0; i < 2; i++)
		mem_free(path[i]);
	mem_free(base);
}

/* An index that is written over after it was checked is mapped still: what it says then is refused, and nothing outside it is read. */
static void altered_while_open(void **state)
{
	char *path = at("s.tar.zst");
	struct manifest_row row = {0};
	struct shard_totals t;
	struct err e = {0};

	(void)state;
	for (int byte = 0; byte < 256; byte += 51) {
		struct shard_sample x;
		struct str key = {0};
		struct shard *s;
		int fd;

		write_shard(path, 200, NULL, &row);
		s = shard_open(path, &e);
		assert_non_null(s);
		check_sample(s, 150);
		shard_totals(s, &t);
		fd = open(path, O_WRONLY);
		for (uint64_t i = t.packed; i < row.bytes; i++) {
			uint8_t b = (uint8_t)byte;

			assert_int_equal(pwrite(fd, &b, 1, (off_t)i), 1);
		}
		close(fd);
		for (int64_t i = 0; i < 200; i += 7) {
			assert_int_equal(shard_read(s, i, &x, &e), -1);
			assert_int_equal(e.code, ERR_DATA);
			e = (struct err){0};
			assert_string_equal(shard_key(s, i, &key), "");
		}
		assert_int_equal(shard_verify(s, &e), -1);
		e = (struct err){0};
		str_release(&key);
		shard_free(s);
		manifest_row_release(&row);
	}
	mem_free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(round_trip),
	    cmocka_unit_test(stock_tools),
	    cmocka_unit_test(every_truncation_and_flip),
	    cmocka_unit_test(appended_and_swapped),
	    cmocka_unit_test(refused_samples),
	    cmocka_unit_test(concurrent_reads),
	    cmocka_unit_test(manifests),
	    cmocka_unit_test(frames_made_apart),
	    cmocka_unit_test(levels),
	    cmocka_unit_test(indexes_in_a_file),
	    cmocka_unit_test(altered_while_open),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
