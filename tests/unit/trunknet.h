/* Configurations of DiT and its relatives, for tests. */
#ifndef DDM_TESTS_TRUNKNET_H
#define DDM_TESTS_TRUNKNET_H

#include "net/trunkconfig.h"

/* A configuration with the common fields of c and the architecture's own fields. */
static inline struct net_config trunk_net(struct net_config c, struct trunk_config own)
{
	*trunk_edit(&c) = own;
	return c;
}

#endif
