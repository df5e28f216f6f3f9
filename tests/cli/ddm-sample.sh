# ddm-sample on the untrained networks of tests/golden/tiny_model.py.
. "$(dirname "$0")/tap.sh"

tar xf "$SRC/tests/golden/tiny-model.tar"
run="ddm-sample --steps 4"

members() { tar tf "$1" | tr '\n' ' '; }

check_program ddm-sample

# The output
check "top-1 runs" $run -n 5 --route top-1 -o a.tar --grid a.png --report a.json --log a.jsonl --timing t.json ensemble
[ "$(members a.tar)" = "000000.png 000001.png 000002.png 000003.png 000004.png " ]
tap_result $? "five pictures, numbered from 0" "$(members a.tar)"
check_grep "the summary: experts, mass, entropy, cost, speed" \
	'^5 pictures, route top-1: 1\.00 experts per step, cluster mass [0-9./]+, router entropy [0-9.]+, .* GFLOP .*pictures/s$' "$ERR"
check_grep "top-1 costs one expert" '"experts_per_step":1\.0,' a.json
check_grep "the report has an entropy for each step" '"router_entropy":\[[0-9.]+,[0-9.]+,[0-9.]+,[0-9.]+\]' a.json
[ "$(grep -c '"weights":\[\[' a.jsonl)" -eq 5 ]
tap_result $? "the log has a line per picture"
check_grep "the sheet is a PNG" 'PNG' a.png
check_grep "a picture carries its stamp" '"route":"top-1","solver":"euler","steps":4,"seed":0,"index":3,' a.tar
check_grep "the tar carries the hashes of the model" '"expert_2/diffusion_pytorch_model.safetensors":"[0-9a-f]{64}"' a.tar
check "full runs" $run -n 5 --route full -o full.tar --report full.json ensemble
check_grep "full costs all experts" '"experts_per_step":3\.0,' full.json
check "top-3 of three runs" $run -n 5 --route top-3 -o top3.tar ensemble
mkdir x full top3
tar xf full.tar -C full
tar xf top3.tar -C top3
check_differ "routes differ" a.tar full.tar
for r in threshold:.3 nucleus:.9 switch:.5 sample prior expert:1; do
	check "$r runs" $run -n 5 --route $r -o "r-$r.tar" ensemble
done
check "heun runs" $run -n 5 --route full --solver heun -o heun.tar --report heun.json ensemble
check_grep "heun evaluates 2 N - 1 times" '"evaluations":7,' heun.json
for s in midpoint:8 rk4:15 ab2:4; do
	check "${s%:*} runs" $run -n 5 --route full --solver ${s%:*} -o ${s%:*}.tar --report ${s%:*}.json ensemble
	check_grep "and evaluates ${s#*:} times" "\"evaluations\":${s#*:}," ${s%:*}.json
	check "${s%:*} in batches of 2, two threads" $run -n 5 --route full --solver ${s%:*} --batch 2 --threads 2 -o again.tar ensemble
	check_same "gives the same bytes" ${s%:*}.tar again.tar
	rm again.tar
done

# Picture i depends only on the seed and i
check "the same from batches of 2 and three threads" $run -n 5 --route top-1 --batch 2 --threads 3 -o b.tar --report b.json \
	--log b.jsonl ensemble
check_same "batch and threads change no byte" a.tar b.tar
check_same "nor the report" a.json b.json
check_same "nor the log" a.jsonl b.jsonl
check "on the CPU --batch-invariant is no other request" $run -n 5 --route top-1 --device cpu --batch 3 --batch-invariant -o i.tar ensemble
check_same "and changes no byte" a.tar i.tar
for r in top-1 sample prior; do
	rm -rf few many part
	mkdir few many part
	ddm-sample --steps 4 -n 3 --route $r ensemble 2>/dev/null | tar xf - -C few
	ddm-sample --steps 4 -n 9 --route $r --batch 4 ensemble 2>/dev/null | tar xf - -C many
	ddm-sample --steps 4 -n 2 --first 6 --route $r ensemble 2>/dev/null | tar xf - -C part
	check_same "$r: picture 2 of 3 is picture 2 of 9" few/000002.png many/000002.png
	check_same "$r: picture 7 made alone is picture 7 of 9" part/000007.png many/000007.png
	check_differ "$r: picture 1 is not picture 2" many/000001.png many/000002.png
done
check "another seed" $run -n 5 --route top-1 --seed 1 -o seed1.tar ensemble
check_differ "another seed makes other pictures" a.tar seed1.tar

# Weights in fewer bytes
for w in bf16 int8; do
	check "$w weights" $run -n 5 --route top-1 --weight-dtype $w -o $w.tar --report $w.json ensemble
	check "$w weights, batches of 2 and three threads" $run -n 5 --route top-1 --weight-dtype $w --batch 2 --threads 3 -o w.$w.tar ensemble
	check_same "$w: batch and threads change no byte" $w.tar w.$w.tar
	check_differ "$w: other pictures than of f32" $w.tar a.tar
	check_grep "$w: a picture's stamp says so" "\"steps\":4,\"seed\":0,\"weights\":\"$w\",\"index\":3," $w.tar
	check_grep "$w: so does the report" "\"weights\":\"$w\",\"weight_bytes\":[0-9]+," $w.json
	check_exit 73 "$w where f32 is" $run -n 5 --route top-1 --weight-dtype $w -o a.tar ensemble
	check_err "the option is named" 'a\.tar: exists and was made with other options: .*weights'
