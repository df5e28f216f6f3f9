/* Writes training logs in the formats of other programs. ddm-log uses it. */
#ifndef DDM_INSPECT_EXPORTLOG_H
#define DDM_INSPECT_EXPORTLOG_H

#include "core/err.h"
#include "core/str.h"
#include "inspect/runstatus.h"

/* The runs have been read by runs_update. */

/* Append a table with a header: a row for each line of a log that has a step, and a column for every number in any of them. Fields with commas,
 * quotes or line breaks are quoted as RFC 4180 says. */
void export_csv(struct str *out, const struct runs *r);
extern const char export_csv_begin[]; /* what its first line begins with */

/* Append the state of each run in Prometheus's text format, without timestamps, as node_exporter's textfile collector demands. The label `run` is the
 * folder as given. ERR_USAGE if two runs have the same. */
int export_prometheus(struct str *out, const struct runs *r, double now, struct err *e);
extern const char export_prometheus_begin[];

/* Write the runs as TensorBoard event files below `dir`: a folder for each run, in it a file for each attempt (file/tfevents.h). A file that is there
 * already gets the steps that it lacks; one that holds more, because a continued run has cut its log, stays; any other is replaced as a whole.
 * ERR_EXISTS: it is no event file. */
int export_tensorboard(const char *dir, const struct runs *r, struct err *e);

#endif
