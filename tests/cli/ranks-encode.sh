# ddm-encode on several ranks: the same bytes and reports as one process; resumed by other numbers of ranks; killed, frozen and stopped ranks; refusals.
. "$(dirname "$0")/tap.sh"

need_mpi
vae=$SRC/tests/golden/autokl clip=$SRC/tests/golden/pretrained/text-clip dino=$SRC/tests/golden/pretrained/dinov2-224
mkdir one many whole
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C one
i=100
while [ $i -lt 108 ]; do
	i=$((i + 1))
	for f in one/*.png; do ln "$f" "many/$i-${f##*/}"; done
done
mkdir bad && cp many/* bad
cut_to bad/105-0003.png 100 # found only in decoding, in the third batch of 64
seq -f 'a photo of the cat %.0f' 1 300 >lines.txt
echo "a photo of the cat and the dog and the cat and the dog and the cat and the dog and the cat and the dog" >>lines.txt
encode="ddm-encode --threads 1"

# same NAME OUT CMD...: OUT by two and three ranks is that of one process
same() {
	name=$1 out=$2
	shift 2
	check "$name: one process" "$@" -o "whole/$out"
	cp "$ERR" whole.err
	for n in 2 3; do
		check "$name: $n ranks" "$@" --ranks $n -o "$out"
		check_grep "$name: $n ranks: how they are connected" "^$n ranks by MPI, network interfaces: (none|lo)\$" "$ERR"
		sed '/ ranks by MPI, /d' "$ERR" >report
		check_same "$name: $n ranks: the same bytes" "$out" "whole/$out"
		check_same "$name: $n ranks: the same report" report whole.err
		rm "$out"
	done
}
same latents latents.tar $encode -m "$vae" --skip-bad --posterior sample --flip bad
check_grep "a bad one is counted" '1 samples skipped' whole.err
same pictures pictures.tar $encode -m "$vae" -d whole/latents.tar
same captions lines.tar $encode -m "$clip" --captions lines.txt
check_grep "one is cut" '1 captions were longer' whole.err
same features features.npy $encode -m "$dino" --keys keys many
mv keys whole.keys
check "keys, two ranks" $encode -m "$dino" --keys keys --ranks 2 -o features.npy many
check_same "the same keys" keys whole.keys
check_same "the same facts" features.npy.json whole/features.npy.json
check "through pipes, ranks by mpirun" sh -c "tar chf - --hard-dereference many | $mpi -n 2 $encode -m '$vae' --posterior sample - | cat >pipe.tar"
check "and one process" sh -c "tar chf - --hard-dereference many | $encode -m '$vae' --posterior sample - >whole/pipe.tar && test -s whole/pipe.tar"
check_same "the same bytes" pipe.tar whole/pipe.tar

# An error ends all ranks, and nothing is left
$mpi -n 2 $encode -m "$vae" -o error.tar bad 2>err
[ $? -eq 65 ]
tap_result $? "a bad sample ends two ranks with 65"
check_grep "it is named" '105-0003.png: truncated PNG' err
check_out "nothing is left" "" find . -name '.*error.tar*' -o -name error.tar
check_exit_any 3 "too many bad ones" $encode -m "$vae" --skip-bad --max-errors 0 --ranks 2 -o three.tar bad
rm three.tar

# Killed, frozen, stopped and continued
# Large pictures: the work takes seconds, so that a rank that is sent a signal after the first save is still at work.
long="ddm-encode -m $vae --size 128 --skip-bad --posterior sample --flip --threads 1 --comm-timeout 2"
rank_1() { second_rank "^ddm-encode .*-o k.tar"; }
# begun N: N ranks are at work and have saved more than was there
begun() {
	before=$(cat .k.tar.part.json 2>/dev/null)
	timeout -s KILL 60 $mpi -n "$1" $long -o k.tar bad bad2 bad3 2>err &
	pid=$!
	until_true sh -c '[ -s .k.tar.part.json ] && [ "$(cat .k.tar.part.json)" != "$1" ]' - "$before"
}
for i in 2 3; do
	mkdir bad$i
	for f in bad/*.png; do ln "$f" "bad$i/$i-${f##*/}"; done
done
check "a run nobody disturbs" $long -o whole/k.tar bad bad2 bad3
begun 3
kill -KILL $(own_processes "^ddm-encode .*-o k.tar")
wait $pid 2>/dev/null
check_absent "killed: no output" k.tar
begun 2
kill -STOP $(rank_1)
wait $pid
rc=$?
[ $rc -eq 69 ]
tap_result $? "a rank that stands still ends the work with 69" "$rc"
check_grep "which had gone on" 'continuing after [0-9]+ samples' err
check_grep "rank 0 names it" 'ddm-encode: rank 0: rank 1 has not answered for 2 s \(--comm-timeout\)' err
check_absent "no output" k.tar
check "three ranks go on to the end" $long --ranks 3 -o k.tar bad bad2 bad3
check_err "after what was saved" 'continuing after [0-9]+ samples'
check_err "with the bad ones counted once" '3 samples skipped'
check_same "to the same bytes" k.tar whole/k.tar
check "again" $long --ranks 2 -o k.tar bad bad2 bad3
check_err "is there already" 'k.tar: exists already'
rm k.tar
$long --ranks 2 -o k.tar bad bad2 bad3 2>err &
pid=$!
until_true test -s .k.tar.part.json
kill -TERM $pid
wait $pid
rc=$?
[ $rc -eq 75 ]
tap_result $? "SIGTERM to the process that started the ranks ends with 75" "$rc"
check_grep "and says what is saved" '[0-9]+ samples are saved: run the same command again' err
check "one process goes on" $long -o k.tar bad bad2 bad3
check_same "to the same bytes" k.tar whole/k.tar

# Refusals
$mpi -n 1 $encode -m "$vae" -o mixed.tar many : -n 1 $encode -m "$vae" --flip -o mixed.tar many 2>err
[ $? -eq 73 ]
tap_result $? "ranks with other options end with 73"
check_grep "rank 0 names the rank and the option" 'rank 1: started with other options or inputs than rank 0: flip: ' err
check_absent "nothing is made" mixed.tar
