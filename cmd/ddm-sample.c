/* Pictures from an ensemble of experts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/cmd.h"
#include "cmd/opendevice.h"
#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/rng.h"
#include "core/str.h"
#include "core/version.h"
#include "diffusion/ensemble.h"
#include "diffusion/gallery.h"
#include "diffusion/sampler.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/stamp.h"
#include "file/standing.h"
#include "file/tarfile.h"
#include "file/tsv.h"
#include "kernels/profile.h"

enum { SHEET_LIMIT = 400, MOST = 1000000 };

static int64_t count, steps = 50, first_image, batch = 64, threads;
static uint64_t seed;
static double cfg = 1;
static const char *route, *class_text, *labels_path, *grid_path, *report_path, *log_path, *timing_path, *out_path = "-", *device = "auto";
static int solver_choice, convert_choice, weights_choice = -1, profile;
static const char *const solvers[] = {"euler", "heun", NULL};
static const char *const converts[] = {"match", "native", NULL};
enum { WEIGHTS_F32, WEIGHTS_BF16, WEIGHTS_INT8, WEIGHTS_TF32 };
static const char *const weight_types[] = {"f32", "bf16", "int8", "tf32", NULL};

static const char *const routes[] = {"top-1", "top-2", "full", "threshold:", "switch:", "sample", "oracle", "prior", "expert:", NULL};

static const struct opt options[] = {
    {"--count", 'n', OPT_INT, &count, 1, MOST, "N", "how many pictures", NULL, NULL},
    {"--route", 0, OPT_TEXT, &route, 0, 0, "HOW",
     "top-K, full, threshold:P, switch:T, sample, oracle, prior, expert:I", routes, NULL},
    {"--solver", 0, OPT_CHOICE, &solver_choice, 0, 0, "NAME", "euler or heun (default euler)", solvers, NULL},
    {"--steps", 0, OPT_INT, &steps, 1, 100000, "N", "steps from noise to picture (default 50)", NULL, NULL},
    {"--cfg", 0, OPT_REAL, &cfg, -100, 100, "S", "classifier-free guidance; 1 is none (default 1)", NULL, NULL},
    {"--class", 0, OPT_TEXT, &class_text, 0, 0, "C",
     "class of all pictures; all: picture i has class i mod their number; labels: the cluster of an item of --labels", NULL, NULL},
    {"--seed", 0, OPT_U64, &seed, 0, 0, "S", "seed; picture i depends on seed and i alone (default 0)", NULL, NULL},
    {"--labels", 0, OPT_TEXT, &labels_path, 0, 0, "FILE", "assignments of reference items, for --route oracle", NULL, NULL},
    {"--grid", 0, OPT_TEXT, &grid_path, 0, 0, "FILE", "write a contact sheet of the first 400 pictures as PNG", NULL, NULL},
    {"--report", 0, OPT_TEXT, &report_path, 0, 0, "FILE",
     "write the routing's statistics and GFLOP per picture as JSON", NULL, NULL},
    {"--log", 0, OPT_TEXT, &log_path, 0, 0, "FILE", "write every picture's weights at every step as JSON lines", NULL, NULL},
    {"--timing", 0, OPT_TEXT, &timing_path, 0, 0, "FILE", "write seconds and pictures per second as JSON", NULL, NULL},
    {"--convert", 0, OPT_CHOICE, &convert_choice, 0, 0, "HOW",
     "ask experts on another path at equal noise (match) or at equal time (native) (default match)", converts, NULL},
    {"--weights", 0, OPT_CHOICE, &weights_choice, 0, 0, "TYPE",
     "how the experts' matrices are held and multiplied (default bf16 on a GPU, f32 on the CPU)", weight_types, NULL},
    {"--first", 0, OPT_INT, &first_image, 0, MOST - 1, "I", "number of the first picture (default 0)", NULL, NULL},
    {"--batch", 0, OPT_INT, &batch, 1, 65536, "N", "pictures at once; changes no result (default 64)", NULL, NULL},
    {"--threads", 0, OPT_INT, &threads, 0, 1024, "N", "threads; changes no result (default: all there are)", NULL, NULL},
    {"--device", 0, OPT_TEXT, &device, 0, 0, "NAME", "auto, cpu, cuda or cuda:N: where to compute (default auto)", NULL, NULL},
    {"--profile", 0, OPT_FLAG, &profile, 0, 0, NULL, "time every operation and print a table at the end", NULL, NULL},
    {"--output", 'o', OPT_TEXT, &out_path, 0, 0, "FILE", "where the samples go (default -, standard output)", NULL, NULL},
    {0},
};

static const struct program program = {
    "ddm-sample",
    "-n N --route HOW [--solver NAME] [--steps N] [--cfg S] [--class C] [--seed S] [--labels FILE] [--grid FILE] [--report FILE] "
    "[--log FILE] [--timing FILE] [--convert HOW] [--weights TYPE] [--first I] [--batch N] [--threads N] [--device NAME] [--profile] "
    "[-o FILE] MODEL",
    "Make pictures with an ensemble of experts; a tar of NNNNNN.png",
    options,
};

/* Reference items for --route oracle and --class labels. */
struct labels {
	int64_t n;
	int32_t *cluster; /* (n) */
	char hash[65];
};

