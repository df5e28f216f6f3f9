/* ddm-dedup: finds near duplicates among samples, also between training and held-out part, and drops them. */
#include <stdlib.h>

#include "cluster/dedup.h"
#include "cmd/clean.h"
#include "cmd/cmd.h"

enum { SHOWN = 5 }; /* pairs that cross, on stderr */

static struct dedup_request request;
static int64_t threads;
static int quiet;

static const struct option_table tables[] = {{dedup_options, &request}, {0}};

static const struct option options[] = {
    OPTION_GROUP("Reading"),
    {"--threads", .type = OPTION_INT, .value = &threads, .lo = 1, .hi = 4096, .arg = "N", .help = "threads",
     .said = "default: all processors that it may use", OPTION_ALWAYS},
    {"--quiet", 'q', .type = OPTION_FLAG, .value = &quiet, .help = "no report on stderr", OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-dedup",
    .operands = "SAMPLES...",
    .about = "Find near duplicates among samples, also between training and held-out part, and drop them",
    .tables = tables,
    .options = options,
};

/* Training samples that are near held-out ones spoil every later measurement, so they are reported first. */
static void say_crossings(const struct dedup_report *p)
{
	char train[300], held[300];

	if (!p->crossings)
		return;
	cmd_warn("%lld of %lld training samples are near one of %lld held-out samples: metrics on the held-out part would count copies",
	         (long long)p->crossings, (long long)(p->samples - p->held), (long long)p->crossed);
	for (int64_t i = 0; i < p->crossings && i < SHOWN; i++) {
		const struct dedup_crossing *c = &p->crossing[i];

		clean_message(train, sizeof train, c->train);
		clean_message(held, sizeof held, c->held);
		if (c->distance >= 0)
			cmd_say("  %s ~ %s (%d bits)", train, held, c->distance);
		else
			cmd_say("  %s ~ %s (cosine %.4f)", train, held, c->cosine);
	}
	if (p->crossings > SHOWN)
		cmd_say("  and %lld more", (long long)p->crossings - SHOWN);
}

static void say_report(const struct dedup_report *p)
{
	cmd_say("%s: kept %lld of %lld samples; dropped %lld by hashes, %lld by features; %lld groups, the largest of %lld", program.name,
	        (long long)p->kept, (long long)p->samples, (long long)p->by_hash, (long long)p->by_cosine, (long long)p->groups,
	        (long long)p->largest);
	if (p->has_parts && !p->crossings)
		cmd_say("no training sample is near one of the %lld held-out samples", (long long)p->held);
	if (p->skipped)
		cmd_say("%lld samples skipped", (long long)p->skipped);
}

int main(int argc, char **argv)
{
	struct progress progress = cmd_progress();
	struct dedup_report report = {0};
	struct err e = {0};

	request = dedup_defaults();
	request.nsources = cmd_start(&program, argc, argv, 1, -1);
	request.sources = (const char *const *)(argv + 1);
	request.spool = getenv("TMPDIR");
	request.progress = &progress;
	request.bad = cmd_skipped;
	cmd_catch_signals();
	if (request.table || !cmd_binary(request.out, "-o FILE.tar or a pipe", &e))
		request.pool = pool_new((int)threads, &e);
	if (request.pool)
		dedup_make(&request, &report, &e);
	if (report.there && !quiet)
		cmd_say("%s: exists already", request.out);
	if (report.judged && !quiet) {
		say_crossings(&report);
		say_report(&report);
	}
	dedup_report_release(&report);
	pool_free(request.pool);
	return cmd_end_over(&e);
}
