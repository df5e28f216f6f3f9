# Clips, samples with a time axis: shards, two experts and a router, samples as clips and as sheets, networks and data that do not fit.
. "$(dirname "$0")/tap.sh"

# clip KEY CLASS SHIFT: a clip of 4 frames of 8 x 8 pixels. A bright line, upright in class 0, lying in class 1, moves by 2 pixels a frame.
clip() {
	{
		printf '\223NUMPY\001\000\166\000'
		printf '%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (4, 3, 8, 8), }"
		printf "$(awk -v class="$2" -v shift="$3" 'BEGIN {
			for (f = 0; f < 4; f++)
				for (c = 0; c < 3; c++)
					for (y = 0; y < 8; y++)
						for (x = 0; x < 8; x++)
							printf "\\%03o", (class ? y : x) == (shift + 2 * f) % 8 ? 200 + 20 * c : 30
		}')"
	} >"$1.npy"
	printf '%d\n' "$2" >"$1.cls"
	printf '{"frames": 4, "fps": 8, "source": "%s"}\n' "${1%@*}" >"$1.json"
}

# numbers FILE: the bytes of an array, one a line, without its header.
numbers() {
	tail -c +129 "$1" | od -An -v -tu1 | tr -s ' ' '\n' | sed '/^$/d'
}

mkdir data && cd data || exit 1
for i in 0 1 2 3 4 5 6 7; do
	clip "up$i@000000" 0 "$i"
	clip "side$i@000000" 1 "$i"
done
tar cf ../clips.tar ./*
cd ..
check "a tar of clips" ddm-check clips.tar
check "clusters by class" ddm-cluster -q --by class -o a.tsv clips.tar
check "shards" ddm-shard -q -a a.tsv -o shards clips.tar
check "are whole" ddm-check shards

# Networks and data that do not fit
train="ddm-train -q --condition none --batch 8 --lr 1e-2"
small="--model vdit-nano/1x2 --hidden 32 --depth 2 --heads 2"
check_exit 2 "patches of 3 frames" $train --cluster 0 --model vdit-nano/3x2 --steps 1 -o bad shards
check_err "do not divide a clip" 'patches of 3 frames do not divide clips of 4 frames'
mkdir pics
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics
ddm-cluster -q -k 1 -o p.tsv pics && ddm-shard -q -a p.tsv -o pshards pics || exit 1
check_exit 2 "pictures for a network of clips" $train --cluster 0 --model vdit-nano/1x2 --steps 1 --size 8 -o bad pshards
check_err "says so" 'these samples are pictures'
check_exit 65 "an exact model of clips" ddm-exact -o bad shards
check_absent "nothing was made" bad

# Two experts and a router
check "a plan" ddm-train --plan --cluster 0 --model vdit-nano/2x4 -o m/expert_0 shards
for k in 0 1; do
	check "expert $k" $train $small --cluster $k --steps 400 --flip --sample-every 400 -o m/expert_$k shards
done
check_grep "config.json has the frames" '"num_frames": 4' m/expert_0/config.json
check_grep "and names the network" '"model_type": "video_dit"' m/expert_0/config.json
check "a sheet was drawn in training" test -s m/expert_0/train/samples-00000400.png
check_out "8 clips of 4 frames" "38 78" sh -c "ddm-info --json m/expert_0/train/samples-00000400.png | tr -d ' \n' |
	sed 's/.*\"width\":\([0-9]*\).*\"height\":\([0-9]*\).*/\1 \2/'"
check "a router" ddm-route-train -q --model dit-nano/4 --hidden 32 --depth 1 --heads 2 --batch 8 --steps 300 --lr 1e-2 -o m/router shards
check_grep "reads clips" '"num_frames": 4' m/router/config.json
check "ddm-check takes the model" ddm-check m
check "ddm-info shows it" ddm-info m
check_grep "with the shape of a clip" 'picture +4 x 3 x 8 x 8' "$OUT"
check "the loss of the ensemble" ddm-diagnose loss -n 4 --timesteps .5 --split train -o loss.json m shards

