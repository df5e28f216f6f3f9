/* Any bytes as each table that programs exchange, with a corrected hash: an assignment, the manifest of a SHARDS folder. Also as an existing output
 * whose stamp is read. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "data/sharding.h"
#include "file/manifest.h"
#include "file/standing.h"
#include "tests/fuzz/folder.h"
#include "tests/fuzz/replay.h"
#include "tests/fuzz/tablehash.h"

static void use_assignment(const char *path, double holdout)
{
	struct assignment a;
	struct err e = {0};

	if (assignment_load(&a, path, holdout, &e)) {
		if (e.code != ERR_DATA)
			abort();
	} else {
		for (int64_t i = 0; i < a.rows; i++) {
			int cluster, held;

			if (!assignment_get(&a, i, &cluster, &held, NULL) && (cluster < 0 || cluster >= a.clusters || held >> 1))
				abort();
		}
	}
	assignment_release(&a);
}

static void use_manifest(const char *dir)
{
	struct manifest m;
	struct err e = {0};

	if (manifest_load(&m, dir, &e)) {
		if (e.code != ERR_DATA)
			abort();
		return;
	}
	for (int64_t i = 0; i < m.n; i++) {
		if (m.rows[i].cluster < 0 || m.rows[i].cluster >= m.clusters || strstr(m.rows[i].path, ".."))
			abort();
		if (!manifest_check_quick(&m, i, NULL))
			abort(); /* the folder holds no shard */
	}
	manifest_release(&m);
}

static void use_standing(const char *path)
{
	struct stamp *s = stamp_new("fuzz");
	char *line = standing_stamp(path, NULL);

	stamp_i64(s, "k", 3);
	stamp_input(s, "samples", "00");
	standing_check(path, s, 0, NULL);
	standing_check(path, s, 1, NULL);
	mem_free(line);
	stamp_free(s);
}

static void use(const void *data, size_t len)
{
	static char *table;

	if (!table)
		table = folder_path("MANIFEST.tsv");
	folder_put("MANIFEST.tsv", data, len);
	use_assignment(table, -1);
	use_assignment(table, .25);
	use_manifest(folder_path(NULL));
	use_standing(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	uint8_t *copy = table_hashed(data, len);

	use(copy, len);
	mem_free(copy);
	return 0;
}

REPLAY_MAIN("tests/fuzz/corpus/tables")
