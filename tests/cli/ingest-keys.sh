# Samples of ddm-ingest from folders as users have them: names that differ only after the first dot, equal pictures, captions, and classes that
# are not numbers.
. "$(dirname "$0")/tap.sh"

command -v ddm-ingest >/dev/null || skip_all "ddm-ingest is not built (--without-media)"
stills=$SRC/tests/golden/stills
keys() { tar tf "$1" | tr '\n' ' '; }

# A key ends at the first dot.
mkdir -p a/b
cp "$stills/grey.png" a/IMG.1.png
cp "$stills/rgba.png" a/IMG.2.png
cp "$stills/exif6.jpg" a/b/x.jpg
cp "$stills/exif6.png" a/b/x.png
cp "$stills/lossy.webp" a/lone.1.webp
check "names with dots" ddm-ingest -o dots.tar a
check_out "keep apart what would collide, and nothing else" "IMG_1.png IMG_2.png b/x_jpg.jpg b/x_png.png lone.webp " keys dots.tar
find a -type f | sort -r >list
check "a list" sh -c 'ddm-ingest -o list.tar - <list'
check_out "does too" "a/IMG_1.png a/IMG_2.png a/b/x_jpg.jpg a/b/x_png.png a/lone.webp " keys list.tar
cp "$stills/gamma.png" a/IMG_1.png
check "a name that is what another becomes" ddm-ingest -o taken.tar a
check_out "stays" "IMG_1.png IMG_1_png.png IMG_2.png b/x_jpg.jpg b/x_png.png lone.webp " keys taken.tar
rm a/IMG_1.png
cp "$stills/grey.jpg" a/IMG.1.jpg
check "the same up to the last dot" ddm-ingest -o last.tar a
check_out "the ending counts too" "IMG_1_jpg.jpg IMG_1_png.png IMG_2.png b/x_jpg.jpg b/x_png.png lone.webp " keys last.tar
rm a/IMG.1.jpg
echo one >a/IMG.1.txt
echo both >a/IMG.txt
echo alone >a/lone.txt
printf 4 >a/b/x.cls
check "captions" ddm-ingest -o captions.tar a
check_err "none is passed over" '^ddm-ingest: 5 samples$'
check_out "of the whole name" one tar xOf captions.tar IMG_1.txt
check_out "or its beginning" both tar xOf captions.tar IMG_2.txt
check_out "of others" alone tar xOf captions.tar lone.txt
check_out "a class of two" 4 tar xOf captions.tar b/x_png.cls
echo nobody >a/nobody.txt
echo '{"caption": "nobody"}' >a/nobody.json
echo nobody >a/nobody.log
check "captions of none" ddm-ingest -o captions2.tar a
check_err "are counted, each file" ' 3 other files passed over'

# Equal pictures.
mkdir -p e/1 e/2
cp "$stills/grey.png" e/1/a.png
cp "$stills/grey.png" e/2/b.png
cp "$stills/exif6.png" e/2/c.png
echo c >e/2/b.txt
check "equal pictures" ddm-ingest -o equal.tar e
check_err "are told" ' 1 pictures with the pixels of an earlier one kept \(2/b = 1/a\)'
check_out "and kept" "1/a.png 2/b.png 2/b.txt 2/c.png " keys equal.tar
check "--dedup exact" ddm-ingest --dedup exact -o exact.tar e
check_err "says so" 'left out \(2/b = 1/a\)'
check_out "leaves them out" "1/a.png 2/c.png " keys exact.tar
check "of a tar" ddm-ingest --size 8 --dedup exact -o exact2.tar equal.tar
check_out "too" "1/a.png 2/c.png " keys exact2.tar
check "in any number of threads" ddm-ingest --dedup exact --threads 7 -o exact7.tar e
check_same "the same" exact.tar exact7.tar
check_exit 2 "--dedup of another kind" ddm-ingest --dedup fuzzy -o x.tar e

# Classes.
mkdir c
cp "$stills/grey.png" c/a.png
cp "$stills/rgba.png" c/b.png
for class in cat -1 1e3 12345678901234567890 2147483647 3.0 ''; do
	printf '%s' "$class" >c/a.cls
	tar cf c.tar -C c a.png a.cls b.png
	check_exit 65 "class '$class'" ddm-ingest -o c.out c
	check_err "is named" 'c/a.png: the class of "a"'
	check_exit 65 "class '$class' in a tar" ddm-ingest -o c.out c.tar
	check_err "is named" 'c.tar: the class of "a"'
	check_absent "nothing is written" c.out
done
check "with --skip-bad" ddm-ingest --skip-bad -o c.out c
check_err "it is skipped" 'skipped: c/a.png'
check_out "with its picture" "b.png " keys c.out
for class in 0 7 2147483646; do
	printf '%s\n' "$class" >c/a.cls
	rm -f c.out
	check "class $class" ddm-ingest -o c.out c
	check "is read again" ddm-ingest -o c2.out --size 8 c.out
	rm -f c2.out
done
check_clean "nothing is left behind" .
