# New data arrives after an ensemble was trained. What does the ensemble forget, and what does it gain, beside a monolith? Over training seeds:
#
#	make -j2 -f share/recipes/continual.mk [BIN=build] [RUN=continual] [SEEDS='1 2 3'] [OLD='FILE...' NEW='FILE...']
#
#	before		K experts and a router, trained on the old pictures
#	extended	the same experts, byte for byte, NEW_K more for the new clusters (ddm-cluster --extend), and that router with its last layer
#			trained again
#	rerouted	the same experts with a router that is trained from scratch
#	first		a monolith that was trained on the old pictures
#	finetuned	the same monolith, which goes on with the new ones
#	replayed	the same monolith, which goes on with the old and the new ones
#	retrained	a monolith that is trained on all pictures from scratch
#
# OLD and NEW are pictures as ddm-ingest takes them. By default they are photographs of clothing: clothes and bags are old, shoes are new. The first
# training has IMAGES pictures. What comes after it has NEW_K K-th parts of that in every arm but retrained, which has both. Routers come on top. What
# a monolith forgot is the difference of finetuned and first on old pictures.
#
# Ends with RUN/old.tsv and RUN/new.tsv, the loss on held-out old and new pictures: mean over the seeds, difference from `before`, its t-interval and
# p values, alone and corrected for the rows (Holm); a chart of each; RUN/unchanged.txt, the hashes of the old experts in the extended ensemble,
# after they were compared with the first ones byte for byte; and a sheet of samples, RUN/samples.png. What exists is not made again.
HERE := $(dir $(lastword $(MAKEFILE_LIST)))
BIN ?=
RUN ?= continual
DATA ?= $(wildcard /usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz)
OLD_CLASSES ?= 0 1 2 3 4 6 8
NEW_CLASSES ?= 5 7 9
OLD ?=
NEW ?=
COLOUR ?= --grey
DATA_SEED ?= 1
SEEDS ?= 1 2 3
K ?= 3
NEW_K ?= 1
HOLDOUT ?= .2
SIZE ?= 16
NET ?= --model unet-nano
IMAGES ?= 24000
BATCH ?= 16
EXPERT_BATCH ?= 8
TRAIN_FLAGS ?= --optimizer adamw --lr 2e-3 --warmup 50 --schedule cosine
ROUTER_NET ?= --model dit-nano/4 --hidden 64 --depth 2
ROUTER_BATCH ?= 128
ROUTER_STEPS ?= 300
HEAD_STEPS ?= 100
ROUTER_FLAGS ?= --lr 1e-3 --warmup 20 --optimizer adamw --schedule constant
STATES ?= 800
N ?= 100
STEPS ?= 20

ddm = $(if $(BIN),$(BIN)/)ddm-
one_thread = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),--threads 1)
ALL_K := $(shell echo $$(($(K) + $(NEW_K))))
OLD_MEMBERS := $(shell seq 0 $$(($(K) - 1)))
NEW_MEMBERS := $(shell seq $(K) $$(($(ALL_K) - 1)))
FIRST := $(firstword $(SEEDS))
ENSEMBLES := before extended rerouted
MONOLITHS := first finetuned replayed retrained
ARMS := $(ENSEMBLES) $(MONOLITHS)
SEED_DIRS := $(SEEDS:%=$(RUN)/seed-%)
WEIGHTS := diffusion_pytorch_model.safetensors
MONOLITH := expert_0/$(WEIGHTS)

all: $(RUN)/old.svg $(RUN)/new.svg $(RUN)/unchanged.txt $(RUN)/samples.png

# The pictures: given ones, or those of some classes, which lie in shards by class.
ingest = $(ddm)ingest -q --size $(SIZE) --seed $(DATA_SEED) -o $@
ifeq ($(OLD),)
$(RUN)/samples.tar:
	@mkdir -p $(@D)
	$(ingest) $(DATA)
$(RUN)/classes.tsv: $(RUN)/samples.tar
	$(ddm)cluster -q --by class -o $@ $<
$(RUN)/classes/MANIFEST.tsv: $(RUN)/classes.tsv
	$(ddm)shard -q -a $< -o $(@D) $(RUN)/samples.tar
