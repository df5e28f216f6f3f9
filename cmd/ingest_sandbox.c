/* Restricts the decoder process: no files, no network, few system calls, limited memory. */
#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

#include "cmd/ingest.h"

/* The allowed system calls: memory, time, and use of open descriptors. Any other call fails with EPERM, so the process cannot open or change files,
 * send data or start programs. */
static const int allowed[] = {
    SCMP_SYS(read),
    SCMP_SYS(write),
    SCMP_SYS(readv),
    SCMP_SYS(writev),
    SCMP_SYS(pread64),
    SCMP_SYS(lseek),
    SCMP_SYS(_llseek),
    SCMP_SYS(fstat),
    SCMP_SYS(fstat64),
    SCMP_SYS(close),
    SCMP_SYS(mmap),
    SCMP_SYS(mmap2),
    SCMP_SYS(munmap),
    SCMP_SYS(mprotect),
    SCMP_SYS(mremap),
    SCMP_SYS(madvise),
    SCMP_SYS(brk),
    SCMP_SYS(futex),
    SCMP_SYS(futex_time64),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_gettime64),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(getrandom),
    SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(getpid),
    SCMP_SYS(gettid),
    SCMP_SYS(getrusage),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(sysinfo),
};

/* System calls that kill the process, because only an attack would make them. */
static const int fatal[] = {
    SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(ptrace), SCMP_SYS(socket), SCMP_SYS(process_vm_writev),
};

/* libavutil seeds its random colours from /dev/urandom. If it cannot open that file, it spins on clock() instead, about 0.04 s for each colour. So
 * the filter turns openat into SIGSYS, and the signal handler returns a duplicate of a descriptor that was opened before the filter was loaded. */
#define RANDOM_PATH "/dev/urandom"

static int random_fd = -1;

#if defined(__x86_64__)
#define CAN_TRAP 1
#define CALL_ARGUMENT(uc, index) ((uc)->uc_mcontext.gregs[(index) == 1 ? REG_RSI : REG_RDX]) /* index 1 or 2 */
#define CALL_RESULT(uc) ((uc)->uc_mcontext.gregs[REG_RAX])
#elif defined(__aarch64__)
#define CAN_TRAP 1
#define CALL_ARGUMENT(uc, index) ((uc)->uc_mcontext.regs[index])
#define CALL_RESULT(uc) ((uc)->uc_mcontext.regs[0])
#else /* without the trap, random colours are slower */
#define CAN_TRAP 0
#define CALL_ARGUMENT(uc, index) ((void)(uc), 0L)
#define CALL_RESULT(uc) (*(long *)(uc))
#endif

/* Handles SIGSYS in place of openat(directory, path, flags): the result is a descriptor for reading RANDOM_PATH, else -EPERM. */
static void on_openat(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	const char *path = (const char *)(uintptr_t)CALL_ARGUMENT(uc, 1);
	int flags = (int)CALL_ARGUMENT(uc, 2), saved = errno, fd = -1;

	(void)sig;
	(void)info;
	if (!(flags & ~(O_CLOEXEC | O_LARGEFILE)) && !strcmp(path, RANDOM_PATH))
		fd = dup(random_fd);
	CALL_RESULT(uc) = fd < 0 ? -EPERM : fd;
	errno = saved;
}

/* Install on_openat and open RANDOM_PATH for it: 1, or 0 if that is not possible. */
static int trap_set(void)
{
	struct sigaction sa = {.sa_sigaction = on_openat, .sa_flags = SA_SIGINFO};
	sigset_t set;

	if (!CAN_TRAP || (random_fd = open(RANDOM_PATH, O_RDONLY | O_CLOEXEC)) < 0)
		return 0;
	sigemptyset(&set);
	sigaddset(&set, SIGSYS); /* a blocked SIGSYS would kill the process */
	return !sigaction(SIGSYS, &sa, NULL) && !sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* Load the filter of system calls. */
static int filter_load(void)
{
	int trapped = trap_set();
	scmp_filter_ctx c = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int rc = c ? 0 : -1;

	if (!rc && trapped) {
		rc = seccomp_rule_add(c, SCMP_ACT_TRAP, SCMP_SYS(openat), 0);
		if (!rc)
			rc = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(dup), 1, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)random_fd, 0));
	}
	if (!rc) /* tgkill of this process, for abort() */
		rc = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid(), 0));
	for (size_t i = 0; !rc && i < sizeof allowed / sizeof *allowed; i++)
		rc = seccomp_rule_add(c, SCMP_ACT_ALLOW, allowed[i], 0);
	for (size_t i = 0; !rc && i < sizeof fatal / sizeof *fatal; i++)
		rc = seccomp_rule_add(c, SCMP_ACT_KILL_PROCESS, fatal[i], 0);
	if (!rc)
		rc = seccomp_load(c);
	seccomp_release(c);
	return rc;
}

/* Lower the hard and soft limit of a resource to `most`. */
static int limit(int what, rlim_t most)
{
	struct rlimit r;

	if (getrlimit(what, &r))
		return -1;
	if (r.rlim_max == RLIM_INFINITY || r.rlim_max > most)
		r.rlim_max = most;
	r.rlim_cur = r.rlim_max;
	return setrlimit(what, &r);
}

/* Size of the process's address space in bytes; 0 if /proc cannot be read. */
static uint64_t address_space(void)
{
	unsigned long long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f && fscanf(f, "%llu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Limit private writable memory to `memory` bytes, and the address space to `memory` bytes more than now. The present address space is mostly
 * library code, which all decoders share. */
static int limit_memory(uint64_t memory)
{
	uint64_t now = address_space();

	return limit(RLIMIT_DATA, memory) || (now && limit(RLIMIT_AS, now + memory)) ? -1 : 0;
}

int sandbox_enter(uint64_t memory, int bare, struct err *e)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || prctl(PR_SET_DUMPABLE, 0) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || limit(RLIMIT_CORE, 0) ||
	    limit(RLIMIT_FSIZE, 0) || limit(RLIMIT_NOFILE, 8) || limit(RLIMIT_CPU, INGEST_CPU_SECONDS) ||
	    (SANDBOX_LIMITS_MEMORY && memory && limit_memory(memory)))
		return err_errno(e, "the decoder cannot limit itself");
	if (!bare && filter_load())
		return err_set(e, ERR_FAIL,
		               "this kernel does not allow the decoder to restrict its system calls (seccomp); --no-sandbox decodes without that");
	return 0;
}
