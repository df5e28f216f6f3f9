/* Feature extractors turn pictures into the vectors that metrics compare. An extractor is a fixed function of the pixels, or a network.
 *
 * To add one, add its name to the table of extractor.c, with a function that fills a struct extractor. A network fills it by
 * extractor_from_network and needs only its own run and free. */
#ifndef DDM_METRIC_EXTRACTOR_H
#define DDM_METRIC_EXTRACTOR_H

#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"
#include "kernels/compact.h"
#include "file/still.h"
#include "kernels/device.h"
#include "metric/netinput.h"

/* The outputs of a network that metrics use. */
enum tap {
	TAP_MAIN,    /* the features: Inception's last pooling (2048), CLIP's embedding */
	TAP_SPATIAL, /* sFID: Inception's 17 x 17 x 7 activations, channel fastest */
	TAP_LOGITS,  /* IS: Inception's 1008 logits, without the bias */
	TAPS
};

struct extractor {
	char name[16];       /* "pix"; the last part of the keys of the metrics */
	char hash[65];       /* SHA-256 of all that determines the features: a definition, or a network's weights and input convention */
	char input[16];      /* a network's input convention (metric/netinput.h); "" for functions of the pixels */
	int dims[TAPS];      /* 0: no such tap */
	double flops;        /* of one picture; 0 for functions of the pixels */
	int least;           /* smallest width and height of a picture */
	int all_floats;      /* 1: extractor_options.bulk has no effect, as for Inception's convolutions on the CPU, which are always floats */
	const char *metrics; /* the default metrics, computed without --metrics */
	/* Compute out[t] (n, dims[t]) of n pictures of 3 channels; out[t] NULL: not wanted. The features of a picture do not depend on the other
	 * pictures or on the pool. */
	int (*run)(struct extractor *x, struct pool *pool, float *const out[TAPS], const struct picture *p, int n, struct err *e);
	void (*free)(void *own); /* may be NULL */
	void *own;
};

struct extractor_options {
	int input;              /* enum netinput; -1: the network's usual one */
	struct device *device;  /* the device that runs a network; borrowed */
	enum compact_type bulk; /* storage type of its matrices: net/runner.h */
};

/* Open an extractor. "pix", "rgb8": metric/pixfeat.h. "inception:PATH", "dinov2:PATH", "clip:PATH": networks, PATH as in net/inception.h, net/vit.h
 * and net/clip.h. An unknown name, or an input that the network does not take, is ERR_USAGE listing the allowed ones. Caller frees with
 * extractor_free. */
struct extractor *extractor_open(const char *spec, const struct extractor_options *o, struct err *e);
int extractor_is_network(const char *spec); /* 1 if it needs a device */
void extractor_free(struct extractor *x);   /* NULL is allowed */

extern const char *const extractor_names[]; /* NULL-terminated */

/* A network as extractor_from_network takes it: its input convention and its taps. */
struct extractor_network {
	const char *name, *metrics;
	enum netinput input;
	int batch; /* most pictures in one call of run */
	int dims[TAPS];
	double flops;             /* of one picture */
	const char *weights_hash; /* SHA-256 of the weights */
	const char *rounding;     /* name of the type to which the weights are rounded; NULL or "": not rounded */
	/* Compute out[t] (n, dims[t]) from pixels (n, 3, side, side), n <= batch; out[t] NULL: not wanted. */
	int (*run)(void *net, struct pool *pool, float *const out[TAPS], const float *pixels, int n, struct err *e);
	void (*free)(void *net); /* may be NULL */
	void *net;
};

/* Fill x with the network. x owns net: extractor_free frees it. The other members of *n are copied; strings other than `metrics` are not needed
 * afterwards. */
void extractor_from_network(struct extractor *x, const struct extractor_network *n);

/* Openers for the table of extractor.c: fill *x. */
int networks_inception(struct extractor *x, const char *path, const struct extractor_options *o, struct err *e);
int networks_dinov2(struct extractor *x, const char *path, const struct extractor_options *o, struct err *e);
int networks_clip(struct extractor *x, const char *path, const struct extractor_options *o, struct err *e);

#endif
