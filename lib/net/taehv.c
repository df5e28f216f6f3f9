/* TAEHV: finds its file, infers the configuration from the tensors, and records the two halves for a few frames of latents at a time.
 *
 * Frames are (T, H, W, C) tensors; all layers but three work on each frame alone. A memory block also reads the frame before each, its own input,
 * which it keeps as a state for the next run. A pool joins consecutive frames, and its counterpart in the decoder makes several of one. */
#include "net/taehv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/weightfile.h"

enum { RELU = UNARY_RELU + 1, STAGES = 3, BLOCKS = 3 };
/* The numbers of the layers. A stage of the encoder: pool, convolution, blocks. Of the decoder: blocks, upsampling, growth in time, convolution. */
enum { ENCODER_STAGE = 2, ENCODER_STEP = 5, ENCODER_LAST = 17, DECODER_STAGE = 3, DECODER_STEP = 6, DECODER_LAST = 22 };
/* A stage of a super decoder: blocks, convolution, ReLU, pixel shuffle, growth in time. */
enum { SUPER_STAGE = 1, SUPER_STEP = 7, SUPER_SIDE = 7 };

/* ---- finding ---- */

static const char *const ends[] = {".safetensors", ".pth"};

static int is_weights(const char *name)
{
	return str_ends(name, ends[0]) || str_ends(name, ends[1]);
}

static int is_taehv(const char *path)
{
	struct weightfile *w = weightfile_open(path, NULL, NULL);
	int is = w && weightfile_find(w, "encoder.2.conv.weight") >= 0 && weightfile_find(w, "encoder.4.conv.0.weight") >= 0;

	weightfile_free(w);
	return is;
}

/* The number of such files in a folder, counted up to 2, and the paths of these (or NULL). Caller frees both. */
static int files_in(const char *dir, char *path[2])
{
	char **names;
	size_t n;
	int found = 0;

	path[0] = path[1] = NULL;
	if (path_holds(dir, "config.json") || dir_list(dir, &names, &n, NULL))
		return 0;
	for (size_t i = 0; i < n && found < 2; i++) {
		char *at = is_weights(names[i]) ? path_join(dir, names[i]) : NULL;

		if (at && is_taehv(at))
			path[found++] = at;
		else
			mem_free(at);
	}
	names_free(names, n);
	return found;
}

int taehv_is(const char *at)
{
	char *path[2];
	int n;

	if (is_weights(at))
		return is_taehv(at);
	n = files_in(at, path);
	mem_free(path[0]);
	mem_free(path[1]);
	return n > 0;
}

char *taehv_file(const char *at, struct err *e)
{
	char *path[2];
	int n;

	if (is_weights(at))
		return mem_strdup(at);
	n = files_in(at, path);
	if (n == 1)
		return path[0];
	if (n)
		err_set(e, ERR_USAGE, "%s: holds the autoencoders %s and %s, and perhaps more: name one of the files", at, path[0], path[1]);
	else
		err_set(e, ERR_NOINPUT, "%s: holds no autoencoder for clips", at);
	mem_free(path[0]);
	mem_free(path[1]);
	return NULL;
}

/* ---- configuration ---- */

/* Dimension d of the 4-dimensional tensor HALF.AT.REST; 0 if there is none. */
static int64_t size_of(const struct weightfile *w, const char *half, int at, const char *rest, int d)
{
	char name[64];
	int i;

	snprintf(name, sizeof name, "%s.%d.%s", half, at, rest);
	i = weightfile_find(w, name);
	return i < 0 || weightfile_get(w, i)->rank != 4 ? 0 : weightfile_get(w, i)->shape[d];
}

/* rows / width if that is a whole number of frames in 1 .. 4, else 0. */
static int64_t frames_of(int64_t rows, int64_t width)
{
	int64_t n = width ? rows / width : 0;

	return n >= 1 && n <= 4 && n * width == rows ? n : 0;
}

