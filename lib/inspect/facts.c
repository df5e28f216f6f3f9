/* Collects facts about single files: safetensors, PyTorch files, npy, npz, shards, tables, pictures. */
#include "inspect/facts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/seal.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/flac.h"
#include "file/notfinite.h"
#include "file/npy.h"
#include "file/safetensors.h"
#include "file/shard.h"
#include "file/stamp.h"
#include "file/standing.h"
#include "file/still.h"
#include "file/torchfile.h"
#include "file/tsv.h"
#include "file/weightfile.h"
#include "inspect/soundtally.h"

static const size_t TABLE_MOST = (size_t)1 << 27; /* largest table read whole without --check */

enum { CLUSTERS_MOST = 1 << 20, CLUSTERS_ALL = 4096, LINE_MOST = 1 << 24 };

void facts_i64(json_t *o, const char *key, int64_t v)
{
	json_object_set_new(o, key, json_integer(v));
}

void facts_text(json_t *o, const char *key, const char *text)
{
	json_object_set_new(o, key, jsonio_text(text));
}

void facts_copy(json_t *o, const char *key, const json_t *v)
{
	if (v && !json_is_null(v))
		json_object_set(o, key, (json_t *)(uintptr_t)v);
}

void facts_stamp(json_t *o, const char *line)
{
	json_t *v = line ? json_loads(line, JSON_REJECT_DUPLICATES, NULL) : NULL;

	if (json_is_object(v) && json_object_size(v))
		json_object_set(o, "stamp", v);
	else if (line && !v)
		json_object_set_new(o, "stamp", jsonio_text(line));
	json_decref(v);
}

json_t *facts_shape(int rank, const int64_t *shape)
{
	json_t *v = json_array();

	for (int i = 0; i < rank; i++)
		json_array_append_new(v, json_integer(shape[i]));
	return v;
}

static json_t *tensor_json(const struct st_tensor *t)
{
	json_t *o = json_object();

	json_object_set_new(o, "name", jsonio_text(t->name));
	json_object_set_new(o, "type", json_string(st_type_name(t->type)));
	json_object_set_new(o, "shape", facts_shape(t->rank, t->shape));
	facts_i64(o, "bytes", st_count(t) * (int64_t)st_type_size(t->type));
	return o;
}

static void tensors_facts(json_t *o, int n, const struct st_tensor *(*get)(const void *of, int i), const void *of, const struct facts_options *f)
{
	json_t *types = json_object(), *list = json_array();
	int64_t elements = 0, bytes = 0;

	for (int i = 0; i < n; i++) {
		const struct st_tensor *t = get(of, i);
		const char *type = st_type_name(t->type);

		elements += st_count(t);
		bytes += st_count(t) * (int64_t)st_type_size(t->type);
		facts_i64(types, type, json_integer_value(json_object_get(types, type)) + 1);
		if (f->full)
			json_array_append_new(list, tensor_json(t));
	}
	facts_i64(o, "tensors", n);
	facts_i64(o, "parameters", elements);
	json_object_set_new(o, "types", types);
	facts_i64(o, "data_bytes", bytes);
	if (f->full)
		json_object_set(o, "list", list);
	json_decref(list);
}

static const struct st_tensor *get_st(const void *of, int i)
{
	return st_get(of, i);
}

int facts_safetensors(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e)
{
	struct safetensors *st = st_open_memory(s->data, s->len, s->name, e);
	int64_t bad = 0;
	json_t *texts;

	if (!st)
		return -1;
	tensors_facts(o, st_tensors(st), get_st, st, f);
	for (int i = 0; f->check && i < st_tensors(st); i++)
		bad += st_not_finite(st_get(st, i));
	if (f->check)
		facts_i64(o, "not_finite", bad);
	texts = json_object();
	for (int i = 0; i < st_texts(st); i++)
		if (strcmp(st_text(st, i)->key, "stamp") && strcmp(st_text(st, i)->key, "seal"))
			json_object_set_new(texts, st_text(st, i)->key, jsonio_text(st_text(st, i)->value));
	if (json_object_size(texts))
		json_object_set(o, "metadata", texts);
	json_decref(texts);
	facts_stamp(o, st_meta(st, "stamp"));
	st_free(st);
	return f->check ? st_check_seal(s->data, s->len, s->name, e) : 0;
}

static const struct st_tensor *get_torch(const void *of, int i)
{
	return torch_get(of, i);
}

