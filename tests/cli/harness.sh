# The test harness: each way in which a test can fail must be counted.
. "$(dirname "$0")/tap.sh"

mkdir -p tree/tests/cli tree/build
cp "$SRC/tests/run" tree/tests/run
cp "$SRC/tests/cli/tap.sh" tree/tests/cli/tap.sh
put() { cat >"tree/tests/check-$1.sh"; }
last() { tail -n 1 "$OUT"; }
tree_run() { B=$PWD/tree/build DDM_TEST_TIMEOUT=${LIMIT:-60} tap_run tree/tests/run "$@"; }
counts() {
	[ "$(last)" = "$2" ]
	tap_result $? "$1" "'$(last)' is not '$2'"
}

printf 'echo ok 1 - fine\necho "ok 2 # SKIP no cuda here"\necho 1..2\n' | put good
printf 'echo ok 1 - fine\nexit 7\n' | put exits
printf 'echo ok 1 - fine\nkill -SEGV $$\n' | put crashes
printf 'echo ok 1 - fine\nsleep 20\n' | put hangs
printf 'echo 1..3\necho ok 1 - fine\n' | put stops
printf 'exit 0\n' | put silent
printf 'echo "skipped: no fonts"\necho "not ok 1 # SKIP like cmocka"\necho 1..1\n' | put cmocka
printf 'echo "not ok 1 - bad"\necho 1..1\nexit 1\n' | put bad
cat >tree/tests/cli/x.sh <<'END'
. "$(dirname "$0")/tap.sh"
check "true" true
check "false" false
check_exit 2 "two" sh -c 'echo x >&2; exit 2'
check_exit 2 "two lines" sh -c 'echo x >&2; echo y >&2; exit 2'
check_stdout "ignores errors" true
false
skip_all "no need"
END
tree_run good
counts "passes and skips" "1 passed, 0 failed, 1 skipped"
[ "$RC" -eq 0 ]
tap_result $? "status 0"
DDM_TEST_REQUIRE=cuda tree_run good
counts "a required skip fails" "1 passed, 1 failed, 0 skipped"
[ "$RC" -eq 1 ]
tap_result $? "status 1"
tree_run exits
counts "a status without a failed check" "1 passed, 1 failed, 0 skipped"
tree_run crashes
counts "a crash" "1 passed, 1 failed, 0 skipped"
LIMIT=1
tree_run hangs
LIMIT=60
counts "a test that hangs" "1 passed, 1 failed, 0 skipped"
tree_run stops
counts "fewer results than planned" "1 passed, 1 failed, 0 skipped"
tree_run silent
counts "no result" "0 passed, 1 failed, 0 skipped"
tree_run cmocka
counts "a skip as cmocka writes it" "0 passed, 0 failed, 1 skipped"
check_grep "with its reason" '^skipped: .*like cmocka: no fonts$' "$OUT"
DDM_TEST_REQUIRE=fonts tree_run cmocka
counts "which may be required" "0 passed, 1 failed, 0 skipped"
tree_run bad
counts "a failed check" "0 passed, 1 failed, 0 skipped"
check_grep "a failed check is shown" "^FAILED: bad" "$OUT"
tree_run cli/x
counts "a shell test" "2 passed, 4 failed, 1 skipped"
LIMIT=10
tree_run
counts "together" "7 passed, 10 failed, 3 skipped"

# The harness of the GPU tests, without a GPU
mkdir -p bundle/bin
cp "$SRC/tests/cuda/run.sh" bundle
as_test() { cat >"bundle/bin/test_$1" && chmod +x "bundle/bin/test_$1"; }
bundle_run() { tap_run sh bundle/run.sh "$@"; }
printf '#!/bin/sh\necho 1..1\necho "ok 1 - norm # SKIP needs cuda: no GPU can be used: there is no NVIDIA driver here"\n' | as_test norm
printf '#!/bin/sh\necho "# needs cuda: no driver"\necho "ok 1 - memory # SKIP"\necho "ok 2 - steps # SKIP"\necho 1..2\n' | as_test whole
bundle_run check
counts "the GPU's tests without one" "0 passed, 0 failed, 3 skipped"
[ "$RC" -eq 0 ]
tap_result $? "status 0"
check_grep "which is said, and why" '^no test ran: no GPU can be used: there is no NVIDIA driver here$' "$OUT"
DDM_TEST_REQUIRE=cuda bundle_run check whole
counts "where one is required" "0 passed, 2 failed, 0 skipped"
[ "$RC" -eq 1 ]
tap_result $? "status 1"
printf '#!/bin/sh\necho 1..1\necho "ok 1 - norm"\n' | as_test norm
bundle_run check
counts "with one" "1 passed, 0 failed, 2 skipped"
grep -q '^no test ran' "$OUT"
[ $? -eq 1 ]
tap_result $? "nothing of the kind is said"
