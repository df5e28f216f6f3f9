/* Collects facts about models, single networks, trainings and checkpoints as members of a JSON object (inspect/facts.h). */
#ifndef DDM_INSPECT_MODELFACTS_H
#define DDM_INSPECT_MODELFACTS_H

#include "inspect/facts.h"

/* The folder of one network, an expert or a router, finished or not:
 *   network prediction path cluster k picture patch hidden depth heads classes  of config.json
 *   parameters gflop_per_image                                    of the network
 *   weights {file bytes types step}                               must match config.json
 *   data                                                          SHA-256 of the MANIFEST.tsv it was trained on
 *   training                                                      train.jsonl (train/trainlog.h)
 *   running                                                       host and pid of a training that runs now
 *   checkpoints                                                   as of facts_train
 *   stamp
 * With check: adds the SHA-256 of the weights, which must be finite, and compares the hashes of the checkpoints. ERR_DATA: damaged, or
 * there is neither config.json nor weights nor a training; ERR_NOINPUT: config.json without weights. */
int facts_network(json_t *o, const char *dir, const struct facts_options *f, struct err *e);

/* The same, and also the configuration: *have is set to 1 if *c is filled. Caller zeroes *c before and calls model_config_release (net/model.h). */
struct model_config;
int facts_network_config(json_t *o, const char *dir, const struct facts_options *f, struct model_config *c, int *have, struct err *e);

/* A folder of networks: experts (their number) router (true if there is one) k absent (missing numbers) picture classes data networks (a row each)
 * agree. ERR_DATA if networks cannot be used together, with the reason. With full the facts about each are in `list`. */
int facts_model(json_t *o, const char *dir, const struct facts_options *f, struct err *e);

/* A pipeline of diffusers: pipeline (its class), parts {name: class}, and if it has a transformer/, the facts about that network. */
int facts_pipeline(json_t *o, const char *dir, const struct facts_options *f, struct err *e);

/* A folder of checkpoints, newest first, each with step, state ("whole" or "damaged", with why) and bytes; with check, hashes are compared. With
 * check a damaged checkpoint is an error; without, only if no checkpoint is whole. facts_checkpoint describes one checkpoint. */
int facts_train(json_t *o, const char *dir, const struct facts_options *f, struct err *e);
int facts_checkpoint(json_t *o, const char *dir, const struct facts_options *f, struct err *e);

/* Facts from a parsed config.json, the members above. `where` is for messages. */
int facts_config(json_t *o, const json_t *config, const char *where, struct err *e);

#endif
