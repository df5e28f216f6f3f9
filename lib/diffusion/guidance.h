/* Guidance: how two predictions become one. c is the prediction with the condition; u is the prediction without it, or for the negative prompt, or
 * with the condition by a weaker network (autoguidance, arXiv 2406.02507).
 *
 * The methods are one table in guidance.c; a method is a row there, and a rule of the op GUIDE (kernels/op.h). All act on each sample by itself. */
#ifndef DDM_DIFFUSION_GUIDANCE_H
#define DDM_DIFFUSION_GUIDANCE_H

#include <stdint.h>

#include "core/err.h"
#include "core/option.h"
#include "diffusion/path.h"
#include "kernels/device.h"
#include "net/timerange.h"

/* The kind of prediction that a method computes with. */
enum guidance_space {
	GUIDANCE_ANY,      /* a linear method: all kinds give the same */
	GUIDANCE_X0,       /* x0 */
	GUIDANCE_VELOCITY, /* eps - x0, the velocity on the linear path */
	GUIDANCE_NATIVE    /* what the network predicts, as struct guidance_native says */
};

struct guidance_method {
	const char *name, *form; /* form: the syntax, for help and messages */
	enum guide_rule rule;
	enum guidance_space space;
	const struct option *keys; /* rows of KEY=VALUE that fill a struct guidance; one that has a first key "steps" takes its value alone too */
};

/* How to guide. Zeroed: classifier-free guidance u + S (c - u) inside each expert, at all times. The scale S is not a part of it. */
struct guidance {
	const struct guidance_method *method; /* NULL: cfg */
	double limit, momentum, parallel;     /* apg: r (0: none), beta, eta */
	int64_t still;                        /* zero: so many first steps follow the velocity 0 */
	double rescale;                       /* phi of arXiv 2305.08891, 3.4: how far the deviation of the result goes to that of c */
	struct time_range interval;           /* times on the linear path; outside, c alone is used and u not computed (arXiv 2404.07724) */
	int mixed;                            /* mix the c and the u of the experts first and guide once; 0: inside each expert */
};

/* Parse METHOD[:KEY=VALUE,..]; the members that are not of methods stay. ERR_USAGE names the part that is wrong. */
int guidance_parse(struct guidance *g, const char *text, struct err *e);
/* The same method in its shortest form, without keys that have their defaults. Caller frees with mem_free. */
char *guidance_text(const struct guidance *g);
extern const char *const guidance_words[]; /* for completion; NULL at the end */
#define GUIDANCE_FORMS "cfg, apg[:r=R,beta=B,eta=E] or zero[:STEPS]"

/* Whether the result is u + S (c - u): then it is the same inside the experts and after mixing, and in every kind of prediction. */
int guidance_is_linear(const struct guidance *g);
/* Whether it changes c in step `step` at time t of the linear path, and whether u is needed for that. */
int guidance_holds(const struct guidance *g, int64_t step, double t);
/* Whether this step follows the velocity 0. */
int guidance_stills(const struct guidance *g, int64_t step, double t);

/* What a network predicts, on the path that it was trained on. */
struct guidance_native {
	const struct path *path;
	enum prediction kind;
};

/* Predictions to guide, in device memory. */
struct guidance_rows {
	int64_t n, cols, step; /* rows; their guided columns, from the first; elements from one row of c and u to the next */
	const float *x;        /* the samples; rows are d elements apart */
	float *c, *u;          /* c receives the result, u is overwritten */
	float *momentum;       /* (n, d) of the same rows, read if moved is set, and written; NULL without a momentum */
	int64_t d;
	int moved;
	struct path_point at;                 /* of x, on the path that c and u are predictions on */
	enum prediction kind;                 /* of c and u */
	const struct guidance_native *native; /* for rescaling; NULL: as c and u */
};

/* c = the guided prediction with this scale. */
void guidance_run(struct device *d, const struct guidance *g, double scale, const struct guidance_rows *r);
/* c = the prediction whose velocity on the linear path is 0. u and momentum are not used. */
void guidance_still(struct device *d, const struct guidance_rows *r);

#endif
