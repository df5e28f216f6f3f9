# ddm-info: the facts about each kind of file and folder, against other tools; damaged files; hostile files.
. "$(dirname "$0")/tap.sh"

need jq
check_program ddm-info
check_exit 2 "no operand" ddm-info
check_exit 66 "no such file" ddm-info none
check_err "is named" 'none'
[ ! -s "$OUT" ]
tap_result $? "nothing on stdout"
check_exit 65 "an empty file" ddm-info --check /dev/null
: >empty
check_exit 65 "an empty regular file" ddm-info empty
echo "a text" >text
check_exit 65 "a text" ddm-info text
check_err "is nothing of ours" "text: not a file or folder that these programs read"
mkdir nothing
check_exit 65 "an empty folder" ddm-info nothing

weights=diffusion_pytorch_model.safetensors
mkdir pics pics/a pics/b
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics/a
tar xzf "$SRC/tests/golden/eval-c.tar.gz" -C pics/b
first=$(cd pics && find a -name '*.png' | sort | head -n 1)
echo 4 >"pics/${first%.png}.cls"
echo "a caption" >"pics/${first%.png}.txt"
net="--model dit-nano/8 --hidden 16 --depth 1 --heads 2 --predict x0 --batch 8 --threads 1"
ddm-cluster -q -k 2 --holdout .25 --seed 5 --centroids-out c.npy -o a.tsv pics || exit 1
ddm-shard -q -a a.tsv --holdout .25 -o s pics || exit 1
for k in 0 1; do
	ddm-train -q $net --cluster $k --steps 6 --log-every 1 --checkpoint-every 2 -o m/expert_$k s || exit 1
done
ddm-route-train -q --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --batch 8 --steps 2 -o m/router s || exit 1
ddm-sample -n 5 --steps 2 --route top-1 --grid grid.png -o x.tar m 2>/dev/null || exit 1
(cd pics && tar cf ../foreign.tar --sort=name a b && tar czf ../foreign.tgz --sort=name a b)
sum() { sha256sum "$1" | cut -d ' ' -f 1; }

# fact NAME WANT FILTER OPERAND [OPTION]...: the jq FILTER gives WANT for the line of JSON
fact() {
	fact_name=$1 fact_want=$2 fact_filter=$3 fact_file=$4
	shift 4
	tap_run ddm-info -j "$@" "$fact_file"
	fact_got=$(jq -c "$fact_filter" "$OUT" 2>>"$ERR")
	[ "$RC" -eq 0 ] && [ "$fact_got" = "$fact_want" ]
	tap_result $? "$fact_name" "exit $RC, $fact_got, not $fact_want"
}

# Kinds do not depend on names
n=1
for f in x.tar foreign.tar foreign.tgz grid.png a.tsv c.npy s/cluster-0/000000.tar.zst m/expert_0/$weights m/expert_0/train.jsonl \
	m/expert_0/config.json; do
	cp "$f" "disguise-$n"
	n=$((n + 1))
done
ddm-info -j disguise-* >kinds.json
check_out "kinds of files do not depend on names" "tar tar tar tar picture table npy shard safetensors log config" \
	sh -c "ddm-info -j x.tar disguise-1 disguise-2 disguise-3 disguise-4 disguise-5 disguise-6 disguise-7 disguise-8 disguise-9 disguise-10 |
	jq -r .kind | paste -sd ' '"
check_out "kinds of folders" "shards model network network checkpoints checkpoint folder" \
	sh -c 'ddm-info -j s m m/expert_0 m/router m/expert_0/train m/expert_0/train/step-00000006 pics | jq -r .kind | paste -sd " "'
check_out "one line an operand" "2" sh -c 'ddm-info -j x.tar m | grep -c ""'
check "everything passes a check" ddm-info --check x.tar foreign.tar foreign.tgz grid.png a.tsv c.npy s s/cluster-0/000000.tar.zst m m/expert_0 \
	m/router m/expert_0/train m/expert_0/train.jsonl m/expert_0/$weights m/expert_0/config.json pics
[ "$(grep -c 'check  *passed' "$OUT")" -eq 16 ]
tap_result $? "and says so"

