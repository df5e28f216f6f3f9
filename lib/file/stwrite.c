/* Writes safetensors files and converts their elements. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/seal.h"
#include "core/shortfloat.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/safetensors.h"

void st_copy(void *out, const struct st_tensor *t)
{
	size_t n = (size_t)st_count(t) * st_type_size(t->type);

	if (n)
		memcpy(out, t->data, n);
}

/* memcpy, because arrays in foreign files may be unaligned. */
#define CONVERT(type, expression) \
	for (int64_t i = 0; i < n; i++) { \
		type v; \
\
		memcpy(&v, (const char *)t->data + i * (int64_t)sizeof v, sizeof v); \
		out[i] = (expression); \
	} \
	break

void st_to_f32(float *out, const struct st_tensor *t)
{
	int64_t n = st_count(t);

	switch (t->type) {
	case ST_F32:
		st_copy(out, t);
		break;
	case ST_F64:
		CONVERT(double, (float)v);
	case ST_I64:
		CONVERT(int64_t, (float)v);
	case ST_U64:
		CONVERT(uint64_t, (float)v);
	case ST_I32:
		CONVERT(int32_t, (float)v);
	case ST_U32:
		CONVERT(uint32_t, (float)v);
	case ST_F16:
		CONVERT(uint16_t, f16_to_f32(v));
	case ST_BF16:
		CONVERT(uint16_t, bf16_to_f32(v));
	case ST_I16:
		CONVERT(int16_t, (float)v);
	case ST_U16:
		CONVERT(uint16_t, (float)v);
	case ST_F8_E4M3:
		CONVERT(uint8_t, f8_e4m3_to_f32(v));
	case ST_F8_E5M2:
		CONVERT(uint8_t, f8_e5m2_to_f32(v));
	case ST_I8:
		CONVERT(int8_t, (float)v);
	case ST_U8:
		CONVERT(uint8_t, (float)v);
	case ST_BOOL:
		CONVERT(uint8_t, (float)(v != 0));
	}
}

/* All ones in the exponent; of F8_E4M3, in the mantissa too. */
int64_t st_not_finite(const struct st_tensor *t)
{
	static const uint64_t masks[] = {[ST_F64] = 0x7ff0000000000000, [ST_F32] = 0x7f800000, [ST_BF16] = 0x7f80, [ST_F16] = 0x7c00,
	                                 [ST_F8_E4M3] = 0x7f,           [ST_F8_E5M2] = 0x7c,   [ST_BOOL] = 0};
	const uint8_t *p = t->data;
	int64_t n = st_count(t), bad = 0;
	uint64_t mask = masks[t->type];
	size_t size = st_type_size(t->type);

	for (int64_t i = 0; mask && i < n; i++) {
		uint64_t v = 0;

		memcpy(&v, p + (size_t)i * size, size);
		bad += (v & mask) == mask;
	}
	return bad;
}

static int tensor_cmp(const void *a, const void *b)
{
	const struct st_tensor *x = *(const struct st_tensor *const *)a, *y = *(const struct st_tensor *const *)b;

	return x->type != y->type ? (int)x->type - (int)y->type : strcmp(x->name, y->name);
}

static int name_cmp(const void *a, const void *b)
{
	return strcmp((*(const struct st_tensor *const *)a)->name, (*(const struct st_tensor *const *)b)->name);
}

static int text_cmp(const void *a, const void *b)
{
	return strcmp((*(const struct st_text *const *)a)->key, (*(const struct st_text *const *)b)->key);
}

static void put_string(struct str *s, const char *text)
{
	str_puts(s, "\"");
	for (const char *c = text; *c; c++) {
		if (*c == '"' || *c == '\\')
			str_printf(s, "\\%c", *c);
		else if ((unsigned char)*c < 0x20)
			str_printf(s, "\\u%04x", (unsigned)*c);
		else
			str_add(s, c, 1);
	}
	str_puts(s, "\"");
}

/* Returns the position of the seal in h. */
static size_t put_texts(struct str *h, const struct st_text *texts, int n)
{
	const struct st_text seal = {"seal", SEAL_BLANK}, **sorted = mem_zalloc((size_t)n + 1, sizeof *sorted);
	size_t at = 0;

	sorted[n] = &seal;
	for (int i = 0; i < n; i++)
		sorted[i] = texts + i;
	qsort(sorted, (size_t)n + 1, sizeof *sorted, text_cmp);
	str_puts(h, "\"__metadata__\":{");
	for (int i = 0; i <= n; i++) {
		str_puts(h, i ? "," : "");
		put_string(h, sorted[i]->key);
		str_puts(h, ":");
		if (sorted[i] == &seal)
			at = h->len + 1;
		put_string(h, sorted[i]->value);
	}
	str_puts(h, "}");
	mem_free(sorted);
	return at;
}

