/* Recognises the encoders in the model of ddm-encode, and checks that the request fits them. */
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "metric/encodejobimpl.h"
#include "net/taehv.h"
#include "net/taesd.h"

/* Recognise an encoder by its config.json. */
static int recognise_config(struct encodejob *w, const char *dir, struct err *e)
{
	struct encode_model *p = &w->model;
	char *path = path_join(dir, "config.json");
	json_t *c = jsonio_load(path, e);
	const char *class = json_string_value(json_object_get(c, "_class_name")), *type = json_string_value(json_object_get(c, "model_type"));
	const char *timm = json_string_value(json_object_get(c, "architecture"));

	if (!c)
		;
	else if (class && !strncmp(class, "Autoencoder", 11))
		p->vae = mem_strdup(dir);
	else if ((type && !strncmp(type, "dinov2", 6)) || (timm && strstr(timm, "dinov2")))
		p->vision = str_new("dinov2:%s", dir);
	else if (type && !strncmp(type, "clip", 4) && strcmp(type, "clip_text_model") && w->o.as != ENCODE_TEXT)
		p->vision = str_new("clip:%s", dir);
	else if (type && (!strncmp(type, "clip", 4) || !strcmp(type, "t5")))
		p->text = mem_strdup(dir);
	else
		err_set(e, ERR_DATA,
		        "%s: \"%s\" is not a supported encoder (AutoencoderKL, AutoencoderTiny, AutoencoderKLWan, TAEHV, clip, t5, dinov2)", path,
		        class  ? class
		        : type ? type
		        : timm ? timm
		               : "?");
	json_decref(c);
	mem_free(path);
	return e->code ? -1 : 0;
}

int encodemodel_recognise(struct encodejob *w, struct err *e)
{
	struct encode_model *p = &w->model;
	char *own = path_join(w->o.model, "vae");
	int vae = path_holds(own, "config.json") || taehv_is(own) || taesd_is(own), text = path_holds(w->o.model, "text_encoder/config.json");
	struct stat st;

	if (extractor_is_network(w->o.model))
		p->vision = mem_strdup(w->o.model);
	else if (taesd_is(w->o.model) || taehv_is(w->o.model))
		p->vae = mem_strdup(w->o.model);
	else if (stat(w->o.model, &st))
		err_errno(e, "%s", w->o.model);
	else if (!S_ISDIR(st.st_mode))
		p->vision = str_new("dinov2:%s", w->o.model);
	else if (!vae && !text)
		recognise_config(w, w->o.model, e);
	if (vae && w->o.as != ENCODE_TEXT)
		p->vae = path_join(w->o.model, "vae");
	if (text && w->o.as != ENCODE_VAE && !w->o.encoding.decode)
		p->text = mem_strdup(w->o.model);
	if (!e->code && ((w->o.as == ENCODE_VAE && !p->vae) || (w->o.as == ENCODE_TEXT && !p->text) || (w->o.as == ENCODE_VISION && !p->vision)))
		err_set(e, ERR_DATA, "%s: no %s encoder", w->o.model, encode_parts[w->o.as]);
	mem_free(own);
	return e->code ? err_lacking(e, NULL) : 0;
}

/* The first option given that concerns encoding latents, or NULL. */
static const char *about_latents(const struct encoding_options *o)
{
	return o->size ? "--size" : o->posterior >= 0 ? "--posterior" : o->drop ? "--no-pictures" : o->flip ? "--flip" : NULL;
}

int encodemodel_check(const struct encodejob *w, struct err *e)
{
	const struct encode_model *p = &w->model;

	if (about_latents(&w->o.encoding) && (!p->vae || w->o.encoding.decode))
		return err_set(e, ERR_USAGE, "%s is for making latents, and %s makes none", about_latents(&w->o.encoding),
		               w->o.encoding.decode ? "--decode" : w->o.model);
	if (w->o.encoding.tile && !p->vae)
		return err_set(e, ERR_USAGE, "--tile is for an autoencoder, and %s is not one", w->o.model);
	if (w->o.encoding.decode && !p->vae)
		return err_set(e, ERR_USAGE, "--decode needs an autoencoder, and %s is not one", w->o.model);
	if ((w->o.null_text || w->o.encoding.tokens) && !p->text)
		return err_set(e, ERR_USAGE, "%s is for texts, and %s reads none", w->o.encoding.tokens ? "--tokens" : "--null-text", w->o.model);
	if (w->o.encoding.pooled && !p->text)
		return err_set(e, ERR_USAGE, "--pooled is for texts, and %s reads none", w->o.model);
	if (w->o.captions && (!p->text || p->vae))
		return err_set(e, ERR_USAGE, "--captions needs a text encoder alone, and %s is not one%s", w->o.model,
		               p->text ? "; --as text selects the text encoder" : "");
	if (w->o.captions && w->o.nul)
		return err_set(e, ERR_USAGE, "-0 is for lists of paths, and --captions reads texts");
	if (w->o.null_text && !strcmp(w->o.null_text, "-"))
		return err_set(e, ERR_USAGE, "--null-text needs a file name, because a stamp is written beside it");
	if (w->o.null_pooled && !strcmp(w->o.null_pooled, "-"))
		return err_set(e, ERR_USAGE, "--null-pooled needs a file name, because a stamp is written beside it");
	if ((w->o.input >= 0 || w->o.keys) && !p->vision)
		return err_set(e, ERR_USAGE, "%s is for features of pictures, and %s makes none", w->o.keys ? "--keys" : "--input", w->o.model);
	if (p->vision && (w->o.encoding.wide >= 0 || !strcmp(w->o.out, "-")))
		return err_set(e, ERR_USAGE,
		               w->o.encoding.wide >= 0 ? "--dtype has no effect on features, which are float32" : "features need -o FILE");
	return 0;
}
