/* Sends and receives orders and answers between ranks. */
#include "comm/message.h"

#include "core/mem.h"

int order_send(struct comm *c, int rank, int kind, const void *body, size_t bytes, struct err *e)
{
	struct order o = {kind, (int64_t)bytes};

	return comm_send(c, rank, &o, sizeof o, e) || (bytes && comm_send(c, rank, body, bytes, e)) ? -1 : 0;
}

int order_send_all(struct comm *c, int kind, const void *body, size_t bytes, struct err *e)
{
	for (int r = 1; r < comm_size(c); r++)
		if (order_send(c, r, kind, body, bytes, e))
			return -1;
	return 0;
}

/* Make room for `bytes` in *s, and receive them. */
static int receive_body(struct comm *c, int rank, struct str *s, int64_t bytes, struct err *e)
{
	if (s->cap < (size_t)bytes + 1) {
		str_release(s);
		if (!(s->p = mem_try((size_t)bytes + 1, 1, "data of another rank", e)))
			return -1;
		s->cap = (size_t)bytes + 1;
	}
	s->len = (size_t)bytes;
	return bytes ? comm_receive(c, rank, s->p, (size_t)bytes, e) : 0;
}

int order_receive(struct comm *c, int from, struct order *o, struct str *body, struct err *e)
{
	return comm_receive(c, from, o, sizeof *o, e) ? -1 : receive_body(c, from, body, o->bytes, e);
}

int answer_send(struct comm *c, int rc, const struct err *failed, const void *body, size_t bytes, struct err *e)
{
	struct order head = {rc ? failed->code : 0, (int64_t)(rc ? sizeof *failed : bytes)};

	return comm_send(c, 0, &head, sizeof head, e) || (head.bytes && comm_send(c, 0, rc ? failed : body, (size_t)head.bytes, e)) ? -1 : 0;
}

int answer_receive(struct comm *c, int rank, struct str *body, struct err *e)
{
	struct order head;
	const struct err *failed;

	if (comm_receive(c, rank, &head, sizeof head, e) || receive_body(c, rank, body, head.bytes, e))
		return -1;
	if (!head.kind)
		return 0;
	failed = (const void *)body->p;
	return err_set(e, failed->code, "rank %d: %.900s", rank, failed->msg);
}
