/* Finds the storages and tensors in the pickle of a PyTorch file, and the containers that hold them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/torchimpl.h"

enum { DEPTH_MOST = 32, STEPS_MOST = 1 << 22, NAME_MOST = 1000, MEMBERS_SHOWN = 100, WRAPS_MOST = 4, KEY_MOST = 100 };

static const int64_t elements_most = (int64_t)1 << 36; /* of all tensors together, the bytes fit 64 bits */
static const size_t names_most = (size_t)1 << 26;

/* "torch.FloatStorage" of any module of torch. */
static int storage_type(const char *made)
{
	static const struct {
		const char *name;
		int type;
	} classes[] = {
	    {"FloatStorage", ST_F32}, {"DoubleStorage", ST_F64}, {"HalfStorage", ST_F16},   {"BFloat16Storage", ST_BF16},
	    {"LongStorage", ST_I64},  {"IntStorage", ST_I32},    {"ShortStorage", ST_I16},  {"CharStorage", ST_I8},
	    {"ByteStorage", ST_U8},   {"BoolStorage", ST_BOOL},  {"UntypedStorage", ST_U8},
	};
	const char *name = strrchr(made, '.');

	for (size_t i = 0; name && !strncmp(made, "torch.", 6) && i < sizeof classes / sizeof *classes; i++)
		if (!strcmp(name + 1, classes[i].name))
			return classes[i].type;
	return -1;
}

static int dtype(const struct pickle_value *v)
{
	static const struct {
		const char *name;
		int type;
	} types[] = {
	    {"float32", ST_F32},
	    {"float64", ST_F64},
	    {"float16", ST_F16},
	    {"bfloat16", ST_BF16},
	    {"float8_e4m3fn", ST_F8_E4M3},
	    {"float8_e5m2", ST_F8_E5M2},
	    {"int64", ST_I64},
	    {"int32", ST_I32},
	    {"int16", ST_I16},
	    {"int8", ST_I8},
	    {"uint8", ST_U8},
	    {"uint16", ST_U16},
	    {"uint32", ST_U32},
	    {"uint64", ST_U64},
	    {"bool", ST_BOOL},
	};

	for (size_t i = 0; v && v->kind == PICKLE_GLOBAL && !strncmp(v->text, "torch.", 6) && i < sizeof types / sizeof *types; i++)
		if (!strcmp(v->text + 6, types[i].name))
			return types[i].type;
	return -1;
}

static int is_int(const struct pickle_value *v)
{
	return v && v->kind == PICKLE_INT;
}

/* ('storage', class, key, location, elements): what it is, not where. */
int torch_take_storage(const struct torchfile *f, const struct pickle_value *id, struct torch_storage *s, struct err *e)
{
	const struct pickle_value *t = id->func, *made = pickle_item(t, 1), *key = pickle_item(t, 2), *n = pickle_item(t, 4);
	int have;

	if (!pickle_is_text(pickle_item(t, 0), "storage"))
		return -1;
	if (!made || made->kind != PICKLE_GLOBAL || !key || key->kind != PICKLE_TEXT || !key->n || key->n > KEY_MOST ||
	    memchr(key->text, 0, key->n) || !is_int(n) || n->i < 0)
		return err_set(e, ERR_DATA, "%s: a persistent id is not that of a storage", f->where);
	*s = (struct torch_storage){.key = key->text, .len = key->n, .made = made->text, .type = storage_type(made->text), .elements = n->i};
	s->meta = pickle_is_text(pickle_item(t, 3), "meta");
	s->untyped = str_ends(made->text, ".UntypedStorage");
	if (s->type >= 0 && __builtin_mul_overflow((uint64_t)n->i, st_type_size((enum st_type)s->type), &s->bytes))
		return err_set(e, ERR_DATA, "%s: a storage whose size overflows", f->where);
	have = nametable_find(&f->keys, s->key, s->len);
	if (have >= 0 && (strcmp(f->storage[have].made, s->made) || f->storage[have].elements != s->elements))
		return err_set(e, ERR_DATA, "%s: storage '%.*s' is said to be two different ones", f->where, (int)s->len, s->key);
	return have >= 0 ? have : f->storages;
}