int facts_torch(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e)
{
	struct torchfile *t = torch_open_memory(s->data, s->len, s->name, NULL, e);
	const char *what;
	json_t *members;
	int64_t bad;
	int rc = 0;

	if (!t)
		return -1;
	json_object_set_new(o, "layout", json_string(torch_is_zip(t) ? "zip" : "legacy"));
	members = torch_members(t);
	if (members)
		json_object_set_new(o, "members", members);
	if (*torch_root(t))
		json_object_set_new(o, "tensors_of", json_string(torch_root(t)));
	tensors_facts(o, torch_tensors(t), get_torch, t, f);
	if (torch_skipped(t, &what)) {
		facts_i64(o, "not_read", torch_skipped(t, &what));
		json_object_set_new(o, "for_example", jsonio_text(what));
	}
	if (f->check) {
		rc = torch_verify(t, &bad, e);
		if (!rc)
			facts_i64(o, "not_finite", bad);
	}
	torch_free(t);
	return rc;
}

static const struct st_tensor *get_weights(const void *of, int i)
{
	return weightfile_get(of, i);
}

int facts_weights(json_t *o, const char *path, const struct facts_options *f, struct err *e)
{
	struct weightfile *w = weightfile_open(path, NULL, e);
	json_t *files;
	int64_t bad;
	int rc = 0;

	if (!w)
		return -1;
	files = json_array();
	for (int i = 0; i < weightfile_files(w); i++) {
		const char *slash = strrchr(weightfile_file(w, i), '/');

		json_array_append_new(files, jsonio_text(slash ? slash + 1 : weightfile_file(w, i)));
	}
	json_object_set_new(o, "files", files);
	tensors_facts(o, weightfile_count(w), get_weights, w, f);
	if (f->check) {
		rc = weightfile_verify(w, &bad, e);
		if (!rc)
			facts_i64(o, "not_finite", bad);
	}
	weightfile_free(w);
	return rc;
}

static void array_facts(json_t *o, const struct npy *a)
{
	char code[8];

	snprintf(code, sizeof code, "%s%s", a->swapped ? ">" : "", npy_type_code(a->type) + a->swapped);
	json_object_set_new(o, "type", json_string(code));
	json_object_set_new(o, "shape", facts_shape(a->rank, a->shape));
	facts_i64(o, "elements", npy_count(a));
	if (a->fortran)
		json_object_set_new(o, "order", json_string("column-major"));
}

/* Facts from the sidecar PATH.json. */
static int sidecar_facts(json_t *o, const char *path, struct err *e)
{
	char *side = path ? str_new("%s.json", path) : NULL;
	json_t *v = NULL;
	int rc = 0;

	if (side && path_exists(side)) {
		v = jsonio_load(side, e);
		rc = v ? 0 : -1;
		if (v) {
			json_object_del(v, "seal");
			json_object_del(v, "data-xxh3");
			json_object_set(o, "stamp", v);
		}
	}
	json_decref(v);
	mem_free(side);
	return rc;
}

int facts_npy(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e)
{
	struct npy a;

	if (npy_parse(&a, s->data, s->len, s->name, e))
		return -1;
	array_facts(o, &a);
	if (f->check && (a.type == NPY_F4 || a.type == NPY_F8 || a.type == NPY_F2))
		facts_i64(o, "not_finite", npy_not_finite(&a));
	return sidecar_facts(o, s->path, e) || (f->check && s->path && stamp_sidecar_check(s->path, s->data, s->len, e)) ? -1 : 0;
}

int facts_flac(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e)
{
	(void)f;
	return sound_facts(o, s->data, s->len, s->name, e);
}

int facts_other(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e)
{
	return sidecar_facts(o, s->path, e) || (f->check && stamp_sidecar_check(s->path, s->data, s->len, e)) ? -1 : 0;
}

int facts_npz(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e)
{
	struct npz *z = (f->check ? npz_parse : npz_peek)(s->data, s->len, s->name, e);
	json_t *list;

	if (!z)
		return -1;
	list = json_array();
	for (int i = 0; i < npz_entries(z); i++) {
		json_t *v = json_object();

		json_object_set_new(v, "name", jsonio_text(npz_name(z, i)));
		array_facts(v, npz_get(z, i));
		json_array_append_new(list, v);
	}
	json_object_set_new(o, "arrays", list);
	npz_free(z);
	return 0;
}