# Threads and interruptions change no bit
w=diffusion_pytorch_model.safetensors
for n in 1 3; do
	check "$n threads" $train $small --cluster 0 --steps 5 --threads $n -o t/$n shards
done
check_same "make the same weights" t/1/$w t/3/$w

# Samples
check "clips in a tar" ddm-sample -q -n 6 --steps 20 --route top-1 -o s.tar --grid g.png m
check_out "as arrays" "000000.json 000000.npy 000001.json 000001.npy" sh -c "tar tf s.tar | head -n 4 | paste -sd ' '"
mkdir s && tar xf s.tar -C s
check_grep "facts of each" '"frames":4' s/000000.json
check_grep "bytes of shape (4, 3, 8, 8)" "'descr': '.u1'.*'shape': \(4, 3, 8, 8\)" s/000000.npy
check_out "8 frames of 6 clips on the sheet" "38 58" sh -c "ddm-info --json g.png | tr -d ' \n' | sed 's/.*\"width\":\([0-9]*\).*\"height\":\([0-9]*\).*/\1 \2/'"

# The data are dark but for a line of an eighth of each frame, about .12 of all values, and the line moves. A clip counts as moving if a frame
# differs from the one before in more than 4 of 192 values by 60 or more.
for i in 0 1 2 3 4 5; do
	numbers "s/00000$i.npy"
done >all
check "bright values are a share like the data's" awk '{ n++; bright += $1 > 128 } END { exit !(n == 6 * 768 && bright / n > .04 && bright / n < .3) }' all
check "frames differ" awk '{ at = NR % 768 ? NR % 768 : 768; clip = int((NR - 1) / 768)
	if (at > 192) { d = $1 - was[at - 192]; moved[clip] += d * d > 3600 }
	was[at] = $1 }
	END { for (c = 0; c < 6; c++) some += moved[c] > 12; exit !(some >= 4) }' all
cp s.tar before.tar
check "again" ddm-sample -q -n 6 --steps 20 --route top-1 -o s.tar --grid g.png m
check_same "does nothing" s.tar before.tar
check "in other batches" ddm-sample -q -n 6 --steps 20 --route top-1 --batch 2 -o s2.tar m
mkdir s2 && tar xf s2.tar -C s2
check_same "the same clip" s/000003.npy s2/000003.npy
check "one picture" ddm-sample -q -n 1 --steps 4 --route full -o one.png m
check_out "a row of frames" "32 8" sh -c "ddm-info --json one.png | tr -d ' \n' | sed 's/.*\"width\":\([0-9]*\).*\"height\":\([0-9]*\).*/\1 \2/'"
check "floats" ddm-sample -q -n 1 --steps 4 --route full --format latent -o l.tar m
mkdir l && tar xf l.tar -C l
check_grep "of the same shape" "'descr': '<f4'.*'shape': \(4, 3, 8, 8\)" l/000000.npy
check_exit 2 "no npz of clips" ddm-sample -q -n 1 --steps 4 --route full -o x.npz m
check_err "is said" 'makes clips'

# Clips of another length, and of pictures' networks
check "6 frames" ddm-sample -q -n 1 --steps 4 --route expert:0 --frames 6 -o long.png m
check_out "in a row" "48 8" sh -c "ddm-info --json long.png | tr -d ' \n' | sed 's/.*\"width\":\([0-9]*\).*\"height\":\([0-9]*\).*/\1 \2/'"
check_exit 2 "with a router" ddm-sample -q -n 1 --steps 4 --route top-1 --frames 6 -o no.png m
check_err "which reads 4" 'reads clips of 4 frames alone'
check_exit 2 "no frames" ddm-sample -q -n 1 --steps 4 --route expert:0 --frames 0 -o no.png m
ddm-train -q --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --cluster 0 --predict x0 --steps 1 --batch 2 -o pm/expert_0 pshards || exit 1
check_exit 2 "of a network for pictures" ddm-sample -q -n 1 --steps 2 --frames 2 -o no.png pm
check_err "is said" 'is a network for pictures'
check_exit 2 "clips of a network for pictures" ddm-sample -q -n 1 --steps 2 --format clip -o no.tar pm
check_err "is said too" 'makes pictures, not clips'
check_absent "nothing was made" no.png no.tar

