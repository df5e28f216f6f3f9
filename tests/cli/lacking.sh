# Every program that finds no weights at the given place names the command that fetches published ones.
. "$(dirname "$0")/tap.sh"

tar xzf "$SRC/tests/golden/paris-model.tar.gz"
tar xf "$SRC/tests/golden/tiny-model.tar"
mkdir pics
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics
ddm-cluster -q -k 2 -o a.tsv pics && ddm-shard -q -a a.tsv -o s pics || exit 1

# lacks STATUS REGEX NAME CMD...
lacks() {
	status=$1 regex=$2
	shift 2
	check_exit "$status" "$@"
	check_err "$1: what gets it" "$regex"
	grep -oE 'fetch-weights [a-z][a-z0-9._-]*' "$ERR" | cut -d ' ' -f 2 >>offered
}
any='none: No such file or directory; fetch-weights --list lists published weights$'
sample="ddm-sample --preset paris --steps 1 --prompt x -o x.tar"

lacks 66 "$any" "ddm-sample without its model" $sample none
lacks 66 'none.*; fetch-weights sd-vae-ft-mse gets it$' "ddm-sample without an autoencoder that was told" $sample --vae none model
# The golden text encoder is narrower than any published one.
lacks 66 'none.*; fetch-weights --list lists published weights' "ddm-sample without a text encoder that was told" $sample --text-encoder none model
rm model/text_encoder/model.safetensors
lacks 66 'text_encoder.*; fetch-weights clip-vit-large-patch14 gets it$' "ddm-sample without weights of the text encoder" $sample model
lacks 66 'text_encoder.*; fetch-weights clip-vit-large-patch14 gets it$' "ddm-encode without them" ddm-encode -m model --as text -o x.tar pics
rm model/vae/*.safetensors
lacks 66 'vae.*; fetch-weights sd-vae-ft-mse gets it$' "ddm-encode without weights of the autoencoder" ddm-encode -m model --as vae -o x.tar pics
lacks 66 'vae.*; fetch-weights sd-vae-ft-mse gets it$' "ddm-shard without them" ddm-shard -a a.tsv --vae model/vae -o t pics
rm -r model/vae model/text_encoder
lacks 2 'give --vae DIR \(fetch-weights sd-vae-ft-mse\) to decode them' "ddm-sample without an autoencoder" $sample --text-encoder none model
lacks 2 'give --text-encoder DIR \(fetch-weights --list\) or --text-features FILE' "ddm-sample without a text encoder" $sample --format latent model
cp -R "$SRC/tests/golden/pretrained/text-t5" t5
rm t5/model.safetensors
lacks 66 't5.*; fetch-weights t5-v1_1-xxl gets it$' "ddm-encode without weights of T5" ddm-encode -m t5 -o x.tar pics
lacks 66 "$any" "ddm-encode without its model" ddm-encode -m none -o x.tar pics
lacks 66 "$any" "ddm-diagnose without its model" ddm-diagnose budget -n 1 --timesteps .5 --routes full -o x.tsv none s
lacks 66 'none/config.json: No such file or directory; fetch-weights --list' "ddm-train without what it starts from" \
	ddm-train -q --model dit-nano/8 --cluster all --steps 1 --pretrained none -o x s
for f in dinov2:dinov2-l clip:clip-vit-large-patch14 inception:inception; do
	gets="none: No such file or directory; fetch-weights ${f#*:} gets it\$"
	lacks 66 "$gets" "ddm-cluster without ${f%:*}" ddm-cluster -q -k 2 --features "${f%:*}:none" -o x.tsv pics
	lacks 66 "$gets" "ddm-encode without ${f%:*}" ddm-encode -q -m "${f%:*}:none" -o x.npy pics
	lacks 66 "$gets" "ddm-eval-fid without ${f%:*}" ddm-eval-fid --features "${f%:*}:none" pics pics
done
lacks 66 'none.*; fetch-weights lpips-alex gets it$' "ddm-eval-fid without LPIPS" ddm-eval-fid --metrics lpips --lpips none pics pics
check_clean "nothing is begun" .
# Each name in the messages exists.
"$SRC/share/fetch-weights" --list | cut -f 1 >names
check_exit_any 1 "all names are known" grep -vxFf names offered
[ "$(sort -u offered | wc -l)" -eq 6 ]
tap_result $? "six of them" "$(sort -u offered)"