/* Facts about the members of the first sample, as an example of the others. */
static int first_sample(json_t *o, struct shard *s, struct err *e)
{
	json_t *list = json_array();
	struct shard_sample x;
	struct still_facts f;

	if (shard_read(s, 0, &x, e)) {
		json_decref(list);
		return -1;
	}
	for (int i = 0; i < x.members; i++) {
		const struct shard_member *m = x.member + i;
		json_t *v = json_object();

		json_object_set_new(v, "member", jsonio_text(m->ext));
		facts_i64(v, "bytes", (int64_t)m->size);
		if (still_sniff(m->data, m->size) != STILL_UNKNOWN && !still_probe(&f, m->data, m->size, m->ext, NULL)) {
			facts_i64(v, "width", f.width);
			facts_i64(v, "height", f.height);
		}
		if (flac_sniff(m->data, m->size))
			sound_facts(v, m->data, m->size, m->ext, NULL);
		json_array_append_new(list, v);
	}
	json_object_set_new(o, "first_sample", list);
	shard_sample_release(&x);
	return 0;
}

int facts_shard(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e)
{
	struct shard *h = shard_open(s->path, e);
	struct shard_totals t;
	struct str key = {0};
	char content[17];
	int rc = 0;

	if (!h)
		return -1;
	shard_totals(h, &t);
	facts_i64(o, "samples", (int64_t)t.samples);
	facts_i64(o, "frames", (int64_t)t.frames);
	facts_i64(o, "tar_bytes", (int64_t)t.plain);
	snprintf(content, sizeof content, "%016" PRIx64, t.content);
	json_object_set_new(o, "content", json_string(content));
	if (t.samples) {
		json_object_set_new(o, "first", jsonio_text(shard_key(h, 0, &key)));
		json_object_set_new(o, "last", jsonio_text(shard_key(h, (int64_t)t.samples - 1, &key)));
		rc = first_sample(o, h, e);
	}
	facts_stamp(o, shard_stamp(h));
	if (f->full) {
		json_t *keys = json_array();

		for (int64_t i = 0; i < (int64_t)t.samples; i++)
			json_array_append_new(keys, jsonio_text(shard_key(h, i, &key)));
		json_object_set_new(o, "keys", keys);
	}
	if (!rc && f->check)
		rc = shard_verify(h, e) || notfinite_shard(h, s->name, e) ? -1 : 0;
	str_release(&key);
	shard_free(h);
	return rc;
}

/* Rows and held-out rows of each cluster. If there are very many clusters, empty ones are left out, because a single row may name any number. */
static int cluster_facts(json_t *o, const struct tsv *t, int column, struct err *e)
{
	json_t *stamp = json_loads(tsv_stamp(t), 0, NULL), *names = json_object_get(stamp, "cluster_names");
	int split = tsv_column(t, "split");
	json_t *list = json_array();
	int64_t n = tsv_rows(t), k = 0, v, *count;

	for (int64_t i = 0; i < n; i++) {
		if (tsv_i64(t, i, column, 0, CLUSTERS_MOST - 1, &v, e)) {
			json_decref(stamp);
			json_decref(list);
			return -1;
		}
		k = v >= k ? v + 1 : k;
	}
	count = mem_zalloc((size_t)k * 2, sizeof *count);
	for (int64_t i = 0; i < n; i++) {
		tsv_i64(t, i, column, 0, CLUSTERS_MOST - 1, &v, NULL);
		count[2 * v]++;
		count[2 * v + 1] += split >= 0 && !strcmp(tsv_get(t, i, split), "holdout");
	}
	for (int64_t c = 0; c < k; c++) {
		json_t *x;

		if (k > CLUSTERS_ALL && !count[2 * c])
			continue;
		x = json_object();
		facts_i64(x, "cluster", c);
		if (json_is_string(json_array_get(names, (size_t)c)))
			json_object_set(x, "name", json_array_get(names, (size_t)c));
		facts_i64(x, "rows", count[2 * c]);
		json_object_set_new(x, "share", json_real((double)count[2 * c] / (double)n));
		if (split >= 0)
			facts_i64(x, "held_out", count[2 * c + 1]);
		json_array_append_new(list, x);
	}
	json_object_set_new(o, "clusters", list);
	json_decref(stamp);
	mem_free(count);
	return 0;
}

