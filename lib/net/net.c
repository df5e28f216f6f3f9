/* The table of architectures: names, presets, configurations, and which function records each. */
#include "net/net.h"

#include <math.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/meant.h"
#include "core/str.h"
#include "net/diffusers.h"
#include "net/dit.h"
#include "net/paris.h"
#include "net/pixart.h"
#include "net/router.h"

/* S to XL are those of the DiT paper; the smaller ones train in minutes on a CPU. */
static const struct {
	const char *name;
	int64_t hidden, depth, heads;
} presets[] = {
    {"nano", 96, 4, 4}, {"micro", 128, 6, 4}, {"mini", 192, 6, 6},  {"s", 384, 12, 6},
    {"b", 768, 12, 12}, {"l", 1024, 24, 16},  {"xl", 1152, 28, 16},
};

/* Of text experts the width and depth are named as DiT's. */
static const struct {
	const char *prefix;
	enum net_kind kind;
} families[] = {{"dit-", NET_DIT}, {"paris-", NET_PARIS}, {"pixart-", NET_PIXART}};

static int preset_named(const char *name, const char *prefix, struct net_config *c)
{
	const char *slash = strchr(name, '/');
	size_t skip = strlen(prefix), len = slash && !strncmp(name, prefix, skip) ? (size_t)(slash - name) - skip : 0;
	int64_t patch;

	for (size_t i = 0; len && i < sizeof presets / sizeof *presets; i++) {
		if (strlen(presets[i].name) != len || memcmp(presets[i].name, name + skip, len) || parse_i64(slash + 1, 1, 64, &patch))
			continue;
		c->patch = patch;
		c->hidden = presets[i].hidden;
		c->depth = presets[i].depth;
		c->heads = presets[i].heads;
		c->mlp_ratio = 4;
		return 1;
	}
	return 0;
}

/* "; did you mean dit-mini/4": the nearest name, with the patch that was asked for; nothing where none is near. */
static void suggest_preset(struct str *s, const char *name, size_t nfamilies)
{
	enum { NAMES = sizeof presets / sizeof *presets };
	size_t len = strcspn(name, "/");
	char *base = str_new("%.*s", (int)len, name);
	const char *words[3 * NAMES + 1] = {0}, *near;
	int n = 0;

	for (size_t f = 0; f < nfamilies; f++)
		for (size_t i = 0; i < NAMES; i++)
			words[n++] = str_new("%s%s", families[f].prefix, presets[i].name);
	near = word_nearest(base, words);
	if (near)
		str_printf(s, "; did you mean %s%s", near, name[len] && strcmp(near, base) ? name + len : "/4");
	while (n)
		mem_free((char *)words[--n]);
	mem_free(base);
}

int net_preset(const char *name, struct net_config *c, struct err *e)
{
	size_t n = c->kind == NET_ROUTER ? 1 : sizeof families / sizeof *families;
	struct str all = {0}, meant = {0};

	for (size_t i = 0; i < n; i++)
		if (preset_named(name, families[i].prefix, c)) {
			c->kind = c->kind == NET_ROUTER ? NET_ROUTER : families[i].kind;
			return 0;
		}
	for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
		str_printf(&all, " dit-%s/P", presets[i].name);
	if (n > 1)
		str_puts(&all, ", the same as paris- and pixart-,");
	suggest_preset(&meant, name, n);
	err_set(e, ERR_USAGE, "no network is called %s; there are%s with a patch size P of 1 to 64%s", name, str_text(&all), str_text(&meant));
	str_release(&all);
	str_release(&meant);
	return -1;
}

int net_reads_text(enum net_kind kind)
{
	return kind == NET_PARIS || kind == NET_PIXART;
}

void net_micro(const struct net_config *c, int64_t n, float *out)
{
	for (int64_t i = 0; i < n; i++) {
		out[NET_MICRO * i] = out[NET_MICRO * i + 1] = (float)(8 * c->size);
		out[NET_MICRO * i + 2] = 1;
	}
}

