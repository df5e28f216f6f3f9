# ddm-sample with solvers of discrete time, on the untrained networks of tests/golden/tiny_model.py put on other paths.
. "$(dirname "$0")/tap.sh"

tar xf "$SRC/tests/golden/tiny-model.tar"
run="ddm-sample -n 5 --steps 4 --route full"

# on KIND PATH MODEL: a copy of the ensemble whose experts predict KIND on PATH
on() {
	cp -R ensemble "$3"
	for f in "$3"/expert_*/config.json; do
		sed "s/\"prediction\": \"[a-z0-9]*\"/\"prediction\": \"$1\"/; s/\"path\": \"[a-z_]*\"/\"path\": \"$2\"/" "$f" >config.new
		mv config.new "$f"
	done
}

on epsilon linear_betas eps
on v_prediction scaled_linear_betas angular
on x0 cosine cosine
for s in ddpm ddim,eta=.5 euler-discrete dpm++2m dpm++3s,type=heun unipc3 sde,strength=.5 ab2; do
	check "$s runs" $run --solver $s -o "$s.tar" --report $s.json eps
	check_grep "$s evaluates once a step" '"evaluations":4,' $s.json
	check "$s in batches of 2 and three threads" $run --solver $s --batch 2 --threads 3 -o again.$s.tar eps
	check_same "changes no byte" $s.tar again.$s.tar
done
check_differ "solvers differ" ddpm.tar dpm++2m.tar
check_grep "the stamp has the solver as it was asked for" '"solver":"ddim,eta=.5"' ddim,eta=.5.tar
for m in angular cosine; do
	check "$m: ddim runs" $run --solver ddim,spacing=trailing,clip=1 -o $m.tar $m
done
check "experts on another path are converted by euler" $run -o euler.tar eps
check "and by edm-heun" $run --solver edm-heun,churn=1 --report edm.json -o edm.tar eps
check_grep "which evaluates twice a step but in the last" '"evaluations":7,' edm.json
check "and by dopri5" $run --solver dopri5,rtol=1,atol=1 --steps 300 --report dopri5.json -o dopri5.tar eps
check_grep "as often as each picture needs" '"evaluations":[0-9.]*,"evaluations_most":[0-9]*,' dopri5.json
check "for many pictures at once as for each alone" $run --solver dopri5,rtol=1,atol=1 --steps 300 --batch 1 -o alone.tar eps
check_same "to the same bytes" dopri5.tar alone.tar
# Rows of one evaluation have different times, and the policy, the experts or the guidance may change between them.
sed 's/"cluster": 0/"cluster": 0, "time_range": [0.5, 1]/' ensemble/expert_0/config.json >high.json
sed 's/"cluster": 0/"cluster": 0, "time_range": [0, 0.5]/' ensemble/expert_0/config.json >low.json
mkdir timed && cp -R ensemble/expert_0 timed/expert_0 && cp -R ensemble/expert_0 timed/expert_1 && cp high.json timed/expert_0/config.json &&
	cp low.json timed/expert_1/config.json
adaptive() { # NAME ARGUMENTS...
	name=$1
	shift
	check "dopri5, $name" ddm-sample -n 9 --solver dopri5,rtol=.1,atol=.1 --steps 500 --report a.json -o a.tar "$@"
	check "$name: one at a time" ddm-sample -n 9 --solver dopri5,rtol=.1,atol=.1 --steps 500 --batch 1 --report b.json -o b.tar "$@"
	check_same "$name: the same samples" a.tar b.tar
	check_same "$name: in as many evaluations" a.json b.json
	rm a.tar b.tar a.json b.json
}
adaptive "a schedule" --route 'router|full@1,router|top-1@.8,uniform|full@.3' ensemble
adaptive "experts that are converted" --route 'router|top-1@1,router|full@.5' eps
adaptive "experts for parts of the times" --route time timed
adaptive "guidance in an interval" --class all --cfg 3 --cfg-rescale .7 --cfg-interval .2..0.7 guided
adaptive "guidance of the mixture" --class all --cfg 3 --guidance apg:r=2 --cfg-after-mixing guided
check "a list of betas" sh -c 'sed "s/\"path\": \"linear_betas\"/\"path\": \"betas\", \"trained_betas\": [0.01, 0.02, 0.03, 0.04, 0.5]/" \
	eps/expert_0/config.json >new && mv new eps/expert_0/config.json'
