/* The network interfaces over which ranks are connected. */
#ifndef DDM_COMM_LINKS_H
#define DDM_COMM_LINKS_H

#include "comm/comm.h"

/* *text becomes the interfaces of the TCP connections between ranks: "eth0" if all ranks use the same, else "eth0 (rank 0), ib0 eth0 (ranks 1, 2)".
 * A rank without such a connection has "none": the ranks of one computer exchange through its memory, and some networks do without TCP. Only
 * connections with rank 0 are sure to be there already. Caller frees *text with mem_free. Collective. */
int comm_links(struct comm *c, char **text, struct err *e);

#endif
