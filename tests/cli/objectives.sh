# Experts of every objective: trained, sampled alone with both kinds of solvers, and mixed with an expert of another path and a router of a third. A
# default that is given explicitly gives the same file.
. "$(dirname "$0")/tap.sh"

net="--model dit-nano/4 --hidden 48 --depth 1 --heads 2 --batch 8 --steps 4 --validate-samples 0"
weights=diffusion_pytorch_model.safetensors

mkdir pics pics/a pics/b
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics/a
tar xzf "$SRC/tests/golden/eval-c.tar.gz" -C pics/b
ddm-cluster -q -k 2 -o a.tsv pics || exit 1
ddm-shard -q -a a.tsv -o s pics || exit 1

# Requests
for o in "--path linear_betas" "--path sigmoid" "--predict v2" "--weighting snr" "--weighting min-snr:0" "--weighting none:1" "--time discrete:10" \
	"--time lognormal:1"; do
	check_exit 2 "$o" ddm-train -q $net --cluster 0 $o -o m s
done
check_err "the numbers of the law are told" "--time: 'lognormal:1' is not lognormal\[:MEAN,STD\] with MEAN a number from -20 to 20, STD a number from"
check_exit 2 "no such law" ddm-train -q $net --cluster 0 --time normal -o m s
check_err "the laws are listed" "--time: 'normal' is not one of uniform, logit-normal\[:MEAN,STD\], lognormal\[:MEAN,STD\], discrete"
check_exit 2 "noise through a network that is too narrow" ddm-train -q $net --patch 8 --cluster 0 --predict epsilon -o m s

# Defaults given explicitly
check "the usual objective" ddm-train -q $net --cluster 0 -o usual s
check "said aloud" ddm-train -q $net --cluster 0 --path linear --predict velocity --weighting none --time uniform -o said s
check_same "is the same file" usual/$weights said/$weights
check_same "and configuration" usual/config.json said/config.json

# A router on another path than the experts
check "a router on the cosine path" ddm-route-train -q --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --batch 8 --steps 4 --path cosine \
	--time discrete --validate-samples 0 -o router s
check_grep "is told" '"path": "cosine"' router/config.json

# Each alone, and in an ensemble of three paths
i=0
while read -r path predict weighting time recorded; do
	train="ddm-train -q $net --cluster 1 --path $path --predict $predict --weighting $weighting --time $time"
	check "$path, $predict, $weighting, $time" $train -o "e$i" s
	check_grep "its path is told" "\"path\": \"$recorded\"" "e$i/config.json"
	check_grep "and its prediction" "\"prediction\": \"$predict\"" "e$i/config.json"
	for solver in heun ddim dpm++2m; do
		check "sampled by $solver" ddm-sample -q -n 2 --steps 3 --solver $solver -o "e$i-$solver.tar" "e$i"
	done
	mkdir "m$i"
	cp -R usual "m$i/expert_0" && cp -R "e$i" "m$i/expert_1" && cp -R router "m$i/router" || exit 1
	check "mixed" ddm-sample -q -n 3 --steps 3 --route full -o "m$i.tar" "m$i"
	check "in other batches" ddm-sample -q -n 3 --steps 3 --route full --batch 1 -o x.tar "m$i"
	check_same "the same" "m$i.tar" x.tar
	rm x.tar
	i=$((i + 1))
done <<'END'
linear x0 none lognormal linear
cosine v_prediction sigmoid:-1 logit-normal cosine
ddpm epsilon none discrete linear_betas
scaled-linear epsilon min-snr uniform scaled_linear_betas
gvp velocity none discrete gvp
edm edm none lognormal edm
END

# Starting from a network of discrete time: on a path of discrete time its input is the step, 0 to 999, elsewhere 999 t
check "from an expert of a path of steps to one" ddm-train -q $net --cluster 0 --pretrained e2 --path ddpm --predict epsilon -o steps s
check_grep "is told the steps" '"time_scale": 1000' steps/config.json
check "and can be sampled" ddm-sample -q -n 1 --steps 3 --solver ddim -o x.tar steps
check "to the linear path" ddm-train -q $net --cluster 0 --pretrained e2 -o flow s
check_grep "is told 999 t" '"time_scale": 999' flow/config.json

check "a solver of discrete time, of flows of one path" ddm-sample -q -n 3 --steps 4 --route full --solver dpm++2m -o flow.tar m0
check "of different paths" ddm-sample -q -n 3 --steps 4 --route full --solver dpm++2m -o paths.tar m2
