# Several ranks of one training: the same bytes as one process, resumed by another number of ranks, signals, lost ranks, refusals.
. "$(dirname "$0")/tap.sh"

need_mpi
weights=diffusion_pytorch_model.safetensors
tar xzf "$SRC/tests/golden/eval-a.tar.gz"
ddm-cluster -q -k 2 --holdout .25 -o a.tsv . && ddm-shard -q -a a.tsv --holdout .25 -o s . || exit 1
net="--model dit-nano/8 --hidden 16 --depth 1 --heads 2 --batch 8 --lr 1e-3 --validate-every 4 --checkpoint-every 3 --threads 1"
run="ddm-train -q $net --predict x0 --cluster all"

# same NAME DIR DIR: the result and the last checkpoint
same() {
	check_same "$1: the result" "$2/$weights" "$3/$weights"
	check_same "$1: the configuration" "$2/config.json" "$3/config.json"
	for f in weights ema exp_avg exp_avg_sq; do
		check_same "$1: $f" "$2/train/step-00000008/$f.safetensors" "$3/train/step-00000008/$f.safetensors"
	done
}
losses() { sed -n 's/.*"step":\([0-9]*\),"loss":\([^,]*\),"grad_norm":\([^,]*\),.*"val_loss":\([^,]*\),.*/\1 \2 \3 \4/p' "$1/train.jsonl"; }

check "one process" $run --steps 8 --accumulate 4 -o one s
check "two ranks" $run --steps 8 --accumulate 4 --ranks 2 -o two s
same "two" one two
check "four ranks, started by mpirun" $mpi -n 4 $run --steps 8 --accumulate 4 -o four s
same "four" one four
check_same "the hash chain of two" one/train/chain.jsonl two/train/chain.jsonl
check_same "of four" one/train/chain.jsonl four/train/chain.jsonl
check_grep "has the keys of all eight steps" '"step":8,.*"losses":"[0-9a-f]{64}"' four/train/chain.jsonl
check "the logs have the same losses, norms and validation" sh -c '[ -n "$1" ] && [ "$1" = "$2" ]' - "$(losses one)" "$(losses four)"
check_grep "the log names the ranks and the engine" '"event":"start".*"ranks":4,"engine":"MPI"' four/train.jsonl
check_grep "and that they need no network on one computer" '"network":"(none|lo)"' four/train.jsonl
check_grep "and what they sent" '"comm_bytes":[1-9]' four/train.jsonl
check_grep "how long each rank worked" '"rank_busy_s":\[[0-9.e-]*,[0-9.e-]*\]' two/train.jsonl
check_grep "and by how much its clock is off" '"rank_clock_s":\[0.0,[0-9.e-]*\],"rank_clock_within_s":\[0.0,[0-9.e-]*\]' two/train.jsonl
check_grep "one log: a start" '"event":"start"' two/train.jsonl
check "and no second one" sh -c '[ $(grep -c "\"event\":\"start\"" two/train.jsonl) -eq 1 ]'
check "finished, again" $run --steps 8 --accumulate 4 --ranks 2 -o two s
check_exit 73 "finished, with other options" $run --steps 8 --accumulate 4 --lr 2e-3 -o two s
for o in "--optimizer muon" "--optimizer schedule-free" "--flip --clip .1" "--precision bf16-emulated"; do
	check "one process, $o" $run --steps 4 --accumulate 2 $o -o a s
	check "two ranks, $o" $run --steps 4 --accumulate 2 $o --ranks 2 -o b s
	check_same "$o: the same bytes" a/$weights b/$weights
	rm -rf a b
done
router="ddm-route-train -q --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --batch 8 --steps 4 --threads 1 --accumulate 2"
check "a router of one process" $router -o r1 s
check "of two ranks" $router --ranks 2 -o r2 s
check_same "the same bytes" r1/model.safetensors r2/model.safetensors
check "without --accumulate each rank has one part" $mpi -n 2 $run --steps 2 -o parts s
check_grep "as the stamp says" '"accumulate": 2' parts/config.json
check_grep "the ranks of a run without a checkpoint before its end were compared" '"rank_busy_s"' parts/train.jsonl
check "and none is called out" sh -c '! grep -E "\"event\":\"(straggler|clock)\"" parts/train.jsonl'

