# Wrong options, values and operands: one line with the probable correction and a pointer to -h; -h in groups.
. "$(dirname "$0")/tap.sh"

# says NAME REGEX CMD...: CMD fails with a usage error in one short line
says() {
	says_name=$1 says_regex=$2
	shift 2
	check_exit 2 "$says_name" "$@"
	check_err "$says_name: $says_regex" "$says_regex"
	[ "$(size_of "$ERR")" -lt 300 ]
	tap_result $? "$says_name: a short line"
}

says "no operand" "too few operands \(0\): expected SHARDS; try 'ddm-train -h'$" ddm-train --cluster 0 -o m
says "an operand too many" "too many operands \(2\): expected MODEL; try 'ddm-sample -h'$" ddm-sample a b
says "operands with words" "expected COMMAND MODEL\|TABLE \[SHARDS\|LAW\|QUALITY\]; try" ddm-diagnose
says "operands with brackets" "expected KIND \[LABEL=\]FILE\.\.\.; try" ddm-plot
says "a name of the field" "'--learning-rate'; did you mean --lr; try 'ddm-train -h'$" ddm-train --learning-rate 1e-4
says "the same with =" "'--learning-rate'; did you mean --lr; try" ddm-train --learning-rate=1e-4
says "another" "'--guidance-scale'; did you mean --cfg; try" ddm-sample --guidance-scale 4
says "a slip" "'--shedule'; did you mean --schedule; try" ddm-train --shedule cosine
says "letters swapped" "'--stpes'; did you mean --steps; try" ddm-sample --stpes 4
says "a word that one option has" "'--checkpoint-interval'; did you mean --checkpoint-every; try" ddm-train --checkpoint-interval 4
says "nothing is near" "unknown option '--colour'; try 'ddm-train -h'$" ddm-train --colour
says "a letter" "unknown option '-Z'; try 'ddm-train -h'$" ddm-train -Z
says "more than one begins so" "ambiguous option '--batc'; try 'ddm-sample -h'$" ddm-sample --batc 4
says "a value" "--schedule: 'cosin' is not one of constant, cosine; did you mean cosine$" ddm-train --schedule cosin
says "a value that nothing is near" "--schedule: 'linear' is not one of constant, cosine$" ddm-train --schedule linear
says "a solver" "did you mean heun" ddm-sample -n 1 --route full --solver huen m
says "a route" "did you mean full" ddm-sample -n 1 --route ful m
says "a kind of chart" "did you mean router" ddm-plot rooter x

mkdir photos photos/cats tables model model/router
cp "$SRC"/tests/golden/stills/*.png photos/cats 2>/dev/null || printf 'x' >photos/cats/a.jpg
printf 'x' >samples.tar
printf 'x' >file
says "an unknown network" "unknown network dit-tiny/4; expected .*; did you mean dit-mini/4$" ddm-train --cluster 0 --model dit-tiny/4 -o m nowhere
says "the same of a router" "unknown network dit-nan/4; expected .*; did you mean dit-nano/4$" ddm-route-train --model dit-nan/4 -o m nowhere
says "a network of no known kind" "unknown network vit-s/2; expected one that begins with dit- paris- .* flux-, such as dit-nano/4" ddm-train --cluster 0 --model vit-s/2 -o m nowhere
says "an unknown SD3" "unknown network sd3-x/2; expected sd3-nano/P .* sd3-3.5-large/P" ddm-train --cluster 0 --model sd3-x/2 -o m nowhere
for command in "ddm-train --cluster 0 -o m" "ddm-train --cluster red -o m" "ddm-route-train -o m" "ddm-exact -o m"; do
	check_exit 66 "$command of pictures" $command photos
	check_err "$command of pictures: what to run" "photos holds pictures: run ddm-cluster and ddm-shard first$"
	check_exit 66 "$command of a tar" $command samples.tar
	check_err "$command of a tar: what to run" "samples.tar is a tar of samples: run ddm-cluster and ddm-shard first$"
	check_exit 66 "$command of a model" $command model
	check_err "$command of a model: said" "model is a model, not a SHARDS folder"
	check_exit 66 "$command of a folder" $command tables
	check_err "$command of a folder: said" "tables is not a SHARDS folder.*: it has no MANIFEST.tsv$"
	check_exit 66 "$command of a file" $command file
	check_err "$command of a file: said" "file is a file, not a SHARDS folder"
	check_exit 66 "$command of nothing" $command nowhere
	check_err "$command of nothing: said" "nowhere.*No such file"
done

for program in "$B"/ddm-*; do
	[ -f "$program" ] && [ -x "$program" ] || continue
	name=$(basename "$program")
	"$name" -h >help
	options=$(grep -cE '^  (-[A-Za-z0-9]|    --)' help)
	groups=$(grep -cE '^[A-Z].*:$' help)
	[ "$options" -lt 10 ] || [ "$groups" -ge 4 ]
	tap_result $? "$name: $options options in $groups groups"
	check_grep "$name: the words Options:" '^Options:$' help
done
