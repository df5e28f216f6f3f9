# ddm-encode: latents, captions, features; equal results from all kinds of samples; a repeated command; decoding; refusals.
. "$(dirname "$0")/tap.sh"

check_program ddm-encode
vae=$SRC/tests/golden/autokl tiny=$SRC/tests/golden/autotiny golden=$SRC/tests/golden/pretrained
check_exit 2 "no model" ddm-encode .
check_exit 66 "no such model" ddm-encode -m none .
mkdir empty
check_exit 66 "a folder that is none" ddm-encode -m empty .
echo '{"model_type": "bert"}' >empty/config.json
check_exit 65 "a network that is no encoder" ddm-encode -m empty .
check_err "named" '"bert" is not a supported encoder'

mkdir pics
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics
n=$(find pics -name '*.png' | wc -l)
for f in pics/*.png; do echo "a photo of the cat" >"${f%.png}.txt"; done
members() { tar tf "$1" | sed 's/^[^.]*\.//' | sort | uniq -c | awk '{ printf "%s%s %s", s, $2, $1; s = ", " } END { print "" }'; }

# Latents
check "an autoencoder" ddm-encode -m "$vae" -o l.tar pics
check_err "report" "^$n samples\$"
check_out "members" "npy $n, png $n, std.npy $n, txt $n" members l.tar
check "in the order of samples" sh -c 'tar tf l.tar >names && LC_ALL=C sort -c names'
tar cf pics.tar --sort=name -C pics .
check "from a tar on stdin, to stdout" sh -c "ddm-encode -q -m '$vae' - <pics.tar >s.tar"
mkdir a b
tar xf l.tar -C a
tar xf s.tar -C b
check "the same samples" diff -r a b
for t in 1 3; do
	check "$t threads" ddm-encode -q -m "$vae" --threads $t --batch $t -o t$t.tar pics
	check_same "the same bytes" l.tar t$t.tar
done
: >old
touch -d 2001-01-01 l.tar
check "again" ddm-encode -m "$vae" -o l.tar pics
check_err "told" 'l.tar: exists already'
check_out "nothing touched" "" find l.tar -newer old
check_exit 73 "other options" ddm-encode -m "$vae" --posterior mean -o l.tar pics
check_err "named" 'posterior: "std" -> "mean"'
check_exit 73 "another encoder" ddm-encode -m "$tiny" -o l.tar pics
check_err "named" 'inputs.vae'
cp -R pics more
cp more/0001.png more/new.png
check_exit 73 "other samples" ddm-encode -m "$vae" -o l.tar more
check_err "named" 'inputs.samples'
check "the mean alone, of 32 bits, without pictures" ddm-encode -q -m "$vae" --posterior mean --dtype f32 --no-pictures -o m.tar pics
check_out "members" "npy $n, txt $n" members m.tar
check "a draw" ddm-encode -q -m "$vae" --posterior sample --seed 4 -o d.tar pics
check_out "members" "npy $n, png $n, txt $n" members d.tar
check "mirrored, too" ddm-encode -q -m "$vae" --flip --dtype f32 -o flip.tar pics
check_out "members" "flip.npy $n, flip.std.npy $n, npy $n, png $n, std.npy $n, txt $n" members flip.tar
check "encoded again without" ddm-encode -q -m "$vae" -o unflip.tar flip.tar
check_out "those of before are gone" "npy $n, png $n, std.npy $n, txt $n" members unflip.tar
check "a tiny one has no deviation" ddm-encode -q -m "$tiny" --size 16 -o tiny.tar pics
check_out "members" "npy $n, png $n, txt $n" members tiny.tar
mkdir c
tar xf tiny.tar -C c
check_grep "(5, 4, 4)" "'<f2'.*\\(5, 4, 4\\)" "$(ls c/*.npy | head -n 1)"
check_exit 2 "a size that has no latent" ddm-encode -m "$vae" --size 30 -o x.tar pics
check_exit 2 "a text's option" ddm-encode -m "$vae" --tokens 3 -o x.tar pics

# Decoding
check "decode" ddm-encode -m "$vae" -d -o p.tar l.tar
check_out "members" "png $n, txt $n" members p.tar
check "decode from stdin" sh -c "ddm-encode -q -m '$vae' -d - <l.tar | tar tf - | sort >1; tar tf p.tar | sort | cmp - 1"
mkdir four five
tar xf l.tar -C four
ls four | grep -v '\.npy$' | sed 's|^|four/|' | xargs rm -f
for f in four/*.npy; do sed '1s/(\([0-9]*\), \([0-9]*\), \([0-9]*\)), }   /(1, \1, \2, \3), }/' "$f" >"five/${f#four/}"; done
check_grep "(1, C, H, W)" "'shape': \\(1, [0-9]+, [0-9]+, [0-9]+\\)" "$(ls five/*.npy | head -n 1)"
check "decode (C, H, W)" ddm-encode -q -m "$vae" -d -o four.tar four
check "decode (1, C, H, W)" ddm-encode -q -m "$vae" -d -o five.tar five
mkdir a4 a5
tar xf four.tar -C a4
tar xf five.tar -C a5
check "the same pictures" diff -r a4 a5
sed '1s/(\([0-9]*\), \([0-9]*\), \([0-9]*\)), }   /(2, \1, \2, \3), }/' "$(ls four/*.npy | head -n 1)" >a4/two.npy
check_exit 65 "(2, C, H, W) is no latent" ddm-encode -m "$vae" -d -o x.tar a4/two.npy
check_exit 65 "pictures are no latents" ddm-encode -m "$vae" -d -o x.tar pics
check_err "named" 'has no latent'
check_exit 65 "latents of another" ddm-encode -m "$vae" -d -o x.tar tiny.tar
check_exit 2 "a text encoder decodes nothing" ddm-encode -m "$golden/text-clip/text_encoder" -d -o x.tar l.tar
check_exit 2 "no size there" ddm-encode -m "$vae" -d --size 8 -o x.tar l.tar

# Captions
check "a text encoder" ddm-encode -q -m "$golden/text-clip" --null-text null.npy -o e.tar pics
check_out "members" "png $n, text.npy $n, txt $n" members e.tar
check_grep "the empty text" '\(16, 8\)' null.npy
check_grep "with its stamp" '"tokens": 16' null.npy.json
check_exit 73 "another empty text" ddm-encode -q -m "$golden/text-t5" --null-text null.npy -o e2.tar pics
check "T5" ddm-encode -q -m "$golden/text-t5" --tokens 3 -o t5.tar pics
check "cut" ddm-encode -m "$golden/text-t5" --tokens 3 -o t5b.tar pics
check_err "told" "$n captions were longer"
for w in bf16 int8; do
	check "T5 of $w matrices" ddm-encode -q -m "$golden/text-t5" --tokens 3 --weight-dtype $w -o t5.$w.tar pics
	check_differ "rounded" t5.tar t5.$w.tar
	check_grep "the stamp says so" "\"weights\":\"$w\"" t5.$w.tar
	check_exit 73 "$w where f32 is" ddm-encode -q -m "$golden/text-t5" --tokens 3 --weight-dtype $w -o t5.tar pics
	check_err "the option is named" 'weights'
	check_exit 73 "f32 where $w is" ddm-encode -q -m "$golden/text-t5" --tokens 3 -o t5.$w.tar pics
	check_err "the option is named" 'weights: .* -> [(]none[)]'
done
check "T5 whose matrices stay in their file" ddm-encode -q -m "$golden/text-t5" --tokens 3 --map -o t5.map.tar pics
check_same "and change nothing" t5.map.tar t5.tar
check "CLIP whose matrices stay there" ddm-encode -q -m "$golden/text-clip" --map --batch 1 --threads 3 -o clip.map.tar pics
check_same "no byte differs" clip.map.tar e.tar
check_exit 2 "bf16 matrices cannot stay there" ddm-encode -q -m "$golden/text-t5" --map --weight-dtype bf16 -o x.tar pics
check_err "told" '--map'
check "f32 is the same as none" ddm-encode -q -m "$golden/text-t5" --tokens 3 --weight-dtype f32 -o t5.tar pics
check_exit 2 "another type" ddm-encode -q -m "$golden/text-t5" --weight-dtype fp8 -o x.tar pics
rm more/*1.txt
check_exit 65 "a caption is missing" ddm-encode -m "$golden/text-clip" -o x.tar more
check_err "named" 'has no caption'
check_absent "nothing made" x.tar
check_exit_any 3 "too many skipped" ddm-encode -m "$golden/text-clip" --skip-bad --max-errors 0 -o x.tar more
mkdir model
cp -R "$vae" model/vae
cp -R "$golden/text-clip/text_encoder" "$golden/text-clip/tokenizer" model
check "a model: both" ddm-encode -q -m model -o both.tar pics
check_out "members" "npy $n, png $n, std.npy $n, text.npy $n, txt $n" members both.tar
check "one of them" ddm-encode -q -m model --as text -o one.tar pics
check_same "as alone" one.tar e.tar
check_exit 65 "a part that is not there" ddm-encode -q -m model --as vision -o x.npy pics

# Captions without pictures
clip=$golden/text-clip
printf 'a photo of the cat\nthe dog on a hill\n\na cat\n' >lines.txt
mkdir alone
i=0
while IFS= read -r line; do
	printf '%s' "$line" >alone/00000000$i.txt
	i=$((i + 1))
done <lines.txt
tar cf alone.tar --sort=name -C alone .
check "a text" ddm-encode -m "$clip" --captions -o lines.tar lines.txt
check_err "report" '^4 samples$'
check_out "members" "text.npy 4, txt 4" members lines.tar
for from in alone alone.tar; do
	check "$from" ddm-encode -q -m "$clip" --captions -o "$from.out" "$from"
	check_same "the same bytes" lines.tar "$from.out"
done
check "a text through a pipe" sh -c "cat lines.txt | ddm-encode -q -m '$clip' --captions - >piped.tar"
check "a tar through a pipe" sh -c "cat alone.tar | ddm-encode -q -m '$clip' --captions - >piped2.tar"
check_same "the same bytes" piped.tar piped2.tar
mkdir u v
tar xf lines.tar -C u
tar xf piped.tar -C v
check "and members" diff -r u v
mkdir w
tar xf e.tar -C w
check_same "the features that it has beside a picture" u/000000000.text.npy w/0001.text.npy
printf '\357\273\277a photo of the cat\r\nthe dog on a hill\r\n\r\na cat' >dos.txt
check "as another system writes it" ddm-encode -q -m "$clip" --captions -o dos.tar dos.txt
check_same "the same bytes" lines.tar dos.tar
head -n 1 lines.txt >one.txt
tail -n +2 lines.txt >rest.txt
check "two texts" ddm-encode -q -m "$clip" --captions -o two.tar one.txt rest.txt
check_same "are counted on" lines.tar two.tar
check "pictures with captions" ddm-encode -q -m "$clip" --captions -o beside.tar pics
check_same "as without the option" e.tar beside.tar
printf 'a cat\n\377\na\000b\na dog\n' >odd.txt
check_exit 65 "no UTF-8" ddm-encode -m "$clip" --captions -o x.tar odd.txt
check_err "the line is named" 'odd.txt: line 2: not a text in UTF-8'
check "passed over" ddm-encode -m "$clip" --captions --skip-bad -o odd.tar odd.txt
check_err "both" '2 samples skipped'
check_out "the others keep their numbers" "000000000 000000003" sh -c "tar tf odd.tar | sed -n 's/[.]txt//p' | tr '\n' ' ' | sed 's/ $//'"
head -c 1048577 /dev/zero | tr '\0' a >long.txt
check_exit 65 "a line without an end" ddm-encode -m "$clip" --captions -o x.tar long.txt
check_err "is told" 'line 1: longer than 1048576 bytes'
: >none.txt
check_exit 65 "no captions" ddm-encode -m "$clip" --captions -o x.tar none.txt
check_exit 65 "captions alone, unasked" ddm-encode -m "$clip" -o x.tar alone
check_err "told" 'no samples'
check_exit 2 "an autoencoder" ddm-encode -m "$vae" --captions -o x.tar lines.txt
check_exit 2 "both" ddm-encode -m model --captions -o x.tar lines.txt
check_err "a way out" '--as text selects the text encoder'
check "the text encoder of both" ddm-encode -q -m model --as text --captions -o both.txt.tar lines.txt
check_same "the same bytes" lines.tar both.txt.tar
check_exit 2 "no lists of paths" ddm-encode -m "$clip" --captions -0 -o x.tar -

# Features
dino=$golden/dinov2-224
check "features" ddm-encode -q -m "$dino" --keys k.txt -o f.npy pics
check_grep "a row each" "'<f4'.*\\($n, 4\\)" f.npy
check "of bf16 matrices" ddm-encode -q -m "$dino" --weight-dtype bf16 -o f16.npy pics
check_differ "rounded" f.npy f16.npy
check_exit 73 "bf16 where f32 is" ddm-encode -q -m "$dino" --weight-dtype bf16 -o f.npy pics
check "of matrices in their file" ddm-encode -q -m "$dino" --map -o fmap.npy pics
check_same "the same features" f.npy fmap.npy
mkdir timm
cp "$dino/model.safetensors" timm
echo '{"architecture": "vit_small_patch14_dinov2", "num_classes": 0}' >timm/config.json
check_exit 65 "timm's folder with another's weights" ddm-encode -q -m timm -o t.npy pics
check_err "what it is not" 'timm: not the weights of a DINOv2 under the names of torch.hub or timm: no cls_token'
echo '{"architecture": "resnet50"}' >timm/config.json
check_exit 65 "another network of timm" ddm-encode -q -m timm -o t.npy pics
check_err "is named" '"resnet50" is not a supported encoder'
check_out "keys" "$n" sh -c "wc -l <k.txt"
check_grep "whose" '"features": "dinov2"' f.npy.json
touch -d 2001-01-01 f.npy f.npy.json
check "again" ddm-encode -m "$dino" -o f.npy pics
check_out "nothing touched" "" find f.npy f.npy.json -newer old
check_exit 73 "otherwise" ddm-encode -m "$dino" --input dinov2-256 -o f.npy pics
check "a table for ddm-cluster" ddm-cluster -q -k 3 --features f.npy -o a.tsv pics
check_grep "named in it" '"features":"dinov2"' a.tsv
check_exit 65 "of other samples" ddm-cluster -q -k 3 --features f.npy -o b.tsv more
check_exit 2 "not to a pipe" ddm-encode -m "$dino" pics

# The same network within ddm-cluster
check "clusters by the network" ddm-cluster -q -k 3 --centroids-out n.npy --features "dinov2:$dino" -o n.tsv pics
check_grep "the network and its hash are named" '"features":"dinov2".*"input":"dinov2".*"features":"[0-9a-f]{64}"' n.tsv
check "the same clusters as from the table" sh -c "grep -v '^#' a.tsv >1; grep -v '^#' n.tsv | cmp - 1"
check "any threads" ddm-cluster -q -k 3 --threads 3 --features "dinov2:$dino" -o n3.tsv pics
check_same "the same bytes" n.tsv n3.tsv
check "the network's matrices in their file" ddm-cluster -q -k 3 --map --features "dinov2:$dino" -o nmap.tsv pics
check_same "the same table" n.tsv nmap.tsv
check_exit 2 "--map without a network" ddm-cluster -q -k 3 --map -o x.tsv pics
check_exit 2 "int8 matrices cannot stay there" ddm-cluster -q -k 3 --map --weight-dtype int8 --features "dinov2:$dino" -o x.tsv pics
check "its centroids" ddm-cluster -q --centroids n.npy --features "dinov2:$dino" -o c.tsv pics
check_exit 65 "but of bf16 matrices" ddm-cluster -q --centroids n.npy --features "dinov2:$dino" --weight-dtype bf16 -o c2.tsv pics
check_exit 65 "but of another input" ddm-cluster -q --centroids n.npy --features "dinov2:$dino" --input dinov2-256 -o c2.tsv pics
check_err "told" 'centroids of other weights of "dinov2", or of another --input'
check_exit 73 "another input" ddm-cluster -q -k 3 --features "dinov2:$dino" --input dinov2-256 -o n.tsv pics
check_err "named" 'input: "dinov2" -> "dinov2-256"'
check_exit 2 "an input without a network" ddm-cluster -q -k 3 --input dinov2-256 -o x.tsv pics
check_exit 66 "no such network" ddm-cluster -q -k 3 --features dinov2:none -o x.tsv pics
check "shards of them" ddm-shard -q -a n.tsv -o shards pics
check "a metric by the same network" ddm-eval-fid --features "dinov2:$dino" --metrics kd --size 32 -o m.json shards pics
check_err "warns" 'clustered by the same features "dinov2"'
check "its matrices in their file" ddm-eval-fid --map --features "dinov2:$dino" --metrics kd --size 32 -o mmap.json shards pics
check_same "the same numbers" m.json mmap.json
check_exit 2 "bf16 matrices cannot stay there" ddm-eval-fid --map --weight-dtype bf16 --features "dinov2:$dino" --metrics kd shards pics
check "a metric by another" ddm-eval-fid --metrics kd -o m2.json shards pics
check_out "does not" "" cat "$ERR"

# Failures
cp pics.tar cut.tar
cut_to cut.tar 30000
check_exit 65 "a truncated tar" ddm-encode -q -m "$vae" -o x2.tar cut.tar
check_absent "nothing made" x2.tar
small() { sh -c 'trap "" XFSZ; ulimit -f 8; exec "$@"' sh "$@"; }
check_exit 74 "a full disk" small ddm-encode -q -m "$vae" -o full.tar pics
check_absent "nothing made" full.tar
check_clean "nothing left" .
mkdir sig
{ head -c 40000 pics.tar; sleep 2; } | ddm-encode -q -m "$vae" -o sig/s.tar - 2>"$ERR" &
pid=$!
until_true started
sleep .5
kill -TERM $pid
wait $pid
check_out "SIGTERM kills" 143 echo $?
check_out "and leaves nothing" "" find sig -mindepth 1
for ms in 02 05 09; do
	ddm-encode -q -m "$vae" -o sig/s.tar pics &
	pid=$!
	sleep "0.$ms"
	kill -9 $pid 2>/dev/null
	wait $pid 2>/dev/null
done
check "after kills" ddm-encode -q -m "$vae" -o sig/s.tar pics
check_same "the same bytes" l.tar sig/s.tar
check_out "nothing beside it" sig/s.tar find sig -mindepth 1
check_stdout "stdout" ddm-encode -q -m "$vae" pics
