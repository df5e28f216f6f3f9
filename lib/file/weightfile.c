/* Finds and opens the weights of a network in any supported format. */
#include "file/weightfile.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/shortfloat.h"
#include "core/str.h"
#include "file/filehash.h"
#include "file/fileio.h"
#include "file/kind.h"
#include "file/nametable.h"
#include "file/npy.h"
#include "file/torchfile.h"

enum { FILES_MOST = 4096, PIECE = 4096, TENSORS_MOST = 1 << 22 };

/* One file: one of the three. */
struct part {
	struct filemap map;
	int sealed; /* it is a safetensors file, which may have a seal */
	struct safetensors *st;
	struct torchfile *torch;
	struct npz *npz;
};

/* Where a tensor comes from. */
struct source {
	int part, index;
};

struct weightfile {
	char *path;
	struct part *part;
	int parts;
	char **file; /* [files]: those of the parts are the last */
	int files;
	struct st_tensor *tensor;
	struct source *source;
	int n, cap;
	struct nametable names;
	struct safetensors *all; /* weightfile_tensors */
	void **copy;             /* [copies] for it */
	int copies;
};

static int part_count(const struct part *p)
{
	return p->st ? st_tensors(p->st) : p->torch ? torch_tensors(p->torch) : npz_entries(p->npz);
}

/* numpy's types are among those of safetensors. */
static enum st_type npz_type(enum npy_type t)
{
	static const enum st_type types[] = {
	    [NPY_F4] = ST_F32, [NPY_F8] = ST_F64, [NPY_F2] = ST_F16, [NPY_I8] = ST_I64, [NPY_I4] = ST_I32, [NPY_I2] = ST_I16,
	    [NPY_I1] = ST_I8,  [NPY_U1] = ST_U8,  [NPY_U2] = ST_U16, [NPY_U4] = ST_U32, [NPY_U8] = ST_U64};

	return types[t];
}

static struct st_tensor part_get(const struct part *p, int i)
{
	struct st_tensor t = {0};
	const struct npy *a;

	if (p->st)
		return *st_get(p->st, i);
	if (p->torch)
		return *torch_get(p->torch, i);
	a = npz_get(p->npz, i);
	t = (struct st_tensor){.name = npz_name(p->npz, i),
	                       .type = npz_type(a->type),
	                       .rank = a->rank,
	                       .data = a->swapped || (a->fortran && a->rank > 1) ? NULL : a->data};
	memcpy(t.shape, a->shape, sizeof t.shape);
	return t;
}

static int open_part(struct part *p, const char *path, const char *root, struct err *e)
{
	enum kind kind;

	if (filemap_open(&p->map, path, e))
		return -1;
	kind = kind_of_bytes(p->map.data, p->map.len);
	if (kind == KIND_TORCH) {
		p->torch = torch_open_memory(p->map.data, p->map.len, path, root, e);
		return p->torch ? 0 : -1;
	}
	if (root && *root)
		return err_set(e, ERR_USAGE, "%s: has no part '%s': only files of PyTorch have parts", path, root);
	if (kind == KIND_NPZ)
		p->npz = npz_parse(p->map.data, p->map.len, path, e);
	else if (kind == KIND_SAFETENSORS || str_ends(path, ".safetensors"))
		p->sealed = (p->st = st_open_memory(p->map.data, p->map.len, path, e)) != NULL;
	else
		return err_set(e, ERR_DATA, "%s: neither safetensors nor a file of PyTorch's", path);
	return p->npz || p->st ? 0 : -1;
}

static int add_tensor(struct weightfile *w, int part, int index, const char *name, struct err *e)
{
	if (w->n == w->cap) {
		w->cap = w->cap ? 2 * w->cap : 64;
		w->tensor = mem_resize(w->tensor, (size_t)w->cap, sizeof *w->tensor);
		w->source = mem_resize(w->source, (size_t)w->cap, sizeof *w->source);
	}
	if (nametable_add(&w->names, name, strlen(name), w->n) >= 0)
		return err_set(e, ERR_DATA, "%s: two tensors named '%.200s'", w->path, name);
	w->tensor[w->n] = part_get(w->part + part, index);
	w->source[w->n++] = (struct source){part, index};
	return 0;
}

static void add_file(struct weightfile *w, const char *path)
{
	w->file = mem_resize(w->file, (size_t)w->files + 1, sizeof(char *));
	w->file[w->files++] = mem_strdup(path);
}

static int open_single(struct weightfile *w, const char *root, struct err *e)
{
	add_file(w, w->path);
	w->part = mem_zalloc(1, sizeof *w->part);
	w->parts = 1;
	if (open_part(w->part, w->path, root, e))
		return -1;
	for (int i = 0; i < part_count(w->part); i++)
		if (add_tensor(w, 0, i, part_get(w->part, i).name, e))
			return -1;
	return 0;
}

