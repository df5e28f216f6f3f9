/* Loads the weights of an ensemble's networks: all of them, or some at a time. */
#include "diffusion/ensembleimpl.h"
#include "diffusion/layout.h"
#include "diffusion/rankorder.h"
#include "net/pager.h"

enum { ROOM = 768 << 20 /* for graphs, libraries and the solver */ };

int64_t ensemble_weigh(const struct ensemble *s, uint64_t *largest, uint64_t *all, uint64_t *rest)
{
	int64_t n = 0;

	*largest = *all = *rest = 0;
	for (int i = 0; i < s->members; i++) {
		uint64_t weights, work;
		int alike = 0;

		if (!s->member[i].model || s->member[i].away)
			continue;
		model_needs(s->member[i].model, &weights, &work);
		for (int k = 0; k < i; k++)
			alike |= s->member[k].model && !s->member[k].away && model_alike(s->member[k].model, s->member[i].model);
		*rest += alike ? 0 : work;
		if (i >= s->k) {
			*rest += weights;
			continue;
		}
		n++;
		*all += weights;
		*largest = weights > *largest ? weights : *largest;
	}
	return n;
}

/* Free memory once `rest` and some room are taken; UINT64_MAX if the device does not report its memory. */
static uint64_t free_bytes(struct device *d, uint64_t rest)
{
	struct device_memory m = {0};

	d->memory(d, &m);
	rest += m.total / 8 < ROOM ? m.total / 8 : ROOM;
	return !m.total ? UINT64_MAX : m.free > rest ? m.free - rest : 0;
}

int ensemble_check_resident(const struct ensemble *s, const struct ensemble_options *o, struct err *e)
{
	const struct resident *r = &o->resident;
	uint64_t slot, all, rest;

	if (!r->experts && !r->bytes)
		return 0;
	if (o->device->compact)
		return err_set(e, ERR_USAGE, "--resident has an effect only on a GPU: %s computes in the host's memory, where all experts are",
		               o->device->name);
	ensemble_weigh(s, &slot, &all, &rest);
	if (!r->experts && r->bytes < slot)
		return err_set(e, ERR_USAGE, "--resident: %.1f MB are too little for the largest expert, which takes %.1f MB",
		               (double)r->bytes * 1e-6, (double)slot * 1e-6);
	return 0;
}

/* Bytes of the experts' weights that will be loaded one by one, without a pager. */
static uint64_t to_come(const struct ensemble *s)
{
	uint64_t bytes = 0, weights, work;

	for (int i = 0; i < s->k && !s->pager; i++)
		if (s->member[i].model && !s->member[i].away && !model_loaded(s->member[i].model)) {
			model_needs(s->member[i].model, &weights, &work);
			bytes += weights;
		}
	return bytes;
}

/* What the experts' weights, `all` bytes, may take beside the `rest` of this ensemble. Two ensembles that do not both fit share the free memory in
 * proportion to their weights; the one that comes second takes what is left. */
static uint64_t room_for(const struct ensemble *s, struct device *d, uint64_t all, uint64_t rest)
{
	uint64_t slot, other, work, room;

	if (s->resident.bytes)
		return s->resident.bytes;
	if (!s->beside)
		return free_bytes(d, rest);
	if (s->beside->paged)
		return free_bytes(d, rest + to_come(s->beside));
	ensemble_weigh(s->beside, &slot, &other, &work);
	room = free_bytes(d, rest + work);
	return room == UINT64_MAX || all + other <= room ? room : (uint64_t)((double)room * ((double)all / ((double)all + (double)other)));
}

/* Makes slots for the experts' weights if the device cannot hold all of them. Called when the first network runs, because by then all other memory
 * of the program is allocated. */
static int make_pager(struct ensemble *s, struct device *d, struct err *e)
{
	uint64_t slot, all, rest, room;
	int64_t n, held = s->resident.experts;

	s->paged = 1;
	if (d->compact)
		return 0;
	n = ensemble_weigh(s, &slot, &all, &rest);
	room = room_for(s, d, all, rest);
	if (!held)
		held = all <= room ? n : room < slot ? 1 : (int64_t)(room / slot);
	if (held < n && !(s->pager = pager_new(d, (int)held, slot, e)))
		return -1;
	return 0;
}

