/* Reads clips from samples, for programs that show them. */
#include "data/clipread.h"

#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"

/* The number "fps" of the facts, if it is a rate. */
static double rate_of(const struct sample *s)
{
	const struct sample_member *m = sample_find(s, "json");
	json_t *o = m ? json_loadb(m->data, m->len, 0, NULL) : NULL;
	double fps = json_number_value(json_object_get(o, "fps"));

	json_decref(o);
	return fps > 0 && fps <= 1e6 ? fps : 0;
}

/* The clip in a copy of the member, because the sample does not stay. */
static int read_member(struct sample_clip *c, const struct sample_member *m, const char *name, struct err *e)
{
	struct npy a;
	int rc = 0;

	if (!(c->bytes = mem_try(m->len, 1, name, e)))
		return -1;
	memcpy(c->bytes, m->data, m->len);
	if (npy_parse(&a, c->bytes, m->len, name, e))
		return -1;
	if (clip_is(&a))
		rc = clip_of(&c->clip, &a, name, e) ? -1 : 1;
	npy_release(&a); /* the bytes stay */
	return rc;
}

int sample_clip(struct sample_clip *c, const struct sample *s, struct err *e)
{
	const struct sample_member *m = sample_find(s, "npy");
	char *name;
	int rc;

	*c = (struct sample_clip){0};
	if (!m)
		return 0;
	name = str_new("%s: %s", s->origin, s->key);
	rc = read_member(c, m, name, e);
	if (rc == 1)
		c->fps = rate_of(s);
	else
		sample_clip_release(c);
	mem_free(name);
	return rc;
}

void sample_clip_release(struct sample_clip *c)
{
	mem_free(c->bytes);
	*c = (struct sample_clip){0};
}
