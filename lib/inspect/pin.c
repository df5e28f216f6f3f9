/* Writes and checks tables of pins. */
#include "inspect/pin.h"

#include <string.h>
#include <sys/stat.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "data/samples.h"
#include "file/fileio.h"
#include "file/kind.h"
#include "file/tsv.h"

/* The files of a model that are not part of what it computes: its checkpoints and logs. */
static int is_of_training(const char *name)
{
	return *name == '.' || !strcmp(name, "train") || str_ends(name, ".jsonl");
}

/* Add the names and bytes of the files in a folder to the hash. `below` is the folder's path from where the hash begins, "" or "expert_0/". */
static int add_folder(struct sha256 *h, const char *path, const char *below, struct err *e)
{
	char **names;
	size_t n;
	int rc = dir_list(path, &names, &n, e);

	if (rc)
		return -1;
	for (size_t i = 0; i < n && !rc; i++) {
		char *file = path_join(path, names[i]), *name = str_new("%s%s", below, names[i]), *inner = str_new("%s/", name), hex[65];
		struct stat st;

		if (is_of_training(names[i])) {
			;
		} else if (stat(file, &st)) {
			rc = err_errno(e, "%s", file);
		} else if (S_ISDIR(st.st_mode)) {
			rc = add_folder(h, file, inner, e);
		} else if (!(rc = sha256_file(file, hex, NULL, e))) {
			sha256_add(h, name, strlen(name) + 1);
			sha256_add(h, hex, sizeof hex);
		}
		mem_free(file);
		mem_free(name);
		mem_free(inner);
	}
	names_free(names, n);
	return rc;
}

static int hash_model(const char *path, char hex[65], struct err *e)
{
	struct sha256 h;
	int rc;

	sha256_init(&h);
	rc = add_folder(&h, path, "", e);
	sha256_end(&h, hex);
	return rc;
}

static int hash_shards(const char *path, char hex[65], struct err *e)
{
	char *manifest = path_join(path, "MANIFEST.tsv");
	int rc = sha256_file(manifest, hex, NULL, e);

	mem_free(manifest);
	return rc;
}

static int hash_samples(const char *path, char hex[65], struct err *e)
{
	struct samples_options so = {.once = 1};
	struct samples *x = samples_open(&path, 1, &so, e);
	struct sample sample;
	int rc = -1;

	while (x && (rc = samples_next(x, &sample, e)) == 1)
		;
	if (!rc)
		samples_digest(x, hex);
	samples_close(x);
	return rc;
}

/* The kind of what is at a path, and its hash. */
static int identify(const char *path, const char **kind, char hex[65], struct err *e)
{
	enum kind folder;
	struct stat st;

	if (stat(path, &st))
		return err_errno(e, "%s", path);
	if (!S_ISDIR(st.st_mode)) {
		*kind = "file";
		return sha256_file(path, hex, NULL, e);
	}
	if (kind_of_folder(path, &folder, e))
		return -1;
	switch (folder) {
	case KIND_SHARDS:
		*kind = "shards";
		return hash_shards(path, hex, e);
	case KIND_MODEL:
	case KIND_PIPELINE:
	case KIND_NETWORK:
		*kind = "model";
		return hash_model(path, hex, e);
	case KIND_FOLDER:
		*kind = "samples";
		return hash_samples(path, hex, e);
	default:
		return err_set(e, ERR_DATA, "%s: only files, shards, models and folders of samples can be pinned", path);
	}
}

struct pin {
	const char *kind;
	char hex[65];
};

static int write_table(const char *const *path, const struct pin *pin, int n, struct err *e)
{
	static const char *const columns[] = {"path", "kind", "sha256"};
	struct stamp *s = stamp_new("ddm-info");
	struct tsv_writer *t = tsv_create("-", columns, 3, s, e);
	int rc = t ? 0 : -1;

	stamp_free(s);
	for (int i = 0; i < n && !rc; i++) {
		tsv_put(t, path[i]);
		tsv_put(t, pin[i].kind);
		tsv_put(t, pin[i].hex);
		rc = tsv_row(t, e);
	}
	if (rc)
		tsv_abort(t);
	return rc ? -1 : tsv_commit(t, e);
}

/* Nothing is written unless everything can be pinned. */
int pin_write(const char *const *path, int n, struct err *e)
{
	struct pin *pin = mem_zalloc((size_t)n, sizeof *pin);
	int rc = 0;

	for (int i = 0; i < n && !rc; i++)
		rc = identify(path[i], &pin[i].kind, pin[i].hex, e);
	if (!rc)
		rc = write_table(path, pin, n, e);
	mem_free(pin);
	return rc;
}

/* Check one row. */
static int verify_row(const struct tsv *t, int64_t row, const char *table, struct err *e)
{
	const char *path = tsv_get(t, row, 0), *want = tsv_get(t, row, 1), *was = tsv_get(t, row, 2), *kind;
	char hex[65];

	if (identify(path, &kind, hex, e))
		return -1;
	if (!strcmp(kind, want) && !strcmp(hex, was))
		return 0;
	return err_set(e, ERR_DATA, "%s: it is %s %.16s, but %s pins %s %.16s", path, kind, hex, table, want, was);
}

static int is_table_of_pins(const struct tsv *t, const char *name, struct err *e)
{
	if (tsv_columns(t) == 3 && tsv_column(t, "path") == 0 && tsv_column(t, "kind") == 1 && tsv_column(t, "sha256") == 2)
		return 1;
	err_set(e, ERR_DATA, "%s: it is not a table of pins, with the columns path, kind and sha256", name);
	return 0;
}

int pin_verify(const char *table, const struct verify_options *o)
{
	struct err e = {0};
	struct tsv *t = tsv_load(table, &e);
	int problems = 0;

	if (!t || !is_table_of_pins(t, table, &e)) {
		o->problem(o->arg, &e);
		tsv_free(t);
		return 1;
	}
	for (int64_t i = 0; i < tsv_rows(t); i++) {
		e = (struct err){0};
		if (verify_row(t, i, table, &e)) {
			o->problem(o->arg, &e);
			problems++;
		} else if (o->sound) {
			o->sound(o->arg, tsv_get(t, i, 0));
		}
	}
	tsv_free(t);
	return problems;
}