/* Whether a name is a plain file name without a folder. */
static int is_plain(const char *name)
{
	return *name && strcmp(name, ".") && strcmp(name, "..") && !strchr(name, '/') && strlen(name) < 256;
}

/* The part of a file named in the index; opened at its first use. */
static int part_of(struct weightfile *w, struct nametable *seen, const char *dir, const char *name, const char *root, struct err *e)
{
	int have = nametable_find(seen, name, strlen(name)), rc;
	char *path;

	if (have >= 0)
		return have;
	if (!is_plain(name))
		return err_set(e, ERR_DATA, "%s: the part '%.300s' is not a file of this folder", w->path, name);
	if (w->parts == FILES_MOST)
		return err_set(e, ERR_DATA, "%s: more than %d parts", w->path, FILES_MOST);
	path = path_join(dir, name);
	add_file(w, path);
	w->part = mem_resize(w->part, (size_t)w->parts + 1, sizeof *w->part);
	w->part[w->parts] = (struct part){0};
	nametable_add(seen, name, strlen(name), w->parts);
	rc = open_part(w->part + w->parts++, path, root, e);
	mem_free(path);
	return rc ? -1 : w->parts - 1;
}

/* Tensors of one part by name. */
static int index_in_part(const struct part *p, struct nametable *t, const char *name)
{
	if (!t->n)
		for (int i = 0; i < part_count(p); i++) {
			struct st_tensor x = part_get(p, i);

			nametable_add(t, x.name, strlen(x.name), i);
		}
	return nametable_find(t, name, strlen(name));
}

static int take_map(struct weightfile *w, const json_t *map, const char *root, struct err *e)
{
	const char *slash = strrchr(w->path, '/'), *name;
	char *dir = slash ? mem_strndup(w->path, (size_t)(slash - w->path)) : NULL;
	struct nametable seen = {0}, *tables = mem_zalloc(FILES_MOST, sizeof *tables);
	json_t *v;
	int rc = 0;

	/* The index has the names as they are in the parts. */
	root = root ? root : "";
	json_object_foreach ((json_t *)(uintptr_t)map, name, v) {
		const char *file = json_string_value(v);
		int part = file ? part_of(w, &seen, dir && !*dir ? "/" : dir, file, root, e) : -1, i;

		rc = part < 0 ? err_set(e, ERR_DATA, "%s: \"weight_map\" gives no file for '%.200s'", w->path, name) : 0;
		if (rc)
			break;
		i = index_in_part(w->part + part, tables + part, name);
		rc = i < 0 ? err_set(e, ERR_DATA, "%s: no tensor '%.200s', although the index says so", w->file[part + 1], name)
		           : add_tensor(w, part, i, part_get(w->part + part, i).name, e);
		if (rc)
			break;
	}
	for (int i = 0; i < w->parts; i++)
		nametable_release(tables + i);
	nametable_release(&seen);
	mem_free(tables);
	mem_free(dir);
	return rc;
}

static int open_index(struct weightfile *w, const char *root, struct err *e)
{
	json_t *o = jsonio_load(w->path, e), *map = json_object_get(o, "weight_map");
	int rc = -1;

	add_file(w, w->path);
	if (o && !json_is_object(map))
		err_set(e, ERR_DATA, "%s: no \"weight_map\"", w->path);
	else if (o)
		rc = take_map(w, map, root, e);
	json_decref(o);
	return rc;
}

struct weightfile *weightfile_open(const char *path, const char *root, struct err *e)
{
	struct weightfile *w = mem_zalloc(1, sizeof *w);
	struct stat st;

	w->path = !stat(path, &st) && S_ISDIR(st.st_mode) ? weightfile_locate(path, NULL, e) : mem_strdup(path);
	if (w->path && !(str_ends(w->path, ".index.json") ? open_index : open_single)(w, root, e))
		return w;
	weightfile_free(w);
	return NULL;
}

void weightfile_free(struct weightfile *w)
{
	if (!w)
		return;
	st_free(w->all);
	for (int i = 0; i < w->copies; i++)
		mem_free(w->copy[i]);
	mem_free(w->copy);
	for (int i = 0; i < w->parts; i++) {
		st_free(w->part[i].st);
		torch_free(w->part[i].torch);
		npz_free(w->part[i].npz);
		filemap_close(&w->part[i].map);
	}
	for (int i = 0; i < w->files; i++)
		mem_free(w->file[i]);
	mem_free(w->part);
	mem_free(w->file);
	mem_free(w->tensor);
	mem_free(w->source);
	nametable_release(&w->names);
	mem_free(w->path);
	mem_free(w);
}

