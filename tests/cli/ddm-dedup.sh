# ddm-dedup: planted copies by hashes and by features; clips; what crosses between training and held-out part; order, threads, repeats; bad input.
. "$(dirname "$0")/tap.sh"

need jq
check_program ddm-dedup
small_pictures
mkdir in copies
for kind in a b; do
	for f in pics/$kind/00*.png; do cp "$f" "in/$kind-$(basename "$f")"; done
done
n=$(ls in | wc -l)
table() { grep -v '^#' "$1"; }

# Whatever is alike among these pictures is dropped first, so that what follows is planted.
check "the pictures" ddm-dedup -q -o apart.tar in
mkdir apart && tar xf apart.tar -C apart
m=$(ls apart | wc -l)
check "the kept ones are apart" ddm-dedup -o again.tar --report r.json apart.tar
check_err "it says so" "^ddm-dedup: kept $m of $m samples; dropped 0 by hashes, 0 by features; 0 groups, the largest of 1$"
check_out "the report" "$m $m 0 0 0 1" jq -r '[.samples, .kept, .by_hash, .by_cosine, .groups, .largest] | map(tostring) | join(" ")' r.json

# Copies: resized, and the same bytes under another name
ddm-ingest -q --size 40 -o large.tar apart || exit 1
mkdir large && tar xf large.tar -C large
for f in $(ls large | sed -n '1,12p'); do cp "large/$f" "copies/large-$f"; done
first=$(ls apart | sed -n 1p)
cp "apart/$first" copies/same.png
check "with copies" ddm-dedup --table -o t.tsv --report t.json apart copies
check_err "what is dropped" "kept $m of $((m + 13)) samples; dropped 13 by hashes, 0 by features; 12 groups, the largest of 3"
check_out "all copies, none else" "13" sh -c "grep -v '^#' t.tsv | awk -F '\t' '\$2 == 0 && (\$1 ~ /^large-/ || \$1 == \"same\")' | wc -l | tr -d ' '"
check_out "each in the group of its original" "" sh -c "grep -v '^#' t.tsv | awk -F '\t' '\$2 == 0 && \$1 != \"large-\" \$3 && \$1 != \"same\"'"
check_out "a kept one is its own group" "$m" sh -c "grep -v '^#' t.tsv | awk -F '\t' '\$2 == 1 && \$3 == \$1 && \$4 == \"-\"' | wc -l | tr -d ' '"
check_out "no more bits than allowed" "" sh -c "grep -v '^#' t.tsv | awk -F '\t' '\$2 == 0 && (\$5 == \"-\" || \$5 > 10)'"
check "sound" ddm-check t.tsv
check "again" ddm-dedup --table -o t.tsv --report t.json apart copies
check_err "nothing was to do" 't.tsv: exists already'
check_exit 73 "another distance" ddm-dedup -q --distance 4 --table -o t.tsv apart copies
check "the other order of sources, one thread" ddm-dedup -q --table --threads 1 -o other.tsv copies apart
check "three threads" ddm-dedup -q --table --threads 3 -o three.tsv apart copies
table t.tsv >want
for f in other three; do
	table $f.tsv >got
	check_same "$f: the same rows" got want
done
for hash in dhash ahash; do
	check "$hash" ddm-dedup -q --hash $hash --table -o $hash.tsv apart copies
	check_out "$hash finds the copies too" "13" sh -c "grep -v '^#' $hash.tsv | awk -F '\t' '\$2 == 0 && (\$1 ~ /^large-/ || \$1 == \"same\")' | wc -l | tr -d ' '"
done
check "equal hashes only" ddm-dedup -q --distance 0 --table -o zero.tsv apart copies
check_out "the equal picture" "same	0" sh -c "cut -f 1,2 zero.tsv | grep '^same'"

