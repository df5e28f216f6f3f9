/* ddm-ingest: pictures, video and filter graphs to a tar of samples. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/ingest.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/str.h"
#include "data/keyset.h"
#include "data/samples.h"
#include "file/claim.h"
#include "file/stamp.h"
#include "file/standing.h"
#include "file/tarfile.h"

#define BATCH         32
#define NAMED         3    /* of identical pictures */
#define STREAM_FRAMES 1000 /* instances with more are written as they come, not collected */

static const char *const dedups[] = {"none", "exact", NULL};
static const char *const resizes[] = {"lanczos", "bicubic", "hamming", "bilinear", "box", "adm", NULL};

static struct {
	int64_t size, max, seeds, frames, max_errors, threads;
	double fps, timeout;
	uint64_t seed, memory;
	const char *out;
	int resize, skip_bad, nul_list, duplicates, classes, frames_given, quiet, dedup, bare;
	int64_t max_pixels;
} opt = {.max_errors = -1, .seeds = 1, .timeout = 60, .memory = (uint64_t)2 << 30, .out = "-", .max_pixels = 1 << 26};

static const struct option options[] = {
	OPTION_GROUP("Pictures and frames"),
	{.name = "--size", .type = OPTION_INT, .value = &opt.size, .lo = 1, .hi = 16384, .arg = "N",
	 .help = "centre square, resized to N x N (default: as they are)", OPTION_ALWAYS},
	{.name = "--resize", .type = OPTION_CHOICE, .value = &opt.resize, .arg = "FILTER", .choices = resizes,
	 .help = "how to resize (default lanczos)", .when = {{USE_NEEDS, "--size"}}},
	{.name = "--fps", .type = OPTION_REAL, .value = &opt.fps, .lo = 1e-6, .hi = 1e6, .arg = "F",
	 .help = "frames a second taken from video (default: all)", .when = {{USE_INPUT, "a video or a graph"}}},
	{.name = "--frames", .type = OPTION_INT, .value = &opt.frames, .lo = 1, .hi = 1e9, .arg = "N", .given = &opt.frames_given,
	 .help = "most frames of a video (default: all) or of one instance of a graph (default 30)",
	 .when = {{USE_INPUT, "a video or a graph"}}},
	{.name = "--seeds", .type = OPTION_INT, .value = &opt.seeds, .lo = 1, .hi = 1e7, .arg = "N",
	 .help = "instances of a graph with placeholders (default 1)", .when = {{USE_INPUT, "a graph"}}},
	{.name = "--seed", .type = OPTION_U64, .value = &opt.seed, .arg = "S", .help = "seed of the first instance (default 0)", OPTION_ALWAYS},
	{.letter = 'n', .type = OPTION_INT, .value = &opt.max, .lo = 1, .hi = 1e15, .arg = "MAX", .help = "most samples in all", OPTION_ALWAYS},
	OPTION_GROUP("Samples"),
	{.name = "--classes", .type = OPTION_FLAG, .value = &opt.classes,
	 .help = "add .cls: the number of the first folder, or graph, in order", OPTION_ALWAYS},
	{.name = "--duplicates", .type = OPTION_FLAG, .value = &opt.duplicates, .help = "keep frames equal to an earlier one",
	 .when = {{USE_INPUT, "a video or a graph"}}},
	{.name = "--dedup", .type = OPTION_CHOICE, .value = &opt.dedup, .arg = "HOW", .choices = dedups,
	 .help = "leave out pictures with the pixels of an earlier one (default none)", OPTION_ALWAYS},
	OPTION_GROUP("Reading"),
	{.name = "--skip-bad", .type = OPTION_FLAG, .value = &opt.skip_bad, .help = "pass over unreadable sources", OPTION_ALWAYS},
	{.name = "--max-errors", .type = OPTION_INT, .value = &opt.max_errors, .lo = 0, .hi = 1e15, .arg = "N",
	 .help = "exit 3 when more were skipped (default: no limit)", .when = {{USE_NEEDS, "--skip-bad"}}},
	{.letter = '0', .type = OPTION_FLAG, .value = &opt.nul_list, .help = "the list on stdin ends paths with NUL",
	 .when = {{USE_NEEDS, "-"}}},
	OPTION_GROUP("Limits"),
	{.name = "--timeout", .type = OPTION_DURATION, .value = &opt.timeout, .arg = "T",
	 .help = "kill a decoder silent for so long (default 60s; 0: never)", OPTION_ALWAYS},
	{.name = "--max-memory", .type = OPTION_SIZE, .value = &opt.memory, .arg = "SIZE",
	 .help = "memory of all pictures at work, address space of a decoder (default 2G; 0: no limit)", OPTION_ALWAYS},
	{.name = "--max-pixels", .type = OPTION_INT, .value = &opt.max_pixels, .lo = 1, .hi = 1e10, .arg = "N",
	 .help = "largest picture or frame (default 67108864)", OPTION_ALWAYS},
	{.name = "--no-sandbox", .type = OPTION_FLAG, .value = &opt.bare,
	 .help = "decoders do not restrict their system calls, as a kernel without seccomp cannot", OPTION_ALWAYS},
	OPTION_GROUP("Output"),
	{.name = "--threads", .type = OPTION_INT, .value = &opt.threads, .lo = 0, .hi = 1024, .arg = "N",
	 .help = "threads (default: all CPUs)", OPTION_ALWAYS},
	{.name = "--quiet", .letter = 'q', .type = OPTION_FLAG, .value = &opt.quiet, .help = "no report on stderr", OPTION_ALWAYS},
	{.letter = 'o', .type = OPTION_TEXT, .value = &opt.out, .arg = "FILE", .help = "output (default: stdout)", OPTION_ALWAYS},
	{0}};

