/* Weights under other names than ours: rules that lead from the names of a parameter table to the tensors of a file. */
#ifndef DDM_NET_RENAME_H
#define DDM_NET_RENAME_H

#include "core/str.h"
#include "file/safetensors.h"
#include "tape/params.h"

/* How a parameter is made from a file's tensors. A convolution (PARAM_CONV) is [O, kh, kw, C] here and always [O, C, kh, kw] in files, and
 * likewise PARAM_CONV3D. */
enum rename_how {
	RENAME_SAME,
	RENAME_TRANSPOSED,      /* a matrix, transposed in the file */
	RENAME_CONV_TRANSPOSED, /* a transposed convolution, [C, O, kh, kw] in the file: [O, kh, kw, C], flipped in both directions */
	RENAME_SWAPPED,         /* the upper and the lower half of the rows (dimension 0) are in the other order in the file */
	RENAME_FLAT,            /* the same elements in the same order, with other dimensions in the file */
	RENAME_POINTWISE,       /* a matrix, which in the file may be a convolution of 1 x 1 or 1 x 1 x 1 */
	RENAME_ROOT,            /* as RENAME_POINTWISE for a matrix [1, C]; each element becomes sqrt(element / C) */
	RENAME_FOLDED /* a convolution or its bias, with the batch norm after it folded in: `theirs` are the norm's weight, bias, running_mean
	                         * and running_var, and the convolution's weight */
};

enum { RENAME_SOURCES = 5 };

/* A rule. In a name each '#' stands for a number, at most four, and one '*' for any text. `theirs` have the same numbers in the same order, each as
 * '#', or as '~' if the family counts it differently (`first`, `step`). Several tensors of `theirs` are concatenated along dimension 0 (RENAME_SAME).
 * If there is none, the parameter is not in the file and keeps its initial value.
 * The last of `theirs` may be '!' and a name: the rule applies only to files that do not hold this tensor. */
struct rename {
	const char *ours, *theirs[RENAME_SOURCES];
	enum rename_how how;
};

struct rename_copy {
	const char *copy, *original; /* patterns with '*'; `copy` may also hold a '#' */
};

/* A family of names. A parameter that no rule matches has the same name in the file. */
struct renames {
	const char *sign; /* a tensor that shows that a file is of this family; NULL: any file is */
	const struct rename *v;
	int n;
	const char *const *spare; /* tensors of the file that are not needed; ends with NULL; may be NULL */
	const char *const *own;   /* patterns of names that must all be used, except scalars; ends with NULL. NULL: all names but the spare ones */
	const struct rename_copy *copies; /* tensors that must equal others; ends with zeros; may be NULL */
	const char *prefix;               /* of all names in the file, also those of `sign`, `spare` and `own`; NULL: none */
	int64_t first, step;              /* '~' stands for first + step * number */
	double eps;                       /* RENAME_FOLDED: added to variances */
};

/* If pattern `from` matches `name`, put the matched parts into pattern `to`, write the result to *out, and return 1; else return 0. */
int rename_apply(const char *from, const char *to, const char *name, struct str *out);

/* The one of n families that the file's names belong to; NULL: none, the names are ours. */
const struct renames *renames_find(const struct renames *const *sets, int n, const struct safetensors *s);

/* ERR_DATA unless the file holds the table's tensors, with their shapes and a floating-point type, and nothing else; names the first fault. r may be
 * NULL. */
int renames_match(const struct renames *r, const struct safetensors *s, const char *where, const struct params *p, struct err *e);

/* The shape of a parameter in files. */
void renames_shape(const struct param *q, int64_t *shape); /* [q->rank] */
/* Reorder a convolution from [O, C, taps], as in files, to [O, taps, C], as in PARAM_CONV. With C and taps exchanged, the reverse. */
void renames_taps_last(float *out, const float *in, int64_t o, int64_t channels, int64_t taps);

/* Read one parameter, out[q->count], from a file that matches. A parameter that is not in the file gets its initial value. */
void renames_read(const struct renames *r, const struct safetensors *s, const struct param *q, float *out);

/* The address of a parameter's floats in the mapped file if the network can read them there; else NULL. */
const float *renames_view(const struct renames *r, const struct safetensors *s, const struct param *q);

#endif
