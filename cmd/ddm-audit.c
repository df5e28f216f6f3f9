/* ddm-audit: checks a training against its hash chain, and trains a part of it again. */
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/opendevice.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "inspect/audit.h"
#include "inspect/trace.h"

static struct audit_options request;
static const char *device_name;
static int64_t threads;
static int as_json, of_traces;

static const struct option options[] = {
    OPTION_GROUP("Checks"),
    {.name = "--head",
     .type = OPTION_TEXT,
     .value = &request.head,
     .arg = "HASH",
     .help = "the chain must hold the line of this hash",
     OPTION_ALWAYS},
    OPTION_GROUP("Replay"),
    {.name = "--replay",
     .type = OPTION_TEXT,
     .value = &request.replay,
     .arg = "A..B|all",
     .help = "train again from step A to B, and compare; needs SHARDS",
     OPTION_ALWAYS},
    {.name = "--trace",
     .type = OPTION_INT,
     .value = &request.trace,
     .lo = 1,
     .hi = INT64_MAX,
     .arg = "STEP",
     .help = "train again to STEP, and hash all that its nodes compute; needs SHARDS",
     .when = {{USE_NEEDS, "--trace-to"}, {USE_AGAINST, "--replay"}}},
    {.name = "--trace-to",
     .type = OPTION_TEXT,
     .value = &request.trace_to,
     .arg = "FILE",
     .help = "where the trace goes",
     .when = {{USE_NEEDS, "--trace"}}},
    {.name = "--traces", .value = &of_traces, .help = "the operands are two traces: name the first node that differs", OPTION_ALWAYS},
    {.name = "--scratch",
     .type = OPTION_TEXT,
     .value = &request.scratch,
     .arg = "DIR",
     .help = "where to train again; removed at the end",
     .when = {{USE_NEEDS, "--replay --trace"}}},
    {.name = "--init-weights",
     .type = OPTION_TEXT,
     .value = &request.init_weights,
     .arg = "FILE",
     .help = "the weights that the training started from",
     .when = {{USE_NEEDS, "--replay --trace"}}},
    {.name = "--pretrained",
     .type = OPTION_TEXT,
     .value = &request.pretrained,
     .arg = "DIR",
     .help = "the network or router that it started from",
     .when = {{USE_NEEDS, "--replay --trace"}}},
    {"--pictures", .type = OPTION_TEXT, .value = &request.pictures, .arg = "SHARDS", .help = "the pictures that it took beside clips",
     .when = {{USE_NEEDS, "--replay --trace"}}},
    {"--experts", .type = OPTION_TEXT, .value = &request.experts, .arg = "MODEL", .help = "the experts that a router learned from",
     .when = {{USE_NEEDS, "--replay --trace"}}},
    {.name = "--null-text",
     .type = OPTION_TEXT,
     .value = &request.null_text,
     .arg = "FILE",
     .help = "the features of the empty text",
     .said = "default SHARDS/null-text.npy",
     .when = {{USE_NEEDS, "--replay --trace"}}},
    {.name = "--null-pooled",
     .type = OPTION_TEXT,
     .value = &request.null_pooled,
     .arg = "FILE",
     .help = "the pooled vector of the empty text",
     .said = "default SHARDS/null-pooled.npy",
     .when = {{USE_NEEDS, "--replay --trace"}}},
    OPTION_GROUP("Machine"),
    {.name = "--threads",
     .type = OPTION_INT,
     .value = &threads,
     .hi = 1024,
     .arg = "N",
     .help = "threads; changes no result",
     .said = "default: all processors that it may use",
     .when = {{USE_NEEDS, "--replay --trace"}}},
    {.name = "--device",
     .type = OPTION_TEXT,
     .value = &device_name,
     .arg = "NAME",
     .preset = "auto",
     .help = "auto, cpu, cuda or cuda:N: where to train again",
     .when = {{USE_NEEDS, "--replay --trace"}}},
    OPTION_GROUP("Output"),
    {.name = "--json", .letter = 'j', .value = &as_json, .help = "print one line of JSON", OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-audit",
    .operands = "RUN [SHARDS]",
    .about = "Check that a training did what the hash chain in its folder says.",
    .options = options,
};

static void tell(void *arg, const char *check, const char *result, const char *detail)
{
	json_t *o;

	if (!as_json) {
		printf("%s\t%s\t%s\n", check, result, detail);
		return;
	}
	o = json_object();
	json_object_set_new(o, "check", json_string(check));
	json_object_set_new(o, "result", json_string(result));
	json_object_set_new(o, "detail", jsonio_text(detail));
	json_array_append_new(arg, o);
}

static void print_json(json_t *checks, const struct err *e)
{
	json_t *o = json_object();
	char *line;

	json_object_set_new(o, "run", jsonio_text(request.run));
	json_object_set_new(o, "proven", json_boolean(!e->code));
	if (e->code)
		json_object_set_new(o, "reason", jsonio_text(e->msg));
	json_object_set(o, "checks", checks);
	line = jsonio_line(o);
	printf("%s\n", line);
	mem_free(line);
	json_decref(o);
}

static void compare_traces(struct err *e)
{
	struct str what = {0};
	int rc = -1;

	if (!request.shards)
		err_set(e, ERR_USAGE, "--traces: needs two traces");
	else if ((rc = trace_compare(request.run, request.shards, &what, e)) >= 0)
		tell(request.arg, "traces", rc ? "failed" : "ok", str_text(&what));
	if (rc > 0)
		err_set(e, ERR_DATA, "%s", str_text(&what));
	str_release(&what);
}

static void run(struct err *e)
{
	struct pool *pool = NULL;

	const char *again = request.trace ? "--trace" : "--replay";

	if (of_traces) {
		compare_traces(e);
		return;
	}
	if ((request.replay || request.trace) && (!request.shards || !request.scratch)) {
		err_set(e, ERR_USAGE, request.scratch ? "%s: needs the SHARDS of the training" : "%s: needs a folder: --scratch DIR", again);
		return;
	}
	if (request.replay || request.trace) {
		cmd_catch_signals();
		if (!(pool = pool_new((int)threads, e)) || !(request.device = open_device(device_name, pool, e))) {
			pool_free(pool);
			return;
		}
	}
	audit_run(&request, e);
	device_free(request.device);
	pool_free(pool);
}

int main(int argc, char **argv)
{
	struct err e = {0};
	json_t *checks = json_array();
	int n = cmd_start(&program, argc, argv, 1, 2);

	request.run = argv[1];
	request.shards = n > 1 ? argv[2] : NULL;
	request.stop = &cmd_signal;
	request.tell = tell;
	request.arg = checks;
	run(&e);
	if (as_json)
		print_json(checks, &e);
	json_decref(checks);
	return cmd_end(&e);
}
