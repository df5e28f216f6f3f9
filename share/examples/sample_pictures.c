/* Samples pictures with libddm alone. Built where ddm is installed:
 *
 *	cc -o sample_pictures sample_pictures.c $(pkg-config --cflags --libs --static ddm)
 *	./sample_pictures MODEL OUT.tar N [CLASS or PROMPT]
 *
 * It writes the tar that `ddm-sample --route full --steps 4 -n N -o OUT.tar MODEL` writes, byte for byte. */
#include <stdio.h>
#include <stdlib.h>

#include "core/pool.h"
#include "kernels/device.h"
#include "sample/sample.h"

/* Called for each picture in order; pixels (height, width, channels) are bytes. */
static void show(void *arg, int64_t index, const struct picture *p)
{
	(void)arg;
	printf("picture %lld: %d x %d, %d channels\n", (long long)index, p->width, p->height, p->channels);
}

static void say(void *arg, const char *line)
{
	(void)arg;
	fprintf(stderr, "%s\n", line);
}

int main(int argc, char **argv)
{
	const struct sample_hooks hooks = {.picture = show, .say = say, .warn = say};
	struct sample_request q = sample_defaults();
	struct err e = {0};
	struct sampling *s;
	struct pool *pool = NULL;
	struct device *device = NULL;

	if (argc < 4) {
		fprintf(stderr, "usage: sample_pictures MODEL OUT.tar N [CLASS or PROMPT]\n");
		return 2;
	}
	q.model = argv[1];
	q.out = argv[2];
	q.each = strtoll(argv[3], NULL, 10);
	q.route = "full";
	q.steps = 4;
	if (argc > 4 && argv[4][0] >= '0' && argv[4][0] <= '9')
		q.class = argv[4];
	else if (argc > 4)
		q.prompt = argv[4];

	s = sampling_new(&q, &hooks, &e);
	if (s && (pool = pool_new(0, &e)) && (device = device_open("auto", pool, &e)))
		sampling_run(s, device, &e);
	sampling_free(s);
	device_free(device);
	pool_free(pool);
	if (e.code)
		fprintf(stderr, "sample_pictures: %s\n", e.msg);
	return e.code;
}
