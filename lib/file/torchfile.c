/* Reads PyTorch's files: their containers, and tensors from the pickle's tree. */
#include "file/torchfile.h"

#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/torchimpl.h"

enum { PROTOCOL = 1001, HEAD_BYTES = 64, STORAGES_MOST = 1 << 22 };

/* The integer all legacy files begin with, as a pickle has it. */
static const char magic[] = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";

static int is_legacy(const void *data, size_t len)
{
	const uint8_t *p = data;

	return len > 16 && p[0] == 0x80 && memmem(p, len < HEAD_BYTES ? len : HEAD_BYTES, magic, sizeof magic - 1);
}

/* The tar container that torch wrote before 0.2. */
static int is_tar(const uint8_t *p, size_t len)
{
	static const char *const names[] = {"sys_info", "pickle", "tensors", "storages"};

	if (len < 512 || memcmp(p + 257, "ustar", 5))
		return 0;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp((const char *)p, names[i]))
			return 1;
	return 0;
}

/* "archive/data.pkl", of any archive. */
static const struct zip_member *find_pickle(const struct zip *z)
{
	for (int i = 0; i < zip_members(z); i++) {
		const char *name = zip_get(z, i)->name, *slash = strchr(name, '/');

		if (!strcmp(slash ? slash + 1 : name, "data.pkl"))
			return zip_get(z, i);
	}
	return NULL;
}

static int is_zip(const uint8_t *p, size_t len)
{
	struct zip *z;
	int found;

	if (len < 64 || memcmp(p, "PK\3\4", 4))
		return 0;
	z = zip_open(p, len, "", NULL);
	/* A damaged zip is recognised by its first name. */
	found = z ? find_pickle(z) != NULL : memmem(p + 30, 300 < len - 30 ? 300 : len - 30, "data.pkl", 8) != NULL;
	zip_free(z);
	return found;
}

int torch_sniff(const void *data, size_t len, const char *where, struct err *e)
{
	if (is_tar(data, len))
		return err_set(e, ERR_DATA, "%s: the tar format of PyTorch before 0.2 is not supported; load it with PyTorch and save it again",
		               where);
	return is_legacy(data, len) || is_zip(data, len);
}

/* A table of the storages the pickle names. */
static int list_storages(struct torchfile *f, struct err *e)
{
	const struct pickle *p = &f->pickle;

	f->storage = mem_zalloc(p->persistents, sizeof *f->storage);
	for (size_t i = 0; i < p->persistents; i++) {
		struct torch_storage s;
		struct err why = {0};
		int have = torch_take_storage(f, p->persistent[i], &s, &why);

		if (why.code)
			return err_set(e, why.code, "%s", why.msg);
		if (have < 0 || have < f->storages)
			continue;
		f->storage[f->storages] = s;
		nametable_add(&f->keys, s.key, s.len, f->storages++);
	}
	return 0;
}

static int wrong_size(const struct torchfile *f, const struct torch_storage *s, uint64_t bytes, struct err *e)
{
	return err_set(e, ERR_DATA, "%s: storage '%.*s' has %llu bytes where its %lld elements need %llu", f->where, (int)s->len, s->key,
	               (unsigned long long)bytes, (long long)s->elements, (unsigned long long)s->bytes);
}

static int place_member(struct torchfile *f, struct torch_storage *s, const char *prefix, struct err *e)
{
	char *name = str_new("%sdata/%.*s", prefix, (int)s->len, s->key);
	const struct zip_member *m = zip_find(f->zip, name);

	mem_free(name);
	if (!m || s->meta)
		return s->meta ? 0 : err_set(e, ERR_DATA, "%s: storage '%.*s' is missing", f->where, (int)s->len, s->key);
	if (s->type >= 0 && m->plain != s->bytes)
		return wrong_size(f, s, m->plain, e);
	s->member = m;
	s->data = m->deflated ? NULL : m->data;
	return 0;
}

/* The bytes of a small member: in place, or inflated into the arena. */
static const void *small_member(struct torchfile *f, const struct zip_member *m, struct err *e)
{
	void *plain, *copy;

	if (m->plain > PICKLE_BYTES_MOST) {
		err_set(e, ERR_DATA, "%s: %s of %llu bytes is too large", f->where, m->name, (unsigned long long)m->plain);
		return NULL;
	}
	if (!m->deflated)
		return m->data;
	plain = zip_inflate(f->zip, m, m->plain, e);
	if (!plain)
		return NULL;
	copy = memcpy(arena_alloc(&f->arena, (size_t)m->plain), plain, (size_t)m->plain);
	mem_free(plain);
	return copy;
}

static int take_byte_order(struct torchfile *f, const char *prefix, struct err *e)
{
	char *name = str_new("%sbyteorder", prefix);
	const struct zip_member *m = zip_find(f->zip, name);
	const char *p = m ? small_member(f, m, e) : NULL;

	mem_free(name);
	if (!m)
		return 0;
	if (!p)
		return -1;
	f->big = m->plain == 3 && !memcmp(p, "big", 3);
	if (!f->big && (m->plain != 6 || memcmp(p, "little", 6)))
		return err_set(e, ERR_DATA, "%s: a byte order that is neither little nor big", f->where);
	return 0;
}

