/* Parses pickles into trees without running anything in them. */
#include "file/pickleimpl.h"

#include <stdlib.h>
#include <string.h>

#include "core/str.h"

enum { GLOBAL_MOST = 200, PROTOCOL_MOST = 5, NUMBER_MOST = 40 };

static int push_int(struct pickle_machine *m, enum pickle_kind kind, int64_t i)
{
	struct pickle_value *v = pickle_push_new(m, kind);

	if (v && kind != PICKLE_BIG)
		v->i = i;
	return v ? 0 : -1;
}

static int push_text(struct pickle_machine *m, const void *p, size_t n)
{
	struct pickle_value *v = p ? pickle_push_new(m, PICKLE_TEXT) : NULL;

	if (!v)
		return -1;
	v->text = p;
	v->n = n;
	return 0;
}

/* Push an integer of `bytes` bytes in little-endian two's complement. */
static int push_long(struct pickle_machine *m, uint64_t bytes)
{
	const uint8_t *p = pickle_take(m, bytes);
	uint64_t v = p && bytes && p[bytes - 1] & 0x80 ? ~0ull : 0;

	if (!p)
		return -1;
	if (bytes > 8)
		return push_int(m, PICKLE_BIG, 0);
	for (uint64_t i = 0; i < bytes; i++)
		v = (v & ~(0xffull << 8 * i)) | (uint64_t)p[i] << 8 * i;
	return push_int(m, PICKLE_INT, (int64_t)v);
}

/* Numbers of protocol 0: "12", "12L", "01" for True, "1.5". */
static int push_number(struct pickle_machine *m, int op)
{
	size_t n = 0;
	const char *line = pickle_take_line(m, &n);
	char text[NUMBER_MOST];
	struct pickle_value *v;
	int64_t i;

	if (!line)
		return -1;
	if (n && op == 'L' && line[n - 1] == 'L')
		n--;
	if (n >= sizeof text)
		return op == 'F' ? pickle_refuse(m, "a bad number") : push_int(m, PICKLE_BIG, 0);
	memcpy(text, line, n);
	text[n] = 0;
	if (op == 'I' && n == 2 && text[0] == '0' && (text[1] == '0' || text[1] == '1'))
		return push_int(m, PICKLE_BOOL, text[1] == '1');
	if (op != 'F')
		return parse_i64(text, INT64_MIN, INT64_MAX, &i) ? pickle_refuse(m, "a bad number") : push_int(m, PICKLE_INT, i);
	v = pickle_push_new(m, PICKLE_FLOAT);
	if (v)
		v->f = strtod(text, NULL);
	return v ? 0 : -1;
}

static int push_double(struct pickle_machine *m)
{
	const uint8_t *p = pickle_take(m, 8);
	struct pickle_value *v = p ? pickle_push_new(m, PICKLE_FLOAT) : NULL;
	uint64_t u = 0;

	if (!v)
		return -1;
	for (int i = 0; i < 8; i++)
		u = u << 8 | p[i];
	memcpy(&v->f, &u, 8);
	return 0;
}

/* 0: not one of these, 1, -1. */
static int constant(struct pickle_machine *m, int op)
{
	uint64_t n;

	switch (op) {
	case 'N':
		return pickle_push_new(m, PICKLE_NONE) ? 1 : -1;
	case 0x88:
	case 0x89:
		return push_int(m, PICKLE_BOOL, op == 0x88) ? -1 : 1;
	case 'J':
		return pickle_take_le(m, 4, &n) || push_int(m, PICKLE_INT, (int32_t)n) ? -1 : 1;
	case 'K':
		return pickle_take_le(m, 1, &n) || push_int(m, PICKLE_INT, (int64_t)n) ? -1 : 1;
	case 'M':
		return pickle_take_le(m, 2, &n) || push_int(m, PICKLE_INT, (int64_t)n) ? -1 : 1;
	case 0x8a:
		return pickle_take_le(m, 1, &n) || push_long(m, n) ? -1 : 1;
	case 0x8b:
		return pickle_take_le(m, 4, &n) || push_long(m, n) ? -1 : 1;
	case 'I':
	case 'L':
	case 'F':
		return push_number(m, op) ? -1 : 1;
	case 'G':
		return push_double(m) ? -1 : 1;
	}
	return 0;
}

