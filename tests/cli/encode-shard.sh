# ddm-shard --vae, --text: the results of ddm-encode in shards, with the empty text; ddm-check; a repeated command; other encoders.
. "$(dirname "$0")/tap.sh"

vae=$SRC/tests/golden/autokl tiny=$SRC/tests/golden/autotiny text=$SRC/tests/golden/pretrained/text-clip
mkdir pics
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics
for f in pics/*.png; do echo "the cat of $f" >"${f%.png}.txt"; done
ddm-cluster -q -k 2 --holdout .2 --seed 2 -o a.tsv pics || exit 1

check_exit 2 "a size without an autoencoder" ddm-shard -a a.tsv --size 16 -o x pics
check_exit 2 "tokens without a text encoder" ddm-shard -a a.tsv --tokens 4 -o x pics
check_exit 66 "no autoencoder there" ddm-shard -a a.tsv --vae "$text" -o x pics
check_absent "nothing made" x
check "both" ddm-shard -q -a a.tsv --vae "$vae" --text "$text" -o s pics
mkdir model out want
cp -R "$vae" model/vae
cp -R "$text/text_encoder" "$text/tokenizer" model
check "by ddm-encode" ddm-encode -q -m model --null-text null.npy -o e.tar pics
for f in s/cluster-?/*.zst s/holdout/cluster-?/*.zst; do zstd -dc "$f" | tar xf - -C out; done
tar xf e.tar -C want
check "the same samples" diff -r want out
check_same "the same empty text" null.npy s/null-text.npy
check "sha256sum -c" sh -c "cd s && sha256sum -c --quiet SHA256SUMS"
check_grep "covers the empty text" ' null-text.npy$' s/SHA256SUMS
sha=$(sha256sum <s/null-text.npy | cut -c 1-64)
check_grep "so does the manifest" "\"files\":\\{\"null-text.npy\":\"$sha\"\\}" s/MANIFEST.tsv
check_grep "the encoders are in the stamp" '"vae":"[0-9a-f]{64}","text":"[0-9a-f]{64}"' s/MANIFEST.tsv
check "ddm-check" ddm-check s
check "ddm-info --check" ddm-info --check s

for n in 1 3; do
	check "$n threads, $n at a time" ddm-shard -q -a a.tsv --threads $n --batch $n --vae "$vae" --text "$text" -o t$n pics
	check "equal" diff -r s t$n
done
check "matrices that stay in their files" ddm-shard -q -a a.tsv --map --vae "$vae" --text "$text" -o smap pics
check "equal" diff -r s smap
check_exit 2 "--map without an encoder" ddm-shard -a a.tsv --map -o x pics
check "again, in other words" ddm-shard -a a.tsv --vae model/vae --text model/text_encoder -o s pics
check_err "told" 's: exists already'
check_exit 73 "another autoencoder" ddm-shard -a a.tsv --vae "$tiny" --text "$text" -o s pics
check_err "named" 'inputs.vae'
check_exit 73 "none" ddm-shard -a a.tsv --text "$text" -o s pics
check_exit 73 "other matrices" ddm-shard -a a.tsv --vae "$vae" --text "$text" --weight-dtype bf16 -o s pics
check_err "named" 'weights'
check_exit 73 "another posterior" ddm-shard -a a.tsv --vae "$vae" --posterior mean --text "$text" -o s pics
check_err "named" 'posterior: "std" -> "mean"'

cp -R s flipped
flip flipped/null-text.npy 200
check_exit 65 "ddm-check: an altered empty text" ddm-check flipped
check_err "named" 'flipped/null-text.npy: SHA-256'
check_exit 65 "ddm-info --check" ddm-info --check flipped
check_exit 65 "the command again" ddm-shard -a a.tsv --vae "$vae" --text "$text" -o flipped pics
rm flipped/null-text.npy
check_exit 66 "ddm-check: it is gone" ddm-check flipped

check "latents alone" ddm-shard -q -a a.tsv --vae "$vae" --no-pictures --posterior mean -o l pics
check_out "of them and captions" "npy txt" sh -c "for f in \$(find l -name '*.zst'); do zstd -dc \$f | tar tf -; done | sed 's/.*[.]//' | sort -u | paste -sd ' '"
check_absent "no empty text" l/null-text.npy
check "train on them" ddm-train -q --cluster all --model dit-nano/1 --steps 1 --batch 2 -o expert l
rm "$(find pics -name '*.txt' | sort | tail -n 1)"
check_exit 65 "a caption is missing" ddm-shard -q -a a.tsv --text "$text" -o x pics
check_err "named" 'has no caption'
check_absent "nothing made" x
check_clean "nothing left" .
