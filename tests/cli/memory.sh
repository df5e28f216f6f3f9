# --plan predicts the memory of a training within 5% (of the process's own memory, without mapped files, during its steps): for an
# expert, one with a divided batch and recomputed activations, a U-Net with dropout, a router, and one of several ranks.
. "$(dirname "$0")/tap.sh"

[ -r /proc/self/status ] && grep -q '^RssAnon:' /proc/self/status || skip_all "the kernel does not tell a process's own memory"
mkdir pics
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics
tar xzf "$SRC/tests/golden/eval-c.tar.gz" -C pics
ddm-cluster -q -k 2 -o a.tsv pics || exit 1
ddm-shard -q -a a.tsv -o s pics || exit 1

# holds NAME PROGRAM OPTION...: measures after the first step, or after a minute
holds() {
	name=$1
	shift
	"$@" --plan -o m s >plan || exit 1
	planned=$(awk -F '\t' '$1 == "total_bytes" { print $2 }' plan)
	"$@" -q --steps 100000 --log-every 1 --validate-samples 0 -o m s &
	pid=$!
	tries=0
	until [ "$(grep -c '"loss"' m/train.jsonl 2>/dev/null)" -ge 1 ] 2>/dev/null || [ $tries -ge 600 ]; do
		sleep .1
		tries=$((tries + 1))
	done
	held=$(awk '$1 == "RssAnon:" { print 1024 * $2 }' "/proc/$pid/status")
	kill "$pid"
	wait "$pid"
	awk -v p="${planned:-0}" -v h="${held:-0}" 'BEGIN { exit !(h > 5e7 && p / h > .95 && p / h < 1.05) }'
	tap_result $? "$name" "planned ${planned:-nothing}, held ${held:-nothing}"
	rm -rf m
}

holds "an expert" ddm-train --size 32 --model dit-micro/4 --predict x0 --batch 32 --cluster all
holds "an expert, its batch cut, recomputing" ddm-train --size 32 --model dit-mini/4 --predict x0 --batch 32 --accumulate 2 --recompute --cluster all
holds "a U-Net with dropout" ddm-train --size 16 --model unet-nano --batch 64 --dropout .2 --cluster all
holds "a router" ddm-route-train --size 32 --model dit-nano/4 --batch 64

# rank_holds NETWORK OPTION...: sets planned and held, of rank 1 of four
rank_holds() {
	network="ddm-train --size 16 --predict x0 --batch 8 --accumulate 4 --cluster all --threads 1 --optimizer adamw --model $*"
	planned=$($network --ranks 4 --plan -o m s | awk -F '\t' '$1 == "total_bytes" { print $2 }')
	$mpi -n 4 $network -q --steps 100000 --log-every 1 --validate-samples 0 --chain-every 0 -o m s &
	pid=$!
	until_true grep -qs '"step":3,' m/train.jsonl
	held=$(awk '$1 == "RssAnon:" { print 1024 * $2 }' "/proc/$(second_rank "^ddm-train .*-o m s")/status")
	kill -USR1 "$pid"
	wait "$pid"
	rm -rf m
}

# MPI and its buffers take memory that no plan counts, so that two networks are compared.
if has_mpi; then
	rank_holds dit-nano/8 --hidden 16 --depth 1 --heads 2
	small_planned=$planned small_held=$held
	rank_holds dit-mini/4
	awk -v p=$((planned - small_planned)) -v h=$((held - small_held)) 'BEGIN { exit !(h > 5e7 && p / h > .95 && p / h < 1.05) }'
	tap_result $? "a rank of four" "planned $planned - $small_planned, held $held - $small_held"
else
	skip "a rank of four" "no ranks can be started here"
fi
