# Where does an ensemble pay? A map over the number of pictures, the width of the network and the number of experts, at equal training FLOPs, with the
# arms that rule out other explanations:
#
#	make -j2 -f share/recipes/crossover.mk [BIN=build] [RUN=map] [SEEDS='1 2 3 4 5']
#	make -j2 -f share/recipes/crossover.mk SMALL=1		a reduced map, in minutes
#
# Arms of every cell (N pictures, width W), measured by their loss on held-out pictures (ddm-diagnose loss):
#
#	mono		one network on all pictures
#	k-K:ROUTE	K experts on clusters of HOG and colour, and a router, for each K of KS and each ROUTE of ROUTES
#
# and in the cells of EXTRA_WIDTH, with EXTRA_K experts:
#
#	told		one network that is told the cluster; compare it with k-K:oracle
#	big		one network of about K times the parameters, and as many times fewer steps
#	average		K networks on all pictures, their velocities averaged
#	random		K experts on a random partition with the same shares, and a router
#	time		K experts for K equal intervals of time, on all pictures
#	time-cluster	two experts for two intervals of time on each of K / 2 clusters
#	branch-S	K experts started from one network that had the share S of the training
#	mixed-M		K experts, of which M predict the noise of the cosine path
#
# Every arm trains with the FLOPs of IMAGES pictures through a network of width W; routers are paid for by their experts. The held-out pictures are
# the same in all cells, and so are their noise and times: differences between arms of one seed have little noise. Learning rates are chosen for each
# width, in the cell of the middle N with the first seed, by that loss: one for networks trained alone, one for experts.
#
# Ends with RUN/map.tsv: a row for each cell and arm with its mean loss over the seeds, the difference from mono of the same cell and seed, its
# t-interval and p; charts of the differences over N (RUN/map-W.svg, RUN/arms.svg) and by time (RUN/times.svg); and RUN/corners.tsv, distances of
# samples at the corners of the map. What exists is not made again: a kill costs at most the networks in training, and another seed only itself.
HERE := $(dir $(lastword $(MAKEFILE_LIST)))
BIN ?=
RUN ?= map
DATA ?= $(wildcard /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz /usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz)
COLOUR ?= --grey
DATA_SEED ?= 1
ifdef SMALL
NS ?= 1000 4000
WIDTHS ?= 32 64
KS ?= 4
SEEDS ?= 1 2
LRS ?= 3e-3
IMAGES ?= 6000
ROUTER_FLAGS ?= --optimizer adamw --steps 100 --lr 1e-3 --warmup 20 --schedule cosine
STATES ?= 300
N_SAMPLES ?= 200
endif
NS ?= 3000 13000 59000
WIDTHS ?= 48 96 192
KS ?= 2 4 8
SEEDS ?= 1 2 3 4 5
# Seeds of the widest networks, which take most of the time.
WIDE_SEEDS ?= $(wordlist 1,3,$(SEEDS))
LRS ?= 1e-3 3e-3 1e-2 3e-2
IMAGES ?= 40000
HOLDOUT ?= .15
SIZE ?= 16
NET ?= --model dit-nano/4
BATCH ?= 64
TRAIN_FLAGS ?= --optimizer adamw --warmup 50 --schedule cosine
ROUTER_NET ?= --model dit-nano/4 --hidden 64 --depth 2
ROUTER_BATCH ?= 64
ROUTER_FLAGS ?= --optimizer adamw --steps 400 --lr 1e-3 --warmup 50 --schedule cosine
ROUTES ?= full top-1 oracle
EXTRA_WIDTH ?= $(word 2,$(WIDTHS))
EXTRA_K ?= 4
SHARES ?= .25 .5 .75
MIXED ?= 1 2 3
STATES ?= 400
N_SAMPLES ?= 1000