static int load_zip(struct torchfile *f, const void *data, size_t len, struct err *e)
{
	const struct zip_member *m;
	const char *prefix;
	const void *text;
	char *program;
	int script;

	f->zip = zip_open(data, len, f->where, e);
	m = f->zip ? find_pickle(f->zip) : NULL;
	if (!m)
		return f->zip ? err_set(e, ERR_DATA, "%s: a zip without data.pkl", f->where) : -1;
	prefix = arena_strdup(&f->arena, m->name);
	((char *)(uintptr_t)prefix)[strlen(prefix) - strlen("data.pkl")] = 0;
	program = str_new("%sconstants.pkl", prefix);
	script = zip_find(f->zip, program) != NULL;
	mem_free(program);
	if (script)
		return err_set(e, ERR_DATA, "%s: a TorchScript program, not tensors by name; save its state_dict()", f->where);
	/* torch writes 0 if checksums are switched off. */
	f->checksums = m->crc != 0;
	text = small_member(f, m, e);
	if (!text || (f->checksums && zip_check(f->zip, m, text, e)) || take_byte_order(f, prefix, e) ||
	    pickle_parse(&f->pickle, &f->arena, text, (size_t)m->plain, f->where, e) || list_storages(f, e))
		return -1;
	for (int i = 0; i < f->storages; i++)
		if (place_member(f, f->storage + i, prefix, e))
			return -1;
	return 0;
}

/* One pickle of several; p and left are moved behind it. */
static int take_pickle(struct torchfile *f, struct pickle *out, const uint8_t **p, size_t *left, struct err *e)
{
	if (pickle_parse(out, &f->arena, *p, *left, f->where, e))
		return -1;
	*p += out->used;
	*left -= out->used;
	return 0;
}

/* After its key in the list, a storage is its count and its elements. */
static int place_legacy(struct torchfile *f, const struct pickle_value *key, const uint8_t **p, size_t *left, struct err *e)
{
	int i = key && key->kind == PICKLE_TEXT ? nametable_find(&f->keys, key->text, key->n) : -1;
	struct torch_storage *s = i < 0 ? NULL : f->storage + i;
	uint64_t n = 0;

	if (!s || s->data)
		return err_set(e, ERR_DATA, "%s: data of a storage that %s", f->where, s ? "was there already" : "no tensor has");
	if (s->type < 0)
		return err_set(e, ERR_DATA, "%s: storages of type %s are not supported", f->where, s->made);
	for (int b = 0; b < 8 && *left >= 8; b++)
		n |= (uint64_t)(*p)[b] << 8 * b;
	if (*left < 8 || s->bytes > *left - 8)
		return err_set(e, ERR_DATA, "%s: truncated in storage '%.*s'", f->where, (int)s->len, s->key);
	if (n != (uint64_t)s->elements)
		return wrong_size(f, s, n * (s->elements ? s->bytes / (uint64_t)s->elements : 1), e);
	s->data = *p + 8;
	*p += 8 + s->bytes;
	*left -= 8 + (size_t)s->bytes;
	return 0;
}

static int load_legacy(struct torchfile *f, const uint8_t *p, size_t len, struct err *e)
{
	struct pickle number, protocol, machine, keys;
	size_t left = len;

	if (take_pickle(f, &number, &p, &left, e) || take_pickle(f, &protocol, &p, &left, e) || take_pickle(f, &machine, &p, &left, e) ||
	    take_pickle(f, &f->pickle, &p, &left, e) || take_pickle(f, &keys, &p, &left, e))
		return -1;
	if (protocol.root->kind != PICKLE_INT || protocol.root->i != PROTOCOL)
		return err_set(e, ERR_DATA, "%s: a protocol other than %d", f->where, PROTOCOL);
	if (keys.root->kind != PICKLE_LIST)
		return err_set(e, ERR_DATA, "%s: no list of storages", f->where);
	if (list_storages(f, e))
		return -1;
	for (size_t i = 0; i < keys.root->n; i++)
		if (place_legacy(f, keys.root->item[i], &p, &left, e))
			return -1;
	for (int i = 0; i < f->storages; i++)
		if (!f->storage[i].data)
			return err_set(e, ERR_DATA, "%s: storage '%.*s' is missing", f->where, (int)f->storage[i].len, f->storage[i].key);
	return left ? err_set(e, ERR_DATA, "%s: %zu bytes after the last storage", f->where, left) : 0;
}

struct torchfile *torch_open_memory(const void *data, size_t len, const char *name, const char *root, struct err *e)
{
	struct torchfile *f = mem_zalloc(1, sizeof *f);
	int rc;

