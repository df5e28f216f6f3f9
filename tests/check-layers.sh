# House rules that the text of the sources shows: includes point to lower layers, names are unique, the library prints nothing.
. "$(dirname "$0")/cli/tap.sh"

cd "$SRC" || exit 1
if git rev-parse --git-dir >/dev/null 2>&1; then
	git ls-files -co --exclude-standard >"$tap_dir/work/files"
else
	find . -type f ! -path './build*' | sed 's|^\./||' >"$tap_dir/work/files"
fi
files() { grep -E -- "$1" "$tap_dir/work/files" | while read -r f; do [ -f "$f" ] && echo "$f"; done; }

found=$OUT
: >"$ERR"

# none NAME: ok if $found is empty
none() {
	[ ! -s "$OUT" ]
	tap_result $? "$1"
}

code=$(files '\.(c|h|cu|cuh)$')
library=$(files '^(lib|kernels)/.*\.(c|cu)$')

# shellcheck disable=SC2086
awk '
	BEGIN {
		n = split("core comm file text kernels tape net diffusion data cluster metric train sample inspect plot cmd", layer, " ")
		for (i = 1; i <= n; i++) rank[layer[i]] = i
	}
	FNR == 1 {
		split(FILENAME, part, "/")
		mine = part[1] == "lib" ? part[2] : part[1]
		if ((part[1] == "lib" || part[1] == "kernels" || part[1] == "cmd") && !(mine in rank)) print FILENAME ": not in a layer"
	}
	mine in rank && /^[ \t]*#[ \t]*include[ \t]*"/ {
		split($0, q, "\"")
		slash = index(q[2], "/")
		if (!slash) { if (q[2] != "config.h") print FILENAME ":" FNR ": " q[2] " without its directory"; next }
		other = substr(q[2], 1, slash - 1)
		if (!(other in rank)) print FILENAME ":" FNR ": " q[2] " is in no layer"
		else if (rank[other] > rank[mine]) print FILENAME ":" FNR ": includes " q[2]
	}' $code >"$found"
none "includes point only to the same or a lower layer"

# Within a folder NAME.c and NAME.h are one unit. A unit uses another if its object needs a symbol that the other's object defines. Units that
# share one header *impl.h are a family, one module in several files, whose parts may use each other. There must be no other cycles. Objects
# of removed sources are ignored.
# shellcheck disable=SC2086
grep -HoE '^#include "[a-z]*/[A-Za-z0-9_]*impl\.h"' $(files '^(lib|kernels|cmd)/.*\.(c|cu)$') | sed 's|:#include "| |; s|"$||; s|^|family |' \
	>"$tap_dir/work/units"
