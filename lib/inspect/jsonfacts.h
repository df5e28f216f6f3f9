/* The kind of a JSON file: a training log, a network's config, results, or other lines. */
#ifndef DDM_INSPECT_JSONFACTS_H
#define DDM_INSPECT_JSONFACTS_H

#include "inspect/facts.h"

/* *kind: "log" (train/trainlog.h), "config" (inspect/modelfacts.h), "evaluation" and other "report"s of a program and "json" with
 * `values`, "lines" with their number and the `last`. */
int facts_json(json_t *o, const struct facts_source *s, const struct facts_options *f, const char **kind, struct err *e);

#endif