/* Push a text line of protocol 0. Escapes are kept as written; the quotes of STRING are removed. */
static int line_text(struct pickle_machine *m, int op)
{
	size_t n = 0;
	const char *p = pickle_take_line(m, &n);

	if (p && op == 'S' && n >= 2 && (*p == '\'' || *p == '"') && p[n - 1] == *p) {
		p++;
		n -= 2;
	}
	return push_text(m, p, n);
}

static int text(struct pickle_machine *m, int op)
{
	static const struct {
		uint8_t op;
		int bytes; /* of the length */
	} forms[] = {{'U', 1}, {'C', 1}, {0x8c, 1}, {'T', 4}, {'B', 4}, {'X', 4}, {0x8d, 8}, {0x8e, 8}, {0x96, 8}};
	uint64_t n;

	if (op == 'S' || op == 'V')
		return line_text(m, op) ? -1 : 1;
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
		if (forms[i].op == op)
			return pickle_take_le(m, forms[i].bytes, &n) || push_text(m, pickle_take(m, n), (size_t)n) ? -1 : 1;
	return 0;
}

static int container(struct pickle_machine *m, int op)
{
	struct pickle_value **v;
	size_t n;

	switch (op) {
	case '(':
		return pickle_push_mark(m) ? -1 : 1;
	case '1':
		return pickle_pop_mark(m, &v, &n) ? -1 : 1;
	case '0':
		return (m->marks && m->n == m->mark[m->marks - 1] ? pickle_pop_mark(m, &v, &n) : pickle_pop(m) ? 0 : -1) ? -1 : 1;
	case '2':
		return pickle_top(m) && !pickle_push(m, pickle_top(m)) ? 1 : -1;
	case ')':
	case 0x85:
	case 0x86:
	case 0x87:
		return pickle_collect(m, PICKLE_TUPLE, op == ')' ? 0 : (size_t)(op - 0x84)) ? -1 : 1;
	case ']':
	case 0x8f:
		return pickle_collect(m, PICKLE_LIST, 0) ? -1 : 1;
	case '}':
		return pickle_collect(m, PICKLE_DICT, 0) ? -1 : 1;
	case 't':
		return pickle_collect_marked(m, PICKLE_TUPLE) ? -1 : 1;
	case 'l':
	case 0x91:
		return pickle_collect_marked(m, PICKLE_LIST) ? -1 : 1;
	case 'd':
		return pickle_collect_marked(m, PICKLE_DICT) ? -1 : 1;
	case 'a':
		return pickle_extend_top(m, PICKLE_LIST, 1) ? -1 : 1;
	case 's':
		return pickle_extend_top(m, PICKLE_DICT, 2) ? -1 : 1;
	case 'e':
	case 0x90:
		return pickle_extend_marked(m, PICKLE_LIST) ? -1 : 1;
	case 'u':
		return pickle_extend_marked(m, PICKLE_DICT) ? -1 : 1;
	}
	return 0;
}

/* Long names are not kept: a name may be given once and used a million times. */
static int push_global(struct pickle_machine *m, const char *module, size_t n, const char *name, size_t k)
{
	struct pickle_value *v = pickle_push_new(m, PICKLE_GLOBAL);
	char *p;

	if (!v)
		return -1;
	v->text = "?";
	if (n + k > GLOBAL_MOST || memchr(module, 0, n) || memchr(name, 0, k))
		return 0;
	v->text = p = arena_alloc(m->arena, n + k + 2);
	memcpy(p, module, n);
	p[n] = '.';
	memcpy(p + n + 1, name, k);
	return 0;
}

