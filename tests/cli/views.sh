# Views of other outputs (tables, charts, pages, a run's numbers) replace only views of the same program.
. "$(dirname "$0")/tap.sh"

echo '{"fd": 1.5}' >a1.json
echo '{"fd": 1.7}' >a2.json
echo '{"fd": 2.5}' >b1.json
echo '{"fd": 2.9}' >b2.json
echo '{"step": 1, "loss": 1}' >log.jsonl
echo '{"step": 2, "loss": 2}' >>log.jsonl
tar xf "$SRC/tests/golden/tiny-model.tar"
weights=$(find ensemble -name '*.safetensors' | head -n 1)
cp "$weights" kept
printf 'key\tcluster\na\t1\n' >table
mkdir run
cp log.jsonl run/train.jsonl

# view FILE CMD...: CMD writes FILE, replaces it for other inputs, and does not replace any other file
view() {
	file=$1
	shift
	check "$1: a view" "$@"
	check "$1: replaces its own" "$@"
	cp "$file" view.kept
	for other in "$weights" table b1.json; do
		cp "$other" "$file"
		check_exit 73 "$1: refuses to replace $(basename "$other")" "$@"
		check_err "and names the way out" "$file: exists and is not an output of $1, .*: remove it, or name another file"
		check_same "which stands as it was" "$other" "$file"
	done
	: >"$file"
	check "$1: an empty file is nothing" "$@"
	check_same "the same bytes" "$file" view.kept
}
view t.tsv ddm-report -q -o t.tsv a=a1.json b=b1.json
check "a newer table replaces an older one" ddm-report -q -o t.tsv a=a2.json b=b2.json
view c.jsonl ddm-compare -k fd -o c.jsonl a=a1.json a=a2.json b=b1.json b=b2.json
view p.svg ddm-plot -f svg -o p.svg loss log.jsonl
check "another chart replaces it" ddm-plot -f svg --title other -o p.svg loss log.jsonl

# A run's numbers.
run="ddm-sample -n 2 --steps 2 --route full"
for option in report log timing; do
	check "ddm-sample --$option" $run -o $option.tar --$option $option.json ensemble
	rm $option.tar
	check "ddm-sample --$option, again" $run --seed 3 -o $option.tar --$option $option.json ensemble
	rm $option.tar
	cp "$weights" $option.json
	check_exit 73 "ddm-sample --$option onto weights" $run -o $option.tar --$option $option.json ensemble
	check_same "which stand as they were" "$weights" $option.json
	check_absent "nothing else is made" $option.tar
done

# Statistics of a reference, before anything is measured, and the keys of a table of features.
cp "$weights" s.npz
check_exit 73 "ddm-eval-fid --stats-out onto weights" ddm-eval-fid --stats-out s.npz -o e.json missing missing
check_err "is told before the work" 's.npz: exists and does not hold statistics'
check_same "which stand as they were" "$weights" s.npz
mkdir pics
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics
encode="ddm-encode -q -m $SRC/tests/golden/pretrained/dinov2-224 --keys keys"
for other in "$weights" table b1.json; do
	cp "$other" keys
	check_exit 73 "ddm-encode --keys onto $(basename "$other")" $encode -o f.npy pics
	check_err "names the way out" 'keys: exists and is not an output of ddm-encode, .*: remove it, or name another file'
	check_same "which stands as it was" "$other" keys
done
check_absent "nothing else is made" f.npy f.npy.json keys.json
rm keys
check "ddm-encode --keys" $encode -o f.npy pics
check "ddm-check of the keys" ddm-check keys
mkdir fewer
cp "$(find pics -name '*.png' | LC_ALL=C sort | head -n 1)" fewer
check "newer keys replace older ones" $encode -o g.npy fewer
check_out "whole" 1 sh -c 'wc -l <keys'
check_clean "nothing is left behind" .
