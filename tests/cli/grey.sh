# --grey: experts and a router of one channel make grey pictures; what does not agree is refused.
. "$(dirname "$0")/tap.sh"

few="--batch 4 --steps 2 --grey -q"
expert="ddm-train --model unet-nano --size 16 $few"

mkdir pics pics/a pics/b m
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics/a
tar xzf "$SRC/tests/golden/eval-c.tar.gz" -C pics/b
ddm-cluster -q -k 2 --holdout .2 -o a.tsv pics || exit 1
ddm-shard -q -a a.tsv -o s pics || exit 1

check "an expert" $expert --cluster 0 -o m/expert_0 s
check "another" $expert --cluster 1 -o m/expert_1 s
check "a router" ddm-route-train --model dit-nano/8 --depth 1 --size 16 $few -o m/router s
check_grep "an expert has one channel" '"in_channels": 1' m/expert_0/config.json
check "samples" ddm-sample -q -n 4 --steps 2 --route full -o out.tar m
mkdir out && tar xf out.tar -C out
picture=$(find out -name '*.png' | head -n 1)
# Byte 25 of a PNG is its colour type; 0 is grey.
[ "$(od -An -tu1 -j25 -N1 "$picture" | tr -d ' ')" = 0 ]
tap_result $? "are grey"
check "the error of the ensemble is measured" ddm-diagnose --device cpu -n 4 -o budget.tsv budget m s
check "ddm-eval-fid compares them with the pictures" ddm-eval-fid -o eval.json s out.tar

check_exit 73 "with colours in the same folder" ddm-train -q --model unet-nano --size 16 --batch 4 --steps 2 --cluster 0 -o m/expert_0 s
check_err "the difference is named" grey
rm -r m/expert_1
check "an expert in colour" ddm-train -q --model unet-nano --size 16 --batch 4 --steps 2 --cluster 1 -o m/expert_1 s
check_exit 65 "an ensemble of both" ddm-sample -q -n 1 --route full -o no m
check_err "the channels are named" channels
