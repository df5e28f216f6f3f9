# Sourced after tap.sh by the tests that make something go wrong in every program, again and again: tests/faults.so does the work.
#
#	sweep RUNS OUT CMD...   about so many runs (0: all) of CMD, whose output is OUT, $FAULT being what goes wrong. For memory and
#	                        full disks each chance alone, then with all later ones too
#
# DDM_TEST_FAULTS says where to begin (0), or "all" for all of them. Besides, small inputs of all programs, and $network for a tiny one.
preload=$B/tests/faults.so
[ -e "$preload" ] || skip_all "tests/faults.so is not built"
ldd "$B/ddm-report" | grep -Eq 'libasan|libtsan' && skip_all "a sanitizer has an allocator of its own"
case $(od -An -tx1 -j 16 -N 2 "$B/ddm-report") in *03*) ;; *) skip_all "a static program takes no preload" ;; esac
start=${DDM_TEST_FAULTS:-0} all=
[ "$start" != all ] || all=1 start=0

sweep() {
	runs=$1 FAULT_OUT=$2
	shift 2
	[ -z "$all" ] || runs=0
	export FAULT_OUT
	total=$(FAULT_FROM=999999999 LD_PRELOAD=$preload "$@" | sed -n 's/^# \([0-9]*\) chances.*/\1/p')
	step=1
	[ "$runs" -eq 0 ] || step=$((${total:-0} / runs + 1))
	for on in 0 1; do
		case $on$FAULT in 1kill | 1read) continue ;; esac
		FAULT_ON=$on FAULT_FROM=$((1 + (start + on) % step)) FAULT_STEP=$step LD_PRELOAD=$preload "$@" >"$OUT" 2>"$ERR"
		RC=$?
		[ "$RC" -eq 0 ] && [ "${total:-0}" -ge "${least:-1}" ]
		tap_result $? "$1, $FAULT: every ${step}th of ${total:-0}$([ $on -eq 0 ] || echo ', and all after it')" \
			"$(grep -c '^# bad' "$OUT") bad runs"
	done
}

mkdir pics
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics
find pics -type f | sort | tail -n +7 | xargs rm -f
cp "$SRC/tests/golden/stills/exif6.jpg" "$SRC/tests/golden/stills/lossy.webp" .
tar xf "$SRC/tests/golden/tiny-model.tar"
ddm-cluster -q -k 2 --holdout .25 -o a.tsv pics || exit 1
ddm-shard -q -a a.tsv --holdout .25 -o s pics || exit 1
for i in 1 2 3; do
	echo '{"fd": 1.'$i', "inner": {"name": "x"}}' >one.$i.json
	echo '{"fd": 1.'$((i * i))', "inner": {"name": "y"}}' >two.$i.json
done
i=0
while [ $i -lt 30 ]; do
	i=$((i + 1))
	echo '{"step": '$i', "loss": 1.'$i', "val_loss": 1.5, "images_per_s": 10}'
done >log.jsonl
mkdir -p run/model/expert_0
ddm-report -q -o run/report.tsv a=one.1.json b=two.1.json || exit 1
cp log.jsonl run/model/expert_0/train.jsonl
cp a.tsv run/assign.tsv
ddm-grid --columns 2 -r 2 -s 8 -o run/samples.png a=pics b=s 2>/dev/null || exit 1
network="--hidden 16 --depth 1 --heads 2 --patch 8 --batch 4 --steps 2 --validate-samples 0 --threads 1"
ddm-exact --threads 1 -o exact s 2>/dev/null && ddm-synth gaussians --shape 4 -o law 2>/dev/null || exit 1

