/* The report of ddm-cluster on standard error. */
#ifndef DDM_CMD_CLUSTERREPORT_H
#define DDM_CMD_CLUSTERREPORT_H

#include "cluster/clustering.h"

/* Print what cluster_make found for the request. With --report or --rate a table of the clusters' quality, else their sizes. */
void clusterreport_say(const struct cluster_request *q, const struct cluster_report *r);

#endif
