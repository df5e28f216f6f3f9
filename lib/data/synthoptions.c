/* The options of ddm-synth: the table that fills struct synth_request, and the stamp. */
#include "data/synthoptions.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/str.h"
#include "file/optionstamp.h"
#include "text/scripts.h"

#define REQUEST(member) OPTION_FIELD(struct synth_request, member)
#define OF_LAW .when = {{USE_NEEDS, "1=gaussians"}}, .counts = is_law
#define OF_GLYPHS .when = {{USE_NEEDS, "1=glyphs"}}, .counts = is_glyphs
#define OF_DRAW .when = {{USE_NEEDS, "1=draw"}}, .counts = is_draw

static const char *const commands[] = {"gaussians", "draw", "glyphs", NULL};
static const char *const class_words[] = {"glyph", "script", "font", NULL};

/* The dimensions of the largest samples: 4096 x 4096, or a vector of the channels that an exact model may have. */
enum { VECTOR_MOST = 4096, SIDE_MOST = 65536, ELEMENTS_MOST = 1 << 24 };

static int is_law(const void *request)
{
	return ((const struct synth_request *)request)->command == SYNTH_GAUSSIANS;
}

static int is_draw(const void *request)
{
	return ((const struct synth_request *)request)->command == SYNTH_DRAW;
}

static int is_glyphs(const void *request)
{
	return ((const struct synth_request *)request)->command == SYNTH_GLYPHS;
}

static int is_drawn(const void *request)
{
	return !is_law(request);
}

static int has_weights(const void *request)
{
	return is_law(request) && ((const struct synth_request *)request)->weights.n > 0;
}

/* The part of a list before the next `mark`, in buf (32 bytes; longer parts are cut, and then no number); returns what follows it, or NULL. Allocates
 * nothing, as option_presets requires. */
static const char *next_part(char buf[32], const char *list, const char *mark)
{
	size_t len = strcspn(list, mark);

	snprintf(buf, 32, "%.*s", len < 32 ? (int)len : 0, list);
	return list[len] ? list + len + 1 : NULL;
}

/* "CxSxS" or "D". */
static int parse_shape(void *field, const char *label, const char *text, struct err *e)
{
	struct synth_shape *shape = field;
	int64_t v[3] = {0, 1, 1};
	const char *at = text;
	int n = 0, good = 1;
	char part[32];

	while (good && at && n < 3) {
		at = next_part(part, at, "x");
		good = !parse_i64(part, 1, n ? SIDE_MOST : VECTOR_MOST, &v[n]);
		n++;
	}
	if (!good || at || n == 2)
		return err_set(e, ERR_USAGE, "%s: '%s' is neither a number of elements up to %d nor CxHxW, such as 3x16x16", label, text,
		               VECTOR_MOST);
	if (v[1] != v[2])
		return err_set(e, ERR_USAGE, "%s: pictures of %lld x %lld are not square, and networks need square ones", label, (long long)v[1],
		               (long long)v[2]);
	if (v[0] * v[1] > ELEMENTS_MOST / v[2])
		return err_set(e, ERR_USAGE, "%s: '%s' has more than %d elements", label, text, ELEMENTS_MOST);
	*shape = (struct synth_shape){v[0], v[1]};
	return 0;
}

static void put_shape(struct stamp *s, const char *key, const void *field)
{
	const struct synth_shape *shape = field;

	stamp_json(s, key, json_pack("[I,I,I]", (json_int_t)shape->channels, (json_int_t)shape->size, (json_int_t)shape->size));
}

static int parse_overlap(void *field, const char *label, const char *text, struct err *e)
{
	double *overlap = field;

	*overlap = -1;
	if (!strcmp(text, "random") || !parse_f64(text, 0, 1, overlap))
		return 0;
	return err_set(e, ERR_USAGE, "%s: '%s' is neither 'random' nor a cosine from 0 to 1", label, text);
}

static void put_overlap(struct stamp *s, const char *key, const void *field)
{
	double overlap = *(const double *)field;

	if (overlap < 0)
		stamp_text(s, key, "random");
	else
		stamp_f64(s, key, overlap);
}

