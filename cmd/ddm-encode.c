/* ddm-encode: what pretrained encoders make of samples: latents and texts beside them, or a table of features; and latents back. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/cmd.h"
#include "cmd/opendevice.h"
#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/str.h"
#include "data/encoding.h"
#include "data/lookahead.h"
#include "data/textencoder.h"
#include "file/claim.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/npy.h"
#include "file/partial.h"
#include "file/standing.h"
#include "file/tarfile.h"
#include "metric/extractor.h"
#include "net/taesd.h"

enum { AS_AUTO, AS_VAE, AS_TEXT, AS_VISION };
static const char *const as_names[] = {"auto", "vae", "text", "vision", NULL};
static const char *const dtype_names[] = {"f16", "f32", NULL};

static struct {
	const char *model, *device, *null_text, *keys, *out;
	int as, decode, captions, posterior, wide, flip, drop, input, weights, skip_bad, nul, quiet;
	int64_t size, tokens, batch, threads, max_errors;
	uint64_t seed;
	int for_latents[5], for_tar; /* seen: --size --posterior --seed --no-pictures --flip; --dtype */
} o = {.device = "auto", .input = -1, .out = "-", .max_errors = -1};

static const struct opt options[] = {
    OPT_GROUP("Encoder"),
    {.name = "--model", .letter = 'm', .type = OPT_TEXT, .value = &o.model, .arg = "DIR",
     .help = "autoencoder, text encoder, DINOv2 or CLIP, or a model with vae/ and text_encoder/"},
    {.name = "--as", .type = OPT_CHOICE, .value = &o.as, .arg = "WHAT", .choices = as_names,
     .help = "which part of what the folder holds to take (default auto)"},
    {.name = "--decode", .letter = 'd', .type = OPT_FLAG, .value = &o.decode, .help = "turn latents into pictures, by the autoencoder"},
    {.name = "--captions", .type = OPT_FLAG, .value = &o.captions,
     .help = "captions need no pictures: texts too are SAMPLES, one caption a line"},
    OPT_GROUP("Latents"),
    {.name = "--size", .type = OPT_INT, .value = &o.size, .lo = 1, .hi = 16384, .arg = "N", .given = &o.for_latents[0],
     .help = "encode the centre square, resized to N x N (default: pictures as they are)"},
    {.name = "--posterior", .type = OPT_CHOICE, .value = &o.posterior, .arg = "WHAT", .choices = encoding_posteriors,
     .given = &o.for_latents[1], .help = "mean and deviation of a latent, the mean alone, or one draw (default std)"},
    {.name = "--seed", .type = OPT_U64, .value = &o.seed, .arg = "S", .given = &o.for_latents[2], .help = "of that draw (default 0)"},
    {.name = "--flip", .type = OPT_FLAG, .value = &o.flip, .given = &o.for_latents[4], .help = "encode every picture mirrored, too"},
    {.name = "--no-pictures", .type = OPT_FLAG, .value = &o.drop, .given = &o.for_latents[3],
     .help = "leave out the pictures that became latents"},
    OPT_GROUP("Texts and features"),
    {.name = "--tokens", .type = OPT_INT, .value = &o.tokens, .lo = 1, .hi = 16384, .arg = "N",
     .help = "longest text of T5 in tokens (default 120)"},
    {.name = "--null-text", .type = OPT_TEXT, .value = &o.null_text, .arg = "FILE", .help = "write the features of the empty text as .npy"},
    {.name = "--dtype", .type = OPT_CHOICE, .value = &o.wide, .arg = "TYPE", .choices = dtype_names, .given = &o.for_tar,
     .help = "of latents and texts (default f16)"},
    {.name = "--input", .type = OPT_CHOICE, .value = &o.input, .arg = "NAME", .choices = netinput_names,
     .help = "how pictures are fed to DINOv2, CLIP or Inception (default: as is usual for it)"},
    {.name = "--keys", .type = OPT_TEXT, .value = &o.keys, .arg = "FILE", .help = "write the keys of the rows of features, one a line"},
    OPT_GROUP("Machine"),
    {.name = "--batch", .type = OPT_INT, .value = &o.batch, .lo = 1, .hi = 64, .arg = "N",
     .help = "pictures or texts at a time (default 4 and 16); no result depends on it"},
    {.name = "--weight-dtype", .type = OPT_CHOICE, .value = &o.weights, .arg = "TYPE", .choices = encoder_weights,
     .help = "how the encoders' matrices are held and multiplied (default f32)"},
    {.name = "--device", .type = OPT_TEXT, .value = &o.device, .arg = "NAME", .help = "auto, cpu, cuda or cuda:N (default auto)"},
    OPT_GROUP("Reading and output"),
    {.name = "--skip-bad", .type = OPT_FLAG, .value = &o.skip_bad, .help = "pass over samples that cannot be used, naming them"},
    {.name = "--max-errors", .type = OPT_INT, .value = &o.max_errors, .lo = 0, .hi = 1e15, .arg = "N",
     .help = "exit 3 when more were skipped"},
    {.name = "--null", .letter = '0', .type = OPT_FLAG, .value = &o.nul, .help = "paths on stdin end with NUL, not newline"},
    {.name = "--threads", .type = OPT_INT, .value = &o.threads, .lo = 1, .hi = 4096, .arg = "N",
     .help = "threads (default: what the machine has)"},
    {.name = "--quiet", .letter = 'q', .type = OPT_FLAG, .value = &o.quiet, .help = "no report on stderr"},
    {.name = "--output", .letter = 'o', .type = OPT_TEXT, .value = &o.out, .arg = "FILE",
     .help = "tar of samples, or .npy of features (default: the tar to stdout)"},
    {0},
};

