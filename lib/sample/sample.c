/* Carries out a request: opens the model and the outputs, draws, writes reports. */
#include "sample/sampling.h"

#include "core/mem.h"
#include "core/version.h"
#include "file/claim.h"
#include "file/standing.h"

static int load_prompts(struct sampling *r, struct err *e)
{
	if (r->ask.prompt)
		prompts_add(&r->prompts, r->ask.prompt);
	return r->ask.prompts ? prompts_load(&r->prompts, r->ask.prompts, e) : 0;
}

struct sampling *sampling_new(const struct sample_request *q, const struct sample_hooks *hooks, struct err *e)
{
	struct sampling *r = mem_zalloc(1, sizeof *r);

	r->ask = *q;
	r->hooks = hooks ? *hooks : (struct sample_hooks){0};
	if (!request_settle(r, e) && !(r->ask.labels && reference_load(&r->labels, r->ask.labels, e)) && !load_prompts(r, e))
		return r;
	sampling_free(r);
	return NULL;
}

/* Also checks that outputs can be written before any work is done. */
static int open_outputs(struct sampling *r, struct err *e)
{
	struct stamp *stamp = samplestamp_all(r);
	char *line = stamp_line(stamp), *same = resume_key(r, line);
	int on = -1, rc = -1;

	if (!(r->ask.grid && standing_check(r->ask.grid, stamp, 0, e)))
		on = output_start(&r->out, r->sink, r->ask.out, line, same, r->count, e);
	if (on >= 0 && !resume_start(r, on, line, e) && !(r->sink == SINK_NPZ && stamp_sidecar(stamp, r->ask.out, e)))
		rc = r->ask.log ? outfile_open(&r->log, r->ask.log, e) : 0;
	mem_free(line);
	mem_free(same);
	stamp_free(stamp);
	return rc;
}

static int write_sheet(struct sampling *r, struct err *e)
{
	struct stamp *stamp = samplestamp_all(r);
	char *line = stamp_line(stamp);
	struct still_text text[] = {{"Software", "ddm-sample " DDM_VERSION}, {"ddm", line}};
	uint8_t *data = NULL;
	size_t len;
	int rc = still_encode_png(&r->sheet, text, 2, &data, &len, e);

	if (!rc)
		rc = commit_bytes(r->ask.grid, data, len, e);
	mem_free(data);
	mem_free(line);
	stamp_free(stamp);
	return rc;
}

static int open_decoder(struct sampling *r, struct err *e)
{
	enum compact_type bulk = compact_mapped((enum compact_type)r->ask.encoder_dtype, r->ask.map);

	if (*r->vae_hash && output_vae(&r->out, r->vae, bulk, r->device, r->ask.batch, e))
		return -1;
	return r->ask.centroids ? distance_ready(&r->distance, r->out.vae, r->vae, bulk, &r->mixture.distances_flops, e) : 0;
}

/* Frees the text encoder before the autoencoder or any expert's weights are loaded, so they are not in memory together. */
static int encode_texts(struct sampling *r, struct err *e)
{
	int64_t cut;

	if (r->text && textsource_encode(r->text, &cut, e))
		return -1;
	if (r->text && cut)
		sampling_warn(r, "%lld prompts are longer than the experts can read and were cut", (long long)cut);
	return open_decoder(r, e);
}

static void set_device(struct sampling *r, struct device *d)
{
	r->device = d;
	r->ask.invariant &= !d->host; /* on the CPU it changes nothing */
	device_set_invariant(d, r->ask.invariant);
	if (r->ask.dtype < 0)
		r->ask.dtype = device_precision(d) == PRECISION_BF16 ? SAMPLE_BF16 : SAMPLE_F32;
}

/* Make sure that the ranks are alike, once the model is open, with its result rc. */
static int join(struct sampling *r, int rc, struct err *e)
{
	if (ranks_agree_request(r, rc, e))
		return -1;
	if (sampling_spreads_pictures(r))
		spread_open(r);
	return 0;
}

/* Another rank than the first. */
static int work_for_first(struct sampling *r, struct err *e)
{
	int rc = sampling_open_model(r, e);

	if (!rc) {
		sampling_rows(r);
		rc = (sampling_spreads_pictures(r) && open_decoder(r, e)) || sampling_prepare(r, e) ? -1 : 0;
	}
	return join(r, rc, e) || ranks_serve(r, e) ? -1 : 0;
}

/* Commits the samples last: if they exist, all other outputs do. */
static int work(struct sampling *r, struct err *e)
{
	int done;

	if (join(r, sampling_open_model(r, e), e))
		return -1;
	sampling_rows(r);
	if ((done = sampling_finished(r, e)) < 0)
		return -1;
	if (done) {
		sampling_say(r, "%s: complete, nothing to do", r->ask.out ? r->ask.out : r->ask.grid);
		return 0;
	}
	if (encode_texts(r, e) || sampling_prepare(r, e) || open_outputs(r, e))
		return -1;
	if (r->hooks.profile)
		r->profile = profile_new(r->device);
	r->started = clock_seconds();
	if ((r->farm ? spread_draw(r, e) : sampling_draw(r, e)) || samplereport_write(r, r->before + clock_seconds() - r->started, e))
		return -1;
	if (r->profile)
		profile_table(r->profile, r->hooks.profile, r->hooks.arg);
	if ((r->sheet_n && write_sheet(r, e)) || (r->ask.log && outfile_commit(&r->log, e)))
		return -1;
	return output_finish(&r->out, e);
}

int sampling_run(struct sampling *r, struct device *device, struct err *e)
{
	int rc;

	set_device(r, device);
	rc = sampling_takes_orders(r) ? work_for_first(r, e) : work(r, e);
	ranks_dismiss(r);
	if (rc)
		ensemble_blame(&r->ensemble, r->ask.model, e);
	if (rc && r->ask.guide)
		ensemble_blame(&r->guide.model, r->ask.guide, e);
	ranks_advise(r, e);
	output_release(&r->out, resume_keep(r, e));
	outfile_abort(&r->log);
	return rc;
}

void sampling_free(struct sampling *r)
{
	if (!r)
		return;
	if (!sampling_takes_orders(r))
		claim_drop((const char *const[]){r->ask.out, r->ask.grid, r->ask.report, r->ask.log, r->ask.timing}, 5);
	textsource_free(r->text);
	prompts_release(&r->prompts);
	firstframes_release(&r->firsts);
	mem_free(r->encoder);
	mem_free(r->vae);
	mem_free(r->classes);
	mem_free(r->class_text);
	mem_free(r->route);
	picture_release(&r->sheet);
	profile_free(r->profile);
	sampler_free(r->state);
	mixture_stats_release(&r->stats);
	mixture_stats_release(&r->piece);
	farm_free(r->farm);
	puller_free(r->puller);
	ensemble_guide_release(&r->guide);
	ensemble_release(&r->ensemble);
	reference_release(&r->labels);
	distance_release(&r->distance);
	mem_free(r->assigned);
	mem_free(r->bytes);
	mem_free(r->grid);
	mem_free(r->x);
	mem_free(r->index);
	mem_free(r->label);
	mem_free(r->chosen);
	mem_free(r->heaviest);
	mem_free(r->weights);
	mem_free(r->item);
	mem_free(r->prompt);
	mem_free(r->draw);
	mem_free(r->of);
	mem_free(r->seeds);
	mem_free(r->wanted);
	mem_free(r->negative);
	mem_free(r->framed);
	mem_free(r);
}
