/* Collects facts about archives, folders and SHARDS directories of samples as members of a JSON object (inspect/facts.h). */
#ifndef DDM_INSPECT_SAMPLEFACTS_H
#define DDM_INSPECT_SAMPLEFACTS_H

#include "inspect/facts.h"

/* A tar, plain or compressed:
 *   samples members first last               members: number of files by extension
 *   size, or smallest and largest            [width, height], the extremes of each separately; sizes_of: only of this many first pictures
 *   sound                                    rate channels seconds (all samples together) of the members .flac; a rate or number of channels that
 *                                            differs from sample to sample is left out
 *   class_counts captions                    number of samples of each class, and of captions
 *   complete                                 false: only the beginning was read, and the numbers are of that part
 *   digest                                   with check and a path: the hash that stamps of later programs call "samples"
 * Without check, an archive of ours is read only by its headers and those of its pictures; another archive is read, of a compressed one the
 * first 64 MiB, as of every one on a server. With check every picture is decoded. ERR_DATA: damaged, or with check a key appears twice or a value is
 * not finite. */
int facts_tar(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e);

/* A folder of pictures and archives: samples, members (number of files by extension), archives (their number). With check every sample is read and
 * its picture decoded. ERR_DATA if it holds no samples. */
int facts_folder(json_t *o, const char *dir, const struct facts_options *f, struct err *e);

/* A SHARDS directory: k samples held_out shards shard_bytes clusters (a list) class_names sha256 (of the manifest) stamp first_sample; with full also
 * list, the shards. Every shard must exist and have the size in the manifest, which
 * is not asked of a server; with check, its contents must match its hash. */
int facts_shards(json_t *o, const char *dir, const struct facts_options *f, struct err *e);

#endif
