# configure, make deps and make install on a machine on which something is missing.
. "$(dirname "$0")/tap.sh"

need make cc
mkdir bin
cat >bin/cc-without-zstd <<'END'
#!/bin/sh
case " $* " in *" -lzstd "*) exit 1 ;; esac
exec cc "$@"
END
cat >bin/apt-get <<'END'
#!/bin/sh
echo "$*" >>"$APT_LOG"
echo "E: Could not resolve 'deb.debian.org'" >&2
exit 100
END
printf '#!/bin/sh\necho "${FAKE_UID:-0}"\n' >bin/id
printf '#!/bin/sh\nexit 1\n' >bin/sudo
chmod +x bin/*
APT_LOG=$PWD/apt.log
export APT_LOG
B=$PWD/build
export B

check_exit 1 "an unknown option" "$SRC/configure" --no-such
check_err "is named" "--no-such"
check_exit 1 "an unknown choice" "$SRC/configure" --with-blas=mkl
check_err "the choices are named" "builtin onednn"
check_exit 1 "a relative prefix" "$SRC/configure" --prefix=here
check_exit 1 "a missing library" "$SRC/configure" --without-media CC="$PWD/bin/cc-without-zstd"
check_err "it and its package are named" "libzstd \(Debian: libzstd-dev\)"
check_grep "nothing but it" "NOT FOUND" "$OUT"
[ "$(grep -c 'NOT FOUND' "$OUT")" -eq 1 ]
tap_result $? "is missing"
check_grep "config.log has the command" 'lzstd' build/config.log
check_absent "no config.mak" build/config.mak
check_out "--missing prints packages" "libzstd-dev" "$SRC/configure" --missing --without-media CC="$PWD/bin/cc-without-zstd"
PATH=$PWD/bin:$PATH
check_exit_any 1 "make deps without a network" "$SRC/share/deps.sh" --without-media CC="$PWD/bin/cc-without-zstd"
check_err "says what is needed" "deps: apt-get failed .*libzstd-dev"
check_grep "apt-get was asked to update" "update" apt.log
FAKE_UID=1000
export FAKE_UID
check_exit 1 "make deps without rights" "$SRC/share/deps.sh" --without-media CC="$PWD/bin/cc-without-zstd"
check_err "says what root would do" "as root: apt-get install libzstd-dev"
check "make deps where nothing is missing" "$SRC/share/deps.sh"
[ ! -s "$OUT" ] && [ ! -s "$ERR" ]
tap_result $? "is silent"

# make demo does not install the programs for tests; make check after it tries once.
mkdir -p stub/share stub/build
cp "$SRC/share/deps.sh" stub/share
printf '#!/bin/sh\n[ "$1" != --wanted ] || echo fish\n' >stub/configure
chmod +x stub/configure
touch -d '1 hour ago' stub/configure
touch stub/build/config.mak
B=$PWD/stub/build
FAKE_UID=0
: >apt.log
check "deps for a demo in a configured folder" stub/share/deps.sh --quick --needed
[ ! -s apt.log ] && [ ! -s "$OUT" ] && [ ! -s "$ERR" ]
tap_result $? "install nothing"
check "deps for the tests in it" stub/share/deps.sh --quick
check_grep "install what tests want" 'installing fish' "$OUT"
check_err "and say what is skipped without it" 'some tests are skipped: fish'
check_grep "after an update" update apt.log
: >apt.log
check "the next time" stub/share/deps.sh --quick
[ ! -s apt.log ] && [ ! -s "$OUT" ] && [ ! -s "$ERR" ]
tap_result $? "they do not try again"

B=$(dirname "$(command -v ddm-report)")
install() { make -s -C "$SRC" B="$B" "$@" DESTDIR="$PWD/root" PREFIX=/usr; }
check "make install" install install
for f in bin/ddm-report share/man/man1/ddm-report.1 share/man/man7/ddm.7 share/ddm/recipes/ddm.mk share/ddm/slurm/ddm-submit \
	share/bash-completion/completions/ddm-report share/zsh/site-functions/_ddm-report share/fish/vendor_completions.d/ddm-report.fish; do
	[ -s "root/usr/$f" ]
	tap_result $? "installs $f"
done
check "an installed program runs" root/usr/bin/ddm-report --version
check "the installed recipe is a Makefile" make -n -f root/usr/share/ddm/recipes/ddm.mk BIN=x DATA=photos report
if [ -x "$B/ddm-ingest" ]; then
	printf 'YUV4MPEG2 W8 H8 F25:1 Ip A1:1 Cmono\nFRAME\n%064d' 1 >grey.y4m
	check "an installed ddm-ingest finds its decoder" root/usr/bin/ddm-ingest -q --size 8 -o grey.tar grey.y4m
	check_grep "and records its versions" '"media":"libavcodec' grey.tar
	mv root/usr/libexec/ddm/ingest-decoder moved
	check_exit 69 "without its decoder" root/usr/bin/ddm-ingest -q --size 8 -o none.tar grey.y4m
	check_err "which is named" 'cannot start a decoder: .*libexec/ddm/ingest-decoder: No such file'
	check_absent "no output" none.tar
	mv moved root/usr/libexec/ddm/ingest-decoder
fi
check "make uninstall" install uninstall
left=$(find root -type f)
[ -z "$left" ]
tap_result $? "leaves nothing" "$left"
