# ddm-shard and ddm-train killed at their system calls, one run for each: what has its final name is whole, and the same command
# finishes with the same bytes.
. "$(dirname "$0")/tap.sh"

need strace
strace -o /dev/null true 2>/dev/null || skip_all "strace may not trace here"

mkdir pics
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics
ddm-cluster -q -k 2 --holdout .25 -o a.tsv pics || exit 1
shard() { "$@" ddm-shard -q --threads 1 -a a.tsv --holdout .25 -o "$out" pics 2>"$ERR"; }
train() {
	"$@" ddm-train -q --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --predict x0 --batch 4 --steps 4 --validate-samples 0 \
		--checkpoint-every 2 --keep 9 --threads 1 --cluster all -o "$out" s 2>"$ERR"
}
out=s
shard || exit 1
out=whole
train || exit 1

# Every name that is there is that of a whole output.
look_shard() { [ ! -e x ] || diff -r s x; }
look_train() {
	for f in x/config.json x/diffusion_pytorch_model.safetensors x/train/step-00000002 x/train/step-00000004; do
		[ ! -e $f ] || diff -r $f "whole${f#x}" || return 1
	done
}
look_all_shard() { diff -r s x; }
look_all_train() { look_train && [ -e x/diffusion_pytorch_model.safetensors ] && [ -e x/train/step-00000004 ]; }

# The calls worth a run, as "NAME NUMBER": those that make a file, the first two writes to each, every other fsync, all else.
chosen() {
	awk '{ sub(/^[0-9]+ +/, ""); name = $0; sub(/\(.*/, "", name); k = ++n[name]; run = name == "write" ? run + 1 : 0 }
		/^\+\+\+|^---/ || name == "openat" && !/O_CREAT/ || name == "write" && run > 2 || name == "fsync" && k % 2 { next }
		{ print name, k }' trace
}

for program in shard train; do
	out=x
	$program strace -f -o trace -e trace=mkdir,openat,write,fsync,rename
	chosen >calls
	bad='' kills=0
	while read -r call k; do
		rm -rf x ./*.tmp*
		$program strace -f -o /dev/null -e "inject=$call:signal=KILL:when=$k" && bad="$bad $call $k: not killed;"
		kills=$((kills + 1))
		look_$program >diff.txt 2>&1 || bad="$bad $call $k: $(head -n 1 diff.txt);"
		$program || bad="$bad $call $k, again: exit $?;"
		look_all_$program >diff.txt 2>&1 || bad="$bad $call $k, again: $(head -n 1 diff.txt);"
		[ -z "$(find . -name '*.tmp*')" ] || bad="$bad $call $k: litter;"
	done <calls
	[ -z "$bad" ] && [ $kills -gt 30 ]
	tap_result $? "ddm-$program killed at $kills calls" "$bad"
done
