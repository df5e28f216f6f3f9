/* Starts a network from the weights of another, which may differ in prediction, path, picture size, classes or text encoder, and may be for pictures
 * where the new one is for clips. */
#ifndef DDM_NET_ADOPT_H
#define DDM_NET_ADOPT_H

#include "net/model.h"

enum adopt_fate {
	ADOPT_TAKEN,   /* copied; the last layer possibly without the variance channels */
	ADOPT_DERIVED, /* computed from weights of another shape or meaning */
	ADOPT_NEW,     /* keeps its initial value */
	ADOPT_DROPPED, /* a tensor of the source that is not used */
	ADOPT_FATES
};

/* Copy from the source's configuration to the new network's what the weights depend on: norm epsilons, time frequencies, time_scale, direction of
 * time, position_scale, size conditioning. On a path of T discrete steps the source saw the steps 0 to T - 1, so time_scale is multiplied by
 * (T - 1) / T: 1000 becomes 999. Width, depth, heads, patch, mlp_ratio (ERR_USAGE) and channels (ERR_DATA) must be equal. Time that runs from noise
 * to data needs an architecture with the field `reversed` (ERR_USAGE).
 *
 * Architectures with `trunk` in their definition (net/netdef.h) can start from each other's weights; if both are for clips, only those of the same
 * architecture. All others start only from the same architecture and size (ERR_USAGE). */
int adopt_config(struct net_config *to, const struct model_config *from, struct err *e);

/* Fill values (p->total floats in host memory, holding the initial values; p from net_params) from the weights in folder `dir`, whose
 * configuration is `from`. Tensors with the same name and meaning are copied. The rest:
 *
 * - Positions for another grid are interpolated (bilinear, between the centres of the tokens).
 * - The last layer is copied if both networks have the same kind and predict the same quantity (`same`); else it is new.
 * - If the class embeddings are not copied, the null class is added to the bias of the time embedding. The unconditional output stays the same.
 * - From adaLN-zero (W_i, b_i of block i) to adaLN-single: the shared layer gets the means W and b over the blocks, and the table of block i gets
 *   (W_i - W) a + b_i - b with a = SiLU(time embedding at t = 1/2), as in Chen et al. 2023. The modulation then is unchanged at t = 1/2. The
 *   conversion from adaLN-single to adaLN-zero is exact.
 * - Of a layer that reads the sample, channels of a first frame that the source lacks get zeros, so they have no effect at the start.
 * - Cross-attention that the source lacks is new; its output layer starts at zero.
 * - From a network for pictures to one for clips the time blocks (net/trunk.h) are new. They add nothing to their tokens at the start, so the new
 *   network computes of each frame what the source computes of it as a picture. In the other direction they are dropped.
 *
 * report(arg, fate, name) is called once for each tensor of the new network, and for each tensor of the source that is not used. ERR_DATA if the
 * weights file does not match its configuration. */
int adopt_weights(const char *dir, const struct model_config *from, const struct net_config *to, int same, const struct params *p, float *values,
                  void (*report)(void *arg, enum adopt_fate fate, const char *name), void *arg, struct err *e);

#endif