static int is_dict(const struct pickle_value *v)
{
	return v && (v->kind == PICKLE_DICT || pickle_calls(v, "collections.OrderedDict") || pickle_calls(v, "collections.defaultdict"));
}

static int is_list(const struct pickle_value *v)
{
	return v && (v->kind == PICKLE_LIST || v->kind == PICKLE_TUPLE);
}

/* Pair i of a dict; Python 2 gave those of an OrderedDict as a list to its class. 0: no more. */
static int pair(const struct pickle_value *v, size_t i, const struct pickle_value **key, const struct pickle_value **value)
{
	const struct pickle_value *list = v->kind == PICKLE_CALL ? pickle_item(v, 0) : NULL;
	size_t given = is_list(list) ? list->n : 0;

	if (i < given) {
		*key = pickle_item(list->item[i], 0);
		*value = pickle_item(list->item[i], 1);
		return 1;
	}
	i -= given;
	if (i >= v->n / 2)
		return 0;
	*key = v->item[2 * i];
	*value = v->item[2 * i + 1];
	return 1;
}

/* The last value of a key counts, as in Python. */
static const struct pickle_value *get(const struct pickle_value *v, const char *name, size_t n)
{
	const struct pickle_value *key, *value, *found = NULL;

	for (size_t i = 0; is_dict(v) && pair(v, i, &key, &value); i++)
		if (key && key->kind == PICKLE_TEXT && key->n == n && !memcmp(key->text, name, n))
			found = value;
	return found;
}

/* Down a dotted path; keys may have dots of their own. */
static const struct pickle_value *find(const struct pickle_value *v, const char *path)
{
	size_t n = strlen(path);
	const struct pickle_value *found = n ? get(v, path, n) : v;

	for (const char *dot = strchr(path, '.'); dot && !found; dot = strchr(dot + 1, '.')) {
		const struct pickle_value *below = get(v, path, (size_t)(dot - path));

		found = below ? find(below, dot + 1) : NULL;
	}
	if (!found && is_list(v) && *path >= '0' && *path <= '9') {
		char *end;
		unsigned long i = strtoul(path, &end, 10);

		if ((*end == '.' || !*end) && i < v->n)
			found = *end ? find(v->item[i], end + 1) : v->item[i];
	}
	return found;
}

/* What a tensor is rebuilt by. */
struct rebuild {
	const struct pickle_value *func, *args;
};

static int rebuilt_by(const struct rebuild *r, const char *name)
{
	return pickle_names(r->func, name);
}

/* Parameters and subclasses wrap the call that counts. 1 where v is a tensor of any sort. */
static int unwrap(const struct pickle_value *v, struct rebuild *r)
{
	for (int i = 0; i < WRAPS_MOST && v && v->kind == PICKLE_CALL; i++) {
		*r = (struct rebuild){v->func, v->args};
		if (rebuilt_by(r, "torch._tensor._rebuild_from_type_v2") || rebuilt_by(r, "torch._tensor._rebuild_from_type")) {
			*r = (struct rebuild){pickle_item(v, 0), pickle_item(v, rebuilt_by(r, "torch._tensor._rebuild_from_type") ? 1 : 2)};
			if (!rebuilt_by(r, "torch._utils._rebuild_parameter"))
				break;
			v = pickle_item(r->args, 0);
			continue;
		}
		if (!rebuilt_by(r, "torch._utils._rebuild_parameter") && !rebuilt_by(r, "torch._utils._rebuild_parameter_with_state"))
			break;
		v = pickle_item(v, 0);
	}
	return v && v->kind == PICKLE_CALL && r->func && r->func->kind == PICKLE_GLOBAL && !strncmp(r->func->text, "torch._utils._rebuild_", 22);
}

/* A tuple of numbers, or torch.Size of one. */
static int numbers(const struct pickle_value *v, int64_t *out)
{
	if (pickle_calls(v, "torch.Size"))
		v = pickle_item(v, 0);
	if (!is_list(v) || v->n > ST_RANK)
		return -1;
	for (size_t i = 0; i < v->n; i++) {
		if (!is_int(v->item[i]) || v->item[i]->i < 0)
			return -1;
		out[i] = v->item[i]->i;
	}
	return (int)v->n;
}

