/* Paths from data to noise, and the kinds of prediction of a network on a path.
 *
 * t = 0 is data, t = 1 is noise: x_t = alpha(t) x0 + sigma(t) eps, velocity v = dx_t/dt = alpha' x0 + sigma' eps (eps - x0 on the
 * linear path, where the mixture's velocity is defined). At a given time every kind of prediction is a fixed linear combination of (x0, eps), so any
 * kind converts to any other. A network trained on another path is evaluated at the time of equal log-SNR, with its input scaled to that path. */
#ifndef DDM_DIFFUSION_PATH_H
#define DDM_DIFFUSION_PATH_H

#include <stdint.h>

struct path_point {
	double alpha, sigma;   /* x_t = alpha x0 + sigma eps */
	double dalpha, dsigma; /* derivatives in t */
	double logsnr;         /* log(alpha^2 / sigma^2); +-inf at the ends */
	double sigma_data;     /* the path's */
};

struct path {
	const char *name; /* as in config.json */
	double lo, hi;    /* range of training times on this path */
	struct path_point (*at)(const struct path *p, double t);
	double (*time)(const struct path *p, double logsnr);
	int preserving;    /* alpha^2 + sigma^2 = 1 */
	double sigma_data; /* the standard deviation of the data that PREDICT_EDM, and on path edm alpha, are scaled for */
};

struct path_point path_at(const struct path *p, double t); /* t in [0, 1] */
double path_time(const struct path *p, double logsnr);     /* the t with this log-SNR, in [0, 1] */

/* linear: alpha = 1 - t, sigma = t. */
extern const struct path path_linear;
/* cosine (Nichol and Dhariwal 2021): alpha^2 = cos^2((t + .008)/1.008 pi/2) / cos^2(.008/1.008 pi/2), sigma^2 = 1 - alpha^2;
 * lo and hi are the first and the last unclipped entry of the paper's table of a thousand steps. */
extern const struct path path_cosine;

/* gvp (Ma et al. 2024, SiT): alpha = cos(pi t/2), sigma = sin(pi t/2); its velocity is pi/2 times v_prediction. */
extern const struct path path_gvp;

/* edm (edm.c): log sigma/alpha is linear in t, with sigma/alpha from .002 to 80; alpha is c_in of Karras et al. 2022. This one is for data of the
 * usual deviation, .5; a copy with another sigma_data is the path for data of that deviation (schedule_path makes one). */
extern const struct path path_edm;

/* The path above called `name`, or NULL. For discrete-time paths see diffusion/schedule.h. */
const struct path *path_find(const char *name);

/* Every kind of prediction once: ROW(kind, name in config.json, alternative name or NULL, function of its coefficients).
 *
 *   velocity      dx_t/dt
 *   edm           F of Karras et al. 2022 (edm.c), scaled for data of the path's deviation
 *   v_prediction  alpha eps - sigma x0, as in diffusers; not dx/dt */
#define PREDICTION_LIST(ROW) \
	ROW(VELOCITY, "velocity", "v", velocity_weights) \
	ROW(X0, "x0", NULL, x0_weights) \
	ROW(EPSILON, "epsilon", "eps", epsilon_weights) \
	ROW(ANGULAR, "v_prediction", NULL, angular_weights) \
	ROW(EDM, "edm", NULL, edm_weights)

#define PREDICTION_KIND(kind, name, other, weights) PREDICT_##kind,
enum prediction { PREDICTION_LIST(PREDICTION_KIND) PREDICTIONS };

extern const char *const prediction_names[]; /* in the order of enum prediction; NULL at the end */
int prediction_find(const char *name);       /* -1 when unknown */
const char *prediction_name(enum prediction p);

void edm_weights(const struct path_point *p, double *c, double *d);

/* At one point of a path, the prediction of kind `to` is *a x_t + *b out, where out is the prediction of kind `from`. Infinite if the relation
 * is singular (x0 from epsilon at alpha = 0, velocity from x0 at sigma = 0). */
void prediction_relate(const struct path_point *p, enum prediction from, enum prediction to, double *a, double *b);

/* For training: x_t and the target of one sample; all arrays have d elements. */
void path_noise(const struct path_point *p, float *xt, const float *x0, const float *eps, int64_t d);
void path_target(const struct path_point *p, enum prediction kind, float *target, const float *x0, const float *eps, int64_t d);

/* The prediction is *a x0 + *b eps. */
void path_target_weights(const struct path_point *p, enum prediction kind, double *a, double *b);

#endif
