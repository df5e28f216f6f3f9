/* Parses a condition by recursive descent: one function for each level of precedence. */
#include <stdio.h>
#include <string.h>

#include "core/str.h"
#include "data/conditionimpl.h"

enum token_kind { TOKEN_END, TOKEN_NUMBER, TOKEN_TEXT, TOKEN_NAME, TOKEN_SIGN };

struct token {
	enum token_kind kind;
	int from, to;
	const char *text; /* TOKEN_TEXT, TOKEN_NAME: its content; TOKEN_SIGN: the operator */
	double number;
	int quoted; /* TOKEN_NAME in backquotes */
};

struct parser {
	struct condition *c;
	struct token now;
	int depth;
	struct err *e;
};

/* The longer of two signs that begin alike comes first. */
static const char *const signs[] = {"||", "&&", "==", "!=", "<=", ">=", "<", ">", "!", "~", "+", "-", "*", "/", "(", ")"};

static int fail(const struct parser *p, int at, const char *what)
{
	const char *text = p->c->text;
	int left = (int)strlen(text) - at;

	if (left <= 0)
		return err_set(p->e, ERR_USAGE, "condition, at its end: %s", what);
	return err_set(p->e, ERR_USAGE, "condition, character %d: %s; found '%.24s%s'", at + 1, what, text + at, left > 24 ? "..." : "");
}

static char *copy(struct parser *p, int from, int to)
{
	char *text = arena_alloc(&p->c->memory, (size_t)(to - from) + 1);

	memcpy(text, p->c->text + from, (size_t)(to - from));
	return text;
}

static int is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Characters of names. Bytes above 127 belong to letters of UTF-8. */
static int is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c > 127;
}

static int read_number(struct parser *p, int from)
{
	const char *t = p->c->text;
	int at = from;

	while (is_digit(t[at]) || t[at] == '.')
		at++;
	if ((t[at] == 'e' || t[at] == 'E') && (is_digit(t[at + 1]) || ((t[at + 1] == '-' || t[at + 1] == '+') && is_digit(t[at + 2]))))
		for (at += 2; is_digit(t[at]);)
			at++;
	p->now = (struct token){.kind = TOKEN_NUMBER, .from = from, .to = at};
	if (is_letter(t[at]) || parse_f64(copy(p, from, at), -1e308, 1e308, &p->now.number))
		return fail(p, from, "expected a number; a column whose name begins with a digit needs backquotes");
	return 0;
}

static int read_quoted(struct parser *p, int from)
{
	const char *t = p->c->text, *end = strchr(t + from + 1, t[from]);

	if (!end)
		return fail(p, from, "a quotation mark has no second one");
	if (t[from] == '`' && end == t + from + 1)
		return fail(p, from, "a column without a name");
	p->now = (struct token){.kind = t[from] == '`' ? TOKEN_NAME : TOKEN_TEXT, .from = from, .to = (int)(end - t) + 1, .quoted = 1};
	p->now.text = copy(p, from + 1, (int)(end - t));
	return 0;
}

static int read_sign(struct parser *p, int from)
{
	const char *t = p->c->text + from;

	for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
		if (!strncmp(t, signs[i], strlen(signs[i]))) {
			p->now = (struct token){.kind = TOKEN_SIGN, .from = from, .to = from + (int)strlen(signs[i]), .text = signs[i]};
			return 0;
		}
	if (*t == '=')
		return fail(p, from, "values are compared with ==");
	if (*t == '&' || *t == '|')
		return fail(p, from, "conditions are joined by && and ||");
	return fail(p, from, "a character that has no meaning here");
}

/* Read the token after the present one. */
static int advance(struct parser *p)
{
	const char *t = p->c->text;
	int at = p->now.to;

	while (t[at] == ' ' || t[at] == '\t' || t[at] == '\n' || t[at] == '\r')
		at++;
	if (!t[at]) {
		p->now = (struct token){.kind = TOKEN_END, .from = at, .to = at};
		return 0;
	}
	if (is_digit(t[at]) || (t[at] == '.' && is_digit(t[at + 1])))
		return read_number(p, at);
	if (t[at] == '\'' || t[at] == '"' || t[at] == '`')
		return read_quoted(p, at);
	if (!is_letter(t[at]))
		return read_sign(p, at);
	p->now = (struct token){.kind = TOKEN_NAME, .from = at, .to = at};
	while (is_letter(t[p->now.to]) || is_digit(t[p->now.to]) || t[p->now.to] == '.')
		p->now.to++;
	p->now.text = copy(p, at, p->now.to);
	return 0;
}

