#!/bin/sh
# Installs, on Debian and Ubuntu, the packages of whatever does not link yet. configure knows their names.
#
#	share/deps.sh [--quick] [configure's options]      --quick: nothing to do when the build directory is configured
set -u
SRC=$(cd "$(dirname "$0")/.." && pwd) || exit 1
if [ "${1:-}" = --quick ]; then
	shift
	[ -n "$(find "${B:-build}/config.mak" -newer "$SRC/configure" 2>/dev/null)" ] && exit 0
fi

fail() {
	echo "deps: $*" >&2
	exit 1
}

packages=$("$SRC/configure" --missing "$@" | tr '\n' ' ') || exit 1
packages=${packages% }
[ -n "$packages" ] || exit 0
command -v apt-get >/dev/null 2>&1 || fail "no apt-get here; install what these Debian packages hold: $packages"
as_root=
if [ "$(id -u)" -ne 0 ]; then
	sudo -n true 2>/dev/null || fail "neither root nor sudo without a password; as root: apt-get install $packages"
	as_root='sudo -n'
fi
echo "deps: installing $packages"
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
run() { $as_root env DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1 </dev/null; }
if ! run apt-get -q update || ! run apt-get -q -y --no-install-recommends install $packages; then
	tail -n 5 "$log" >&2
	fail "apt-get failed (is there a network?); needed: $packages"
fi
packages=$("$SRC/configure" --missing "$@" | tr '\n' ' ')
[ -z "${packages% }" ] || fail "still missing after the installation: $packages"
