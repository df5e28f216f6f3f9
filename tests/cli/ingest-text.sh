# ddm-ingest --text-detector: the score `text` of pictures, frames and clips by a network that marks nearly white pixels, ddm-select by it, threads, the
# stamp, refusals. Networks, boxes and areas: unit/test_onnxnet; the published detector: peers/peer_text.py.
. "$(dirname "$0")/tap.sh"

command -v ddm-ingest >/dev/null || skip_all "ddm-ingest is not built (--without-media)"
grep -q 'HAVE_PROTOBUF 1' "$B/config.h" || skip_all "built without protobuf-c"
need jq
nets=$SRC/tests/golden/onnx

text() { tar xOf "$1" "$2.json" | jq .text; }
near() { text "$1" "$2" | awk -v want="$3" '{ exit !($1 > want - .01 && $1 < want + .01) }'; } # the resized edge may lie a pixel further in

# A bar of 120 x 20 pixels in a picture of 240 x 240, at 640 x 640 one of 320 x 53 with 34 pixels more on each side: 388 x 121 of 640 x 640 pixels. It
# is there from frame 6 on.
bar='lavfi@bar:color=c=gray:size=240x240:rate=4,format=rgb24,drawbox=x=60:y=100:w=120:h=20:color=white:thickness=fill:enable=gte(n\,6)'
check "clips" ddm-ingest --clips 4 --fps 4 --text-detector "$nets/bright.onnx" -o without.tar "$bar"
check_out "without text" 0 text without.tar bar@000000
check "the middle frame counts" ddm-ingest --clips 12 --fps 4 --text-detector "$nets/bright.onnx" -o with.tar "$bar"
check "and has a bar" near with.tar bar@000000 .1146
check "of one channel" ddm-ingest --clips 12 --fps 4 --grey --text-detector "$nets/bright.onnx" -o grey.tar "$bar"
check_out "as in colours" "$(text with.tar bar@000000)" text grey.tar bar@000000
check "many clips with a bar" ddm-ingest --clips 12 --fps 4 --seeds 5 --threads 3 --duplicates --text-detector "$nets/bright.onnx" -o three.tar "$bar"
check "on one thread" ddm-ingest --clips 12 --fps 4 --seeds 5 --threads 1 --duplicates --text-detector "$nets/bright.onnx" -o one.tar "$bar"
check_same "the same bytes" three.tar one.tar
check "which have the score" near one.tar bar-0004@000000 .1146
check_grep "the stamp has the detector" "\"text_detector\":\"$(sha256sum "$nets/bright.onnx" | cut -c 1-64)\"" with.tar
cp with.tar before.tar
check "the same command" ddm-ingest --clips 12 --fps 4 --text-detector "$nets/bright.onnx" -o with.tar "$bar"
check_same "leaves the file" with.tar before.tar
check_exit 73 "another detector" ddm-ingest --clips 12 --fps 4 -o with.tar "$bar"

# Pictures, by themselves and from a tar, and frames.
check "frames" ddm-ingest --frames 12 --scores --duplicates --text-detector "$nets/bright.onnx" -o frames.tar "$bar"
check_out "the first" 0 text frames.tar bar@0000
check "the last" near frames.tar bar@0011 .1146
mkdir in
tar xOf frames.tar bar@0011.png >in/bar.png
tar xOf frames.tar bar@0000.png >in/none.png
check "pictures" ddm-ingest --scores --text-detector "$nets/bright.onnx" -o pictures.tar in
check_out "have the text of the frames" "$(text frames.tar bar@0011) 0" sh -c 'for i in bar none; do tar xOf pictures.tar $i.json | jq .text; done | paste -sd " "'
check "resized" ddm-ingest --size 120 --scores --text-detector "$nets/bright.onnx" -o small.tar in
check "as they are stored" near small.tar bar .1146
check "those of a tar" ddm-ingest --size 120 --scores --text-detector "$nets/bright.onnx" -o again.tar pictures.tar
check_out "too" "$(text small.tar bar)" text again.tar bar
check_out "ddm-select reads it" bar ddm-select -q --list 'text > .05' pictures.tar
check "no detector" ddm-ingest --scores -o plain.tar in
check_out "no score" null text plain.tar bar

check_exit 2 "nothing to score" ddm-ingest --text-detector "$nets/bright.onnx" -o no.tar in
check_err "what would" 'text-detector.*--clips.*--scores'
check_exit 66 "no file" ddm-ingest --scores --text-detector nowhere.onnx -o no.tar in
check_exit 65 "another file" ddm-ingest --scores --text-detector in/bar.png -o no.tar in
check_err "which it is" 'in/bar.png: no ONNX file, or a broken one'
check_exit 65 "an operator that is not there" ddm-ingest --scores --text-detector "$nets/bad-operator.onnx" -o no.tar in
check_err "its name" '"Softmax" \(node 0\) is not among the operators that can be run'
check_exit 65 "a network of another kind" ddm-ingest --scores --text-detector "$nets/wide.onnx" -o no.tar in
check_err "what it makes" 'no detector of text: it makes 64 x 64 numbers of 2 channels'
check_absent "nothing was made" no.tar
check_clean "no temporary files" .