static int is_sign(const struct parser *p, const char *sign)
{
	return p->now.kind == TOKEN_SIGN && !strcmp(p->now.text, sign);
}

/* Add a node; returns its index, or -1 if there are too many. */
static int node_add(struct parser *p, struct condition_node n)
{
	struct condition *c = p->c;

	if (c->n == CONDITION_NODES)
		return fail(p, n.from, "the condition has more than 1000 operators and values");
	c->node[c->n] = n;
	return c->n++;
}

static int column_add(struct condition *c, const char *name, int needed)
{
	int i = 0;

	while (i < c->columns && strcmp(c->column[i], name))
		i++;
	if (i == c->columns)
		c->column[c->columns++] = name;
	c->needs[i] |= (uint8_t)needed;
	return i;
}

/* A node that combines a and b (-1: none) and reaches to the end of the token before the present one. */
static int join(struct parser *p, enum condition_kind kind, int a, int b, int from)
{
	const struct condition_node *last = &p->c->node[b < 0 ? a : b];

	return node_add(p, (struct condition_node){.kind = kind, .a = a, .b = b, .from = from < 0 ? p->c->node[a].from : from, .to = last->to});
}

/* The node as a condition: a value holds if it is a number other than 0. -1 for a text. */
static int as_truth(struct parser *p, int node)
{
	if (node < 0 || condition_is_truth(p->c, node))
		return node;
	if (p->c->node[node].kind == CONDITION_TEXT)
		return fail(p, p->c->node[node].from, "a text is no condition: compare it with a column");
	return join(p, CONDITION_IS_TRUE, node, -1, -1);
}

/* -1 if the node is a condition, which is no operand of `sign`. */
static int as_value(struct parser *p, int node, const char *sign)
{
	char what[96];

	if (node < 0 || !condition_is_truth(p->c, node))
		return node;
	snprintf(what, sizeof what, "%s needs values on both sides, not conditions", sign);
	return fail(p, p->c->node[node].from, what);
}

/* Operands of arithmetic are no texts. */
static int as_number(struct parser *p, int node, const char *sign)
{
	node = as_value(p, node, sign);
	if (node < 0 || p->c->node[node].kind != CONDITION_TEXT)
		return node;
	return fail(p, p->c->node[node].from, "a text has no arithmetic");
}

static int parse_or(struct parser *p);

static int parse_has(struct parser *p, int from)
{
	struct condition_node n = {.kind = CONDITION_HAS, .a = -1, .b = -1, .from = from};

	if (advance(p))
		return -1;
	if (p->now.kind != TOKEN_NAME)
		return fail(p, p->now.from, "expected the name of a column in has(...)");
	n.column = column_add(p->c, p->now.text, 0);
	if (advance(p))
		return -1;
	if (!is_sign(p, ")"))
		return fail(p, p->now.from, "expected ')' after the name of a column in has(...)");
	n.to = p->now.to;
	return advance(p) ? -1 : node_add(p, n);
}

static int parse_name(struct parser *p)
{
	struct token name = p->now;

	if (advance(p))
		return -1;
	if (!is_sign(p, "(") || name.quoted)
		return node_add(
		    p, (struct condition_node){
			   .kind = CONDITION_COLUMN, .a = -1, .b = -1, .column = column_add(p->c, name.text, 1), .from = name.from, .to = name.to});
	if (!strcmp(name.text, "has"))
		return parse_has(p, name.from);
	return fail(p, name.from, "an unknown function: there is has(column) only");
}

static int parse_group(struct parser *p)
{
	int from = p->now.from, node;

	if (advance(p) || (node = parse_or(p)) < 0)
		return -1;
	if (!is_sign(p, ")"))
		return fail(p, p->now.from, "expected an operator or ')'");
	p->c->node[node].from = from;
	p->c->node[node].to = p->now.to;
	return advance(p) ? -1 : node;
}

