/* Converts 8-bit pictures to the float input of a network, by the conventions of the programs that publish metrics. Statistics made with different
 * conventions must not be compared. */
#ifndef DDM_METRIC_NETINPUT_H
#define DDM_METRIC_NETINPUT_H

#include "core/err.h"
#include "file/still.h"

enum netinput {
	NETINPUT_TF1,        /* "tf1": 299 x 299 by TensorFlow 1's bilinear, out pixel i at i * in / out; (x - 128) / 128. Guided-diffusion (ADM),
	                  * torch-fidelity, EDM */
	NETINPUT_TORCH,      /* "torch": x / 255, 299 x 299 by half-pixel bilinear without antialiasing, 2 x - 1. pytorch-fid */
	NETINPUT_CLEAN,      /* "clean": 299 x 299 by Pillow's bicubic in float, plane by plane, clipped to 0 .. 255; (x - 128) / 128. clean-fid */
	NETINPUT_DINOV2,     /* "dinov2": 224 x 224 by Pillow's bicubic in 8 bits, no crop; x / 255, ImageNet's mean and deviation. dgm-eval, EDM2 */
	NETINPUT_CLIP,       /* "clip": shorter side 224 by Pillow's bicubic in 8 bits, centre 224 x 224; x / 255, CLIP's mean and deviation */
	NETINPUT_DINOV2_256, /* "dinov2-256": shorter side 256 by Pillow's bicubic in 8 bits, centre 224 x 224, as DINOv2's own evaluation and
	                      * transformers' processor; x / 255, ImageNet's mean and deviation. For features, not for FD-DINOv2 */
	NETINPUT_CMMD,       /* "cmmd": x / 255, 336 x 336 by half-pixel bicubic (a = -0.75) without antialiasing, CLIP's mean and deviation */
	NETINPUTS
};

/* NULL-terminated names in the order of the enum. */
extern const char *const netinput_names[NETINPUTS + 1];

int netinput_side(enum netinput in); /* side of the square output in pixels */

/* out (3, side, side) from p, which has 3 channels. Thread-safe. ERR_NOMEM. */
int netinput_make(float *out, const struct picture *p, enum netinput in, struct err *e);

#endif
