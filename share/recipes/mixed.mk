# Do experts of different objectives, or of different networks, make one ensemble? On photographs of clothing, over several training seeds:
#
#	make -j2 -f share/recipes/mixed.mk [BIN=build] [RUN=mixed] [SEEDS='1 2 3']
#
#	flow, ddpm	one network that predicts the velocity on the linear path, and one that predicts the noise on DDPM's cosine path
#	mixed-M		K experts, of which M predict the noise on the cosine path, for M from 0 to K
#	nets		K experts that predict the velocity; every second one is a DiT, the others are U-Nets
#	branched	K experts that start from a flow network with half the training, and have the other half
#	adopted		the same from a noise-predicting network: the experts take over its weights and learn the velocity
#
# All have the same training FLOPs: those of IMAGES pictures through NET. What the router costs is taken from the experts. For each seed and cluster
# one expert of either objective is trained, and the ensembles mixed-M share them. The experts seed, seed + 1, .. (modulo K) are those that predict
# the noise, so that over the seeds no cluster is always among them. The route of an ensemble is the second part of its name, as in mixed-2:full.
# Ends with RUN/loss.tsv, the loss on held-out pictures, and RUN/distances.tsv, the distances of samples to held-out pictures: mean over the seeds,
# difference from mixed-0 under the first of ROUTES, its t-interval and p values, alone and corrected for all rows of the table (Holm); a chart of
# each; and a sheet of samples, RUN/samples.png. What exists is not made again.
HERE := $(dir $(lastword $(MAKEFILE_LIST)))
BIN ?=
RUN ?= mixed
DATA ?= $(wildcard /usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz)
COLOUR ?= --grey
DATA_SEED ?= 1
SEEDS ?= 1 2 3
K ?= 4
HOLDOUT ?= .2
SIZE ?= 16
NET ?= --model unet-nano
OTHER_NET ?= --model dit-nano/2
IMAGES ?= 24000
BATCH ?= 16
EXPERT_BATCH ?= 8
TRAIN_FLAGS ?= --optimizer adamw --lr 2e-3 --warmup 50 --schedule cosine
OTHER_FLAGS ?= --optimizer adamw --lr 3e-3 --warmup 50 --schedule cosine
DDPM ?= --path cosine --predict epsilon
ROUTER_NET ?= --model dit-nano/4 --hidden 64 --depth 2
ROUTER_BATCH ?= 128
ROUTER_FLAGS ?= --steps 300 --lr 1e-3 --warmup 50 --optimizer adamw --schedule constant
ROUTES ?= full top-1
STATES ?= 800
N ?= 1000
STEPS ?= 20
KEYS ?= kd-pix-heldout fd-pix-heldout

ddm = $(if $(BIN),$(BIN)/)ddm-
one_thread = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),--threads 1)
MEMBERS := $(shell seq 0 $$(($(K) - 1)))
FIRST := $(firstword $(SEEDS))
MIXED := $(foreach m,0 $(shell seq 1 $(K)),mixed-$m)
ENSEMBLES := $(MIXED) nets branched adopted
MONOLITHS := flow ddpm
SHARDS := $(RUN)/shards/MANIFEST.tsv
SEED_DIRS := $(SEEDS:%=$(RUN)/seed-%)
WEIGHTS := diffusion_pytorch_model.safetensors

all: $(RUN)/loss.svg $(RUN)/distances.svg $(RUN)/samples.png

.SECONDEXPANSION:
ddm_mk = $(MAKE) -f $(HERE)ddm.mk BIN='$(BIN)' SAMPLES=$(RUN)/samples.tar PARTITION=$(RUN) DATA='$(DATA)' DATA_SEED=$(DATA_SEED) HOLDOUT=$(HOLDOUT) \
	SIZE=$(SIZE) K=$(K)
$(RUN)/samples.tar:
	@mkdir -p $(@D)
	+$(ddm_mk) RUN=$(RUN) samples
$(SHARDS): $(RUN)/samples.tar
	+$(ddm_mk) RUN=$(RUN) shards

