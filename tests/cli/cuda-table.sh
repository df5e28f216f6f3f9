# `run.sh` with simulated programs: the table of our lines and a peer's, parts and tests that fail or run out of time, a sanitizer
# that finds a race or is missing, profiles, and the three slowest kernels.
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

for name in attention norm; do
	printf '#!/bin/sh\necho "ok 1 - %s"\necho 1..1\n' $name >bin/test_$name
	chmod +x bin/test_$name
done
printf '#!/bin/sh\nexec sleep 60\n' >bin/test_zhang
chmod +x bin/test_zhang
run() { env BIN="$PWD/bin" LOG="$PWD/log" sh "$SRC/tests/cuda/run.sh" "$@"; }
export DDM_TEST_TIMEOUT=1
check_exit_any 1 "a test that hangs is ended" run check
check_grep "it has failed, the others have passed" '^2 passed, 1 failed, 0 skipped$' "$OUT"
export BUDGET=5
check_exit_any 1 "tests that find no time left are a failure" run check norm
check_grep "they are named" 'test_norm: not begun, the time is over$' "$OUT"
unset BUDGET DDM_TEST_TIMEOUT

mkdir tools
cat >tools/compute-sanitizer <<'END'
#!/bin/sh
echo "$*" >>sanitizer.log
case $* in *racecheck*norm) echo "RACECHECK SUMMARY: 1 hazard"; exit 99 ;; esac
for test; do :; done
exec "$test"
END
cat >tools/ncu <<'END'
#!/bin/sh
case $* in
*--csv*)
	echo '==PROF== Connected'
	echo '"ID","Kernel Name","Context","Metric Name","Metric Unit","Metric Value"'
	for line in nvjet_tst:9,000,000 small:1000 middle:3000 large:2000 large:2,000 tiny:10; do
		printf '"0","%s","1","gpu__time_duration.sum","ns","%s"\n' "${line%%:*}" "${line#*:}"
	done ;;
*) echo "report: $*" ;;
esac
END
chmod +x tools/*
if [ -z "$(ls /usr/local/cuda*/bin/compute-sanitizer /usr/local/cuda*/bin/ncu /opt/nvidia/*/ncu 2>/dev/null)" ]; then
	check "no sanitizer" run sanitize
	check_grep "which is said" '^skipped: no compute-sanitizer here$' "$OUT"
	check "no Nsight Compute" run kernels
	check_grep "which is said" '^skipped: no ncu here$' "$OUT"
else
	skip "no sanitizer, no Nsight Compute" "this machine has one of them"
fi
PATH=$PWD/tools:$PATH
check_exit_any 1 "a race is a failure" run sanitize
check_grep "its test is named" '^failed.test_norm: ended with status 99$' "$OUT"
check_out "both tools on both tests" 4 sh -c "grep -c . sanitizer.log"
check "the slowest kernels" run kernels
printf '%s\n' "0.0040${tab}2${tab}large" "0.0030${tab}1${tab}middle" "0.0010${tab}1${tab}small" "0.0000${tab}1${tab}tiny" >want
check_same "their milliseconds and launches, without the library's" want log/kernels.tsv
check_out "three are looked at" 3 sh -c "cat log/ncu.large log/ncu.middle log/ncu.small | grep -c '^report: '"

cat >tools/nvidia-smi <<'END'
#!/bin/sh
printf '1980, 2619, 97.5, 40\n1410, 2619, 690.2, 61\n'
echo $$ >smi.pid
exec sleep 100
END
chmod +x tools/nvidia-smi
cat >bin/bench_cuda <<'END'
#!/bin/sh
until [ -s smi.pid ]; do sleep .01; done
echo "# profiled $*"
for part; do :; done
printf '%s\t1\tms\t0\t0\n' "$part"
case $* in *sample*) exit 4 ;; esac
END
check_exit_any 1 "a profile that fails is a failure" run profile
check_grep "its name and status" '^failed, status 4: sample 8 x xl/2, top-2, cfg, batch 64$' "$OUT"
check_grep "the other one is shown" '^# profiled -p -s 1 train dit-xl/2, 256$' "$OUT"
check_grep "with what the GPU did meanwhile" '^# 2 readings: SM 1410 to 1980 MHz, memory 2619 to 2619 MHz, 97 to 690 W, 40 to 61 degrees$' "$OUT"
check_exit_any 1 "and the log of clocks has ended" kill -0 "$(cat smi.pid)"
check "a part by name" run profile gelu
check_out "is kept" "# profiled -p -s 1 gelu" head -n 1 log/profile.1
