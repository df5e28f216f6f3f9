# The manual against the programs. For every man/ddm-x.1 (mdoc(7)):
#
#   - `mandoc -T lint` says nothing (so do the pages of sections 5 and 7);
#   - SYNOPSIS, set on one line, is what follows "Usage: " in `ddm-x -h`. Blanks before "..." and around "|" do not count.
#     Write `.Nm` then `.Op Fl hV` then the rest; a long option is `.Fl -steps Ar N`, an optional one `.Op Fl -steps Ar N`;
#   - every option that -h lists heads an item (`.It Fl -steps Ar N`, `.It Fl n Ar N , Fl -count Ar N`), and no item names
#     an option that -h does not list;
#   - there are sections EXIT STATUS and EXAMPLES;
#   - the EXAMPLES run. Each block between `.Bd -literal ...` and `.Ed` in that section is a piece of shell, without prompts. The
#     blocks of a page run one after the other, in one scratch directory, each with `sh -eu`; status 0 is a pass. The scratch
#     directory begins with a copy of what tests/man-setup.sh makes (two clusters of small pictures, one tiny model):
#
#         photos/                  48 PNG, 32x32, in photos/a and photos/b
#         photos.tar               the same as a samples tar
#         vae/                     a tiny autoencoder of random weights
#         assign.tsv               ddm-cluster -k 2 --holdout .2 of photos.tar
#         centroids.npy            its centroids
#         shards/                  ddm-shard of both
#         model/expert_0, model/expert_1, model/router    trained for a few steps
#         monolith/expert_0        the same with --cluster all
#         samples.tar              16 samples of model
#         t2i/, prompts.txt        a text-to-image model, and two prompts
#
#     so examples use these names for their inputs and any other for their outputs. Options that would take long are made small by
#     a comment line before the block, a sed script applied to it:
#
#         .\" run with: s/--steps 20000/--steps 2/
#         .Bd -literal -offset indent
#
#     and a block that cannot run here (a cluster, a GPU, a disk of video) is excused by
#
#         .\" not run: needs Slurm
#
#     or, if only some builds and machines can run it, by a command whose failure skips it:
#
#         .\" run if: test -e /usr/share/fonts
. "$(dirname "$0")/cli/tap.sh"

need mandoc

squeeze() { tr -s ' \t\n' ' ' | sed 's/ *| */|/g; s/ \.\.\./.../g; s/^ //; s/ $//'; }

# The SYNOPSIS as text on one line.
synopsis() { mandoc -T ascii -O width=500 "$1" | sed 's/.\x08//g' | sed -n '/^SYNOPSIS/,/^[A-Z]/{/^[A-Z]/d;p;}' | squeeze; }

# Options heading items of the page: -n, --steps, one a line.
page_options() {
	sed -n 's/^\.It Fl/Fl/p' "$1" | awk '{
		for (i = 1; i < NF; i++)
			if ($i == "Fl") print "-" $(i + 1)
	}' | sort -u
}

help_options() {
	sed -n '/^Options:/,$p' "$1" | grep -oE '^  (-[A-Za-z0-9], --[a-z0-9-]+|-[A-Za-z0-9]|    --[a-z0-9-]+)' | tr -d , | tr ' ' '\n' |
		grep . | sort -u
}

check_program_page() {
	name=$(basename "$1" .1)
	"$B/$name" -h >help.txt 2>/dev/null
	sed -n '1s/^Usage: //p' help.txt | squeeze >usage.txt
	synopsis "$1" >synopsis.txt
	[ -s usage.txt ] && cmp -s usage.txt synopsis.txt
	tap_result $? "$name: SYNOPSIS equals -h" "-h: $(cat usage.txt)
# page: $(cat synopsis.txt)"
	help_options help.txt >in-help.txt
	page_options "$1" >in-page.txt
	only=$(comm -3 in-help.txt in-page.txt | tr '\t\n' '> ')
	[ -s in-help.txt ] && [ -z "$only" ]
	tap_result $? "$name: every option is documented" "in one of them only (>: in the page): $only"
	check_grep "$name: EXIT STATUS" '^\.Sh EXIT STATUS' "$1"
	check_grep "$name: EXAMPLES" '^\.Sh EXAMPLES' "$1"
}

