# Whether the C and CUDA sources are formatted as by clang-format 14, for which .clang-format is written; other versions differ in details.
. "$(dirname "$0")/cli/tap.sh"

need clang-format
version=$(clang-format --version | sed -nE 's/.*version ([0-9]+)\..*/\1/p')
[ "$version" = 14 ] || skip_all "clang-format is version $version, and the sources follow version 14"

sources() { # those that `make format` rewrites
	find "$SRC/cmd" "$SRC/kernels" "$SRC/lib" "$SRC/tests" \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) ! -path '*/golden/*'
}

printf 'int  f( void ){return 0;}\n' >bad.c
cp "$SRC/.clang-format" .
clang-format --dry-run -Werror bad.c 2>/dev/null
[ $? -ne 0 ]
tap_result $? "badly formatted code is seen"

sources | xargs -P 2 -n 40 clang-format --dry-run -Werror 2>report
sed -nE "s|^$SRC/([^:]*):.*error: .*|\\1|p" report | sort | uniq -c >differ
[ ! -s differ ] && [ ! -s report ]
tap_result $? "sources agree with .clang-format (otherwise: make format)" "$(head -20 differ)$(head -3 report)"
