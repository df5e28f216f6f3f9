/* Finds the option meant by a name that no table has: an old name, the name in another program, a misspelt one. */
#include <string.h>

#include "core/wordsuggest.h"
#include "core/mem.h"
#include "core/option.h"

/* Names in diffusers, torch and other programs, each with ours. An entry counts if the program has the option called by our name. */
static const char *const called[][2] = {
    {"--learning-rate", "--lr"},
    {"--batch-size", "--batch"},
    {"--train-batch-size", "--batch"},
    {"--gradient-accumulation-steps", "--accumulate"},
    {"--grad-accum", "--accumulate"},
    {"--max-train-steps", "--steps"},
    {"--max-steps", "--steps"},
    {"--iterations", "--steps"},
    {"--num-inference-steps", "--steps"},
    {"--num-train-epochs", "--epochs"},
    {"--num-epochs", "--epochs"},
    {"--lr-scheduler", "--schedule"},
    {"--lr-warmup-steps", "--warmup"},
    {"--warmup-steps", "--warmup"},
    {"--adam-beta2", "--beta2"},
    {"--adam-weight-decay", "--weight-decay"},
    {"--max-grad-norm", "--clip"},
    {"--grad-clip", "--clip"},
    {"--ema-decay", "--ema-half-life"},
    {"--ema", "--ema-half-life"},
    {"--mixed-precision", "--precision"},
    {"--dtype", "--precision"},
    {"--amp", "--precision"},
    {"--gradient-checkpointing", "--recompute"},
    {"--prediction-type", "--predict"},
    {"--parameterization", "--predict"},
    {"--class-dropout-prob", "--class-dropout"},
    {"--cond-dropout", "--class-dropout"},
    {"--gray", "--grey"},
    {"--grayscale", "--grey"},
    {"--resolution", "--size"},
    {"--image-size", "--size"},
    {"--img-size", "--size"},
    {"--guidance-scale", "--cfg"},
    {"--cfg-scale", "--cfg"},
    {"--guidance", "--cfg"},
    {"--sampler", "--solver"},
    {"--scheduler", "--solver"},
    {"--num-images", "--count"},
    {"--num-samples", "--count"},
    {"--number", "--count"},
    {"--n-samples", "--count"},
    {"--class-label", "--class"},
    {"--label", "--class"},
    {"--labels", "--classes"},
    {"--num-workers", "--threads"},
    {"--workers", "--threads"},
    {"--jobs", "--threads"},
    {"--gpu", "--device"},
    {"--checkpointing-steps", "--checkpoint-every"},
    {"--save-every", "--checkpoint-every"},
    {"--validation-steps", "--validate-every"},
    {"--eval-every", "--validate-every"},
    {"--dry-run", "--plan"},
    {"--silent", "--quiet"},
    {"--output-dir", "--output"},
    {"--outdir", "--output"},
    {"--out", "--output"},
    {"--save", "--output"},
    {"--k", "--clusters"},
    {"--ncols", "--columns"},
    {"--nrow", "--columns"},
};

/* Whether a blank-separated list holds the word of n characters. */
static int list_holds(const char *list, const char *word, size_t n)
{
	for (; list && *(list += strspn(list, " ")); list += strcspn(list, " "))
		if (strcspn(list, " ") == n && !strncmp(list, word, n))
			return 1;
	return 0;
}

const struct option *option_renamed(const struct program *p, const char *name, size_t n)
{
	struct option_row rows[OPTION_MOST];
	int count = option_rows(p, rows);

	for (int i = 0; i < count; i++)
		if (list_holds(rows[i].o->was, name, n))
			return rows[i].o;
	return NULL;
}

/* Whether the names share a dash-separated word of more than two letters. */
static int share_word(const char *a, const char *b)
{
	while (*(a += strspn(a, "-"))) {
		size_t n = strcspn(a, "-");

		for (const char *c = b; n > 2 && *(c += strspn(c, "-")); c += strcspn(c, "-"))
			if (strcspn(c, "-") == n && !strncmp(a, c, n))
				return 1;
		a += n;
	}
	return 0;
}

const char *option_suggest(const struct program *p, const char *name, size_t n)
{
	struct option_row rows[OPTION_MOST];
	const char *words[OPTION_MOST + 1] = {0}, *hint = NULL, *shared = NULL;
	char *text = str_new("%.*s", (int)n, name);
	int count = 0, sharing = 0, all = option_rows(p, rows);

	for (int i = 0; i < all; i++)
		if (rows[i].o->name && rows[i].o != &option_builtin[0] && rows[i].o != &option_builtin[1])
			words[count++] = rows[i].o->name;
	for (size_t i = 0; i < sizeof called / sizeof *called && !hint; i++)
		for (int w = 0; w < count && !strcmp(called[i][0], text); w++)
			if (!strcmp(words[w], called[i][1]))
				hint = words[w];
	if (!hint)
		hint = word_nearest(text, words);
	for (int w = 0; w < count && !hint; w++)
		if (share_word(text, words[w])) {
			shared = words[w];
			sharing++;
		}
	mem_free(text);
	return hint ? hint : sharing == 1 ? shared : NULL;
}
