# The log and the checkpoints of a run that was interrupted and killed equal those of an undisturbed one: each step once, the same losses, the
# same files with the same bytes.
. "$(dirname "$0")/tap.sh"
. "$SRC/tests/faults/hold.sh"

tar xzf "$SRC/tests/golden/eval-a.tar.gz"
ddm-cluster -q -k 2 --holdout .25 -o a.tsv . && ddm-shard -q -a a.tsv --holdout .25 -o s . || exit 1
run="ddm-train -q --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --predict x0 --batch 8 --threads 1 --cluster all"
long="$run --steps 60 --checkpoint-every 9 --keep 3 --keep-every 15 --log-every 7 --validate-every 20 --sample-every 20"
lines() { grep '^{"step"' "$1/train.jsonl" | sed 's/,"images_per_s".*//'; }

check "a run nobody disturbs" $long -o whole s
check_out "its lines" "7 14 20 21 28 35 40 42 49 56 60" sh -c "sed -n 's/^{\"step\":\([0-9]*\),.*/\1/p' whole/train.jsonl | paste -sd ' '"
check_out "its checkpoints: the newest three, and those of --keep-every" "15 30 45 54 60" \
	sh -c "ls whole/train | sed -n 's/^step-0*//p' | paste -sd ' '"
check_grep "carry the seconds since the start" '^{"step":7,.*"seconds":[0-9]+\.[0-9e+-]+,' whole/train.jsonl

# The squares of the blocks' norms add up to that of the gradient's; the samples by time are those of the steps since the last line.
if command -v jq >/dev/null; then
	check "the norm of each block's gradient" jq -se 'map(select(.step and .event == null)) | length == 11 and all(.[]; (.grad_norm_by_block | has("blocks.0") and has("x_embedder")) and
		((.grad_norm_by_block | map(. * .) | add | sqrt) / .grad_norm - 1 | fabs < 1e-6))' whole/train.jsonl
	check "the loss by time" jq -se '[map(select(.step and .event == null))[] | [.step, (.loss_by_time | map(.n) | add), (.loss_by_time | (map(.n * .loss) | add) / (map(.n) | add)) / .loss]] |
		. as $l | all(range(length); $l[.][1] == 8 * ($l[.][0] - (if . > 0 then $l[. - 1][0] else 0 end)) and ($l[.][2] - 1 | fabs < 1e-5))' whole/train.jsonl
	check "validation by time" jq -se 'map(select(.val_by_time)) | length == 3 and all(.[]; (.val_by_time | (map(.n * .loss) | add) / (map(.n) | add)) / .val_loss - 1 | fabs < 1e-5)' whole/train.jsonl
	check "a run whose validations take longer than the writing of a line" ddm-train -q --model dit-nano/2 --depth 2 --batch 1 --threads 1 \
		--cluster all --steps 6 --validate-every 2 --log-every 1 -o slow s
	check "the speed is that of training alone" jq -se '[map(select(.step and .event == null))[] | [.seconds, .images_per_s, (.validate_s // 0), has("val_loss")]] |
		. as $l | length == 6 and all(.[]; (.[2] > 0) == .[3]) and
		all(range(1; length); $l[.][1] * ($l[.][0] - $l[. - 1][0] - $l[.][2]) >= 1 - 1e-6)' slow/train.jsonl
else
	skip "the details of a line" "no jq"
fi

# Interrupted at a step at which no checkpoint is due, then killed while one is written, after later lines of the log were written
held broken samples-00000020 $long -o broken s
kill -TERM $pid
await "SIGTERM is taken note of" noted $pid
: >"$hold.go"
gone 75 "SIGTERM while a sheet is drawn" broken
check_err "the step is saved" 'step 20 of 60'
[ -d broken/train/step-00000020 ] && [ -d broken/train/step-00000009 ]
tap_result $? "beside the others"
held broken step-00000054 $long -o broken s
lines broken >lines.before
kill -KILL $pid
wait $pid
check_grep "killed with step 49 in the log" '"step":49,' lines.before
check "to the end" $long -o broken s
lines whole >whole.lines
lines broken >broken.lines
check_same "the same lines, each once" whole.lines broken.lines
check "the same files with the same bytes" diff -r -x train.jsonl -x .lock whole broken
check_out "three starts" 3 grep -c '"event":"start"' broken/train.jsonl
check_out "one end" 1 grep -c '"event":"end"' broken/train.jsonl
check "the log is read" ddm-info broken/train.jsonl

# A checkpoint of an earlier version does not hold the sums for the next line of the log.
cp -R whole old && rm old/diffusion_pytorch_model.safetensors && rm -r old/train/step-00000060
sed -i '/"loss_sum"/d; /"loss_count"/d; /"line_step"/d' old/train/step-00000054/MANIFEST.json
check "going on from it" $long -o old s
check "the same files with the same bytes" diff -r -x train.jsonl -x .lock -x step-00000054 whole old

# On a terminal: progress, speed and remaining time
if command -v script >/dev/null 2>&1 && script -qec true /dev/null </dev/null >/dev/null 2>&1; then
	script -qec "ddm-train ${run#ddm-train -q} --steps 500 -o tty s" /dev/null </dev/null >"$OUT" 2>/dev/null
	tr '\r' '\n' <"$OUT" >tty.lines
	check_grep "the first step is told" 'step [0-9]+/500 \([0-9]+%\)' tty.lines
	check_grep "done, rate and ETA" 'step [0-9]+/500 \([0-9]+%\): loss [0-9.]+, [0-9]+ images/s, .*, ETA [0-9]+:[0-9][0-9]:[0-9][0-9]' tty.lines
	check_grep "at the end there is no ETA" 'step 500/500 \(100%\): loss [^E]*$' tty.lines
else
	skip "a terminal" "no script(1) that makes one"
fi
