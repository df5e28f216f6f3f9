/* Which ranks share a computer. */
#ifndef DDM_COMM_HOSTS_H
#define DDM_COMM_HOSTS_H

#include "comm/comm.h"

/* A computer: its name for people, and what tells it from others. Containers of one computer have names of their own, but the same identity. */
struct comm_host {
	char name[64], identity[64];
};
void comm_host_get(struct comm_host *h);
int comm_host_same(const struct comm_host *a, const struct comm_host *b);

/* *place becomes the number of lower ranks on the caller's computer; 0 if c is NULL. Collective. */
int comm_local_rank(struct comm *c, int *place, struct err *e);

#endif
