/* Uploads sets of weights (pages) from host memory into a few slots on the device, ahead of their use. */
#include "net/pager.h"

#include <assert.h>
#include <limits.h>

#include "core/mem.h"

struct slot {
	void *at;
	int page;            /* -1: none yet */
	void *loaded, *idle; /* events: the upload is finished; the last reader is finished */
	int used, awaited;   /* used: `idle` was recorded; awaited: stream 0 already waits for `loaded` */
};

struct page {
	void *host;
	size_t bytes;
	int slot; /* -1: only on the host */
};

struct pager {
	struct device *device;
	int stream;   /* of the uploads */
	size_t bytes; /* of a slot */
	struct slot *slot;
	int slots;
	struct page *page;
	int pages;
	int *order, ordered; /* order (ordered): the pages in the order of use */
	int at;              /* index in `order` of the page taken last; -1: before the first */
	int taken;           /* the slot in use; -1: none */
	int64_t uploads;
};

struct pager *pager_new(struct device *d, int slots, size_t bytes, struct err *e)
{
	struct pager *p = mem_zalloc(1, sizeof *p);

	assert(slots > 0);
	p->device = d;
	p->stream = d->streams > 1;
	p->bytes = bytes;
	p->at = p->taken = -1;
	p->slot = mem_zalloc((size_t)slots, sizeof *p->slot);
	for (; p->slots < slots; p->slots++) {
		struct slot *s = &p->slot[p->slots];

		s->page = -1;
		if (!(s->at = d->alloc(d, bytes, "weights of experts in use", e))) {
			pager_free(p);
			return NULL;
		}
		s->loaded = d->event_new(d);
		s->idle = d->event_new(d);
	}
	return p;
}

void pager_free(struct pager *p)
{
	struct device *d = p ? p->device : NULL;

	if (!p)
		return;
	d->sync(d, NULL);
	for (int i = 0; i < p->slots; i++) {
		d->release(d, p->slot[i].at);
		d->event_free(d, p->slot[i].loaded);
		d->event_free(d, p->slot[i].idle);
	}
	for (int i = 0; i < p->pages; i++)
		d->release_host(d, p->page[i].host);
	mem_free(p->slot);
	mem_free(p->page);
	mem_free(p->order);
	mem_free(p);
}

int pager_add(struct pager *p, size_t bytes, void **host, struct err *e)
{
	assert(bytes <= p->bytes);
	if (!(*host = p->device->alloc_host(p->device, bytes, "weights of experts that wait", e)))
		return -1;
	p->page = mem_resize(p->page, (size_t)p->pages + 1, sizeof *p->page);
	p->page[p->pages] = (struct page){*host, bytes, -1};
	p->order = mem_resize(p->order, (size_t)p->pages + 1, sizeof *p->order);
	p->order[p->ordered++] = p->pages;
	return p->pages++;
}

void pager_order(struct pager *p, const int *page, int n)
{
	assert(n <= p->pages);
	for (int i = 0; i < n; i++)
		p->order[i] = page[i];
	p->ordered = n;
	p->at = -1;
}

/* The page needed `ahead` >= 1 pages from now; after its end `order` starts again. */
static int coming(const struct pager *p, int ahead)
{
	return p->order[(p->at + ahead) % p->ordered];
}

/* The number of pages until this one is needed; INT_MAX if it is not in `order`. */
static int next_use(const struct pager *p, int page)
{
	for (int ahead = 1; ahead <= p->ordered; ahead++)
		if (coming(p, ahead) == page)
			return ahead;
	return INT_MAX;
}

/* An empty slot, or the slot whose page is needed last, but never the slot in use. -1: there is no other slot. */
static int victim(const struct pager *p)
{
	int best = -1, latest = 0;

	for (int i = 0; i < p->slots; i++) {
		int next = p->slot[i].page < 0 ? 0 : next_use(p, p->slot[i].page);

		if (p->slot[i].page < 0)
			return i;
		if (i != p->taken && next > latest) {
			latest = next;
			best = i;
		}
	}
	return best;
}

static void upload(struct pager *p, int slot, int page)
{
	struct device *d = p->device;
	struct slot *s = &p->slot[slot];

	if (s->page >= 0)
		p->page[s->page].slot = -1;
	if (s->used)
		d->event_follow(d, s->idle, p->stream);
	d->send(d, p->stream, s->at, p->page[page].host, p->page[page].bytes);
	d->event_record(d, s->loaded, p->stream);
	s->page = page;
	s->used = s->awaited = 0;
	p->page[page].slot = slot;
	p->uploads++;
}

/* Upload only the next page. A page after it could not replace the page in use, so it would replace one that is needed sooner. */
static void prefetch(struct pager *p)
{
	int page = p->ordered ? coming(p, 1) : -1, slot;

	if (page < 0 || p->page[page].slot >= 0)
		return;
	slot = victim(p);
	if (slot >= 0)
		upload(p, slot, page);
}

static void move_to(struct pager *p, int page)
{
	int next = next_use(p, page);

	if ((p->at < 0 || p->order[p->at] != page) && next < INT_MAX)
		p->at = (p->at + next) % p->ordered;
}

void *pager_take(struct pager *p, int page)
{
	struct device *d = p->device;
	struct slot *s;

	assert(p->taken < 0 && page >= 0 && page < p->pages);
	move_to(p, page);
	if (p->page[page].slot < 0)
		upload(p, victim(p), page);
	p->taken = p->page[page].slot;
	s = &p->slot[p->taken];
	if (!s->awaited)
		d->event_follow(d, s->loaded, 0);
	s->awaited = 1;
	prefetch(p);
	return s->at;
}

void pager_give(struct pager *p, int page)
{
	struct slot *s;

	assert(p->taken >= 0 && p->slot[p->taken].page == page);
	s = &p->slot[p->taken];
	p->device->event_record(p->device, s->idle, 0);
	s->used = 1;
	p->taken = -1;
}

int pager_slots(const struct pager *p)
{
	return p->slots;
}

int64_t pager_uploads(const struct pager *p)
{
	return p->uploads;
}
