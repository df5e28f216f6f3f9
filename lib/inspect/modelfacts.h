/* Facts about models, single networks, trainings and checkpoints, including their progress, as members of a JSON object
 * (inspect/facts.h). */
#ifndef DDM_INSPECT_MODELFACTS_H
#define DDM_INSPECT_MODELFACTS_H

#include "inspect/facts.h"

/* One network's folder, an expert or a router, finished or not:
 *   network prediction path cluster k picture patch hidden depth heads classes  of config.json
 *   parameters gflop_per_image                                    of the network
 *   weights {file bytes types step}                               which must be what config.json describes
 *   data                                                          SHA-256 of the MANIFEST.tsv it was trained on
 *   training                                                      train.jsonl (train/trainlog.h)
 *   running                                                       host and pid of who is writing there now
 *   checkpoints                                                   as of facts_train
 *   stamp
 * With check: the SHA-256 of the weights, which must be finite; hashes of the checkpoints. */
int facts_network(json_t *o, const char *dir, const struct facts_options *f, struct err *e);

/* The same, with the configuration: *c is filled where *have is set to 1 (net/model.h: model_config_release). */
struct model_config;
int facts_network_config(json_t *o, const char *dir, const struct facts_options *f, struct model_config *c, int *have, struct err *e);

/* A folder of them: experts router (whether there is one) k absent (numbers) picture classes data networks (a line each) agree.
 * Networks that cannot be used together are ERR_DATA saying why. With full the facts of each in `list`. */
int facts_model(json_t *o, const char *dir, const struct facts_options *f, struct err *e);

/* A pipeline of diffusers: pipeline (its class), parts {name: class}, and where it has a transformer/ that is a network of ours the facts of that. */
int facts_pipeline(json_t *o, const char *dir, const struct facts_options *f, struct err *e);

/* A folder of checkpoints, newest first, each with step, state ("whole" or what is wrong with it) and bytes; with check, hashes are
 * compared. A damaged one is no error unless none is whole, or with check. */
int facts_train(json_t *o, const char *dir, const struct facts_options *f, struct err *e);
int facts_checkpoint(json_t *o, const char *dir, const struct facts_options *f, struct err *e);

/* A config.json that was read: the members above. */
int facts_config(json_t *o, const json_t *config, const char *where, struct err *e);

#endif
