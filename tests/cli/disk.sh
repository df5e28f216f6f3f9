# Every program that writes, with the disk full at its first, second ... call that writes, and killed before such a call: the old or the
# new output exists, whole; exit 74 and one line; no temporary after a failure; and the same command run again gives the bytes of an
# undisturbed run. Then with an input whose reading fails: no output is made from a part of it.
. "$(dirname "$0")/tap.sh"
. "$SRC/tests/faults/sweep.sh"
[ "$(FAULT=kill FAULT_FROM=999999999 LD_PRELOAD=$preload ddm-compare -h | grep -c '^# 0 chances')" -eq 1 ] ||
	skip_all "the kernel tells nobody about another's calls (seccomp)"

font=/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf
grep -q 'HAVE_FREETYPE 1' "$B/config.h" || font=
[ -e "$font" ] || skip "ddm-synth glyphs" "no FreeType, or no fonts-dejavu-core"
forgotten=$(awk -F '\t' '!/^#/ && $4 == "train" && seen[$2]++ { print $1; exit }' a.tsv)
for FAULT in full kill; do
	export FAULT
	unset FAULT_PARTS FAULT_LACK
	sweep 0 x ddm-report -q -o x a=one.1.json b=two.1.json
	sweep 3 x ddm-compare -k fd -o x a=one.1.json a=one.2.json a=one.3.json b=two.1.json b=two.2.json b=two.3.json
	sweep 3 x ddm-grid --columns 2 -r 2 -s 8 -o x a=pics b=s
	sweep 3 x ddm-plot -f svg -o x loss log.jsonl
	sweep 3 x ddm-html -p run -o x run
	sweep 10 x ddm-shard -q --threads 1 -a a.tsv --holdout .25 -o x pics
	sweep 10 x ddm-forget -o x s "$forgotten"
	sweep 5 x ddm-encode -q -m "$SRC/tests/golden/autokl" --threads 1 -o x pics
	sweep 8 x ddm-exact --threads 1 -o x s
	sweep 8 x ddm-synth gaussians --shape 4 --threads 1 -o x
	[ ! -e "$font" ] || sweep 3 x ddm-synth glyphs --range 41-43 -n 3 --size 8 --threads 1 -o x "$font"
	if command -v ddm-ingest >/dev/null; then
		sweep 3 x ddm-ingest --size 8 --threads 1 -o x pics
	else
		skip "ddm-ingest, $FAULT" "not built (--without-media)"
	fi
	export FAULT_PARTS=1
	sweep 9 x/ ddm-cluster -q --threads 1 -k 2 --holdout .25 --sheet x/s.png --report x/r.json --centroids-out x/c.npy -o x/a.tsv pics
	sweep 6 x/ ddm-encode -q -m "$SRC/tests/golden/pretrained/dinov2-224" --threads 1 --keys x/k -o x/f.npy pics
	sweep 8 x/ ddm-sample -n 2 --route top-2 --steps 2 --threads 1 --grid x/g.png --report x/r --log x/l -o x/a.tar ensemble
	sweep 8 x/ ddm-synth draw -n 3 --labels x/l --threads 1 -o x/t law
	sweep 6 x/ ddm-diagnose budget -n 2 --timesteps .5 --routes full --threads 1 --json x/j --routing x/r -o x/t exact s
	# If a cache or a checkpoint before the last does not fit, the work goes on.
	[ $FAULT = kill ] || export FAULT_LACK=.features-
	sweep 8 x/ ddm-eval-fid --features pix --threads 1 --cache-dir x --stats-out x/s.npz -o x/e s pics
	[ $FAULT = kill ] || export FAULT_LACK=/train/step-00000001/
	# shellcheck disable=SC2086
	sweep 12 x ddm-train -q $network --keep 9 --predict x0 --checkpoint-every 1 --cluster all -o x s
	# shellcheck disable=SC2086
	sweep 6 x ddm-route-train -q $network --keep 9 --checkpoint-every 1 -o x s
done

FAULT='read'
unset FAULT_PARTS FAULT_LACK
sweep 0 x ddm-report -q -o x a=one.1.json b=two.1.json
sweep 0 x ddm-html -p run -o x run
sweep 6 x ddm-compare -k fd -o x a=one.1.json a=one.2.json a=one.3.json b=two.1.json b=two.2.json b=two.3.json
sweep 6 x ddm-grid --columns 2 -r 2 -s 8 -o x a=pics b=s
sweep 6 x ddm-cluster -q --threads 1 -k 2 --holdout .25 -o x pics
sweep 6 x ddm-shard -q --threads 1 -a a.tsv --holdout .25 -o x pics
sweep 6 x ddm-forget -o x s "$forgotten"
sweep 6 x ddm-encode -q -m "$SRC/tests/golden/autokl" --threads 1 -o x pics
sweep 6 x ddm-exact --threads 1 -o x s
sweep 6 x ddm-sample -n 2 --route top-2 --steps 2 --threads 1 -o x ensemble
sweep 6 x ddm-eval-fid --features pix --threads 1 -o x s pics
# The work goes on without a checkpoint that cannot be read back. Outputs that were whole before the failure stay.
export FAULT_LACK=/train/step-00000001/
# shellcheck disable=SC2086
sweep 8 x ddm-train -q $network --predict x0 --checkpoint-every 1 --cluster all -o x s
# shellcheck disable=SC2086
sweep 6 x ddm-route-train -q $network --checkpoint-every 1 -o x s
