# ddm-train --optimizer: each learns; killed and resumed on other threads, it writes the same bytes; another optimizer is refused; what does not
# go together is refused; --plan knows the memory; a router takes it too.
. "$(dirname "$0")/tap.sh"
. "$SRC/tests/faults/hold.sh"

tar xzf "$SRC/tests/golden/eval-a.tar.gz"
ddm-cluster -q -k 2 --holdout .25 -o a.tsv . && ddm-shard -q -a a.tsv --holdout .25 -o s . || exit 1
small="--model dit-nano/8 --hidden 16 --depth 2 --heads 2 --batch 8 --lr 2e-3 --warmup 5 --validate-every 10 --log-every 5"
run="ddm-train -q $small --predict x0 --checkpoint-every 9 --cluster all"
weights=diffusion_pytorch_model.safetensors
losses() { sed -n 's/.*"val_loss":\([0-9.e+-]*\).*/\1/p' "$1/train.jsonl"; }

for o in adamw muon schedule-free; do
	check "$o: 60 steps" $run --optimizer $o --steps 60 --threads 1 -o $o s
	losses $o | awk 'NR == 1 { first = $1 } { last = $1 } END { exit !(NR == 6 && last < .9 * first) }'
	tap_result $? "$o: the loss of held-out pictures falls"
	held $o.killed step-00000027 $run --optimizer $o --steps 60 --threads 2 -o $o.killed s
	kill -KILL $pid
	wait $pid
	check "$o: killed at step 27, resumed" $run --optimizer $o --steps 60 --threads 3 -o $o.killed s
	check_grep "$o: from a checkpoint" '"event":"start".*"step":18' $o.killed/train.jsonl
	check_same "$o: the same model" $o/$weights $o.killed/$weights
	check "$o: the same checkpoints" diff -r $o/train $o.killed/train
	check "$o: is whole" ddm-info --check $o
done
check "muon is the default of this network" $run --steps 60 -o plain s
check_same "to the byte" muon/$weights plain/$weights
for o in muon schedule-free; do
	check_differ "$o is not adamw" adamw/$weights $o/$weights
	check_grep "$o: config.json names it" "\"optimizer\": \"$o\"" $o/config.json
	check_exit 73 "$o: on a finished run of adamw" $run --optimizer $o --steps 60 -o adamw s
	check_err "$o: both are named" "optimizer: \"adamw\" -> \"$o\""
	check_exit 73 "adamw on a finished run of $o" $run --optimizer adamw --steps 60 -o $o s
	check_err "$o: both are named" "optimizer: \"$o\" -> \"adamw\""
done

# An unfinished run of another optimizer
held begun step-00000018 $run --optimizer muon --steps 60 -o begun s
kill -KILL $pid
wait $pid
check_exit 73 "schedule-free on a checkpoint of muon" $run --optimizer schedule-free --steps 60 -o begun s
check_err "both are named" 'step-00000009 was made with other options \(.*optimizer: "muon" -> "schedule-free"'
check_exit 73 "extended by another" $run --extend --optimizer adamw --steps 90 -o muon s
check_err "both are named" 'optimizer: "muon" -> "adamw"'

# Nothing of schedule-free depends on the length of the run, so that an extended one has the tensors of a long one.
tensors() { tail -c +$((9 + $(od -An -v -tu8 -N 8 "$1"))) "$1"; }
check "schedule-free, 30 steps" $run --optimizer schedule-free --steps 30 -o short s
check "extended to 60" $run --extend --optimizer schedule-free --steps 60 -o short s
tensors short/$weights >extended
tensors schedule-free/$weights >straight
check_same "the tensors of 60 at once" straight extended

# A batch in parts: equal up to rounding, and the same for any number of threads
for o in muon schedule-free; do
	check "$o: in 4 parts" $run --optimizer $o --steps 20 --accumulate 4 --threads 1 -o $o.parts s
	check "$o: on 3 threads" $run --optimizer $o --steps 20 --accumulate 4 --threads 3 -o $o.parts3 s
	check_same "$o: the same model" $o.parts/$weights $o.parts3/$weights
done

# Offloaded moments of schedule-free: the same bytes
check "schedule-free, offloaded" $run --optimizer schedule-free --offload optimizer --steps 60 -o off s
check_same "the same model" schedule-free/$weights off/$weights

# Refusals
check_exit 2 "an unknown optimizer" $run --optimizer lion --steps 60 -o x s
check_err "the known ones are told" "'lion' is not one of adamw, muon, schedule-free"
check_exit 2 "muon, offloaded" $run --optimizer muon --offload optimizer --steps 60 -o x s
check_err "is said" '--offload does nothing with --optimizer muon'
check_exit 2 "schedule-free with a falling rate" $run --optimizer schedule-free --schedule cosine --steps 60 -o x s
check_err "is said" '--schedule does nothing with --optimizer schedule-free'
check_exit 2 "schedule-free with another average" $run --optimizer schedule-free --ema-half-life 5 --steps 60 -o x s
check_err "is said" '--ema-half-life does nothing with --optimizer schedule-free'
check_absent "nothing was made" x

# Memory: schedule-free takes that of adamw; Muon's work space is counted.
planned() { ddm-train $small --predict x0 --cluster all --steps 60 --threads 1 --plan --optimizer $1 -o x s | sed -n 's/^device_bytes.//p'; }
a=$(planned adamw) m=$(planned muon) f=$(planned schedule-free)
[ -n "$a" ] && [ "$a" = "$f" ] && [ "$m" -gt "$a" ]
tap_result $? "--plan: adamw $a, schedule-free $f, muon $m bytes"
peak() { sed -n 's/.*"memory_peak":\([0-9]*\).*/\1/p' "$1/train.jsonl" | tail -n 1; }
[ "$(peak muon)" -gt "$(peak adamw)" ] && [ $(($(peak muon) - $(peak adamw))) -le $((m - a)) ] && [ $(($(peak muon) - $(peak adamw))) -ge $(((m - a) * 9 / 10)) ]
tap_result $? "as much more as a run takes: $(peak muon) against $(peak adamw)"

# A router
router="ddm-route-train -q --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --batch 8 --steps 12 --validate-every 6 --lr 1e-3"
for o in adamw muon schedule-free; do
	check "a router by $o" $router --optimizer $o -o r.$o s
done
for f in r.*/*.safetensors; do
	sha256sum <"$f"
done | sort -u | awk 'END { exit NR != 3 }'
tap_result $? "three different ones"
