/* Weights under other names than ours: rules from the names of a parameter table to the tensors of a file. */
#ifndef DDM_NET_RENAME_H
#define DDM_NET_RENAME_H

#include "core/str.h"
#include "file/safetensors.h"
#include "tape/params.h"

/* How a parameter is made of a file's tensors. A convolution, [O, kh, kw, C] here (PARAM_CONV), is always [O, C, kh, kw] there. */
enum rename_how {
	RENAME_SAME,
	RENAME_TRANSPOSED,      /* a matrix, transposed in the file */
	RENAME_CONV_TRANSPOSED, /* [O, kh, kw, C] flipped in both directions, of a transposed convolution, [C, O, kh, kw] in the file */
	RENAME_FLAT,            /* other dimensions in the file, the same elements in the same order */
	RENAME_POINTWISE,       /* a matrix, which in the file may be a convolution of 1 x 1 */
	RENAME_ROOT,            /* of a matrix [1, C], as RENAME_POINTWISE: the root of 1 / C of each */
	RENAME_FOLDED /* a convolution or its bias, with the batch norm that follows it: theirs are the norm's weight, bias, running_mean and
	                    * running_var, and of the convolution its weight */
};

enum { RENAME_SOURCES = 5 };

/* In names each '#' stands for a number, of which there may be four, and one '*' for any text. Theirs have the same numbers in the same order,
 * each as '#' or as '~': counted another way, as the family says. Several of theirs lie one after the other in ours (dimension 0,
 * RENAME_SAME); none: not in the file, the initial value stays. */
struct rename {
	const char *ours, *theirs[RENAME_SOURCES];
	enum rename_how how;
};

struct rename_copy {
	const char *copy, *original; /* '*' alone; `copy` may hold a '#' */
};

/* A family of names. A parameter that no rule matches has its own name in the file too. */
struct renames {
	const char *sign; /* a tensor by which such a file is known; NULL: any file is taken for such a one */
	const struct rename *v;
	int n;
	const char *const *spare;         /* tensors of the file that are not needed; ends with NULL; may be NULL */
	const char *const *own;           /* those that are all needed, but for single numbers; ends with NULL. NULL: all but the spare ones */
	const struct rename_copy *copies; /* tensors that must equal others; ends with zeros; may be NULL */
	const char *prefix;               /* of all names in the file, that of `sign`, `spare` and `own` among them; NULL: none */
	int64_t first, step;              /* '~' of a number is first + step number */
	double eps;                       /* RENAME_FOLDED: added to variances */
};

/* The name that pattern `to` makes of what pattern `from` finds in `name`, in *out: 1; 0 where `from` does not match. */
int rename_apply(const char *from, const char *to, const char *name, struct str *out);

/* The one of n families that the file's names are of; NULL: none, the names are ours. */
const struct renames *renames_find(const struct renames *const *sets, int n, const struct safetensors *s);

/* Whether the file holds the table's tensors, in their shapes and of a floating type, and nothing else: ERR_DATA naming what is
 * amiss. r may be NULL. */
int renames_match(const struct renames *r, const struct safetensors *s, const char *where, const struct params *p, struct err *e);

/* The shape that files hold a parameter in. */
void renames_shape(const struct param *q, int64_t *shape); /* [q->rank] */
/* A convolution's values, [O, C, taps] in files, to [O, taps, C] of PARAM_CONV; with C and taps exchanged, the way back. */
void renames_taps_last(float *out, const float *in, int64_t o, int64_t channels, int64_t taps);

/* The value of one parameter, out[q->count], of a file that matches; what is not in the file gets its initial value. */
void renames_read(const struct renames *r, const struct safetensors *s, const struct param *q, float *out);

/* The floats of a parameter where they lie in the file as the network reads them, or NULL. */
const float *renames_view(const struct renames *r, const struct safetensors *s, const struct param *q);

#endif
