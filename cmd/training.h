/* What ddm-train and ddm-route-train share: options, the line per step, --plan. */
#ifndef DDM_CMD_TRAINING_H
#define DDM_CMD_TRAINING_H

#include "cmd/opt.h"
#include "train/trainer.h"

struct training {
	struct train_options o;
	const char *model, *out, *init_from, *time_law, *checkpoint_every, *device;
	int64_t hidden, depth, heads, patch, steps, batch, accumulate, warmup, keep, threads, sample_every, log_every, size;
	int64_t validate_every, validate_samples, max_skipped, grace;
	double epochs, lr, weight_decay, beta2, clip, ema_half_life, max_skipped_share;
	uint64_t seed;
	int path, schedule, precision /* -1: the device's */, flip, plan, profile, recompute, offload, no_verify, extend, quiet;
};

extern struct training training;
extern const char *const training_schedules[], *const training_offloads[];

/* Rows of an option table, in the order of the manual. */
#define TRAINING_OPTIONS \
	OPT_GROUP("Network"), \
	{"--model", 0, OPT_TEXT, &training.model, 0, 0, "NAME/P", \
	 "network preset: dit-nano micro mini s b l xl, or paris- pixart-; patch P", NULL, NULL}, \
	{"--hidden", 0, OPT_INT, &training.hidden, 4, 65536, "H", "width, instead of the preset's", NULL, NULL}, \
	{"--depth", 0, OPT_INT, &training.depth, 1, 1000, "L", "number of blocks, instead of the preset's", NULL, NULL}, \
	{"--heads", 0, OPT_INT, &training.heads, 1, 1024, "A", "attention heads, instead of the preset's", NULL, NULL}, \
	{"--patch", 0, OPT_INT, &training.patch, 1, 1024, "P", "patch size, instead of the preset's", NULL, NULL}, \
	OPT_GROUP("Optimization"), \
	{"--steps", 0, OPT_INT, &training.steps, 1, 1e12, "N", "optimizer steps", NULL, NULL}, \
	{"--epochs", 0, OPT_REAL, &training.epochs, 1e-6, 1e9, "E", "or passes over the data (default 100)", NULL, NULL}, \
	{"--extend", 0, OPT_FLAG, &training.extend, 0, 0, NULL, "go on with a run that was to be shorter", NULL, NULL}, \
	{"--batch", 0, OPT_INT, &training.batch, 1, 1 << 20, "B", "samples per step (default 32)", NULL, NULL}, \
	{"--accumulate", 0, OPT_INT, &training.accumulate, 1, 1 << 20, "A", \
	 "cut a batch into A parts to save memory (default 1)", NULL, NULL}, \
	{"--lr", 0, OPT_REAL, &training.lr, 1e-12, 100, "R", "learning rate (default 1e-4)", NULL, NULL}, \
	{"--schedule", 0, OPT_CHOICE, &training.schedule, 0, 0, "NAME", \
	 "constant or cosine (default constant)", training_schedules, NULL}, \
	{"--warmup", 0, OPT_INT, &training.warmup, 0, 1e12, "N", "steps of linear warm-up (default 0)", NULL, NULL}, \
	{"--weight-decay", 0, OPT_REAL, &training.weight_decay, 0, 100, "W", "of AdamW, on matrices (default 0)", NULL, NULL}, \
	{"--beta2", 0, OPT_REAL, &training.beta2, 0, .9999999, "B", "of AdamW (default .999)", NULL, NULL}, \
	{"--clip", 0, OPT_REAL, &training.clip, 0, 1e30, "NORM", \
	 "clip the gradient's norm; 0: never (default 1)", NULL, NULL}, \
	{"--ema-half-life", 0, OPT_REAL, &training.ema_half_life, -1, 1e12, "N", \
	 "of the averaged weights, in steps; -1: no average (default steps / 20)", NULL, NULL}, \
	{"--path", 0, OPT_CHOICE, &training.path, 0, 0, "NAME", "how data become noise (default linear)", path_choice_names, NULL}, \
	{"--time", 0, OPT_TEXT, &training.time_law, 0, 0, "LAW", \
	 "training times: uniform, logit-normal[:MEAN,STD], lognormal[:MEAN,STD], discrete (default uniform)", NULL, NULL}, \
	{"--precision", 0, OPT_CHOICE, &training.precision, 0, 0, "NAME", \
	 "of the network's arithmetic (default bf16 on a GPU, f32 on the CPU)", precision_names, NULL}, \
	{"--flip", 0, OPT_FLAG, &training.flip, 0, 0, NULL, "mirror half of the samples", NULL, NULL}, \
	{"--size", 0, OPT_INT, &training.size, 1, 65536, "N", "resize the samples to N x N", NULL, NULL}, \
	{"--seed", 0, OPT_U64, &training.seed, 0, 0, "S", "seed of everything random (default 0)", NULL, NULL}, \
	{"--init-weights", 0, OPT_TEXT, &training.init_from, 0, 0, "FILE", "start from these weights (a file, index or folder)", NULL, NULL}, \
	{"--max-skipped", 0, OPT_INT, &training.max_skipped, 0, 1e9, "N", \
	 "non-finite steps in a row before giving up (default 20)", NULL, NULL}, \
	{"--max-skipped-share", 0, OPT_REAL, &training.max_skipped_share, 0, 1, "F", \
	 "or this share of all steps so far (default .1)", NULL, NULL}, \
	OPT_GROUP("Validation, checkpoints, log"), \
	{"--validate-every", 0, OPT_INT, &training.validate_every, 1, 1e12, "N", \
	 "steps between val_loss on held-out data (default steps / 20)", NULL, NULL}, \
	{"--validate-samples", 0, OPT_INT, &training.validate_samples, 0, 1e9, "N", \
	 "held-out samples used for it; 0: none (default 512)", NULL, NULL}, \
	{"--checkpoint-every", 0, OPT_TEXT, &training.checkpoint_every, 0, 0, "N|TIME", \
	 "steps, or a time such as 15m (default 15m)", NULL, NULL}, \
	{"--keep", 0, OPT_INT, &training.keep, 1, 1000000, "N", "newest checkpoints to keep (default 2)", NULL, NULL}, \
	{"--grace", 0, OPT_INT, &training.grace, 1, 1000000, "SECONDS", \
	 "how long the checkpoint may take that a signal asks for (default: any time)", NULL, NULL}, \
	{"--sample-every", 0, OPT_INT, &training.sample_every, 1, 1e12, "N", "draw a sheet of samples every N steps", NULL, NULL}, \
	{"--log-every", 0, OPT_INT, &training.log_every, 1, 1e12, "N", \
	 "steps between lines of train.jsonl (default 10)", NULL, NULL}, \
	OPT_GROUP("Machine"), \
	{"--recompute", 0, OPT_FLAG, &training.recompute, 0, 0, NULL, \
	 "recompute blocks in the backward pass: less memory, same bytes", NULL, NULL}, \
	{"--offload", 0, OPT_CHOICE, &training.offload, 0, 0, "WHAT", \
	 "what a GPU keeps in the host's memory: less of its own, same bytes (default none)", training_offloads, NULL}, \
	{"--no-verify", 0, OPT_FLAG, &training.no_verify, 0, 0, NULL, "do not hash the shards before training", NULL, NULL}, \
	{"--threads", 0, OPT_INT, &training.threads, 0, 1024, "N", \
	 "threads; changes no result (default: all there are)", NULL, NULL}, \
	{"--device", 0, OPT_TEXT, &training.device, 0, 0, "NAME", \
	 "auto, cpu, cuda or cuda:N: where to compute (default auto)", NULL, NULL}, \
	OPT_GROUP("Output"), \
	{"--plan", 0, OPT_FLAG, &training.plan, 0, 0, NULL, "print what the run would need, and stop", NULL, NULL}, \
	{"--profile", 0, OPT_FLAG, &training.profile, 0, 0, NULL, \
	 "time every operation and print a table at the end", NULL, NULL}, \
	{"--quiet", 'q', OPT_FLAG, &training.quiet, 0, 0, NULL, "say nothing but errors", NULL, NULL}, \
	{"--output", 'o', OPT_TEXT, &training.out, 0, 0, "DIR", \
	 "where the model goes; the same command again goes on", NULL, NULL}

