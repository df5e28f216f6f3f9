# ddm-audit: every kind of change to a chain, checkpoint, result or shard is found; replays; the inputs that a replay needs.
. "$(dirname "$0")/tap.sh"

check_program ddm-audit
need python3 jq

mkdir pics && tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics
ddm-cluster -q -k 2 --holdout .25 -o a.tsv pics && ddm-shard -q -a a.tsv --holdout .25 -o s pics || exit 1
ddm-cluster -q -k 3 --holdout .25 -o b.tsv pics && ddm-shard -q -a b.tsv --holdout .25 -o others pics || exit 1
net="--model dit-nano/8 --hidden 16 --depth 1 --heads 2 --batch 8"
run="ddm-train -q $net --predict x0 --cluster all --steps 40 --checkpoint-every 15 --keep 9 --chain-every 10"
weights=diffusion_pytorch_model.safetensors
chain=train/chain.jsonl
$run -o m s || exit 1
cp -R m before

# forge.py CHAIN PYTHON: run the statements on the list v of lines, objects, then give each line the hash of the one before.
cat >forge.py <<'END'
import hashlib, json, sys
path = sys.argv[1]
v = [json.loads(l) for l in open(path)]
exec(sys.argv[2])
prev = "0" * 64
with open(path, "w") as f:
    for o in v:
        o.pop("seal", None)
        o["prev"] = prev
        text = json.dumps(o, separators=(",", ":"))
        prev = hashlib.sha256(text.encode()).hexdigest()
        f.write(text + "\n")
END
bad() { # STATEMENTS: bad, a copy of m with a forged chain
	rm -rf bad && cp -R m bad
	[ -z "${1:-}" ] || python3 forge.py bad/$chain "$1" || exit 1
}
bare() { # STATEMENTS: the same without checkpoints and result, which would give it away
	bad "$1"
	rm -r bad/train/step-* "bad/$weights"
}
replay="ddm-audit bad s --scratch scratch --replay"

# A run as it is
check "a run" ddm-audit m s
check_out "every check is made" "chain ok,checkpoint 15 open,checkpoint 30 ok,checkpoint 40 ok,result ok,shards ok" sh -c \
	"ddm-audit m s | cut -f 1,2 | tr '\t' ' ' | paste -sd ,"
check_out "as JSON" "true 6" sh -c "ddm-audit --json m s | jq -r '\"\(.proven) \(.checks | length)\"'"
check_stdout "ddm-audit" ddm-audit m s
head=$(tail -n 1 m/$chain | tr -d '\n' | sha256sum | cut -d ' ' -f 1)
check "knowing the last line" ddm-audit --head "$head" m
check_grep "whose hash it prints" "^chain	ok	6 lines to step 40, head $head\$" "$OUT"
check "without shards" ddm-audit m
check_grep "says that they were not read" '^shards	open	not read' "$OUT"
check "all of it again, on two threads" ddm-audit m s --replay all --scratch scratch --threads 2
check_grep "comes out the same" '^replay	ok	steps 0 to 40 come out the same: lines 6, checkpoints 3$' "$OUT"
check "from a checkpoint between two lines" ddm-audit m s --replay 17..25 --scratch new/scratch
check_grep "to the next line" '^replay	ok	steps 15 to 30 come out the same: lines 2, checkpoints 1$' "$OUT"
check_absent "nothing is left" scratch new
check "and the run is as it was" diff -r before m

# Requests that cannot be served
check_exit 66 "no chain" ddm-audit s
check_exit 2 "a replay without shards" ddm-audit m --replay all --scratch scratch
check_exit 2 "a replay without a folder" ddm-audit m s --replay all
for range in 5 5..5 x..9 30..41; do
	check_exit 2 "--replay $range" ddm-audit m s --replay $range --scratch scratch
done
mkdir -p taken/run
check_exit 73 "a folder that is there" ddm-audit m s --replay all --scratch taken

# One flipped bit. (Of the last line too, which no later one guards.)
for at in 40 700 "$(($(size_of m/$chain) / 2))" "$(($(size_of m/$chain) - 400))" "$(($(size_of m/$chain) - 60))" "$(($(size_of m/$chain) - 1))"; do
	bad; flip bad/$chain "$at"
	check_exit 65 "a bit of byte $at of the chain" ddm-audit bad s
done
for file in weights ema exp_avg exp_avg_sq; do
	bad; flip bad/train/step-00000030/$file.safetensors 30000
	check_exit 65 "a bit of $file" ddm-audit bad s
	check_err "the file is named" "step-00000030/$file.safetensors"
