# Seals: in every kind of file that the programs publish, ddm-check finds a single altered bit.
. "$(dirname "$0")/tap.sh"

# altered NAME FILE [CHECKED]: flips a bit at each of many places of FILE; ddm-check of CHECKED (default FILE) refuses each
altered() {
	tap_file=$2 tap_size=$(size_of "$2") tap_missed= tap_i=0
	cp "$2" whole
	tap_run ddm-check "${3:-$2}"
	tap_result "$RC" "$1: sound as written" "exit $RC"
	while [ $tap_i -lt $places ]; do
		# Each of the first and last bytes, and evenly spaced others
		if [ $tap_i -lt 8 ]; then
			tap_at=$tap_i
		elif [ $tap_i -lt 24 ]; then
			tap_at=$((tap_size - 1 - (tap_i - 8)))
		else
			tap_at=$(((tap_i - 24) * tap_size / (places - 24)))
		fi
		tap_i=$((tap_i + 1))
		[ $tap_at -ge 0 ] && [ $tap_at -lt $((tap_size - spare)) ] || continue
		flip "$tap_file" $tap_at
		ddm-check "${3:-$2}" >/dev/null 2>"$ERR" && tap_missed="$tap_missed $tap_at"
		cp whole "$tap_file"
	done
	[ -z "$tap_missed" ]
	tap_result $? "$1: no altered bit passes" "$2, of $tap_size bytes, passes with one bit altered at:$tap_missed"
	rm whole
}
places=60 spare=0

mkdir pics
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics
weights=diffusion_pytorch_model.safetensors
ddm-cluster -q -k 2 --holdout .25 --seed 5 --centroids-out c.npy --report r.json -o a.tsv pics || exit 1
ddm-shard -q -a a.tsv --holdout .25 -o s pics || exit 1
ddm-train -q --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --predict x0 --batch 8 --threads 1 --cluster 0 --steps 2 -o e s || exit 1

