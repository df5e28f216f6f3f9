/* A tokenizer's file by its first byte: m a SentencePiece model, j tokenizer.json, b a list of merges; t: a text for a good one of each. A
 * tokenizer that is read is also used. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "core/mem.h"
#include "text/bpe.h"
#include "text/unigram.h"
#include "file/fileio.h"
#include "tests/fuzz/replay.h"

static const char sample[] = "the \xef\xbc\xa1 quick brown fox's 12 \xe2\x96\x81low <|endoftext|> </s> e\xcc\x81 \xff\xf0\x9f\x98\x80";

static void use_bpe(struct bpe *b, const char *text, size_t len)
{
	int32_t *ids;

	if (!b)
		return;
	bpe_encode(b, text, len, &ids);
	mem_free(ids);
	bpe_free(b);
}

static void use_unigram(struct unigram *u, const char *text, size_t len)
{
	int32_t *ids;

	if (!u)
		return;
	unigram_encode(u, text, len, &ids);
	mem_free(ids);
	unigram_free(u);
}

static void as_json(const char *data, size_t len, struct err *e)
{
	json_t *o = json_loadb(data, len, 0, NULL);
	struct err other = {0};

	if (!o)
		return;
	use_unigram(unigram_from_json(o, "fuzz", e), sample, sizeof sample - 1);
	use_bpe(bpe_from_json(o, "fuzz", &other), sample, sizeof sample - 1);
	json_decref(o);
}

static void as_text(const char *text, size_t len)
{
	static const char merges[] = "#version\nt h\nth e</w>\n";
	size_t n;
	void *model = file_load("tests/golden/tokenizers/plain.model", 1 << 20, &n, NULL);

	use_bpe(bpe_new(merges, sizeof merges - 1, NULL, "fuzz", NULL), text, len);
	if (model)
		use_unigram(unigram_from_model(model, n, "fuzz", NULL), text, len);
	mem_free(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const char *rest = (const char *)data + 1;
	struct err e = {0};

	if (!len)
		return 0;
	switch (data[0]) {
	case 'm':
		use_unigram(unigram_from_model(rest, len - 1, "fuzz", &e), sample, sizeof sample - 1);
		break;
	case 'j':
		as_json(rest, len - 1, &e);
		break;
	case 'b':
		use_bpe(bpe_new(rest, len - 1, NULL, "fuzz", &e), sample, sizeof sample - 1);
		break;
	default:
		as_text(rest, len - 1);
	}
	if (e.code && e.code != ERR_DATA)
		abort();
	return 0;
}

REPLAY_MAIN("tests/fuzz/corpus/tokenizer")