done
bad; flip bad/$weights 30000
check_exit 65 "a bit of the result" ddm-audit bad s
check_err "its parameter is named" 'is not what the chain says of step 40: [a-z_.0-9]+ differs'
shard=$(cd s && find cluster-* -name '*.zst' | head -n 1)
rm -rf sb && cp -R s sb && flip "sb/$shard" "$(($(size_of "s/$shard") / 2))"
check_exit 65 "a bit of a shard" ddm-audit m sb
check_err "it is named" "$shard"
flip sb/MANIFEST.tsv 300
check_exit 65 "a bit of the manifest" ddm-audit m sb

# Other shards: one in the place of another, another set
rm -rf sb && cp -R s sb
cp s/cluster-1/000000.tar.zst sb/cluster-0/000000.tar.zst
check_exit 65 "a swapped shard" ddm-audit m sb
check_exit 65 "other shards" ddm-audit m others
check_err "the manifests are compared" 'these are other shards than .* names'

# A checkpoint that is whole, but of another run
bad; $run --seed 5 -o five s && rm -r bad/train/step-00000030 && cp -R five/train/step-00000030 bad/train/
check_exit 65 "a checkpoint of another run" ddm-audit bad s
check_err "follows another chain" 'step-00000030: was saved after a line that .* does not hold'

bad; flip bad/train/step-00000030/config.json 40
check_exit 65 "a bit of a checkpoint's configuration" ddm-audit bad s
bad; sed -i 's/\\"seed\\":0/\\"seed\\":1/' bad/train/step-00000030/MANIFEST.json && unseal bad/train/step-00000030/MANIFEST.json
check_exit 65 "a checkpoint that claims another seed" ddm-audit bad s
check_err "is told from the chain" 'step-00000030 was made with other options than .* claims \(seed: 1 -> 0\)'

# Lines forged, removed, in another order; with and without the hashes that follow
bad; sed -i '4s/"updates":20/"updates":21/' bad/$chain
check_exit 65 "a forged line" ddm-audit bad
check_err "has a broken seal" 'line 4: .*altered since it was written'
sed -i '4s/,"seal":"[^"]*"//' bad/$chain
check_exit 65 "a forged line without a seal" ddm-audit bad
check_err "is not the one before the next" 'chain.jsonl:5: does not follow the line before it'
bad; sed -i 4d bad/$chain
check_exit 65 "a line removed" ddm-audit bad
bad; sed -i '4{h;d};5{G}' bad/$chain
check_exit 65 "two lines exchanged" ddm-audit bad
bad 'v[3], v[4] = v[4], v[3]'
check_exit 65 "the same with new hashes" ddm-audit bad
bare 'del v[3]'
check_exit 65 "a line removed with new hashes" ddm-audit bad
check_err "the losses of its steps are missing" 'does not hold the loss of each step'
bad; sed -i 1d bad/$chain
check_exit 65 "without its first line" ddm-audit bad
bad; sed -i '$d' bad/$chain
check_exit 65 "the chain cut off" ddm-audit bad
rm -r bad/train/step-00000040
check_exit 65 "without the checkpoint that follows it" ddm-audit bad
check_err "the run went on" 'the chain is cut off: the run is finished, and the last line is of step 30 of 40'
rm "bad/$weights"
check "of a run that is not finished, what is left may be whole" ddm-audit bad
check_exit 65 "unless one knows its end" ddm-audit --head "$head" bad
sed -i '$d' bad/$chain
check_exit 65 "or a checkpoint follows it" ddm-audit bad
check_err "is found" 'step-00000030: was saved after a line that .* does not hold'
bad; printf '{"step":50,"up' >>bad/$chain
check "an unfinished line" ddm-audit bad
check_grep "is told" '^chain	ok	6 lines to step 40 and an unfinished one' "$OUT"

