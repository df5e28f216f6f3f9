# The commit protocol, interrupted at each of its system calls: the program is killed there, or the call reports a full disk, a quota or an
# I/O error. Either the old or the new output exists, never a part, and after an error there is no temporary.
. "$(dirname "$0")/tap.sh"

need strace
strace -o /dev/null true 2>/dev/null || skip_all "strace may not trace here"
one=$B/tests/unit/test_commit
[ -x "$one" ] || skip_all "tests/unit/test_commit is not built"
calls="write fsync rename mkdir"

# The content of file or folder $1; "none" if it does not exist.
content() {
	if [ -d "$1" ]; then cat "$1/sub/x"; elif [ -e "$1" ]; then cat "$1"; else echo none; fi
}

# interrupt KIND OLD INJECTION: injects into the first, second ... such call of a run. `look` checks the result and sets $bad; $hits
# counts the runs that failed.
interrupt() {
	for k in 1 2 3 4 5 6; do
		rm -rf x ./*.tmp* ./.x.tmp*
		[ "$2" = none ] || echo "$2" >x
		strace -o /dev/null -e inject="$3:when=$k" "$one" "$1" x new 2>"$ERR"
		rc=$?
		[ "$rc" -eq 0 ] || hits=$((hits + 1))
		case $(content x) in "$2" | new) ;; *) bad="$bad $3 $k: $(content x);" ;; esac
		[ "$rc" -ne 0 ] || [ "$(content x)" = new ] || bad="$bad $3 $k: exit 0 without output;"
		look "$1" "$3 $k"
	done
}

# The next run removes the files that a killed one left.
after_kill() {
	"$one" "$1" x again 2>>"$ERR"
	case $(content x) in again | new) ;; *) bad="$bad $2, again: $(content x);" ;; esac
	[ "$1" = folder ] || [ -z "$(find . -name '*.tmp*')" ] || bad="$bad $2: litter;"
}
for what in "file old" "file none" "folder none"; do
	bad='' hits=0
	look() { after_kill "$@"; }
	for call in $calls; do
		interrupt $what "$call:signal=KILL"
	done
	[ -z "$bad" ] && [ "$hits" -ge 4 ]
	tap_result $? "${what% *} over ${what#* }: killed at each call" "$hits kills;$bad"
done

after_error() {
	case $rc in 0 | 74) ;; *) bad="$bad $2: exit $rc;" ;; esac
	[ -z "$(find . -name '*.tmp*')" ] || bad="$bad $2: litter;"
}
look() { after_error "$@"; }
for error in write:error=ENOSPC write:error=EDQUOT write:error=EIO fsync:error=EIO rename:error=EDQUOT mkdir:error=ENOSPC; do
	for what in "file old" "folder none"; do
		[ "$error $what" = "mkdir:error=ENOSPC file old" ] && continue
		bad='' hits=0
		interrupt $what "$error"
		[ -z "$bad" ] && [ "$hits" -ge 1 ]
		tap_result $? "${what% *} over ${what#* }: $error" "$hits errors;$bad"
	done
done

# The order of calls that survives a power failure: content, fsync of the file, rename, fsync of the folder.
rm -rf x ./*.tmp*
strace -o log -e trace=write,fsync,rename,openat "$one" file x last 2>"$ERR"
sed -n -e 's/^write(.*"last".*/write/p' -e 's/^fsync(.*/fsync/p' -e 's/^rename(.*/rename/p' log | tr '\n' ' ' >"$OUT"
[ "$(cat "$OUT")" = "write fsync rename fsync " ]
tap_result $? "write, fsync, rename, fsync of the folder"
