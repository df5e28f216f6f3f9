# --sound of ddm-ingest: the sound of clips, sample by sample where the film has it; films without sound, with gaps, damaged; decoders that are killed
# or stand still.
. "$(dirname "$0")/tap.sh"

command -v ddm-ingest >/dev/null || skip_all "ddm-ingest is not built (--without-media)"
need jq ffmpeg ffprobe

for rate in 7999 96001 16000: 16000:quad mono :mono 16k; do
	check_exit 2 "--sound $rate" ddm-ingest --clips 4 --fps 4 --sound $rate -o x.tar v.mov
	check_err "says what is possible" 'sound "'$rate'": RATE, RATE:mono or RATE:stereo, with a RATE from 8000 to 96000'
done
check_exit 2 "--sound without --clips" ddm-ingest --sound 16000 -o x.tar v.mov
check_exit 2 "clips of more than 300 seconds" ddm-ingest --clips 301 --fps 1 --sound 16000 -o x.tar v.mov
check_err "say how long they are" 'clips of 301 seconds'

film() { ffmpeg -v error -bitexact "$@"; }
picture='-f lavfi -i testsrc2=size=32x32:rate=25:duration=6'
# clicks TAR KEY [CHANNEL]: the samples of a clip's sound that are louder than a quarter and than their neighbours, and the number of samples
clicks() {
	tar xOf "$1" "$2.flac" >clip.flac
	film -i clip.flac -f s16le -af "pan=mono|c0=c${3:-0}" - | od -An -v -td2 -w2 | awk '
		{ v = $1 < 0 ? -$1 : $1; if (b > 8192 && b > a && b >= v) printf "%d ", NR - 2; a = b; b = v } END { print "of", NR }'
}
fact() { tar xOf "$1" "$2.json" | jq -c "$3"; } # TAR KEY FILTER

# Clicks of one sample at 12345 + 24000 k of 48000 a second.
# shellcheck disable=SC2086
film $picture -f lavfi -i "aevalsrc=exprs='if(eq(mod(n-12345\,24000)\,0)\,0.9\,0)':s=48000:d=6" -c:v mpeg4 -c:a pcm_s16le pcm.mov || exit 1
check "a film" ddm-ingest --clips 16 --fps 8 --sound 48000 -o pcm.tar pcm.mov
check_err "the report" '^ddm-ingest: 3 samples, 0 cuts$'
for k in 000000 000050 000100; do
	check_out "its clicks, and exactly two seconds: $k" "12345 36345 60345 84345 of 96000" clicks pcm.tar pcm@$k
	check_out "the fact" 1 fact pcm.tar pcm@$k .sound
done
check "a third of the rate" ddm-ingest --clips 16 --fps 8 --sound 16000 -o third.tar pcm.mov
check_out "every third sample" "4115 12115 20115 28115 of 32000" clicks third.tar pcm@000050
check "another rate" ddm-ingest --clips 16 --fps 8 --sound 44100:mono -o other.tar pcm.mov
check_out "the nearest samples" "11342 33392 55442 77492 of 88200" clicks other.tar pcm@000100
check "times that fall between samples" ddm-ingest --clips 5 --stride 3 --fps 7 --sound 16000 -o seven.tar pcm.mov
# The clip begins at 6/7 s, sample 13714 of 16000 a second; clicks are at 4115 + 8000 k.
check_out "are rounded" "6401 of 11429" clicks seven.tar "$(tar tf seven.tar | sed -n 's/.flac//p' | sed -n 3p)"

# Other containers and codecs.
film -i pcm.mov -c:v copy -c:a flac flac.mkv
film -i pcm.mov -c:v copy -c:a aac -b:a 192k aac.mp4
film -i pcm.mov -c:v mpeg2video -c:a ac3 ac3.ts
for f in flac.mkv aac.mp4 ac3.ts; do
	check "$f" ddm-ingest --clips 16 --fps 8 --sound 48000 -o $f.tar $f
	check_out "the same clicks" "12345 36345 60345 84345 of 96000" clicks $f.tar ${f%.*}@000050
done