# A clock that is wrong, and a rank that others wait for
check "a clock 30 seconds ahead" $mpi -n 1 $run --steps 4 --accumulate 2 -o ahead s : -n 1 env LD_PRELOAD="$B/tests/clockjump.so" CLOCK_JUMP="0 30" \
	$run --steps 4 --accumulate 2 -o ahead s
check_grep "is called out" 'the clock of rank 1 is (30\.0|29\.9) s ahead of that of rank 0' "$ERR"
check_grep "in the log too" '"event":"clock","at":4,"rank":1,"ahead_s":(30|29\.9)' ahead/train.jsonl
# Computing takes nearly all of its time, so that this is where it stops.
heavy="ddm-train -q --model dit-nano/4 --hidden 192 --depth 3 --heads 3 --batch 8 --threads 1 --predict x0 --cluster all"
$mpi -n 2 $heavy --steps 100000 --accumulate 4 --validate-every 8 --validate-samples 4 -o wait s 2>err &
pid=$!
until_true grep -qs '"step":8,' wait/train.jsonl
victim=$(second_rank "^ddm-train .*-o wait s")
i=0
until grep -qs '"event":"straggler"' wait/train.jsonl || [ $((i += 1)) -gt 300 ]; do
	kill -STOP $victim && sleep .2 && kill -CONT $victim && sleep .02
done
kill -TERM $victim
wait $pid
check_grep "a rank that is stopped most of the time" '"event":"straggler","at":[0-9]*,"rank":1,"busy_s":[0-9.]*,"others_s":' wait/train.jsonl
check_grep "is called out" 'rank 1 worked for [0-9.]* s up to step [0-9]*, others for [0-9.]* s: they wait for it' err

# Another number of ranks goes on.
check "three steps of four ranks" $run --steps 3 --accumulate 4 --ranks 4 -o moved s
check "extended by one process" $run --steps 6 --accumulate 4 --extend -o moved s
check "extended by two ranks" $run --steps 8 --accumulate 4 --extend --ranks 2 -o moved s
check_same "is the run of one process" one/train/step-00000008/weights.safetensors moved/train/step-00000008/weights.safetensors

# Signals and lost ranks
slow="$run --steps 4000 --accumulate 4"
stopped() { # NAME SIGNAL DIR
	$slow --ranks 2 -o "$3" s 2>err &
	pid=$!
	until_true grep -qs '"step":8,' "$3/train.jsonl"
	kill -"$2" $pid
	wait $pid
	rc=$?
	[ $rc -eq 75 ]
	tap_result $? "$1 ends with 75"
	check "$1: rank 0 says what is saved" grep -q 'step [0-9]* of 4000 is saved: run the same command again' err
}
stopped "SIGTERM to the process that started the ranks" TERM term
stopped "SIGINT" INT int

# Clocks and signals differ between ranks. That one of them asks for a checkpoint is enough, and all take part.
asks() { # NAME DIR: the ranks in $pid write a checkpoint, though no step asks for one, and end well
	until_true sh -c 'ls "$1"/train/step-*/MANIFEST.json' - "$2"
	tap_result $? "$1: a checkpoint" "$(tail -n 3 err)"
	kill -TERM "$(second_rank "^ddm-train .*-o $2 s")"
	wait $pid
	RC=$?
	[ $RC -eq 75 ]
	tap_result $? "$1: then SIGTERM: 75" "exit $RC: $(tail -n 3 err)"
}
untimed="$slow --steps 1000000 --checkpoint-every 2h --comm-timeout 20000"
$mpi -n 1 $untimed -o clock s : -n 1 env LD_PRELOAD="$B/tests/clockjump.so" CLOCK_RATE=2000 $untimed -o clock s 2>err &
pid=$!
asks "due by the clock of the second rank alone" clock
$mpi -n 2 $slow --steps 1000000 --checkpoint-every 2h --comm-timeout 20 -o asked s 2>err &
pid=$!
until_true grep -qs '"step":8,' asked/train.jsonl
kill -USR2 "$(second_rank "^ddm-train .*-o asked s")"
asks "SIGUSR2 to the second rank alone" asked

