# The map of share/recipes/crossover.mk with tiny networks: every arm, equal FLOPs, the same held-out states, a second run.
. "$(dirname "$0")/tap.sh"

need make jq
small_pictures
map() {
	make -s -f "$SRC/share/recipes/crossover.mk" BIN="$B" RUN=m DATA=pics NS="30 60" WIDTHS="16 24" KS="2 4" SEEDS="1 2" WIDE_SEEDS="1 2" \
		EXTRA_WIDTH=24 LRS="1e-3 1e-2" "$@" IMAGES=960 HOLDOUT=.3 NET="--model dit-nano/4 --depth 1 --heads 2" BATCH=8 TRAIN_FLAGS="--warmup 2" \
		ROUTER_NET="--model dit-nano/8 --hidden 8 --depth 1 --heads 1" ROUTER_BATCH=4 ROUTER_FLAGS="--steps 6 --lr 1e-3" STATES=6 N_SAMPLES=6
}
check "the map" map -j2
rows() { awk -F '\t' '!/^#/ { n[$1 " " $2]++ } END { for (c in n) print c ":", n[c] }' m/map.tsv | LC_ALL=C sort | tr '\n' ' '; }
check_out "a row for each cell and arm" "30 16: 7 30 24: 19 60 16: 7 60 24: 19 " rows
check_grep "the columns" '^#n	width	arm	seeds	mean	sd	difference	low	high	p$' m/map.tsv
arms() { awk -F '\t' '$1 == 60 && $2 == 24 { print $3 }' m/map.tsv | LC_ALL=C sort | tr '\n' ' '; }
check_out "every arm" "average big branch-.25 branch-.5 branch-.75 k-2:full k-2:oracle k-2:top-1 k-4:full k-4:oracle k-4:top-1 mixed-1 mixed-2 mixed-3 mono random time \
time-cluster told " arms
check_out "each over both seeds" 2 sh -c "grep -v '^#' m/map.tsv | cut -f 4 | sort -u"

# Held-out pictures are the same everywhere; so is their noise, because the keys and the seed are.
check_out "one set of held-out pictures" 1 sh -c "grep -ho '\"heldout\":\"[0-9a-f]*\"' \$(find m -name '*.json' -path '*seed*' -not -path '*samples*' -maxdepth 4) | sort -u | wc -l"

# Steps are whole numbers, of which the shortest run has 15.
c=m/n-60/w-24/seed-1
mono=$(training_gflop $c/mono)
for a in told big average random time time-cluster mixed-1 mixed-3 branch-.25 branch-.5 branch-.75 k-2 k-4; do
	arm=$(training_gflop $c/$a)
	# The router of these arms is that of $c/half.
	[ $a = time-cluster ] && arm="($arm + $(training_gflop $c/half/k-2/model/router))"
	awk "BEGIN { exit !($arm > .9 * $mono && $arm < 1.1 * $mono) }"
	tap_result $? "$a took the FLOPs of one network" "$arm, one network $mono"
done
best() { grep -v '^#' "$1/table.tsv" | grep '[0-9]$' | LC_ALL=C sort -g -k2 | head -n 1 | cut -f1; }
for a in mono experts; do check_out "the rate of the smallest loss, $a" "$(best m/lr/$a/w-24)" cat m/lr/$a/w-24/best; done
check_out "the learning rate of mono" "$(awk '{ print $1 + 0 }' m/lr/mono/w-24/best)" jq '[.. | .lr? // empty][0]' $c/mono/expert_0/config.json
check_out "mixed experts predict noise and velocity" "epsilon epsilon velocity velocity " sh -c "jq -r .prediction $c/mixed-2/model/expert_?/config.json | tr '\n' ' '"
check_out "three of four" "epsilon epsilon epsilon velocity " sh -c "jq -r .prediction $c/mixed-3/model/expert_?/config.json | tr '\n' ' '"
for f in map-16 map-24 arms times; do check_grep "a chart: $f" '</svg>' m/$f.svg; done
check_out "corners" 24 sh -c "grep -vc '^#' m/corners.tsv"
find m -exec touch -h -d 2001-01-01 {} +
check "again" map -j2
check_out "touches nothing" "" find m -newermt 2002-01-01
rm m/map.tsv $c/time.json
check "a result that is gone" map -j2
check_out "is measured again, and nothing trained" "" find m -newermt 2002-01-01 -name '*.safetensors'
check_clean "no temporary is left" m

# A learning rate at which training diverges is not the best, and does not end the map. The program that stands in for ddm-train fails at a rate of 5.
mkdir bin
for p in "$B"/ddm-*; do ln -s "$p" bin; done
rm bin/ddm-train
printf '#!/bin/sh\ncase "$*" in *"--lr 5 "*) exit 76 ;; *"--lr 6 "*) exit 74 ;; esac\nexec "%s/ddm-train" "$@"\n' "$B" >bin/ddm-train
chmod +x bin/ddm-train
check "a rate that diverges" map -j2 BIN="$PWD/bin" LRS="1e-3 1e-2 5" m/lr/mono/w-24/best m/lr/experts/w-24/best
for a in mono experts; do
	check_grep "has no loss, $a" '^5		$' m/lr/$a/w-24/table.tsv
	check_out "and is not the best, $a" "$(best m/lr/$a/w-24)" cat m/lr/$a/w-24/best
done
map BIN="$PWD/bin" LRS="1e-3 6" m/lr/experts/w-24/best 2>"$ERR"
ended=$?
check_err "another failure ends the map" 'Error 74$'
check_out "with an error" 2 echo $ended
check_absent "without a loss" m/lr/experts/w-24/6.json
check_clean "no temporary is left" m
