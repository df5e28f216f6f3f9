# ddm-status: trainings that run, were killed, are finished or never began; the table, JSON and the page; --watch; damaged logs.
. "$(dirname "$0")/tap.sh"

check_program ddm-status

# log DIR STEPS LOSS: a log up to step STEPS of 100
log() {
	mkdir -p "$1"
	{
		echo '{"event":"start","step":0,"steps":100,"attempt":2,"seconds_before":1800,"time":1700000000,"host":"node-1","pid":7,"device":"cuda",'\
'"samples":50,"stamp":{"program":"ddm-train","batch":4}}'
		awk -v n="$2" -v loss="$3" 'BEGIN { for (i = 10; i <= n; i += 10) printf "{\"step\":%d,\"loss\":%g,\"images_per_s\":8,'\
'\"percent_of_peak\":42.4,\"seconds\":%d,\"memory_peak\":1234567890}\n", i, loss / i, 18 * i }'
	} >"$1/train.jsonl"
}
log m/expert_0 100 10
echo '{"event":"end","step":100,"seconds":1800}' >>m/expert_0/train.jsonl
log m/expert_2 50 20
mkdir -p m/expert_2/train/step-00000040 m/expert_3/train
echo '{}' >m/expert_2/train/step-00000040/MANIFEST.json
log m/router 0 0
check_out "the table" "run       state               step  images/s  peak  ETA  loss curve    loss  saved  restarts   memory  node
expert_0  finished         100/100       8.0   42%    -  #+=~-..___  0.1000      -         1  1.23 GB  node-1
expert_1  never started          -         -     -    -                   -      -         -        -  -
expert_2  stopped           50/100       8.0   42%    -  #=-._       0.4000   AGE         1  1.23 GB  node-1
expert_3  failed to start        -         -     -    -                   -      -         -        -  -
router    failed to start    0/100         -     -    -                   -      -         1        -  node-1
1 never started, 2 failed to start, 1 stopped, 1 finished
expert_3: failed to start: the trainer ended before its first log line
router: failed to start: the trainer ended before its first log line" sh -c "ddm-status m | sed 's/ *0:[0-9][0-9] /   AGE /'"
check "costs" ddm-status --cost-per-hour 4 m
check_grep "of each" '^expert_0 .* 4\.00$' "$OUT"
check_grep "of all" '; cost so far 9\.00$' "$OUT"
check "experts that are not there yet" ddm-status --experts 6 m
check_grep "are shown" '^expert_5 *never started' "$OUT"
check "blocks with a locale of UTF-8" env LC_ALL=C.UTF-8 ddm-status m/expert_2
check_grep "as a curve" ' █▅▃▂▁ ' "$OUT"
check "several operands" ddm-status m m/expert_2/
check_grep "have their paths" '^m/expert_2 *stopped' "$OUT"
check "JSON" ddm-status --json --cost-per-hour 4 m
[ "$(tap_lines "$OUT")" -eq 1 ]
tap_result $? "is one line"
check_grep "of all runs" '^\{"time":[0-9]+,"runs":\[\{"name":"expert_0","path":"m/expert_0","network":"expert","state":"finished","step":100,"steps":100,' "$OUT"
check_grep "null for what is not known" '"name":"expert_1","path":"m/expert_1","network":"expert","state":"never started","step":null,' "$OUT"
check_grep "with the notes and the cost" '"notes":\["expert_3: failed .*\],"cost":9\.0\}$' "$OUT"

check_exit 66 "no such folder" ddm-status nowhere
check_err "named" 'nowhere'
mkdir empty
check_exit 66 "an empty folder" ddm-status empty
check_err "named" "^ddm-status: empty: neither a training's folder nor a folder of them"
check_exit 2 "no operand" ddm-status
check_exit 2 "JSON and a page" ddm-status --json --html x.html m
check_exit 2 "an interval for nothing" ddm-status --interval 3 m
check_exit 2 "a share above 1" ddm-status --straggler 1.5 m
check_stdout "the table" ddm-status m
check_stdout "JSON" ddm-status --json m