/* Whether all elements lie in the storage; *dense: one after the other. */
static int in_storage(const struct torch_tensor *x, const struct torch_storage *s, int *dense)
{
	int64_t last = x->offset, count = 1, span;
	uint64_t have = s->bytes / st_type_size(x->t.type);

	*dense = 1;
	for (int d = x->t.rank - 1; d >= 0; d--) {
		*dense &= x->t.shape[d] == 1 || x->stride[d] == count;
		if (__builtin_mul_overflow(count, x->t.shape[d], &count) || count > elements_most)
			return 0;
	}
	for (int d = 0; d < x->t.rank && count; d++)
		if (__builtin_mul_overflow(x->t.shape[d] - 1, x->stride[d], &span) || __builtin_add_overflow(last, span, &last))
			return 0;
	*dense |= !count;
	return !count || (uint64_t)last < have;
}

static int bad_tensor(const struct torchfile *f, const char *name, const char *what, struct err *e)
{
	return err_set(e, ERR_DATA, "%s: tensor '%.200s': %s", f->where, name, what);
}

static int skip(struct torchfile *f, const char *what)
{
	if (!f->skipped++)
		f->skipped_what = what;
	return 0;
}

static int shift_view(const struct pickle_value *id, struct torch_tensor *x)
{
	const struct pickle_value *view = pickle_item(id, 5), *at = pickle_item(view, 1);

	return view && view->kind == PICKLE_TUPLE && (!is_int(at) || at->i < 0 || __builtin_add_overflow(x->offset, at->i, &x->offset)) ? -1 : 0;
}

/* 1: *x is one, but for its name; 0: one that is not read; -1. */
static int take_tensor(struct torchfile *f, const struct rebuild *r, const char *name, struct torch_tensor *x, struct err *e)
{
	int third = rebuilt_by(r, "torch._utils._rebuild_tensor_v3"), dense;
	const struct pickle_value *s = pickle_item(r->args, 0), *at = pickle_item(r->args, 1), *of;
	struct torch_storage said;
	int type, rank;

	*x = (struct torch_tensor){0};
	if (!third && !rebuilt_by(r, "torch._utils._rebuild_tensor_v2") && !rebuilt_by(r, "torch._utils._rebuild_tensor"))
		return skip(f, r->func->text);
	if (!s || s->kind != PICKLE_PERSISTENT || (x->storage = torch_take_storage(f, s, &said, e)) < 0 || x->storage >= f->storages)
		return bad_tensor(f, name, "without a storage", e);
	of = third ? pickle_item(r->args, 6) : NULL;
	type = third ? dtype(of) : said.untyped ? -1 : said.type;
	if (type < 0 || said.meta)
		return skip(f, of && of->kind == PICKLE_GLOBAL ? of->text : said.made);
	x->t.type = (enum st_type)type;
	x->t.rank = rank = numbers(pickle_item(r->args, 2), x->t.shape);
	if (!is_int(at) || at->i < 0 || rank < 0 || numbers(pickle_item(r->args, 3), x->stride) != rank)
		return bad_tensor(f, name, "an invalid shape, stride or offset", e);
	x->offset = at->i;
	for (int d = 0; d < rank; d++)
		x->stride[d] = x->t.shape[d] > 1 ? x->stride[d] : 0;
	if (third)
		f->storage[x->storage].type = type;
	if (shift_view(s->func, x) || !in_storage(x, &said, &dense))
		return bad_tensor(f, name, "elements outside its storage", e);
	if (dense && !f->big && f->storage[x->storage].data)
		x->t.data = f->storage[x->storage].data + (size_t)x->offset * st_type_size(x->t.type);
	return 1;
}

/* A walk over what is below the root. */
struct walk {
	struct torchfile *f;
	struct str name;
	int depth, steps;
	size_t names; /* bytes */
	int count;    /* tensors met; with `only` they are not kept */
	int only;
	struct err *e;
};

static int visit(struct walk *w, const struct pickle_value *v, const struct pickle_value *parent);

