/* Runs TransNet V2 over windows of a video. */
#include "data/shotnet.h"

#include <string.h>

#include "core/mem.h"

enum { STEP = TRANSNET_FRAMES / 2, BEFORE = TRANSNET_FRAMES / 4 };

struct shotnet {
	struct transnet *net;
	double threshold;
	uint8_t (*frame)[TRANSNET_BYTES]; /* [TRANSNET_FRAMES]: the last frames; frame i at i % TRANSNET_FRAMES */
	uint8_t first[TRANSNET_BYTES];
	int64_t n;                  /* frames so far */
	int64_t computed;           /* frames whose probability was computed: a multiple of STEP, or n */
	float cut[TRANSNET_FRAMES]; /* probabilities of the last window; of frame i at BEFORE + i % STEP */
	int64_t told;               /* frames that shotnet_next gave */
	int above;                  /* the frame given last is part of a transition */
	int scene;                  /* a frame that is no part of one was given */
};

struct shotnet *shotnet_new(struct transnet *net, double threshold)
{
	struct shotnet *s = mem_zalloc(1, sizeof *s);

	s->net = net;
	s->threshold = threshold;
	s->frame = mem_zalloc(TRANSNET_FRAMES, sizeof *s->frame);
	return s;
}

void shotnet_free(struct shotnet *s)
{
	if (s)
		mem_free(s->frame);
	mem_free(s);
}

/* Compute the probabilities of the next STEP frames, or of those that there are. */
static int window_run(struct shotnet *s, struct err *e)
{
	const uint8_t *at[TRANSNET_FRAMES];

	for (int t = 0; t < TRANSNET_FRAMES; t++) {
		int64_t i = s->computed - BEFORE + t;

		at[t] = i < 0 ? s->first : s->frame[(i < s->n ? i : s->n - 1) % TRANSNET_FRAMES];
	}
	if (transnet_run(s->net, s->cut, NULL, at, e))
		return -1;
	s->computed = s->computed + STEP < s->n ? s->computed + STEP : s->n;
	return 0;
}

/* The probabilities of the window before are lost, so they must have been given. */
int shotnet_add(struct shotnet *s, const uint8_t *rgb, struct err *e)
{
	if (!s->n)
		memcpy(s->first, rgb, TRANSNET_BYTES);
	memcpy(s->frame[s->n++ % TRANSNET_FRAMES], rgb, TRANSNET_BYTES);
	return s->n == s->computed + SHOTNET_AHEAD ? window_run(s, e) : 0;
}

int shotnet_end(struct shotnet *s, struct err *e)
{
	if (s->computed == s->n)
		return 0;
	return window_run(s, e) ? -1 : 1;
}

int shotnet_next(struct shotnet *s, struct scene_found *found)
{
	int64_t i = s->told;
	int was = s->above;

	if (i == s->computed)
		return 0;
	*found = (struct scene_found){.score = (double)s->cut[BEFORE + i % STEP], .settled = i + 2, .jump = -1, .cut = -1};
	s->above = found->score > s->threshold;
	if (s->above)
		found->jump = i + 1;
	else if (was && s->scene)
		found->cut = i;
	s->scene |= !s->above;
	s->told++;
	return 1;
}