static int parse_atom(struct parser *p)
{
	struct condition_node n = {.a = -1, .b = -1, .number = p->now.number, .text = p->now.text, .from = p->now.from, .to = p->now.to};

	if (p->now.kind == TOKEN_NAME)
		return parse_name(p);
	if (is_sign(p, "("))
		return parse_group(p);
	if (p->now.kind != TOKEN_NUMBER && p->now.kind != TOKEN_TEXT)
		return fail(p, p->now.from, "expected a column, a number or a text");
	n.kind = p->now.kind == TOKEN_NUMBER ? CONDITION_NUMBER : CONDITION_TEXT;
	return advance(p) ? -1 : node_add(p, n);
}

/* Signs before a value or a condition, and all that nests: the depth is counted here. */
static int parse_unary(struct parser *p)
{
	int from = p->now.from, node, negative = is_sign(p, "-"), inverse = is_sign(p, "!");

	if (++p->depth > CONDITION_DEPTH)
		return fail(p, from, "more than 100 parentheses or signs within each other");
	if (!negative && !inverse)
		node = parse_atom(p);
	else if (advance(p) || (node = parse_unary(p)) < 0)
		return -1;
	else if (negative)
		node = (node = as_number(p, node, "-")) < 0 ? -1 : join(p, CONDITION_NEGATIVE, node, -1, from);
	else
		node = (node = as_truth(p, node)) < 0 ? -1 : join(p, CONDITION_NOT, node, -1, from);
	p->depth--;
	return node;
}

static int parse_product(struct parser *p)
{
	int a = parse_unary(p), b;

	while (a >= 0 && (is_sign(p, "*") || is_sign(p, "/"))) {
		const char *sign = p->now.text;

		if ((a = as_number(p, a, sign)) < 0 || advance(p) || (b = as_number(p, parse_unary(p), sign)) < 0)
			return -1;
		a = join(p, *sign == '*' ? CONDITION_MULTIPLY : CONDITION_DIVIDE, a, b, -1);
	}
	return a;
}

static int parse_sum(struct parser *p)
{
	int a = parse_product(p), b;

	while (a >= 0 && (is_sign(p, "+") || is_sign(p, "-"))) {
		const char *sign = p->now.text;

		if ((a = as_number(p, a, sign)) < 0 || advance(p) || (b = as_number(p, parse_product(p), sign)) < 0)
			return -1;
		a = join(p, *sign == '+' ? CONDITION_ADD : CONDITION_SUBTRACT, a, b, -1);
	}
	return a;
}

/* The comparison that the present token stands for; 0: none. */
static enum condition_kind comparison_of(const struct parser *p)
{
	static const struct {
		const char *sign;
		enum condition_kind kind;
	} comparisons[] = {{"==", CONDITION_EQUAL}, {"!=", CONDITION_DIFFERENT}, {"<", CONDITION_LESS}, {"<=", CONDITION_AT_MOST},
	                   {">", CONDITION_MORE},   {">=", CONDITION_AT_LEAST},  {"~", CONDITION_LIKE}};

	for (size_t i = 0; i < sizeof comparisons / sizeof *comparisons; i++)
		if (is_sign(p, comparisons[i].sign))
			return comparisons[i].kind;
	return 0;
}

static int parse_comparison(struct parser *p)
{
	int a = parse_sum(p), b;
	enum condition_kind kind = a < 0 ? 0 : comparison_of(p);
	const char *sign = p->now.text;

	if (!kind)
		return a;
	if ((a = as_value(p, a, sign)) < 0 || advance(p) || (b = as_value(p, parse_sum(p), sign)) < 0)
		return -1;
	if (kind == CONDITION_LIKE && p->c->node[b].kind != CONDITION_TEXT)
		return fail(p, p->c->node[b].from, "~ needs a pattern in quotation marks on its right side");
	if (kind >= CONDITION_LESS && kind <= CONDITION_AT_LEAST && (p->c->node[a].kind == CONDITION_TEXT || p->c->node[b].kind == CONDITION_TEXT))
		return fail(p, p->c->node[a].from, "a text can be compared with ==, != and ~ only");
	if (comparison_of(p))
		return fail(p, p->now.from, "a comparison has two sides; write a < b && b < c");
	return join(p, kind, a, b, -1);
}

