/* A walk over an ONNX graph, shared by net/onnxnet.c and the operators. */
#ifndef DDM_NET_ONNXNETIMPL_H
#define DDM_NET_ONNXNETIMPL_H

#include "core/mem.h"
#include "file/onnx.h"
#include "net/layers.h"

/* A value of the graph at one size. */
struct place {
	int there; /* 1: a picture of h x w pixels with c channels */
	int64_t h, w, c;
	struct tensor *t;                 /* NULL while the graph is only checked */
	const struct st_tensor *constant; /* NULL, or a tensor of the file in another shape */
};

/* A walk, at one node. */
struct walk {
	const struct onnx *o;
	const struct layers *l; /* NULL: only check */
	struct place *place;    /* of every value */
	struct arena memory;    /* of reshaped constants */
	const struct onnx_node *n;
	int index; /* of the node */
	const char *where;
	struct err *e;
};

/* Check the node, or record it, and place what it makes. ERR_DATA with the path, the operator and what it does that cannot be run. */
int onnxop_walk(struct walk *w);

/* Channels of a slab: a convolution with one channel a group is recorded as a few dense ones, whose weights off the diagonal are zeros. */
int64_t onnxop_slab(int64_t channels);

#endif