/* The only file of an ending that people choose names for. */
static char *only_file(const char *dir, struct err *e)
{
	static const char *const ends[] = {".pt", ".pth", ".ckpt"};
	const char *found = NULL, *other = NULL;
	char **names, *path = NULL;
	size_t n;

	if (dir_list(dir, &names, &n, e))
		return NULL;
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
			if (str_ends(names[i], ends[k])) {
				other = found;
				found = names[i];
			}
	if (other)
		err_set(e, ERR_DATA, "%s: has both %s and %s: name the file", dir, other, found);
	else if (found)
		path = path_join(dir, found);
	else
		err_set(e, ERR_NOINPUT, "%s: no diffusion_pytorch_model, model or pytorch_model (.safetensors, .bin), and no .pt", dir);
	names_free(names, n);
	return path;
}

char *weightfile_locate(const char *dir, const char *first, struct err *e)
{
	static const char *const names[] = {"diffusion_pytorch_model", "model", "pytorch_model"};
	static const char *const ends[] = {".safetensors", ".safetensors.index.json", ".bin", ".bin.index.json"};
	char *path;

	if (first) {
		path = path_join(dir, first);
		if (path_exists(path))
			return path;
		mem_free(path);
	}
	for (int i = 0; i < 4; i++)
		for (int k = 0; k < 3; k++) {
			path = str_new("%s/%s%s", dir, names[k], ends[i]);
			if (path_exists(path))
				return path;
			mem_free(path);
		}
	return only_file(dir, e);
}

int weightfile_count(const struct weightfile *w)
{
	return w->n;
}

const struct st_tensor *weightfile_get(const struct weightfile *w, int i)
{
	return w->tensor + i;
}

int weightfile_find(const struct weightfile *w, const char *name)
{
	return nametable_find(&w->names, name, strlen(name));
}

static int absent(const struct weightfile *w, const char *name, struct err *e)
{
	char *what = w->parts == 1 && w->part->torch ? torch_describe(w->part->torch, name) : NULL;

	if (what)
		err_set(e, ERR_DATA, "%s: '%s' is %s, not a supported tensor", w->path, name, what);
	else
		err_set(e, ERR_DATA, "%s: no tensor '%s'", w->path, name);
	mem_free(what);
	return -1;
}

int weightfile_need(const struct weightfile *w, const char *name, int rank, const int64_t *shape, struct err *e)
{
	int i = weightfile_find(w, name);

	if (i < 0)
		return absent(w, name, e);
	return st_fits(w->tensor + i, rank, shape, w->path, e) ? -1 : i;
}

const char *weightfile_meta(const struct weightfile *w, const char *key)
{
	return w->parts == 1 && w->files == 1 && w->part->st ? st_meta(w->part->st, key) : NULL;
}

/* Elements [from, from + count) as they are, in the machine's order. */
static int gather(struct weightfile *w, int i, int64_t from, int64_t count, void *out, struct err *e)
{
	const struct source *s = w->source + i;
	const struct st_tensor *t = w->tensor + i;

	if (t->data) {
		size_t size = st_type_size(t->type);

		memcpy(out, (const uint8_t *)t->data + (size_t)from * size, (size_t)count * size);
		return 0;
	}
	return torch_gather(w->part[s->part].torch, s->index, from, count, out, e);
}

/* Read in pieces; out[st_count] receives the floats. */
static int convert(struct weightfile *w, int i, float *out, struct err *e)
{
	struct st_tensor piece = {.type = w->tensor[i].type, .rank = 1};
	int64_t count = st_count(w->tensor + i);
	uint64_t raw[PIECE];

	piece.data = raw;
	for (int64_t at = 0; at < count; at += piece.shape[0]) {
		piece.shape[0] = count - at < PIECE ? count - at : PIECE;
		if (gather(w, i, at, piece.shape[0], raw, e))
			return -1;
		st_to_f32(out + at, &piece);
	}
	return 0;
}

/* NULL where tensor i is not numpy's way of laying out. */
static const struct npy *odd_array(const struct weightfile *w, int i)
{
	const struct part *p = w->part + w->source[i].part;

	return p->npz && !w->tensor[i].data ? npz_get(p->npz, w->source[i].index) : NULL;
}

int weightfile_f32(struct weightfile *w, int i, float *out, struct err *e)
{
	if (odd_array(w, i)) {
		npy_to_f32(out, odd_array(w, i));
		return 0;
	}
	if (!w->tensor[i].data)
		return convert(w, i, out, e);
	st_to_f32(out, w->tensor + i);
	return 0;
}

