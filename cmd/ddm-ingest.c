/* ddm-ingest: converts pictures, videos and filter graphs to a tar of samples. */
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/ingest_run.h"

static struct ingest_request request;

static const struct option_table tables[] = {{ingest_options, &request}, {0}};

static const struct program program = {
    .name = "ddm-ingest",
    .operands = "SOURCE...",
    .about = "Turn pictures, video and filter graphs into a tar of samples",
    .tables = tables,
};

/* Warn about options without effect. It depends on the sources, so the rules of use in the option table cannot check it. */
static void warn_idle(const struct job_list *l)
{
	int graphs = 0, videos = 0, frames;

	for (size_t i = 0; i < l->n; i++) {
		graphs |= l->v[i].graph != NULL;
		videos |= l->v[i].kind == MEDIA_VIDEO;
	}
	frames = graphs || videos;
	if (request.fps > 0 && !frames)
		cmd_warn("--fps does nothing: no source is a video or a graph");
	if (request.clips && !frames)
		cmd_warn("--clips does nothing: no source is a video or a graph");
	if (request.sound.rate && !videos)
		cmd_warn("--sound does nothing: no source is a video");
	if (l->pictures)
		cmd_warn("%zu pictures are passed over: --clips makes clips of videos and graphs", l->pictures);
	if (request.frames && !frames)
		cmd_warn("--frames does nothing: no source is a video or a graph");
	if (request.duplicates && !frames)
		cmd_warn("--duplicates does nothing: no source is a video or a graph");
	if (request.seeds > 1 && !graphs)
		cmd_warn("--seeds does nothing: no source is a graph");
}

/* What became of the shots of which clips were made. */
static void say_shots(struct str *line, const struct ingest_report *r)
{
	const struct clip_tally *t = &r->shots;

	str_printf(line, ", %lld cuts", (long long)t->cuts);
	if (t->rests)
		str_printf(line, ", %lld ends of shots with less than %lld frames left out (%lld frames)", (long long)t->rests,
		           (long long)request.clips, (long long)t->rest_frames);
	if (t->repeated)
		str_printf(line, ", %lld clips that begin with the same frame as another left out", (long long)t->repeated);
	if (t->silent)
		str_printf(line, ", %lld clips without sound", (long long)t->silent);
	if (r->without)
		str_printf(line, ", %lld sources without a clip", (long long)r->without);
}

static void say_summary(const struct ingest_report *r, const struct job_list *l)
{
	struct str line = {0};

	str_printf(&line, "%lld samples", (long long)r->samples);
	if (r->duplicates)
		str_printf(&line, ", %lld equal %s dropped", (long long)r->duplicates, request.clips ? "clips" : "frames");
	if (request.clips)
		say_shots(&line, r);
	if (r->identical)
		str_printf(&line, ", %lld pictures with the pixels of an earlier one %s (%s%s)", (long long)r->identical,
		           request.dedup ? "left out" : "kept", str_text(&r->identicals), r->identical > INGEST_NAMED ? ", ..." : "");
	if (r->skipped)
		str_printf(&line, ", %lld unreadable sources skipped", (long long)r->skipped);
	if (l->passed_over)
		str_printf(&line, ", %zu other files passed over", l->passed_over);
	cmd_say("%s: %s", program.name, str_text(&line));
	str_release(&line);
}

int main(int argc, char **argv)
{
	struct ingest_report report = {0};
	struct job_list jobs = {0};
	struct job_options jo;
	struct pool *pool;
	struct err e = {0};
	int n;

	request = ingest_defaults();
	n = cmd_start(&program, argc, argv, 1, -1);
	jo = (struct job_options){request.nul_list, request.skip_bad, request.seed, request.seeds, ingest_graph_frames(&request), request.clips > 0};
	if (!ingest_check(&request, &e))
		cmd_binary(request.out, "-o FILE.tar or a pipe", &e);
	cmd_catch_signals();
	pool = e.code ? NULL : pool_new((int)request.threads, &e);
	if (pool && !job_list_fill(&jobs, argv + 1, n, &jo, &e)) {
		warn_idle(&jobs);
		ingest_run(&request, &jobs, pool, &report, &e);
	}
	if (!e.code && (report.samples || request.share.count)) {
		if (jobs.hidden)
			cmd_warn("passed over: %s%s", str_text(&jobs.hidden_first), jobs.hidden > 3 ? " and more" : "");
		if (!request.quiet)
			say_summary(&report, &jobs);
		if (request.max_errors >= 0 && report.skipped > request.max_errors)
			err_set(&e, ERR_SKIPPED, "%lld sources were skipped, more than --max-errors %lld", (long long)report.skipped,
			        (long long)request.max_errors);
	}
	str_release(&report.identicals);
	job_list_release(&jobs);
	pool_free(pool);
	return cmd_end_over(&e);
}
