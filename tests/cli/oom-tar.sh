# Reading a tar with failing allocations, also in libarchive. If it has no memory for a name, libarchive calls exit(1); the program must still end
# with 71 and without a temporary. (libarchive may also crash, or report a damaged archive.) The failures come from tests/faults.
. "$(dirname "$0")/tap.sh"
. "$SRC/tests/faults/sweep.sh"
export FAULT=memory FAULT_CODES=65 FAULT_OUT=x

# names CMD...: lets every third allocation of CMD fail, alone, and with all later ones
names() {
	for on in 0 1; do
		FAULT_ON=$on FAULT_FROM=$((1 + on)) FAULT_STEP=3 LD_PRELOAD=$preload "$@" >"$OUT" 2>"$ERR"
		grep -q ' chances, ' "$OUT" && ! grep -E '^# bad.*(exit 1,|exit [0-9]+, .*, [1-9][0-9]* temporaries)' "$OUT" >>"$ERR"
		tap_result $? "$1, $([ $on -eq 0 ] && echo "an allocation" || echo "all allocations")"
	done
}

# Names that are too long for a header, and a link, for which libarchive allocates memory.
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
