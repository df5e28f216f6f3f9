# A decentralized ensemble beside a monolith of equal compute, from pictures to a table: a Makefile fragment. An experiment is
#
#	DATA = ~/pictures            # folders, tars, videos: what ddm-ingest takes
#	RUN = flowers                # everything is written below this directory
#	include /usr/local/share/ddm/recipes/ddm.mk
#
# and `make report`. Every output appears whole or not at all and every program goes on where it was stopped, so after a kill, a
# full disk or a reboot the same `make` finishes the work, with the same bytes. `make -j4` trains four experts at a time, with one
# thread each. Settings are not prerequisites: for others, use another RUN (a program refuses to mix them).
#
# Experiments on the same data share SAMPLES and PARTITION (clusters and shards). ARMS are the rows of the table: a policy of
# ddm-sample (threshold:P is spelled threshold-P), or any NAME with ROUTE_NAME = full@1,top-1@.5 and ROUTE_FLAGS_NAME, monolith,
# monolith-60steps (as many sampling steps), conditioned (a monolith that is told the cluster).
#
# With LAUNCH=slurm training runs as jobs of a Slurm cluster, one index of an array for each expert, and make waits for them: give -j, so that the
# router and the monolith are submitted beside the experts. SLURM_FLAGS are options of sbatch. ddm-slurm(7).
#
# Targets, each with what it needs: samples clusters shards apart experts router monolith sample evaluate report
ifndef DDM_MK
DDM_MK := 1

RUN ?= run
DATA ?=
BIN ?=
SEED ?= 1
DATA_SEED ?= 1

# The data.
SIZE ?= 32
INGEST_FLAGS ?=
SAMPLES ?= $(RUN)/samples.tar
PARTITION ?= $(RUN)
K ?= 4
HOLDOUT ?= .2
# As --method ward, --balance 1.2, --soft 2 --margin 1.2: partitions to compare, each with its own PARTITION or RUN.
CLUSTER_FLAGS ?=
# Empty, or the folder of an autoencoder: all networks train on its latents. What is measured and shown is pixels all the same.
VAE ?=
# As --text DIR: they train on what a text encoder makes of captions.
SHARD_FLAGS ?=

# Empty: pictures. Else clips of so many frames, RATE a second, for networks that make clips (NET = --model vdit-nano/2x4). The table then has the
# distances in content and motion (COLUMNS), and the page plays films of SHOWN clips of each arm.
CLIPS ?=
RATE ?= 8
SHOWN ?= 12

# Training. An expert passes over its cluster as often as the monolith over everything, in batches K times smaller: equal images,
# equal steps. What the router's training costs is taken from the experts, unless EXPERT_EPOCHS says otherwise.
# Without NET, ROUTER_NET and rates in the flags, ddm-train and ddm-route-train choose what suits the size and the number of the pictures.
NET ?=
# Instead of EPOCHS: the number of samples that each arm trains on, whatever the size of the data. EPOCHS is known once the table of clusters exists.
IMAGES ?=
EPOCHS ?= $(if $(IMAGES),$(shell awk -F '\t' -v images=$(IMAGES) '!/^\#/ && $$4 == "train" { n++ } END { printf "%.6g", n ? images / n : 1 }' \
	$(PARTITION)/assign.tsv 2>/dev/null),100)
EXPERT_EPOCHS ?=
BATCH ?= 64
EXPERT_BATCH ?= $(shell echo $$(($(BATCH) / $(K))))
TRAIN_FLAGS ?=
EXPERT_FLAGS ?= $(TRAIN_FLAGS)
ROUTER_NET ?=
ROUTER_BATCH ?= 64
ROUTER_FLAGS ?= --steps 1000

# Empty, or a table of ddm-info --pin, as `ddm-info --pin samples.tar run/shards >pins.tsv` writes it: nothing is trained, drawn or measured unless
# everything in it is still the same. Under version control it says which data the experiment is about.
PIN ?=

# Empty, or options of ddm-dedup, as --distance 8: nothing is measured while a training picture is near a held-out one, of which it may be a copy.
# near.tsv beside the assignment says which. `make apart` looks at any time.
NEAR ?=

# Empty: training runs here. slurm: as jobs, of which SLURM_AT_ONCE experts at a time (empty: as many as the cluster takes); what they need stands in
# SLURM_FLAGS, as --partition=gpu --gpus=1 --time=4:00:00. Batches are cut into the parts that a card's memory needs.
LAUNCH ?=
SLURM_FLAGS ?=
SLURM_AT_ONCE ?=

