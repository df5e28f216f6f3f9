/* bench_manysamples [-q] [-t THREADS] [-n SAMPLES] [-d FOLDER] [PATTERN]: time and peak memory of ddm-shard's work and of the reader of training for
 * a number of tiny samples (arrays of 16 floats), in which what grows with the number of samples shows. Each part runs in a process of its own.
 * The samples, 1 KiB each and as shards once more, are made in FOLDER (default $TMPDIR/ddm-bench-many), and removed at the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "core/str.h"
#include "data/dataset.h"
#include "data/shardmake.h"
#include "file/fileio.h"
#include "file/npy.h"
#include "file/tarfile.h"

struct memory {
	double all, anonymous;
};

enum { CLUSTERS = 4, READS = 200000, TASK = 1000 };

static int64_t samples = 20000;
static int threads;
static char *dir, *tar, *table, *shards;

static void must(int rc, const struct err *e)
{
	if (!rc)
		return;
	fprintf(stderr, "bench_manysamples: %s\n", e->msg);
	exit(e->code);
}

static void tell(const char *name, double value, const char *unit)
{
	printf("%s\t%.4g\t%s\t-\n", name, value, unit);
	fflush(stdout);
}

static void make_samples(void)
{
	const int64_t shape[3] = {1, 4, 4};
	struct outfile out = {0};
	struct tar_writer w = {0};
	struct err e = {0};
	FILE *f = fopen(table, "w");
	float v[16];

	must(!f || outfile_open(&out, tar, &e) || tar_start(&w, &out, NULL, &e), &e);
	fprintf(f, "key\tcluster\n");
	for (int64_t i = 0; i < samples; i++) {
		struct str bytes = {0};
		char name[40];

		rng_normal(v, 16, 1, RNG_TEST, 0, (uint64_t)i);
		npy_encode(&bytes, NPY_F4, 3, shape, v);
		snprintf(name, sizeof name, "%010lld.npy", (long long)i);
		must(tar_add(&w, name, bytes.p, bytes.len, &e), &e);
		fprintf(f, "%010lld\t%d\n", (long long)i, (int)rng_below(CLUSTERS, 2, RNG_TEST, 0, (uint64_t)i, 0));
		str_release(&bytes);
	}
	must(tar_finish(&w, &e) || outfile_commit(&out, &e) || fclose(f), &e);
}

static void do_nothing(void)
{
	usleep(50000);
}

static void make_shards(void)
{
	const char *source = tar;
	struct shard_request r = shard_defaults();
	struct shard_report report = {0};
	struct err e = {0};
	double t = clock_seconds();

	r.assign = table;
	r.out = shards;
	r.sources = &source;
	r.nsources = 1;
	r.encoding.pool = pool_new(threads, &e);
	must(!r.encoding.pool || shard_make(&r, &report, &e), &e);
	tell("many: sharding", clock_seconds() - t, "s");
}

struct reading {
	struct dataset *d;
	int64_t count;
};

static void read_task(void *arg, int64_t task, int worker)
{
	struct reading *r = arg;
	struct err e = {0};
	float x[16];

	(void)worker;
	for (int64_t i = task * TASK; i < (task + 1) * TASK; i++)
		must(dataset_read(r->d, (int64_t)rng_below((uint64_t)r->count, 3, RNG_TEST, 0, (uint64_t)i, 0), x, NULL, NULL, &e), &e);
}

/* Open all shards as training does, without verifying their hashes and without keeping decoded samples, and read samples in random order. */
static void read_samples(void)
{
	struct dataset_options o = {.cluster = DATASET_ALL, .budget = 1};
	struct reading r = {0};
	struct err e = {0};
	double t = clock_seconds();

	o.pool = pool_new(threads, &e);
	must(!o.pool || !(r.d = dataset_open(shards, &o, &e)), &e);
	tell("many: opening", clock_seconds() - t, "s");
	r.count = dataset_info(r.d)->count;
	t = clock_seconds();
	pool_run(o.pool, READS / TASK, read_task, &r);
	tell("many: reading at random", READS / (clock_seconds() - t), "samples/s");
	dataset_free(r.d);
}

/* The memory of a process that is not a page of a file, which the kernel cannot drop, in bytes; 0 if it has ended. */
static double anonymous(pid_t pid)
{
	char *path = str_new("/proc/%d/status", (int)pid), line[200];
	FILE *f = fopen(path, "r");
	long long kib = 0;

	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, "RssAnon:", 8))
			kib = strtoll(line + 8, NULL, 10);
	if (f)
		fclose(f);
	mem_free(path);
	return (double)kib * 1024;
}

/* Run a part in a process of its own: the most memory that it had, all and anonymous, in bytes. With a name, print by how much that is more than
 * `base`, and the processor time. The anonymous memory is looked at every 5 ms. */
static struct memory run(void (*part)(void), const char *name, struct memory base)
{
	struct memory most = {0};
	struct rusage use;
	pid_t pid = fork(), ended;
	int status = 1;

	if (!pid) {
		part();
		exit(0);
	}
	while (pid > 0 && !(ended = wait4(pid, &status, WNOHANG, &use))) {
		double now = anonymous(pid);

		most.anonymous = now > most.anonymous ? now : most.anonymous;
		usleep(5000);
	}
	if (pid < 0 || ended < 0 || status)
		exit(1);
	most.all = (double)use.ru_maxrss * 1024;
	if (name) {
		double cpu = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) + 1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
		char *memory = str_new("%s, memory", name), *fixed = str_new("%s, memory that cannot be dropped", name);
		char *processor = str_new("%s, processor", name);

		tell(processor, cpu, "s");
		tell(memory, (most.all - base.all) / (double)samples, "bytes/sample");
		tell(fixed, (most.anonymous - base.anonymous) / (double)samples, "bytes/sample");
		mem_free(fixed);
		mem_free(memory);
		mem_free(processor);
	}
	return most;
}

int main(int argc, char **argv)
{
	const char *tmp = getenv("TMPDIR");
	struct err e = {0};
	struct memory base;

	dir = path_join(tmp ? tmp : "/tmp", "ddm-bench-many");
	for (int c; (c = getopt(argc, argv, "qt:s:n:d:")) != -1;) {
		if (c == '?')
			return 2;
		if (c == 'q')
			samples = 2000;
		if (c == 't')
			threads = (int)strtol(optarg, NULL, 10);
		if (c == 'n')
			samples = strtoll(optarg, NULL, 10);
		if (c == 'd') {
			mem_free(dir);
			dir = mem_strdup(optarg);
		}
	}
	if (optind < argc && !strstr("many: sharding, processor, memory; many: opening; many: reading at random, processor, memory", argv[optind]))
		return 0;
	tar = path_join(dir, "samples.tar");
	table = path_join(dir, "table.tsv");
	shards = path_join(dir, "shards");
	must(dir_remove(dir, &e) || dir_make(dir, &e), &e);
	run(make_samples, NULL, (struct memory){0});
	base = run(do_nothing, NULL, (struct memory){0});
	run(make_shards, "many: sharding", base);
	run(read_samples, "many: reading", base);
	must(dir_remove(dir, &e), &e);
	mem_free(dir);
	mem_free(tar);
	mem_free(table);
	mem_free(shards);
	return 0;
}