static int read_layers(const struct weightfile *w, struct autoencoder_config *c)
{
	int64_t in = size_of(w, "encoder", 0, "weight", 1), out = size_of(w, "decoder", DECODER_LAST, "weight", 0), good;
	int64_t down = 1, up = 1;

	c->patch = (int64_t)lround(sqrt((double)in / 3));
	c->width[0] = size_of(w, "encoder", 0, "weight", 0);
	c->latent_channels = size_of(w, "encoder", ENCODER_LAST, "weight", 0);
	good = in == 3 * c->patch * c->patch && in == out && c->patch >= 1 && c->patch <= 8 && c->width[0] >= 1 && c->width[0] <= 16384;
	for (int i = 0; i < STAGES; i++) {
		int at = c->super ? SUPER_STAGE + SUPER_STEP * i : DECODER_STAGE + DECODER_STEP * i;

		c->pool[i] = frames_of(size_of(w, "encoder", ENCODER_STAGE + ENCODER_STEP * i, "conv.weight", 1), c->width[0]);
		c->decoder_width[i] = size_of(w, "decoder", at, c->super ? "conv.3.weight" : "conv.2.weight", 0);
		if (c->super)
			c->grow[i] = frames_of(size_of(w, "decoder", at + SUPER_STEP - 1, "conv.weight", 0),
			                       size_of(w, "decoder", at + BLOCKS, "weight", 0) / 4);
		else
			c->grow[i] = frames_of(size_of(w, "decoder", at + BLOCKS + 1, "conv.weight", 0), c->decoder_width[i]);
		good = good && c->pool[i] && c->grow[i] && c->decoder_width[i] <= 16384;
		down *= c->pool[i];
		up *= c->grow[i];
	}
	c->decoder_width[STAGES] = size_of(w, "decoder", DECODER_LAST, "weight", 1);
	return good && down == up && c->latent_channels >= 1 && c->latent_channels <= 1024 && c->decoder_width[STAGES] >= 1 &&
	       c->decoder_width[STAGES] <= 16384;
}

static int read_config(const char *path, struct autoencoder_config *c, struct err *e)
{
	struct weightfile *w = weightfile_open(path, NULL, e);
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
	int rc = -1;

	*c = (struct autoencoder_config){
	    .kind = AUTOENCODER_TAEHV, .in_channels = 3, .out_channels = 3, .stages = STAGES + 1, .scale = 1, .timing = TIMING_CAUSAL};
	if (strstr(base, "taecvx"))
		c->timing = TIMING_COGVIDEOX;
	else if (strstr(base, "taeh3"))
		c->timing = TIMING_CHUNKS;
	c->super = w && weightfile_find(w, "decoder.1.conv.0.weight") >= 0;
	if (!w)
		;
	else if (!read_layers(w, c) || (c->timing == TIMING_CHUNKS && autoencoder_time_factor(c) != 4))
		err_set(e, ERR_DATA,
		        "%s: its layers are not those of a TAEHV, whose encoder and decoder have %d stages and the same number of frames", path,
		        STAGES);
	else
		rc = 0;
	weightfile_free(w);
	return rc;
}

int taehv_config(const char *at, struct autoencoder_config *c, struct err *e)
{
	char *path = taehv_file(at, e);
	int rc = path ? read_config(path, c, e) : -1;

	mem_free(path);
	return rc;
}

int taehv_names(const struct autoencoder_config *c, int half, struct renames *out)
{
	/* In a file a depthwise convolution is [C, 1, 7, 7]. The zeros that pad its input are no weights. */
	static const struct rename super[] = {{"decoder.#.conv.0.weight", {"decoder.#.conv.0.weight"}, RENAME_FLAT}, {"decoder.zero", {NULL}, 0}};
	static const char *const own[2][2] = {{"encoder.*", NULL}, {"decoder.*", NULL}};

	*out = (struct renames){.own = own[half == AUTOENCODER_DECODE]};
	if (c->super && half == AUTOENCODER_DECODE) {
		out->v = super;
		out->n = sizeof super / sizeof *super;
	}
	return 1;
}

/* ---- layers ---- */

/* A sequence of numbered layers on clips of one sample. */
struct chain {
	struct recording *c;
	struct layers half; /* the scope of the encoder or decoder */
	int at;             /* number of the next layer */
};

static struct tensor *conv(struct chain *n, struct tensor *x, int64_t out, int64_t stride, int bias, int act)
{
	return layer_conv_next(&n->half, &n->at, x, out, stride, bias, act);
}

/* The frame before each frame of x (T, H, W, C): the last frame of the previous run before the first one, which at the start is zeros. */
static struct tensor *earlier(struct recording *c, struct tensor *x)
{
	struct tape *t = c->l.t;
	int64_t n = x->shape[0], clip[5] = {1, n, x->shape[1], x->shape[2], x->shape[3]};
	struct tensor *all = op_reshape(t, x, 5, clip), *past = recording_state(c, 4, (int64_t[]){1, clip[2], clip[3], clip[4]});

	recording_carry(c, past, op_slice(t, all, 1, n - 1, 1));
	if (n > 1)
		past = op_concat(t, 1, 2, (struct tensor *[]){past, op_slice(t, all, 1, 0, n - 1)});
	return op_reshape(t, past, 4, x->shape);
}

/* ReLU(convolutions([x | earlier x]) + x). */
static struct tensor *memory_block(struct chain *n, struct tensor *x)
{
	struct layers l = layers_in(&n->half, "%d.", n->at++);
	int64_t width = x->shape[3];
	struct tensor *h = op_concat(n->c->l.t, 3, 2, (struct tensor *[]){x, earlier(n->c, x)});