static int check_text(const struct net_config *c, struct err *e)
{
	if (!net_reads_text(c->kind))
		return 0;
	if (c->text_tokens < 1 || c->text_tokens > 65536 || c->text_width < 1 || c->text_width > 65536)
		return err_set(e, ERR_USAGE, "a text of %lld tokens of width %lld is out of range", (long long)c->text_tokens,
		               (long long)c->text_width);
	if (c->classes)
		return err_set(e, ERR_USAGE, "a network that reads texts has no classes here, and %lld were asked for", (long long)c->classes);
	if (c->micro && (c->kind != NET_PIXART || c->hidden % 3))
		return err_set(e, ERR_USAGE, "size and aspect ratio are for a PixArt network of a width that is a multiple of 3");
	return 0;
}

int net_check(const struct net_config *c, struct err *e)
{
	if (c->channels < 1 || c->channels > 4096 || c->size < 1 || c->size > 65536)
		return err_set(e, ERR_USAGE, "a network for %lld channels of %lld x %lld is out of range", (long long)c->channels,
		               (long long)c->size, (long long)c->size);
	if (c->patch < 1 || c->size % c->patch)
		return err_set(e, ERR_USAGE, "patch %lld does not divide the size %lld", (long long)c->patch, (long long)c->size);
	if (c->hidden < 4 || c->hidden > 65536 || c->hidden % 4)
		return err_set(e, ERR_USAGE, "hidden width %lld is not a multiple of 4 in 4..65536", (long long)c->hidden);
	if (c->heads < 1 || c->hidden % c->heads)
		return err_set(e, ERR_USAGE, "%lld heads do not divide the hidden width %lld", (long long)c->heads,
		               (long long)c->hidden);
	if (c->depth < 1 || c->depth > 1000)
		return err_set(e, ERR_USAGE, "depth %lld is not in 1..1000", (long long)c->depth);
	if (!(c->mlp_ratio <= 64 && (double)c->hidden * c->mlp_ratio >= 1))
		return err_set(e, ERR_USAGE, "mlp_ratio %g of a width of %lld is not in 1/width..64", c->mlp_ratio, (long long)c->hidden);
	if (c->classes < 0 || c->classes > 10000000 || !(c->class_dropout >= 0 && c->class_dropout < 1))
		return err_set(e, ERR_USAGE, "%lld classes with dropout %g are out of range", (long long)c->classes,
		               c->class_dropout);
	if (c->kind == NET_ROUTER && (c->clusters < 1 || c->clusters > 100000))
		return err_set(e, ERR_USAGE, "a router for %lld clusters is out of range", (long long)c->clusters);
	if (c->reversed && c->kind != NET_DIT)
		return err_set(e, ERR_USAGE, "reversed time is for a DiT");
	if (c->kind != NET_ROUTER && c->out_channels != c->channels && c->out_channels != 2 * c->channels)
		return err_set(e, ERR_USAGE, "%lld output channels for %lld input channels", (long long)c->out_channels,
		               (long long)c->channels);
	return check_text(c, e);
}

/* One list of the whole-number fields serves reading, writing and comparing. The other names are those the released Paris networks
 * are described with. */
static const struct {
	const char *key, *other;
	size_t at;
	int required;
} fields[] = {
    {"in_channels", NULL, offsetof(struct net_config, channels), 1},
    {"out_channels", NULL, offsetof(struct net_config, out_channels), 0},
    {"sample_size", "latent_size", offsetof(struct net_config, size), 1},
    {"patch_size", "patch", offsetof(struct net_config, patch), 1},
    {"hidden_size", "hidden", offsetof(struct net_config, hidden), 1},
    {"num_layers", "layers", offsetof(struct net_config, depth), 1},
    {"num_attention_heads", "heads", offsetof(struct net_config, heads), 1},
    {"num_classes", NULL, offsetof(struct net_config, classes), 0},
    {"num_clusters", NULL, offsetof(struct net_config, clusters), 0},
    {"text_tokens", "max_text_length", offsetof(struct net_config, text_tokens), 0},
    {"text_embed_dim", "text_width", offsetof(struct net_config, text_width), 0},
    {"learned_positions", NULL, offsetof(struct net_config, learned_positions), 0},
    {"time_reversed", NULL, offsetof(struct net_config, reversed), 0},
    {"micro_conditions", NULL, offsetof(struct net_config, micro), 0},
};

