/* Walks an ONNX graph, twice: once to check it at a size, which needs no tape, and once to record it (net/onnxops.c). */
#include "net/onnxnet.h"

#include <stdio.h>
#include <string.h>

#include "net/onnxnetimpl.h"

enum { SIDE = 64 /* of the picture at which the graph is checked first */ };

struct onnxnet {
	struct onnx *graph;
	struct runner *net;
	struct device *device;
	char *path;
	int64_t channels;
};

/* Walk the graph at a size: *y is what it makes of the picture x. */
static int walk(const struct onnxnet *n, const struct layers *l, const struct place *x, struct place *y, struct err *e)
{
	struct walk w = {.o = n->graph, .l = l, .where = n->path, .e = e};
	int rc = 0;

	w.place = mem_zalloc((size_t)onnx_values(n->graph) + 1, sizeof *w.place);
	w.place[onnx_input(n->graph, 0)] = *x;
	for (w.index = 0; w.index < onnx_nodes(n->graph) && !rc; w.index++) {
		w.n = onnx_node(n->graph, w.index);
		rc = onnxop_walk(&w);
	}
	*y = w.place[onnx_output(n->graph, 0)];
	mem_free(w.place);
	arena_release(&w.memory);
	if (!rc && !y->there)
		return err_set(e, ERR_DATA, "%s: its output is no picture", n->path);
	return rc;
}

/* The walk has been checked at this size, so it cannot fail. */
static void record(struct recording *r, const void *config, const int64_t *size)
{
	const struct onnxnet *n = config;
	int64_t shape[3] = {size[1], size[2], size[0]};
	struct place x = {.there = 1, .h = size[1], .w = size[2], .c = size[0], .t = recording_input(r, DT_F32, 3, shape, 1)}, y;

	walk(n, &r->l, &x, &y, NULL);
	recording_output(r, op_copy(r->l.t, y.t));
}

/* ---- weights ---- */

/* out [m, kh, kw, m]: the channels from `c` on of weights v [C, 1, kh, kw], on the diagonal. */
static void diagonal(float *out, const struct param *q, const float *v, int64_t c)
{
	int64_t m = q->shape[0], taps = q->shape[1] * q->shape[2];

	memset(out, 0, (size_t)q->count * sizeof *out);
	for (int64_t i = 0; i < m; i++)
		for (int64_t at = 0; at < taps; at++)
			out[(i * taps + at) * m + i] = v[(c + i) * taps + at];
}

/* out [O, taps, C] of weights v [O, C, taps]. */
static void dense(float *out, const float *v, int64_t o, int64_t c, int64_t taps)
{
	for (int64_t i = 0; i < o; i++)
		for (int64_t at = 0; at < taps; at++)
			for (int64_t k = 0; k < c; k++)
				*out++ = v[(i * c + k) * taps + at];
}

/* out [taps, O, C] of a transposed convolution's weights v [C, O, taps]. */
static void transposed(float *out, const float *v, int64_t c, int64_t o, int64_t taps)
{
	for (int64_t at = 0; at < taps; at++)
		for (int64_t i = 0; i < o; i++)
			for (int64_t k = 0; k < c; k++)
				*out++ = v[(k * o + i) * taps + at];
}

static int fill(void *arg, const struct param *q, float *out, struct err *e)
{
	const struct onnxnet *n = arg;
	const struct onnx_node *node;
	const struct st_tensor *t;
	int index, slab, one_a_group;
	char what;
	float *v;

	if (sscanf(q->name, "%d.%c%d", &index, &what, &slab) != 3)
		return err_set(e, ERR_INTERNAL, "%s: no parameter of a node", q->name);
	node = onnx_node(n->graph, index);
	t = onnx_tensor(n->graph, node->in[what == 'w' ? 1 : 2]);
	v = mem_try((size_t)st_count(t), sizeof *v, "weights", e);
	if (!v)
		return -1;
	st_to_f32(v, t);
	one_a_group = onnx_int(node, "group", 1) > 1;
	if (what == 'b')
		memcpy(out, v + (one_a_group ? slab * onnxop_slab(st_count(t)) : 0), (size_t)q->count * sizeof *out);
	else if (one_a_group)
		diagonal(out, q, v, slab * onnxop_slab(t->shape[0]));
	else
		(strcmp(node->op, "Conv") ? transposed : dense)(out, v, t->shape[0], t->shape[1], t->shape[2] * t->shape[3]);
	mem_free(v);
	return 0;
}

/* ---- use ---- */

/* Whether the graph takes one picture and makes one. */
static int graph_check(const struct onnxnet *n, int64_t h, int64_t w, struct place *y, struct err *e)
{
	struct place x = {.there = 1, .h = h, .w = w, .c = n->channels};

	if (onnx_inputs(n->graph) != 1 || onnx_outputs(n->graph) != 1)
		return err_set(e, ERR_DATA, "%s: a graph of %d inputs and %d outputs, not of one each", n->path, onnx_inputs(n->graph),
		               onnx_outputs(n->graph));
	return walk(n, NULL, &x, y, e);
}

struct onnxnet *onnxnet_open(const char *path, int64_t channels, struct device *d, struct err *e)
{
	struct onnxnet *n = mem_zalloc(1, sizeof *n);
	int64_t size[3] = {channels, SIDE, SIDE};
	struct place y;

	n->path = mem_strdup(path);
	n->channels = channels;
	n->device = d;
	n->graph = onnx_open(path, e);
	if (n->graph && !graph_check(n, SIDE, SIDE, &y, e) && (n->net = runner_new(record, n, size, 1, COMPACT_NONE, d, e)) &&
	    !runner_fill(n->net, fill, n, e))
		return n;
	onnxnet_free(n);
	return NULL;
}

void onnxnet_free(struct onnxnet *n)
{
	if (!n)
		return;
	runner_free(n->net);
	onnx_free(n->graph);
	mem_free(n->path);
	mem_free(n);
}

int onnxnet_plan(struct onnxnet *n, int64_t h, int64_t w, int64_t out[3], struct err *e)
{
	struct place y;

	if (graph_check(n, h, w, &y, e) || runner_plan(n->net, (int64_t[3]){n->channels, h, w}, e))
		return -1;
	out[0] = y.h;
	out[1] = y.w;
	out[2] = y.c;
	return 0;
}

int onnxnet_run(struct onnxnet *n, const float *x, float *y, struct err *e)
{
	runner_run(n->net, 1, (const void *const[]){x}, (float *const[]){y});
	return n->device->error(n->device, e);
}