# Damaged and unreadable logs are named, and the others shown.
cp -R m bad
printf '{"step":60,"lo\n{"step":70,"loss":1}\n' >>bad/expert_2/train.jsonl
rm bad/router/train.jsonl
mkdir bad/router/train.jsonl
check_exit_any 65 "damaged logs" ddm-status bad
check_err "a line" '^ddm-status: bad/expert_2/train.jsonl:7: not a JSON object$'
check_err "a folder in place of a log" '^ddm-status: bad/router/train.jsonl: not a file$'
check_grep "an intact one" '^expert_0 *finished *100/100' "$OUT"
check_grep "the intact lines" '^expert_2 *stopped *70/100' "$OUT"
check_exit_any 65 "in JSON" ddm-status --json bad
check_grep "too" '"damaged_lines":1,"error":"bad/expert_2/train.jsonl:7: not a JSON object"' "$OUT"
printf '{"step":80,"loss":1' >>m/expert_2/train.jsonl
check "a line that is still written" ddm-status m
check_grep "waits" '^expert_2 *stopped *50/100' "$OUT"

# The page
check "a page" ddm-status --html page.html --interval 7 m
[ ! -s "$OUT" ]
tap_result $? "in place of the table"
for want in '<meta http-equiv="refresh" content="7">' '<th scope="row">expert_1</th>' 'Loss of the experts' 'router: failed to start' '<td class="n">never started' \
	'Rate of the experts'; do
	check_grep "it has $want" "$want" page.html
done
check_exit_any 1 "nothing from elsewhere" grep -Eiq '(src|href|action|data)="?(https?:)?//|url\(|@import|<(script|link|iframe|object|embed)|https?:' page.html
check "again" ddm-status --html page.html m/expert_0
check_exit_any 1 "a page of finished runs is not loaded again" grep -q 'http-equiv="refresh"' page.html
check "is whole" ddm-check page.html
echo mine >other.html
check_exit 73 "another file stays" ddm-status --html other.html m
check_grep "as it was" '^mine$' other.html
check "a page without any log" ddm-status --html none.html m/expert_1
check_clean "no temporary" .

# A terminal sees the table again and again, until a signal or the end.
check_exit_any 75 "SIGINT ends --watch" timeout --preserve-status -s INT 2 ddm-status --watch --interval 1 m
check_err "and says what is left" '^ddm-status: interrupted: 4 of 5 trainings are not finished$'
[ "$(grep -c '^run ' "$OUT")" -ge 2 ]
tap_result $? "it was shown again"
check "finished runs end it" timeout 60 ddm-status --watch m/expert_0
check "JSON and a page too" timeout 60 ddm-status --watch --html page.html m/expert_0
if command -v script >/dev/null 2>&1 && script -qec true /dev/null </dev/null >/dev/null 2>&1; then
	script -qec "stty rows 4 cols 40; exec timeout 60 ddm-status --watch m/expert_0" /dev/null </dev/null >tty.raw 2>/dev/null
	tr -d '\r' <tty.raw >tty
	check_grep "a terminal is cleared" "$(printf '^\033\\[2J\033\\[Hrun  ')" tty
	check_grep "lines are cut to its width" "$(printf '^expert_0  finished  100/100       8.0   \033\\[K$')" tty
else
	skip "a terminal" "no script(1) that makes one"
fi

# A real training, that is halted, killed and finished
. "$SRC/tests/faults/hold.sh"
tar xzf "$SRC/tests/golden/eval-a.tar.gz" --one-top-level=pics
ddm-cluster -q -k 2 -o a.tsv pics && ddm-shard -q -a a.tsv -o s pics || exit 1
run="ddm-train -q --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --predict x0 --batch 8 --threads 1 --steps 60 --checkpoint-every 20 --log-every 5 --cluster 0 -o r/expert_0 s"
mkdir -p r
held r/expert_0 step-00000040 $run
check "while it runs" ddm-status r
check_grep "it is running" "^expert_0  running *[0-9]+/60 .* 0  .*  $(hostname)" "$OUT"
check "with a short limit" sh -c 'sleep 1.1; ddm-status --stale 1s r'
check_grep "it is stale" '^expert_0  stale ' "$OUT"
check_grep "in a line" '^expert_0: stale: nothing was logged for 0:0[1-9], but a process holds the lock' "$OUT"
kill -KILL $pid
wait $pid 2>/dev/null
check "killed" ddm-status r
check_grep "it is stopped, with the checkpoint before" '^expert_0  stopped ' "$OUT"
check "to the end" $run
check "finished" ddm-status --json r
check_grep "after a restart" '"state":"finished","step":60,"steps":60,.*"restarts":1,' "$OUT"
check_grep "the seconds before are logged" '"event":"start","step":20,"steps":60,"attempt":2,"seconds_before":[0-9.e-]+,' r/expert_0/train.jsonl
check_exit_any 1 "and are not zero" grep -q '"attempt":2,"seconds_before":0.0,' r/expert_0/train.jsonl
