/* Reads ONNX models by protobuf-c. Names are numbered, so that a node finds what it reads without a search. */
#include "file/onnx.h"

#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "core/mem.h"
#include "file/fileio.h"

enum { PARTS_MOST = 65536 /* nodes, tensors, inputs or outputs */ };

struct value {
	const char *name;
	struct st_tensor *tensor;
	int maker; /* the node that makes it; -1: none */
};

struct onnx {
	struct arena memory;
	const char *where;
	void *model; /* the message */
	struct onnx_node *node;
	struct value *value; /* in the order of their names */
	int *input, *output;
	int nodes, values, inputs, outputs;
	int64_t opset;
};

#ifdef HAVE_PROTOBUF

#include "file/onnx.pb-c.h"

static const char *text(const char *s)
{
	return s ? s : "";
}

static int broken(const struct onnx *o, struct err *e)
{
	return err_set(e, ERR_DATA, "%s: no ONNX file, or a broken one", o->where);
}

/* ---- tensors ---- */

/* Elements of a shape; -1: more than can be. */
static int64_t count_of(const int64_t *dims, size_t rank)
{
	int64_t n = 1;

	for (size_t i = 0; i < rank; i++)
		if (dims[i] < 0 || __builtin_mul_overflow(n, dims[i], &n) || n > INT64_C(1) << 40)
			return -1;
	return n;
}

/* Where the elements of a tensor lie: as bytes, or in the list of their type. */
static const void *elements(const Onnx__Tensor *t, enum st_type *type, size_t *bytes)
{
	const struct {
		int onnx;
		enum st_type type;
		const void *list;
		size_t n;
	} types[] = {{1, ST_F32, t->float_data, t->n_float_data},
	             {6, ST_I32, t->int32_data, t->n_int32_data},
	             {7, ST_I64, t->int64_data, t->n_int64_data},
	             {10, ST_F16, NULL, 0},
	             {11, ST_F64, t->double_data, t->n_double_data}};

	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (types[i].onnx == t->data_type) {
			*type = types[i].type;
			*bytes = t->has_raw_data ? t->raw_data.len : types[i].n * st_type_size(*type);
			return t->has_raw_data ? t->raw_data.data : types[i].list;
		}
	*bytes = 0;
	return NULL;
}

static struct st_tensor *tensor_take(struct onnx *o, const Onnx__Tensor *t, struct err *e)
{
	int64_t count = count_of(t->dims, t->n_dims);
	enum st_type type = ST_BOOL;
	struct st_tensor *out;
	const void *data;
	size_t bytes;

	data = elements(t, &type, &bytes);
	if (t->data_location || type == ST_BOOL) {
		err_set(e, ERR_DATA, t->data_location ? "%s: the tensor \"%s\" lies in another file" : "%s: the tensor \"%s\" holds no numbers",
		        o->where, text(t->name));
		return NULL;
	}
	if (t->n_dims > ST_RANK || count < 0 || (uint64_t)count * st_type_size(type) != bytes) {
		err_set(e, ERR_DATA, "%s: the tensor \"%s\" has more or fewer elements than its shape", o->where, text(t->name));
		return NULL;
	}
	out = arena_alloc(&o->memory, sizeof *out);
	*out = (struct st_tensor){.name = text(t->name), .type = type, .rank = (int)t->n_dims, .data = data};
	if (t->n_dims)
		memcpy(out->shape, t->dims, t->n_dims * sizeof *t->dims);
	return out;
}

/* ---- nodes ---- */

static int attr_take(struct onnx *o, struct onnx_attr *a, const Onnx__Attribute *m, struct err *e)
{
	char *s = arena_alloc(&o->memory, m->s.len + 1);

	if (m->has_g)
		return err_set(e, ERR_DATA, "%s: the attribute \"%s\" is a graph", o->where, text(m->name));
	if (m->s.len)
		memcpy(s, m->s.data, m->s.len);
	*a = (struct onnx_attr){.name = text(m->name), .i = m->i, .f = (double)m->f, .s = s, .ints = m->ints, .n = (int)m->n_ints};
	return m->n_ints > PARTS_MOST ? broken(o, e) : 0;
}

