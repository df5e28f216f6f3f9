#!/bin/sh
# Installs, on Debian and Ubuntu, the packages of the libraries that do not link yet, and programs without which some tests are skipped; the
# latter may fail. configure knows the names of the packages.
#
#	share/deps.sh [--quick] [--needed] [configure's options]
#
# --quick: nothing to do when the build directory is configured and the programs for tests are there, or were asked for once in vain.
# --needed: nothing that is for tests alone.
set -u
SRC=$(cd "$(dirname "$0")/.." && pwd) || exit 1
quick=0 tests=1
while :; do
	case ${1:-} in
	--quick) quick=1 ;;
	--needed) tests=0 ;;
	*) break ;;
	esac
	shift
done
asked=${B:-build}/deps-asked
newer() { [ -n "$(find "$1" -newer "$SRC/configure" 2>/dev/null)" ]; }
if [ $quick -eq 1 ] && newer "${B:-build}/config.mak"; then
	[ $tests -eq 1 ] && ! newer "$asked" && [ -n "$("$SRC/configure" --wanted)" ] || exit 0
fi

fail() {
	echo "deps: $*" >&2
	exit 1
}

# Set packages (needed) and wanted (for tests).
look() {
	packages=$("$SRC/configure" --missing "$@" | tr '\n' ' ') || exit 1
	packages=${packages% }
	wanted=
	[ "$tests" -eq 0 ] || wanted=$("$SRC/configure" --wanted | tr '\n' ' ')
	wanted=${wanted% }
}

look "$@"
# The photographs of `make demo`, which draws its own without them.
pictures=
[ -e /usr/share/datasets/fashion-mnist ] || pictures=dataset-fashion-mnist
[ $tests -eq 0 ] || { mkdir -p "$(dirname "$asked")" && : >"$asked"; }
[ -n "$packages$wanted$pictures" ] || exit 0
skipped="deps: without these packages some tests are skipped: $wanted"
as_root=
if ! command -v apt-get >/dev/null 2>&1; then
	[ -z "$packages" ] || fail "no apt-get here; install what these Debian packages hold: $packages"
	[ -z "$wanted" ] || echo "$skipped" >&2
	exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
	if ! sudo -n true 2>/dev/null; then
		[ -z "$packages" ] || fail "neither root nor sudo without a password; as root: apt-get install $packages"
		[ -z "$wanted" ] || echo "$skipped" >&2
		exit 0
	fi
	as_root='sudo -n'
fi
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
run() { $as_root env DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1 </dev/null; }
echo "deps: installing${packages:+ $packages}${wanted:+ $wanted}${pictures:+ $pictures}"
updated=1
run apt-get -q update || updated=0
if [ -n "$packages" ]; then
	if [ "$updated" -eq 0 ] || ! run apt-get -q -y --no-install-recommends install $packages; then
		tail -n 5 "$log" >&2
		fail "apt-get failed (is there a network?); needed: $packages"
	fi
fi
if [ -n "$wanted" ] && { [ "$updated" -eq 0 ] || ! run apt-get -q -y --no-install-recommends install $wanted; }; then
	echo "$skipped" >&2
fi
if [ -n "$pictures" ] && { [ "$updated" -eq 0 ] || ! run apt-get -q -y --no-install-recommends install $pictures; }; then
	echo "deps: without $pictures the demo draws its pictures" >&2
fi
[ -n "$packages" ] || exit 0
look "$@"
[ -z "$packages" ] || fail "still missing after the installation: $packages"
