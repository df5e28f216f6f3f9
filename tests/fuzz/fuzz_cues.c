/* Any bytes as subtitles: what is parsed is in order, and the texts of all times are found without NUL bytes, line ends or repeated blanks. */
#include <stdlib.h>
#include <string.h>

#include "data/cues.h"
#include "tests/fuzz/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct cues c = {0};
	struct str all = {0};
	struct err e = {0};

	if (cues_parse(&c, (const char *)data, len, "fuzz", &e) && e.code != ERR_DATA)
		abort();
	for (size_t i = 0; i < c.n; i++) {
		const struct cue *q = &c.v[i];
		const char *text = c.text.p + q->at;

		if (!(q->end > q->start) || !q->len || q->at + q->len > c.text.len || (i && q->start < q[-1].start) || q->latest < q->end)
			abort();
		for (size_t k = 0; k < q->len; k++)
			if ((unsigned char)text[k] < 32 || (text[k] == ' ' && (!k || k + 1 == q->len)))
				abort();
		str_reset(&all);
		cues_between(&all, &c, q->start, q->end);
		if (!all.len)
			abort();
	}
	str_release(&all);
	cues_release(&c);
	return 0;
}

REPLAY_MAIN("tests/fuzz/corpus/cues")
