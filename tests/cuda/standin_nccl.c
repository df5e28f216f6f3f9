/* A libnccl.so.2 for processes of one computer whose CUDA runtime is tests/op/fakecuda.c: the functions that lib/comm/nccl/ncclengine.c needs, with
 * the prototypes of the real header. An id names a folder in the current one. What a rank sends is written there as a file when its stream comes to
 * it; what it receives is read by the stream, which waits for the file as a GPU does. So the host goes on, and hangs in the next wait for the device
 * if the other rank never sends. Each rank holds a lock on a file, which shows the others whether it lives.
 *
 * STANDIN_NCCL_VERSION=22703: the version it claims. STANDIN_NCCL_FAIL=N: the connection breaks at the N-th group. STANDIN_NCCL_DEAF=1: no rank
 * hears of another. STANDIN_NCCL_MUTE=N: from the N-th group on nothing is sent. STANDIN_NCCL_SLOW=N: a call is only begun, and done at the N-th
 * question. STANDIN_NCCL_HANG=1: abort does not return. */
#include <errno.h>
#include <fcntl.h>
#include <nccl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Of the program. */
int fake_cudaStreamSynchronize(void *stream);
int fake_cuda_work(void *stream, void (*run)(void *body), void *body);

enum { MOST = 64, PATH = 400 };

struct ncclComm {
	char dir[NCCL_UNIQUE_ID_BYTES];
	int rank, size, lock, joined;
	int64_t sent[MOST], received[MOST]; /* messages, by rank */
	int slow;                           /* questions until the last call is done */
	atomic_int error, aborted;
};

struct message {
	struct ncclComm *comm;
	const void *out; /* NULL: it is received, to `in` */
	void *in;
	size_t bytes;
	int peer;
	int64_t number;
	void *stream;
};

static struct message group[2 * MOST];
static int depth, queued, calling; /* calling: within run_group */
static int64_t groups;

static long setting(const char *name)
{
	const char *value = getenv(name);

	return value ? strtol(value, NULL, 10) : 0;
}

static void rest(void)
{
	const struct timespec t = {.tv_nsec = 200000};

	nanosleep(&t, NULL);
}

ncclResult_t ncclGetVersion(int *version)
{
	long claimed = setting("STANDIN_NCCL_VERSION");

	*version = claimed ? (int)claimed : NCCL_VERSION_CODE;
	return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	memset(id, 0, sizeof *id);
	snprintf(id->internal, sizeof id->internal, "standin-nccl.XXXXXX");
	return mkdtemp(id->internal) ? ncclSuccess : ncclSystemError;
}

static void lock_path(const struct ncclComm *c, int rank, char path[PATH])
{
	snprintf(path, PATH, "%s/rank-%d", c->dir, rank);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
	struct ncclComm *c = calloc(1, sizeof *c);
	char path[PATH];

	if (!c || config->blocking != 0 || config->magic != 0xcafebeef || nranks > MOST)
		return ncclInvalidArgument;
	memcpy(c->dir, id.internal, sizeof c->dir);
	c->rank = rank;
	c->size = nranks;
	lock_path(c, rank, path);
	*comm = c;
	c->lock = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	return c->lock < 0 || flock(c->lock, LOCK_EX) ? ncclSystemError : ncclInProgress;
}

/* 0: it has not come yet; 1: it lives; -1: it has died. */
static int state_of(const struct ncclComm *c, int rank)
{
	char path[PATH];
	int fd, lives;

	lock_path(c, rank, path);
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
		return 0;
	lives = flock(fd, LOCK_SH | LOCK_NB) != 0;
	close(fd);
	return lives ? 1 : -1;
}

static int all_here(const struct ncclComm *c)
{
	for (int r = 0; r < c->size; r++)
		if (r != c->rank && !state_of(c, r))
			return 0;
	return !setting("STANDIN_NCCL_DEAF");
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state)
{
	if (!c)
		return ncclInvalidArgument;
	c->joined = c->joined || all_here(c);
	if (c->error)
		*state = (ncclResult_t)c->error;
	else
		*state = c->slow-- > 0 || !c->joined ? ncclInProgress : ncclSuccess;
	return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t c, int *rank)
{
	*rank = c->rank;
	return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t rc)
{
	return rc == ncclRemoteError ? "remote process exited or there was a network error" : "unhandled system error";
}

const char *ncclGetLastError(ncclComm_t c)
{
	return c->error == ncclRemoteError ? "the stand-in's connection is closed" : "";
}

static void message_path(const struct message *m, int from, int to, char path[PATH], const char *end)
{
	snprintf(path, PATH, "%s/%d-%d-%lld%s", m->comm->dir, from, to, (long long)m->number, end);
}

static void send_message(const struct message *m)
{
	char part[PATH], path[PATH];
	FILE *f;

	message_path(m, m->comm->rank, m->peer, part, ".part");
	message_path(m, m->comm->rank, m->peer, path, "");
	if (!(f = fopen(part, "w")) || fwrite(m->out, 1, m->bytes, f) != m->bytes || fclose(f) || rename(part, path))
		abort();
}

