/* bench_data [-q] [-t THREADS] [-d FOLDER] [PATTERN]: from pictures to clusters, shards and samples, on synthetic data made in the
 * folder (default $TMPDIR/ddm-bench-data, kept), where peer_data.py then finds it. TSV: name, value, unit, fraction of peak. One
 * thread is timed by the processor time of the working process, which other processes hardly disturb. For more threads the machine must be
 * quiet. */
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <jpeglib.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "core/str.h"
#include "cluster/kmeans.h"
#include "data/samples.h"
#include "file/fileio.h"
#include "file/npy.h"
#include "file/shard.h"
#include "file/tsv.h"
#include "kernels/peak.h"

enum { DIM = 384, ITERATIONS = 10, BLOBS = 4096 };
enum { WIDTH = 500, HEIGHT = 375, CLUSTERS = 4, SIZE = 64, TRIES = 3 };

/* Of k-means and of the folder of pictures. -q makes them small, to try the program. */
static int64_t points = 100000, centres = 1024;
static int pictures = 2048, distinct = 256;

extern char **environ;

struct bench {
	int threads;
	struct pool *pool;
	const char *dir;
	char *programs; /* folder of the programs */
	const char *pattern;
};

static void die(const struct err *e)
{
	fprintf(stderr, "bench_data: %s\n", e->msg);
	exit(e->code);
}