$(RUN)/old.list $(RUN)/new.list: $(RUN)/classes/MANIFEST.tsv
	ls $(patsubst %,$(RUN)/classes/cluster-%/*.tar.zst,$(if $(filter %/old.list,$@),$(OLD_CLASSES),$(NEW_CLASSES))) >$@.new
	mv $@.new $@
else
$(RUN)/old.tar:
	@mkdir -p $(@D)
	$(ingest) $(OLD)
$(RUN)/new.tar:
	@mkdir -p $(@D)
	$(ingest) $(NEW)
$(RUN)/old.list $(RUN)/new.list: %.list: %.tar
	echo $< >$@.new
	mv $@.new $@
endif

# The partition, its extension, and the shards of the old pictures, of all, and of the new ones alone.
$(RUN)/assign-old.tsv: $(RUN)/old.list
	$(ddm)cluster -q -k $(K) --holdout $(HOLDOUT) --seed $(DATA_SEED) --centroids-out $(RUN)/centroids-old.npy -o $@ $$(cat $<)
$(RUN)/assign-all.tsv: $(RUN)/assign-old.tsv $(RUN)/new.list
	$(ddm)cluster -k $(ALL_K) --holdout $(HOLDOUT) --seed $(DATA_SEED) --extend $(RUN)/centroids-old.npy --keep $< \
		--centroids-out $(RUN)/centroids-all.npy -o $@ $$(cat $(RUN)/old.list $(RUN)/new.list)
$(RUN)/assign-new.tsv: $(RUN)/assign-all.tsv
	$(ddm)cluster -q --centroids $(RUN)/centroids-all.npy --holdout $(HOLDOUT) -o $@ $$(cat $(RUN)/new.list)
SHARDS := $(foreach s,old all new,$(RUN)/shards-$s/MANIFEST.tsv)
$(SHARDS): $(RUN)/shards-%/MANIFEST.tsv: $(RUN)/assign-%.tsv
	$(ddm)shard -q -a $< -o $(@D) $$(cat $(if $(filter new,$*),,$(RUN)/old.list) $(if $(filter old,$*),,$(RUN)/new.list))

# $(call train,CLUSTER,IMAGES,BATCH,SHARDS,OTHER OPTIONS): a network in the folder of the target
seed_of = $(patsubst $(RUN)/seed-%,%,$(firstword $(filter $(SEED_DIRS),$(foreach d,$(SEED_DIRS),$(if $(filter $d/%,$@),$d)))))
train = $(ddm)train -q --cluster $1 $(NET) $(COLOUR) --steps $$(($2 / $3)) --batch $3 --seed $(seed_of) $(TRAIN_FLAGS) --validate-samples 0 $5 \
	$(one_thread) -o $(@D) $(RUN)/shards-$4
SHARE := $(shell echo $$(($(IMAGES) / $(K))))
LATER := $(shell echo $$(($(IMAGES) / $(K) * $(NEW_K))))
# $(call route_train,STEPS,SHARDS,OTHER OPTIONS)
route_train = $(ddm)route-train -q $(ROUTER_NET) $(COLOUR) --steps $1 --batch $(ROUTER_BATCH) --seed $(seed_of) $(ROUTER_FLAGS) --validate-samples 0 $3 \
	$(one_thread) -o $(@D) $(RUN)/shards-$2

.SECONDEXPANSION:
number_of = $(patsubst expert_%,%,$(notdir $(@D)))
OLD_EXPERTS = $(OLD_MEMBERS:%=$1/before/expert_%/$(WEIGHTS))
NEW_EXPERTS = $(NEW_MEMBERS:%=$1/later/expert_%/$(WEIGHTS))
$(foreach d,$(SEED_DIRS),$(call OLD_EXPERTS,$d)): $(RUN)/shards-old/MANIFEST.tsv
	$(call train,$(number_of),$(SHARE),$(EXPERT_BATCH),old,)
$(foreach d,$(SEED_DIRS),$(call NEW_EXPERTS,$d)): $(RUN)/shards-all/MANIFEST.tsv
	$(call train,$(number_of),$(SHARE),$(EXPERT_BATCH),all,)
$(SEED_DIRS:%=%/before/router/model.safetensors): $(RUN)/shards-old/MANIFEST.tsv
	$(call route_train,$(ROUTER_STEPS),old,)
$(SEED_DIRS:%=%/later/router/model.safetensors): %/later/router/model.safetensors: %/before/router/model.safetensors $(RUN)/shards-all/MANIFEST.tsv
	$(call route_train,$(HEAD_STEPS),all,--from $*/before/router --head-only)
$(SEED_DIRS:%=%/again/router/model.safetensors): $(RUN)/shards-all/MANIFEST.tsv
	$(call route_train,$(ROUTER_STEPS),all,)

$(SEED_DIRS:%=%/first/$(MONOLITH)): $(RUN)/shards-old/MANIFEST.tsv
	$(call train,all,$(IMAGES),$(BATCH),old,)