# Cuts the example blocks of page $1 into $2/1.sh, 2.sh... and, for those not to be run, $2/N.skip.
cut_examples() {
	awk -v dir="$2" '
		/^\.Sh/ { inside = /^\.Sh EXAMPLES/; next }
		!inside { next }
		/^\.\\" not run: / { sub(/^\.\\" not run: /, ""); skip = $0; next }
		/^\.\\" run if: / { sub(/^\.\\" run if: /, ""); condition = $0; next }
		/^\.\\" run with: / { sub(/^\.\\" run with: /, ""); edit = $0; next }
		/^\.Bd -literal/ { n++; block = 1
			file = dir "/" n ".sh"; printf "" > file
			if (skip != "") print skip > (dir "/" n ".skip")
			if (edit != "") print edit > (dir "/" n ".sed")
			if (condition != "") print condition > (dir "/" n ".if")
			skip = edit = condition = ""; next }
		/^\.Ed/ { block = 0; close(file); next }
		block { gsub(/\\e/, "\\"); gsub(/\\-/, "-"); gsub(/\\&/, ""); gsub(/\\\(aq/, "\047"); print > file }' "$1"
}

# Status 1: there is no input for the examples.
make_stock() {
	[ -d ../stock ] && return "$stock_rc"
	mkdir ../stock
	for program in ingest cluster shard train route-train sample; do
		[ -x "$B/ddm-$program" ] && continue
		stock_rc=1
		skip "examples of the manual" "ddm-$program is not built"
		return 1
	done
	(cd ../stock && sh -eu "$SRC/tests/man-setup.sh") >setup.log 2>&1
	stock_rc=$?
	cp setup.log "$OUT"
	tap_result $stock_rc "tests/man-setup.sh"
	return "$stock_rc"
}

run_examples() {
	name=$(basename "$1")
	rm -rf ../examples ../scratch
	mkdir ../examples
	cut_examples "$1" ../examples
	ls ../examples/*.sh >/dev/null 2>&1 || return 0
	make_stock || return 0
	cp -R ../stock ../scratch
	for script in $(cd ../examples && ls ./*.sh | sort -t / -k 2n); do
		number=${script#./}
		number=${number%.sh}
		block=$PWD/../examples/$number
		if [ -e "$block.skip" ]; then
			skip "$name: example $number" "$(cat "$block.skip")"
			continue
		fi
		if [ -e "$block.if" ] && ! sh "$block.if" >/dev/null 2>&1; then
			skip "$name: example $number" "not here: $(cat "$block.if")"
			continue
		fi
		[ -e "$block.sed" ] && sed -f "$block.sed" "$block.sh" >"$block.new" && mv "$block.new" "$block.sh"
		cd ../scratch || exit 1
		tap_run timeout 60 sh -eu "$block.sh"
		cd ../work || exit 1
		tap_result "$RC" "$name: example $number" "exit $RC from: $(head -n 3 "$block.sh" | tr '\n' ';')"
	done
}

# Every test that a page names must exist, or the page promises what nobody checks.
"$SRC/tests/run" --list | sed 's/[ 	].*//' | sort -u >all-tests.txt
grep -oE '\b(cli|unit|op|fuzz)/[a-z0-9_-]+' "$SRC/man/ddm-reliability.7" | sort -u >named-tests.txt
unknown=$(comm -23 named-tests.txt all-tests.txt | tr '\n' ' ')
[ -s named-tests.txt ] && [ -z "$unknown" ]
tap_result $? "ddm-reliability: the tests that it names exist" "no such test: $unknown"

for page in "$SRC"/man/*.[157]; do
	[ -e "$page" ] || skip_all "no manual pages yet"
	check_out "$(basename "$page"): mandoc -T lint" "" mandoc -T lint -W warning "$page"
	case $page in *.1) check_program_page "$page" ;; esac
	run_examples "$page"
done
