/* Hashes the partition of a data set, so that experts of different partitions are not mixed. */
#include "data/partition.h"

#include <string.h>

#include "core/hash.h"
#include "core/names.h"

static void add_i64(struct sha256 *h, int64_t v)
{
	uint8_t b[8];

	for (int i = 0; i < 8; i++)
		b[i] = (uint8_t)((uint64_t)v >> (8 * i));
	sha256_add(h, b, sizeof b);
}

static void add_text(struct sha256 *h, const char *text)
{
	sha256_add(h, text, strlen(text) + 1);
}

void partition_of_centroids(char hex[65], const float *centroids, const float *offset, int k, int64_t d, const char *features)
{
	struct sha256 h;

	sha256_init(&h);
	add_text(&h, "centroids");
	add_text(&h, features);
	add_i64(&h, k);
	add_i64(&h, d);
	sha256_add(&h, centroids, (size_t)k * (size_t)d * sizeof *centroids);
	sha256_add(&h, offset, (size_t)k * sizeof *offset);
	sha256_end(&h, hex);
}

void partition_of_cosine(char hex[65])
{
	struct sha256 h;

	sha256_init(&h);
	add_text(&h, "cosine");
	add_text(&h, hex);
	sha256_end(&h, hex);
}

void partition_of_method(char hex[65], const char *method, const char *samples)
{
	struct sha256 h;

	sha256_init(&h);
	add_text(&h, "method");
	add_text(&h, method);
	add_text(&h, hex);
	add_text(&h, samples);
	sha256_end(&h, hex);
}

void partition_of_soft(char hex[65], int most, double margin)
{
	struct sha256 h;

	sha256_init(&h);
	add_text(&h, "soft");
	add_text(&h, hex);
	add_i64(&h, most);
	sha256_add(&h, &margin, sizeof margin);
	sha256_end(&h, hex);
}

void partition_of_extension(char hex[65], const char *old)
{
	struct sha256 h;

	sha256_init(&h);
	add_text(&h, "extension");
	add_text(&h, hex);
	add_text(&h, old);
	sha256_end(&h, hex);
}

void partition_of_shares(char hex[65], const double *share, int k, uint64_t seed)
{
	struct sha256 h;

	sha256_init(&h);
	add_text(&h, "random");
	add_i64(&h, k);
	add_i64(&h, (int64_t)seed);
	sha256_add(&h, share, (size_t)k * sizeof *share);
	sha256_end(&h, hex);
}

void partition_of_names(char hex[65], const char *fact, const json_t *names)
{
	struct sha256 h;

	sha256_init(&h);
	add_text(&h, "names");
	add_text(&h, fact);
	for (int64_t i = 0; names_get(names, i); i++)
		add_text(&h, names_get(names, i));
	sha256_end(&h, hex);
}
