# Every program with a failing allocation, its own or a library's: the first, the second, and so on. It reports this in one line and
# exits with 71, or goes on without the memory; no crash, no damaged output, no temporary file. The failures come from tests/faults.
#
# By default every allocation of the smallest programs fails once, and some dozens of the others, from number DDM_TEST_FAULTS (0) on.
# With DDM_TEST_FAULTS=all every allocation of all programs does; for ddm-train these are 3580 runs in a minute and a half of one processor.
# The decoder that ddm-ingest starts may die, which is why it is a process of its own (libseccomp crashes without memory, FFmpeg aborts),
# but it must not end with status 0 before it has given every frame.
. "$(dirname "$0")/tap.sh"
. "$SRC/tests/faults/sweep.sh"
export FAULT=memory
least=50

sweep 0 x ddm-report -q -o x a=one.1.json b=two.1.json
sweep 0 x ddm-compare -k fd -o x a=one.1.json a=one.2.json a=one.3.json b=two.1.json b=two.2.json b=two.3.json
sweep 120 x ddm-cluster -q --threads 1 -k 2 --holdout .25 -o x pics
sweep 40 x ddm-cluster -q --threads 1 -k 2 --method ward --soft 2 -o x pics
sweep 40 x ddm-cluster -q --threads 1 -k 2 --method spectral --neighbours 3 --seeds 2 -o x pics
sweep 30 "" ddm-cluster -q --threads 1 --rate a.tsv --against cluster --table a.tsv pics
sweep 100 x ddm-shard -q -a a.tsv --holdout .25 -o x pics
sweep 60 x ddm-forget -o x s "$(awk -F '\t' '!/^#/ && $4 == "train" && seen[$2]++ { print $1; exit }' a.tsv)"
sweep 40 x ddm-encode -q -m "$SRC/tests/golden/autokl" --threads 1 -o x pics
sweep 30 x.npy ddm-encode -q -m "$SRC/tests/golden/pretrained/dinov2-224" --threads 1 -o x.npy pics
sweep 60 x ddm-grid --columns 2 -r 2 -s 8 -o x a=pics b=s
sweep 60 x ddm-eval-fid --features pix --threads 1 -o x s pics
sweep 50 x ddm-sample -n 2 --route top-2 --steps 2 --threads 1 -o x ensemble
sweep 40 x ddm-exact --threads 1 -o x s
sweep 40 x ddm-synth gaussians --shape 4 --threads 1 -o x
sweep 40 x ddm-synth draw -n 3 --threads 1 -o x law
font=/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf
if [ -e $font ] && grep -q 'HAVE_FREETYPE 1' "$B/config.h"; then
	sweep 40 x ddm-synth glyphs --range 41-43 -n 3 --size 8 --threads 1 -o x $font
else
	skip "ddm-synth glyphs" "no FreeType, or no fonts-dejavu-core"
fi
sweep 40 x ddm-diagnose budget -n 2 --timesteps .5 --routes full --threads 1 -o x exact s
sweep 40 x ddm-plot -f svg -o x loss log.jsonl
sweep 30 x ddm-plot -f png -x distance -y cluster -o x points a.tsv
sweep 40 x ddm-html -p run -o x run
sweep 40 "" ddm-check -cv a.tsv s ensemble log.jsonl exif6.jpg lossy.webp
sweep 40 "" ddm-info --diff a.tsv s
sweep 40 "" ddm-info --check a.tsv s ensemble log.jsonl one.1.json exif6.jpg lossy.webp
# The run goes on without the checkpoint of step 1 of 2, but not without the last.
export FAULT_LACK=/train/step-00000001/
# shellcheck disable=SC2086
sweep 25 x ddm-train -q $network --predict x0 --checkpoint-every 1 --cluster all -o x s
# shellcheck disable=SC2086
sweep 20 x ddm-route-train -q $network --checkpoint-every 1 -o x s
unset FAULT_LACK

command -v ddm-ingest >/dev/null || { skip ddm-ingest "not built (--without-media)"; exit 0; }
sweep 50 x ddm-ingest --size 8 --threads 1 -o x pics exif6.jpg lossy.webp
# The decoder itself, with its file on descriptor 3: three frames of YUV, and a palette picture.
printf 'YUV4MPEG2 W8 H8 F25:1 Ip A1:1 Cmono\nFRAME\n%064dFRAME\n%064dFRAME\n%064d' 1 2 3 >grey.y4m
export FAULT_DECODER=1 FAULT_CODES=1
sweep 40 "" ingest-decoder --serve-frames 0 0 1000000 0 0 0 0 3<grey.y4m
sweep 40 "" ingest-decoder --serve-frames 0 25 1000000 0 1 1 2 3<grey.y4m
sweep 20 "" ingest-decoder --serve-frames 1 0 1000000 0 0 0 0 3<"$SRC/tests/golden/stills/rgba.png"
unset FAULT_DECODER FAULT_CODES
