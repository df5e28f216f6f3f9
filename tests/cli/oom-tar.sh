# A tar with each allocation failing, libarchive's too: where it has no memory libarchive calls exit(1), which must end like any other lack of
# memory, with 71 and without a temporary. tests/faults does the work.
. "$(dirname "$0")/tap.sh"
. "$SRC/tests/faults/sweep.sh"
export FAULT=memory
least=50

# Names longer than a header holds and a link: what libarchive keeps as texts of its own.
mkdir long
name=long/$(printf '%0120d' 7)
cp exif6.jpg "$name.jpg"
ln "$name.jpg" "$name.link.jpg"
tar --format=pax -cf pax.tar "$name.jpg" "$name.link.jpg"
sweep 120 x ddm-shard -q -a a.tsv --holdout .25 -o x s
tar cf pics.tar -C pics .
sweep 200 x ddm-cluster -q --threads 1 -k 1 -o x pax.tar
DDM_TEST_FAULTS=7 sweep 100 x ddm-cluster -q --threads 1 -k 2 -o x pics.tar
if command -v ddm-ingest >/dev/null; then
	sweep 200 x ddm-ingest --size 8 --threads 1 -o x pax.tar
else
	skip ddm-ingest "not built (--without-media)"
fi
