/* The columns of samples, by name: facts about the sample itself, columns of tables that are joined by key, and members of the sample's .json.
 *
 *     key               the sample's key
 *     class             of its .cls: the number, and as text the class's name if the classes have names
 *     width, height     of its picture, upright, or else of its array
 *     frames            of its array (F, C, H, W); otherwise 1
 *     channels          of its array (C, H, W) or (F, C, H, W)
 *     a.b               member b of member a of the object in its .json. true is 1, false is 0; null is no value
 *
 * In .json and in tables, a text that is a finite number is one. In tables, an empty field, "-", "nan" and infinite numbers are no value. */
#ifndef DDM_DATA_SAMPLECOLUMNS_H
#define DDM_DATA_SAMPLECOLUMNS_H

#include "core/err.h"
#include "data/condition.h"
#include "data/samples.h"

struct samplecolumns;

/* The columns name [n] of samples and of the tables at table [tables]. The names are borrowed. A table needs a column "key" in which no value
 * occurs twice (ERR_DATA). A fact of the sample itself hides a column of that name. ERR_USAGE if a name is a column of two tables; ERR_NOINPUT.
 * Caller frees with samplecolumns_free. */
struct samplecolumns *samplecolumns_open(const char *const *name, int n, const char *const *table, int tables, struct err *e);
void samplecolumns_free(struct samplecolumns *c); /* NULL is allowed */

/* value [n]: the columns of a sample; class_names as samples_class_names gives them. Their texts are valid until the next call. ERR_DATA if a member
 * that a column needs is damaged. */
int samplecolumns_read(struct samplecolumns *c, const struct sample *s, const json_t *class_names, struct condition_value *value, struct err *e);

/* After the last sample: the number of samples that had a column. */
int64_t samplecolumns_found(const struct samplecolumns *c, int i);
/* ERR_USAGE that names column i and lists the columns that there are. Returns -1. */
int samplecolumns_unknown(const struct samplecolumns *c, int i, struct err *e);

int samplecolumns_tables(const struct samplecolumns *c);
const char *samplecolumns_table_sha256(const struct samplecolumns *c, int i);

#endif
