/* For every option of every program, when it has an effect; one that would be ignored is refused. */
#include "cmd/optrules.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/optnames.h"
#include "core/mem.h"
#include "core/str.h"

/* ---- the tables: of every option of every program ---- */

/* Arguments of network features. */
#define NETWORKS "--features=inception:* --features=dinov2:* --features=clip:*"

static const struct opt_rule rules_check[] = {{"--complete --verbose", USE_ALWAYS, NULL}, {0}};

static const struct opt_rule rules_info[] = {{"--check --json --full", USE_ALWAYS, NULL}, {0}};

static const struct opt_rule rules_compare[] = {{"--key --level --holm --tsv --output", USE_ALWAYS, NULL}, {0}};

static const struct opt_rule rules_report[] = {{"--columns --title --output --quiet", USE_ALWAYS, NULL}, {0}};

static const struct opt_rule rules_html[] = {{"--title --settings --partition --compare --picture-size --output", USE_ALWAYS, NULL}, {0}};

static const struct opt_rule rules_grid[] = {
    {"--columns --rows --skip --spread --scale --size --output", USE_ALWAYS, NULL},
    {"--holdout", USE_INPUT, "a SHARDS folder among the sources"},
    {0},
};

static const struct opt_rule rules_plot[] = {
    {"--title --x-label --width --format --output", USE_ALWAYS, NULL},
    {"--x", USE_NEEDS, "1=cost 1=lines 1=points 1=bars"},
    {"--y", USE_NEEDS, "1=cost 1=router 1=compare 1=lines 1=points 1=bars"},
    {"--group", USE_NEEDS, "1=cost 1=lines 1=points"},
    {"--low --high", USE_NEEDS, "1=lines 1=points 1=bars"},
    {"--level", USE_NEEDS, "1=cost 1=lines 1=points 1=bars"},
    {"--floor", USE_NEEDS, "1=cost"},
    {"--smooth", USE_NEEDS, "1=loss"},
    {"--log --x-range --y-range --y-label --height", USE_AGAINST, "1=bars 1=compare"},
    {"--scale", USE_NEEDS, "--format=png --output=*.png"},
    {0},
};

static const struct opt_rule rules_exact[] = {
    {"--cluster --split --limit --size --path --predict --no-verify --threads --output", USE_ALWAYS, NULL},
    {"--seed", USE_NEEDS, "--limit"},
    {0},
};

static const struct opt_rule rules_diagnose[] = {
    {"--routes --timesteps --count --split --seed --routing --json --no-verify --batch --threads --device --output", USE_ALWAYS, NULL},
    {0},
};

static const struct opt_rule rules_cluster[] = {
    {"-k --by --holdout --sheet --report --skip-bad --threads --quiet --output", USE_ALWAYS, NULL},
    {"--table", USE_NEEDS, "--by"},
    {"--features --centroids --seed --fine --balance --restarts --iterations --centroids-out --input --weight-dtype --device --like", USE_AGAINST,
     "--by"},
    {"--fine --balance --restarts --iterations", USE_AGAINST, "--centroids --features=random"},
    {"--centroids-out", USE_AGAINST, "--features=random"},
    {"--input --weight-dtype", USE_NEEDS, NETWORKS},
    {"--device", USE_AGAINST, "--features=random"},
    {"--holdout-by", USE_NEEDS, "--holdout"},
    {"--like", USE_NEEDS, "--features=random"},
    {"--max-errors", USE_NEEDS, "--skip-bad"},
    {"--null", USE_NEEDS, "-"},
    {0},
};

static const struct opt_rule rules_shard[] = {
    {"--assign --output --holdout --shard-size --level --vae --text --skip-bad --threads --quiet", USE_ALWAYS, NULL},
    {"--size --posterior --flip --no-pictures", USE_NEEDS, "--vae"},
    {"--seed", USE_NEEDS, "--posterior=sample"},
    {"--tokens", USE_NEEDS, "--text"},
    {"--dtype --batch --weight-dtype --device", USE_NEEDS, "--vae --text"},
    {"--max-errors", USE_NEEDS, "--skip-bad"},
    {"--null", USE_NEEDS, "-"},
    {0},
};

