# TAP for tests of programs. A test is a POSIX sh script that begins with
#
#	. "$(dirname "$0")/tap.sh"
#
# and then calls the functions below. It runs in a private, empty directory that is removed at the end; the plan is printed at the
# end; the exit status is 1 when a check failed. `sh tests/cli/x.sh` runs one by hand after `make`.
#
#	$B       the build directory; its programs come first in PATH, so `ddm-x` is the one just built
#	$SRC     the source tree
#	$DATA    the test pictures, or empty where there are none: need_data skips the whole file then
#	$OUT     what the last checked command wrote to stdout, $ERR to stderr, $RC its exit status
#	$FULL    1 when /dev/full exists
#
#	check NAME CMD...               ok when CMD exits 0
#	check_exit CODE NAME CMD...     ok when CMD exits CODE and, for a CODE that is not 0, says exactly one line on stderr
#	check_exit_any CODE NAME CMD... the same without looking at stderr
#	check_out NAME TEXT CMD...      ok when CMD exits 0 and prints TEXT (a last newline apart)
#	check_err NAME REGEX            ok when the stderr of the last command matches the extended regular expression
#	check_grep NAME REGEX FILE      ok when FILE has a line that matches
#	check_same NAME FILE FILE       ok when the files are equal byte for byte
#	check_differ NAME FILE FILE     ok when they are not
#	check_absent NAME PATH...       ok when none of them exists
#	check_clean NAME DIR            ok when no temporary file or claim of an unfinished output lies in DIR (or below)
#	until_true CMD...               wait until CMD exits 0, two minutes at most
#	check_program PROG              help, usage errors, --version, and -h into a full disk and a closed pipe: call it for every program
#	check_stdout NAME CMD...        CMD, which writes data to stdout: exit 74 on a full disk, death by SIGPIPE on a closed pipe
#	skip NAME REASON                one skipped check
#	skip_all REASON                 end here
#	has_mpi                         whether ranks can be started; then $mpi is mpirun with the options for ranks of this machine
#	need_mpi                        skip_all unless they can
#	own_processes REGEX             prints the processes whose command matches and whose folder is the test's: other tests run beside this one
#	rank_process N REGEX            prints that of rank N among them
#	second_rank REGEX               prints that of rank 1
#	numpy_python                    prints a Python that has numpy; fails where there is none
#	need_urls                       skip_all unless the programs read URLs and python3 is there; unsets the variables for that
#	need PROG...                    skip_all unless these (jq, python3, strace...) are installed
#	range_server [CERTIFICATE]      starts tests/cli/rangeserver.py for the folder "there", with its lines in "log"; sets at=http://127.0.0.1:PORT,
#	                                or https:, and server, its process, which ends with the script
#	need_data [NAME]                skip_all unless $DATA (and $DATA/NAME) exists
#	small_pictures                  makes pics/a, pics/b and pics/c, folders of small pictures
#	training_gflop DIR...           prints the GFLOP that the training of the networks below these folders took; needs jq
#	check_continues MODEL CMD...    ddm-sample CMD with 60 pictures, killed on the way and given again: the same samples and report as undisturbed
#	flip FILE OFFSET                flip the lowest bit of one byte in place
#	cut_to FILE N                   keep the first N bytes of FILE, in place
#	size_of FILE                    its bytes, on stdout
#	unseal FILE                     empties the seals of a JSON file, which may be edited then
set -u
LC_ALL=C
export LC_ALL
SRC=$(cd "$(dirname "$0")" && pwd) || exit 1
while [ ! -e "$SRC/tests/run" ] && [ "$SRC" != / ]; do
	SRC=$(dirname "$SRC")
done
B=${B:-$SRC/build}
B=$(cd "$B" && pwd) || { echo "Bail out! no build directory"; exit 1; }
PATH=$B:$PATH
export PATH
DATA=${DDM_TEST_DATA:-}
for tap_d in "$SRC/shared/data" "$SRC/../shared/data"; do
	[ -z "$DATA" ] && [ -d "$tap_d" ] && DATA=$(cd "$tap_d" && pwd)
