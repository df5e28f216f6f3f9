/* Finds the encoder and decoder of a tiny autoencoder and infers its configuration from their tensors. */
#include "net/taesd.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/weightfile.h"

static const char *const ends[] = {".safetensors", ".pth"};

static const char *half_name(int half)
{
	return half == AUTOENCODER_ENCODE ? "encoder" : "decoder";
}

/* ---- finding ---- */

/* The length of NAME in a file name such as NAME_encoder.safetensors; 0 for encoder.safetensors; -1 for any other file name. */
static int name_length(const char *file)
{
	for (int half = AUTOENCODER_ENCODE; half <= AUTOENCODER_DECODE; half++)
		for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
			char end[32];
			size_t n = strlen(file), m;

			snprintf(end, sizeof end, "%s%s", half_name(half), ends[k]);
			m = strlen(end);
			if (n < m || strcmp(file + n - m, end))
				continue;
			if (n == m)
				return 0;
			if (file[n - m - 1] == '_')
				return (int)(n - m - 1);
		}
	return -1;
}

/* The number of autoencoder names in a folder, counted up to 2, and these names (or NULL). Caller frees both. */
static int names_in(const char *dir, char **first, char **other)
{
	char **files;
	size_t n;
	int found = 0;

	*first = *other = NULL;
	if (path_holds(dir, "config.json") || dir_list(dir, &files, &n, NULL))
		return 0;
	for (size_t i = 0; i < n && found < 2; i++) {
		int length = name_length(files[i]);

		if (length < 0 || (found && (int)strlen(*first) == length && !strncmp(*first, files[i], (size_t)length)))
			continue;
		*(found ? other : first) = str_new("%.*s", length, files[i]);
		found++;
	}
	names_free(files, n);
	return found;
}

/* Whether a file is a whole autoencoder under diffusers' names. */
static int is_whole(const char *path)
{
	struct weightfile *w = weightfile_open(path, NULL, NULL);
	int is = w && (weightfile_find(w, "encoder.layers.0.weight") >= 0 || weightfile_find(w, "decoder.layers.0.weight") >= 0);

	weightfile_free(w);
	return is;
}

/* The path of a file with a whole autoencoder: `at` itself, or the only weights file in the folder `at`. NULL: none. Caller frees. */
static char *whole_at(const char *at)
{
	char **files, *path = NULL;
	size_t n, weights = 0;

	if (str_ends(at, ends[0]) || str_ends(at, ends[1]))
		return is_whole(at) ? mem_strdup(at) : NULL;
	if (path_holds(at, "config.json") || dir_list(at, &files, &n, NULL))
		return NULL;
	for (size_t i = 0; i < n; i++)
		if ((str_ends(files[i], ends[0]) || str_ends(files[i], ends[1])) && !weights++)
			path = path_join(at, files[i]);
	names_free(files, n);
	if (weights == 1 && is_whole(path))
		return path;
	mem_free(path);
	return NULL;
}

/* The path of a half whose files begin with `prefix`, or NULL. Caller frees. */
static char *half_at(const char *prefix, int half)
{
	for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
		char *path = str_new("%s%s%s", prefix, half_name(half), ends[k]);

		if (path_exists(path))
			return path;
		mem_free(path);
	}
	return NULL;
}

/* The part of the paths before "encoder" or "decoder": DIR/NAME_ or DIR/. NULL: the folder holds several names. Caller frees. */
static char *prefix_of(const char *at, struct err *e)
{
	char *first, *other, *prefix = NULL;
	int n = names_in(at, &first, &other);

	if (n == 1)
		prefix = str_new("%s/%s%s", at, first, *first ? "_" : "");
	else if (n)
		err_set(e, ERR_USAGE, "%s: holds the autoencoders %s and %s%s; name one, as in %s/%s", at, *first ? first : "(without a name)", other,
		        ", and perhaps more", at, other);
	else
		prefix = str_new("%s_", at);
	mem_free(first);
	mem_free(other);
	return prefix;
}

int taesd_is(const char *at)
{
	char *first, *other, *prefix, *file = NULL;
	int n = names_in(at, &first, &other);

	mem_free(first);
	mem_free(other);
	if (n)
		return 1;
	prefix = str_new("%s_", at);
	for (int half = AUTOENCODER_ENCODE; half <= AUTOENCODER_DECODE && !file; half++)
		file = half_at(prefix, half);
	if (!file)
		file = whole_at(at);
	n = file != NULL;
	mem_free(prefix);
	mem_free(file);
	return n;
}

char *taesd_file(const char *at, int half, struct err *e)
{
	char *whole = whole_at(at), *prefix, *path;

	if (whole)
		return whole;
	prefix = prefix_of(at, e);
	path = prefix ? half_at(prefix, half) : NULL;
	if (prefix && !path)
		err_set(e, ERR_NOINPUT, "%s%s.safetensors: no such file, nor .pth", prefix, half_name(half));
	mem_free(prefix);
	return path;
}

/* ---- configuration ---- */

