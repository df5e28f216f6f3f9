# Sourced after tap.sh by the tests that hold a program at a known point: tests/faults/hold.c is preloaded and does it.
#
#	held OUT NAME CMD...   CMD in the background, process $pid, until it is held in its first fsync of something whose path holds NAME;
#	                       $hold.go, once made, lets it go on. Its stderr goes to OUT.err. SIGINT and SIGQUIT work as in the foreground
#	await WHAT CMD...      until CMD succeeds, two minutes at most: then "WHAT" is a failed check
#	gone CODE NAME OUT     wait for $pid: ok when it ended with CODE and said one line in OUT.err, which becomes $ERR
preload_hold=$B/tests/hold.so
[ -e "$preload_hold" ] || skip_all "tests/hold.so is not built"
ldd "$B/ddm-report" | grep -Eq 'libasan|libtsan' && skip_all "a sanitizer wants to be loaded first"
case $(od -An -tx1 -j 16 -N 2 "$B/ddm-report") in *03*) ;; *) skip_all "a static program takes no preload" ;; esac

await() {
	tap_what=$1 tap_i=0
	shift
	while ! "$@" >/dev/null 2>&1; do
		tap_i=$((tap_i + 1))
		if [ $tap_i -gt 2400 ]; then
			tap_result 1 "$tap_what" "not within two minutes: $*"
			return 1
		fi
		sleep 0.05
	done
}

held() {
	tap_out=$1 tap_name=$2
	shift 2
	hold=$tap_dir/tap/$(basename "$tap_out").hold
	rm -f "$hold.held" "$hold.go"
	HOLD=$tap_name HOLD_AT=$hold FOREGROUND=1 LD_PRELOAD=$preload_hold "$@" >/dev/null 2>"$tap_out.err" </dev/null &
	pid=$!
	await "held at $tap_name" [ -e "$hold.held" ]
}

gone() {
	wait "$pid"
	RC=$?
	cp "$3.err" "$ERR"
	[ "$RC" -eq "$1" ] && [ "$(tap_lines "$ERR")" -eq 1 ]
	tap_result $? "$2" "exit $RC, not $1, or not one line"
}

# Signal $2 was sent to process $1, and has been taken note of: it no longer waits for delivery.
noted() {
	tap_bits=$(awk '/^(SigPnd|ShdPnd):/ { print $2 }' "/proc/$1/status" | sort -u)
	[ "$tap_bits" = 0000000000000000 ]
}
