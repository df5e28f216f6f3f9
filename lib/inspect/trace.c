/* Writes and compares traces of a training step. */
#include "inspect/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "file/fileio.h"
#include "inspect/auditimpl.h"
#include "train/chain.h"

enum { TRACE_MOST = 1 << 28 /* bytes of a trace that is read */ };

void trace_begin(struct trace *t, int64_t step)
{
	str_printf(&t->text, "ddm-trace\t1\t%" PRId64 "\n", step);
}

/* The hash of the elements in index order, wherever they lie. */
static uint64_t array_hash(const struct array *a)
{
	size_t size = dtype_size(a->dtype), n = (size_t)array_count(a);
	char *dense = mem_alloc(n * size + 1);
	int64_t index[ARRAY_RANK] = {0};
	uint64_t hash;

	for (size_t i = 0; i < n; i++) {
		int64_t at = 0;

		for (int d = 0; d < a->rank; d++)
			at += index[d] * a->stride[d];
		memcpy(dense + i * size, (const char *)a->data + at * (int64_t)size, size);
		for (int d = a->rank - 1; d >= 0 && ++index[d] == a->shape[d]; d--)
			index[d] = 0;
	}
	hash = hash64(dense, n * size);
	mem_free(dense);
	return hash;
}

static void put_arrays(struct trace *t, const char *kind, const struct array *a, const char *const *names, int n)
{
	for (int i = 0; i < n; i++) {
		if (!a[i].data)
			continue;
		str_printf(&t->text, "\t%s %s ", kind, names[i] ? names[i] : "-");
		for (int d = 0; d < a[i].rank; d++)
			str_printf(&t->text, "%s%" PRId64, d ? "," : "", a[i].shape[d]);
		str_printf(&t->text, "%s %016" PRIx64, a[i].rank ? "" : "1", array_hash(&a[i]));
	}
}

void trace_node(struct trace *t, const struct tape_event *v)
{
	if (!v->after) {
		str_printf(&t->text, "node\t%s", op_name(v->op));
		put_arrays(t, "in", v->call->in, v->in, v->call->nin);
		return;
	}
	put_arrays(t, "out", v->call->out, v->out, v->call->nout);
	str_puts(&t->text, "\n");
	t->nodes++;
}

void trace_after(struct trace *t, const json_t *run, const json_t *line)
{
	const json_t *hash;
	const char *arena;

	json_object_foreach (json_object_get(line, "hashes"), arena, hash) {
		const char **names, *brief = json_string_value(json_object_get(hash, "parameters"));
		int n = chain_names(run, arena, &names);

		for (int i = 0; brief && i < n && strlen(brief) >= (size_t)(i + 1) * CHAIN_BRIEF; i++)
			str_printf(&t->text, "after\t%s\t%s\t%.*s\n", arena, names[i], CHAIN_BRIEF, brief + i * CHAIN_BRIEF);
		mem_free(names);
	}
}

/* The field at *at up to a tab or the end of the line, copied; NULL at the end. Caller frees with mem_free. */
static char *next_field(const char **at)
{
	size_t n = strcspn(*at, "\t\n");
	char *field;

	if (!**at || **at == '\n')
		return NULL;
	field = mem_strndup(*at, n);
	*at += n + ((*at)[n] == '\t');
	return field;
}

/* The fields of an array: in or out, name, shape and hash. */
struct side {
	char kind[8], name[256], shape[128], hash[32];
};

static int read_side(const char *field, struct side *s)
{
	return sscanf(field, "%7s %255s %127s %31s", s->kind, s->name, s->shape, s->hash) == 4 ? 0 : -1;
}

/* Two records of one node that are compared. */
struct pair {
	int64_t step;
	int node;
	char *op;
	const char *place; /* the name of the last parameter before the node */
	char named[256];   /* the first parameter of the node itself; "": none yet */
	int inputs;        /* arrays that it reads */
};

static void say_other_networks(const struct pair *p, struct str *what)
{
	str_printf(what, "step %" PRId64 ", node %d, %s: these are different networks", p->step, p->node, p->op);
}

/* Array i of the node has the same name and shape on both sides, and other bytes. */
static void say_array(const struct pair *p, int i, const struct side *s, struct str *what)
{
	const char *name = *p->named ? p->named : p->place, *link = *p->named ? " of " : *p->place ? " after " : "";
	int is_param = strcmp(s->name, "-") != 0;

	if (s->kind[0] == 'i')
		str_printf(what, "step %" PRId64 ", node %d, %s%s%s: it reads other numbers: %s%s (%s) differs before the step", p->step, p->node,
		           p->op, link, name, is_param ? "parameter " : "input ", is_param ? s->name : "from outside the network", s->shape);
	else
		str_printf(
		    what, "step %" PRId64 ", node %d, %s (%s)%s%s: its inputs are the same, and output %d differs: this node computes something else",
		    p->step, p->node, p->op, s->shape, link, name, i - p->inputs);
}