/* And one of the others; those that are 0 are not written. */
static const struct {
	const char *key;
	size_t at;
	double lo, hi;
} reals[] = {
    {"norm_eps", offsetof(struct net_config, norm_eps), 1e-12, 1},
    {"norm2_eps", offsetof(struct net_config, norm2_eps), 1e-12, 1},
    {"time_frequency_shift", offsetof(struct net_config, time_shift), 0, 64},
    {"position_scale", offsetof(struct net_config, position_scale), 1e-6, 1e6},
};

static const char *const kinds[] = {[NET_DIT] = "dit", [NET_ROUTER] = "router", [NET_PARIS] = "dit_expert", [NET_PIXART] = "pixart"};

const char *net_kind_name(enum net_kind kind)
{
	return kinds[kind];
}

static int64_t *field(const struct net_config *c, size_t i)
{
	return (int64_t *)((char *)c + fields[i].at);
}

static double *real_field(const struct net_config *c, size_t i)
{
	return (double *)((char *)c + reals[i].at);
}

enum { PARIS_FLAGS = 3 };
static const char *const paris_flags[PARIS_FLAGS] = {"use_text_conditioning", "use_adaln_single", "use_dit_time_embed"};

/* What a file of the released Paris networks leaves out, and what it says that must hold. */
static int paris_facts(const json_t *o, const char *where, struct net_config *c, struct err *e)
{
	int flag;

	for (int i = 0; i < PARIS_FLAGS; i++) {
		flag = 1;
		if (jsonio_bool(o, paris_flags[i], 0, &flag, where, e))
			return -1;
		if (!flag)
			return err_set(e, ERR_DATA, "%s: an expert without %s is not known here", where, paris_flags[i]);
	}
	flag = 0;
	if (jsonio_bool(o, "use_class_conditioning", 0, &flag, where, e))
		return -1;
	if (flag)
		return err_set(e, ERR_DATA, "%s: an expert with use_class_conditioning is not known here", where);
	c->classes = 0; /* num_classes is there even so */
	c->text_tokens = c->text_tokens ? c->text_tokens : 77;
	c->text_width = c->text_width ? c->text_width : 768;
	c->norm_eps = 1e-5;
	return jsonio_f64(o, "cfg_dropout_prob", 0, 0, 1, &c->class_dropout, where, e);
}

static int read_fields(const json_t *o, const char *where, struct net_config *c, struct err *e)
{
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		int other = fields[i].other && !json_object_get(o, fields[i].key) && json_object_get(o, fields[i].other);
		int sized = c->kind == NET_DIT || c->kind == NET_PIXART || field(c, i) != &c->size;

		if (jsonio_i64(o, other ? fields[i].other : fields[i].key, fields[i].required && sized, 0, INT32_MAX, field(c, i), where, e))
			return -1;
	}
	return 0;
}

static int parse_ours(const json_t *o, const char *where, struct net_config *c, struct err *e)
{
	const char *type = NULL;
	size_t kind = 0;

	if (jsonio_str(o, "model_type", 1, &type, where, e))
		return -1;
	while (kind < sizeof kinds / sizeof *kinds && strcmp(type, kinds[kind]))
		kind++;
	if (kind == sizeof kinds / sizeof *kinds)
		return err_set(e, ERR_DATA, "%s: model_type \"%s\" is not one this program knows (dit, router, dit_expert, pixart)", where, type);
	c->kind = (enum net_kind)kind;
	c->size = kind == NET_ROUTER || kind == NET_PARIS ? 32 : 0; /* which the released configurations do not tell */
	if (read_fields(o, where, c, e) || (kind == NET_PARIS && paris_facts(o, where, c, e)))
		return -1;
	if (jsonio_f64(o, "mlp_ratio", 0, 0, 64, &c->mlp_ratio, where, e) ||
	    jsonio_f64(o, "class_dropout_prob", 0, 0, 1, &c->class_dropout, where, e) ||
	    jsonio_f64(o, "time_scale", 0, 1e-6, 1e6, &c->time_scale, where, e))
		return -1;
	for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
		if (jsonio_f64(o, reals[i].key, 0, reals[i].lo, reals[i].hi, real_field(c, i), where, e))
			return -1;
	return 0;
}

