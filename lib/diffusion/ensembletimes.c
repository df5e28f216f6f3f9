/* Finds out which expert of a model owns which times. */
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "diffusion/ensembleimpl.h"
#include "diffusion/layout.h"
#include "file/fileio.h"

/* The range of expert k of the folder; -1 and *e on error. */
static int range_in(const struct layout *l, const char *dir, int k, struct time_range *r, struct err *e)
{
	char name[32], *sub, *folder;
	struct model_config c;
	int64_t step;
	int rc;

	snprintf(name, sizeof name, "expert_%d", k);
	if (!(sub = layout_settle_sub(dir, l->lone ? l->lone : name, NET_EXPERT, 0, &step, e)))
		return -1;
	folder = *sub ? path_join(dir, sub) : mem_strdup(dir);
	rc = model_config_load(folder, &c, e);
	if (!rc) {
		*r = c.range;
		model_config_release(&c);
	}
	mem_free(folder);
	mem_free(sub);
	return rc;
}

int ensemble_numbers_fit(const struct layout *l, const char *dir, struct err *e)
{
	for (int k = (int)l->router.net.clusters; k <= l->highest; k++) {
		struct time_range r = {0};

		if (!l->present[k])
			continue;
		if (range_in(l, dir, k, &r, e))
			return -1;
		if (r.to == 0)
			return err_set(e, ERR_DATA, "%s: the router has %lld clusters, but there is an expert_%d (numbered from 0)", dir,
			               (long long)l->router.net.clusters, k);
	}
	return 0;
}

int ensemble_timed(const char *dir)
{
	struct layout l = {0};
	int timed = 0, others = 0;

	if (!layout_survey(&l, dir, &(struct err){0}) && !l.has_router)
		for (int k = 0; k <= l.highest; k++) {
			struct time_range r = {0};

			if (!l.present[k])
				continue;
			if (range_in(&l, dir, k, &r, &(struct err){0}) || r.to == 0)
				others = 1;
			else
				timed = 1;
		}
	layout_release(&l);
	return timed && !others;
}

/* Whether t means the same noise for both. */
static int same_path(const struct member *a, const struct member *b)
{
	const struct schedule *p = schedule_of(a->path), *q = schedule_of(b->path);

	return !strcmp(a->path->name, b->path->name) && a->path->sigma_data == b->path->sigma_data && !p == !q &&
	       (!p || ensemble_same_schedule(p, q));
}

static int own_range(struct ensemble *s, const char *dir, int k, int *first, struct err *e)
{
	const struct member *m = &s->member[k], *f = &s->member[*first < 0 ? k : *first];

	*first = *first < 0 ? k : *first;
	if (!same_path(m, f))
		return err_set(e, ERR_DATA,
		               "%s: expert_%d was trained on path \"%s\" and expert_%d on \"%s\" or with another table: experts for a part of the "
		               "times need one path, which says how much noise t is",
		               dir, *first, f->path->name, k, m->path->name);
	s->owner[k] = (struct owner){m->config->range, (int)m->config->cluster};
	if (m->config->clusters > s->clusters)
		s->clusters = (int)m->config->clusters;
	if (m->config->cluster >= s->clusters)
		s->clusters = (int)m->config->cluster + 1;
	return 0;
}

int ensemble_take_times(struct ensemble *s, const struct layout *l, const struct ensemble_options *o, const char *dir, struct err *e)
{
	int first = -1, any = 0;

	s->clusters = s->k;
	for (int k = 0; k < s->k; k++)
		any |= s->member[k].config && s->member[k].config->range.to > 0;
	if (!any)
		return 0;
	s->clusters = l->has_router ? (int)l->router.net.clusters : 1;
	s->owner = mem_zalloc((size_t)s->k, sizeof *s->owner);
	for (int k = 0; k < s->k; k++)
		if (s->member[k].config && own_range(s, dir, k, &first, e))
			return -1;
	s->owners = (struct owners){s->owner, s->member[first].path == &path_linear || o->mode == CONVERT_NATIVE ? NULL : s->member[first].path};
	return 0;
}
