# Ensembles of mixed objectives and networks, share/recipes/mixed.mk, with tiny networks: every arm, whose experts they have, equal FLOPs, a second run.
. "$(dirname "$0")/tap.sh"

need make jq
small_pictures
mixed() {
	make -s -j2 -f "$SRC/share/recipes/mixed.mk" BIN="$B" RUN=m DATA=pics SEEDS="1 2" IMAGES=400 BATCH=8 EXPERT_BATCH=4 K=3 HOLDOUT=.3 \
		NET="--model dit-nano/4 --depth 1 --heads 2 --hidden 24" OTHER_NET="--model dit-nano/4 --hidden 20 --depth 1 --heads 1" \
		ROUTER_NET="--model dit-nano/8 --hidden 8 --depth 1 --heads 1" ROUTER_BATCH=4 ROUTER_FLAGS="--steps 6 --lr 1e-3" STATES=6 N=6 STEPS=2 \
		TRAIN_FLAGS="--lr 1e-3" OTHER_FLAGS="--lr 1e-3"
}
check "the recipe" mixed
arms() { awk -F '\t' -v key="$1" '$1 == key { print $2, $3 }' "$2" | LC_ALL=C sort | tr '\n' ' '; }
all="adopted:full 2 adopted:top-1 2 branched:full 2 branched:top-1 2 ddpm 2 flow 2 mixed-0:full 2 mixed-0:top-1 2 mixed-1:full 2 mixed-1:top-1 2 \
mixed-2:full 2 mixed-2:top-1 2 mixed-3:full 2 mixed-3:top-1 2 nets:full 2 nets:top-1 2 "
check_out "the loss of every arm over both seeds" "$all" arms loss m/loss.tsv
check_out "its distance" "$all" arms kd-pix-heldout m/distances.tsv
for f in loss distances; do check_grep "a chart: $f" '</svg>' m/$f.svg; done

# Of seed 1 the experts 1, 2, 0 take turns, of seed 2 the experts 2, 0, 1.
kinds() { for k in 0 1 2; do jq -r .prediction "$1/expert_$k/config.json"; done | tr '\n' ' '; }
for m in "1/mixed-0 velocity velocity velocity" "1/mixed-1 velocity epsilon velocity" "1/mixed-2 velocity epsilon epsilon" "1/mixed-3 epsilon epsilon epsilon" \
	"2/mixed-1 velocity velocity epsilon" "2/mixed-2 epsilon velocity epsilon" "1/adopted velocity velocity velocity"; do
	check_out "who predicts what: $m" "${m#* } " kinds "m/seed-${m%% *}"
done
widths() { for k in 0 1 2; do jq .hidden_size "$1/expert_$k/config.json"; done | tr '\n' ' '; }
check_out "networks of two kinds" "20 24 20 " widths m/seed-1/nets
check_out "the other way round" "24 20 24 " widths m/seed-2/nets
same() { cmp m/seed-1/of-ddpm/model/expert_1/diffusion_pytorch_model.safetensors m/seed-1/mixed-1/expert_1/diffusion_pytorch_model.safetensors; }
check "ensembles share the experts" same

one=$(training_gflop m/seed-1/flow)
router=$(training_gflop m/seed-1/of-flow/model/router)
for a in ddpm of-flow "of-ddpm + $router" "of-dit + $router" "half-flow of-half-flow + $router" "half-ddpm of-half-ddpm + $router"; do
	arm=$(training_gflop $(printf 'm/seed-1/%s ' ${a%+*}))
	[ "${a#*+}" = "$a" ] || arm="($arm + ${a#*+})"
	awk "BEGIN { exit !($arm > .9 * $one && $arm < 1.1 * $one) }"
	tap_result $? "$a took the FLOPs of one network" "$arm, one network $one"
done
find m -exec touch -h -d 2001-01-01 {} +
check "again" mixed
check_out "touches nothing" "" find m -newermt 2002-01-01
rm -r m/seed-2/mixed-1
check "an ensemble that is gone" mixed
check_out "is put together again, and nothing trained" "" find m/seed-?/of-* m/seed-?/flow -newermt 2002-01-01
check_clean "no temporary is left" m