static int meet_tensor(struct walk *w, const struct rebuild *r, const struct pickle_value *parent)
{
	struct torchfile *f = w->f;
	struct torch_tensor x;
	int rc;

	w->count++;
	if (w->only)
		return 0;
	rc = take_tensor(f, r, str_text(&w->name), &x, w->e);
	if (rc <= 0)
		return rc;
	w->names += w->name.len + 1;
	if (w->names > names_most)
		return err_set(w->e, ERR_DATA, "%s: the names of its tensors take more than %zu bytes", f->where, names_most);
	x.t.name = arena_strdup(&f->arena, w->name.len ? w->name.p : "tensor");
	x.parent = parent;
	if (f->n == f->cap)
		f->tensor = mem_resize(f->tensor, (size_t)(f->cap = f->cap ? 2 * f->cap : 64), sizeof *f->tensor);
	f->tensor[f->n++] = x;
	return 0;
}

/* Below a key; the name is as before afterwards. */
static int descend(struct walk *w, const char *key, size_t n, const struct pickle_value *v, const struct pickle_value *parent)
{
	size_t was = w->name.len;
	int rc;

	if (was + n + 1 > NAME_MOST)
		return err_set(w->e, ERR_DATA, "%s: a name of more than %d bytes", w->f->where, NAME_MOST);
	if (was)
		str_puts(&w->name, ".");
	str_add(&w->name, key, n);
	rc = visit(w, v, parent);
	w->name.len = was;
	if (w->name.p)
		w->name.p[was] = 0;
	return rc;
}

static int visit_dict(struct walk *w, const struct pickle_value *v)
{
	const struct pickle_value *key, *value;
	char digits[24];

	for (size_t i = 0; pair(v, i, &key, &value); i++) {
		const char *text = digits;
		size_t n;

		if (!key || !value || (key->kind != PICKLE_TEXT && key->kind != PICKLE_INT))
			continue;
		if (key->kind == PICKLE_TEXT) {
			text = key->text;
			n = key->n;
		} else {
			n = (size_t)snprintf(digits, sizeof digits, "%lld", (long long)key->i);
		}
		if (memchr(text, 0, n))
			return err_set(w->e, ERR_DATA, "%s: a name with a NUL in it", w->f->where);
		if (descend(w, text, n, value, v))
			return -1;
	}
	return 0;
}

static int visit_list(struct walk *w, const struct pickle_value *v)
{
	char digits[24];

	for (size_t i = 0; i < v->n; i++)
		if (descend(w, digits, (size_t)snprintf(digits, sizeof digits, "%zu", i), v->item[i], v))
			return -1;
	return 0;
}

static int visit(struct walk *w, const struct pickle_value *v, const struct pickle_value *parent)
{
	struct rebuild r;
	int rc = 0;

	if (w->steps++ == STEPS_MOST)
		return err_set(w->e, ERR_DATA, "%s: contains more than %d values", w->f->where, STEPS_MOST);
	if (unwrap(v, &r))
		return meet_tensor(w, &r, parent);
	if (!is_dict(v) && !is_list(v))
		return 0;
	if (w->depth == DEPTH_MOST)
		return err_set(w->e, ERR_DATA, "%s: nested deeper than %d", w->f->where, DEPTH_MOST);
	w->depth++;
	rc = is_dict(v) ? visit_dict(w, v) : visit_list(w, v);
	w->depth--;
	return rc;
}

static int holds_tensor(const struct pickle_value *v)
{
	const struct pickle_value *key, *value;
	struct rebuild r;

	for (size_t i = 0; is_dict(v) && pair(v, i, &key, &value); i++)
		if (unwrap(value, &r))
			return 1;
	return 0;
}

static int choose_root(struct torchfile *f, const char *root, struct err *e)
{
	static const char *const names[] = {"ema", "ema_state_dict", "model_ema", "state_dict", "model_state_dict", "model", "module", "params"};

	f->root = root ? find(f->pickle.root, root) : f->pickle.root;
	f->root_name = root ? arena_strdup(&f->arena, root) : "";
	if (!f->root)
		return err_set(e, ERR_DATA, "%s: contains no '%.200s'", f->where, root);
	for (size_t i = 0; !root && i < sizeof names / sizeof *names; i++)
		if (holds_tensor(get(f->pickle.root, names[i], strlen(names[i])))) {
			f->root = get(f->pickle.root, names[i], strlen(names[i]));
			f->root_name = names[i];
			break;
		}
	return 0;
}

