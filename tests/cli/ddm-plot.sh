# ddm-plot: each kind of chart from each kind of file, the same bytes in a second run, and faults of inputs.
. "$(dirname "$0")/tap.sh"

check_program ddm-plot
awk 'BEGIN {
	for (i = 1; i <= 200; i++)
		printf "{\"step\":%d,\"loss\":%.5g%s}\n", 10 * i, 4000 / i + .5, i % 50 ? "" : sprintf(",\"val_loss\":%g", 5000 / i)
}' >train.jsonl
sed 's/"loss":/"loss":1/' train.jsonl >other.jsonl
for s in 1 2; do
	echo "{\"kd\":0.$s,\"kd_floor\":0.01,\"gflop_per_image\":2}" >a.json
	echo "{\"kd\":0.3,\"kd_floor\":0.01,\"gflop_per_image\":9}" >b.json
	ddm-report -q -t strategy -o s$s.tsv 'top<1>=a.json' full=b.json
done
echo '{"index":0,"weights":[[0.5,0.5],[0.9,0.1]]}' >w.jsonl
echo '{"key":"kd-pix","label":"a","against":"b","pairs":5,"difference":0.026,"level":0.95,"low":-0.005,"high":0.057}' >c.jsonl

# drawn NAME TEXT ARGUMENTS...: draws an SVG that shows TEXT, twice with the same bytes, and a PNG that ddm-grid can read
drawn() {
	name=$1 text=$2
	shift 2
	check "$name" ddm-plot -o "$name.svg" "$@"
	check_grep "$name: shows $text" "$text" "$name.svg"
	check "$name, on stdout" ddm-plot "$@"
	check_same "$name: the same bytes" "$OUT" "$name.svg"
	check "$name, PNG" ddm-plot -o "$name.png" "$@"
	check "$name: is a picture" ddm-grid --columns 1 -r 1 -s 1 --size 32 -o "$name.grid" "x=$name.png"
	if command -v xmllint >/dev/null; then
		check "$name: well-formed" xmllint --noout "$name.svg"
	else
		skip "$name: well-formed" "no xmllint"
	fi
	rm -f "$name.grid"
}
drawn loss '>held<' loss train.jsonl held=other.jsonl
check_grep "loss: the label of the file alone" '>train.jsonl<' loss.svg
check_grep "loss: described" '<desc [^>]*>loss .*train.jsonl: from 400[01] at 10 to 20.5 at 2000' loss.svg
drawn cost 'top&lt;1&gt;<' cost s1.tsv s2.tsv
check_grep "cost: the floor" 'floor: real pictures' cost.svg
check_grep "cost: the mean of two seeds" 'top&lt;1&gt;: 0.15 at 2' cost.svg
drawn router '>expert 1<' router w.jsonl
drawn entropy '>equal weights<' -y entropy router w.jsonl
drawn compare '>a - b<' compare c.jsonl
drawn lines '>gflop_per_image<|>cost of a sample' -x kd -y gflop_per_image -g strategy lines s1.tsv s2.tsv
drawn points '>a title<' -x step -y val_loss -t 'a title' --x-range 0:1000 points train.jsonl
drawn bars '>top&lt;1&gt;<' -x strategy -y kd bars s1.tsv
check "a table on stdin" sh -c 'ddm-plot -x strategy -y kd bars - <s1.tsv >stdin.svg'
grep -v -e '"ddm"' -e ddm-seal bars.svg >bars.cut
grep -v -e '"ddm"' -e ddm-seal stdin.svg >stdin.cut
check_same "the same chart" bars.cut stdin.cut
check "--format" ddm-plot -f png -o named.svg compare c.jsonl
check_same "decides over the name" named.svg compare.png
check "one point" ddm-plot -x step -y loss --log xy -o one.svg points w1=train.jsonl
head -n 1 train.jsonl >one.jsonl
drawn single 'one: 400' loss one=one.jsonl

# Model folders: the logs of the experts, by number; a router's accuracy in its last validation.
mkdir -p model/expert_0 model/expert_2 model/expert_10 model/router model/expert_x bare
for k in 0 2 10; do cp train.jsonl model/expert_$k/; done
cp other.jsonl model/expert_x/train.jsonl
for s in 1 2; do
	echo "{\"step\":$s,\"loss\":1,\"val_by_time\":[{\"t\":0.25,\"loss\":0.2,\"accuracy\":0.9$s,\"ece\":0}," \
		"{\"t\":0.75,\"loss\":1,\"accuracy\":0.4$s,\"ece\":0}]}"
