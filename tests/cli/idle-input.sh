# Options whose use the operands decide (cmd/optrules.c, "input"): where they do nothing they are refused, or a line says so. Each has an example.
. "$(dirname "$0")/tap.sh"

mkdir pics
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics || exit 1
text=$SRC/tests/golden/pretrained/text-t5

# refused PROGRAM OPTION CMD...: exit 2 and the option named
tried=
refused() {
	tried="$tried $1=$2"
	refused_name="$1 $2" refused_option=$2
	shift 2
	check_exit 2 "$refused_name" "$@" </dev/null
	check_err "$refused_name is named" "$refused_option"
}

# told PROGRAM OPTION CMD...: done, with a line that says so
told() {
	tried="$tried $1=$2"
	told_name="$1 $2" told_option=$2
	shift 2
	check "$told_name" "$@" </dev/null
	check_err "$told_name is named" "$told_option does nothing"
}

refused ddm-grid --holdout ddm-grid --holdout -o x.png a=pics
for o in "--fps 2" "--frames 2" "--duplicates" "--seeds 2"; do
	# shellcheck disable=SC2086
	told ddm-ingest "${o%% *}" ddm-ingest $o -o "x${o%% *}.tar" pics
done
for o in "--size 8" "--posterior mean" "--flip" "--no-pictures"; do
	# shellcheck disable=SC2086
	refused ddm-encode "${o%% *}" ddm-encode -m "$text" $o -o x.tar pics
done
refused ddm-encode --input ddm-encode -m "$text" --input dinov2 -o x.tar pics
refused ddm-encode --keys ddm-encode -m "$text" --keys k -o x.tar pics
for p in ddm-train ddm-route-train; do tried="$tried $p=--sample-every"; done

for program in "$B"/ddm-*; do
	[ -f "$program" ] && [ -x "$program" ] || continue
	name=$(basename "$program")
	"$name" --completion rules | awk -F '\t' -v p="$name" '$2 == "input" { print p "=" $1 }'
done | sort -u >wanted
echo "$tried" | tr ' ' '\n' | grep . | sort -u >done
comm -23 wanted done >missing
# Of ddm-encode's others, ddm-encode.sh has the examples; of ddm-sample's, ddm-sample.sh and ddm-sample-text.sh.
for o in --captions --tokens --null-text --dtype; do
	grep -q -e "$o" "$SRC/tests/cli/ddm-encode.sh" && sed -i "/^ddm-encode=$o\$/d" missing
done
sed -i '/^ddm-sample=/d' missing
check_out "every one has an example" "" cat missing