static const struct opt_rule rules_encode[] = {
    {"--model --as --decode --batch --weight-dtype --device --skip-bad --threads --quiet --output", USE_ALWAYS, NULL},
    {"--size --posterior --flip --no-pictures", USE_AGAINST, "--decode"},
    {"--size --posterior --flip --no-pictures", USE_INPUT, "an autoencoder"},
    {"--seed", USE_NEEDS, "--posterior=sample"},
    {"--captions --tokens --null-text", USE_INPUT, "a text encoder"},
    {"--dtype", USE_INPUT, "an autoencoder or a text encoder"},
    {"--input --keys", USE_INPUT, "a network of features"},
    {"--max-errors", USE_NEEDS, "--skip-bad"},
    {"--null", USE_NEEDS, "-"},
    {0},
};

static const struct opt_rule rules_eval[] = {
    {"--features --metrics --size --heldout --seed --ignore-recipe --cache --cache-dir --stats-out --output --skip-bad --threads", USE_ALWAYS, NULL},
    {"--input --weight-dtype", USE_NEEDS, NETWORKS},
    {"--device", USE_NEEDS, NETWORKS " --lpips"},
    /* Of a pair of lines the first is of a list that was given, the second of what the features stand for without one. */
    {"--protocol", USE_NEEDS, "--metrics~kid --metrics~is --protocol=clean-fid"},
    {"--protocol", USE_NEEDS, "--metrics --features=inception:* --features=dinov2:*"},
    {"--train", USE_NEEDS, "--metrics~memorised --metrics~authenticity"},
    {"--train", USE_NEEDS, "--metrics --features=pix --features=rgb8"},
    {"--axes --draws", USE_NEEDS, "--metrics~fd"},
    {"--axes --draws", USE_NEEDS, "--metrics --features=pix --features=rgb8"},
    {"--subsets", USE_NEEDS, "--metrics~kd --metrics~kid"},
    {"--subset-size", USE_NEEDS, "--subsets --metrics~kid"},
    {"--subset-size", USE_NEEDS, "--subsets --metrics --features=inception:* --features=dinov2:*"},
    {"--filter", USE_NEEDS, "--size --lpips"},
    {"--logits", USE_NEEDS, "--metrics~is"},
    {"--logits", USE_NEEDS, "--metrics --features=inception:*"},
    {"--captions", USE_NEEDS, "--metrics~clip"},
    {"--captions", USE_NEEDS, "--metrics"},
    {"--aesthetic", USE_NEEDS, "--metrics~aesthetic"},
    {"--lpips", USE_NEEDS, "--metrics~lpips --metrics~diversity"},
    {"--groups", USE_NEEDS, "--metrics~diversity"},
    {"--max-errors", USE_NEEDS, "--skip-bad"},
    {0},
};

static const struct opt_rule rules_ingest[] = {
    {"--size --seed -n --classes --dedup --no-sandbox --skip-bad --timeout --max-memory --max-pixels --threads --quiet -o", USE_ALWAYS, NULL},
    {"--resize", USE_NEEDS, "--size"},
    {"--fps --frames --duplicates", USE_INPUT, "a video or a graph"},
    {"--seeds", USE_INPUT, "a graph"},
    {"--max-errors", USE_NEEDS, "--skip-bad"},
    {"-0", USE_NEEDS, "-"},
    {0},
};

/* --plan says what the same command would need: it takes every option of the training. */
#define RULES_TRAINING \
	{"--model --hidden --depth --heads --patch --steps --epochs --batch --accumulate --lr --schedule --warmup --weight-decay --beta2 --clip " \
	 "--ema-half-life --path --time --precision --flip --size --seed --init-weights --extend --max-skipped --max-skipped-share --grace " \
	 "--validate-samples --checkpoint-every --keep --log-every --recompute --offload --no-verify --threads --device --plan --profile --quiet " \
	 "--output", \
	 USE_ALWAYS, NULL}, \
	{"--sample-every", USE_INPUT, "pictures, not latents"}, \
	{"--validate-every", USE_AGAINST, "--validate-samples=0"}

