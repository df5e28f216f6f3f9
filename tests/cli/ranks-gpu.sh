# Ranks of ddm-sample, ddm-encode and ddm-train on the GPUs of one computer, on stand-ins for the CUDA runtime and cuBLASLt: each takes a GPU of its own,
# and they make the bytes of one process.
. "$(dirname "$0")/tap.sh"

need_mpi
standin=$B/tests/standin
XDG_CACHE_HOME=$PWD/cache
LD_LIBRARY_PATH=$standin
STANDIN_OPENED=$PWD/opened
export XDG_CACHE_HOME LD_LIBRARY_PATH STANDIN_OPENED
tar xf "$SRC/tests/golden/tiny-model.tar"
mkdir pics && tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics

# on NAME PLACES: since the last call the ranks took these GPUs: "0:0 1:1" is rank 0 the first and rank 1 the second
on() {
	check_out "$1: the GPUs" "$2" sh -c 'sort -n opened | tr " \n" ": " | sed "s/ $//"'
	rm -f opened
}
sample="$standin/ddm-sample -q -n 6 --batch 4 --steps 2 --seed 3 --threads 1 --batch-invariant --route full"
check "sampling: one process" $sample --device cuda -o one.tar ensemble
on "one process" "0:0"
check "two ranks" $sample --device cuda --ranks 2 -o two.tar ensemble
on "two ranks" "0:0 1:1"
check_same "two ranks: the pictures" one.tar two.tar
check "three ranks, where two GPUs are" env STANDIN_DEVICES=2 $sample --device auto --ranks 3 -o three.tar ensemble
on "three ranks" "0:0 1:1 2:0"
check_same "three ranks: the pictures" one.tar three.tar
check "ranks that share the experts, started by mpirun" $mpi -n 2 $sample --device cuda --spread experts -o experts.tar ensemble
on "experts" "0:0 1:1"
check_same "experts: the pictures" one.tar experts.tar
check "a GPU that is named" $sample --device cuda:1 --ranks 2 -o named.tar ensemble
on "named" "0:1 1:1"
check_exit_any 69 "one that is not there" $sample --device cuda:7 --ranks 2 -o none.tar ensemble
check_err "rank 0 says so" 'rank 0: cuda:7: there are 4 GPUs, numbered from 0'
rm -f opened

encode="$standin/ddm-encode -q -m $SRC/tests/golden/autokl --posterior sample --threads 1"
check "encoding: one process" $encode --device cuda -o one-latents.tar pics
on "encoding" "0:0"
check "two ranks" $encode --device cuda --ranks 2 -o two-latents.tar pics
on "encoding, two ranks" "0:0 1:1"
check_same "the latents" one-latents.tar two-latents.tar

ddm-cluster -q -k 2 --holdout .25 -o a.tsv pics && ddm-shard -q -a a.tsv --holdout .25 -o s pics || exit 1
rm -f opened
check "training: four ranks on two GPUs, which add on the host" env STANDIN_DEVICES=2 $standin/ddm-train -q --model dit-nano/8 --hidden 16 --depth 1 \
	--heads 2 --batch 8 --steps 1 --threads 1 --predict x0 --cluster all --device cuda --precision f32 --ranks 4 --sum-on host -o m s
on "training" "0:0 1:1 2:0 3:1"
