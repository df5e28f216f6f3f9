/* ddm-info: describes a file or folder: its kind, its contents, and its sources. */
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/infotext.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/remoteinput.h"
#include "inspect/describe.h"
#include "inspect/pin.h"
#include "inspect/samplediff.h"
#include "inspect/trail.h"

static int as_json, diff, pin, trace;
static struct facts_options want;

static const struct option options[] = {
    {.name = "--check",
     .value = &want.check,
     .help = "read everything and verify it: hashes, end marks, numbers, pixels",
     .when = {{USE_AGAINST, "--diff --pin"}},
     .was = "-c"},
    {.name = "--diff", .value = &diff, .help = "compare two sets of samples by key; exit with 1 if they differ", OPTION_ALWAYS},
    {.name = "--pin",
     .value = &pin,
     .help = "print a table of the operands' hashes, for ddm-check --pinned",
     .when = {{USE_AGAINST, "--diff --trace"}}},
    {.name = "--trace",
     .value = &trace,
     .help = "follow a picture of ddm-sample back to its sources: FILE [NUMBER] [PLACE...]",
     .when = {{USE_AGAINST, "--diff --check"}}},
    {.name = "--full",
     .letter = 'f',
     .value = &want.full,
     .help = "list all tensors, arrays, keys, shards; whole hashes",
     .when = {{USE_AGAINST, "--pin"}}},
    {.name = "--json", .letter = 'j', .value = &as_json, .help = "print one line of JSON an operand", .when = {{USE_AGAINST, "--pin"}}},
    {0},
};

static const struct program program = {
    .name = "ddm-info",
    .operands = "FILE...",
    .about = "Say what a file or folder is, what it holds, and what it was made from.",
    .options = options,
};

static void print_json(const json_t *o)
{
	char *line = jsonio_line(o);

	printf("%s\n", line);
	mem_free(line);
}

static void print(json_t *o, const struct err *e)
{
	static int printed;

	if (!e->code && want.check)
		json_object_set_new(o, "check", json_string("passed"));
	if (e->code) {
		json_object_set_new(o, "error", jsonio_text(e->msg));
		json_object_set_new(o, "exit", json_integer(e->code));
	}
	if (as_json) {
		print_json(o);
		return;
	}
	/* The facts of a damaged file are printed as far as they could be read; nothing if even its kind is unknown. */
	if (e->code && json_object_size(o) <= 4 && !strcmp(json_string_value(json_object_get(o, "kind")), "unknown"))
		return;
	if (printed++)
		putchar('\n');
	info_print(o, want.full);
}

/* Compare the two operands. The exit status: 0 if they are equal, 1 if they differ, or that of the error. */
static int compare(int n, char **operand)
{
	json_t *o = json_object();
	struct err e = {0};
	int64_t differ = 0;
	int status;

	cmd_allow_files();
	if (n != 2) {
		err_set(&e, ERR_USAGE, "--diff compares two operands, and there %s %d", n == 1 ? "is" : "are", n);
	} else {
		json_object_set_new(o, "file", jsonio_text(operand[1]));
		json_object_set_new(o, "kind", json_string("difference"));
		json_object_set_new(o, "from", jsonio_text(operand[0]));
		if (!samplediff(o, operand[0], operand[1], &differ, &e) || as_json)
			print(o, &e);
	}
	json_decref(o);
	status = cmd_end(&e);
	return status ? status : differ > 0;
}

/* Follow the first operand. A number after it that names no file is that of a picture in a tar. */
static int follow(int n, char **operand)
{
	json_t *o = json_object();
	int64_t index = TRAIL_WHOLE;
	struct err e = {0};
	int numbered = n > 1 && !path_exists(operand[1]) && !parse_i64(operand[1], 0, INT64_MAX, &index);

	json_object_set_new(o, "file", jsonio_text(operand[0]));
	json_object_set_new(o, "kind", json_string("trail"));
	if (!trail_follow(o, operand[0], index, (const char *const *)(operand + 1 + numbered), n - 1 - numbered, &e) || as_json)
		print(o, &e);
	json_decref(o);
	return cmd_end(&e);
}

int main(int argc, char **argv)
{
	struct err first = {0};
	int n = cmd_start(&program, argc, argv, 1, -1);

	if (diff)
		return compare(n, argv + 1);
	if (pin) {
		pin_write((const char *const *)(argv + 1), n, &first);
		return cmd_end(&first);
	}
	if (trace)
		return follow(n, argv + 1);
	for (int i = 1; i <= n; i++) {
		json_t *o = json_object();
		char *shown = remote_shown(argv[i]);
		struct err e = {0};

		json_object_set_new(o, "file", jsonio_text(shown));
		json_object_set_new(o, "kind", json_string("unknown"));
		describe_path(o, argv[i], &want, &e);
		print(o, &e);
		json_decref(o);
		mem_free(shown);
		/* Every failure is printed; the exit status is that of the first. */
		if (e.code && first.code) {
			cmd_warn("%s", first.msg);
			memcpy(first.msg, e.msg, sizeof first.msg);
		} else if (e.code) {
			first = e;
		}
	}
	return cmd_end(&first);
}
