/* Runs the jobs of ddm-ingest: decodes sources in batches or frame by frame, and writes their samples to the tar in order. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/ingest_run.h"
#include "cmd/ingest_scorers.h"
#include "cmd/ingest_sound.h"
#include "core/mem.h"
#include "core/str.h"
#include "data/keyset.h"
#include "data/samples.h"
#include "file/claim.h"
#include "file/standing.h"
#include "file/tarfile.h"
#include "file/weightfile.h"

#define BATCH 32                         /* jobs, or samples of tars, decoded at a time */
#define VIDEO_LEAST ((uint64_t)64 << 20) /* bytes that a decoder of frames must have beside one of sound */
#define STREAM_FRAMES 1000               /* graphs with more frames per instance are written frame by frame (job_stream) */
#define ROOM ((uint64_t)1 << 30)         /* bytes of a batch without --max-memory */

static int interrupted(void)
{
	return cmd_signal != 0;
}

/* The output file and the state of the run. */
struct sink {
	const struct ingest_request *r;
	struct ingest_report *report;
	struct outfile file;
	struct tar_writer tar;
	struct seen frames, pictures; /* for duplicates of frames; of pictures */
	struct keyset keys;
	struct class_list classes;
	struct budget budget;
	struct work_options work;
	struct pool *pool;
	struct pool *net_pool; /* of its own: TransNet V2 runs while `pool` makes the clip before */
	struct device *device;
	struct ingest_nets nets;
	struct progress show;
	int64_t sources_done, sources; /* for progress */
	int beside;                    /* 1: short videos are decoded side by side */
	double growth;                 /* bytes of samples that come of a byte of video: a guess, then the most so far */
};

static int is_full(const struct sink *s)
{
	return s->r->max && s->report->samples >= s->r->max;
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
	s->report->samples++;
	return rc;
}

/* Write a sample of a job (j NULL: of a tar), unless -n samples are written or it is a duplicate that is to be dropped. */
static int item_take(struct sink *s, const struct job *j, struct item *it, struct err *e)
{
	int is_frame = j && job_many(j);
	const char *earlier;

	if (is_full(s))
		return 0;
	if (is_frame && !s->r->duplicates && seen_add(&s->frames, it->hash, "")) {
		s->report->duplicates++;
		return 0;
	}
	if (!is_frame && it->hash && (earlier = seen_add(&s->pictures, it->hash, it->key))) {
		struct str *named = &s->report->identicals;

		if (s->report->identical++ < INGEST_NAMED)
			str_printf(named, "%s%s = %s", named->len ? ", " : "", it->key, earlier);
		if (s->r->dedup)
			return 0;
	}
	if (s->r->classes && class_set(&s->classes, j, it, e))
		return -1;
	return item_write(s, it, e);
}

/* Handle a source that failed because of `why`. With --skip-bad, a damaged or unreadable source is reported and skipped: 0. Any other failure ends
 * the run: -1. */
static int job_failed(struct sink *s, const struct err *why, struct err *e)
{
	if (!s->r->skip_bad || (why->code != ERR_DATA && why->code != ERR_NOINPUT && why->code != ERR_IO) || interrupted())
		return err_set(e, why->code, "%s", why->msg);
	cmd_warn("skipped: %s", why->msg);
	s->report->skipped++;
	return 0;
}

/* Show progress: in samples with -n, else in sources if there are several, else in frames of the only source. */
static void tell_frame(const struct sink *s, const struct job *j, int64_t frames)
{
	if (s->r->max)
		progress_tell(&s->show, "samples", s->report->samples, s->r->max);
	else if (s->sources > 1)
		progress_tell(&s->show, "sources", s->sources_done, s->sources);
	else
		progress_tell(&s->show, s->work.clip.frames ? "clips" : "frames", frames,
		              s->work.clip.frames ? 0
		              : j->graph          ? j->count * s->work.graph_frames
		                                  : s->work.frames);
}

/* Count what became of the shots of a source, and name it if not even one clip came of it. */
static void tally_take(struct sink *s, const struct job *j, const struct clip_tally *t, int failed)
{
	struct clip_tally *all = &s->report->shots;

	all->clips += t->clips;
	all->cuts += t->cuts;
	all->rests += t->rests;
	all->rest_frames += t->rest_frames;
	all->repeated += t->repeated;
	all->silent += t->silent;
	if (t->clips || failed || is_full(s))
		return;
	s->report->without++;
	cmd_warn("no clip: %s: its longest shot has %lld of the %lld frames of a clip at %g a second", j->graph ? j->name : j->path,
	         (long long)t->longest, (long long)s->work.clip.frames, s->work.fps);
}

