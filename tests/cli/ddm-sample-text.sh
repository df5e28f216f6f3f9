# ddm-sample on the text-to-image ensemble of tests/golden/paris.py: prompts, guidance, decoding and forms of output.
. "$(dirname "$0")/tap.sh"

tar xzf "$SRC/tests/golden/paris-model.tar.gz"
run="ddm-sample --preset paris --steps 2"

members() { tar tf "$1" | tr '\n' ' '; }
unpack() { rm -rf "$1" && mkdir "$1" && tar xf "$2" -C "$1"; }

# Prompts
printf 'the cat\nA café — in the rain\n\nthe cat\n' >lines.txt
check "a prompt a line" $run --prompts lines.txt -o lines.tar --grid sheet.png --report r.json model
[ "$(members lines.tar)" = "000000.png 000000.txt 000001.png 000001.txt 000002.png 000002.txt 000003.png 000003.txt " ]
tap_result $? "a picture and its prompt for each line, empty ones too" "$(members lines.tar)"
unpack lines lines.tar
[ "$(cat lines/000001.txt)" = "A café — in the rain" ] && [ ! -s lines/000002.txt ]
tap_result $? "the prompts are as they were"
check_grep "the stamp in the picture names the prompt" '"seed":0,"cfg":7.5,"index":0,"prompt":"the cat","negative":"",' lines/000000.png
for i in 0 1; do tr '\0' ' ' <lines/00000$i.png >text$i; done
check_grep "so does PNG's own keyword" 'Description the cat' text0
check_grep "in UTF-8" 'iTXtDescription +A café — in the rain' text1
check_grep "the tar names what it came from" '"inputs":\{"vae":"[0-9a-f]{64}","text_encoder":"[0-9a-f]{64}","prompts":"[0-9a-f]{64}"' lines.tar
check_grep "experts run twice for guidance" '"experts_per_step":2\.0,' r.json
check_differ "one prompt, two places: two pictures" lines/000000.png lines/000003.png
cp lines.txt before.txt
check "from standard input" sh -c "$run --prompts - -o stdin.tar model <lines.txt"
check_same "the same pictures" lines.tar stdin.tar
check "batches of one" $run --prompts lines.txt --batch 1 --threads 1 -o one.tar model
check_same "batch and threads change no byte" lines.tar one.tar
check "two of each" $run -n 2 --prompts lines.txt -o two.tar model
unpack two two.tar
check_same "the third picture is the second prompt's" two/000002.txt lines/000001.txt
check "a part of it" sh -c "tail -n +2 lines.txt | $run --first 1 --prompts - -o part.tar model"
unpack part part.tar
check_same "a line has its number's noise" part/000001.png lines/000001.png

# A seed for each prompt, and negative prompts
cat >objects.jsonl <<'X'
{"prompt": "the cat", "seed": 5}
{"prompt": "the cat", "seed": 5, "negative": "the photo", "note": [1]}
{"prompt": "the cat", "seed": 6, "negative_prompt": null}
X
check "JSON lines" $run -n 2 --prompts objects.jsonl -o objects.tar model
unpack o objects.tar
tail -n 1 objects.jsonl >last.jsonl
check "the last alone" $run -n 2 --prompts last.jsonl -o last.tar model
unpack l last.tar
check "its pixels as a latent tar" $run -n 2 --prompts last.jsonl --format latent -o last-l.tar model
check "and of all" $run -n 2 --prompts objects.jsonl --format latent -o objects-l.tar model
unpack ll last-l.tar
unpack ol objects-l.tar
check_same "a prompt with a seed is the same wherever it stands" ll/000000.npy ol/000004.npy
check_same "its second picture too" ll/000001.npy ol/000005.npy
check_differ "which is another" ll/000000.npy ll/000001.npy
check_differ "a negative prompt matters" ol/000000.npy ol/000002.npy
check_differ "and the seed" ol/000000.npy ol/000004.npy
check "a negative prompt for all" $run --prompt "the cat" --seed 5 --negative-prompt "the photo" --format latent -o n.tar model
unpack n n.tar
check_same "is that of the line" n/000000.npy ol/000002.npy
check "without guidance" $run --prompt "the cat" --seed 5 --cfg 1 --format latent -o c1.tar model
check "it has no part" $run --prompt "the cat" --seed 5 --cfg 1 --negative-prompt "the photo" --format latent -o c2.tar model
check_same "not even in the stamp" c1.tar c2.tar
check_differ "guidance matters" c1.tar n.tar

