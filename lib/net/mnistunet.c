/* The small U-Net of BrianPulfer/PapersReimplementations (src/cv/ddpm/models.py), the network of published DDPMs of MNIST. Its blocks have a norm
 * over whole feature maps and no residual. It has a table of times and transposed convolutions. */
#include "net/layers.h"
#include "net/netdef.h"

enum { STEPS = 1000, WIDTH = 100, SILU = UNARY_SILU + 1 };

struct unet {
	struct layers l;
	struct tensor *time; /* (B, WIDTH) */
};

static const struct padding around = {1, 1, 1, 1}, none;

static void steps(float *out, const int64_t *shape, double scale)
{
	for (int64_t i = 0; i < shape[1]; i++)
		out[i] = (float)(scale * (double)i);
}

/* The row of the table of times that is nearest to the step: softmax over k of -1e4 (k - step)^2 is exactly 1 there and exactly 0 elsewhere. */
static struct tensor *time_row(const struct layers *l, const struct net_config *c, struct tensor *time)
{
	int64_t row[2] = {1, STEPS}, table[2] = {STEPS, WIDTH}, column[2] = {time->shape[0], 1};
	struct tensor *k =
	    op_repeat(l->t, layer_param_init(l, "steps", 2, row, PARAM_FROZEN, (struct init){.kind = INIT_FILL, .a = 1, .fill = steps}));
	struct tensor *far = op_axpby(l->t, 1, k, -c->time_scale, op_reshape(l->t, time, 2, column));
	struct tensor *one = op_softmax(l->t, op_scale(l->t, op_unary(l->t, far, UNARY_SQUARE), -1e4));

	return op_matmul(l->t, one, 0, layer_param_init(l, "time_embed.weight", 2, table, PARAM_FROZEN, init_small), 0, 1);
}

static struct tensor *conv(const struct layers *l, struct tensor *x, const char *name, int64_t out, int64_t k, int64_t stride, struct padding pad,
                           int act)
{
	struct init init = init_xavier(k * k * x->shape[3], k * k * out);

	return layer_conv(l, x, name, &(struct conv){.out = out, .kh = k, .stride = stride, .pad = pad, .act = act, .init = init});
}

/* Put a zero after each pixel in both directions: (B, 2H, 2W, C). */
static struct tensor *spread(struct tape *t, struct tensor *x)
{
	int64_t b = x->shape[0], h = x->shape[1], w = x->shape[2], c = x->shape[3], apart[6] = {b, h, 1, w, 1, c}, whole[4] = {b, 2 * h, 2 * w, c};
	struct tensor *rows[2], *cols[2];

	rows[0] = op_reshape(t, x, 6, apart);
	rows[1] = op_scale(t, rows[0], 0);
	cols[0] = op_concat(t, 2, 2, rows);
	cols[1] = op_scale(t, cols[0], 0);
	return op_reshape(t, op_concat(t, 4, 2, cols), 4, whole);
}

/* A transposed convolution of 4 x 4 with stride 2 and padding 1, as a convolution of the spread pixels. */
static struct tensor *up(const struct layers *l, struct tensor *x, const char *name, int act)
{
	return conv(l, spread(l->t, x), name, x->shape[3], 4, 1, (struct padding){2, 2, 1, 1}, act);
}

/* A norm over all values of a sample. Its weights are (C, H, W). */
static struct tensor *whole_norm(const struct layers *l, struct tensor *x)
{
	static const int last[3] = {1, 2, 0};
	int64_t shape[3] = {x->shape[3], x->shape[1], x->shape[2]}, n = shape[0] * shape[1] * shape[2], flat[2] = {x->shape[0], n};
	struct tensor *w = layer_param_init(l, "ln.weight", 3, shape, 0, init_one), *b = layer_param(l, "ln.bias", 3, shape);

	w = op_reshape(l->t, op_copy(l->t, op_permute(l->t, w, last)), 1, &n);
	b = op_reshape(l->t, op_copy(l->t, op_permute(l->t, b, last)), 1, &n);
	return op_reshape(l->t, op_norm(l->t, op_reshape(l->t, x, 2, flat), w, b, NORM_LAYER, 1e-5, 0), 4, x->shape);
}

/* Three blocks, each norm, convolution, SiLU, convolution, SiLU. Block number `bare` has no norm; -1: all have one. */
static struct tensor *blocks(const struct unet *u, struct tensor *x, const char *name, int64_t first, int64_t second, int64_t third, int bare)
{
	const int64_t out[3] = {first, second, third};

