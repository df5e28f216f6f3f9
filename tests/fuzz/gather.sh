#!/bin/sh
# Keeps useful inputs of campaigns in tests/fuzz/gathered.tar.zst, with which campaigns begin and which `make check` replays: for each target
# the inputs of at most 4 KiB that reach code that no committed input reaches.
#
#	B=build-fuzz tests/fuzz/gather.sh
set -u
SRC=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
B=$(cd "${B:-build-fuzz}" 2>/dev/null && pwd) || { echo "gather.sh: no build directory: make fuzz" >&2; exit 1; }
cd "$SRC" || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
[ ! -e tests/fuzz/gathered.tar.zst ] || zstd -qdc tests/fuzz/gathered.tar.zst | tar -C "$work" -xf - || exit 1
for source in tests/fuzz/fuzz_*.c; do
	name=$(basename "$source" .c)
	name=${name#fuzz_}
	seeds=$(sed -n 's/^REPLAY_MAIN("\(.*\)")$/\1/p' "$source")
	mkdir -p "$work/$name" "$work/.all" "$work/.new"
	cp "$seeds"/* "$work/.all"
	(cd "$work/.all" && ls) >"$work/.seeds"
	# Work on a copy, because a campaign may be running.
	cp "$B/corpus/$name"/* "$work/.new" 2>/dev/null
	ASAN_OPTIONS=allocator_may_return_null=1:quarantine_size_mb=16 "$B/tests/fuzz/fuzz_$name" -merge=1 -use_counters=0 -max_len=4096 -timeout=90 \
		-rss_limit_mb=2560 "$work/.all" "$work/$name" "$work/.new" >"$work/.log" 2>&1 || { tail -n 5 "$work/.log" >&2; exit 1; }
	rm -rf "${work:?}/$name" "$work/.new"
	while read -r seed; do rm -f "$work/.all/$seed"; done <"$work/.seeds"
	mv "$work/.all" "$work/$name"
	echo "$name: $(find "$work/$name" -type f | grep -c '') inputs"
done
rm -f "$work/.seeds" "$work/.log"
(cd "$work" && LC_ALL=C tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - -- *) | zstd -q -19 >tests/fuzz/gathered.tar.zst.new &&
	mv tests/fuzz/gathered.tar.zst.new tests/fuzz/gathered.tar.zst
