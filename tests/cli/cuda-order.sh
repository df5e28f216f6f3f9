# The whole order of a visit to a GPU with its own programs, on stand-ins for the CUDA runtime and for cuBLASLt (tests/op/fakecuda.h, fakelt.h), at
# tiny shapes; and that a program that fails, prints nothing or computes NaN makes the order fail.
. "$(dirname "$0")/tap.sh"

real=$B/tests/standin
tab=$(printf '\t')
mkdir -p bin tools lib cpu/tests/bench home
cp "$SRC/tests/cuda/run.sh" .
ln -s "$real/libcublasLt.so.13" lib/
[ ! -e "$real/libnccl.so.2" ] || ln -s "$real/libnccl.so.2" lib/
ln -s "$B/ddm-shard" cpu/
for program in bench_step bench_sample bench_data; do
	ln -s "$B/tests/bench/$program" cpu/tests/bench/
done
ln -s "$real/bench_cuda" bin/

# The remote tests, some cases of each: all of them take minutes here, and `make check` runs most of them in other places.
cases() { # TEST PATTERN...
	test=$1
	shift
	{
		echo '#!/bin/sh'
		for pattern; do
			echo "DDM_TEST_FILTER='$pattern' '$real/$test' || exit"
		done
	} >"bin/$test"
}
cases test_clusters cluster_refills
cases test_cross cross_bf16
if [ -e "$real/nccl-engine.so" ]; then cases test_devicesum one_rank two_ranks; else cases test_devicesum through_the_host; fi
cases test_emulated '*'
cases test_emulated_attention packed_rows large_scores
cases test_emulated_attention_bias biased
cases test_emulated_attention_head half causal
cases test_emulated_conv 'group_norms*' 'conv*' ties
cases test_emulated_gated '*'
cases test_emulated_nearest nearest segments
cases test_emulated_norm values one_apart any_batch
cases test_emulated_reduce '*any_batch'
cases test_library_attention small
cases test_products '*'
cases test_whole memory loss_curves
check_out "every test has its cases" "" sh -c "for t in '$real'/test_*; do case \$t in *.*) ;; *) [ -e bin/\${t##*/} ] || echo \$t ;; esac; done"

