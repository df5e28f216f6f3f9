# The ways to guide of ddm-sample: their options, refusals, bytes over threads and batches, and a run that is killed. tests/unit/test_guidance.c has the
# formulas.
. "$(dirname "$0")/tap.sh"

small_pictures
ddm-ingest -q --classes --size 16 -o p.tar pics 2>"$ERR" && ddm-cluster -q -k 2 --seed 1 -o a.tsv p.tar 2>"$ERR" && ddm-shard -q -a a.tsv -o s p.tar || exit 1
train="ddm-train -q --condition class --model dit-nano/2 --depth 1 --heads 2 --steps 20 --batch 8 --lr 1e-2 --validate-samples 0"
for k in 0 1; do
	check "expert $k" $train --hidden 16 --cluster $k --seed $k -o m/expert_$k s
done
check "one of another objective" $train --hidden 16 --cluster 1 --path ddpm --predict epsilon -o mixed/expert_1 s
cp -R m/expert_0 mixed
run="ddm-sample -q -n 6 --steps 4 --class all --route uniform|full --format latent"

check "classifier-free guidance" $run --cfg 3 -o cfg.tar m
check "by name" $run --cfg 3 --guidance cfg -o named.tar m
check_same "is the default" cfg.tar named.tar
check "at all times" $run --cfg 3 --cfg-interval 0..1 -o always.tar m
check_same "is the default too" cfg.tar always.tar
check "without guidance" $run -o plain.tar m
# With four even steps the velocities are those at 1, .75, .5 and .25.
check "at times that no step has" $run --cfg 3 --cfg-interval .3...4 -o never.tar m
# The pictures have other stamps, so the values are compared.
values() { tar xOf "$1" --wildcards '*.npy'; }
values never.tar >never && values plain.tar >plain
check_same "is no guidance" never plain
values cfg.tar >cfg
i=0
for o in "--cfg-interval .4..1" "--cfg-rescale .7" "--cfg-rescale .7 --cfg-after-mixing" "--guidance apg" "--guidance apg:r=2,eta=.5" \
	"--guidance apg:beta=-.5 --cfg-after-mixing" "--guidance zero" "--guidance zero:0" "--guidance zero:2 --cfg-after-mixing" \
	"--guidance zero --cfg-rescale .5 --cfg-interval .2...8" "--solver ddim --guidance apg" "--solver heun --guidance zero"; do
	i=$((i + 1))
	check "$o" $run --cfg 3 $o -o g$i.tar m
	values g$i.tar >g$i
	cmp -s g$i cfg
	[ $? -eq 1 ]
	tap_result $? "$o changes the pictures"
	check "$o, in other batches" $run --cfg 3 $o --batch 4 --threads 1 -o h$i.tar m
	check_same "$o gives the same bytes" g$i.tar h$i.tar
	check "$o, mixed objectives" $run --cfg 3 $o -o x$i.tar mixed
done
check "linear guidance after mixing" $run --cfg 3 --cfg-after-mixing -o after.tar m
check_grep "the stamp names the method" '"guidance":"apg:r=2,eta=0.5"' g5.tar
check_grep "and the interval" '"cfg_interval":"0\.4\.\.1"' g1.tar

# A kill: momentum and still steps belong to the trajectory of a picture.
long="ddm-sample -n 60 --batch 4 --steps 6 --class all --route uniform|full --cfg 3 --guidance apg:beta=-.5 --cfg-after-mixing"
check_continues m $long

refuse() { # NAME MESSAGE OPTION...
	name=$1 message=$2
	shift 2
	check_exit 2 "$name" $run "$@" -o no.tar m
	check_err "$name: said" "$message"
}
refuse "a method without guidance" "--guidance does nothing without --cfg" --guidance apg
refuse "an unknown method" "'foo' is not one of cfg, apg, zero" --cfg 3 --guidance foo
refuse "an unknown key" "apg: 'q' is not one of r, beta, eta" --cfg 3 --guidance apg:q=1
refuse "a rescaling above 1" "not a number from 0 to 1" --cfg 3 --cfg-rescale 1.5
refuse "half an interval" "'.5' is not A..B" --cfg 3 --cfg-interval .5
refuse "a momentum inside experts" "--cfg-after-mixing" --cfg 3 --guidance apg:beta=.5
refuse "a momentum with two evaluations a step" "one evaluation a step" --cfg 3 --guidance apg:beta=.5 --cfg-after-mixing --solver heun
refuse "counted steps with dopri5" "use zero:0" --cfg 3 --guidance zero --solver dopri5
check_absent "nothing was written" no.tar