static int parse_weights(void *field, const char *label, const char *text, struct err *e)
{
	struct synth_weights *w = field;

	w->n = 0;
	if (!strcmp(text, "equal"))
		return 0;
	for (const char *at = text; at;) {
		char part[32];

		at = next_part(part, at, ",");
		if (w->n == SYNTH_WEIGHTS)
			return err_set(e, ERR_USAGE, "%s: more than %d weights", label, SYNTH_WEIGHTS);
		if (parse_f64(part, 1e-9, 1, &w->v[w->n++]))
			return err_set(e, ERR_USAGE, "%s: '%s' is not a weight above 0 and up to 1", label, part);
	}
	return 0;
}

static void put_weights(struct stamp *s, const char *key, const void *field)
{
	const struct synth_weights *w = field;
	json_t *list = json_array();

	for (int i = 0; i < w->n; i++)
		json_array_append_new(list, json_real(w->v[i]));
	stamp_json(s, key, list);
}

static int parse_scripts(void *field, const char *label, const char *text, struct err *e)
{
	uint32_t *scripts = field;

	*scripts = 0;
	for (const char *at = text; at;) {
		char part[32];
		int s;

		at = next_part(part, at, ",");
		if ((s = option_choice(label, part, script_names, e)) < 0)
			return -1;
		*scripts |= (uint32_t)1 << s;
	}
	return 0;
}

static void put_scripts(struct stamp *s, const char *key, const void *field)
{
	uint32_t scripts = *(const uint32_t *)field;
	json_t *list = json_array();

	for (int i = 0; script_names[i]; i++)
		if (scripts >> i & 1)
			json_array_append_new(list, json_string(script_names[i]));
	stamp_json(s, key, list);
}

/* A character as "4e00" or "U+4E00": -1 if the text is none. */
static int64_t code_point(const char *text)
{
	int64_t v = 0;

	text += !strncmp(text, "U+", 2) || !strncmp(text, "u+", 2) ? 2 : 0;
	if (!*text || strspn(text, "0123456789abcdefABCDEF") != strlen(text) || strlen(text) > 6)
		return -1;
	for (; *text; text++)
		v = 16 * v + (*text <= '9' ? *text - '0' : (*text | 32) - 'a' + 10);
	return v < 0x110000 ? v : -1;
}

static int parse_ranges(void *field, const char *label, const char *text, struct err *e)
{
	struct glyph_choice *c = field;

	c->ranges = 0;
	for (const char *at = text; at;) {
		char part[32], first[32];
		const char *rest;
		int64_t lo, hi;

		at = next_part(part, at, ",");
		rest = next_part(first, part, "-");
		lo = code_point(first);
		hi = rest ? code_point(rest) : lo;
		if (lo < 0 || hi < lo)
			return err_set(e, ERR_USAGE, "%s: '%s' is neither a character in hexadecimal nor FIRST-LAST, such as 4e00-9fff", label, part);
		if (c->ranges == GLYPH_RANGES)
			return err_set(e, ERR_USAGE, "%s: more than %d ranges", label, GLYPH_RANGES);
		c->range[c->ranges][0] = (uint32_t)lo;
		c->range[c->ranges++][1] = (uint32_t)hi;
	}
	return 0;
}

static void put_ranges(struct stamp *s, const char *key, const void *field)
{
	const struct glyph_choice *c = field;
	json_t *list = json_array();

	for (int i = 0; i < c->ranges; i++)
		json_array_append_new(list, json_pack("[I,I]", (json_int_t)c->range[i][0], (json_int_t)c->range[i][1]));
	stamp_json(s, key, list);
}

static const struct factor {
	const char *name;
	size_t at; /* in struct glyph_law */
	double usual, lo, hi;
} factors[] = {
    {"position", offsetof(struct glyph_law, position), .1, 1e-3, 1},
    {"scale", offsetof(struct glyph_law, scale), .6, .05, .999},
    {"rotation", offsetof(struct glyph_law, rotation), 15, .1, 180},
    {"grey", offsetof(struct glyph_law, contrast), .5, .01, .99},
};

enum { FACTORS = sizeof factors / sizeof *factors };

static double *factor_in(struct glyph_law *law, const struct factor *f)
{
	return (double *)((char *)law + f->at);
}