int net_from_json(const json_t *o, const char *where, struct net_config *c, struct err *e)
{
	memset(c, 0, sizeof *c);
	c->mlp_ratio = 4;
	c->time_scale = 1000;
	if (diffusers_config(o) ? diffusers_parse(o, where, c, e) : parse_ours(o, where, c, e))
		return -1;
	if (c->kind != NET_ROUTER && !c->out_channels)
		c->out_channels = c->channels;
	if (net_check(c, e)) {
		if (e)
			e->code = ERR_DATA;
		return err_prefix(e, "%s", where);
	}
	return 0;
}

void net_to_json(const struct net_config *c, json_t *o)
{
	json_object_set_new(o, "model_type", json_string(kinds[c->kind]));
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		if (fields[i].required || *field(c, i))
			json_object_set_new(o, fields[i].key, json_integer(*field(c, i)));
	json_object_set_new(o, "mlp_ratio", json_real(c->mlp_ratio));
	if (c->classes || (net_reads_text(c->kind) && c->class_dropout > 0))
		json_object_set_new(o, c->kind == NET_PARIS ? "cfg_dropout_prob" : "class_dropout_prob", json_real(c->class_dropout));
	for (int i = 0; i < PARIS_FLAGS && c->kind == NET_PARIS; i++)
		json_object_set_new(o, paris_flags[i], json_true());
	if (c->kind == NET_PARIS)
		json_object_set_new(o, "use_class_conditioning", json_false());
	json_object_set_new(o, "time_scale", json_real(c->time_scale));
	for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
		if (*real_field(c, i) > 0)
			json_object_set_new(o, reals[i].key, json_real(*real_field(c, i)));
}

const char *net_differs(const struct net_config *a, const struct net_config *b)
{
	if (a->kind != b->kind)
		return "model_type";
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		if (*field(a, i) != *field(b, i))
			return fields[i].key;
	for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
		if (*real_field(a, i) != *real_field(b, i))
			return reals[i].key;
	if (a->mlp_ratio != b->mlp_ratio)
		return "mlp_ratio";
	if (a->class_dropout != b->class_dropout)
		return "class_dropout_prob";
	return a->time_scale != b->time_scale ? "time_scale" : NULL;
}

void net_text_inputs(struct tape *t, const struct net_config *c, struct net_input *in)
{
	int64_t b = tape_capacity(t), text[3] = {b, c->text_tokens, c->text_width}, micro[2] = {b, 3};
	enum dtype real = tape_real(t);

	*in = (struct net_input){0};
	if (net_reads_text(c->kind))
		in->text = tape_input(t, real, 3, text, TAPE_BATCHED);
	if (c->kind == NET_PIXART)
		in->mask = tape_input(t, real, 2, text, TAPE_BATCHED);
	if (c->micro)
		in->micro = tape_input(t, real, 2, micro, TAPE_BATCHED);
}

void net_inputs(struct tape *t, const struct net_config *c, struct net_input *in)
{
	int64_t b = tape_capacity(t), x[4] = {b, c->channels, c->size, c->size};
	enum dtype real = tape_real(t);

	net_text_inputs(t, c, in);
	in->x = tape_input(t, real, 4, x, TAPE_BATCHED);
	in->time = tape_input(t, real, 1, x, TAPE_BATCHED);
	if (c->kind != NET_ROUTER && c->classes)
		in->label = tape_input(t, DT_I32, 1, x, TAPE_BATCHED);
}

struct tensor *net_record(struct tape *t, struct params *p, const struct net_config *c, const struct net_input *in)
{
	switch (c->kind) {
	case NET_ROUTER:
		return router_record(t, p, c, in->x, in->time);
	case NET_PARIS:
		return paris_record(t, p, c, in);
	case NET_PIXART:
		return pixart_record(t, p, c, in);
	default:
		return dit_record(t, p, c, in->x, in->time, in->label);
	}
}

static struct tape *record_one(const struct net_config *c, struct params *p)
{
	struct tape *t = tape_new(DT_F32, 1);
	struct net_input in;

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

double net_flops(const struct net_config *c)
{
	struct params p = {0};
	double flops = net_measure(c, &p);

	params_release(&p);
	return flops;
}
