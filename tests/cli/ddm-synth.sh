# ddm-synth: laws of known optimum and their samples, through ddm-shard, ddm-cluster, ddm-exact, ddm-sample and ddm-train.
. "$(dirname "$0")/tap.sh"

check_program ddm-synth
law="ddm-synth gaussians --shape 1x4x4 -k 4 --rank 2 --separation 4 --floor .05 --weights .4,.3,.2,.1"
check "a law" $law -o law
check_err "what it is is said" '^law: 4 Gaussians of rank 2 in 1 x 4 x 4, standard deviation [0-9.]*[1-9] in their first direction, means [0-9.]* apart, noise 0.05$'
check_clean "no temporaries" .
check_grep "the router knows the shares" '"cluster_shares"' law/router/config.json
check "which ddm-check finds whole" ddm-check law
check_out "and ddm-info describes" '0.4, 0.3, 0.2, 0.1' sh -c 'ddm-info law/router | sed -n "s/^ *cluster shares *//p"'

# Samples
check "samples" ddm-synth draw -n 3000 --labels a.tsv --holdout .1 -o a.tar law
check_err "are counted" '^a.tar: 3000 samples of 1 x 4 x 4$'
awk '!/^#/ { n[$2]++; h += $3 == "holdout"; all++ }
	END { exit !(all == 3000 && h > 220 && h < 380 && n[0] > 1065 && n[0] < 1335 && n[3] > 220 && n[3] < 380) }' a.tsv
tap_result $? "in the shares of the components, five standard errors"
check "threads" ddm-synth draw -n 3000 --threads 3 --labels b.tsv --holdout .1 -o b.tar law
check_same "change no sample" a.tar b.tar
check_same "and no label" a.tsv b.tsv
check "another seed" ddm-synth draw -n 3000 --seed 1 -o c.tar law
check_differ "other samples" a.tar c.tar
ddm-synth draw -n 10 -o few.tar law 2>/dev/null && mkdir few all && tar xf few.tar -C few && tar xf a.tar -C all
check "fewer are the first ones" sh -c 'for f in few/*; do cmp -s "$f" "all/${f#few/}" || exit 1; done'
check_out "ten" 10 sh -c 'ls few | wc -l | tr -d " "'
check_stdout "a pipe" ddm-synth draw -n 10 -o - law
check "shards by the true components" ddm-shard -q -a a.tsv -o shards a.tar
check_grep "are of the law's partition" "$(sed -n 's/.*"partition": "\([0-9a-f]*\)".*/\1/p' law/router/config.json)" shards/MANIFEST.tsv
check "an array of the same samples" ddm-synth draw -n 3000 --rows rows.npy -o d.tar law
check_grep "with a stamp" '"command": "draw"' rows.npy.json
cat all/*.npy | od -An -v -t x1 -w192 | cut -d ' ' -f 130- >members.hex
tail -c 192000 rows.npy | od -An -v -t x1 -w64 | cut -d ' ' -f 2- >rows.hex
check_same "in the same order" members.hex rows.hex
# Means four deviations apart: k-means finds nine in ten of the components.
check "k-means by it" ddm-cluster -q -k 4 --features rows.npy -o kmeans.tsv a.tar
grep -v '^#' kmeans.tsv | cut -f 1,2 >found
grep -v '^#' a.tsv | cut -f 2 | paste found - | awk '{ n[$2 " " $3]++; if (n[$2 " " $3] > top[$2]) top[$2] = n[$2 " " $3] }
	END { for (k in top) s += top[k]; print s; exit !(s > 2700) }' >"$OUT"
tap_result $? "finds the components" "$(cat "$OUT") of 3000"
check_exit 2 "two outputs on standard output" ddm-synth draw -n 3 --labels - -o - law

# The shares of the clusters in what is sampled from the law's velocity: with 1000 samples the standard error is at most .016.
masses() {
	ddm-sample -n 1000 --seed 2 --batch 500 --route "$1" --format latent -o "$1.tar" --report report.json law 2>"$ERR" || return 1
	sed 's/.*"assigned":\[\([^]]*\)\].*/\1/' report.json | tr , ' ' >mass
	awk '{ exit !($1 > .335 && $1 < .465 && $2 > .235 && $2 < .365 && $3 > .135 && $3 < .265 && $4 > .035 && $4 < .165) }' mass
	tap_result $? "$1: the shares of the law" "$(cat mass)"
}
masses full
masses prior

