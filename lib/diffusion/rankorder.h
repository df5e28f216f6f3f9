/* Orders of the first rank to the others (comm/message.h) where they share the experts in sampling. The first rank runs the router, the solver and
 * the guidance. The other ranks hold some of the experts each; they wait for orders, carry them out and answer.
 *
 * Expert k belongs to the rank that expert_rank says, or with the branches of guidance on two ranks to the pair of ranks that it says. In an
 * evaluation each rank gets the noisy rows that its experts are asked about, and answers with their predictions; weights never travel
 * (diffusion/mixtureremote.c). The texts of a batch are sent once. */
#ifndef DDM_DIFFUSION_RANKORDER_H
#define DDM_DIFFUSION_RANKORDER_H

#include "comm/message.h"
#include "diffusion/denoiser.h"

enum order_kind {
	ORDER_STOP,     /* leave */
	ORDER_REST,     /* wait without a time limit for the next order: the first rank works alone for a while */
	ORDER_TEXTS,    /* keep these texts for the rows to come */
	ORDER_EVALUATE, /* run experts on rows; answered unless the body is empty */
	ORDER_WEIGH     /* answer how many bytes of weights are loaded */
};

/* The rank of expert k: the experts that are there are dealt out in turn, the first of them to rank 0. */
int expert_rank(const struct expert *expert, int k, int ranks);

#endif
