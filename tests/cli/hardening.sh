# Every program has the hardening that configure requests of compiler and linker, and without a GPU no cache of kernels is made.
. "$(dirname "$0")/tap.sh"

need readelf
config=$B/config.mak
flags() { grep -q -e "$1" "$config"; }
# every NAME CMD...: CMD succeeds for each program
every() {
	name=$1 lack=
	shift
	for p in "$B"/ddm-*; do
		[ -x "$p" ] && [ -f "$p" ] || continue
		"$@" "$p" >/dev/null 2>&1 || lack="$lack $(basename "$p")"
	done
	[ -z "$lack" ]
	tap_result $? "$name" "not in:$lack"
}
# hardened FLAG NAME CMD...: as `every`, if configure found that FLAG works
hardened() {
	if flags "$1"; then
		shift
		every "$@"
	else
		skip "$2" "configure does not use $1 here"
	fi
}
dynamic() { readelf -dW "$1" | grep -E -q "$wanted"; }
segments() { readelf -lW "$1" | grep -E -q "$wanted"; }
symbols() { readelf -sW "$1" | grep -E -q "$wanted"; }

wanted='FLAGS_1.*PIE'
hardened -pie "may be loaded anywhere" dynamic
wanted='GNU_RELRO'
hardened relro "tables of addresses become read-only" segments
wanted='BIND_NOW|FLAGS_1.*NOW'
hardened 'z,now' "before the program runs" dynamic
wanted='__stack_chk_fail'
hardened fstack-protector-strong "overwritten stacks are noticed" symbols
wanted='__[a-z]+_chk'
if flags 'fsanitize\|-O0'; then
	skip "and copies beyond their target" "a sanitizer does that here, or nothing is optimized"
else
	hardened 'D_FORTIFY_SOURCE=3' "and copies beyond their target" symbols
fi
wanted='GNU_STACK .* RW '
every "stacks are not executable" segments
landing_pads() { objdump -d --no-show-raw-insn "$1" | grep -q endbr64; }
if command -v objdump >/dev/null; then
	hardened fcf-protection=full "jumps land where they may" landing_pads
else
	skip "jumps land where they may" "no objdump"
fi

# On a CPU no folder for compiled kernels is made.
mkdir home pics
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics
HOME=$PWD/home
export HOME
unset XDG_CACHE_HOME
check "ddm-cluster" ddm-cluster -q -k 2 -o a.tsv pics
check "ddm-shard" ddm-shard -q -a a.tsv -o s pics
check "ddm-train" ddm-train -q --device cpu --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --predict x0 --batch 8 --cluster 0 --steps 1 -o e s
check "ddm-sample" ddm-sample -n 1 --device cpu --route expert:0 --steps 1 -o x.tar e
check_out "leave nothing at home" home find home
