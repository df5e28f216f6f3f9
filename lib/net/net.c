/* The table of architectures. Finds one by name, preset or config.json, checks a configuration, and records the network. */
#include "net/net.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/wordsuggest.h"
#include "core/str.h"
#include "net/diffusers.h"
#include "net/netdef.h"
#include "tape/ops.h"

#define NET_ENTRY(name) &net_##name,
static const struct net_def *const defs[] = {NET_DEFS(NET_ENTRY)};

const struct net_def *net_def_at(int i)
{
	return i < NET_COUNT(defs) ? defs[i] : NULL;
}

const struct net_def *net_first(enum net_role role)
{
	int i = 0;

	while (defs[i]->role != role)
		i++;
	return defs[i];
}

const struct net_def *net_find(const char *name)
{
	for (int i = 0; i < NET_COUNT(defs); i++)
		if (!strcmp(defs[i]->name, name))
			return defs[i];
	return NULL;
}

const struct net_def *net_exact_of(enum net_role role)
{
	return role == NET_CLASSIFIER ? &net_exact_router : &net_exact;
}

const struct renames *net_names(const struct safetensors *s)
{
	const struct renames *found = NULL;

	for (int i = 0; i < NET_COUNT(defs) && !found; i++) {
		const struct renames *const *f = defs[i]->families;
		int n = 0;

		while (f && f[n])
			n++;
		found = renames_find(f, n, s);
	}
	return found;
}

int net_is_named(const struct net_config *c)
{
	return c->def != net_first(c->def->role);
}

/* ---- presets ---- */

/* The i-th architecture whose presets may be chosen for c; NULL after the last. A router keeps its architecture. */
static const struct net_def *candidate(const struct net_config *c, int i)
{
	if (net_is_classifier(c))
		return i ? NULL : c->def;
	for (int k = 0; k < NET_COUNT(defs); k++)
		if (defs[k]->presets && defs[k]->role == NET_EXPERT && !i--)
			return defs[k];
	return NULL;
}

/* Append "; did you mean dit-mini/4": the nearest name with the tail of `name`. Append nothing if no name is near. */
static void suggest_preset(struct str *s, const char *name, const struct net_config *c)
{
	enum { MOST = 128 };
	size_t len = strcspn(name, "/");
	char *base = str_new("%.*s", (int)len, name);
	const char *words[MOST + 1] = {0}, *example[MOST], *near;
	const struct net_def *def;
	int n = 0;

	for (int d = 0; (def = candidate(c, d)); d++)
		for (int i = 0; def->presets->names[i]; i++) {
			assert(n < MOST);
			example[n] = def->presets->example;
			words[n++] = str_new("%s%s", def->prefix, def->presets->names[i]);
		}
	near = word_nearest(base, words);
	for (int i = 0; i < n; i++)
		if (near == words[i])
			str_printf(s, "; did you mean %s%s", near, name[len] && *example[i] && strcmp(near, base) ? name + len : example[i]);
	while (n)
		mem_free((char *)(uintptr_t)words[--n]);
	mem_free(base);
}

/* Append " dit-nano/P .. dit-xl/P with a patch size P of ..": the presets of the architecture whose prefix the name has; or, if it has none, the
 * prefixes " dit- paris- .." */
static void list_presets(struct str *s, const struct net_config *c, const char *name)
{
	const struct net_def *def, *of = NULL;

	for (int d = 0; (def = candidate(c, d)); d++)
		if (!strncmp(name, def->prefix, strlen(def->prefix)) && (!of || strlen(def->prefix) > strlen(of->prefix)))
			of = def;
	for (int i = 0; of && of->presets->names[i]; i++)
		str_printf(s, " %s%s%s", of->prefix, of->presets->names[i], of->presets->tail);
	if (of) {
		str_puts(s, of->presets->note);
		return;
	}
	str_puts(s, " one that begins with");
	for (int d = 0; (def = candidate(c, d)); d++)
		str_printf(s, " %s", def->prefix);
	str_printf(s, ", such as %s%s%s", candidate(c, 0)->prefix, candidate(c, 0)->presets->names[0], candidate(c, 0)->presets->example);
}

int net_preset(const char *name, struct net_config *c, struct err *e)
{
	struct str all = {0}, hint = {0};
	const struct net_def *def;

	for (int d = 0; (def = candidate(c, d)); d++) {
		struct net_config to = *c;
		size_t skip = strlen(def->prefix);

		to.def = def;
		if (!strncmp(name, def->prefix, skip) && def->presets->apply(&to, name + skip)) {
			*c = to;
			return 0;
		}
	}
	if (!e) /* nobody reads the message */
		return -1;
	list_presets(&all, c, name);
	suggest_preset(&hint, name, c);
	err_set(e, ERR_USAGE, "unknown network %s; expected%s%s", name, str_text(&all), str_text(&hint));
	str_release(&all);
	str_release(&hint);
	return -1;
}