/* Bytes that the weights not loaded yet, of this ensemble and the one beside it, will take if the experts' matrices are stored as `bulk`. */
static uint64_t still_takes(const struct ensemble *s, enum compact_type bulk)
{
	const struct ensemble *const both[] = {s, s->beside};
	uint64_t bytes = 0;

	for (int j = 0; j < 2 && both[j]; j++)
		for (int i = 0; i < both[j]->members; i++)
			if (both[j]->member[i].model && !both[j]->member[i].away && !model_loaded(both[j]->member[i].model))
				bytes += model_takes(both[j]->member[i].model, i < both[j]->k ? bulk : COMPACT_NONE);
	return bytes;
}

/* On the CPU: refuses to read weights that do not fit into the free memory, and names the option that changes least and makes all weights fit. */
static int check_host(const struct member *m, struct err *e)
{
	static const struct {
		enum compact_type bulk;
		const char *option;
	} ways[] = {{COMPACT_VIEW, "--map"}, {COMPACT_BF16, "--weight-dtype bf16"}, {COMPACT_INT8, "--weight-dtype int8"}};
	const struct ensemble *s = m->all;
	struct device_memory here = {0};
	uint64_t need = model_takes(m->model, COMPACT_NONE), least = still_takes(s, COMPACT_NONE);
	int best = -1;

	m->device->memory(m->device, &here);
	if (!m->device->compact || model_loaded(m->model) || !here.total || need <= here.free)
		return 0;
	for (int i = s->bulk == COMPACT_BF16 ? 2 : s->bulk == COMPACT_INT8 ? 3 : 0; i < 3 && least > here.free; i++) {
		uint64_t bytes = still_takes(s, ways[i].bulk);

		if (bytes < least) {
			least = bytes;
			best = i;
		}
	}
	if (best < 0)
		return err_set(e, ERR_NOMEM, "%s: out of memory: the next weights need %.1f MB and %.1f MB are free; no option lowers the need",
		               m->device->name, (double)need * 1e-6, (double)here.free * 1e-6);
	return err_set(e, ERR_NOMEM, "%s: out of memory: the next weights need %.1f MB and %.1f MB are free; all weights %s with %s (%.1f MB)",
	               m->device->name, (double)need * 1e-6, (double)here.free * 1e-6, least <= here.free ? "fit" : "do not fit even",
	               ways[best].option, (double)least * 1e-6);
}

/* Reuses the work space of the first loaded network of the same architecture. */
int ensemble_load_member(struct member *m, struct err *e)
{
	const struct model *lender = NULL;

	if (!m->model)
		return 0;
	if (check_host(m, e) || (!m->all->paged && make_pager(m->all, m->device, e)))
		return -1;
	for (int i = 0; i < m->all->members && !lender; i++)
		if (m->all->member[i].model && model_lends(m->all->member[i].model, m->model))
			lender = m->all->member[i].model;
	return model_load(m->model, lender, m >= &m->all->member[m->all->k] ? NULL : m->all->pager, e);
}

void ensemble_spread(struct ensemble *s, const struct expert *dealt, int k, int rank, int ranks)
{
	for (int i = 0; i < s->k; i++)
		s->member[i].away = i >= k || expert_rank(dealt, i, ranks) != rank;
}

void ensemble_order(void *arg, const int *expert, int n)
{
	const struct ensemble *s = arg;
	int page[MAX_EXPERTS], pages = 0;

	if (!s->pager)
		return;
	for (int i = 0; i < n; i++)
		if (s->member[expert[i]].model && !s->member[expert[i]].away && model_page(s->member[expert[i]].model) >= 0)
			page[pages++] = model_page(s->member[expert[i]].model);
	pager_order(s->pager, page, pages);
}
