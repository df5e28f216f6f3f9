/* The configuration that DiT and its relatives share: presets, checks, and reading it from diffusers' config.json. */
#include "net/trunkconfig.h"

#include "core/jsonio.h"
#include "net/diffusers.h"
#include "net/patches.h"

/* S to XL are the sizes of the DiT paper; the smaller ones train in minutes on a CPU. */
static const struct {
	int64_t hidden, depth, heads;
} sizes[] = {{96, 4, 4}, {128, 6, 4}, {192, 6, 6}, {384, 12, 6}, {768, 12, 12}, {1024, 24, 16}, {1152, 28, 16}};
static const char *const names[] = {"nano", "micro", "mini", "s", "b", "l", "xl", NULL};

static int apply(struct net_config *c, const char *text)
{
	struct trunk_config *t = trunk_edit(c);
	int i = patches_preset(names, text, &t->patch);

	if (i < 0)
		return 0;
	t->hidden = sizes[i].hidden;
	t->depth = sizes[i].depth;
	t->heads = sizes[i].heads;
	t->mlp_ratio = 4;
	return 1;
}

const struct net_presets trunk_presets = {.names = names, .tail = PATCHES_TAIL, .example = "/4", .note = PATCHES_NOTE, .apply = apply};

int trunk_check(const struct net_config *c, struct err *e)
{
	const struct trunk_config *t = trunk_config(c);

	if (patches_check(c, t->patch, e) || patches_check_shape(t->hidden, t->heads, t->depth, e))
		return -1;
	if (!(t->mlp_ratio <= 64 && (double)t->hidden * t->mlp_ratio >= 1))
		return err_set(e, ERR_USAGE, "mlp_ratio %g of a width of %lld is not in 1/width..64", t->mlp_ratio, (long long)t->hidden);
	return 0;
}

int trunk_check_noise(const struct net_config *c, struct err *e)
{
	const struct trunk_config *t = trunk_config(c);

	return patches_check_noise(t->patch * t->patch * c->channels, t->hidden, e);
}

int trunk_from_diffusers(const json_t *o, const char *where, const char *norm_type, struct net_config *c, struct err *e)
{
	struct trunk_config *t = trunk_edit(c);
	int64_t width = 72;

	t->heads = 16;
	c->channels = 4;
	t->depth = 28;
	t->patch = 2;
	if (diffusers_expect(o, "norm_type", norm_type, where, e) || diffusers_expect(o, "activation_fn", "gelu-approximate", where, e) ||
	    jsonio_i64(o, "num_attention_heads", 0, 1, 1 << 16, &t->heads, where, e) ||
	    jsonio_i64(o, "attention_head_dim", 0, 1, 1 << 16, &width, where, e) ||
	    jsonio_i64(o, "in_channels", 0, 1, 1 << 16, &c->channels, where, e) || jsonio_i64(o, "num_layers", 0, 1, 1000, &t->depth, where, e) ||
	    jsonio_i64(o, "sample_size", 0, 1, 1 << 16, &c->size, where, e) || jsonio_i64(o, "patch_size", 0, 1, 1 << 16, &t->patch, where, e))
		return -1;
	if (json_is_integer(json_object_get(o, "out_channels")))
		c->out_channels = json_integer_value(json_object_get(o, "out_channels"));
	t->hidden = t->heads * width;
	return 0;
}