# The tar
check "a tar" ddm-dedup -q -o kept.tar apart copies
tar tf kept.tar | sed 's/\.png$//' | sort >got
table t.tsv | awk -F '\t' '$2 == 1 { print $1 }' | sort >want
check_same "of the kept samples" got want
tar xOf kept.tar "$first" | cmp -s - "apart/$first"
tap_result $? "unchanged"
check "sound" ddm-check kept.tar
check "by ddm-select with the table" ddm-select -q -o chosen.tar --with t.tsv 'kept == 1' apart copies
tar tf kept.tar >got
tar tf chosen.tar >want
check_same "the same samples" got want
tar cf all.tar -C apart --sort=name . && tar rf all.tar -C copies --sort=name .
check "through a pipe" sh -c 'ddm-dedup -q - <all.tar >piped.tar'
tar tf piped.tar >got
check_same "the same samples" got want
check_stdout "a tar" ddm-dedup -q apart

# Between training and held-out part
ddm-cluster -q -k 2 --holdout .3 --seed 1 -o assign.tsv apart copies || exit 1
split() { awk -F '\t' -v k="$1" '$1 == k { print $4 }' assign.tsv; }
want=0
for f in $(ls large | sed -n '1,12p' | sed 's/\.png$//'); do
	a=$(split "$f") b=$(split "large-$f")
	[ "$a" = "$b" ] || want=$((want + 1))
