#include "net/net.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "net/dit.h"
#include "net/router.h"

/* S to XL are those of the DiT paper; the smaller ones train in minutes on a CPU. */
static const struct {
	const char *name;
	int64_t hidden, depth, heads;
} presets[] = {
    {"dit-nano", 96, 4, 4}, {"dit-micro", 128, 6, 4}, {"dit-mini", 192, 6, 6},  {"dit-s", 384, 12, 6},
    {"dit-b", 768, 12, 12}, {"dit-l", 1024, 24, 16},  {"dit-xl", 1152, 28, 16},
};

int net_preset(const char *name, struct net_config *c, struct err *e)
{
	const char *slash = strchr(name, '/');
	size_t len = slash ? (size_t)(slash - name) : strlen(name);
	int64_t patch;
	struct str all = {0};

	for (size_t i = 0; slash && i < sizeof presets / sizeof *presets; i++) {
		if (strlen(presets[i].name) != len || memcmp(presets[i].name, name, len) || parse_i64(slash + 1, 1, 64, &patch))
			continue;
		c->patch = patch;
		c->hidden = presets[i].hidden;
		c->depth = presets[i].depth;
		c->heads = presets[i].heads;
		c->mlp_ratio = 4;
		return 0;
	}
	for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
		str_printf(&all, " %s/P", presets[i].name);
	err_set(e, ERR_USAGE, "no network is called %s; there are%s with a patch size P of 1 to 64", name, str_text(&all));
	str_release(&all);
	return -1;
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
	if (c->kind == NET_DIT && c->out_channels != c->channels && c->out_channels != 2 * c->channels)
		return err_set(e, ERR_USAGE, "%lld output channels for %lld input channels", (long long)c->out_channels,
		               (long long)c->channels);
	return 0;
}

/* One list of the whole-number fields serves reading, writing and comparing. */
static const struct {
	const char *key;
	size_t at;
	int required;
} fields[] = {
    {"in_channels", offsetof(struct net_config, channels), 1},
    {"out_channels", offsetof(struct net_config, out_channels), 0},
    {"sample_size", offsetof(struct net_config, size), 1},
    {"patch_size", offsetof(struct net_config, patch), 1},
    {"hidden_size", offsetof(struct net_config, hidden), 1},
    {"num_layers", offsetof(struct net_config, depth), 1},
    {"num_attention_heads", offsetof(struct net_config, heads), 1},
    {"num_classes", offsetof(struct net_config, classes), 0},
    {"num_clusters", offsetof(struct net_config, clusters), 0},
};

static int64_t *field(const struct net_config *c, size_t i)
{
	return (int64_t *)((char *)c + fields[i].at);
}

int net_from_json(const json_t *o, const char *where, struct net_config *c, struct err *e)
{
	const char *type = NULL;

	memset(c, 0, sizeof *c);
	if (jsonio_str(o, "model_type", 1, &type, where, e))
		return -1;
	if (!strcmp(type, "dit"))
		c->kind = NET_DIT;
	else if (!strcmp(type, "router"))
		c->kind = NET_ROUTER;
	else
		return err_set(e, ERR_DATA, "%s: model_type \"%s\" is not one this program knows (dit, router)", where, type);
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		if (jsonio_i64(o, fields[i].key, fields[i].required, 0, INT32_MAX, field(c, i), where, e))
			return -1;
	c->mlp_ratio = 4;
	c->time_scale = 1000;
	if (jsonio_f64(o, "mlp_ratio", 0, 0, 64, &c->mlp_ratio, where, e) ||
	    jsonio_f64(o, "class_dropout_prob", 0, 0, 1, &c->class_dropout, where, e) ||
	    jsonio_f64(o, "time_scale", 0, 1e-6, 1e6, &c->time_scale, where, e))
		return -1;
	if (c->kind == NET_DIT && !c->out_channels)
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
	json_object_set_new(o, "model_type", json_string(c->kind == NET_DIT ? "dit" : "router"));
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		if (fields[i].required || *field(c, i))
			json_object_set_new(o, fields[i].key, json_integer(*field(c, i)));
	json_object_set_new(o, "mlp_ratio", json_real(c->mlp_ratio));
	if (c->classes)
		json_object_set_new(o, "class_dropout_prob", json_real(c->class_dropout));
	json_object_set_new(o, "time_scale", json_real(c->time_scale));
}

const char *net_differs(const struct net_config *a, const struct net_config *b)
{
	if (a->kind != b->kind)
		return "model_type";
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		if (*field(a, i) != *field(b, i))
			return fields[i].key;
	if (a->mlp_ratio != b->mlp_ratio)
		return "mlp_ratio";
	if (a->class_dropout != b->class_dropout)
		return "class_dropout_prob";
	return a->time_scale != b->time_scale ? "time_scale" : NULL;
}

struct tensor *net_record(struct tape *t, struct params *p, const struct net_config *c, struct tensor *x, struct tensor *time,
                          struct tensor *label)
{
	return c->kind == NET_ROUTER ? router_record(t, p, c, x, time) : dit_record(t, p, c, x, time, label);
}

static struct tape *record_one(const struct net_config *c, struct params *p)
{
	struct tape *t = tape_new(DT_F32, 1);
	int64_t shape[4] = {1, c->channels, c->size, c->size};
	struct tensor *x = tape_input(t, DT_F32, 4, shape, TAPE_BATCHED), *time = tape_input(t, DT_F32, 1, shape, TAPE_BATCHED);
	struct tensor *label = c->kind == NET_DIT && c->classes ? tape_input(t, DT_I32, 1, shape, TAPE_BATCHED) : NULL;

	net_record(t, p, c, x, time, label);
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