/* Everything a run needs; zeroed is nothing yet. */
struct run {
	struct policy policy;
	struct pool *pool;
	struct device *device;
	struct ensemble ensemble;
	struct mixture mixture;
	struct sampler sampler;
	struct sampler_state *state;
	struct labels labels;
	int64_t class; /* or one of CLASS_ */
	int labelled;  /* --class labels */
	struct mixture_stats stats;
	int64_t *assigned; /* (k) pictures whose heaviest expert at the end is k */
	struct outfile out, log;
	struct tar_writer tar;
	struct picture sheet;
	int64_t sheet_n;
	struct profile *profile; /* NULL: not asked for */
	struct progress show, tell; /* of the terminal; of the sampler */
	/* one batch */
	float *x;         /* (batch, d) */
	int64_t at, rows; /* pictures before it, and in it */
	int64_t *index;   /* (batch) */
	int32_t *label, *chosen, *heaviest; /* (batch) */
	double *weights;  /* (batch, steps, k), with --log */
	struct png *png;  /* (batch) */
};

enum { CLASS_NONE = -1, CLASS_ALL = -2, CLASS_LABELS = -3 };

struct png {
	struct picture picture;
	uint8_t *data;
	size_t len;
	struct err e;
};

static int load_labels(struct labels *l, const char *path, struct err *e)
{
	struct tsv *t = tsv_load(path, e);
	int column, split, rc = -1;

	if (!t || (column = tsv_need(t, "cluster", e)) < 0)
		goto out;
	memcpy(l->hash, tsv_sha256(t), sizeof l->hash);
	split = tsv_column(t, "split");
	l->cluster = mem_zalloc((size_t)tsv_rows(t) + 1, sizeof *l->cluster);
	for (int64_t i = 0; i < tsv_rows(t); i++) {
		int64_t k;

		if (tsv_i64(t, i, column, 0, INT32_MAX, &k, e))
			goto out;
		if (split < 0 || strcmp(tsv_get(t, i, split), "holdout"))
			l->cluster[l->n++] = (int32_t)k;
	}
	rc = l->n ? 0 : err_set(e, ERR_DATA, "%s: no items in it", path);
out:
	tsv_free(t);
	return rc;
}

/* Items in the order of their keys would give the first pictures the first sources only, so item rng_permute(i) it is. */
static int32_t reference_cluster(const struct labels *l, int64_t i)
{
	return l->cluster[rng_permute((uint64_t)(i % l->n), (uint64_t)l->n, seed, RNG_ROUTE, (uint64_t)(i / l->n))];
}

static int check_outputs(struct err *e)
{
	const char *const paths[] = {out_path, grid_path, report_path, log_path, timing_path};
	int n = 0;

	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
		n += paths[i] && !strcmp(paths[i], "-");
	return n > 1 ? err_set(e, ERR_USAGE, "%d outputs on standard output: name files (-o FILE)", n) : 0;
}

