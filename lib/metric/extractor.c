/* Opens a feature extractor by name; holds their table, and the extractors without a network. */
#include "metric/extractor.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "metric/pixfeat.h"

/* Functions of the pixels */

struct pixels_job {
	enum pixfeat_kind kind;
	const struct picture *p;
	float *out;
	int dims;
};

static void pixels_task(void *arg, int64_t task, int worker)
{
	struct pixels_job *j = arg;
	const struct picture *p = j->p + task;

	(void)worker;
	pixfeat_compute(j->out + task * j->dims, p->pixels, p->width, p->height, j->kind);
}

static int pixels_run(struct extractor *x, struct pool *pool, float *const out[TAPS], const struct picture *p, int n, struct err *e)
{
	struct pixels_job j = {.p = p, .out = out[TAP_MAIN], .dims = x->dims[TAP_MAIN]};

	(void)e;
	while (strcmp(x->name, pixfeat_names[j.kind]))
		j.kind++;
	pool_run(pool, n, pixels_task, &j);
	return 0;
}

static void pixels_open(struct extractor *x, enum pixfeat_kind kind)
{
	*x = (struct extractor){.dims = {pixfeat_dims(kind)}, .least = PIXFEAT_SIDE_MIN, .metrics = "kd,fd,memorised", .run = pixels_run};
	snprintf(x->name, sizeof x->name, "%s", pixfeat_names[kind]);
	pixfeat_hash(kind, x->hash);
}

static int pix_open(struct extractor *x, const char *path, const struct extractor_options *o, struct err *e)
{
	(void)path;
	if (o->input >= 0)
		return err_set(e, ERR_USAGE, "--input \"%s\" has no effect on pix, which uses the pixels themselves", netinput_names[o->input]);
	pixels_open(x, PIXFEAT_PIX);
	return 0;
}

static int rgb8_open(struct extractor *x, const char *path, const struct extractor_options *o, struct err *e)
{
	(void)path;
	if (o->input >= 0)
		return err_set(e, ERR_USAGE, "--input \"%s\" has no effect on rgb8, which uses the pixels themselves", netinput_names[o->input]);
	pixels_open(x, PIXFEAT_RGB8);
	return 0;
}

/* The table */

static const struct kind {
	const char *name;
	const char *what; /* the argument after the colon; NULL: none */
	int (*open)(struct extractor *x, const char *path, const struct extractor_options *o, struct err *e);
} kinds[] = {
    {"pix", NULL, pix_open},         {"rgb8", NULL, rgb8_open}, {"inception", "PATH", networks_inception}, {"dinov2", "PATH", networks_dinov2},
    {"clip", "PATH", networks_clip},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

const char *const extractor_names[] = {"pix", "rgb8", "inception:", "dinov2:", "clip:", NULL};

_Static_assert(sizeof extractor_names / sizeof *extractor_names == KINDS + 1, "every extractor is offered");

static int unknown(const char *spec, struct err *e)
{
	struct str s = {0};

	for (int k = 0; k < KINDS; k++)
		str_printf(&s, "%s%s%s%s", k ? ", " : "", kinds[k].name, kinds[k].what ? ":" : "", kinds[k].what ? kinds[k].what : "");
	err_set(e, ERR_USAGE, "unknown features \"%s\"; expected %s", spec, str_text(&s));
	str_release(&s);
	return -1;
}

static const struct kind *find(const char *spec)
{
	size_t len = strcspn(spec, ":");

	for (int k = 0; k < KINDS; k++)
		if (strlen(kinds[k].name) == len && !memcmp(kinds[k].name, spec, len) && (kinds[k].what != NULL) == (spec[len] && spec[len + 1]))
			return &kinds[k];
	return NULL;
}

int extractor_is_network(const char *spec)
{
	const struct kind *k = find(spec);

	return k && k->what;
}

struct extractor *extractor_open(const char *spec, const struct extractor_options *o, struct err *e)
{
	const struct kind *k = find(spec);
	struct extractor *x = mem_zalloc(1, sizeof *x);
	const char *path = strchr(spec, ':');

	if (k ? !k->open(x, path ? path + 1 : NULL, o, e) : !unknown(spec, e))
		return x;
	mem_free(x);
	return NULL;
}

void extractor_free(struct extractor *x)
{
	if (x && x->free)
		x->free(x->own);
	mem_free(x);
}
