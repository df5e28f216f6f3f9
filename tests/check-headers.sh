# Whether `make deps` installs every header that the build reads. For each header outside the tree in the .d files, the package is
# looked up: configure must name it, or a package that depends on it.
. "$(dirname "$0")/cli/tap.sh"

need dpkg apt-cache
dpkg -S apt-get >/dev/null 2>&1 || skip_all "this system's dpkg knows no packages"

# The packages that configure names: the last word of every line with probe, missing and has_tool, and the compiler's package.
sed -nE "s/^[[:space:]]*(probe .*|has_tool .*|missing [^#]*) ([a-z0-9][a-z0-9.+-]+)\$/\\2/p" "$SRC/configure" | sort -u >named
check_grep "configure names the C library" '^libc6-dev$' named
check_grep "configure names FFmpeg" '^libavfilter-dev$' named

find "$B" -name '*.d' -exec cat {} + | tr -d '\\:' | tr ' ' '\n' | grep '^/.*\.h$' | grep -v "^$SRC/" | grep -v '^/usr/local/cuda' |
	sort -u | while read -r f; do readlink -f "$f"; done | sort -u >headers
[ -s headers ]
tap_result $? "the build read system headers"

# dpkg may know /usr/include and /usr/lib without /usr.
xargs dpkg -S <headers 2>unknown | sed 's/: \/.*//; s/:[a-z0-9]*//g; s/, /\n/g' | sort -u >owners
sed -n 's/^dpkg-query: no path found matching pattern //p' unknown >orphans
[ ! -s orphans ]
tap_result $? "every header belongs to a package" "$(tr '\n' ' ' <orphans)"

# The dependencies of the named packages, without recommendations; virtual names (libjpeg-dev) are replaced by their providers.
xargs apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances <named 2>/dev/null |
	sed 's/^[ |]*//; s/^[A-Za-z]*: //; s/[<>]//g; s/:[a-z0-9]*$//' | sort -u >closure
[ -s closure ] && [ "$(wc -l <closure)" -gt "$(wc -l <named)" ] || skip_all "apt-cache knows no packages"
comm -23 owners closure >missing
[ ! -s missing ]
tap_result $? "make deps would install what the headers need" "not installed by it: $(tr '\n' ' ' <missing)"
