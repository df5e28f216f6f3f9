/* Names of options: those of the version before, those that other programs use, and the one that was probably meant. */
#include "cmd/optnames.h"

#include <string.h>

#include "core/mem.h"
#include "core/meant.h"
#include "core/str.h"

enum { MOST_OPTIONS = 128 };

/* Of the version before this one. */
static const struct opt_alias renamed[] = {
    {"ddm-train", "--from", "--pretrained"},
    {"ddm-train", "--init-from", "--init-weights"},
    {"ddm-route-train", "--init-from", "--init-weights"},
    {"ddm-train", "--predict=v", "--predict=velocity"},
    {"ddm-exact", "--predict=v", "--predict=velocity"},
    {"ddm-sample", "--times", "--timesteps"},
    {"ddm-diagnose", "--times", "--timesteps"},
    {"ddm-sample", "--convert", "--expert-time"},
    {"ddm-sample", "--encoder-weights", "--encoder-weight-dtype"},
    {"ddm-sample", "--weights", "--weight-dtype"},
    {"ddm-encode", "--weights", "--weight-dtype"},
    {"ddm-shard", "--weights", "--weight-dtype"},
    {"ddm-cluster", "--weights", "--weight-dtype"},
    {"ddm-eval-fid", "--weights", "--weight-dtype"},
    {"ddm-info", "-c", "--check"},
    {"ddm-grid", "-c", "--columns"},
    {"ddm-report", "-c", "--columns"},
    {"ddm-html", "-c", "--compare"},
    {0},
};

/* What diffusers, torch and others call it. An entry counts where the program has the second. */
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
    {"--resolution", "--size"},
    {"--image-size", "--size"},
    {"--img-size", "--size"},
    {"--guidance-scale", "--cfg"},
    {"--cfg-scale", "--cfg"},
    {"--guidance", "--cfg"},
    {"--negative-prompt", "--negative"},
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

static const struct opt_alias *alias_find(const char *program, const char *old, size_t n)
{
	for (const struct opt_alias *a = renamed; a->old; a++)
		if (strlen(a->old) == n && !strncmp(a->old, old, n) && (!a->program || !strcmp(a->program, program)))
			return a;
	return NULL;
}

const char *optnames_renamed(const char *program, const char *name, size_t n)
{
	const struct opt_alias *a = alias_find(program, name, n);

	return a ? a->now : NULL;
}

const char *optnames_value(const char *program, const char *name, const char *value)
{
	char *old = str_new("%s=%s", name, value);
	const struct opt_alias *a = alias_find(program, old, strlen(old));

	mem_free(old);
	return a ? strchr(a->now, '=') + 1 : NULL;
}

/* Whether the names have a word between dashes in common that is long enough to tell something. */
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

const char *optnames_meant(const struct program *p, const char *name, size_t n)
{
	const char *words[MOST_OPTIONS + 1] = {0}, *meant = NULL, *shared = NULL;
	char *text = str_new("%.*s", (int)n, name);
	int count = 0, sharing = 0;

	for (const struct opt *o = p->options; !opt_is_end(o) && count < MOST_OPTIONS; o++)
		if (o->name)
			words[count++] = o->name;
	for (size_t i = 0; i < sizeof called / sizeof *called && !meant; i++)
		for (int w = 0; w < count && !strcmp(called[i][0], text); w++)
			if (!strcmp(words[w], called[i][1]))
				meant = words[w];
	if (!meant)
		meant = word_nearest(text, words);
	for (int w = 0; w < count && !meant; w++)
		if (share_word(text, words[w])) {
			shared = words[w];
			sharing++;
		}
	mem_free(text);
	return meant ? meant : sharing == 1 ? shared : NULL;
}

/* The end of a piece of a synopsis, to the next blank outside of brackets. */
static size_t piece(const char *s)
{
	size_t n = 0;
	int depth = 0;

	for (; s[n] && (depth || s[n] != ' '); n++)
		depth += s[n] == '[' ? 1 : s[n] == ']' ? -1 : 0;
	return n;
}

char *optnames_operands(const struct program *p)
{
	struct str s = {0};
	int value = 0; /* the piece is that of an option that must be given */

	for (const char *c = p->synopsis; *(c += strspn(c, " ")); c += piece(c)) {
		if (value || *c == '-' || !strncmp(c, "[-", 2)) {
			value = *c == '-';
			continue;
		}
		str_printf(&s, "%s%.*s", s.len ? " " : "", (int)piece(c), c);
	}
	str_puts(&s, "");
	return s.p;
}
