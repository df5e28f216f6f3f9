/* The commands of ddm-diagnose. */
#ifndef DDM_CMD_DIAGNOSE_H
#define DDM_CMD_DIAGNOSE_H

#include "core/option.h"
#include "core/err.h"

/* A command of ddm-diagnose. */
struct diagnosis {
	const char *name;                           /* the first operand */
	const struct program *program;              /* named ddm-diagnose; its operands begin with `name` */
	int operands;                               /* number of operands after `name` */
	void (*run)(char **operand, struct err *e); /* operand: (operands) */
};

extern const struct diagnosis diagnose_budget, diagnose_loss;

#endif
