/* Runs an encoding request: opens the encoders, checks an existing output, encodes. */
#include "metric/encodejob.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "core/hook.h"
#include "core/mem.h"
#include "core/str.h"
#include "core/version.h"
#include "file/claim.h"
#include "file/standing.h"
#include "metric/encodejobimpl.h"

/* Format a line and pass it to hooks.say. */
__attribute__((format(printf, 2, 3))) static void say(const struct encodejob *w, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	hook_vline(w->hooks.say, w->hooks.arg, fmt, ap);
	va_end(ap);
}

static void tell_bad(void *arg, const char *why)
{
	const struct encodejob *w = arg;
	char *line = w->hooks.warn ? str_new("skipped: %s", why) : NULL;

	if (line)
		w->hooks.warn(w->hooks.arg, line);
	mem_free(line);
}

static struct samples *open_samples(struct encodejob *w, int silent, struct err *e)
{
	struct samples_options so = {.skip_bad = w->o.skip_bad,
	                             .max_errors = w->o.max_errors,
	                             .nul_list = w->o.nul,
	                             .captions = w->o.captions,
	                             .once = 1,
	                             .spool = w->o.spool,
	                             .bad = silent ? NULL : tell_bad,
	                             .bad_arg = w};

	return samples_open(w->o.source, w->o.sources, &so, e);
}

/* Compute the digest and the number of the samples in a pass over the sources, unless one of them can be read only once. */
static int scan(struct encodejob *w, struct err *e)
{
	struct samples *s;
	struct sample x;
	int rc = -1;

	for (int i = 0; i < w->o.sources; i++)
		if (samples_is_stream(w->o.source[i]))
			return 0;
	s = open_samples(w, 1, e);
	while (s && (rc = samples_next(s, &x, e)) > 0)
		if (progress_tell(&w->hooks.progress, "samples read", samples_count(s), samples_expected(s)))
			rc = err_set(e, ERR_AGAIN, "interrupted");
	if (s && !rc) {
		samples_digest(s, w->digest);
		w->total = samples_count(s);
	}
	samples_close(s);
	return rc;
}

static struct stamp *make_stamp(const struct encodejob *w)
{
	struct stamp *s = stamp_new("ddm-encode");

	if (w->encoding) {
		if (w->o.encoding.decode)
			stamp_json(s, "decode", json_true());
		encoding_stamp(w->encoding, s);
	} else {
		stamp_text(s, "features", w->extractor->name);
		stamp_text(s, "input", w->extractor->input);
		stamp_input(s, "features", w->extractor->hash);
	}
	if (*w->digest)
		stamp_input(s, "samples", w->digest);
	return s;
}

/* 1 if the output of the same samples exists already. */
static int is_there(const struct encodejob *w, const struct stamp *s, struct err *e)
{
	/* The stamp of features gets keys when they are written, and that of a tar too if the samples could not be read before. */
	if (standing_check(w->o.out, s, !w->encoding || !*w->digest, e))
		return -1;
	if (!*w->digest || !standing_is_file(w->o.out))
		return 0;
	partial_tidy(w->o.out);
	return 1;
}

int encodejob_open_output(struct encodejob *w, const struct stamp *stamp, int64_t from, struct err *e)
{
	char *line = stamp_line(stamp), *same = str_new("%s %s %lld", line, w->device->name, w->device->host ? 0LL : (long long)w->o.encoding.batch);
	int rc = partial_open(&w->partial, w->o.out, *w->digest ? same : NULL, from, e);

	if (rc > 0)
		say(w, "continuing after %lld samples", (long long)w->partial.mark[1]);
	mem_free(line);
	mem_free(same);
	return rc;
}

void encodejob_close_output(struct encodejob *w, const struct err *e)
{
	int keep = e->code == ERR_AGAIN || e->code == ERR_UNAVAILABLE;

	if (keep && partial_is_kept(&w->partial))
		say(w, "%lld samples are saved: run the same command again to continue", (long long)w->partial.mark[1]);
	partial_close(&w->partial, keep);
}

static void say_idle(const struct encodejob *w)
{
	const struct encoding_options *o = &w->o.encoding;
	const char *idle = encoding_idle(o);

	if (w->extractor && w->extractor->all_floats)
		idle = o->bulk ? "--weight-dtype" : o->map ? "--map" : NULL;
	if (idle)
		say(w, "%s does nothing: %s consists of convolutions, which the CPU holds as f32", idle, w->o.model);
}

int encodejob_waits(void *arg, struct err *e)
{
	struct encodejob *w = arg;

	return progress_tell(&w->hooks.progress, w->encoding ? "samples" : "pictures", w->done, w->total) ? err_set(e, ERR_AGAIN, "interrupted") : 0;
}