# Lines edited with the following hashes made anew: only a replay can tell.
bare 'v[3]["hashes"]["exp_avg.safetensors"]["sha256"] = "0" * 64'
check "a hash of moments" ddm-audit bad s
check_exit_any 65 "is found by a replay" $replay all
check_err "with its step and arena" 'chain.jsonl:4: step 20 comes out otherwise; differing: exp_avg.safetensors'
check_absent "nothing is left" scratch
bare 'h = v[4]["hashes"]["weights.safetensors"]; h["sha256"] = "1" + h["sha256"][1:]; h["parameters"] = h["parameters"][:16] + "00000000" + h["parameters"][24:]'
check_exit_any 65 "a hash of weights" $replay all
check_err "with the parameter" "step 30 .*weights.safetensors that differs is $(head -n 1 m/$chain | jq -r '.parameters[2]') \(0 more\)"
bare 'v[3]["keys"] = v[2]["keys"]'
check_exit_any 65 "the keys of the samples" $replay all
check_err "are named" 'step 20 comes out otherwise; other samples were read'
bare 'v[2]["loss_sum"] = "0x1p+3"'
check_exit_any 65 "a better loss" $replay 0..10
check_err "is named" '"loss_sum" differs'
bare 'l = v[2]["losses"]; v[2]["losses"] = l[:48] + "00000000" + l[56:]'
check_exit_any 65 "the loss of a single step" $replay 0..10
check_err "whose number is found" 'the first step whose loss or gradient differs is 7$'

# Another seed claimed: by the chain alone, and with all that would contradict it removed
bad 'v[0]["stamp"]["seed"] = 1'
check_exit 65 "another seed claimed" ddm-audit bad s
bare 'v[0]["stamp"]["seed"] = 1'
check "without what contradicts it" ddm-audit bad s
check_exit_any 65 "a replay finds it" $replay all
check_err "in the first state" 'chain.jsonl:2: step 0 comes out otherwise; differing: weights'
bare 'v[0]["stamp"]["lr"] = 0.02'
check_exit_any 65 "another rate claimed" $replay 0..10
bare 'v[0]["exact"]["lr"] = "0.0100000004999"'
check_exit_any 65 "a rate that differs in its last digits" $replay 0..10
bare 'v[0]["stamp"]["optimizer"] = "adamw"'
check_exit_any 65 "another optimizer" $replay 0..10
bare 'v[0]["stamp"]["hidden"] = 32'
check_exit_any 65 "another width" $replay 0..10
check_err "does not fit the configuration" 'do not make the stamp that .* claims \(hidden: '

# A weight changed by hand between two steps, with a manifest to suit; the trainer goes on, and writes a chain without fault.
rm -rf t && $run --checkpoint-every 12 --keep 9 -o t s || exit 1
rm -r t/$weights t/train/step-00000036 t/train/step-00000040 t/train/step-00000012
cat >tamper.py <<'END'
import hashlib, json, re, struct, sys
d = sys.argv[1]
p = d + "/weights.safetensors"
b = bytearray(open(p, "rb").read())
at = len(b) - 2002 - len(b) % 4
b[at] ^= 0x40
open(p, "wb").write(b)
text = open(d + "/MANIFEST.json").read()
m = json.loads(text)
old = [f for f in m["files"] if p.endswith("/" + f["name"])][0]["sha256"]
text = re.sub(r'"ddm-seal:[0-9a-f]*:ddm-seal"', '""', text.replace(old, hashlib.sha256(b).hexdigest()))
open(d + "/MANIFEST.json", "w").write(text)
END
python3 tamper.py t/train/step-00000024
check "a run whose weights were changed at step 24" $run --checkpoint-every 12 --keep 1 -o t s
check "has a chain without fault" ddm-audit t s
check_exit_any 65 "a replay finds it" ddm-audit t s --replay all --scratch scratch
check_err "at the step after, with arenas and a parameter" \
	'step 30 comes out otherwise; the first step whose loss or gradient differs is 25; differing: weights.*the first parameter of weights.safetensors'

bad; python3 tamper.py bad/train/step-00000015
check "a changed checkpoint between two lines" ddm-audit bad s
check_exit_any 65 "a replay past it finds it" $replay all
check_err "by its files" 'step-00000015: the replay comes to another checkpoint'

# Another processor or build of this version computes the same bits.
bare 'for o in v[1:]: o["machine"] = "another"; o["build"] = o["build"].split("\n")[0] + "\ncompiler: another"'
check "a run of another processor and build" $replay all
check_grep "is the same" '^replay	ok	steps 0 to 40 come out the same: lines 6' "$OUT"
bare 'for o in v[1:]: o["machine"] = "another"; o["hashes"]["weights.safetensors"]["sha256"] = "2" * 64'
check_exit_any 65 "so a difference is none of the processor" $replay all
check_err "and is told" 'chain.jsonl:2: step 0 comes out otherwise'