check "is a path of that many steps" ddm-sample -n 1 --steps 5 --route expert:0 --solver ddim -o five.tar eps
check_exit 2 "and of no more" ddm-sample -n 1 --steps 6 --route expert:0 --solver ddim -o x.tar eps
check_err "which are told" '6 steps are too many for this solver and spacing: path "betas" has 5'

# A pipeline in diffusers' layout
mkdir -p pipe/transformer unet/unet
cp angular/expert_0/* pipe/transformer
echo '{"_class_name": "DiTPipeline", "transformer": ["diffusers", "DiTTransformer2DModel"], "vae": [null, null]}' >pipe/model_index.json
check "a pipeline's transformer is sampled" ddm-sample -n 1 --steps 3 --route expert:0 --solver ddim -o pipe.tar pipe
check_grep "by its name" '"transformer/config.json":"[0-9a-f]{64}"' pipe.tar
check "ddm-info knows it" ddm-info pipe
check_grep "its class" 'DiTPipeline' "$OUT"
check_grep "its parts" 'transformer DiTTransformer2DModel$' "$OUT"
check_grep "its network's path" 'scaled_linear_betas' "$OUT"
check_exit 66 "a pipeline without a network" ddm-sample -n 1 --route expert:0 -o x.tar unet
check_err "says what was looked for" 'no transformer/config.json, no unet/config.json'
rm pipe/transformer/config.json
check_exit 66 "no config.json" ddm-sample -n 1 --route expert:0 -o x.tar pipe/transformer
check_err "says what it would tell" 'no config.json, which must name the network: its model_type'

# The solver of a pipeline's scheduler, used without --solver
mkdir -p sched/scheduler
cp -R "$SRC/tests/golden/pretrained/dit-diffusers" sched/transformer
named() { # NAME JSON EXPECTED OPTIONS...
	name=$1 json=$2 want=$3
	shift 3
	rm -f by.tar
	echo "$json" >sched/scheduler/scheduler_config.json
	check "$name" ddm-sample -n 1 --steps 4 --route expert:0 --class 1 --format latent -o by.tar "$@" sched
	check_grep "$name: its solver" "\"solver\":\"$want\"" by.tar
}
table='"beta_start": 0.0001, "beta_end": 0.02, "beta_schedule": "linear"'
named ddim "{\"_class_name\": \"DDIMScheduler\", $table, \"steps_offset\": 1}" 'ddim,spacing=leading,offset=1,clip=1'
check "as by hand" ddm-sample -n 1 --steps 4 --route expert:0 --class 1 --format latent \
	--solver ddim,spacing=leading,offset=1,clip=1 -o hand.tar sched
check_same "the same bytes" by.tar hand.tar
named "dpm, Python's infinity" "{\"_class_name\": \"DPMSolverMultistepScheduler\", $table, \"lambda_min_clipped\": -Infinity,
	\"use_karras_sigmas\": true, \"algorithm_type\": \"sde-dpmsolver++\", \"variance_type\": null}" \
	'dpm\+\+2m,spacing=linspace,sigmas=karras,sde=yes'
named "an explicit one wins" "{\"_class_name\": \"PNDMScheduler\", $table}" 'ddpm' --solver ddpm
named "so does what is of the flow" "{\"_class_name\": \"PNDMScheduler\", $table}" euler --expert-time match
named "the flow's own" '{"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 1.0}' 'euler","times":"paris'
named "the flow, shifted" '{"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 3.0}' 'euler,shift=3","times":"paris'
rm hand.tar
check "by hand" ddm-sample -n 1 --steps 4 --route expert:0 --class 1 --format latent --solver euler,shift=3 --timesteps paris -o hand.tar sched
check_same "the same pictures" by.tar hand.tar
check "not shifted" ddm-sample -n 1 --steps 4 --route expert:0 --class 1 --format latent --timesteps paris -o even.tar sched
check "others" sh -c '! cmp -s by.tar even.tar'
named "by the picture's tokens" '{"_class_name": "FlowMatchEulerDiscreteScheduler", "use_dynamic_shifting": true, "base_image_seq_len": 16,
	"max_image_seq_len": 32, "base_shift": 0.75, "max_shift": 2}' 'euler,mu=[0-9.]*","times":"paris'
unknown() { # KEY JSON
	echo "$2" >sched/scheduler/scheduler_config.json
	check_exit 65 "unknown: $1" ddm-sample -n 1 --steps 4 --route expert:0 --class 1 --format latent -o x.tar sched
	check_err "named" "scheduler_config.json: \"$1\": .* is not supported: give --solver"
}
unknown _class_name "{\"_class_name\": \"PNDMScheduler\", $table}"
unknown thresholding "{\"_class_name\": \"DDIMScheduler\", $table, \"thresholding\": true}"
unknown timestep_spacing "{\"_class_name\": \"DDIMScheduler\", $table, \"timestep_spacing\": \"even\"}"
unknown algorithm_type "{\"_class_name\": \"DPMSolverMultistepScheduler\", $table, \"algorithm_type\": \"dpmsolver\"}"
unknown invert_sigmas '{"_class_name": "FlowMatchEulerDiscreteScheduler", "invert_sigmas": true}'
unknown sigma_max "{\"_class_name\": \"EulerDiscreteScheduler\", $table, \"sigma_max\": 80}"
rm sched/scheduler/scheduler_config.json by.tar
check "no scheduler" ddm-sample -n 1 --steps 4 --route expert:0 --class 1 --format latent -o by.tar sched
check_grep "euler" '"solver":"euler"' by.tar

# A flow expert on the linear path, at equal log-SNR
flow="ddm-sample -n 5 --steps 4 --route expert:0"
for o in ddim,eta=1 euler-discrete dpm++2m; do
	check "$o draws from a flow expert" $flow --solver $o -o "flow-$o.tar" ensemble
done
check "in batches of one" $flow --solver dpm++2m --batch 1 -o flow.tar ensemble
check_same "no byte depends on that" flow.tar flow-dpm++2m.tar

# Experts of different paths, on the path of the first, at equal log-SNR
for o in ddim,eta=1 ddpm dpm++2m; do
	check "$o mixes experts of different paths" $run --solver $o -o "mixed-$o.tar" eps
done
check "in batches of two" $run --solver dpm++2m --batch 2 -o mixed.tar eps
check_same "no byte depends on that either" mixed.tar mixed-dpm++2m.tar

# Requests that cannot be served
check_exit 2 "more steps than a continuous path is cut into" ddm-sample -n 1 --steps 1000 --route expert:0 --solver ddim -o x.tar ensemble
check_err "and its name" '1000 steps are too many for this solver and spacing: path "linear" has 999'
check_exit 2 "no such solver" $run --solver rk5 -o x.tar ensemble
check_err "the solvers are listed" "--solver: 'rk5' is not one of euler, heun, midpoint, rk4, ab2, .*, ddpm, .*, unipc3"

# The manual's tables of solvers are the list in the source
sed -n 's/^[[:space:]]*\(FLOW\|DISCRETE\)([A-Z0-9_]*, "\([^"]*\)", \([0-9]\), "\([^"]*\)", NOISE_[A-Z_]*, "\([^"]*\)".*/.It Cm \2 Ta \3 Ta \4 Ta \5/p' \
	"$SRC/lib/diffusion/solverlist.h" | sed 's/ - / \\- /g' >rows
