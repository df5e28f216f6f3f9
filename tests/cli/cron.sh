# What cron and systemd timers run: new pictures become tars of samples, a command runs once at a time and is silent unless it fails, and the lines of the
# example crontab do what they say. After a kill the next call ends the work with the same bytes.
. "$(dirname "$0")/tap.sh"
need flock comm
unset MAKEFLAGS MFLAGS MAKELEVEL # of the make that runs the tests
PATH=$SRC/share/cron:$PATH
small_pictures

# quiet NAME CMD...: ok when CMD exits 0 and prints nothing
quiet() {
	tap_name=$1
	shift
	tap_run "$@"
	[ $RC -eq 0 ] && [ ! -s "$OUT" ] && [ ! -s "$ERR" ]
	tap_result $? "$tap_name" "exit $RC"
}
names() { tar tf "$1" | sed -n 's/\.png$//p' | paste -s -d ' ' -; }

# ddm-ingest-new
mkdir in in/day1 in/.hidden
cp pics/a/*.png in/day1
cp pics/b/*.png in/.hidden
echo "a note" >in/notes.txt
quiet "pictures that are being written wait" ddm-ingest-new -o out -m 5 in --size 16
check_absent "they make no tar" out/000000.tar
quiet "the first call" ddm-ingest-new -o out -m 0 in --size 16
(cd in && ddm-ingest -q --size 16 -o ../whole.tar day1/*.png)
check_same "takes the pictures of the folder, but no hidden ones" whole.tar out/000000.tar
touch -d '1 hour ago' before
touch -r before out/000000.tar
quiet "a call that finds nothing" ddm-ingest-new -o out -m 0 in --size 16
[ -z "$(find out -name '*.tar' -newer before)" ] && [ ! -e out/000001.tar ]
tap_result $? "changes nothing"
mkdir in/day2
cp pics/b/*.png "in/day2/"
first=$(find in/day2 -name '*.png' | sort | head -n 1)
cp "$first" "in/day2/two words.png"
echo "a caption" >"in/day2/two words.txt"
quiet "new pictures" ddm-ingest-new -o out -m 0 in --size 16
names out/000001.tar | grep -q 'day2/two words' && ! names out/000001.tar | grep -q day1
tap_result $? "make a tar of their own" "$(names out/000001.tar)"
check_out "with their captions" "a caption" tar xOf out/000001.tar "day2/two words.txt"

# Killed before, while and after the tar was written.
cp -r out killed
mkdir in/day3
cp pics/c/*.png in/day3
quiet "an undisturbed call" ddm-ingest-new -o out -m 0 in --size 16
(cd in && find day3 -name '*.png' -printf '%p\0') >killed/000002.list.new
quiet "killed before the tar was there" ddm-ingest-new -o killed -m 0 in --size 16
check_same "the same tar" out/000002.tar killed/000002.tar
mv killed/000002.list killed/000002.list.new
cp out/000002.tar killed
quiet "killed when it was there" ddm-ingest-new -o killed -m 0 in --size 16
check_same "the same tar" out/000002.tar killed/000002.tar
check_absent "nothing is left" killed/000002.list.new killed/000003.tar killed/.new

# A damaged picture, another call at work, wrong calls.
head -c 100 "$first" >in/day3/cut.png
check_exit_any 65 "a damaged picture" ddm-ingest-new -o out -m 0 in --size 16
check_err "is named" 'day3/cut.png'
check_exit_any 0 "and skipped with --skip-bad" ddm-ingest-new -o out -m 0 in --size 16 --skip-bad
check_err "which is said" 'day3/cut.png'
quiet "once" ddm-ingest-new -o out -m 0 in --size 16 --skip-bad
cp "$first" in/day3/late.png
quiet "while another call runs, nothing is done" flock out/.lock ddm-ingest-new -o out -m 0 in --size 16
[ "$(find out -name '*late*' | wc -l)" -eq 0 ] && ! cat out/*.list | grep -qz late
tap_result $? "the picture waits for the next"
check_exit 2 "no folder of samples" ddm-ingest-new in
check_exit 2 "no number of minutes" ddm-ingest-new -o out -m x in
check_exit 66 "no such folder" ddm-ingest-new -o out nothing
check "tars are samples for ddm-cluster" ddm-cluster -q -k 2 -o assign.tsv out/000000.tar out/000001.tar out/000002.tar

# ddm-quiet
quiet "a command that prints and ends well" ddm-quiet lock sh -c 'echo much; echo more >&2'
check_exit_any 4 "a command that fails has its own status" ddm-quiet lock sh -c 'echo the reason; exit 4'
check_err "and its output is shown" '^the reason$'
check_err "after its name" '^ddm-quiet: sh -c .* failed with 4:$'
check_exit_any 75 "an interruption" ddm-quiet lock sh -c 'echo saved; exit 75'
[ ! -s "$ERR" ]
tap_result $? "is silent"
mkfifo gate
ddm-quiet lock sh -c 'echo begun >>runs; cat gate' &
pid=$!
until_true test -e runs
quiet "a second call while the first runs" ddm-quiet lock sh -c 'echo begun >>runs'
kill -KILL $pid
quiet "a third, after the first alone was killed" ddm-quiet lock sh -c 'echo begun >>runs'
check_out "neither ran its command" begun cat runs
echo >gate
until_true flock -n lock true
quiet "a call after that" ddm-quiet lock sh -c 'echo begun >>runs'
check_out "runs its command" "begun
begun" cat runs
cat >waits.sh <<'END'
trap 'echo saved >stopped; exit 75' TERM
: >ready
while :; do sleep 0.05; done
END
ddm-quiet lock sh waits.sh 2>told &
pid=$!
until_true test -e ready
kill -TERM $pid
wait $pid
[ $? -eq 75 ] && [ -e stopped ] && [ ! -s told ]
tap_result $? "SIGTERM is passed on; nothing is said"
check_exit 2 "no command" ddm-quiet lock
check_exit 73 "a lock that cannot be made" ddm-quiet nowhere/lock true

# The example's lines, as cron gives them to sh, on an experiment. Twice: the second time there is nothing to do.
mkdir -p lab/incoming
cp -r pics/. lab/incoming
find lab/incoming -exec touch -d '1 hour ago' {} +
cat >lab/experiment.mk <<END
SAMPLES = samples/000000.tar
RUN = run
K = 2
NET = --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --predict x0
ROUTER_NET = --model dit-nano/8 --hidden 16 --depth 1 --heads 2
EPOCHS = 4
EXPERT_EPOCHS = 4
BATCH = 4
POLICIES = top-1
N = 4
STEPS = 2
EVAL_FLAGS = --metrics kd
COLUMNS = kd=kd-pix
TRAIN_FLAGS = --validate-samples 0
ROUTER_FLAGS = --steps 4 --validate-samples 0
include $SRC/share/recipes/ddm.mk
END
sed -n "s#^[0-9*][^ ]* [^ ]* [^ ]* [^ ]* [^ ]*  *#LAB=$PWD/lab; #p" "$SRC/share/cron/crontab" >lines
check_out "the example has three lines" 3 grep -c . lines
for time in "the first time" "again"; do
	for n in 1 3 2; do
		quiet "line $n of the example, $time" sh -c "$(sed -n "${n}p" lines)"
	done
done
check "it made the report" test -s lab/run/report.html
cp lab/run/shards/cluster_0/*.zst shard 2>/dev/null || cp "$(find lab/run/shards -name '*.zst' | head -n 1)" shard
target=$(find lab/run/shards -name '*.zst' | sort | head -n 1)
chmod u+w "$target"
flip "$target" 100
tap_run sh -c "$(sed -n 2p lines)"
[ $RC -eq 65 ] && grep -q "$(basename "$target")" "$ERR"
tap_result $? "a flipped bit of a shard is reported the next night" "exit $RC"

# Units that systemd would not accept.
if command -v systemd-analyze >/dev/null; then
	mkdir units
	for u in "$SRC"/share/systemd/*; do
		sed "s#/usr/local/share/ddm/cron/ddm-#$SRC/share/cron/ddm-#; s#/usr/local/bin/ddm-#$B/ddm-#" "$u" >"units/${u##*/}"
	done
	for u in ingest-new check resume; do
		tap_run systemd-analyze verify "units/ddm-$u@.service" "units/ddm-$u@.timer"
		! grep -v "Command 'man ddm-" "$ERR" | grep -q 'ddm-' # pages may not be installed
		tap_result $? "systemd accepts the units of ddm-$u"
	done
else
	skip "the units of systemd" "no systemd-analyze (Debian: systemd)"
fi
