/* shots_of WEIGHTS <FRAMES: the probability of a transition at each of the frames, of 48 x 27 pixels, RGB, by TransNet V2: a line for each, for the
 * comparison with its PyTorch version. */
#include <stdio.h>

#include "core/mem.h"
#include "core/pool.h"
#include "data/shotnet.h"
#include "file/fileio.h"

static void print_next(struct shotnet *s)
{
	struct scene_found f;

	while (shotnet_next(s, &f))
		printf("%.9g\n", f.score);
}

int main(int argc, char **argv)
{
	struct err e = {0};
	size_t len = 0;
	struct pool *pool = pool_new(0, &e);
	struct device *d = device_cpu(pool, DT_F32);
	struct transnet *n = argc == 2 ? transnet_open(argv[1], d, &e) : NULL;
	struct shotnet *s = n ? shotnet_new(n, .5) : NULL;
	uint8_t *all = n ? file_load("-", 1 << 30, &len, &e) : NULL;

	for (size_t at = 0; at + TRANSNET_BYTES <= len && !e.code; at += TRANSNET_BYTES) {
		shotnet_add(s, all + at, &e);
		print_next(s);
	}
	while (all && !e.code && shotnet_end(s, &e) > 0)
		print_next(s);
	if (!all || e.code)
		fprintf(stderr, "shots_of: %s\n", argc == 2 ? e.msg : "usage: shots_of WEIGHTS <FRAMES");
	mem_free(all);
	shotnet_free(s);
	transnet_free(n);
	device_free(d);
	pool_free(pool);
	return !all || e.code || fclose(stdout) != 0;
}