	h = layer_conv3(&l, h, "conv.0", width, RELU, NULL);
	h = layer_conv3(&l, h, "conv.2", width, RELU, NULL);
	return layer_conv3(&l, h, "conv.4", width, RELU, x);
}

/* Join each k frames to one by a matrix of their channels, the oldest first. */
static struct tensor *pool_frames(struct chain *n, struct tensor *x, int64_t k)
{
	static const int order[5] = {0, 2, 3, 1, 4};
	struct layers l = layers_in(&n->half, "%d.", n->at++);
	int64_t width = x->shape[3], apart[5] = {x->shape[0] / k, k, x->shape[1], x->shape[2], width};
	int64_t joined[4] = {apart[0], apart[2], apart[3], k * width};

	x = op_reshape(l.t, op_permute(l.t, op_reshape(l.t, x, 5, apart), order), 4, joined);
	return layer_conv(&l, x, "conv", &(struct conv){.out = width, .kh = 1, .no_bias = 1});
}

/* Make k frames of each, the oldest first. */
static struct tensor *grow_frames(struct chain *n, struct tensor *x, int64_t k)
{
	static const int order[5] = {0, 3, 1, 2, 4};
	struct layers l = layers_in(&n->half, "%d.", n->at++);
	int64_t width = x->shape[3], apart[5] = {x->shape[0], x->shape[1], x->shape[2], k, width};
	int64_t grown[4] = {k * apart[0], apart[1], apart[2], width};

	x = layer_conv(&l, x, "conv", &(struct conv){.out = k * width, .kh = 1, .no_bias = 1});
	return op_reshape(l.t, op_permute(l.t, op_reshape(l.t, x, 5, apart), order), 4, grown);
}

/* In the file the frames are upsampled first; in this order the matrix has a quarter of the pixels to multiply, and the results are the same. */
static struct tensor *grow_and_upsample(struct chain *n, struct tensor *x, int64_t k)
{
	n->at++;
	return op_upsample_nearest(n->half.t, grow_frames(n, x, k));
}

/* Put `edge` zeros before and after dimension d of x. A batched tensor must come first where tensors are joined, so the zeros before x are taken from
 * those after it. */
static struct tensor *zeros_around(const struct layers *half, struct tensor *x, int d, int64_t edge)
{
	struct tape *t = half->t;
	struct tensor *zero = layer_param(half, "zero", 4, (int64_t[]){1, 1, 1, 1});
	int64_t shape[4] = {x->shape[0], x->shape[1], x->shape[2], x->shape[3]}, n = shape[d];

	shape[d] = edge;
	x = op_concat(t, d, 2, (struct tensor *[]){x, op_expand(t, zero, shape)});
	return op_concat(t, d, 2, (struct tensor *[]){op_slice(t, x, d, n, edge), x});
}

/* A convolution of 7 x 7 of each channel by itself, as a sum over the taps of shifted pictures times the tap's weights. */
static struct tensor *depthwise(const struct layers *half, const struct layers *l, struct tensor *x)
{
	static const int order[2] = {1, 0};
	enum { SIDE = SUPER_SIDE };
	struct tape *t = l->t;
	int64_t h = x->shape[1], w = x->shape[2], c = x->shape[3], row[4] = {1, 1, 1, c};
	struct tensor *taps = layer_param(l, "conv.0.weight", 2, (int64_t[]){c, SIDE * SIDE}), *y = NULL;

	taps = op_copy(t, op_permute(t, taps, order));
	x = zeros_around(half, zeros_around(half, x, 1, SIDE / 2), 2, SIDE / 2);
	for (int i = 0; i < SIDE * SIDE; i++) {
		struct tensor *part = op_slice(t, op_slice(t, x, 1, i / SIDE, h), 2, i % SIDE, w);
		struct tensor *tap = op_reshape(t, op_slice(t, taps, 0, i, 1), 4, row);

		y = y ? op_gate(t, y, tap, part) : op_mul(t, part, tap);
	}
	return y;
}

static struct tensor *super_block(struct chain *n, struct tensor *x)
{
	struct layers l = layers_in(&n->half, "%d.", n->at++);
	int64_t width = x->shape[3];
	struct tensor *h = depthwise(&n->half, &l, op_concat(l.t, 3, 2, (struct tensor *[]){x, earlier(n->c, x)}));

	h = layer_conv1(&l, h, "conv.1", 4 * width, RELU);
	return layer_conv(&l, h, "conv.3", &(struct conv){.out = width, .kh = 1, .no_bias = 1, .add = x});
}

/* (T, h, w, 4 C) to (T, 2 h, 2 w, C), as torch.nn.PixelShuffle. */
static struct tensor *enlarge(struct tape *t, struct tensor *x)
{
	static const int order[6] = {0, 1, 4, 2, 5, 3};
	int64_t c = x->shape[3] / 4, apart[6] = {x->shape[0], x->shape[1], x->shape[2], c, 2, 2},
		joined[4] = {x->shape[0], 2 * x->shape[1], 2 * x->shape[2], c};

