# A finished command that is run again changes nothing. With other options it names them and replaces nothing.
. "$(dirname "$0")/tap.sh"

tar xf "$SRC/tests/golden/tiny-model.tar"
S=$SRC/tests/golden/eval-a.tar.gz
mkdir out
: >old

# again NAME KEY OPTION ARGUMENT...: runs the command twice without OPTION, then with it
again() {
	name=$1 key=$2 option=$3
	shift 3
	check "$name" "$@"
	find out -type f -exec touch -d 2001-01-01 {} +
	touch -d 2001-01-02 old
	check "$name, again" "$@"
	check_out "$name: nothing touched" "" find out -newer old -type f
	cp -R out before
	check_exit 73 "$name, other options" "$@" $option
	check_err "$name: they are named" "$key"
	check "$name: nothing replaced" diff -r before out
	rm -rf before
}
lavfi='lavfi:mandelbrot=size=16x16:rate=1'
if ddm-ingest -h >/dev/null 2>&1; then
	again ddm-ingest 'frames: 5 -> 4' '--frames 4' ddm-ingest --frames 5 -o out/g.tar "$lavfi"
	check_exit 73 "ddm-ingest, another source" ddm-ingest --frames 5 -o out/g.tar "$lavfi:maxiter=50"
fi
again ddm-cluster 'k: 3 -> 2' '-k 2' ddm-cluster -q -k 3 --holdout .2 --sheet out/s.png --report out/r.json --centroids-out out/c.npy -o out/a.tsv "$S"
again ddm-shard 'level: 3 -> 4' '--level 4' ddm-shard -q -a out/a.tsv --holdout .2 -o out/shards "$S"
again ddm-sample 'steps: 2 -> 3' '--steps 3' ddm-sample -n 2 --route expert:0 --steps 2 --grid out/grid.png -o out/samples.tar ensemble
again ddm-eval-fid 'seed: 0 -> 3' '--seed 3' ddm-eval-fid -o out/e.json "$S" "$S"
again ddm-grid 'scale: 2 -> 3' '-s 3' ddm-grid --columns 4 -r 1 -o out/sheet.png "one=$S" two=out/samples.tar
check "statistics" ddm-eval-fid --stats-out out/s.npz "$S" "$S"
check "again" ddm-eval-fid --stats-out out/s.npz "$S" "$S"
check_exit 73 "other statistics" ddm-eval-fid --features rgb8 --stats-out out/s.npz "$S" "$S"
check_err "which" '"features":"pix".*"features":"rgb8"'
check_exit 73 "statistics over something else" ddm-eval-fid --stats-out out/e.json "$S" "$S"
echo precious >out/mine
check_exit 73 "ddm-cluster over a file of another kind" ddm-cluster -q -k 3 -o out/mine "$S"
check_exit 73 "ddm-eval-fid over one" ddm-eval-fid -o out/mine "$S" "$S"
check_out "it stands" precious cat out/mine
check_clean "no temporaries" out