# Samples, against tar and the programs' own hashes
fact "samples of our tar" '[5,{"png":5},true,"000000","000004"]' '[.samples,.members,.complete,.first,.last]' x.tar
fact "size of its pictures" '[16,16]' .size x.tar
check_out "standard input" "5" sh -c 'cat x.tar | ddm-info -j - | jq .samples'
check_out "a shard through a pipe is a tar" '["tar",true]' sh -c 'cat s/cluster-0/000000.tar.zst | ddm-info -j - | jq -c "[.kind,.complete]"'
check_out "a named pipe" '"picture"' sh -c 'mkfifo p && { cat grid.png >p & ddm-info -j p | jq .kind; }'
want=$(find pics -name '*.png' | wc -l | tr -d ' ')
fact "samples of a foreign tar" "[$want,1,5]" '[.samples,.captions,.classes]' foreign.tar
fact "samples of a compressed one" "[$want,[0,0,0,0,1]]" '[.samples,.class_counts]' foreign.tgz
fact "samples of a folder" "[$want,$want]" '[.samples,.members.png]' pics
digest=$(jq -r .inputs.samples c.npy.json)
fact "digest of a folder is what stamps call samples" "\"$digest\"" .digest pics --check
fact "the stamp of a tar names program and weights" "[\"ddm-sample\",\"top-1\",\"$(sum m/expert_1/$weights)\"]" \
	"[.stamp.program,.stamp.route,.stamp.inputs[\"expert_1/$weights\"]]" x.tar
fact "so does that of a picture" "\"$(sum m/router/model.safetensors)\"" '.stamp.inputs["router/model.safetensors"]' grid.png
fact "a table: rows, clusters, end" "[$want,2,$want]" '[.rows,(.clusters|length),([.clusters[].rows]|add)]' a.tsv
fact "its shares add up" "1" '[.clusters[].share]|add' a.tsv
held=$(grep -c holdout a.tsv)
fact "its held-out part" "$((held - 1))" '[.clusters[].held_out]|add' a.tsv
fact "an array and its sidecar" '["<f4",[2,768],"hogcolor-1"]' '[.type,.shape,.stamp.features]' c.npy

# Shards, against their manifest and zstd
rows=$(zstd -dc s/cluster-0/000000.tar.zst | tar tf - | sed 's/\..*//' | sort -u | wc -l | tr -d ' ')
fact "a shard's samples and bytes" "[$rows,$(zstd -dc s/cluster-0/000000.tar.zst | wc -c | tr -d ' ')]" '[.samples,.tar_bytes]' \
	s/cluster-0/000000.tar.zst
fact "its keys" "$rows" '.keys|length' s/cluster-0/000000.tar.zst -f
fact "a SHARDS directory" "[2,$want,$(du -cb s/*/*.zst s/holdout/*/*.zst | tail -n 1 | cut -f 1)]" \
	'[.k,.samples+.held_out,.shard_bytes]' s
fact "traced to the table and the samples" "[\"$(sum a.tsv)\",\"$digest\"]" '[.stamp.inputs.assign,.stamp.inputs.samples]' s
fact "all shards by name" "$(find s -name '*.zst' | wc -l | tr -d ' ')" '.list|length' s -f

# Files of PyTorch's
torch=$SRC/tests/golden/torch
fact "a training checkpoint of PyTorch's: its average, and what else there is" \
	'["pytorch","zip","ema",4,24,{"model":4,"ema":4,"opt":12,"args":"argparse.Namespace","steps":5}]' \
	'[.kind,.layout,.tensors_of,.tensors,.parameters,.members]' "$torch/checkpoint.pt" -c
fact "the layout before" '["legacy",26,1,"torch._utils._rebuild_sparse_tensor"]' '[.layout,.tensors,.not_read,.for_example]' "$torch/legacy.pt"
fact "a call in it is a name" '["posix.system",1]' '[.members.x,.tensors]' "$torch/bad-call.pt" --check
check_absent "and is not run" /tmp/ddm-pickle-was-run
fact "an index" '["index",3,4]' '[.kind,(.files|length),.tensors]' "$torch/parts/pytorch_model.bin.index.json" --check
fact "a folder of parts" '["network",3,4]' '[.kind,(.files|length),.tensors]' "$torch/parts" --check
check_exit 65 "tensors outside their storage" ddm-info "$torch/bad-offset.pt"
check_err "are named" "tensor 'w': elements outside its storage"
mkdir foreign && cp "$torch/new.pt" foreign/pytorch_model.bin && echo '{"_class_name": "AutoencoderKL", "x": 1}' >foreign/config.json
fact "another library's network" '["network","AutoencoderKL",7]' '[.kind,.network,.tensors]' foreign
mkdir torch && tar xzf "$torch/ensemble.tar.gz"
fact "a model in files of PyTorch's" '[3,true,["dit","dit","dit"]]' '[.experts,.router,[.list[:3][].network]]' torch -c -f

# Models
fact "an expert is traced to its shards" "\"$(sum s/MANIFEST.tsv)\"" .data m/expert_0
fact "which say the same of themselves" "\"$(sum s/MANIFEST.tsv)\"" .sha256 s
fact "architecture" '["dit","x0","linear",0,2,[3,16,16],8,16,1,2]' \
	'[.network,.prediction,.path,.cluster,.k,.picture,.patch,.hidden,.depth,.heads]' m/expert_0