ddm = $(if $(BIN),$(BIN)/)ddm-
one_thread = $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),--threads 1)
FIRST := $(firstword $(SEEDS))
MIDDLE := $(word $(shell echo $$((($(words $(NS)) + 1) / 2))),$(NS))
WIDEST := $(if $(word 2,$(WIDTHS)),$(lastword $(WIDTHS)))
HALF_K := $(shell echo $$(($(EXTRA_K) / 2)))
MEMBERS := $(shell seq 0 $$(($(EXTRA_K) - 1)))
HALF := $(shell seq 0 $$(($(HALF_K) - 1)))
EXPERT_KS := $(sort $(KS) $(EXTRA_K) $(HALF_K))
EXPERT_BATCH := $(shell echo $$(($(BATCH) / $(EXTRA_K))))
seeds = $(if $(filter $(WIDEST),$1),$(WIDE_SEEDS),$(SEEDS))
cell = $(foreach s,$(call seeds,$2),n-$1/w-$2/seed-$s)
CELLS := $(foreach n,$(NS),$(foreach w,$(WIDTHS),$(call cell,$n,$w)))
EXTRAS := $(foreach n,$(NS),$(call cell,$n,$(EXTRA_WIDTH)))
EXTRA_ARMS := told big average random time time-cluster $(SHARES:%=branch-%) $(MIXED:%=mixed-%)
ARMS_K := $(foreach k,$(KS),$(foreach r,$(ROUTES),k-$k:$r))

all: $(RUN)/map.tsv charts $(RUN)/corners.tsv

.SECONDEXPANSION:
# Of a target $(RUN)/n-N/w-W/seed-S/..., whose stem begins with n-: its N, W, S.
part = $(patsubst $2%,%,$(word $1,$(subst /, ,$*)))
n = $(call part,1,n-)
w = $(call part,2,w-)
s = $(call part,3,seed-)

# The data: one clustering of all pictures for each K, and tables with the first N pictures of the training part.
ddm_mk = $(MAKE) -f $(HERE)ddm.mk BIN='$(BIN)' SAMPLES=$(RUN)/samples.tar DATA='$(DATA)' DATA_SEED=$(DATA_SEED) HOLDOUT=$(HOLDOUT) SIZE=$(SIZE)

$(RUN)/samples.tar:
	@mkdir -p $(@D)
	+$(ddm_mk) RUN=$(RUN) samples

$(EXPERT_KS:%=$(RUN)/k-%/assign.tsv): $(RUN)/k-%/assign.tsv: $(RUN)/samples.tar
	+$(ddm_mk) RUN=$(@D) K=$* clusters

$(RUN)/random/assign.tsv: $(RUN)/k-$(EXTRA_K)/assign.tsv
	+$(ddm_mk) RUN=$(@D) K=$(EXTRA_K) CLUSTER_FLAGS='--features random --like $<' clusters

PARTITIONS := $(foreach n,$(NS),$(foreach p,$(EXPERT_KS:%=k-%) random,n-$n/$p))
$(PARTITIONS:%=$(RUN)/%/assign.tsv): $(RUN)/%/assign.tsv: $(RUN)/$$(notdir $$*)/assign.tsv
	@mkdir -p $(@D)
	awk -F '\t' '/^#key/ { for (i = 1; i <= NF; i++) if ($$i == "split") c = i; sub(/^#/, ""); print; next } /^#/ { next } \
		$$c == "holdout" || n++ < $n' $< >$@.new
	mv $@.new $@

$(PARTITIONS:%=$(RUN)/%/shards/MANIFEST.tsv): %/shards/MANIFEST.tsv: %/assign.tsv $(RUN)/samples.tar
	$(ddm)shard -q --skip-bad -a $< -o $(@D) $(RUN)/samples.tar 2>$*/shards.log

manifest = $(RUN)/n-$1/$2/shards/MANIFEST.tsv
WHOLE = k-$(EXTRA_K)

# So many passes over N pictures that the share $2 of IMAGES is seen.
passes = $$(awk -F '\t' -v images=$(IMAGES) -v share=$$(awk "BEGIN { print $2 }") 'NR == 1 { for (i = 1; i <= NF; i++) if ($$i == "split") c = i; next } \
	$$c == "train" { n++ } END { printf "%.6g", share * images / n }' $(RUN)/n-$1/$(WHOLE)/assign.tsv)
network = $(NET) $(COLOUR) --hidden $1
flags = $(TRAIN_FLAGS) --lr $1 --validate-samples 0 -q
# $(call train,N,W,SEED,LR,PASSES,BATCH,OTHER OPTIONS,FOLDER): one network on all pictures
train = $(ddm)train --cluster all $(call network,$2) --epochs $5 --batch $6 --seed $3 $(call flags,$4) $7 $(one_thread) \
	-o $8 $(RUN)/n-$1/$(WHOLE)/shards