static double now(const struct bench *b)
{
	struct timespec t;

	if (b->threads > 1)
		return clock_seconds();
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int wanted(const struct bench *b, const char *name)
{
	return strstr(name, b->pattern) || strstr(b->pattern, name);
}

static void tell(const char *name, double value, const char *unit, double fraction)
{
	if (fraction > 0)
		printf("%s\t%.4g\t%s\t%.3f\n", name, value, unit, fraction);
	else
		printf("%s\t%.4g\t%s\t-\n", name, value, unit);
	fflush(stdout);
}

/* Points around more centres than clusters, so that the iterations do not converge early. */
static float *points_make(void)
{
	float *x = mem_alloc((size_t)points * DIM * sizeof *x), centre[DIM];

	for (int64_t i = 0; i < points; i++) {
		rng_normal(centre, DIM, 1, RNG_TEST, 1, rng_below(BLOBS, 1, RNG_TEST, 2, (uint64_t)i, 0));
		rng_normal(x + i * DIM, DIM, 1, RNG_TEST, 3, (uint64_t)i);
		for (int j = 0; j < DIM; j++)
			x[i * DIM + j] += .5f * centre[j];
	}
	return x;
}

static double fit_seconds(const struct bench *b, const float *x, int iterations)
{
	struct kmeans_options o = {.k = centres, .restarts = 1, .iterations = iterations, .tolerance = 1e-12, .seed = 1, .pool = b->pool};
	struct kmeans m;
	struct err e = {0};
	double t = now(b);

	if (kmeans_fit(&m, x, points, DIM, &o, &e))
		die(&e);
	t = now(b) - t;
	if (m.iterations != iterations)
		fprintf(stderr, "bench_data: %d iterations, not %d\n", m.iterations, iterations);
	kmeans_release(&m);
	return t;
}

/* Time the iterations without seeding, checks and the last assignment; then the whole. */
static void bench_kmeans(const struct bench *b)
{
	const double work = 2. * points * centres * DIM * ITERATIONS;
	const int64_t shape[2] = {points, DIM};
	char *path = path_join(b->dir, "points.npy");
	float *x = points_make();
	struct err e = {0};
	double one, all, peak;

	if (!path_exists(path) && npy_write(path, NPY_F4, 2, shape, x, &e))
		die(&e);
	one = fit_seconds(b, x, 1);
	all = fit_seconds(b, x, 1 + ITERATIONS);
	peak = peak_fma_flops(b->pool);
	tell("data.kmeans", work / (all - one) * 1e-9, "GFLOP/s", work / (all - one) / peak);
	tell("data.kmeans_fit", work * (1 + ITERATIONS) / ITERATIONS / all * 1e-9, "GFLOP/s", 0);
	mem_free(x);
	mem_free(path);
}

/* Draw smooth shapes and some grain, which take about as many bytes as a photograph of that size. */
static void picture_draw(uint8_t *rgb, int number)
{
	float wave[12][5], grain[64];

	for (int w = 0; w < 12; w++)
		rng_normal(wave[w], 5, 2, RNG_TEST, (uint64_t)number, (uint64_t)w);
	for (int y = 0; y < HEIGHT; y++)
		for (int x = 0; x < WIDTH; x++) {
			if (x % 64 == 0)
				rng_normal(grain, 64, 2, RNG_TEST, (uint64_t)number, (uint64_t)(100 + y * 8 + x / 64));
			for (int c = 0; c < 3; c++) {
				float v = 128 + 7 * grain[x % 64];

				for (int w = c; w < 12; w += c + 1)
					v += 22 *
					     sinf(wave[w][0] * (float)(x * (w + 1)) * .008f + wave[w][1] * (float)(y * (w + 1)) * .008f +
					          wave[w][2] * 3) *
					     wave[w][3];
				*rgb++ = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
			}
		}
}

static void jpeg_write(const char *path, const uint8_t *rgb, int comment)
{
	struct jpeg_compress_struct c;
	struct jpeg_error_mgr errors;
	FILE *f = fopen(path, "wbe");

	if (!f) {
		perror(path);
		exit(1);
	}
	c.err = jpeg_std_error(&errors);
	jpeg_create_compress(&c);
	jpeg_stdio_dest(&c, f);
	c.image_width = WIDTH;
	c.image_height = HEIGHT;
	c.input_components = 3;
	c.in_color_space = JCS_RGB;
	jpeg_set_defaults(&c);
	jpeg_set_quality(&c, 90, TRUE);
	jpeg_start_compress(&c, TRUE);
	jpeg_write_marker(&c, JPEG_COM, (const JOCTET *)&comment, sizeof comment);
	while (c.next_scanline < c.image_height) {
		JSAMPROW row = (JSAMPROW)(uintptr_t)(rgb + (size_t)c.next_scanline * WIDTH * 3);

		jpeg_write_scanlines(&c, &row, 1);
	}
	jpeg_finish_compress(&c);
	jpeg_destroy_compress(&c);
	fclose(f);
}

static char *picture_path(const struct bench *b, int i)
{
	return str_new("%s/pictures/%d/%05d.jpg", b->dir, i % 8, i);
}

/* Make the folder of pictures and its assignment, unless they exist. */
static void pictures_make(const struct bench *b)
{
	static const char *const columns[] = {"key", "cluster"};
	char *done = path_join(b->dir, "assign.tsv");
	uint8_t *rgb = mem_alloc(WIDTH * HEIGHT * 3);
	struct tsv_writer *t;
	struct err e = {0};

	for (int d = 0; d < 8 && !path_exists(done); d++) {
		char *dir = str_new("%s/pictures/%d", b->dir, d);

		if (dir_make(dir, &e))
			die(&e);
		mem_free(dir);
	}
	for (int i = 0; i < distinct && !path_exists(done); i++) {
		picture_draw(rgb, i);
		for (int n = i; n < pictures; n += distinct) {
			char *path = picture_path(b, n);

			jpeg_write(path, rgb, n);
			mem_free(path);
		}
	}
	if (!path_exists(done)) {
		t = tsv_create(done, columns, 2, NULL, &e);
		for (int i = 0; t && i < pictures; i++) {
			char *key = str_new("%d/%05d", i % 8, i);

			tsv_put(t, key);
			tsv_put_i64(t, i % CLUSTERS);
			mem_free(key);
			if (tsv_row(t, &e))
				die(&e);
		}
		if (!t || tsv_commit(t, &e))
			die(&e);
	}
	mem_free(rgb);
	mem_free(done);
}

static double folder_bytes(const struct bench *b)
{
	double bytes = 0;

	for (int i = 0; i < pictures; i++) {
		char *path = picture_path(b, i);
		struct stat s;

		if (!stat(path, &s))
			bytes += (double)s.st_size;
		mem_free(path);
	}
	return bytes;
}

/* Seconds that a program runs. */
static double program_seconds(const struct bench *b, const char *name, char **argv)
{
	char *path = path_join(b->programs, name);
	double t = clock_seconds();
	struct rusage use;
	int status;
	pid_t pid;

	argv[0] = path;
	if (posix_spawn(&pid, path, NULL, NULL, argv, environ) || wait4(pid, &status, 0, &use) < 0 || status) {
		fprintf(stderr, "bench_data: %s failed\n", path);
		exit(1);
	}
	t = clock_seconds() - t;
	if (b->threads == 1)
		t = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) + 1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
	mem_free(path);
	return t;
}

