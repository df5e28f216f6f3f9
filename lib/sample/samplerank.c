/* Sampling by several ranks: what they agree on before the first order, and the loop of the ranks that take orders. Rank 0 alone claims, reads
 * prompts and tables, encodes texts and writes. Where the ranks share the experts (diffusion/rankorder.h), it also runs the router and decodes; where
 * they share the pictures, see spreadpictures.c. */
#include <string.h>

#include "config.h"
#include "core/mem.h"
#include "core/str.h"
#include "core/version.h"
#include "diffusion/rankorder.h"
#include "sample/sampling.h"

int sampling_takes_orders(const struct sampling *r)
{
	return comm_rank(r->ask.comm) > 0;
}

int sampling_spreads_pictures(const struct sampling *r)
{
	return r->ask.comm && r->ask.spread == SPREAD_PICTURES;
}

static int count_experts(const struct ensemble *s)
{
	int n = 0;

	for (int k = 0; k < s->k; k++)
		n += s->expert[k].velocity != NULL;
	return n;
}

/* Ranks that hold different experts: the two that share the branches of guidance hold the same. */
static int count_shares(const struct sampling *r)
{
	return comm_size(r->ask.comm) / (r->ask.spread == SPREAD_GUIDANCE ? 2 : 1);
}

static int check_deal(const struct sampling *r, struct err *e)
{
	int ranks = comm_size(r->ask.comm), experts = count_experts(&r->ensemble);

	if (r->ask.spread == SPREAD_GUIDANCE && r->ask.cfg == 1)
		return err_set(e, ERR_USAGE, "--spread guidance has no effect with a scale of 1: give --cfg S");
	if (r->ask.spread == SPREAD_GUIDANCE && ranks % 2)
		return err_set(e, ERR_USAGE, "%d ranks: --spread guidance needs an even number, two for each share of the experts", ranks);
	if (count_shares(r) > experts)
		return err_set(e, ERR_USAGE, "%d ranks, but the route uses %d of the experts of %s: each %s needs one", ranks, experts, r->ask.model,
		               r->ask.spread == SPREAD_GUIDANCE ? "pair of ranks" : "rank");
	return 0;
}

int ranks_deal(struct sampling *r, struct err *e)
{
	struct ensemble *s = &r->ensemble, *g = &r->guide.model;
	int rank = comm_rank(r->ask.comm), split = r->ask.spread == SPREAD_GUIDANCE, share = split ? rank / 2 : rank;

	if (!r->ask.comm || sampling_spreads_pictures(r))
		return 0;
	if (check_deal(r, e))
		return -1;
	r->mixture.comm = r->ask.comm;
	r->mixture.branches = split;
	ensemble_spread(s, s->expert, s->k, split && r->ask.guide && rank % 2 ? -1 : share, count_shares(r));
	if (r->ask.guide && split && rank % 2 == 0)
		ensemble_spread(g, s->expert, s->k, -1, count_shares(r));
	else if (r->ask.guide && !r->guide.single)
		ensemble_spread(g, s->expert, s->k, share, count_shares(r));
	return 0;
}

int ranks_agree_request(struct sampling *r, int rc, struct err *e)
{
	struct stamp *s;
	char *line;

	if (!r->ask.comm)
		return rc;
	if (comm_agree(r->ask.comm, rc, e))
		return -1;
	s = stamp_new("ddm-sample");
	sampleoptions_stamp(s, &r->ask);
	stamp_text(s, "spread", sample_spreads[r->ask.spread]);
	stamp_i64(s, "batch", r->ask.batch);
	if (sampling_spreads_pictures(r)) {
		stamp_text(s, "log", r->logs ? "yes" : "no");
		sampleoptions_stamp_output(s, &r->ask);
		if (*r->vae_hash)
			stamp_input(s, "vae", r->vae_hash);
		if (r->ask.centroids)
			stamp_input(s, "centroids", r->distance.hash);
	}
	stamp_input(s, "model", r->ensemble.hash);
	if (r->ask.guide)
		stamp_input(s, "guide", r->guide.model.hash);
	line = stamp_line(s);
	rc = comm_agree_stamp(r->ask.comm, DDM_VERSION "\n" DDM_BUILD, line, stamp_line_differs, e);
	mem_free(line);
	stamp_free(s);
	return rc;
}

void ranks_note_bytes(struct sampling *r)
{
	for (int i = 0; i < r->networks; i++) {
		int of = r->ensemble.members;
		int64_t now = i < of ? ensemble_member_bytes(&r->ensemble, i) : ensemble_member_bytes(&r->guide.model, i - of);

		r->bytes[i] = now > r->bytes[i] ? now : r->bytes[i];
	}
}

static int answer_weigh(struct sampling *r, struct err *e)
{
	ranks_note_bytes(r);
	return answer_send(r->ask.comm, 0, NULL, r->bytes, (size_t)r->networks * sizeof *r->bytes, e);
}

int ranks_count_bytes(struct sampling *r, struct err *e)
{
	struct str body = {0};
	int rc;

	ranks_note_bytes(r);
	if (r->farm) /* the answers have told */
		return 0;
	rc = order_send_all(r->ask.comm, ORDER_WEIGH, NULL, 0, e);
	for (int from = 1; from < comm_size(r->ask.comm) && !rc; from++) {
		if ((rc = answer_receive(r->ask.comm, from, &body, e)))
			break;
		for (int i = 0; i < r->networks; i++) {
			int64_t there;

			memcpy(&there, body.p + (size_t)i * sizeof there, sizeof there);
			r->bytes[i] = there > r->bytes[i] ? there : r->bytes[i];
		}
	}
	str_release(&body);
	return rc;
}

int ranks_rest(const struct sampling *r, struct err *e)
{
	return order_send_all(r->ask.comm, ORDER_REST, NULL, 0, e);
}

int ranks_serve(struct sampling *r, struct err *e)
{
	struct order o = {.kind = ORDER_REST};
	struct str body = {0};
	int rc;

	if (r->farm)
		return farm_serve(r->farm, e);
	do {
		comm_be_patient(r->ask.comm, o.kind == ORDER_REST || o.kind == ORDER_WEIGH);
		rc = order_receive(r->ask.comm, 0, &o, &body, e);
		comm_be_patient(r->ask.comm, 0);
		if (!rc && (o.kind == ORDER_TEXTS || o.kind == ORDER_EVALUATE))
			rc = sampler_answer(r->state, &o, &body, e);
		else if (!rc && o.kind == ORDER_WEIGH)
			rc = answer_weigh(r, e);
	} while (!rc && o.kind != ORDER_STOP);
	str_release(&body);
	return rc;
}

void ranks_dismiss(const struct sampling *r)
{
	if (r->farm)
		farm_stop(r->farm);
	else if (r->ask.comm && !sampling_takes_orders(r) && !comm_is_lost(r->ask.comm) && !comm_has_failed_together(r->ask.comm))
		order_send_all(r->ask.comm, ORDER_STOP, NULL, 0, NULL);
}

void ranks_advise(const struct sampling *r, struct err *e)
{
	const struct err had = *e;

	if (had.code != ERR_NOMEM || !sampling_spreads_pictures(r) || count_experts(&r->ensemble) < 2)
		return;
	*e = (struct err){0};
	err_set(e, ERR_NOMEM, "%.880s; each rank holds the whole model: with --spread experts it holds some of the experts", had.msg);
}
