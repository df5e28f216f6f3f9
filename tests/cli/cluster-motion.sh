# ddm-cluster --motion: clips whose frames are equal and whose motion differs; the share of the variance; assignment to recorded centroids; refusals.
. "$(dirname "$0")/tap.sh"

# clips CHANNELS WIDTH [s]: in clips/, for each of 12 textures, rN that glides to the right and lN with the same frames in reverse, 6 of WIDTH x 20;
# s: in their place sN, whose frames are all the first one.
clips() {
	mkdir -p clips
	awk -v channels="$1" -v width="$2" -v still="${3:-}" 'BEGIN {
		head = sprintf("{\047descr\047: \047|u1\047, \047fortran_order\047: False, \047shape\047: (6, %d, 20, %d), }", channels, width)
		for (c = 0; c < 24; c += 1 + (still != "")) {
			srand(1 + int(c / 2))
			for (k = 0; k < 12; k++) u[k] = rand()
			file = sprintf("clips/%s%02d.npy", still != "" ? "s" : c % 2 ? "l" : "r", c / 2)
			printf "\223NUMPY%c%c%c%c%-117s\n", 1, 0, 118, 0, head >file
			for (t = 0; t < 6; t++)
				for (k = 0; k < channels; k++)
					for (y = 0; y < 20; y++)
						for (x = 0; x < width; x++) {
							v = 128
							for (j = 0; j < 3; j++)
								v += 25 * sin((.3 + .5 * u[4 * j]) * (x - .8 * (still != "" ? 0 : c % 2 ? 5 - t : t)) + (u[4 * j + 1] - .5) * y + 6.3 * u[4 * j + 2])
							printf "%c", int(v < 1 ? 1 : v > 254 ? 254 : v) >file
						}
			close(file)
		}
	}'
}
# pairs TABLE: how many clips share their cluster with the reversed one, out of 12
pairs() {
	grep -v '^#' "$1" | awk -F '\t' '{ side = substr($1, 1, 1); n = substr($1, 2); of[side n] = $2 } END { for (k in of) if (k ~ /^l/)
		same += of[k] == of["r" substr(k, 2)]; print same + 0 }'
}
# sides TABLE: in how many clusters the clips that glide to the right are
sides() { grep '^r' "$1" | cut -f 2 | sort -u | grep -c .; }

clips 3 24
check "without motion" ddm-cluster -q -k 2 -o still.tsv clips
check_out "a clip and its reverse are in one cluster" 12 pairs still.tsv
check "with motion" ddm-cluster -k 2 --motion .8 --report r.json --centroids-out c.npy -o move.tsv clips
check_grep "the features have a name" '2 clusters of hogcolor-1\+motion-1: ' "$ERR"
check_out "no clip is with its reverse" 0 pairs move.tsv
check_out "the clusters are the directions" 1 sides move.tsv
check "three threads" ddm-cluster -q -k 2 --motion .8 --threads 3 -o three.tsv clips
check_same "change nothing" move.tsv three.tsv
check_grep "the stamp has the share and the scale" '"motion":0.8,.*"motion_scale":' move.tsv
check_grep "and the hash of the definition" '"motion_hash":"[0-9a-f]{64}"' move.tsv
check_grep "the sidecar, too" '"motion_scale": [0-9.]+' c.npy.json
check "the same command again" ddm-cluster -q -k 2 --motion .8 -o move.tsv clips
check_exit 73 "another share" ddm-cluster -q -k 2 --motion .5 -o move.tsv clips

# One cluster holds the whole variance: its inertia is content / (1 - share).
check "the inertia of content" ddm-cluster -q -k 1 --report content.json -o one.tsv clips
for share in .25 .8; do
	check "with a share of $share" ddm-cluster -q -k 1 --motion $share --report part$share.json -o "one$share.tsv" clips
	awk -v a="$(sed -n 's/^  "inertia": \([0-9.e-]*\),/\1/p' content.json)" -v b="$(sed -n 's/^  "inertia": \([0-9.e-]*\),/\1/p' part$share.json)" \
		-v share=$share 'BEGIN { r = b * (1 - share) / a; exit !(a > 0 && r > .9999 && r < 1.0001) }'
	tap_result $? "motion has it"
done

