/* Hands the buckets of the gradient to the thread that sums them, and gathers the losses. */
#include "train/rankupdate.h"

#include <string.h>

#include "core/mem.h"
#include "kernels/optimizer.h"

static int sum_bucket(struct comm *c, void *arg, struct err *e)
{
	const struct bucket_sum *s = arg;
	const struct bucket *b = s->bucket;

	if (s->r->shares->whole_gradient)
		return comm_sum(c, s->r->host + b->lo, b->hi - b->lo, s->r->scratch, e);
	return comm_sum_shares(c, s->r->host, b->cut, s->r->scratch, e);
}

/* The larger half of a bucket, which a sum receives: of a bucket of an odd number of chunks, the one with the chunk more. */
static int64_t scratch_length(const struct buckets *b)
{
	int64_t most = 0;

	for (int i = 0; i < b->n; i++) {
		int64_t n = b->v[i].hi - b->v[i].lo, half = (n + SUMSQ_CHUNK) / 2;

		half = half < n ? half : n;
		most = half > most ? half : most;
	}
	return most;
}

static int64_t chunks_of(int64_t n)
{
	return (n + SUMSQ_CHUNK - 1) / SUMSQ_CHUNK;
}

/* Chunks that the rank of a place has. */
static int64_t chunks_at(const struct shares *s, int place)
{
	int64_t n = 0;

	for (int g = 0; g < s->groups; g++)
		n += chunks_of(shares_cut(s, g)[place + 1] - shares_cut(s, g)[place]);
	return n;
}

