/* Sampling by several ranks that each hold the whole model: a piece of the work (comm/farm.h) is a batch of pictures. Rank 0 chooses them, encodes
 * their prompts and sends what the pictures depend on. A rank draws and encodes them, and answers with the bytes of their files. Rank 0 alone reads
 * prompts and tables, claims and writes. */
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "sample/sampling.h"

/* An order begins with this. Then come, each for all rows: noise numbers, seeds, images of each seed; chosen experts, rows of texts, those of
 * negative texts, labels, rows of first frames; and the features, masks and pooled vectors of the texts, and the first frames; then the name, the
 * stamp and the prompt of each picture, each with a NUL. */
struct piece {
	int64_t at, rows, texts, firsts;
	int32_t labels, masks, pooled; /* whether they are there */
	int32_t files, pixels, spare;  /* whether the answer has the bytes of files, and those of pictures */
};

/* An answer has the bytes of weights in use, the counts, the weights for the log and the heaviest experts; then for each picture this and its
 * bytes. */
struct made_head {
	int64_t pixels, file; /* bytes */
	int32_t width, height, channels, spare;
};

/* ---- rank 0: orders ---- */

/* Pictures in a piece, of those that are left. Where the batch changes no result, all ranks get pieces of about one size. */
static int64_t piece_rows(const struct sampling *r)
{
	int64_t left = r->count - r->kept, batch = r->ask.batch, ranks = comm_size(r->ask.comm),
		rounds = (left + ranks * batch - 1) / (ranks * batch);

	return r->device->host || r->ask.invariant ? (left + ranks * rounds - 1) / (ranks * rounds) : batch;
}

static void add_text(struct str *s, const char *text)
{
	str_add(s, text, strlen(text) + 1);
}

/* A prompt that is not there is told from an empty one by its first byte. */
static void add_items(struct sampling *r, int64_t n, struct str *order)
{
	batch_items(r, n);
	for (int64_t i = 0; i < n; i++) {
		add_text(order, r->item[i].name);
		add_text(order, r->item[i].stamp);
		str_puts(order, r->item[i].prompt ? "p" : "-");
		add_text(order, r->item[i].prompt ? r->item[i].prompt : "");
	}
	batch_items_free(r, n);
}

static int next_piece(void *arg, struct str *order, struct err *e)
{
	struct sampling *r = arg;
	const struct ensemble *s = &r->ensemble;
	struct piece p = {.at = r->next, .rows = r->count - r->next, .labels = r->label != NULL, .files = output_makes_files(&r->out)};
	struct texts texts;
	size_t n, tokens;

	if (!p.rows)
		return 0;
	p.rows = p.rows < piece_rows(r) ? p.rows : piece_rows(r);
	n = (size_t)p.rows;
	batch_choose(r, p.at, p.rows);
	if (batch_texts(r, p.rows, &texts, e))
		return -1;
	r->next += p.rows;
	p.texts = texts.rows;
	p.masks = texts.mask != NULL;
	p.pooled = texts.pooled != NULL;
	p.firsts = texts.firsts;
	p.pixels = r->sink == SINK_NPZ || batch_shows(r, 0); /* the sheet shows the first pictures */
	tokens = (size_t)(texts.rows * s->text_tokens);
	str_add(order, &p, sizeof p);
	str_add(order, r->draw, n * sizeof *r->draw);
	str_add(order, r->seeds, n * sizeof *r->seeds);
	str_add(order, r->of, n * sizeof *r->of);
	str_add(order, r->chosen, n * sizeof *r->chosen);
	str_add(order, r->wanted, n * sizeof *r->wanted);
	str_add(order, r->negative, n * sizeof *r->negative);
	if (p.labels)
		str_add(order, r->label, n * sizeof *r->label);
	if (p.firsts)
		str_add(order, r->framed, n * sizeof *r->framed);
	if (p.texts)
		str_add(order, texts.features, tokens * (size_t)s->text_width * sizeof *texts.features);
	if (p.masks)
		str_add(order, texts.mask, tokens * sizeof *texts.mask);
	if (p.pooled)
		str_add(order, texts.pooled, (size_t)(texts.rows * s->pooled_width) * sizeof *texts.pooled);
	if (p.firsts)
		str_add(order, texts.first, (size_t)(texts.firsts * s->first_frame) * sizeof *texts.first);
	add_items(r, p.rows, order);
	return 1;
}

