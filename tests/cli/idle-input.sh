# Options whose use depends on the operands (core/option.h, "input"): if they do nothing they are refused, or a line says so. Each has an example.
. "$(dirname "$0")/tap.sh"

mkdir pics
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics || exit 1
ddm-shard -q -a "$SRC/tests/golden/blobs.tsv" -o shards "$SRC/tests/golden/blobs.tar.gz" || exit 1
ddm-exact -o model shards 2>/dev/null && ddm-synth gaussians --shape 1x2x2 -o law 2>/dev/null || exit 1
sample="ddm-sample -n 1 --route full --steps 1 -o x.tar"
text=$SRC/tests/golden/pretrained/text-t5

# refused PROGRAM OPTION CMD...: CMD exits with 2 and names the option
tried=
refused() {
	tried="$tried $1=$2"
	refused_name="$1 $2" refused_option=$2
	shift 2
	check_exit 2 "$refused_name" "$@" </dev/null
	check_err "$refused_name is named" "$refused_option"
}

# told PROGRAM OPTION CMD...: CMD succeeds, with a line that names the option
told() {
	tried="$tried $1=$2"
	told_name="$1 $2" told_option=$2
	shift 2
	check "$told_name" "$@" </dev/null
	check_err "$told_name is named" "$told_option does nothing"
}

refused ddm-diagnose --split ddm-diagnose budget --split train model law
refused ddm-diagnose --no-verify ddm-diagnose budget --no-verify model law
refused ddm-diagnose --states ddm-diagnose trajectories --states 5 model law
refused ddm-diagnose --experts ddm-diagnose trajectories --experts x model
refused ddm-grid --holdout ddm-grid --holdout -o x.png a=pics
for o in "--fps 2" "--frames 2" "--duplicates" "--seeds 2"; do
	# shellcheck disable=SC2086
	told ddm-ingest "${o%% *}" ddm-ingest $o -o "x${o%% *}.tar" pics
done
told ddm-ingest --sound ddm-ingest --clips 2 --fps 2 --sound 16000 -o xsound.tar lavfi:testsrc2=size=16x16
echo "a cat" >lines
ddm-cluster -q -k 2 -o a.tsv pics || exit 1
for o in "--prompt x" "--prompts lines" "--text-features x" "--negative-prompt x" "--negative-features x" "--text-encoder x"; do
	case $o in --negative*) with="--cfg 1" ;; *) with= ;; esac
	# shellcheck disable=SC2086
	refused ddm-sample "${o%% *}" $sample $with $o model
done
# shellcheck disable=SC2086
{
	refused ddm-sample --timesteps $sample --solver ddim --timesteps paris model
	refused ddm-sample --expert-time $sample --solver ddim --expert-time native model
	refused ddm-sample --encoder-weight-dtype $sample --encoder-weight-dtype int8 model
	refused ddm-sample --tile $sample --tile model
	refused ddm-sample --first-frame $sample --first-frame pics model
refused ddm-train --first-frame ddm-train --cluster 0 --first-frame --steps 1 -o no shards
refused ddm-train --pictures ddm-train --cluster 0 --pictures shards --steps 1 -o no shards
refused ddm-sample --frames $sample --frames 2 model
}
for o in "--size 8" "--posterior mean" "--flip" "--no-pictures" "--tile"; do
	# shellcheck disable=SC2086
	refused ddm-encode "${o%% *}" ddm-encode -m "$text" $o -o x.tar pics
done
refused ddm-encode --input ddm-encode -m "$text" --input dinov2 -o x.tar pics
refused ddm-encode --pooled ddm-encode -m "$SRC/tests/golden/autokl" --pooled -o x.tar pics
refused ddm-encode --keys ddm-encode -m "$text" --keys k -o x.tar pics
for o in "--weight-dtype bf16" "--map"; do
	# shellcheck disable=SC2086
	told ddm-encode "${o%% *}" ddm-encode $o --device cpu -m "$SRC/tests/golden/autokl" -o "v${o%% *}.tar" pics
	# shellcheck disable=SC2086
	told ddm-shard "${o%% *}" ddm-shard $o --device cpu -a a.tsv --vae "$SRC/tests/golden/autokl" -o "s${o%% *}" pics
done
for p in ddm-train ddm-route-train; do tried="$tried $p=--sample-every"; done

for program in "$B"/ddm-*; do
	[ -f "$program" ] && [ -x "$program" ] || continue
	name=$(basename "$program")
	"$name" --completion rules | awk -F '\t' -v p="$name" '$2 == "input" { print p "=" $1 }'
done | sort -u >wanted
echo "$tried" | tr ' ' '\n' | grep . | sort -u >done
comm -23 wanted done >missing
# ddm-encode.sh has examples for the other options of ddm-encode.
for o in --captions --tokens --null-text --dtype; do
	grep -q -e "$o" "$SRC/tests/cli/ddm-encode.sh" && sed -i "/^ddm-encode=$o\$/d" missing
done
check_out "every one has an example" "" cat missing
