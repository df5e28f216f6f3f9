/* Runs trainings one after the other, as programs of their own. */
#include "cmd/forgetrun.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/beside.h"
#include "cmd/cmd.h"
#include "core/mem.h"
#include "core/str.h"

extern char **environ;

/* Wait for a training. A signal that this process gets is passed on, so that the training saves its state. */
static int wait_for(pid_t pid, int *status)
{
	int passed = 0;

	while (waitpid(pid, status, 0) < 0) {
		if (errno != EINTR)
			return -1;
		if (cmd_signal && !passed++)
			kill(pid, SIGTERM);
	}
	return 0;
}

/* The program beside this one, or its name alone, which is looked for in PATH. Caller frees with mem_free. */
static char *program_path(const char *name)
{
	char *path = beside_program(name, X_OK);

	return path ? path : mem_strdup(name);
}

static int train(const struct retrain_step *s, const struct forget_training *t, struct err *e)
{
	size_t words = json_array_size(s->words), n = 0;
	char **argv = mem_zalloc(words + 6, sizeof *argv), *number = str_new("%lld", (long long)t->threads);
	char *path = program_path(json_string_value(json_array_get(s->words, 0)));
	int failed, status = 0, code;
	pid_t pid;

	while (n < words) {
		argv[n] = (char *)(uintptr_t)json_string_value(json_array_get(s->words, n));
		n++;
	}
	if (t->threads) {
		argv[n++] = "--threads";
		argv[n++] = number;
	}
	if (t->device) {
		argv[n++] = "--device";
		argv[n++] = (char *)(uintptr_t)t->device;
	}
	if (t->quiet)
		argv[n++] = "-q";
	failed = posix_spawnp(&pid, path, NULL, NULL, argv, environ);
	if (!failed && wait_for(pid, &status))
		failed = errno;
	code = WIFEXITED(status) ? WEXITSTATUS(status) : ERR_FAIL;
	if (failed)
		err_set(e, ERR_UNAVAILABLE, "%s: %s", path, strerror(failed));
	else if (code == ERR_AGAIN)
		err_set(e, ERR_AGAIN, "%s: interrupted: run the same command again", s->out);
	else if (code)
		err_set(e, code, "%s: the training failed: %s", s->out, argv[0]);
	mem_free(argv);
	mem_free(number);
	mem_free(path);
	return failed || code ? -1 : 0;
}

/* ERR_DATA if a command would not repeat the recorded run. */
static int check_plan(const struct retrain_plan *p, struct err *e)
{
	for (int i = 0; i < p->n; i++)
		if (p->v[i].note)
			return err_set(e, ERR_DATA, "%s: %s; without --run, the commands are printed and can be changed", p->v[i].x->dir,
			               p->v[i].note);
	return 0;
}

static void warn_unknown(const struct lineage *l)
{
	for (int i = 0; i < l->n; i++)
		if (!l->v[i].model && l->v[i].saw == LINEAGE_UNKNOWN)
			cmd_warn("%s stays, but may have seen the samples: %s", l->v[i].dir, l->v[i].why);
}

int forgetrun_all(const struct forget_report *r, const struct forget_training *t, struct err *e)
{
	int rc = check_plan(r->plan, e) || retrainplan_share(r->plan, r->from, r->model, e) ? -1 : 0;

	if (!rc)
		warn_unknown(r->lineage);
	for (int i = 0; i < r->plan->n && !rc; i++)
		rc = cmd_signal ? err_set(e, ERR_AGAIN, "interrupted: run the same command again") : train(&r->plan->v[i], t, e);
	return rc;
}
