# ddm-encode killed with kill -9 or interrupted, and run again: it continues after the samples that it has, and gives the bytes of an
# undisturbed run. It repeats the work that it must not continue.
. "$(dirname "$0")/tap.sh"

vae=$SRC/tests/golden/autokl clip=$SRC/tests/golden/pretrained/text-clip dino=$SRC/tests/golden/pretrained/dinov2-224
mkdir one many whole
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C one
i=100
while [ $i -lt 120 ]; do
	i=$((i + 1))
	for f in one/*.png; do ln "$f" "many/$i-${f##*/}"; done
done
cut_to many/105-0003.png 100 # in the third batch of 64 or so
# The third sample is truncated. Its header is intact, so the fault is found only in decoding.
n=$(find many -name '*.png' | wc -l)
seq -f 'a photo of the cat %.0f' 1 5000 >lines.txt
echo "a photo of the cat and the dog and the cat and the dog and the cat and the dog and the cat and the dog" >>lines.txt

# fresh NAME: the report does not say that the work was continued
# killed FILE CMD...: sends SIGNAL to CMD once the state of FILE has grown; SAVED: the state then. Fails if CMD ends before.
SIGNAL=KILL
fresh() {
	! grep -q 'continuing after' "$ERR"
	tap_result $? "$1"
}
killed() {
	state=$(dirname "$1")/.$(basename "$1").part.json
	before=$(cat "$state" 2>/dev/null)
	shift
	"$@" 2>"$ERR" &
	pid=$!
	while kill -0 $pid 2>/dev/null; do
		now=$(cat "$state" 2>/dev/null)
		[ "$now" = "$before" ] || break
	done
	kill -$SIGNAL $pid 2>/dev/null
	wait $pid 2>/dev/null
	SAVED=$(sed 's/.*"mark":\[[0-9]*,\([0-9]*\).*/\1/' "$state" 2>/dev/null)
	[ -n "$SAVED" ]
}

# resumed NAME OUT CMD...: CMD is killed twice, then runs to its end, and gives the bytes of whole/OUT
resumed() {
	name=$1 out=$2 first=
	shift 2
	for try in 1 2 3 4 5 6 7 8 9 10; do
		rm -f "$out"
		killed "$out" "$@" || continue
		first=$SAVED
		killed "$out" "$@" && break
	done
	check_absent "$name: killed twice: no output" "$out"
	[ "${SAVED:-0}" -gt "$first" ]
	tap_result $? "$name: the second had gone on" "$first, then $SAVED"
	check "$name: to the end" "$@"
	cp "$ERR" report
	check_err "$name: after what was there" "continuing after $SAVED samples"
	check_same "$name: the bytes of an undisturbed run" "$out" "whole/$out"
	check_out "$name: nothing is left" "" find . -name ".*$out*"
}

check "captions" ddm-encode -m "$clip" --captions -o whole/lines.tar lines.txt
cp "$ERR" whole.err
check_grep "one is cut" '1 captions were longer' whole.err
resumed captions lines.tar ddm-encode -m "$clip" --captions -o lines.tar lines.txt
check "its report" sh -c "grep -v 'continuing after' report | cmp - whole.err"

check "latents" ddm-encode -m "$vae" --skip-bad --posterior sample --flip -o whole/latents.tar many
cp "$ERR" whole.err
check_grep "a bad one" '1 samples skipped' whole.err
resumed latents latents.tar ddm-encode -m "$vae" --skip-bad --posterior sample --flip --threads 1 -o latents.tar many
check_grep "counted once, whoever met it" '1 samples skipped' report
SAVED=
for try in 1 2 3 4 5 6 7 8 9 10; do
	[ "${SAVED:-0}" -lt 300 ] || break
	rm -f latents.tar
	killed latents.tar ddm-encode -m "$vae" --skip-bad --max-errors 0 --posterior sample --flip -o latents.tar many
done
check_exit_any 3 "and where too many were met before the kill" ddm-encode -m "$vae" --skip-bad --max-errors 0 --posterior sample --flip -o latents.tar many
check_err "so" "continuing after $SAVED samples"

check "features" ddm-encode -m "$dino" --skip-bad --keys whole/keys -o whole/f.npy many
resumed features f.npy ddm-encode -m "$dino" --skip-bad --keys keys -o f.npy many
check_same "the stamp" f.npy.json whole/f.npy.json
check_same "the keys" keys whole/keys

# Interrupted
SIGNAL=TERM
for try in 1 2 3 4 5 6 7 8 9 10; do
	rm -f lines.tar
	killed lines.tar ddm-encode -m "$clip" --captions -o lines.tar lines.txt && break
done
check_err "told" 'samples are saved: run the same command again to continue'
check "the same command" ddm-encode -m "$clip" --captions -o lines.tar lines.txt
check_err "goes on" 'continuing after'
check_same "to the same bytes" lines.tar whole/lines.tar
SIGNAL=KILL

# Work that cannot be continued
again() {
	for try in 1 2 3 4 5 6 7 8 9 10; do
		rm -f lines.tar
		killed lines.tar ddm-encode -m "$clip" --captions -o lines.tar lines.txt && break
	done
	[ -e .lines.tar.part.json ]
	tap_result $? "$1: killed" "over before"
}
done_again() {
	check "$1: again" ddm-encode -m "$clip" --captions -o lines.tar lines.txt
	fresh "$1: from the start"
	check_same "$1: the same bytes" lines.tar whole/lines.tar
	check_out "$1: nothing is left" "" find . -name '.lines*'
}
again "a flipped bit"
flip .lines.tar.part 3000
done_again "a flipped bit"
again "other options"
check "other options" ddm-encode -m "$clip" --captions --dtype f32 -o lines.tar lines.txt
fresh "from the start"
check "their bytes" ddm-encode -q -m "$clip" --captions --dtype f32 -o whole/wide.tar lines.txt
check_same "alone" lines.tar whole/wide.tar
# Two at once
rm lines.tar
if command -v flock >/dev/null; then
	echo theirs >.lines.tar.part
	sh -c 'exec 9<.lines.tar.part && flock 9 && exec sleep 60' &
	pid=$!
	while flock -n .lines.tar.part true; do sleep .05; done
	check_exit 73 "another writes it" ddm-encode -m "$clip" --captions -o lines.tar lines.txt
	check_err "told" 'lines.tar: is being written by another process'
	check_out "and is not disturbed" theirs cat .lines.tar.part
	kill $pid
	wait $pid
else
	skip "another writes it" "no flock"
fi
check "alone" ddm-encode -q -m "$clip" --captions -o lines.tar lines.txt
check_same "the same bytes" lines.tar whole/lines.tar

# A process that died between its commit and its cleanup
echo '{}' >.lines.tar.part.json
check "what is there" ddm-encode -m "$clip" --captions -o lines.tar lines.txt
check_err "is known" ': exists already'
check_absent "and tidied" .lines.tar.part.json

# Nothing is kept of an input that cannot be read again
{ cat lines.txt; sleep 3; } | ddm-encode -q -m "$clip" --captions -o piped.tar - 2>"$ERR" &
pid=$!
sleep 1
kill -KILL $pid
wait $pid
check_out "of a pipe nothing is kept" "" find . -name '.piped.tar.part*'
