/* Orders that one rank sends to another, and answers to the first rank. The ranks are of one build, so that bodies are arrays and structs as they
 * lie in memory. */
#ifndef DDM_COMM_MESSAGE_H
#define DDM_COMM_MESSAGE_H

#include <stdint.h>

#include "comm/comm.h"
#include "core/str.h"

struct order {
	int64_t kind, bytes; /* kind: the sender's; bytes of the body, which follows */
};

/* Send an order to a rank, or to all others. */
int order_send(struct comm *c, int rank, int kind, const void *body, size_t bytes, struct err *e);
int order_send_all(struct comm *c, int kind, const void *body, size_t bytes, struct err *e);
/* Receive one of rank `from`, its body into *body. */
int order_receive(struct comm *c, int from, struct order *o, struct str *body, struct err *e);

/* Answer the first rank: with the body, or if rc is not 0 with the error. */
int answer_send(struct comm *c, int rc, const struct err *failed, const void *body, size_t bytes, struct err *e);
/* Receive the answer of a rank into *body. The error of that rank becomes *e, beginning with "rank R: ". */
int answer_receive(struct comm *c, int rank, struct str *body, struct err *e);

#endif
