/* The router of the released Paris ensemble: DiT's blocks with a class token and K logits, under the released router's tensor names. Of a clip it
 * reads all frames as the channels of one picture. */
#include "net/trunk.h"
#include "net/trunkconfig.h"
#include "tape/ops.h"

/* The last layer. */
#define HEAD "head.4"

static const struct trunk_names paris_names = {
    TRUNK_PARIS_NAMES,
    .modulation = "adaLN_modulation.1",
};

static struct tensor *with_class_token(const struct trunk *k, struct tensor *tokens)
{
	int64_t shape[3] = {1, 1, k->c->hidden};
	struct tensor *both[2] = {op_repeat(k->l.t, layer_param_init(&k->l, "cls_token", 3, shape, 0, init_small)), tokens};

	return tape_float(k->l.t, op_concat(k->l.t, 1, 2, both));
}

/* Linear, GELU, LayerNorm, GELU, Linear on the class token: logits (B, clusters). */
static struct tensor *head(const struct trunk *k, struct tensor *tokens)
{
	int64_t h = k->c->hidden, flat[2] = {tokens->shape[0], h};
	struct tensor *x = op_reshape(k->l.t, op_slice(k->l.t, tokens, 1, 0, 1), 2, flat), *w, *b;

	x = layer_linear(&k->l, x, "head.0", &(struct linear){.out = h, .act = UNARY_GELU_TANH + 1, .edge = 1, .init = init_xavier(h, h)});
	w = layer_param_init(&k->l, "head.2.weight", 1, &h, 0, init_one);
	b = layer_param_init(&k->l, "head.2.bias", 1, &h, 0, init_zero);
	x = op_unary(k->l.t, op_norm(k->l.t, x, w, b, NORM_LAYER, 1e-5, 0), UNARY_GELU_TANH);
	return layer_linear(&k->l, x, HEAD, &(struct linear){.out = k->net->clusters, .edge = 1, .init = init_zero});
}

static struct tensor *record(struct tape *t, struct params *p, const struct net_config *c, const struct net_input *in)
{
	struct trunk k = {.l = {.t = t, .p = p}, .net = c, .c = trunk_config(c), .names = &paris_names};
	int64_t picture[4] = {in->x->shape[0], net_sample_elements(c) / (c->size * c->size), c->size, c->size};
	struct tensor *tokens = with_class_token(&k, trunk_tokens(&k, op_reshape(t, in->x, 4, picture)));
	struct tensor *act = tape_float_grad(t, op_unary(t, trunk_time(&k, in->time), UNARY_SILU));

	for (int64_t i = 0; i < k.c->depth; i++)
		tokens = trunk_block(&k, i, tokens, act);
	return head(&k, tokens);
}

static const struct net_field fields[] = {
    NET_PICTURE_FIELDS(32), NET_FRAMES_FIELD,       TRUNK_SHAPE_FIELDS, NET_CLASS_FIELDS,
    NET_CLUSTER_FIELDS,     TRUNK_POSITION_FIELD,   TRUNK_MLP_FIELD,    NET_DROPOUT_FIELD("class_dropout_prob", NULL),
    NET_TIME_FIELD,         TRUNK_NUMBER_FIELDS(0),
};
static const struct net_reads inputs[] = {NET_READS_X, NET_READS_TIME};

const struct net_def net_router = {
    .name = "router",
    .role = NET_CLASSIFIER,
    TRUNK_DEF,
    .modulation = NET_MODULATION_EACH,
    .check = trunk_check,
    .head = HEAD,
    .prefix = "dit-",
    .prediction = "",
};