static int64_t most_chunks(const struct shares *s)
{
	int64_t most = 0;

	for (int p = 0; p < s->ranks; p++)
		most = chunks_at(s, p) > most ? chunks_at(s, p) : most;
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

uint64_t rank_update_step_bytes(const struct shares *s, int64_t batch)
{
	uint64_t bytes = comm_gather_bytes(0, s->ranks, (size_t)(batch / s->ranks) * sizeof(float));
	struct buckets b;

	for (int g = 0; g < s->groups; g++)
		bytes += comm_gather_shares_bytes(0, s->ranks, shares_cut(s, g));
	buckets_init(&b, s->n, s->ranks);
	for (int i = 0; i < b.n; i++)
		bytes += s->whole_gradient ? comm_sum_bytes(0, s->ranks, b.v[i].hi - b.v[i].lo) : comm_sum_shares_bytes(0, s->ranks, b.v[i].cut);
	buckets_release(&b);
	return bytes + (s->whole_gradient ? 0 : comm_gather_bytes(0, s->ranks, (size_t)most_chunks(s) * sizeof(double)));
}

int rank_update_init(struct rank_update *r, struct device *d, struct comm *comm, const struct shares *shares, float *grads, int64_t room,
                     int64_t parts, int64_t samples, struct err *e)
{
	size_t batch = (size_t)(comm_size(comm) * parts * samples), chunks;

	*r = (struct rank_update){.comm = comm, .device = d, .shares = shares, .grads = grads, .parts = parts, .samples = samples};
	if (!comm)
		return 0;
	r->n = shares->n;
	r->chunks = chunks_of(r->n);
	r->most_chunks = most_chunks(shares);
	chunks = (size_t)(comm_size(comm) * r->most_chunks);
	buckets_init(&r->buckets, r->n, comm_size(comm));
	r->host_losses = mem_zalloc(batch, sizeof *r->host_losses);
	r->losses = d->alloc(d, batch * sizeof *r->losses, "losses of all ranks", e);
	r->partial = d->alloc(d, (size_t)r->chunks * sizeof *r->partial, "norms of all ranks", e);
	r->gathered = d->alloc(d, chunks * sizeof *r->gathered, "norms of all ranks", e);
	r->host_gathered = d->host ? r->gathered : mem_zalloc(chunks, sizeof *r->host_gathered);
	r->host = d->host ? grads : d->alloc_host(d, (size_t)room * sizeof *r->host, "gradients on the host", e);
	r->scratch = mem_try((size_t)scratch_length(&r->buckets), sizeof *r->scratch, "gradients of another rank", e);
	if (!r->losses || !r->partial || !r->gathered || !r->host || !r->scratch || rank_sum_init(&r->sum, d, comm, scratch_length(&r->buckets), e))
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
	rank_sum_release(&r->sum);
	for (int k = 0; k < BUCKETS; k++)
		for (int i = 0; i < 2; i++)
			if (r->event[k][i])
				d->event_free(d, r->event[k][i]);
	if (!d->host) {
		d->release_host(d, r->host);
		mem_free(r->host_gathered);
	}
	d->release(d, r->losses);
	d->release(d, r->partial);
	d->release(d, r->gathered);
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
	r->job[k] = (struct bucket_sum){r, &r->buckets.v[k]};
	comm_background_put(r->background, sum_bucket, &r->job[k]);
}

/* Beside the backward pass. What fails is kept, and rank_update_end_sums says it. */
static void sum_on_device(struct rank_update *r, const struct bucket *b)
{
	if (r->shares->whole_gradient)
		rank_sum_add(&r->sum, r->grads + b->lo, b->hi - b->lo, NULL);
	else
		rank_sum_shares(&r->sum, r->grads, b->cut, NULL);
}

/* A device with its own memory still has to compute the bucket and to copy it: rank_update_end_sums waits for that, while the sums of earlier buckets
 * run. */
void rank_update_begin_sum(struct rank_update *r, int k)
{
	struct device *d = r->device;
	const struct bucket *b = &r->buckets.v[k];
	int out = d->streams - 1;

	if (r->sum.devices) {
		sum_on_device(r, b);
		return;
	}
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

/* Copy this rank's ranges of an arena between the device and the host. */
static void move_own(struct rank_update *r, float *x, int to_host)
{
	const struct shares *s = r->shares;

	for (int g = 0; g < s->groups; g++) {
		const struct share_range *o = &s->own[g];
		size_t bytes = (size_t)o->n * sizeof *x;

		if (o->n && to_host)
			device_get(r->device, r->host + o->at, x + o->at, bytes);
		else if (o->n)
			device_put(r->device, x + o->at, r->host + o->at, bytes);
	}
}

static int gather_on_devices(struct rank_update *r, float *x, struct err *e)
{
	for (int g = 0; g < r->shares->groups; g++)
		if (rank_sum_gather_shares(&r->sum, x, shares_cut(r->shares, g), e))
			return -1;
	return 0;
}

/* On the devices, which may still be in the backward pass. */
static int end_on_devices(struct rank_update *r, int whole, struct err *e)
{
	if (rank_sum_error(&r->sum, e) || rank_sum_gather(&r->sum, r->losses, r->parts * r->samples, e) ||
	    (whole && !r->shares->whole_gradient && gather_on_devices(r, r->grads, e)))
		return -1;
	rank_sum_await(&r->sum);
	return 0;
}

int rank_update_end_sums(struct rank_update *r, int whole, struct err *e)
{
	struct device *d = r->device;
	int64_t mine = r->parts * r->samples, batch = comm_size(r->comm) * mine;

	if (r->sum.devices)
		return end_on_devices(r, whole, e);
	for (int k = 0; k < r->copying; k++) {
		d->event_passed(d, r->event[k][1], 1);
		put_sum(r, k);
	}
	r->copying = 0;
	device_get(d, r->host_losses, r->losses, (size_t)batch * sizeof *r->losses);
	if (comm_background_wait(r->background, e) || comm_gather(r->comm, r->host_losses, (size_t)mine * sizeof *r->losses, e))
		return -1;
	device_put(d, r->losses, r->host_losses, (size_t)batch * sizeof *r->losses);
	if (whole && !r->shares->whole_gradient && shares_gather(r->shares, r->comm, r->host, e))
		return -1;
	if (!d->host && (whole || r->shares->whole_gradient))
		device_put(d, r->grads, r->host, (size_t)r->n * sizeof *r->grads);
	else if (!d->host)
		move_own(r, r->grads, 0);
	return 0;
}

static void submit_sumsq(struct rank_update *r, int64_t at, int64_t n, double *out, int64_t sums, void *scratch)
{
	struct op_call c = {.nin = 1, .nout = 1, .in = {array_vector(DT_F32, r->grads + at, n)}, .out = {array_vector(DT_F64, out, sums)}};

	device_run(r->device, OP_SUMSQ, &c, scratch);
}

/* Every rank gets the sums of the others' chunks. */
static int gather_partial(struct rank_update *r, struct err *e)
{
	struct device *d = r->device;
	int64_t mine = comm_rank(r->comm) * r->most_chunks, all = comm_size(r->comm) * r->most_chunks;
	size_t each = (size_t)r->most_chunks * sizeof *r->gathered;

	if (r->sum.devices) { /* bytes pass unchanged, so a double may pass as two floats */
		if (rank_sum_gather(&r->sum, (float *)r->gathered, r->most_chunks * (int64_t)(sizeof(double) / sizeof(float)), e))
			return -1;
		rank_sum_await(&r->sum);
		return 0;
	}
	if (!d->host)
		device_get(d, r->host_gathered + mine, r->gathered + mine, each);
	if (comm_gather(r->comm, r->host_gathered, each, e))
		return -1;
	if (!d->host)
		device_put(d, r->gathered, r->host_gathered, (size_t)all * sizeof *r->gathered);
	return 0;
}

/* Put the sums of all ranks' chunks in the order of the chunks. */
static void order_partial(struct rank_update *r)
{
	const struct shares *s = r->shares;

	for (int rank = 0; rank < s->ranks; rank++) {
		double *from = r->gathered + rank * r->most_chunks;
		int place = comm_place(rank, s->ranks);

		for (int g = 0; g < s->groups; g++) {
			int64_t at = shares_cut(s, g)[place], n = chunks_of(shares_cut(s, g)[place + 1] - at);

			if (n)
				device_copy(r->device, r->partial + at / SUMSQ_CHUNK, from, (size_t)n * sizeof *from);
			from += n;
		}
	}
}

/* Each rank adds the squares of its own chunks. The sums of the chunks are then added in one order, on every rank. */
int rank_update_sumsq(struct rank_update *r, double *sumsq, void *scratch, struct err *e)
{
	const struct shares *s = r->shares;
	double *mine = r->gathered + s->rank * r->most_chunks;
	struct op_call total = {.nin = 1,
	                        .nout = 1,
	                        .in = {array_vector(DT_F64, r->partial, r->chunks)},
	                        .out = {array_vector(DT_F64, sumsq, 1)},
	                        .attr = {.total = {1}}};

	if (s->whole_gradient) {
		submit_sumsq(r, 0, r->n, sumsq, 1, scratch);
		return 0;
	}
	for (int g = 0; g < s->groups; g++) {
		const struct share_range *o = &s->own[g];
		int64_t n = chunks_of(o->n);

		if (n)
			submit_sumsq(r, o->at, o->n, mine, n, scratch);
		mine += n;
	}
	if (gather_partial(r, e))
		return -1;
	order_partial(r);
	device_run(r->device, OP_TOTAL, &total, NULL);
	return 0;
}

int rank_update_gather(struct rank_update *r, float *values, struct err *e)
{
	struct device *d = r->device;

	if (r->sum.devices) {
		if (gather_on_devices(r, values, e))
			return -1;
		rank_sum_await(&r->sum);
		return 0;
	}
	if (d->host)
		return shares_gather(r->shares, r->comm, values, e);
	move_own(r, values, 1);
	if (shares_gather(r->shares, r->comm, r->host, e))
		return -1;
	device_put(d, values, r->host, (size_t)r->n * sizeof *values);
	return 0;
}