	f->where = arena_strdup(&f->arena, name);
	f->plain_of = -1;
	rc = torch_sniff(data, len, name, e);
	if (!rc)
		rc = err_set(e, ERR_DATA, "%s: not a file of PyTorch's", name);
	if (rc > 0)
		rc = is_legacy(data, len) ? load_legacy(f, data, len, e) : load_zip(f, data, len, e);
	if (!rc && !torch_read_tree(f, root, e))
		return f;
	torch_free(f);
	return NULL;
}

void torch_free(struct torchfile *f)
{
	if (!f)
		return;
	zip_free(f->zip);
	mem_free(f->storage);
	nametable_release(&f->keys);
	mem_free(f->tensor);
	nametable_release(&f->names);
	mem_free(f->plain);
	arena_release(&f->arena);
	mem_free(f);
}

int torch_tensors(const struct torchfile *f)
{
	return f->n;
}

const struct st_tensor *torch_get(const struct torchfile *f, int i)
{
	return &f->tensor[i].t;
}

int torch_is_zip(const struct torchfile *f)
{
	return f->zip != NULL;
}

const char *torch_root(const struct torchfile *f)
{
	return f->root_name;
}

int torch_skipped(const struct torchfile *f, const char **what)
{
	*what = f->skipped_what;
	return f->skipped;
}

static const uint8_t *storage_data(struct torchfile *f, int i, struct err *e)
{
	struct torch_storage *s = f->storage + i;

	if (s->data || !s->member)
		return s->data;
	if (f->plain_of != i) {
		mem_free(f->plain);
		f->plain = zip_inflate(f->zip, s->member, s->member->plain, e);
		f->plain_of = f->plain ? i : -1;
	}
	return f->plain;
}

static void swap_bytes(uint8_t *p, int64_t n, size_t size)
{
	for (; size > 1 && n > 0; n--, p += size)
		for (size_t i = 0; i < size / 2; i++) {
			uint8_t b = p[i];

			p[i] = p[size - 1 - i];
			p[size - 1 - i] = b;
		}
}

int torch_gather(struct torchfile *f, int i, int64_t from, int64_t count, void *out, struct err *e)
{
	const struct torch_tensor *x = f->tensor + i;
	size_t size = st_type_size(x->t.type);
	const uint8_t *data = count ? storage_data(f, x->storage, e) : NULL;
	int64_t index[ST_RANK] = {0}, at = x->offset, inner = x->t.rank ? x->t.shape[x->t.rank - 1] : 1;
	int64_t step = x->t.rank ? x->stride[x->t.rank - 1] : 0;
	uint8_t *p = out;

	if (!data)
		return count ? err_set(e, ERR_DATA, "%s: storage of '%s' is missing", f->where, x->t.name) : 0;
	for (int d = x->t.rank - 1; d >= 0; d--) {
		index[d] = from % x->t.shape[d];
		at += index[d] * x->stride[d];
		from /= x->t.shape[d];
	}
	for (int64_t left = count, run; left; left -= run) {
		int d = x->t.rank - 1;

		run = d < 0 ? 1 : inner - index[d] < left ? inner - index[d] : left;
		if (step == 1)
			memcpy(p, data + (size_t)at * size, (size_t)run * size);
		else
			for (int64_t k = 0; k < run; k++)
				memcpy(p + (size_t)k * size, data + (size_t)(at + k * step) * size, size);
		p += (size_t)run * size;
		if (d < 0)
			break;
		index[d] += run;
		at += run * step;
		for (; d > 0 && index[d] == x->t.shape[d]; d--) {
			at += x->stride[d - 1] - index[d] * x->stride[d];
			index[d] = 0;
			index[d - 1]++;
		}
	}
	if (f->big)
		swap_bytes(out, count, size);
	return 0;
}

/* In pieces, because the bytes of a big-endian file are swapped in a copy. */
static int64_t storage_not_finite(const struct torchfile *f, const struct torch_storage *s, const uint8_t *data)
{
	enum { PIECE = 4096 };
	uint8_t copy[PIECE * 8];
	size_t size = st_type_size((enum st_type)s->type);
	int64_t n = (int64_t)(s->bytes / size), bad = 0;

	if (!f->big)
		return st_not_finite(&(struct st_tensor){.type = (enum st_type)s->type, .rank = 1, .shape = {n}, .data = data});
	for (int64_t at = 0, k; at < n; at += k) {
		k = n - at < PIECE ? n - at : PIECE;
		memcpy(copy, data + (size_t)at * size, (size_t)k * size);
		swap_bytes(copy, k, size);
		bad += st_not_finite(&(struct st_tensor){.type = (enum st_type)s->type, .rank = 1, .shape = {k}, .data = copy});
	}
	return bad;
}

int torch_verify(struct torchfile *f, int64_t *not_finite, struct err *e)
{
	*not_finite = 0;
	for (int i = 0; i < f->storages; i++) {
		struct torch_storage *s = f->storage + i;
		const uint8_t *data = storage_data(f, i, e);

		if (s->meta)
			continue;
		if (!data || (s->member && f->checksums && zip_check(f->zip, s->member, data, e)))
			return -1;
		if (s->type >= 0)
			*not_finite += storage_not_finite(f, s, data);
	}
	return 0;
}