static int node_take(struct onnx *o, struct onnx_node *n, const Onnx__Node *m, struct err *e)
{
	struct onnx_attr *attr = arena_alloc(&o->memory, (m->n_attribute + 1) * sizeof *attr);
	int rc = 0;

	if (m->n_input > ONNX_IN || m->n_output > ONNX_OUT || m->n_attribute > PARTS_MOST)
		return err_set(e, ERR_DATA, "%s: \"%s\" has more inputs than %d, or more outputs than %d", o->where, text(m->op_type), ONNX_IN,
		               ONNX_OUT);
	if (*text(m->domain) && strcmp(m->domain, "ai.onnx"))
		return err_set(e, ERR_DATA, "%s: the operator \"%s\" is of \"%s\", not of ONNX", o->where, text(m->op_type), m->domain);
	*n = (struct onnx_node){.op = text(m->op_type), .ins = (int)m->n_input, .outs = (int)m->n_output, .attrs = (int)m->n_attribute, .attr = attr};
	for (int i = 0; i < n->attrs && !rc; i++)
		rc = attr_take(o, &attr[i], m->attribute[i], e);
	return rc;
}

/* The tensor that a node is, if it is a constant. */
static const Onnx__Tensor *constant_of(const Onnx__Node *m)
{
	if (strcmp(text(m->op_type), "Constant") || m->n_output != 1)
		return NULL;
	for (size_t i = 0; i < m->n_attribute; i++)
		if (m->attribute[i]->t)
			return m->attribute[i]->t;
	return NULL;
}

/* ---- the graph ---- */

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct value *)a)->name, ((const struct value *)b)->name);
}

static int find_among(const struct onnx *o, int values, const char *name)
{
	struct value key = {.name = name}, *v = values ? bsearch(&key, o->value, (size_t)values, sizeof *o->value, compare) : NULL;

	return v ? (int)(v - o->value) : -1;
}

static int value_find(const struct onnx *o, const char *name)
{
	return find_among(o, o->values, name);
}

static int tensor_add(struct onnx *o, const Onnx__Tensor *t, const char *name, struct err *e)
{
	struct st_tensor *tensor = tensor_take(o, t, e);

	if (!tensor)
		return -1;
	o->value[o->values++] = (struct value){text(name), tensor, -1};
	return 0;
}

/* Find all values: tensors, those that nodes make, and the inputs that are no tensors. */
static int values_take(struct onnx *o, const Onnx__Graph *g, struct err *e)
{
	int known;

	for (size_t i = 0; i < g->n_initializer; i++)
		if (tensor_add(o, g->initializer[i], g->initializer[i]->name, e))
			return -1;
	for (size_t i = 0; i < g->n_node; i++) {
		const Onnx__Node *m = g->node[i];
		const Onnx__Tensor *t = constant_of(m);

		if (t ? tensor_add(o, t, m->output[0], e) : node_take(o, &o->node[o->nodes], m, e))
			return -1;
		for (size_t k = 0; k < m->n_output && !t; k++)
			if (*text(m->output[k]))
				o->value[o->values++] = (struct value){m->output[k], NULL, o->nodes};
		o->nodes += !t;
	}
	known = o->values;
	qsort(o->value, (size_t)known, sizeof *o->value, compare);
	for (size_t i = 0; i < g->n_input; i++)
		if (find_among(o, known, text(g->input[i]->name)) < 0)
			o->value[o->values++] = (struct value){text(g->input[i]->name), NULL, -1};
	qsort(o->value, (size_t)o->values, sizeof *o->value, compare);
	for (int i = 1; i < o->values; i++)
		if (!strcmp(o->value[i - 1].name, o->value[i].name))
			return err_set(e, ERR_DATA, "%s: two values are called \"%s\"", o->where, o->value[i].name);
	return 0;
}

/* Number what a node reads and makes; an empty name is an optional value that is not there. */
static int node_link(struct onnx *o, int index, const Onnx__Node *m, struct err *e)
{
	struct onnx_node *n = &o->node[index];

	for (int k = 0; k < n->ins; k++) {
		const char *name = text(m->input[k]);
		int v = n->in[k] = *name ? value_find(o, name) : -1;

		if (*name && (v < 0 || o->value[v].maker >= index))
			return err_set(e, ERR_DATA, "%s: \"%s\" reads \"%s\", which nothing made before it", o->where, n->op, name);
	}
	for (int k = 0; k < n->outs; k++)
		n->out[k] = *text(m->output[k]) ? value_find(o, m->output[k]) : -1;
	return 0;
}

