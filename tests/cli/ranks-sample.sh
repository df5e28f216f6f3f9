# Sampling by several ranks, each with some of the experts: the same bytes as one process, killed and frozen ranks, refusals.
. "$(dirname "$0")/tap.sh"

need_mpi
tar xzf "$SRC/tests/golden/eval-a.tar.gz"
ddm-cluster -q -k 3 --holdout .25 -o a.tsv . && ddm-shard -q -a a.tsv --holdout .25 -o s . || exit 1
net="--model dit-nano/4 --hidden 64 --depth 1 --heads 2 --batch 4 --lr 1e-3 --threads 1 --steps 3"
k=0
for o in "--predict velocity" "--predict x0" "--predict epsilon --path cosine"; do # objectives may differ
	ddm-train -q $net $o --cluster $k -o m/expert_$k s || exit 1
	k=$((k + 1))
done
ddm-route-train -q $net -o m/router s || exit 1
sample="ddm-sample -q -n 5 --batch 3 --steps 4 --seed 3 --threads 1 --spread experts"

for o in "--route full" "--route top-1" "--route top-2" "--route full --solver heun" "--route full --solver dopri5 --steps 1000" "--route top-2 --solver ddim"; do
	check "one process, $o" $sample $o --report one.json -o one.tar m
	check "two ranks, $o" $sample $o --ranks 2 --report two.json -o two.tar m
	check "three ranks, $o" $mpi -n 3 $sample $o -o three.tar m
	check_same "two ranks, $o: the pictures" one.tar two.tar
	check_same "two ranks, $o: the report" one.json two.json
	check_same "three ranks, $o: the pictures" one.tar three.tar
	rm -f ./*.tar ./*.json
done

# Experts of classes, guided
for k in 0 1; do
	ddm-train -q $net --condition cluster --class-dropout .2 --cluster $k -o c/expert_$k s || exit 1
done
ddm-route-train -q $net -o c/router s || exit 1
for o in "--cfg 3" "--cfg 3 --cfg-after-mixing" "--cfg 3 --cfg-rescale .7"; do
	check "one process, $o" $sample --route full --class all $o -o one.tar c
	check "two ranks, $o" $sample --route full --class all $o --ranks 2 -o two.tar c
	check_same "$o: the same bytes" one.tar two.tar
	rm -f one.tar two.tar
done
check "a weaker model that guides, one process" $sample --route full --class all --cfg 2 --guide c -o one.tar c
check "and two ranks" $sample --route full --class all --cfg 2 --guide c --ranks 2 -o two.tar c
check_same "the same bytes" one.tar two.tar

# Lost ranks
slow="ddm-sample -q -n 40 --batch 4 --steps 2000 --seed 3 --threads 1 --route full --format png --spread experts"
rank_1() { second_rank "^ddm-sample .*-o $1 m"; }
$mpi -n 2 $slow --comm-timeout 2 -o frozen.tar m 2>err &
pid=$!
until_true test -e .frozen.tar.part
kill -STOP $(rank_1 frozen.tar)
wait $pid
rc=$?
[ $rc -eq 69 ]
tap_result $? "a rank that stands still ends the sampling with 69"
check "rank 0 names it" grep -q 'ddm-sample: rank 0: rank 1 has not answered for 2 s (--comm-timeout)' err
check_absent "no output" frozen.tar
$mpi -n 2 $slow -o lost.tar m 2>err &
pid=$!
until_true test -e .lost.tar.part
kill -KILL $(rank_1 lost.tar)
wait $pid
[ $? -ne 0 ]
tap_result $? "a killed rank ends the sampling"
check_absent "no output" lost.tar

# Refusals
$mpi -n 4 $sample --route full -o many.tar m 2>err
rc=$?
[ $rc -eq 2 ]
tap_result $? "more ranks than experts end with 2"
check "with both numbers" grep -q '4 ranks, but the route uses 3 of the experts of m' err
$mpi -n 1 $sample --route full -o mixed.tar m : -n 1 $sample --route full --cfg 1 --steps 5 -o mixed.tar m 2>err
rc=$?
[ $rc -eq 73 ]
tap_result $? "ranks with other options end with 73"
check "rank 0 names the rank and the option" grep -q 'rank 1: started with other options or inputs than rank 0: steps: ' err
check_absent "nothing is made" mixed.tar many.tar
check_exit 69 "--ranks without mpirun" env PATH="$B" $(command -v ddm-sample) -q --route full --ranks 2 -o x.tar m
check_err "names the package" '--ranks 2: cannot start mpirun: .*; Debian has it in openmpi-bin'