/* Stay in touch with the other ranks, and stop if the user wants it. */
static int tell(void *arg)
{
	struct encodejob *w = arg;

	return (w->farm && farm_attend(w->farm)) || encodejob_waits(w, &(struct err){0});
}

static int open_model(struct encodejob *w, struct err *e)
{
	struct encoding_options *o = &w->o.encoding;

	o->vae = w->model.vae;
	o->text = w->model.text;
	o->device = w->device;
	o->pool = w->device->pool;
	o->tell = tell;
	o->tell_arg = w;
	if (!w->model.vision)
		w->encoding = encoding_open(o, e);
	else
		w->extractor =
		    extractor_open(w->model.vision, &(struct extractor_options){w->o.input, w->device, compact_mapped(o->bulk, o->map)}, e);
	if (!w->encoding && !w->extractor)
		return -1;
	say_idle(w);
	return 0;
}

static int encode(struct encodejob *w, struct stamp *stamp, struct encode_report *report, struct err *e)
{
	struct samples *s = open_samples(w, 0, e);
	int rc = -1;

	if (s && !(w->encoding ? encodetar_write(w, stamp, s, e) : encodefeatures_write(w, stamp, s, e))) {
		*report = (struct encode_report){1, w->done, samples_skipped(s), w->encoding ? encoding_cut(w->encoding) : 0};
		rc = samples_check(s, e);
	}
	if (w->encoding)
		encoding_begin(w->encoding, NULL);
	samples_close(s);
	return rc;
}

/* What the ranks must agree on. */
static int agree(struct encodejob *w, int rc, struct err *e)
{
	struct stamp *s;
	char *line;

	if (!w->o.comm)
		return rc;
	if (comm_agree(w->o.comm, rc, e))
		return -1;
	s = make_stamp(w);
	stamp_i64(s, "batch", w->o.encoding.batch);
	line = stamp_line(s);
	rc = comm_agree_stamp(w->o.comm, DDM_VERSION "\n" DDM_BUILD, line, stamp_line_differs, e);
	mem_free(line);
	stamp_free(s);
	if (rc)
		return -1;
	if (w->encoding)
		encodetar_join(w);
	else
		encodefeatures_join(w);
	w->farm = farm_new(w->o.comm, &w->work);
	return 0;
}

/* On rank 0. */
static int run(struct encodejob *w, struct encode_report *report, struct err *e)
{
	struct stamp *stamp;
	int there, rc = -1;

	if ((w->encoding && encodetar_null_text(w, e)) || scan(w, e))
		return -1;
	stamp = make_stamp(w);
	there = is_there(w, stamp, e);
	if (there > 0)
		say(w, "%s: exists already", w->o.out);
	if (there >= 0)
		rc = there ? 0 : encode(w, stamp, report, e);
	stamp_free(stamp);
	return rc;
}

int encodejob_run(struct encodejob *w, struct device *device, struct encode_report *report, struct err *e)
{
	int rc;

	*report = (struct encode_report){0};
	w->device = device;
	if (agree(w, open_model(w, e), e))
		return -1;
	rc = comm_rank(w->o.comm) ? farm_serve(w->farm, e) : run(w, report, e);
	farm_stop(w->farm);
	return rc;
}

static int claim_outputs(const struct encodejob *w, struct err *e)
{
	return claim_take((const char *const[]){w->o.out, w->o.null_text, w->o.null_pooled, w->o.keys}, 4, e) ||
	               (w->o.keys && standing_view(w->o.keys, "ddm-encode", NULL, e))
	           ? -1
	           : 0;
}

struct encodejob *encodejob_new(const struct encode_request *q, const struct encode_hooks *hooks, struct err *e)
{
	struct encodejob *w = mem_zalloc(1, sizeof *w);

	w->o = *q;
	w->hooks = hooks ? *hooks : (struct encode_hooks){0};
	if (encodemodel_recognise(w, e) || encodemodel_check(w, e) || (!comm_rank(w->o.comm) && claim_outputs(w, e))) {
		encodejob_free(w);
		return NULL;
	}
	return w;
}

int encodejob_makes_features(const struct encodejob *w)
{
	return w->model.vision != NULL;
}

void encodejob_free(struct encodejob *w)
{
	if (!w)
		return;
	if (!comm_rank(w->o.comm))
		claim_drop((const char *const[]){w->o.out, w->o.null_text, w->o.null_pooled, w->o.keys}, 4);
	farm_free(w->farm);
	encoding_free(w->encoding);
	extractor_free(w->extractor);
	mem_free(w->model.vae);
	mem_free(w->model.text);
	mem_free(w->model.vision);
	mem_free(w);
}