static const struct program program = {
    .name = "ddm-ingest",
    .operands = "SOURCE...",
    .about = "pictures, video and filter graphs to a tar of samples",
    .options = options,
};

static int interrupted(void)
{
	return cmd_signal != 0;
}

static struct work_options work_options(void)
{
	return (struct work_options){.size = opt.size,
				     .resize = resizes[opt.resize],
				     .frames = opt.frames_given ? opt.frames : 0,
				     .graph_frames = opt.frames_given ? opt.frames : 30,
				     .fps = opt.fps,
				     .timeout = opt.timeout,
				     .memory = opt.memory,
				     .max_pixels = opt.max_pixels,
				     .classes = opt.classes,
				     .bare = opt.bare,
				     .stop = interrupted};
}

/* The output, and what is known about it. */
struct sink {
	struct outfile file;
	struct tar_writer tar;
	int64_t samples, duplicates, skipped;
	struct seen frames, pictures;
	int64_t identical;     /* pictures with the pixels of an earlier one */
	struct str identicals; /* the first few, "b = a" */
	struct keyset keys;
	struct class_list classes;
	struct budget budget;
	struct work_options work;
	struct progress show;
};

static int is_full(const struct sink *s)
{
	return opt.max && s->samples >= opt.max;
}

static int item_write(struct sink *s, const struct item *it, struct err *e)
{
	int rc = 0;

	if (keyset_add(&s->keys, it->key))
		return err_set(e, ERR_DATA, "the key \"%s\" appears twice", it->key);
	for (int i = 0; i < it->n && !rc; i++) {
		char *name = str_new("%s.%s", it->key, it->m[i].ext);

		rc = tar_add(&s->tar, name, it->m[i].data, it->m[i].len, e);
		mem_free(name);
	}
	s->samples++;
	return rc;
}

/* A sample of a job, or (NULL) of a tar, unless it is an equal frame or there are enough. */
static int item_take(struct sink *s, const struct job *j, struct item *it, struct err *e)
{
	int is_frame = j && job_many(j);
	const char *earlier;

	if (is_full(s))
		return 0;
	if (is_frame && !opt.duplicates && seen_add(&s->frames, it->hash, "")) {
		s->duplicates++;
		return 0;
	}
	if (!is_frame && it->hash && (earlier = seen_add(&s->pictures, it->hash, it->key))) {
		if (s->identical++ < NAMED)
			str_printf(&s->identicals, "%s%s = %s", s->identicals.len ? ", " : "", it->key, earlier);
		if (opt.dedup)
			return 0;
	}
	if (opt.classes && class_set(&s->classes, j, it, e))
		return -1;
	return item_write(s, it, e);
}

/* Damage is passed over with --skip-bad; a wrong option, an interruption, a full disk never. */
static int job_failed(struct sink *s, const struct err *why, struct err *e)
{
	if (!opt.skip_bad || (why->code != ERR_DATA && why->code != ERR_NOINPUT && why->code != ERR_IO) || interrupted())
		return err_set(e, why->code, "%s", why->msg);
	cmd_warn("skipped: %s", why->msg);
	s->skipped++;
	return 0;
}