# Sampling and measuring.
POLICIES ?= top-1 top-2 full oracle prior
N ?= 1000
STEPS ?= 25
SAMPLE_FLAGS ?= --solver euler
EVAL_FLAGS ?=
# Of ddm-grid, for the sheet of samples.
GRID_FLAGS ?= --spread
PIXELS = $(PARTITION)/$(if $(VAE),pixels,shards)
REFERENCE ?= $(PIXELS)
# HEADING=KEY of the table; keys as in the JSON of ddm-eval-fid and ddm-sample --report and --timing.
ifneq ($(CLIPS),)
COLUMNS ?= content=content-pix-heldout,motion=motion-flow-heldout,content_floor=content-pix-heldout-floor,motion_floor=motion-flow-heldout-floor,$\
	gflop_per_clip=gflop_per_image,clips_per_second=images_per_second
endif
COLUMNS ?= kd=kd-pix,fd=fd-pix,kd_heldout=kd-pix-heldout,fd_heldout=fd-pix-heldout,kd_floor=kd-pix-heldout-floor,$\
	fd_floor=fd-pix-heldout-floor,memorised=memorised,gflop_per_image=gflop_per_image,images_per_second=images_per_second

ddm = $(if $(BIN),$(BIN)/)ddm-
# Deferred: MAKEFLAGS holds -j only once make is running.
one_thread = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),--threads 1)
# Arguments: the file that a training makes, and -k K if it is one of each expert.
share := $(dir $(lastword $(MAKEFILE_LIST)))..
ifeq ($(LAUNCH),slurm)
launch = $(share)/slurm/ddm-submit $2 $1 --output='$(RUN)/slurm-%j.out' $(SLURM_FLAGS) --
training_flags = --accumulate auto
else ifeq ($(LAUNCH),)
training_flags = $(one_thread)
else
$(error LAUNCH = $(LAUNCH): it is empty or slurm)
endif
CLUSTERS := $(shell seq 0 $$(($(K) - 1)))
EXPERTS = $(CLUSTERS:%=$(RUN)/model/expert_%/diffusion_pytorch_model.safetensors)
ROUTER = $(RUN)/model/router/model.safetensors
MONOLITH = $(RUN)/monolith/expert_0/diffusion_pytorch_model.safetensors
CONDITIONED = $(RUN)/conditioned/expert_0/diffusion_pytorch_model.safetensors
SHARDS = $(PARTITION)/shards/MANIFEST.tsv
# The monolith comes first, so that with -j it trains beside the experts.
ARMS ?= monolith $(POLICIES)
EVALUATIONS = $(ARMS:%=$(RUN)/eval/%.json)

# What one looks at: a sheet of pictures, or films.
FILMS = $(foreach a,training $(ARMS),$(RUN)/films/$a.webp)
SEEN = $(if $(CLIPS),$(FILMS),$(RUN)/samples.png)

samples: $(SAMPLES)
clusters: $(PARTITION)/assign.tsv
shards: $(SHARDS)
experts: $(EXPERTS)
router: $(ROUTER)
monolith: $(MONOLITH)
conditioned: $(CONDITIONED)
sample: $(ARMS:%=$(RUN)/samples/%.tar)
evaluate: $(EVALUATIONS)
report: $(RUN)/report.tsv $(SEEN) $(RUN)/report.html

$(RUN)/samples.tar:
	@mkdir -p $(@D)
	$(if $(DATA),,$(error set DATA to folders of pictures, tars or videos))$(ddm)ingest --size $(SIZE) --seed $(DATA_SEED) \
		$(if $(CLIPS),--clips $(CLIPS) --fps $(RATE)) $(INGEST_FLAGS) -o $@ $(DATA)

$(PARTITION)/assign.tsv: $(SAMPLES)
	@mkdir -p $(@D)
	$(ddm)cluster -k $(K) --holdout $(HOLDOUT) --seed $(DATA_SEED) $(CLUSTER_FLAGS) --sheet $(PARTITION)/clusters.png -o $@ $(SAMPLES)

$(SHARDS): $(PARTITION)/assign.tsv
	$(ddm)shard -a $< --holdout $(HOLDOUT) $(if $(VAE),--vae $(VAE)) $(SHARD_FLAGS) -o $(@D) $(SAMPLES)