static int parse_and(struct parser *p)
{
	int a = parse_comparison(p), b;

	while (a >= 0 && is_sign(p, "&&")) {
		if ((a = as_truth(p, a)) < 0 || advance(p) || (b = as_truth(p, parse_comparison(p))) < 0)
			return -1;
		a = join(p, CONDITION_AND, a, b, -1);
	}
	return a;
}

static int parse_or(struct parser *p)
{
	int a = parse_and(p), b;

	while (a >= 0 && is_sign(p, "||")) {
		if ((a = as_truth(p, a)) < 0 || advance(p) || (b = as_truth(p, parse_and(p))) < 0)
			return -1;
		a = join(p, CONDITION_OR, a, b, -1);
	}
	return a;
}

static int is_constant(const struct condition *c, int node)
{
	const struct condition_node *n = &c->node[node];

	return n->kind == CONDITION_NUMBER || (n->kind == CONDITION_NEGATIVE && is_constant(c, n->a));
}

/* The first column below a node that a comparison needs, or -1. */
static int first_column(const struct condition *c, int node)
{
	const struct condition_node *n = &c->node[node];
	int found = -1;

	if (n->kind == CONDITION_COLUMN)
		return node;
	if (n->kind == CONDITION_LIKE || n->kind == CONDITION_HAS)
		return -1;
	if (n->a >= 0)
		found = first_column(c, n->a);
	return found < 0 && n->b >= 0 ? first_column(c, n->b) : found;
}

/* What a histogram of the rule shows. */
static void find_measure(struct parser *p, struct condition_rule *r)
{
	struct condition *c = p->c;
	const struct condition_node *n = &c->node[r->node];
	int compares = n->kind >= CONDITION_EQUAL && n->kind <= CONDITION_AT_LEAST;

	r->has_limit = compares && is_constant(c, n->a) != is_constant(c, n->b);
	if (r->has_limit) {
		int constant = is_constant(c, n->a) ? n->a : n->b;

		r->measure = constant == n->a ? n->b : n->a;
		r->limit = condition_value_of(c, constant, NULL, NULL, &(int64_t){0}).number;
	} else {
		r->measure = first_column(c, r->node);
	}
	if (compares && (c->node[n->a].kind == CONDITION_TEXT || c->node[n->b].kind == CONDITION_TEXT))
		r->measure = -1;
	if (r->measure >= 0)
		r->measured = copy(p, c->node[r->measure].from, c->node[r->measure].to);
}

/* Make the operands of && at the top the rules, from left to right. */
static void find_rules(struct parser *p, int node)
{
	struct condition *c = p->c;
	struct condition_rule *r = &c->rule[c->rules];

	while (c->node[node].kind == CONDITION_AND) {
		find_rules(p, c->node[node].a);
		node = c->node[node].b;
		r = &c->rule[c->rules];
	}
	*r = (struct condition_rule){.node = node, .text = copy(p, c->node[node].from, c->node[node].to)};
	c->rules++;
	find_measure(p, r);
}

static int parse(struct parser *p)
{
	int root;

	if (strlen(p->c->text) > CONDITION_LENGTH)
		return err_set(p->e, ERR_USAGE, "condition: %zu characters, more than %d", strlen(p->c->text), CONDITION_LENGTH);
	if (advance(p) || (root = as_truth(p, parse_or(p))) < 0)
		return -1;
	if (is_sign(p, ")"))
		return fail(p, p->now.from, "a ')' that nothing opened");
	if (p->now.kind == TOKEN_NAME)
		return fail(p, p->now.from, "expected an operator such as && or >");
	if (p->now.kind != TOKEN_END)
		return fail(p, p->now.from, "expected an operator");
	find_rules(p, root);
	return 0;
}

struct condition *condition_parse(const char *text, struct err *e)
{
	struct condition *c = mem_zalloc(1, sizeof *c);
	struct parser p = {.c = c, .e = e};

	c->text = arena_strdup(&c->memory, text);
	c->node = arena_alloc(&c->memory, CONDITION_NODES * sizeof *c->node);
	c->column = arena_alloc(&c->memory, CONDITION_NODES * sizeof *c->column);
	c->needs = arena_alloc(&c->memory, CONDITION_NODES);
	c->rule = arena_alloc(&c->memory, CONDITION_NODES * sizeof *c->rule);
	if (!parse(&p))
		return c;
	condition_free(c);
	return NULL;
}
