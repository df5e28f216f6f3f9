/* Sums gradients over ranks on their GPUs, or through host memory. */
#include "train/ranksum.h"

#include <assert.h>
#include <string.h>

#include "core/mem.h"

int rank_sum_init(struct rank_sum *s, struct device *d, struct comm *comm, int64_t n, struct err *e)
{
	size_t half = (size_t)(n + 1) / 2;

	*s = (struct rank_sum){.device = d, .comm = comm, .n = n};
	if (!comm)
		return 0;
	if (d->host)
		s->scratch = mem_try(half, sizeof *s->scratch, "gradients of another rank", e);
	else
		s->scratch = d->alloc(d, half * sizeof *s->scratch, "gradients of another rank", e);
	return s->scratch ? 0 : -1;
}

static void free_scratch(struct rank_sum *s)
{
	if (s->device->host)
		mem_free(s->scratch);
	else
		s->device->release(s->device, s->scratch);
	s->scratch = NULL;
}

void rank_sum_release(struct rank_sum *s)
{
	if (!s->device)
		return;
	rank_sum_leave(s, 0);
	free_scratch(s);
	mem_free(s->host);
	mem_free(s->host_scratch);
	*s = (struct rank_sum){0};
}

/* What lib/comm asks of the device: work on stream 0. */

static void device_add(void *arg, float *x, const float *y, int64_t n)
{
	const struct rank_sum *s = arg;
	struct array sum = array_vector(DT_F32, x, n);
	struct op_call c = {.nin = 2, .nout = 1, .in = {sum, array_vector(DT_F32, (void *)(uintptr_t)y, n)}, .out = {sum}, .attr = {.add = {1, 1}}};

	device_run(s->device, OP_ADD, &c, NULL);
}

static void *event_new(void *arg)
{
	const struct rank_sum *s = arg;

	return s->device->event_new(s->device);
}

static void event_free(void *arg, void *event)
{
	const struct rank_sum *s = arg;

	s->device->event_free(s->device, event);
}

static void event_record(void *arg, void *event)
{
	const struct rank_sum *s = arg;

	s->device->event_record(s->device, event, 0);
}

static void event_wait(void *arg, void *event)
{
	const struct rank_sum *s = arg;

	s->device->event_passed(s->device, event, 1);
}

static int event_reached(void *arg, void *event)
{
	const struct rank_sum *s = arg;

	return s->device->event_reached(s->device, event);
}

static void stuck(void *arg, const char *why)
{
	const struct rank_sum *s = arg;

	s->stuck(s->arg, why);
}

/* Sums are made on the host from now on. */
static int use_host(struct rank_sum *s, struct err *e)
{
	if (s->device->host)
		return 0;
	free_scratch(s);
	s->host = mem_try((size_t)s->n, sizeof *s->host, "gradients on the host", e);
	s->host_scratch = mem_try((size_t)(s->n + 1) / 2, sizeof *s->host_scratch, "gradients of another rank", e);
	return s->host && s->host_scratch ? 0 : -1;
}

int rank_sum_join(struct rank_sum *s, enum sum_place where, const char *engine_path, void (*told)(void *arg, const char *why), void *arg,
                  struct err *why, struct err *e)
{
	struct device *d = s->device;
	struct comm_device mine = {.arg = s,
	                           .place = d->place,
	                           .add = device_add,
	                           .event_new = event_new,
	                           .event_free = event_free,
	                           .event_record = event_record,
	                           .event_wait = event_wait,
	                           .event_reached = event_reached,
	                           .stuck = stuck};
	int rc;

	*why = (struct err){0};
	if (!s->comm)
		return 0;
	s->stuck = told;
	s->arg = arg;
	if (d->queue)
		mine.queue = d->queue(d, 0);
	else
		mine.refusal = where == SUM_ON_DEVICE ? "it computes on no GPU" : "";
	if (where == SUM_ON_HOST)
		mine.refusal = "";
	rc = comm_devices_open(&s->devices, s->comm, &mine, engine_path, why);
	if (rc < 0)
		return err_set(e, why->code, "%s%s", why->msg,
		               why->code == ERR_UNAVAILABLE && !comm_is_lost(s->comm) ? "; --sum-on host does without it" : "");
	if (rc && where == SUM_ON_DEVICE)
		return comm_agree(s->comm, err_set(e, ERR_UNAVAILABLE, "--sum-on device: %s", why->msg), e);
	return rc ? comm_agree(s->comm, use_host(s, e), e) : 0;
}

void rank_sum_leave(struct rank_sum *s, int together)
{
	comm_devices_close(s->devices, together);
	s->devices = NULL;
}

int rank_sum_add(struct rank_sum *s, float *x, int64_t n, struct err *e)
{
	struct device *d = s->device;

	assert(n <= s->n);
	if (s->devices)
		return comm_devices_sum(s->devices, x, n, s->scratch, e);
	if (d->host)
		return comm_sum(s->comm, x, n, s->scratch, e);
	device_get(d, s->host, x, (size_t)n * sizeof *x);
	if (comm_sum(s->comm, s->host, n, s->host_scratch, e))
		return -1;
	device_put(d, x, s->host, (size_t)n * sizeof *x);
	return 0;
}

int rank_sum_gather(struct rank_sum *s, float *all, int64_t each, struct err *e)
{
	struct device *d = s->device;
	int64_t n = comm_size(s->comm) * each, at = comm_rank(s->comm) * each;
	float *host;
	int rc;

	if (s->devices)
		return comm_devices_gather(s->devices, all, each, e);
	if (d->host)
		return comm_gather(s->comm, all, (size_t)each * sizeof *all, e);
	host = mem_zalloc((size_t)n, sizeof *host);
	device_get(d, host + at, all + at, (size_t)each * sizeof *host);
	if (!(rc = comm_gather(s->comm, host, (size_t)each * sizeof *host, e)))
		device_put(d, all, host, (size_t)n * sizeof *host);
	mem_free(host);
	return rc;
}

int rank_sum_error(struct rank_sum *s, struct err *e)
{
	return comm_devices_error(s->devices, e);
}

const char *rank_sum_text(const struct rank_sum *s)
{
	return s->devices ? comm_devices_text(s->devices) : "host";
}

uint64_t rank_sum_sent(const struct rank_sum *s)
{
	return comm_devices_sent(s->devices);
}
