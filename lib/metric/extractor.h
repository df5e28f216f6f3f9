/* Feature extractors turn pictures into the vectors that metrics compare: fixed functions of the pixels, or a network.
 *
 * Another one is a name in the table of extractor.c and a function that fills a struct extractor; a network fills it with
 * extractor_network and gives no more than its run and free. */
#ifndef DDM_METRIC_EXTRACTOR_H
#define DDM_METRIC_EXTRACTOR_H

#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"
#include "kernels/compact.h"
#include "file/still.h"
#include "kernels/device.h"
#include "metric/netinput.h"

/* The places of a network that metrics look at. */
enum tap {
	TAP_MAIN,    /* the features: of Inception the 2048 of the last pooling, of CLIP the embedding */
	TAP_SPATIAL, /* sFID: the 17 x 17 x 7 of Inception, channel fastest */
	TAP_LOGITS,  /* IS: 1008, without the bias */
	TAPS
};

extern const char *const tap_names[TAPS]; /* "main", "spatial", "logits" */

struct extractor {
	char name[16];       /* "pix"; it ends the names of the numbers */
	char hash[65];       /* SHA-256 of all that determines the numbers: a definition, or weights and what the network is fed */
	char input[16];      /* a network's netinput; "" for functions of the pixels as they are */
	int dims[TAPS];      /* 0: no such tap */
	int least;           /* smallest width and height of a picture */
	int all_floats;      /* its weights are floats whatever extractor_options.bulk says: Inception's convolutions on the CPU */
	const char *metrics; /* those that are computed without --metrics */
	/* out[t] (n, dims[t]) of n pictures of 3 channels; out[t] NULL: not wanted. A picture's numbers do not depend on its
	 * neighbours or the pool. */
	int (*run)(struct extractor *x, struct pool *pool, float *const out[TAPS], const struct picture *p, int n, struct err *e);
	void (*free)(void *own); /* may be NULL */
	void *own;
};

struct extractor_options {
	int input;              /* enum netinput of a network; -1: the one its metrics are usual with */
	struct device *device;  /* a network runs there; borrowed */
	enum compact_type bulk; /* of its matrices: net/runner.h */
};

/* "pix", "rgb8": metric/pixfeat.h. "inception:PATH", "dinov2:PATH", "clip:PATH": networks, PATH as in net/inception.h, net/vit.h and
 * net/clip.h. Unknown names, an input that is not the network's: ERR_USAGE with those that there are. Caller frees with extractor_free. */
struct extractor *extractor_open(const char *spec, const struct extractor_options *o, struct err *e);
int extractor_is_network(const char *spec); /* 1 when it needs a device */
void extractor_free(struct extractor *x);   /* NULL is allowed */

extern const char *const extractor_names[]; /* NULL-terminated */

/* A network between netinput_make and its taps. */
struct extractor_network {
	const char *name, *metrics;
	enum netinput input;
	int batch; /* pictures it takes at a time */
	int dims[TAPS];
	const char *weights_hash; /* SHA-256 of the weights, */
	const char *rounding;     /* and to what they are rounded; NULL or "": not at all */
	/* out[t] (n, dims[t]) of pixels (n, 3, side, side), n <= batch; out[t] NULL: not wanted */
	int (*run)(void *net, struct pool *pool, float *const out[TAPS], const float *pixels, int n, struct err *e);
	void (*free)(void *net); /* may be NULL */
	void *net;
};

/* Takes net: when the extractor is freed, net is. */
void extractor_from_network(struct extractor *x, const struct extractor_network *n);

/* For the table. */
int networks_inception(struct extractor *x, const char *path, const struct extractor_options *o, struct err *e);
int networks_dinov2(struct extractor *x, const char *path, const struct extractor_options *o, struct err *e);
int networks_clip(struct extractor *x, const char *path, const struct extractor_options *o, struct err *e);

#endif