static int check_request(struct run *r, struct err *e)
{
	if (!count)
		return err_set(e, ERR_USAGE, "-n is missing: how many pictures");
	if (!route)
		return err_set(e, ERR_USAGE, "--route is missing: top-K, full, threshold:P, switch:T, sample, oracle, prior or expert:I");
	if (first_image + count > MOST)
		return err_set(e, ERR_USAGE, "pictures are numbered up to %d: --first %lld and -n %lld go beyond", MOST - 1,
		               (long long)first_image, (long long)count);
	if (policy_parse(route, &r->policy, e))
		return err_prefix(e, "--route");
	r->labelled = class_text && !strcmp(class_text, "labels");
	if (r->labelled && !labels_path)
		return err_set(e, ERR_USAGE, "--class labels needs --labels, a table with a column 'cluster'");
	if (r->policy.kind == POLICY_ORACLE && !labels_path)
		return err_set(e, ERR_USAGE, "--route oracle needs --labels, a table with a column 'cluster'");
	if (r->policy.kind != POLICY_ORACLE && !r->labelled && labels_path)
		return err_set(e, ERR_USAGE, "--labels is for --route oracle or --class labels");
	return check_outputs(e);
}

static int check_classes(struct run *r, struct err *e)
{
	const struct ensemble *s = &r->ensemble;

	r->class = CLASS_NONE;
	if (class_text && !s->classes)
		return err_set(e, ERR_USAGE, "--class %s: the model knows no classes", class_text);
	if (class_text && !strcmp(class_text, "all"))
		r->class = CLASS_ALL;
	else if (r->labelled)
		r->class = CLASS_LABELS;
	else if (class_text && parse_i64(class_text, 0, s->classes - 1, &r->class))
		return err_set(e, ERR_USAGE, "--class %s: neither 'all' nor 'labels' nor in 0..%d, the classes of the model", class_text, s->classes - 1);
	if (!class_text && s->classes && !s->null_label)
		return err_set(e, ERR_USAGE, "--class is missing: this model was trained without the null label");
	if (cfg != 1 && r->class == CLASS_NONE)
		return err_set(e, ERR_USAGE, "--cfg %g without --class: there is nothing to guide towards", cfg);
	if (cfg != 1 && !s->null_label)
		return err_set(e, ERR_USAGE, "--cfg %g: this model was trained without the null label", cfg);
	return 0;
}

static int open_model(struct run *r, const char *dir, struct err *e)
{
	static const enum compact_type bulk[] = {COMPACT_NONE, COMPACT_BF16, COMPACT_INT8, COMPACT_NONE};
	struct ensemble_options o = {.policy = r->policy,
	                             .mode = (enum convert_mode)convert_choice,
	                             .capacity = batch * (cfg == 1 ? 1 : 2),
	                             .bulk = bulk[weights_choice],
	                             .device = r->device};
	struct ensemble *s = &r->ensemble;

	if (device_set_precision(r->device, weights_choice == WEIGHTS_TF32 ? PRECISION_TF32 : PRECISION_F32, e))
		return -1;
	if (ensemble_open(s, dir, &o, e) || check_classes(r, e))
		return -1;
	if (s->channels != 1 && s->channels != 3)
		return err_set(e, ERR_USAGE, "%s: makes %lld channels, which is not a picture", dir, (long long)s->channels);
	for (int64_t i = 0; i < r->labels.n; i++) {
		if (r->labelled && r->labels.cluster[i] >= s->classes)
			return err_set(e, ERR_DATA, "%s: an item of cluster %d, but %s knows %d classes", labels_path,
			               r->labels.cluster[i], dir, s->classes);
		if (r->policy.kind == POLICY_ORACLE &&
		    (r->labels.cluster[i] >= s->k || !s->expert[r->labels.cluster[i]].velocity))
			return err_set(e, ERR_DATA, "%s: an item of cluster %d, but %s has no such expert", labels_path,
			               r->labels.cluster[i], dir);
	}
	r->mixture = (struct mixture){s->k, s->d, s->expert, s->router.logits ? &s->router : NULL, r->policy, cfg, seed, r->device};
	return 0;
}

/* What determines a picture, apart from its index. */
static struct stamp *stamp_base(void)
{
	struct stamp *s = stamp_new("ddm-sample");

	stamp_text(s, "route", route);
	stamp_text(s, "solver", solvers[solver_choice]);
	stamp_i64(s, "steps", steps);
	stamp_u64(s, "seed", seed);
	if (cfg != 1)
		stamp_f64(s, "cfg", cfg);
	if (convert_choice)
		stamp_text(s, "convert", converts[convert_choice]);
	if (weights_choice)
		stamp_text(s, "weights", weight_types[weights_choice]);
	return s;
}