static int whole_table(json_t *o, const struct facts_source *s, struct err *e)
{
	struct tsv *t = tsv_parse(s->data, s->len, s->name, e);
	int cluster, rc = 0;
	json_t *names;

	if (!t)
		return -1;
	names = json_array();
	for (int i = 0; i < tsv_columns(t); i++)
		json_array_append_new(names, jsonio_text(tsv_name(t, i)));
	json_object_set_new(o, "columns", names);
	facts_i64(o, "rows", tsv_rows(t));
	cluster = tsv_column(t, "cluster");
	if (cluster >= 0)
		rc = cluster_facts(o, t, cluster, e);
	json_object_set_new(o, "sha256", json_string(tsv_sha256(t)));
	json_object_set_new(o, "end", json_string("whole: rows and hash are right"));
	facts_stamp(o, tsv_stamp(t));
	tsv_free(t);
	return rc;
}

int facts_table_ends(json_t *o, const struct facts_source *s, struct err *e)
{
	const char *text = (const char *)s->data, *second = memchr(text, '\n', s->len), *third, *last;
	char *names, *stamp;
	long long rows = -1;

	third = second ? memchr(second + 1, '\n', s->len - (size_t)(second + 1 - text)) : NULL;
	if (!third || text[s->len - 1] != '\n' || !(last = memrchr(text, '\n', s->len - 1)) || strncmp(last, "\n#end ", 6) ||
	    sscanf(last + 6, "%lld", &rows) != 1)
		return err_set(e, ERR_DATA, "%s: truncated: the last line is not '#end ...'", s->name);
	if (third - text > LINE_MOST)
		return err_set(e, ERR_DATA, "%s: a stamp of more than %d bytes", s->name, LINE_MOST);
	names = str_new("%.*s", (int)(second - text - 1), text + 1);
	stamp = str_new("%.*s", (int)(third - second - (int)strlen("\n#stamp ")), second + strlen("\n#stamp "));
	json_object_set_new(o, "columns", jsonio_text(names));
	facts_i64(o, "rows", rows);
	json_object_set_new(o, "end", json_string("there; too large to be hashed without --check"));
	facts_stamp(o, stamp);
	mem_free(names);
	mem_free(stamp);
	return 0;
}

int facts_table(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e)
{
	return f->check || s->len <= TABLE_MOST ? whole_table(o, s, e) : facts_table_ends(o, s, e);
}

int facts_still(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e)
{
	static const char *const formats[] = {[STILL_JPEG] = "JPEG", [STILL_PNG] = "PNG", [STILL_WEBP] = "WebP"};
	struct picture p = {0};
	struct still_facts v;
	char *text;
	int rc = 0;

	if (still_probe(&v, s->data, s->len, s->name, e))
		return -1;
	json_object_set_new(o, "format", json_string(formats[v.kind]));
	facts_i64(o, "width", v.width);
	facts_i64(o, "height", v.height);
	json_object_set_new(o, "mode", json_string(v.mode));
	facts_i64(o, "bits", v.bits);
	if (v.gradual)
		json_object_set_new(o, v.kind == STILL_PNG ? "interlaced" : "progressive", json_true());
	if (v.frames != 1)
		facts_i64(o, "frames", v.frames);
	if (v.orientation) {
		facts_i64(o, "orientation", v.orientation);
		json_object_set_new(o, "upright",
		                    json_pack("[i, i]", v.orientation > 4 ? v.height : v.width, v.orientation > 4 ? v.width : v.height));
	}
	text = still_png_text(s->data, s->len, "Software");
	if (text)
		json_object_set_new(o, "software", jsonio_text(text));
	mem_free(text);
	text = still_png_text(s->data, s->len, "ddm");
	facts_stamp(o, text);
	mem_free(text);
	if (f->check)
		rc = still_decode(&p, s->data, s->len, s->name, 3, NULL, e);
	picture_release(&p);
	return rc;
}

/* A file without a seal is from an earlier version. Then only the end of its syntax is checked. */
int facts_markup(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e)
{
	char *line = s->path ? standing_stamp(s->path, NULL) : NULL;
	int rc = f->check ? seal_check_markup(s->data, s->len, s->name, e) : 0;

	facts_stamp(o, line);
	mem_free(line);
	if (rc > 0 && !memmem(s->data + s->len - (s->len < 16 ? s->len : 16), s->len < 16 ? s->len : 16, "</", 2))
		rc = err_set(e, ERR_DATA, "%s: truncated: the end of the document is missing", s->name);
	return rc < 0 ? -1 : 0;
}