static int take_message(const struct message *m)
{
	char path[PATH], more;
	FILE *f;

	message_path(m, m->peer, m->comm->rank, path, "");
	if (!(f = fopen(path, "r")))
		return 0;
	if (fread(m->in, 1, m->bytes, f) != m->bytes || fread(&more, 1, 1, f)) {
		fprintf(stderr, "stand-in for NCCL: a message has another size than its receiver expects\n");
		abort();
	}
	fclose(f);
	unlink(path);
	return 1;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* On the stream. After an abort the memory holds something else; also when the other rank is found dead within a call of the host, who learns it
 * then. Not at once, because the time limit of a rank that waits for this one may have run out a moment earlier. */
static void run_receive(void *body)
{
	enum { LEARN = 2 /* seconds */ };
	const struct message *m = body;
	double dead = 0;

	for (int64_t i = 0; !take_message(m); i++) {
		if (m->comm->error && !(dead > 0))
			dead = seconds();
		if (m->comm->aborted || (calling && dead > 0 && seconds() - dead > LEARN)) {
			memset(m->in, 0x3f, m->bytes);
			return;
		}
		if (i % 64 == 63 && state_of(m->comm, m->peer) < 0 && !take_message(m))
			m->comm->error = ncclRemoteError;
		rest();
	}
}

/* What is on the stream before the group is finished first, so that what is sent is computed. */
static ncclResult_t submit_group(int n)
{
	int64_t number = ++groups, from;
	int mute;

	if (number == setting("STANDIN_NCCL_FAIL"))
		group[0].comm->error = ncclRemoteError;
	from = setting("STANDIN_NCCL_MUTE");
	mute = from && number >= from;
	for (int i = 0; i < n; i++)
		fake_cudaStreamSynchronize(group[i].stream);
	if (group[0].comm->error)
		return (ncclResult_t)group[0].comm->error;
	for (int i = 0; i < n; i++)
		if (group[i].out && !mute)
			send_message(&group[i]);
	for (int i = 0; i < n; i++)
		if (!group[i].out) {
			struct message *m = malloc(sizeof *m);

			*m = group[i];
			if (fake_cuda_work(m->stream, run_receive, m))
				return ncclUnhandledCudaError;
		}
	if (group[0].comm->error)
		return (ncclResult_t)group[0].comm->error;
	group[0].comm->slow = (int)setting("STANDIN_NCCL_SLOW");
	return group[0].comm->slow ? ncclInProgress : ncclSuccess;
}

static ncclResult_t run_group(void)
{
	int n = queued;
	ncclResult_t rc;

	queued = 0;
	calling = 1;
	rc = n ? submit_group(n) : ncclSuccess;
	calling = 0;
	return rc;
}

ncclResult_t ncclGroupStart(void)
{
	depth++;
	return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
	return --depth ? ncclSuccess : run_group();
}

static ncclResult_t put(struct message m)
{
	if (queued == 2 * MOST || m.peer >= m.comm->size || m.comm->slow > 0) /* or the last call is still in progress */
		return ncclInvalidArgument;
	group[queued++] = m;
	return depth ? ncclSuccess : run_group();
}

ncclResult_t ncclSend(const void *buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t stream)
{
	if (!c || type != ncclFloat32)
		return ncclInvalidArgument;
	return put((struct message){.comm = c, .out = buffer, .bytes = 4 * count, .peer = peer, .number = c->sent[peer]++, .stream = stream});
}

ncclResult_t ncclRecv(void *buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t stream)
{
	if (!c || type != ncclFloat32)
		return ncclInvalidArgument;
	return put((struct message){.comm = c, .in = buffer, .bytes = 4 * count, .peer = peer, .number = c->received[peer]++, .stream = stream});
}

ncclResult_t ncclAllGather(const void *mine, void *all, size_t count, ncclDataType_t type, ncclComm_t c, cudaStream_t stream)
{
	ncclResult_t rc;

	if (!c || mine != (char *)all + (size_t)c->rank * 4 * count)
		return ncclInvalidArgument;
	ncclGroupStart();
	for (int r = 0; r < c->size; r++) {
		if (r == c->rank)
			continue;
		if ((rc = ncclSend(mine, count, type, r, c, stream)) != ncclSuccess ||
		    (rc = ncclRecv((char *)all + (size_t)r * 4 * count, count, type, r, c, stream)) != ncclSuccess)
			return rc;
	}
	return ncclGroupEnd();
}

ncclResult_t ncclCommFinalize(ncclComm_t c)
{
	c->slow = 2;
	return c->error ? (ncclResult_t)c->error : ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t c)
{
	char path[PATH];

	lock_path(c, c->rank, path);
	unlink(path);
	rmdir(c->dir); /* the last one can */
	close(c->lock);
	free(c);
	return ncclSuccess;
}

/* The memory stays, because the stream may still read it. */
ncclResult_t ncclCommAbort(ncclComm_t c)
{
	c->aborted = 1;
	while (setting("STANDIN_NCCL_HANG"))
		rest();
	close(c->lock);
	return ncclSuccess;
}
