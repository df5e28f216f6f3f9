/* The stamp of an output: what determined it, and nothing else. Program, version, options that affect the result, seed, content
 * hashes of the inputs: never time, host, threads, device, batch capacity or paths, so that the same work gives the same
 * bytes. */
#ifndef DDM_FILE_STAMP_H
#define DDM_FILE_STAMP_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"

struct stamp;

/* Starts as {"program": program, "version": DDM_VERSION}; keys keep their order. Caller frees with stamp_free. */
struct stamp *stamp_new(const char *program);
void stamp_free(struct stamp *s);

void stamp_text(struct stamp *s, const char *key, const char *value); /* UTF-8; other bytes become '?' */
void stamp_i64(struct stamp *s, const char *key, int64_t value);
void stamp_u64(struct stamp *s, const char *key, uint64_t value); /* above 2^63: as decimal text */
void stamp_f64(struct stamp *s, const char *key, double value);
void stamp_json(struct stamp *s, const char *key, json_t *value); /* takes the reference */
/* The object under `key`, made where it is not there: what is put into it stands in s. Caller frees with stamp_free. */
struct stamp *stamp_part(struct stamp *s, const char *key);
/* Content of an input, by role rather than by path: "inputs": {"samples": "sha256..."} */
void stamp_input(struct stamp *s, const char *role, const char *hash);

const json_t *stamp_root(const struct stamp *s); /* borrowed */
char *stamp_line(const struct stamp *s);         /* compact JSON; caller frees with mem_free */
/* SHA-256 of a stamp as JSON with sorted keys, so that it does not depend on the file from which the stamp was read. */
void stamp_hash(const json_t *root, char hex[65]);

/* Write the sidecar PATH.json. Call it before PATH is written: an output without its stamp would look like another program's. */
int stamp_sidecar(const struct stamp *s, const char *path, struct err *e);
/* The same with `hash`, the XXH3-64 of the output, for formats that have no place for a seal. */
int stamp_sidecar_of(const struct stamp *s, const char *path, uint64_t hash, struct err *e);
/* Write an output whose format has no place for a seal by the commit protocol, after its sidecar. "-", pipes and devices get no sidecar. */
int stamp_write(const struct stamp *s, const char *path, const void *data, size_t len, struct err *e);
/* Compare the bytes of PATH with the hash in PATH.json: 0 if they agree or there is no such hash, else -1 and ERR_DATA. */
int stamp_sidecar_check(const char *path, const void *data, size_t len, struct err *e);

/* 1 if PATH.json holds such a hash. */
int stamp_sidecar_seals(const char *path);

/* Compare with `line`, the stamp of an existing output. Returns the number of keys that differ (each input counts) and appends
 * "key: old -> new" for each to *what, separated by ", "; of long lists it says the lengths. -1 if the line is not JSON. */
int stamp_differs(const struct stamp *s, const char *line, struct str *what);
/* The same for a stamp that is itself a line. */
int stamp_line_differs(const char *now, const char *line, struct str *what);

#endif