/* The tensor named by prefix, number and rest, or NULL. */
static const struct st_tensor *layer(const struct weightfile *w, const char *prefix, int at, const char *rest)
{
	char name[64];
	int i;

	snprintf(name, sizeof name, "%s%d%s", prefix, at, rest);
	i = weightfile_find(w, name);
	return i < 0 ? NULL : weightfile_get(w, i);
}

/* The layers of one half: residual blocks, with convolutions before, between and after the stages. */
struct layout {
	int convolutions;
	int64_t blocks[AUTOENCODER_STAGES + 1]; /* blocks before convolution i */
	int64_t in, out, width;                 /* channels of the input, of the output, after the first convolution */
	int pool;                               /* 1: a block has a pool layer */
};

/* Read the layers whose names begin with `prefix`. 1: read; 0: the prefix is not empty and no name begins with it; -1: not a tiny autoencoder. */
static int read_layout(const struct weightfile *w, const char *prefix, const char *path, struct layout *o, struct err *e)
{
	enum { LAYERS = 1024 };

	*o = (struct layout){0};
	for (int at = 0; at < LAYERS && o->convolutions <= AUTOENCODER_STAGES + 1; at++) {
		const struct st_tensor *t = layer(w, prefix, at, ".weight");

		if (layer(w, prefix, at, ".conv.0.weight") && o->convolutions <= AUTOENCODER_STAGES) {
			o->blocks[o->convolutions]++;
			o->pool |= layer(w, prefix, at, ".pool.0.weight") != NULL;
		}
		if (!t || t->rank != 4)
			continue;
		if (!o->convolutions++) {
			o->in = t->shape[1];
			o->width = t->shape[0];
		}
		o->out = t->shape[0];
	}
	if (!o->convolutions && *prefix)
		return 0;
	if (o->convolutions < 2 || o->convolutions > AUTOENCODER_STAGES + 1 || o->in < 1 || o->in > 1024 || o->out < 1 || o->out > 1024 ||
	    o->width < 1 || o->width > 16384)
		return err_set(e, ERR_DATA, "%s: its layers are not those of a tiny autoencoder of taesd.py", path);
	for (int i = 1; i < o->convolutions; i++)
		if (o->blocks[i] < 1 || o->blocks[i] > 64)
			return err_set(e, ERR_DATA, "%s: a stage has %lld blocks, which no tiny autoencoder of taesd.py has", path,
			               (long long)o->blocks[i]);
	return 1;
}

/* Read the layers of one half, from the file `whole` or from the half's file, whose path begins with `prefix`. 1: read; 0: not there; -1: error. */
static int read_half(const char *whole, const char *prefix, int half, struct layout *o, struct err *e)
{
	char *path = whole ? mem_strdup(whole) : half_at(prefix, half);
	struct weightfile *w = path ? weightfile_open(path, NULL, e) : NULL;
	int rc = path ? -1 : 0;

	if (w)
		rc = read_layout(w, !whole ? "" : half == AUTOENCODER_ENCODE ? "encoder.layers." : "decoder.layers.", path, o, e);
	weightfile_free(w);
	mem_free(path);
	return rc;
}

int taesd_config(const char *at, struct autoencoder_config *c, struct err *e)
{
	char *whole = whole_at(at), *prefix = whole ? str_new("%s: ", at) : prefix_of(at, e);
	struct layout in = {0}, out = {0};
	int encoder = prefix ? read_half(whole, prefix, AUTOENCODER_ENCODE, &in, e) : -1;
	int decoder = encoder < 0 ? -1 : read_half(whole, prefix, AUTOENCODER_DECODE, &out, e), rc = -1;

	if (encoder < 0 || decoder < 0)
		;
	else if (!encoder && !decoder)
		err_set(e, ERR_NOINPUT, "%sencoder.safetensors: no such file", prefix);
	else if (encoder && decoder && (in.out != out.in || in.convolutions != out.convolutions || in.width != out.width || in.pool != out.pool))
		err_set(e, ERR_DATA, "%sencoder and %sdecoder do not match: %lld and %lld channels of latents, %d and %d stages", prefix, prefix,
		        (long long)in.out, (long long)out.in, in.convolutions - 1, out.convolutions - 1);
	else
		rc = 0;
	mem_free(whole);
	mem_free(prefix);
	if (rc)
		return -1;
	*c = (struct autoencoder_config){.kind = AUTOENCODER_TINY,
	                                 .in_channels = encoder ? in.in : out.out,
	                                 .out_channels = decoder ? out.out : in.in,
	                                 .latent_channels = encoder ? in.out : out.in,
	                                 .stages = (encoder ? &in : &out)->convolutions - 1,
	                                 .middle_norm = (encoder ? &in : &out)->pool,
	                                 .scale = 1};
	for (int64_t i = 0; i < c->stages; i++) {
		c->width[i] = (encoder ? &in : &out)->width;
		c->encoder_blocks[i] = encoder ? in.blocks[i + 1] : out.blocks[c->stages - i];
		c->decoder_blocks[i] = decoder ? out.blocks[i + 1] : in.blocks[c->stages - i];
	}
	return 0;
}
