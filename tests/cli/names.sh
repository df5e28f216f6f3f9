# Names of options: old names, which ddm(7) lists, are accepted with a message; no letter has two meanings.
. "$(dirname "$0")/tap.sh"

# "PROGRAM OLD NEW" of every row of the table. "Fl -predict Cm v" is "--predict=v".
sed -n '/^\.Ss Names of the version before/,/^\.El/p' "$SRC/man/ddm.7" | sed -n 's/^\.It Fl //p' | grep -v '^.*Em' |
	sed 's, Ta Fl ,|,; s, Ta ,|,; s/ Cm /=/g; s/, / /g' | while IFS='|' read -r old new programs; do
		for p in $programs; do
			# shellcheck disable=SC2086
			echo "ddm-$p" -$old -$new
		done
	done >names
[ "$(grep -c . names)" -ge 18 ]
tap_result $? "the table of ddm(7): $(grep -c . names) names"

while read -r program old new; do
	name=${new%%=*}
	check_grep "$program has $name" "^  .*$name( |\$)" /dev/stdin <<-END
		$("$program" -h)
	END
	"$program" -h | grep -qE -- "^  .*${old%%=*}( |,|\$)" && [ "${old%%=*}" != "$name" ]
	[ $? -ne 0 ]
	tap_result $? "$program -h does not list ${old%%=*} of before"
	case $old in
	*=*) tap_run "$program" "${old%%=*}" "${old#*=}" ;;
	--check | -c | --*)
		case $new in
		--check) tap_run "$program" "$old" ;;
		--columns | --pretrained | --init-weights | --compare | --timesteps | --expert-time | --negative-prompt | *-dtype)
			case $program$new in
			ddm-grid--columns) v=3 ;;
			ddm-sample--timesteps) v=paris ;;
			ddm-sample--expert-time) v=native ;;
			*-dtype) v=bf16 ;;
			*) v=x ;;
			esac
			tap_run "$program" "$old" $v
			;;
		*) tap_run echo "no example of $old" ;;
		esac
		;;
	esac
	[ "$RC" -eq 2 ]
	tap_result $? "$program $old is taken, and a missing operand is told" "exit $RC"
	check_err "$program $old: a missing operand" "too few operands"
	check_err "$program $old: the new name is told" "^$program: ${old%%=*}( ${old#*=})? is now ${new%%=*}"
	[ "$(tap_lines "$ERR")" -eq 2 ]
	tap_result $? "$program $old: two lines"
done <names

echo '{"n": 7, "m": 8}' >a.json
check_out "an old letter does what it did" "label  n
a      7" ddm-report -c n a=a.json
check_err "and says so" "^ddm-report: -c is now --columns; the next version will not accept the old name$"
check_out "its value attached" "label  n
a      7" ddm-report -cn a=a.json
check_out "the new name" "label  n
a      7" ddm-report --columns n a=a.json
[ ! -s "$ERR" ]
tap_result $? "the new name: nothing on stderr"
check "an old letter among others" ddm-info -jc a.json
check_err "and says so" "^ddm-info: -c is now --check"
check_exit 2 "an old name cut short is unknown" ddm-sample --conver native x
check_err "and named" "unknown option '--conver'"

# -c is ddm-check's alone; every other letter that two programs have means the same long option, or has none.
for program in "$B"/ddm-*; do
	[ -f "$program" ] && [ -x "$program" ] || continue
	"$(basename "$program")" -h | grep -oE '^  -[A-Za-z0-9](, --[a-z0-9-]+)?' | sed "s/^ */$(basename "$program") /"
done >letters
check_out "-c" "ddm-check -c, --complete" grep -e ' -c' letters