/* One of the list: "NAME" or "NAME:AMOUNT". */
static int parse_factor(struct glyph_law *law, const char *label, const char *part, struct err *e)
{
	char name[32];
	const char *amount = next_part(name, part, ":");
	const char *words[FACTORS + 2] = {[FACTORS] = "none"};
	const struct factor *f;
	double v;
	int i;

	for (i = 0; i < FACTORS; i++)
		words[i] = factors[i].name;
	if ((i = option_choice(label, name, words, e)) < 0)
		return -1;
	if (i == FACTORS)
		return err_set(e, ERR_USAGE, "%s: 'none' stands alone", label);
	f = &factors[i];
	v = f->usual;
	if (amount && parse_f64(amount, f->lo, f->hi, &v))
		return err_set(e, ERR_USAGE, "%s: %s: '%s' is not a number from %g to %g", label, f->name, amount, f->lo, f->hi);
	*factor_in(law, f) = v;
	return 0;
}

static int parse_factors(void *field, const char *label, const char *text, struct err *e)
{
	struct glyph_law *law = field;

	*law = (struct glyph_law){.em = law->em};
	if (!strcmp(text, "none"))
		return 0;
	for (const char *at = text; at;) {
		char part[32];

		at = next_part(part, at, ",");
		if (parse_factor(law, label, part, e))
			return -1;
	}
	return 0;
}

static void put_factors(struct stamp *s, const char *key, const void *field)
{
	struct glyph_law law = *(const struct glyph_law *)field;
	json_t *o = json_object();

	for (int i = 0; i < FACTORS; i++)
		if (*factor_in(&law, &factors[i]) > 0)
			json_object_set_new(o, factors[i].name, json_real(*factor_in(&law, &factors[i])));
	stamp_json(s, key, o);
}

