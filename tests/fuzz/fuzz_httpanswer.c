/* Any bytes as the header of an HTTP answer, line by line. */
#include <stdlib.h>
#include <string.h>

#include "file/httpanswer.h"
#include "tests/fuzz/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct http_answer a;

	httpanswer_reset(&a);
	a.bytes = 0;
	while (len) {
		const uint8_t *end = memchr(data, '\n', len);
		size_t n = end ? (size_t)(end - data) + 1 : len;

		if (httpanswer_line(&a, (const char *)data, n))
			break;
		if (a.length < -1 || a.total < -1 || a.from < -1 || a.to < a.from || (a.total >= 0 && a.to >= a.total) ||
		    httpanswer_differs(&a, &a) || (a.status && (a.status < 100 || a.status > 999)))
			abort();
		data += n;
		len -= n;
	}
	return 0;
}

REPLAY_MAIN("tests/fuzz/corpus/httpanswer")