# A network for pictures becomes one for clips.
check "an expert for clips from one for pictures" ddm-train --condition none --batch 8 --cluster 0 --pretrained pm/expert_0 --predict x0 --steps 3 \
	-o grown/expert_0 shards
check_err "its blocks are copied" 'of pm/expert_0, taken: .*blocks\.\*\.attn\.qkv\.weight.*final_layer\.linear\.weight'
check_err "those across frames begin without effect" 'of pm/expert_0, new: .*time_blocks\.\*\.attn\.qkv\.weight, '
check_grep "the log says so" '"new":.*time_blocks' grown/expert_0/train.jsonl
check_grep "config.json has the frames" '"num_frames": 4' grown/expert_0/config.json
check "it makes clips" ddm-sample -q -n 2 --steps 2 --route expert:0 -o grown.tar grown
check "of any length" ddm-sample -q -n 1 --steps 2 --route expert:0 --frames 7 -o grown.png grown
check_exit 2 "of another kind" $train --cluster 0 --model vdit-nano/1x8 --pretrained pm/expert_0 --steps 1 -o bad shards
check_err "a kind that can is named" 'a video_dit network cannot start from it; a dit network for clips can'

# Trainings that are repeated from their stamps
check "all attention, patches of 2 frames" $train --cluster 0 --model vdit-full-nano/2x2 --hidden 32 --depth 2 --heads 2 --steps 3 -o again/expert_0 shards
check "is proved by training again" ddm-audit --replay all --scratch scratch again/expert_0 shards
check "the network is in the command of ddm-forget" ddm-forget -o left -m again shards up0@000000
check_grep "by its preset" 'ddm-train --cluster 0 --model vdit-full-nano/2x2 --hidden 32 --depth 2 --heads 2 ' "$OUT"