done
FULL=0
[ -c /dev/full ] && FULL=1
VERSION=$(sed -n 's/^.define DDM_VERSION "\(.*\)"/\1/p' "$SRC/lib/core/version.h" 2>/dev/null)
tap_n=0
tap_failed=0
tap_dir=$(mktemp -d "${TMPDIR:-/tmp}/ddm-test.XXXXXX") || exit 1
mkdir "$tap_dir/tap" "$tap_dir/work"
OUT=$tap_dir/tap/out
ERR=$tap_dir/tap/err
RC=0
: >"$OUT"
: >"$ERR"
cd "$tap_dir/work" || exit 1

# A python3 that is first in PATH (pyenv's, a virtual environment's) hides the system's, for which Debian's numpy is.
numpy_python() {
	for tap_python in python3 /usr/bin/python3; do
		"$tap_python" -c 'import numpy' >/dev/null 2>&1 && echo "$tap_python" && return
	done
	return 1
}

tap_end() {
	tap_rc=$?
	trap - EXIT
	cd /
	chmod -R u+rwX "$tap_dir" 2>/dev/null
	rm -rf "$tap_dir"
	echo "1..$tap_n"
	[ "$tap_rc" -eq 0 ] || { echo "# the script itself ended with status $tap_rc"; exit "$tap_rc"; }
	[ "$tap_failed" -eq 0 ] || exit 1
}
trap tap_end EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

tap_show() {
	[ -s "$1" ] || return 0
	echo "# $2:"
	head -c 4000 "$1" | tr -d '\000' | head -n 20 | sed 's/^/#   /'
}