static struct stamp *stamp_run(const struct run *r)
{
	struct stamp *s = stamp_base();

	if (class_text)
		stamp_text(s, "class", class_text);
	stamp_i64(s, "first", first_image);
	stamp_i64(s, "n", count);
	if (r->labels.n)
		stamp_input(s, "labels", r->labels.hash);
	for (int i = 0; i < r->ensemble.files; i++)
		stamp_input(s, r->ensemble.file[i].name, r->ensemble.file[i].hash);
	return s;
}

static char *stamp_picture(const struct run *r, int64_t i)
{
	struct stamp *s = stamp_base();
	char *line;

	stamp_i64(s, "index", r->index[i]);
	if (r->label)
		stamp_i64(s, "class", r->label[i]);
	if (r->policy.kind == POLICY_ORACLE)
		stamp_i64(s, "expert", r->chosen[i]);
	if (r->labels.n)
		stamp_input(s, "labels", r->labels.hash);
	stamp_input(s, "model", r->ensemble.hash);
	line = stamp_line(s);
	stamp_free(s);
	return line;
}

/* 1 when -o and everything else that was asked for is there from the same command, 0 when there is work, -1 when the name is
 * taken. */
static int finished(const struct run *r, struct err *e)
{
	struct stat st;
	struct tar_reader *t;
	struct tar_member m;
	struct stamp *stamp;
	struct str what = {0};
	struct err bad = {0};
	int more, rc = -1;

	if (!strcmp(out_path, "-") || stat(out_path, &st) || !S_ISREG(st.st_mode) || !st.st_size)
		return 0;
	stamp = stamp_run(r);
	t = tar_open(out_path, NULL, &bad);
	more = t ? tar_next(t, &m, &bad) : -1;
	if (more < 0 || !tar_stamp(t) || (rc = stamp_differs(stamp, tar_stamp(t), &what)) < 0)
		rc = err_set(e, ERR_EXISTS, "%s: exists and is not an output of this program", out_path);
	else if (rc > 0)
		rc = err_set(e, ERR_EXISTS, "%s: exists and was made with other options: %s", out_path, str_text(&what));
	else
		rc = 1;
	while (rc == 1 && more > 0)
		more = tar_next(t, &m, &bad);
	if (rc == 1 && more < 0)
		rc = err_set(e, bad.code, "%s", bad.msg);
	tar_close(t);
	stamp_free(stamp);
	str_release(&what);
	if (rc == 1 && ((grid_path && !path_exists(grid_path)) || (report_path && !path_exists(report_path)) ||
	                (log_path && !path_exists(log_path))))
		return 0;
	return rc;
}

static void observe(void *arg, int64_t step, double t, int64_t n, const double *w)
{
	struct run *r = arg;
	int k = r->ensemble.k;

	(void)t;
	for (int64_t i = 0; i < n; i++)
		memcpy(r->weights + (i * steps + step) * k, w + i * k, (size_t)k * sizeof *w);
}

static int tell(void *arg, const char *what, int64_t done, int64_t total)
{
	struct run *r = arg;

	(void)what;
	return progress_tell(&r->show, "pictures", r->at + r->rows * done / total, count);
}

static int prepare(struct run *r, struct err *e)
{
	const struct ensemble *s = &r->ensemble;
	size_t n = (size_t)batch;

	r->sampler = (struct sampler){.mixture = &r->mixture,
	                              .solver = {solver_choice ? SOLVER_HEUN : SOLVER_EULER, steps, 1, 0},
	                              .seed = seed,
	                              .batch = batch,
	                              .shares = s->shares,
	                              .class_shares = s->class_shares,
	                              .classes = s->classes,
	                              .observe = log_path ? observe : NULL,
	                              .observe_arg = r,
	                              .progress = &r->tell};
	r->show = cmd_progress();
	r->tell = (struct progress){tell, r};
	if (!(r->state = sampler_new(&r->sampler, e)) || !(r->x = mem_try(n * (size_t)s->d, sizeof *r->x, "pictures", e)))
		return -1;
	if (log_path && !(r->weights = mem_try(n * (size_t)steps * (size_t)s->k, sizeof *r->weights, "router weights", e)))
		return -1;
	r->index = mem_zalloc(n, sizeof *r->index);
	r->chosen = mem_zalloc(n, sizeof *r->chosen);
	r->heaviest = mem_zalloc(n, sizeof *r->heaviest);
	if (r->class != CLASS_NONE)
		r->label = mem_zalloc(n, sizeof *r->label);
	r->png = mem_zalloc(n, sizeof *r->png);
	r->assigned = mem_zalloc((size_t)s->k, sizeof *r->assigned);
	mixture_stats_init(&r->stats, s->k, steps);
	r->sheet_n = grid_path ? (count < SHEET_LIMIT ? count : SHEET_LIMIT) : 0;
	return r->sheet_n ? gallery_sheet(&r->sheet, r->sheet_n, 0, s->channels, s->size, e) : 0;
}

