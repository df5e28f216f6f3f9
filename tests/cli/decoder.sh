# The decoder of ddm-ingest and files that try to misuse it: it opens no other file and no socket, and refuses each of them. The
# decoder's own program is run too, so that its whitelists are tested and not only the check of the first bytes.
. "$(dirname "$0")/tap.sh"

command -v ddm-ingest >/dev/null || skip_all "ddm-ingest is not built (--without-media)"
memory=500000000
sanitizer=
ldd "$B/ddm-ingest" | grep -Eq 'libasan|libtsan' && sanitizer=1 memory=0
trace=
[ -z "$sanitizer" ] && strace -f -o /dev/null true 2>/dev/null && trace=1

byte() {
	for b; do
		# shellcheck disable=SC2059
		printf "\\$(printf %03o $((b & 255)))"
	done
}
be16() { for v; do byte $((v >> 8)) $v; done; }
be32() { for v; do byte $((v >> 24)) $((v >> 16)) $((v >> 8)) $v; done; }
le16() { for v; do byte $v $((v >> 8)); done; }
le32() { for v; do byte $v $((v >> 8)) $((v >> 16)) $((v >> 24)); done; }
zeros() { head -c "$1" /dev/zero; }
box() { # TYPE: stdin in a box
	cat >"box.$1"
	be32 $((8 + $(size_of "box.$1")))
	printf %s "$1"
	cat "box.$1"
	rm "box.$1"
}

# decode FILE: runs the decoder itself: its frames in the file frames, its exit status in RC, the kind of its first message in FIRST
decode() {
	# It writes to a pipe, because it may not write to a file.
	{
		${trace:+strace -f -o trace} ingest-decoder --serve-frames 0 0 1000000 $memory 0 0 0 3<"$1" 2>"$ERR" </dev/null
		echo $? >rc
	} | cat >frames
	RC=$(cat rc)
	FIRST=$(od -An -tu8 -j 16 -N 8 frames | tr -d ' ')
}
# The system calls that it made in its sandbox, except those for memory and for its open descriptors.
asked() {
	sed -n '/seccomp(SECCOMP_SET_MODE_FILTER\|prctl(PR_SET_SECCOMP/,$p' trace |
		grep -Ev '^[0-9]+ +(seccomp|prctl|read|pread64|readv|write|writev|lseek|mmap|munmap|mremap|mprotect|madvise|brk|futex|fstat|close|getrandom|clock_gettime|exit_group|rt_sig[a-z]*|sched_[a-z]*|sysinfo|getpid|gettid|newfstatat\([0-9]+, ""|fcntl\([0-9])|^[0-9]+ +\+\+\+'
}

# A picture and a video that the other files refer to; their contents must never appear.
printf 'YUV4MPEG2 W8 H8 F25:1 Ip A1:1 Cmono\nFRAME\n%064d' 0 >secret.y4m
printf 'BM\076\0\0\0\0\0\0\0\066\0\0\0\050\0\0\0\002\0\0\0\001\0\0\0\001\0\030\0\0\0\0\0\010\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\377\377\0\0\0\0' >secret001.bmp
decode secret.y4m
[ $RC -eq 0 ] && [ "$FIRST" = 1 ]
tap_result $? "the video itself is decoded" "exit $RC, first message $FIRST"
if [ -n "$trace" ]; then
	asked >"$OUT"
	grep -q 'SECCOMP' trace && ! [ -s "$OUT" ]
	tap_result $? "and nothing else is asked of the kernel"
fi

