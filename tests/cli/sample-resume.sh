# ddm-sample killed with kill -9 or interrupted, and run again: it continues after the pictures that it has, and gives the bytes of an undisturbed
# run. If it must not continue, it starts over and says so.
. "$(dirname "$0")/tap.sh"

tar xf "$SRC/tests/golden/tiny-model.tar"
mkfifo hold || skip_all "no FIFO"
run="ddm-sample -n 60 --batch 4 --steps 4 --route top-2"

# begun CMD...: runs CMD until a part is saved and, if UNTIL is set, that text was printed; then SIGNAL ends it.
# With HOLD it cannot finish: before the tar it writes its timing
# to a FIFO that nobody reads. SAVED: number of pictures kept.
SIGNAL=KILL UNTIL= HOLD="--timing hold"
begun() {
	: >"$ERR"
	"$@" $HOLD 2>"$ERR" &
	pid=$!
	tries=0
	while { [ ! -s .s.tar.part.json ] || { [ -n "$UNTIL" ] && ! grep -q "$UNTIL" "$ERR"; }; } && kill -0 $pid 2>/dev/null && [ $tries -lt 1200 ]; do
		sleep 0.05
		tries=$((tries + 1))
	done
	kill -$SIGNAL $pid 2>/dev/null
	wait $pid 2>/dev/null
	RC=$?
	SAVED=$(sed 's/.*"mark":\[\([0-9]*\),.*/\1/' .s.tar.part.json)
	[ "${SAVED:-0}" -ge 4 ] && [ ! -e s.tar ]
	tap_result $? "ended by $SIGNAL with a part saved: ${SAVED:-none}"
}
clean() {
	check_out "nothing is left" "" find . -name '.s.tar*'
}

mkdir whole
check "a run nobody disturbs" $run -o whole/s.tar --grid whole/s.png --report whole/s.json ensemble
cp "$ERR" whole/err

begun $run -o s.tar ensemble
check "the same command" $run -o s.tar --grid s.png --report s.json ensemble
check_err "goes on" "^s\.tar: continuing after $SAVED of 60 pictures$"
check_same "to the same tar" s.tar whole/s.tar
check_same "the same sheet" s.png whole/s.png
check_same "the same report" s.json whole/s.json
clean
check "again" $run -o s.tar ensemble
check_err "is complete" 'complete, nothing to do'
rm s.tar

begun $run -o s.tar ensemble
first=$SAVED UNTIL="continuing after"
begun $run -o s.tar ensemble
UNTIL=
check_err "the second had gone on" "continuing after $first of 60"
check "in other batches, with other threads" $run --batch 7 --threads 2 -o s.tar ensemble
check_err "goes on" "continuing after $SAVED of 60"
check_same "to the same tar" s.tar whole/s.tar
clean
rm s.tar

# Interrupted long before its end
long="ddm-sample -n 100000 --batch 4 --steps 4 --route top-2"
SIGNAL=TERM HOLD=
begun $long -o s.tar ensemble
[ $RC -eq 143 ]
tap_result $? "called off: ended by that signal" "exit $RC"
check_err "told" "^s\.tar: $SAVED of 100000 pictures are saved: run the same command again to continue$"
first=$SAVED SIGNAL=KILL UNTIL="continuing after"
begun $long -o s.tar ensemble
check_err "the same command goes on" "continuing after $first of 100000"
UNTIL= HOLD="--timing hold"
rm .s.tar.part .s.tar.part.json

begun $run -o s.tar ensemble
check "quietly" $run -q -o s.tar ensemble
[ ! -s "$ERR" ]
tap_result $? "nothing is said"
check_same "the same tar" s.tar whole/s.tar
rm s.tar

# Formats with other members
check "WebP" $run --format webp -o whole/w.tar --grid whole/w.png guided --route expert:0 --class all
begun $run --format webp -o s.tar guided --route expert:0 --class all
check "goes on" $run --format webp -o s.tar --grid w.png guided --route expert:0 --class all
check_err "so" "continuing after $SAVED of 60"
check_same "the same tar" s.tar whole/w.tar
check_same "the same sheet" w.png whole/w.png
clean
rm s.tar

# Solvers with noise at every step, with two evaluations, with a memory of earlier steps, and with steps of their own
for solver in sde edm-heun,churn=2 unipc3 "dopri5,rtol=1,atol=1 --steps 300 --route full" "sde --noise torch"; do
	check "$solver" $run --solver $solver -o whole/n.tar ensemble
	begun $run --solver $solver -o s.tar ensemble
	check "$solver: the same command, in other batches" $run --solver $solver --batch 7 --threads 2 -o s.tar ensemble
	check_err "goes on" "continuing after $SAVED of 60"
	check_same "to the same tar" s.tar whole/n.tar
	rm s.tar whole/n.tar
done

# Work that cannot be continued
check "another seed" $run --seed 5 -o whole/5.tar ensemble
begun $run -o s.tar ensemble
check "other options" $run --seed 5 -o s.tar ensemble
check_err "start over and say so" '^s\.tar: starting over: the unfinished output there is of another command$'
check_same "to their own bytes" s.tar whole/5.tar
clean
rm s.tar
begun $run -o s.tar ensemble
flip .s.tar.part 1500
check "a flipped bit" $run -o s.tar ensemble
check_err "starts over and says so" '^s\.tar: starting over: the unfinished output there is damaged$'
check_same "to the same bytes" s.tar whole/s.tar
clean
rm s.tar
begun $run -o s.tar ensemble
sed -i 's/"evaluations":\[[0-9]*\]/"evaluations":[]/' .s.tar.part.json
check "counts that are not there" $run -o s.tar --report t.json ensemble
check_err "start over" 'starting over'
check_same "to the same bytes" s.tar whole/s.tar
check_same "and the same report" t.json whole/s.json
clean
rm s.tar

# A log has a line for every picture: nothing is kept
ddm-sample -n 60 --batch 4 --steps 4 --route top-2 -o s.tar --log s.jsonl $HOLD ensemble 2>"$ERR" &
pid=$!
tries=0
while [ -z "$(find . -name '.s.jsonl.tmp*' -size +0)" ] && kill -0 $pid 2>/dev/null && [ $tries -lt 1200 ]; do
	sleep 0.05
	tries=$((tries + 1))
done
kill -KILL $pid 2>/dev/null
wait $pid 2>/dev/null
check_absent "with --log nothing is kept" .s.tar.part.json
check "the same command" $run -o s.tar --log s.jsonl ensemble
[ "$(tap_lines s.jsonl)" -eq 60 ]
tap_result $? "has a line for every picture"
check_same "the same tar" s.tar whole/s.tar
check_out "nothing is left" "" find . -name '.s.*'