$(PARTITION)/pixels/MANIFEST.tsv: $(PARTITION)/assign.tsv
	$(ddm)shard -a $< --holdout $(HOLDOUT) -o $(@D) $(SAMPLES)

apart: $(PARTITION)/assign.tsv
	$(ddm)dedup --check --clusters $< --table $(NEAR) -o $(PARTITION)/near.tsv $(SAMPLES)
ifneq ($(NEAR),)
$(EVALUATIONS): | apart
endif

# --plan prints steps and GFLOP per image of the monolith, then of the router. The experts get less training by the router's share.
expert_epochs = { $(ddm)train --cluster all $(NET) --epochs $(EPOCHS) --batch $(BATCH) --no-verify --plan -o $(RUN)/monolith/expert_0 $(PARTITION)/shards \
	&& $(ddm)route-train $(ROUTER_NET) $(ROUTER_FLAGS) --batch $(ROUTER_BATCH) --no-verify --plan -o $(RUN)/model/router $(PARTITION)/shards; } | \
	awk '$$1 == "steps" { n++; steps[n] = $$2 } $$1 == "gflop_per_image" { gflop[n] = $$2 } END { if (n < 2) exit 1; \
	share = steps[2] * gflop[2] * $(ROUTER_BATCH) / (steps[1] * gflop[1] * $(BATCH)); if (share < 1) printf "%.6g", $(EPOCHS) * (1 - share); else { \
	printf "ddm.mk: the router costs more than the experts save: its training takes %.3g times the work of the monolith. Take a smaller ROUTER_NET, \
	fewer --steps in ROUTER_FLAGS or more EPOCHS; EXPERT_EPOCHS=N trains experts for N epochs whatever that costs.\n", share | "cat >&2"; exit 2 } }'

# Run before anything is trained: everything needed is known by then, and a later failure would waste hours.
check_budget = $(if $(filter-out 0,$(EXPERT_BATCH)),,echo 'ddm.mk: a BATCH of $(BATCH) has no picture for each of $(K) experts; take a larger one.' >&2; exit 2;) \
	$(if $(EXPERT_EPOCHS),:,$(expert_epochs) >/dev/null)

# Argument: the number of the cluster.
train_expert = $(ddm)train --cluster $1 $(NET) --epochs $(or $(EXPERT_EPOCHS),$(shell { $(expert_epochs); } 2>/dev/null)) --batch $(EXPERT_BATCH) \
	--seed $(SEED) $(training_flags) $(EXPERT_FLAGS) -o $(RUN)/model/expert_$1 $(PARTITION)/shards

ifneq ($(PIN),)
$(EXPERTS) $(MONOLITH) $(CONDITIONED) $(ROUTER) $(EVALUATIONS): | pinned
pinned: $(SHARDS)
	$(ddm)check --pinned $(PIN)
.PHONY: pinned
endif

ifeq ($(LAUNCH),slurm)
$(EXPERTS) &: $(SHARDS)
	@$(check_budget)
	@mkdir -p $(RUN)/model
	$(call launch,$(RUN)/model/expert_%a/diffusion_pytorch_model.safetensors,-k $(K) $(SLURM_AT_ONCE:%=-j %)) $(call train_expert,%a)
else
$(EXPERTS): $(RUN)/model/expert_%/diffusion_pytorch_model.safetensors: $(SHARDS)
	@$(check_budget)
	@mkdir -p $(RUN)/model
	$(call train_expert,$*)
endif

$(MONOLITH) $(CONDITIONED): $(SHARDS)
	@$(check_budget)
	@mkdir -p $(dir $(@D))
	$(call launch,$@) $(ddm)train --cluster all $(if $(filter $(CONDITIONED),$@),--condition cluster) $(NET) --epochs $(EPOCHS) --batch $(BATCH) \
		--seed $(SEED) $(training_flags) $(TRAIN_FLAGS) -o $(@D) $(PARTITION)/shards

$(ROUTER): $(SHARDS)
	@$(check_budget)
	@mkdir -p $(RUN)/model
	$(call launch,$@) $(ddm)route-train $(ROUTER_NET) $(training_flags) $(ROUTER_FLAGS) --batch $(ROUTER_BATCH) --seed $(SEED) -o $(@D) \
		$(PARTITION)/shards

# Arguments of a recipe: the number of steps.
sample = $(ddm)sample -n $(N) --seed $(SEED) $(if $(VAE),--vae $(VAE)) $(SAMPLE_FLAGS) --steps $1 $(one_thread) --report $(@:.tar=.json) --timing $(@:.tar=.timing.json) -o $@

