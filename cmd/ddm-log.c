/* ddm-log: writes training logs in the formats of other programs. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "cmd/cmd.h"
#include "cmd/statustable.h"
#include "core/mem.h"
#include "file/claim.h"
#include "file/commit.h"
#include "file/tfevents.h"
#include "inspect/exportlog.h"

static const char *tensorboard, *prometheus, *csv;

static const struct option options[] = {
    {.name = "--tensorboard",
     .type = OPTION_TEXT,
     .value = &tensorboard,
     .arg = "DIR",
     .help = "write event files of TensorBoard below DIR, or add the new steps to them",
     OPTION_ALWAYS},
    {.name = "--prometheus",
     .type = OPTION_TEXT,
     .value = &prometheus,
     .arg = "FILE",
     .help = "write the state of each training for node_exporter's textfile collector",
     OPTION_ALWAYS},
    {.name = "--csv",
     .type = OPTION_TEXT,
     .value = &csv,
     .arg = "FILE",
     .help = "write all numbers of the logs as a table of comma-separated values",
     OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-log",
    .operands = "export RUN...",
    .about = "Write the logs of trainings in the format of TensorBoard, of Prometheus or as comma-separated values. RUN is a training's folder, or "
	     "a folder of them, such as a model with its experts and router.",
    .options = options,
};

/* These formats have no place for a stamp, so that an older output is known by what it begins with. */
static int check_standing(const char *path, const char *begin, struct err *e)
{
	char start[64];
	struct stat st;
	FILE *f;
	size_t n;

	if (!path || !strcmp(path, "-") || stat(path, &st) || !S_ISREG(st.st_mode))
		return 0;
	f = fopen(path, "re");
	if (!f)
		return err_errno(e, "%s", path);
	n = fread(start, 1, strlen(begin), f);
	fclose(f);
	if (n && (n < strlen(begin) || memcmp(start, begin, n) != 0))
		return err_set(e, ERR_EXISTS, "%s: exists and is not an output of ddm-log: remove it, or name another file", path);
	return 0;
}

static int write_text(const char *path, struct str *text, struct err *e)
{
	int rc = commit_bytes(path, str_text(text), text->len, e);

	str_reset(text);
	return rc;
}

static int export_all(const struct runs *r, double now, struct err *e)
{
	struct str text = {0};
	int rc = 0;

	if (tensorboard)
		rc = export_tensorboard(tensorboard, r, e);
	if (!rc && prometheus)
		rc = export_prometheus(&text, r, now, e) || write_text(prometheus, &text, e) ? -1 : 0;
	if (!rc && csv) {
		export_csv(&text, r);
		rc = write_text(csv, &text, e);
	}
	str_release(&text);
	return rc;
}

int main(int argc, char **argv)
{
	struct err e = {0};
	struct runs r = {0};
	int n = cmd_start(&program, argc, argv, 2, -1);
	const char *const outputs[] = {prometheus, csv};
	double now = (double)time(NULL);

	if (strcmp(argv[1], "export") != 0)
		err_set(&e, ERR_USAGE, "'%s' is not a command: expected export", argv[1]);
	else if (!tensorboard && !prometheus && !csv)
		err_set(&e, ERR_USAGE, "nothing to write: give --tensorboard DIR, --prometheus FILE or --csv FILE");
	else if ((!tensorboard || !tfevents_available(&e)) && !claim_take(outputs, 2, &e) && !check_standing(csv, export_csv_begin, &e) &&
	         !check_standing(prometheus, export_prometheus_begin, &e) && !runs_find(&r, argv + 2, n - 1, 0, &e)) {
		runs_update(&r, now, &(struct run_limits){.straggler = 0});
		if (!export_all(&r, now, &e))
			status_errors(&r, &e);
	}
	runs_release(&r);
	return cmd_end(&e);
}
