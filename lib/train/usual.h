/* The defaults of training that follow from the network and the data. For small networks they had the smallest held-out loss on photographs of
 * flowers, on drawings and on clothing (docs/findings.md, section 8); for large ones they are published values. */
#ifndef DDM_TRAIN_USUAL_H
#define DDM_TRAIN_USUAL_H

#include "train/trainer.h"

/* The learning rate for AdamW and for Muon: the wider the network, the lower; at most 1e-2; rounded to two digits. */
double usual_rate(const struct net_config *c);

/* Muon for transformers that are no wider than the widest one that was measured; else AdamW. */
enum optimizer_kind usual_optimizer(const struct net_config *c);

/* The number of passes over the data. samples: of the training part of all clusters. 100 passes; where that is more than 500,000 samples, or 100,000
 * for a classifier, fewer. Rounded to three digits. */
double usual_epochs(int64_t samples, int classifier);

/* The steps between lines of the hash chain: a twentieth of the run, and at least 50, because a line costs about as much as a few steps of a narrow
 * network with a small batch. */
int64_t usual_chain(int64_t steps);

/* The steps between two measurements of val_loss on `samples` held-out samples: a twentieth of the run, or more if the measurements would otherwise
 * take more than a tenth of the time of training. The backward pass is taken to cost two forward passes. 0 samples: a twentieth. */
int64_t usual_validation(int64_t steps, int64_t batch, int64_t samples);

/* The network: dit-nano for a router or fewer than 30,000 samples, else dit-micro; of clips, vdit-nano or vdit-micro, but dit-nano for a router.
 * frames 0: no clips. The samples are pictures of size x size pixels or arrays, such as
 * latents, of size x size positions. The patch is the largest of 4, 2 and 1 (of arrays: 2 and 1) that divides the size, leaves at least 8 x 8 patches
 * and has no more numbers than dit-nano is wide. A router's patch is twice as large where that divides the size. */
void usual_network(int64_t samples, int channels, int size, int64_t frames, int arrays, int classifier, char name[24]);

#endif