/* Variant i of a preset's name, without the prefix; NULL after the last. */
static char *variant_of(const struct net_presets *p, const char *name, int i, int64_t patch)
{
	if (p->variant)
		return p->variant(name, i, patch);
	if (i)
		return NULL;
	return *p->tail ? str_new("%s/%lld", name, (long long)patch) : mem_strdup(name);
}

void net_presets_each(const struct net_config *c, int64_t patch, void (*each)(void *arg, const char *name), void *arg)
{
	const struct net_def *def;
	char *text;

	for (int d = 0; (def = candidate(c, d)); d++)
		for (int k = 0; def->presets->names[k]; k++)
			for (int v = 0; (text = variant_of(def->presets, def->presets->names[k], v, patch)); v++) {
				char *whole = str_new("%s%s", def->prefix, text);

				each(arg, whole);
				mem_free(whole);
				mem_free(text);
			}
}

/* ---- checks ---- */

void net_micro(const struct net_config *c, int64_t n, float *out)
{
	for (int64_t i = 0; i < n; i++) {
		out[NET_MICRO * i] = out[NET_MICRO * i + 1] = (float)(8 * c->size);
		out[NET_MICRO * i + 2] = 1;
	}
}

static int check_text(const struct net_config *c, struct err *e)
{
	if (!net_reads(c, NET_IN_TEXT))
		return 0;
	if (c->text_tokens < 1 || c->text_tokens > 65536 || c->text_width < 1 || c->text_width > 65536)
		return err_set(e, ERR_USAGE, "a text of %lld tokens of width %lld is out of range", (long long)c->text_tokens,
		               (long long)c->text_width);
	if (c->classes)
		return err_set(e, ERR_USAGE, "a network that reads texts cannot have classes, and %lld were requested", (long long)c->classes);
	return 0;
}

int net_check(const struct net_config *c, struct err *e)
{
	if (c->channels < 1 || c->channels > 4096 || c->size < 1 || c->size > 65536)
		return err_set(e, ERR_USAGE, "a network for %lld channels of %lld x %lld is out of range", (long long)c->channels, (long long)c->size,
		               (long long)c->size);
	if (c->frames && !net_takes_clips(c))
		return err_set(
		    e, ERR_USAGE,
		    "a %s network is for pictures, and these samples are clips of %lld frames; use a preset such as vdit-nano/1x4 or unet-nano",
		    net_name(c), (long long)c->frames);
	if (c->first_frame && (!c->frames || !net_may_read(c, NET_IN_FIRST)))
		return err_set(e, ERR_USAGE, "a %s network for %s reads no first frame; --first-frame is for networks for clips", net_name(c),
		               c->frames ? "clips" : "pictures");
	if (!(c->frame_dropout >= 0 && c->frame_dropout < 1))
		return err_set(e, ERR_USAGE, "a first frame that is withheld with probability %g is out of range; expected 0 to below 1",
		               c->frame_dropout);
	if (c->def->check && c->def->check(c, e))
		return -1;
	if (c->classes < 0 || c->classes > 10000000 || !(c->class_dropout >= 0 && c->class_dropout < 1))
		return err_set(e, ERR_USAGE, "%lld classes with dropout %g are out of range", (long long)c->classes, c->class_dropout);
	if (!(c->dropout >= 0 && c->dropout < 1))
		return err_set(e, ERR_USAGE, "a dropout of %g is out of range; expected 0 to below 1", c->dropout);
	if (c->dropout > 0 && !net_has_dropout(c))
		return err_set(e, ERR_USAGE, "a %s network has no dropout", net_name(c));
	if (net_is_classifier(c) && (c->clusters < 1 || c->clusters > 100000))
		return err_set(e, ERR_USAGE, "a router for %lld clusters is out of range", (long long)c->clusters);
	if (!net_is_classifier(c) && c->out_channels != c->channels && c->out_channels != 2 * c->channels)
		return err_set(e, ERR_USAGE, "%lld output channels for %lld input channels", (long long)c->out_channels, (long long)c->channels);
	return check_text(c, e);
}

int net_check_noise(const struct net_config *c, struct err *e)
{
	return c->def->check_noise ? c->def->check_noise(c, e) : 0;
}

/* ---- config.json ---- */

