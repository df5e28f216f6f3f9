/* Weights under other names than ours: rules from the names of a parameter table to the tensors of a file. */
#ifndef DDM_NET_RENAME_H
#define DDM_NET_RENAME_H

#include "core/str.h"
#include "file/safetensors.h"
#include "tape/params.h"

enum rename_how {
	RENAME_SAME,
	RENAME_TURNED, /* a matrix, transposed in the file */
	RENAME_FLAT    /* other dimensions in the file, the same elements in the same order */
};

/* In names '#' stands for a number (at most one of them) and '*' at the end for the rest. Several of theirs lie one after the other
 * in ours (dimension 0, RENAME_SAME); none: not in the file, the initial value stays. */
struct rename {
	const char *ours, *theirs[3];
	enum rename_how how;
};

struct rename_copy {
	const char *copy, *original; /* '*' alone; `copy` may hold a '#' */
};

/* A family of names. A parameter that no rule matches has its own name in the file too. */
struct renames {
	const char *sign; /* a tensor by which such a file is known */
	const struct rename *v;
	int n;
	const char *const *spare;         /* tensors of the file that are not needed; ends with NULL; may be NULL */
	const struct rename_copy *copies; /* tensors that must equal others; ends with zeros; may be NULL */
};

/* The name that pattern `to` makes of what pattern `from` finds in `name`, in *out: 1; 0 where `from` does not match. */
int rename_apply(const char *from, const char *to, const char *name, struct str *out);

/* The one of n families that the file's names are of; NULL: none, the names are ours. */
const struct renames *renames_find(const struct renames *const *sets, int n, const struct safetensors *s);

/* Whether the file holds the table's tensors, in their shapes and of a floating type, and nothing else: ERR_DATA naming what is
 * amiss. r may be NULL. */
int renames_match(const struct renames *r, const struct safetensors *s, const char *where, const struct params *p, struct err *e);

/* The value of one parameter, out[q->count], of a file that matches; what is not in the file gets its initial value. */
void renames_read(const struct renames *r, const struct safetensors *s, const struct param *q, float *out);

/* The file's first tensor of a parameter, or NULL: for those whose shape is the file's own. */
const struct st_tensor *renames_tensor(const struct renames *r, const struct safetensors *s, const char *name);

#endif
