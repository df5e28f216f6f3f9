# ddm-ingest: pictures, video, graphs; order, keys, bad input, the sandbox.
. "$(dirname "$0")/tap.sh"

command -v ddm-ingest >/dev/null || skip_all "ddm-ingest is not built (--without-media)"
check_program ddm-ingest
check_exit 2 "no source" ddm-ingest
check_exit 2 "size 0" ddm-ingest --size 0 .
check_exit 66 "missing source" ddm-ingest nowhere.png
check_err "it is named" nowhere.png

keys() { tar tf "$1" | tr '\n' ' '; }
stills=$SRC/tests/golden/stills

# Graphs: reproducible, seeded, independent of the number of threads and of the order of operands.
mandel='lavfi:mandelbrot=size=16x16:rate=1:start_x={u:-1:0}:start_y={u:-0.5:0.5}:start_scale={u:0.5:2}'
life='lavfi@cells:life=size=16x16:random_seed={seed}:mold=5:life_color={color}:death_color={color},format=rgb24'
check "graphs" ddm-ingest --seeds 60 --frames 4 --threads 1 -o one.tar "$mandel" "$life"
check "graphs, other order and threads" ddm-ingest --seeds 60 --frames 4 --threads 3 -o two.tar "$life" "$mandel"
check_same "the same bytes" one.tar two.tar
tar tf one.tar >names
LC_ALL=C sort -c names
tap_result $? "keys in bytewise order"
check_grep "key of a graph's frame" '^mandelbrot-0059@0003.png$' names
check_grep "name of a graph" '^cells-0000@0000.png$' names
check "another seed" ddm-ingest --seeds 60 --frames 4 --seed 60 -o three.tar "$mandel" "$life"
check_differ "gives other pictures" one.tar three.tar
check "the seed counts, not its place" ddm-ingest --seeds 1 --seed 59 --frames 4 -o last.tar "$mandel"
mkdir a b
tar xf one.tar -C a mandelbrot-0059@0003.png
tar xf last.tar -C b
check_same "instance 59 alone" a/mandelbrot-0059@0003.png b/mandelbrot-0059@0003.png
check_out "-n is a total" "5" sh -c "ddm-ingest --seeds 3 --frames 4 -n 5 -o - '$mandel' | tar tf - | wc -l | tr -d ' '"
check_out "equal frames are dropped" "1" sh -c "ddm-ingest --frames 4 lavfi:color=red:size=8x8 2>/dev/null | tar tf - | wc -l | tr -d ' '"
check_out "or kept" "4" sh -c "ddm-ingest --frames 4 --duplicates lavfi:color=red:size=8x8 2>/dev/null | tar tf - | wc -l | tr -d ' '"
check "classes" ddm-ingest --seeds 2 --frames 1 --classes -o classes.tar "$mandel" "$life"
check_out "are numbers in order of names" "0011" sh -c "tar xOf classes.tar cells-0000@0000.cls cells-0001@0000.cls mandelbrot-0000@0000.cls mandelbrot-0001@0000.cls"
check_exit 2 "not a graph" ddm-ingest lavfi:no_such_filter
check_err "it is named" no_such_filter
check_exit 2 "not a placeholder" ddm-ingest 'lavfi:color={red}'
check_err "it is named" '\{red\}'
check_exit 2 "range the wrong way round" ddm-ingest 'lavfi:mandelbrot=start_x={u:1:0}'
check_exit 2 "a graph with audio" ddm-ingest lavfi:sine
check_exit 2 "two graphs of one name" ddm-ingest lavfi:color=red lavfi:color=blue
check_stdout "a tar" ddm-ingest --seeds 20 --frames 20 "$mandel"

