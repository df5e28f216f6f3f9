/* What lib/comm asks of the library that moves bytes between the memories of the ranks' devices. The engine for NCCL is a shared object of its own
 * (lib/comm/nccl/ncclengine.c), which is loaded only by ranks that compute on GPUs: no program is linked with NCCL. */
#ifndef DDM_COMM_DEVICEENGINE_H
#define DDM_COMM_DEVICEENGINE_H

#include <stddef.h>

enum { COMM_DEVICE_ENGINE_VERSION = 1, COMM_DEVICE_INVITATION = 128, COMM_DEVICE_WHY = 400 };

/* Functions return 0, or -1 with the reason in why (COMM_DEVICE_WHY bytes). One thread at a time calls them, except abort. `queue` is the device's
 * queue as the library knows it, a cudaStream_t. */
struct comm_device_engine {
	int version; /* COMM_DEVICE_ENGINE_VERSION */
	const char *name;
	/* Open the library. *number: its version, 10000 major + 100 minor + patch. All ranks must have the same. */
	int (*open)(int *number, char *why);
	/* Rank 0 makes the text that every rank joins with. */
	int (*invite)(char *invitation, char *why);
	/* Begin to join the other ranks with the current device of this thread. */
	int (*join)(int rank, int size, const char *invitation, char *why);
	/* Whether the library has done what the last call asked of the host: 1 yes, 0 not yet, -1 no; or another rank is lost. After `exchange` and
	 * `gather`, 1 says that the work is in the queue. */
	int (*done)(char *why);
	/* Submit: send `send` floats to `peer` and receive `receive` floats from it, each of which may be 0. */
	int (*exchange)(int peer, const float *out, size_t send, float *in, size_t receive, void *queue, char *why);
	/* Submit: all + r * each becomes the `each` floats of rank r. The caller's own are at their place. */
	int (*gather)(float *all, size_t each, void *queue, char *why);
	/* Begin to leave the other ranks, once all of them are ready to; after `done` release what is left. */
	int (*leave)(char *why);
	void (*release)(void);
	/* End what is in the queue, though other ranks may be lost, and release everything. It may hang. */
	void (*abort)(void);
};

/* The one symbol of an engine's shared object. */
#define COMM_DEVICE_ENGINE_SYMBOL "ddm_comm_device_engine"

#endif
