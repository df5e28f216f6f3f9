# ddm-ingest --buckets: each picture and clip takes the size whose aspect ratio is nearest, and says which; ddm-select finds them.
. "$(dirname "$0")/tap.sh"

command -v ddm-ingest >/dev/null || skip_all "ddm-ingest is not built (--without-media)"

wide='lavfi@wide:testsrc=size=96x48:rate=4,format=rgb24' tall='lavfi@tall:testsrc=size=50x100:rate=4,format=rgb24'
even='lavfi@even:testsrc=size=200x200:rate=4,format=rgb24'
sizes=64x32,32x64,64,16

check_exit 2 "not a size" ddm-ingest --buckets 64x32,x -o x.tar "$wide"
check_err "is named" 'buckets "64x32,x": .x. is not a size, WxH or N'
check_exit 2 "beside --size" ddm-ingest --buckets 64x32 --size 16 -o x.tar "$wide"
check_exit 2 "adm makes squares" ddm-ingest --buckets 64x32 --resize adm -o x.tar "$wide"
check_absent "nothing was made" x.tar

# Pictures
check "pictures" ddm-ingest -q --frames 2 --buckets $sizes -o p.tar "$wide" "$tall" "$even"
for size in 64x32 32x64 64x64; do
	check "those of $size" ddm-select -q -o $size.tar "bucket == '$size'" p.tar
	check_out "are two" 2 sh -c "tar tf $size.tar | grep -c png"
	check "of that size" ddm-select -q -o "same-$size.tar" "width == ${size%x*} && height == ${size#*x}" $size.tar
	check_out "all of them" 2 sh -c "tar tf same-$size.tar | grep -c png"
done
check_exit 65 "nothing is enlarged for want of a better one" ddm-select -q -o x.tar "bucket == '16x16'" p.tar
check "with other threads" ddm-ingest -q --frames 2 --threads 3 --buckets $sizes -o q.tar "$wide" "$tall" "$even"
check_same "the same bytes" p.tar q.tar

# One size alone is what --size makes
check "one bucket" ddm-ingest -q --frames 2 --buckets 24 -o one.tar "$wide"
check "--size" ddm-ingest -q --frames 2 --size 24 -o size.tar "$wide"
tar xOf one.tar --wildcards '*.png' >one.png
tar xOf size.tar --wildcards '*.png' >size.png
check_same "the same pictures" one.png size.png
check "samples of a tar" ddm-ingest -q --buckets 8x16,16x8 -o again.tar p.tar
check_out "take their buckets too" "2 4" sh -c "tar xOf again.tar --wildcards '*.json' | grep -ao '8x16\|16x8' | sort | uniq -c | tr -s ' ' | cut -d ' ' -f 2 | sort | tr '\n' ' ' | sed 's/ \$//'"

# Clips
check "clips" ddm-ingest -q --clips 3 --fps 4 --buckets $sizes -o c.tar "$wide" "$tall" "$even"
for shape in '3, 3, 32, 64' '3, 3, 64, 32' '3, 3, 64, 64'; do
	check_out "one of ($shape)" 1 sh -c "tar xOf c.tar --wildcards '*.npy' | grep -ac '($shape)'"
done
check "found by bucket" ddm-select -q -o w.tar "bucket == '64x32' && frames == 3" c.tar
check_out "one clip" 1 sh -c "tar tf w.tar | grep -c npy"
check "resized as they come" ddm-ingest -q --clips 3 --fps 4 --crop none --buckets $sizes -o d.tar "$wide" "$tall" "$even"
tar xOf c.tar --wildcards '*.npy' >c.npy
tar xOf d.tar --wildcards '*.npy' >d.npy
check_same "the same clips" c.npy d.npy