# Centroids say that their features hold motion, and how it is scaled: a single new clip, whose variance is 0, finds its cluster.
check "assigned by the centroids" ddm-cluster -q --centroids c.npy -o again.tsv clips
grep -v '^#' move.tsv >move.rows
grep -v '^#' again.tsv >again.rows
check_same "as when they were fitted" move.rows again.rows
mkdir new
cp clips/l03.npy new
check "one clip" ddm-cluster -q --centroids c.npy -o new.tsv new
check_out "in its cluster" "$(grep '^l03' move.tsv)" grep '^l03' new.tsv
clips 3 24 s
mkdir still
mv clips/s* still
check "a third cluster" ddm-cluster -k 3 --extend c.npy --keep move.tsv --centroids-out more.npy -o more.tsv clips still
check_out "of the clips that stand still" "2" sh -c "grep '^s' more.tsv | cut -f 2 | sort -u"
check "keeps the old ones" grep -v '^#' more.tsv
grep '^[lr]' "$OUT" | cut -f 1,2 >kept
cut -f 1,2 move.rows >old
check_same "as they were" old kept
check_grep "and the scale" "$(grep motion_scale c.npy.json | tr -d ,)" more.npy.json
check "measured with motion" ddm-cluster -q --rate move.tsv --motion .8 --report rated.json clips
grep '^  "silhouette"' rated.json >rated
grep '^  "silhouette"' r.json >made
check_same "as when it was made" made rated

# A picture is a clip that stands still, grey clips move, too.
mkdir grey
mv clips colour
clips 1 24
mv clips grey
check "grey clips" ddm-cluster -q -k 2 --motion .8 -o grey.tsv grey/clips
check_out "by direction" 0 pairs grey.tsv
mkdir pics
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics
check_exit 65 "pictures alone do not move" ddm-cluster -q -k 2 --motion .5 -o none.tsv pics
check_err "which is said" '\-\-motion 0.5: all training samples move alike, or none moves'
cp pics/"$(ls pics | head -n 1)" colour/s.png
check "a picture among clips" ddm-cluster -q --centroids more.npy -o mixed.tsv colour
check_out "is with those that stand still" 2 sh -c "grep '^s' mixed.tsv | cut -f 2"

clips 1 15
check_exit 65 "clips that are too small" ddm-cluster -q -k 2 --motion .5 -o none.tsv clips
check_err "named" '"l00": frames of 15 x 20; motion needs 16 x 16 at least'
sed 's/"motion_scale": [0-9.]*/"motion_scale": 0/; s/ddm-seal:\([0-9a-f]*\):ddm-seal/\1/' c.npy.json >zero.npy.json
cp c.npy zero.npy
check_exit 65 "a scale of 0" ddm-cluster -q --centroids zero.npy -o none.tsv colour
check_err "is no scale" 'zero.npy.json: "motion_scale" is not a positive number'
check_exit 65 "centroids without motion, but a name with it" sh -c "sed 's/\"motion_scale\"/\"other\"/; s/ddm-seal:\([0-9a-f]*\):ddm-seal/\1/' c.npy.json >bare.npy.json
	cp c.npy bare.npy; exec ddm-cluster -q --centroids bare.npy -o none.tsv colour"

for value in 0 1 -1 x; do
	check_exit 2 "--motion $value" ddm-cluster -k 2 --motion $value -o none.tsv colour
done
for more in "--by folder" "--centroids c.npy" "--extend c.npy" "--features random" "--features c.npy" "--distance cosine"; do
	check_exit 2 "not with $more" ddm-cluster -k 2 --motion .5 $more -o none.tsv colour
done
check_absent "nothing made" none.tsv

# ddm-sample cannot route by such centroids.
check "clusters of pictures" ddm-cluster -q -k 2 -o a.tsv pics
check "shards" ddm-shard -q -a a.tsv -o shards pics
check "an exact model" ddm-exact -o model shards
check_exit 2 "routed by the distance to them" ddm-sample -n 2 --steps 2 --centroids c.npy --route 'distance|top-1' -o none.tar model
check_err "says why" 'c.npy: centroids of "hogcolor-1\+motion-1": they hold the motion of clips, which routing by distance cannot compute'
check_clean "no temporary files" .