# Left and right: clicks at 10000 and at 20000.
# shellcheck disable=SC2086
film $picture -f lavfi -i "aevalsrc=exprs='eq(n\,10000)*0.8|eq(n\,20000)*0.8':s=48000:d=6" -c:v mpeg4 -c:a pcm_s16le two.mov
check "stereo" ddm-ingest --clips 16 --fps 8 --sound 48000:stereo -o two.tar two.mov
check_out "left" "10000 of 96000" clicks two.tar two@000000 0
check_out "right" "20000 of 96000" clicks two.tar two@000000 1
check "mono" ddm-ingest --clips 16 --fps 8 --sound 48000 -o one.tar two.mov
check_out "both" "10000 20000 of 96000" clicks one.tar two@000000
check_out "at half the level, their mean" "13107" sh -c 'ffmpeg -v error -i clip.flac -f s16le - | od -An -v -td2 -w2 | sort -n | tail -1 | tr -d " "'

# What the programs say of it, and that they pass it on.
check_out "ddm-info: rate, channels and seconds" '{"rate":48000,"channels":1,"seconds":6}' sh -c 'ddm-info --json pcm.tar | jq -c ".sound | .seconds |= round"'
tar xOf two.tar two@000000.flac >two.flac
check_out "of one" '["sound",48000,2,16,2]' sh -c 'ddm-info --json two.flac | jq -c "[.kind, .rate, .channels, .bits, .seconds]"'
check "checks" ddm-info --check pcm.tar
mkdir odd
cp "$SRC/tests/golden/stills/grey.png" odd/a.png
head -c 20 two.flac >odd/a.flac
tar cf odd.tar -C odd a.png a.flac
check_exit 65 "a sound that is cut" ddm-info --check odd.tar
check_err "is found" 'a: FLAC without its whole head'
check "select" ddm-select -q 'sound == 1 && start > 3' -o selected.tar pcm.tar
check "dedup" ddm-dedup -q -o deduped.tar selected.tar
check "cluster" ddm-cluster -q -k 2 -o a.tsv pcm.tar
check "shard" ddm-shard -q -a a.tsv -o shards pcm.tar
tar xOf pcm.tar pcm@000100.flac >want.flac
tar xOf selected.tar pcm@000100.flac >selected.flac
tar xOf deduped.tar pcm@000100.flac >deduped.flac
ddm-select -q -o back.tar "key == 'pcm@000100'" shards
tar xOf back.tar pcm@000100.flac >sharded.flac
for f in selected deduped sharded; do check_same "$f: the same bytes" want.flac $f.flac; done
check_out "ddm-info of shards" 48000 sh -c 'ddm-info --json shards | jq ".first_sample[] | select(.member == \"flac\") | .rate"'

# No sound, or not everywhere.
film -i pcm.mov -c copy -an mute.mov
check "a film without sound" ddm-ingest --clips 16 --fps 8 --sound 48000 -o mute.tar mute.mov
check_err "is reported" '3 clips without sound'
check_out "has none" 0 sh -c 'tar tf mute.tar | grep -c flac; true'
check_out "says so" 0 fact mute.tar mute@000000 .sound
film -i pcm.mov -c:v copy -af "aselect='not(between(t,2.5,3.5))'" -c:a pcm_s16le hole.mkv
check "a film whose sound has a hole" ddm-ingest --clips 16 --fps 8 --sound 48000 -o hole.tar hole.mkv
check_err "is reported" '1 clips without sound'
check_out "before it" "12345 36345 60345 84345 of 96000" clicks hole.tar hole@000000
check_out "there is none for the clip around it" "hole@000050.json hole@000050.npy" sh -c 'echo $(tar tf hole.tar | grep @000050)'
check_out "half of its time has sound" true fact hole.tar hole@000050 '.sound > .48 and .sound < .53'
check_out "after it, as exact" "12345 36345 60345 84345 of 96000" clicks hole.tar hole@000100
film -i pcm.mov -itsoffset 0.05 -i pcm.mov -map 0:v -map 1:a -c copy late.mov
check "sound that begins a little later" ddm-ingest --clips 16 --fps 8 --sound 48000 -o late.tar late.mov
check_out "is put where it is" "14745 38745 62745 86745 of 96000" clicks late.tar late@000000
check_out "and the fact says how much there is" 0.975 fact late.tar late@000000 .sound
film -i pcm.mov -c:v copy -c:a wmav2 wma.avi
check "another codec" ddm-ingest --clips 16 --fps 8 --sound 48000 -o wma.tar wma.avi
check_err "is named" 'no sound: wma.avi: its audio codec wmav2 is not supported'
check_err "and counted" '[23] clips without sound'
# Packets of sound, overwritten: half a second from the third second on.
cp aac.mp4 hurt.mp4
ffprobe -v error -select_streams a -show_entries packet=pts_time,pos,size -of csv=p=0 aac.mp4 | awk -F, '$1 > 2.5 && $1 < 3 { print $3, $2 }' >packets
while read -r at size; do
	head -c "$size" /dev/zero | tr '\000' '\377' | dd of=hurt.mp4 bs=1 seek="$at" conv=notrunc 2>/dev/null
