# ddm-forget: shards without a sample, as if it had never been there; who saw it; training again gives the bytes of a run that never saw it.
. "$(dirname "$0")/tap.sh"

need jq
check_program ddm-forget
small_pictures
ddm-cluster -q -k 3 --holdout .3 --seed 2 -o a.tsv pics || exit 1
ddm-shard -q -a a.tsv --shard-size 2K -o s pics || exit 1
rows() { grep -v '^#' a.tsv | awk -F '\t' -v c="$1" -v s="$2" '$2 == c && $4 == s { print $1 }'; }
key=$(rows 0 train | sed -n 5p)
check_exit 2 "no key" ddm-forget -o n s
check_exit 2 "no folder" ddm-forget s "$key"
check_exit 66 "no such shards" ddm-forget -o n none "$key"
check_exit 66 "a folder of pictures" ddm-forget -o n pics "$key"
check_err "names the missing step" 'ddm-shard'
check_exit 65 "an unknown key" ddm-forget -o n s "$key" nobody
check_err "is named" 'no sample "nobody"'
check_exit 65 "several" ddm-forget -o n s nobody "$key" noone
check_err "are counted" '"nobody" .2 of 3 keys'
# shellcheck disable=SC2046
check_exit 2 "all samples of a cluster" ddm-forget -o n s $(rows 1 train)
check_err "which is named" 'cluster 1 would have no training sample left'
check_absent "nothing was made" n
check_clean "nothing is left" .