/* In the order of the stamp's keys. */
const struct option synth_options[] = {
    OPTION_GROUP("The law (gaussians)"),
    {"--shape", .type = OPTION_PARSED, REQUEST(shape), .arg = "CxHxW|D", .parse = parse_shape, .put = put_shape, .preset = "1x8x8",
     .help = "shape of a sample; D: a vector", OF_LAW, .stamp = STAMP_ALWAYS, .key = "shape"},
    {"--components", 'k', OPTION_INT, REQUEST(components), .lo = 1, .hi = SYNTH_WEIGHTS, .arg = "K", .preset = "4",
     .help = "number of Gaussians, which are the clusters", OF_LAW, .stamp = STAMP_ALWAYS, .key = "components"},
    {"--rank", .type = OPTION_INT, REQUEST(rank), .lo = 1, .hi = 65536, .arg = "D", .preset = "2", .help = "dimension of each one's subspace", OF_LAW,
     .stamp = STAMP_ALWAYS, .key = "rank"},
    {"--weights", .type = OPTION_PARSED, REQUEST(weights), .arg = "LIST", .parse = parse_weights, .put = put_weights, .preset = "equal",
     .help = "probability of each, with commas between; sum 1", .when = {{USE_NEEDS, "1=gaussians"}}, .counts = has_weights, .stamp = STAMP_ALWAYS,
     .key = "weights"},
    {"--separation", .type = OPTION_REAL, REQUEST(separation), .lo = 0, .hi = 1000, .arg = "S", .preset = "4",
     .help = "distance of any two means, in standard deviations of a first direction", OF_LAW, .stamp = STAMP_ALWAYS, .key = "separation"},
    {"--overlap", .type = OPTION_PARSED, REQUEST(overlap), .arg = "C|random", .parse = parse_overlap, .put = put_overlap, .preset = "random",
     .help = "cosine of the angles between any two subspaces", OF_LAW, .stamp = STAMP_ALWAYS, .key = "overlap"},
    {"--spectrum", .type = OPTION_REAL, REQUEST(spectrum), .lo = 0, .hi = 10, .arg = "A", .preset = "0",
     .help = "variances within a subspace fall like i^-A", OF_LAW, .stamp = STAMP_ALWAYS, .key = "spectrum"},
    {"--floor", .type = OPTION_REAL, REQUEST(noise), .lo = 1e-4, .hi = 10, .arg = "S", .preset = ".02",
     .help = "standard deviation of the noise in every element", OF_LAW, .stamp = STAMP_ALWAYS, .key = "floor"},
    {"--rms", .type = OPTION_REAL, REQUEST(rms), .lo = 1e-3, .hi = 100, .arg = "S", .preset = ".5", .help = "root mean square of the elements",
     OF_LAW, .stamp = STAMP_ALWAYS, .key = "rms"},
    OPTION_GROUP("Pictures (glyphs)"),
    {"--script", .type = OPTION_PARSED, REQUEST(glyphs.choice.scripts), .arg = "LIST", .parse = parse_scripts, .put = put_scripts,
     .choices = script_names, .help = "the letters of these scripts, with commas between", .said = "default latin, without --range",
     .example = "latin", OF_GLYPHS, .stamp = STAMP_ALWAYS, .key = "script"},
    {"--range", .type = OPTION_PARSED, REQUEST(glyphs.choice), .arg = "LIST", .parse = parse_ranges, .put = put_ranges,
     .help = "these characters, in hexadecimal: 4e00-9fff,3042", .example = "41", OF_GLYPHS, .stamp = STAMP_ALWAYS, .key = "range"},
    {"--size", .type = OPTION_INT, REQUEST(glyphs.side), .lo = 8, .hi = GLYPH_SIDE, .arg = "S", .preset = "32", .help = "side of a picture in pixels",
     OF_GLYPHS, .stamp = STAMP_ALWAYS, .key = "size"},
    {"--em", .type = OPTION_REAL, REQUEST(glyphs.law.em), .lo = .05, .hi = 4, .arg = "F", .preset = ".75",
     .help = "the fonts' size, as a share of the side", OF_GLYPHS, .stamp = STAMP_ALWAYS, .key = "em"},
    {"--factors", .type = OPTION_PARSED, REQUEST(glyphs.law), .arg = "LIST", .parse = parse_factors, .put = put_factors,
     .help = "what varies besides glyph and font: position[:SHARE], scale[:LEAST], rotation[:DEGREES], grey[:CONTRAST]", .said = "default none",
     .example = "position", OF_GLYPHS, .stamp = STAMP_ALWAYS, .key = "factors"},
    {"--classes", .type = OPTION_CHOICE, REQUEST(glyphs.classes), .arg = "WHAT", .choices = class_words, .preset = "glyph",
     .help = "what the class of a picture is", OF_GLYPHS, .stamp = STAMP_ALWAYS, .key = "classes"},
    OPTION_GROUP("Samples (draw, glyphs)"),
    {"--count", 'n', OPTION_INT, REQUEST(count), .lo = 1, .hi = 1e9, .arg = "N", .preset = "1000", .help = "number of samples",
     .when = {{USE_NEEDS, "1=draw 1=glyphs"}}, .counts = is_drawn, .stamp = STAMP_ALWAYS, .key = "count"},
    OPTION_GROUP("Samples (draw)"),
    {"--labels", .type = OPTION_TEXT, REQUEST(labels), .arg = "FILE", .help = "write a table of the true components, as ddm-shard reads it", OF_DRAW},
    {"--holdout", .type = OPTION_REAL, REQUEST(holdout), .lo = 0, .hi = 1, .arg = "FRACTION", .preset = "0",
     .help = "samples that the table says are held out", .when = {{USE_NEEDS, "--labels"}}, .counts = is_draw, .stamp = STAMP_ALWAYS,
     .key = "holdout"},
    {"--rows", .type = OPTION_TEXT, REQUEST(rows), .arg = "FILE", .help = "write the samples as the rows of an array too, .npy", OF_DRAW},
    OPTION_GROUP("All"),
    {"--seed", .type = OPTION_U64, REQUEST(seed), .arg = "S", .preset = "0", .help = "seed of the directions, or of the samples", OPTION_ALWAYS,
     .stamp = STAMP_ALWAYS, .key = "seed"},
    {"--output", 'o', OPTION_TEXT, REQUEST(out), .arg = "OUT", .help = "the folder of the law, or the tar of samples (-: standard output)",
     .required = "the folder of the law, or the tar of samples", OPTION_ALWAYS},
    {0},
};

struct synth_request synth_defaults(void)
{
	struct synth_request r = {0};

	option_presets(synth_options, &r);
	return r;
}

int synth_command_parse(enum synth_command *command, const char *name, struct err *e)
{
	int i = option_choice(NULL, name, commands, e);

	if (i >= 0)
		*command = (enum synth_command)i;
	return i < 0 ? -1 : 0;
}

struct stamp *synth_stamp(const struct synth_request *r)
{
	static const struct option *const tables[] = {synth_options, NULL};
	struct stamp *s = stamp_new(r->program);

	stamp_text(s, is_law(r) ? "law" : "command", commands[r->command]);
	optionstamp_put(s, tables, r, "");
	return s;
}