#define TRAINING_SYNOPSIS \
	"[--model NAME/P] [--hidden H] [--depth L] [--heads A] [--patch P] [--steps N] [--epochs E] [--extend] [--batch B] " \
	"[--accumulate A] [--lr R] [--schedule NAME] [--warmup N] [--weight-decay W] [--beta2 B] [--clip NORM] " \
	"[--ema-half-life N] [--path NAME] [--time LAW] [--precision NAME] [--flip] [--size N] [--seed S] [--init-weights FILE] [--max-skipped N] " \
	"[--max-skipped-share F] [--validate-every N] [--validate-samples N] [--checkpoint-every N|TIME] [--keep N] [--grace SECONDS] " \
	"[--sample-every N] [--log-every N] " \
	"[--recompute] [--offload WHAT] [--no-verify] [--threads N] [--device NAME] [--plan] [--profile] [-q] "

/* Before the options are parsed: the defaults of this kind. */
void training_defaults(enum net_role role, const char *program);
/* SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGXCPU set cmd_signal, however often they come; the third SIGINT or SIGQUIT kills,
 * and so many seconds (0: never) after the first signal the program ends with 75 as it stands. */
void training_catch_signals(const char *program, int64_t seconds);
/* Talk on stderr, as --quiet allows; cmd_signal stops. */
struct train_hooks training_hooks(void);
/* After: parse what is text, plan or train. The caller has set the fields of training.o that are its own. */
void training_run(const char *shards, struct err *e);

#endif
