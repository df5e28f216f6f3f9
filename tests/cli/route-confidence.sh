# --route confidence: experts weighed by their measured losses.
. "$(dirname "$0")/tap.sh"

ddm-synth gaussians --shape 1x4x4 -k 3 --rank 2 --separation 2 --floor .3 --seed 3 -o law 2>"$ERR" &&
	ddm-synth draw -n 900 --holdout .3 --labels l.tsv -o l.tar law 2>"$ERR" && ddm-shard -q -a l.tsv --holdout .3 -o s l.tar || exit 1
small="ddm-train -q --model dit-nano/2 --hidden 16 --depth 1 --heads 2 --batch 32 --lr 3e-3 --validate-samples 0"
for k in 0 1 2; do
	$small --steps $((k ? 300 : 2)) --cluster $k -o m/expert_$k s || exit 1
done
measure="ddm-diagnose loss -n 200 --timesteps .1,.5,.9"

check_exit 66 "without measured losses" ddm-sample -q -n 3 --steps 3 --route 'confidence|full' -o x.tar m
check_err "says how to measure them" 'expert_0/loss.json: no such file: .*ddm-diagnose loss --routes expert:0 -o'
for k in 0 1 2; do
	check "the loss of expert $k" $measure --routes expert:$k -o m/expert_$k/loss.json m s
done
check "the model is as it was" ddm-check m
check "weights by confidence" ddm-sample -q -n 3 --steps 3 --route 'confidence|full' --report a.json --log a.jsonl -o a.tar m
loss() { sed 's/.*"loss_t'"$2"'":\([0-9.e-]*\).*/\1/' m/expert_"$1"/loss.json; }
# The last step of three is at t = 1/3, between .1 and .5. Expert 0 is bad.
weights=$(sed -n 's/.*"weights":\[\[\([^]]*\)\],\[[^]]*\],\[\([^]]*\)\]\].*/\2/p' a.jsonl | head -n 1)
awk -v a="$(loss 0 0.1) $(loss 1 0.1) $(loss 2 0.1)" -v b="$(loss 0 0.5) $(loss 1 0.5) $(loss 2 0.5)" -v got="$weights" 'BEGIN {
	split(a, x); split(b, y); split(got, w, ","); f = (1 / 3 - .1) / .4
	for (i = 1; i <= 3; i++) sum += v[i] = 1 / (x[i] + f * (y[i] - x[i]))
	for (i = 1; i <= 3; i++) { d = w[i] - v[i] / sum; bad += d * d > 1e-8 }
	print "# " got " against " v[1] / sum " " v[2] / sum " " v[3] / sum
	exit bad > 0 || !(w[1] < w[2] && w[1] < w[3]) }' >"$OUT"
tap_result $? "the inverse of the losses at its time" "$(cat "$OUT")"
check "a route of ddm-diagnose" ddm-diagnose loss -n 200 --routes 'confidence:.1|full' -o by.json m s
check "equal weights" ddm-diagnose loss -n 200 --routes 'uniform|full' -o even.json m s
mean() { sed 's/.*"loss":\([0-9.e-]*\).*/\1/' "$1"; }
check_true "are worse" "$(mean by.json) < $(mean even.json)"
check "as a part of a schedule" ddm-sample -q -n 3 --steps 4 --route 'uniform|full@1,confidence|top-1@.5' -o b.tar m
check "in other batches" ddm-sample -q -n 3 --batch 2 --threads 3 --steps 3 --route 'confidence|full' -o c.tar m
check_same "the same bytes" a.tar c.tar
check "with pictures at different times in a batch" ddm-sample -q -n 9 --solver dopri5 --route 'confidence|full' -o d.tar m
check "each alone" ddm-sample -q -n 9 --batch 1 --solver dopri5 --route 'confidence|full' -o e.tar m
check_same "the same bytes" d.tar e.tar

# Losses that do not fit
cp -R m n && $small --steps 5 --cluster 1 -o other s && cp other/*.safetensors other/config.json n/expert_1 || exit 1
check_exit 65 "of other weights" ddm-sample -q -n 3 --steps 3 --route 'confidence|full' -o x.tar n
check_err "are named" 'expert_1/loss.json: was measured with another expert_1/'
rm -rf n && cp -R m n && cp n/expert_0/loss.json n/expert_1 || exit 1
check_exit 65 "of another expert" ddm-sample -q -n 3 --steps 3 --route 'confidence|full' -o x.tar n
check_err "are named" 'of the route expert:0, not of expert:1'
rm -rf n && cp -R m n && rm n/expert_2/loss.json && ddm-diagnose loss -n 200 --timesteps .1,.5 --routes expert:2 -o n/expert_2/loss.json n s || exit 1
check_exit 65 "at other times" ddm-sample -q -n 3 --steps 3 --route 'confidence|full' -o x.tar n
rm n/expert_2/loss.json && $measure --seed 2 --routes expert:2 -o n/expert_2/loss.json n s || exit 1
check_exit 65 "on other samples" ddm-sample -q -n 3 --steps 3 --route 'confidence|full' -o x.tar n
check_err "are named" 'on other samples than the experts before it'
cut_to n/expert_0/loss.json 50
check_exit 65 "cut off" ddm-sample -q -n 3 --steps 3 --route 'confidence|full' -o x.tar n
$small --steps 2 --time-range .5..1 --cluster all -o part/expert_0 s && $small --steps 2 --time-range 0...5 --cluster all -o part/expert_1 s || exit 1
check_exit 2 "experts for parts of the times" ddm-sample -q -n 3 --steps 3 --route 'confidence|full' -o x.tar part
check_err "are refused before their losses are looked for" 'part/expert_0: weights by confidence need experts for all times, .* for 0.5..1'
for k in 0 1; do
	# shellcheck disable=SC2086
	$small --steps 2 --condition cluster --class-dropout .1 --cluster all -o told/expert_$k s || exit 1
done
$measure --routes expert:0 -o told/expert_0/loss.json told s && $measure --untold --routes expert:1 -o told/expert_1/loss.json told s || exit 1
check_exit 65 "losses of which one is with the cluster and one without" ddm-sample -q -n 3 --steps 3 --route 'confidence|full' -o x.tar told
check_err "are told apart" 'expert_1/loss.json: this expert was told nothing and the experts before it the cluster'
check_absent "nothing was made" x.tar