# So many passes that the share $1 of IMAGES is seen.
epochs = $$(awk -F '\t' -v images=$(IMAGES) -v share=$1 '!/^\#/ && $$4 == "train" { n++ } END { printf "%.6g", share * images / n }' $(RUN)/assign.tsv)
# How many pictures OTHER_NET trains on for one of NET.
gflop = $$($(ddm)train --cluster all $1 $(COLOUR) --epochs 1 --no-verify --plan -o $(RUN)/none $(RUN)/shards | awk '$$1 == "gflop_per_image" { print $$2 }')
other_share = $$(awk "BEGIN { print $(call gflop,$(NET)) / $(call gflop,$(OTHER_NET)) }")
seed_of = $(patsubst $(RUN)/seed-%,%,$(firstword $(filter $(SEED_DIRS),$(foreach d,$(SEED_DIRS),$(if $(filter $d/%,$@),$d)))))
# $(call experts,NETWORK,SHARE,OTHER OPTIONS,FOLDER): K experts and a router
experts = $(ddm_mk) RUN=$4 SEED=$(seed_of) NET='$1 $(COLOUR)' EPOCHS="$(call epochs,$2)" BATCH=$(BATCH) EXPERT_BATCH=$(EXPERT_BATCH) \
	EXPERT_FLAGS='$3 --validate-samples 0 -q' ROUTER_NET='$(ROUTER_NET) $(COLOUR)' ROUTER_BATCH=$(ROUTER_BATCH) \
	ROUTER_FLAGS='$(ROUTER_FLAGS) --validate-samples 0 -q'
# $(call one,SHARE,OTHER OPTIONS,FOLDER): one network
one = $(ddm)train --cluster all $(NET) $(COLOUR) --epochs $(call epochs,$1) --batch $(BATCH) --seed $(seed_of) $(TRAIN_FLAGS) --validate-samples 0 -q $2 \
	$(one_thread) -o $3 $(RUN)/shards

$(SEED_DIRS:%=%/flow/expert_0/$(WEIGHTS)): $(SHARDS)
	$(call one,1,,$(@D))
$(SEED_DIRS:%=%/ddpm/expert_0/$(WEIGHTS)): $(SHARDS)
	$(call one,1,$(DDPM),$(@D))
$(SEED_DIRS:%=%/half-flow/expert_0/$(WEIGHTS)): $(SHARDS)
	$(call one,.5,,$(@D))
$(SEED_DIRS:%=%/half-ddpm/expert_0/$(WEIGHTS)): $(SHARDS)
	$(call one,.5,$(DDPM),$(@D))

# A file `trained` says that all experts of an ensemble are there. The router is the same for all ensembles of one seed.
$(SEED_DIRS:%=%/of-flow/trained): $(SHARDS)
	+$(call experts,$(NET),1,$(TRAIN_FLAGS),$(@D)) experts router
	touch $@
$(SEED_DIRS:%=%/of-ddpm/trained): $(SHARDS)
	+$(call experts,$(NET),1,$(TRAIN_FLAGS) $(DDPM),$(@D)) experts
	touch $@
$(SEED_DIRS:%=%/of-dit/trained): $(SHARDS)
	+share=$(other_share) && $(call experts,$(OTHER_NET),$$share,$(OTHER_FLAGS),$(@D)) experts
	touch $@
$(SEED_DIRS:%=%/of-half-flow/trained): %/of-half-flow/trained: %/half-flow/expert_0/$(WEIGHTS)
	+$(call experts,$(NET),.5,$(TRAIN_FLAGS) --pretrained $*/half-flow/expert_0,$(@D)) experts
	touch $@
$(SEED_DIRS:%=%/of-half-ddpm/trained): %/of-half-ddpm/trained: %/half-ddpm/expert_0/$(WEIGHTS)
	+$(call experts,$(NET),.5,$(TRAIN_FLAGS) --pretrained $*/half-ddpm/expert_0,$(@D)) experts
	touch $@

# An ensemble is a folder of copies. $(call assemble,SET OF EXPERT k)
assemble = rm -rf $@.new && mkdir -p $@.new && cp -R $(@D)/of-flow/model/router $@.new && \
	for k in $(MEMBERS); do set=$1; cp -R $(@D)/$$set/model/expert_$$k $@.new/expert_$$k || exit; done && rm -rf $@ && mv $@.new $@
