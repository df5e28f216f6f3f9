/* Any bytes as a tar: for the reader of any program's tars, and for the parser of our own. */
#include <stdlib.h>

#include "core/str.h"
#include "file/tarfile.h"
#include "tests/fuzz/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct tar_limits limits = {.member = 1 << 20, .members = 1000};
	struct err e = {0};
	struct tar_reader *r = tar_open_memory(data, len, "fuzz", &limits, &e);
	struct str name = {0}, stamp = {0};
	struct tar_member m;
	size_t pos = 0, key, was = 0;
	char ext[64];
	int rc;

	while (r && (rc = tar_next(r, &m, &e)) == 1)
		tar_key(m.name, &key, ext);
	tar_close(r);
	while (tar_parse(data, len, &pos, &m, &name, &stamp, "fuzz", NULL) == 1) {
		if (m.data < data || m.data + m.size > data + len || pos <= was)
			abort();
		was = pos;
	}
	str_release(&name);
	str_release(&stamp);
	return 0;
}

REPLAY_MAIN("tests/fuzz/corpus/tar")