# What is not here: a sanitizer and a profiler, which start the program that they are given, PyTorch, and the clocks of a GPU.
cat >tools/compute-sanitizer <<'END_OF_TOOL'
#!/bin/sh
echo "$*" >>"$SAID"
for program; do :; done
case $2,$program in racecheck,*norm) exec "$program" ;; esac
printf 'ok 1 - checked\n1..1\n'
END_OF_TOOL
cat >tools/ncu <<'END_OF_TOOL'
#!/bin/sh
echo "$*" >>"$SAID"
kind=$1
while [ "${1##*/}" != bench_cuda ]; do shift; done
"$@" || exit
case $kind in --csv) printf '"ID","Kernel Name","Metric Value"\n"0","norm_packs","1000"\n' ;; esac
END_OF_TOOL
cat >tools/python3 <<'END_OF_TOOL'
#!/bin/sh
echo "$*" >>"$SAID"
for part; do :; done
[ "$part" != "${SILENT:-}" ] || exit 0
case $part in train*,*) part="$part tokens, batch 1" ;; esac
printf 'peer %s\t50\timages/s\t0.5\t0.01\n' "$part"
END_OF_TOOL
printf '#!/bin/sh\nprintf "1980, 2619, 97.5, 40\\n"\nexec sleep 100\n' >tools/nvidia-smi
chmod +x bin/* tools/*

SAID=$PWD/said PATH=$PWD/tools:$PATH
export SAID PATH
run() {
	env HOME="$PWD/home" XDG_CACHE_HOME="$PWD/home" LOG="$PWD/log" PEER_PYTHON="$PWD/tools/python3" QUICK=-q SLICE=0.01 THREADS='1 2' \
		DDM_TEST_SMALL=1 DDM_TEST_REQUIRE=cuda TMPDIR="$PWD/home" sh ./run.sh "$@"
}

check "a whole visit" run visit
cut -f 1-3 log/visit.tsv >got
printf '%s\n' "A check 0" "B profile 0" "C table 0" "D sanitize 0" "D kernels 0" "E cpu 0" | tr ' ' '\t' >want
check_same "all its parts have passed" want got
check_grep "no test is left out" '^[0-9]* passed, 0 failed, 0 skipped$' log/A.out
check_grep "products by every algorithm" '^passed.test_products: every_algorithm' log/A/results
check_grep "a step of training has a finite loss" '^# train dit-xl/2, 256 tokens, batch 2: loss [0-9.]* after' log/B/profile.1
check_grep "its ops are timed" '^# LINEAR_DW ' log/B/profile.1
check_grep "and why there is no cuDNN" '^# attention ran without cuDNN: the stand-in for CUDA has none$' log/B/profile.1
check_grep "cuBLASLt's algorithms were timed" "^# 1x32x384x96${tab}NT${tab}bf16,bf16,bf16${tab}[+]bias[+]gelu[+]aux${tab}[0-9]*${tab}3${tab}" log/B/profile.1
check_grep "sampling too" '^sample 8 x xl/2, top-2, cfg, batch 64, step p99	' log/B/profile.2
check_out "the choices are kept in one file" 1 sh -c "ls home/ddm | grep -c cuBLASLt-120000"
for part in "train dit-xl/2, 256" "train dit-xl/2, 1024" "train dit-xl/2, 4096" "train dit-b/2" "train dit-s/2" attention clusters sample "product xl" \
	norm gate gelu add; do
	check_grep "a line of $part" "^$part" log/C/lines.tsv
done
check_grep "beside the peer" '^train dit-xl/2, 256 tokens, batch 1	[0-9.]*	50	images/s	[0-9.]*$' log/C/table.tsv
check_grep "which is asked for as many seconds" 'peer_cuda.py -q -s 0.01 --budget 200 train dit-xl/2, 256$' said
check_grep "races are looked for" '^--tool racecheck --error-exitcode 99 .*/test_emulated_norm$' said
check_grep "the slowest kernel is reported" '^--print-kernel-base function --set full -k norm_packs' said
check_grep "training by threads" '^train dit-s/2, batch 8	1	.*	1.00	1.00$' log/E/cpu.tsv
for part in sample data.kmeans data.shard_write data.shard_read; do
	check_grep "and $part" "^$part.*	1.00	1.00$" log/E/cpu.tsv
done

fails() { env "$1" HOME="$PWD/home" LOG="$PWD/log" PEER_PYTHON="$PWD/tools/python3" QUICK=-q SLICE=0.01 sh ./run.sh "$2" "$3"; }
check_exit_any 1 "products that are NaN" fails STANDIN_POISON=1 table "dit-xl/2, 256"
check_grep "end training with its loss" '^bench_cuda: training: after .* the loss is -*nan' "$ERR"
check_grep "which is a failure" '^failed, status 1: train dit-xl/2, 256$' "$OUT"
check_exit_any 1 "and sampling" fails STANDIN_POISON=1 profile "sample 8 x xl/2, top-1, cfg, batch 1"
check_grep "with the value" '^bench_cuda: sampling: value .* of the pictures is -*nan' "$ERR"
check_exit_any 1 "a device that is lost" fails STANDIN_LOST=300 profile "train dit-xl/2, 256"
check_grep "ends training with the reason" '^bench_cuda: cuda:0 .Fake.: ' "$ERR"
check_exit_any 1 "a peer that prints no line" fails SILENT=attention table attention
check_grep "is a failure" '^failed: peer attention$' "$OUT"
check_exit_any 1 "a part that does not exist" fails SILENT= profile "train dit-xl/3"
check_grep "has no line" '^no line of train dit-xl/3$' "$OUT"