# $(call experts,N,W,SEED,LR,PASSES,PARTITION,K,OTHER OPTIONS,FOLDER): K experts and their router
experts = $(ddm_mk) RUN=$9 PARTITION=$(RUN)/n-$1/$6 K=$7 SEED=$3 NET='$(call network,$2)' EPOCHS="$5" BATCH=$(BATCH) \
	TRAIN_FLAGS='$(call flags,$4)' EXPERT_FLAGS='$(call flags,$4) $8' ROUTER_NET='$(ROUTER_NET) $(COLOUR)' ROUTER_BATCH=$(ROUTER_BATCH) \
	ROUTER_FLAGS='$(ROUTER_FLAGS) --validate-samples 0 -q' experts router
# $(call loss,N,PARTITION,POLICY,MODEL)
loss = $(ddm)diagnose loss -n $(STATES) --no-verify $(if $3,--routes '$3') $(one_thread) -o $@ $4 $(RUN)/n-$1/$2/shards

# Learning rates. One at which training diverges (status 76 of ddm-train) has no loss in the table, and is never the best.
diverged = printf '{"diverged": true}\n' >$@
CANDIDATES := $(foreach w,$(WIDTHS),$(LRS:%=w-$w/%))
rate_w = $(patsubst w-%,%,$(patsubst %/,%,$(dir $*)))
$(CANDIDATES:%=$(RUN)/lr/mono/%.json): $(RUN)/lr/mono/%.json: $(call manifest,$(MIDDLE),$(WHOLE))
	@mkdir -p $(@D)
	$(call train,$(MIDDLE),$(rate_w),$(FIRST),$(notdir $*),$(call passes,$(MIDDLE),1),$(BATCH),,$(@:.json=)/expert_0) || \
		{ [ $$? -eq 76 ] && $(diverged); }
	grep -qs diverged $@ || $(call loss,$(MIDDLE),$(WHOLE),,$(@:.json=))

$(CANDIDATES:%=$(RUN)/lr/experts/%.json): $(RUN)/lr/experts/%.json: $(call manifest,$(MIDDLE),$(WHOLE))
	@mkdir -p $(@D)
	+LC_ALL=C $(call experts,$(MIDDLE),$(rate_w),$(FIRST),$(notdir $*),$(call passes,$(MIDDLE),1),$(WHOLE),$(EXTRA_K),,$(@:.json=)) \
		2>$(@:.json=.log) || { cat $(@:.json=.log) >&2; grep -q '^make.*Error 76$$' $(@:.json=.log) && $(diverged); }
	grep -qs diverged $@ || $(call loss,$(MIDDLE),$(WHOLE),full,$(@:.json=)/model)

RATES := $(foreach w,$(WIDTHS),mono/w-$w experts/w-$w)
$(RATES:%=$(RUN)/lr/%/table.tsv): %/table.tsv: $$(foreach r,$(LRS),$$*/$$r.json)
	$(ddm)report -q -t lr --columns loss,loss_error -o $@ $(foreach r,$(LRS),$r=$*/$r.json)

$(RATES:%=$(RUN)/lr/%/best): %/best: %/table.tsv
	awk -F '\t' '!/^#/ && $$2 != "" && (!n++ || $$2 < least) { least = $$2; lr = $$1 } END { if (!n) exit 1; print lr }' $< >$@.new
	mv $@.new $@

lr = $(shell cat $(RUN)/lr/$1/w-$w/best)
best = $(RUN)/lr/$1/w-$(patsubst w-%,%,$(word 2,$(subst /, ,$2)))/best
whole = $(call manifest,$(patsubst n-%,%,$(firstword $(subst /, ,$1))),$2)

# The arms. A target is the loss of an arm; its recipe trains what it needs.
$(CELLS:%=$(RUN)/%/mono.json): $(RUN)/%/mono.json: $$(call whole,$$*,$(WHOLE)) $$(call best,mono,$$*)
	@mkdir -p $(@D)
	$(call train,$n,$w,$s,$(call lr,mono),$(call passes,$n,1),$(BATCH),,$(@D)/mono/expert_0)
	$(call loss,$n,$(WHOLE),,$(@D)/mono)

CELLS_K := $(foreach c,$(CELLS),$(KS:%=$c/k-%)) $(foreach c,$(EXTRAS),$c/half/k-$(HALF_K))
$(CELLS_K:%=$(RUN)/%/trained): $(RUN)/%/trained: $$(call whole,$$*,$$(notdir $$*)) $$(call best,experts,$$*)
	@mkdir -p $(@D)
	+$(call experts,$n,$w,$s,$(call lr,experts),$(call passes,$n,1),$(notdir $*),$(patsubst k-%,%,$(notdir $*)),,$(@D))
	touch $@

