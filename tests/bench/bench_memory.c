/* bench_memory [-t THREADS] [-s SECONDS] [PATTERN]: the memory that training holds, as a fraction of its plan (fails if they differ by more than 5%),
 * and its growth over 10,000 steps of a tiny network (fails above 1 MiB). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/manifest.h"
#include "file/npy.h"
#include "file/shard.h"
#include "net/trunkconfig.h"
#include "tests/bench/meter.h"
#include "train/trainer.h"

enum { SAMPLES = 256, STEPS = 10000, EVERY = 1000 };

static const struct run {
	const char *name, *preset;
	const struct net_def *def;
	int64_t channels, size, batch, accumulate, recompute;
} runs[] = {
    {"plan dit-micro/4, batch 64", "dit-micro/4", &net_dit, 3, 32, 64, 1, 0},
    {"plan dit-mini/4, batch 64 in 2, recomputed", "dit-mini/4", &net_dit, 3, 32, 64, 2, 1},
    {"plan router dit-nano/4, batch 128", "dit-nano/4", &net_router, 3, 32, 128, 1, 0},
};

static char dir[] = "/tmp/ddm-bench-XXXXXX";

static void must(int rc, const struct err *e)
{
	if (!rc)
		return;
	fprintf(stderr, "bench_memory: %s\n", e->msg);
	dir_remove(dir, NULL);
	exit(e->code);
}

/* Bytes of this process's own memory, without mapped files. */
static double held(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[200];
	double kib = NAN;

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "RssAnon: %lf", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return 1024 * kib;
}

static char *write_shards(int64_t channels, int64_t size)
{
	int64_t shape[3] = {channels, size, size}, n = channels * size * size;
	char *root = str_new("%s/%dx%d", dir, (int)channels, (int)size), *file = manifest_name(0, 0, 0), *full = path_join(root, file);
	char *slash = strrchr(full, '/');
	float *v = mem_zalloc((size_t)n, sizeof *v);
	struct manifest_row row = {.path = file};
	struct shard_writer *w;
	struct stamp *stamp = stamp_new("bench");
	struct err e = {0};

	*slash = 0;
	must(dir_make(full, &e), &e);
	*slash = '/';
	w = shard_create(full, NULL, &e);
	must(!w, &e);
	for (int64_t i = 0; i < SAMPLES; i++) {
		struct str bytes = {0};
		struct shard_member m = {.ext = "npy"};
		char key[32];

		snprintf(key, sizeof key, "%06d", (int)i);
		rng_normal(v, (size_t)n, 1, RNG_TEST, 0, (uint64_t)i);
		npy_encode(&bytes, NPY_F4, 3, shape, v);
		m.data = (uint8_t *)bytes.p;
		m.size = bytes.len;
		must(shard_add(w, key, &m, 1, &e), &e);
		str_release(&bytes);
	}
	must(shard_commit(w, &row, &e), &e);
	row.path = file;
	must(manifest_write(root, &row, 1, 1, stamp, &e), &e);
	manifest_row_release(&row);
	stamp_free(stamp);
	mem_free(full);
	mem_free(v);
	return root;
}

struct watch {
	double before, early, most;
	int64_t from; /* the first step of the measurement */
};

static void look(void *arg, const struct train_step *s)
{
	struct watch *w = arg;
	double now = held();

	if (s->step == w->from)
		w->early = now;
	w->most = now > w->most ? now : w->most;
}

static struct train_options options(const struct run *r, const char *shards, const char *out)
{
	struct train_options o = train_defaults(r->def->role);
	struct err e = {0};

	must(net_preset(r->preset, &o.net, &e), &e);
	o.optimizer = OPTIMIZER_ADAMW;
	o.lr = 1e-4;
	o.shards = shards;
	o.out = out;
	o.steps = 4;
	o.batch = r->batch;
	o.accumulate = r->accumulate;
	o.recompute = (int)r->recompute;
	o.validate_samples = 0;
	o.keep_best = 0;
	o.checkpoint.seconds = 0;
	o.log_every = 1;
	o.program = "bench";
	return o;
}

static struct watch train(struct device *d, const struct train_options *o, int64_t from)
{
	struct watch w = {.before = held(), .from = from};
	struct train_hooks hooks = {.step = look, .arg = &w};
	struct err e = {0};

	must(train_run(o, d, &hooks, &e), &e);
	return w;
}

static int measure_plan(const struct bench *b, struct device *d, const struct run *r)
{
	char *shards, *out;
	struct train_options o;
	struct train_plan p;
	struct watch w;
	struct err e = {0};
	double f;

	if (!bench_wants(b, r->name))
		return 0;
	shards = write_shards(r->channels, r->size);
	out = str_new("%s/out", dir);
	o = options(r, shards, out);
	must(train_plan(&o, d, &p, &e), &e);
	w = train(d, &o, 1);
	f = (double)p.total / (w.most - w.before);
	printf("%s\t%.1f\tMiB\t%.3f\n", r->name, (w.most - w.before) / 1048576, f);
	must(dir_remove(out, &e) || dir_remove(shards, &e), &e);
	mem_free(out);
	mem_free(shards);
	if (fabs(f - 1) > .05)
		fprintf(stderr, "bench_memory: %s: the plan says %.1f MiB\n", r->name, (double)p.total / 1048576);
	return fabs(f - 1) > .05;
}

static int measure_growth(const struct bench *b, struct device *d)
{
	static const struct run tiny = {"memory growth over 10,000 steps", "dit-nano/4", &net_dit, 1, 8, 4, 1, 0};
	char *shards, *out;
	struct train_options o;
	struct watch w;
	double grown;

	if (!bench_wants(b, tiny.name))
		return 0;
	shards = write_shards(tiny.channels, tiny.size);
	out = str_new("%s/out", dir);
	o = options(&tiny, shards, out);
	trunk_edit(&o.net)->hidden = 16;
	trunk_edit(&o.net)->heads = 1;
	trunk_edit(&o.net)->depth = 1;
	o.steps = STEPS;
	o.log_every = EVERY;
	w = train(d, &o, EVERY);
	grown = w.most - w.early;
	printf("%s\t%.0f\tbytes\t-\n", tiny.name, grown);
	mem_free(out);
	mem_free(shards);
	if (grown > 1 << 20)
		fprintf(stderr, "bench_memory: training grows by %.0f bytes a step\n", grown / (STEPS - EVERY));
	return grown > 1 << 20;
}

int main(int argc, char **argv)
{
	struct bench b;
	struct device *device;
	struct err e = {0};
	int bad = 0;

	bench_start(&b, "bench_memory", argc, argv);
	device = device_cpu(b.pool, DT_F32);
	if (!mkdtemp(dir)) {
		err_errno(&e, "%s", dir);
		must(-1, &e);
	}
	for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
		bad |= measure_plan(&b, device, &runs[i]);
	bad |= measure_growth(&b, device);
	dir_remove(dir, NULL);
	device_free(device);
	bench_end(&b);
	return bad;
}