/* The limit on memory for copies: the most that the files can inflate to, or a gigabyte. */
static int64_t copies_most(const struct weightfile *w)
{
	int64_t most = 0;

	for (int i = 0; i < w->parts; i++)
		most += 1100 * (int64_t)w->part[i].map.len;
	return most > (int64_t)1 << 30 ? most : (int64_t)1 << 30;
}

/* As floats where the type is numpy's in an order that only numpy's reader knows, else as it is. */
static int copy_tensor(struct weightfile *w, int i, struct st_tensor *t, int64_t *left, struct err *e)
{
	int odd = odd_array(w, i) != NULL;
	int64_t n = st_count(t);
	void *p;

	t->type = odd ? ST_F32 : t->type;
	if (n * (int64_t)st_type_size(t->type) > *left)
		return err_set(e, ERR_DATA, "%s: tensor '%s' of %lld elements is expanded too far from the data of the file", w->path, t->name,
		               (long long)n);
	*left -= n * (int64_t)st_type_size(t->type);
	p = mem_try((size_t)n, st_type_size(t->type), t->name, e);
	if (!p)
		return -1;
	w->copy[w->copies++] = p;
	t->data = p;
	return odd ? weightfile_f32(w, i, p, e) : gather(w, i, 0, n, p, e);
}

const struct safetensors *weightfile_tensors(struct weightfile *w, struct err *e)
{
	struct st_tensor *t;
	int64_t left = copies_most(w);
	int rc = 0;

	if (w->all)
		return w->all;
	if (w->files == 1 && w->part->st)
		return w->part->st;
	t = mem_zalloc((size_t)w->n, sizeof *t);
	w->copy = mem_zalloc((size_t)w->n, sizeof(void *));
	for (int i = 0; i < w->n && !rc; i++) {
		t[i] = w->tensor[i];
		if (!t[i].data)
			rc = copy_tensor(w, i, t + i, &left, e);
	}
	if (!rc)
		w->all = st_of(t, w->n, w->path, NULL, NULL);
	mem_free(t);
	return w->all;
}

static void release(void *w)
{
	weightfile_free(w);
}

struct safetensors *weightfile_take(struct weightfile *w, struct err *e)
{
	struct safetensors *s = (struct safetensors *)(uintptr_t)weightfile_tensors(w, e);

	if (!s) {
		weightfile_free(w);
		return NULL;
	}
	if (s == w->all)
		w->all = NULL;
	else
		w->part->st = NULL;
	st_own(s, w, release);
	return s;
}

struct safetensors *weightfile_load(const char *path, const char *root, struct err *e)
{
	struct weightfile *w = weightfile_open(path, root, e);

	return w ? weightfile_take(w, e) : NULL;
}

static int check_seals(const struct weightfile *w, struct err *e)
{
	for (int i = 0; i < w->parts; i++)
		if (w->part[i].sealed && st_check_seal(w->part[i].map.data, w->part[i].map.len, w->file[w->files - w->parts + i], e))
			return -1;
	return 0;
}

static int verify_part(struct part *p, int64_t *not_finite, struct err *e)
{
	*not_finite = 0;
	if (p->torch)
		return torch_verify(p->torch, not_finite, e);
	for (int i = 0; i < part_count(p); i++)
		*not_finite += p->st ? st_not_finite(st_get(p->st, i)) : npy_not_finite(npz_get(p->npz, i));
	return 0;
}

int weightfile_verify(struct weightfile *w, int64_t *not_finite, struct err *e)
{
	int64_t one;

	*not_finite = 0;
	if (check_seals(w, e))
		return -1;
	for (int i = 0; i < w->parts; i++) {
		if (verify_part(w->part + i, &one, e))
			return -1;
		*not_finite += one;
	}
	return 0;
}

int weightfile_files(const struct weightfile *w)
{
	return w->files;
}

const char *weightfile_file(const struct weightfile *w, int i)
{
	return w->file[i];
}

int weightfile_hash(const struct weightfile *w, char hex[65], struct err *e)
{
	struct sha256 all;

	if (check_seals(w, e))
		return -1;
	if (w->files == 1)
		return filehash(w->file[0], hex, e);
	sha256_init(&all);
	for (int i = 0; i < w->files; i++) {
		const char *slash = strrchr(w->file[i], '/'), *base = slash ? slash + 1 : w->file[i];

		if (filehash(w->file[i], hex, e))
			return -1;
		sha256_add(&all, hex, 64);
		sha256_add(&all, "  ", 2);
		sha256_add(&all, base, strlen(base));
		sha256_add(&all, "\n", 1);
	}
	sha256_end(&all, hex);
	return 0;
}

int weightfile_hash_at(const char *path, char hex[65], struct err *e)
{
	struct weightfile *w = weightfile_open(path, NULL, e);
	int rc = w ? weightfile_hash(w, hex, e) : -1;

	weightfile_free(w);
	return rc;
}