/* Also checks that outputs can be written before any work is done. */
static int open_outputs(struct run *r, struct err *e)
{
	struct stamp *stamp = stamp_run(r);
	char *line = stamp_line(stamp);
	int rc = -1;

	if (!(grid_path && standing_check(grid_path, stamp, 0, e)) && !outfile_open(&r->out, out_path, e) &&
	    !tar_start(&r->tar, &r->out, line, e))
		rc = log_path ? outfile_open(&r->log, log_path, e) : 0;
	mem_free(line);
	stamp_free(stamp);
	return rc;
}

static void encode(void *arg, int64_t i, int worker)
{
	struct run *r = arg;
	struct png *p = &r->png[i];
	char *line = stamp_picture(r, i), what[40];
	struct still_text text[] = {{"Software", "ddm-sample " DDM_VERSION}, {"ddm", line}};

	(void)worker;
	snprintf(what, sizeof what, "picture %06lld", (long long)r->index[i]);
	if (!gallery_picture(&p->picture, r->x + i * r->ensemble.d, r->ensemble.channels, r->ensemble.size, what, &p->e))
		still_encode_png(&p->picture, text, 2, &p->data, &p->len, &p->e);
	mem_free(line);
}

static int log_weights(struct run *r, int64_t i, struct err *e)
{
	json_t *o = json_object(), *all = json_array();
	char *line;
	int rc;

	for (int64_t s = 0; s < steps; s++) {
		json_t *row = json_array();

		for (int k = 0; k < r->ensemble.k; k++)
			json_array_append_new(row, jsonio_real(r->weights[(i * steps + s) * r->ensemble.k + k]));
		json_array_append_new(all, row);
	}
	json_object_set_new(o, "index", json_integer(r->index[i]));
	json_object_set_new(o, "weights", all);
	line = jsonio_line(o);
	json_decref(o);
	rc = outfile_write(&r->log, line, strlen(line), e) || outfile_write(&r->log, "\n", 1, e) ? -1 : 0;
	mem_free(line);
	return rc;
}

static int write_batch(struct run *r, int64_t n, struct err *e)
{
	int rc = 0;

	pool_run(r->pool, n, encode, r);
	for (int64_t i = 0; i < n; i++) {
		struct png *p = &r->png[i];
		int64_t place = r->index[i] - first_image;
		char name[32];

		snprintf(name, sizeof name, "%06lld.png", (long long)r->index[i]);
		if (!rc && p->e.code)
			rc = err_set(e, p->e.code, "%s", p->e.msg);
		if (!rc)
			rc = tar_add(&r->tar, name, p->data, p->len, e);
		if (!rc && place < r->sheet_n)
			gallery_put(&r->sheet, place, r->sheet_n, 0, &p->picture);
		if (!rc && log_path)
			rc = log_weights(r, i, e);
		r->assigned[r->heaviest[i]]++;
		picture_release(&p->picture);
		mem_free(p->data);
		memset(p, 0, sizeof *p);
	}
	return rc;
}

static int32_t class_of(const struct run *r, int64_t i)
{
	if (r->class == CLASS_LABELS)
		return r->chosen[i];
	return (int32_t)(r->class == CLASS_ALL ? r->index[i] % r->ensemble.classes : r->class);
}

