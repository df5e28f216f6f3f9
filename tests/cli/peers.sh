# The shared parts of the comparisons in tests/peers: every PEER_SEED gives inputs.
. "$(dirname "$0")/tap.sh"

need python3
seeded() { # SEED CODE
	PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$SRC/tests/peers PEER_SEED=$1 DDM_TEST_DATA= B=$B SRC=$SRC python3 -c "from peers import *
$2"
}
for seed in 0 1 7 633 20261122 4294967295 99999999999999999999; do
	check_out "seed $seed: as many as are asked for" "5 5 3 0" seeded $seed \
		'print(len(some_of(list(range(633)), 5)), len(some_of(list(range(5)), 5)), len(some_of(list(range(3)), 5)), len(some_of([], 5)))'
	check_out "seed $seed: what numpy takes for one" "True" seeded $seed 'print(0 <= SEED < 1 << 32)'
done
check_out "one that was small stays what it was" "[7, 8, 9]" seeded 7 'print(some_of(list(range(633)), 3))'
check_out "in their order" "True" seeded 20261122 'x = some_of(list(range(633)), 9); print(x == list(range(x[0], x[0] + 9)))'