altered "a table" a.tsv
altered "a report" r.json
altered "weights" e/$weights
altered "weights in their model" e/$weights e
altered "a configuration" e/config.json
altered "a sidecar" c.npy.json
altered "the array beside it" c.npy
cp c.npy whole && flip c.npy 200
check_exit 65 "altered centroids are not taken" ddm-cluster -q --centroids c.npy -o no.tsv pics
check_err "and are named" 'c.npy: altered since it was written'
mv whole c.npy
cp c.npy alone.npy
check "an array without its sidecar" ddm-check alone.npy
rm alone.npy
ddm-encode -q -m "$SRC/tests/golden/pretrained/dinov2-224" --keys keys -o f.npy pics || exit 1
altered "a list of keys" keys
altered "its sidecar" keys.json keys
altered "a table of features" f.npy
check_out "ddm-info of keys" other sh -c 'ddm-info --json keys | tr , "\n" | sed -n "s/.*\"kind\": *\"\([a-z]*\)\".*/\1/p"'
mkdir folder && mv keys keys.json folder && altered "in a folder" folder/keys folder
ddm-eval-fid --features rgb8 --stats-out stats.npz -o rgb8.json pics pics || exit 1
altered "statistics" stats.npz
# Except its last newline: a line without one counts as unfinished by a killed process.
spare=1
altered "a log" e/train.jsonl
altered "a log in its run" e/train.jsonl e
spare=0
for f in pics/*.png; do echo "a picture of $f" >"${f%.png}.txt"; done
ddm-ingest -q -o in.tar pics 2>/dev/null || ddm-ingest -o in.tar pics 2>/dev/null || exit 1
altered "an archive of pictures and captions" in.tar
check "the same through a pipe" sh -c 'ddm-ingest -o - pics >pipe.tar'
check_same "the same bytes" in.tar pipe.tar
for format in jpg webp png; do
	ddm-sample -n 2 --route expert:0 --steps 2 --format $format -o $format/ e || exit 1
	picture=$(find $format -name '0*' | LC_ALL=C sort | head -n 1)
	altered "a picture in a folder, $format" "$picture" $format
	altered "its list of hashes, $format" $format/SHA256SUMS $format
done
check "sha256sum agrees" sh -c 'cd jpg && sha256sum -c --quiet SHA256SUMS'
rm "$picture"
check_exit 66 "a picture that was lost" ddm-check png
check_err "is named" "$picture: missing"
ddm-sample -n 3 --route expert:0 --steps 2 --format npz -o samples.npz e || exit 1
altered "an array of pictures" samples.npz
ddm-sample -n 3 --route expert:0 --steps 2 --format latent -o latents.tar e || exit 1
altered "an archive of arrays" latents.tar
check "a stranger's reader: tar" sh -c 'tar tf latents.tar | grep -c npy'
check_out "which finds nothing wrong" "" sh -c 'tar tf latents.tar 2>&1 >/dev/null'
cat in.tar latents.tar >both.tar
check "archives one after the other" ddm-info both.tar
cp latents.tar more.tar && echo more >more.txt && tar rf more.tar more.txt
check "members that were appended" ddm-check more.tar
ddm-plot loss -o loss.svg e/train.jsonl || exit 1
altered "a drawing" loss.svg
ddm-plot loss -o loss.png e/train.jsonl || exit 1
altered "a drawing in pixels" loss.png
mkdir run
ddm-eval-fid --features pix -o eval.json pics pics || exit 1
altered "a result" eval.json
ddm-report -q -t run -o run/report.tsv one=eval.json || exit 1
altered "a table of results" run/report.tsv
ddm-html -o page.html run || exit 1
altered "a page" page.html
mkdir pages && mv page.html pages && altered "a page in a folder" pages/page.html pages && mv pages/page.html .
cut_to page.html 5000
check_exit 65 "a page that was cut" ddm-check page.html
check_err "is named" 'page.html: truncated'
rm page.html

# A single shard: its stamp says that it has an end record
shard=$(find s -name '*.zst' | LC_ALL=C sort | head -n 1)
cp "$shard" one.tar.zst
altered "a lone shard" one.tar.zst
at=$(grep -obUaP '\x5b\x2a\x4d\x18' one.tar.zst | tail -n 1 | cut -d : -f 1)
cp one.tar.zst cut.tar.zst
cut_to cut.tar.zst "$at"
check_exit 65 "a shard without its end record" ddm-check cut.tar.zst
check_err "says so" 'cut.tar.zst: a shard whose end record is missing or damaged'
check_exit 65 "as a set of samples too" ddm-cluster -q --features random -k 2 -o no.tsv cut.tar.zst
check_out "zstd still reads what it was" "$(zstd -dcq one.tar.zst | tar tf - | wc -l)" sh -c 'zstd -dcq cut.tar.zst | tar tf - | wc -l'
zstd -dcq one.tar.zst >plain.tar
check "what zstd made of it is a tar as any other" ddm-check plain.tar
rm cut.tar.zst plain.tar one.tar.zst

# Programs that read it notice it too
cp -R e e2 && flip e2/$weights 3000
check_exit 65 "altered weights are not sampled from" ddm-sample -n 2 --route expert:0 --steps 2 -o x.tar e2
check_err "and are named" "e2/$weights: altered since it was written"
rm -r e2 && cp -R e e2 && sed -i 's/"hidden_size": 16/"hidden_size": 32/' e2/config.json
check_exit 65 "nor an altered configuration" ddm-sample -n 2 --route expert:0 --steps 2 -o x.tar e2
check_err "it is named" "e2/config.json: altered since it was written"
check_absent "nothing is written" x.tar

# Files without a seal are read as before
unseal e2/config.json
sed -i 's/"hidden_size": 32/"hidden_size": 16/' e2/config.json
check "a configuration whose seal was emptied" ddm-check e2