/* Compare the records of an array: 1 if they differ, and *what says how. */
static int differ_array(struct pair *p, int i, const char *a, const char *b, struct str *what)
{
	struct side s, t;

	if (!b || read_side(a, &s) || read_side(b, &t) || strcmp(s.kind, t.kind) != 0 || strcmp(s.name, t.name) != 0 ||
	    strcmp(s.shape, t.shape) != 0) {
		say_other_networks(p, what);
		return 1;
	}
	if (!*p->named && strcmp(s.name, "-") != 0)
		memcpy(p->named, s.name, sizeof s.name);
	p->inputs += s.kind[0] == 'i';
	if (!strcmp(s.hash, t.hash))
		return 0;
	say_array(p, i, &s, what);
	return 1;
}

/* Say how two records of the same node differ. place: the name of the last parameter before it. 1: said; 0: only their text differs. */
static int differ_node(const char *a, const char *b, int64_t step, int node, const char *place, struct str *what)
{
	struct pair p = {.step = step, .node = node, .place = place};
	char *other, *x, *y;
	int found;

	mem_free(next_field(&a)); /* the word "node" */
	mem_free(next_field(&b));
	p.op = next_field(&a);
	other = next_field(&b);
	found = !p.op || !other || strcmp(p.op, other) != 0;
	if (found)
		str_printf(what, "step %" PRId64 ", node %d: one is %s, the other %s: these are different networks", step, node, p.op ? p.op : "-",
		           other ? other : "-");
	for (int i = 0; !found && (x = next_field(&a)); i++) {
		y = next_field(&b);
		found = differ_array(&p, i, x, y, what);
		mem_free(x);
		mem_free(y);
	}
	mem_free(p.op);
	mem_free(other);
	return found;
}

/* The last parameter that a record names, for nodes without one. */
static void keep_place(const char *line, char place[256])
{
	char *field;
	struct side s;

	while ((field = next_field(&line))) {
		if (!read_side(field, &s) && strcmp(s.name, "-") != 0)
			memcpy(place, s.name, sizeof s.name);
		mem_free(field);
	}
}

/* All nodes agree, and the record of a parameter does not. */
static void differ_after(const char *line, int64_t step, int nodes, struct str *what)
{
	char *kind = next_field(&line), *arena = next_field(&line), *name = next_field(&line);

	str_printf(what, "step %" PRId64 ", after its %d nodes, all of which are the same: the optimizer computes something else, first %s of %s",
	           step, nodes, name ? name : "?", arena ? arena : "?");
	mem_free(kind);
	mem_free(arena);
	mem_free(name);
}

static int step_of(const char *text, const char *path, int64_t *step, struct err *e)
{
	if (sscanf(text, "ddm-trace\t1\t%" SCNd64, step) != 1)
		return err_set(e, ERR_DATA, "%s: not a trace of ddm-audit --trace", path);
	return 0;
}

static void compare_texts(const char *a, const char *b, int64_t step, int *found, struct str *what)
{
	char place[256] = "";
	int node = 0;

	for (;; a += strcspn(a, "\n") + 1, b += strcspn(b, "\n") + 1) {
		size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");
		int is_node = !strncmp(a, "node\t", 5);

		if (!a[n] || !b[m] || *found)
			break;
		if (n != m || memcmp(a, b, n) != 0) {
			*found = 1;
			if (!is_node || !differ_node(a, b, step, node, place, what))
				differ_after(a, step, node, what);
		}
		node += is_node;
		if (is_node)
			keep_place(a, place);
	}
	if (!*found && (*a || *b)) {
		*found = 1;
		str_printf(what, "step %" PRId64 ": one of the traces ends after %d nodes: it is cut off", step, node);
	}
	if (!*found)
		str_printf(what, "step %" PRId64 ": %d nodes and all parameters after them are the same", step, node);
}

int trace_compare(const char *a, const char *b, struct str *what, struct err *e)
{
	size_t n, m;
	char *x = file_load(a, TRACE_MOST, &n, e), *y = x ? file_load(b, TRACE_MOST, &m, e) : NULL;
	int64_t step = 0, other = 0;
	int rc = y ? 0 : -1, found = 0;

	if (!rc && !(rc = step_of(x, a, &step, e)) && !(rc = step_of(y, b, &other, e)) && step != other)
		rc = err_set(e, ERR_USAGE, "%s is of step %" PRId64 ", and %s of step %" PRId64, a, step, b, other);
	if (!rc)
		compare_texts(x, y, step, &found, what);
	mem_free(x);
	mem_free(y);
	return rc ? -1 : found;
}