$mpi -n 2 $slow -o lost s 2>err &
pid=$!
until_true grep -qs '"step":8,' lost/train.jsonl
victim=$(second_rank "^ddm-train .*-o lost s")
kill -KILL $victim
wait $pid
[ $? -ne 0 ]
tap_result $? "a killed rank ends the training"
check "the last checkpoint is whole" ddm-check lost
step=$(ls -d lost/train/step-* | tail -n 1 | sed 's/.*step-0*//')
check "one process goes on from it" $run --steps $((step + 3)) --accumulate 4 -o other s
$mpi -n 2 $slow --comm-timeout 2 -o frozen s 2>err &
pid=$!
until_true grep -qs '"step":8,' frozen/train.jsonl
victim=$(second_rank "^ddm-train .*-o frozen s")
kill -STOP $victim
wait $pid
rc=$?
[ $rc -eq 69 ]
tap_result $? "a rank that stands still ends the training with 69"
check "rank 0 names it" grep -q 'ddm-train: rank 0: rank 1 has not answered for 2 s (--comm-timeout)' err
kill -KILL $victim 2>/dev/null
# Whichever of four ranks stands still, the others name that one, also those that wait for a rank which waits for it.
for frozen in 0 2; do
	$mpi -n 4 $slow --comm-timeout 4 -o "frozen$frozen" s 2>err &
	pid=$!
	until_true grep -qs '"step":8,' "frozen$frozen/train.jsonl"
	victim=$(rank_process $frozen "^ddm-train .*-o frozen$frozen s")
	began=$(date +%s)
	kill -STOP $victim
	wait $pid
	rc=$?
	[ $rc -eq 69 ]
	tap_result $? "rank $frozen of four stands still: 69"
	check_true "in time" "$(date +%s) - $began < 15"
	check_grep "the others name it" "ddm-train: rank [0-3]: rank $frozen has not answered for 4 s .--comm-timeout." err
	check "and none names another" sh -c "! grep 'has not answered' err | grep -v 'rank $frozen has not answered'"
	kill -KILL $victim 2>/dev/null
done

# Refusals
$mpi -n 1 $run --steps 4 --accumulate 2 -o mixed s : -n 1 $run --steps 4 --accumulate 2 --lr 5e-3 -o mixed s 2>err
rc=$?
[ $rc -eq 73 ]
tap_result $? "ranks with other options end with 73"
check "each rank names the rank and the option" sh -c '[ $(grep -c "rank 1: started with other options or inputs than rank 0: lr: " err) -eq 2 ]'
check_absent "nothing is made" mixed
$mpi -n 3 $run --steps 4 -o three s 2>err
[ $? -eq 2 ]
tap_result $? "three ranks end with 2"
check "with the reason" grep -q '3 ranks: the number of ranks must be a power of two' err
$mpi -n 2 $run --steps 4 --accumulate 6 --batch 12 -o six s 2>err
[ $? -eq 2 ]
tap_result $? "six parts on two ranks end with 2"
check "with the reason" grep -q -- '--accumulate 6: on 2 ranks the number of parts must be 2 times a power of two' err
$mpi -n 16 $run --steps 4 -o many s 2>err
[ $? -eq 2 ]
tap_result $? "more ranks than samples in a batch end with 2"
check "with the reason" grep -q 'a batch of 8 samples cannot be split into 16 equal parts' err
check_exit 69 "--ranks without mpirun" env PATH="$B" $(command -v ddm-train) -q $net --predict x0 --cluster all --steps 4 --ranks 2 -o x s
check_err "names the package" '--ranks 2: cannot start mpirun: .*; Debian has it in openmpi-bin'
mkdir alone && cp "$B/ddm-train" alone/
env OMPI_COMM_WORLD_SIZE=2 alone/ddm-train -q $net --predict x0 --cluster all --steps 4 -o x s 2>err
rc=$?
[ $rc -eq 69 ] || [ -e /usr/local/libexec/ddm/mpi-engine.so ]
tap_result $? "a rank without the engine ends with 69"