	for (int i = 0; i < 3; i++) {
		struct layers l = layers_in(&u->l, "%s.%d.", name, i);

		x = i == bare ? x : whole_norm(&l, x);
		x = conv(&l, conv(&l, x, "conv1", out[i], 3, 1, around, SILU), "conv2", out[i], 3, 1, around, SILU);
	}
	return x;
}

/* x + Linear(SiLU(Linear(time))), which is the same for every pixel. */
static struct tensor *timed(const struct unet *u, struct tensor *x, const char *name)
{
	struct layers l = layers_in(&u->l, "%s.", name);
	int64_t c = x->shape[3], shape[4] = {x->shape[0], 1, 1, c};
	struct tensor *h = layer_linear(&l, u->time, "0", &(struct linear){.out = c, .act = SILU, .init = init_xavier(WIDTH, c)});

	h = layer_linear(&l, h, "2", &(struct linear){.out = c, .init = init_xavier(c, c)});
	return op_add(l.t, x, op_reshape(l.t, h, 4, shape));
}

static struct tensor *join(const struct unet *u, struct tensor *a, struct tensor *b)
{
	return op_concat(u->l.t, 3, 2, (struct tensor *[]){a, b});
}

static struct tensor *record(struct tape *t, struct params *p, const struct net_config *c, const struct net_input *in)
{
	struct unet u = {.l = {t, p, ""}};
	const struct layers *l = &u.l;
	struct tensor *x = channels_last(t, in->x), *a, *b, *d;

	u.time = time_row(l, c, in->time);
	a = blocks(&u, timed(&u, x, "te1"), "b1", 10, 10, 10, -1);
	b = blocks(&u, timed(&u, conv(l, a, "down1", 10, 4, 2, around, 0), "te2"), "b2", 20, 20, 20, -1);
	d = blocks(&u, timed(&u, conv(l, b, "down2", 20, 4, 2, around, 0), "te3"), "b3", 40, 40, 40, -1);
	x = conv(l, conv(l, d, "down3.0", 40, 2, 1, none, SILU), "down3.2", 40, 4, 2, around, 0);
	x = blocks(&u, timed(&u, x, "te_mid"), "b_mid", 20, 20, 40, -1);
	x = conv(l, up(l, x, "up1.0", SILU), "up1.2", 40, 2, 1, around, 0);
	x = blocks(&u, timed(&u, join(&u, d, x), "te4"), "b4", 40, 20, 20, -1);
	x = blocks(&u, timed(&u, join(&u, b, up(l, x, "up2", 0)), "te5"), "b5", 20, 10, 10, -1);
	x = blocks(&u, timed(&u, join(&u, a, up(l, x, "up3", 0)), "te_out"), "b_out", 10, 10, 10, 2);
	return channels_first(t, conv(l, x, "conv_out", c->out_channels, 3, 1, around, 0));
}

/* The size is halved twice, then a convolution of 2 x 2 reduces it by one, then it is halved again. */
static int check(const struct net_config *c, struct err *e)
{
	if (c->size % 8 != 4 || c->size < 12)
		return err_set(e, ERR_USAGE, "this U-Net takes pictures of 12, 20, 28, ... pixels, not of %lld", (long long)c->size);
	return 0;
}

static const struct net_field fields[] = {NET_PICTURE_FIELDS(28), NET_CLUSTER_FIELDS, NET_TIME_FIELD};
static const struct net_reads inputs[] = {NET_READS_X, NET_READS_TIME};

/* The author's files. They hold the last norm of b_out, which is not used. */
static const struct rename rules[] = {
    {"steps", {NULL}, RENAME_SAME},
    {"up#.weight", {"up#.weight"}, RENAME_CONV_TRANSPOSED},
    {"up#.#.weight", {"up#.#.weight"}, RENAME_CONV_TRANSPOSED},
};
static const char *const spare[] = {"b_out.2.ln.*", NULL};
static const struct renames author = {.sign = "te_mid.0.weight", .v = rules, .n = NET_COUNT(rules), .spare = spare, .prefix = "network."};
static const struct renames *const families[] = {&author, NULL};

const struct net_def net_mnist_unet = {
    .name = "mnist_unet",
    .role = NET_EXPERT,
    NET_TABLES(fields, inputs),
    .check = check,
    .record = record,
    .last = "conv_out.",
    .families = families,
};