here=$PWD
printf '#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile://%s/secret.y4m\n#EXT-X-ENDLIST\n' "$here" >hls-file.m3u8
printf '#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nsecret.y4m\n#EXT-X-ENDLIST\n' >hls-relative.mp4
printf '#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXT-X-KEY:METHOD=AES-128,URI="http://127.0.0.1:9/k"\n#EXTINF:1,\nhttp://127.0.0.1:9/x.ts\n#EXT-X-ENDLIST\n' >hls-http.ts
printf '#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nfile:///etc/passwd\n' >hls-passwd.mkv
printf '#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nconcat:http://127.0.0.1:9/a|file:///etc/passwd\n#EXT-X-ENDLIST\n' >hls-concat.avi
printf 'ffconcat version 1.0\nfile %s/secret.y4m\n' "$here" >concat.mp4
printf 'ffconcat version 1.0\nfile http://127.0.0.1:9/x.mp4\n' >concat-http.mp4
printf 'v=0\nfree\nc=IN IP4 127.0.0.1\nm=video 5004 RTP/AVP 96\na=rtpmap:96 H264/90000\n' >sdp.mp4
printf 'v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\na=rtpmap:96 H264/90000\n' >plain.sdp
printf '    skip<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"><Period><AdaptationSet contentType="video"><Representation id="1" bandwidth="1"><BaseURL>file://%s/secret.y4m</BaseURL></Representation></AdaptationSet></Period></MPD>' "$here" >dash.mp4
printf '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><MPD type="static"><Period>&e;<AdaptationSet contentType="video"><Representation id="1" bandwidth="1"><BaseURL>http://127.0.0.1:9/</BaseURL></Representation></AdaptationSet></Period></MPD>' >dash-entity.mpd
printf 'movie=%s/secret.y4m' "$here" >lavfi.mp4
printf ';FFMETADATA1\ntitle=x\n[STREAM]\n' >ffmetadata.mp4
printf '1\n00:00:00,000 --> 00:00:01,000\n<img src="file:///etc/passwd">\n' >subtitles.mkv
printf '# VobSub index file, v7\nid: en, index: 0\ntimestamp: 00:00:00:000, filepos: 000000000\n' >vobsub.mpg
printf '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="8" height="8"><image xlink:href="file://%s/secret001.bmp" width="8" height="8"/></svg>' "$here" >svg.png
printf 'push graphic-context\nviewbox 0 0 8 8\nimage over 0,0 8,8 "https://127.0.0.1:9/x|touch %s/touched"\npop graphic-context\n' "$here" >mvg.gif
printf '[playlist]\nFile1=file:///etc/passwd\n' >pls.ogv
printf 'RTSPtext\nrtsp://127.0.0.1:9/x\n' >rtsp.mov
printf '<ASX version="3"><entry><ref href="http://127.0.0.1:9/x"/></entry></ASX>' >asx.avi