$(RUN)/samples/monolith.tar: $(MONOLITH)
	@mkdir -p $(@D)
	$(call sample,$(STEPS)) --route expert:0 $(RUN)/monolith

$(RUN)/samples/monolith-%steps.tar: $(MONOLITH)
	@mkdir -p $(@D)
	$(call sample,$*) --route expert:0 $(RUN)/monolith

$(RUN)/samples/conditioned.tar: $(CONDITIONED)
	@mkdir -p $(@D)
	$(call sample,$(STEPS)) --route expert:0 --class labels --labels $(PARTITION)/assign.tsv $(RUN)/conditioned

# The policy of an arm.
route = $(or $(ROUTE_$*),$(*:threshold-%=threshold:%))

$(POLICIES:%=$(RUN)/samples/%.tar): $(RUN)/samples/%.tar: $(EXPERTS) $(ROUTER)
	@mkdir -p $(@D)
	$(call sample,$(STEPS)) --route '$(route)' $(ROUTE_FLAGS_$*) $(if $(findstring oracle,$(route)),--labels $(PARTITION)/assign.tsv) \
		$(if $(filter full,$*),--log $(@:.tar=.weights.jsonl)) $(RUN)/model

# Distances to the training part and to the held-out part, on which nothing was fitted.
$(ARMS:%=$(RUN)/eval/%.json): $(RUN)/eval/%.json: $(RUN)/samples/%.tar $(if $(filter $(PIXELS),$(REFERENCE)),| $(PIXELS)/MANIFEST.tsv)
	@mkdir -p $(@D)
	$(ddm)eval-fid --heldout $(REFERENCE):holdout $(EVAL_FLAGS) $(one_thread) -o $@ $(REFERENCE):train $<

report_rows = $(foreach a,$(ARMS),$a=$(RUN)/eval/$a.json $a=$(RUN)/samples/$a.json $a=$(RUN)/samples/$a.timing.json)

$(RUN)/report.tsv: $(EVALUATIONS)
	$(ddm)report -t strategy --columns '$(COLUMNS)' -q -o $@ $(report_rows)

$(RUN)/samples.png: $(ARMS:%=$(RUN)/samples/%.tar) | $(PIXELS)/MANIFEST.tsv
	$(ddm)grid $(GRID_FLAGS) -o $@ 'training pictures=$(PIXELS)' $(foreach a,$(ARMS),'$a=$(RUN)/samples/$a.tar')

$(RUN)/films/training.webp: $(PIXELS)/MANIFEST.tsv
	@mkdir -p $(@D)
	$(ddm)play -q --spread -n $(SHOWN) -o $@ $(foreach k,$(CLUSTERS),$(PIXELS)/cluster-$k)
$(ARMS:%=$(RUN)/films/%.webp): $(RUN)/films/%.webp: $(RUN)/samples/%.tar
	@mkdir -p $(@D)
	$(ddm)play -q --fps $(RATE) -n $(SHOWN) -o $@ $<

# For the page: a Makefile with the current settings, which repeats the experiment.
SETTINGS = DATA SIZE CLIPS RATE INGEST_FLAGS K HOLDOUT DATA_SEED CLUSTER_FLAGS VAE SHARD_FLAGS SEED NET EPOCHS EXPERT_EPOCHS BATCH EXPERT_BATCH TRAIN_FLAGS EXPERT_FLAGS ROUTER_NET \
	ROUTER_BATCH ROUTER_FLAGS POLICIES ARMS N STEPS SAMPLE_FLAGS EVAL_FLAGS GRID_FLAGS COLUMNS
define newline


endef
is_set = $(foreach v,$(SETTINGS) $(POLICIES:%=ROUTE_%) $(POLICIES:%=ROUTE_FLAGS_%),$(if $($v),$v))
settings = RUN = run$(newline)$(foreach v,$(is_set),$v = $(subst \#,\\#,$(subst $$,$$$$,$($v)))$(newline))include /usr/local/share/ddm/recipes/ddm.mk

$(RUN)/report.html: export DDM_SETTINGS = $(settings)
$(RUN)/report.html: $(RUN)/report.tsv $(SEEN)
	$(ddm)html --settings "$$DDM_SETTINGS" -p $(PARTITION) -o $@ $(RUN)

.PHONY: samples clusters shards apart experts router monolith conditioned sample evaluate report
endif
