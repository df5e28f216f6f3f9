/* The whole arenas of a state whose ranks keep a share each: gathered for the moment in which they are read, and dealt out when they are loaded. Rank
 * 0 alone reads and writes files, so it leads: it says which arena is next, and the others follow until it dismisses them. */
#include <assert.h>
#include <string.h>

#include "train/state.h"

/* What rank 0 says: gather an arena, keep one that it has loaded, or go on. */
struct order {
	int32_t what, part;
};
enum { GATHER, KEEP, DISMISS };

enum way { PACK, UNPACK };

static void move(const struct train_state *s, const struct state_part *p, enum way way, int64_t whole, int64_t packed, int64_t n)
{
	struct device *d = s->device;
	size_t bytes = (size_t)n * sizeof(float);

	if (!n)
		return;
	if (p->host && way == PACK)
		device_get(d, p->data + packed, s->whole + whole, bytes);
	else if (p->host)
		device_put(d, s->whole + whole, p->data + packed, bytes);
	else if (way == PACK)
		device_copy(d, p->data + packed, s->whole + whole, bytes);
	else
		device_copy(d, s->whole + whole, p->data + packed, bytes);
}

/* Move this rank's share between an arena and s->whole. The frozen parameters follow the share. */
static void move_share(const struct train_state *s, const struct state_part *p, enum way way)
{
	const struct shares *h = s->shares;

	for (int g = 0; g < h->groups; g++)
		move(s, p, way, h->own[g].at, h->own[g].packed, h->own[g].n);
	if (p->total)
		move(s, p, way, s->params->trainable, h->count, s->params->total - s->params->trainable);
}

static int gather(const struct train_state *s, const struct state_part *p, struct err *e)
{
	struct device *d = s->device;
	const struct shares *h = s->shares;

	move_share(s, p, UNPACK);
	for (int g = 0; !d->host && g < h->groups; g++)
		device_get(d, s->host + h->own[g].at, s->whole + h->own[g].at, (size_t)h->own[g].n * sizeof *s->host);
	if (shares_gather(h, s->comm, s->host, e))
		return -1;
	if (!d->host)
		device_put(d, s->whole, s->host, (size_t)h->n * sizeof *s->host);
	return 0;
}

/* Every rank takes its share of the arena that rank 0 has in s->whole, or the weights. */
static int keep(struct train_state *s, int part, const struct state_part *p, struct err *e)
{
	struct device *d = s->device;
	float *x = part ? s->whole : p->data;
	size_t bytes = (size_t)(p->total ? s->params->total : s->params->trainable) * sizeof *x;

	if (!d->host && comm_rank(s->comm) == 0)
		device_get(d, s->host, x, bytes);
	if (comm_share(s->comm, d->host ? x : s->host, bytes, e))
		return -1;
	if (!d->host && comm_rank(s->comm))
		device_put(d, x, s->host, bytes);
	if (part)
		move_share(s, p, PACK);
	return 0;
}

static struct state_part part_of(const struct train_state *s, int part)
{
	struct state_part all[STATE_PARTS];
	int n = state_parts(s, all);

	assert(part < n);
	return all[part];
}

/* The weights are whole on every rank. */
int state_gather(const struct train_state *s, int part, float **x, struct err *e)
{
	struct state_part p = part_of(s, part);

	*x = s->shares && part ? s->whole : p.data;
	return s->shares && part ? gather(s, &p, e) : 0;
}

int state_whole(const struct train_state *s, int part, float **x, struct err *e)
{
	struct order order = {GATHER, part};

	assert(!s->shares || comm_rank(s->comm) == 0);
	if (s->shares && part && comm_share(s->comm, &order, sizeof order, e))
		return -1;
	return state_gather(s, part, x, e);
}

float *state_room(struct train_state *s, int part)
{
	struct state_part p = part_of(s, part);

	if (!s->shares || !part)
		return p.data;
	s->device->fill(s->device, 0, s->whole, 0, (size_t)s->params->total * sizeof *s->whole);
	return s->whole;
}

int state_keep(struct train_state *s, int part, struct err *e)
{
	struct order order = {KEEP, part};
	struct state_part p = part_of(s, part);

	if (!s->shares)
		return 0;
	return comm_share(s->comm, &order, sizeof order, e) || keep(s, part, &p, e) ? -1 : 0;
}

int state_dismiss(const struct train_state *s, struct err *e)
{
	struct order order = {DISMISS, 0};

	return s->shares && !comm_is_lost(s->comm) ? comm_share(s->comm, &order, sizeof order, e) : 0;
}

int state_follow(struct train_state *s, struct err *e)
{
	for (;;) {
		struct order order = {0};
		struct state_part p;

		if (comm_share(s->comm, &order, sizeof order, e))
			return -1;
		if (order.what == DISMISS)
			return 0;
		p = part_of(s, order.part);
		if (order.what == GATHER ? gather(s, &p, e) : keep(s, order.part, &p, e))
			return -1;
	}
}