$(SEED_DIRS:%=%/finetuned/$(MONOLITH)): %/finetuned/$(MONOLITH): %/first/$(MONOLITH) $(RUN)/shards-new/MANIFEST.tsv
	$(call train,all,$(LATER),$(BATCH),new,--init-weights $*/first/expert_0)
$(SEED_DIRS:%=%/replayed/$(MONOLITH)): %/replayed/$(MONOLITH): %/first/$(MONOLITH) $(RUN)/shards-all/MANIFEST.tsv
	$(call train,all,$(LATER),$(BATCH),all,--init-weights $*/first/expert_0)
$(SEED_DIRS:%=%/retrained/$(MONOLITH)): $(RUN)/shards-all/MANIFEST.tsv
	$(call train,all,$$(($(IMAGES) + $(LATER))),$(BATCH),all,)

# A file `whole` says that an ensemble is complete. $(call assemble,FOLDER OF THE ROUTER)
$(SEED_DIRS:%=%/before/whole): %/before/whole: $$(call OLD_EXPERTS,%) %/before/router/model.safetensors
	touch $@
$(SEED_DIRS:%=%/extended/whole): %/extended/whole: %/before/whole $$(call NEW_EXPERTS,%) %/later/router/model.safetensors
	$(call assemble,later)
$(SEED_DIRS:%=%/rerouted/whole): %/rerouted/whole: %/before/whole $$(call NEW_EXPERTS,%) %/again/router/model.safetensors
	$(call assemble,again)
assemble = rm -rf $(@D) && mkdir $(@D) && cp -R $(OLD_MEMBERS:%=$*/before/expert_%) $(NEW_MEMBERS:%=$*/later/expert_%) $*/$1/router $(@D) && touch $@

# An arm of a seed: its loss on held-out old and new pictures, and samples.
made_of = $1/$(if $(filter $(MONOLITHS),$(notdir $1)),$(MONOLITH),whole)
route_of = $(if $(filter $(MONOLITHS),$(basename $(basename $(notdir $@)))),,$1 full)
arms = $(foreach a,$(ARMS),$(foreach d,$(SEED_DIRS),$d/arms/$a$1))
model_of = $(patsubst %/arms/,%,$(dir $1))/$(firstword $(subst ., ,$(notdir $1)))
$(call arms,.old.json) $(call arms,.new.json): $$(call made_of,$$(call model_of,$$@)) $(SHARDS)
	@mkdir -p $(@D)
	$(ddm)diagnose loss -n $(STATES) --no-verify $(call route_of,--routes) $(one_thread) -o $@ $(call model_of,$@) \
		$(RUN)/shards-$(patsubst .%,%,$(suffix $(basename $@)))
$(call arms,.samples.tar): $$(call made_of,$$(call model_of,$$@))
	@mkdir -p $(@D)
	$(ddm)sample -q -n $(N) --seed $(seed_of) --solver euler --steps $(STEPS) --route $(if $(call route_of,x),full,expert:0) $(one_thread) -o $@ \
		$(call model_of,$@)

$(RUN)/old.tsv $(RUN)/new.tsv: $(RUN)/%.tsv: $$(call arms,.$$*.json)
	$(ddm)compare -k loss --tsv --holm -o $@ $(foreach a,$(ARMS),$(foreach d,$(SEED_DIRS),$a=$d/arms/$a.$*.json))
$(RUN)/old.svg $(RUN)/new.svg: %.svg: %.tsv
	$(ddm)plot -o $@ -y loss --title 'Held-out $(notdir $*) pictures' compare $<
$(RUN)/unchanged.txt: $(SEED_DIRS:%=%/extended/whole)
	for d in $(SEED_DIRS); do for k in $(OLD_MEMBERS); do \
		cmp $$d/before/expert_$$k/$(WEIGHTS) $$d/extended/expert_$$k/$(WEIGHTS) || exit; done; done
	cd $(RUN) && sha256sum $(patsubst $(RUN)/%,%,$(foreach d,$(SEED_DIRS),$(OLD_MEMBERS:%=$d/extended/expert_%/$(WEIGHTS)))) >unchanged.new
	mv $(RUN)/unchanged.new $@
$(RUN)/samples.png: $(foreach a,$(ARMS),$(RUN)/seed-$(FIRST)/arms/$a.samples.tar)
	$(ddm)grid --spread --scale 3 -o $@ 'old pictures=$(RUN)/shards-old' 'new pictures=$(RUN)/shards-new' \
		$(foreach a,$(ARMS),'$a=$(RUN)/seed-$(FIRST)/arms/$a.samples.tar')

.PHONY: all
