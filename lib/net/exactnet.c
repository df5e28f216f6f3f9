/* Defines exact experts and routers, which hold a law of the data, such as its samples, instead of a network (diffusion/lawmodel.h). */
#include "net/netdef.h"

/* clang-format off */
#define PICTURE \
	{"in_channels", NULL, NULL, NET_INT, NET_AT(channels), 0, 1, 4096, NET_REQUIRED}, \
	{"sample_size", NULL, NULL, NET_INT, NET_AT(size), 0, 1, 65536, NET_REQUIRED}
/* clang-format on */

static const struct net_field expert_fields[] = {PICTURE};
/* NET_UNWRITTEN, since model_config writes num_clusters for every model. */
static const struct net_field router_fields[] = {PICTURE,
                                                 {"num_clusters", NULL, NULL, NET_INT, NET_AT(clusters), 0, 1, 100000, NET_REQUIRED | NET_UNWRITTEN}};
static const struct net_reads inputs[] = {NET_READS_X, NET_READS_TIME};

const struct net_def net_exact = {
    .name = "exact",
    .role = NET_EXPERT,
    NET_TABLES(expert_fields, inputs),
};

const struct net_def net_exact_router = {
    .name = "exact_router",
    .title = "exact router",
    .role = NET_CLASSIFIER,
    NET_TABLES(router_fields, inputs),
    .prediction = "",
};