static void bench_shard_write(const struct bench *b)
{
	char *assign = path_join(b->dir, "assign.tsv"), *out = path_join(b->dir, "shards"), *in = path_join(b->dir, "pictures");
	char *threads = str_new("%d", b->threads);
	char *argv[] = {NULL, "-q", "--threads", threads, "-a", assign, "-o", out, in, NULL};
	double best = 1e9;

	for (int i = 0; i < TRIES; i++) {
		struct err e = {0};
		double t;

		if (dir_remove(out, &e))
			die(&e);
		t = program_seconds(b, "ddm-shard", argv);
		best = t < best ? t : best;
	}
	tell("data.shard_write", folder_bytes(b) / best * 1e-6, "MB/s", 0);
	mem_free(threads);
	mem_free(assign);
	mem_free(out);
	mem_free(in);
}

static int shards_there(const struct bench *b)
{
	char *path = path_join(b->dir, "shards/MANIFEST.tsv");
	int there = path_exists(path);

	mem_free(path);
	return there;
}

struct read_job {
	struct shard *shard[CLUSTERS];
	int fd[CLUSTERS];
	int64_t n;
	double total;  /* bytes of all samples */
	double *bytes; /* per task */
};

enum { READS = 32 };

static void read_task(void *arg, int64_t task, int worker)
{
	struct read_job *j = arg;
	struct shard_sample s;
	struct err e = {0};

	(void)worker;
	for (int64_t i = task * READS; i < (task + 1) * READS && i < j->n; i++) {
		int64_t at = (int64_t)rng_permute((uint64_t)i, (uint64_t)j->n, 1, RNG_TEST, 0);

		if (shard_read(j->shard[at % CLUSTERS], at / CLUSTERS, &s, &e))
			die(&e);
		for (int m = 0; m < s.members; m++)
			j->bytes[task] += (double)s.member[m].size;
		shard_sample_release(&s);
	}
}

static void shards_open(const struct bench *b, struct read_job *j, int cold)
{
	struct err e = {0};

	for (int c = 0; c < CLUSTERS; c++) {
		char *path = str_new("%s/shards/cluster-%d/000000.tar.zst", b->dir, c);
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		if (cold && fd >= 0)
			posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		if (fd >= 0)
			close(fd);
		j->shard[c] = shard_open(path, &e);
		if (!j->shard[c])
			die(&e);
		mem_free(path);
	}
}

static void shards_close(struct read_job *j)
{
	for (int c = 0; c < CLUSTERS; c++)
		shard_free(j->shard[c]);
}

/* Read as many bytes from the files in the same order, to measure the disk alone. */
static void bare_task(void *arg, int64_t task, int worker)
{
	struct read_job *j = arg;
	size_t size = (size_t)(j->total / (double)j->n);
	char *p = mem_alloc(size);

	(void)worker;
	for (int64_t i = task * READS; i < (task + 1) * READS && i < j->n; i++) {
		int64_t at = (int64_t)rng_permute((uint64_t)i, (uint64_t)j->n, 1, RNG_TEST, 0);
		ssize_t n = pread(j->fd[at % CLUSTERS], p, size, (off_t)(at / CLUSTERS * (int64_t)size));

		j->bytes[task] += n > 0 ? (double)n : 0;
	}
	mem_free(p);
}

static double sum_bytes(const struct read_job *j)
{
	double sum = 0;

	for (int64_t t = 0; t < (j->n + READS - 1) / READS; t++)
		sum += j->bytes[t];
	return sum;
}

static void bench_bare_read(const struct bench *b, struct read_job *j)
{
	double t;

	shards_open(b, j, 1);
	shards_close(j);
	for (int c = 0; c < CLUSTERS; c++) {
		char *path = str_new("%s/shards/cluster-%d/000000.tar.zst", b->dir, c);

		j->fd[c] = open(path, O_RDONLY | O_CLOEXEC);
		mem_free(path);
	}
	memset(j->bytes, 0, (size_t)((j->n + READS - 1) / READS) * sizeof *j->bytes);
	t = clock_seconds();
	pool_run(b->pool, (j->n + READS - 1) / READS, bare_task, j);
	t = clock_seconds() - t;
	for (int c = 0; c < CLUSTERS; c++)
		close(j->fd[c]);
	tell("data.disk_read", sum_bytes(j) / t * 1e-6, "MB/s", 0);
}

