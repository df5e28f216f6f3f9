/* Identifies a partition of samples by a SHA-256 of the rule that assigns a sample to its cluster. Tables of several sites that follow the same
 * rule, such as shared centroids, get the same hash. Assignments, shards and models store it as "partition". */
#ifndef DDM_DATA_PARTITION_H
#define DDM_DATA_PARTITION_H

#include <jansson.h>
#include <stdint.h>

/* Nearest of k centroids (k, d) of these features; offset [k] is added to the squared distances (cluster/kmeans.h). */
void partition_of_centroids(char hex[65], const float *centroids, const float *offset, int k, int64_t d, const char *features);
/* Change `hex`, a partition by centroids, to that in which the features are scaled to unit length before they are compared. */
void partition_of_cosine(char hex[65]);
/* Change `hex`, a partition by centroids, to that of a method that does not put every training sample to its nearest one. samples: their digest. */
void partition_of_method(char hex[65], const char *method, const char *samples);
/* Change `hex` to the partition in which a sample is also in its nearest other clusters (cluster/soft.h). */
void partition_of_soft(char hex[65], int most, double margin);
/* Change `hex`, the partition by all centroids, to that which extends the partition `old`: samples that `old` was made of keep their clusters. */
void partition_of_extension(char hex[65], const char *old);
/* Random clusters with share [k]. */
void partition_of_shares(char hex[65], const double *share, int k, uint64_t seed);
/* Clusters by a fact of the samples, whose values have these names (core/names.h). */
void partition_of_names(char hex[65], const char *fact, const json_t *names);

#endif
