/* A parsed condition, shared by conditionparse.c, which makes it, and condition.c, which evaluates it. */
#ifndef DDM_DATA_CONDITIONIMPL_H
#define DDM_DATA_CONDITIONIMPL_H

#include "core/mem.h"
#include "data/condition.h"

enum condition_kind {
	/* values */
	CONDITION_NUMBER,
	CONDITION_TEXT,
	CONDITION_COLUMN,
	CONDITION_NEGATIVE,
	CONDITION_ADD,
	CONDITION_SUBTRACT,
	CONDITION_MULTIPLY,
	CONDITION_DIVIDE,
	/* conditions */
	CONDITION_IS_TRUE, /* a value that stands in place of a condition */
	CONDITION_HAS,
	CONDITION_EQUAL,
	CONDITION_DIFFERENT,
	CONDITION_LESS,
	CONDITION_AT_MOST,
	CONDITION_MORE,
	CONDITION_AT_LEAST,
	CONDITION_LIKE,
	CONDITION_NOT,
	CONDITION_AND,
	CONDITION_OR
};

struct condition_node {
	enum condition_kind kind;
	int a, b;         /* operands, indices of nodes; -1: none */
	double number;    /* CONDITION_NUMBER */
	const char *text; /* CONDITION_TEXT */
	int column;       /* CONDITION_COLUMN, CONDITION_HAS */
	int from, to;     /* characters of the text */
};

struct condition_rule {
	int node;
	const char *text;
	int measure;          /* node of the value for histograms, or -1 */
	const char *measured; /* its text */
	int has_limit;        /* the rule compares `measure` with a constant */
	double limit;
};

struct condition {
	struct arena memory; /* of all texts */
	const char *text;
	struct condition_node *node;
	int n;
	const char **column;
	uint8_t *needs; /* [columns] */
	int columns;
	struct condition_rule *rule;
	int rules;
};

/* 1 if the node is a condition, 0 if it is a value. */
int condition_is_truth(const struct condition *c, int node);
/* The value of a node of kind value, given the columns. *undefined is increased if a result is not finite; lacks may be NULL. */
struct condition_value condition_value_of(const struct condition *c, int node, const struct condition_value *column, uint8_t *lacks,
                                          int64_t *undefined);

#endif