CELLS_ROUTE := $(foreach c,$(CELLS),$(ARMS_K:%=$c/%))
$(subst :,.,$(CELLS_ROUTE:%=$(RUN)/%.json)): $(RUN)/%.json: $$(RUN)/$$(basename $$*)/trained
	$(call loss,$n,$(notdir $(basename $*)),$(patsubst .%,%,$(suffix $*)),$(RUN)/$(basename $*)/model)

$(EXTRAS:%=$(RUN)/%/told.json): $(RUN)/%/told.json: $$(call whole,$$*,$(WHOLE)) $$(call best,mono,$$*)
	@mkdir -p $(@D)
	$(call train,$n,$w,$s,$(call lr,mono),$(call passes,$n,1),$(BATCH),--condition cluster,$(@D)/told/expert_0)
	$(call loss,$n,$(WHOLE),,$(@D)/told)

# A width of about sqrt(K) times as much, a multiple of 4.
BIG_WIDTH := $(shell awk 'BEGIN { print 4 * int($(EXTRA_WIDTH) * sqrt($(EXTRA_K)) / 4 + .5) }')
gflop = $$($(ddm)train --cluster all $(call network,$1) --epochs 1 --batch $(BATCH) --no-verify --plan -o $(RUN)/none \
	$(RUN)/n-$n/$(WHOLE)/shards | awk '$$1 == "gflop_per_image" { print $$2 }')
$(EXTRAS:%=$(RUN)/%/big.json): $(RUN)/%/big.json: $$(call whole,$$*,$(WHOLE)) $$(call best,mono,$$*)
	@mkdir -p $(@D)
	share=$$(awk "BEGIN { print $(call gflop,$w) / $(call gflop,$(BIG_WIDTH)) }") && \
		$(call train,$n,$(BIG_WIDTH),$s,$(call lr,mono),$(call passes,$n,$$share),$(BATCH),,$(@D)/big/expert_0)
	$(call loss,$n,$(WHOLE),,$(@D)/big)

$(EXTRAS:%=$(RUN)/%/average.json): $(RUN)/%/average.json: $$(call whole,$$*,$(WHOLE)) $$(call best,experts,$$*)
	@mkdir -p $(@D)
	for k in $(MEMBERS); do \
		$(call train,$n,$w,$$(($s * 100 + k)),$(call lr,experts),$(call passes,$n,1/$(EXTRA_K)),$(EXPERT_BATCH),,$(@D)/average/expert_$$k) || exit; \
	done
	$(call loss,$n,$(WHOLE),uniform|full,$(@D)/average)

$(EXTRAS:%=$(RUN)/%/time.json): $(RUN)/%/time.json: $$(call whole,$$*,$(WHOLE)) $$(call best,experts,$$*)
	@mkdir -p $(@D)
	for k in $(MEMBERS); do \
		range=$$(awk -v k=$$k 'BEGIN { print k / $(EXTRA_K) ".." (k + 1) / $(EXTRA_K) }'); \
		$(call train,$n,$w,$s,$(call lr,experts),$(call passes,$n,1/$(EXTRA_K)),$(EXPERT_BATCH),--time-range $$range,$(@D)/time/expert_$$k) || exit; \
	done
	$(call loss,$n,$(WHOLE),time,$(@D)/time)

$(EXTRAS:%=$(RUN)/%/random.json): $(RUN)/%/random.json: $$(call whole,$$*,random) $$(call best,experts,$$*)
	@mkdir -p $(@D)
	+$(call experts,$n,$w,$s,$(call lr,experts),$(call passes,$n,1),random,$(EXTRA_K),,$(@D)/random)
	$(call loss,$n,random,full,$(@D)/random/model)

# The sub-make sees $* of its own rule, the number of the expert.
other = $$(if $$(filter $(wordlist 1,$1,$(MEMBERS)),$$*),--path cosine --predict epsilon)
EXTRAS_MIXED := $(foreach c,$(EXTRAS),$(MIXED:%=$c/mixed-%))
$(EXTRAS_MIXED:%=$(RUN)/%.json): $(RUN)/%.json: $$(call whole,$$*,$(WHOLE)) $$(call best,experts,$$*)
	@mkdir -p $(@D)
	+$(call experts,$n,$w,$s,$(call lr,experts),$(call passes,$n,1),$(WHOLE),$(EXTRA_K),$(call other,$(patsubst mixed-%,%,$(notdir $*))),$(RUN)/$*)
	$(call loss,$n,$(WHOLE),full,$(RUN)/$*/model)