static int global(struct pickle_machine *m, int op)
{
	const struct pickle_value *name, *module;
	const char *a, *b;
	size_t n = 0, k = 0;

	if (op != 0x93) {
		a = pickle_take_line(m, &n);
		b = a ? pickle_take_line(m, &k) : NULL;
		return b ? push_global(m, a, n, b, k) : -1;
	}
	name = pickle_pop(m);
	module = name ? pickle_pop(m) : NULL;
	if (!module)
		return -1;
	if (name->kind != PICKLE_TEXT || module->kind != PICKLE_TEXT)
		return pickle_refuse(m, "a global whose name is not text");
	return push_global(m, module->text, module->n, name->text, name->n);
}

/* Pop func and args, push the call. Keyword arguments (NEWOBJ_EX) are dropped. */
static int call(struct pickle_machine *m, int op)
{
	const struct pickle_value *func, *args;
	struct pickle_value *v;

	if (op == 0x92 && !pickle_pop(m))
		return -1;
	args = pickle_pop(m);
	func = args ? pickle_pop(m) : NULL;
	v = func ? pickle_push_new(m, PICKLE_CALL) : NULL;
	if (!v)
		return -1;
	if (args->kind != PICKLE_TUPLE)
		return pickle_refuse(m, "arguments that are not a tuple");
	v->func = func;
	v->args = args;
	return 0;
}

/* A class and its arguments above a mark: INST has the name inline, OBJ first among them. */
static int instance(struct pickle_machine *m, int op)
{
	struct pickle_value *args;

	if ((op == 'i' && (pickle_collect_marked(m, PICKLE_TUPLE) || global(m, 'c'))) || (op == 'o' && pickle_collect_marked(m, PICKLE_TUPLE)))
		return -1;
	if (op == 'i') {
		struct pickle_value *func = m->stack[m->n - 1];

		m->stack[m->n - 1] = m->stack[m->n - 2];
		m->stack[m->n - 2] = func;
		return call(m, 'R');
	}
	args = pickle_pop(m);
	if (!args || !args->n)
		return pickle_refuse(m, "an object without a class");
	if (pickle_push(m, args->item[0]) || pickle_push(m, args))
		return -1;
	args->item++;
	args->n--;
	args->cap--;
	return call(m, 'R');
}

static int persistent(struct pickle_machine *m, int op)
{
	struct pickle *out = m->out;
	const struct pickle_value *id;
	struct pickle_value *v;

	if (op == 'P' && line_text(m, 'V'))
		return -1;
	id = pickle_pop(m);
	v = id ? pickle_push_new(m, PICKLE_PERSISTENT) : NULL;
	if (!v)
		return -1;
	v->func = id;
	if (out->persistents == out->persistents_cap) {
		size_t cap = out->persistents_cap ? 2 * out->persistents_cap : 16;
		const struct pickle_value **list = arena_alloc(m->arena, cap * sizeof *list);

		if (out->persistents)
			memcpy(list, out->persistent, out->persistents * sizeof *list);
		out->persistent = list;
		out->persistents_cap = cap;
	}
	out->persistent[out->persistents++] = v;
	return 0;
}

static int build(struct pickle_machine *m)
{
	const struct pickle_value *state = pickle_pop(m);
	struct pickle_value *v = state ? pickle_top(m) : NULL;

	if (!v)
		return -1;
	if (v->kind == PICKLE_CALL || v->kind == PICKLE_DICT)
		v->state = state;
	return 0;
}

static int object(struct pickle_machine *m, int op)
{
	switch (op) {
	case 'c':
	case 0x93:
		return global(m, op) ? -1 : 1;
	case 'R':
	case 0x81:
	case 0x92:
		return call(m, op) ? -1 : 1;
	case 'i':
	case 'o':
		return instance(m, op) ? -1 : 1;
	case 'P':
	case 'Q':
		return persistent(m, op) ? -1 : 1;
	case 'b':
		return build(m) ? -1 : 1;
	}
	return 0;
}