/* ---- any rank: a piece ---- */

/* The next `bytes` of a message. Arrays of 8-byte numbers come before those of 4 bytes. */
static const void *next_bytes(const char **at, size_t bytes)
{
	const char *here = *at;

	*at += bytes;
	return here;
}

static const char *next_text(const char **at)
{
	return next_bytes(at, strlen(*at) + 1);
}

static struct sampler_call read_call(const struct sampling *r, const struct piece *p, const char **at)
{
	const struct ensemble *s = &r->ensemble;
	size_t n = (size_t)p->rows, tokens = (size_t)(p->texts * s->text_tokens) * sizeof(float);
	struct sampler_call c = {.n = p->rows};

	c.index = next_bytes(at, n * sizeof *c.index);
	c.seed = next_bytes(at, n * sizeof *c.seed);
	c.of = next_bytes(at, n * sizeof *c.of);
	c.chosen = next_bytes(at, n * sizeof *c.chosen);
	c.text = next_bytes(at, n * sizeof *c.text);
	c.negative = next_bytes(at, n * sizeof *c.negative);
	c.label = p->labels ? next_bytes(at, n * sizeof *c.label) : NULL;
	c.first = p->firsts ? next_bytes(at, n * sizeof *c.first) : NULL;
	c.texts.rows = p->texts;
	c.texts.firsts = p->firsts;
	c.texts.features = p->texts ? next_bytes(at, tokens * (size_t)s->text_width) : NULL;
	c.texts.mask = p->masks ? next_bytes(at, tokens) : NULL;
	c.texts.pooled = p->pooled ? next_bytes(at, (size_t)(p->texts * s->pooled_width) * sizeof(float)) : NULL;
	c.texts.first = p->firsts ? next_bytes(at, (size_t)(p->firsts * s->first_frame) * sizeof(float)) : NULL;
	return c;
}

static void read_items(int64_t n, const char **at, struct output_item *item)
{
	for (int64_t i = 0; i < n; i++) {
		const char *prompt;

		item[i].name = next_text(at);
		item[i].stamp = next_text(at);
		prompt = next_text(at);
		item[i].prompt = *prompt == 'p' ? prompt + 1 : NULL;
	}
}

/* Packs pictures into an answer. */
struct packing {
	struct sampling *r;
	struct str *result;
	int pixels;
};

static int pack_made(void *arg, int64_t i, const struct output_made *m, struct err *e)
{
	struct packing *k = arg;
	const struct picture *p = &m->picture;
	struct made_head head = {
	    k->pixels && p->pixels ? (int64_t)p->width * p->height * p->channels : 0, (int64_t)m->len, p->width, p->height, p->channels, 0};

	(void)i;
	str_add(k->result, &head, sizeof head);
	str_add(k->result, p->pixels, (size_t)head.pixels);
	str_add(k->result, m->data, m->len);
	return farm_attend(k->r->farm) ? err_set(e, ERR_AGAIN, "interrupted") : 0;
}

