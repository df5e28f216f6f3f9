/* An evaluation of a mixture whose experts, or whose branches of guidance, are on several ranks (diffusion/rankorder.h). The first rank groups the
 * rows by expert as ever, sends each rank the rows and the groups of its experts, runs its own experts meanwhile, and receives the predictions of the
 * others. It keeps all predictions, in the order of their groups, and mixes them in the order of the experts, so that the sum is the same as that of
 * one process. */
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "diffusion/mixtureimpl.h"
#include "diffusion/rankorder.h"

/* The share of one rank in an evaluation. */
struct part {
	struct str groups; /* of each group: k, mixed, branch, n, and n places of `row` */
	struct str answer; /* the predictions of the groups */
	size_t taken;      /* bytes of `answer` */
	int32_t *row;      /* (rows) rows of the call that the rank gets */
	int32_t *place;    /* (capacity) of each row of the call in `row`, or -1 */
	int64_t rows;
};

struct mixer_ranks {
	int n;
	int *of;           /* (k) rank of each expert, of its branch with the condition if the next rank has the other branch */
	struct part *part; /* (n) */
	struct str body;
	float *there;  /* (capacity, d) on the device: rows of another rank */
	float *x;      /* (capacity, d) on the host */
	float *v;      /* (chunk, columns) on the host */
	double *times; /* (capacity), as the next */
	int32_t *label, *text, *negative, *first;
};

/* What an order says of its rows, before their arrays and the groups. */
struct order_head {
	int64_t rows, step, groups; /* groups: in bytes */
	double t;
	int32_t guided, times, label, text, negative, first; /* the last five: whether the array is there */
};

int mixer_alloc_ranks(struct mixer *x, struct err *e)
{
	const struct mixture *m = x->m;
	struct mixer_ranks *r;
	size_t n = (size_t)x->capacity, d = (size_t)m->d;

	if (!m->comm)
		return 0;
	r = x->ranks = mem_zalloc(1, sizeof *r);
	r->n = comm_size(m->comm);
	r->of = mem_zalloc((size_t)m->k, sizeof *r->of);
	r->part = mem_zalloc((size_t)r->n, sizeof *r->part);
	for (int k = 0; k < m->k; k++)
		r->of[k] = m->branches ? 2 * expert_rank(m->expert, k, r->n / 2) : expert_rank(m->expert, k, r->n);
	for (int i = 0; i < r->n; i++) {
		r->part[i].row = mem_zalloc(n, sizeof *r->part[i].row);
		r->part[i].place = mem_zalloc(n, sizeof *r->part[i].place);
	}
	r->times = mem_zalloc(n, sizeof *r->times);
	r->label = mem_zalloc(n, sizeof *r->label);
	r->text = mem_zalloc(n, sizeof *r->text);
	r->negative = mem_zalloc(n, sizeof *r->negative);
	r->first = mem_zalloc(n, sizeof *r->first);
	return (r->x = mem_try(n * d, sizeof *r->x, "samples", e)) &&
	               (r->v = mem_try((size_t)(x->chunk * mixture_columns(m)), sizeof *r->v, "velocities", e)) &&
	               (r->there = x->device->alloc(x->device, n * d * sizeof *r->there, "samples", e))
	           ? 0
	           : -1;
}

void mixer_free_ranks(struct mixer *x)
{
	struct mixer_ranks *r = x->ranks;

	if (!r)
		return;
	for (int i = 0; i < r->n; i++) {
		str_release(&r->part[i].groups);
		str_release(&r->part[i].answer);
		mem_free(r->part[i].row);
		mem_free(r->part[i].place);
	}
	x->device->release(x->device, r->there);
	str_release(&r->body);
	mem_free(r->of);
	mem_free(r->part);
	mem_free(r->x);
	mem_free(r->v);
	mem_free(r->times);
	mem_free(r->label);
	mem_free(r->text);
	mem_free(r->negative);
	mem_free(r->first);
	mem_free(r);
}

/* Add a group to the part of a rank. The first rank takes rows by their number in the call. */
static void add_to_part(struct mixer *x, int rank, int k, int64_t n, int mixed, enum branch branch)
{
	struct part *p = &x->ranks->part[rank];
	const int32_t head[4] = {k, mixed, branch, (int32_t)n};

	str_add(&p->groups, head, sizeof head);
	for (int64_t i = 0; i < n; i++) {
		int32_t row = x->group[i];

		if (rank && p->place[row] < 0) {
			p->place[row] = (int32_t)p->rows;
			p->row[p->rows++] = row;
		}
		str_add(&p->groups, rank ? &p->place[row] : &row, sizeof row);
	}
}

/* Whether the branches of a group are on two ranks. */
static int is_split(const struct mixer *x, int k, int mixed)
{
	return x->m->branches && mixer_has_branches(x, k, mixed);
}

static int add_group(struct mixer *x, const struct mixture_call *c, int k, int64_t n, int mixed, void *arg, struct err *e)
{
	int rank = x->ranks->of[k], split = is_split(x, k, mixed);

	(void)c, (void)arg, (void)e;
	add_to_part(x, rank, k, n, mixed, split ? BRANCH_GIVEN : BRANCH_BOTH);
	if (split)
		add_to_part(x, rank + 1, k, n, mixed, BRANCH_AWAY);
	return 0;
}

static void add_rows(struct str *s, const struct part *p, const int32_t *v)
{
	for (int64_t i = 0; v && i < p->rows; i++)
		str_add(s, &v[p->row[i]], sizeof *v);
}

