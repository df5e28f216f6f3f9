/* Makes calls that change the disk fail, by seccomp's notifications: the kernel asks the parent about each such call, from any thread or library. */
#define _GNU_SOURCE
#include "tests/faults/faults.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* What a call does. `path` of a call: the argument that is the new name or the descriptor. */
enum what { WRITE, SYNC, CUT, OPEN, FOLDER, RENAME, REMOVE, READ };
static const struct call {
	int nr;
	enum what what;
	int arg;
} calls[] = {
    {SYS_write, WRITE, 0},     {SYS_pwrite64, WRITE, 0}, {SYS_writev, WRITE, 0},   {SYS_fsync, SYNC, 0},      {SYS_fdatasync, SYNC, 0},
    {SYS_ftruncate, CUT, 0},   {SYS_openat, OPEN, 1},    {SYS_mkdirat, FOLDER, 1}, {SYS_renameat, RENAME, 1}, {SYS_renameat2, RENAME, 1},
    {SYS_unlinkat, REMOVE, 1}, {SYS_read, READ, 0},      {SYS_pread64, READ, 0},   {SYS_readv, READ, 0},      {SYS_getdents64, READ, 0},
#ifdef SYS_open
    {SYS_open, OPEN, 0},       {SYS_mkdir, FOLDER, 0},   {SYS_rename, RENAME, 0},  {SYS_unlink, REMOVE, 0},   {SYS_rmdir, REMOVE, 0},
#endif
};
enum { CALLS = sizeof calls / sizeof *calls };

int disk_arm(int to_parent)
{
	struct sock_filter code[2 * CALLS + 2];
	struct sock_fprog program = {.filter = code};
	char space[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int listener, n = 0;

	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (int i = 0; i < CALLS; i++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i].nr, 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = (unsigned short)n;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	if (listener < 0)
		return -1;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof listener);
	memcpy(CMSG_DATA(c), &listener, sizeof listener);
	n = sendmsg(to_parent, &m, 0) == 1 ? 0 : -1;
	close(listener);
	close(to_parent);
	return n;
}

static int listener_receive(int from_child)
{
	char space[CMSG_SPACE(sizeof(int))], byte;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
	const struct cmsghdr *c;
	int fd = -1;

	if (recvmsg(from_child, &m, MSG_CMSG_CLOEXEC) == 1 && (c = CMSG_FIRSTHDR(&m)))
		memcpy(&fd, CMSG_DATA(c), sizeof fd);
	return fd;
}

/* The string at an address in that thread's memory; empty if it cannot be read. */
static void text_of(pid_t tid, uint64_t at, char out[4096])
{
	struct iovec to = {out, 0}, from = {(void *)(uintptr_t)at, 0};

	/* Stop at the end of a page, because the next page may not exist. */
	from.iov_len = to.iov_len = 4096 - at % 4096;
	out[0] = 0;
	if (process_vm_readv(tid, &to, 1, &from, 1, 0) != (ssize_t)to.iov_len || !memchr(out, 0, to.iov_len)) {
		from.iov_len = to.iov_len = 4096;
		if (process_vm_readv(tid, &to, 1, &from, 1, 0) != 4096 || !memchr(out, 0, 4096))
			out[0] = 0;
	}
}

/* The file behind a descriptor; empty for pipes and the like. */
static void name_of(pid_t tid, uint64_t fd, char out[4096])
{
	char link[64];
	struct stat st;
	ssize_t n;

	snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)tid, (int)fd);
	n = readlink(link, out, 4095);
	out[n > 0 ? n : 0] = 0;
	if (stat(link, &st) || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) || !strncmp(out, "/memfd:", 7))
		out[0] = 0;
}

/* Whether the path is below the working directory. Relative names are assumed to be; those of descriptors are absolute. */
static int is_ours(const char *path)
{
	static char here[4096];
	size_t n;

	if (!*here && !getcwd(here, sizeof here))
		return 0;
	n = strlen(here);
	return *path && (*path != '/' || (!strncmp(path, here, n) && path[n] == '/'));
}

/* The errno with which a call could fail; 0 for a call that is let through, because it changes nothing on the disk or reads elsewhere. */
static int could_fail(const struct seccomp_notif *q, const struct call *c, enum disk_fault how)
{
	uint64_t arg = q->data.args[c->arg];
	char path[4096];
	struct stat st;

	if (c->what == OPEN || c->what == FOLDER || c->what == RENAME || c->what == REMOVE)
		text_of((pid_t)q->pid, arg, path);
	else
		name_of((pid_t)q->pid, arg, path);
	if (how == DISK_READ)
		return (c->what == READ || (c->what == OPEN && !(q->data.args[c->arg + 1] & (O_CREAT | O_WRONLY)) && !lstat(path, &st))) &&
		               is_ours(path)
		           ? EIO
		           : 0;
	switch (c->what) {
	case WRITE:
		return *path ? ENOSPC : 0;
	case SYNC:
		return *path ? EIO : 0;
	case OPEN:
		return q->data.args[c->arg + 1] & O_CREAT && lstat(path, &st) ? ENOSPC : 0;
	case FOLDER:
		return lstat(path, &st) ? ENOSPC : 0;
	case RENAME:
		return ENOSPC;
	case CUT:
		return how == DISK_KILL && *path ? EIO : 0;
	case REMOVE:
		return how == DISK_KILL && !lstat(path, &st) ? EIO : 0;
	default:
		return 0;
	}
}

static void answer(int listener, pid_t pid, enum disk_fault how, struct fault *f)
{
	union {
		struct seccomp_notif q;
		char space[512];
	} in = {0};
	union {
		struct seccomp_notif_resp r;
		char space[512];
	} out = {0};
	const struct call *c = calls;

	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &in.q))
		return;
	while (c->nr != in.q.data.nr)
		c++;
	out.r.id = in.q.id;
	out.r.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	out.r.error = -could_fail(&in.q, c, how);
	if (out.r.error && fault_strikes(f)) {
		out.r.flags = 0;
		if (how == DISK_KILL)
			kill(pid, SIGKILL);
	} else {
		out.r.error = 0;
	}
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &out.r);
}

int disk_watch(pid_t pid, int from_child, enum disk_fault how, struct fault *f)
{
	struct pollfd p[2] = {{.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN}, {.events = POLLIN}};

	p[1].fd = listener_receive(from_child);
	if (p[0].fd < 0 || p[1].fd < 0)
		return -1;
	while (poll(p, 2, -1) > 0 && !p[0].revents)
		if (p[1].revents & POLLIN)
			answer(p[1].fd, pid, how, f);
	close(p[0].fd);
	close(p[1].fd);
	return 0;
}
