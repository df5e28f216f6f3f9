/* Reads prompts, as lines or as JSON objects. */
#include <jansson.h>
#include <string.h>

#include "sample/prompts.h"
#include "core/hash.h"
#include "core/mem.h"
#include "file/fileio.h"

enum { PROMPTS_BYTES = 1 << 30 };

static int is_utf8(const char *text, size_t len)
{
	json_t *v = json_stringn(text, len);
	int ok = v != NULL;

	json_decref(v);
	return ok;
}

static struct prompt *push(struct prompts *p)
{
	if (!(p->n & (p->n - 1)))
		p->v = mem_resize(p->v, p->n ? 2 * (size_t)p->n : 1, sizeof *p->v);
	p->v[p->n] = (struct prompt){0};
	return &p->v[p->n++];
}

void prompts_add(struct prompts *p, const char *text)
{
	push(p)->text = mem_strdup(text);
}

static int take_seed(struct prompt *p, const json_t *v, const char *where, long long line, struct err *e)
{
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return err_set(e, ERR_DATA, "%s: line %lld: \"seed\" is not a whole number from 0", where, line);
	p->seed = (uint64_t)json_integer_value(v);
	p->seeded = 1;
	return 0;
}

static int add_object(struct prompts *p, const char *text, size_t len, const char *where, struct err *e)
{
	long long line = (long long)p->n + 1;
	json_error_t bad;
	json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &bad);
	const json_t *prompt = json_object_get(o, "prompt"), *negative = json_object_get(o, "negative");
	struct prompt *q;
	int rc = -1;

	if (!negative)
		negative = json_object_get(o, "negative_prompt");
	if (!json_is_object(o)) {
		err_set(e, ERR_DATA, "%s: line %lld: not a JSON object%s%s", where, line, o ? "" : ": ", o ? "" : bad.text);
	} else if (!json_is_string(prompt)) {
		err_set(e, ERR_DATA, "%s: line %lld: \"prompt\" is missing or not a text", where, line);
	} else if (negative && !json_is_null(negative) && !json_is_string(negative)) {
		err_set(e, ERR_DATA, "%s: line %lld: \"negative\" is not a text", where, line);
	} else {
		q = push(p);
		q->text = mem_strdup(json_string_value(prompt));
		q->negative = json_is_string(negative) ? mem_strdup(json_string_value(negative)) : NULL;
		rc = take_seed(q, json_object_get(o, "seed"), where, line, e);
	}
	json_decref(o);
	return rc;
}

static int add_line(struct prompts *p, const char *text, size_t len, const char *where, struct err *e)
{
	if (len && text[len - 1] == '\r')
		len--;
	if (memchr(text, 0, len) || !is_utf8(text, len))
		return err_set(e, ERR_DATA, "%s: line %lld: not a text in UTF-8", where, (long long)p->n + 1);
	push(p)->text = mem_strndup(text, len);
	return 0;
}

int prompts_load(struct prompts *p, const char *path, struct err *e)
{
	const char *where = strcmp(path, "-") ? path : "standard input";
	size_t len, skip;
	char *all = file_load(path, PROMPTS_BYTES, &len, e);
	int rc = all ? 0 : -1, objects;

	if (!all)
		return -1;
	skip = len >= 3 && !memcmp(all, "\xef\xbb\xbf", 3) ? 3 : 0;
	objects = len > skip && all[skip] == '{';
	for (size_t at = skip, end; at < len && !rc; at = end + 1) {
		const char *stop = memchr(all + at, '\n', len - at);

		end = stop ? (size_t)(stop - all) : len;
		rc = (objects ? add_object : add_line)(p, all + at, end - at, where, e);
	}
	mem_free(all);
	return rc || p->n ? rc : err_set(e, ERR_DATA, "%s: contains no prompts", where);
}

void prompts_hash(const struct prompts *p, char hex[65])
{
	struct sha256 h;

	sha256_init(&h);
	for (int64_t i = 0; i < p->n; i++) {
		const struct prompt *q = &p->v[i];
		unsigned char facts[10] = {q->negative != NULL, q->seeded != 0};

		for (int b = 0; b < 8; b++)
			facts[2 + b] = (unsigned char)(q->seed >> 8 * b);
		sha256_add(&h, facts, sizeof facts);
		sha256_add(&h, q->text, strlen(q->text) + 1);
		if (q->negative)
			sha256_add(&h, q->negative, strlen(q->negative) + 1);
	}
	sha256_end(&h, hex);
}

void prompts_release(struct prompts *p)
{
	for (int64_t i = 0; i < p->n; i++) {
		mem_free(p->v[i].text);
		mem_free(p->v[i].negative);
	}
	mem_free(p->v);
	*p = (struct prompts){0};
}
