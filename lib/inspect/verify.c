/* Reads and verifies all files below a path, and reports every problem. */
#include "inspect/verify.h"

#include <string.h>
#include <sys/stat.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "data/samples.h"
#include "diffusion/ensemble.h"
#include "inspect/facts.h"
#include "file/fileio.h"
#include "file/kind.h"
#include "file/manifest.h"
#include "file/notfinite.h"
#include "file/remoteinput.h"
#include "file/stamp.h"
#include "file/sums.h"
#include "inspect/describe.h"
#include "inspect/modelfacts.h"

enum { DEPTH_MOST = 32 };

struct verifier {
	const struct verify_options *o;
	int problems, known, depth;
};

static const struct facts_options whole = {.check = 1};

static void tell(struct verifier *v, const struct err *e)
{
	v->problems++;
	v->o->problem(v->o->arg, e);
}

static void tell_new(struct verifier *v, int code, const char *path, const char *what)
{
	struct err e = {0};

	err_set(&e, code, "%s: %s", path, what);
	tell(v, &e);
}

static void judge(struct verifier *v, const char *path, const struct err *e)
{
	v->known++;
	if (e->code) {
		tell(v, e);
	} else if (v->o->sound) {
		char *shown = remote_shown(path);

		v->o->sound(v->o->arg, shown);
		mem_free(shown);
	}
}

/* Report a diverged training, or with `complete` an unfinished one. A training writes its weights last, so existing weights mean that it finished. */
static void check_finished(struct verifier *v, const json_t *facts, const char *path)
{
	const json_t *training = json_object_get(facts, "training"), *step = json_object_get(training, "step");
	const char *state = json_string_value(json_object_get(training, "state"));
	char *what;

	if (state && !strcmp(state, "diverged") && !json_object_get(facts, "running") && !json_object_get(facts, "weights")) {
		what = str_new("its training diverged: the loss of step %lld is not finite", step ? (long long)json_integer_value(step) : 0);
		tell_new(v, ERR_DIVERGED, path, what);
		mem_free(what);
		return;
	}
	if (!v->o->complete || json_object_get(facts, "weights") || json_object_get(facts, "files"))
		return;
	what = str_new("no weights yet; its training is at step %lld", step ? (long long)json_integer_value(step) : 0);
	tell_new(v, ERR_DATA, path, what);
	mem_free(what);
}

static void check_thing(struct verifier *v, const char *path, enum kind kind)
{
	json_t *o = json_object();
	json_int_t bad;
	struct err e = {0};

	describe_path(o, path, &whole, &e);
	bad = json_integer_value(json_object_get(o, "not_finite"));
	if (!e.code && bad)
		err_set(&e, ERR_DATA, "%s: %lld number%s NaN or infinite", path, (long long)bad, bad == 1 ? " is" : "s are");
	judge(v, path, &e);
	if (kind == KIND_NETWORK && !e.code)
		check_finished(v, o, path);
	json_decref(o);
}

static void check_finite(const char *path, struct err *e)
{
	struct shard *s = shard_open(path, e);

	if (s)
		notfinite_shard(s, path, e);
	shard_free(s);
}

static void check_shards(struct verifier *v, const char *dir)
{
	struct manifest m;
	struct err e = {0};

	if (manifest_load(&m, dir, &e)) {
		judge(v, dir, &e);
		return;
	}
	for (int64_t i = 0; i < m.n; i++) {
		char *path = manifest_shard_path(&m, i);

		progress_tell(v->o->progress, "shards", i, m.n);
		e = (struct err){0};
		if (!manifest_check(&m, i, &e))
			check_finite(path, &e);
		judge(v, path, &e);
		mem_free(path);
	}
	progress_tell(v->o->progress, "shards", m.n, m.n);
	for (int i = 0; i < m.files; i++) {
		char *path = path_join(dir, m.file[i].name);

		e = (struct err){0};
		manifest_check_file(&m, i, &e);
		judge(v, path, &e);
		mem_free(path);
	}
	if (!m.n)
		judge(v, dir, &e);
	manifest_release(&m);
}

static void visit(struct verifier *v, const char *path);

/* 1 if the model needs a router: it has several clusters, by its own config.json or by those of its networks. */
static int asks_for_router(const json_t *facts, const char *dir)
{
	char *path = path_join(dir, "config.json");
	json_t *own = path_exists(path) ? jsonio_load(path, NULL) : NULL, *row;
	int asks = json_integer_value(json_object_get(own, "num_experts")) > 1 || json_is_object(json_object_get(own, "router"));
	size_t i;

	json_array_foreach (json_object_get(facts, "networks"), i, row)
		asks |= json_is_integer(json_object_get(row, "cluster"));
	json_decref(own);
	mem_free(path);
	return asks && json_integer_value(json_object_get(facts, "k")) > 1;
}

static void check_router(struct verifier *v, const json_t *facts, const char *dir)
{
	char *what;

	if (!v->o->complete || !json_is_false(json_object_get(facts, "router")) || !asks_for_router(facts, dir))
		return;
	what = str_new("router is absent, and experts of %lld clusters need one", (long long)json_integer_value(json_object_get(facts, "k")));
	tell_new(v, ERR_DATA, dir, what);
	mem_free(what);
}

