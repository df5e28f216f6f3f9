# Does an ensemble make better pictures than one network of equal compute? An experiment to answer it for a folder of a few thousand
# photographs, with the arms that rule out other explanations, over several training seeds:
#
#	make -j2 -f share/recipes/flowers.mk DATA=~/flowers [BIN=build] [RUN=flowers] [SEEDS='1 2 3 4 5']
#
#	monolith	one network, at STEPS, 2 STEPS and 4 STEPS sampling steps
#	conditioned	one network that is told the cluster, and sampled from the clusters' shares
#	hog-4		four experts on clusters of HOG and colour, and a router, under every policy
#	random-4	the same on a random partition with the same shares
#	hog-8		eight experts (WIDE= leaves them out)
#
# Networks of one batch size want another learning rate than those of a quarter of it: the monoliths' is the one of LRS with which the
# first seed's has the smallest held-out loss, the experts' the one with which those of hog-4 have it on average. Every arm sees each
# picture as often; the experts give up the router's share. Some hours on two cores; what is there is not done again, so a kill or
# another seed costs nothing. Ends with RUN/compare.tsv: mean over the seeds, difference from the monolith, its t-interval
# and p values, alone and corrected for all rows (Holm); a chart of it; RUN/seed-S/budget.tsv: what of the first ensemble's error is the
# experts', what the router's; and RUN/report.html.
HERE := $(dir $(lastword $(MAKEFILE_LIST)))
RUN ?= flowers
DATA ?=
BIN ?=
SEEDS ?= 1 2 3
LRS ?= 1e-3 3e-3 1e-2 3e-2
WIDE ?= hog-8
DATA_SEED ?= 1
HOLDOUT ?= .2
SIZE ?= 32
NET ?= --model dit-nano/4
EPOCHS ?= 60
BATCH ?= 64
WARMUP ?= 100
OPTIMIZER ?= --optimizer adamw --schedule constant
ROUTER_NET ?= --model dit-nano/8 --depth 3
ROUTER_BATCH ?= 128
ROUTER_FLAGS ?= --steps 500 --lr 1e-3 --warmup 50 $(OPTIMIZER) -q
N ?= 1000
STEPS ?= 30
THRESHOLD ?= threshold-.1
STATES ?= 200

double := $(shell echo $$((2 * $(STEPS))))
fourfold := $(shell echo $$((4 * $(STEPS))))
MONOLITHS = monolith monolith-$(double)steps monolith-$(fourfold)steps conditioned
POLICIES = top-1 top-2 full $(THRESHOLD) oracle prior
RANDOM_POLICIES = top-1 top-2 full prior
# KEY of the JSON of ddm-eval-fid and ddm-sample --report; the first two are what the arms are judged by.
KEYS ?= kd-pix-heldout fd-pix-heldout kd-pix fd-pix memorised gflop_per_image experts_per_step

ddm = $(if $(BIN),$(BIN)/)ddm-
FIRST = $(firstword $(SEEDS))
WEIGHTS = expert_0/diffusion_pytorch_model.safetensors
# $(call run,DIRECTORY,PARTITION,K,SEED,LR,EXPERTS' LR)
run = +$(MAKE) -f $(HERE)ddm.mk BIN='$(BIN)' SAMPLES=$(RUN)/samples.tar RUN=$1 PARTITION=$(RUN)/$2 REFERENCE=$(RUN)/hog-4/shards K=$3 \
	DATA='$(DATA)' DATA_SEED=$(DATA_SEED) HOLDOUT=$(HOLDOUT) SIZE=$(SIZE) NET='$(NET)' EPOCHS=$(EPOCHS) BATCH=$(BATCH) \
	TRAIN_FLAGS='--lr $5 --warmup $(WARMUP) $(OPTIMIZER) -q' EXPERT_FLAGS='--lr $6 --warmup $(WARMUP) $(OPTIMIZER) -q' \
	ROUTER_NET='$(ROUTER_NET)' ROUTER_BATCH=$(ROUTER_BATCH) ROUTER_FLAGS='$(ROUTER_FLAGS)' N=$(N) STEPS=$(STEPS) SEED=$4
lr = $(shell cat $(RUN)/lr)
expert_lr = $(shell cat $(RUN)/expert-lr)
SHARDS = $(RUN)/hog-4/shards/MANIFEST.tsv
CANDIDATES = $(LRS:%=$(RUN)/lr-%/monolith/$(WEIGHTS))
EXPERT_CANDIDATES = $(LRS:%=$(RUN)/lr-%/experts.tsv)
REPORTS = $(SEEDS:%=$(RUN)/seed-%/report.tsv) $(SEEDS:%=$(RUN)/seed-%/random-4/report.tsv)
ifneq ($(WIDE),)
REPORTS += $(SEEDS:%=$(RUN)/seed-%/hog-8/report.tsv)
endif

all: $(RUN)/compare.tsv $(RUN)/compare.svg $(RUN)/report.html $(SEEDS:%=$(RUN)/seed-%/budget.tsv)

$(RUN)/samples.tar:
	@mkdir -p $(@D)
	$(call run,$(RUN),.,1,0,0,0) samples

$(SHARDS): $(RUN)/samples.tar
	$(call run,$(RUN)/hog-4,hog-4,4,0,0,0) shards

$(RUN)/random-4/shards/MANIFEST.tsv: $(SHARDS)
	$(call run,$(RUN)/random-4,random-4,4,0,0,0) CLUSTER_FLAGS='--features random --like $(RUN)/hog-4/assign.tsv' shards

$(RUN)/hog-8/shards/MANIFEST.tsv: $(RUN)/samples.tar
	$(call run,$(RUN)/hog-8,hog-8,8,0,0,0) shards

