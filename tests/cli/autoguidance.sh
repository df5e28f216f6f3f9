# ddm-sample --guide: experts that are guided away from a weaker model. tests/unit/test_guidance.c has the formula and its rules.
. "$(dirname "$0")/tap.sh"

small_pictures
ddm-ingest -q --classes --size 16 -o p.tar pics 2>"$ERR" && ddm-cluster -q -k 2 --seed 1 -o a.tsv p.tar 2>"$ERR" && ddm-shard -q -a a.tsv -o s p.tar || exit 1
net="--model dit-nano/2 --depth 1 --heads 2 --batch 8 --lr 1e-2 --validate-samples 0"
train="ddm-train -q $net --condition class"
for k in 0 1; do
	check "expert $k" $train --hidden 32 --steps 30 --checkpoint-every 10 --cluster $k --seed $k -o m/expert_$k s
	check "its guide" $train --hidden 16 --steps 10 --cluster $k --seed $k -o bad/expert_$k s
done
check "one network" $train --cluster all --hidden 16 --steps 10 -o one s
run="ddm-sample -q -n 6 --class all --format latent"
values() { tar xOf "$1" --wildcards '*.npy'; }
numbers() { od -An -v -w4 -tf4; }
# The values of all pictures, one a line; a header of .npy takes 128 bytes.
column() {
	for f in $(tar tf "$1" | grep 'npy$'); do
		tar xOf "$1" "$f" | tail -c +129 | numbers
	done
}

# From t = 1 to 0 in one Euler step, a picture is linear in the velocities: D_weak + S (D - D_weak) holds for the pictures themselves.
for route in 'uniform|full' expert:1; do
	for g in bad one; do
		of=$route
		[ $g = one ] && of=expert:0
		check "$route alone" $run --steps 1 --route "$route" -o good.tar m
		check "$g alone" $run --steps 1 --route "$of" -o weak.tar $g
		check "$route guided by $g" $run --steps 1 --route "$route" --cfg 2.5 --guide $g -o guided.tar m
		column good.tar >good && column weak.tar >weak && column guided.tar >guided
		paste good weak guided | awk '
			{ e = $3 - ($2 + 2.5 * ($1 - $2)); e = e < 0 ? -e : e; worst = e > worst ? e : worst; d = $1 - $2; apart += d * d }
			END { printf "# at most %g off, over %d values\n", worst, NR; exit !(NR == 6 * 768 && worst < 2e-5 && apart > 1) }' >"$OUT"
		tap_result $? "$route, $g: D_weak + S (D - D_weak)" "$(cat "$OUT")"
		rm -f good.tar weak.tar guided.tar
	done
done

# Many steps: a guide that is the model itself changes nothing, and with S = 0 the guide's own pictures come out.
run="ddm-sample -q -n 6 --steps 4 --class all --route uniform|full --format latent"
check "without guidance" $run --solver heun -o plain.tar m
check "guided by itself" $run --solver heun --cfg 3 --guide m -o self.tar m
values plain.tar >plain && values self.tar >self
check_same "is no guidance" plain self
check "the guide's own pictures" $run --solver heun -o weak.tar bad
check "a scale of 0" $run --solver heun --cfg 0 --guide bad -o zero.tar m
values weak.tar >weak && values zero.tar >zero
check_same "gives them" weak zero
check "outside all steps" $run --cfg 3 --guide bad --cfg-interval .3...4 --report never.json -o never.tar m
check "no guidance, other solver" $run --report plain.json -o euler.tar m
values never.tar >never && values euler.tar >euler
check_same "an interval without steps is no guidance" never euler

# Bytes over batches and threads, in several ways to guide, and an earlier checkpoint of the same training.
i=0
for o in "" "--guidance apg" "--guidance zero" "--cfg-rescale .5 --cfg-after-mixing" "--cfg-interval .4..1" "--solver ddim"; do
	i=$((i + 1))
	check "by bad $o" $run --cfg 3 --guide bad $o --report g$i.json -o g$i.tar m
	check "in other batches" $run --cfg 3 --guide bad $o --batch 4 --threads 1 -o h$i.tar m
	check_same "the same bytes" g$i.tar h$i.tar
	values g$i.tar >g$i
	cmp -s g$i euler
	[ $? -eq 1 ]
	tap_result $? "guidance changes the pictures"
