# Latents with NaN or infinity: ddm-shard refuses or skips them, ddm-check names them in folders, tars and shards.
. "$(dirname "$0")/tap.sh"

# array FLOAT...: an .npy of shape (1, 2, 2), its four numbers as octal bytes of little-endian float32
array() {
	printf '\223NUMPY\001\000\166\000'
	printf '%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 2), }"
	printf "$1$2$3$4"
}
one='\000\000\200\077' nan='\000\000\300\177' inf='\000\000\200\377'

mkdir good bad
for i in 1 2 3 4 5 6; do array "$one" "$one" "$one" "$one" >good/$i.npy; done
cp good/* bad
array "$one" "$nan" "$one" "$nan" >bad/2.npy
array "$one" "$one" "$inf" "$one" >bad/5.std.npy
check_out "arrays as numbers" '4' sh -c "ddm-info --check good/1.npy | sed -n 's/^ *elements *//p'"
{ echo 'key,cluster'; for i in 1 2 3 4 5 6; do echo "$i,$((i % 2))"; done; } >own.csv

check "latents that are finite" ddm-shard -q -a own.csv -o s good
check_out "are sound" "" ddm-check s good
check_exit 65 "a latent with NaN" ddm-shard -q -a own.csv -o t bad
check_err "the sample is named" 'the sample "2": 2 numbers of its npy are NaN or infinite; --skip-bad leaves such samples out'
check_absent "nothing is made" t
check_exit_any 0 "--skip-bad" ddm-shard -a own.csv --skip-bad -o t bad
check_err "names the first" 'skipped: .*"2": 2 numbers of its npy are'
check_err "and the other" 'skipped: .*"5": 1 number of its std.npy is'
check_out "and leaves them out" "1 3 4 6" sh -c "cat t/cluster-*/*.zst | zstd -dc | tar tf - --ignore-zeros | grep -o '^[0-9]*' | sort -u | paste -sd ' '"
check_out "what is left is sound" "" ddm-check t

check_exit_any 65 "ddm-check of the folder" ddm-check bad
check_err "names one file" 'bad/2.npy: 2 numbers are NaN or infinite'
check_err "and the other" 'bad/5.std.npy: 1 number is NaN or infinite'
check_exit 65 "ddm-info --check of the folder" ddm-info --check bad
check_err "names the samples" 'bad: 2 samples with numbers that are NaN or infinite: "2" .2 of npy., "5" .1 of std.npy.$'
(cd bad && tar cf ../bad.tar *.npy)
check_exit 65 "ddm-check of a tar" ddm-check bad.tar
check_err "names the samples" 'bad.tar: 2 samples with numbers that are NaN or infinite: "2" .2 of npy., "5" .1 of std.npy.$'

# Shards of an older version, which did not check.
tar xzf "$SRC/tests/golden/nan-shards.tar.gz"
shard=nan-shards/cluster-0/000000.tar.zst
check_exit 65 "ddm-check of shards" ddm-check nan-shards
check_err "names the samples" "$shard: 2 samples with numbers that are NaN or infinite: \"2\" .1 of npy., \"4\" .1 of npy.\$"
check_exit 65 "ddm-info --check of shards" ddm-info --check nan-shards
check_err "names the samples" '"2" .1 of npy., "4" .1 of npy.$'
check_exit 65 "ddm-check of one shard" ddm-check $shard
check_err "names the samples" '"2" .1 of npy., "4" .1 of npy.$'
check "a look without a check" ddm-info nan-shards bad.tar $shard
check_exit 65 "shards of those" ddm-shard -q -a own.csv -o u nan-shards