EXTRAS_BRANCH := $(foreach c,$(EXTRAS),$(SHARES:%=$c/branch-%))
share = $(patsubst branch-%,%,$(notdir $*))
$(EXTRAS_BRANCH:%=$(RUN)/%.json): $(RUN)/%.json: $$(call whole,$$*,$(WHOLE)) $$(call best,mono,$$*) $$(call best,experts,$$*)
	@mkdir -p $(@D)
	$(call train,$n,$w,$s,$(call lr,mono),$(call passes,$n,$(share)),$(BATCH),,$(RUN)/$*/shared/expert_0)
	+$(call experts,$n,$w,$s,$(call lr,experts),$(call passes,$n,1-$(share)),$(WHOLE),$(EXTRA_K),--init-weights $(RUN)/$*/shared/expert_0,$(RUN)/$*)
	$(call loss,$n,$(WHOLE),full,$(RUN)/$*/model)

# Two experts for each of K / 2 clusters; the router is that of K / 2 experts.
$(EXTRAS:%=$(RUN)/%/time-cluster.json): $(RUN)/%/time-cluster.json: $(RUN)/%/half/k-$(HALF_K)/trained
	for k in $(HALF); do for h in 0 1; do \
		range=$$(awk -v h=$$h 'BEGIN { print h / 2 ".." (h + 1) / 2 }'); \
		$(ddm)train --cluster $$k $(call network,$w) --epochs $(call passes,$n,1/2) --batch $(EXPERT_BATCH) --seed $s \
			$(call flags,$(call lr,experts)) --time-range $$range $(one_thread) -o $(@D)/time-cluster/expert_$$((2 * k + h)) \
			$(RUN)/n-$n/k-$(HALF_K)/shards || exit; \
	done; done
	[ -d $(@D)/time-cluster/router ] || cp -R $(@D)/half/k-$(HALF_K)/model/router $(@D)/time-cluster/router
	$(call loss,$n,k-$(HALF_K),full,$(@D)/time-cluster)

# The tables. $(call arms,N,W): the arms of a cell.
arms = mono $(ARMS_K) $(if $(filter $(EXTRA_WIDTH),$2),$(EXTRA_ARMS))
results = $(foreach a,$(call arms,$1,$2),$(foreach c,$(call cell,$1,$2),$a=$(RUN)/$c/$(subst :,.,$a).json))
files = $(foreach a,$(call arms,$1,$2),$(foreach c,$(call cell,$1,$2),$(RUN)/$c/$(subst :,.,$a).json))
GRID := $(foreach n,$(NS),$(foreach w,$(WIDTHS),n-$n/w-$w))
grid_n = $(patsubst n-%,%,$(firstword $(subst /, ,$1)))
grid_w = $(patsubst w-%,%,$(lastword $(subst /, ,$1)))

$(GRID:%=$(RUN)/%/compare.tsv): $(RUN)/%/compare.tsv: $$(call files,$$(call grid_n,$$*),$$(call grid_w,$$*))
	$(ddm)compare -k loss --tsv -o $@ $(call results,$(call grid_n,$*),$(call grid_w,$*))