ENSEMBLE_DIRS = $(foreach d,$(SEED_DIRS),$(1:%=$d/%))
$(call ENSEMBLE_DIRS,$(MIXED)): $$(@D)/of-flow/trained $$(@D)/of-ddpm/trained
	$(call assemble,$$(awk -v k=$$k -v s=$(seed_of) -v m=$(patsubst mixed-%,%,$(@F)) 'BEGIN { print (k - s % $(K) + $(K)) % $(K) < m ? "of-ddpm" : "of-flow" }'))
$(call ENSEMBLE_DIRS,nets): $$(@D)/of-flow/trained $$(@D)/of-dit/trained
	$(call assemble,$$(awk -v k=$$k -v s=$(seed_of) 'BEGIN { print (k + s) % 2 ? "of-dit" : "of-flow" }'))
$(call ENSEMBLE_DIRS,branched): $$(@D)/of-flow/trained $$(@D)/of-half-flow/trained
	$(call assemble,of-half-flow)
$(call ENSEMBLE_DIRS,adopted): $$(@D)/of-flow/trained $$(@D)/of-half-ddpm/trained
	$(call assemble,of-half-ddpm)

# Arms: NAME of one network, NAME:ROUTE of an ensemble; files have a dot for the colon.
ARMS := $(foreach r,$(ROUTES),$(ENSEMBLES:%=%:$r)) $(MONOLITHS)
arm_file = $(foreach a,$(subst :,.,$1),$2/arms/$a)
LOSSES := $(foreach d,$(SEED_DIRS),$(addsuffix .loss.json,$(call arm_file,$(ARMS),$d)))
SAMPLES_OF := $(foreach d,$(SEED_DIRS),$(addsuffix .tar,$(call arm_file,$(ARMS),$d)))
EVALS := $(SAMPLES_OF:.tar=.eval.json)
model_of = $(patsubst %/arms/,%,$(dir $1))/$(firstword $(subst ., ,$(notdir $1)))
made_of = $(if $(filter $(MONOLITHS),$(notdir $(call model_of,$1))),$(call model_of,$1)/expert_0/$(WEIGHTS),$(call model_of,$1))
route_of = $(if $(filter $(MONOLITHS),$(notdir $(call model_of,$@))),$1 expert:0,$1 $(word 2,$(subst ., ,$(notdir $@))))

$(LOSSES): $$(call made_of,$$@)
	@mkdir -p $(@D)
	$(ddm)diagnose loss -n $(STATES) --no-verify $(if $(filter-out $(MONOLITHS),$(notdir $(call model_of,$@))),$(call route_of,--routes)) \
		$(one_thread) -o $@ $(call model_of,$@) $(RUN)/shards
$(SAMPLES_OF): $$(call made_of,$$@)
	@mkdir -p $(@D)
	$(ddm)sample -q -n $(N) --seed $(seed_of) --solver euler --steps $(STEPS) $(call route_of,--route) $(one_thread) -o $@ $(call model_of,$@)
$(EVALS): %.eval.json: %.tar
	$(ddm)eval-fid --heldout $(RUN)/shards:holdout $(one_thread) -o $@ $(RUN)/shards:train $<

# $(call compare,KEYS,SUFFIX)
compare = $(ddm)compare -k '$1' --tsv --holm -o $@ $(foreach a,$(ARMS),$(foreach d,$(SEED_DIRS),$a=$(call arm_file,$a,$d).$2.json))
$(RUN)/loss.tsv: $(LOSSES)
	$(call compare,loss,loss)
$(RUN)/distances.tsv: $(EVALS)
	$(call compare,$(KEYS),eval)
$(RUN)/loss.svg: $(RUN)/loss.tsv
	$(ddm)plot -o $@ -y loss compare $<
$(RUN)/distances.svg: $(RUN)/distances.tsv
	$(ddm)plot -o $@ -y $(firstword $(KEYS)) compare $<
$(RUN)/samples.png: $(SAMPLES_OF)
	$(ddm)grid --spread --scale 3 -o $@ 'training pictures=$(RUN)/shards' $(foreach a,$(ARMS),'$a=$(call arm_file,$a,$(RUN)/seed-$(FIRST)).tar')

.PHONY: all
