# Ranks whose gradients are added on their GPUs by NCCL's engine, on stand-ins for the CUDA runtime (tests/op/fakecuda.h), cuBLASLt and NCCL: the same
# bytes as one process and as sums on the host, two ranks on one GPU, other versions, a missing library, a rank that stands still.
. "$(dirname "$0")/tap.sh"

[ -e "$B/tests/standin/nccl-engine.so" ] || skip_all "built without NCCL's header, nccl.h (NVIDIA: libnccl-dev)"
standin=$B/tests/standin
XDG_CACHE_HOME=$PWD/cache
with=$standin
export XDG_CACHE_HOME

check_out "sums on devices, and what can go wrong" "" sh -c "LD_LIBRARY_PATH='$standin' '$standin/test_devicesum' >sums 2>&1 || cat sums"
check "none of these was skipped" sh -c 'grep -q "^ok 17" sums && ! grep SKIP sums'

need_mpi
weights=diffusion_pytorch_model.safetensors
tar xzf "$SRC/tests/golden/eval-a.tar.gz"
ddm-cluster -q -k 2 --holdout .25 -o a.tsv . && ddm-shard -q -a a.tsv --holdout .25 -o s . || exit 1
run="$standin/ddm-train --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --batch 8 --lr 1e-3 --validate-every 4 --threads 1 --predict x0
	--cluster all --device cuda --accumulate 4 --checkpoint-every 100"
train() { env LD_LIBRARY_PATH="$with" $run "$@"; }
ranks() { # COMMAND... on two ranks
	env LD_LIBRARY_PATH="$with" $mpi -n 2 $run "$@"
}

# same NAME DIR DIR: the result and the last checkpoint
same() {
	check_same "$1: the result" "$2/$weights" "$3/$weights"
	for f in weights ema exp_avg exp_avg_sq; do
		check_same "$1: $f" "$2/train/step-00000006/$f.safetensors" "$3/train/step-00000006/$f.safetensors"
	done
	check_same "$1: the hash chain" "$2/train/chain.jsonl" "$3/train/chain.jsonl"
}
for precision in f32 bf16; do
	o="--steps 6 --precision $precision"
	check "one process, $precision" train -q $o -o one-$precision s
	check "two GPUs" train $o --ranks 2 --sum-on device -o two-$precision s
	check_err "rank 0 names NCCL's version and the GPUs" \
		'gradients are added on the GPUs by NCCL 2\.[0-9.]*: rank 0 on [^ ]* 0000:00:00.0, rank 1 on [^ ]* 0000:01:00.0$'
	cp "$ERR" said
	check_out "once" 1 grep -c 'gradients are added' said
	same "$precision, two" one-$precision two-$precision
done
# Sums run on a stream of their own, beside the backward pass, and each stream waits for the other where it must: the same bytes whichever runs ahead.
# A second of the stand-in's clock is a piece of work.
while read -r eager odd name; do
	check "$name" env STANDIN_EAGER=$eager STANDIN_ODD=$odd LD_LIBRARY_PATH="$with" $run -q --steps 6 --precision f32 --ranks 2 --log-every 1 \
		-o "way-$eager-$odd" s
	same "$name" one-f32 "way-$eager-$odd"
done <<-EOF
	0 0 no stream runs ahead
	1 0 the stream of the work runs ahead
	16 0 the stream of the sums runs ahead
	31 0 all run ahead
	0 5 random ones run ahead
EOF
seconds() { # of sums in the log of DIR, and those that the GPU's own work waited for
	sed -n 's/.*"comm_s":\([^,]*\),"comm_exposed_s":\([^,]*\),.*/\1 \2/p' "$1/train.jsonl" | awk '{ all += $1; exposed += $2 } END { print all, exposed }'
}
check_true "the log has the seconds of sums, of which the GPU's own work waits for fewer where sums run ahead" "$(seconds way-16-0 |
	sed 's/\(.*\) \(.*\)/\1 > 1.5 * \2 \&\& \2 > 1/') && $(seconds way-16-0 | cut -d' ' -f2) < $(seconds way-1-0 | cut -d' ' -f2)"
