# Pins: ddm-info --pin writes the hashes of an experiment's inputs, ddm-check --pinned finds what changed, and a recipe trains nothing then.
. "$(dirname "$0")/tap.sh"

need make
small_pictures
(cd pics && tar cf ../pics.tar --sort=name a b c)
ddm-cluster -q -k 2 --seed 2 -o a.tsv pics.tar && ddm-shard -q -a a.tsv -o s pics.tar || exit 1
net="--model dit-nano/8 --hidden 16 --depth 1 --heads 2 --size 8 --batch 4 --threads 1 --predict x0"
for c in 0 1; do ddm-train -q $net --steps 3 --cluster $c -o m/expert_$c s || exit 1; done

check "pins of a tar, a table, shards, pictures, a model and a network" ddm-info --pin pics.tar a.tsv s pics m m/expert_1
cp "$OUT" pins.tsv
check_out "their kinds" "file file shards samples model model" sh -c "grep -v '^#' pins.tsv | cut -f 2 | paste -sd ' '"
check_out "a file's own hash" "$(sha256sum pics.tar | cut -d ' ' -f 1)" sh -c "grep '^pics.tar' pins.tsv | cut -f 3"
check_out "all as it was" "" ddm-check --pinned pins.tsv
check_out "with their names" "pics.tar
a.tsv
s
pics
m
m/expert_1" ddm-check -v --pinned pins.tsv
echo '{"event":"note"}' >>m/expert_0/train.jsonl
rm -r m/expert_1/train
check_out "a log and checkpoints are not pinned" "" ddm-check --pinned pins.tsv

# changed NAME REGEX: the change is found, and nothing else
changed() {
	check_exit "${3:-65}" "$1" ddm-check --pinned pins.tsv
	cp "$ERR" said
	check_err "named" "$2"
	check_out "alone" 1 grep -c . said
}
cp m/expert_0/config.json keep.json
sed -i 's/"depth"/"depht"/' m/expert_0/config.json
changed "a network of the model" '^ddm-check: m: it is model [0-9a-f]{16}, but pins.tsv pins model [0-9a-f]{16}$'
cp keep.json m/expert_0/config.json
cp pics/a/0000.png keep.png && cp pics/b/0001.png pics/a/0000.png
changed "a picture of a folder" '^ddm-check: pics: it is samples '
cp keep.png pics/a/0000.png
cp a.tsv keep.tsv && flip a.tsv 300
changed "a bit of a table" '^ddm-check: a.tsv: it is file '
mv keep.tsv a.tsv
mv s t
changed "shards that are not there" '^ddm-check: s: No such file' 66
mkdir s && echo >s/x.txt
changed "another folder in their place" '^ddm-check: s: no samples'
rm -r s && mv t s

check_exit 65 "a table without pins" ddm-check --pinned a.tsv
check_err "is refused" 'not a table of pins'
cp pins.tsv bad.tsv && flip bad.tsv 120
check_exit 65 "damaged pins" ddm-check --pinned bad.tsv
check_exit 66 "no pins" ddm-check --pinned none.tsv
check_exit 66 "nothing to pin" ddm-info --pin pics.tar none
[ ! -s "$OUT" ]
tap_result $? "and nothing is printed"
check_exit 65 "what cannot be pinned" ddm-info --pin m/expert_0/train
check_exit 2 "pins and a comparison" ddm-info --pin --diff s s
check_exit 2 "completeness of pins" ddm-check -c --pinned pins.tsv

# A recipe.
recipe() {
	make -s -f "$SRC/share/recipes/ddm.mk" BIN="$B" RUN=r SAMPLES=pics.tar K=2 HOLDOUT=0 SIZE=8 EPOCHS=1 EXPERT_EPOCHS=1 BATCH=8 PIN="$1" \
		NET="--model dit-nano/8 --hidden 16 --depth 1 --heads 2 --size 8 --predict x0" experts
}
make -s -f "$SRC/share/recipes/ddm.mk" BIN="$B" RUN=r SAMPLES=pics.tar K=2 HOLDOUT=0 shards >/dev/null 2>&1
ddm-info --pin pics.tar r/shards >r.tsv
check "a recipe with pins" recipe r.tsv
check "trains" test -e r/model/expert_1/config.json
rm -r r/model && touch new && tar rf pics.tar new && ddm-info --pin r/shards >later.tsv
check_exit_any 2 "on another tar" recipe r.tsv
check_err "says what changed" 'pics.tar: it is file'
check_absent "and trains nothing" r/model