static void say_silent(const struct job *j, const char *why)
{
	cmd_warn("no sound: %s: %s", j->path, why);
}

/* Run a job and write each of its samples as soon as it is made. */
static int job_stream(struct sink *s, const struct job *j, struct err *e)
{
	struct work_options alone = s->work;
	struct work w;
	struct err why = {0};
	struct item it = {0};
	int64_t frames = 0;
	int rc;

	alone.alone = 1;
	alone.pool = s->pool;
	rc = work_open(&w, j, &alone, &why);
	while (!rc && !is_full(s) && (rc = work_next(&w, &it, &why)) > 0) {
		rc = item_take(s, j, &it, e);
		item_release(&it);
		tell_frame(s, j, ++frames);
	}
	if (w.clips)
		tally_take(s, j, clipper_tally(w.clips), why.code);
	if (w.clips && clipper_note(w.clips))
		say_silent(j, clipper_note(w.clips));
	work_close(&w);
	if (e->code)
		return -1;
	return rc < 0 ? job_failed(s, &why, e) : 0;
}

/* Bytes that a job's samples may take while they wait to be written; for pictures those of the file, which are read ahead. */
static uint64_t job_room(const struct sink *s, const struct job *j)
{
	return !j->graph && j->kind == MEDIA_VIDEO ? (uint64_t)((double)j->bytes * s->growth) : j->bytes;
}

/* Most bytes of a batch: of files that are read ahead, and of samples that wait to be written. */
static uint64_t room_of(const struct sink *s)
{
	return s->budget.files ? s->budget.files : ROOM;
}

static int job_streams(const struct sink *s, const struct job *j)
{
	if (j->graph)
		return s->work.graph_frames > STREAM_FRAMES;
	return j->kind == MEDIA_VIDEO && (!s->beside || job_room(s, j) > room_of(s) / (uint64_t)pool_threads(s->pool));
}

/* Videos are decoded side by side if all of them are wanted, and what runs beside a decoder serves several at once. */
static int beside(const struct sink *s, const struct job_list *l)
{
	const struct clip_options *o = &s->work.clip;
	uint64_t sound = o->sound.rate ? sound_memory(&o->sound, o->frames, s->work.fps) : 0;

	return l->n > 1 && pool_threads(s->pool) > 1 && !s->r->max && !*s->nets.transnet &&
	       (!sound || !s->budget.total || sound + VIDEO_LEAST <= budget_process(s->budget.share));
}

/* Learn how large the samples of videos are. */
static void growth_learn(struct sink *s, const struct job *jobs, const struct result *results, int n)
{
	for (int k = 0; k < n; k++) {
		uint64_t bytes = 0;

		if (jobs[k].graph || jobs[k].kind != MEDIA_VIDEO || !jobs[k].bytes)
			continue;
		for (int i = 0; i < results[k].n; i++)
			for (int m = 0; m < results[k].v[i].n; m++)
				bytes += results[k].v[i].m[m].len;
		if (results[k].unkept)
			bytes = 2 * job_room(s, &jobs[k]);
		s->growth = fmax(s->growth, (double)bytes / (double)jobs[k].bytes);
	}
}