check "an optimizer that sums whole gradients: one process" train -q --steps 6 --precision f32 --optimizer muon -o one-muon s
check "two GPUs, the stream of the work ahead" env STANDIN_EAGER=1 STANDIN_ODD=0 LD_LIBRARY_PATH="$with" $run -q --steps 6 --precision f32 \
	--optimizer muon --ranks 2 -o two-muon s
same "muon" one-muon two-muon
check "four GPUs" train -q --steps 6 --precision f32 --ranks 4 -o four s
same "four" one-f32 four
check_grep "the log names them too" '"engine":"MPI","sums":"NCCL 2\.[0-9.]*: rank 0 on ' four/train.jsonl
bytes=$(sed -n 's/.*"comm_bytes":\([0-9]*\).*/\1/p' four/train.jsonl | awk '{ n += $1 } END { print n }')
parameters=$(sed -n 's/.*"parameters":\([0-9]*\).*/\1/p' four/train.jsonl)
check_true "and counts what rank 0 sent: 3/2 of the gradient at each of six steps, and little else" \
	"$bytes >= 6 * 1.5 * 4 * $parameters && $bytes < 6 * 1.5 * 4 * $parameters + 400000 + 8 * 4 * $parameters"
check "on the host, two ranks on one GPU" env STANDIN_DEVICES=1 LD_LIBRARY_PATH="$with" $run -q --steps 6 --precision f32 --ranks 2 --sum-on host \
	-o host s
same "on the host" one-f32 host
check_grep "as the log says" '"sums":"host"' host/train.jsonl
check "three steps of two GPUs" train -q --steps 3 --precision f32 --ranks 2 -o moved s
check "extended by one process" train -q --steps 6 --precision f32 --extend -o moved s
check_same "is the run of one process" one-f32/train/step-00000006/weights.safetensors moved/train/step-00000006/weights.safetensors

# What ranks lack
env STANDIN_DEVICES=1 LD_LIBRARY_PATH="$with" $mpi -n 2 $run -q --steps 6 -o shared s 2>err
[ $? -eq 2 ]
tap_result $? "two ranks on one GPU end with 2"
check_grep "both are named" 'ranks 0 and 1 both compute on GPU 0000:00:00.0 of .*: start fewer ranks, or add on the host \(--sum-on host\)' err
mkdir none
ln -s "$standin/libcublasLt.so.13" none/
: >none/libnccl.so.2
with=$PWD/none
check "without NCCL" train -q --steps 6 --precision f32 --ranks 2 -o without s
check_err "rank 0 says where gradients are added, and what is missing" \
	"^ddm-train: gradients are added in the host's memory, which is slower than on the GPUs: rank 0: NCCL cannot be opened: .*libnccl2"
cp "$ERR" said
check_out "once" 1 grep -c 'gradients are added' said
same "without" one-f32 without
ranks -q --steps 6 --sum-on device -o device s 2>err
[ $? -eq 69 ]
tap_result $? "--sum-on device without NCCL ends with 69"
check_grep "and the reason" '--sum-on device: rank 0: NCCL cannot be opened' err
with=$standin
env LD_LIBRARY_PATH="$with" $mpi -n 1 $run -q --steps 6 --precision f32 -o versions s : -n 1 env STANDIN_NCCL_VERSION=22703 $run -q --steps 6 \
	--precision f32 -o versions s 2>err
tap_result $? "two versions of NCCL"
check_grep "are named" "rank 1 on .* has NCCL 2\.27\.3 and rank 0 on .* has 2\.[0-9.]*; they need the same" err
same "versions" one-f32 versions
$mpi -n 2 ddm-train -q --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --batch 8 --steps 2 --predict x0 --cluster all --device cpu \
	--sum-on device -o cpu s 2>err