# A vector of one element, of root mean square .5: so are its samples, within four standard errors.
check "a vector" ddm-synth gaussians --shape 1 -k 1 --rank 1 --rms .5 -o line
check "is sampled" ddm-sample -n 2000 --route full --format npz --solver heun --steps 20 -o line.npz line
mkdir line-npy
check "one by one" ddm-sample -n 400 --route full --format latent --solver heun --steps 20 -o line.tar line
tar xf line.tar -C line-npy
cat line-npy/*.npy | od -An -v -t f4 -w132 | awk '{ s += $33 * $33; n++ } END { s = sqrt(s / n); print n, s; exit !(n == 400 && s > .43 && s < .57) }' >"$OUT"
tap_result $? "with the law's root mean square" "$(cat "$OUT")"

# A trained expert under the router of the law
check "an expert of component 0" ddm-train -q --model dit-nano/2 --hidden 16 --depth 1 --heads 2 --batch 8 --steps 2 --validate-samples 0 --cluster 0 \
	-o trained/expert_0 shards
check "one of component 1" ddm-train -q --model dit-nano/2 --hidden 16 --depth 1 --heads 2 --batch 8 --steps 2 --validate-samples 0 --cluster 1 \
	-o trained/expert_1 shards
cp -R law/router law/expert_2 law/expert_3 trained
check "fit the law's router" ddm-sample -n 2 --steps 2 --route full --format latent -o mixed.tar trained

# The same command again
find law a.tar a.tsv -type f -exec touch -d 2001-01-01 {} +
check "a finished law again" $law -o law
check_err "says so" 'law: complete, nothing to do'
check "finished samples again" ddm-synth draw -n 3000 --labels a.tsv --holdout .1 -o a.tar law
check_err "say so" 'a.tar: complete, nothing to do'
check_out "touches nothing" "" find law a.tar a.tsv -newermt 2002-01-01 -type f
check "the same law elsewhere" $law -o law2
check "has the same bytes" diff -r law law2
check_exit 73 "other options" ddm-synth gaussians -o law
check_err "are named" 'rank|shape'
check_exit 73 "other samples" ddm-synth draw -n 3001 --labels a.tsv --holdout .1 -o a.tar law
check_err "are named" 'count: 3000 -> 3001'
check "another law" ddm-synth gaussians --shape 1x4x4 --seed 1 -o law3
check_differ "has other directions" law/router/model.safetensors law3/router/model.safetensors
check_exit 73 "samples of another law" ddm-synth draw -n 3000 --labels a.tsv --holdout .1 -o a.tar law3
check_err "which is named" 'inputs'
killed_after .05 ddm-synth draw -n 300000 -o killed.tar law
check_absent "killed: no tar" killed.tar

# Laws that there are not
refuse() {
	check_exit 2 "$1" ddm-synth gaussians -o none $3
	check_err "$1: why" "$2"
}
refuse "rank above the dimension" 'components of rank 17 do not fit into 16 dimensions' "--shape 1x4x4 --rank 17"
refuse "no noise" '^ddm-synth: --floor: .* from 0.0001' "--floor 0"
refuse "noise above all" 'a root mean square of 0.1 leaves nothing beside noise of 0.2' "--floor .2 --rms .1"
refuse "weights that do not add up" 'the weights add up to 0.9, expected 1' "-k 2 --weights .5,.4"
refuse "too few weights" '^ddm-synth: --weights: 2 weights for 3 components' "-k 3 --weights .5,.5"
refuse "a weight of zero" "'0' is not a weight" "-k 2 --weights 1,0"
refuse "more means than dimensions" '5 means at equal distances do not fit into 4 dimensions' "--shape 4 -k 5 --rank 1"
refuse "no room for the angles" 'need 18 dimensions, and there are 16' "--shape 1x4x4 -k 2 --rank 6 --overlap .5"
refuse "a cosine above 1" "'1.5' is neither 'random' nor a cosine" "--overlap 1.5"
refuse "a shape that is none" "'3x4' is neither" "--shape 3x4"
refuse "pictures that are not square" '8 x 9 are not square' "--shape 3x8x9"
check_absent "nothing was made" none
check_exit 2 "no command" ddm-synth -o none
check_exit 2 "an unknown one" ddm-synth letters -o none
check_err "the commands are named" 'gaussians.*draw'
check_exit 2 "no law" ddm-synth draw -o none
check_err "is named" 'draw needs the folder of a law'
check_exit 2 "a law for gaussians" ddm-synth gaussians -o none law
check_exit 66 "a law that is missing" ddm-synth draw -o none nothing
ddm-exact -o exact shards 2>/dev/null
check_exit 65 "samples in place of a law" ddm-synth draw -o none exact
check_err "are no law" 'exact/router: holds samples, not a law to draw from'

# A law that was tampered with
cp -R law bad
flip bad/router/model.safetensors 1000
check_exit 65 "an altered law" ddm-synth draw -o none bad
check_err "the file is named" 'bad/router/model.safetensors'
cp -R law bad2
sed -i 's/0\.4,/0.5,/' bad2/router/config.json
unseal bad2/router/config.json
check_exit 65 "other shares than the weights" ddm-sample -n 1 --route full -o none bad2
check_err "are noticed" '"cluster_shares"\[0\] is not the weight'

# A law without noise has no density. The noise is a part of the weights, whose hash is in config.json.
without_noise() { # FOLDER
	f=$1/diffusion_pytorch_model.safetensors
	[ -e "$f" ] || f=$1/model.safetensors
	old=$(sha256sum <"$f" | cut -c 1-64)
	n=$(od -An -tu8 -N8 "$f" | tr -d ' ')
	at=$(dd if="$f" bs=1 skip=8 count="$n" 2>/dev/null | sed 's/.*"noise":{[^}]*"data_offsets":\[\([0-9]*\),.*/\1/')
	dd if=/dev/zero of="$f" bs=1 seek=$((8 + n + at)) count=8 conv=notrunc 2>/dev/null
	sed -i "s/$old/$(sha256sum <"$f" | cut -c 1-64)/" "$1/config.json"
	unseal "$1/config.json"
}
cp -R law flat
without_noise flat/router
without_noise flat/expert_0
for command in "ddm-synth draw -o none flat" "ddm-sample -n 1 --route full -o none flat" "ddm-diagnose trajectories -o none flat" \
	"ddm-diagnose budget -o none flat law" "ddm-diagnose budget -o none law flat"; do
	check_exit 65 "without noise: $command" $command
	check_err "says why" 'component 0: its noise has the variance 0; without noise the law has no density'
done
check_absent "nothing was made" none