$(CANDIDATES): $(RUN)/lr-%/monolith/$(WEIGHTS): $(SHARDS)
	$(call run,$(RUN)/lr-$*,hog-4,4,$(FIRST),$*,$*) monolith

$(EXPERT_CANDIDATES): $(RUN)/lr-%/experts.tsv: $(SHARDS)
	$(call run,$(RUN)/lr-$*,hog-4,4,$(FIRST),$*,$*) experts
	$(ddm)report -t expert --columns val_loss -o $@ $(foreach k,0 1 2 3,$k=$(RUN)/lr-$*/model/expert_$k/train.jsonl)

$(RUN)/lr.tsv: $(CANDIDATES)
	$(ddm)report -t lr --columns val_loss -o $@ $(foreach r,$(LRS),$r=$(RUN)/lr-$r/monolith/expert_0/train.jsonl)

$(RUN)/lr: $(RUN)/lr.tsv
	awk -F '\t' '!/^#/ && (!n++ || $$2 < least) { least = $$2; lr = $$1 } END { print lr }' $< >$@.new
	mv $@.new $@

$(RUN)/expert-lr: $(EXPERT_CANDIDATES)
	for r in $(LRS); do awk -F '\t' -v lr=$$r '!/^#/ { sum += $$2 } END { printf "%.9g %s\n", sum, lr }' $(RUN)/lr-$$r/experts.tsv; done | \
		LC_ALL=C sort -g | awk '{ print $$2; exit }' >$@.new
	mv $@.new $@

# The chosen candidates are used as the first seed's runs, because the same command gives the same bytes.
$(RUN)/seed-$(FIRST)/monolith/$(WEIGHTS): $(RUN)/lr
	mkdir -p $(RUN)/seed-$(FIRST)
	rm -rf $(RUN)/seed-$(FIRST)/monolith.new
	cp -R $(RUN)/lr-$(lr)/monolith $(RUN)/seed-$(FIRST)/monolith.new
	mv $(RUN)/seed-$(FIRST)/monolith.new $(RUN)/seed-$(FIRST)/monolith

$(RUN)/seed-$(FIRST)/model/$(WEIGHTS): $(RUN)/expert-lr
	mkdir -p $(RUN)/seed-$(FIRST)
	rm -rf $(RUN)/seed-$(FIRST)/model.new
	cp -R $(RUN)/lr-$(expert_lr)/model $(RUN)/seed-$(FIRST)/model.new
	mv $(RUN)/seed-$(FIRST)/model.new $(RUN)/seed-$(FIRST)/model

$(RUN)/seed-$(FIRST)/report.tsv: $(RUN)/seed-$(FIRST)/monolith/$(WEIGHTS) $(RUN)/seed-$(FIRST)/model/$(WEIGHTS)

$(SEEDS:%=$(RUN)/seed-%/report.tsv): $(RUN)/seed-%/report.tsv: $(RUN)/lr $(RUN)/expert-lr
	$(call run,$(RUN)/seed-$*,hog-4,4,$*,$(lr),$(expert_lr)) ARMS='$(MONOLITHS) $(POLICIES)' POLICIES='$(POLICIES)' report

$(SEEDS:%=$(RUN)/seed-%/random-4/report.tsv): $(RUN)/seed-%/random-4/report.tsv: $(RUN)/lr $(RUN)/expert-lr $(RUN)/random-4/shards/MANIFEST.tsv
	$(call run,$(RUN)/seed-$*/random-4,random-4,4,$*,$(lr),$(expert_lr)) ARMS='$(RANDOM_POLICIES)' POLICIES='$(RANDOM_POLICIES)' report

$(SEEDS:%=$(RUN)/seed-%/hog-8/report.tsv): $(RUN)/seed-%/hog-8/report.tsv: $(RUN)/lr $(RUN)/expert-lr $(RUN)/hog-8/shards/MANIFEST.tsv
	$(call run,$(RUN)/seed-$*/hog-8,hog-8,8,$*,$(lr),$(expert_lr)) ARMS='$(POLICIES)' POLICIES='$(POLICIES)' report

# $(call arm,SUBDIRECTORY,PREFIX,ARMS): LABEL=FILE of every seed.
arm = $(foreach a,$3,$(foreach s,$(SEEDS),$2$a=$(RUN)/seed-$s/$1eval/$a.json $2$a=$(RUN)/seed-$s/$1samples/$a.json))
ALL_ARMS = $(call arm,,,$(MONOLITHS) $(POLICIES)) $(call arm,random-4/,random-4-,$(RANDOM_POLICIES)) \
	$(if $(WIDE),$(call arm,hog-8/,hog-8-,$(POLICIES)))

$(RUN)/compare.tsv: $(REPORTS)
	$(ddm)compare -k '$(KEYS)' --tsv --holm -o $@ $(ALL_ARMS)

$(RUN)/compare.svg: $(RUN)/compare.tsv
	$(ddm)plot -o $@ -y $(firstword $(KEYS)) compare $<

$(SEEDS:%=$(RUN)/seed-%/budget.tsv): $(RUN)/seed-%/budget.tsv: $(RUN)/seed-%/report.tsv
	$(ddm)diagnose budget -n $(STATES) --routing $(@:.tsv=-router.tsv) -o $@ $(@D)/model $(RUN)/hog-4/shards

$(RUN)/report.html: $(RUN)/compare.tsv $(SEEDS:%=$(RUN)/seed-%/report.tsv)
	$(ddm)html -p $(RUN)/hog-4 --compare $(RUN)/compare.tsv -t 'Experts on photographs' -o $@ $(SEEDS:%=$(RUN)/seed-%)

.PHONY: all