static int send_part(struct mixer *x, const struct mixture_call *c, int rank, struct err *e)
{
	struct mixer_ranks *r = x->ranks;
	const struct part *p = &r->part[rank];
	const struct order_head head = {.rows = p->rows,
	                                .step = c->step,
	                                .groups = (int64_t)p->groups.len,
	                                .t = c->t,
	                                .guided = x->guided,
	                                .times = c->times != NULL,
	                                .label = c->label != NULL,
	                                .text = c->text != NULL,
	                                .negative = c->negative != NULL,
	                                .first = c->first != NULL};
	size_t d = (size_t)x->m->d;

	str_reset(&r->body);
	if (!p->groups.len)
		return order_send(x->m->comm, rank, ORDER_EVALUATE, NULL, 0, e);
	str_add(&r->body, &head, sizeof head);
	for (int64_t i = 0; c->times && i < p->rows; i++)
		str_add(&r->body, &c->times[p->row[i]], sizeof *c->times);
	add_rows(&r->body, p, c->label);
	add_rows(&r->body, p, c->text);
	add_rows(&r->body, p, c->negative);
	add_rows(&r->body, p, c->first);
	str_add(&r->body, p->groups.p, p->groups.len);
	for (int64_t i = 0; i < p->rows; i++)
		str_add(&r->body, r->x + (size_t)p->row[i] * d, d * sizeof *r->x);
	return order_send(x->m->comm, rank, ORDER_EVALUATE, r->body.p, r->body.len, e);
}

/* Run the groups on the rows of the call, and append their predictions to *answer. */
static int run_groups(struct mixer *x, const struct mixture_call *c, const char *groups, size_t bytes, struct str *answer, struct err *e)
{
	for (const char *at = groups; at < groups + bytes;) {
		int32_t head[4];
		enum branch branch;
		size_t floats;

		memcpy(head, at, sizeof head);
		branch = (enum branch)head[2];
		memcpy(x->group, at + sizeof head, (size_t)head[3] * sizeof *x->group);
		at += sizeof head + (size_t)head[3] * sizeof *x->group;
		if (mixer_predict(x, c, head[0], head[3], head[1], branch, e))
			return -1;
		floats = (size_t)mixer_predicted(x, head[0], head[3], head[1], branch);
		device_get(x->device, x->ranks->v, x->v, floats * sizeof *x->v);
		str_add(answer, x->ranks->v, floats * sizeof *x->v);
	}
	return x->device->error(x->device, e);
}

int mixer_ask_ranks(struct mixer *x, const struct mixture_call *c, struct err *e)
{
	const struct mixture *m = x->m;
	struct mixer_ranks *r = x->ranks;

	for (int i = 0; i < r->n; i++) {
		struct part *p = &r->part[i];

		str_reset(&p->groups);
		str_reset(&p->answer);
		p->taken = 0;
		p->rows = 0;
		memset(p->place, -1, (size_t)c->n * sizeof *p->place);
	}
	for (int k = 0; k < m->k; k++)
		if (mixer_groups(x, c, k, 1, add_group, NULL, e) || (x->following && mixer_groups(x, c, k, 0, add_group, NULL, e)))
			return -1;
	device_get(x->device, r->x, c->x, (size_t)(c->n * m->d) * sizeof *r->x);
	for (int i = 1; i < r->n; i++)
		if (send_part(x, c, i, e))
			return -1;
	if (run_groups(x, c, r->part->groups.p, r->part->groups.len, &r->part->answer, e))
		return -1;
	for (int i = 1; i < r->n; i++)
		if (r->part[i].groups.len && answer_receive(m->comm, i, &r->part[i].answer, e))
			return -1;
	return 0;
}

static void take_part(struct mixer *x, int rank, float *v, int64_t floats)
{
	struct part *p = &x->ranks->part[rank];
	size_t bytes = (size_t)floats * sizeof *v;

	device_put(x->device, v, p->answer.p + p->taken, bytes);
	p->taken += bytes;
}

void mixer_take(struct mixer *x, int k, int64_t n, int mixed)
{
	int rank = x->ranks->of[k], split = is_split(x, k, mixed);
	int64_t floats = mixer_predicted(x, k, n, mixed, split ? BRANCH_GIVEN : BRANCH_BOTH);

	take_part(x, rank, x->v, floats);
	if (split)
		take_part(x, rank + 1, x->v + floats, floats);
}

/* Copy the array of the rows that comes next in an order, if it is there. */
static const void *next_rows(const char **at, void *into, int there, int64_t rows, size_t size)
{
	if (!there)
		return NULL;
	memcpy(into, *at, (size_t)rows * size);
	*at += (size_t)rows * size;
	return into;
}

int mixer_answer(struct mixer *x, const struct texts *texts, const struct str *order, struct str *answer, struct err *e)
{
	struct mixer_ranks *r = x->ranks;
	struct mixture_call c = {.x = r->there, .texts = texts};
	struct order_head head;
	const char *at = order->p + sizeof head;

	memcpy(&head, order->p, sizeof head);
	c.n = head.rows;
	c.step = head.step;
	c.t = head.t;
	x->guided = head.guided;
	c.times = next_rows(&at, r->times, head.times, c.n, sizeof *r->times);
	c.label = next_rows(&at, r->label, head.label, c.n, sizeof *r->label);
	c.text = next_rows(&at, r->text, head.text, c.n, sizeof *r->text);
	c.negative = next_rows(&at, r->negative, head.negative, c.n, sizeof *r->negative);
	c.first = next_rows(&at, r->first, head.first, c.n, sizeof *r->first);
	device_put(x->device, r->there, at + head.groups, (size_t)(c.n * x->m->d) * sizeof *r->there);
	return run_groups(x, &c, at, (size_t)head.groups, answer, e);
}
