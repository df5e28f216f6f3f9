/* Reads the centroids of an earlier run and checks that they fit the features. */
#include "cluster/centroids.h"

#include <math.h>
#include <string.h>

#include "cluster/points.h"
#include "core/extends.h"
#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/npy.h"

/* Read "distance" of the sidecar: m->cosine, with which all centroids must have unit length. */
static int read_distance(struct kmeans *m, const char *path, const json_t *facts, const char *side, struct err *e)
{
	const char *distance = NULL;

	if (!facts || jsonio_str(facts, "distance", 0, &distance, side, e) || !distance)
		return e->code ? -1 : 0;
	if (strcmp(distance, "cosine"))
		return err_set(e, ERR_DATA, "%s: \"distance\" is \"%s\", expected \"cosine\"", side, distance);
	m->cosine = 1;
	for (int c = 0; c < m->k; c++) {
		float length2 = points_length2(m->centroids + c * m->d, m->d);

		if (!(fabsf(length2 - 1) < 1e-4f))
			return err_set(e, ERR_DATA, "%s: row %d has the length %g, but centroids by cosine have 1", path, c, sqrt((double)length2));
	}
	return 0;
}

static int read_past(struct centroids_past *past, const json_t *facts, const char *side, struct err *e)
{
	const char *partition = "";

	if (jsonio_str(facts, "partition", 0, &partition, side, e) || extends_load(&past->extends, facts, side, e))
		return -1;
	if (strlen(partition) < sizeof past->partition)
		memcpy(past->partition, partition, strlen(partition) + 1);
	return 0;
}

int centroids_load(struct kmeans *m, char hash[65], struct centroids_past *past, const char *path, const struct featureset *f, int is_network,
                   int64_t k, struct err *e)
{
	char *side = str_new("%s.json", path);
	const char *name = NULL, *network;
	struct npy a;
	json_t *facts = path_exists(side) ? jsonio_load(side, e) : NULL, *offset;
	int rc = -1;

	if (npy_load(&a, path, e)) {
		json_decref(facts);
		mem_free(side);
		return -1;
	}
	if (a.rank != 2 || a.shape[0] < 1 || a.shape[0] > KMEANS_MOST || a.shape[1] != f->d)
		err_set(e, ERR_DATA, "%s: expected an array (K, %lld), centroids of \"%s\" features", path, (long long)f->d, f->name);
	else if (k && k != a.shape[0])
		err_set(e, ERR_USAGE, "-k %lld, but %s holds %lld centroids", (long long)k, path, (long long)a.shape[0]);
	else if (facts && jsonio_str(facts, "features", 0, &name, side, e))
		;
	else if (name && strcmp(name, f->name))
		err_set(e, ERR_DATA, "%s: holds centroids of \"%s\" features, expected \"%s\"", path, name, f->name);
	else if (is_network && (network = json_string_value(json_object_get(json_object_get(facts, "inputs"), "features"))) &&
	         json_object_get(facts, "input") && strcmp(network, f->hash))
		err_set(e, ERR_DATA, "%s: centroids of other weights of \"%s\", or of another --input: hash %.12s, expected %.12s", path, f->name,
		        network, f->hash);
	else
		rc = e->code ? -1 : sha256_file(path, hash, NULL, e);
	if (!rc) {
		*m = (struct kmeans){.k = (int)a.shape[0], .d = a.shape[1]};
		m->centroids = mem_zalloc((size_t)npy_count(&a), sizeof *m->centroids);
		m->offset = mem_zalloc((size_t)m->k, sizeof *m->offset);
		npy_to_f32(m->centroids, &a);
		for (int64_t i = 0; i < npy_count(&a) && !rc; i++)
			if (!isfinite(m->centroids[i]))
				rc = err_set(e, ERR_DATA, "%s: row %lld, column %lld is not finite", path, (long long)(i / a.shape[1]),
				             (long long)(i % a.shape[1]));
		if (!rc)
			rc = read_distance(m, path, facts, side, e);
		if (!rc && past && facts)
			rc = read_past(past, facts, side, e);
		offset = json_object_get(facts, "offset");
		for (int c = 0; c < m->k && offset; c++)
			m->offset[c] = (float)json_number_value(json_array_get(offset, (size_t)c));
	}
	npy_release(&a);
	json_decref(facts);
	mem_free(side);
	return rc;
}

int centroids_motion(double *scale, const char *path, struct err *e)
{
	char *side = str_new("%s.json", path);
	json_t *facts = path_exists(side) ? jsonio_load(side, e) : NULL, *motion = json_object_get(facts, "motion_scale");
	int rc = path_exists(side) && !facts ? -1 : 0;

	*scale = json_number_value(motion);
	if (!rc && motion && !(*scale > 0))
		rc = err_set(e, ERR_DATA, "%s: \"motion_scale\" is not a positive number", side);
	json_decref(facts);
	mem_free(side);
	return rc;
}