/* A job whose samples are written while it runs. */
static int job_stream(struct sink *s, const struct job *j, struct err *e)
{
	struct decoder d = {0};
	struct err why = {0};
	struct item it = {0};
	int rc = work_open(&d, j, &s->work, &why);

	while (!rc && !is_full(s) && (rc = work_next(&d, j, &s->work, &it, &why)) > 0) {
		rc = item_take(s, j, &it, e);
		item_release(&it);
		progress_tell(&s->show, "samples", s->samples, opt.max);
	}
	decoder_close(&d);
	if (e->code)
		return -1;
	return rc < 0 ? job_failed(s, &why, e) : 0;
}

static int job_streams(const struct sink *s, const struct job *j)
{
	return j->graph ? s->work.graph_frames > STREAM_FRAMES : j->kind == MEDIA_VIDEO;
}

struct batch {
	const struct job *jobs;
	struct result *results;
	const struct work_options *work;
	const struct progress *show;
	pthread_t teller; /* the one thread that shows progress */
	int64_t before, total;
	atomic_int done;
};

static void batch_task(void *arg, int64_t task, int worker)
{
	struct batch *b = arg;
	int done;

	(void)worker;
	job_work(&b->results[task], &b->jobs[task], b->work);
	done = atomic_fetch_add(&b->done, 1) + 1;
	if (pthread_equal(pthread_self(), b->teller))
		progress_tell(b->show, "sources", b->before + done, b->total);
}

static int batch_write(struct sink *s, const struct batch *b, int n, struct err *e)
{
	for (int i = 0; i < n; i++) {
		struct result *r = &b->results[i];

		for (int k = 0; k < r->n; k++)
			if (item_take(s, &b->jobs[i], &r->v[k], e))
				return -1;
		if (r->e.code && !is_full(s) && job_failed(s, &r->e, e))
			return -1;
	}
	return 0;
}

static int jobs_run(struct sink *s, const struct job_list *l, struct pool *pool, struct err *e)
{
	struct result results[BATCH];
	int rc = 0;

	for (size_t at = 0; at < l->n && !rc && !is_full(s);) {
		struct batch b = {l->v + at, results, &s->work, &s->show, pthread_self(), (int64_t)at, (int64_t)l->n, 0};
		int n = 0;

		if (interrupted())
			return err_set(e, ERR_AGAIN, "interrupted");
		if (job_streams(s, &l->v[at])) {
			rc = job_stream(s, &l->v[at++], e);
			continue;
		}
		progress_tell(&s->show, "sources", (int64_t)at, (int64_t)l->n);
		for (uint64_t bytes = 0; n < BATCH && at + n < l->n && !job_streams(s, &l->v[at + n]); n++) {
			bytes += l->v[at + n].bytes;
			if (n && s->budget.files && bytes > s->budget.files)
				break;
		}
		memset(results, 0, sizeof results);
		pool_run(pool, n, batch_task, &b);
		rc = batch_write(s, &b, n, e);
		for (int i = 0; i < n; i++)
			result_release(&results[i]);
		at += (size_t)n;
	}
	return rc;
}

/* Samples of tars, in their order. */
struct tar_batch {
	struct item items[BATCH];
	char *origins[BATCH];
	struct err errors[BATCH];
	const struct work_options *work;
	int n;
};

static void tar_task(void *arg, int64_t task, int worker)
{
	struct tar_batch *b = arg;

	(void)worker;
	item_fit(&b->items[task], b->origins[task], b->work, &b->errors[task]);
}

/* Up to BATCH samples: 1 when there may be more, 0 at the end. */
static int tar_read(struct tar_batch *b, struct samples *in, struct err *e)
{
	uint64_t most = b->work->budget->files, bytes = 0;
	struct sample from;
	int rc = 1;

	for (b->n = 0; b->n < BATCH && (!most || bytes < most) && (rc = samples_next(in, &from, e)) > 0; b->n++) {
		struct item *it = &b->items[b->n];

		*it = (struct item){.key = mem_strdup(from.key)};
		b->origins[b->n] = mem_strdup(from.origin);
		b->errors[b->n] = (struct err){0};
		for (int i = 0; i < from.n; bytes += from.member[i++].len)
			item_add(it, from.member[i].ext, from.member[i].data, from.member[i].len);
	}
	return rc;
}