done
gflop() { sed 's/.*"gflop_per_image":\([^,]*\),.*/\1/' "$1"; }
check "of the guide alone" $run --report bad.json -o alone.tar bad
check "the cost is that of both" awk "BEGIN { d = $(gflop g1.json) / ($(gflop plain.json) + $(gflop bad.json)) - 1; exit !(d * d < 1e-12) }"
check_out "and outside the interval that of the experts" "$(gflop plain.json)" gflop never.json
bytes() { sed 's/.*"weight_bytes":\([0-9]*\).*/\1/' "$1"; }
check_out "the weights of both are counted" "$(($(bytes plain.json) + $(bytes bad.json)))" bytes g1.json
check "an earlier checkpoint" ddm-sample -n 2 --steps 2 --class 0 --route 'uniform|full' --cfg 2 --guide m --guide-step 20 -o early.tar m
check_err "is told" "^the guide's expert 1: sampled at step 20 of its training$"
check_grep "the stamp names its weights" '"guide/expert_0/train/step-00000020/ema.safetensors":"[0-9a-f]{64}"' early.tar

check "guidance needs no class" ddm-sample -q --route 'uniform|full' --steps 2 --cfg 2 --guide bad -o free.tar m
check_exit 73 "another guide" $run --cfg 3 --guide one -o g1.tar m
check "the same guide" $run --cfg 3 --guide bad -o g1.tar m

long="ddm-sample -n 60 --batch 4 --steps 6 --class all --route uniform|full --cfg 3 --guide bad"
check_continues m $long

check "small pictures" ddm-ingest -q --classes --size 8 -o p8.tar pics
check "in shards" ddm-shard -q -a a.tsv -o s8 p8.tar
check "three clusters" ddm-cluster -q -k 3 --seed 1 -o a3.tsv p.tar
check "in shards too" ddm-shard -q -a a3.tsv -o s3 p.tar
small="--hidden 16 --steps 2"
check "a guide of small pictures" $train $small --cluster all -o small s8
check "one without classes" ddm-train -q $net $small --cluster all -o free s
check "one of another objective" $train $small --cluster all --path ddpm --predict epsilon -o ddpm s
check "one that lacks an expert" sh -c "mkdir few && cp -R bad/expert_1 few"
for k in 0 1; do
	check "cluster $k at high noise" $train $small --cluster $k --time-range .5..1 -o part/expert_$k s
	check "cluster $k at low noise" $train $small --cluster $k --time-range 0...5 -o part/expert_$((2 + k)) s
done
for k in 0 1 2; do
	check "of three clusters, $k" $train $small --cluster $k -o three/expert_$k s3
done
for k in 0 1; do
	check "of another partition, $k" $train $small --cluster $k -o mv/expert_$k s3
done

refuse() { # CODE NAME MESSAGE OPTION...
	code=$1 name=$2 message=$3
	shift 3
	check_exit $code "$name" $run "$@" -o no.tar m
	check_err "$name: said" "$message"
}
refuse 2 "no scale" '--guide does nothing without --cfg' --guide bad
refuse 2 "a scale of 1" '--guide bad has no effect with a scale of 1' --cfg 1 --guide bad
refuse 2 "a step without a guide" '--guide-step does nothing without --guide' --cfg 2 --guide-step 10
refuse 2 "a negative prompt" '--guide does nothing with --negative-prompt' --cfg 2 --guide bad --negative-prompt x
refuse 2 "another size" "--guide small: the guide's size of samples is 8, and the model's is 16" --cfg 2 --guide small
refuse 2 "another condition" "--guide free: the guide's number of classes is 0, and the model's is 3" --cfg 2 --guide free
refuse 2 "other clusters" "--guide three: the guide's number of clusters is 3, and the model's is 2" --cfg 2 --guide three
refuse 2 "a missing expert" "--guide few: the guide has no expert 0, which the model has" --cfg 2 --guide few
refuse 2 "other times" "--guide part: the guide of expert 0 is for another part of the times or another cluster than the expert" --cfg 2 --guide part
refuse 2 "another partition" "--guide mv: the guide was trained on another partition of the data" --cfg 2 --guide mv
refuse 2 "another path without conversion" '--guide ddpm: .* this needs a flow solver' --cfg 2 --guide ddpm --solver ddim
check "which is converted for a flow solver" $run --cfg 2 --guide ddpm -o flow.tar m
refuse 2 "a missing checkpoint" 'has no checkpoint of step 7' --cfg 2 --guide m --guide-step 7
refuse 66 "no such guide" '--guide nothing: ' --cfg 2 --guide nothing
check_absent "nothing was written" no.tar
