/* Takes away from a decoding process what it does not need: files, network, most system calls. */
#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cmd/ingest.h"

#if defined(__SANITIZE_ADDRESS__)
#define LIMIT_MEMORY 0 /* its shadow needs terabytes of address space */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LIMIT_MEMORY 0
#endif
#endif
#ifndef LIMIT_MEMORY
#define LIMIT_MEMORY 1
#endif

/* Memory, time, and the descriptors that are open already. Anything else fails with EPERM: no file can be opened or changed,
 * nothing sent, nothing started. */
static const int allowed[] = {
	SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(readv), SCMP_SYS(writev), SCMP_SYS(pread64), SCMP_SYS(lseek),
	SCMP_SYS(_llseek), SCMP_SYS(fstat), SCMP_SYS(fstat64), SCMP_SYS(close), SCMP_SYS(mmap), SCMP_SYS(mmap2),
	SCMP_SYS(munmap), SCMP_SYS(mprotect), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(brk), SCMP_SYS(futex),
	SCMP_SYS(futex_time64), SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask), SCMP_SYS(clock_gettime), SCMP_SYS(clock_gettime64), SCMP_SYS(gettimeofday),
	SCMP_SYS(time), SCMP_SYS(getrandom), SCMP_SYS(sched_yield), SCMP_SYS(sched_getaffinity), SCMP_SYS(getpid),
	SCMP_SYS(gettid), SCMP_SYS(getrusage), SCMP_SYS(restart_syscall), SCMP_SYS(sigaltstack), SCMP_SYS(sysinfo),
};

/* Attempts that no decoder makes by accident. */
static const int fatal[] = {
	SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(ptrace), SCMP_SYS(socket), SCMP_SYS(process_vm_writev),
};

static int filter_load(void)
{
	scmp_filter_ctx c = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int rc = c ? 0 : -1;

	if (!rc) /* abort() */
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

int sandbox_enter(uint64_t memory, int bare, struct err *e)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || prctl(PR_SET_DUMPABLE, 0) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    limit(RLIMIT_CORE, 0) || limit(RLIMIT_FSIZE, 0) || limit(RLIMIT_NOFILE, 8) || limit(RLIMIT_CPU, INGEST_CPU_SECONDS) ||
	    (LIMIT_MEMORY && memory && limit(RLIMIT_AS, memory)))
		return err_errno(e, "the decoder cannot limit itself");
	if (!bare && filter_load())
		return err_set(e, ERR_FAIL,
			       "the decoder cannot restrict its system calls (seccomp): this kernel does not let it; --no-sandbox does without");
	return 0;
}