[ "$(tap_lines rows)" -eq "$(grep -c 'NOISE_.*, "' "$SRC/lib/diffusion/solverlist.h")" ]
tap_result $? "every solver of the list is read"
grep '^\.It Cm .* Ta [0-9] Ta .* Ta ' "$SRC/man/ddm-sample.1" >said
check_same "the manual has the same rows" said rows
check_exit 2 "dopri5 with times" ddm-sample -n 1 --route full --solver dopri5 --timesteps paris -o x.tar ensemble
check_err "which it chooses" '--timesteps has no effect with dopri5'
check_exit 2 "dopri5 with a log" ddm-sample -n 1 --route full --solver dopri5 --log x.jsonl -o x.tar ensemble
check_err "whose pictures have steps of their own" '--log is not possible with dopri5'
check_exit 2 "dopri5 with a shift" ddm-sample -n 1 --route full --solver dopri5,shift=3 -o x.tar ensemble
check_err "which is no key of it" "dopri5: 'shift' is not one of rtol, atol"
for route in sample 'router|top-1|keep:.1' budget:1; do
	check_exit 2 "dopri5 with $route" ddm-sample -n 1 --route "$route" --solver dopri5 -o x.tar ensemble
	check_err "which depends on more than x and t" 'dopri5 is not possible with a route of '
done
check_exit 2 "dopri5 with too few steps" ddm-sample -n 1 --route full --solver dopri5 --steps 2 -o x.tar ensemble
check_err "says how far it came" 'dopri5 reached t = 0\.[0-9]* in 2 steps: allow more with --steps'
check "dopri5 by one" ddm-sample -n 3 --batch 1 --route top-1 --solver dopri5,rtol=.1,atol=.1 --report one.json -o one.tar ensemble
check_err "tells its evaluations" ', [0-9.]* evaluations per picture and at most [0-9]*,'
check "by three" ddm-sample -n 3 --batch 3 --route top-1 --solver dopri5,rtol=.1,atol=.1 --report three.json -o three.tar ensemble
check_same "the batch changes no byte" three.tar one.tar
check_same "nor the report" three.json one.json
check_exit 2 "no such key" $run --solver ddim,order=2 -o x.tar angular
check_err "its keys are listed" "ddim: 'order' is not one of spacing, offset, clip, final, eta$"
check_exit 2 "a value it does not know" $run --solver ddim,spacing=even -o x.tar angular
check_err "those it knows are listed" "spacing: 'even' is not one of leading, linspace, trailing, respaced, quadratic"
check_exit 2 "a number out of range" $run --solver ddim,eta=2 -o x.tar angular
check_err "the range is told" "eta: '2' is not a number from 0 to 1$"
check_exit 2 "a learned variance that is not there" $run --solver ddpm,variance=learned -o x.tar angular
check_exit 2 "a shift of other solvers" $run --solver ddim,shift=3 -o x.tar angular
check_exit 2 "two shifts" $run --solver euler,shift=3,mu=1 -o x.tar ensemble
check_err "and why" 'give either shift or mu, not both'
check_exit 2 "a linear law of nothing" $run --solver heun,mu=-1,law=linear -o x.tar ensemble
check_exit 2 "a conversion that is none" $run --solver ddim --expert-time native -o x.tar angular
check_exit 2 "times of other solvers" $run --solver ddim --timesteps paris -o x.tar angular
sed 's/"time_scale": 1000.0/"time_scale": 999.0/' angular/expert_1/config.json >new && mv new angular/expert_1/config.json
check_exit 65 "a time_scale of T - 1" $run --solver ddim -o x.tar angular
check_err "says which is meant" 'expert_1/config.json: "time_scale" 999 on path "scaled_linear_betas" of 1000 steps: .*; change it to 1000'
check_exit 2 "guidance of more channels than there are" $run --cfg-channels 2 -o x.tar ensemble
sed 's/"path": "linear_betas"/"path": "betas"/' eps/expert_1/config.json >new && mv new eps/expert_1/config.json
check_exit 65 "a list of betas that is not there" $run -o x.tar eps
check_err "which is named" '"trained_betas"'

# Tables whose log-SNR is infinite at an end
singular() { # BETAS CODE REGEX: for an expert with these members of config.json, in both programs
	rm -rf end
	cp -R ensemble end
	sed "s/\"prediction\": \"[a-z0-9]*\"/\"prediction\": \"epsilon\"/; s/\"path\": \"[a-z_]*\"/$1/" ensemble/expert_1/config.json >end/expert_1/config.json
	for solver in euler ddim; do
		check_exit 65 "$1: $solver" ddm-sample -n 1 --steps 1 --route full --solver $solver -o x.tar end
		check_err "says why" "$2"
	done
	check_exit 65 "$1: ddm-diagnose" ddm-diagnose trajectories --routes full -o x.tsv end
	check_err "says why" "$2"
}
singular '"path": "betas", "trained_betas": [0.1, 0.5, 1.0]' '"trained_betas".2. is not between 0 and 1'
singular '"path": "betas", "trained_betas": [0.0, 0.5, 0.9]' '"trained_betas".0. is not between 0 and 1'
singular '"path": "betas", "trained_betas": [1e-320, 0.5]' 'end/expert_1: path "betas": the noise level must rise .* it does not at step 0'
singular '"path": "linear_betas", "beta_start": 0.1, "beta_end": 1' '"beta_end" is not a number'
singular '"path": "linear_betas", "beta_start": 0.5, "beta_end": 0.99' \
	'end/expert_1: path "linear_betas": the noise level must rise from step to step and stay below 1'
singular '"path": "sigmoid"' 'path "sigmoid"'
check_absent "nothing was made" x.tar x.tsv

