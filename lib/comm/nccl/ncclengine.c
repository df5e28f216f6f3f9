/* The engine of lib/comm/devicesum.h for NCCL: build/nccl-engine.so. It moves floats between GPUs and adds nothing; the order of the sums is
 * lib/comm's. NCCL itself is opened at run time. Its communicator does not block the host, which is also what makes its abort safe. */
#include <dlfcn.h>
#include <nccl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "comm/deviceengine.h"

_Static_assert(sizeof(ncclUniqueId) == COMM_DEVICE_INVITATION, "an invitation is NCCL's id");

/* All of NCCL 2.14, the first version whose communicators need not block. */
#define FUNCTIONS(X) \
	X(ncclGetVersion) \
	X(ncclGetUniqueId) \
	X(ncclCommInitRankConfig) \
	X(ncclCommGetAsyncError) \
	X(ncclCommUserRank) \
	X(ncclGetErrorString) \
	X(ncclGetLastError) \
	X(ncclGroupStart) \
	X(ncclGroupEnd) \
	X(ncclSend) \
	X(ncclRecv) \
	X(ncclAllGather) \
	X(ncclCommFinalize) \
	X(ncclCommDestroy) \
	X(ncclCommAbort)

#define POINTER(name) __typeof__(name) *name;
static struct {
	FUNCTIONS(POINTER)
} nccl;

static _Atomic(ncclComm_t) ranks; /* NULL: not joined, or ended by abort, which another thread may call at any time */

static int failed(ncclResult_t rc, char *why)
{
	const char *more = "";
	ncclComm_t c = ranks;

	if (rc == ncclSuccess || rc == ncclInProgress)
		return 0;
	if (c)
		more = nccl.ncclGetLastError(c);
	snprintf(why, COMM_DEVICE_WHY, "%s%s%s", nccl.ncclGetErrorString(rc), more && *more ? ": " : "", more ? more : "");
	return -1;
}

static int look_up(void *so, const char *name, void *place, char *why)
{
	void *f = dlsym(so, name);

	if (!f) {
		snprintf(why, COMM_DEVICE_WHY, "libnccl.so.2 is older than 2.14: it has no %s", name);
		return -1;
	}
	memcpy(place, &f, sizeof f);
	return 0;
}

static int open_library(int *number, char *why)
{
	void *so = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);

	if (!so)
		so = dlopen(NCCL_PATH, RTLD_NOW | RTLD_LOCAL);
	if (!so) {
		snprintf(why, COMM_DEVICE_WHY, "NCCL cannot be opened: %s; NVIDIA's package libnccl2 has it", dlerror());
		return -1;
	}
#define LOOK_UP(name) \
	if (look_up(so, #name, &nccl.name, why)) \
		return -1;
	FUNCTIONS(LOOK_UP)
	return failed(nccl.ncclGetVersion(number), why);
}

static int invite(char *invitation, char *why)
{
	return failed(nccl.ncclGetUniqueId((ncclUniqueId *)(void *)invitation), why);
}

static int join(int rank, int size, const char *invitation, char *why)
{
	static ncclComm_t joined; /* stays, because NCCL goes on after the call */
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclResult_t rc;
	ncclUniqueId id;

	memcpy(&id, invitation, sizeof id);
	config.blocking = 0;
	rc = nccl.ncclCommInitRankConfig(&joined, size, id, rank, &config);
	ranks = joined;
	return failed(rc, why);
}

static int done(char *why)
{
	ncclResult_t state = ncclSuccess;

	if (failed(nccl.ncclCommGetAsyncError(ranks, &state), why) || failed(state, why))
		return -1;
	return state == ncclSuccess;
}

/* The group is ended though a call in it may have failed. */
static int end_group(ncclResult_t inside, char *why)
{
	ncclResult_t end = nccl.ncclGroupEnd();

	return failed(inside, why) || failed(end, why) ? -1 : 0;
}

static int exchange(int peer, const float *out, size_t send, float *in, size_t receive, void *queue, char *why)
{
	ncclResult_t rc = ncclSuccess;

	if (failed(nccl.ncclGroupStart(), why))
		return -1;
	if (send)
		rc = nccl.ncclSend(out, send, ncclFloat32, peer, ranks, queue);
	if (receive && (rc == ncclSuccess || rc == ncclInProgress))
		rc = nccl.ncclRecv(in, receive, ncclFloat32, peer, ranks, queue);
	return end_group(rc, why);
}

static int gather(float *all, size_t each, void *queue, char *why)
{
	int rank = 0;

	if (failed(nccl.ncclCommUserRank(ranks, &rank), why))
		return -1;
	return failed(nccl.ncclAllGather(all + (size_t)rank * each, all, each, ncclFloat32, ranks, queue), why);
}

static int leave(char *why)
{
	return failed(nccl.ncclCommFinalize(ranks), why);
}

static void release(void)
{
	nccl.ncclCommDestroy(ranks);
	ranks = NULL;
}

static void abort_ranks(void)
{
	ncclComm_t c = atomic_exchange(&ranks, NULL);

	if (c)
		nccl.ncclCommAbort(c);
}

__attribute__((visibility("default"))) const struct comm_device_engine ddm_comm_device_engine = {.version = COMM_DEVICE_ENGINE_VERSION,
                                                                                                 .name = "NCCL",
                                                                                                 .open = open_library,
                                                                                                 .invite = invite,
                                                                                                 .join = join,
                                                                                                 .done = done,
                                                                                                 .exchange = exchange,
                                                                                                 .gather = gather,
                                                                                                 .leave = leave,
                                                                                                 .release = release,
                                                                                                 .abort = abort_ranks};
