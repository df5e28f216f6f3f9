/* Recognises a JSON file: a training log, a network's config, a report, or other lines. */
#ifndef DDM_INSPECT_JSONFACTS_H
#define DDM_INSPECT_JSONFACTS_H

#include "inspect/facts.h"

/* Add the facts about s to o and set *kind: "log" (train/trainlog.h); "config" (inspect/modelfacts.h); "index" of weights in several files
 * (facts_weights); "evaluation", "report" of another program, or "json", each with `values`; "lines" with their number and the `last`. ERR_DATA for
 * damaged JSON. */
int facts_json(json_t *o, const struct facts_source *s, const struct facts_options *f, const char **kind, struct err *e);

#endif
