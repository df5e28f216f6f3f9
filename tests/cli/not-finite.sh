# Networks and trainings that are not finite: messages say so and name the network at fault.
. "$(dirname "$0")/tap.sh"

tar xf "$SRC/tests/golden/tiny-model.tar"
weights=expert_1/diffusion_pytorch_model.safetensors
cp -R ensemble bad
# NaN in any of the number formats
printf '\377\377\377\377\377\377\377\377' | dd of="bad/$weights" bs=1 seek=$(($(size_of "bad/$weights") - 8)) conv=notrunc 2>/dev/null
check_exit 65 "sampling with an expert that is not finite" ddm-sample -n 2 --steps 4 --route full -o x.tar bad
check_err "names the expert, not the router" '^ddm-sample: bad/expert_1: unusable network: [0-9]+ weights are NaN or infinite'
check_exit 65 "and by itself" ddm-sample -n 2 --steps 4 --route expert:1 -o x.tar bad
check_err "as well" 'bad/expert_1: unusable network'
check_absent "nothing is written" x.tar
check_exit 65 "ddm-check" ddm-check bad
check_err "names it" "bad/$weights: [0-9]+ numbers of .* are not finite"

# The files of a training that gave up
mkdir -p given-up/train
cat >given-up/train.jsonl <<'END'
{"event":"start","step":0,"steps":100,"time":1700000000,"host":"h","parameters":1,"samples":8,"stamp":{"program":"ddm-train","version":"0.1","batch":4}}
{"step":19,"loss":0.5,"skipped":0}
{"step":20,"loss":null,"skipped":1}
END
check_exit 76 "a training that diverged" ddm-check given-up
check_err "is a problem" 'given-up: its training diverged: the loss of step 20 is not finite'
check_exit 76 "with --complete too" ddm-check -c given-up
sed -i '$d' given-up/train.jsonl
check "one whose last loss is finite is none" ddm-check given-up
