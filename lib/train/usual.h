/* Defaults of training that depend on the network and the data: those that had the smallest held-out loss in short runs on photographs of flowers,
 * drawings and clothing (docs/findings.md, section 8), and published ones for larger networks. */
#ifndef DDM_TRAIN_USUAL_H
#define DDM_TRAIN_USUAL_H

#include "train/trainer.h"

/* The learning rate, for AdamW and for Muon, rounded to two digits: 1e-2 for a narrow network, less for a wider one. 1e-4 for a network of an unknown
 * kind. */
double usual_rate(const struct net_config *c);

/* Muon for transformers of at most the width for which it was measured; else AdamW. */
enum optimizer_kind usual_optimizer(const struct net_config *c);

/* Passes over data of which the training part, all clusters together, has so many samples: 100, or fewer where these would see more
 * than 500,000 samples, or 100,000 for a classifier; rounded to three digits. */
double usual_epochs(int64_t samples, int classifier);

/* The preset for so many samples of size x size pixels, or positions of arrays, as latents: at least 8 x 8 patches of at most 4 x 4 pixels or 2 x 2
 * positions; for a router, where possible, patches of twice the size. */
void usual_network(int64_t samples, int size, int arrays, int classifier, char name[24]);

#endif