/* Read samples in random order: from the page cache, from the disk, and the speed of the disk alone. */
static void bench_shard_read(const struct bench *b)
{
	struct read_job j = {.n = pictures};
	int64_t tasks = (pictures + READS - 1) / READS;

	j.bytes = mem_zalloc((size_t)tasks, sizeof *j.bytes);
	for (int cold = 0; cold < 2; cold++) {
		double best = 1e9;

		for (int i = 0; i < TRIES; i++) {
			double t;

			memset(j.bytes, 0, (size_t)tasks * sizeof *j.bytes);
			shards_open(b, &j, cold);
			t = cold ? clock_seconds() : now(b);
			pool_run(b->pool, tasks, read_task, &j);
			t = (cold ? clock_seconds() : now(b)) - t;
			best = t < best ? t : best;
			shards_close(&j);
		}
		j.total = sum_bytes(&j);
		tell(cold ? "data.shard_read_cold" : "data.shard_read", j.total / best * 1e-6, "MB/s", 0);
	}
	bench_bare_read(b, &j);
	mem_free(j.bytes);
}

static void bench_pictures(const struct bench *b, const char *name, const char *dir)
{
	struct samples_options o = {.size = SIZE, .once = 1};
	struct picture_batch batch = {0};
	double best = 1e9;
	int64_t count = 0;

	for (int i = 0; i < TRIES; i++) {
		struct err e = {0};
		double t = now(b);
		struct samples *s = samples_open(&dir, 1, &o, &e);
		int n = s ? 0 : -1;

		count = 0;
		while (s && (n = samples_pictures(s, b->pool, 256, &batch, &e)) > 0)
			count += n;
		if (n < 0)
			die(&e);
		samples_close(s);
		t = now(b) - t;
		best = t < best ? t : best;
	}
	picture_batch_release(&batch);
	tell(name, (double)count / best, "pictures/s", 0);
}

static void bench_ingest(const struct bench *b)
{
	char *out = path_join(b->dir, "pictures.tar"), *in = path_join(b->dir, "pictures"), *threads = str_new("%d", b->threads);
	char *argv[] = {NULL, "--size", "64", "--threads", threads, "-o", out, in, NULL};
	double best = 1e9;

	for (int i = 0; i < TRIES; i++) {
		double t;

		unlink(out);
		t = program_seconds(b, "ddm-ingest", argv);
		best = t < best ? t : best;
	}
	tell("data.ingest", pictures / best, "pictures/s", 0);
	mem_free(threads);
	mem_free(out);
	mem_free(in);
}

static void bench_photos(const struct bench *b)
{
	const char *data = getenv("DDM_TEST_DATA");
	char *dir = path_join(data ? data : "../shared/data", "photos");

	if (path_exists(dir))
		bench_pictures(b, "data.photos", dir);
	else
		fprintf(stderr, "bench_data: skip data.photos: no %s\n", dir);
	mem_free(dir);
}

int main(int argc, char **argv)
{
	const char *tmp = getenv("TMPDIR"), *slash = strrchr(argv[0], '/');
	char *dir = path_join(tmp ? tmp : "/tmp", "ddm-bench-data"), *folder;
	struct bench b = {0};
	struct err e = {0};

	for (int c; (c = getopt(argc, argv, "qt:s:d:")) != -1;) {
		if (c == '?')
			return 2;
		if (c == 'q') {
			points = 20000;
			centres = 64;
			pictures = 64;
			distinct = 8;
			mem_free(dir);
			dir = path_join(tmp ? tmp : "/tmp", "ddm-bench-data-small");
		}
		if (c == 't')
			b.threads = (int)strtol(optarg, NULL, 10);
		if (c == 'd') {
			mem_free(dir);
			dir = mem_strdup(optarg);
		}
	}
	b.pattern = optind < argc ? argv[optind] : "";
	b.pool = pool_new(b.threads, &e);
	if (!b.pool || dir_make(dir, &e))
		die(&e);
	b.threads = pool_threads(b.pool);
	b.dir = dir;
	b.programs = str_new("%.*s/../..", slash ? (int)(slash - argv[0]) : 1, slash ? argv[0] : ".");
	folder = path_join(dir, "pictures");
	if (wanted(&b, "data.kmeans"))
		bench_kmeans(&b);
	if (wanted(&b, "data.shard") || wanted(&b, "data.pictures") || wanted(&b, "data.ingest"))
		pictures_make(&b);
	if (wanted(&b, "data.shard_write") || (wanted(&b, "data.shard_read") && !shards_there(&b)))
		bench_shard_write(&b);
	if (wanted(&b, "data.shard_read"))
		bench_shard_read(&b);
	if (wanted(&b, "data.pictures"))
		bench_pictures(&b, "data.pictures", folder);
	if (wanted(&b, "data.ingest"))
		bench_ingest(&b);
	if (wanted(&b, "data.photos"))
		bench_photos(&b);
	mem_free(folder);
	mem_free(b.programs);
	mem_free(dir);
	pool_free(b.pool);
	return 0;
}
