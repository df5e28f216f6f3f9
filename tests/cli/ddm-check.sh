# ddm-check: prints nothing if there is no fault, else a line for each fault; its status is that of the first.
. "$(dirname "$0")/tap.sh"

check_program ddm-check
check_exit 2 "no operand" ddm-check
check_exit 66 "no such file" ddm-check none

# lines NAME COUNT: the last command printed COUNT lines on stderr
lines() {
	[ "$(grep -c '' "$ERR")" -eq "$2" ]
	tap_result $? "$1" "$(grep -c '' "$ERR") lines, not $2"
}

mkdir pics pics/a pics/b
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics/a
tar xzf "$SRC/tests/golden/eval-c.tar.gz" -C pics/b
ddm-cluster -q -k 2 --holdout .25 --seed 5 --centroids-out c.npy -o a.tsv pics || exit 1
ddm-shard -q -a a.tsv --holdout .25 -o s pics || exit 1
tar xf "$SRC/tests/golden/tiny-model.tar"
weights=diffusion_pytorch_model.safetensors

check_out "all sound: nothing is said" "" ddm-check pics a.tsv c.npy s ensemble
check "and named with -v" ddm-check -v s ensemble a.tsv
check_same "every shard, network and file" "$OUT" - <<EOF
$(find s -name '*.zst' | LC_ALL=C sort)
ensemble/expert_0
ensemble/expert_1
ensemble/expert_2
ensemble/router
ensemble
a.tsv
EOF
check_stdout "names" ddm-check -v s
check_out "standard input" "-" sh -c 'cat a.tsv | ddm-check -v -'

# One problem does not hide the next
cp -R s bad
set -- $(find bad -name '*.zst' | LC_ALL=C sort)
flip "$1" 300
cut_to "$2" 100
rm "$3"
check_exit_any 65 "three damaged shards" ddm-check bad
lines "are three lines" 3
for f; do
	check_err "with $f" "$f"
	[ "$f" = "$3" ] && break
done
sed -i '3s/0/1/' bad/MANIFEST.tsv
check_exit 65 "a damaged manifest" ddm-check bad
rm bad/MANIFEST.tsv
check_exit_any 65 "no manifest: what is in the folder" ddm-check bad
lines "two shards" 2

# Models
cp -R ensemble m
flip m/expert_0/$weights 20
echo '{' >m/router/config.json
check_exit_any 65 "two damaged networks" ddm-check m
lines "are two lines" 2
check_err "the router's configuration" 'm/router/config.json'
check_err "the expert's weights" 'm/expert_0'
rm -r m && cp -R ensemble m && rm m/expert_0/$weights
check_exit 66 "weights that are absent" ddm-check m
rm -r m && cp -R ensemble m && rm -r m/expert_1
check_out "an absent expert is none" "" ddm-check m
check_exit 65 "but with --complete" ddm-check --complete m
check_err "and is named" 'm: expert_1 is absent'
check_out "a whole model is complete" "" ddm-check -c ensemble s
net="--model dit-nano/8 --hidden 16 --depth 1 --heads 2 --predict x0 --batch 8 --threads 1"
ddm-train -q $net --cluster 0 --steps 4 --checkpoint-every 2 -o t/expert_0 s || exit 1
check_out "a training that is finished" "" ddm-check -c t/expert_0
rm t/expert_0/$weights t/expert_0/config.json
check_out "one that is not" "" ddm-check t/expert_0
check_exit 65 "is not complete" ddm-check -c t/expert_0
check_err "and says where it is" 't/expert_0: no weights yet; its training is at step 4'
for step in 2 4; do
	for f in t/expert_0/train/step-0000000$step/*.safetensors; do
		flip "$f" 200
	done
done
check_exit_any 65 "two damaged checkpoints" ddm-check t/expert_0/train
lines "are two lines" 2

# Any folder
mkdir work work/deep
cp a.tsv c.npy c.npy.json work
cp "$1" work/deep/x.tar.zst
cp "$SRC/tests/golden/torch/checkpoint.pt" "$SRC/tests/golden/small.safetensors" work/deep
echo "notes" >work/notes.txt
gzip -c work/notes.txt >work/deep/notes.gz
ln -s .. work/deep/up
check_exit 65 "a damaged file below" ddm-check work
check_err "is named" 'work/deep/x.tar.zst'
flip work/deep/x.tar.zst 300
check_out "made right; texts, and what goes round, are passed over" "" ddm-check work
cp "$2" work/deep/x.tar.zst
check_exit 65 "a file that was cut" ddm-check work
check_err "is named" 'work/deep/x.tar.zst'
rm work/deep/x.tar.zst
check_out "the rest is sound" "" ddm-check -c work
echo "no picture" >work/deep/x.png
check_exit 65 "a picture that is none" ddm-check work
rm work/deep/x.png
ln -s nowhere work/deep/x.npy
check_exit 66 "a link to nothing" ddm-check work
rm work/deep/x.npy
: >work/.a.tsv.tmp.host.12.1
check_out "a file in the making" "" ddm-check work
check_exit 65 "is not complete" ddm-check -c work
check_err "and is named" 'work/.a.tsv.tmp.host.12.1: unfinished: still being written, or left by a process that was killed'
rm work/.a.tsv.tmp.host.12.1
echo half >work/.b.tar.part
check_out "what may be gone on with" "" ddm-check work
check_exit 65 "is not complete" ddm-check -c work
check_err "and is named" 'work/.b.tar.part: unfinished: still being written, or left by a process that was killed'
mkdir nothing
check_exit 65 "an empty folder" ddm-check nothing
echo notes >nothing/notes.txt
check_exit 65 "a folder of notes" ddm-check nothing
check_err "says so" 'nothing: not a file or folder that these programs read'
check_exit_any 66 "the first problem decides" ddm-check none nothing
lines "and all are told" 2
check_exit_any 65 "whichever that is" ddm-check nothing none