done
check_differ "bf16 is not int8" bf16.tar int8.tar
check_grep "the report of f32" '"weights":"f32","weight_bytes":[0-9]+,' a.json
check_exit 2 "tf32 on the CPU" $run -n 5 --route top-1 --device cpu --weight-dtype tf32 ensemble
check_exit 2 "weights of another type" $run -n 5 --route top-1 --weight-dtype fp8 ensemble

# The same command again
cp a.tar before.tar
touch -d '2001-01-01' a.tar
check "a finished command run again" $run -n 5 --route top-1 -o a.tar --grid a.png ensemble
[ -z "$(find a.tar -newermt '2002-01-01')" ]
tap_result $? "leaves its output alone"
check_exit 73 "other options" $run -n 5 --route top-1 --seed 9 -o a.tar ensemble
check_err "the option that differs is named" 'a\.tar: exists and was made with other options: .*seed'
check_same "and the output is as it was" a.tar before.tar
echo hello >note.txt
check_exit 73 "somebody else's file" $run -n 5 --route top-1 -o note.txt ensemble
cut_to b.tar 4000
check_exit_any 65 "a truncated output" $run -n 5 --route top-1 -o b.tar ensemble

# Classes and guidance
for o in "--class 0" "--class 1" "--class 1 --cfg 3" "--class all" ""; do
	n=$((${n:-0} + 1))
	check "guided: ${o:-no class}" $run -n 3 --route expert:0 $o -o "c$n.tar" guided
done
mkdir c1 c2 c3 c4
for n in 1 2 3 4; do tar xf c$n.tar -C c$n; done
check_differ "classes differ" c1/000001.png c2/000001.png
check_differ "guidance matters" c2/000001.png c3/000001.png
check_same "--class all gives picture 1 class 1" c4/000001.png c2/000001.png
check_exit 2 "a class that is not there" $run -n 3 --route expert:0 --class 3 guided
check_err "the range is named" 'from 0 to 2'
check_exit 2 "a class of a model without" $run -n 3 --route top-1 --class 0 ensemble
check_exit 2 "guidance without a class" $run -n 3 --route expert:0 --cfg 2 guided

# Requests that cannot be served
check_exit 2 "no --route of several experts" $run -n 3 ensemble
check_exit 2 "-n 0" $run -n 0 --route top-1 ensemble
check_exit 2 "steps 0" ddm-sample -n 3 --steps 0 --route top-1 ensemble
check_exit 2 "an unknown route" $run -n 3 --route best ensemble
check_exit 2 "top-4 of three" $run -n 3 --route top-4 ensemble
check_exit 2 "an expert that is not there" $run -n 3 --route expert:3 ensemble
check_exit 2 "oracle without labels" $run -n 3 --route oracle ensemble
check_exit 2 "labels without use" $run -n 3 --route full --labels a.tsv ensemble
check_exit 2 "--class labels without a table" $run -n 3 --route expert:0 --class labels guided
check_exit 2 "a lone expert has no router" $run -n 3 --route top-1 guided
check_exit 2 "numbers beyond six digits" $run -n 3 --first 999998 --route top-1 ensemble
check_exit 66 "no such model" $run -n 3 --route top-1 nothing
check_exit 66 "nothing in it" $run -n 3 --route top-1 x
check_exit 66 "no such labels" $run -n 3 --route oracle --labels none.tsv ensemble
check_exit 66 "no such folder for the output" $run -n 3 --route top-1 -o none/a.tar ensemble
check_absent "nothing half-written" none

# Experts and routers that do not fit
cp -R ensemble some
rm -r some/expert_1
check "an absent expert is left out" $run -n 9 --route full -o some.tar --report some.json some
check_grep "two experts per step are left" '"experts_per_step":2\.0,' some.json
check_exit 2 "but cannot be asked for" $run -n 3 --route expert:1 some
cp -R ensemble more
cp -R ensemble/expert_2 more/expert_3
check_exit 65 "more experts than the router knows" $run -n 3 --route top-1 more
check_err "both numbers are named" '3 clusters.*expert_3'
cp -R ensemble mixed
cp -R guided/. mixed/expert_1
check_exit 65 "an expert of another shape" $run -n 3 --route top-1 mixed
check_err "the folder is named" 'expert_1: channels is 3 here and 1 in the model.s other networks'
cp -R ensemble bad
cut_to bad/expert_1/diffusion_pytorch_model.safetensors 3000
check_exit 65 "truncated weights" $run -n 3 --route top-1 bad
check "which another route does not read" $run -n 3 --route expert:0 -o bad0.tar bad
rm bad/expert_1/diffusion_pytorch_model.safetensors
check_exit 66 "no weights" $run -n 3 --route top-1 bad
cp -R ensemble path
sed -i 's/"cosine"/"spiral"/' path/expert_1/config.json
check_exit 65 "an unknown path" $run -n 3 --route top-1 path
rm -r path/router
check "prior without a router" $run -n 3 --route prior -o prior.tar ensemble

