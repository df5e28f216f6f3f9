# A tar with allocations failing, libarchive's own too: where it has no memory for a name libarchive calls exit(1), which must end like any other
# lack of memory, with 71 and without a temporary. (It may also crash by itself then, or call the archive damaged.) tests/faults does the work.
. "$(dirname "$0")/tap.sh"
. "$SRC/tests/faults/sweep.sh"
export FAULT=memory FAULT_CODES=65 FAULT_OUT=x

# names CMD...: every third allocation of CMD, each alone, and all from there on
names() {
	for on in 0 1; do
		FAULT_ON=$on FAULT_FROM=$((1 + on)) FAULT_STEP=3 LD_PRELOAD=$preload "$@" >"$OUT" 2>"$ERR"
		grep -q ' chances, ' "$OUT" && ! grep -E '^# bad.*(exit 1,|exit [0-9]+, .*, [1-9][0-9]* temporaries)' "$OUT" >>"$ERR"
		tap_result $? "$1, $([ $on -eq 0 ] && echo "an allocation" || echo "all allocations")"
	done
}

# Names longer than a header holds, and a link: texts that libarchive keeps.
mkdir long
name=long/$(printf '%0120d' 7)
cp exif6.jpg "$name.jpg"
ln "$name.jpg" "$name.link.jpg"
tar --format=pax -cf pax.tar "$name.jpg" "$name.link.jpg"
if command -v ddm-ingest >/dev/null; then
	names ddm-ingest --size 8 --threads 1 -o x pax.tar
else
	skip ddm-ingest "not built (--without-media)"
fi
names ddm-cluster -q --threads 1 -k 1 -o x pax.tar
