# Completion of command lines, made by every program from its table of options. The package bash-completion is not needed.
. "$(dirname "$0")/tap.sh"

check_exit 2 "an unknown shell" ddm-report --completion tcsh
check_err "the shells are named" "bash, zsh, fish"
check_exit 2 "only where it is all there is" ddm-report --completion bash a=b
check_stdout "a script" ddm-report --completion bash
ddm-sample -h | grep -q -e --completion
[ $? -ne 0 ]
tap_result $? "-h does not list it"

mkdir scripts
for program in "$B"/ddm-*; do
	[ -f "$program" ] && [ -x "$program" ] || continue
	name=$(basename "$program")
	for shell in bash zsh fish; do
		"$name" --completion $shell >"scripts/$name.$shell" || echo "$name: $shell" >>failed
	done
done
check_absent "every program writes its scripts" failed
for shell in zsh fish; do
	command -v $shell >/dev/null || { skip "$shell accepts them" "no $shell"; continue; }
	for script in scripts/*.$shell; do
		$shell -n "$script" >>"$OUT" 2>&1 || echo "$script" >>refused.$shell
	done
	check_absent "$shell accepts them" refused.$shell
done
command -v bash >/dev/null || skip_all "no bash"

# completes PROGRAM WORD...: the completions that bash offers for the last word, one a line. COMP_WORDS is split at = as bash does.
cat >completes.bash <<'END'
source "scripts/$1.bash" || exit 1
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
[[ $(complete -p "$1") == "complete -F _${1//-/_} $1" ]] || exit 1
"_${1//-/_}" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
[ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\n' "${COMPREPLY[@]}" | LC_ALL=C sort
END
completes() { bash --norc --noprofile completes.bash "$@"; }

# For every program, completion offers exactly the option names that -h lists.
for program in "$B"/ddm-*; do
	[ -f "$program" ] && [ -x "$program" ] || continue
	name=$(basename "$program")
	"$name" -h | sed -n '/^Options:/,$p' | grep -oE '^  (-[A-Za-z0-9], --[a-z0-9-]+|-[A-Za-z0-9]|    --[a-z0-9-]+)' |
		tr -d , | tr ' ' '\n' | grep . | sort >in-help
	completes "$name" - | sort >offered
	[ -s in-help ] || echo "$name" >>none
	check_same "$name: the options of -h are offered" in-help offered
done
check_absent "every program lists options" none

check_out "a name begun" "--step
--steps" completes ddm-sample --st
check_out "names that share a beginning" "--centroids
--centroids-out" completes ddm-cluster --centr
check_out "words that a text may be" "ab2
ddim
ddpm
dopri5
dpm++1
dpm++2m
dpm++2s
dpm++3m
dpm++3m-corrected
dpm++3s
edm-heun
euler
euler-discrete
heun
midpoint
rk4
sde
unipc1
unipc2
unipc3" completes ddm-sample --solver ''
check_out "a value begun" "heun" completes ddm-sample --solver h
check_out "a value behind = as bash cuts it" "heun" completes ddm-sample --solver = h
check_out "just behind the =" "ab2
ddim
ddpm
dopri5
dpm++1
dpm++2m
dpm++2s
dpm++3m
dpm++3m-corrected
dpm++3s
edm-heun
euler
euler-discrete
heun
midpoint
rk4
sde
unipc1
unipc2
unipc3" completes ddm-sample --solver =
check_out "a value behind = in one word" "--solver=heun" completes ddm-sample --solver=h
check_out "no such value" "" completes ddm-sample --solver x
check_out "a number: nothing is offered" "" completes ddm-sample --steps ''
check_out "a number behind a letter" "" completes ddm-sample -n ''
check_out "words of a text" "top-1
top-2" completes ddm-sample --route top
mkdir 'pictures and more' plain
touch 'plain/*' plain/a.tar plain/a.tsv -- -n
check_out "a file for an option" "plain/a.tar
plain/a.tsv" completes ddm-shard -a plain/a
check_out "a file for an operand" "plain" completes ddm-shard -a x pla
check_out "a file behind a flag" "plain" completes ddm-report -q pla
check_out "names are not expanded" "plain/*
plain/a.tar
plain/a.tsv" completes ddm-shard plain/
check_out "a blank in a name" "pictures and more" completes ddm-shard pict
check_out "an operand LABEL=FILE as bash cuts it" "plain" completes ddm-report top-1 = pla
check_out "an operand LABEL=FILE in one word" "top-1=plain" completes ddm-report top-1=pla
check_out "behind -- there are files only" "-n" completes ddm-report -- -
check_out "a text that is a word or a file" "plain" completes ddm-cluster --features pl

command -v fish >/dev/null || skip_all "no fish"
check_out "fish: values" "match
native" fish --no-config -c 'source scripts/ddm-sample.fish; complete -C "ddm-sample --expert-time " | cut -f 1'
check_out "fish: names" "--solver" fish --no-config -c 'source scripts/ddm-sample.fish; complete -C "ddm-sample --solv" | cut -f 1'
