# If the first, second ... thread cannot be started, every program works without it, or says so in one line and ends with 71.
. "$(dirname "$0")/tap.sh"
. "$SRC/tests/faults/hold.sh"

mkdir pics
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C pics
tar xf "$SRC/tests/golden/tiny-model.tar"
ddm-cluster -q -k 2 --holdout .25 -o a.tsv pics && ddm-shard -q -a a.tsv --holdout .25 -o s pics || exit 1
ddm-exact --threads 1 -o exact s 2>/dev/null || exit 1
tar cf pics.tar pics

# without NAME OUT CMD...: runs CMD with no thread, and with only the first ones
without() {
	name=$1 out=$2
	shift 2
	seen=
	for n in $numbers; do
		rm -rf "$out"
		NO_THREADS=$n LD_PRELOAD=$preload_hold "$@" >"$OUT" 2>"$ERR" <"${input:-/dev/null}"
		RC=$?
		seen="$seen $RC"
		case $RC in
		0) [ -e "$out" ] ;;
		71) [ "$(grep -c 'cannot start' "$ERR")" -eq 1 ] && [ "$(tap_lines "$ERR")" -eq 1 ] ;;
		*) false ;;
		esac
		tap_result $? "$name, no thread from number $n on: 71 and one line, or done" "exit $RC"
	done
	case $seen in *71*) true ;; *) false ;; esac
	tap_result $? "$name: 71 at least once" "$seen"
}
numbers="1 2 3 4 5"
small="--model dit-nano/8 --hidden 16 --depth 1 --heads 2 --batch 4 --steps 2 --validate-samples 0"
without ddm-cluster x.tsv ddm-cluster -q --threads 3 -k 2 -o x.tsv pics
without ddm-shard x ddm-shard -q --threads 3 -a a.tsv --holdout .25 -o x pics
# shellcheck disable=SC2086
without ddm-train x ddm-train -q $small --threads 3 --predict x0 --cluster all -o x s
# shellcheck disable=SC2086
without ddm-route-train x ddm-route-train -q $small --threads 3 -o x s
without ddm-exact x ddm-exact --threads 3 -o x s
without ddm-synth x ddm-synth gaussians --threads 3 -o x
without ddm-sample x.tar ddm-sample -n 2 --route top-2 --steps 2 --threads 3 -o x.tar ensemble
without ddm-eval-fid x.json ddm-eval-fid --features pix --threads 3 -o x.json s pics
without ddm-diagnose x.tsv ddm-diagnose budget -n 2 --timesteps .5 --routes full --threads 3 -o x.tsv exact s
without ddm-encode x ddm-encode -q -m "$SRC/tests/golden/autokl" --threads 3 -o x pics
if command -v ddm-ingest >/dev/null; then
	numbers="1 2" # of its own; FFmpeg starts others, as many as the machine has processors
	without ddm-ingest x.tar ddm-ingest --size 8 --threads 3 -o x.tar pics
fi
# A pipe is read by a separate thread.
for n in 1 2 3 4; do
	rm -f x.json
	cat pics.tar 2>/dev/null | NO_THREADS=$n LD_PRELOAD=$preload_hold ddm-eval-fid --features pix --threads 1 -o x.json s - >"$OUT" 2>"$ERR"
	RC=$?
	[ $RC -eq 0 ] || [ $RC -eq 71 ]
	tap_result $? "standard input, no thread from number $n on" "exit $RC"
done
