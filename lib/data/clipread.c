/* Reads clips from samples, for programs that show them. */
#include "data/clipread.h"

#include <math.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/npy.h"

enum { SIDE_MOST = 1 << 14, FRAMES_MOST = 1 << 20 };

/* The number "fps" of the facts, if it is a rate. */
static double rate_of(const struct sample *s)
{
	const struct sample_member *m = sample_find(s, "json");
	json_t *o = m ? json_loadb(m->data, m->len, 0, NULL) : NULL;
	double fps = json_number_value(json_object_get(o, "fps"));

	json_decref(o);
	return fps > 0 && fps <= 1e6 ? fps : 0;
}

static int check_shape(const struct npy *a, const char *name, struct err *e)
{
	const int64_t *n = a->shape;

	if (n[0] >= 1 && n[0] <= FRAMES_MOST && (n[1] == 1 || n[1] == 3) && n[2] >= 1 && n[2] <= SIDE_MOST && n[3] >= 1 && n[3] <= SIDE_MOST)
		return 0;
	return err_set(e, ERR_DATA,
	               "%s: a clip of bytes of shape (%lld, %lld, %lld, %lld); (frames, channels, height, width) with 1 or 3 channels was expected",
	               name, (long long)n[0], (long long)n[1], (long long)n[2], (long long)n[3]);
}

int clip_read(struct clip *c, const struct sample *s, struct err *e)
{
	const struct sample_member *m = sample_find(s, "npy");
	char *name = m ? str_new("%s: %s", s->origin, s->key) : NULL;
	struct npy a;
	int rc = 0;

	*c = (struct clip){0};
	if (m && npy_parse(&a, m->data, m->len, name, e)) {
		rc = -1;
	} else if (m) {
		if (a.rank == 4 && a.type == NPY_U1 && !(rc = check_shape(&a, name, e))) {
			size_t n = (size_t)npy_count(&a);

			*c = (struct clip){(int)a.shape[0], (int)a.shape[1], (int)a.shape[2], (int)a.shape[3], rate_of(s), NULL};
			c->pixels = a.fortran ? NULL : mem_try(n, 1, name, e);
			if (a.fortran)
				err_set(e, ERR_DATA, "%s: a clip in column-major order; numpy.ascontiguousarray makes it row-major", name);
			if (c->pixels)
				memcpy(c->pixels, a.data, n);
			rc = c->pixels ? 1 : -1;
		}
		npy_release(&a);
	}
	mem_free(name);
	return rc;
}

void clip_release(struct clip *c)
{
	mem_free(c->pixels);
	*c = (struct clip){0};
}

int clip_frame(struct picture *p, const struct clip *c, int i, struct err *e)
{
	size_t area = (size_t)c->height * (size_t)c->width;
	const uint8_t *frame = c->pixels + (size_t)i * (size_t)c->channels * area;

	if (picture_alloc(p, c->width, c->height, c->channels, e))
		return -1;
	for (int k = 0; k < c->channels; k++)
		for (size_t j = 0; j < area; j++)
			p->pixels[j * (size_t)c->channels + (size_t)k] = frame[(size_t)k * area + j];
	return 0;
}
