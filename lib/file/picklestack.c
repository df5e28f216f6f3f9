/* The bytes of a pickle, and the stack that its instructions work on. */
#include "file/pickleimpl.h"

#include <string.h>

#include "core/mem.h"

int pickle_refuse(const struct pickle_machine *m, const char *what)
{
	return err_set(m->e, ERR_DATA, "%s: pickle, byte %zu: %s", m->where, (size_t)(m->p - m->start), what);
}

const uint8_t *pickle_take(struct pickle_machine *m, uint64_t n)
{
	const uint8_t *p = m->p;

	if (n > (uint64_t)(m->end - p)) {
		pickle_refuse(m, "cut short");
		return NULL;
	}
	m->p += n;
	return p;
}

int pickle_take_le(struct pickle_machine *m, int bytes, uint64_t *v)
{
	const uint8_t *p = pickle_take(m, (uint64_t)bytes);

	*v = 0;
	for (int i = 0; p && i < bytes; i++)
		*v |= (uint64_t)p[i] << 8 * i;
	return p ? 0 : -1;
}

const char *pickle_take_line(struct pickle_machine *m, size_t *n)
{
	const uint8_t *p = m->p, *nl = memchr(p, '\n', (size_t)(m->end - p));

	if (!nl) {
		pickle_refuse(m, "a line without an end");
		return NULL;
	}
	*n = (size_t)(nl - p);
	m->p = nl + 1;
	return (const char *)p;
}

int pickle_push(struct pickle_machine *m, struct pickle_value *v)
{
	if (m->pushed++ == PICKLE_VALUES_MOST)
		return pickle_refuse(m, "too many values");
	if (m->n == m->cap)
		m->stack = mem_resize(m->stack, m->cap *= 2, sizeof(struct pickle_value *));
	m->stack[m->n++] = v;
	return 0;
}

struct pickle_value *pickle_push_new(struct pickle_machine *m, enum pickle_kind kind)
{
	struct pickle_value *v = arena_alloc(m->arena, sizeof *v);

	v->kind = kind;
	return pickle_push(m, v) ? NULL : v;
}

static size_t floor_of(const struct pickle_machine *m)
{
	return m->marks ? m->mark[m->marks - 1] : 0;
}

struct pickle_value *pickle_top(const struct pickle_machine *m)
{
	if (m->n > floor_of(m))
		return m->stack[m->n - 1];
	pickle_refuse(m, "an empty stack");
	return NULL;
}

struct pickle_value *pickle_pop(struct pickle_machine *m)
{
	struct pickle_value *v = pickle_top(m);

	m->n -= v != NULL;
	return v;
}

int pickle_push_mark(struct pickle_machine *m)
{
	if (m->marks == PICKLE_VALUES_MOST)
		return pickle_refuse(m, "too many marks");
	if (m->marks == m->marks_cap)
		m->mark = mem_resize(m->mark, m->marks_cap = m->marks_cap ? 2 * m->marks_cap : 16, sizeof *m->mark);
	m->mark[m->marks++] = m->n;
	return 0;
}

int pickle_pop_mark(struct pickle_machine *m, struct pickle_value ***v, size_t *n)
{
	if (!m->marks)
		return pickle_refuse(m, "no mark");
	m->marks--;
	*v = m->stack + m->mark[m->marks];
	*n = m->n - m->mark[m->marks];
	m->n = m->mark[m->marks];
	return 0;
}

static void add_items(struct pickle_machine *m, struct pickle_value *to, struct pickle_value *const *v, size_t n)
{
	if (n > to->cap - to->n) {
		size_t cap = 2 * to->cap > to->n + n ? 2 * to->cap : to->n + n;
		struct pickle_value **item = arena_alloc(m->arena, cap * sizeof(struct pickle_value *));

		if (to->n)
			memcpy(item, to->item, to->n * sizeof(struct pickle_value *));
		to->item = item;
		to->cap = cap;
	}
	if (n)
		memcpy(to->item + to->n, v, n * sizeof(struct pickle_value *));
	to->n += n;
}

int pickle_collect(struct pickle_machine *m, enum pickle_kind kind, size_t n)
{
	struct pickle_value *v = arena_alloc(m->arena, sizeof *v);

	v->kind = kind;
	if (m->n - floor_of(m) < n)
		return pickle_refuse(m, "an empty stack");
	m->n -= n;
	add_items(m, v, m->stack + m->n, n);
	return pickle_push(m, v);
}

int pickle_collect_marked(struct pickle_machine *m, enum pickle_kind kind)
{
	struct pickle_value **v = NULL;
	size_t n = 0;

	if (pickle_pop_mark(m, &v, &n))
		return -1;
	m->n += n;
	if (kind == PICKLE_DICT && n % 2)
		return pickle_refuse(m, "a key without a value");
	return pickle_collect(m, kind, n);
}

/* Add n values to the container below them. The result of a call keeps them too; anything else is refused. */
static int extend(struct pickle_machine *m, enum pickle_kind kind, struct pickle_value *const *v, size_t n)
{
	struct pickle_value *to = pickle_top(m);

	if (!to)
		return -1;
	if (to->kind != kind && to->kind != PICKLE_CALL)
		return pickle_refuse(m, "items for a value that is not a container");
	if (kind == PICKLE_DICT && n % 2)
		return pickle_refuse(m, "a key without a value");
	add_items(m, to, v, n);
	return 0;
}

int pickle_extend_marked(struct pickle_machine *m, enum pickle_kind kind)
{
	struct pickle_value **v = NULL;
	size_t n = 0;

	return pickle_pop_mark(m, &v, &n) || extend(m, kind, v, n) ? -1 : 0;
}

int pickle_extend_top(struct pickle_machine *m, enum pickle_kind kind, size_t n)
{
	if (m->n - floor_of(m) < n + 1)
		return pickle_refuse(m, "an empty stack");
	m->n -= n;
	return extend(m, kind, m->stack + m->n, n);
}
