# The experiment over seeds, share/recipes/flowers.mk, with tiny networks: every arm, the chosen rate, the table, a second run.
. "$(dirname "$0")/tap.sh"

small_pictures
tiny="--hidden 16 --depth 1 --heads 2"
recipe() {
	make -s "$@" -f "$SRC/share/recipes/flowers.mk" BIN="$B" RUN=f DATA=pics SIZE=16 SEEDS="1 2" LRS="1e-3 1e-2" EPOCHS=2 WARMUP=1 \
		BATCH=24 ROUTER_BATCH=8 NET="--model dit-nano/8 --predict x0 $tiny" ROUTER_NET="--model dit-nano/8 $tiny" \
		ROUTER_FLAGS="--steps 6 --lr 1e-3 -q" N=6 STEPS=2 STATES=8
}

check "two seeds" recipe -j2
check_out "arms of the table" "conditioned full hog-8-full hog-8-oracle hog-8-prior hog-8-threshold-.1 hog-8-top-1 hog-8-top-2 monolith \
monolith-4steps monolith-8steps oracle prior random-4-full random-4-prior random-4-top-1 random-4-top-2 threshold-.1 top-1 top-2" \
	sh -c "grep '^kd-pix-heldout' f/compare.tsv | cut -f2 | LC_ALL=C sort | tr '\n' ' ' | sed 's/ \$//'"
check_grep "p values alone and corrected" '	p	p_holm$' f/compare.tsv
check_out "each over both seeds" 2 sh -c "grep -v '^#' f/compare.tsv | cut -f3 | sort -u"
least=$(grep -v '^#' f/lr.tsv | LC_ALL=C sort -g -k2 | head -n 1 | cut -f1)
check_out "the rate of the smallest held-out loss" "$least" cat f/lr
rates() { grep -h '"lr"' "$@" | tr -dc '0-9.\n' | sort -u; }
check_out "is the monoliths'" "$(awk -v r="$least" 'BEGIN { print r + 0 }')" rates f/seed-*/monolith/expert_0/config.json f/seed-*/conditioned/expert_0/config.json
least=$(for r in 1e-2 1e-3; do awk -v r=$r '!/^#/ { s += $2 } END { print s, r }' f/lr-$r/experts.tsv; done | LC_ALL=C sort -g | head -n 1 | cut -d ' ' -f2)
check_out "the rate of the experts' smallest mean" "$least" cat f/expert-lr
check_out "is every expert's" "$(awk -v r="$least" 'BEGIN { print r + 0 }')" rates f/seed-*/model/expert_?/config.json f/seed-*/*/model/expert_?/config.json
check_same "the first seed's expert is the candidate" f/lr-$least/model/expert_3/diffusion_pytorch_model.safetensors \
	f/seed-1/model/expert_3/diffusion_pytorch_model.safetensors
least=$(cat f/lr)
check_same "the first seed's monolith is the candidate" f/lr-$least/monolith/expert_0/diffusion_pytorch_model.safetensors \
	f/seed-1/monolith/expert_0/diffusion_pytorch_model.safetensors
check_differ "the second seed's is another" f/seed-2/monolith/expert_0/diffusion_pytorch_model.safetensors \
	f/seed-1/monolith/expert_0/diffusion_pytorch_model.safetensors
check_grep "more steps cost more" '^gflop_per_image	monolith-8steps	2	' f/compare.tsv
awk -F '\t' '$1 == "gflop_per_image" { g[$2] = $4 } END { exit !(g["monolith-8steps"] > 3.99 * g["monolith"] && g["monolith-8steps"] < 4.01 * g["monolith"]) }' \
	f/compare.tsv
tap_result $? "four times as much for four times the steps"
for p in hog-4 random-4; do grep -v '^#' f/$p/assign.tsv | cut -f1,2 >$p.of; done
check_out "the random partition has as many clusters" 4 sh -c "cut -f2 random-4.of | sort -u | wc -l"
check_differ "and is another" hog-4.of random-4.of
for s in 1 2; do check_grep "seed $s: what the error is made of" '^0\.5	top-1	all	' f/seed-$s/budget.tsv; done
check_grep "a chart of the differences" 'conditioned' f/compare.svg
check_grep "a page over the seeds" '</html>' f/report.html
find f -exec touch -h -d 2001-01-01 {} +
check "again" recipe -j2
check_out "touches nothing" "" find f -newermt 2002-01-01
rm -r f/seed-2 f/compare.tsv
mkdir kept && mv f/seed-1 kept/
cp -R kept/seed-1 f/
check "a seed that is gone" recipe -j2
check "the other is left as it was" diff -r kept/seed-1 f/seed-1
check_clean "no temporary is left" f