# tap_result STATUS NAME [DIAGNOSTIC]: STATUS 0 is ok
tap_result() {
	tap_n=$((tap_n + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $tap_n - $2"
		return 0
	fi
	tap_failed=$((tap_failed + 1))
	echo "not ok $tap_n - $2"
	[ -n "${3:-}" ] && echo "# $3"
	tap_show "$OUT" stdout
	tap_show "$ERR" stderr
	return 0
}

tap_run() {
	"$@" >"$OUT" 2>"$ERR" </dev/null
	RC=$?
}

tap_lines() { grep -c '' "$1"; }

check() {
	tap_name=$1
	shift
	tap_run "$@"
	tap_result "$RC" "$tap_name" "exit $RC from: $*"
}

check_exit_any() {
	tap_code=$1 tap_name=$2
	shift 2
	tap_run "$@"
	[ "$RC" -eq "$tap_code" ]
	tap_result $? "$tap_name" "exit $RC, not $tap_code, from: $*"
}

check_exit() {
	tap_code=$1 tap_name=$2
	shift 2
	tap_run "$@"
	if [ "$RC" -ne "$tap_code" ]; then
		tap_result 1 "$tap_name" "exit $RC, not $tap_code, from: $*"
	elif [ "$tap_code" -ne 0 ] && [ "$(tap_lines "$ERR")" -ne 1 ]; then
		tap_result 1 "$tap_name" "not one line on stderr, from: $*"
	else
		tap_result 0 "$tap_name"
	fi
}

check_out() {
	tap_name=$1 tap_text=$2
	shift 2
	tap_run "$@"
	[ "$RC" -eq 0 ] && [ "$(cat "$OUT")" = "$tap_text" ]
	tap_result $? "$tap_name" "exit $RC and other output than '$tap_text' from: $*"
}

check_err() {
	grep -Eq -- "$2" "$ERR"
	tap_result $? "$1" "stderr does not match $2"
}

# check_true NAME EXPRESSION: an awk expression is true
check_true() {
	awk "BEGIN { exit !($2) }"
	tap_result $? "$1" "$2"
}

# cell FILE COLUMN FIRST SECOND [THIRD]: the value of a column in the row of a table whose first values are these
cell() {
	awk -F '\t' -v c="$2" -v first="$3" -v second="$4" -v third="${5:-}" 'NR == 1 { sub(/^#/, ""); for (i = 1; i <= NF; i++) if ($i == c) n = i }
		$1 == first && $2 == second && (third == "" || $3 == third) { print $n }' "$1"
}

check_grep() {
	grep -Eq -- "$2" "$3"
	tap_result $? "$1" "$3 does not match $2"
}

check_same() {
	tap_text=$(cmp "$2" "$3" 2>&1)
	tap_result $? "$1" "$2 and $3 differ: $tap_text"
}

check_differ() {
	[ -f "$2" ] && [ -f "$3" ] && ! cmp -s "$2" "$3"
	tap_result $? "$1" "$2 and $3 are equal or absent"
}

check_absent() {
	tap_name=$1 tap_there=
	shift
	for tap_f; do
		{ [ -e "$tap_f" ] || [ -h "$tap_f" ]; } && tap_there="$tap_there $tap_f"
	done
	[ -z "$tap_there" ]
	tap_result $? "$tap_name" "there is:$tap_there"
}

check_clean() {
	tap_there=$(find "$2" -name '*.tmp*')
	[ -z "$tap_there" ]
	tap_result $? "$1" "left behind: $tap_there"
}

# Exit status of CMD when its stdout is a pipe that nobody reads, in RC.
tap_run_broken_pipe() {
	{
		sleep 0.1
		"$@" 2>"$ERR" </dev/null
		echo $? >"$tap_dir/tap/rc"
	} | :
	RC=$(cat "$tap_dir/tap/rc")
	: >"$OUT"
}

check_stdout() {
	tap_name=$1
	shift
	if [ "$FULL" -eq 1 ]; then
		: >"$OUT"
		"$@" >/dev/full 2>"$ERR" </dev/null
		RC=$?
		[ "$RC" -eq 74 ]
		tap_result $? "$tap_name: a full disk" "exit $RC, not 74"
	else
		skip "$tap_name: a full disk" "no /dev/full"
	fi
	tap_run_broken_pipe "$@"
	[ "$RC" -eq 141 ]
	tap_result $? "$tap_name: a closed pipe" "exit $RC, not 141 (SIGPIPE)"
}

# paused OUTDIR CMD...: a training in the background, process pid, halted by SIGSTOP between its first checkpoint and its end; a
# training that was over before the signal came is begun again.
paused() {
	tap_out=$1
	shift
	for tap_try in 1 2 3 4 5 6 7 8 9 10; do
		nice -n 10 "$@" >"$OUT" 2>"$ERR" </dev/null &
		pid=$!
		while kill -0 $pid 2>/dev/null; do
			[ -z "$(find "$tap_out/train" -name 'MANIFEST.json' 2>/dev/null)" ] || break
			sleep 0.01
		done
		if kill -STOP $pid 2>/dev/null && [ -z "$(find "$tap_out" -maxdepth 1 -name '*.safetensors')" ]; then
			return 0
		fi
		kill -KILL $pid 2>/dev/null
		wait $pid 2>/dev/null
		rm -rf "$tap_out"
	done
	return 1
}

until_true() {
	tap_i=0
	while ! "$@" >/dev/null 2>&1; do
		[ $tap_i -lt 2400 ] || return 1
		sleep 0.05
		tap_i=$((tap_i + 1))
	done
}

# started: whether the process $pid has become its program. Until then it is a copy of this shell, which catches TERM and INT because of the
# traps above, and such a signal would be lost.
started() {
	[ ! -e /proc/$$/exe ] || [ "$(readlink /proc/$pid/exe)" != "$(readlink /proc/$$/exe)" ]
}

# killed_after SECONDS CMD...: by SIGKILL, and gone, as `timeout` does not wait for.
killed_after() {
	tap_t=$1
	shift
	"$@" 2>"$ERR" &
	pid=$!
	sleep "$tap_t"
	kill -KILL $pid 2>/dev/null
	wait $pid 2>/dev/null
}

range_server() {
	: >log
	rm -f port
	python3 "$SRC/tests/cli/rangeserver.py" there log port "$@" 2>server.err &
	server=$!
	# shellcheck disable=SC2154 # tap_server: those started before
	tap_server="${tap_server:-} $server"
	# shellcheck disable=SC2086
	trap 'kill $tap_server 2>/dev/null; tap_end' EXIT
	until_true test -e port || skip_all "no server on the loopback: $(tail -n 1 server.err)"
	# shellcheck disable=SC2034
	at=http${1:+s}://127.0.0.1:$(cat port)
}

# Inputs by URL, with nothing of the user's environment. The programs say so if they are built without libcurl.
need_urls() {
	unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY no_proxy NO_PROXY SSL_CERT_FILE DDM_CACHE DDM_CACHE_SIZE
	unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_REGION AWS_DEFAULT_REGION AWS_ENDPOINT_URL AWS_ENDPOINT_URL_S3
	need python3
	grep -q 'HAVE_CURL 1' "$B/config.h" && return
	check_exit 69 "a build without libcurl" ddm-select -q -o no.tar "width > 0" http://127.0.0.1:1/x.tar
	check_err "names it and its package" 'built without libcurl 7.85 or later .* \(Debian: libcurl4-openssl-dev\)'
	skip_all "built without libcurl"
}

check_program() {
	check "$1 -h" "$1" -h
	check_grep "$1 -h: usage" "^Usage: $1 \[-hV\]" "$OUT"
	[ ! -s "$ERR" ]
	tap_result $? "$1 -h: nothing on stderr"
	cp "$OUT" "$tap_dir/tap/help"
	check "$1 --help" "$1" --help
	check_same "$1 --help equals -h" "$OUT" "$tap_dir/tap/help"
	check "$1 --version" "$1" --version
	check_grep "$1 --version: name and number" "^$1 $VERSION\$" "$OUT"
	check_exit 2 "$1: unknown option" "$1" --no-such-option
	check_err "$1: unknown option is named" "--no-such-option"
	[ ! -s "$OUT" ]
	tap_result $? "$1: unknown option: nothing on stdout"
	check_stdout "$1 -h" "$1" -h
}

skip() {
	tap_n=$((tap_n + 1))
	echo "ok $tap_n - $1 # SKIP $2"
}

skip_all() {
	skip "$(basename "$0" .sh)" "$1"
	exit 0
}

need() {
	for tap_p; do
		command -v "$tap_p" >/dev/null 2>&1 || skip_all "no $tap_p"
	done
}

has_mpi() {
	[ -e "$B/mpi-engine.so" ] && command -v mpirun >/dev/null 2>&1 || return 1
	# shellcheck disable=SC2034 # for the tests
	mpi="mpirun --oversubscribe --bind-to none"
	OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
}

need_mpi() { has_mpi || skip_all "built without MPI, or no mpirun (Debian: libopenmpi-dev, openmpi-bin)"; }

own_processes() {
	for tap_p in $(pgrep -f "$1"); do
		[ "/proc/$tap_p/cwd" -ef . ] && echo "$tap_p"
	done
}
rank_process() {
	for tap_p in $(own_processes "$2"); do
		tr '\0' '\n' <"/proc/$tap_p/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$1" && echo "$tap_p"
	done
}
second_rank() { rank_process 1 "$1"; }

need_data() {
	[ -n "$DATA" ] && [ -e "$DATA/${1:-.}" ] || skip_all "no test data${1:+ ($1)}: DDM_TEST_DATA"
}

small_pictures() {
	for tap_p in a b c; do
		mkdir -p pics/$tap_p && tar xzf "$SRC/tests/golden/eval-$tap_p.tar.gz" -C pics/$tap_p || exit 1
	done
}

training_gflop() {
	find "$@" -name train.jsonl -exec cat {} + | jq -s 'map(select(.event == "start") | .gflop_per_image * .steps * .stamp.batch) | add'
}

# A run cannot finish while it waits to write its timing to a FIFO that nobody reads.
check_continues() {
	tap_model=$1
	shift
	check "undisturbed" "$@" -q --report whole.json -o whole.tar "$tap_model"
	mkfifo hold
	"$@" --timing hold -o k.tar "$tap_model" 2>"$ERR" &
	pid=$!
	until_true test -s .k.tar.part.json
	kill -KILL $pid
	wait $pid 2>/dev/null
	[ ! -e k.tar ]
	tap_result $? "killed"
	check "continued" "$@" --report k.json -o k.tar "$tap_model"
	check_err "it says so" 'continuing after [0-9]+ of 60 pictures'
	check_same "with the same bytes" k.tar whole.tar
	check_same "and the same report" k.json whole.json
}

size_of() { wc -c <"$1" | tr -d ' '; }

flip() {
	tap_byte=$(od -An -v -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
	# shellcheck disable=SC2059
	printf "\\$(printf %03o $((tap_byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

unseal() { sed -i 's/"ddm-seal:[0-9a-f]*:ddm-seal"/""/' "$1"; }

cut_to() {
	head -c "$2" "$1" >"$1.cut" && mv "$1.cut" "$1"
}
