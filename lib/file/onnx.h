/* ONNX: a network as a graph of operators with its weights, in one protobuf file (https://onnx.ai, onnx.proto). Read here is what a network of
 * pictures needs: nodes, their attributes of numbers and text, and tensors of float, float16, double, int32 and int64. Subgraphs, sparse tensors and
 * tensors in other files are refused. */
#ifndef DDM_FILE_ONNX_H
#define DDM_FILE_ONNX_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "file/safetensors.h"

enum { ONNX_IN = 16, ONNX_OUT = 8 };

/* An attribute. Which member holds its value, the operator says. */
struct onnx_attr {
	const char *name;
	int64_t i;
	double f;
	const char *s;       /* "" if it is no text */
	const int64_t *ints; /* (n) */
	int n;
};

/* A node: the operator, and the numbers of its values. */
struct onnx_node {
	const char *op;
	int in[ONNX_IN]; /* -1: an optional input that is not given */
	int out[ONNX_OUT];
	int ins, outs, attrs;
	const struct onnx_attr *attr; /* (attrs) */
};

struct onnx;

/* Nodes come in an order in which each reads only values that an earlier one made, tensors, and inputs of the graph. ERR_DATA with the path and what
 * is wrong; ERR_UNAVAILABLE in a build without protobuf-c. Caller frees with onnx_free; all that is returned below is borrowed from it. */
struct onnx *onnx_open(const char *path, struct err *e);
struct onnx *onnx_open_memory(const void *data, size_t len, const char *name, struct err *e); /* data may go */
void onnx_free(struct onnx *o);                                                               /* NULL is allowed */

int onnx_nodes(const struct onnx *o);
const struct onnx_node *onnx_node(const struct onnx *o, int i);
int onnx_values(const struct onnx *o);                                /* values have the numbers 0 .. onnx_values - 1 */
const struct st_tensor *onnx_tensor(const struct onnx *o, int value); /* the tensor that the value is; NULL: a node or the user makes it */
int onnx_inputs(const struct onnx *o);                                /* inputs that are no tensors */
int onnx_input(const struct onnx *o, int i);                          /* their values */
int onnx_outputs(const struct onnx *o);
int onnx_output(const struct onnx *o, int i);
int64_t onnx_opset(const struct onnx *o); /* version of the operators */

/* An attribute of a node; the default where it has none. */
const struct onnx_attr *onnx_find(const struct onnx_node *n, const char *name);
int64_t onnx_int(const struct onnx_node *n, const char *name, int64_t otherwise);
double onnx_real(const struct onnx_node *n, const char *name, double otherwise);
const char *onnx_text(const struct onnx_node *n, const char *name, const char *otherwise);

#endif
