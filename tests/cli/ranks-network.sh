# Ranks on two hosts: network namespaces with a cable between them, each with a host name of its own. The same bytes as one process, also over a slow link;
# a cut cable and a frozen host end the training within the time limit, and it goes on from its checkpoint.
. "$(dirname "$0")/tap.sh"

need_mpi
PATH=$PATH:/usr/sbin:/sbin
need ip unshare
[ "$(id -u)" -eq 0 ] || skip_all "network namespaces are made by root"
one=ddm-$$-1 two=ddm-$$-2 net=10.213.77

# shellcheck disable=SC2317 # the trap calls it
hosts_end() {
	hosts_rc=$?
	for n in $one $two; do
		# shellcheck disable=SC2046 # a word for each process
		kill -KILL $(ip netns pids $n 2>/dev/null) 2>/dev/null
		ip netns del $n 2>/dev/null
	done
	(exit $hosts_rc)
	tap_end
}
trap hosts_end EXIT
{ ip netns add $one && ip netns add $two && ip link add ddm1 netns $one type veth peer name ddm2 netns $two; } 2>why ||
	skip_all "no network namespaces here: $(head -n 1 why)"
ip -n $one addr add $net.1/24 dev ddm1
ip -n $two addr add $net.2/24 dev ddm2
for i in 1 2; do
	ip -n ddm-$$-$i link set lo up
	ip -n ddm-$$-$i link set ddm$i up
done

# In place of ssh: the arguments are the host and the command.
cat >agent <<END
#!/bin/sh
shift
exec ip netns exec $two unshare --uts sh -c "hostname two; \$*"
END
chmod +x agent
cat >hosts <<END
#!/bin/sh
# The command as two ranks, the first on this host.
hostname one
exec mpirun --host $net.1:1,$net.2:1 --mca plm_rsh_agent $PWD/agent --mca orte_keep_fqdn_hostnames 1 --mca btl tcp,self \\
	--mca btl_tcp_if_include $net.0/24 --mca oob_tcp_if_include $net.0/24 --bind-to none -n 2 "\$@"
END
on_hosts() { timeout 60 ip netns exec $one unshare --uts sh ./hosts "$@"; }

check_out "each rank is on a host of its own" "one
two" sh -c "timeout 60 ip netns exec $one unshare --uts sh ./hosts hostname | sort"

weights=diffusion_pytorch_model.safetensors
tar xzf "$SRC/tests/golden/eval-a.tar.gz"
ddm-cluster -q -k 2 -o a.tsv . && ddm-shard -q -a a.tsv -o s . || exit 1
run="ddm-train -q --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --predict x0 --cluster all --batch 8 --accumulate 2 --threads 1 --validate-samples 0"
check "one process" $run --steps 20 -o alone s
check "two hosts" on_hosts $run --steps 20 -o two s
check_same "the same bytes" alone/$weights two/$weights
check_grep "the log names the interface of each host" '"network":"ddm1 \(rank 0\), ddm2 \(rank 1\)"' two/train.jsonl
check "aloud" on_hosts ddm-train --predict x0 --model dit-nano/8 --hidden 16 --depth 1 --heads 2 --cluster all --batch 8 --threads 1 --steps 1 -o aloud s
check_err "it is said" '2 ranks by MPI, network interfaces: ddm1 \(rank 0\), ddm2 \(rank 1\)'
if command -v tc >/dev/null && ip netns exec $one tc qdisc replace dev ddm1 root tbf rate 8mbit burst 32kbit latency 50ms 2>/dev/null; then
	check "a slow link" on_hosts $run --steps 20 -o slow s
	check_same "the same bytes" alone/$weights slow/$weights
	ip netns exec $one tc qdisc del dev ddm1 root
else
	skip "a slow link" "no tc, or no token bucket in this kernel"
fi

# trains NAME: a long training on both hosts that is at work
trains() {
	timeout -s KILL 60 ip netns exec $one unshare --uts sh ./hosts $run --steps 100000 --checkpoint-every 50 --comm-timeout 2 -o "$1" s 2>"$1.err" &
	pid=$!
	until_true sh -c "ls -d $1/train/step-*" >/dev/null 2>&1
}
# ranks_of HOST: its processes of ddm-train
ranks_of() {
	for p in $(ip netns pids "$1"); do
		[ "$(readlink "/proc/$p/exe")" = "$B/ddm-train" ] && echo "$p"
	done
}
# ended: no rank is left
ended() { [ -z "$(ranks_of $one)$(ranks_of $two)" ]; }
# goes_on NAME: the lost rank is named, and one process goes on from the last checkpoint
goes_on() {
	check_grep "$1: the lost rank is named" 'ddm-train: rank 0: rank 1 has not answered for 2 s' "$1.err"
	check "$1: what is saved is whole" ddm-check "$1"
	step=$(ls -d "$1"/train/step-* | tail -n 1 | sed 's/.*step-0*//')
	check "$1: one process goes on" $run --steps $((step + 3)) --extend -o "$1" s
}

trains frozen
kill -STOP "$(ranks_of $two)"
wait $pid
rc=$?
[ $rc -eq 69 ] && ended
tap_result $? "frozen: ends with 69, on both hosts" "exit $rc"
goes_on frozen

# mpirun itself waits for the daemon of the host that it cannot reach; the test ends it.
trains cut
ip -n $one link set ddm1 down
until_true ended
tap_result $? "cut: the ranks end on both sides of the cut"
kill -KILL $pid
wait $pid 2>/dev/null
goes_on cut