check_exit 2 "two outputs on standard output" $run -n 3 --route prior --report - ensemble
$run -n 3 --route expert:1 -o p.tar --report - ensemble >p.json 2>/dev/null
check_grep "the report on standard output" '"assigned":\[0\.0,1\.0,0\.0\]' p.json

# Shares of a class
mkdir -p classes/router
for k in 0 1 2; do cp -R guided classes/expert_$k; done
sed 's/"num_clusters"/"class_cluster_sizes": [[1, 0, 0], [0, 1, 0], [0, 2, 2]], "num_clusters"/' ensemble/router/config.json \
	>classes/router/config.json
check "prior of a class" $run -n 9 --route prior --class 1 -o k.tar --report k.json classes
check_grep "takes the class's cluster" '"assigned":\[0\.0,1\.0,0\.0\]' k.json
check "prior of all classes" $run -n 9 --route prior --class all -o l.tar --report l.json classes
check_grep "a third of the pictures has class 0" '"assigned":\[0\.3333' l.json
check "prior without class" $run -n 9 --route prior -o m.tar --report m.json classes
check_differ "takes the sizes of the clusters" m.json l.json
sed -i 's/, \[0, 2, 2\]//' classes/router/config.json
check_exit 65 "a table of other classes" $run -n 9 --route prior --class 1 classes

# Experts in turns
for n in 0 none 12x -3; do
	check_exit 2 "--resident=$n" $run -n 3 --route full --resident=$n ensemble
	check_err "the choices are named" 'auto'
done
check_exit 2 "there is a GPU or nothing to page to" $run -n 3 --route full --resident 2 --device cpu ensemble
check_err "the device is named" 'cpu'
check "as many as fit is all on the CPU" $run -n 3 --route full --resident auto --device cpu -o turns.tar ensemble

# Interruptions and full disks
check_stdout "samples" $run -n 200 --route top-1 ensemble
mkdir stop
ddm-sample -n 100000 --route full --steps 50 -o stop/s.tar --log stop/s.jsonl ensemble 2>/dev/null &
pid=$!
until_true started
sleep 0.5
kill -TERM $pid
wait $pid
[ $? -eq 143 ]
tap_result $? "SIGTERM ends it by that signal"
check_clean "and leaves nothing behind" stop
check_absent "nor an output" stop/s.tar stop/s.jsonl

# Oracle, with a table made by ddm-cluster
if command -v ddm-cluster >/dev/null 2>&1; then
	ddm-sample --steps 4 -n 40 --route full -o items.tar ensemble 2>/dev/null
	check "a table of clusters" ddm-cluster -k 3 -o assign.tsv items.tar
	check "oracle runs" $run -n 6 --route oracle --labels assign.tsv -o o.tar --report o.json ensemble
	check_grep "it costs one expert" '"experts_per_step":1\.0,' o.json
	check "their clusters as classes" $run -n 6 --route expert:0 --class labels --labels assign.tsv -o told.tar guided
	grep -ao '"index":[0-9],"expert":[0-9]' o.tar | sed s/expert/class/ >drawn
	grep -ao '"index":[0-9],"class":[0-9]' told.tar >told
	[ "$(tap_lines told)" -eq 6 ] && [ "$(cut -d, -f2 told | sort -u | tap_lines /dev/stdin)" -gt 1 ]
	tap_result $? "more than one of them"
	check_same "those that oracle takes" drawn told
	check "a table with a held-out part" ddm-cluster -k 3 --holdout .3 -o held.tsv items.tar
	n=$(grep -v '^#' held.tsv | cut -f4 | grep -c train)
	check "oracle runs over all training items" $run -n "$n" --route oracle --labels held.tsv -o all.tar --report all.json ensemble
	grep -v '^#' held.tsv | awk -F'\t' '$4 == "train" { n[$2]++; t++ }
		END { for (k = 0; k < 3; k++) printf "%s%.6f", k ? "," : "", n[k] / t }' >shares
	sed 's/.*"assigned":\[\([^]]*\)\].*/\1/' all.json | awk -F, '{ printf "%.6f,%.6f,%.6f", $1, $2, $3 }' >assigned
	check_same "each item once: the shares of the training part" shares assigned
	check_grep "a picture names its expert" '"index":3,"expert":[012],' o.tar
	check_exit 65 "labels of experts that are not there" $run -n 6 --route oracle --labels assign.tsv some
	ddm-cluster -q -k 4 -o four.tsv items.tar
	check_exit 65 "labels of classes that are not there" $run -n 6 --route expert:0 --class labels --labels four.tsv guided
	check_err "the classes are counted" 'guided has 3 classes'
else
	skip "oracle" "no ddm-cluster"
fi
