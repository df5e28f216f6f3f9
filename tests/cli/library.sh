# The installed library: its headers, ddm.pc, and another program that samples pictures with it; and the options that packagers pass to configure.
. "$(dirname "$0")/tap.sh"

need make cc pkg-config
config=$B/config.mak
value() { sed -n "s/^$1 = *//p" "$2"; }
cc=$(value CC "$config")

# With another prefix than the configured one, and with DESTDIR
root=$PWD/root/opt/ddm
install() { make -s -C "$SRC" B="$B" "$@" DESTDIR="$PWD/root" PREFIX=/opt/ddm; }
check "make install" install install
for f in lib/libddm.a lib/pkgconfig/ddm.pc include/ddm/sample/sample.h include/ddm/kernels/device.h share/ddm/examples/sample_pictures.c; do
	[ -s "$root/$f" ]
	tap_result $? "installs $f"
done
package() { PKG_CONFIG_PATH=$root/lib/pkgconfig pkg-config --define-variable=prefix="$root" "$@" ddm; }
check_out "ddm.pc names the version" "$VERSION" package --modversion
check_out "and the prefix" /opt/ddm env PKG_CONFIG_PATH="$root/lib/pkgconfig" pkg-config --variable=prefix ddm
check_exit_any 1 "private headers stay" test -e "$root/include/ddm/sample/sampling.h"

# Every header alone, as strict C11
for h in $(cd "$root/include/ddm" && find . -name '*.h' | sed 's|^\./||' | sort); do
	echo "#include \"$h\""
	$cc -std=c11 -Wall -Wextra -Werror $(package --cflags) -fsyntax-only -include "$h" -x c /dev/null 2>&1 | head -3
done >headers.log
bad=$(grep -v '^#include' headers.log)
[ -z "$bad" ] && [ "$(grep -c '' headers.log)" -gt 100 ]
tap_result $? "every installed header compiles alone" "$bad"

# The example
check "the example builds with what pkg-config says" $cc -Wall -Wextra -Werror -o sample_pictures \
	"$root/share/ddm/examples/sample_pictures.c" $(package --cflags --libs --static)
tar xf "$SRC/tests/golden/tiny-model.tar"
tar xzf "$SRC/tests/golden/paris-model.tar.gz"
check "it samples an ensemble" ./sample_pictures ensemble a.tar 3
check_grep "each picture is given to its hook" '^picture 2: [0-9]+ x [0-9]+, [13] channels$' "$OUT"
check_err "and the report to another" '^3 pictures, route full: '
check "ddm-sample does the same" ddm-sample --route full --steps 4 -n 3 -o b.tar ensemble
check_same "byte for byte" a.tar b.tar
check "it samples from a prompt" ./sample_pictures model c.tar 2 "the cat"
check "ddm-sample too" ddm-sample --route full --steps 4 -n 2 --prompt "the cat" -o d.tar model
check_same "byte for byte" c.tar d.tar
check "once more" ./sample_pictures ensemble a.tar 3
check_err "the work is found done" '^a\.tar: complete, nothing to do$'
check_exit_any 66 "no model" ./sample_pictures nowhere e.tar 1
check_clean "no temporary file and no claim is left" .
check "make uninstall" install uninstall
left=$(find root -type f)
[ -z "$left" ]
tap_result $? "leaves nothing" "$left"

# The options that packagers of Debian and Fedora pass. A missing cross compiler is named.
configured() { B=$PWD/conf "$SRC/configure" --without-media --with-cuda=no CC="$cc" "$@"; }
check "configure as debhelper calls it" configured --build=x86_64-linux-gnu --prefix=/usr '--includedir=${prefix}/include' \
	'--mandir=${prefix}/share/man' '--infodir=${prefix}/share/info' --sysconfdir=/etc --localstatedir=/var --runstatedir=/run \
	--disable-option-checking --disable-silent-rules '--libdir=${prefix}/lib/x86_64-linux-gnu' --disable-maintainer-mode \
	--disable-dependency-tracking
[ ! -s "$ERR" ]
tap_result $? "is silent on stderr" "$(cat "$ERR")"
places() { printf 'include %s\np:\n\t@echo $(LIBDIR) $(INCLUDEDIR) $(MANDIR) $(DATADIR) $(BINDIR)\n' "$PWD/conf/config.mak" | make -s -f - p; }
check_out "the places are autoconf's" "/usr/lib/x86_64-linux-gnu /usr/include /usr/share/man /usr/share/ddm /usr/bin" places
check "configure as rpm calls it" configured --build=x86_64-redhat-linux --host=x86_64-redhat-linux --program-prefix= \
	--prefix=/usr --exec-prefix=/usr --bindir=/usr/bin --sbindir=/usr/sbin --sysconfdir=/etc --datadir=/usr/share --includedir=/usr/include \
	--libdir=/usr/lib64 --libexecdir=/usr/libexec --localstatedir=/var --sharedstatedir=/var/lib --mandir=/usr/share/man \
	--infodir=/usr/share/info
check_out "its places" "/usr/lib64 /usr/include /usr/share/man /usr/share/ddm /usr/bin" places
check "another --datarootdir, and an option nobody knows" configured --prefix=/usr --datarootdir=/usr/data --docdir=/usr/doc --enable-gtk-doc
check_err "which is warned of" 'WARNING: unrecognized options: --enable-gtk-doc$'
check_out "manual and data lie below it" "/usr/lib /usr/include /usr/data/man /usr/data/ddm /usr/bin" places
check_exit 1 "a relative --libdir" configured --libdir=lib
check_err "is refused" "--libdir: 'lib' is not an absolute path"
B=$PWD/conf check_exit 1 "another machine's compiler that is not there" env -u CC "$SRC/configure" --build=x86_64-linux-gnu --host=vax-dec-ultrix
check_err "is named" "CC=vax-dec-ultrix-gcc: no such compiler"