done <packets
check "damaged sound" ddm-ingest --clips 16 --fps 8 --sound 48000 -o hurt.tar hurt.mp4
check_out "is a gap" true fact hurt.tar hurt@000050 '.sound > .7 and .sound < .8'
check_out "after which sound is where it was" "12345 36345 60345 84345 of 96000" clicks hurt.tar hurt@000100

# The same bytes, however it is made.
check "three threads" ddm-ingest --clips 16 --fps 8 --sound 48000 --threads 3 --max-memory 400M -o threads.tar pcm.mov
check_same "the same" pcm.tar threads.tar
check "no sandbox" ddm-ingest --clips 16 --fps 8 --sound 48000 --no-sandbox -o bare.tar pcm.mov
check_same "too" pcm.tar bare.tar
check "only the last clips" ddm-ingest --clips 16 --stride 50 --fps 8 --sound 48000 -o first.tar pcm.mov
check_out "others asked before change nothing" "$(tar xOf pcm.tar pcm@000000.flac | cksum)" sh -c 'tar xOf first.tar pcm@000000.flac | cksum'
check_exit 2 "little memory" ddm-ingest --clips 16 --fps 8 --sound 48000 --max-memory 128M -o x.tar pcm.mov
check_err "says how much is needed" '--sound takes [0-9]+ MiB for clips of this length; --max-memory must be at least 2[0-9]+ MiB'
check "graphs" ddm-ingest --clips 4 --fps 8 --sound 48000 -o graph.tar lavfi:testsrc2=size=16x16 pcm.mov
check_out "have no sound" 0 fact graph.tar testsrc2@000000 .sound
check_exit 73 "another rate into the same file" ddm-ingest --clips 16 --fps 8 --sound 44100 -o pcm.tar pcm.mov

# The decoder of sound is killed, or stands still. The program waits for a pipe that nobody reads.
ps -eo pid,ppid,args >/dev/null 2>&1 || { skip "killed decoders" "no ps"; exit 0; }
sounder_of() { ps -eo pid,ppid,stat,args | awk -v p="$1" '$2 == p && $3 !~ /Z/ && /ingest-decoder --serve-sound/ { print $1; exit }'; }
# shellcheck disable=SC2086
film -stream_loop 9 -i pcm.mov -c copy long.mov
ddm-ingest -q --clips 16 --fps 25 --sound 48000 -o whole.tar long.mov || exit 1
# wait_sounder PID [OLD]: waits until the program has a decoder of sound other than OLD, and sets SOUNDER
wait_sounder() {
	tries=0
	SOUNDER=
	while [ $tries -lt 600 ] && kill -0 "$1" 2>/dev/null; do
		SOUNDER=$(sounder_of "$1")
		[ -z "$SOUNDER" ] || [ "$SOUNDER" = "${2:-}" ] || return 0
		tries=$((tries + 1))
		sleep 0.1
	done
	return 1
}
mkfifo pipe
begin() {
	ddm-ingest --clips 16 --fps 25 --sound 48000 "$@" long.mov >pipe 2>err &
	pid=$!
	exec 8<pipe
	wait_sounder $pid
}
begin
kill -KILL "$SOUNDER"
cat <&8 >killed.tar
exec 8<&-
wait $pid
tap_result $? "a killed decoder" "$(cat err)"
check_same "is started again, and gives the same" whole.tar killed.tar
begin --timeout 2
kill -STOP "$SOUNDER"
cat <&8 >/dev/null
exec 8<&-
wait $pid
[ $? -eq 65 ] && grep -q 'long.mov: no sound for 2 seconds, the decoder was killed' err
tap_result $? "one that stands still" "$(cat err)"
begin
kill -KILL "$SOUNDER"
head -c 1000000 <&8 >/dev/null
wait_sounder $pid "$SOUNDER"
[ -z "$SOUNDER" ] || kill -KILL "$SOUNDER"
cat <&8 >/dev/null
exec 8<&-
wait $pid
[ $? -eq 69 ] && grep -q 'decoder of sound was killed twice' err
tap_result $? "killed twice" "$(cat err)"
