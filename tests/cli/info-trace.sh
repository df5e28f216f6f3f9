# ddm-info --trace: from a picture to its model, trainings, shards, assignment and samples; where the trail ends.
. "$(dirname "$0")/tap.sh"

need jq
small_pictures
(cd pics && tar cf ../pics.tar --sort=name a b c)
ddm-cluster -q -k 2 --holdout .3 --seed 2 -o a.tsv pics.tar && ddm-shard -q -a a.tsv -o s pics.tar || exit 1
net="--model dit-nano/8 --hidden 16 --depth 1 --heads 2 --size 8 --batch 4 --threads 1"
for c in 0 1; do
	ddm-train -q $net --predict x0 --steps 3 --cluster $c -o m/expert_$c s || exit 1
done
ddm-route-train -q $net --steps 2 -o m/router s || exit 1
draw() { ddm-sample -n 3 --steps 2 "$@" m 2>/dev/null; }
draw --route top-1 --grid grid.png --report report.json -o x.tar && draw --route top-1 -o x/ && draw --route expert:1 -o one.tar || exit 1
sum() { sha256sum "$1" | cut -d ' ' -f 1; }
w=diffusion_pytorch_model.safetensors

# trail OPERAND...: the steps and what was found, in one line
trail() {
	ddm-info --trace --json "$@" >trail.json 2>"$ERR"
	jq -r '[.trail[] | .step + "=" + (.found // "?")] | join(" ")' trail.json
}
all="model=m expert_0=m/expert_0 shards=s assignment=a.tsv samples=pics.tar expert_1=m/expert_1 router=m/router"
check_out "a picture" "picture=x/000001.png $all" trail x/000001.png m s a.tsv pics.tar
check_out "a picture of a tar" "picture=x.tar $all" trail x.tar 1 pics.tar a.tsv s m
check_out "its number, and the seed" "1 0" jq -r '[.stamp.index, .stamp.seed] | map(tostring) | join(" ")' trail.json
check_out "hashes of the weights" "$(sum m/expert_0/$w) $(sum m/expert_1/$w) $(sum m/router/model.safetensors)" \
	jq -r '[.trail[] | select(.step | startswith("expert") or . == "router") | .hash] | join(" ")' trail.json
check_out "of shards and assignment" "$(sum s/MANIFEST.tsv) $(sum a.tsv)" \
	jq -r '[.trail[] | select(.step == "shards" or .step == "assignment") | .hash] | join(" ")' trail.json
check_grep "the training" "cluster 1, checkpoint of step 3, seed 0, on $(hostname) .cpu." trail.json
check_out "the programs" "ddm-sample ddm-train ddm-shard ddm-cluster ddm-train ddm-route-train" \
	jq -r '[.trail[].made_by // empty | split(" ")[0]] | join(" ")' trail.json
check_out "the pictures have no stamp" "pics.tar: it has no stamp" jq -r '.ends[] | select(startswith("pics"))' trail.json
check_grep "the experts of a picture are not recorded" 'which of the experts drew it is recorded by ddm-sample --log alone' trail.json
check_out "all pictures" "pictures=x.tar $all" trail x.tar m s a.tsv pics.tar
check_out "a contact sheet" "pictures=grid.png $all" trail grid.png m s a.tsv pics.tar
check_out "a report" "pictures=report.json $all" trail report.json m s a.tsv pics.tar
check_out "one expert" "picture=one.tar model=m expert_1=m/expert_1 shards=s assignment=? samples=?" trail one.tar 0 m s
check_out "of which nothing is unknown but two operands" "assignment: no operand has this hash
samples: no operand has this hash" jq -r '.ends[]' trail.json
check_out "nothing to look in" "picture=x.tar model=?" trail x.tar 1
check_grep "is said" 'model: name it as a further operand' trail.json
cp -R m other
cp -R m/expert_0/. other/expert_1/
check_out "another model" "picture=x.tar model=?" trail x.tar 1 other
check "as text" ddm-info --trace x.tar 1 m s
check_grep "a line a step" '^ *shards  *s  *ddm-shard ' "$OUT"
check_grep "and the end" '^  ends .*assignment: no operand has this hash' "$OUT"

# Shards that forgot a sample come from others.
key=$(grep -v '^#' a.tsv | awk -F '\t' '$4 == "train" { print $1; exit }')
ddm-forget -o fewer -m m --run -q --threads 1 s "$key" >/dev/null
cluster=$(grep -v '^#' a.tsv | awk -F '\t' -v k="$key" '$1 == k { print $2 }')
ddm-sample -n 1 --steps 2 --route "expert:$cluster" -o after.tar m.new 2>/dev/null || exit 1
check_out "back to the shards before" "picture=after.tar model=m.new expert_$cluster=m.new/expert_$cluster shards=fewer shards before samples were forgotten=s assignment=a.tsv samples=pics.tar" \
	trail after.tar 0 m.new fewer s a.tsv pics.tar

check_exit 2 "no such picture" ddm-info --trace x.tar 3
check_exit 66 "no such file" ddm-info --trace none
check_exit 66 "no such operand" ddm-info --trace x.tar 1 none
check_exit 65 "a file of another program" ddm-info --trace a.tsv
check_err "which has no such stamp" 'a.tsv: no stamp of ddm-sample'
cp x/000001.png bent.png
flip bent.png 200
check_exit 65 "a damaged picture" ddm-info --trace bent.png
check_exit 2 "not with --check" ddm-info --trace --check x.tar
check_stdout "the trail" ddm-info --trace x.tar 1
