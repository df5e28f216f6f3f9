/* The commands of ddm-diagnose. */
#ifndef DDM_CMD_DIAGNOSE_H
#define DDM_CMD_DIAGNOSE_H

#include "core/option.h"
#include "core/err.h"

struct diagnosis {
	const char *name;              /* the first operand */
	const struct program *program; /* called ddm-diagnose; its synopsis begins with the name */
	int operands;                  /* after the name */
	void (*run)(char **operand, struct err *e);
};

extern const struct diagnosis diagnose_budget;

#endif
