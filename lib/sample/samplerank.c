/* Sampling by several ranks (diffusion/rankorder.h): what they agree on before the first order, and the loop of the ranks that take orders. Rank 0
 * alone claims, reads prompts, runs the router and the encoders, decodes and writes. */
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

static int count_experts(const struct ensemble *s)
{
	int n = 0;

	for (int k = 0; k < s->k; k++)
		n += s->expert[k].velocity != NULL;
	return n;
}

int ranks_deal(struct sampling *r, struct err *e)
{
	struct ensemble *s = &r->ensemble, *g = &r->guide.model;
	int rank = comm_rank(r->ask.comm), ranks = comm_size(r->ask.comm), experts = count_experts(s);

	if (!r->ask.comm)
		return 0;
	if (ranks > experts)
		return err_set(e, ERR_USAGE, "%d ranks, but the route uses %d of the experts of %s: each rank needs one", ranks, experts,
		               r->ask.model);
	r->mixture.comm = r->ask.comm;
	ensemble_spread(s, s->expert, s->k, rank, ranks);
	if (r->ask.guide && !r->guide.single)
		ensemble_spread(g, s->expert, s->k, rank, ranks);
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
	stamp_i64(s, "batch", r->ask.batch);
	stamp_input(s, "model", r->ensemble.hash);
	if (r->ask.guide)
		stamp_input(s, "guide", r->guide.model.hash);
	line = stamp_line(s);
	rc = comm_agree_stamp(r->ask.comm, DDM_VERSION "\n" DDM_BUILD, line, stamp_line_differs, e);
	mem_free(line);
	stamp_free(s);
	return rc;
}

static void count_bytes(struct sampling *r)
{
	for (int i = 0; i < r->networks; i++) {
		int of = r->ensemble.members;
		int64_t now = i < of ? ensemble_member_bytes(&r->ensemble, i) : ensemble_member_bytes(&r->guide.model, i - of);

		r->bytes[i] = now > r->bytes[i] ? now : r->bytes[i];
	}
}

static int answer_weigh(struct sampling *r, struct err *e)
{
	count_bytes(r);
	return answer_send(r->ask.comm, 0, NULL, r->bytes, (size_t)r->networks * sizeof *r->bytes, e);
}

int ranks_count_bytes(struct sampling *r, struct err *e)
{
	struct str body = {0};
	int rc = order_send_all(r->ask.comm, ORDER_WEIGH, NULL, 0, e);

	count_bytes(r);
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
	if (r->ask.comm && !sampling_takes_orders(r) && !comm_is_lost(r->ask.comm) && !comm_has_failed_together(r->ask.comm))
		order_send_all(r->ask.comm, ORDER_STOP, NULL, 0, NULL);
}
