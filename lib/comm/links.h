/* The network interfaces over which ranks are connected. */
#ifndef DDM_COMM_LINKS_H
#define DDM_COMM_LINKS_H

#include "comm/comm.h"

/* *text becomes the interfaces of the TCP connections between rank 0 and the others: "eth0" if all use the same, else "eth0 (rank 0), ib0 eth0 (ranks
 * 1, 2)". A rank without such a connection has "none": the ranks of one computer exchange through its memory, and some networks do without TCP.
 * Caller frees *text with mem_free. Collective. */
int comm_links(struct comm *c, char **text, struct err *e);

#endif