# The same command again
touch -d '2001-01-01' lines.tar
check "a finished command run again" $run --prompts lines.txt -o lines.tar model
[ -z "$(find lines.tar -newermt '2002-01-01')" ]
tap_result $? "leaves its output alone"
check_exit 73 "other prompts" $run --prompts objects.jsonl -o lines.tar model
check_err "are named" 'other options: .*prompts'
check_exit 73 "another prompt" $run --prompt "a dog" --seed 5 --negative-prompt "the photo" --format latent -o n.tar model
check_err "is named" 'prompt: the cat -> a dog|prompt: "?the cat'

# Forms
check "webp" $run --prompts lines.txt --format webp -o w.tar model
[ "$(members w.tar | cut -d' ' -f1-3)" = "000000.json 000000.txt 000000.webp" ]
tap_result $? "with the stamp beside it" "$(members w.tar)"
check "npz" $run --prompts lines.txt --format npz -o p.npz model
check_grep "has its stamp beside it" '"format": ?"npz"' p.npz.json
touch -d '2001-01-01' p.npz
check "again" $run --prompts lines.txt --format npz -o p.npz model
[ -z "$(find p.npz -newermt '2002-01-01')" ]
tap_result $? "is left alone"
check_exit 73 "another npz there" $run --prompt x --format npz -o p.npz model
check "ddm-eval-fid reads it" ddm-eval-fid --features pix p.npz p.npz
check_exit 2 "npz into a pipe" $run --prompts lines.txt --format npz model
check_exit 2 "a sheet of latents" $run --prompts lines.txt --format latent --grid s.png model

# Features instead of an encoder
if command -v python3 >/dev/null 2>&1; then
	python3 - <<'X'
