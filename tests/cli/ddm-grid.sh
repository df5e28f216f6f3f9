# ddm-grid: sheets of several sources with labels, the same bytes again, and what is refused.
. "$(dirname "$0")/tap.sh"

check_program ddm-grid
mkdir p
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C p
check "a sheet" ddm-grid --columns 3 -r 1 -s 1 --size 16 -o a.png "kind a=p" "kind b=p"
check "the same again" ddm-grid --columns 3 -r 1 -s 1 --size 16 -o b.png "kind a=p" "kind b=p"
check_same "the same bytes" a.png b.png
check "another label" ddm-grid --columns 3 -r 1 -s 1 --size 16 -o c.png "kind c=p" "kind b=p"
check_differ "a label shows" a.png c.png
check "small letters" ddm-grid --columns 3 -r 1 -s 1 --size 16 -o small.png "hog=p"
check "capitals" ddm-grid --columns 3 -r 1 -s 1 --size 16 -o capital.png "HOG=p"
check "the small ones once more" ddm-grid --columns 3 -r 1 -s 1 --size 16 -o small2.png "hog=p"
# Compare only the pixels, because the stamp holds the label anyway.
for f in small capital; do ddm-grid --columns 1 -r 1 -s 1 -o $f.bare.png "x=$f.png" >/dev/null 2>&1; done
check_differ "a label keeps its case" small.bare.png capital.bare.png
# width 3 * 18 - 2 + 12, two bands of 21 and rows of 18, margin 6
check_out "its size" "00 00 00 40 00 00 00 54" sh -c 'dd if=a.png bs=1 skip=16 count=8 2>/dev/null | od -An -tx1 | sed "s/^ //"'
check "a sheet as large as itself" ddm-grid -s 2 --columns 3 -r 1 --size 16 -o d.png "a=a.png"
check "on stdout" ddm-grid --columns 3 -r 1 -s 1 --size 16 "kind a=p" "kind b=p"
check_same "as in a file" "$OUT" a.png
check "spread over the source" ddm-grid --spread --columns 2 -r 1 -s 1 --size 16 -o e.png "a=p"
check "the first ones" ddm-grid --columns 2 -r 1 -s 1 --size 16 -o f.png "a=p"
check_differ "are others" e.png f.png
check_exit 2 "no label" ddm-grid -o x.png p
check_exit 2 "too large" ddm-grid --columns 1000 --size 4096 -o x.png a=p
check_exit 66 "no such source" ddm-grid -o x.png a=none
check_exit 65 "nothing left to show" ddm-grid --skip 100000 -o x.png a=p
cp a.png broken.png
cut_to broken.png 100
check_exit 65 "a cut picture" ddm-grid -o x.png a=broken.png
check_err "named" "broken"
check_absent "nothing written" x.png
check_stdout "PNG" ddm-grid --columns 1 -r 1 -s 1 --size 16 a=p
check_clean "no temporary" .
