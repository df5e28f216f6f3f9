# Servers that lie, break off, are slow or send a client elsewhere: an error within bounded time, that names the URL.
. "$(dirname "$0")/tap.sh"
need_urls
small_pictures
mkdir there
ddm-ingest -q --size 32 -o there/p.tar pics || exit 1
range_server
DDM_HTTP_TIMEOUT=1
DDM_HTTP_TRIES=2
export DDM_HTTP_TIMEOUT DDM_HTTP_TRIES

bad() { # STATUS WAY REGEX
	check_exit "$1" "$2" timeout 30 ddm-select -q -o no.tar "width > 0" "$at/$2/p.tar"
	check_err "$2: the reason" "^ddm-select: $at/$2/p.tar: $3"
}
bad 65 changed 'has changed on the server while it was read'
bad 65 resized 'has changed on the server while it was read'
bad 65 other 'the server sends bytes 1 to 65535 where 0 to 65535 were asked for'
bad 65 tofile 'HTTP status 302, a redirection to file:.*, which is not followed'
bad 66 closed 'HTTP status 403$'
bad 69 short 'the answer ended at byte [0-9]* of [0-9]* \(2 attempts\)'
bad 69 slow 'fewer than 1000 bytes a second came for 1 seconds \(2 attempts\)'
bad 69 silent 'fewer than 1000 bytes a second came for 1 seconds \(2 attempts\)'
bad 65 header 'the header of the server.s answer is malformed or too large'
bad 69 down 'HTTP status 503 \(2 attempts\)'
bad 69 loop 'more than 5 redirections'
check_out "each of the redirections is asked for once" 6 grep -c '^/loop/' log
check_exit 66 "a file that is not there" ddm-select -q -o no.tar "width > 0" "$at/good/none.tar?secret=1"
check_err "its URL without the query" "good/none.tar: HTTP status 404\$"
DDM_HTTP_TRIES=1
check_exit 69 "nobody there" ddm-select -q -o no.tar "width > 0" http://127.0.0.1:1/p.tar
check_err "named" '^ddm-select: http://127.0.0.1:1/p.tar: '
check_exit 69 "one attempt" ddm-select -q -o no.tar "width > 0" "$at/cutplain/p.tar?one"
check_err "is not counted in the message" 'bytes remaining to read$'
check_exit 66 "a password in the URL" ddm-select -q -o no.tar "width > 0" "http://me:secret@127.0.0.1:1/p.tar"
check_exit 66 "no URL" ddm-select -q -o no.tar "width > 0" "http://"
check_absent "no output of any of these" no.tar

# The file is replaced while it is read: a reader that got the first part stops
DDM_HTTP_TRIES=5
ddm-ingest -q --size 40 -o q.tar pics || exit 1
mkfifo gate
(
	until_true grep -q 'cutplain/r.tar' log
	cp q.tar there/r.tar
) &
cp there/p.tar there/r.tar
check_exit 65 "a file that is replaced while it is read" ddm-select -q -o no.tar "width > 0" "$at/cutplain/r.tar"
check_err "noticed" 'r.tar: has changed on the server while it was read'
wait $!

# A signal ends the wait
ddm-select -q -o no.tar "width > 0" "$at/silent/x.tar" 2>"$ERR" &
pid=$!
until_true grep -q silent/x.tar log
kill -TERM $pid
wait $pid 2>/dev/null
[ $? -eq 143 ]
tap_result $? "SIGTERM while a server is silent"

# Values of the variables
for wrong in DDM_HTTP_TIMEOUT=0 DDM_HTTP_TIMEOUT=2h DDM_HTTP_TIMEOUT=x DDM_HTTP_TRIES=0 DDM_HTTP_TRIES=101 DDM_CACHE_SIZE=0 DDM_CACHE_SIZE=much; do
	check_exit 2 "$wrong" env "$wrong" ddm-select -q -o no.tar "width > 0" there/p.tar
	check_err "named" "^ddm-select: ${wrong%%=*}: '${wrong#*=}' is not a "
done