fact "parameters are those in the weights" true ".parameters == $(ddm-info -j m/expert_0/$weights | jq .parameters)" m/expert_0
fact "progress of a finished training" '["finished",6,6,true]' '[.training|.state,.step,.steps,.percent==100]' m/expert_0
fact "the loss is the log's last" "$(jq -c 'select(.loss) | .loss' m/expert_0/train.jsonl | tail -n 1)" .training.loss m/expert_0
fact "checkpoints" '[[6,"whole"],[4,"whole"]]' '[.checkpoints[]|[.step,.state]]' m/expert_0/train
fact "a model" '[2,true,2,[3,16,16],true,["finished","finished","finished"]]' \
	'[.experts,.router,.k,.picture,.agree,[.networks[].state]]' m
fact "validation losses of its experts" "$(jq -c 'select(.val_loss) | .val_loss' m/expert_1/train.jsonl | tail -n 1)" \
	'.networks[1].val_loss' m
fact "with everything" '["expert_0","expert_1","router"]' '[.list[].name]' m -f
cp -R m lacks && rm -r lacks/expert_0
fact "an absent expert" '[1,2,[0]]' '[.experts,.k,.absent]' lacks
fact "tensors by name" true '(.list|length) == .tensors and ([.list[].bytes]|add) == .data_bytes' m/expert_0/$weights -f
ddm-eval-fid -o e.json s x.tar 2>/dev/null
fact "an evaluation" '["evaluation",5]' '[.kind,.values["n-samples"]]' e.json
cp -R m begun && rm begun/expert_0/$weights begun/expert_0/config.json && head -n 4 m/expert_0/train.jsonl >begun/expert_0/train.jsonl
step=$(tail -n 1 begun/expert_0/train.jsonl | jq .step)
fact "a training in progress: step and time left" "[\"in training\",$step,true]" \
	"[.training.state,.training.step,((.training.eta_s * .training.images_per_s / 8 - (6 - $step)) | fabs < 1e-6)]" begun/expert_0
fact "in its model" '["in training",'"$step"']' '.networks[0]|[.state,.step]' begun
printf '{"step":7,"lo' >>begun/expert_0/train.jsonl
fact "a line that is being written" "[$step,true]" '.training|[.step,.torn]' begun/expert_0
(exec 9>begun/expert_0/.lock && echo "here 1" >&9 && flock -n 9 && ddm-info -j begun/expert_0) >running.json
check_out "who is writing there" '"here 1"' jq -c .running running.json

# Text
check "text" ddm-info a.tsv m x.tar
check_grep "first line: name, kind, size" '^x\.tar: tar, [0-9.]+ KiB$' "$OUT"
check_grep "a table of networks" '^ +expert_1 +1 +x0 +linear +8 +16 +1 +2 ' "$OUT"
check_grep "made by" '^  made by +ddm-sample [0-9.]+$' "$OUT"
check_grep "from" "^  from +$(sum m/expert_0/$weights | cut -c 1-16)  expert_0/$weights\$" "$OUT"
check "full text" ddm-info -f x.tar
check_grep "whole hashes" "$(sum m/expert_0/$weights)" "$OUT"
printf '{"a\\u001b[2Jb": "\\u001b]0;x\\u0007 \302\233m"}' >escape.json
check "what would steer a terminal" ddm-info escape.json
[ "$(tr -d '\n -~' <"$OUT" | wc -c)" -eq 0 ]
tap_result $? "is not printed"

# Damage: found without --check if possible, and always with it
damaged() { # NAME REGEX FILE OPTION...
	damaged_name=$1 damaged_regex=$2
	shift 2
	check_exit 65 "$damaged_name" ddm-info "$@"
	check_err "$damaged_name: is named" "$damaged_regex"
}
for f in a.tsv x.tar c.npy grid.png s/cluster-0/000000.tar.zst m/expert_0/$weights; do
	b=$(basename "$f")
	cp "$f" "cut-$b" && cut_to "cut-$b" $(($(size_of "$f") - 7))
	damaged "$b cut short" "cut-$b" --check "cut-$b"
	[ "$b" = grid.png ] && continue
	damaged "$b cut short, at a look" "cut-$b" "cut-$b"
done
for f in a.tsv grid.png s/cluster-0/000000.tar.zst; do
	b=$(basename "$f")
	cp "$f" "bit-$b" && flip "bit-$b" $(($(size_of "$f") / 2))
	damaged "$b with a bit flipped" "bit-$b" --check "bit-$b"