# A QuickTime movie whose only track is in another file: dref NAME, with an alias to an absolute path or a URL.
alias_to() {
	zeros 10
	byte 6
	printf 'volume'
	zeros 33
	byte 10
	printf 'secret.y4m'
	zeros 69
	be16 1 1
	zeros 16
	be16 2 ${#1}
	printf %s "$1"
	[ $((${#1} % 2)) -eq 0 ] || byte 0
	be16 65535 0
}
movie() { # ENTRY (file of a dref entry)
	{
		{ printf 'qt  '; be32 0; printf 'qt  '; } | box ftyp
		{
			{ be32 0 0 0 1000 1000 65536; be16 256 0; be32 0 0 65536 0 0 0 65536 0 0 0 1073741824 0 0 0 0 0 0 2; } | box mvhd
			{
				{ be32 15 0 0 1 0 1000 0 0; be16 0 0 0 0; be32 65536 0 0 0 65536 0 0 0 1073741824 524288 524288; } | box tkhd
				{
					be32 0 0 0 1000 1000 0 | box mdhd
					{ be32 0; printf 'mhlrvide'; be32 0 0 0; byte 0; } | box hdlr
					{
						be32 1 0 0 | box vmhd
						{ be32 0 1; cat "$1"; } | box dref | box dinf
						{
							{
								be32 0 1
								{ be32 0; be16 0 1; be32 0 0 512 512; be16 8 8; be32 4718592 4718592 0; be16 1; zeros 32; be16 24 65535; } | box 'raw '
							} | box stsd
							be32 0 1 1 1000 | box stts
							be32 0 1 1 1 1 | box stsc
							be32 0 192 1 | box stsz
							be32 0 1 1048576 | box stco
						} | box stbl
					} | box minf
				} | box mdia
			} | box trak
		} | box moov
	} >film
}
{ be32 0; alias_to "$here/secret.y4m"; } | box alis >entry
movie entry
mv film dref-alias.mov
{ be32 0; printf 'file://%s/secret.y4m\0' "$here"; } | box 'url ' >entry
movie entry
mv film dref-url.mov
{ be32 0; printf 'http://127.0.0.1:9/x.mov\0'; } | box 'url ' >entry
movie entry
mv film dref-http.mov
rm -f entry

rm -f frames trace rc
ls | sort >"$tap_dir/before"
for f in hls-* concat* sdp* plain.sdp dash* lavfi.mp4 ffmetadata.mp4 subtitles.mkv vobsub.mpg svg.png mvg.gif pls.ogv rtsp.mov asx.avi dref*; do
	check_exit 65 "$f is refused" timeout 20 ddm-ingest -o out.tar "$f"
	decode "$f"
	[ $RC -eq 1 ] && [ "$FIRST" = 4 ]
	tap_result $? "$f: by the decoder itself too" "exit $RC, first message $FIRST"
	[ -n "$trace" ] || continue
	asked >"$OUT"
	[ ! -s "$OUT" ]
	tap_result $? "$f: it asks for nothing"
done
rm -f frames trace rc
ls | sort >"$tap_dir/after"
check_same "no file appeared" "$tap_dir/before" "$tap_dir/after"
[ -n "$trace" ] || skip "system calls of the decoder" "no strace, or a sanitizer"

# File names that FFmpeg would take for a sequence, a protocol or a device are plain names.
check_exit 66 "an image sequence" ddm-ingest -o out.tar 'secret%03d.bmp'
check_exit 66 "a protocol" ddm-ingest -o out.tar 'rtmp://127.0.0.1:9/x.mp4'
check_exit 69 "a tar on a server, which FFmpeg does not see" env DDM_HTTP_TRIES=1 ddm-ingest -o out.tar 'http://127.0.0.1:9/x.mp4'
check_exit 66 "a protocol of files" ddm-ingest -o out.tar "concat:$here/secret.y4m"
check_exit 66 "a local protocol" ddm-ingest -o out.tar "file://$here/secret.y4m"
check_exit 65 "a device" ddm-ingest -o out.tar /dev/zero
cp secret001.bmp 'odd%03d.bmp'
cp secret001.bmp odd001.bmp
check "a file of such a name" ddm-ingest -o out.tar 'odd%03d.bmp'
check_out "is itself" 'odd%03d.png' tar tf out.tar
check_exit 2 "a graph that opens a file" ddm-ingest "lavfi:movie=$here/secret.y4m"
check_exit 2 "through a longer way" ddm-ingest "lavfi:color=size=8x8[a];amovie=x,[a]overlay"

# Timestamps of any size: IVF has 64 bits for them. ivf NUMERATOR DENOMINATOR TIME...: writes a frame at each time.
ivf() {
	jpeg=$SRC/tests/golden/stills/grey.jpg
	printf DKIF
	le16 0 32
	printf MJPG
	le16 8 8
	le32 "$2" "$1" $(($# - 2)) 0
	shift 2
	for t; do
		le32 "$(size_of "$jpeg")" "$((t & 0xffffffff))" $((t >> 32))
		cat "$jpeg"
	done
}
ivf 1 10 0 4 5 16 17 >uneven.ivf
check "uneven times" ddm-ingest --duplicates --fps 2 -o even.tar uneven.ivf
check_out "a frame at or after every half second" 3 sh -c 'tar tf even.tar | wc -l | tr -d " "'
for t in 4611686018427387904 9223372036854775806; do
	ivf 1 1 0 1 $t >absurd.ivf
	rm -f absurd.tar
	check "a frame at $t s" timeout 20 ddm-ingest --duplicates --fps 1000 --timeout 10s -o absurd.tar absurd.ivf
	check_out "is one frame" 3 sh -c 'tar tf absurd.tar | wc -l | tr -d " "'
done
