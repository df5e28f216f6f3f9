# The same bits from every kind of x86-64: processors without AVX2 and fused multiply-adds, with them, and this build's own; and with the C library's
# functions for other processors. $B/tests/portable holds trainers with kernels for the first two (Makefile).
. "$(dirname "$0")/tap.sh"
need jq

[ "$(uname -m)" = x86_64 ] || skip_all "not an x86-64"
grep -qw fma /proc/cpuinfo || skip_all "this processor has no fused multiply-adds"
mkdir pics && tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics
ddm-cluster -q -k 2 --holdout .25 -o a.tsv pics && ddm-shard -q -a a.tsv --holdout .25 -o s pics || exit 1
shards=s
dit="--model dit-nano/8 --hidden 64 --depth 2 --heads 2 --batch 8 --predict x0"

# The lines of a chain without who computed them.
computed() {
	jq -c 'del(.prev, .seal, .machine, .build)' "$1/train/chain.jsonl"
}

# The programs as they are; with the C library's functions for processors without fused multiply-adds (the older name of the setting last).
plain() { "$@"; }
unfused() { GLIBC_TUNABLES=glibc.cpu.hwcaps=-FMA,-AVX2,-FMA4,-FMA_Usable,-AVX2_Usable "$@"; }

same() { # NAME PROGRAM OPTIONS: trained by all, the same chain and the same files
	name=$1 prog=$2
	shift 2
	rm -rf own && "$prog" -q --chain-every 1 "$@" -o own "$shards" || exit 1
	computed own >own.txt
	for other in plain:$B/tests/portable/x86-64 plain:$B/tests/portable/x86-64-v3 unfused:$B; do
		rm -rf there && ${other%%:*} "${other#*:}/$prog" -q --chain-every 1 "$@" -o there "$shards" || exit 1
		computed there | cmp -s own.txt -
		tap_result $? "$name: ${other%%:*} ${other##*/}" "the chains differ"
		for f in own/*.safetensors own/train/step-*/*.safetensors; do
			check_same "$name: ${f##*/}" "$f" "there/${f#own/}"
		done
	done
	check_grep "$name: the chain says that it is portable" '"portable":true' own/train/chain.jsonl
}

same "adamw" ddm-train $dit --cluster all --steps 6 --checkpoint-every 3 --keep 9 --optimizer adamw
same "muon" ddm-train $dit --cluster all --steps 4 --optimizer muon --path cosine --time logit-normal:.1,1.1 --weighting min-snr:4.5
same "schedule-free" ddm-train $dit --cluster 0 --steps 4 --optimizer schedule-free --path edm:.4 --weighting edm --time lognormal --time-range .2..0.9
same "a U-Net" ddm-train --model unet-nano --batch 2 --predict epsilon --path gvp --dropout .1 --cluster all --steps 1
same "products of emulated bfloat16" ddm-train $dit --cluster all --steps 3 --precision bf16-emulated
same "a router" ddm-route-train --model dit-nano/8 --hidden 64 --depth 2 --heads 2 --batch 8 --steps 4 --validate-every 2 --calibrate

# Texts: features of two tokens beside each picture, of one token for no text
features() { # FILE TOKENS
	printf '\223NUMPY\001\000\166\000' >"$1"
	printf '%-117s\n' "{'descr': '<f2', 'fortran_order': False, 'shape': ($2, 3), }" >>"$1"
	awk -v n=$((3 * $2)) 'BEGIN { while (n--) printf "\\000\\074" }' | xargs -0 printf >>"$1"
}
for f in pics/*.png; do features "${f%.png}.text.npy" 2; done
ddm-cluster -q -k 2 -o b.tsv pics && ddm-shard -q -a b.tsv -o texts pics && features texts/null-text.npy 1 || exit 1
shards=texts
same "texts" ddm-train --model paris-nano/8 --hidden 24 --depth 1 --heads 2 --predict x0 --batch 8 --cluster all --steps 3