/* Append the classes of diffusers that are supported: "DiTTransformer2DModel, PixArtTransformer2DModel". */
static void list_classes(struct str *s)
{
	const struct net_def *def;

	for (int i = 0; (def = net_def_at(i)); i++)
		if (def->diffusers)
			str_printf(s, "%s%s", s->len ? ", " : "", def->diffusers->class);
}

static const struct net_def *find_class(const char *class, const char *norm_type)
{
	const struct net_def *def, *found = NULL;

	for (int i = 0; (def = net_def_at(i)); i++) {
		const struct net_diffusers *d = def->diffusers;

		if (d && !strcmp(d->class, class))
			return def;
		if (d && d->norm_type && norm_type && !strcmp(d->norm_type, norm_type))
			found = def;
	}
	return found;
}

/* Parse a config.json of diffusers: a class of the table, or Transformer2DModel with the norm_type of one. diffusers' DiT differs from the published
 * one in the frequencies of the time embedding and in an epsilon; the configuration keeps its values. */
static int parse_diffusers(const json_t *o, const char *where, struct net_config *c, struct err *e)
{
	const char *class = NULL, *norm = NULL;
	const struct net_def *def;
	struct str all = {0};

	if (jsonio_str(o, "_class_name", 1, &class, where, e) || jsonio_str(o, "norm_type", 0, &norm, where, e))
		return -1;
	if ((def = find_class(class, norm))) {
		net_init(c, def);
		return def->diffusers->parse(o, where, c, e);
	}
	list_classes(&all);
	err_set(e, ERR_DATA, "%s: class %s is not one this program knows (%s)", where, class, str_text(&all));
	str_release(&all);
	return -1;
}

static int parse_ours(const json_t *o, const char *where, struct net_config *c, struct err *e)
{
	const char *type = NULL;
	const struct net_def *def;
	struct str all = {0};

	if (jsonio_str(o, "model_type", 1, &type, where, e))
		return -1;
	if (!(def = net_find(type))) {
		for (int i = 0; i < NET_COUNT(defs) && defs[i]->record; i++)
			str_printf(&all, "%s%s", i ? ", " : "", defs[i]->name);
		err_set(e, ERR_DATA, "%s: model_type \"%s\" is not one this program knows (%s)", where, type, str_text(&all));
		str_release(&all);
		return -1;
	}
	net_init(c, def);
	return net_read_fields(o, where, c, e);
}

int net_from_json(const json_t *o, const char *where, struct net_config *c, struct err *e)
{
	memset(c, 0, sizeof *c);
	if (diffusers_config(o) ? parse_diffusers(o, where, c, e) : parse_ours(o, where, c, e))
		return -1;
	if (!net_is_classifier(c) && !c->out_channels)
		c->out_channels = c->channels;
	if (net_check(c, e)) {
		if (e)
			e->code = ERR_DATA;
		return err_prefix(e, "%s", where);
	}
	return 0;
}

/* ---- recording ---- */

/* x (B, F, C, S, S) with the plane and the channels of `first` behind its own, at frame 0; zeros at the others: (B, F, 2 C + 1, S, S). */
static struct tensor *with_first(struct tape *t, const struct net_config *c, const struct net_input *in)
{
	int64_t b = in->x->shape[0], n = c->channels + 1, one[5] = {b, 1, n, c->size, c->size}, all[5] = {b, c->frames, n, c->size, c->size};
	int64_t frames[4] = {c->frames, 1, 1, 1};
	double *at_first = mem_zalloc((size_t)c->frames, sizeof *at_first);
	struct tensor *both[2] = {in->x};

	at_first[0] = 1;
	both[1] = op_mul(t, op_expand(t, op_reshape(t, in->first, 5, one), all), tape_constant(t, 4, frames, at_first));
	mem_free(at_first);
	return op_concat(t, 2, 2, both);
}

struct tensor *net_record(struct tape *t, struct params *p, const struct net_config *c, const struct net_input *in)
{
	struct net_input joined = *in;

	if (c->first_frame)
		joined.x = with_first(t, c, in);
	return c->def->record(t, p, c, &joined);
}

static struct tape *record_one(const struct net_config *c, struct params *p)
{
	struct tape *t = tape_new(DT_F32, 1);
	struct net_input in = {0};

	net_inputs(t, c, &in);
	net_record(t, p, c, &in);
	params_layout(p);
	return t;
}

double net_measure(const struct net_config *c, struct params *p)
{
	struct tape *t = record_one(c, p);
	double flops = tape_flops(t, 1, 0, tape_mark(t));

	tape_free(t);
	return flops;
}

void net_params(const struct net_config *c, struct params *p)
{
	net_measure(c, p);
}
