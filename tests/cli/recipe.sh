# The demo at a tiny setting: its table, equal compute, and then nothing is left to do. What kills do to it is in kill.sh.
. "$(dirname "$0")/tap.sh"

need make
[ -x "$B/ddm-ingest" ] || skip_all "ddm-ingest is not built"

demo() { make -j2 -f "$SRC/share/recipes/demo.mk" BIN="$B" DEMO_TINY=1 "$@"; }
check "undisturbed" demo DEMO=a
check_grep "a table" '^monolith +[0-9]' "$OUT"
check_out "its rows" "monolith top-1 top-2 full oracle prior" sh -c 'grep -v "^#" a/report.tsv | cut -f 1 | tr "\n" " " | sed "s/ $//"'

check_grep "a page" '<th scope="row">prior</th>' a/report.html
check_grep "that shows the routing" 'Weights under full' a/report.html
# What the page says would do it again asks for the same samples.
sed -n '/^<pre>RUN = /,/<\/pre>/p' a/report.html | sed 's/<[^>]*>//g; s/&lt;/</g; s/&gt;/>/g; s/&quot;/"/g; s/&amp;/\&/g' |
	sed "s|^include .*|include $SRC/share/recipes/ddm.mk|" >again.mk
make -n -f again.mk RUN=b BIN="$B" b/samples.tar 2>&1 | grep ddm-ingest >again.txt
make -n -f "$SRC/share/recipes/demo.mk" BIN="$B" DEMO_TINY=1 DEMO=b b/samples.tar 2>&1 | grep ddm-ingest >first.txt
[ -s again.txt ] && cmp -s again.txt first.txt
tap_result $? "and how to do it again" "$(cat again.txt first.txt)"

# GFLOP that an arm's training took: gflop_per_image * steps * batch over its logs.
gflop() {
	cat "$@" | jq -s 'map(select(.event == "start") | .gflop_per_image * .steps * .stamp.batch) | add'
}
if command -v jq >/dev/null; then
	arms="$(gflop a/monolith/expert_0/train.jsonl) $(gflop a/model/expert_*/train.jsonl a/model/router/train.jsonl)"
	echo "$arms" | awk '{ exit !($2 > .9 * $1 && $2 < 1.1 * $1) }'
	tap_result $? "experts and router cost what the monolith does, but for rounding up to steps" "$arms"
else
	skip "equal compute" "no jq"
fi

touch stamp
sleep 0.1
check "again" demo DEMO=a
changed=$(find a -newer stamp -type f)
[ -z "$changed" ]
tap_result $? "does nothing" "$changed"