static const struct opt_rule rules_train[] = {
    {"--cluster --predict --weighting --condition --pretrained", USE_ALWAYS, NULL},
    {"--class-dropout", USE_NEEDS, "--condition=class --condition=cluster"},
    {"--text-tokens --text-drop --null-text", USE_NEEDS, "--model=paris-* --model=pixart-* --pretrained"},
    RULES_TRAINING,
    {0},
};

static const struct opt_rule rules_route_train[] = {
    {"--last", USE_ALWAYS, NULL},
    RULES_TRAINING,
    {0},
};

static const struct opt_rule rules_sample[] = {
    {"--count --preset --route --solver --steps --cfg --class --seed --noise --grid --report --log --timing --map --weight-dtype --format --resident "
     "--first --batch --batch-invariant --step --threads --device --profile --quiet --output", USE_ALWAYS, NULL},
    {"--prompt --prompts", USE_INPUT, "a model that reads text"},
    {"--negative", USE_NEEDS, "--cfg --preset"},
    {"--negative", USE_AGAINST, "--negative-features"},
    {"--negative", USE_INPUT, "a model that reads text"},
    {"--timesteps --expert-time", USE_INPUT, "euler or heun"},
    {"--cfg-channels", USE_NEEDS, "--cfg --preset"},
    {"--labels", USE_NEEDS, "--route=oracle --class=labels"},
    {"--encoder-weight-dtype", USE_INPUT, "a text encoder or an autoencoder"},
    {"--vae", USE_AGAINST, "--format=latent"},
    {"--tile", USE_AGAINST, "--format=latent"},
    {"--tile", USE_INPUT, "an autoencoder"},
    {"--text-encoder", USE_AGAINST, "--text-features"},
    {"--text-encoder --text-features", USE_INPUT, "a model that reads text"},
    {"--negative-features", USE_NEEDS, "--cfg --preset"},
    {"--negative-features", USE_INPUT, "a model that reads text"},
    {0},
};

static const struct {
	const char *program;
	const struct opt_rule *rules;
} tables[] = {
    {"ddm-check", rules_check},       {"ddm-cluster", rules_cluster},
    {"ddm-compare", rules_compare},   {"ddm-diagnose", rules_diagnose},
    {"ddm-encode", rules_encode},     {"ddm-eval-fid", rules_eval},
    {"ddm-exact", rules_exact},       {"ddm-grid", rules_grid},
    {"ddm-html", rules_html},         {"ddm-info", rules_info},
    {"ddm-ingest", rules_ingest},     {"ddm-plot", rules_plot},
    {"ddm-report", rules_report},     {"ddm-route-train", rules_route_train},
    {"ddm-sample", rules_sample},     {"ddm-shard", rules_shard},
    {"ddm-train", rules_train},
};

const struct opt_rule *optrules_of(const char *program)
{
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
		if (!strcmp(tables[i].program, program))
			return tables[i].rules;
	return NULL;
}

/* ---- what holds ---- */

/* Word i of a list with blanks between, in new memory; NULL behind the last. */
static char *word_at(const char *list, int i)
{
	while (*(list += strspn(list, " "))) {
		size_t n = strcspn(list, " ");

		if (!i--)
			return str_new("%.*s", (int)n, list);
		list += n;
	}
	return NULL;
}

static int is_listed(const char *list, const char *name)
{
	char *word;
	int found = 0;

	for (int i = 0; !found && (word = word_at(list, i)); i++) {
		found = !strcmp(word, name);
		mem_free(word);
	}
	return found;
}

static int goes_by(const struct opt *o, const char *name)
{
	return (o->name && !strcmp(o->name, name)) || (!o->name && name[1] == o->letter && !name[2]);
}

static const struct opt *option_named(const struct program *p, const char *name)
{
	for (const struct opt *o = p->options; !opt_is_end(o); o++)
		if (!opt_is_group(o) && goes_by(o, name))
			return o;
	return NULL;
}