[ $? -eq 69 ]
tap_result $? "--sum-on device on the CPU ends with 69"
check_grep "and the reason" '--sum-on device: rank 0: it computes on no GPU' err
if ldconfig -p 2>/dev/null | grep -q 'libnccl\.so\.2' && ! nvidia-smi -L >/dev/null 2>&1; then
	mkdir real
	ln -s "$standin/libcublasLt.so.13" real/
	with=$PWD/real
	ranks -q --steps 6 -o real-nccl s 2>err
	[ $? -eq 69 ]
	tap_result $? "NCCL itself, which finds no GPU, ends the training with 69"
	check_grep "and its own words" 'NCCL cannot join the ranks. devices: unhandled cuda error.*--sum-on host does without it' err
	with=$standin
else
	skip "NCCL itself, which finds no GPU" "no libnccl.so.2 here, or a GPU"
fi

# Ranks that are lost. Those that live do not wait for ever for their GPU, and no gradient that is void gets into a checkpoint.
env LD_LIBRARY_PATH="$with" $mpi -n 1 $run -q --steps 400 --precision f32 --comm-timeout 3 --checkpoint-every 2 -o mute s : \
	-n 1 env STANDIN_NCCL_MUTE=11 $run -q --steps 400 --precision f32 --comm-timeout 3 --checkpoint-every 2 -o mute s 2>err
[ $? -eq 69 ]
tap_result $? "a GPU that sends nothing any more ends the training with 69"
check_grep "the sum is named, and the rank whose GPU that is" \
	"rank [01]: .* (has not ended for 3 s|was not begun within 3 s) .--comm-timeout.: rank 1 is past it, and what its GPU sent has not arrived" err
check "its last checkpoint is whole" ddm-check mute
step=$(basename "$(ls -d mute/train/step-* | tail -n 1)")
env LD_LIBRARY_PATH="$with" $run -q --steps 400 --precision f32 --checkpoint-every 2 --keep 1000 -o calm s 2>err2 &
pid=$!
until_true [ -e "calm/train/$step/MANIFEST.json" ]
kill -TERM $pid
wait $pid
check_same "with the weights of an undisturbed run" "mute/train/$step/weights.safetensors" "calm/train/$step/weights.safetensors"
check_same "and its moments" "mute/train/$step/exp_avg.safetensors" "calm/train/$step/exp_avg.safetensors"
env LD_LIBRARY_PATH="$with" STANDIN_NCCL_FAIL=9 $mpi -n 2 $run -q --steps 400 --precision f32 -o broken s 2>err
[ $? -eq 69 ]
tap_result $? "a connection that breaks ends the training with 69"
check_grep "in NCCL's words" 'NCCL .*remote process exited or there was a network error: the stand-in.s connection is closed' err

# lost NAME SIGNAL: rank 1 of two gets a signal once steps are logged; the status is in rc
lost() {
	env LD_LIBRARY_PATH="$with" $mpi -n 2 $run -q --steps 4000 --precision f32 --comm-timeout 3 --checkpoint-every 2 --log-every 1 -o "$1" s 2>err &
	pid=$!
	until_true grep -qs '"step":6,' "$1/train.jsonl"
	victim=$(second_rank "ddm-train .*-o $1 s")
	kill -"$2" $victim
	wait $pid
	rc=$?
	kill -KILL $victim 2>/dev/null
	check "$1: the last checkpoint is whole" ddm-check "$1"
}
lost killed KILL
[ $rc -ne 0 ]
tap_result $? "a killed rank ends the training"
lost stopped STOP
[ $rc -eq 69 ]
tap_result $? "a rank that stands still ends it with 69"
check_grep "with its number" 'rank 0: (rank 1 has not answered for 3 s \(--comm-timeout\)|.* 3 s \(--comm-timeout\): rank 1 does not answer)' err
