/* The options of all commands of ddm-diagnose. */
#include "cmd/diagnose.h"

struct diagnose_request diagnose_request = {
    .out = "-",
    .device = "auto",
    .batch = 64,
    .states = 200,
    .steps = 20,
    .every = 1,
    .directions = 4,
    .iterations = 30,
    .parts = 2,
    .tolerance = .01,
};
const char *const diagnose_splits[] = {"train", "holdout", NULL}, *const diagnose_solvers[] = {"euler", "heun", NULL};

#define FIELD(name) .value = &diagnose_request.name
#define OF_LOSS .when = {{USE_NEEDS, "1=loss"}}
#define OF_SAMPLES .when = {{USE_NEEDS, "1=loss 1=uncertainty"}}
#define OF_TIMES .when = {{USE_NEEDS, "1=times"}}
#define OF_MODELS .when = {{USE_NEEDS, "1=loss 1=budget 1=trajectories 1=uncertainty"}}
#define OF_BUDGET .when = {{USE_NEEDS, "1=budget"}}
#define OF_TRAJECTORIES .when = {{USE_NEEDS, "1=trajectories"}}

const struct option diagnose_options[] = {
    OPTION_GROUP("What to measure"),
    {"--routes", .type = OPTION_TEXT, FIELD(routes), .arg = "LIST",
     .help = "routes, with commas between: policies, and for budget optimum and exact:POLICY (default: all that the model has of full, top-1, "
             "top-2, and others); for loss and times one policy",
     .when = {{USE_NEEDS, "1=loss 1=budget 1=trajectories 1=times"}}},
    {"--count", 'n', OPTION_INT, FIELD(count), .lo = 1, .hi = 1e9, .arg = "N",
     .help = "states at each time (default 500), trajectories (default 16), or for loss and uncertainty samples (default 1000)", OF_MODELS},
    {"--seed", .type = OPTION_U64, FIELD(seed), .arg = "S", .help = "seed of samples and noise (default 0)", OF_MODELS},
    {"--split", .type = OPTION_CHOICE, FIELD(split), .arg = "PART",
     .help = "part of SHARDS from whose samples states are made (default: train for budget, else holdout)", .choices = diagnose_splits,
     .given = &diagnose_request.split_given, .when = {{USE_NEEDS, "1=loss 1=budget 1=trajectories 1=uncertainty"}, {USE_INPUT, "SHARDS, not a law"}}},
    OPTION_GROUP("Errors (loss, budget, uncertainty)"),
    {"--timesteps", .type = OPTION_TEXT, FIELD(times), .arg = "LIST",
     .help = "times from .001 to 1 (default: .05,.1,.2, ..., .9,.95,1 for budget, else .05,.15, ..., .95)", .was = "--times",
     .when = {{USE_NEEDS, "1=loss 1=budget 1=uncertainty"}}},
    {"--untold", .type = OPTION_FLAG, FIELD(untold), .help = "do not tell networks the class or cluster that they can read", OF_SAMPLES},
    OPTION_GROUP("Parts of the times (times)"),
    {"--parts", .type = OPTION_INT, FIELD(parts), .lo = 1, .hi = DIAGNOSE_PARTS, .arg = "N", .help = "parts of the times (default 2)", OF_TIMES},
    {"--column", .type = OPTION_TEXT, FIELD(column), .arg = "NAME", .help = "the quantity whose shares are equal (default loss)", OF_TIMES},
    OPTION_GROUP("Trajectories (trajectories)"),
    {"--steps", .type = OPTION_INT, FIELD(steps), .lo = 1, .hi = 500, .arg = "N", .help = "steps of a trajectory (default 20)", OF_TRAJECTORIES},
    {"--solver", .type = OPTION_CHOICE, FIELD(solver), .arg = "NAME", .help = "method (default euler)", .choices = diagnose_solvers, OF_TRAJECTORIES},
    {"--every", .type = OPTION_INT, FIELD(every), .lo = 1, .hi = 500, .arg = "N",
     .help = "measure Jacobians at every N-th step only, from the first (default 1)", OF_TRAJECTORIES},
    {"--directions", .type = OPTION_INT, FIELD(directions), .lo = 1, .hi = 1000, .arg = "N", .help = "perturbations of each trajectory (default 4)",
     OF_TRAJECTORIES},
    {"--iterations", .type = OPTION_INT, FIELD(iterations), .lo = 2, .hi = 100000, .arg = "N", .help = "most steps of a power iteration (default 30)",
     OF_TRAJECTORIES},
    {"--tolerance", .type = OPTION_REAL, FIELD(tolerance), .lo = 0, .hi = .5, .arg = "R",
     .help = "relative change at which a power iteration stops (default .01)", OF_TRAJECTORIES},
    {"--states", .type = OPTION_INT, FIELD(states), .lo = 1, .hi = 1e9, .arg = "N",
     .help = "noised samples of SHARDS or LAW at each time (default 200)", .given = &diagnose_request.states_given,
     .when = {{USE_NEEDS, "1=trajectories"}, {USE_INPUT, "SHARDS, or a law with --experts"}}},
    {"--centroids", .type = OPTION_TEXT, FIELD(centroids), .arg = "FILE",
     .help = "centroids of the clusters (ddm-cluster), for the rank of the chosen expert and routes by distance", OF_TRAJECTORIES},
    OPTION_GROUP("Output and machine"),
    {"--experts", .type = OPTION_TEXT, FIELD(experts), .arg = "FILE", .help = "write a table of each expert's loss on its own cluster and on others",
     .when = {{USE_NEEDS, "1=trajectories"}, {USE_INPUT, "SHARDS or a law"}}},
    {"--routing", .type = OPTION_TEXT, FIELD(routing), .arg = "FILE", .help = "write a table on the router: accuracy, cross-entropy, calibration",
     OF_BUDGET},
    {"--items", .type = OPTION_TEXT, FIELD(items), .arg = "FILE", .help = "write a table with the loss of every sample at every time", OF_LOSS},
    {"--json", .type = OPTION_TEXT, FIELD(json), .arg = "FILE", .help = "write everything as JSON",
     .when = {{USE_NEEDS, "1=budget 1=trajectories 1=correlation 1=uncertainty"}}},
    {"--no-verify", .type = OPTION_FLAG, FIELD(no_verify), .help = "do not check the shards' hashes first",
     .when = {{USE_NEEDS, "1=loss 1=budget 1=trajectories 1=uncertainty"}, {USE_INPUT, "SHARDS, not a law"}}},
    {"--batch", .type = OPTION_INT, FIELD(batch), .lo = 1, .hi = 65536, .arg = "N",
     .help = "states or trajectories in a batch; changes no result (default 64)", OF_MODELS},
    {"--threads", .type = OPTION_INT, FIELD(threads), .lo = 0, .hi = 1024, .arg = "N",
     .help = "threads; changes no result (default: all processors that it may use)", OF_MODELS},
    {"--device", .type = OPTION_TEXT, FIELD(device), .arg = "NAME", .help = "auto, cpu, cuda or cuda:N: where networks compute (default auto)",
     OF_MODELS},
    {"--output", 'o', OPTION_TEXT, FIELD(out), .arg = "FILE", .help = "write the table, or the loss as JSON, to FILE (default -, standard output)",
     OPTION_ALWAYS},
    {0},
};
