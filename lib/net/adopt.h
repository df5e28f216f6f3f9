/* Starts a network from the weights of another, which may differ in prediction, path, picture size, classes or text encoder. */
#ifndef DDM_NET_ADOPT_H
#define DDM_NET_ADOPT_H

#include "net/model.h"

enum adopt_fate {
	ADOPT_TAKEN,   /* as it is; of twice the output channels the first half */
	ADOPT_DERIVED, /* computed from weights of other shape or meaning */
	ADOPT_NEW,     /* as initialised */
	ADOPT_DROPPED, /* of the other network, not used */
	ADOPT_FATES
};

/* Complete the configuration of the network that begins by what its weights were made for: epsilons, frequencies and scale of time (on a
 * path of T steps the network was told the step, 0 to T - 1: of a thousand, time_scale 999), direction of time, what it is told of sizes. Width,
 * depth, heads, patch, perceptrons and channels must be the other's (ERR_USAGE, ERR_DATA for the channels). Time that runs from noise to data
 * needs an architecture that has the field for it (ERR_USAGE).
 *
 * Architectures whose definition says `trunk` are relatives, which begin with each other's weights; the others begin with weights of their own
 * architecture and size alone. What is asked of an architecture stands in its definition (net/netdef.h). */
int adopt_config(struct net_config *to, const struct model_config *from, struct err *e);

/* Fill values (p->total, of the host, initialised, p that of net_params) from the weights of folder dir, whose configuration is `from`. What
 * they have in common by name and meaning is taken. Moreover:
 *
 * - Positions for another grid are interpolated (bilinear, between the centres of the tokens).
 * - The last layer is taken where both predict the same, `same`, and have one kind of it; else it is new.
 * - A null class is added to the bias of the time embedding, where the classes are not taken: what the network does without a class stays.
 * - Of adaLN-zero (W_i, b_i of block i) adaLN-single gets the mean over the blocks, W and b, and as tables what is missing at t = 1/2,
 *   (W_i - W) a + b_i - b with a = SiLU of the time embedding, as Chen et al. 2023 have it; then all blocks are modulated as before at that
 *   time. The way back is exact.
 * - Cross-attention that was not there is new; its last layer begins with zero.
 *
 * told(arg, fate, name) is called once for each tensor of the network, and each of the other that was dropped. A weights file that does not
 * fit its configuration is ERR_DATA. */
int adopt_weights(const char *dir, const struct model_config *from, const struct net_config *to, int same, const struct params *p, float *values,
                  void (*told)(void *arg, enum adopt_fate fate, const char *name), void *arg, struct err *e);

#endif
