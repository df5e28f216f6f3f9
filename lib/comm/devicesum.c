/* Sums of vectors in device memory: exchanges of halves by the engine, additions by the device. */
#include "comm/devicesum.h"

#include "comm/devicesumimpl.h"
#include "comm/halves.h"
#include "core/mem.h"

/* Send a range of x to `peer`, and receive as many elements as another range has. */
static int exchange(struct comm_devices *d, int peer, const float *x, struct range out, float *to, struct range in, struct err *e)
{
	size_t send = (size_t)(out.hi - out.lo), receive = (size_t)(in.hi - in.lo);
	char why[COMM_DEVICE_WHY] = "";
	int rc;

	if (!send && !receive)
		return 0;
	pthread_mutex_lock(&d->calling);
	rc = d->engine->exchange(peer, x + out.lo, send, to, receive, d->own.queue, why);
	pthread_mutex_unlock(&d->calling);
	d->sent += bytes_of(out);
	return device_settle(d, rc, "an exchange between devices", why, e);
}

static int sum_shares(struct comm_devices *d, float *x, const int64_t *cut, float *scratch, struct err *e)
{
	int rank = comm_rank(d->comm), ranks = comm_size(d->comm);

	for (int l = 0; 1 << l < ranks; l++) {
		struct range mine, other;

		halves(rank, ranks, cut, l, &mine, &other);
		if (exchange(d, rank ^ (1 << l), x, other, scratch, mine, e))
			return -1;
		if (mine.hi > mine.lo)
			d->own.add(d->own.arg, x + mine.lo, scratch, mine.hi - mine.lo);
	}
	return 0;
}

static int gather_shares(struct comm_devices *d, float *x, const int64_t *cut, struct err *e)
{
	int rank = comm_rank(d->comm), ranks = comm_size(d->comm);

	for (int l = levels_of(ranks) - 1; l >= 0; l--) {
		struct range mine, other;

		halves(rank, ranks, cut, l, &mine, &other);
		if (exchange(d, rank ^ (1 << l), x, mine, x + other.lo, other, e))
			return -1;
	}
	return 0;
}

int comm_devices_sum_shares(struct comm_devices *d, float *x, const int64_t *cut, float *scratch, struct err *e)
{
	int rc;

	if (device_call_begin(d, e))
		return -1;
	rc = sum_shares(d, x, cut, scratch, e);
	device_call_end(d);
	return rc;
}

int comm_devices_gather_shares(struct comm_devices *d, float *x, const int64_t *cut, struct err *e)
{
	int rc;

	if (device_call_begin(d, e))
		return -1;
	rc = gather_shares(d, x, cut, e);
	device_call_end(d);
	return rc;
}

int comm_devices_sum(struct comm_devices *d, float *x, int64_t n, float *scratch, struct err *e)
{
	int64_t *cut = comm_equal_cut(comm_size(d->comm), n);
	int rc = comm_devices_sum_shares(d, x, cut, scratch, e) || comm_devices_gather_shares(d, x, cut, e) ? -1 : 0;

	mem_free(cut);
	return rc;
}

int comm_devices_gather(struct comm_devices *d, float *all, int64_t each, struct err *e)
{
	char why[COMM_DEVICE_WHY] = "";
	int rc;

	if (device_call_begin(d, e))
		return -1;
	pthread_mutex_lock(&d->calling);
	rc = d->engine->gather(all, (size_t)each, d->own.queue, why);
	pthread_mutex_unlock(&d->calling);
	rc = device_settle(d, rc, "a gathering from devices", why, e);
	d->sent += (uint64_t)(comm_size(d->comm) - 1) * (uint64_t)each * sizeof *all;
	device_call_end(d);
	return rc;
}

uint64_t comm_devices_sent(const struct comm_devices *d)
{
	return d ? d->sent : 0;
}

const char *comm_devices_text(const struct comm_devices *d)
{
	return str_text(&d->text);
}
