# The demo's recipe at its smallest setting, killed with kill -9 at random moments together with make, and started again: in the end
# every output has the bytes of an undisturbed run. Only files with measured times may differ: the
# logs, and the page that draws them.
. "$(dirname "$0")/tap.sh"

command -v ddm-ingest >/dev/null || skip_all "ddm-ingest is not built (--without-media)"
need make setsid

small_pictures
cat >recipe <<END
tiny="--hidden 16 --depth 1 --heads 2"
dir=\$1
shift
exec make -s "\$@" -f '$SRC/share/recipes/demo.mk' BIN='$B' DEMO="\$dir" DATA=pics SIZE=16 K=3 BATCH=24 ROUTER_BATCH=8 IMAGES=1200 N=6 \\
	NET="--model dit-nano/8 --predict x0 \$tiny" ROUTER_NET="--model dit-nano/8 \$tiny" STEPS=3 \\
	TRAIN_FLAGS="--lr 1e-3 --checkpoint-every 5 -q" ROUTER_FLAGS="--steps 24 --lr 1e-3 --checkpoint-every 5 -q" \\
	COLUMNS="kd=kd-pix,fd=fd-pix,memorised=memorised,gflop_per_image=gflop_per_image"
END
sums() {
	(cd "$1" &&
		find . -type f ! -name train.jsonl ! -name '*.timing.json' ! -name .lock ! -name '.*.tmp.claim' \
			! -name report.html -exec sha256sum {} + | sort -k 2) >"$2"
}

began=$(date +%s%N)
check "a run nobody disturbs" sh recipe whole -j2
lasted=$((($(date +%s%N) - began) / 1000000))
sums whole whole.sums
check_grep "has a report" '^prior	' whole/report.tsv

# killed DIRECTORY PAUSE [OPTION]: kills all its processes after PAUSE, and waits until they are gone
killed() {
	setsid sh recipe "$1" ${3:-} >>log 2>&1 &
	group=$!
	sleep "$2"
	[ -e "$1/report.tsv" ] || kills=$((kills + 1))
	kill -KILL "-$group" 2>/dev/null
	wait $group 2>/dev/null
	tap_i=0
	while kill -0 "-$group" 2>/dev/null && [ $tap_i -lt 100 ]; do
		sleep 0.05
		tap_i=$((tap_i + 1))
	done
}

# Pauses of up to a quarter of a whole run, so that the later ones hit the remaining work.
round=0
for option in -j2 -j1; do
	round=$((round + 1))
	dir=round-$round kills=0
	pauses=$(awk -v seed="$$$round" -v ms="$lasted" \
		'BEGIN { srand(seed); for (i = 0; i < 6; i++) printf "%.2f ", .02 + rand() * ms / 4000 }')
	: >log
	for pause in $pauses; do
		killed $dir "$pause" $option
	done
	check "$option, killed after $pauses s: to the end" sh recipe $dir $option
	[ $kills -ge 1 ]
	tap_result $? "$option: a kill at least before the end" "$kills"
	sums $dir $dir.sums
	diff whole.sums $dir.sums >"$OUT" 2>&1
	tap_result $? "$option: every byte is that of the undisturbed run"
	check_clean "$option: no temporary is left" $dir
	check_same "$option: the report" whole/report.tsv $dir/report.tsv
	find $dir -exec touch -h -d 2001-01-01 {} +
	check "$option: and again" sh recipe $dir $option
	check_out "$option: touches nothing" "" find $dir -newermt 2002-01-01
done