static const struct program program = {
    "ddm-encode",
    "-m DIR [--as WHAT] [-d] [--captions] [--size N] [--posterior WHAT] [--seed S] [--flip] [--no-pictures] [--tokens N] "
    "[--null-text FILE] [--dtype TYPE] "
    "[--input NAME] [--keys FILE] [--batch N] [--weight-dtype TYPE] [--device NAME] [--skip-bad] [--max-errors N] [-0] [--threads N] "
    "[-q] [-o FILE] SAMPLES...",
    "runs pretrained encoders on samples: latents, features of captions, features of pictures",
    options,
};

/* What the model turned out to be: paths, NULL where there is no such part. vision is an extractor's. */
struct parts {
	char *vae, *text, *vision;
};

struct work {
	struct parts parts;
	struct pool *pool;
	struct device *device;
	struct encoding *encoding;
	struct extractor *extractor;
	struct progress progress;
	struct partial partial; /* the output */
	char **source;
	int sources;
	char digest[65]; /* of the samples; empty where they can be read once only */
	int64_t done, skipped, total; /* total: of the pass before, or 0 */
};

static void say_bad(void *arg, const char *why)
{
	(void)arg;
	cmd_warn("skipped: %s", why);
}

static struct samples *open_samples(const struct work *w, int silent, struct err *e)
{
	struct samples_options so = {.skip_bad = o.skip_bad, .max_errors = o.max_errors, .nul_list = o.nul, .captions = o.captions, .once = 1,
	                             .spool = getenv("TMPDIR"), .bad = silent ? NULL : say_bad};

	return samples_open((const char *const *)w->source, w->sources, &so, e);
}

/* ---- what the model is ---- */

/* By config.json. */
static int recognise_config(struct parts *p, const char *dir, struct err *e)
{
	char *path = path_join(dir, "config.json");
	json_t *c = jsonio_load(path, e);
	const char *class = json_string_value(json_object_get(c, "_class_name")), *type = json_string_value(json_object_get(c, "model_type"));
	const char *timm = json_string_value(json_object_get(c, "architecture"));

	if (!c)
		;
	else if (class && !strncmp(class, "Autoencoder", 11))
		p->vae = mem_strdup(dir);
	else if ((type && !strncmp(type, "dinov2", 6)) || (timm && strstr(timm, "dinov2")))
		p->vision = str_new("dinov2:%s", dir);
	else if (type && !strncmp(type, "clip", 4) && strcmp(type, "clip_text_model") && o.as != AS_TEXT)
		p->vision = str_new("clip:%s", dir);
	else if (type && (!strncmp(type, "clip", 4) || !strcmp(type, "t5")))
		p->text = mem_strdup(dir);
	else
		err_set(e, ERR_DATA, "%s: \"%s\" is no encoder that is known here (AutoencoderKL, AutoencoderTiny, clip, t5, dinov2)", path,
		        class ? class : type ? type : timm ? timm : "?");
	json_decref(c);
	mem_free(path);
	return e->code ? -1 : 0;
}

