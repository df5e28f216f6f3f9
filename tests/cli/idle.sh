# No option is ignored without a message. Every option has rules that say when it has an effect (core/option.h). Each option with a rule is tried
# with each option that a rule names; the program must refuse or accept the pair as the rules say. idle-input.sh tests rules that depend on
# operands.
. "$(dirname "$0")/tap.sh"

# Operands with which the programs get as far as checking the options; none of these files exists.
operands() {
	case $1 in
	ddm-plot) echo "lines x=none" ;;
	ddm-diagnose) echo "budget none none" ;;
	ddm-synth) echo "draw none" ;;
	ddm-log) echo "export none" ;;
	ddm-eval-fid) echo "none none" ;;
	ddm-compare) echo "a=none b=none" ;;
	ddm-report | ddm-grid) echo "a=none" ;;
	ddm-select) echo "1 none" ;;
	*) echo "none" ;;
	esac
}

# Reads `ddm-x --completion rules` and writes "EXPECTED<TAB>OPTION<TAB>arguments" for every option with a rule, where EXPECTED is 1 if OPTION must be
# refused: alone, and with each option that a rule names, at one valid value and at each value that a rule requires.
cat >pairs.awk <<'END'
BEGIN { FS = "\t" }
{
	if (!($1 in example)) name[++n] = $1
	example[$1] = $4; preset[$1] = $5
	if ($2 == "needs" || $2 == "against") { rules[$1]++; use[$1, rules[$1]] = $2; with[$1, rules[$1]] = $3 }
	m = split($3, word, " ")
	for (i = 1; i <= m && ($2 == "needs" || $2 == "against"); i++) {
		p = match(word[i], /[=~]/)
		if (substr(word[i], 1, 1) != "-" || word[i] == "-") continue
		mode[p ? substr(word[i], 1, p - 1) : word[i]] = 1
		if (!p) continue
		o = substr(word[i], 1, p - 1); v = substr(word[i], p + 1); gsub(/\*/, "x", v)
		if (!((o, v) in seen)) { seen[o, v] = 1; more[o] = more[o] "\t" v }
	}
}
function fits(text, pattern) {
	if (pattern ~ /^\*.*\*$/) return index(text, substr(pattern, 2, length(pattern) - 2)) > 0
	if (substr(pattern, 1, 1) == "*") { pattern = substr(pattern, 2); return substr(text, length(text) - length(pattern) + 1) == pattern }
	if (substr(pattern, length(pattern)) == "*") { pattern = substr(pattern, 1, length(pattern) - 1); return substr(text, 1, length(pattern)) == pattern }
	return text == pattern
}
# Whether the condition holds for option a with value va together with option b.
function holds(c, a, va, b, vb,  p, o, given, v) {
	if (c == "-") return 0
	p = match(c, /[=~]/)
	if (!p) return c == a || c == b
	o = substr(c, 1, p - 1)
	if (o == "1") return substr(c, p + 1) == first
	given = o == a || o == b
	v = o == b ? vb : o == a ? va : preset[o]
	if (substr(c, p, 1) == "~") return !given || v == substr(c, p + 1)
	return v != "" && fits(v, substr(c, p + 1))
}
function refused(o, a, va, b, vb,  r, k, i, word, any) {
	for (r = 1; r <= rules[o]; r++) {
		k = split(with[o, r], word, " ")
		any = 0
		for (i = 1; i <= k; i++) if (holds(word[i], a, va, b, vb)) any = 1
		if ((use[o, r] == "needs" && !any) || (use[o, r] == "against" && any)) return 1
	}
	return 0
}
function put(o, p, v) {
	# Only the first refusal is reported: if both are refused, it may be either.
	both = refused(p, o, example[o], p, v)
	print refused(o, o, example[o], p, v) (both ? "2" : "") "\t" o "\t" o (example[o] == "" ? "" : " " example[o]) " " p (v == "" ? "" : " " v)
}
END {
	for (i = 1; i <= n; i++) {
		o = name[i]
		if (!rules[o]) continue
		print refused(o, o, example[o], "", "") "\t" o "\t" o (example[o] == "" ? "" : " " example[o])
		for (j = 1; j <= n; j++) {
			p = name[j]
			if (p == o || !(p in mode)) continue
			put(o, p, example[p])
			k = split(substr(more[p], 2), value, "\t")
			for (m = 1; m <= k; m++) put(o, p, value[m])
		}
	}
}
END

total=0
for program in "$B"/ddm-*; do
	[ -f "$program" ] && [ -x "$program" ] || continue
	name=$(basename "$program")
	"$name" --completion rules >rules 2>"$ERR" || : >rules
	"$name" -h | sed -n '/^Options:/,$p' | grep -oE '^  (-[A-Za-z0-9], --[a-z0-9-]+|-[A-Za-z0-9]|    --[a-z0-9-]+)' |
		sed 's/^.*, //; s/^ *//' | grep -vE '^(--help|--version)$' | sort >listed
	cut -f 1 rules | sort -u >ruled
	check_same "$name: every option says when it is used" listed ruled
	check_out "$name: none without a rule" "" awk -F '\t' '$2 == "none" { print $1 }' rules
	check_out "$name: rules name its own options" "" awk -F '\t' '
		{ own[$1] = 1; if ($2 == "needs" || $2 == "against") with[NR] = $3 }
		END { for (r in with) { n = split(with[r], w, " "); for (i = 1; i <= n; i++) {
			o = w[i]; sub(/[=~].*/, "", o); if (o != "-" && o != "1" && !(o in own)) print w[i] } } }' rules
	operands=$(operands "$name")
	awk -v first="${operands%% *}" -f pairs.awk rules >pairs
	: >wrong
	line_end='
'
	while IFS='	' read -r expected option arguments; do
		# shellcheck disable=SC2046,SC2086
		said=$("$name" $arguments $operands 2>&1 >/dev/null </dev/null)
		rc=$?
		total=$((total + 1))
		case $expected.$said in
		*.*"$line_end"*"does nothing"*) ;;
		1."$name: $option does nothing with"*) [ $rc -eq 2 ] && continue ;;
		12."$name: -"*" does nothing with"*) [ $rc -eq 2 ] && continue ;;
		0*."$name: $option does nothing"*) ;;
		0*) continue ;;
		esac
		echo "$name $arguments: $rc, $said" >>wrong
	done <pairs
	check_out "$name: $(grep -c . pairs) pairs are refused or taken as the rules say" "" head -n 5 wrong
done
[ "$total" -gt 300 ]
tap_result $? "$total pairs were tried"

# Single cases, with their messages.
check_exit 2 "a rule with values" ddm-sample --labels l.tsv none
check_err "what is missing is named" "^ddm-sample: --labels does nothing without --route oracle or --class labels$"
check_exit 2 "a rule by the first operand" ddm-plot --smooth 3 bars x=none
check_err "what is missing is named" "^ddm-plot: --smooth does nothing without KIND loss$"
check_exit 2 "values of one option" ddm-train --class-dropout .2 --cluster 0 -o m none
check_err "are said once" "^ddm-train: --class-dropout does nothing without --condition class or cluster$"
check_exit 2 "one against another" ddm-cluster -k 2 --centroids c.npy --restarts 4 none
check_err "both are named" "^ddm-cluster: --restarts does nothing with --centroids$"
check_exit 2 "a list that is none" ddm-shard -0 -a a.tsv -o s none
check_err "is named" "^ddm-shard: --null does nothing without a list on standard input, the operand -$"
