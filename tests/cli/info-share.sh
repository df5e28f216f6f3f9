# ddm-info --trace with a log of ddm-sample: what each expert contributed to a picture, and the licences of its data.
. "$(dirname "$0")/tap.sh"

need jq
small_pictures
for f in pics/a/*.png; do
	echo '{"license": "CC0-1.0", "source": "garden"}' >"${f%.png}.json"
done
ddm-ingest -q -o pics.tar pics && ddm-cluster -q -k 3 --holdout .3 --seed 2 -o a.tsv pics.tar && ddm-shard -q -a a.tsv -o s pics.tar || exit 1
net="--model dit-nano/8 --hidden 16 --depth 1 --heads 2 --size 8 --batch 4 --threads 1"
for c in 0 1 2; do
	ddm-train -q $net --predict x0 --steps 3 --cluster $c -o m/expert_$c s || exit 1
done
ddm-route-train -q $net --steps 2 -o m/router s || exit 1
draw() { ddm-sample -n 4 --steps 5 "$@" m 2>/dev/null; }
draw --route top-2 --log log.jsonl --report report.json -o x.tar && draw --route top-2 -o x/ || exit 1
draw --route top-2 --seed 1 --log other.jsonl -o y.tar && draw --route top-2 --log jpg.jsonl -o jpg.tar --format jpg || exit 1
draw --route full --log full.jsonl --format latent -o latents.tar || exit 1

# shares FILE...: the shares of the experts, to six digits
shares() {
	ddm-info --trace --json "$@" >trail.json 2>"$ERR"
	jq -c '[.experts[]? | .share * 1e6 | round]' trail.json
}
expect() { jq -c "select(.index == $2) | .weights | [transpose[] | add / length * 1e6 | round]" "$1"; }
for i in 0 3; do
	check_out "the mean of the logged weights of picture $i" "$(expect log.jsonl $i)" shares x.tar $i m log.jsonl
done
check_out "they add up" 1000000 jq '[.experts[].share] | add * 1e6 | round' trail.json
check_out "first and last step" "$(jq -c 'select(.index == 3) | [.weights[0], .weights[-1]]' log.jsonl)" jq -c '[[.experts[].first], [.experts[].last]]' trail.json
check_out "each with its cluster" "0 1 2" jq -r '[.experts[].cluster] | map(tostring) | join(" ")' trail.json
check_out "and the licences of what it saw" "$(jq -c '.training.provenance // .provenance | .licence."CC0-1.0"' m/expert_*/config.json | paste -sd ' ')" \
	jq -r '[.experts[].licence."CC0-1.0" | tostring] | join(" ")' trail.json
check_out "which are some" true jq '[.experts[].licence."CC0-1.0" // 0] | add > 0' trail.json
check_out "nothing is missing" 0 jq '[.ends[] | select(contains("log"))] | length' trail.json
check_out "a picture in a folder, by another run of the same command" "$(expect log.jsonl 1)" shares x/000001.png log.jsonl
check_out "where the stamp is beside the picture" "$(expect jpg.jsonl 2)" shares jpg.tar 2 jpg.jsonl
check_out "a latent" "$(expect full.jsonl 1)" shares latents.tar 1 full.jsonl
check_out "the right one of two logs" "$(expect other.jsonl 2)" shares y.tar 2 log.jsonl other.jsonl
check "as text" ddm-info --trace x.tar 1 m log.jsonl
check_grep "a row for each expert" '^ *expert_1  *[0-9.]+%' "$OUT"

check_out "the log of other pictures" "[]" shares x.tar 1 m other.jsonl
check_grep "is said" 'x.tar: no log among the operands has this picture' trail.json
check_out "all pictures" "[]" shares x.tar m log.jsonl
check_grep "a log tells of one" 'x.tar: a log tells of single pictures: give the number of one' trail.json
check_out "without a log" "[]" shares x.tar 1 m
check_grep "that it would be there" 'which of the experts drew it is recorded by ddm-sample --log alone' trail.json

cp log.jsonl bent.jsonl
sed -i '2s/"weights":\[\[0/"weights":[[1/' bent.jsonl
cmp -s log.jsonl bent.jsonl && flip bent.jsonl 400
check_exit 65 "a damaged log" ddm-info --trace x.tar 1 m bent.jsonl
check_err "which line" 'bent.jsonl: line [0-9]+ of this log of ddm-sample is damaged'
jq -c 'del(.stamp, .seal)' log.jsonl >old.jsonl
check_exit 65 "a log without hashes" ddm-info --trace x.tar 1 m old.jsonl
check_err "of an older version" 'old.jsonl: line 1 has no hash of the picture.s stamp'
jq -c 'del(.seal) | .weights[0] = [2]' log.jsonl >wrong.jsonl
check_exit 65 "impossible weights" ddm-info --trace x.tar 1 m wrong.jsonl
check_err "are named" 'wrong.jsonl: the weights in line 2 are not numbers from 0 to 1'
