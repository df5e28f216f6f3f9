# What `run.sh table` makes of lines of ours and of a peer's, of parts that fail and of time that is over. Both programs are stand-ins.
. "$(dirname "$0")/tap.sh"

mkdir bin
cat >bin/bench_cuda <<'END'
#!/bin/sh
for part; do :; done
printf '# a GPU\nfastest product\t100\tTFLOP/s\t1.0000\t0.0000\n'
case $part in
"train dit-xl/2, 256") printf 'train dit-xl/2, 256 tokens, batch 256\t600\timages/s\t0.5\t0.01\n' ;;
attention) printf 'attention head 64, 256 tokens\t300\tTFLOP/s\t0.5\t0.01\n'; exit 3 ;;
clusters) printf 'clusters 8, iteration of 10.0M\t0.25\ts\t0.5\t0.01\n' ;;
sample) printf 'sample 8 x xl/2, top-1, cfg, batch 8, step p50\t5\tms\t0\t0\n' ;;
esac
END
cat >python <<'END'
#!/bin/sh
shift
for part; do :; done
echo "$part: ${LD_LIBRARY_PATH-none} $*" >>peer.log
printf '# torch\npeer product 8192\t200\tTFLOP/s\t1.0000\t0.0000\n'
case $part in
"train dit-xl/2, 256") printf 'peer train dit-xl/2, 256 tokens, batch 128\t400\timages/s\t0.5\t0.01\n' ;;
attention) printf 'peer attention head 64, 256 tokens, cudnn\t200\tTFLOP/s\t0.5\t0\npeer attention head 64, 256 tokens, flash\t600\tTFLOP/s\t0.5\t0\n' ;;
clusters) printf 'peer clusters 8, iteration of 10.0M, tf32\t0.5\ts\t0.5\t0.01\n'; exit 1 ;;
sample) printf 'peer sample 8 x xl/2, top-1, cfg, batch 8, step p50\t20\tms\t0\t0\n' ;;
esac
END
chmod +x bin/bench_cuda python

table() { env BIN="$PWD/bin" LOG="$PWD/log" PEER_PYTHON="$PWD/python" LD_LIBRARY_PATH=theirs sh "$SRC/tests/cuda/run.sh" table "$@"; }

check_exit_any 1 "parts that fail are a failure" table
tab=$(printf '\t')
printf '%s\n' "train dit-xl/2, 256 tokens, batch 128${tab}600${tab}400${tab}images/s${tab}1.500" \
	"sample 8 x xl/2, top-1, cfg, batch 8, step p50${tab}5${tab}20${tab}ms${tab}4.000" \
	"attention head 64, 256 tokens, cudnn${tab}300${tab}200${tab}TFLOP/s${tab}1.500" \
	"attention head 64, 256 tokens, flash${tab}300${tab}600${tab}TFLOP/s${tab}0.500" \
	"clusters 8, iteration of 10.0M, tf32${tab}0.25${tab}0.5${tab}s${tab}2.000" >want
check_same "the rest goes on: how many times as fast we are" want log/table.tsv
check_grep "the one that failed is named" '^failed, status 3: attention$' "$OUT"
check_grep "and the peer's" '^failed, status 1: peer clusters$' "$OUT"
check_grep "the peer runs in its own libraries" '^clusters: theirs ' peer.log
check_out "no comment is among the lines" 0 sh -c "grep -c '^#' log/lines.tsv || :"
check "some parts alone" table sample
check_out "nothing else" 1 sh -c "grep -c . log/table.tsv"
check_exit_any 1 "when time is over" env BUDGET=5 BIN="$PWD/bin" LOG="$PWD/log" PEER_PYTHON="$PWD/python" sh "$SRC/tests/cuda/run.sh" table
check_grep "what was not begun is named" '^not begun: sample$' "$OUT"