static int graph_take(struct onnx *o, const Onnx__Graph *g, struct err *e)
{
	size_t values = g->n_initializer + g->n_input + 1;
	int node = 0;

	if (g->n_sparse_initializer)
		return err_set(e, ERR_DATA, "%s: sparse tensors", o->where);
	if (g->n_node > PARTS_MOST || g->n_initializer > PARTS_MOST || g->n_input > PARTS_MOST || g->n_output > PARTS_MOST)
		return err_set(e, ERR_DATA, "%s: a graph of more than %d nodes, tensors, inputs or outputs", o->where, PARTS_MOST);
	for (size_t i = 0; i < g->n_node; i++)
		values += g->node[i]->n_output;
	o->node = arena_alloc(&o->memory, (g->n_node + 1) * sizeof *o->node);
	o->value = arena_alloc(&o->memory, values * sizeof *o->value);
	o->input = arena_alloc(&o->memory, (g->n_input + 1) * sizeof *o->input);
	o->output = arena_alloc(&o->memory, (g->n_output + 1) * sizeof *o->output);
	if (values_take(o, g, e))
		return -1;
	for (size_t i = 0; i < g->n_node; i++)
		if (!constant_of(g->node[i]) && node_link(o, node++, g->node[i], e))
			return -1;
	for (size_t i = 0; i < g->n_input; i++) {
		int v = value_find(o, text(g->input[i]->name));

		if (!o->value[v].tensor)
			o->input[o->inputs++] = v;
	}
	for (size_t i = 0; i < g->n_output; i++)
		if ((o->output[o->outputs++] = value_find(o, text(g->output[i]->name))) < 0)
			return err_set(e, ERR_DATA, "%s: the output \"%s\" is not made", o->where, text(g->output[i]->name));
	return 0;
}

static void *model_read(struct onnx *o, const void *data, size_t len, struct err *e)
{
	Onnx__Model *m = onnx__model__unpack(NULL, len, data);

	if (!m || !m->graph || !m->graph->n_node) {
		if (m)
			onnx__model__free_unpacked(m, NULL);
		broken(o, e);
		return NULL;
	}
	for (size_t i = 0; i < m->n_opset_import; i++)
		if (!*text(m->opset_import[i]->domain))
			o->opset = m->opset_import[i]->version;
	return m;
}

static void model_free(void *model)
{
	if (model)
		onnx__model__free_unpacked(model, NULL);
}

struct onnx *onnx_open_memory(const void *data, size_t len, const char *name, struct err *e)
{
	struct onnx *o = mem_zalloc(1, sizeof *o);

	o->where = arena_strdup(&o->memory, name);
	o->model = model_read(o, data, len, e);
	if (o->model && !graph_take(o, ((Onnx__Model *)o->model)->graph, e))
		return o;
	onnx_free(o);
	return NULL;
}

#else

static void model_free(void *model)
{
	(void)model;
}

struct onnx *onnx_open_memory(const void *data, size_t len, const char *name, struct err *e)
{
	(void)data;
	(void)len;
	err_set(e, ERR_UNAVAILABLE,
	        "%s: this build cannot read ONNX files: install protobuf-c (Debian: libprotobuf-c-dev and protobuf-c-compiler), configure and build "
	        "again",
	        name);
	return NULL;
}

#endif

struct onnx *onnx_open(const char *path, struct err *e)
{
	struct filemap m = {0};
	struct onnx *o;

	if (filemap_open(&m, path, e))
		return NULL;
	o = onnx_open_memory(m.data, m.len, path, e);
	filemap_close(&m);
	return o;
}

void onnx_free(struct onnx *o)
{
	if (!o)
		return;
	model_free(o->model);
	arena_release(&o->memory);
	mem_free(o);
}

int onnx_nodes(const struct onnx *o)
{
	return o->nodes;
}

const struct onnx_node *onnx_node(const struct onnx *o, int i)
{
	return &o->node[i];
}

int onnx_values(const struct onnx *o)
{
	return o->values;
}

const struct st_tensor *onnx_tensor(const struct onnx *o, int value)
{
	return o->value[value].tensor;
}

int onnx_inputs(const struct onnx *o)
{
	return o->inputs;
}

int onnx_input(const struct onnx *o, int i)
{
	return o->input[i];
}

int onnx_outputs(const struct onnx *o)
{
	return o->outputs;
}

int onnx_output(const struct onnx *o, int i)
{
	return o->output[i];
}

int64_t onnx_opset(const struct onnx *o)
{
	return o->opset;
}

const struct onnx_attr *onnx_find(const struct onnx_node *n, const char *name)
{
	for (int i = 0; i < n->attrs; i++)
		if (!strcmp(n->attr[i].name, name))
			return &n->attr[i];
	return NULL;
}

int64_t onnx_int(const struct onnx_node *n, const char *name, int64_t otherwise)
{
	const struct onnx_attr *a = onnx_find(n, name);

	return a ? a->i : otherwise;
}

double onnx_real(const struct onnx_node *n, const char *name, double otherwise)
{
	const struct onnx_attr *a = onnx_find(n, name);

	return a ? a->f : otherwise;
}

const char *onnx_text(const struct onnx_node *n, const char *name, const char *otherwise)
{
	const struct onnx_attr *a = onnx_find(n, name);

	return a ? a->s : otherwise;
}
