/* The engine of lib/comm for MPI: build/mpi-engine.so. It sends bytes and adds nothing; the order of the sums is comm.c's. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "comm/engine.h"

enum { TAG = 7, NOTE_TAG = 8 };

static MPI_Comm ranks; /* a communicator of our own, whose errors return */
static MPI_Request request[2];

/* A note on its way. */
static struct note {
	MPI_Request request;
	int sent;
	char bytes[COMM_NOTE];
} * note; /* (n_ranks) */
static int n_ranks;

static int failed(int code, char *why)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int n = 0;

	if (code == MPI_SUCCESS)
		return 0;
	MPI_Error_string(code, text, &n);
	snprintf(why, COMM_ENGINE_WHY, "%.*s", COMM_ENGINE_WHY - 1, text);
	return -1;
}

static int start(int *rank, int *size, char *why)
{
	int threads = MPI_THREAD_SINGLE;

	if (failed(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &threads), why))
		return -1;
	if (threads < MPI_THREAD_SERIALIZED) {
		snprintf(why, COMM_ENGINE_WHY, "this build of MPI allows calls from one thread only");
		return -1;
	}
	if (failed(MPI_Comm_dup(MPI_COMM_WORLD, &ranks), why))
		return -1;
	MPI_Comm_set_errhandler(ranks, MPI_ERRORS_RETURN);
	if (failed(MPI_Comm_rank(ranks, rank), why) || failed(MPI_Comm_size(ranks, size), why))
		return -1;
	n_ranks = *size;
	if (failed(MPI_Alloc_mem((MPI_Aint)((size_t)n_ranks * sizeof *note), MPI_INFO_NULL, &note), why))
		return -1;
	memset(note, 0, (size_t)n_ranks * sizeof *note);
	return 0;
}

static int begin(int peer, const void *out, size_t out_bytes, void *in, size_t in_bytes, char *why)
{
	request[0] = request[1] = MPI_REQUEST_NULL;
	if (in_bytes && failed(MPI_Irecv(in, (int)in_bytes, MPI_BYTE, peer, TAG, ranks, &request[0]), why))
		return -1;
	return out_bytes ? failed(MPI_Isend(out, (int)out_bytes, MPI_BYTE, peer, TAG, ranks, &request[1]), why) : 0;
}

static int done(char *why)
{
	int flag = 0;

	return failed(MPI_Testall(2, request, &flag, MPI_STATUSES_IGNORE), why) ? -1 : flag;
}

static int arrived(int peer, char *why)
{
	int flag = 0;

	return failed(MPI_Iprobe(peer, TAG, ranks, &flag, MPI_STATUS_IGNORE), why) ? -1 : flag;
}

static int tell(int peer, const void *bytes, char *why)
{
	struct note *n = &note[peer];
	int gone = 1;

	if (n->sent && failed(MPI_Test(&n->request, &gone, MPI_STATUS_IGNORE), why))
		return -1;
	if (!gone)
		return 0;
	memcpy(n->bytes, bytes, sizeof n->bytes);
	n->sent = 1;
	return failed(MPI_Isend(n->bytes, (int)sizeof n->bytes, MPI_BYTE, peer, NOTE_TAG, ranks, &n->request), why);
}

static int heard(int *peer, void *bytes, char *why)
{
	MPI_Status status;
	int flag = 0;

	if (failed(MPI_Iprobe(MPI_ANY_SOURCE, NOTE_TAG, ranks, &flag, &status), why))
		return -1;
	if (!flag)
		return 0;
	*peer = status.MPI_SOURCE;
	return failed(MPI_Recv(bytes, COMM_NOTE, MPI_BYTE, *peer, NOTE_TAG, ranks, MPI_STATUS_IGNORE), why) ? -1 : 1;
}

/* MPI takes back the memory of a note only when it is sent, so that stays. */
static void stop(void)
{
	for (int r = 0; r < n_ranks; r++)
		if (note[r].sent && note[r].request != MPI_REQUEST_NULL)
			MPI_Request_free(&note[r].request);
	MPI_Comm_free(&ranks);
	MPI_Finalize();
}

__attribute__((noreturn)) static void end(int code)
{
	MPI_Abort(MPI_COMM_WORLD, code);
	for (;;) /* MPI says that it tries to end all ranks; the signal comes */
		pause();
}

__attribute__((visibility("default"))) const struct comm_engine ddm_comm_engine = {.version = COMM_ENGINE_VERSION,
                                                                                   .name = "MPI",
                                                                                   .start = start,
                                                                                   .begin = begin,
                                                                                   .done = done,
                                                                                   .arrived = arrived,
                                                                                   .tell = tell,
                                                                                   .heard = heard,
                                                                                   .stop = stop,
                                                                                   .end = end};