static int recognise(struct parts *p, struct err *e)
{
	int vae = path_holds(o.model, "vae/config.json"), text = path_holds(o.model, "text_encoder/config.json");
	struct stat st;

	if (extractor_is_network(o.model))
		p->vision = mem_strdup(o.model);
	else if (taesd_is(o.model))
		p->vae = mem_strdup(o.model);
	else if (stat(o.model, &st))
		err_errno(e, "%s", o.model);
	else if (!S_ISDIR(st.st_mode))
		p->vision = str_new("dinov2:%s", o.model);
	else if (!vae && !text)
		recognise_config(p, o.model, e);
	if (vae && o.as != AS_TEXT)
		p->vae = path_join(o.model, "vae");
	if (text && o.as != AS_VAE && !o.decode)
		p->text = mem_strdup(o.model);
	if (!e->code && ((o.as == AS_VAE && !p->vae) || (o.as == AS_TEXT && !p->text) || (o.as == AS_VISION && !p->vision)))
		err_set(e, ERR_DATA, "%s: no %s encoder", o.model, as_names[o.as]);
	return e->code ? err_lacking(e, NULL) : 0;
}

/* Options that say nothing of such a model. */
static int check_options(const struct parts *p, struct err *e)
{
	static const char *const latents[] = {"--size", "--posterior", "--seed", "--no-pictures", "--flip"};

	for (int i = 0; i < 5; i++)
		if (o.for_latents[i] && (!p->vae || o.decode))
			return err_set(e, ERR_USAGE, "%s is about making latents, which %s does not", latents[i], o.decode ? "--decode" : o.model);
	if (o.decode && !p->vae)
		return err_set(e, ERR_USAGE, "--decode wants an autoencoder, which %s is not", o.model);
	if ((o.null_text || o.tokens) && !p->text)
		return err_set(e, ERR_USAGE, "%s is about texts, which %s does not read", o.tokens ? "--tokens" : "--null-text", o.model);
	if (o.captions && (!p->text || p->vae))
		return err_set(e, ERR_USAGE, "--captions wants a text encoder alone, which %s is not%s", o.model, p->text ? "; --as text takes that" : "");
	if (o.captions && o.nul)
		return err_set(e, ERR_USAGE, "--captions reads texts, not lists of paths, which -0 is about");
	if (o.null_text && !strcmp(o.null_text, "-"))
		return err_set(e, ERR_USAGE, "--null-text wants a file, with its stamp beside it");
	if ((o.input >= 0 || o.keys) && !p->vision)
		return err_set(e, ERR_USAGE, "%s is about features of pictures, which %s does not give", o.keys ? "--keys" : "--input", o.model);
	if (!p->vision && cmd_binary(o.out, "-o FILE.tar or a pipe", e))
		return -1;
	if (p->vision && (o.for_tar || !strcmp(o.out, "-")))
		return err_set(e, ERR_USAGE, o.for_tar ? "features are of 32 bits: no --dtype" : "features are written with -o FILE");
	return 0;
}

/* ---- what stands there already ---- */

/* The contents, where the sources can be read again. */
static int scan(struct work *w, struct err *e)
{
	struct samples *s;
	struct sample x;
	int rc = -1;

	for (int i = 0; i < w->sources; i++)
		if (!strcmp(w->source[i], "-"))
			return 0;
	s = open_samples(w, 1, e);
	while (s && (rc = samples_next(s, &x, e)) > 0)
		if (progress_tell(&w->progress, "samples read", samples_count(s), samples_expected(s)))
			rc = err_set(e, ERR_AGAIN, "interrupted");
	if (s && !rc) {
		samples_digest(s, w->digest);
		w->total = samples_count(s);
	}
	samples_close(s);
	return rc;
}