import json, struct
raw = open("io.safetensors", "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
head = json.loads(raw[8:8 + n])
for name, out, one in ("text", "text.npy", 0), ("away", "away.npy", 1):
    t = head[name]
    assert t["dtype"] == "F64"
    at, end = t["data_offsets"]
    data, shape = raw[8 + n + at:8 + n + end], t["shape"]
    if one:
        data, shape = data[:len(data) // shape[0]], shape[1:]
    text = "{'descr': '<f8', 'fortran_order': False, 'shape': (%s), }" % ", ".join(map(str, shape))
    text += " " * (-(len(text) + 11) % 64) + "\n"
    open(out, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data)
X
	rm -rf bare && cp -R model bare && rm -r bare/text_encoder bare/tokenizer
	check "features from a file, a model without an encoder" $run --text-features text.npy --negative-features away.npy --format latent -o f.tar bare
	[ "$(members f.tar)" = "000000.json 000000.npy 000001.json 000001.npy 000002.json 000002.npy " ]
	tap_result $? "a latent of each, of no known prompt" "$(members f.tar)"
	check "with their prompts" $run --text-features text.npy --negative-features away.npy --prompts prompts.jsonl -o fp.tar bare
	check_exit 2 "guidance away from nothing" $run --text-features text.npy -o x.tar bare
	check_exit 65 "other numbers of prompts" $run --text-features text.npy --negative-features away.npy --prompts lines.txt -o x.tar bare
	check_exit 65 "several texts where one is due" $run --text-features text.npy --negative-features text.npy -o x.tar bare

	# The same features in the formats of other programs: PixArt's, diffusers'; compressed
	python3 - <<'X'
import struct, zipfile
def load(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<H", raw[8:10])[0]
    return eval(raw[10:10 + n])["shape"], raw[10 + n:]
def npy(descr, shape, data):
    text = "{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }" % (descr, ", ".join(map(str, shape)))
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + data
def npz(path, kind=zipfile.ZIP_DEFLATED, **arrays):
    with zipfile.ZipFile(path, "w", kind) as z:
        for name, a in arrays.items():
            z.writestr(name + ".npy", npy(*a))
def mask(*rows):
    return b"".join(struct.pack("<q", v) for row in rows for v in row)
(n, tokens, width), text = load("text.npy")
_, away = load("away.npy")
ones = [1] * tokens
npz("whole.npz", caption_feature=("<f8", (n, tokens, width), text), attention_mask=("<i8", (n, tokens), mask(*[ones] * n)))
npz("away.npz", zipfile.ZIP_STORED, prompt_embeds=("<f8", (1, 1, tokens, width), away),
    prompt_attention_mask=("|b1", (1, tokens), b"\1" * tokens))
npz("unmasked.npz", prompt_embeds=("<f8", (n, tokens, width), text))
npz("hole.npz", caption_feature=("<f8", (n, tokens, width), text), attention_mask=("<i8", (n, tokens), mask(*[[1, 0] + [1] * (tokens - 2)] * n)))
npz("nothing.npz", caption_feature=("<f8", (n, tokens, width), text), attention_mask=("<i8", (n, tokens), mask(*[[0] * tokens] * n)))
npz("fewer.npz", caption_feature=("<f8", (n, tokens, width), text), attention_mask=("<i8", (1, tokens), mask(ones)))
npz("none.npz", mu=("<f8", (1,), struct.pack("<d", 1)))
npz("whole_numbers.npz", caption_feature=("<i8", (n, 1, 1), mask([1] * n)))
X
	latents() { $run --text-features "$1" --negative-features "$2" --format latent -o l.tar bare && tar xf l.tar -C "$3" --wildcards '*.npy' && rm l.tar; }
	mkdir by-npy by-npz by-half
	check "of .npy" latents text.npy away.npy by-npy
	check "of .npz" latents whole.npz away.npz by-npz
	check "the same latents" diff -r by-npy by-npz
	check "of .npz without a mask" latents unmasked.npz away.npy by-half
	check "the same latents" diff -r by-npy by-half
	for bad in hole nothing fewer none whole_numbers; do
		check_exit 65 "$bad" $run --text-features $bad.npz --negative-features away.npy -o x.tar bare
		check_err "named" "$bad.npz: "
	done
	cp whole.npz cut.npz
	cut_to cut.npz 1000
	check_exit 65 "cut" $run --text-features cut.npz --negative-features away.npy -o x.tar bare
	cp whole.npz flipped.npz
	flip flipped.npz 300
	check_exit 65 "damaged" $run --text-features flipped.npz --negative-features away.npy -o x.tar bare
	check_exit 2 "no encoder at all" $run --prompt x -o x.tar bare
	check "that of another folder" $run --prompts lines.txt --text-encoder model -o enc.tar bare
	check_same "the same" enc.tar lines.tar
else
	skip "features from a file" "no python3"
fi

# Autoencoders
mv model/vae vae
check_exit 2 "four channels are no picture" $run --prompt x model
check "latents are" $run --prompt x --format latent -o lat.tar model
check "an autoencoder elsewhere" $run --prompts lines.txt --vae vae -o elsewhere.tar model
check_same "is the same" elsewhere.tar lines.tar
check_exit 65 "one for three channels" $run --prompt x --vae "$SRC/tests/golden/autokl" model
mv vae model/vae

# Memory
check "a text encoder of int8" $run --prompts lines.txt --encoder-weight-dtype int8 -o enc8.tar model
check_differ "rounded" enc8.tar lines.tar
check_exit 73 "int8 where f32 is" $run --prompts lines.txt --encoder-weight-dtype int8 -o lines.tar model
check_err "the option is named" 'encoder_weights'
check "weights stay in their files" $run --prompts lines.txt --map --report map.json -o map.tar model
check_same "and change nothing" map.tar lines.tar
held() { sed 's/.*"weight_bytes":\([0-9]*\).*/\1/' "$1"; }
[ "$(held map.json)" -lt "$(held r.json)" ]
tap_result $? "and take less memory" "$(held map.json) of $(held r.json) bytes"
check "batches of one and three threads" $run --prompts lines.txt --map --batch 1 --threads 3 -o map1.tar model
check_same "no byte differs" map1.tar lines.tar
check_exit 2 "those of another type cannot" $run --prompt x --map --weight-dtype bf16 model

# Requests that cannot be served
check_exit 2 "no prompt" $run -n 3 model
check_err "says which options tell it" '--prompt'
check_exit 2 "two kinds of prompts" $run --prompt x --prompts lines.txt model
check_exit 2 "more than the numbers hold" $run -n 300000 --prompts lines.txt model
check_exit 66 "no such prompts" $run --prompts none.txt model
: >none.txt
check_exit 65 "no prompts in it" $run --prompts none.txt model
printf 'a\n\377\n' >latin.txt
check_exit 65 "no UTF-8" $run --prompts latin.txt model
check_err "the line is named" 'latin.txt: line 2'
printf '{"prompt": "a"}\n{"seed": 1}\n' >bad.jsonl
check_exit 65 "an object without a prompt" $run --prompts bad.jsonl model
check_err "its line is named" 'bad.jsonl: line 2'
printf '{"prompt": "a", "seed": -1}\n' >bad.jsonl
check_exit 65 "a seed below 0" $run --prompts bad.jsonl model
tar xf "$SRC/tests/golden/tiny-model.tar"
check_exit 2 "a prompt for experts that read none" ddm-sample --steps 2 --route top-1 --prompt x ensemble
check_exit 2 "ddm-diagnose: experts that read text" ddm-diagnose --budget x model y
check_clean "nothing half-written is left" .