find "$B/lib" "$B/kernels" "$B/cmd" -name '*.o' 2>/dev/null | awk -v skip=$((${#B} + 1)) '
	NR == FNR { there[$0]; next }
	{
		source = substr($0, skip + 1)
		if (!sub(/\.cu\.o$/, ".cu", source)) sub(/(\.f32|\.base|\.fma|\.f64)?\.o$/, ".c", source)
		if (source in there) print
	}' "$tap_dir/work/files" - | xargs nm -A -P 2>/dev/null | cut -c$((${#B} + 2))- >>"$tap_dir/work/units"
awk '
	function unit(path) { sub(/(\.f32|\.base|\.fma|\.f64|\.cu)?\.(o|c|cu)$/, "", path); return path }
	function folder(path) { sub(/\/[^\/]*$/, "", path); return path }
	function root(u) { while (u in parent) u = parent[u]; return u }
	function join(a, b) { a = root(a); b = root(b); if (a != b) parent[a] = b }
	$1 == "family" {
		if ($2 !~ "(^|/)" folder($3) "/") next
		if ($3 in member) join(unit($2), unit(member[$3]))
		member[$3] = $2
		next
	}
	{
		sub(/:$/, "", $1)
		u = unit($1)
		if ($3 == "U") needs[u " " $2]
		else if ($3 ~ /^[A-TV-Z]$/) { home[folder(u) " " $2] = u; symbols++ }
	}
	END {
		if (!symbols) exit 3
		for (n in needs) {
			split(n, p, " ")
			h = folder(p[1]) " " p[2]
			if (!(h in home) || root(home[h]) == root(p[1])) continue
			edge[root(p[1]) " " root(home[h])] = p[1] " needs " p[2] " of " home[h]
		}
		do {
			delete from; delete to
			for (x in edge) { split(x, p, " "); from[p[1]]; to[p[2]] }
			cut = 0
			for (x in edge) {
				split(x, p, " ")
				if (!(p[2] in from) || !(p[1] in to)) { delete edge[x]; cut++ }
			}
		} while (cut)
		for (x in edge) print edge[x]
	}' "$tap_dir/work/units" >"$found"
if [ $? = 3 ]; then
	skip "no cycle between the source files of a folder" "no objects whose symbols nm can read in $B"
else
	none "no cycle between the source files of a folder, but within a family that shares a header *impl.h"
fi

# Code outside lib/net must not test a network's architecture, or every new one would change it; it asks for traits (lib/net/net.h).
names=$(sed -n 's/^#define NET_DEFS(X)//p' lib/net/netdef.h | tr -d ' ' | sed 's/^X(//; s/)$//; s/)X(/|/g')
# shellcheck disable=SC2086
grep -nE "net/(netdef|trunk[a-z]*)\.h|(^|[^A-Za-z0-9_])net_($names)([^A-Za-z0-9_]|\$)" $(files '^(lib|kernels|cmd)/.*\.(c|h|cu)$' | grep -v '^lib/net/') >"$found"
[ -n "$names" ] || echo "lib/net/netdef.h: no list of architectures" >"$found"
none "nobody outside lib/net asks which architecture a network has"
# shellcheck disable=SC2086
grep -nE "(^|[^A-Za-z0-9_])net_($names)([^A-Za-z0-9_]|\$)" $(files '^lib/net/.*\.(c|h)$' | grep -v '^lib/net/net\.c$') |
	grep -vE ":const struct net_def net_($names) = " >"$found"
none "nor inside it, but for the table of definitions"

grep -o '`[a-z]*/[A-Za-z0-9_./*-]*`' ARCHITECTURE.md CONTRIBUTING.md tests/README.md | tr -d '`' | while IFS=: read -r page path; do
	case $path in *NAME* | shared/*) continue ;; esac
	# shellcheck disable=SC2086
	ls -d $path >/dev/null 2>&1 || ls -d tests/$path >/dev/null 2>&1 || echo "$page: $path is not there"
done >"$found"
none "the paths that the maps name are there"

files '\.(c|cu|h|cuh|sh|py)$' | awk -F/ '{ if ($NF in seen) print seen[$NF] " and " $0; seen[$NF] = $0 }' >"$found"
none "no file name is used twice"

# Calls that programs may make and the library may not. Comments and strings are removed first; longer names do not count.
strip() {
	sed -E 's|"([^"\\]\|\\.)*"|""|g; s|//.*||; s|/\*[^*]*\*/||g; /^[[:space:]]*(\/\*\|\*)/s|.*||' "$1"
}
calls() { # REGEX FILE...
	regex=$1
	shift
	for f; do
		strip "$f" | grep -nE "(^|[^A-Za-z0-9_.>])($regex) *\(" | sed "s|^|$f:|"
	done
}
# shellcheck disable=SC2086
calls 'printf|vprintf|puts|putchar|perror|exit|_exit|abort|getenv|secure_getenv|setenv|system|popen|err|warn' $library >"$found"
none "the library neither prints, exits nor reads the environment"
# shellcheck disable=SC2086
for f in $library; do
	strip "$f" | grep -nE '(^|[^A-Za-z0-9_])stderr([^A-Za-z0-9_]|$)' | sed "s|^|$f:|"
done >"$found"
none "the library does not know stderr"
# shellcheck disable=SC2086
calls 'atoi|atof|strcpy|strcat|sprintf|vsprintf|strtok|gets|rand|srand|system|alloca' $code >"$found"
none "no banned call"
# shellcheck disable=SC2086
calls 'malloc|calloc|realloc' $(files '^(lib|kernels|cmd)/.*\.(c|cu)$' | grep -vE '^lib/(core/mem|file/fileio|file/tarfile)\.c$') >"$found"
none "memory comes from core/mem (but for reading what has no known length)"
# shellcheck disable=SC2086
calls 'time|gettimeofday|localtime|gmtime' $(files '^(lib|kernels)/.*\.c$' | grep -v '^lib/train/') >"$found"
none "the library does not ask for the time of day (but for the log of training)"

for f in $code; do
	n=$(grep -c '' "$f")
	case $f in tests/*) most=800 ;; *) most=590 ;; esac
	[ "$n" -le $most ] || echo "$f: $n lines"
done >"$found"
none "no file is longer than 590 lines, of tests 800"
# shellcheck disable=SC2086
awk 'FNR == 1 && !/^\/\*/ { print FILENAME ": the first line is not a comment on what the file is for" }' $code >"$found"
none "every source file opens with what it is for"
for f in $(files '^cmd/ddm-.*\.c$'); do
	n=$(grep -c '' "$f")
	[ "$n" -le 200 ] || echo "$f: $n lines"
done >"$found"
none "a program has at most 200 lines"
for f in $code Makefile configure; do
	expand -t 4 "$f" | awk -v f="$f" 'length($0) > 150 { print f ":" NR ": " length($0) " columns"; n++ } n > 2 { exit }'
done >"$found"
none "no line is longer than 150 columns"
# shellcheck disable=SC2086
grep -nE '(TO''DO|FIX''ME|(^|[^X])XX''X([^X]|$)|HA''CK)' $code Makefile configure /dev/null >"$found"
none "nothing is left undone"
# shellcheck disable=SC2086
grep -nE '^[[:space:]]*typedef[[:space:]]+struct' $code /dev/null | grep -v '^tests/op/fakecuda.h:' >"$found"
none "no typedef of a struct (but of those that the CUDA runtime has)"
# shellcheck disable=SC2086
awk '
	FNR == 1 { depth = 0 }
	/^{/ { depth = 1 }
	/^}/ { depth = 0 }
	depth && /^[ \t]*#[ \t]*(if|ifdef|ifndef|else|elif)/ { print FILENAME ":" FNR ": " $0 }' $(files '^(lib|kernels|cmd)/.*\.(c|cu)$') >"$found"
none "no #if inside a function"
# shellcheck disable=SC2086
for f in $(files '^(lib|kernels|cmd)/.*\.h$'); do
	grep -q '^#ifndef DDM_' "$f" || grep -q '^/\* Included again' "$f" || echo "$f: no guard DDM_..."
done >"$found"
none "every header has its guard"

for f in $(files '^cmd/ddm-.*\.c$'); do
	p=$(basename "$f" .c)
	[ -f "man/$p.1" ] || echo "$p: no man/$p.1"
	grep -qE "check_program (.* )?$p( |\$)" tests/cli/*.sh || echo "$p: no tests/cli/*.sh calls check_program $p"
	grep -qE 'return cmd_end(_saved|_over)?\(' "$f" || echo "$p: main does not end with cmd_end"
done >"$found"
none "every program has its page, its test and its checked end"

if command -v ldd >/dev/null; then
	for p in "$B"/ddm-*; do
		[ -x "$p" ] && [ "$(basename "$p")" != ddm-ingest ] && [ ! -d "$p" ] && ldd "$p" | grep -E 'libav(codec|format|util|filter)|libsw' | sed "s|^|$p:|"
	done >"$found"
none "only ddm-ingest links FFmpeg"
else
	skip "only ddm-ingest links FFmpeg" "no ldd"
fi
