# ddm-caption: captions from a command, from a column of a table and from a member of the .json; commands that fail, and lines that are no captions.
. "$(dirname "$0")/tap.sh"

need jq
check_program ddm-caption
small_pictures
mkdir in
i=0
for f in pics/a/000*.png; do
	key=$(basename "$f" .png)
	cp "$f" "in/$key.png"
	printf '{"title":"picture %d","deep":{"er":"d%d"},"n":%d}' $i $i $i >"in/$key.json"
	[ $((i % 3)) -ne 0 ] || printf 'old %d' $i >"in/$key.txt"
	i=$((i + 1))
done
n=$i
last=$(basename "$f" .png)
[ "$n" -ge 6 ] || exit 1
captions() { # TAR: "key caption" of each sample
	rm -rf got
	mkdir got
	tar xf "$1" -C got
	for p in got/*.png; do
		printf '%s %s\n' "$(basename "$p" .png)" "$(cat "${p%.png}.txt" 2>/dev/null)"
	done
}
keys() { for f in in/*.png; do basename "$f" .png; done; }

check_exit 2 "neither" ddm-caption -o x.tar in
check_err "says what to give" 'command CMD or from --column NAME'
check_exit 2 "both" ddm-caption --command true --column title -o x.tar in
check_exit 2 "--with without --column" ddm-caption --command true --with t.tsv -o x.tar in
check_exit 2 "a number of errors without --skip-bad" ddm-caption --max-errors 3 --column title -o x.tar in
check_exit 2 "no -" ddm-caption -0 --column title -o x.tar in
check_exit 66 "no such source" ddm-caption --column title -o x.tar nowhere

# A command: it sees the samples in order, as a tar, and names them.
names='tar tf - | sed -n "s/\.png$//p"'
check "a command" ddm-caption --command "$names" -o named.tar in
check_err "the report" "^ddm-caption: $n samples, $n got a caption, 0 keep theirs, 0 have none$"
captions named.tar >got.txt
keys | sed 's/.*/& &/' >want.txt
check_same "each sample has its own line" got.txt want.txt
check_out "the other members are as before" "$(cat in/*.png in/*.json | cksum)" sh -c 'cat got/*.png got/*.json | cksum'
check_out "one caption a sample" "$n" sh -c 'tar tf named.tar | grep -c txt'
cp named.tar before.tar
check "again" ddm-caption --command "$names" -o named.tar in
check_err "does nothing" 'named.tar: exists already'
check_same "the same bytes" named.tar before.tar
check_exit 73 "another command" ddm-caption --command "$names | cat" -o named.tar in
check_err "is named" 'command'
# What it reads is a whole tar of whole samples.
check "its input" ddm-caption -q --command "tee seen.tar | $names" -o seen.out.tar in
check_out "is a tar as others" "$(ddm-info --json named.tar | jq -c '[.samples, .members.png, .members.json]')" \
	sh -c 'ddm-info --json seen.tar | jq -c "[.samples, .members.png, .members.json]"'
check "which our programs read" ddm-info --check seen.tar
check "one that writes while it reads" ddm-caption -q --command 'tar tvf - --to-stdout >/dev/null; yes x | head -n '$n -o late.tar in
! grep -i 'broken pipe' "$ERR" >/dev/null
tap_result $? "and whose broken pipe ends it without a message" "$(cat "$ERR")"
check "the columns of its samples" ddm-caption -q --command "ddm-select -q --table --columns title 'has(key)' - | tail -n +3 | grep -v '^#' | cut -f2" -o table.tar in
check_out "one of our programs as the command" "$(keys | head -1) picture 0" sh -c 'tar xf table.tar && echo "$0 $(cat $0.txt)"' "$(keys | head -1)"
check "--missing" ddm-caption --missing --command "$names" -o missing.tar in
check_err "counts" "$n samples, $((n - (n + 2) / 3)) got a caption, $(((n + 2) / 3)) keep theirs, 0 have none"
captions missing.tar >got.txt
keys | awk '{ print $1, (NR - 1) % 3 ? $1 : "old " NR - 1 }' >want.txt
check_same "only those without one" got.txt want.txt
check "empty lines" ddm-caption --command "$names | sed '2s/.*//;4s/.*//'" -o some.tar in
check_err "are no captions" "$n samples, $((n - 2)) got a caption, 1 keep theirs, 1 have none"
captions some.tar >got.txt
check_out "the caption before stays" "old 3" sh -c 'sed -n 4p got.txt | cut -d" " -f2-'
check "carriage returns, UTF-8, no newline at the end" ddm-caption -q --command "$names | sed 's/.*/K\xc3\xb6nig\r/' | head -c -2" -o cr.tar in
check_out "are no part of captions" "$(printf 'K\303\266nig|')" sh -c 'tar xOf cr.tar $0.txt; echo "|"' "$last"
tar cf in.tar -C in .
check_out "through pipes" "$(captions named.tar | cksum)" sh -c 'ddm-caption -q --command '"'$names'"' - <in.tar >piped.tar; rm -rf got; mkdir got; tar xf piped.tar -C got
	for p in got/*.png; do printf "%s %s\n" "$(basename "$p" .png)" "$(cat "${p%.png}.txt")"; done | cksum'

# Commands that are wrong.
bad() { # CODE NAME COMMAND REGEX
	check_exit "$1" "$2" ddm-caption --command "$3" -o bad.tar in
	check_err "$2: the reason" "$4"
	check_absent "$2: nothing is written" bad.tar
}
bad 65 "too few lines" "$names | tail -n +2" "command: $((n - 1)) lines for $n samples"
bad 65 "no lines" "cat >/dev/null" "command: 0 lines for $n samples"
bad 65 "too many lines" "$names; echo more" "command: more than $n lines"
bad 65 "lines without end" "yes 2>/dev/null" "command: more than $n lines"
bad 65 "a NUL" "$names | tr 0 '\\000'" "command: line 1: not a text in UTF-8"
bad 65 "a long line" "head -c 1048577 /dev/zero | tr '\\000' x 2>/dev/null; cat >/dev/null" "command: line 1: longer than 1048576 bytes"
bad 65 "Latin-1" "$names | sed 's/^/\xe9/'" "command: line 1: not a text in UTF-8"
bad 1 "one that fails" "$names; exit 7" "command failed: it ended with status 7"
bad 1 "one that does not exist" "no-such-captioner 2>/dev/null" "status 127"
bad 1 "one that is killed" 'kill -SEGV $$' "command was killed: Segmentation"
bad 65 "one that stops reading" "head -c 100 >/dev/null; echo a" "1 lines for $n samples"
check "one that reads nothing but is right" ddm-caption -q --command "yes a | head -n $n" -o blind.tar in
check_out "its captions" "a" tar xOf blind.tar "$last.txt"
ddm-caption --command 'sleep 30 & sleep 30; cat' -o bad.tar in 2>"$ERR" &
pid=$!
sleep 1
kill -TERM $pid
wait $pid
RC=$?
[ $RC -eq 143 ]
tap_result $? "a signal ends it" "exit $RC"
check_absent "nothing is written" bad.tar

# Columns.
check "a member of the .json" ddm-caption --column title -o title.tar in
check_err "the report" "^ddm-caption: $n samples, $n got a caption"
check_out "is the caption" "picture 2" tar xOf title.tar "$(keys | sed -n 3p).txt"
check "one within an object, only where it is missing" ddm-caption -q --missing --column deep.er -o deep.tar in
check_out "has it" "d1" tar xOf deep.tar "$(keys | sed -n 2p).txt"
check_out "keeps its own" "old 0" tar xOf deep.tar "$(keys | sed -n 1p).txt"
{ printf 'key,caption\n'; keys | sed '1d;s/.*/&,"of &, a table"/'; } >t.csv
check "a column of a table" ddm-caption --column caption --with t.csv -o t.tar in
check_err "counts" "$n samples, $((n - 1)) got a caption, 1 keep theirs"
check_out "is the caption" "of $last, a table" tar xOf t.tar "$last.txt"
check_exit 2 "a column that nobody has" ddm-caption --column titel -o bad.tar in
check_err "is named, with those that there are" "titel.*title"
check_exit 66 "a table that is missing" ddm-caption --column x --with none.tsv -o bad.tar in
echo broken >"in/$last.json"
check_exit 65 "damaged facts" ddm-caption --column title -o bad.tar in
check_absent "nothing is written" bad.tar
check "are skipped" ddm-caption --skip-bad --column title -o skip.tar in
check_err "and named" "skipped: .*$last"
check_exit_any 3 "too many" ddm-caption --skip-bad --max-errors 0 --column title -o skip3.tar in
check "lists" sh -c 'printf "in/%s.png\0" "$0" | ddm-caption -q -0 --command "cat >/dev/null; echo seen" -o list.tar -' "$(keys | head -1)"
check_out "one sample" "seen" tar xO --wildcards -f list.tar '*.txt'
check_stdout "a tar" ddm-caption -q --column n title.tar

# Clips, and text encoders read what was written.
if command -v ddm-ingest >/dev/null; then
	ddm-ingest -q --clips 4 --fps 4 --size 16 --seeds 3 -o clips.tar 'lavfi:mandelbrot=size=32x32:rate=4:start_scale={u:.5:2}' || exit 1
	check "clips" ddm-caption -q --command 'tar tf - | sed -n "s/@.*npy$//p"' -o said.tar clips.tar
	check_out "their captions" "mandelbrot-0002" tar xOf said.tar mandelbrot-0002@000000.txt
	check_out "their facts are columns" 4 sh -c 'ddm-caption -q --column frames clips.tar | tar xO mandelbrot-0001@000000.txt'
else
	skip "clips" "ddm-ingest is not built"
fi