static int draw_piece(void *arg, const struct str *order, struct str *result, struct err *e)
{
	struct sampling *r = arg;
	const char *at = order->p;
	const struct piece *p = next_bytes(&at, sizeof *p);
	struct sampler_call c = read_call(r, p, &at);
	struct output_item *item = mem_zalloc((size_t)p->rows, sizeof *item);
	struct packing k = {r, result, p->pixels};
	int32_t *heaviest = mem_zalloc((size_t)p->rows, sizeof *heaviest);
	int rc;

	read_items(p->rows, &at, item);
	r->rows = p->rows;
	mixture_stats_reset(&r->piece);
	rc = sampler_run(r->state, r->x, &c, heaviest, &r->piece, e);
	if (!rc) {
		ranks_note_bytes(r);
		str_add(result, r->bytes, (size_t)r->networks * sizeof *r->bytes);
		mixture_stats_pack(&r->piece, result);
		if (r->logs)
			str_add(result, r->weights, (size_t)(p->rows * r->ask.steps * r->ensemble.k) * sizeof *r->weights);
		str_add(result, heaviest, (size_t)p->rows * sizeof *heaviest);
		rc = output_make(&r->out, p->rows, r->x, item, p->files, pack_made, &k, e);
	}
	r->rows = 0;
	mem_free(heaviest);
	mem_free(item);
	return rc;
}

/* ---- rank 0: answers ---- */

static void take_bytes(struct sampling *r, const int64_t *there)
{
	for (int i = 0; i < r->networks; i++)
		r->bytes[i] = there[i] > r->bytes[i] ? there[i] : r->bytes[i];
}

static int put_answer(struct sampling *r, int64_t n, const char *at, struct err *e)
{
	for (int64_t i = 0; i < n; i++) {
		struct made_head head;
		struct output_made m = {0};

		memcpy(&head, next_bytes(&at, sizeof head), sizeof head);
		m.picture = (struct picture){head.width, head.height, head.channels, NULL};
		if (head.pixels)
			m.picture.pixels = (uint8_t *)(uintptr_t)next_bytes(&at, (size_t)head.pixels);
		m.len = (size_t)head.file;
		m.data = (uint8_t *)(uintptr_t)next_bytes(&at, m.len);
		if (batch_put(r, i, &m, e))
			return -1;
	}
	return 0;
}

static int take_piece(void *arg, const struct str *order, const struct str *result, struct err *e)
{
	struct sampling *r = arg;
	const char *at = result->p;
	struct piece p;
	size_t weights;
	int rc;

	memcpy(&p, order->p, sizeof p);
	weights = (size_t)(p.rows * r->ask.steps * r->ensemble.k) * sizeof *r->weights;
	batch_choose(r, p.at, p.rows);
	take_bytes(r, next_bytes(&at, (size_t)r->networks * sizeof *r->bytes));
	at = (const void *)mixture_stats_add(&r->stats, (const void *)at);
	if (r->logs)
		memcpy(r->weights, next_bytes(&at, weights), weights);
	memcpy(r->heaviest, next_bytes(&at, (size_t)p.rows * sizeof *r->heaviest), (size_t)p.rows * sizeof *r->heaviest);
	batch_items(r, p.rows);
	rc = put_answer(r, p.rows, at, e);
	rc = rc || batch_end(r, p.rows, e) ? -1 : 0;
	batch_items_free(r, p.rows);
	return rc;
}

static int wait_for_pieces(void *arg, struct err *e)
{
	struct sampling *r = arg;

	return progress_tell(&r->hooks.progress, "pictures", r->done, r->count) ? err_set(e, ERR_AGAIN, "interrupted") : 0;
}

void spread_open(struct sampling *r)
{
	r->work = (struct farm_work){
	    .next = next_piece, .compute = draw_piece, .take = take_piece, .wait = wait_for_pieces, .arg = r, .keep = sizeof(struct piece)};
	r->farm = farm_new(r->ask.comm, &r->work);
	mixture_stats_init(&r->piece, r->ensemble.k, r->ask.steps);
}

int spread_draw(struct sampling *r, struct err *e)
{
	int64_t pieces = (r->count - r->kept + piece_rows(r) - 1) / piece_rows(r);

	r->next = r->done = r->kept;
	if (pieces < comm_size(r->ask.comm))
		sampling_say(r, "%d ranks share %lld batches: some ranks have nothing to draw", comm_size(r->ask.comm), (long long)pieces);
	if (farm_run(r->farm, e))
		return -1;
	progress_tell(&r->hooks.progress, "pictures", r->count, r->count);
	return 0;
}
