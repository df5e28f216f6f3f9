/* Sums over ranks on their GPUs. */
#include "train/ranksum.h"

int rank_sum_init(struct rank_sum *s, struct device *d, struct comm *comm, int64_t scratch, struct err *e)
{
	*s = (struct rank_sum){.device = d, .stream = d->streams - 1, .comm = comm};
	if (!comm || !d->queue)
		return 0;
	s->scratch = d->alloc(d, (size_t)scratch * sizeof *s->scratch, "gradients of another rank", e);
	return s->scratch ? 0 : -1;
}

static void free_scratch(struct rank_sum *s)
{
	s->device->release(s->device, s->scratch);
	s->scratch = NULL;
}

void rank_sum_release(struct rank_sum *s)
{
	if (!s->device)
		return;
	rank_sum_leave(s, 0);
	free_scratch(s);
	*s = (struct rank_sum){0};
}

/* What lib/comm asks of the device: work on stream 0, and sums on a stream that nothing else uses. */

static int stream_of(const struct rank_sum *s, enum comm_queue queue)
{
	return queue == COMM_SUMS ? s->stream : 0;
}

static void device_add(void *arg, float *x, const float *y, int64_t n)
{
	const struct rank_sum *s = arg;
	struct array sum = array_vector(DT_F32, x, n);
	struct op_call c = {.nin = 2, .nout = 1, .in = {sum, array_vector(DT_F32, (void *)(uintptr_t)y, n)}, .out = {sum}, .attr = {.add = {1, 1}}};

	device_run_on(s->device, s->stream, OP_ADD, &c, NULL);
}

static void *event_new(void *arg)
{
	const struct rank_sum *s = arg;

	return s->device->timer_new(s->device);
}

static void event_free(void *arg, void *event)
{
	const struct rank_sum *s = arg;

	s->device->event_free(s->device, event);
}

static void event_record(void *arg, void *event, enum comm_queue queue)
{
	const struct rank_sum *s = arg;

	s->device->timer_record(s->device, event, stream_of(s, queue));
}

static void event_follow(void *arg, void *event, enum comm_queue queue)
{
	const struct rank_sum *s = arg;

	s->device->event_follow(s->device, event, stream_of(s, queue));
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

static double event_seconds(void *arg, void *from, void *to)
{
	const struct rank_sum *s = arg;

	return s->device->timer_seconds(s->device, from, to);
}

static void stuck(void *arg, const char *why)
{
	const struct rank_sum *s = arg;

	s->stuck(s->arg, why);
}

int rank_sum_join(struct rank_sum *s, enum sum_place where, const char *engine_path, void (*told)(void *arg, const char *why), void *arg,
                  struct err *why, struct err *e)
{
	struct device *d = s->device;
	struct comm_device mine = {.arg = s,
	                           .add = device_add,
	                           .event_new = event_new,
	                           .event_free = event_free,
	                           .event_record = event_record,
	                           .event_follow = event_follow,
	                           .event_wait = event_wait,
	                           .event_reached = event_reached,
	                           .event_seconds = event_seconds,
	                           .stuck = stuck};
	int rc;

	*why = (struct err){0};
	if (!s->comm)
		return 0;
	s->stuck = told;
	s->arg = arg;
	mine.place = d->place;
	if (d->queue)
		mine.queue = d->queue(d, s->stream);
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
	if (rc)
		free_scratch(s);
	return 0;
}

void rank_sum_leave(struct rank_sum *s, int together)
{
	comm_devices_close(s->devices, together);
	s->devices = NULL;
}

int rank_sum_add(struct rank_sum *s, float *x, int64_t n, struct err *e)
{
	return comm_devices_sum(s->devices, x, n, s->scratch, e);
}

int rank_sum_shares(struct rank_sum *s, float *x, const int64_t *cut, struct err *e)
{
	return comm_devices_sum_shares(s->devices, x, cut, s->scratch, e);
}

int rank_sum_gather_shares(struct rank_sum *s, float *x, const int64_t *cut, struct err *e)
{
	return comm_devices_gather_shares(s->devices, x, cut, e);
}

int rank_sum_gather(struct rank_sum *s, float *all, int64_t each, struct err *e)
{
	return comm_devices_gather(s->devices, all, each, e);
}

void rank_sum_await(struct rank_sum *s)
{
	comm_devices_await(s->devices);
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

double rank_sum_seconds(const struct rank_sum *s)
{
	return comm_devices_seconds(s->devices);
}

double rank_sum_exposed_seconds(const struct rank_sum *s)
{
	return comm_devices_exposed_seconds(s->devices);
}