static struct stamp *make_stamp(const struct work *w)
{
	struct stamp *s = stamp_new("ddm-encode");

	if (w->encoding) {
		if (o.decode)
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

/* 1: the output is there, of the same samples. */
static int is_there(const struct work *w, const struct stamp *s, struct err *e)
{
	struct stat st;

	if (standing_check(o.out, s, 1, e))
		return -1;
	if (!*w->digest || !strcmp(o.out, "-") || stat(o.out, &st) || !S_ISREG(st.st_mode) || !st.st_size)
		return 0;
	partial_tidy(o.out);
	return 1;
}

/* ---- what a process that went before has done ---- */

/* Opens the output. What it goes on with must be of the same samples and options, and of the same bits: from this device, in such batches. */
static int open_output(struct work *w, const struct stamp *stamp, int64_t from, struct err *e)
{
	char *line = stamp_line(stamp), *same = str_new("%s %s %lld", line, w->device->name, w->device->host ? 0LL : (long long)o.batch);
	int rc = partial_open(&w->partial, o.out, *w->digest ? same : NULL, from, e);

	if (rc > 0 && !o.quiet)
		cmd_say("going on after %lld samples", (long long)w->partial.mark[1]);
	mem_free(line);
	mem_free(same);
	return rc;
}

/* What was saved stays where the same command can go on: after a signal, and without the device. */
static void close_output(struct work *w, const struct err *e)
{
	int keep = e->code == ERR_AGAIN || e->code == ERR_UNAVAILABLE;

	if (keep && partial_is_kept(&w->partial) && !o.quiet)
		cmd_say("%lld samples are kept: the same command goes on after them", (long long)w->partial.mark[1]);
	partial_close(&w->partial, keep);
}

/* ---- a tar of samples ---- */

static int write_null_text(const struct work *w, struct err *e)
{
	struct stamp *s = stamp_new("ddm-encode");
	struct str npy = {0};
	int rc;

	if (!o.null_text) {
		stamp_free(s);
		return 0;
	}
	encoding_stamp(w->encoding, s);
	rc = standing_check(o.null_text, s, 1, e) || encoding_null_text(w->encoding, &npy, e) || stamp_write(s, o.null_text, npy.p, npy.len, e)
	         ? -1
	         : 0;
	str_release(&npy);
	stamp_free(s);
	return rc;
}

static int put_sample(struct tar_writer *t, const struct sample *x, struct err *e)
{
	int rc = 0;

	for (int i = 0; i < x->n && !rc; i++) {
		char *name = str_new("%s.%s", x->key, x->member[i].ext);

		rc = tar_add(t, name, x->member[i].data, x->member[i].len, e);
		mem_free(name);
	}
	return rc;
}

/* Between two batches of the encoder. */
static int save_place(struct work *w, struct err *e)
{
	struct encoding_place p;

	if (!encoding_place(w->encoding, &p))
		return 0;
	return partial_save(&w->partial, (const int64_t[PARTIAL_MARKS]){p.batches, w->done, p.bad, p.cut}, e);
}

static int go_on(struct work *w, struct err *e)
{
	const int64_t *mark = w->partial.mark;

	w->done = mark[1];
	return encoding_go_on(w->encoding, &(struct encoding_place){.batches = mark[0], .bad = mark[2], .cut = mark[3]}, e);
}

static int put_samples(struct work *w, struct tar_writer *t, struct samples *s, struct err *e)
{
	struct sample x;
	int rc;

	encoding_begin(w->encoding, s);
	if (partial_is_kept(&w->partial) && go_on(w, e))
		return -1;
	while ((rc = encoding_next(w->encoding, &x, e)) > 0) {
		if (put_sample(t, &x, e))
			return -1;
		if (progress_tell(&w->progress, "samples", ++w->done, w->total))
			return err_set(e, ERR_AGAIN, "interrupted");
		if (save_place(w, e))
			return -1;
	}
	return rc;
}

static int write_tar(struct work *w, const struct stamp *stamp, struct samples *s, struct err *e)
{
	struct tar_writer t = {0};
	char *line = stamp_line(stamp);
	int on = open_output(w, stamp, 0, e), rc = on < 0 || tar_start(&t, &w->partial.out, on ? NULL : line, e) ? -1 : put_samples(w, &t, s, e);

	if (rc)
		tar_release(&t);
	else
		rc = tar_finish(&t, e) || partial_commit(&w->partial, e) ? -1 : 0;
	close_output(w, e);
	mem_free(line);
	return rc;
}

/* ---- a table of features ---- */

enum { AT_ONCE = 64 };

struct rows {
	int64_t batches;
	struct sha256 keys; /* as featureset_keys has it */
	struct str listed;  /* for --keys */
	float *x;           /* (AT_ONCE, dims) */
};

/* Of what a process that went before has written, the keys alone are wanted. */
static int put_rows(struct work *w, struct rows *r, const struct picture_batch *b, struct err *e)
{
	struct extractor *x = w->extractor;
	float *taps[TAPS] = {r->x};
	int passing = w->done < w->partial.mark[1];

	if (!passing && x->run(x, w->pool, taps, b->picture, b->n, e))
		return -1;
	for (int i = 0; i < b->n; i++) {
		sha256_add(&r->keys, b->key[i], strlen(b->key[i]));
		sha256_add(&r->keys, "\n", 1);
		if (o.keys)
			str_printf(&r->listed, "%s\n", b->key[i]);
	}
	w->done += b->n;
	r->batches++;
	if (progress_tell(&w->progress, "pictures", w->done, w->total))
		return err_set(e, ERR_AGAIN, "interrupted");
	if (passing)
		return 0;
	if (outfile_write(&w->partial.out, r->x, (size_t)b->n * (size_t)x->dims[TAP_MAIN] * sizeof *r->x, e))
		return -1;
	return partial_save(&w->partial, (const int64_t[PARTIAL_MARKS]){r->batches, w->done}, e);
}

static int put_pictures(struct work *w, struct rows *r, struct samples *s, struct err *e)
{
	struct lookahead *l = lookahead_new(s, w->pool, AT_ONCE, e);
	struct picture_batch *b;
	int n = -1;

	while (l && (n = lookahead_next(l, &b, e)) > 0)
		if (put_rows(w, r, b, e)) {
			n = -1;
			break;
		}
	lookahead_free(l);
	return n;
}

/* Its length does not depend on how many rows there are. */
static void header(const struct work *w, int64_t rows, struct str *head)
{
	int64_t shape[2] = {rows, w->extractor->dims[TAP_MAIN]};

	npy_encode(head, NPY_F4, 2, shape, NULL);
}

/* The sidecar first: it says nothing without the table, and a table without it would be nobody's. */
/* With the hash of what is written by now, where that is a file. */
static int write_sidecar(const struct stamp *s, struct outfile *out, struct err *e)
{
	struct filemap all = {0};
	int rc;

	if (!out->place)
		return stamp_sidecar(s, o.out, e);
	if (fflush(out->file))
		return err_errno(e, "%s: write", out->path);
	rc = filemap_open(&all, out->tmp, e) || stamp_sidecar_of(s, o.out, hash64(all.data, all.len), e) ? -1 : 0;
	filemap_close(&all);
	return rc;
}

static int publish_rows(struct work *w, struct rows *r, struct stamp *stamp, struct err *e)
{
	struct outfile *out = &w->partial.out;
	struct str head = {0};
	char keys[65];
	int rc;

	sha256_end(&r->keys, keys);
	stamp_i64(stamp, "samples", w->done);
	stamp_text(stamp, "keys", keys);
	header(w, w->done, &head);
	if (o.keys && stamp_write(stamp, o.keys, str_text(&r->listed), r->listed.len, e))
		rc = -1;
	else if (fseek(out->file, 0, SEEK_SET))
		rc = err_errno(e, "%s: not a file that can be written twice", out->path);
	else
		rc = outfile_write(out, head.p, head.len, e) || write_sidecar(stamp, out, e) || partial_commit(&w->partial, e) ? -1 : 0;
	str_release(&head);
	return rc;
}

static int write_features(struct work *w, struct stamp *stamp, struct samples *s, struct err *e)
{
	struct rows r = {.x = mem_try((size_t)(AT_ONCE * w->extractor->dims[TAP_MAIN]), sizeof *r.x, "features", e)};
	struct str head = {0};
	int on = -1, rc = -1;

	sha256_init(&r.keys);
	header(w, 0, &head);
	if (r.x)
		on = open_output(w, stamp, (int64_t)head.len, e);
	if (on > 0 || (!on && !outfile_write(&w->partial.out, head.p, head.len, e)))
		rc = put_pictures(w, &r, s, e) ? -1 : publish_rows(w, &r, stamp, e);
	close_output(w, e);
	str_release(&head);
	str_release(&r.listed);
	mem_free(r.x);
	return rc;
}

/* ---- all of it ---- */

static int open_model(struct work *w, struct err *e)
{
	struct encoding_options eo = {.vae = w->parts.vae, .text = w->parts.text, .size = o.size, .posterior = o.posterior, .seed = o.seed,
	                              .wide = o.wide, .tokens = o.tokens, .batch = o.batch, .flip = o.flip, .drop = o.drop, .decode = o.decode,
	                              .bulk = (enum compact_type)o.weights};

	w->pool = pool_new((int)o.threads, e);
	if (!w->pool || !(w->device = open_device(o.device, w->pool, e)))
		return -1;
	eo.device = w->device;
	eo.pool = w->pool;
	if (!w->parts.vision)
		return (w->encoding = encoding_open(&eo, e)) ? 0 : -1;
	w->extractor = extractor_open(w->parts.vision, &(struct extractor_options){o.input, w->device, eo.bulk}, e);
	return w->extractor ? 0 : -1;
}

static void say_report(const struct work *w)
{
	int64_t cut = w->encoding ? encoding_cut(w->encoding) : 0;

	if (o.quiet)
		return;
	cmd_say("%lld samples", (long long)w->done);
	if (w->skipped)
		cmd_warn("%lld samples skipped", (long long)w->skipped);
	if (cut)
		cmd_warn("%lld captions were longer than the encoder reads, and were cut", (long long)cut);
}

static int encode(struct work *w, struct stamp *stamp, struct err *e)
{
	struct samples *s = open_samples(w, 0, e);
	int rc = -1;

	if (s && !(w->encoding ? write_tar(w, stamp, s, e) : write_features(w, stamp, s, e))) {
		w->skipped = samples_skipped(s);
		say_report(w);
		rc = samples_check(s, e);
	}
	if (w->encoding)
		encoding_begin(w->encoding, NULL);
	samples_close(s);
	return rc;
}

static int run(struct work *w, struct err *e)
{
	struct stamp *stamp;
	int there, rc = -1;

	if (open_model(w, e))
		return -1;
	cmd_catch_signals();
	if ((w->encoding && write_null_text(w, e)) || scan(w, e))
		return -1;
	stamp = make_stamp(w);
	there = is_there(w, stamp, e);
	if (there > 0 && !o.quiet)
		cmd_say("%s is there already", o.out);
	if (there >= 0)
		rc = there ? 0 : encode(w, stamp, e);
	stamp_free(stamp);
	return rc;
}

static void work_release(struct work *w)
{
	encoding_free(w->encoding);
	extractor_free(w->extractor);
	device_free(w->device);
	pool_free(w->pool);
	mem_free(w->parts.vae);
	mem_free(w->parts.text);
	mem_free(w->parts.vision);
}

int main(int argc, char **argv)
{
	int n = cmd_start(&program, argc, argv, 1, -1);
	struct work w = {.source = argv + 1, .sources = n};
	struct err e = {0};

	if (!o.model)
		err_set(&e, ERR_USAGE, "-m DIR is missing: which encoder?");
	if (e.code || recognise(&w.parts, &e) || check_options(&w.parts, &e) ||
	    claim_take((const char *const[]){o.out, o.null_text, o.keys}, 3, &e) ||
	    (o.keys && standing_view(o.keys, program.name, NULL, &e)))
		cmd_die(&e);
	w.progress = cmd_progress();
	run(&w, &e);
	work_release(&w);
	return cmd_end(&e);
}