done
cp -R s s2 && flip s2/cluster-1/000000.tar.zst 100
check "a flipped bit in a shard is not seen at a look" ddm-info s2
damaged "but by --check" 's2/cluster-1/000000.tar.zst' --check s2
cut_to s2/cluster-1/000000.tar.zst $(($(size_of s/cluster-1/000000.tar.zst) - 1))
damaged "a shard cut short" 's2/cluster-1/000000.tar.zst: [0-9]+ bytes where' s2
rm -r s2/cluster-1
check_exit 66 "a shard that is gone" ddm-info s2
cp -R m/expert_0 e2 && flip e2/train/step-00000006/ema.safetensors 3000
fact "a damaged checkpoint at a look" '"whole"' '.checkpoints[0].state' e2
damaged "and by --check" 'step-00000006/ema.safetensors' --check e2
rm e2/train/step-00000006/ema.safetensors
fact "one that lacks a file" '["damaged","whole"]' '[.checkpoints[].state]' e2
cp -R m m2 && cp m/expert_1/config.json m2/expert_0/ && sed -i 's/"hidden_size": 16/"hidden_size": 32/' m2/expert_0/config.json && unseal m2/expert_0/config.json
damaged "weights that are not what the config says" "expert_0/$weights: tensor '" m2
cp -R m m3 && sed -i 's/"num_clusters": 2/"num_clusters": 1/' m3/router/config.json && unseal m3/router/config.json
check_exit 65 "a router for fewer clusters than there are experts" ddm-info m3
check_out "agree is false" "false" sh -c 'ddm-info -j m3 2>/dev/null | jq .agree'
check_out "the error is in the JSON" "65" sh -c 'ddm-info -j m3 2>/dev/null | jq .exit'
sed '2s/{/[/' m/expert_0/train.jsonl >bad.jsonl
damaged "a bad line of a log" 'bad.jsonl:2' --check bad.jsonl
(cd pics && tar cf ../twice.tar a && tar rf ../twice.tar a)
damaged "a key that comes twice" 'appears twice' --check twice.tar
check_exit_any 66 "several operands: the first failure decides" ddm-info none text x.tar
[ "$(tap_lines "$ERR")" -eq 2 ]
tap_result $? "each is told"
check_grep "what is sound is printed" '^x.tar: tar' "$OUT"

# Hostile files: no crash, no hang, no flood of output
cat >huge.json <<'END'
{"model_type": "dit", "in_channels": 4096, "sample_size": 65536, "patch_size": 1, "hidden_size": 65536, "num_layers": 1000,
 "num_attention_heads": 1, "prediction": "velocity", "num_classes": 10000000, "num_clusters": 2147483647}
END
mkdir huge huge/expert_0 && cp huge.json huge/expert_0/config.json && cp m/expert_0/$weights huge/expert_0/
check "a config of unreasonable size" timeout 20 ddm-info huge.json
check_exit 65 "a model of it" timeout 20 ddm-info huge
answers() { # FILE: both ways, within limits
	for option in -f -c; do
		(ulimit -v 4000000 && timeout 20 ddm-info $option "$1" >"$OUT" 2>"$ERR" </dev/null)
		case $? in 0 | 65) ;; *) echo "$? $option $1" >>"$tap_dir/work/wrong" ;; esac
	done
}
for f in "$SRC"/tests/fuzz/corpus/*/*; do
	answers "$f"
done
check_absent "corpora of the fuzzers" wrong
for f in a.tsv x.tar c.npy grid.png s/cluster-0/000000.tar.zst m/expert_0/config.json; do
	size=$(size_of "$f")
	for at in 1 3 9 60 130 300 $((size / 3)) $((size - 20)); do
		[ "$at" -lt "$size" ] || continue
		head -c "$at" "$f" >mutant
		answers mutant
		cp "$f" mutant && flip mutant "$at"
		answers mutant
	done
done
check_absent "cuts and flipped bits" wrong
check_stdout "facts" ddm-info a.tsv
check_stdout "facts as JSON" ddm-info -j a.tsv
check_clean "nothing left behind" .

[ -n "$DATA" ] && [ -d "$DATA/awkward-images" ] || skip_all "no test data (awkward-images): DDM_TEST_DATA"
find "$DATA/awkward-archives/traversal" "$DATA/awkward-archives/safetensors" "$DATA/awkward-images/exif-orientation" \
	"$DATA/awkward-images/png-suite" "$DATA/awkward-images/png-fuzz" -type f >list
while read -r f; do
	timeout 20 ddm-info "$f" >"$OUT" 2>"$ERR" </dev/null
	case $? in 0 | 65) ;; *) echo "$f" >>wrong ;; esac
done <list
check_absent "awkward pictures and archives" wrong
for o in 1 3 6 8; do
	fact "EXIF orientation $o" $o .orientation "$DATA/awkward-images/exif-orientation/Portrait_$o.jpg"
done
fact "a picture that lies on its side stands upright" true '.upright == [.height, .width]' "$DATA/awkward-images/exif-orientation/Portrait_6.jpg"