# Another version, or a GPU: hashes cannot agree, losses can.
bare 'for o in v[1:]: o["build"] = "another"; o["hashes"]["weights.safetensors"]["sha256"] = "2" * 64'
check "a run of another version" $replay all
check_grep "is near" '^replay	near	steps 0 to 40: another version or processor computed 5 of the lines' "$OUT"
bare 'for o in v[1:]: o["machine"] = "another"; o["portable"] = False; o["hashes"]["weights.safetensors"]["sha256"] = "2" * 64'
check "a run of a GPU" $replay all
check_grep "is near, too" '^replay	near	steps 0 to 40: another version or processor computed 5 of the lines' "$OUT"
bare 'for o in v[1:]: o["build"] = "another"; o["loss_sum"] = (float.fromhex(o["loss_sum"]) * .8).hex()'
check_exit_any 65 "with losses that are too good" $replay all
check_err "is not" 'another version or processor computed steps 0 to 40, and their mean loss is 0.2 times apart'
bare 'for o in v[1:]: o["build"] = "another"; o["keys"] = "3" * 64'
check_exit_any 65 "or with other samples" $replay all

# Every kind of option is found again from the stamp.
same() { # NAME OPTIONS -- AUDIT-OPTIONS
	name=$1 options=
	shift
	while [ "$1" != -- ]; do options="$options $1" && shift; done
	shift
	rm -rf o && ddm-train -q $net --cluster 0 --steps 6 --checkpoint-every 4 --chain-every 2 $options -o o s || exit 1
	check "$name" ddm-audit o s --replay all --scratch scratch "$@"
	check_grep "$name: the same" '^replay	ok	steps 0 to 6 come out the same: lines 5, checkpoints 2' "$OUT"
}
wide="--hidden 192 --depth 1 --heads 2"
same "paths, times, weights" --predict x0 --path cosine --time logit-normal:.123456789123,1.1 --weighting min-snr:4.5 --time-range .2..0.9 --
same "EDM" --predict x0 --path edm:.4 --weighting edm --time lognormal --flip --
same "sigmoid, a velocity" $wide --predict velocity --weighting sigmoid --clip 0 --condition cluster --grey --
same "sigmoid with a bias" $wide --predict velocity --weighting sigmoid:.5 --lr .00123456789123 --
same "noise, in passes" $wide --predict epsilon --path linear --accumulate 4 --precision bf16-emulated --
ddm-train -q --model unet-nano --dropout .1 --optimizer schedule-free --batch 8 --predict x0 --cluster 0 --steps 2 --chain-every 1 -o u s || exit 1
check "a U-Net, schedule-free" ddm-audit u s --replay all --scratch scratch
check_grep "the same" '^replay	ok	steps 0 to 2 come out the same: lines 4' "$OUT"
same "from weights" --predict x0 --init-weights "m/$weights" -- --init-weights "m/$weights"
check_exit_any 65 "which are missing" ddm-audit o s --replay all --scratch scratch
check_err "is named" 'inputs.init'
same "from a network" --predict x0 --pretrained m -- --pretrained m
router="ddm-route-train -q $net --steps 8 --validate-every 2 --chain-every 3 --checkpoint-every 4"
$router -o r s && ddm-audit r s >r.txt || exit 1
check_grep "the result of a router is its best state" '^result	ok	model.safetensors' r.txt
check "a router" ddm-audit r s --replay all --scratch scratch
$router --last --label-smoothing .1 --calibrate -o r2 s || exit 1
check "the last one, calibrated" ddm-audit r2 s --replay all --scratch scratch
check_grep "whose result is left open" '^result	open	--calibrate' "$OUT"
$router --from r --rows 1,0 --head-only -o r3 s || exit 1
check "a head alone" ddm-audit r3 s --pretrained r --replay all --scratch scratch

# An extended run
cp -R m longer && $run --steps 60 --extend -o longer s && cp -R m/train/step-00000040 longer/train/ || exit 1
check "an extended run" ddm-audit longer s
check "its part before" ddm-audit longer s --replay 0..40 --scratch scratch
check "its part after" ddm-audit longer s --replay 40..60 --scratch scratch
check_grep "comes out the same" '^replay	ok	steps 40 to 60 come out the same: lines 3,' "$OUT"
check "from within it" ddm-audit longer s --replay 47..60 --scratch scratch
check_exit_any 2 "both at once" ddm-audit longer s --replay 30..50 --scratch scratch
check_err "names the step" 'extended at step 40'
