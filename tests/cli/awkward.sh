# Every file of the awkward test data, given to each program that a user would give it to: the program reads it, or refuses it with exit 65 and one
# line, within a minute and a small address space. No signal kills it, and it writes only the output. Readable files are read.
. "$(dirname "$0")/tap.sh"

[ -n "$DATA" ] && [ -f "$DATA/awkward-images/manifest.tsv" ] && [ -d "$DATA/awkward-archives/traversal" ] &&
	[ -d "$DATA/awkward-containers" ] || skip_all "no test data (awkward-images, -archives, -containers): DDM_TEST_DATA"
sanitizer=
ldd "$B/ddm-info" | grep -Eq 'libasan|libtsan' && sanitizer=1
media=
command -v ddm-ingest >/dev/null && media=1

# 800 MB for a program and each decoder that it starts, unless a sanitizer maps terabytes.
held() {
	(
		[ -n "$sanitizer" ] || ulimit -v 800000
		exec timeout -k 5 60 "$@"
	)
}

# wrong CODE ACCEPTED: whether CODE is not one of these exit statuses, or the file err has more than one message
wrong() {
	case " $2 " in *" $1 "*) ;; *) return 0 ;; esac
	[ "$1" -ne 0 ] && [ "$(grep -c '' err)" -ne 1 ]
}

# each CODES NAME LIST CMD...: runs CMD for every file of LIST; its exit status must be one of CODES; the output x.out is removed
each() {
	codes=$1 name=$2 list=$3
	shift 3
	: >"$OUT"
	while read -r file; do
		rm -rf x.out
		held "$@" "$file" >out 2>err </dev/null
		code=$?
		if wrong $code "$codes"; then
			echo "exit $code: $file: $(head -c 300 err)" >>"$OUT"
		fi
		[ $code -eq 0 ] || ! [ -e x.out ] || echo "exit $code and an output: $file" >>"$OUT"
	done <"$list"
	rm -rf x.out
	: >"$ERR"
	[ -s "$list" ] && ! [ -s "$OUT" ]
	tap_result $? "$name: $(grep -c '' "$list") files"
}

archives=$DATA/awkward-archives
find "$archives" "$DATA/awkward-containers" -type f | LC_ALL=C sort >others
find "$archives" -type f | grep -Ev '\.(zipx?|jar|safetensors)$' | LC_ALL=C sort >tars
find "$archives/safetensors" -name '*.safetensors' | LC_ALL=C sort >weights
find "$archives" -type f -name '*.zip*' | LC_ALL=C sort >zips
find "$DATA/awkward-images" -type f | LC_ALL=C sort >pictures