	return op_reshape(t, op_permute(t, op_reshape(t, x, 6, apart), order), 4, joined);
}

/* The stages of a super decoder. */
static struct tensor *super_stages(struct chain *n, const struct autoencoder_config *a, struct tensor *z)
{
	n->at = 0;
	z = layer_conv(&n->half, z, "0", &(struct conv){.out = a->decoder_width[0], .kh = 1, .no_bias = 1});
	n->at++;
	for (int i = 0; i < STAGES; i++) {
		for (int j = 0; j < BLOCKS; j++)
			z = super_block(n, z);
		z = enlarge(n->half.t, conv(n, z, 4 * a->decoder_width[i + 1], 1, 1, RELU));
		n->at += 2;
		z = grow_frames(n, z, a->grow[i]);
	}
	return z;
}

/* (T, C, H, W) to (T, H / p, W / p, C p p), as torch.nn.PixelUnshuffle. */
static struct tensor *unshuffle(struct tape *t, struct tensor *x, int64_t p)
{
	static const int order[6] = {0, 2, 4, 1, 3, 5};
	int64_t apart[6] = {x->shape[0], x->shape[1], x->shape[2] / p, p, x->shape[3] / p, p};
	int64_t joined[4] = {apart[0], apart[2], apart[4], apart[1] * p * p};

	return op_copy(t, op_reshape(t, op_permute(t, op_reshape(t, x, 6, apart), order), 4, joined));
}

/* The reverse. */
static struct tensor *shuffle(struct tape *t, struct tensor *x, int64_t p)
{
	static const int order[6] = {0, 3, 1, 4, 2, 5};
	int64_t apart[6] = {x->shape[0], x->shape[1], x->shape[2], x->shape[3] / (p * p), p, p};
	int64_t joined[4] = {apart[0], apart[3], apart[1] * p, apart[2] * p};

	return op_copy(t, op_reshape(t, op_permute(t, op_reshape(t, x, 6, apart), order), 4, joined));
}

/* The frames of the only input, for `frames` frames of latents with `each` frames for one of them, as (T, C, H, W). */
static struct tensor *frames_in(struct recording *c, const int64_t *size, int64_t each, int64_t channels)
{
	int64_t clip[4] = {size[0] * each, channels, size[1], size[2]};

	return op_reshape(c->l.t, recording_input(c, DT_F32, 4, clip, 1), 4, clip);
}

void taehv_encoder(struct recording *c, const void *config, const int64_t *size)
{
	const struct autoencoder_config *a = config;
	struct chain n = {c, layers_in(&c->l, "encoder."), 0};
	struct tensor *x = unshuffle(c->l.t, frames_in(c, size, autoencoder_time_factor(a), a->in_channels), a->patch);

	x = conv(&n, x, a->width[0], 1, 1, RELU);
	n.at++;
	for (int i = 0; i < STAGES; i++) {
		x = conv(&n, pool_frames(&n, x, a->pool[i]), a->width[0], 2, 0, 0);
		for (int j = 0; j < BLOCKS; j++)
			x = memory_block(&n, x);
	}
	recording_output(c, channels_first(c->l.t, conv(&n, x, a->latent_channels, 1, 1, 0)));
	recording_stage(c);
}

/* The stages of any other decoder. The latent is first clamped to 3 tanh(z / 3). */
static struct tensor *stages(struct chain *n, const struct autoencoder_config *a, struct tensor *z)
{
	struct tape *t = n->half.t;

	n->at = 1;
	z = op_scale(t, op_unary(t, op_scale(t, z, 1. / 3), UNARY_TANH), 3);
	z = conv(n, z, a->decoder_width[0], 1, 1, RELU);
	n->at++;
	for (int i = 0; i < STAGES; i++) {
		int last = i + 1 == STAGES;

		for (int j = 0; j < BLOCKS; j++)
			z = memory_block(n, z);
		z = conv(n, grow_and_upsample(n, z, a->grow[i]), a->decoder_width[i + 1], 1, 0, last ? RELU : 0);
	}
	n->at++;
	return z;
}

/* The result is not clamped to [0, 1] here. */
void taehv_decoder(struct recording *c, const void *config, const int64_t *size)
{
	const struct autoencoder_config *a = config;
	struct chain n = {c, layers_in(&c->l, "decoder."), 0};
	struct tape *t = c->l.t;
	struct tensor *z = channels_last(t, frames_in(c, size, 1, a->latent_channels));

	z = (a->super ? super_stages : stages)(&n, a, z);
	recording_output(c, shuffle(t, conv(&n, z, a->out_channels * a->patch * a->patch, 1, 1, 0), a->patch));
	recording_stage(c);
}