static int put_memo(struct pickle_machine *m, uint64_t i)
{
	struct pickle_value *v = pickle_top(m);

	if (!v)
		return -1;
	if (i >= PICKLE_VALUES_MOST || i >= (uint64_t)(m->end - m->start))
		return pickle_refuse(m, "a memo number larger than the file allows");
	if (i >= m->memos_cap) {
		size_t was = m->memos_cap, cap = i < 32 ? 64 : 2 * (size_t)i;

		m->memo = mem_resize(m->memo, cap, sizeof(struct pickle_value *));
		memset(m->memo + was, 0, (cap - was) * sizeof(struct pickle_value *));
		m->memos_cap = cap;
	}
	m->memos += !m->memo[i];
	m->memo[i] = v;
	return 0;
}

static int get_memo(struct pickle_machine *m, uint64_t i)
{
	if (i >= m->memos_cap || !m->memo[i])
		return pickle_refuse(m, "the memo has no value of this number");
	return pickle_push(m, m->memo[i]);
}

static int line_index(struct pickle_machine *m, uint64_t *i)
{
	size_t n = 0;
	const char *p = pickle_take_line(m, &n);
	char digits[NUMBER_MOST];
	int64_t v;

	if (!p || n >= sizeof digits)
		return p ? pickle_refuse(m, "a bad number") : -1;
	memcpy(digits, p, n);
	digits[n] = 0;
	if (parse_i64(digits, 0, INT64_MAX, &v))
		return pickle_refuse(m, "a bad number");
	*i = (uint64_t)v;
	return 0;
}

static int memo(struct pickle_machine *m, int op)
{
	uint64_t i;

	switch (op) {
	case 'p':
		return line_index(m, &i) || put_memo(m, i) ? -1 : 1;
	case 'q':
	case 'r':
		return pickle_take_le(m, op == 'q' ? 1 : 4, &i) || put_memo(m, i) ? -1 : 1;
	case 0x94:
		return put_memo(m, m->memos) ? -1 : 1;
	case 'g':
		return line_index(m, &i) || get_memo(m, i) ? -1 : 1;
	case 'h':
	case 'j':
		return pickle_take_le(m, op == 'h' ? 1 : 4, &i) || get_memo(m, i) ? -1 : 1;
	}
	return 0;
}

static int frame(struct pickle_machine *m, int op)
{
	uint64_t n;

	if (op == 0x80) {
		if (pickle_take_le(m, 1, &n))
			return -1;
		return n > PROTOCOL_MOST ? pickle_refuse(m, "a protocol above 5") : 1;
	}
	if (op == 0x95)
		return pickle_take(m, 8) ? 1 : -1;
	return 0;
}

static struct pickle_value *run(struct pickle_machine *m)
{
	static int (*const groups[])(struct pickle_machine * m, int op) = {memo, text, constant, container, object, frame};

	for (;;) {
		const uint8_t *op = pickle_take(m, 1);
		int rc = 0;

		if (!op)
			return NULL;
		if (*op == '.')
			return pickle_pop(m);
		for (size_t g = 0; g < sizeof groups / sizeof *groups && !rc; g++)
			rc = groups[g](m, *op);
		if (!rc)
			err_set(m->e, ERR_DATA, "%s: pickle, byte %zu: instruction 0x%02x is not supported", m->where, (size_t)(op - m->start), *op);
		if (rc <= 0)
			return NULL;
	}
}

int pickle_parse(struct pickle *p, struct arena *a, const void *data, size_t len, const char *where, struct err *e)
{
	struct pickle_machine m = {.start = data, .p = data, .arena = a, .out = p, .where = where, .e = e, .cap = 64};

	m.stack = mem_zalloc(m.cap, sizeof(struct pickle_value *));
	*p = (struct pickle){0};
	m.end = m.start + (len < PICKLE_BYTES_MOST ? len : PICKLE_BYTES_MOST);
	p->root = run(&m);
	p->used = (size_t)(m.p - m.start);
	mem_free(m.stack);
	mem_free(m.mark);
	mem_free(m.memo);
	return p->root ? 0 : -1;
}
