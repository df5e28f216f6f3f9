/* Describes any file or folder that the programs read: its kind and contents. */
#ifndef DDM_INSPECT_DESCRIBE_H
#define DDM_INSPECT_DESCRIBE_H

#include "inspect/facts.h"

/* Describe `path`: a file, a folder, a pipe, a URL of a file or SHARDS folder, or "-" for standard input. Sets o["kind"], o["bytes"] of a file, and
 * the members that the reader of its kind adds (inspect/facts.h, inspect/samplefacts.h, inspect/modelfacts.h, inspect/jsonfacts.h). ERR_DATA for
 * damaged or unknown content. On failure the members found until then stay in o.
 *
 * Of a file at a URL only what the facts need is read, if the server sends ranges: the headers of safetensors, npy and FLAC, the ends of large
 * tables, the index and first sample of a shard, the first 64 MiB of other tars. Files of other kinds, and with `check` all, are read whole; sidecars
 * are not looked for. Errors are those of file/httpfile.h, too. */
int describe_path(json_t *o, const char *path, const struct facts_options *f, struct err *e);

#endif
