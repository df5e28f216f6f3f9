# `run.sh visit` with simulated programs: the whole order of a visit to a GPU, from the check to the processors, and parts of it. `run.sh cpu`:
# numbers of threads, up to those of the machine.
. "$(dirname "$0")/tap.sh"

mkdir bin tools cpu
tab=$(printf '\t')
for name in attention norm; do
	printf '#!/bin/sh\necho "test %s" >>"$ORDER"\necho "ok 1 - %s"\necho 1..1\n' $name $name >bin/test_$name
done
cat >bin/bench_cuda <<'END'
#!/bin/sh
echo "bench_cuda $*" >>"$ORDER"
for part; do :; done
printf '# a GPU\n%s\t100\timages/s\t0.5\t0.01\n' "$part"
END
cat >tools/python3 <<'END'
#!/bin/sh
echo "peer $*" >>"$ORDER"
for part; do :; done
printf 'peer %s\t50\timages/s\t0.5\t0.01\n' "$part"
END
cat >tools/compute-sanitizer <<'END'
#!/bin/sh
echo "sanitizer $2" >>"$ORDER"
case $2 in "${RACE:-none}") echo hazard; exit 99 ;; esac
for test; do :; done
exec "$test"
END
cat >tools/ncu <<'END'
#!/bin/sh
echo ncu >>"$ORDER"
case $* in
*--csv*) printf '"ID","Kernel Name","Metric Name","Metric Value"\n"0","norm_packs","gpu__time_duration.sum","1000"\n' ;;
*) echo report ;;
esac
END
cat >tools/nproc <<'END'
#!/bin/sh
echo "${PROCESSORS:-4}"
END
for program in bench_step bench_sample bench_data; do
	cat >cpu/$program <<'END'
#!/bin/sh
echo "${0##*/} $*" >>"$ORDER"
for part; do :; done
[ "$part" != "${BROKEN:-}" ] || exit 7
printf '%s 8\t%d\timages/s\t0.8\t0.01\n' "$part" $((10 * $2))
END
done
printf '#!/bin/sh\nexec sleep 100\n' >tools/nvidia-smi
chmod +x bin/* tools/* cpu/*
PATH=$PWD/tools:$PATH
ORDER=$PWD/order
export PATH ORDER

run() { : >order; env BIN="$PWD/bin" CPU="$PWD/cpu" LOG="$PWD/log" PEER_PYTHON="$PWD/tools/python3" sh "$SRC/tests/cuda/run.sh" "$@"; }

check "a whole visit" run visit
cut -f 1-3 log/visit.tsv >got
for part in "A check" "B profile" "C table" "D sanitize" "D kernels" "E cpu"; do
	echo "$part 0" | tr ' ' '\t'
done >want
check_same "its parts in order" want got
sed 's/^bench_cuda .*-p .*/profile/; s/^sanitizer.*/sanitizer/; s/ .*//' order | uniq | tr '\n' ' ' >got
check_grep "each part starts its programs" '^test profile bench_cuda peer .*sanitizer test sanitizer test .*ncu bench_step ' got
check_grep "the tests have passed" '^2 passed, 0 failed, 0 skipped$' log/A.out
check_grep "the profile is kept" '^train dit-xl/2, 256	100	' log/B/profile.1
check_grep "the table has ratios" "^train dit-xl/2, 256${tab}100${tab}50${tab}images/s${tab}2.000$" log/C/table.tsv
check_grep "races are looked for" '^# racecheck$' log/D.out
check_grep "and accesses out of bounds" '^# memcheck$' log/D.out
check_grep "the slowest kernel is reported" "norm_packs$" log/D/kernels.tsv
check_grep "more threads" "^data.kmeans 8${tab}4${tab}40${tab}images/s${tab}4.00${tab}1.00$" log/E/cpu.tsv
check_out "of all programs, as many as there are processors" 15 sh -c "grep -c . log/E/cpu.tsv"
check_grep "the others are named" '^# not measured: 8 threads, this machine has 4 processors$' log/E.out

check_exit_any 1 "a race is a failure of the visit" env RACE=racecheck sh -c ': >order; BIN=$PWD/bin CPU=$PWD/cpu LOG=$PWD/log \
	PEER_PYTHON=$PWD/tools/python3 sh "$1/tests/cuda/run.sh" visit D E' sh "$SRC"
cut -f 1-3 log/visit.tsv >got
printf '%s\n' "D${tab}sanitize${tab}1" "D${tab}kernels${tab}0" "E${tab}cpu${tab}0" >want
check_same "the parts after it are run" want got
check_exit 2 "a part that there is not" run visit F

PROCESSORS=1
export PROCESSORS
check "one processor" run cpu
check_out "one line for each" 5 sh -c "grep -c . log/cpu.tsv"
BROKEN=data.shard_write
export BROKEN
check_exit_any 1 "a program that fails" run cpu shard
check_grep "is named" '^failed, status 7: data.shard_write, threads 1$' "$OUT"
check_grep "the other one is measured" '^data.shard_read 8' log/cpu.tsv
