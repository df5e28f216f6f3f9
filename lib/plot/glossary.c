/* Labels and explains the columns of a report. */
#include "plot/glossary.h"

#include <stddef.h>
#include <string.h>

static const struct glossary entries[] = {
    {"strategy", "strategy",
     "Who made the samples: the monolith, one network for all the data, or the ensemble of experts under a routing policy. top-1 and top-2 ask "
     "the one or two experts that the router finds most probable at every step, full asks all of them; oracle uses the cluster of a real "
     "picture, prior draws one expert a picture by the sizes of the clusters. conditioned is a monolith that takes the cluster as input."},
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
    {"fd-n", "pictures of each side", "How many pictures of each side entered the Frechet distance."},
    {"fd-axes", "axes of the Frechet distance", "Along how many principal axes of the reference the Frechet distance was taken."},
    {"content", "content distance of clips (smaller is closer)",
     "Kernel distance from the clips of the samples to those of the reference in what single frames show; the order of frames cannot move it; "
     "smaller is closer. Unbiased, so that it may fall below zero by chance."},
    {"motion", "motion distance of clips (smaller is closer)",
     "Kernel distance from the clips of the samples to those of the reference in how things move; what the frames show hardly matters; smaller "
     "is closer. Unbiased, so that it may fall below zero by chance."},
    {"flicker", "steadiness of frames (larger is steadier)",
     "VBench's temporal flickering: 1 less the mean absolute difference of consecutive frames, as a share of the largest; 1 is a still clip."},
    {"warp-error", "warping error (smaller is steadier)",
     "Mean squared difference between a frame and the next one warped back along the optical flow: flicker and deformation beside movement."},
    {"fvd", "FVD (smaller is closer)",
     "Frechet distance of the logits of I3D, a network that recognises actions; smaller is closer. Comparable only for equal numbers of clips and "
     "one recipe. It follows the quality of frames more than movement."},
    {"memorised", "share of copies", "Share of the samples that are copies of a training picture; 0 is none, 1 is all."},
    {"fid", "FID (smaller is closer)",
     "Frechet distance of all samples to all reference pictures in all dimensions of the features, those of Inception where nothing else is "
     "said; smaller is closer. Comparable only for equal numbers of samples, one reference and one way of resizing."},
    {"sfid", "sFID (smaller is closer)", "The same on features that keep where things are in the picture."},
    {"is", "inception score (larger is better)",
     "How certain a classifier is of each sample and how evenly samples spread over its classes; from 1 to the number of classes, larger is "
     "better. It never sees the reference."},
    {"kid", "KID (smaller is closer)",
     "Kernel distance as the mean over random subsets; smaller is closer. Unbiased, so that it may fall below zero by chance."},
    {"precision", "precision (larger is better)", "Share of the samples that lie among real pictures: how many look right; from 0 to 1."},
    {"recall", "recall (larger is better)",
     "Share of the real pictures that lie among the samples: how much of the variety is reached; from 0 to 1."},
    {"density", "density (larger is better)",
     "In how many neighbourhoods of real pictures a sample lies, over what is expected; about 1 for real pictures, and it may exceed 1."},
    {"coverage", "coverage (larger is better)", "Share of the real pictures with a sample in their neighbourhood; from 0 to 1."},
    {"authenticity", "authenticity (larger is newer)",
     "Share of the samples that are not closer to a real picture than real pictures are to each other; about one half for real pictures."},
    {"cmmd", "CMMD (smaller is closer)", "Discrepancy between samples and reference in the embedding of CLIP; smaller is closer."},
    {"vendi", "Vendi score (larger is more varied)", "The effective number of different samples, from 1 to their number."},
    {"clip-score", "CLIP score (larger fits better)",
     "How well samples fit their captions: 100 times the cosine of the embeddings of CLIP, of clips its mean over the frames; larger is better."},
    {"gflop_per_image", "cost of a sample (GFLOP)", "Work for one sample: billions of floating-point operations over all steps, router included."},
    {"images_per_second", "samples per second", "Samples a second on the machine of this run; for orientation, since load and machine decide it."},
};

/* The keys of ddm-eval-fid append the features to the metric: "fid-inception" has the entry of "fid". */
const struct glossary *glossary_find(const char *column)
{
	const struct glossary *found = NULL;

	for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
		size_t len = strlen(entries[i].column);

		if (!strcmp(entries[i].column, column))
			return &entries[i];
		if (!strncmp(entries[i].column, column, len) && column[len] == '-' && !strchr(column + len + 1, '-'))
			found = &entries[i];
	}
	return found;
}