static int sample_all(struct run *r, struct err *e)
{
	for (r->at = 0; r->at < count; r->at += batch) {
		int64_t n = r->rows = count - r->at < batch ? count - r->at : batch;

		for (int64_t i = 0; i < n; i++) {
			r->index[i] = first_image + r->at + i;
			if (r->labels.n)
				r->chosen[i] = reference_cluster(&r->labels, r->index[i]);
			if (r->label)
				r->label[i] = class_of(r, i);
		}
		if (sampler_run(r->state, r->x, &(struct sampler_call){.n = n, .index = r->index, .label = r->label, .chosen = r->chosen}, r->heaviest,
		                &r->stats, e) ||
		    write_batch(r, n, e))
			return -1;
	}
	progress_tell(&r->show, "pictures", count, count);
	return 0;
}

static json_t *report_json(const struct run *r)
{
	const struct mixture_stats *s = &r->stats;
	json_t *o = json_object(), *mass = json_object(), *assigned = json_array(), *weight = json_array(), *entropy = json_array();

	for (int k = 0; k < s->k; k++) {
		json_array_append_new(assigned, jsonio_real((double)r->assigned[k] / (double)count));
		json_array_append_new(weight, jsonio_real((double)s->mass[k] / MIXTURE_UNIT / (double)s->evaluations));
	}
	for (int64_t i = 0; i < steps && s->router_rows; i++)
		json_array_append_new(entropy, jsonio_real((double)s->entropy[i] / MIXTURE_UNIT / (double)s->entropy_rows[i]));
	json_object_set_new(o, "n", json_integer(count));
	json_object_set_new(o, "route", json_string(route));
	json_object_set_new(o, "solver", json_string(solvers[solver_choice]));
	json_object_set_new(o, "steps", json_integer(steps));
	json_object_set_new(o, "weights", json_string(weight_types[weights_choice]));
	json_object_set_new(o, "weight_bytes", json_integer(ensemble_bytes(&r->ensemble)));
	json_object_set_new(o, "evaluations", json_integer(solver_evaluations(&r->sampler.solver)));
	json_object_set_new(o, "experts_per_step", jsonio_real((double)s->used / (double)s->evaluations));
	json_object_set_new(mass, "assigned", assigned);
	json_object_set_new(mass, "weight", weight);
	json_object_set_new(o, "cluster_mass", mass);
	json_object_set_new(o, "router_entropy", entropy);
	json_object_set_new(o, "gflop_per_image", jsonio_real(mixture_gflop(&r->mixture, s) / (double)count));
	return o;
}

static int write_json(const char *path, json_t *o, struct err *e)
{
	char *text = jsonio_line(o);
	struct str s = {0};
	int rc;

	str_puts(&s, text);
	str_puts(&s, "\n");
	rc = commit_bytes(path, s.p, s.len, e);
	str_release(&s);
	mem_free(text);
	return rc;
}

static int write_sheet(struct run *r, struct err *e)
{
	struct stamp *stamp = stamp_run(r);
	char *line = stamp_line(stamp);
	struct still_text text[] = {{"Software", "ddm-sample " DDM_VERSION}, {"ddm", line}};
	uint8_t *data = NULL;
	size_t len;
	int rc = still_encode_png(&r->sheet, text, 2, &data, &len, e);

	if (!rc)
		rc = commit_bytes(grid_path, data, len, e);
	mem_free(data);
	mem_free(line);
	stamp_free(stamp);
	return rc;
}

static void say_summary(const struct run *r, double seconds)
{
	const struct mixture_stats *s = &r->stats;
	double sum = 0, rows = 0;
	struct str text = {0};

	str_printf(&text, "%lld pictures, route %s: %.2f experts per step, cluster mass ", (long long)count, route,
	           (double)s->used / (double)s->evaluations);
	for (int k = 0; k < s->k; k++)
		str_printf(&text, "%s%.3f", k ? "/" : "", (double)r->assigned[k] / (double)count);
	for (int64_t i = 0; i < steps; i++) {
		sum += (double)s->entropy[i] / MIXTURE_UNIT;
		rows += (double)s->entropy_rows[i];
	}
	if (rows > 0)
		str_printf(&text, ", router entropy %.3f", sum / rows);
	cmd_say("%s, %.4g GFLOP per picture, %.3g MiB of %s weights, %.3g pictures/s", str_text(&text),
	        mixture_gflop(&r->mixture, s) / (double)count, (double)ensemble_bytes(&r->ensemble) / 0x1p20, weight_types[weights_choice],
	        (double)count / seconds);
	str_release(&text);
}

