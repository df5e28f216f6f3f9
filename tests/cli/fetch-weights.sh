# share/fetch-weights with local file addresses.
. "$(dirname "$0")/tap.sh"
need curl sha256sum

fetch() { "$SRC/share/fetch-weights" --table table "$@"; }
row() { printf '%s\t%s\t%s\t%s\tfile://%s\n' "$@"; }
sum() { sha256sum <"$1" | cut -d ' ' -f 1; }

mkdir there
awk 'BEGIN { for (i = 0; i < 20000; i++) print "weights", i }' >there/a.bin
echo '{"hidden": 8}' >there/config.json
A=$(sum there/a.bin)
{
	echo '# a comment'
	row net config.json MIT - "$PWD/there/config.json"
	row net sub/a.bin MIT "$A" "$PWD/there/a.bin"
	row digits a.bin BSD "$(echo "$A" | cut -c 1-8)" "$PWD/there/a.bin"
	row wrong a.bin BSD 00000000 "$PWD/there/a.bin"
	row gone a.bin BSD - "$PWD/there/nothing"
} >table

check "help" "$SRC/share/fetch-weights" -h
check_grep "help: the addresses were not tried" 'None of the addresses could be' "$OUT"
check "the built-in table" "$SRC/share/fetch-weights" --list
for n in inception dinov2-b clip-vit-large-patch14 sd-vae-ft-mse taesd taesdxl taef2 lpips-alex lpips-vgg aesthetic paris; do
	grep -q "^$n	" "$OUT"
	tap_result $? "the built-in table has $n"
done
check "where Paris is" "$SRC/share/fetch-weights" --list paris
check_grep "its experts" 'paris/expert_7/diffusion_pytorch_model.safetensors	MIT	-	https://' "$OUT"
check "what there is of every model" "$SRC/share/fetch-weights" -n -o w $("$SRC/share/fetch-weights" --list | cut -f 1)
# FILE...: a folder with the first file must have the others too
whole() {
	first=$1
	shift
	for d in $(sed -n "s|^\\(w/.*/\\)$first: from .*|\\1|p" "$OUT"); do
		for f; do
			grep -q "^$d$f: from " "$OUT" || echo "$d$f is missing"
		done
	done
}
{
	whole diffusion_pytorch_model.safetensors config.json
	whole diffusion_pytorch_model.bin config.json
	whole model.safetensors config.json
	whole pytorch_model.bin config.json
	whole pytorch_model.safetensors config.json
	whole pytorch_model.bin.index.json config.json pytorch_model-00001-of-00002.bin pytorch_model-00002-of-00002.bin
	whole vocab.json merges.txt tokenizer_config.json special_tokens_map.json
	whole spiece.model tokenizer_config.json special_tokens_map.json
	whole transformer/config.json model_index.json scheduler/scheduler_config.json vae/config.json
	whole text_encoder/config.json tokenizer/vocab.json
} >missing
[ ! -s missing ]
tap_result $? "no file of a model's without those that go with it" "$(cat missing)"
check_out "a list of one's own" "net	MIT	2 files
digits	BSD	1 file
wrong	BSD	1 file
gone	BSD	1 file" fetch --list
check_exit 2 "no name" fetch
check_exit 2 "an unknown name" fetch net other
check_err "it is named, with those that there are" '"other".*net digits'
check_exit 2 "an unknown option" fetch --force net
check_exit 2 "a name that is a path" fetch ../net
row net ../a.bin MIT - "$PWD/there/a.bin" >outside
check_exit 65 "a table that leads out" "$SRC/share/fetch-weights" --table outside net
check_exit 66 "no table" "$SRC/share/fetch-weights" --table nowhere net

check "a dry run" fetch -n -o w net
check_grep "a dry run: where from" "w/net/sub/a.bin: from file://" "$OUT"
check_absent "a dry run: nothing done" w
check "two weights" fetch -o w net digits
check_same "a file in a folder" there/a.bin w/net/sub/a.bin
check_same "a file of eight digits" there/a.bin w/digits/a.bin
check "all sums are kept" sh -c 'cd w && sha256sum -c --quiet weights.sha256 && [ "$(wc -l <weights.sha256)" -eq 3 ]'
check "again" fetch -o w net digits
check_err "again: is there" 'w/net/config.json: is there'
check_clean "no part is left" w

# A download that was cut off is continued. The wrong sum shows that the existing part is not read again.
rm w/net/sub/a.bin
head -c 1000 there/a.bin >w/net/sub/a.bin.part
check "a part goes on" fetch -o w net
check_same "a part goes on: whole" there/a.bin w/net/sub/a.bin
rm w/net/sub/a.bin
head -c 1000 there/a.bin | tr w W >w/net/sub/a.bin.part
check_exit_any 65 "a part goes on from where it was" fetch -o w net
check_err "the sums are told" "SHA-256 is .*publisher states $A"
check_absent "a wrong part is not kept" w/net/sub/a.bin w/net/sub/a.bin.part
cp there/a.bin w/net/sub/a.bin.part
check "a part that was whole" fetch -o w net
check_same "a part that was whole: takes its place" there/a.bin w/net/sub/a.bin

check_exit_any 65 "not what the publisher states" fetch -o w wrong
check_absent "nothing of it" w/wrong/a.bin w/wrong/a.bin.part
check_exit_any 66 "nothing at the address" fetch -o w gone
check_absent "nothing is made of it" w/gone/a.bin

# A second download must give the same file.
rm w/net/config.json
echo '{"hidden": 9}' >there/config.json
check_exit_any 65 "another file at the address" fetch -o w net
check_err "what it was is told" "was [0-9a-f]{64} .w/weights.sha256"
echo '{"hidden": 8}' >there/config.json
check "the first one again" fetch -o w net
flip w/net/config.json 3
check_exit_any 65 "a file that changed here" fetch -o w net
flip w/net/config.json 3
rm w/weights.sha256
check "files without sums" fetch -o w net
check "their sums are kept" sh -c 'cd w && sha256sum -c --quiet weights.sha256 && [ "$(wc -l <weights.sha256)" -eq 2 ]'
if command -v flock >/dev/null; then
	(flock 8; : >locked; sleep 5) 8>>w/.fetch-weights &
	while [ ! -e locked ]; do sleep 1; done
	check_exit 73 "two at once" fetch -o w net
	wait
fi
: >file
check_exit 74 "no folder to write to" fetch -o file/w net
