# Seals: of every kind of file that the programs publish, one altered bit anywhere is noticed by ddm-check.
. "$(dirname "$0")/tap.sh"

# altered NAME FILE [CHECKED]: a bit in each of many places of FILE is turned around; ddm-check of CHECKED (FILE) refuses each
altered() {
	tap_file=$2 tap_size=$(size_of "$2") tap_missed= tap_i=0
	cp "$2" whole
	tap_run ddm-check "${3:-$2}"
	tap_result "$RC" "$1: sound as written" "exit $RC"
	while [ $tap_i -lt $places ]; do
		# The first and last bytes one by one, the others evenly
		if [ $tap_i -lt 8 ]; then
			tap_at=$tap_i
		elif [ $tap_i -lt 24 ]; then
			tap_at=$((tap_size - 1 - (tap_i - 8) * 3))
		else
			tap_at=$(((tap_i - 24) * tap_size / (places - 24)))
		fi
		tap_i=$((tap_i + 1))
		[ $tap_at -ge 0 ] && [ $tap_at -lt "$tap_size" ] || continue
		flip "$tap_file" $tap_at
		ddm-check "${3:-$2}" >/dev/null 2>"$ERR" && tap_missed="$tap_missed $tap_at"
		cp whole "$tap_file"
	done
	[ -z "$tap_missed" ]
	tap_result $? "$1: no altered bit passes" "$2, of $tap_size bytes, passes with one bit altered at:$tap_missed"
	rm whole
}
places=60

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

# Programs that read it notice it too
cp -R e e2 && flip e2/$weights 3000
check_exit 65 "altered weights are not sampled from" ddm-sample -n 2 --route full --steps 2 -o x.tar e2
check_err "and are named" "e2/$weights: altered since it was written"
rm -r e2 && cp -R e e2 && sed -i 's/"hidden_size": 16/"hidden_size": 32/' e2/config.json
check_exit 65 "nor an altered configuration" ddm-sample -n 2 --route full --steps 2 -o x.tar e2
check_err "it is named" "e2/config.json: altered since it was written"
check_absent "nothing is written" x.tar

# Files without a seal are read as before
unseal e2/config.json
sed -i 's/"hidden_size": 32/"hidden_size": 16/' e2/config.json
check "a configuration whose seal was emptied" ddm-check e2
