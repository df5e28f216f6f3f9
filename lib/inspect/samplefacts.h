/* The contents of archives, folders and SHARDS directories of samples, as members of a JSON object (inspect/facts.h). */
#ifndef DDM_INSPECT_SAMPLEFACTS_H
#define DDM_INSPECT_SAMPLEFACTS_H

#include "inspect/facts.h"

/* A tar, plain or compressed:
 *   samples members first last               members: how many of each extension
 *   size, or smallest and largest            [width, height], each extreme by itself; sizes_of: of the first so many pictures
 *   class_counts captions                    pictures of each class, where there are classes
 *   complete                                 false: only the beginning was read, and the numbers are of that
 *   digest                                   with check and a path: what stamps of later programs call "samples"
 * Without check, the contents of an archive of ours are not touched; a foreign one is read, of a compressed one the first 64 MiB.
 * With check every picture is decoded. */
int facts_tar(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e);

/* A folder of pictures and archives: samples, extensions, archives. With check as above. */
int facts_folder(json_t *o, const char *dir, const struct facts_options *f, struct err *e);

/* A SHARDS directory: samples held_out shards bytes picture clusters (a list) sha256 (of the manifest) stamp; with full also list,
 * the shards. Every shard must be there in its size; with check, with its hash and keys. */
int facts_shards(json_t *o, const char *dir, const struct facts_options *f, struct err *e);

#endif
