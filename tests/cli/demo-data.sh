# The built-in pictures of the demo: enough of them, distinct, from many seeds, and the same bytes in two runs.
. "$(dirname "$0")/tap.sh"

command -v ddm-ingest >/dev/null || skip_all "ddm-ingest is not built (--without-media)"
need make

data() { make -s -f "$SRC/share/recipes/demo.mk" DEMO="$1" PICTURES=drawn BIN="$B" "$1/samples.tar" >log 2>&1; }
check "first run" data one
check "second run" data two
check_same "the same bytes" one/samples.tar two/samples.tar
tar tf one/samples.tar >names
[ "$(grep -c 'png$' names)" -ge 6000 ]
tap_result $? "at least 6,000 frames" "$(grep -c 'png$' names)"
kinds=$(sed 's/-.*//' names | sort -u)
[ "$(echo "$kinds" | wc -l)" -ge 4 ]
tap_result $? "at least four kinds" "$kinds"
for k in $kinds; do
	seeds=$(grep "^$k-" names | sed 's/@.*//' | sort -u | wc -l)
	[ "$seeds" -ge 200 ]
	tap_result $? "$k: at least 200 seeds" "$seeds"
	most=$(grep "^$k-" names | sed 's/@.*//' | uniq -c | sort -rn | awk 'NR == 1 { print $1 }')
	[ "$most" -le 30 ]
	tap_result $? "$k: at most 30 frames of one" "$most"
done
mkdir x
tar xf one/samples.tar -C x
[ "$(find x -type f -exec sha256sum {} + | cut -c1-64 | sort | uniq -d | wc -l)" -eq 0 ]
tap_result $? "no picture twice"