static int is_given(const struct opt_given *given, const struct opt *o)
{
	for (int i = 0; i < given->n; i++)
		if (given->v[i] == o)
			return 1;
	return 0;
}

/* "clip:*" begins so, "*.png" ends so. */
static int text_fits(const char *text, const char *pattern)
{
	size_t n = strlen(pattern);

	if (*pattern == '*')
		return str_ends(text, pattern + 1);
	return n && pattern[n - 1] == '*' ? !strncmp(text, pattern, n - 1) : !strcmp(text, pattern);
}

static int value_fits(const struct opt *o, const char *pattern)
{
	switch (o->type) {
	case OPT_CHOICE:
		return *(const int *)o->value >= 0 && text_fits(o->choices[*(const int *)o->value], pattern);
	case OPT_TEXT:
		return *(const char *const *)o->value && text_fits(*(const char *const *)o->value, pattern);
	case OPT_INT:
		return *(const int64_t *)o->value == strtoll(pattern, NULL, 10);
	default:
		return 0;
	}
}

/* Whether a list with commas or blanks between holds the word. */
static int list_holds(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (; list && *(list += strspn(list, ", ")); list += strcspn(list, ", "))
		if (strcspn(list, ", ") == n && !strncmp(list, word, n))
			return 1;
	return 0;
}

struct case_of {
	const struct program *p;
	const struct opt_given *given;
	char **operand;
	int n;
};

static int condition_holds(const struct case_of *c, const char *condition)
{
	size_t n = strcspn(condition, "=~");
	char *name = str_new("%.*s", (int)n, condition);
	const struct opt *o = option_named(c->p, name);
	int holds = 0;

	mem_free(name);
	if (!strcmp(condition, "-"))
		for (int i = 0; i < c->n; i++)
			holds |= !strcmp(c->operand[i], "-");
	else if (!strncmp(condition, "1=", 2))
		holds = c->n > 0 && !strcmp(c->operand[0], condition + 2);
	else if (o && condition[n] == '=')
		holds = value_fits(o, condition + n + 1);
	else if (o && condition[n] == '~')
		holds = !is_given(c->given, o) || list_holds(*(const char *const *)o->value, condition + n + 1);
	else if (o)
		holds = is_given(c->given, o);
	return holds;
}

/* The first condition of the list that holds, in new memory, or NULL. */
static char *first_that_holds(const struct case_of *c, const char *list)
{
	char *word;

	for (int i = 0; (word = word_at(list, i)); i++) {
		if (condition_holds(c, word))
			return word;
		mem_free(word);
	}
	return NULL;
}

/* What the first operand is called, and this value of it: "KIND loss". */
static void name_operand(struct str *s, const struct program *p, const char *value)
{
	char *form = optnames_operands(p);

	str_printf(s, "%.*s %s", (int)strcspn(form, " "), form, value);
	mem_free(form);
}

/* "--route=oracle" -> "--route oracle", "--metrics~fd" -> "--metrics fd", "1=loss" -> "KIND loss". The name is left out where it is that of the
 * condition before. */
static void describe_condition(struct str *s, const struct program *p, const char *condition, const char *before)
{
	size_t n = strcspn(condition, "=~");

	if (!strcmp(condition, "-"))
		str_puts(s, "a list on standard input, the operand -");
	else if (!condition[n])
		str_puts(s, condition);
	else if (before && !strncmp(condition, before, n + 1))
		str_puts(s, condition + n + 1);
	else if (*condition != '-')
		name_operand(s, p, condition + n + 1);
	else
		str_printf(s, "%.*s %s", (int)n, condition, condition + n + 1);
}

static int refuse_alone(const struct program *p, const char *name, const char *list, struct err *e)
{
	struct str s = {0};
	char *word, *before = NULL;

	for (int i = 0; (word = word_at(list, i)); i++) {
		str_puts(&s, i ? " or " : "");
		describe_condition(&s, p, word, before);
		mem_free(before);
		before = word;
	}
	err_set(e, ERR_USAGE, "%s does nothing without %s", name, str_text(&s));
	mem_free(before);
	str_release(&s);
	return -1;
}