/* What differs from run to run. */
static json_t *timing_json(const struct run *r, double seconds)
{
	double flops = mixture_gflop(&r->mixture, &r->stats) * 1e9 / seconds, peak = r->device->peak_flops ? r->device->peak_flops(r->device) : NAN;
	struct device_memory m = {0};
	json_t *o = json_object();

	r->device->memory(r->device, &m);
	json_object_set_new(o, "seconds", jsonio_real(seconds));
	json_object_set_new(o, "images_per_second", jsonio_real((double)count / seconds));
	json_object_set_new(o, "gflops", jsonio_real(flops * 1e-9));
	json_object_set_new(o, "percent_of_peak", jsonio_real(100 * flops / peak));
	json_object_set_new(o, "memory_peak", json_integer((json_int_t)m.peak));
	if (m.total) {
		json_object_set_new(o, "memory_free", json_integer((json_int_t)m.free));
		json_object_set_new(o, "memory_total", json_integer((json_int_t)m.total));
	}
	if (r->device->uncaptured[0])
		json_object_set_new(o, "uncaptured", jsonio_text(r->device->uncaptured));
	return o;
}

static void say_line(void *arg, const char *text)
{
	(void)arg;
	cmd_say("%s", text);
}

static int write_reports(const struct run *r, double seconds, struct err *e)
{
	json_t *report = report_json(r), *timing = timing_path ? timing_json(r, seconds) : NULL;
	int rc = 0;

	say_summary(r, seconds);
	if (r->device->uncaptured[0])
		cmd_warn("a part of each step runs outside a graph, which is slower: %s", r->device->uncaptured);
	if (report_path)
		rc = write_json(report_path, report, e);
	if (!rc && timing_path)
		rc = write_json(timing_path, timing, e);
	json_decref(report);
	json_decref(timing);
	return rc;
}

/* The samples come last: where they are, everything else is. */
static int work(struct run *r, const char *dir, struct err *e)
{
	double start;
	int done;

	if (check_request(r, e) || (labels_path && load_labels(&r->labels, labels_path, e)))
		return -1;
	if (!(r->pool = pool_new((int)threads, e)) || !(r->device = open_device(device, r->pool, e)))
		return -1;
	if (weights_choice < 0)
		weights_choice = device_precision(r->device) == PRECISION_BF16 ? WEIGHTS_BF16 : WEIGHTS_F32;
	if (open_model(r, dir, e) || (done = finished(r, e)) < 0)
		return -1;
	if (done) {
		cmd_say("%s: complete, nothing to do", out_path);
		return 0;
	}
	if (prepare(r, e) || open_outputs(r, e))
		return -1;
	if (profile)
		r->profile = profile_new(r->device);
	start = clock_seconds();
	if (sample_all(r, e) || write_reports(r, clock_seconds() - start, e))
		return -1;
	if (profile)
		profile_table(r->profile, say_line, NULL);
	if ((r->sheet_n && write_sheet(r, e)) || (log_path && outfile_commit(&r->log, e)))
		return -1;
	return tar_finish(&r->tar, e) || outfile_commit(&r->out, e) ? -1 : 0;
}

static void release(struct run *r)
{
	str_release(&r->tar.head);
	outfile_abort(&r->out);
	outfile_abort(&r->log);
	picture_release(&r->sheet);
	profile_free(r->profile);
	sampler_free(r->state);
	mixture_stats_release(&r->stats);
	ensemble_release(&r->ensemble);
	device_free(r->device);
	pool_free(r->pool);
	mem_free(r->labels.cluster);
	mem_free(r->assigned);
	mem_free(r->x);
	mem_free(r->index);
	mem_free(r->label);
	mem_free(r->chosen);
	mem_free(r->heaviest);
	mem_free(r->weights);
	mem_free(r->png);
}

int main(int argc, char **argv)
{
	static struct run r;
	struct err e = {0};

	cmd_start(&program, argc, argv, 1, 1);
	cmd_catch_signals();
	work(&r, argv[1], &e);
	release(&r);
	return cmd_end(&e);
}
