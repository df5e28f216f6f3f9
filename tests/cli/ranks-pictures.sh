# Sampling by several ranks that share the pictures, or the two branches of guidance: the same bytes as one process, for every output; resumed by other
# numbers of ranks; killed, frozen and stopped ranks; refusals.
. "$(dirname "$0")/tap.sh"

need_mpi
tar xf "$SRC/tests/golden/tiny-model.tar"
tar xzf "$SRC/tests/golden/paris-model.tar.gz"
run="ddm-sample -q -n 9 --batch 4 --steps 3 --seed 3 --threads 1"

# all_same N NAME: what N ranks made has the bytes of one process
all_same() {
	for f in s.tar s.log s.json s.png; do
		check_same "$1 ranks, $2: $f" one/$f $1/$f
	done
	rm -r $1
}
# at DIR CMD...: CMD in DIR
at() { (cd "$1" && shift && "$@"); }
mkdir one
for o in "--route full" "--route router|top-1|keep:.1" "--route top-2 --solver dopri5 --steps 1000" "--route sample --noise torch --solver sde,step=ancestral" \
	"--route density|full --format jpg"; do
	log="--log s.log"
	case $o in *dopri5*) log= && : >one/s.log ;; esac
	check "one process, $o" at one $run $log --report s.json --grid s.png $o -o s.tar ../ensemble
	case $o in *--route\ full*) counts="2 3 4" ;; *) counts=3 ;; esac
	for n in $counts; do
		mkdir $n
		[ -n "$log" ] || : >$n/s.log
		check "$n ranks, $o" at $n $run $log --report s.json --grid s.png $o --ranks $n -o s.tar ../ensemble
		all_same $n "$o"
	done
	rm one/*
done
for o in "-o s.npz" "-o s/" "--format latent -o s.tar" "-n 1 -o s.png" "--grid s.png"; do
	check "one process, $o" at one $run --route full $o ../ensemble
	mkdir 2
	check "two ranks, $o" at 2 $run --route full $o --ranks 2 ../ensemble
	check "two ranks, $o: the same bytes" diff -r one 2
	rm -r one/* 2
done
check "to standard output, started by mpirun" sh -c "$run --route full ensemble >one/s.tar && $mpi -n 3 $run --route full ensemble >s.tar"
check_same "three ranks, a pipe" one/s.tar s.tar
rm s.tar one/s.tar

# Texts, decoding, guidance
printf 'the cat\n\nA café — in the rain\nthe photo\nthe cat\n' >lines.txt
text="ddm-sample -q --preset paris --steps 2 --batch 2 --threads 1 --prompts lines.txt"
check "prompts, one process" $text --negative-prompt "the photo" --grid one.png -o one.tar model
for how in pictures experts guidance; do
	check "two ranks that share $how" $text --negative-prompt "the photo" --ranks 2 --spread $how --grid two.png -o two.tar model
	check_same "$how: the tar" one.tar two.tar
	check_same "$how: the sheet" one.png two.png
	rm two.tar two.png
done
check "prompts from standard input" sh -c "$text --prompts - --negative-prompt 'the photo' --ranks 2 -o two.tar model <lines.txt"
check_same "the same bytes" one.tar two.tar
rm one.tar two.tar
mkdir pics && tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics
ddm-cluster -q -k 2 -o a.tsv pics && ddm-shard -q -a a.tsv -o shards pics || exit 1
net="--model dit-nano/4 --hidden 64 --depth 1 --heads 2 --batch 4 --lr 1e-3 --threads 1 --steps 3 --predict velocity"
for k in 0 1; do
	ddm-train -q $net --condition cluster --class-dropout .2 --cluster $k -o c/expert_$k shards || exit 1
done
guided="$run --route uniform|full --class all --cfg 3"
for o in "" "--guidance apg" "--guidance apg:beta=-.5 --cfg-after-mixing" "--guidance zero --cfg-rescale .5 --cfg-interval .2...8" "--guide c" "--guide c/expert_0"; do
	check "guided, one process, $o" $guided $o --report one.json -o one.tar c
	for how in pictures:3 guidance:2 guidance:4; do
		check "ranks that share $how, $o" $guided $o --spread ${how%:*} --ranks ${how#*:} --report two.json -o two.tar c
		check_same "$how, $o: the tar" one.tar two.tar
		check_same "$how, $o: the report" one.json two.json
		rm two.tar two.json
	done
	rm one.tar one.json
done

# Killed and continued
rank_1() { second_rank "^ddm-sample .*-o $1 ensemble"; }
long="ddm-sample -n 400 --batch 4 --steps 100 --route top-2 --threads 1 --report s.json"
mkdir whole
check "a run nobody disturbs" at whole $long -q -o s.tar ../ensemble
# begun N: N ranks are at work and have saved more than was there
begun() {
	before=$(cat .s.tar.part.json 2>/dev/null)
	timeout -s KILL 60 $mpi -n "$1" $long --comm-timeout 2 -o s.tar ensemble 2>err &
	pid=$!
	until_true sh -c '[ -s .s.tar.part.json ] && [ "$(cat .s.tar.part.json)" != "$1" ]' - "$before"
}
begun 3
kill -KILL $(own_processes "^ddm-sample .*-o s.tar ensemble")
wait $pid 2>/dev/null
check_absent "killed: no output" s.tar
begun 2
check_grep "another number of ranks goes on" 's.tar: continuing after [0-9]+ of 400 pictures' err
kill -STOP $(rank_1 s.tar)
wait $pid
rc=$?
[ $rc -eq 69 ]
tap_result $? "a rank that stands still ends the sampling with 69"
check_grep "rank 0 names it" 'ddm-sample: rank 0: rank 1 has not answered for 2 s \(--comm-timeout\)' err
check_absent "no output" s.tar
check "what is saved stays" test -s .s.tar.part.json
begun 3
kill -KILL $(rank_1 s.tar)
wait $pid
[ $? -ne 0 ]
tap_result $? "a killed rank ends the sampling"
check_absent "no output" s.tar
check "one process goes on to the end" $long -o s.tar ensemble
check_err "after what was saved" 's.tar: continuing after [0-9]+ of 400 pictures'
check_same "to the same tar" s.tar whole/s.tar
check_same "and the same report" s.json whole/s.json
check "again, by two ranks" $long --ranks 2 -o s.tar ensemble
check_err "is complete" 'complete, nothing to do'
rm s.tar
$long --ranks 2 -o s.tar ensemble 2>err &
pid=$!
until_true test -s .s.tar.part.json
kill -TERM $pid
wait $pid
rc=$?
[ $rc -eq 75 ]
tap_result $? "SIGTERM to the process that started the ranks ends with 75" "$rc"
check_grep "and says what is saved" 's.tar: [0-9]+ of 400 pictures are saved' err
check "two ranks go on to the end" $long --ranks 2 -o s.tar ensemble
check_same "to the same tar" s.tar whole/s.tar

# Refusals
cp -r ensemble broken
flip broken/expert_1/diffusion_pytorch_model.safetensors 2000
check "more ranks than pictures" ddm-sample -n 1 --steps 2 --route full --ranks 3 -o few.png ensemble
check_err "says so" '3 ranks share 1 batches: some ranks have nothing to draw'
$mpi -n 1 $run --route full -o mixed.tar ensemble : -n 1 $run --route full --spread experts -o mixed.tar ensemble 2>err
[ $? -eq 73 ]
tap_result $? "ranks that share other things end with 73"
check_grep "and name it" 'rank 1: started with other options or inputs than rank 0: spread: ' err
$mpi -n 1 $run --route full -o mixed.tar ensemble : -n 1 $run --route full -o mixed.tar broken 2>err
[ $? -eq 73 ]
tap_result $? "ranks with other models end with 73"
check_absent "nothing is made" mixed.tar
check_exit_any 2 "sharing guidance without guidance" $run --route full --spread guidance --ranks 2 -o x.tar ensemble
check_err "is refused" '--spread guidance has no effect with a scale of 1: give --cfg S'
check_exit_any 2 "three ranks that share guidance" $guided --spread guidance --ranks 3 -o x.tar c
check_err "are refused" '3 ranks: --spread guidance needs an even number'
check_exit_any 2 "six, of two experts" $guided --spread guidance --ranks 6 -o x.tar c
check_err "are refused" '6 ranks, but the route uses 2 of the experts of c: each pair of ranks needs one'
check_exit_any 2 "gradients of experts on several ranks" $run --route 'density|top-2' --spread experts --ranks 2 -o x.tar ensemble
check_err "are refused" 'use --spread pictures'

# 1.5 GB of weights for the log on a rank that gets 1 GB; a sanitizer maps terabytes
if ldd "$B/ddm-sample" | grep -Eq 'libasan|libtsan'; then
	skip "a rank without memory" "a sanitizer takes more"
else
	big="$run -n 65536 --batch 65536 --steps 1000 --route top-2 --log x.log -o x.tar ensemble"
	$mpi -n 1 $big : -n 1 sh -c 'ulimit -v 1000000; exec "$@"' - $big 2>err
	rc=$?
	[ $rc -eq 71 ]
	tap_result $? "a rank without memory ends the sampling with 71" "$rc"
	check_grep "which names the way out" 'rank 1: .*out of memory: [0-9]+ bytes; each rank holds the whole model: with --spread experts' err
	check_absent "nothing is made" x.tar x.log
fi
