# Every program with an allocation failing: the first, the second, and so on, its own and those of the libraries it uses. It says so in
# one line and exits with 71, or does without; no crash, no damaged output, no temporary file. tests/oom/preload.c does the work.
#
# By itself every allocation of the smallest programs and some dozens of the others, beginning at DDM_TEST_OOM (0); all of all with
# DDM_TEST_OOM=all. The decoder that ddm-ingest starts may die, as that is why it is a process of its own (libseccomp crashes without
# memory, FFmpeg aborts); but it may not end well without having given every frame.
. "$(dirname "$0")/tap.sh"

preload=$B/tests/oom/preload.so
[ -e "$preload" ] || skip_all "tests/oom/preload.so is not built"
ldd "$B/ddm-report" | grep -Eq 'libasan|libtsan' && skip_all "a sanitizer has an allocator of its own"
case $(od -An -tx1 -j 16 -N 2 "$B/ddm-report") in *03*) ;; *) skip_all "a static program takes no preload" ;; esac
start=${DDM_TEST_OOM:-0} all=
[ "$start" != all ] || all=1 start=0

# sweep RUNS OUT CMD...: about so many runs (0: all) of CMD, whose output is OUT; each alone, then with all later ones failing too.
sweep() {
	runs=$1 out=$2
	shift 2
	[ -z "$all" ] || runs=0
	total=$(OOM_FROM=999999999 OOM_OUT=$out LD_PRELOAD=$preload "$@" | sed -n 's/^# \([0-9]*\) allocations.*/\1/p')
	step=1
	[ "$runs" -eq 0 ] || step=$((${total:-0} / runs + 1))
	for on in 0 1; do
		OOM_ON=$on OOM_FROM=$((1 + (start + on) % step)) OOM_STEP=$step OOM_OUT=$out LD_PRELOAD=$preload "$@" >"$OUT" 2>"$ERR"
		RC=$?
		[ "$RC" -eq 0 ] && [ "${total:-0}" -gt 50 ]
		tap_result $? "$1: every ${step}th of ${total:-0} allocations$([ $on -eq 0 ] || echo ', and all after it')" \
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
network="--hidden 16 --depth 1 --heads 2 --patch 8 --batch 4 --steps 2 --validate-samples 0 --threads 1"

sweep 0 x ddm-report -q -o x a=one.1.json b=two.1.json
sweep 0 x ddm-compare -k fd -o x a=one.1.json a=one.2.json a=one.3.json b=two.1.json b=two.2.json b=two.3.json
sweep 120 x ddm-cluster -q --threads 1 -k 2 --holdout .25 -o x pics
sweep 100 x ddm-shard -q -a a.tsv --holdout .25 -o x pics
sweep 40 x ddm-encode -q -m "$SRC/tests/golden/autokl" --threads 1 -o x pics
sweep 30 x.npy ddm-encode -q -m "$SRC/tests/golden/pretrained/dinov2-224" --threads 1 -o x.npy pics
sweep 60 x ddm-grid -c 2 -r 2 -s 8 -o x a=pics b=s
sweep 60 x ddm-eval-fid --features pix --threads 1 -o x s pics
sweep 50 x ddm-sample -n 2 --route top-2 --steps 2 --threads 1 -o x ensemble
sweep 40 x ddm-exact --threads 1 -o x s
ddm-exact --threads 1 -o exact s 2>/dev/null || exit 1
sweep 40 x ddm-diagnose budget -n 2 --times .5 --routes full --threads 1 -o x exact s
sweep 40 x ddm-plot -f svg -o x loss log.jsonl
sweep 30 x ddm-plot -f png -x distance -y cluster -o x points a.tsv
sweep 40 "" ddm-info --check a.tsv s ensemble log.jsonl one.1.json exif6.jpg lossy.webp
# A checkpoint on the way, of step 1 of 2, is done without; the last is not.
export OOM_LACK=/train/step-00000001/
# shellcheck disable=SC2086
sweep 25 x ddm-train -q $network --predict x0 --checkpoint-every 1 --cluster all -o x s
# shellcheck disable=SC2086
sweep 20 x ddm-route-train -q $network --checkpoint-every 1 -o x s
unset OOM_LACK

command -v ddm-ingest >/dev/null || { skip ddm-ingest "not built (--without-media)"; exit 0; }
sweep 50 x ddm-ingest --size 8 --threads 1 -o x pics exif6.jpg lossy.webp
# Three frames of YUV, and a palette picture: of a file with its number 3 the decoder itself.
printf 'YUV4MPEG2 W8 H8 F25:1 Ip A1:1 Cmono\nFRAME\n%064dFRAME\n%064dFRAME\n%064d' 1 2 3 >grey.y4m
export OOM_DECODER=1 OOM_CODES=1
sweep 40 "" ddm-ingest --serve-frames 0 0 1000000 0 3<grey.y4m
sweep 20 "" ddm-ingest --serve-frames 1 0 1000000 0 3<"$SRC/tests/golden/stills/rgba.png"
unset OOM_DECODER OOM_CODES
