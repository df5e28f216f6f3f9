/* Compares the hash chains of trainings on different devices. Include cmocka.h before it. */
#ifndef DDM_TESTS_SAMECHAIN_H
#define DDM_TESTS_SAMECHAIN_H

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/mem.h"
#include "file/fileio.h"

/* The hash chains of two trainings have so many lines and agree in all but the machine, what its bytes are worth elsewhere, and so in the hash of the
 * line before. */
static inline void same_chain(const char *a, const char *b, int lines)
{
	char *path[2] = {path_join(a, "train/chain.jsonl"), path_join(b, "train/chain.jsonl")}, *line[2];
	FILE *f[2] = {fopen(path[0], "r"), fopen(path[1], "r")};
	size_t cap[2] = {0};
	int n = 0;

	assert_true(f[0] && f[1]);
	line[0] = line[1] = NULL;
	while (getline(&line[0], &cap[0], f[0]) > 0) {
		json_t *o[2];

		assert_true(getline(&line[1], &cap[1], f[1]) > 0);
		for (int i = 0; i < 2; i++) {
			assert_non_null(o[i] = json_loads(line[i], 0, NULL));
			json_object_del(o[i], "machine");
			json_object_del(o[i], "portable");
			json_object_del(o[i], "prev");
			json_object_del(o[i], "seal");
		}
		assert_true(json_equal(o[0], o[1]));
		json_decref(o[0]);
		json_decref(o[1]);
		n++;
	}
	assert_int_equal(n, lines);
	assert_int_equal(getline(&line[1], &cap[1], f[1]), -1);
	for (int i = 0; i < 2; i++) {
		fclose(f[i]);
		free(line[i]);
		mem_free(path[i]);
	}
}

#endif
