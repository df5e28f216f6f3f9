/* Hands the buckets of the gradient to the thread that sums them, and gathers the losses. */
#include "train/rankupdate.h"

#include <string.h>

#include "core/mem.h"

static int sum_bucket(struct comm *c, void *arg, struct err *e)
{
	const struct rank_sum *s = arg;
	const struct bucket *b = s->bucket;

	return comm_sum(c, s->r->host + b->lo, b->hi - b->lo, s->r->scratch, e);
}

/* The larger half of a bucket, which comm_sum receives. */
static int64_t scratch_length(const struct buckets *b)
{
	int64_t most = 0;

	for (int i = 0; i < b->n; i++)
		most = (b->v[i].hi - b->v[i].lo + 1) / 2 > most ? (b->v[i].hi - b->v[i].lo + 1) / 2 : most;
	return most;
}

uint64_t rank_update_bytes(int64_t n, int ranks)
{
	struct buckets b;
	uint64_t bytes;

	if (ranks < 2)
		return 0;
	buckets_init(&b, n, ranks);
	bytes = sizeof(float) * (uint64_t)scratch_length(&b);
	buckets_release(&b);
	return bytes;
}

int rank_update_init(struct rank_update *r, struct device *d, struct comm *comm, float *grads, int64_t n, int64_t parts, int64_t samples,
                     struct err *e)
{
	size_t batch = (size_t)(comm_size(comm) * parts * samples);

	*r = (struct rank_update){.comm = comm, .device = d, .grads = grads, .n = n, .parts = parts, .samples = samples};
	if (!comm)
		return 0;
	buckets_init(&r->buckets, n, comm_size(comm));
	r->host_losses = mem_zalloc(batch, sizeof *r->host_losses);
	r->losses = d->alloc(d, batch * sizeof *r->losses, "losses of all ranks", e);
	r->host = d->host ? grads : d->alloc_host(d, (size_t)n * sizeof *r->host, "gradients on the host", e);
	r->scratch = mem_try((size_t)scratch_length(&r->buckets), sizeof *r->scratch, "gradients of another rank", e);
	if (!r->losses || !r->host || !r->scratch)
		return -1;
	for (int k = 0; !d->host && k < r->buckets.n; k++)
		for (int i = 0; i < 2; i++)
			r->event[k][i] = d->event_new(d);
	r->background = comm_background_new(comm);
	return 0;
}

void rank_update_release(struct rank_update *r)
{
	struct device *d = r->device;

	if (!r->comm)
		return;
	comm_background_free(r->background);
	for (int k = 0; k < BUCKETS; k++)
		for (int i = 0; i < 2; i++)
			if (r->event[k][i])
				d->event_free(d, r->event[k][i]);
	if (!d->host)
		d->release_host(d, r->host);
	d->release(d, r->losses);
	mem_free(r->host_losses);
	mem_free(r->scratch);
	buckets_release(&r->buckets);
	memset(r, 0, sizeof *r);
}

void rank_update_take_losses(struct rank_update *r, int64_t i, const float *each)
{
	device_copy(r->device, r->losses + (comm_rank(r->comm) * r->parts + i) * r->samples, (void *)(uintptr_t)each,
	            (size_t)r->samples * sizeof *each);
}

static void put_sum(struct rank_update *r, int k)
{
	r->sum[k] = (struct rank_sum){r, &r->buckets.v[k]};
	comm_background_put(r->background, sum_bucket, &r->sum[k]);
}

/* A device with its own memory still has to compute the bucket and to copy it: rank_update_end_sums waits for that, while the sums of earlier buckets
 * run. */
void rank_update_begin_sum(struct rank_update *r, int k)
{
	struct device *d = r->device;
	const struct bucket *b = &r->buckets.v[k];
	int out = d->streams - 1;

	if (d->host) {
		put_sum(r, k);
		return;
	}
	d->event_record(d, r->event[k][0], 0);
	d->event_follow(d, r->event[k][0], out);
	d->fetch(d, out, r->host + b->lo, r->grads + b->lo, (size_t)(b->hi - b->lo) * sizeof *r->host);
	d->event_record(d, r->event[k][1], out);
	r->copying = k + 1;
}

int rank_update_end_sums(struct rank_update *r, struct err *e)
{
	struct device *d = r->device;
	int64_t mine = r->parts * r->samples, batch = comm_size(r->comm) * mine;

	for (int k = 0; k < r->copying; k++) {
		d->event_passed(d, r->event[k][1], 1);
		put_sum(r, k);
	}
	r->copying = 0;
	device_get(d, r->host_losses, r->losses, (size_t)batch * sizeof *r->losses);
	if (comm_background_wait(r->background, e) || comm_gather(r->comm, r->host_losses, (size_t)mine * sizeof *r->losses, e))
		return -1;
	device_put(d, r->losses, r->host_losses, (size_t)batch * sizeof *r->losses);
	if (!d->host)
		device_put(d, r->grads, r->host, (size_t)r->n * sizeof *r->grads);
	return 0;
}
