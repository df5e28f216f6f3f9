# share/fetch-weights from a local server that redirects, refuses, breaks off and continues (httpd.py).
. "$(dirname "$0")/tap.sh"
need curl sha256sum python3
unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY CURL_HOME
HOME=$PWD
export HOME

mkdir there
awk 'BEGIN { for (i = 0; i < 20000; i++) print "weights", i }' >there/a.bin
A=$(sha256sum <there/a.bin | cut -d ' ' -f 1)
size=$(size_of there/a.bin)
: >log
python3 "$SRC/tests/cli/httpd.py" there log port 2>server.err &
server=$!
trap 'kill $server 2>/dev/null; tap_end' EXIT
i=0
while [ ! -e port ] && [ $i -lt 60 ]; do
	i=$((i + 1))
	sleep 1
done
[ -e port ] || skip_all "no server on the loopback: $(tail -n 1 server.err)"
at=http://127.0.0.1:$(cat port)

for way in good plain cut busy down closed moved; do
	printf '%s\ta.bin\tMIT\t-\t%s/%s/a.bin\n' $way "$at" $way
done >table
{
	printf 'stated\ta.bin\tMIT\t%s\t%s/good/a.bin\n' "$A" "$at"
	printf 'wrong\ta.bin\tMIT\t00000000\t%s/good/a.bin\n' "$at"
	printf 'gone\tb.bin\tMIT\t-\t%s/good/b.bin\n' "$at"
	printf 'nobody\ta.bin\tMIT\t-\thttp://127.0.0.1:1/a.bin\n'
} >>table
fetch() { "$SRC/share/fetch-weights" --table table -o w "$@"; }

check "a file" fetch stated
check_same "whole" there/a.bin w/stated/a.bin
check_grep "asked for once, all of it" "^/good/a.bin - 200 $size\$" log
check "again" fetch stated
check_out "nothing is asked for" 1 grep -c . log
check "from where it was moved to" fetch moved
check_same "the same" there/a.bin w/moved/a.bin
check_exit_any 65 "another sum than the publisher's" fetch wrong
check_err "both are told" "SHA-256 is $A, and its publisher states 00000000"
check_absent "nothing of it" w/wrong/a.bin w/wrong/a.bin.part
check_exit_any 66 "not there" fetch gone
check_err "the status is told" '/good/b.bin: HTTP status 404'
check_exit_any 66 "not for everyone" fetch closed
check_err "told" '/closed/a.bin: HTTP status 403'
check_absent "no page of the server's in the place of weights" w/gone/b.bin w/gone/b.bin.part w/closed/a.bin w/closed/a.bin.part
check_exit_any 75 "nobody there" fetch nobody

# A download that breaks off is continued
check_exit_any 75 "cut off in the middle" fetch cut
check_err "what to do" 'cut off .*run the same command again'
[ "$(size_of w/cut/a.bin.part)" -eq $((size / 2)) ]
tap_result $? "half of it is kept" "$(ls -l w/cut)"
check_absent "under no name of weights" w/cut/a.bin
check "the same command again" fetch cut
check_same "whole, after a part" there/a.bin w/cut/a.bin
check_grep "only the rest was sent" "^/cut/a.bin bytes=$((size / 2))- 206 $((size - size / 2))\$" log
mkdir w/plain
head -c 1000 there/a.bin | tr w W >w/plain/a.bin.part
check "a server that cannot go on" fetch plain
check_same "from the start" there/a.bin w/plain/a.bin
mkdir w/good
{ cat there/a.bin; echo more; } >w/good/a.bin.part
check "a part longer than the file" fetch good
check_same "from the start, too" there/a.bin w/good/a.bin
check "a busy server" fetch busy
check_same "is asked again" there/a.bin w/busy/a.bin
[ "$(grep -c '^/busy/a.bin' log)" -eq 2 ]
tap_result $? "after its refusal" "$(grep busy log)"
check_exit_any 75 "a server that is down" fetch down
check_err "is told apart from a file that is not there" '/down/a.bin: HTTP status 503.*run the same command again'

# Existing files must not change
rm w/good/a.bin
echo other >there/a.bin
check_exit_any 65 "another file at the address" fetch good
check_err "what it was" "was $A .w/weights.sha256"
check_absent "it is not kept" w/good/a.bin w/good/a.bin.part

# Without its tools
mkdir bin
for tool in sh awk cat cut dirname flock grep mkdir mv rm sed sha256sum sort sync tail tr uniq; do
	ln -s "$(command -v $tool)" bin/$tool
done
check_exit 69 "no curl" env PATH="$PWD/bin" "$SRC/share/fetch-weights" --table table -o w2 good
check_err "it is named" 'curl is not installed'
ln -s "$(command -v curl)" bin/curl
rm bin/sha256sum
check_exit 69 "no sha256sum" env PATH="$PWD/bin" "$SRC/share/fetch-weights" --table table -o w2 good
check_absent "nothing is begun" w2
