/* Orders of the first rank to the others (comm/comm.h) in sampling. The first rank runs the router, the solver and the guidance. The other ranks hold
 * some of the experts each; they wait for orders, carry them out and answer.
 *
 * Expert k belongs to the rank that expert_rank says. In an evaluation each rank gets the noisy rows that its experts are asked about, and answers
 * with their predictions; weights never travel (diffusion/mixtureremote.c). The texts of a batch are sent once. All ranks are of one build. */
#ifndef DDM_DIFFUSION_RANKORDER_H
#define DDM_DIFFUSION_RANKORDER_H

#include "comm/comm.h"
#include "core/str.h"
#include "diffusion/denoiser.h"

enum order_kind {
	ORDER_STOP,     /* leave */
	ORDER_REST,     /* wait without a time limit for the next order: the first rank works alone for a while */
	ORDER_TEXTS,    /* keep these texts for the rows to come */
	ORDER_EVALUATE, /* run experts on rows; answered unless the body is empty */
	ORDER_WEIGH     /* answer how many bytes of weights are loaded */
};

struct order {
	int64_t kind, bytes; /* of the body, which follows */
};

/* The rank of expert k: the experts that are there are dealt out in turn, the first of them to rank 0. */
int expert_rank(const struct expert *expert, int k, int ranks);

/* Send an order to a rank, or to all others. */
int order_send(struct comm *c, int rank, enum order_kind kind, const void *body, size_t bytes, struct err *e);
int order_send_all(struct comm *c, enum order_kind kind, const void *body, size_t bytes, struct err *e);
/* Receive one from the first rank, into *body. */
int order_receive(struct comm *c, struct order *o, struct str *body, struct err *e);

/* Answer the first rank: with the body, or if rc is not 0 with the error. */
int answer_send(struct comm *c, int rc, const struct err *failed, const void *body, size_t bytes, struct err *e);
/* Receive the answer of a rank into *body. The error of that rank becomes *e, beginning with "rank R: ". */
int answer_receive(struct comm *c, int rank, struct str *body, struct err *e);

#endif
