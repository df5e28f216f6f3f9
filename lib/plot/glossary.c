#include "plot/glossary.h"

#include <stddef.h>
#include <string.h>

static const struct glossary entries[] = {
    {"strategy", "strategy",
     "Who made the samples: the monolith, one network for all the data, or the ensemble of experts under a routing policy. top-1 and top-2 ask "
     "the one or two experts that the router finds most probable at every step, full asks all of them; oracle uses the cluster of a real "
     "picture, prior draws one expert a picture by the sizes of the clusters. conditioned is a monolith that is told the cluster."},
    {"kd", "kernel distance (smaller is closer)",
     "Kernel distance from the samples to the pictures trained on; smaller is closer. Unbiased, so that it may fall below zero by chance."},
    {"kd_heldout", "kernel distance to held-out pictures (smaller is closer)",
     "Kernel distance to the held-out pictures, which nothing was fitted on."},
    {"kd_floor", "kernel distance of real pictures",
     "The same distance between real pictures, trained on and held out: what samples without fault would reach."},
    {"fd", "Frechet distance (smaller is closer)",
     "Frechet distance from the samples to the pictures trained on: how far means and covariances of their features lie apart; smaller is "
     "closer. It grows when there are fewer samples, so compare only equal numbers."},
    {"fd_heldout", "Frechet distance to held-out pictures (smaller is closer)", "Frechet distance to the held-out pictures."},
    {"fd_floor", "Frechet distance of real pictures", "The same distance between real pictures, trained on and held out."},
    {"memorised", "share of copies", "Share of the samples that are copies of a training picture; 0 is none, 1 is all."},
    {"gflop_per_image", "cost of a sample (GFLOP)",
     "Work for one sample: billions of floating-point operations over all steps, router included."},
    {"images_per_second", "samples per second", "Samples a second on the machine of this run; for orientation, since load and machine decide it."},
};

const struct glossary *glossary_find(const char *column)
{
	for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
		if (!strcmp(entries[i].column, column))
			return &entries[i];
	return NULL;
}