static uint64_t put_tensor(struct str *h, const struct st_tensor *t, uint64_t at)
{
	uint64_t end = at + (uint64_t)st_count(t) * st_type_size(t->type);

	str_puts(h, h->len > 1 ? "," : "");
	put_string(h, t->name);
	str_printf(h, ":{\"dtype\":\"%s\",\"shape\":[", st_type_name(t->type));
	for (int i = 0; i < t->rank; i++)
		str_printf(h, "%s%lld", i ? "," : "", (long long)t->shape[i]);
	str_printf(h, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at, (unsigned long long)end);
	return end;
}

static size_t tensor_bytes(const struct st_tensor *t)
{
	return (size_t)st_count(t) * st_type_size(t->type);
}

static int write_all(struct outfile *o, struct str *h, size_t seal, const struct st_tensor *const *t, int n, struct err *e)
{
	XXH3_state_t *all = hash64_state();
	uint8_t len[8];

	for (int i = 0; i < 8; i++)
		len[i] = (uint8_t)((uint64_t)h->len >> 8 * i);
	XXH3_64bits_update(all, len, 8);
	XXH3_64bits_update(all, h->p, h->len);
	for (int i = 0; i < n; i++)
		XXH3_64bits_update(all, t[i]->data, tensor_bytes(t[i]));
	seal_put_hash(h->p + seal, XXH3_64bits_digest(all));
	XXH3_freeState(all);
	if (outfile_write(o, len, 8, e) || outfile_write(o, h->p, h->len, e))
		return -1;
	for (int i = 0; i < n; i++)
		if (outfile_write(o, t[i]->data, tensor_bytes(t[i]), e))
			return -1;
	return 0;
}

static int check_names(const char *path, const struct st_tensor **t, int n, struct err *e)
{
	qsort(t, (size_t)n, sizeof *t, name_cmp);
	for (int i = 0; i < n; i++)
		if ((i && !strcmp(t[i]->name, t[i - 1]->name)) || !strcmp(t[i]->name, "__metadata__"))
			return err_set(e, ERR_USAGE, "%s: '%s' is not a valid tensor name, or is used twice", path, t[i]->name);
	return 0;
}

int st_write(const char *path, const struct st_tensor *t, int n, const struct st_text *texts, int ntexts, struct err *e)
{
	return st_write_summed(path, t, n, texts, ntexts, NULL, e);
}

int st_write_summed(const char *path, const struct st_tensor *t, int n, const struct st_text *texts, int ntexts, struct sha256 *sum, struct err *e)
{
	const struct st_tensor **sorted = mem_zalloc((size_t)n, sizeof *sorted);
	struct str h = {0};
	struct outfile o = {0};
	uint64_t at = 0;
	size_t seal;
	int rc;

	for (int i = 0; i < n; i++)
		sorted[i] = t + i;
	rc = check_names(path, sorted, n, e);
	qsort(sorted, (size_t)n, sizeof *sorted, tensor_cmp);
	str_puts(&h, "{");
	seal = put_texts(&h, texts, ntexts);
	for (int i = 0; i < n; i++)
		at = put_tensor(&h, sorted[i], at);
	str_puts(&h, "}");
	while (h.len % 8)
		str_puts(&h, " ");
	rc = rc || outfile_open(&o, path, e) ? -1 : 0;
	o.sum = sum;
	if (!rc)
		outfile_expect(&o, 8 + h.len + at);
	if (!rc)
		rc = write_all(&o, &h, seal, sorted, n, e) ? -1 : outfile_commit(&o, e);
	outfile_abort(&o);
	str_release(&h);
	mem_free(sorted);
	return rc;
}

int st_check_seal(const void *data, size_t len, const char *name, struct err *e)
{
	const uint8_t *p = data;
	uint64_t header = 0;
	int64_t at;

	for (int i = 0; i < 8 && len >= 8; i++)
		header |= (uint64_t)p[i] << 8 * i;
	if (len < 8 || header > len - 8)
		return 0;
	at = seal_find(p + 8, (size_t)header);
	return at < 0 || seal_holds(p, len, (size_t)at + 8) ? 0 : seal_broken(name, e);
}