/* Jobs that run in parallel. Their samples are written after the last has ended. */
struct batch {
	const struct job *jobs;
	struct result *results;
	const struct work_options *work;
	const struct progress *show;
	pthread_t teller;      /* the one thread that shows progress */
	int64_t before, total; /* sources done before the batch; sources in all */
	atomic_int done;       /* jobs of the batch that have ended */
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

static int result_write(struct sink *s, const struct job *j, struct result *r, struct err *e)
{
	for (int k = 0; k < r->n; k++)
		if (item_take(s, j, &r->v[k], e))
			return -1;
	if (s->work.clip.frames && job_many(j))
		tally_take(s, j, &r->tally, r->e.code);
	if (r->note)
		say_silent(j, r->note);
	return r->e.code && !is_full(s) ? job_failed(s, &r->e, e) : 0;
}

/* Run a job again, now alone, because its waiting frames did not fit into the budget. */
static int job_again(struct sink *s, const struct job *j, struct err *e)
{
	struct work_options alone = s->work;
	struct result r = {0};
	int rc;

	if (job_many(j))
		return job_stream(s, j, e);
	alone.alone = 1;
	job_work(&r, j, &alone);
	rc = result_write(s, j, &r, e);
	result_release(&r);
	return rc;
}

static int batch_write(struct sink *s, const struct batch *b, int n, struct err *e)
{
	for (int i = 0; i < n && !is_full(s); i++)
		if (b->results[i].unkept ? job_again(s, &b->jobs[i], e) : result_write(s, &b->jobs[i], &b->results[i], e))
			return -1;
	return 0;
}

/* Most pictures in a batch: with --size, as many PNGs of that size, without compression, as fit into the budget for waiting frames. */
static int batch_most(const struct work_options *o)
{
	uint64_t png = 3 * fitted_pixels(o), most = o->budget->files && png ? o->budget->files / png : BATCH;

	return most < 1 ? 1 : most < BATCH ? (int)most : BATCH;
}

static int jobs_run(struct sink *s, const struct job_list *l, struct pool *pool, struct err *e)
{
	struct result results[BATCH];
	int rc = 0, most = batch_most(&s->work);

	s->beside = beside(s, l);
	s->growth = 16;
	for (size_t at = 0; at < l->n && !rc && !is_full(s);) {
		struct batch b = {l->v + at, results, &s->work, &s->show, pthread_self(), (int64_t)at, (int64_t)l->n, 0};
		int n = 0;

		s->sources_done = (int64_t)at;
		s->sources = (int64_t)l->n;
		if (interrupted())
			return err_set(e, ERR_AGAIN, "interrupted");
		if (job_streams(s, &l->v[at])) {
			rc = job_stream(s, &l->v[at++], e);
			continue;
		}
		progress_tell(&s->show, "sources", (int64_t)at, (int64_t)l->n);
		for (uint64_t bytes = 0; n < most && at + n < l->n && !job_streams(s, &l->v[at + n]); n++) {
			bytes += job_room(s, &l->v[at + n]);
			if (n && bytes > room_of(s))
				break;
		}
		memset(results, 0, sizeof results);
		pool_run(pool, n, batch_task, &b);
		growth_learn(s, b.jobs, results, n);
		rc = batch_write(s, &b, n, e);
		budget_written(&s->budget);
		for (int i = 0; i < n; i++)
			result_release(&results[i]);
		at += (size_t)n;
	}
	return rc;
}

/* Samples of tars and idx files that are checked and resized in parallel. */
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

/* Read up to BATCH samples: 1 if there may be more, 0 at the end, -1 on error. */
static int tar_read(struct tar_batch *b, struct samples *in, struct err *e)
{
	uint64_t most = b->work->budget->files, bytes = 0;
	struct sample from;
	int rc = 1, n = batch_most(b->work);

	for (b->n = 0; b->n < n && (!most || bytes < most) && (rc = samples_next(in, &from, e)) > 0; b->n++) {
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
	s->report->skipped++;
}

/* Reports entries of tars that are not files. */
static void tell_passed(void *arg, const char *what)
{
	(void)arg;
	cmd_warn("%s", what);
}

static int tars_run(struct sink *s, const struct job_list *l, struct pool *pool, struct err *e)
{
	struct samples_options o = {.skip_bad = s->r->skip_bad, .max_errors = -1, .bad = tell_bad, .passed = tell_passed, .bad_arg = s};
	struct tar_batch b = {.work = &s->work};
	const char **paths = mem_zalloc(l->ntars + l->nidx, sizeof *paths);
	struct samples *in;
	int rc = 1;

	for (size_t i = 0; i < l->ntars + l->nidx; i++)
		paths[i] = i < l->ntars ? l->tars[i] : l->idx[i - l->ntars];
	in = l->ntars + l->nidx ? samples_open(paths, (int)(l->ntars + l->nidx), &o, e) : NULL;
	mem_free(paths);
	if (!in && !e->code)
		return 0;
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

/* Open the networks, before any decoder starts. */
static int nets_open(struct sink *s, struct err *e)
{
	const struct ingest_request *r = s->r;

	if (r->clips && r->scene.detector == SCENES_TRANSNET) {
		if (weightfile_hash_at(r->transnet, s->nets.transnet, e) || !(s->net_pool = pool_new((int)r->threads, e)))
			return -1;
		s->device = device_cpu(s->net_pool, DT_F32);
		s->work.clip.net = transnet_open(r->transnet, s->device, e);
		if (!s->work.clip.net)
			return -1;
	}
	if (r->text || r->aesthetic)
		s->work.nets = scorers_open(r, &s->nets, e);
	return (r->text || r->aesthetic) && !s->work.nets ? -1 : 0;
}

static void sink_release(struct sink *s)
{
	transnet_free(s->work.clip.net);
	device_free(s->device);
	pool_free(s->net_pool);
	scorers_free(s->work.nets);
	outfile_abort(&s->file);
	tar_release(&s->tar);
	class_list_release(&s->classes);
	budget_release(&s->budget);
	seen_release(&s->frames);
	seen_release(&s->pictures);
	keyset_release(&s->keys);
}

/* Claim the output, number the classes, and open the tar up to its stamp. An existing output must have the same stamp. */
static int sink_open(struct sink *s, const struct job_list *l, struct err *e)
{
	const char *out = s->r->out;
	json_t *names;
	struct stamp *stamp;
	char *line;
	int rc;

	if (nets_open(s, e) || claim_take(&out, 1, e) || classes_find(&s->classes, l, s->r->classes, &names, e))
		return -1;
	stamp = ingest_stamp(s->r, &s->nets, l, names, e);
	if (!stamp)
		return -1;
	line = stamp_line(stamp);
	rc = standing_check(out, stamp, 0, e) || outfile_open(&s->file, out, e) ? -1 : 0;
	s->file.keep = 1; /* the stamp does not record the sources, so a file with other content must not be replaced */
	if (!rc)
		rc = tar_start(&s->tar, &s->file, line, e);
	mem_free(line);
	stamp_free(stamp);
	return rc;
}

static int sink_commit(struct sink *s, const struct job_list *l, struct err *e)
{
	if (interrupted())
		return err_set(e, ERR_AGAIN, "interrupted");
	/* A job of several may have no source. Its tar is empty, so that the others need not wait for one more. */
	if (!s->report->samples && (!s->r->share.count || l->n + l->ntars + l->nidx))
		return err_set(e, ERR_DATA, "no samples: %zu sources, %lld skipped, %zu other files passed over", l->n + l->ntars + l->nidx,
		               (long long)s->report->skipped, l->passed_over);
	return tar_finish(&s->tar, e) || outfile_commit(&s->file, e) ? -1 : 0;
}

/* Whether the decoder of sound leaves enough memory to that of frames. */
static int sound_fits(const struct sink *s, struct err *e)
{
	const struct clip_options *o = &s->work.clip;
	uint64_t need = o->sound.rate ? sound_memory(&o->sound, o->frames, s->work.fps) : 0;

	if (!need || !s->budget.total || need + VIDEO_LEAST <= budget_process(s->budget.total))
		return 0;
	return err_set(e, ERR_USAGE, "--sound takes %llu MiB for clips of this length; --max-memory must be at least %llu MiB",
	               (unsigned long long)(need >> 20), (unsigned long long)((need + VIDEO_LEAST) >> 19) + 1);
}

int ingest_run(const struct ingest_request *r, struct job_list *l, struct pool *pool, struct ingest_report *report, struct err *e)
{
	struct sink s = {.r = r, .report = report, .work = ingest_work(r), .pool = pool};
	int rc;

	budget_init(&s.budget, r->memory, pool_threads(pool));
	if (sound_fits(&s, e)) {
		budget_release(&s.budget);
		return -1;
	}
	s.work.budget = &s.budget;
	s.work.stop = interrupted;
	if (!r->quiet)
		s.show = cmd_progress();
	rc = sink_open(&s, l, e); /* numbers the classes of all jobs */
	job_list_share(l, &r->share);
	if (!rc)
		rc = jobs_run(&s, l, pool, e);
	if (!rc && !is_full(&s))
		rc = tars_run(&s, l, pool, e);
	if (!rc)
		rc = sink_commit(&s, l, e);
	sink_release(&s);
	return rc;
}
