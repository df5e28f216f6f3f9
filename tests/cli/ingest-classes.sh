# Classes of ddm-ingest: from folders of files and in tars, from classes.txt, and their names, which the output keeps.
. "$(dirname "$0")/tap.sh"

command -v ddm-ingest >/dev/null || skip_all "ddm-ingest is not built (--without-media)"
stills=$SRC/tests/golden/stills
numbers() { for m in $(tar tf "$1" | grep 'cls$'); do printf '%s=%s ' "$m" "$(tar xOf "$1" "$m")"; done; }
names() { head -c 4096 "$1" | tr -d '\000' | grep -ao '"class_names":\[[^]]*\]'; }

mkdir -p p/cat p/ant p/a-b
cp "$stills/grey.png" p/cat/1.png
cp "$stills/exif6.jpg" p/cat/2.jpg
cp "$stills/rgba.png" p/ant/1.png
cp "$stills/lossy.webp" p/a-b/1.webp
check "folders" ddm-ingest --classes -o folder.tar p
check_out "are numbered in the order of keys" "a-b/1.cls=0 ant/1.cls=1 cat/1.cls=2 cat/2.cls=2 " numbers folder.tar
names folder.tar >got
check_grep "names are kept" '"class_names":\["a-b","ant","cat"\]' got

# A tar of the same folders.
tar cf plain.tar -C p .
check "a tar" ddm-ingest --classes -o tar.tar plain.tar
numbers tar.tar | tr ' ' '\n' | LC_ALL=C sort | tr '\n' ' ' | sed 's/^ //' >got
numbers folder.tar | tr ' ' '\n' | LC_ALL=C sort | tr '\n' ' ' | sed 's/^ //' >want
check_same "has the classes of the folder" want got
names tar.tar >got
check_grep "and their names" '"class_names":\["a-b","ant","cat"\]' got
printf 7 >p/cat/1.cls
tar cf own.tar -C p .
check "a tar with classes of its own" ddm-ingest --classes -o own.out own.tar
check_out "gets one of each" "2" tar xOf own.out cat/1.cls
check "which are kept without --classes" ddm-ingest -o kept.out own.tar
check_out "as they are" "7" tar xOf kept.out cat/1.cls
rm p/cat/1.cls
mkdir -p q/bee
cp "$stills/grey.png" q/bee/9.png
check "a folder and a tar" ddm-ingest --classes -o both.tar q plain.tar
names both.tar >got
check_grep "share the numbers" '"class_names":\["a-b","ant","bee","cat"\]' got
check_out "of both" "2" tar xOf both.tar bee/9.cls
check_out "and the tar's" "3" tar xOf both.tar cat/2.cls
tar cf flat.tar -C p/cat 1.png
check_exit 2 "a tar without folders" ddm-ingest --classes -o flat.out flat.tar
check_err "says what is missing" "no folder above it"

# classes.txt.
printf 'cat\nant\ndog\na-b\n' >p/classes.txt
check "classes.txt" ddm-ingest --classes -o listed.tar p
check_out "has the order" "a-b/1.cls=3 ant/1.cls=1 cat/1.cls=0 cat/2.cls=0 " numbers listed.tar
names listed.tar >got
check_grep "and all names" '"class_names":\["cat","ant","dog","a-b"\]' got
! grep -q 'passed over' "$ERR"
tap_result $? "and is not passed over"
check "names without --classes" ddm-ingest -o unlabelled.tar p
names unlabelled.tar >got
check_grep "are kept" '"class_names":\["cat","ant","dog","a-b"\]' got
check "a samples tar" ddm-ingest --size 8 -o again.tar listed.tar
names again.tar >got
check_grep "keeps them" '"class_names":\["cat","ant","dog","a-b"\]' got
check_out "and its classes" "a-b/1.cls=3 ant/1.cls=1 cat/1.cls=0 cat/2.cls=0 " numbers again.tar
check_exit 65 "two orders" ddm-ingest --size 8 -o x.tar listed.tar both.tar
check_err "are named" 'both.tar: class 0 is called "a-b" here and "cat"'
printf 'cat\ndog\n' >p/classes.txt
check "a classes.txt that lacks a folder" ddm-ingest --classes -o lacking.tar p
check_err "is not used" 'classes.txt does not name "a-b"'
names lacking.tar >got
check_grep "the folders are" '"class_names":\["a-b","ant","cat"\]' got
printf 'cat\ncat\n' >p/classes.txt
check "a classes.txt with a name twice" ddm-ingest -o twice.tar p
check_err "is not used" 'p/classes.txt: no names of classes.*twice'
rm p/classes.txt

# So many names that their list is longer than a buffer of the reader.
mkdir many
i=0
while [ $i -lt 1000 ]; do
	printf 'class number %04d, which has a long name so that the list is long enough to need more than one buffer\n' $i
	i=$((i + 1))
done >many/classes.txt
cp "$stills/grey.png" many/
check "a thousand names" ddm-ingest -o many.tar many
check "are read again" ddm-ingest --size 8 -o more.tar many.tar
head -c 200000 more.tar | tr -d '\000' | grep -aq 'class number 0999'
tap_result $? "and kept"

check "-q" ddm-ingest -q --classes -o quiet.tar p
[ ! -s "$ERR" ]
tap_result $? "is quiet"
check_same "and changes nothing" quiet.tar folder.tar
