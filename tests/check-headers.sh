# Would `make deps` install all that the build includes? Every header outside the tree that the compiler read (the .d files) is
# looked up among the packages; that package must be one that configure names, or one that such a package depends on.
. "$(dirname "$0")/cli/tap.sh"

need dpkg apt-cache
dpkg -S apt-get >/dev/null 2>&1 || skip_all "this system's dpkg knows no packages"

# The names in configure: the last word of every probe, missing and has_tool line, and the compiler's.
sed -nE "s/^[[:space:]]*(probe .*|has_tool .*|missing [^#]*) ([a-z0-9][a-z0-9.+-]+)\$/\\2/p" "$SRC/configure" | sort -u >named
check_grep "configure names the C library" '^libc6-dev$' named
check_grep "configure names FFmpeg" '^libavfilter-dev$' named

find "$B" -name '*.d' -exec cat {} + | tr -d '\\:' | tr ' ' '\n' | grep '^/.*\.h$' | grep -v "^$SRC/" | grep -v '^/usr/local/cuda' |
	sort -u | while read -r f; do readlink -f "$f"; done | sort -u >headers
[ -s headers ]
tap_result $? "the build read system headers"

# /usr/include and /usr/lib may be known to dpkg without /usr.
xargs dpkg -S <headers 2>unknown | sed 's/: \/.*//; s/:[a-z0-9]*//g; s/, /\n/g' | sort -u >owners
sed -n 's/^dpkg-query: no path found matching pattern //p' unknown >orphans
[ ! -s orphans ]
tap_result $? "every header belongs to a package" "$(tr '\n' ' ' <orphans)"

# What the named packages need, without recommendations; provided names (libjpeg-dev) stand for what provides them.
xargs apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances <named 2>/dev/null |
	sed 's/^[ |]*//; s/^[A-Za-z]*: //; s/[<>]//g; s/:[a-z0-9]*$//' | sort -u >closure
[ -s closure ] && [ "$(wc -l <closure)" -gt "$(wc -l <named)" ] || skip_all "apt-cache knows no packages"
comm -23 owners closure >missing
[ ! -s missing ]
tap_result $? "make deps would install what the headers need" "not installed by it: $(tr '\n' ' ' <missing)"