/* Verify each network of a model, and if all are sound, that they fit together. */
static void check_model(struct verifier *v, const char *dir, char *const *names, size_t n)
{
	static const struct facts_options quick;
	int before = v->problems;
	json_t *o = json_object(), *absent;
	struct err e = {0};

	for (size_t i = 0; i < n; i++) {
		char *path = path_join(dir, names[i]);
		struct stat st;

		int own = ensemble_uncertainty_number(names[i]) >= 0;

		if ((!strncmp(names[i], "expert_", 7) || !strcmp(names[i], "router") || own) && !stat(path, &st) && S_ISDIR(st.st_mode))
			visit(v, path);
		mem_free(path);
	}
	if (v->problems == before) {
		facts_model(o, dir, &quick, &e);
		judge(v, dir, &e);
	}
	absent = json_object_get(o, "absent");
	for (size_t i = 0; v->o->complete && i < json_array_size(absent); i++) {
		char *what = str_new("expert_%lld is absent", (long long)json_integer_value(json_array_get(absent, i)));

		tell_new(v, ERR_DATA, dir, what);
		mem_free(what);
	}
	check_router(v, o, dir);
	json_decref(o);
}

static int is_known(const char *path)
{
	struct filemap m = {0};
	enum kind kind = KIND_UNKNOWN;
	struct err e = {0};

	if (!filemap_open(&m, path, &e))
		kind = kind_of_bytes(m.data, m.len);
	filemap_close(&m);
	/* Any compressed file might hold a tar, so KIND_TAR alone does not make a file known. A file that cannot be opened counts as known, so that
	 * its reader reports the error. */
	return e.code || kind_promised(path) || stamp_sidecar_seals(path) || (kind != KIND_UNKNOWN && kind != KIND_TAR);
}

/* 1 for the names of unfinished files: ".NAME.tmp.HOST.PID.N", "NAME.tmp-HOST.PID.N" (file/commit.h), ".NAME.part", ".NAME.part.json"
 * (file/partial.h). */
static int in_the_making(const char *name)
{
	const char *tmp = *name == '.' ? strstr(name, ".tmp.") : strstr(name, ".tmp-"), *dot = tmp ? strrchr(tmp + 5, '.') : NULL;

	if (*name == '.' && (str_ends(name, ".part") || str_ends(name, ".part.json")))
		return 1;
	return dot && dot[1] && strspn(dot + 1, "0123456789") == strlen(dot + 1);
}

static void check_other(struct verifier *v, const char *dir, const char *name)
{
	char *path = path_join(dir, name);
	struct stat st;

	if (in_the_making(name)) {
		if (v->o->complete)
			tell_new(v, ERR_DATA, path, "unfinished: still being written, or left by a process that was killed");
	} else if (lstat(path, &st)) {
		struct err e = {0};

		err_errno(&e, "%s", path);
		tell(v, &e);
	} else if (S_ISDIR(st.st_mode)) {
		visit(v, path);
	} else if (!stat(path, &st) && S_ISREG(st.st_mode) && is_known(path)) {
		check_thing(v, path, KIND_UNKNOWN);
	} else if (S_ISLNK(st.st_mode) && kind_promised(path)) {
		tell_new(v, ERR_NOINPUT, path, "a broken link");
	}
	mem_free(path);
}

static void differs_from_sums(void *arg, const struct err *e)
{
	tell(arg, e);
}

static void check_sums(struct verifier *v, const char *dir)
{
	struct err e = {0};

	if (path_holds(dir, SUMS_NAME) && sums_check(dir, differs_from_sums, v, &e))
		tell(v, &e);
}

static void check_folder(struct verifier *v, const char *dir, enum kind kind)
{
	struct err e = {0};
	char **names;
	size_t n;

	if (dir_list(dir, &names, &n, &e)) {
		judge(v, dir, &e);
		return;
	}
	if (kind == KIND_MODEL)
		check_model(v, dir, names, n);
	for (size_t i = 0; kind != KIND_MODEL && i < n; i++)
		check_other(v, dir, names[i]);
	check_sums(v, dir);
	names_free(names, n);
}

/* Verify a path of any kind. */
static void visit(struct verifier *v, const char *path)
{
	enum kind kind = KIND_UNKNOWN;
	struct err e = {0};
	struct stat st;
	int shards;

	if (v->depth == DEPTH_MOST) {
		tell_new(v, ERR_DATA, path, "folders nested too deep");
		return;
	}
	if (remote_is_url(path)) {
		shards = samples_is_shards(path, &e);
		if (shards < 0) {
			judge(v, path, &e);
			return;
		}
		kind = shards ? KIND_SHARDS : KIND_UNKNOWN;
	} else if (!stat(path, &st) && S_ISDIR(st.st_mode) && kind_of_folder(path, &kind, &e)) {
		judge(v, path, &e);
		return;
	}
	v->depth++;
	if (kind == KIND_SHARDS)
		check_shards(v, path);
	else if (kind == KIND_MODEL || kind == KIND_TRAIN || kind == KIND_FOLDER)
		check_folder(v, path, kind);
	else
		check_thing(v, path, kind);
	v->depth--;
}

int verify_path(const char *path, const struct verify_options *o)
{
	struct verifier v = {.o = o};

	visit(&v, path);
	if (!v.known && !v.problems)
		tell_new(&v, ERR_DATA, path, "not a file or folder that these programs read");
	return v.problems;
}