# Pictures and containers under new names, because some in one folder would have the same key.
mkdir pics
n=1000
while read -r file; do
	n=$((n + 1))
	ext=.${file##*.}
	case $ext in */*) ext= ;; esac
	ln -s "$file" "pics/$n$ext"
	printf '%s\t%s\n' "$n" "${file#"$DATA"/}" >>names
done <<END_OF_LIST
$(cat pictures; find "$DATA/awkward-containers" -type f | LC_ALL=C sort)
END_OF_LIST

# ddm-info names the kind of each.
for list in pictures others; do
	# shellcheck disable=SC2046
	check_exit_any 65 "ddm-info --check of $list" held ddm-info --check --json $(cat $list)
	cp "$OUT" $list.info
	[ "$(grep -c '' $list.info)" -eq "$(grep -c '' $list)" ]
	tap_result $? "a line for each"
done
grep -Ev '"check":"passed"}$|"exit":65}$' pictures.info others.info >"$OUT"
[ ! -s "$OUT" ]
tap_result $? "each passes or is refused with 65"
grep -c 'safetensors/ok_.*"check":"passed"' others.info >ok
grep -c 'safetensors/bad_.*"exit":65' others.info >>ok
check_out "safetensors: 4 good ones pass, 18 bad ones do not" "4
18" cat ok
# Archives that standard tools read completely and that are not damaged.
grep 'test_\(compat_gtar_1\|compat_zstd_2\|compat_xz_1\|compat_gzip_1\|extract\|patterns_3\|read_format_tar_concatenated\)\.' others.info |
	grep -c '"complete":true,"check":"passed"' >ok
check_out "11 sound archives are complete" 11 cat ok
for bad in bad_checksum truncated_in_data truncated_in_header claims_8_TiB; do
	check_grep "$bad.tar is refused" "traversal/$bad.tar\".*\"exit\":65" others.info
done

# Archives as samples: none holds a picture.
cp "$SRC/tests/golden/stills/grey.jpg" one.jpg
mkdir one
cp one.jpg one
ddm-cluster -q -k 1 -o one.tsv one || exit 1
each "65" "ddm-cluster of archives" tars ddm-cluster -q --threads 1 -k 1 -o x.out
each "65" "ddm-shard of archives" tars ddm-shard -q --threads 1 -a one.tsv -o x.out

# The files as weights.
tar xf "$SRC/tests/golden/tiny-model.tar"
ddm-shard -q -a one.tsv -o shards one || exit 1
small="--hidden 16 --depth 1 --heads 2 --patch 8 --batch 1 --steps 1 --validate-samples 0 --threads 1"
# shellcheck disable=SC2086
each "65" "ddm-train --init-weights" weights ddm-train -q $small --cluster all --no-verify -o x.out shards --init-weights
for at in expert_0/diffusion_pytorch_model.safetensors router/model.safetensors; do
	cp "ensemble/$at" kept
	: >"$OUT"
	while read -r file; do
		cp "$file" "ensemble/$at"
		held ddm-sample -n 1 --route top-1 --steps 1 --threads 1 -o x.out ensemble >out 2>err
		code=$?
		wrong $code 65 && echo "exit $code: $file: $(cat err)" >>"$OUT"
	done <weights
	cp kept "ensemble/$at"
	[ ! -s "$OUT" ]
	tap_result $? "as $at: refused by ddm-sample"
done
check "the model itself" held ddm-sample -n 1 --route top-1 --steps 1 --threads 1 -o x.out ensemble

# Names and links that point outside an archive, to real pictures. Only the output is written.
mkdir -p deep/er/in
mkdir deep/links deep/links/x
cp one.jpg deep/links/x/evil.jpg
tar cPf deep/er/in/up.tar --transform 's,^,../../,' one.jpg
tar cPf deep/er/in/root.tar --transform "s,^,$PWD/deep/,S" one.jpg
tar cPf deep/er/in/mid.tar --transform 's,^,a/../../../,' one.jpg
ln -s "$PWD/deep" deep/links/out
tar cf deep/er/in/links.tar -C deep/links out x --transform 's,^x/,out/,S'
rm -r deep/links
ls "$archives"/traversal/* "$PWD"/deep/er/in/*.tar >hostile
find . -newer hostile >/dev/null
cd deep/er/in || exit 1
trace=
strace -f -o /dev/null true 2>/dev/null && ! [ "$sanitizer" ] && trace=1
# The calls that change the file system, except those on the output, its temporary file, and things that are not files.
calls=openat,open,creat,mkdir,mkdirat,symlink,symlinkat,link,linkat,rename,renameat,renameat2,unlink,unlinkat,mknod,mknodat,truncate,chmod,fchmodat
changes() {
	grep -Ev 'open(at)?\(.*O_RDONLY|/dev/null|x\.out|resumed|exited|killed|SIG|= -1 |"/(proc|sys|dev)/' trace
}
quiet() { # NAME CMD...: of every hostile archive
	what=$1
	shift
	: >"$OUT"
	while read -r file; do
		rm -rf x.out
		if [ -n "$trace" ]; then
			held strace -f --seccomp-bpf -e trace=$calls -o trace "$@" "$file" >out 2>err
		else
			held "$@" "$file" >out 2>err
		fi
		code=$?
		[ $code -eq 0 ] || [ $code -eq 65 ] || echo "exit $code: $file: $(cat err)" >>"$OUT"
		[ -z "$trace" ] || changes >>"$OUT"
	done <../../../hostile
	rm -rf x.out trace out err
	[ ! -s "$OUT" ]
	tap_result $? "$what: writes its output alone$([ -n "$trace" ] || echo ' (no strace)')"
}
before=$(cd ../../.. && find . | LC_ALL=C sort; ls -d /tmp/evil* /tmp/one.jpg /etc/evil* 2>/dev/null)
quiet ddm-info ddm-info --check
quiet ddm-cluster ddm-cluster -q --threads 1 -k 1 -o x.out
quiet ddm-shard ddm-shard -q --threads 1 -a ../../../one.tsv -o x.out
[ -z "$media" ] || quiet ddm-ingest ddm-ingest --threads 1 -o x.out
after=$(cd ../../.. && find . | LC_ALL=C sort; ls -d /tmp/evil* /tmp/one.jpg /etc/evil* 2>/dev/null)
[ "$before" = "$after" ]
tap_result $? "no file appeared anywhere"
if [ -n "$media" ]; then
	for name in up root; do
		held ddm-ingest -o x.out $name.tar 2>err
		tar tPf x.out
		rm -f x.out
	done >names
	grep -E '^/|\.\.' names >"$OUT"
	[ -s names ] && ! [ -s "$OUT" ]
	tap_result $? "what is read of them leads nowhere"
	check_exit 65 "a name that goes down and up" ddm-ingest -o x.out mid.tar
	check_absent "is not passed on" x.out
fi
cd ../../.. || exit 1

[ -n "$media" ] || { skip "ddm-ingest" "not built (--without-media)"; exit 0; }
each "65" "ddm-ingest of archives" tars ddm-ingest --threads 1 -o x.out
# shellcheck disable=SC2046
check_exit_any 65 "ddm-ingest of zips and weights" held ddm-ingest --skip-bad -o x.out $(cat zips weights)
[ "$(grep -c 'skipped: .*: \(empty\|not a picture or a video\)$' "$ERR")" -eq "$(cat zips weights | grep -c '')" ]
tap_result $? "each is named and skipped"
check_absent "and nothing written" x.out

# Pictures and containers in one run.
: >err
(
	[ -n "$sanitizer" ] || ulimit -v 800000
	exec timeout -k 5 200 ddm-ingest --skip-bad --size 8 --frames 3 --duplicates --timeout 20s --max-memory 500M -o read.tar pics
) 2>err
RC=$?
head -c 2000 err >"$ERR"
[ $RC -eq 0 ]
tap_result $? "ddm-ingest of all pictures and containers" "exit $RC"
grep -aEi 'died|killed|nonsense|early|ran out' err >"$ERR"
[ ! -s "$ERR" ]
tap_result $? "no decoder dies, stalls or lacks memory or a system call"
tar tf read.tar | sed 's/[@.].*//' | sort -u >is.read
grep -ao 'skipped: pics/[0-9]*' err | sed 's,.*/,,' | sort -u >is.refused
passed=$(grep -ao '[0-9]* other files passed over' err | sed 's/ .*//')
[ "$(sort -u is.read is.refused | grep -c '')" -eq $(($(grep -c '' names) - ${passed:-0})) ]
tap_result $? "each is read, refused or counted as no picture"

# Pillow's result for each file beside ours: PATH<TAB>STATE<TAB>KIND<TAB>read, refused or passed.
awk -F '\t' '
	FILENAME == "is.refused" { now[$1] = "refused"; next }
	FILENAME == "is.read" { if (!($1 in now)) now[$1] = "read"; next }
	FILENAME == "names" { sub(/^awkward-images\//, "", $2); id[$2] = $1; next }
	FNR > 1 {
		split($2, is, " ")
		print $1 "\t" is[1] "\t" is[2] "\t" (id[$1] in now ? now[id[$1]] : "passed")
	}' is.refused is.read names "$DATA/awkward-images/manifest.tsv" >judged
count() { awk -F '\t' -v path="$1" -v state="$2" -v kind="$3" -v now="$4" \
	'$1 ~ path && $2 ~ state && $3 ~ kind && $4 == now' judged | grep -c ''; }
ours='^(JPEG|PNG|WEBP|MPO)$'
[ "$(count . BOMB . read)" -eq 0 ] && [ "$(count . BOMB . refused)" -eq 7 ]
tap_result $? "the 7 bombs are refused"
# Our own decoders read all files that a camera or an editor made, also those with wrong checksums that Pillow ignores.
awk -F '\t' -v k="$ours" '$2 == "OK" && $3 ~ k && $4 != "read" && $1 !~ /^(afl|png-fuzz)\//' judged | cut -f 1 >list
check_out "all sound JPEG, PNG and WebP but two of bad checksums" "png-suite/bugfixes/x_interlaced_chck.png
png-suite/pngsuite/xcsn0g01.png" cat list
[ "$(count . BAD-PIXELS "$ours" read)" -eq 0 ]
tap_result $? "none whose pixels are damaged"
# Pillow refuses one text chunk and one EXIF block; this version of Pillow cannot read AVIF and the bit fields of BMP.
awk -F '\t' '$2 == "REFUSED" && $4 == "read" && $1 !~ /avif|\.bmp$/' judged | cut -f 1 | sort >list
check_out "two that Pillow refuses" "pillow/png_decompression_dos.png
pillow/truncated_exif_dpi.jpg" cat list
[ "$(count . OK BMP read)" -ge 30 ] && [ "$(count . OK GIF read)" -ge 28 ] && [ "$(count . OK TIFF read)" -ge 6 ]
tap_result $? "BMP, GIF, TIFF"
# Undamaged containers; a file with only audio is no picture.
awk -F '\t' 'FILENAME != "names" { now[$1] = 1; next }
	$1 in now && $2 ~ /\/(h264_white_frame_sar_16_9|hevc_white_frame|video_rotation_90|minimal|video_colr_nclx_hdr10)\.mp4$/ { n++ }
	$1 in now && $2 ~ /(afconvert|audioinit|amr_wb)/ { n += 100 }
	END { print n + 0 }' is.read names >n
check_out "sound videos, and none of the audio" 5 cat n