static int refuse_beside(const struct program *p, const char *name, const char *condition, struct err *e)
{
	struct str s = {0};

	describe_condition(&s, p, condition, NULL);
	err_set(e, ERR_USAGE, "%s does nothing with %s", name, str_text(&s));
	str_release(&s);
	return -1;
}

static int check_rule(const struct case_of *c, const char *name, const struct opt_rule *r, struct err *e)
{
	char *holds = r->use == USE_NEEDS || r->use == USE_AGAINST ? first_that_holds(c, r->with) : NULL;
	int rc = 0;

	if (r->use == USE_NEEDS && !holds)
		rc = refuse_alone(c->p, name, r->with, e);
	else if (r->use == USE_AGAINST && holds)
		rc = refuse_beside(c->p, name, holds, e);
	mem_free(holds);
	return rc;
}

static void name_option(const struct opt *o, char name[64])
{
	char letter[] = {'-', o->letter, 0};
	const char *text = o->name ? o->name : letter;
	size_t n = strlen(text);

	memcpy(name, text, (n < 63 ? n : 63) + 1);
	name[63] = 0;
}

int optrules_check(const struct program *p, const struct opt_given *given, char **operand, int n, struct err *e)
{
	struct case_of c = {p, given, operand, n};
	const struct opt_rule *rules = optrules_of(p->name);
	char name[64];

	for (int i = 0; i < given->n; i++) {
		name_option(given->v[i], name);
		for (const struct opt_rule *r = rules; r && r->options; r++)
			if (is_listed(r->options, name) && check_rule(&c, name, r, e))
				return -1;
	}
	return 0;
}

/* A value that the option takes, whatever it is. */
static void add_example(struct str *s, const struct opt *o)
{
	int last = 0;

	switch (o->type) {
	case OPT_FLAG:
		return;
	case OPT_CHOICE:
		while (o->choices[last + 1])
			last++;
		str_puts(s, o->choices[last]);
		return;
	case OPT_INT:
		str_printf(s, "%lld", (long long)(o->lo > 1 ? o->lo : 1));
		return;
	case OPT_REAL:
		str_printf(s, "%.9g", o->lo != 0 || o->hi != 0 ? (o->hi < 1e9 ? (o->lo + o->hi) / 2 : o->lo) : 1.);
		return;
	case OPT_U64:
	case OPT_DURATION:
	case OPT_SIZE:
		str_puts(s, "1");
		return;
	default:
		str_puts(s, "x");
	}
}

static void add_default(struct str *s, const struct opt *o)
{
	if (o->type == OPT_CHOICE && *(const int *)o->value >= 0)
		str_puts(s, o->choices[*(const int *)o->value]);
	else if (o->type == OPT_TEXT && *(const char *const *)o->value)
		str_puts(s, *(const char *const *)o->value);
	else if (o->type == OPT_INT)
		str_printf(s, "%lld", (long long)*(const int64_t *)o->value);
}

static void add_line(struct str *s, const struct opt *o, const char *name, const char *use, const char *with)
{
	str_printf(s, "%s\t%s\t%s\t", name, use, with);
	add_example(s, o);
	str_puts(s, "\t");
	add_default(s, o);
	str_puts(s, "\n");
}

char *optrules_text(const struct program *p)
{
	static const char *const words[] = {"always", "needs", "against", "input"};
	const struct opt_rule *rules = optrules_of(p->name);
	struct str s = {0};
	char name[64];

	for (const struct opt *o = p->options; !opt_is_end(o); o++) {
		int found = 0;

		if (opt_is_group(o))
			continue;
		name_option(o, name);
		for (const struct opt_rule *r = rules; r && r->options; r++)
			if (is_listed(r->options, name)) {
				add_line(&s, o, name, words[r->use], r->with ? r->with : "");
				found = 1;
			}
		if (!found)
			add_line(&s, o, name, "none", "");
	}
	str_puts(&s, "");
	return s.p;
}
