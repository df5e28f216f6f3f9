/* Finds the experts that own a time, and checks that a policy can choose among them at every time. */
#include "diffusion/owners.h"

#include <math.h>

#include "core/mem.h"
#include "core/str.h"

double owners_time(const struct owners *o, double t)
{
	return o->path ? path_time(o->path, path_at(&path_linear, t).logsnr) : t;
}

static struct time_range range_of(const struct owners *o, int i)
{
	return o->expert ? o->expert[i].range : (struct time_range){0};
}

static int cluster_of(const struct owners *o, int i)
{
	return o->expert ? o->expert[i].cluster : i;
}

/* The order by cluster lets a draw that holds for a whole trajectory select the same cluster in every range. */
int owners_at(const struct owners *o, int k, const unsigned char *present, double t, int *owner)
{
	int n = 0;

	for (int i = 0; i < k; i++) {
		int at = n;

		if (!present[i] || !time_range_holds(range_of(o, i), t))
			continue;
		for (n++; at > 0 && cluster_of(o, owner[at - 1]) > cluster_of(o, i); at--)
			owner[at] = owner[at - 1];
		owner[at] = i;
	}
	return n;
}

/* The end of the interval from t on in which the owners stay the same: the least end of a range above t, at most 1. */
static double same_until(const struct owners *o, int k, const unsigned char *present, double t)
{
	double next = 1;

	for (int i = 0; i < k; i++) {
		struct time_range r = range_of(o, i);

		if (!present[i])
			continue;
		next = r.from > t ? fmin(next, r.from) : next;
		next = time_range_end(r) > t ? fmin(next, time_range_end(r)) : next;
	}
	return next;
}

/* Whether entry i of the policy holds somewhere in the times from `from` up to `to`. */
static int entry_within(const struct owners *o, const struct policy *p, int i, double from, double to)
{
	double above = i + 1 < p->entries ? owners_time(o, p->entry[i + 1].from) : -1;

	return from <= owners_time(o, p->entry[i].from) && to > above;
}

int owners_weigh(const struct owners *o, int k, const unsigned char *present, const struct policy *p, enum weight_kind source)
{
	int owner[k], found = 0;

	if (!o->expert)
		return policy_uses(p, source);
	for (double t = 0, next; t < 1 && !found; t = next) {
		next = same_until(o, k, present, t);
		for (int i = 0; i < p->entries; i++)
			found |= p->entry[i].weights == source && p->entry[i].select != SELECT_EXPERT && entry_within(o, p, i, t, next) &&
			         owners_at(o, k, present, t, owner) > 1;
	}
	return found;
}

static int gap(const struct owners *o, int k, const unsigned char *present, double from, double to, struct err *e)
{
	struct str who = {0};

	for (int i = 0; i < k; i++)
		if (present[i] && time_range_end(range_of(o, i)) == from)
			str_printf(&who, "%s expert_%d ends at %g", who.len ? "," : ":", i, from);
	for (int i = 0; i < k; i++)
		if (present[i] && range_of(o, i).from == to)
			str_printf(&who, "%s expert_%d begins at %g", who.len ? "," : ":", i, to);
	err_set(e, ERR_USAGE, "no expert is for times from %g to %g%s", from, to, str_text(&who));
	str_release(&who);
	return -1;
}

static int both(const struct owners *o, int i, int j, double t, const char *why, struct err *e)
{
	char a[TIME_RANGE_TEXT], b[TIME_RANGE_TEXT];

	return err_set(e, ERR_USAGE, "expert_%d (times %s) and expert_%d (times %s) are both for t = %g: %s", i, time_range_text(range_of(o, i), a),
	               j, time_range_text(range_of(o, j), b), t, why);
}

/* Whether an entry can weigh these owners of time t, of which there are several. */
static int check_several(const struct owners *o, const struct policy_entry *y, const int *owner, int n, double t, struct err *e)
{
	if (y->weights == WEIGHT_TIME)
		return both(o, owner[0], owner[1], t, "weights 'time' need one expert for each time", e);
	for (int i = 1; i < n && o->expert && y->weights != WEIGHT_UNIFORM; i++) {
		if (cluster_of(o, owner[i - 1]) < 0)
			return both(o, owner[i - 1], owner[i], t, "weights by cluster need the cluster of each, and the first is of all clusters", e);
		if (cluster_of(o, owner[i - 1]) == cluster_of(o, owner[i]))
			return both(o, owner[i - 1], owner[i], t, "weights by cluster need experts of different clusters", e);
	}
	return 0;
}

int owners_check(const struct owners *o, int k, const unsigned char *present, const struct policy *p, struct err *e)
{
	int owner[k];

	for (double t = 0, next; t < 1; t = next) {
		int n = owners_at(o, k, present, t, owner);

		next = same_until(o, k, present, t);
		for (int i = 0; i < p->entries; i++) {
			const struct policy_entry *y = &p->entry[i];

			if (y->select == SELECT_EXPERT || !entry_within(o, p, i, t, next))
				continue;
			if (o->expert && y->select == SELECT_BUDGET)
				return err_set(e, ERR_USAGE, "route budget:GFLOP: the experts of this model are for different times");
			if (!n)
				return gap(o, k, present, t, next, e);
			if (n > 1 && check_several(o, y, owner, n, t, e))
				return -1;
		}
	}
	return 0;
}