done
[ "$want" -gt 1 ]
tap_result $? "some copies cross"
check_exit_any 0 "a table of clusters" ddm-dedup --clusters assign.tsv --table -o c.tsv --report c.json apart copies
check_err "what crosses comes first" '^ddm-dedup: [0-9]+ of [0-9]+ training samples are near one of [0-9]+ held-out samples'
sed -n 1p "$ERR" | grep -q 'training samples are near'
tap_result $? "in the first line"
check_out "every crossing pair is listed" "" sh -c "jq -r '.pairs[] | [.train, .holdout] | @tsv' c.json | while read -r t h; do
	[ \"\$(grep \"^\$t	\" assign.tsv | cut -f 4) \$(grep \"^\$h	\" assign.tsv | cut -f 4)\" = 'train holdout' ] || echo \"\$t \$h\"; done"
jq -r '.pairs[] | .train, .holdout' c.json | sed 's/^large-//; s/^same$/'"${first%.png}"'/' | sort -u | wc -l | tr -d ' ' >crossed
[ "$(cat crossed)" -ge "$want" ]
tap_result $? "all planted ones are among them" "$(cat crossed) of $want"
check_out "the table says so" "$(jq .crossing c.json)" sh -c "grep -v '^#' c.tsv | awk -F '\t' '\$8 != \"-\"' | wc -l | tr -d ' '"
check_out "of a crossing pair the held-out one is kept" "" sh -c "grep -v '^#' c.tsv | awk -F '\t' '\$8 != \"-\" && \$2 == 1'"
check_exit 1 "--check" ddm-dedup -q --check --clusters assign.tsv --table -o c.tsv --report c.json apart copies
check_err "fails" 'training samples are near [0-9]+ held-out ones'
check "--check of what is apart" ddm-dedup --check --holdout .3 --table -o ok.tsv apart
check_err "it says so" 'no training sample is near one of the [0-9]+ held-out samples'
check "the same with the fraction" ddm-dedup --holdout .3 --table -o h.tsv --report h.json apart copies
check_out "the same crossings" "$(jq -c .pairs c.json)" jq -c .pairs h.json
ddm-shard -q -a assign.tsv -o shards apart copies || exit 1
check_exit 1 "shards with a held-out part" ddm-dedup -q --check --table -o s.tsv --report s.json shards
check_out "the same crossings" "$(jq -c .pairs c.json)" jq -c .pairs s.json
check_exit 2 "--check without parts" ddm-dedup -q --check --table -o e.tsv apart
check_err "what to give" 'give --clusters, --holdout, or a SHARDS folder'
check_exit 2 "a fraction for shards" ddm-dedup -q --holdout .3 --table -o e.tsv shards
head -n 20 assign.tsv | sed '/^#stamp/d; s/^#//' >some.tsv
check_exit 65 "a table without some samples" ddm-dedup -q --clusters some.tsv --table -o e.tsv apart copies
check_err "one is named" '--clusters some.tsv: no row for the sample'

# A recipe
ddm-ingest -q -o samples.tar apart copies || exit 1
recipe() { make -s -f "$SRC/share/recipes/ddm.mk" BIN="$B" RUN=r SAMPLES=samples.tar K=2 HOLDOUT=.3 "$@"; }
check_exit_any 2 "a recipe looks" recipe apart
check_err "and stops" 'training samples are near [0-9]+ held-out ones'
check "its table is there" ddm-check r/near.tsv
check_exit_any 2 "each time" recipe apart
check "and goes on when nothing is near" sh -c "rm r/near.tsv && make -s -f '$SRC/share/recipes/ddm.mk' BIN='$B' RUN=r SAMPLES=apart.tar K=2 HOLDOUT=.3 NEAR='--distance 4' \
	PARTITION=q apart"
recipe -n NEAR='--distance 8' evaluate 2>/dev/null >plan
[ "$(grep -n 'dedup --check --clusters r/assign.tsv --table --distance 8' plan | cut -d : -f 1 | head -n 1)" -lt "$(grep -n 'ddm-eval-fid' plan | cut -d : -f 1 | head -n 1)" ]
tap_result $? "with NEAR before anything is measured"
recipe -n evaluate 2>/dev/null >plan
check_out "without it not at all" 0 sh -c 'grep -c ddm-dedup plan || :'

# Features: (N, 2) in the order of the samples; directions in the plane
npy() { printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '$1', 'fortran_order': False, 'shape': $2, }"; }
mkdir four && for i in 1 2 3 4; do cp "apart/$(ls apart | sed -n ${i}p)" four/p$i.png; done
# (1, 0), (0, 2), (3, 0), (1, 1): the first and the third have one direction
{ npy '<f4' '(4, 2)' && printf '\0\0\200\077\0\0\0\0\0\0\0\0\0\0\0\100\0\0\100\100\0\0\0\0\0\0\200\077\0\0\200\077'; } >f.npy
check "features" ddm-dedup -q --features f.npy --table -o f.tsv four
check_out "the same direction" "p1 p2 p4" sh -c "echo \$(grep -v '^#' f.tsv | awk -F '\t' '\$2 == 1 { print \$1 }')"
check_grep "its cosine" '^p3	0	p1	p1	-	1	' f.tsv
check "a wide cosine" ddm-dedup -q --hash none --features f.npy --cosine .7 --table -o wide.tsv four
check_out "(1, 1) is within 45 degrees of both others; no hash" "p1 p2 -" sh -c \
	"echo \$(grep -v '^#' wide.tsv | awk -F '\t' '\$2 == 1 { print \$1; h = \$11 } END { print h }')"
printf 'key\tcluster\tsplit\np1\t0\ttrain\np2\t0\ttrain\np3\t1\ttrain\np4\t1\tholdout\n' >k.tsv
check "within clusters" ddm-dedup -q --features f.npy --clusters k.tsv --table -o k.out four
check_out "other clusters are not compared" 4 sh -c "grep -v '^#' k.out | awk -F '\t' '\$2 == 1' | wc -l | tr -d ' '"
check_exit 1 "features that cross" ddm-dedup -q --check --features f.npy --cosine .5 --clusters k.tsv --table -o x.out --report x.json four
check_out "which" 'p3 p4' jq -r '.pairs[] | .train + " " + .holdout' x.json
# t is a copy of one held-out picture and has the features of another
mkdir both && cp four/p1.png both/t.png && cp four/p1.png both/copy.png && cp four/p2.png both/like.png
printf 'key\tcluster\tsplit\ncopy\t0\tholdout\nlike\t0\tholdout\nt\t0\ttrain\n' >both.tsv
{ npy '<f4' '(3, 2)' && printf '\0\0\0\0\0\0\200\077\0\0\200\077\0\0\0\0\0\0\200\077\0\0\0\0'; } >both.npy
check "near two held-out pictures" ddm-dedup -q --features both.npy --clusters both.tsv --table -o both.out both
check_out "distance and cosine are of the same pair" "copy 0 -" sh -c "awk -F '\t' '\$1 == \"t\" { print \$8, \$9, \$10 }' both.out"
check_exit 65 "features of other samples" ddm-dedup -q --features f.npy --table -o e.tsv apart
{ npy '<f4' '(4, 2)' && printf '\0\0\300\177\0\0\0\0\0\0\0\0\0\0\0\100\0\0\100\100\0\0\0\0\0\0\200\077\0\0\200\077'; } >nan.npy
check_exit 65 "a NaN" ddm-dedup -q --features nan.npy --table -o e.tsv four
{ npy '<f4' '(4, 2)' && head -c 32 /dev/zero; } >zero.npy
check_exit 65 "no direction" ddm-dedup -q --features zero.npy --table -o e.tsv four
check_exit 66 "no features" ddm-dedup -q --features none.npy --table -o e.tsv four
check_exit 2 "nothing to compare" ddm-dedup -q --hash none --table -o e.tsv four
check_exit 2 "a cosine without features" ddm-dedup -q --cosine .9 --table -o e.tsv four

# Clips of three frames of 32 x 32 pixels, which are the bytes of a text
cat "$SRC"/lib/data/samples*.c >noise
part() { tail -c +$((1 + $1 * 3072)) noise | head -c 3072; }
mkdir clips
{ npy '|u1' '(3, 3, 32, 32)' && part 0 && part 1 && part 2; } >clips/one@000000.npy
{ npy '|u1' '(3, 3, 32, 32)' && part 0 | tr '\000' '\001' && part 1 && part 2; } >clips/two@000000.npy
{ npy '|u1' '(3, 3, 32, 32)' && part 0 && part 1 && part 3; } >clips/end@000000.npy
{ npy '|u1' '(1, 3, 32, 32)' && part 1; } >clips/still@000000.npy
{ npy '|u1' '(2, 3, 32, 32)' && part 1 && part 1; } >clips/stills@000000.npy
check "clips" ddm-dedup -q --table -o clips.tsv clips
check_out "near if all three frames are" "two@000000 one@000000
stills@000000 still@000000" sh -c "grep -v '^#' clips.tsv | awk -F '\t' '\$2 == 0 { print \$1, \$3 }' | sort -r"
check_grep "three hashes" '^end@000000	.*	[0-9a-f]{16}-[0-9a-f]{16}-[0-9a-f]{16}$' clips.tsv
{ npy '<f4' '(4, 8, 8)' && head -c 1024 /dev/zero; } >clips/latent.npy
check_exit 65 "latents have no pixels" ddm-dedup -q --table -o e.tsv clips
check_err "the way out" '"latent" has no pixels.*--hash none'
check "skipped" ddm-dedup --skip-bad --table -o skipped.tsv clips
check_err "it says so" '^1 samples skipped'
check_exit_any 3 "too many" ddm-dedup -q --skip-bad --max-errors 0 --table -o skipped2.tsv clips

# Many equal pictures
mkdir flat
for i in $(seq 1 300); do cp apart/"$first" flat/p$i.png; done
check "equal pictures" ddm-dedup --table -o flat.tsv flat
check_err "one group" 'kept 1 of 300 samples; dropped 299 by hashes, 0 by features; 1 groups, the largest of 300'

# Damaged input, interruptions
cp -R apart bad && printf '\211PNG' >"bad/$first"
check_exit 65 "a damaged picture" ddm-dedup -q -o e.tar bad
check "skipped" ddm-dedup -q --skip-bad -o skip.tar bad
check_exit 66 "no such source" ddm-dedup -q -o e.tar nowhere
check_exit 2 "an unknown hash" ddm-dedup -q --hash whash -o e.tar apart
check_exit 2 "a distance" ddm-dedup -q --distance 33 -o e.tar apart
check_absent "nothing was made" e.tar e.tsv
[ "$FULL" -eq 0 ] || check_exit 74 "a full disk" ddm-dedup -q -o /dev/full apart
for ms in 1 5 20 40; do
	killed_after "0.0$(printf '%02d' $ms)" ddm-dedup -q -o k.tar apart copies >/dev/null
done
check "after kills" ddm-dedup -q -o k.tar apart copies
check_same "the same tar" k.tar kept.tar
check_clean "nothing is left" .