done >model/router/train.jsonl
printf '{"step":3,"lo' >>model/router/train.jsonl
drawn folder '>expert_10<' loss model
check_grep "folder: all experts, by number, the router left out" 'expert_0: from .*expert_2: from .*expert_10: from [^_]*$' folder.svg
drawn named '>mine expert_2<' loss mine=model
drawn one_of 'expert: from' loss expert=model/expert_2
drawn accuracy '>share of held-out pictures' -y accuracy router model
check_grep "accuracy: of the last validation" '0\.42 at 0\.75' accuracy.svg
check_grep "accuracy: and at less noise" '0\.92 at 0\.25' accuracy.svg
drawn accuracies '>b<' -y accuracy router a=model b=model/router c=model/router/train.jsonl
check_exit 66 "a folder without a log" ddm-plot loss bare
check_err "what is looked for is named" 'neither train.jsonl nor expert_K/train.jsonl'
check_exit 66 "a folder without a router" ddm-plot -y accuracy router bare
check_exit 65 "a log of no router" ddm-plot -y accuracy router train.jsonl
check_err "is told" 'no "val_by_time" has an accuracy: it is not the log of a router'
check_exit 2 "nothing of a router" ddm-plot -y loss router w.jsonl
check_err "what there is, is named" 'weight, entropy or accuracy'
(echo '{"step":1' && cat model/router/train.jsonl) >damaged.jsonl
check_exit 65 "a damaged log" ddm-plot -y accuracy router damaged.jsonl
check_err "by its line" 'damaged.jsonl:1:'

sed 's/kd-pix/fd-pix/; s/0.026/7.5/; s/0.057/9/' c.jsonl | cat c.jsonl - >two.jsonl
check_exit 2 "differences of two keys" ddm-plot compare two.jsonl
check_err "are named" "kd-pix and of fd-pix"
check "one of them" ddm-plot -y fd-pix -o fd.svg compare two.jsonl
check_grep "is drawn" '>7.5<' fd.svg
check_exit_any 1 "alone" grep -q '>0.026<' fd.svg

for v in 1 2 3; do
	for arm in a b; do
		echo "{\"kd-pix\":$v.$(printf %s $arm | tr ab 12)$v,\"fd-pix\":$v}" >$arm.$v.json
	done
done
check "a table of differences" sh -c 'ddm-compare --tsv -k kd-pix,fd-pix -o c.tsv a=a.1.json a=a.2.json a=a.3.json b=b.1.json b=b.2.json b=b.3.json'
check "one key of it" ddm-plot -y kd-pix -o ctable.svg compare c.tsv
check_grep "b against a" '>b - a<' ctable.svg
check_grep "a tenth apart" '>0.1<' ctable.svg

# Existing charts are replaced, other files are not.
check "a newer chart" ddm-plot -o loss.svg loss train.jsonl
check_exit_any 1 "replaces the older" grep -q '>held<' loss.svg
echo precious >mine
check_exit 73 "a file of another kind" ddm-plot -o mine loss train.jsonl
check_out "stands" precious cat mine

check_exit 2 "no file" ddm-plot loss
check_exit 2 "no such kind" ddm-plot pie train.jsonl
check_err "the kinds are named" "loss, cost"
check_exit 2 "no columns" ddm-plot lines s1.tsv
check_exit 2 "no such range" ddm-plot --x-range 3:1 loss train.jsonl
check_exit 2 "a range below zero on a logarithmic scale" ddm-plot --y-range=-1:1 loss train.jsonl
check_exit 2 "one end of an interval" ddm-plot -x strategy -y kd --low kd bars s1.tsv
check_exit 2 "too large" ddm-plot --width 4000 --height 4000 --scale 8 -f png loss train.jsonl
check_exit 66 "no such file" ddm-plot loss none.jsonl
check_exit 65 "a missing column" ddm-plot -x step -y kd lines train.jsonl
check_err "is named" "train.jsonl.*'kd'"
check_exit 65 "words" ddm-plot -x kd -y strategy lines s1.tsv
: >empty
check_exit 65 "an empty file" ddm-plot loss empty
echo '{"step":1,"loss":null}' >nothing
check_exit 65 "no number" ddm-plot loss nothing
check_exit 65 "no positive number" sh -c 'echo "{\"x\":1,\"y\":-2}" | ddm-plot --log y -x x -y y lines -'
check_err "says so" "logarithmic"
check_exit 65 "a huge value" sh -c 'echo "{\"x\":1,\"y\":1e300}" | ddm-plot -x x -y y lines -'
check_exit 65 "weights that are none" ddm-plot router train.jsonl
cp s1.tsv cut.tsv
cut_to cut.tsv 90
check_exit 65 "a cut table" ddm-plot cost cut.tsv
check "a value that is not there" sh -c 'printf "{\"x\":1,\"y\":2}\n{\"x\":2,\"y\":null}\n" | ddm-plot -o gap.svg -x x -y y lines -'
check_err "is told" "1 rows without x or y"
check_stdout "SVG" ddm-plot loss train.jsonl
check_clean "no temporary" .