$(RUN)/map.tsv: $(GRID:%=$(RUN)/%/compare.tsv)
	for c in $(GRID); do n=$${c#n-}; w=$${c#*/w-}; awk -F '\t' -v OFS='\t' -v n=$${n%%/*} -v w=$$w \
		'/^#key/ { sub(/^#key/, ""); print "#n", "width" $$0; next } !/^#/ { sub(/^[^\t]*\t/, ""); print n, w, $$0 }' $(RUN)/$$c/compare.tsv; done | \
		awk 'NR == 1 || !/^#/' >$@.new
	mv $@.new $@

# Charts read JSON lines: $(call points,AWK CONDITION).
points = awk -F '\t' '!/^\#/ && $1 && $$7 != "-" { printf "{\"n\":%s,\"arm\":\"%s\",\"difference\":%s", $$1, $$3, $$7; \
	if ($$8 != "-") printf ",\"low\":%s,\"high\":%s", $$8, $$9; print "}" }' $(RUN)/map.tsv
lines = $(ddm)plot $(if $(word 2,$(call seeds,$2)),--low low --high high) -t 'Width $2: loss minus that of one network' -x n -y difference -g arm --log x \
	--x-label 'training pictures' -o $@ lines $1
charts: $(WIDTHS:%=$(RUN)/map-%.svg) $(RUN)/arms.svg $(RUN)/times.svg
$(WIDTHS:%=$(RUN)/map-%.jsonl): $(RUN)/map-%.jsonl: $(RUN)/map.tsv
	$(call points,$$2 == $* && $$3 ~ /^k-/) >$@.new
	mv $@.new $@
$(WIDTHS:%=$(RUN)/map-%.svg): $(RUN)/map-%.svg: $(RUN)/map-%.jsonl
	$(call lines,$<,$*)
$(RUN)/arms.jsonl: $(RUN)/map.tsv
	$(call points,$$2 == $(EXTRA_WIDTH) && ($$3 == "$(WHOLE):$(firstword $(ROUTES))" || $$3 !~ /^k-/)) >$@.new
	mv $@.new $@
$(RUN)/arms.svg: $(RUN)/arms.jsonl
	$(call lines,$<,$(EXTRA_WIDTH))

# The difference from mono by time in the middle cell, mean over the seeds.
TIMES := 0.05 0.15 0.25 0.35 0.45 0.55 0.65 0.75 0.85 0.95
MIDDLE_CELLS := $(call cell,$(MIDDLE),$(EXTRA_WIDTH))
at_time = sed "s/.*\"loss_t$$t\":\([0-9.e-]*\).*/\1/"
$(RUN)/times.jsonl: $(RUN)/map.tsv
	for a in $(subst :,.,$(filter-out mono,$(call arms,$(MIDDLE),$(EXTRA_WIDTH)))); do for t in $(TIMES); do for c in $(MIDDLE_CELLS); do \
		echo $$($(at_time) $(RUN)/$$c/$$a.json) $$($(at_time) $(RUN)/$$c/mono.json); done | \
		awk -v t=$$t -v a=$$a '{ s += $$1 - $$2 } END { printf "{\"t\":%s,\"arm\":\"%s\",\"difference\":%.9g}\n", t, a, s / NR }'; done; done >$@.new
	mv $@.new $@
$(RUN)/times.svg: $(RUN)/times.jsonl
	$(ddm)plot -t '$(MIDDLE) pictures, width $(EXTRA_WIDTH): loss minus that of one network' -x t -y difference -g arm -o $@ lines $<

# Samples at the corners of the map, of the first seed: mono and the experts of EXTRA_K under the first route.
CORNERS := $(foreach n,$(sort $(firstword $(NS)) $(lastword $(NS))),$(foreach w,$(sort $(firstword $(WIDTHS)) $(lastword $(WIDTHS))),n-$n/w-$w/seed-$(FIRST)))
CORNER_ARMS := mono k-$(EXTRA_K).$(firstword $(ROUTES))
HOW := euler-30 euler-120 sde-120
CORNER_FILES := $(foreach c,$(CORNERS),$(foreach a,$(CORNER_ARMS),$(HOW:%=$c/samples/$a/%)))
arm_of = $(notdir $(patsubst %/,%,$(dir $1)))
cell_of = $(word 1,$(subst /samples/, ,$1))
$(CORNER_FILES:%=$(RUN)/%.json): $(RUN)/%.json: $(RUN)/$$(call cell_of,$$*)/$$(call arm_of,$$*).json
	@mkdir -p $(@D)
	$(ddm)sample -q -n $(N_SAMPLES) --seed $(FIRST) --solver $(firstword $(subst -, ,$(notdir $*))) --steps $(lastword $(subst -, ,$(notdir $*))) \
		$(if $(filter mono,$(call arm_of,$*)),,--route $(firstword $(ROUTES))) $(one_thread) -o $(@:.json=.tar) \
		$(RUN)/$(call cell_of,$*)/$(if $(filter mono,$(call arm_of,$*)),mono,$(basename $(call arm_of,$*))/model)
	$(ddm)eval-fid --heldout $(RUN)/n-$n/$(WHOLE)/shards:holdout $(one_thread) -o $@ $(RUN)/n-$n/$(WHOLE)/shards:train $(@:.json=.tar)

$(RUN)/corners.tsv: $(CORNER_FILES:%=$(RUN)/%.json)
	$(ddm)report -q -t corner --columns kd=kd-pix-heldout,fd=fd-pix-heldout,kd_floor=kd-pix-heldout-floor,fd_floor=fd-pix-heldout-floor,memorised=memorised \
		-o $@ $(foreach f,$(CORNER_FILES),$(subst /samples/,/,$f)=$(RUN)/$f.json)

.PHONY: all charts