# Texts: features of two tokens of width 3 beside each clip
mkdir texts && cp data/* texts
for i in 0 1 2 3 4 5 6 7; do
	for key in "up$i" "side$i"; do
		{
			printf '\223NUMPY\001\000\166\000'
			printf '%-117s\n' "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }"
			printf '\000\074\000\070\000\000\000\274\000\064\000\074'
		} >"texts/$key@000000.text.npy"
	done
done
(cd texts && tar cf ../texts.tar ./*)
ddm-shard -q -a a.tsv -o tshards texts.tar || exit 1
check "an expert that reads texts" $train --cluster 0 --model vdit-text-nano/1x2 --hidden 32 --depth 2 --heads 2 --text-drop 0 --steps 3 -o tm tshards
check_grep "its cross attention" '"cross_attention": 1' tm/config.json
check_exit 2 "a network for pictures" $train --cluster 0 --model sd3-nano/4 --text-drop 0 --steps 1 -o bad tshards
check_err "says what the samples are" 'shards: a sd3 network is for pictures, and these samples are clips of 4 frames'
{
	printf '\223NUMPY\001\000\166\000'
	printf '%-117s\n' "{'descr': '<f2', 'fortran_order': False, 'shape': (1, 2, 3), }"
	printf '\000\074\000\070\000\000\000\274\000\064\000\074'
} >prompt.npy
check "a clip of a text" ddm-sample -q --steps 2 --text-features prompt.npy -o told.png tm
check_exit 65 "samples without texts" $train --cluster 0 --model vdit-text-nano/1x2 --text-drop 0 --steps 3 -o bad shards
check_err "are named" 'has no features of a text'

# Latent clips: ddm-sample decodes what ddm-encode -d decodes, by autoencoders for pictures and for clips.
golden=$SRC/tests/golden
seq 1 99999 | tr '0-9\n' '\000\030\070\120\150\200\230\270\320\350\377' >bytes
for f in 0 1 2 3; do
	{
		printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (9, 3, 32, 32), }"
		tail -c +$((f * 30000 + 1)) bytes | head -c 27648
	} >wide@$f.npy
	echo 0 >wide@$f.cls
done
tar cf wide.tar --sort=name wide@*
for vae in "$golden/autotiny" "$golden/taehv/taew2_2.safetensors"; do
	name=$(basename "$vae" .safetensors)
	check "$name: latents of clips" ddm-encode -q -m "$vae" -o $name.tar wide.tar
	ddm-cluster -q --by class -o $name.tsv $name.tar
	check "$name: shards of them" ddm-shard -q -a $name.tsv -o $name.shards $name.tar
	check "$name: a network for them" $train --cluster 0 --model vdit-nano/1x1 --steps 2 -o $name.model/expert_0 $name.shards
	draw="ddm-sample -q -n 2 --steps 2 --route expert:0"
	check "$name: decoded samples" $draw --vae "$vae" --grid $name.png -o $name.seen.tar $name.model
	check "$name: latents" $draw --format latent -o $name.latent.tar $name.model
	check "$name: decoded by ddm-encode" ddm-encode -q -m "$vae" -d -o $name.back.tar $name.latent.tar
	for k in 000000 000001; do
		tar xOf $name.seen.tar $k.npy >one.npy && tar xOf $name.back.tar $k.npy >two.npy
		check_same "$name: the same clip $k" one.npy two.npy
	done
	check_grep "$name: of nine frames" "'\\|u1'.*\\(9, 3, 32, 32\\)" one.npy
done

# A U-Net sees all frames as channels.
check "a U-Net" $train --cluster 0 --model unet-nano --steps 3 -o un/expert_0 shards
check "makes clips" ddm-sample -q -n 2 --steps 2 --route expert:0 -o un.tar un
check_out "of its length" 2 sh -c "tar tf un.tar | grep -c npy"
check_exit 2 "of no other" ddm-sample -q -n 1 --steps 2 --route expert:0 --frames 6 -o no.png un
check_err "and says so" 'the weights of un.* are for 4 frames alone'

# Clusters by the content of the frames
check "with a sheet of the middle frames" ddm-cluster -q -k 2 --sheet middle.png -o middle.tsv clips.tar
check "clusters of clips" ddm-cluster -q -k 2 --seed 1 -o k.tsv clips.tar
check_out "are the directions" 1 sh -c "awk -F '\t' '/^up/ { print \$2 }' k.tsv | sort -u | wc -l | tr -d ' '"
check_out "both" 2 sh -c "awk -F '\t' '/^up|^side/ { print \$2 }' k.tsv | sort -u | wc -l | tr -d ' '"

# Clips of unlike shapes, and arrays that are no clips
bad() {
	rm -rf b b.tar b.tsv bshards && mkdir b && cp data/up0@000000.* data/up1@000000.* b && cp "$1" b/up1@000000.npy
	(cd b && tar cf ../b.tar ./*) && ddm-cluster -q --by class -o b.tsv b.tar && ddm-shard -q -a b.tsv -o bshards b.tar
	check_exit 65 "$2" $train $small --cluster 0 --steps 1 -o bad bshards
	check_err "$2: said" "$3"
}
{ printf '\223NUMPY\001\000\166\000' && printf '%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 8, 8), }" && head -c 384 /dev/zero; } >two.npy
bad two.npy "a clip of 2 frames among clips of 4" 'is 2 frames of 3 x 8 x 8, the others are 4 frames of 3 x 8 x 8'
{ printf '\223NUMPY\001\000\166\000' && printf '%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 4, 8, 8), }" && head -c 768 /dev/zero; } >order.npy
bad order.npy "channels first" 'a clip of bytes has 4 channels'
{ printf '\223NUMPY\001\000\166\000' && printf '%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 4, 3, 8, 8), }" && head -c 768 /dev/zero; } >five.npy
bad five.npy "five dimensions" 'an array of rank 5'

