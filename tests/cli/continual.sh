# New data beside an ensemble, share/recipes/continual.mk, with tiny networks: every arm, old experts unchanged, equal FLOPs, a second run.
. "$(dirname "$0")/tap.sh"

need make jq
small_pictures
mkdir old new && mv pics/a pics/b old && mv pics/c new
continual() {
	make -s -j2 -f "$SRC/share/recipes/continual.mk" BIN="$B" RUN=m OLD=old NEW=new SEEDS="1 2" IMAGES=400 BATCH=8 EXPERT_BATCH=4 K=2 HOLDOUT=.3 \
		NET="--model dit-nano/4 --depth 1 --heads 2 --hidden 24" ROUTER_NET="--model dit-nano/8 --hidden 8 --depth 1 --heads 1" \
		ROUTER_BATCH=4 ROUTER_STEPS=6 HEAD_STEPS=4 ROUTER_FLAGS="--lr 1e-3" STATES=6 N=6 STEPS=2 TRAIN_FLAGS="--lr 1e-3"
}
check "the recipe" continual
arms() { awk -F '\t' '$1 == "loss" { print $2, $3 }' "$1" | tr '\n' ' '; }
for what in old new; do
	check_out "the loss of every arm on $what pictures" "before 2 extended 2 rerouted 2 first 2 finetuned 2 replayed 2 retrained 2 " arms m/$what.tsv
	check_grep "a chart" '</svg>' m/$what.svg
done
check_out "old experts, of both seeds" 4 grep -c 'expert_[01]/' m/unchanged.txt
check "are what they were" sh -c "cd m && sed 's|/extended/|/before/|' unchanged.txt | sha256sum -c --quiet"
rows() { grep -v '^#' "$1" | cut -f 1,2,4 | sort; }
rows m/assign-old.tsv >was
rows m/assign-all.tsv | grep -Fxf was >is
check_same "old pictures keep their clusters" was is
check "the old router is not the new one" sh -c '! cmp -s m/seed-1/before/router/model.safetensors m/seed-1/extended/router/model.safetensors'
check_out "both ensembles are whole" "" ddm-check -c m/seed-1/extended m/seed-2/rerouted
check_out "three clusters" "2 3 3 " sh -c 'for a in before extended rerouted; do jq .num_clusters m/seed-1/$a/router/config.json; done | tr "\n" " "'
later=$(training_gflop m/seed-1/later/expert_*)
for arm in finetuned replayed; do
	flop=$(training_gflop m/seed-1/$arm)
	awk "BEGIN { exit !($flop > .9 * $later && $flop < 1.1 * $later) }"
	tap_result $? "$arm took the FLOPs of the new expert" "$flop, the expert $later"
done
find m -exec touch -h -d 2001-01-01 {} +
check "again" continual
check_out "touches nothing" "" find m -newermt 2002-01-01
check_clean "no temporary is left" m