static int tar_write(struct sink *s, struct tar_batch *b, struct err *e)
{
	for (int i = 0; i < b->n && !is_full(s); i++) {
		if (b->errors[i].code ? job_failed(s, &b->errors[i], e) : item_take(s, NULL, &b->items[i], e))
			return -1;
	}
	return 0;
}

static void tell_bad(void *arg, const char *why)
{
	struct sink *s = arg;

	cmd_warn("skipped: %s", why);
	s->skipped++;
}

static void tell_passed(void *arg, const char *what)
{
	(void)arg;
	cmd_warn("%s", what);
}

static int tars_run(struct sink *s, const struct job_list *l, struct pool *pool, struct err *e)
{
	struct samples_options o = {.skip_bad = opt.skip_bad, .max_errors = -1, .bad = tell_bad, .passed = tell_passed, .bad_arg = s};
	struct tar_batch b = {.work = &s->work};
	struct samples *in;
	int rc = 1;

	if (!l->ntars)
		return 0;
	in = samples_open((const char *const *)l->tars, (int)l->ntars, &o, e);
	if (!in)
		return -1;
	while (rc > 0 && !is_full(s) && !interrupted()) {
		rc = tar_read(&b, in, e);
		if (rc >= 0)
			pool_run(pool, b.n, tar_task, &b);
		if (rc >= 0 && tar_write(s, &b, e))
			rc = -1;
		for (int i = 0; i < b.n; i++) {
			item_release(&b.items[i]);
			mem_free(b.origins[i]);
		}
		progress_tell(&s->show, "samples", samples_count(in), samples_expected(in));
	}
	samples_close(in);
	return rc < 0 ? -1 : 0;
}

static void sink_release(struct sink *s)
{
	outfile_abort(&s->file);
	tar_release(&s->tar);
	class_list_release(&s->classes);
	budget_release(&s->budget);
	seen_release(&s->frames);
	seen_release(&s->pictures);
	str_release(&s->identicals);
	keyset_release(&s->keys);
}

static struct stamp *make_stamp(const struct job_list *l, json_t *names)
{
	struct stamp *s = stamp_new(program.name);
	struct str versions = {0};
	json_t *graphs = json_array();
	int media = 0;

	if (opt.size) {
		stamp_i64(s, "size", opt.size);
		stamp_text(s, "resize", resizes[opt.resize]);
	}
	if (opt.fps > 0)
		stamp_f64(s, "fps", opt.fps);
	if (opt.frames_given)
		stamp_i64(s, "frames", opt.frames);
	if (opt.max)
		stamp_i64(s, "max", opt.max);
	if (opt.dedup)
		stamp_text(s, "dedup", dedups[opt.dedup]);
	for (size_t i = 0; i < l->n; i++) {
		media |= l->v[i].graph || l->v[i].kind == MEDIA_VIDEO || l->v[i].kind == MEDIA_PICTURE;
		if (l->v[i].graph && l->v[i].seed == opt.seed)
			json_array_append_new(graphs, json_pack("{s:s, s:s}", "name", l->v[i].name, "graph", l->v[i].graph));
	}
	if (json_array_size(graphs)) {
		stamp_u64(s, "seed", opt.seed);
		stamp_i64(s, "seeds", opt.seeds);
		stamp_json(s, "graphs", json_incref(graphs));
	}
	json_decref(graphs);
	if (names)
		stamp_json(s, "class_names", names);
	if (media) {
		media_versions(&versions);
		stamp_text(s, "media", str_text(&versions));
	}
	str_release(&versions);
	return s;
}