# The shards
find s -type f -exec sha256sum {} + | sort -k 2 >before
check "one sample" ddm-forget -o n s "$key"
check_grep "what was done" '^# n: without 1 sample of s; [0-9]+ shards taken over, [0-9]+ written$' "$OUT"
check_grep "where it was" "^#   $key: cluster 0, training part\$" "$OUT"
check "sound" ddm-check n
check "for sha256sum too" sh -c 'cd n && sha256sum -c --quiet SHA256SUMS'
find s -type f -exec sha256sum {} + | sort -k 2 >after
check_same "the old shards are untouched" before after
ddm-info --diff --json s n >diff.json
check_out "one key is missing" "69 0 1 0 0 $key" jq -r '[.same, .added, .removed, .moved, .changed, .removed_keys[]] | map(tostring) | join(" ")' diff.json
others() { (cd "$1" && find . -path '*.tar.zst' ! -path './cluster-0/*' -exec sha256sum {} + | sort -k 2); }
others s >old
others n >new
check_same "other clusters, and the held-out part, have the same bytes" old new
grep -v "^$key	" a.tsv | sed '/^#end/d; s/^#stamp.*//; s/^#key/key/' | grep . >without.tsv
cp -R pics fewer
rm "fewer/$key.png"
ddm-shard -q -a without.tsv --shard-size 2K -o never fewer || exit 1
check "the samples of shards that never had it" ddm-info --diff never n
in_order() { for f in "$1"/cluster-0/*.zst; do zstd -dcq "$f" | tar tf - | grep '\.'; done; }
in_order never >want
in_order n >got
check_same "in the same order" want got

# Nothing of it is left. Hexadecimal text is searched, as grep wants lines.
hex() { od -An -v -tx1 | tr -d ' \n'; }
hex <"pics/$key.png" | tail -c +65 >needle
everything() { for f in $(find "$1" -name '*.zst'); do zstd -dcq "$f"; done; cat "$1/MANIFEST.tsv" "$1/SHA256SUMS"; }
everything s | hex | grep -qF -f needle
tap_result $? "the picture can be found in the old shards"
everything n | hex | grep -qF -f needle
[ $? -eq 1 ]
tap_result $? "and not in the new ones"
grep -r -a -qF "$key" n
[ $? -eq 1 ]
tap_result $? "nor its key in the files"
everything n | grep -a -qF "$key."
[ $? -eq 1 ]
tap_result $? "nor in the packed samples"

check "the same command again" ddm-forget -o n s "$key"
check_grep "finds it done" '^# n: without 1 sample of s; made before$' "$OUT"
check_exit 73 "another key" ddm-forget -o n s "$(rows 0 train | sed -n 6p)"
check_err "is refused" 'other samples were forgotten'
check_exit 73 "more keys" ddm-forget -o n s "$key" "$(rows 0 train | sed -n 6p)"
check_err "are refused" 'forgotten: 1 -> 2'
check_exit 73 "a folder that is something else" ddm-forget -o pics s "$key"

# Keys from files
{ echo "$key"; rows 1 holdout | head -n 2; echo "$key"; } >keys
check "keys in a file" ddm-forget --keys keys -o file s
check "on standard input, ended by NUL" sh -c 'tr "\n" "\000" <keys | ddm-forget --keys - -0 -o stdin s'
check "the same" diff -r file stdin
check_out "each once" 3 sh -c 'ddm-forget -j --keys keys -o file s | jq .forgotten'
: >empty
check_exit 2 "an empty list" ddm-forget --keys empty -o e s

# Interruptions and full disks
small() { sh -c 'trap "" XFSZ; ulimit -f 2; exec "$@"' sh "$@"; }
check_exit 74 "a full disk" small ddm-forget -o full s "$key"
check_absent "nothing made" full
check_clean "nothing left" .
mkdir k
for ms in 1 2 4 8 16 32; do
	killed_after "0.0$(printf '%02d' $ms)" ddm-forget -o k/n s "$key" >/dev/null
done
check "after kills" ddm-forget -o k/n s "$key"
check "equal" diff -r n k/n
check_out "nothing beside it" "k/n" sh -c "find k -mindepth 1 -maxdepth 1"
check_stdout "the report" ddm-forget -o n s "$key"

# Shards of other file systems are copied.
if [ -d /dev/shm ] && [ "$(stat -c %d /dev/shm)" != "$(stat -c %d .)" ]; then
	shm=$(mktemp -d /dev/shm/ddm-test.XXXXXX)
	check "to another file system" ddm-forget -o "$shm/n" s "$key"
	check "equal" diff -r n "$shm/n"
	rm -rf "$shm"
else
	skip "another file system" "no /dev/shm"
fi

# Samples of several clusters leave all of them.
ddm-cluster -q -k 3 --holdout .3 --seed 2 --soft 2 -o soft.tsv pics
ddm-shard -q -a soft.tsv -o soft pics
check "a sample of two clusters" ddm-forget -o softer soft "$key"
check_grep "both are named" "^#   $key: clusters [012], [012], training part\$" "$OUT"
everything softer | grep -a -qF "$key."
[ $? -eq 1 ]
tap_result $? "it is in neither"
check_out "nothing else went" "69 1" sh -c 'ddm-info --diff -j soft softer | jq -r "[.same, .removed] | map(tostring) | join(\" \")"'
printf 'key\tcluster\na/0000\tcats\na/0001\tdogs\na/0002\tdogs\n' >named.tsv
mkdir three
cp -R pics/a three/a
ddm-shard -q --skip-bad -a named.tsv -o named three 2>/dev/null
check_exit 2 "a cluster with a name" ddm-forget -o e named a/0000
check_err "is refused by it" 'cluster 0 .cats. would'

# The networks. A sample of the training part of cluster 0: its expert and the router.
net="--model dit-nano/8 --hidden 16 --depth 1 --heads 2 --size 8 --batch 4 --threads 1"
train() { ddm-train -q $net --predict x0 --flip --time logit-normal:.2,.8 --lr .003 --steps 6 --log-every 1 "$@"; }
for c in 0 1 2; do
	train --cluster $c -o m/expert_$c s || exit 1
done
ddm-route-train -q $net --steps 4 --log-every 1 -o m/router s || exit 1
mkdir m/vae
echo '{}' >m/vae/config.json
find m -type f ! -name .lock -exec sha256sum {} + | sort -k 2 >before
check "who saw it" ddm-forget -o n -m m s "$key"
check_grep "the expert of its cluster" '^# m/expert_0: trained on cluster 0, with 1 of the samples; must be trained again$' "$OUT"
check_grep "not the others" '^# m/expert_1: trained on cluster 1, without them; stays$' "$OUT"
check_grep "the router" '^# m/router: trained on all clusters; must be trained again$' "$OUT"
check_grep "the centroids" '^# .*The centroids were fitted to the samples too' "$OUT"
[ "$(grep -c '^ddm-' "$OUT")" -eq 2 ] && ! grep -q '^#   but' "$OUT"
tap_result $? "two commands repeat the recorded runs"
cp "$OUT" script
check_absent "nothing is trained" m.new
check "trained again" ddm-forget -o n -m m --run -q --threads 1 s "$key"
train --cluster 0 -o never-m/expert_0 never || exit 1
ddm-route-train -q $net --steps 4 --log-every 1 -o never-m/router never || exit 1
# The numbers of a file of weights, without the header, whose stamp names the shards
numbers() { tail -c "+$(($(od -An -tu8 -N 8 "$1") + 9))" "$1"; }
w=diffusion_pytorch_model.safetensors
numbers never-m/expert_0/$w >want
numbers m.new/expert_0/$w >got
check_same "the bytes of an expert that never saw it" want got
numbers m/expert_0/$w >got
check_differ "which are not those of the old expert" want got
numbers never-m/router/model.safetensors >want
numbers m.new/router/model.safetensors >got
check_same "the same of the router" want got
config() { jq -S 'del(.seal, .training.inputs.shards, .partition)' "$1"; }
config never-m/expert_0/config.json >want
config m.new/expert_0/config.json >got
check_same "and of the configuration" want got
losses() { jq -c 'select(.loss) | [.step, .loss]' "$1"; }
losses never-m/expert_0/train.jsonl >want
sed -n 's,^ddm-train ,&-q --log-every 1 ,; s,m\.new,m.logged,p' script >logged
check "the printed command, with a line for each step" sh -e logged
losses m.logged/expert_0/train.jsonl >got
check_same "and of the losses" want got
check_out "one for each step" 6 grep -c . want
for c in 1 2; do
	check "expert $c is as it was" diff -r -x .lock m/expert_$c m.new/expert_$c
done
check_same "other parts of the model come along" m/vae/config.json m.new/vae/config.json
check "the experts belong together" ddm-check --complete m.new
find m -type f ! -name .lock -exec sha256sum {} + | sort -k 2 >after
check_same "the old model is untouched" before after
find m.new -type f -exec sha256sum {} + | sort -k 2 >before
check "again" ddm-forget -o n -m m --run -q --threads 1 s "$key"
find m.new -type f -exec sha256sum {} + | sort -k 2 >after
check_same "changes nothing" before after
mv m.new run
check "the script does the same" sh script
numbers run/expert_0/$w >want
numbers m.new/expert_0/$w >got
check_same "the same expert" want got
check "the same other experts" diff -r -x .lock m/expert_1 m.new/expert_1
check_exit 2 "the old folder" ddm-forget -o e -m m --new-model ./m/ --run -q s "$key"
check_exit 66 "no such model" ddm-forget -o e -m none s "$key"
check_exit 65 "pictures for a model" ddm-forget -o e -m pics s "$key"
check_absent "nothing was made" e
mkdir -p other
cp -R m/expert_0 other/expert_1
check_exit 73 "a folder with another expert" ddm-forget -o n -m m --new-model other --run -q s "$key"
check_err "which is named" 'other/expert_1 exists'
ddm-forget -j -o n -m m s "$key" >facts.json
check_out "for programs" "trained no no trained 2" jq -r '[.networks[].saw, ([.networks[] | select(.command)] | length | tostring)] | join(" ")' facts.json
check "the router is kept" ddm-forget -o n -m m --keep-router --new-model half --run -q --threads 1 s "$key"
check_grep "which is said" 'm/router: trained on all clusters; stays all the same' "$OUT"
check_same "and done" m/router/model.safetensors half/router/model.safetensors

# A training that is interrupted goes on. That of the old expert was not finished either, so only its log says how it was trained.
ddm-train -q $net --predict x0 --cluster 0 --steps 1000000 --log-every 1 -o long/expert_0 s &
pid=$!
until_true test -s long/expert_0/train.jsonl
kill -TERM $pid
wait $pid
ddm-forget -o n -m long --run -q --threads 1 s "$key" >"$OUT" 2>"$ERR" &
pid=$!
until_true test -s long.new/expert_0/train.jsonl
kill -TERM $pid
wait $pid
RC=$?
[ $RC -eq 75 ]
tap_result $? "SIGTERM ends it" "exit $RC"
check_err "with a word on how to go on" 'long.new/expert_0: interrupted: run the same command again'
check_out "after a checkpoint" 1 sh -c 'ls long.new/expert_0/train | grep -c ^step-'

# A held-out sample: only the router, whose best step it helped to choose.
held=$(rows 0 holdout | head -n 1)
check "a held-out sample" ddm-forget -o h -m m s "$held"
check_grep "its expert stays" '^# m/expert_0: its loss on the held-out part was measured with them; stays$' "$OUT"
check_grep "the router does not" '^# m/router: its best step was chosen by the loss on the held-out part, which had them; must' "$OUT"
check_grep "nor do the centroids depend on it" 'so they do not depend on the samples' "$OUT"

# Another sample, from the shards that forgot the first: the experts were trained on what these come from.
second=$(rows 1 train | sed -n 2p)
check "another sample" ddm-forget -o n2 -m run n "$second"
check_grep "an expert of the first shards" '^# run/expert_1: trained on cluster 1, with 1 of the samples; must' "$OUT"
check_grep "an expert of the second" '^# run/expert_0: trained on cluster 0, without them; stays$' "$OUT"

# Networks that started from others
ddm-train -q $net --predict x0 --cluster all --steps 2 -o seed s
ddm-train -q $net --predict x0 --cluster 1 --steps 2 --init-weights seed/$w -o started/expert_1 s
check "an unknown start" ddm-forget -o n -m started s "$key"
check_grep "is said to be unknown" '^# started/expert_1: it started from weights with the hash [0-9a-f]+, which are in no --model; stays, but may' "$OUT"
check "a known start" ddm-forget -o n -m started -m seed --run -q --threads 1 s "$key"
check_grep "is followed" '^# started/expert_1: it started from the weights of seed, which saw them; must be trained again$' "$OUT"
train() { ddm-train -q $net --predict x0 --steps 2 "$@"; }
train --cluster all -o never-seed never
train --cluster 1 --init-weights never-seed/$w -o never-started never
numbers never-started/$w >want
numbers started.new/expert_1/$w >got
check_same "seed and expert are trained again" want got

# Every option that determines a result is in the command: the stamp that it gives is the recorded one.
small="--hidden 16 --depth 1 --heads 2 --size 8 --batch 4 --threads 1"
repeats() {
	repeats_of=$1
	shift
	rm -rf any
	"$@" -q -o "any/$repeats_of" s 2>"$ERR" || { tap_result 1 "trained: $*"; return; }
	ddm-forget -o n -m any s "$key" >"$OUT" 2>"$ERR"
	RC=$?
	[ $RC -eq 0 ] && grep -q "^ddm-" "$OUT" && ! grep -q '^#   but' "$OUT"
	tap_result $? "repeated: $*"
}
while read -r line; do
	# shellcheck disable=SC2086
	repeats expert_0 ddm-train $line
done <<END
--cluster 0 --model dit-nano/8 $small --predict x0 --steps 1 --path edm:.4 --weighting edm:.6 --time lognormal:-1,1.1 --seed 18446744073709551615
--cluster 0 --model dit-nano/4 --depth 2 $small --predict x0 --epochs .5 --weighting min-snr:3 --schedule constant --ema-half-life -1 --grey --lr 1e-3
--cluster 0 --model dit-nano/8 $small --predict x0 --steps 1 --optimizer schedule-free --weight-decay .1 --beta2 .98 --clip 0
--cluster 0 --model dit-nano/8 $small --predict x0 --steps 1 --optimizer adamw --accumulate 2 --validate-samples 0 --time-range 0..0.5
--cluster all --model dit-nano/8 $small --predict x0 --steps 1 --condition cluster --class-dropout .2 --warmup 3 --max-skipped 5
--cluster 0 --model unet-nano --size 8 --batch 4 --threads 1 --steps 1 --dropout .1
--cluster 0 --model dit-mini/4 --size 8 --batch 4 --threads 1 --steps 1
--cluster 0 --size 8 --batch 4 --threads 1 --steps 1
END
while read -r line; do
	# shellcheck disable=SC2086
	repeats router ddm-route-train $line
done <<END
--model dit-nano/8 $small --steps 1 --label-smoothing .1 --calibrate --validate-every 1 --validate-samples 8
--model dit-nano/8 $small --steps 1 --last
END
ddm-train -q $net --predict x0 --cluster 0 --steps 2 -o longer/expert_0 s
ddm-train -q $net --predict x0 --cluster 0 --steps 3 --extend -o longer/expert_0 s
check "a run that was extended" ddm-forget -o n -m longer s "$key"
check_grep "is repeated in one" '^ddm-train .*--steps 3 ' "$OUT"
! grep -q '^#   but' "$OUT"
tap_result $? "without a doubt"

# What is not recorded
cp -R m blind
for f in blind/expert_1/config.json; do
	jq 'del(.seal, .training)' "$f" >x && mv x "$f"
done
check "a network without a record" ddm-forget -o n -m blind s "$key"
check_grep "is said to be unknown" '^# blind/expert_1: it does not record the shards of its training; stays, but may' "$OUT"
check "the others are trained" ddm-forget -o n -m blind --run -q --threads 1 s "$key"
check_err "with a warning" 'blind/expert_1 stays, but may have seen the samples: it does not record'
check "a model of other shards" ddm-forget -o f -m m file "$(rows 2 train | head -n 1)"
check_grep "is known, because these come from them" '^# m/expert_2: trained on cluster 2, with 1' "$OUT"
ddm-forget -o o -m never-m s "$key" >"$OUT"
check_grep "others are not" '^# never-m/expert_0: it was trained on other shards, whose manifest has the hash' "$OUT"
