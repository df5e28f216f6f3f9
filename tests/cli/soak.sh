# A short soak: a small campaign again and again for 20 seconds under random faults, a fault a second, and the same schedule from the same seed.
# DDM_TEST_SOAK_SEED gives another seed. `make soak TIME=1h` is the long one.
. "$(dirname "$0")/tap.sh"

[ -x "$B/tests/soak" ] || skip_all "tests/soak is not built"
ldd "$B/ddm-train" | grep -Eq 'libasan|libtsan' && skip_all "a sanitizer wants to be loaded first"
case $(od -An -tx1 -j 16 -N 2 "$B/ddm-train") in *03*) ;; *) skip_all "a static program takes no preload" ;; esac
"$B/tests/soak" full 0 9 told sh -c 'echo x >file' 2>/dev/null
[ "$(cat told)" = 1 ] || skip_all "the kernel tells nobody about another's calls (seccomp)"

# The driver
"$B/tests/soak" kill .1 0 told sleep 5
RC=$?
[ $RC -eq 137 ] && [ "$(cat told)" = 1 ]
tap_result $? "kill ends a program" "exit $RC"
"$B/tests/soak" kill 5 0 told true
RC=$?
[ $RC -eq 0 ] && [ "$(cat told)" = 0 ]
tap_result $? "one that ends before is left alone" "exit $RC"
"$B/tests/soak" stop .1 .5 told sh -c 'sleep .2; exit 7'
RC=$?
[ $RC -eq 7 ] && [ "$(cat told)" = 1 ]
tap_result $? "stop lets it go on" "exit $RC"
SOAK_CLOCK=$B/tests/clockjump.so check_out "the clock jumps" yes \
	sh -c '[ $(($('"$B"'/tests/soak clock 0 1000000 told date +%s) - $(date +%s))) -gt 900000 ] && echo yes'

check "no output changes under faults" env TIME=20 EVERY=1 STEPS=300 SAVE=1s SEED="${DDM_TEST_SOAK_SEED:-1}" sh "$SRC/tests/faults/soaking.sh"
cp "$OUT" table
for row in "faults: kill" "faults: stop" "faults: full" "faults: io" "faults: clock" "campaigns, each .*" "goodput" "goodput by processor time" "steps done again for each"; do
	check_grep "the table has: $row" "^$row	[0-9]" table
done
struck=$(awk -F '\t' '/^faults/ { n += $2 } END { print n }' table)
check_true "at least five faults struck" "${struck:-0} >= 5"

# A program that loses bytes in a fault is found.
mkdir lossy lossy/tests && cp -P "$B"/ddm-* lossy/ && cp "$B/tests/soak" "$B/tests/clockjump.so" lossy/tests/
mv lossy/ddm-cluster lossy/cluster.real
cat >lossy/ddm-cluster <<'END'
#!/bin/sh
"$(dirname "$0")/cluster.real" "$@" && [ ! -e ../whole.sums ] || echo >>lossy.txt
END
chmod +x lossy/ddm-cluster
check_exit_any 1 "other bytes are a bug" env B="$PWD/lossy" TIME=1 EVERY=1 STEPS=20 SAVE=1s KINDS=kill sh "$SRC/tests/faults/soaking.sh"
check_err "which is named, with the seed" 'SEED=1: campaign 1 has other bytes: > .*lossy.txt'
