# Makes the files of the manual's examples in the current directory; see tests/check-man.sh. The programs are in PATH.
# There are sixteen sources, because all frames of a source are held out together: six of the 48 pictures.
ddm-ingest --size 32 --seeds 8 --frames 3 --seed 1 -o photos.tar \
	lavfi:'mandelbrot=size=64x64:rate=1:start_scale={u:.5:3}' \
	lavfi:'gradients=size=64x64:rate=1:seed={seed}:c0={color}:c1={color}:nb_colors=2'
mkdir photos photos/a photos/b
tar xf photos.tar -C photos
mv photos/mandelbrot*.png photos/a
mv photos/*.png photos/b
cp -R "$(dirname "$0")/golden/autokl" vae
ddm-cluster -q -k 2 --holdout .2 --seed 1 --centroids-out centroids.npy -o assign.tsv photos.tar
ddm-shard -a assign.tsv --holdout .2 -o shards photos.tar
for k in 0 1; do
	ddm-train --cluster $k --model dit-nano/4 --steps 2 --batch 4 -o model/expert_$k shards
done
ddm-train --cluster all --model dit-nano/4 --steps 2 --batch 4 -o monolith/expert_0 shards
ddm-route-train --model dit-nano/4 --steps 2 --batch 4 -o model/router shards
ddm-sample -n 16 --route top-1 --steps 2 -o samples.tar model
mkdir golden
tar xzf "$(dirname "$0")/golden/paris-model.tar.gz" -C golden
mv golden/model t2i
rm -r golden
printf 'a cat\nthe photo of a cat\n' >prompts.txt
# Clips of a zoom and of a disc that moves.
ddm-ingest -q --clips 8 --fps 8 --size 16 --seeds 12 -o clips.tar 'lavfi:mandelbrot=size=32x32:rate=8:start_scale={u:.5:2}:end_pts=8' \
	'lavfi@disc:nullsrc=size=16x16:rate=8,format=gray,geq=lum=255*lt(hypot(X-{i:0:8}-N\,Y-{i:4:12})\,4)'