# Pictures.
mkdir -p pics/b pics/a.x
cp "$stills/exif6.jpg" pics/b/one.jpg
cp "$stills/rgba.png" pics/b/two.seg.png
cp "$stills/lossy.webp" pics/a.x/three.webp
cp "$stills/grey.png" pics/b-c.png
echo text >pics/README.txt
cp "$stills/grey.jpg" pics/.hidden.jpg
check "folder" ddm-ingest -o folder.tar pics
check_out "keys" "a.x/three.webp b-c.png b/one.jpg b/two.png " keys folder.tar
tar xf folder.tar -C a
check_same "bytes as they are" a/b/one.jpg pics/b/one.jpg
check "list" sh -c 'find pics/b -type f | ddm-ingest --size 8 -o list.tar -'
check_out "keys of a list" "pics/b/one.png pics/b/two.png " keys list.tar
check "NUL list" sh -c 'find pics/b -type f -print0 | ddm-ingest --size 8 -0 -o list0.tar -'
check_same "the same" list.tar list0.tar
cp folder.tar before.tar
check "run again" ddm-ingest -o folder.tar pics
check_same "the same bytes again" folder.tar before.tar
cp "$stills/rgba.png" flipped.png
flip flipped.png 60
check_exit 65 "a flipped bit" ddm-ingest -o flipped.tar flipped.png
check_err "is seen" "flipped.png: .*checksum"
mkdir other
cp "$stills/exif6.png" "$stills/grey.jpg" other
check_exit 65 "two files with one key" ddm-ingest --size 12 -o dup.tar "$stills/exif6.jpg" "$stills/exif6.jpg"
check_err "both are named" 'exif6.jpg.*exif6.jpg'
check_exit 65 "of two folders" ddm-ingest --size 12 -o dup.tar other pics/b/../../other
check_exit_any 3 "or the second is skipped" ddm-ingest --skip-bad --max-errors 0 --size 12 -o dup.tar other pics/../other
check_err "and named" 'exif6.png: .*exif6.png makes the same key'
mkdir uniq
for f in "$stills"/*; do
	cp "$f" "uniq/$(basename "$f" | tr . _).${f##*.}"
done
check "every kind" ddm-ingest --size 12 --threads 1 -o t1.tar uniq
check "threads" ddm-ingest --size 12 --threads 5 -o t5.tar uniq
check_same "do not matter" t1.tar t5.tar
check "adm" ddm-ingest --size 12 --resize adm -o adm.tar uniq
check_differ "is another resize" t1.tar adm.tar

# Files beside a picture, and tars.
mkdir beside
cp pics/b/one.jpg beside/p.jpg
echo a caption >beside/p.txt
printf 3 >beside/p.cls
check "sidecars" ddm-ingest --size 8 -o beside.tar beside
check_out "in order of extensions" "p.cls p.png p.txt " keys beside.tar
check_out "as they are" "a caption" tar xOf beside.tar p.txt
check "a tar" ddm-ingest --size 4 -o smaller.tar beside.tar
check_out "keeps its members" "p.cls p.png p.txt " keys smaller.tar
check "two steps" ddm-ingest --size 4 -o direct.tar folder.tar pics/b-c.png
check_out "other sources come first" "pics/b-c.png a.x/three.png b-c.png b/one.png b/two.png " keys direct.tar
check_exit 65 "a key of both" ddm-ingest -o both.tar beside.tar beside
check "a compressed tar in a folder" sh -c 'mkdir packed; gzip -c beside.tar >packed/x.tar.gz; ddm-ingest -o unpacked.tar packed'
check_out "is read" "p.cls p.png p.txt " keys unpacked.tar
mkdir mixed
cp pics/b/one.jpg mixed/a.jpg
cp pics/b/one.jpg mixed/c.JPEG
echo no picture >mixed/b.jpg
tar cf mixed.tar -C mixed a.jpg b.jpg c.JPEG
check_exit 65 "a tar whose picture is none" ddm-ingest -o mixed.out mixed.tar
check_err "is named" "b: .*not a JPEG, PNG or WebP"
check "or is passed over" ddm-ingest --skip-bad -o mixed.out mixed.tar
check_out "the others are kept" "a.jpg c.jpg " keys mixed.out
cp beside.tar broken.tar
cut_to broken.tar 1500
check_exit 65 "a cut tar" ddm-ingest -o cut.tar broken.tar

# FFmpeg decodes a BMP of 2 x 1 pixels, red and blue.
printf 'BM\076\0\0\0\0\0\0\0\066\0\0\0\050\0\0\0\002\0\0\0\001\0\0\0\001\0\030\0\0\0\0\0\010\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\377\377\0\0\0\0' >rb.bmp
check "BMP" ddm-ingest -o bmp.tar rb.bmp
check_out "its key has no frame" "rb.png " keys bmp.tar

# A video: 25 frames of 4 x 4 with increasing grey.
{
	printf 'YUV4MPEG2 W4 H4 F25:1 Ip A1:1 Cmono\n'
	i=0
	while [ $i -lt 25 ]; do
		printf 'FRAME\n'
		o=$(printf '%03o' $((16 + i * 8)))
		printf "\\$o\\$o\\$o\\$o\\$o\\$o\\$o\\$o\\$o\\$o\\$o\\$o\\$o\\$o\\$o\\$o"
		i=$((i + 1))
	done
} >grey.y4m
check "video" ddm-ingest -o video.tar grey.y4m
check_out "all frames" "25" sh -c 'tar tf video.tar | wc -l | tr -d " "'
check_out "at 5 frames a second" "grey@000000.png grey@000001.png grey@000002.png grey@000003.png grey@000004.png " \
	sh -c 'ddm-ingest --fps 5 grey.y4m 2>/dev/null | tar tf - | tr "\n" " "'
mkdir v w
tar xf video.tar -C v
ddm-ingest --fps 5 grey.y4m 2>/dev/null | tar xf - -C w
check_same "every fifth" v/grey@000010.png w/grey@000002.png
check_out "--frames" "3" sh -c 'ddm-ingest --frames 3 grey.y4m 2>/dev/null | tar tf - | wc -l | tr -d " "'
cp rb.bmp cut.bmp
cut_to cut.bmp 40
check_exit 65 "a cut file for FFmpeg" ddm-ingest -o cut.tar cut.bmp
check_absent "nothing is written" cut.tar
check_clean "nor left behind" .

# Bad pictures.
mkdir bad
cp pics/b/one.jpg bad/good.jpg
cp pics/b/one.jpg bad/cut.jpg
cut_to bad/cut.jpg 600
: >bad/empty.png
echo no picture >bad/text.png
check_exit 65 "a bad picture" ddm-ingest -o bad.tar bad
check_err "is named" 'bad/cut.jpg'
check_absent "and nothing written" bad.tar
check "--skip-bad" ddm-ingest --skip-bad -o bad.tar bad
check_err "names it" 'skipped: bad/empty.png'
check_out "keeps the rest" "good.jpg " keys bad.tar
check_exit_any 3 "--max-errors" ddm-ingest --skip-bad --max-errors 2 -o max.tar bad
check_same "the output is whole" bad.tar max.tar
check "--max-errors 3" ddm-ingest --skip-bad --max-errors 3 -o max.tar bad
rm bad/good.jpg
check_exit_any 65 "nothing but bad" ddm-ingest --skip-bad bad
check_exit 65 "too large" ddm-ingest --max-pixels 100 pics/b/one.jpg
check_exit 65 "too large a frame" ddm-ingest --max-pixels 100 lavfi:color=size=64x64
mkdir none
check_exit 65 "no sample at all" ddm-ingest none

# A graph cannot write files, and a decoder that sends nothing is killed.
check "the file itself" ddm-ingest -o video.tar grey.y4m
check_exit 2 "a graph that reads a file" ddm-ingest lavfi:movie=grey.y4m
check_err "is told how" "name the file as a source"
check_exit_any 2 "a graph that writes a file" ddm-ingest 'lavfi:color=size=8x8,metadata=mode=add:key=a:value=b,metadata=mode=print:file=written'
check_absent "is not let" written
check_exit 65 "a silent decoder" ddm-ingest --timeout 1s 'lavfi:color=size=8x8,select=0'
check_err "is killed" killed
if ldd "$(command -v ddm-ingest)" | grep -q asan; then
	skip "a decoder without memory" "the address sanitizer needs all address space"
else
	check_exit 65 "a decoder without memory" ddm-ingest --max-memory 600M 'lavfi:color=size=8000x8000,loop=loop=-1:size=32767,reverse'
	check_err "says so" "Cannot allocate memory"
fi

# After an interruption there are neither files nor decoders left.
if ps -eo args >/dev/null 2>&1; then
	for signal in TERM KILL; do
		ddm-ingest --frames 1000000 --duplicates -o stopped.tar "lavfi:testsrc2=size=64x48:sar=1/$$" 2>/dev/null &
		pid=$!
		sleep 0.5
		kill -$signal $pid
		wait $pid 2>/dev/null
		RC=$?
		[ "$RC" -gt 128 ]
		tap_result $? "SIG$signal ends it" "exit $RC"
		check_absent "no output after SIG$signal" stopped.tar
		for i in 1 2 3 4 5 6 7 8 9 10; do
			[ "$(ps -eo args | grep -c "[s]erve-frames .*sar=1/$$")" -ne 0 ] || break
			sleep 0.2
		done
		[ "$(ps -eo args | grep -c "[s]erve-frames .*sar=1/$$")" -eq 0 ]
		tap_result $? "no decoder after SIG$signal"
	done
	check "the next run" ddm-ingest --frames 2 -o stopped.tar lavfi:testsrc2=size=16x16
	check_clean "tidies up" .
else
	skip "signals" "no ps"
fi

if [ -n "$DATA" ] && [ -d "$DATA/video/derived" ]; then
	check "real videos" ddm-ingest --skip-bad --size 32 --fps 1 --max-errors 8 -o real.tar "$DATA/video/derived"
	check "again" ddm-ingest --skip-bad --size 32 --fps 1 --threads 1 -o again.tar "$DATA/video/derived"
	check_same "the same bytes" real.tar again.tar
	check_exit 65 "bit flips" ddm-ingest "$DATA/video/derived/bitflips_mid.mp4"
else
	skip "real videos" "no test data"
fi
