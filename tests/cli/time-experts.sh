# Models of experts for parts of the times: policy `time`, times and clusters together, refusals. Exact experts make every comparison one of bytes.
. "$(dirname "$0")/tap.sh"

ddm-shard -q -a "$SRC/tests/golden/blobs.tsv" -o s "$SRC/tests/golden/blobs.tar.gz" || exit 1
mono="ddm-exact --cluster all"
sample="ddm-sample -q -n 64 --steps 16 --format latent --threads 1"
npy() { rm -rf "$1.d" && mkdir "$1.d" && tar xf "$1" -C "$1.d" && cat "$1.d"/*.npy >"$1.npy" && [ -s "$1.npy" ]; }

# same NAME ROUTE MODEL ROUTE MODEL [OPTION..]: two routes give the same samples
same() {
	name=$1 ra=$2 ma=$3 rb=$4 mb=$5
	shift 5
	rm -f a.tar b.tar
	check "$name: $ra" $sample --route "$ra" "$@" -o a.tar "$ma"
	check "$name: $rb" $sample --route "$rb" "$@" -o b.tar "$mb"
	npy a.tar && npy b.tar && cmp -s a.tar.npy b.tar.npy
	tap_result $? "$name: $rb gives the samples of $ra" "$(cmp a.tar.npy b.tar.npy 2>&1)"
}

# Whole data, three ranges: the monolith to the bit. Times of the grid are boundaries too: with 16 steps both .5 and .875.
check "the monolith" $mono -o mono s
for r in "0 0...5" "1 .5...875" "2 .875..1"; do
	check "for times ${r#* }" $mono --time-range "${r#* }" -o "t/expert_${r% *}" s
done
check_out "a range of ddm-exact is in config.json" "0..0.5" sh -c 'ddm-info --json t/expert_0 | sed "s/.*\"time_range\":\"\([0-9.]*\)\".*/\1/"'
for solver in euler heun rk4 ddim dpm++2m; do
	same "$solver" expert:0 mono time t --solver $solver
	same "$solver" expert:0 mono full t --solver $solver
done
check "no route is the route time" $sample -o none.tar t
check_grep "the stamp says so" '"route":"time"' none.tar
check_out "every range is used" "5 6 5" sh -c "$sample --route time --steps 16 --report r.json -o r.tar t &&
	sed 's/.*\"weight\":\[\([^]]*\)\].*/\1/' r.json | tr , ' ' | awk '{ print (\$1 > .4) + 4 \" \" (\$2 > .3) + 5 \" \" (\$3 > .1) + 4 }'"
check "a path of a thousand steps" $mono --path linear_betas --predict epsilon -o dmono s
for r in "0 0...5" "1 .5..1"; do
	check "for times ${r#* }" $mono --path linear_betas --predict epsilon --time-range "${r#* }" -o "d/expert_${r% *}" s
done
same "of discrete time" expert:0 dmono time d --solver ddim
same "converted to the linear path" expert:0 dmono time d --solver heun
check_exit 2 "boundaries that are noise on another path" ddm-sample --route budget:1 -o x.tar d
check_err "a budget is refused" 'budget:GFLOP: the experts of this model are for different times'

# Four clusters, two ranges, one router: what four experts and the router give
check "clusters" ddm-exact -o m s
check "their noisy half" ddm-exact --time-range .5..1 -o hi s
check "and the other" ddm-exact --time-range 0...5 -o lo s
mkdir x && cp -R m/router x
for k in 0 1 2 3; do
	cp -R lo/expert_$k x/expert_$k
	cp -R hi/expert_$k x/expert_$((4 + k))
done
mkdir any && cp -R m/router any
for k in 0 1 2 3; do
	cp -R lo/expert_$k any/expert_$((8 - k))
	cp -R hi/expert_$k any/expert_$(((k + 1) % 4))
done
for route in full top-1 top-2 threshold:.2 sample prior "uniform|full" "router:2|top-2|keep:.1" "router|full@1,router|top-1@.7"; do
	same "times and clusters" "$route" m "$route" x
done
for route in top-1 sample prior "router:2|top-1|keep:.1"; do # weighted sums of several experts add in the order of their numbers
	same "experts in another order" "$route" m "$route" any
done
same "oracle" oracle m oracle x --labels "$SRC/tests/golden/blobs.tsv"
check "check" ddm-check x

# A monolith where noise is strong, clusters where it is not; the router is asked only there.
mkdir h && cp -R lo/expert_* m/router h
check "one expert for strong noise" $mono --time-range .5..1 -o h/expert_4 s
same "the full mixture is the monolith there" "time@1,router|top-1@.5" h "router|top-1" h
check_exit 2 "time where several own" ddm-sample --route time -o x.tar h
check_err "both are named" 'expert_0 \(times 0\.\.0\.5\) and expert_1 \(times 0\.\.0\.5\) are both for t = 0: weights .time. need one'

# Refusals
mkdir gap && cp -R t/expert_0 t/expert_2 gap
check_exit 2 "a gap" ddm-sample -o x.tar gap
check_err "both are named" 'no expert is for times from 0\.5 to 0\.875: expert_0 ends at 0\.5, expert_2 begins at 0\.875'
rm -r gap/expert_2
check_exit 2 "nothing for noise" ddm-sample --route time -o x.tar gap
check_err "is named" 'no expert is for times from 0\.5 to 1: expert_0 ends at 0\.5$'
for route in "" "--route full" "--route time"; do
	check_exit 2 "a folder of one such expert ${route:-by default}" ddm-sample $route -o x.tar gap/expert_0
done
check_err "is a gap" 'no expert is for times from 0\.5 to 1: expert_0 ends'
check "one expert of a part is sampled if it is asked for" $sample --route expert:0 -o part.tar gap
mkdir over && cp -R t/expert_0 over
check "overlapping" $mono --time-range .4..1 -o over/expert_1 s
check_exit 2 "overlap under time" ddm-sample --route time -o x.tar over
check_err "is named" 'expert_0 \(times 0\.\.0\.5\) and expert_1 \(times 0\.4\.\.1\) are both for t = 0\.4'
check_exit 2 "and under the router" ddm-sample --route full -o x.tar over
check_err "is named" 'are both for t = 0\.4: weights by cluster need'
same "two owners of all the data" expert:0 mono "uniform|top-1" over
cp -R x twice && cp -R twice/expert_0 twice/expert_8
check_exit 2 "two of a cluster" ddm-sample --route full -o x.tar twice
check_err "are named" 'expert_0 .* and expert_8 .* are both for t = 0: weights by cluster need experts of different clusters'
cp -R gap path
check "another path" $mono --path gvp --time-range .5..1 -o path/expert_1 s
check_exit 65 "experts whose t means other noise" ddm-sample -o x.tar path
check_err "both are named" 'expert_0 was trained on path "linear" and expert_1 on "gvp"'
check_exit 2 "time without ranges" ddm-sample --route time -o x.tar m
check_err "is refused" 'expert_0 \(times 0\.\.1\) and expert_1 \(times 0\.\.1\) are both for t = 0'
check_exit 2 "ddm-diagnose" ddm-diagnose budget --device cpu x s
check_err "needs experts of all times" 'its experts are for parts of the times'
check_absent "nothing is made" x.tar