/* Remove the prefix that nn.DataParallel and similar wrappers put in front of every name. */
static void drop_module(struct torchfile *f)
{
	static const char module[] = "module.";
	size_t n = sizeof module - 1;

	for (int i = 0; i < f->n; i++)
		if (strncmp(f->tensor[i].t.name, module, n) || !f->tensor[i].t.name[n])
			return;
	for (int i = 0; i < f->n; i++)
		f->tensor[i].t.name += n;
}

/* Of equal keys in a dict only the last counts. */
static int hash_names(struct torchfile *f, struct err *e)
{
	int n = 0;

	for (int i = 0; i < f->n; i++) {
		const struct torch_tensor *x = f->tensor + i;
		int was = nametable_add(&f->names, x->t.name, strlen(x->t.name), n);

		if (was >= 0 && f->tensor[was].parent != x->parent)
			return err_set(e, ERR_DATA, "%s: two tensors named '%.200s'", f->where, x->t.name);
		f->tensor[was >= 0 ? was : n++] = *x;
	}
	f->n = n;
	return 0;
}

int torch_read_tree(struct torchfile *f, const char *root, struct err *e)
{
	struct walk w = {.f = f, .e = e};
	int rc;

	if (choose_root(f, root, e))
		return -1;
	rc = visit(&w, f->root, NULL);
	str_release(&w.name);
	if (rc)
		return -1;
	if (!root)
		drop_module(f);
	return hash_names(f, e);
}

static char *describe(const struct pickle_value *v)
{
	static const char *const kinds[] = {[PICKLE_NONE] = "None",      [PICKLE_BOOL] = "a truth value", [PICKLE_INT] = "an integer",
	                                    [PICKLE_BIG] = "an integer", [PICKLE_FLOAT] = "a number",     [PICKLE_TEXT] = "text",
	                                    [PICKLE_TUPLE] = "a tuple",  [PICKLE_LIST] = "a list",        [PICKLE_DICT] = "a dict"};

	if (v->kind == PICKLE_GLOBAL)
		return str_new("the name %s", v->text);
	if (v->kind == PICKLE_CALL)
		return str_new("a call of %s", v->func->kind == PICKLE_GLOBAL ? v->func->text : "something");
	return mem_strdup(v->kind == PICKLE_PERSISTENT ? "a storage" : kinds[v->kind]);
}

char *torch_describe(const struct torchfile *f, const char *path)
{
	const struct pickle_value *v = find(f->root, path);

	return v ? describe(v) : NULL;
}

static json_t *member(struct torchfile *f, const struct pickle_value *v)
{
	struct walk w = {.f = f, .only = 1};
	char *text;
	json_t *o;

	if (is_dict(v) || is_list(v)) {
		int rc = visit(&w, v, NULL);

		str_release(&w.name);
		return rc ? json_string("too much") : json_integer(w.count);
	}
	if (v->kind == PICKLE_INT)
		return json_integer(v->i);
	text = v->kind == PICKLE_CALL && v->func->kind == PICKLE_GLOBAL ? mem_strdup(v->func->text) : describe(v);
	o = jsonio_text(text);
	mem_free(text);
	return o;
}

json_t *torch_members(const struct torchfile *f)
{
	const struct pickle_value *root = f->pickle.root, *key, *value;
	json_t *o = is_dict(root) ? json_object() : NULL;
	struct rebuild r;

	for (size_t i = 0; o && pair(root, i, &key, &value) && json_object_size(o) < MEMBERS_SHOWN; i++) {
		char *name = key && key->kind == PICKLE_TEXT && key->n < NAME_MOST ? mem_strndup(key->text, key->n) : NULL;

		if (name && value && !unwrap(value, &r)) {
			json_t *text = jsonio_text(name);

			json_object_set_new(o, json_string_value(text), member((struct torchfile *)(uintptr_t)f, value));
			json_decref(text);
		}
		mem_free(name);
	}
	if (o && json_object_size(o))
		return o;
	json_decref(o);
	return NULL;
}