static int ingest(struct sink *s, const struct job_list *l, struct pool *pool, struct err *e)
{
	json_t *names;
	struct stamp *stamp;
	char *line;
	int rc;

	if (claim_take(&opt.out, 1, e) || classes_find(&s->classes, l, opt.classes, &names, e))
		return -1;
	stamp = make_stamp(l, names);
	line = stamp_line(stamp);
	rc = standing_check(opt.out, stamp, 0, e) || outfile_open(&s->file, opt.out, e) ? -1 : 0;
	s->file.keep = 1; /* the stamp does not tell the sources */
	if (!rc)
		rc = tar_start(&s->tar, &s->file, line, e);
	mem_free(line);
	stamp_free(stamp);
	s->show = opt.quiet ? (struct progress){0} : cmd_progress();
	s->work = work_options();
	s->work.budget = &s->budget;
	if (!rc)
		rc = jobs_run(s, l, pool, e);
	if (!rc && !is_full(s))
		rc = tars_run(s, l, pool, e);
	if (!rc && interrupted())
		rc = err_set(e, ERR_AGAIN, "interrupted");
	if (!rc && !s->samples)
		rc = err_set(e, ERR_DATA, "no samples: %zu sources, %lld skipped, %zu other files passed over", l->n + l->ntars,
			     (long long)s->skipped, l->passed_over);
	if (!rc)
		rc = tar_finish(&s->tar, e);
	if (!rc)
		rc = outfile_commit(&s->file, e);
	return rc;
}

static void summary(const struct sink *s, const struct job_list *l)
{
	struct str line = {0};

	str_printf(&line, "%lld samples", (long long)s->samples);
	if (s->duplicates)
		str_printf(&line, ", %lld equal frames dropped", (long long)s->duplicates);
	if (s->identical)
		str_printf(&line, ", %lld pictures with the pixels of an earlier one %s (%s%s)", (long long)s->identical,
			   opt.dedup ? "left out" : "kept", str_text(&s->identicals), s->identical > NAMED ? ", ..." : "");
	if (s->skipped)
		str_printf(&line, ", %lld unreadable sources skipped", (long long)s->skipped);
	if (l->passed_over)
		str_printf(&line, ", %zu other files passed over", l->passed_over);
	cmd_say("%s: %s", program.name, str_text(&line));
	str_release(&line);
}

/* Whether such an option does something is told by the sources: it is not ignored in silence. */
static void tell_idle(const struct job_list *l)
{
	int graphs = 0, frames = 0;

	for (size_t i = 0; i < l->n; i++) {
		graphs |= l->v[i].graph != NULL;
		frames |= l->v[i].graph || l->v[i].kind == MEDIA_VIDEO;
	}
	if (opt.fps > 0 && !frames)
		cmd_warn("--fps does nothing: no source is a video or a graph");
	if (opt.frames_given && !frames)
		cmd_warn("--frames does nothing: no source is a video or a graph");
	if (opt.duplicates && !frames)
		cmd_warn("--duplicates does nothing: no source is a video or a graph");
	if (opt.seeds > 1 && !graphs)
		cmd_warn("--seeds does nothing: no source is a graph");
}

int main(int argc, char **argv)
{
	struct err e = {0};
	struct job_list jobs = {0};
	struct sink s = {0};
	struct pool *pool;
	struct job_options jo;
	int n;

	if (argc > 1 && (!strcmp(argv[1], INGEST_SERVE) || !strcmp(argv[1], INGEST_BARE)))
		return ingest_serve(argc, argv);
	n = cmd_start(&program, argc, argv, 1, -1);
	jo = (struct job_options){opt.nul_list, opt.skip_bad, opt.seed, opt.seeds, work_options().graph_frames};
	if (opt.seed > (uint64_t)1 << 53)
		err_set(&e, ERR_USAGE, "--seed is at most 2^53");
	if (!e.code)
		cmd_binary(opt.out, "-o FILE.tar or a pipe", &e);
	cmd_catch_signals();
	budget_init(&s.budget, opt.memory);
	pool = e.code ? NULL : pool_new((int)opt.threads, &e);
	if (pool && !job_list_fill(&jobs, argv + 1, n, &jo, &e)) {
		tell_idle(&jobs);
		ingest(&s, &jobs, pool, &e);
	}
	if (!e.code && s.samples) {
		if (jobs.hidden)
			cmd_warn("passed over: %s%s", str_text(&jobs.hidden_first), jobs.hidden > 3 ? " and more" : "");
		if (!opt.quiet)
			summary(&s, &jobs);
		if (opt.max_errors >= 0 && s.skipped > opt.max_errors)
			err_set(&e, ERR_SKIPPED, "%lld sources were skipped, more than --max-errors %lld", (long long)s.skipped,
				(long long)opt.max_errors);
	}
	sink_release(&s);
	job_list_release(&jobs);
	pool_free(pool);
	return cmd_end_over(&e);
}
