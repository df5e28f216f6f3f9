# Hard links in a tar stand for the members that they point to, in every program that reads samples; skipped links are named.
. "$(dirname "$0")/tap.sh"

stills=$SRC/tests/golden/stills
keys() { tar tf "$1" | tr '\n' ' '; }
zeros() { head -c "$1" /dev/zero; }

# header NAME TYPE TARGET SIZE: writes a ustar header. tar itself writes links only after their members.
header() {
	size=$(printf %011o "$4")
	sum=0
	for byte in $(printf '%s%s%s%s%s%s%s' "$1$2$3$size" 0000644 0000000 0000000 00000000000 ustar00 '        '  | od -An -v -tu1); do
		sum=$((sum + byte))
	done
	printf %s "$1"
	zeros $((100 - ${#1}))
	printf '0000644\0000000000\0000000000\000%s\00000000000000\000%06o\000 %s%s' "$size" "$sum" "$2" "$3"
	zeros $((100 - ${#3}))
	printf 'ustar\00000'
	zeros 247
}
file() { # NAME FILE
	header "$1" 0 "" "$(size_of "$2")"
	cat "$2"
	zeros $(((512 - $(size_of "$2") % 512) % 512))
}
link() { header "$1" 1 "$2" 0; }
end() { zeros 1024; }

# Links as tar writes them.
mkdir p
cp "$stills/grey.png" p/a.png
ln p/a.png p/b.png
ln p/a.png p/c.png
cp "$stills/exif6.jpg" p/d.jpg
ln p/d.jpg p/e.jpg
tar cf links.tar -C p a.png b.png c.png d.jpg e.jpg
tar tvf links.tar >list
check_grep "tar writes hard links" '^h' list
gzip -c links.tar >links.tgz
mkdir copy
for f in a.png b.png c.png d.jpg e.jpg; do cp p/$f copy/$f; done
tar cf copies.tar -C copy a.png b.png c.png d.jpg e.jpg

# Any order, chains, through ./
{ link a.png ./d.png; link b.png a.png; file c.png "$stills/rgba.png"; link d.png c.png; link e.png b.png; end; } >any.tar
tar tf any.tar >list 2>"$ERR"
check_same "the headers are right" list - <<X
a.png
b.png
c.png
d.png
e.png
X
# Links to nothing, to themselves, in a circle; and entries that are not files.
ln -s a.png p/s.png
mkfifo p/f.png
cp p/d.jpg p/...jpg
cp p/d.jpg p/.jpg
cp p/d.jpg p/.other
tar cf other.tar -C p a.png s.png f.png ...jpg .jpg .other
{ file a.png "$stills/grey.png"; link b.png nothing.png; link c.png c.png; link d.png e.png; link e.png d.png; end; } >wrong.tar

if command -v ddm-ingest >/dev/null; then
	ddm-ingest --duplicates -o want.out copies.tar 2>/dev/null
	for t in links.tar links.tgz; do
		check "$t" ddm-ingest --duplicates -o $t.out $t
		check_same "is what it would be with copies" want.out $t.out
	done
	check "links anywhere" ddm-ingest -o any.out any.tar
	check_out "are all read" "a.png b.png c.png d.png e.png " keys any.out
	for k in a b d e; do
		tar xOf any.out $k.png >$k.got
		check_same "$k is c" "$stills/rgba.png" $k.got
	done
	check "links to nothing" ddm-ingest -o wrong.out wrong.tar
	check_err "are named" "wrong.tar: passed over: 'b.png' \(a hard link to nothing in the archive\), 'c.png' .*, 'd.png' .* and more"
	check_out "and not there" "a.png " keys wrong.out
	check "other things in a tar" ddm-ingest -o other.out other.tar
	check_err "are named" "other.tar: passed over: 's.png' \(a symbolic link\), 'f.png' \(a FIFO\), '...jpg' \(a name that is not a valid key\) and more"
	check_out "and not read" "a.png " keys other.out
	rm p/f.png
	ln -s nowhere p/n.png
	ln -s ../copy p/folder
	check "other things in a folder" ddm-ingest -o folder.out p
	check_err "are named too" "passed over: 'p/...jpg' \(a name that begins with a dot\), 'p/.jpg' .*, 'p/folder' \(a link to no file\) and more"
	check_out "a link to a file is read" "a.png b.png c.png d.jpg e.jpg s.png " keys folder.out
fi

# Every reader of samples.
count() { grep -vc '^#' "$1"; }
check "ddm-cluster" ddm-cluster -q -k 1 -o a.tsv links.tar
check_out "sees five" 5 count a.tsv
check "ddm-cluster, compressed, from a file as standard input" sh -c 'ddm-cluster -q -k 1 -o b.tsv - <links.tgz'
check_out "sees five" 5 count b.tsv
check_exit 65 "ddm-cluster, from a pipe, which cannot be read again" sh -c 'cat links.tar | ddm-cluster -q -k 1 -o c.tsv -'
check_err "says what to do" "stdin: 'b.png' is a hard link.*give the file by its name"
check_absent "and writes nothing" c.tsv
check "other things" ddm-cluster -q -k 1 -o d.tsv other.tar
check_err "are named" "other.tar: passed over: 's.png' \(a symbolic link\)"
check "ddm-shard" ddm-shard -q -a a.tsv -o shards links.tar
check_grep "holds five" '	5	' shards/MANIFEST.tsv
check_clean "nothing is left behind" .
