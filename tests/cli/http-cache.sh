# The cache of remote files: what is in it is not fetched again, damaged and old blocks go, several processes share it.
. "$(dirname "$0")/tap.sh"
need_urls
small_pictures
mkdir there
head -c 2700000 /dev/zero | openssl enc -aes-128-ctr -K 00 -iv 00 2>/dev/null >noise || skip_all "no openssl"
ddm-ingest -q --size 32 -o p.tar pics || exit 1
# A picture has some bytes beside it, so that the tar takes several blocks.
mkdir more
tar xf p.tar -C more
find more -name '*.png' | sort | while read -r f; do head -c 30000 noise >"${f%.png}.pad" && tail -c +30001 noise >rest && mv rest noise; done
(cd more && find . -type f | LC_ALL=C sort | tar cf ../there/p.tar --no-recursion -T -) || exit 1
size=$(size_of there/p.tar)
range_server
DDM_CACHE=$PWD/cache
export DDM_CACHE
ddm-select -q -o want.tar "width > 0" there/p.tar || exit 1
read_it() { rm -f got.tar && ddm-select -q -o got.tar "width > 0" "$at/$1/p.tar"; }
sent() { awk '{ n += $4 } END { print n + 0 }' log; }
all() { find cache -name '*.block' | wc -l; }

check "a first time" read_it good
check_same "the samples" want.tar got.tar
check_true "all of it was sent" "$(sent) >= $size"
check_true "blocks of 256 KiB" "$(all) == int(($size + 262143) / 262144)"
: >log
check "a second time" read_it good
check_same "the same" want.tar got.tar
check_true "only the head was sent, to learn whether the file has changed" "$(sent) <= 270000 && $(sent) > 0"

# Damaged, cut and foreign blocks
first=$(find cache -name '*.block' | sort | head -n 1)
flip "$first" 5000
cut_to "$(find cache -name '*.block' | sort | sed -n 2p)" 100
cp "$(find cache -name '*.block' | sort | sed -n 3p)" "$(find cache -name '*.block' | sort | sed -n 4p)"
: >log
check "with three blocks that are not what they say" read_it good
check_same "the same" want.tar got.tar
check_true "these were sent again" "$(sent) >= 3 * 262144 && $(sent) < 3 * 262144 + 270000"
: >log
check "and once more" read_it good
check_true "they are whole again" "$(sent) <= 270000"

# Another ETag, another file
printf x | dd of=there/p.tar bs=1 seek=700 conv=notrunc 2>/dev/null
: >log
ddm-select -q -o other.tar "width > 0" there/p.tar || exit 1
check "a file that has changed" read_it good
check_same "is fetched anew" other.tar got.tar
check_true "all of it" "$(sent) >= $size"

# No validators: nothing is kept
rm -rf cache
check "neither ETag nor date" read_it bare
check_true "is not kept" "$(all) == 0"
check "no ranges" read_it plain
check_true "is not kept" "$(all) == 0"

# Bounded size, oldest first
DDM_CACHE_SIZE=1M
export DDM_CACHE_SIZE
check "a small cache" read_it good
check_same "the samples" other.tar got.tar
check_true "holds less than 1 MiB" "$(cat cache/*.block | wc -c) <= 1048576 && $(all) >= 2"
newest=$(find cache -name '*-*.block' | sed 's/.*-//' | sort | tail -n 1)
check_true "the last blocks" "\"$newest\" == \"$(printf '%08x' $(((size - 1) / 262144))).block\""
echo 12 >cache/lock
: >cache/00000000000000000000000000000000-00000000.part
echo mine >cache/mine
check "a wrong count, the rest of a killed process, a file of somebody else" read_it good
echo x >cache/lock
check "no count" read_it good
check_true "still less than 1 MiB" "$(cat cache/*.block | wc -c) <= 1048576"
check_absent "the rest is gone" cache/00000000000000000000000000000000-00000000.part
check_out "the other file is not" mine cat cache/mine

# Several processes
rm -rf cache
for i in 1 2 3 4; do
	ddm-select -q -o "got-$i.tar" "width > 0" "$at/good/p.tar" 2>"err-$i" &
	eval "pid_$i=$!"
done
for i in 1 2 3 4; do
	eval "wait \$pid_$i"
	tap_result $? "process $i of four" "$(cat "err-$i")"
	check_same "its samples" other.tar "got-$i.tar"
done
check_true "together less than 1 MiB" "$(cat cache/*.block | wc -c) <= 1048576"
[ "$(cat cache/lock)" = "$(cat cache/*.block | wc -c)" ]
tap_result $? "the count is right" "$(cat cache/lock)"

if [ "$(id -u)" -ne 0 ]; then
	chmod 555 cache
	check "a cache that cannot be written" read_it good
	chmod 755 cache
else
	skip "a cache that cannot be written" "root can write everywhere"
fi
echo >file
DDM_CACHE=$PWD/file/sub
check_exit_any 66 "a cache below a file" read_it good
check_err "named" 'file/sub'
