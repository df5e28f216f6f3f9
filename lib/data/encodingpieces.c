/* A batch of samples as a piece of work for one of several ranks (comm/farm.h). An order holds the samples as they were read, the result the members
 * that the encoders add. Pixels are decoded where they are encoded. */
#include <string.h>

#include "core/mem.h"
#include "data/encodingimpl.h"

/* An order begins with this; then for each sample its key, its origin and the number of its members, and their extensions and bytes. */
struct order_head {
	int64_t n, end;
	struct err err; /* of reading, after the last sample */
};

enum { ADDED = 7 };

static void added(struct encoding_item *it, struct str *member[ADDED])
{
	struct str *const all[ADDED] = {&it->latent[0], &it->std[0], &it->latent[1], &it->std[1], &it->text, &it->pooled, &it->png};

	memcpy(member, all, sizeof all);
}

/* Bytes with their length before them, and a NUL after them. */
static void put_bytes(struct str *s, const void *bytes, size_t n)
{
	uint64_t length = n;

	str_add(s, &length, sizeof length);
	str_add(s, bytes, n);
	str_add(s, "", 1);
}

static const char *take_number(const char *at, void *to, size_t bytes)
{
	memcpy(to, at, bytes);
	return at + bytes;
}

static const char *take_bytes(const char *at, const char **bytes, size_t *n)
{
	uint64_t length;

	*bytes = take_number(at, &length, sizeof length);
	*n = length;
	return *bytes + length + 1;
}

/* ---- orders ---- */

static void put_order(struct str *order, const struct encoding_batch *b)
{
	const struct order_head head = {b->n, b->end, b->err};

	str_add(order, &head, sizeof head);
	for (int i = 0; i < b->n; i++) {
		const struct encoding_item *it = &b->item[i];
		int64_t members = it->n;

		put_bytes(order, it->key, strlen(it->key));
		put_bytes(order, it->origin, strlen(it->origin));
		str_add(order, &members, sizeof members);
		for (int m = 0; m < it->n; m++) {
			put_bytes(order, it->member[m].ext, strlen(it->member[m].ext));
			put_bytes(order, it->member[m].data, it->member[m].len);
		}
	}
}

static void take_order(struct encoding_batch *b, const char *at)
{
	struct order_head head;
	size_t length;

	encoding_clear(b);
	at = take_number(at, &head, sizeof head);
	b->n = (int)head.n;
	b->end = (int)head.end;
	b->err = head.err;
	for (int i = 0; i < b->n; i++) {
		struct sample s = {0};
		struct sample_member *member;
		int64_t members;

		at = take_bytes(at, &s.key, &length);
		at = take_bytes(at, &s.origin, &length);
		at = take_number(at, &members, sizeof members);
		member = mem_zalloc((size_t)members, sizeof *member);
		for (int64_t m = 0; m < members; m++) {
			const char *data;

			at = take_bytes(at, &member[m].ext, &length);
			at = take_bytes(at, &data, &member[m].len);
			member[m].data = data;
		}
		s.n = (int)members;
		s.member = member;
		encoding_fill(&b->item[i], &s);
		mem_free(member);
	}
}

int encoding_read(struct encoding *x, struct str *order, struct err *e)
{
	struct encoding_batch *b = x->next;

	(void)e;
	x->shared = 1;
	if (x->ended || (!x->begun && x->now->end))
		return 0;
	ahead_wait(&x->ahead);
	if (!x->begun)
		encoding_read_next(x);
	x->begun = 1;
	x->ended = b->end || b->err.code;
	if (!b->n && !b->err.code)
		return 0;
	put_order(order, b);
	if (!x->ended)
		ahead_start(&x->ahead, encoding_read_next, x);
	return 1;
}

/* ---- results ---- */

int encoding_compute(struct encoding *x, const struct str *order, struct str *result, struct err *e)
{
	int64_t before = x->place.cut, cut;
	struct str *member[ADDED];
	int rc;

	if (!x->piece)
		x->piece = mem_zalloc(1, sizeof *x->piece);
	take_order(x->piece, order->p);
	encoding_decode(x, x->piece);
	rc = encoding_run(x, x->piece, e);
	cut = x->place.cut - before;
	x->place.cut = before; /* counted by encoding_take */
	str_add(result, &cut, sizeof cut);
	for (int i = 0; i < x->piece->n; i++) {
		struct encoding_item *it = &x->piece->item[i];

		str_add(result, &it->err, sizeof it->err);
		added(it, member);
		for (int m = 0; m < ADDED; m++)
			put_bytes(result, str_text(member[m]), member[m]->len);
	}
	encoding_clear(x->piece);
	return rc;
}

int encoding_take(struct encoding *x, const struct str *order, const struct str *result, struct err *e)
{
	const char *at = result->p, *bytes;
	struct str *member[ADDED];
	int64_t cut;
	size_t length;

	(void)e;
	ahead_wait(&x->ahead); /* which counts skipped samples, as encoding_next does */
	take_order(x->now, order->p);
	at = take_number(at, &cut, sizeof cut);
	x->place.cut += cut;
	x->place.batches++;
	for (int i = 0; i < x->now->n; i++) {
		struct encoding_item *it = &x->now->item[i];

		at = take_number(at, &it->err, sizeof it->err);
		added(it, member);
		for (int m = 0; m < ADDED; m++) {
			at = take_bytes(at, &bytes, &length);
			if (length)
				str_add(member[m], bytes, length);
		}
	}
	return 0;
}
