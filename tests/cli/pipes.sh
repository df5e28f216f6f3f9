# Named pipes instead of files: the program ends with a message and does not wait forever; pipes with a writer are read. Also a file that
# becomes shorter while it is mapped.
. "$(dirname "$0")/tap.sh"

mkfifo p
tar xf "$SRC/tests/golden/tiny-model.tar"
G=$SRC/tests/golden
cp "$G/eval-a.tar.gz" a.tar.gz

# quiet CODE NAME CMD...: CMD does not wait forever but ends with one line that names the pipe
quiet() {
	code=$1 name=$2
	shift 2
	check_exit "$code" "$name" timeout -s KILL 150 "$@"
	check_err "the pipe is named" '(^|[ /])p: .*'
}
quiet 66 "ddm-info" ddm-info p
quiet 66 "ddm-report" ddm-report a=p
quiet 66 "ddm-plot" ddm-plot -o x.svg loss p
quiet 66 "ddm-cluster -k 2" ddm-cluster -q -k 2 -o x.tsv --centroids p a.tar.gz
quiet 66 "ddm-shard -a" ddm-shard -q -a p -o x a.tar.gz

tar xzf a.tar.gz --one-top-level=pics
ddm-cluster -q -k 2 -o a.tsv pics && ddm-shard -q -a a.tsv -o shards pics || exit 1
quiet 66 "ddm-train --init-weights" ddm-train -q --model dit-nano/8 --cluster 0 --steps 1 --batch 8 --init-weights p -o e shards
check_absent "no run is begun" e

# A source of ddm-ingest that becomes a pipe after it was listed. The program is blocked at its output; a batch has 32 sources.
if command -v ddm-ingest >/dev/null; then
	quiet 65 "ddm-ingest of a pipe" ddm-ingest -o x.tar p
	mkdir gifs
	printf 'GIF89a\001\000\001\000\200\000\000\377\377\377\000\000\000!\371\004\001\000\000\000\000,\000\000\000\000\001\000\001\000\000\002\002D\001\000;' >gifs/z.gif
	for i in 0 1 2 3 4 5 6 7 8 9; do
		for k in 0 1 2 3 4 5 6 7 8 9; do
			cp gifs/z.gif gifs/b$i$k.gif
		done
	done
	mkfifo out
	timeout -s KILL 150 ddm-ingest -q --threads 1 --duplicates --frames 8 -o - lavfi@a:testsrc=size=128x128,noise=alls=100 gifs >out 2>"$ERR" </dev/null &
	pid=$!
	exec 7<out
	dd bs=512 count=1 <&7 >/dev/null 2>&1
	rm gifs/z.gif && mkfifo gifs/z.gif
	cat <&7 >/dev/null
	exec 7<&-
	wait $pid
	RC=$?
	[ $RC -eq 66 ]
	tap_result $? "a source of ddm-ingest becomes a pipe: 66" "exit $RC"
	check_err "it is named" 'gifs/z.gif: is a pipe'
else
	skip "ddm-ingest" "not built (--without-media)"
fi

timeout -s KILL 150 ddm-check p >"$OUT" 2>"$ERR" </dev/null
rc=$?
case $rc in 65 | 66) true ;; *) false ;; esac
tap_result $? "ddm-check ends" "exit $rc"
cp -r ensemble broken
rm broken/expert_0/diffusion_pytorch_model.safetensors
mkfifo broken/expert_0/diffusion_pytorch_model.safetensors
timeout -s KILL 150 ddm-sample -n 1 --steps 1 --route full -o x.tar broken >"$OUT" 2>"$ERR" </dev/null
rc=$?
case $rc in 65 | 66) true ;; *) false ;; esac
tap_result $? "a pipe for weights" "exit $rc"
check_absent "nothing is made of it" x.tar

# A pipe with a writer.
for f in ensemble/expert_0/config.json a.tar.gz; do
	cat "$f" >p &
	check "ddm-info of a pipe with $f" timeout -s KILL 150 ddm-info p
	wait
done
echo '{"fd": 1.5}' >one.json
check "a table" ddm-report -q -o t.tsv a=one.json
cat one.json >p &
check "ddm-report of a pipe" timeout -s KILL 150 ddm-report -q -o u.tsv a=p
wait
check_same "the same table" t.tsv u.tsv

# The sampler is blocked at the opening of its log, with its weights mapped.
mkfifo log
ddm-sample --map -n 2 --steps 2 --route full --log log -o m.tar ensemble >"$OUT" 2>"$ERR" </dev/null &
pid=$!
tap_mapped() { grep -q 'expert_0/diffusion_pytorch_model.safetensors' /proc/$pid/maps && ls .m.tar.tmp.*.*.* ; }
if [ -r /proc/$pid/maps ] && until_true tap_mapped; then
	for f in ensemble/expert_*/*.safetensors; do : >"$f"; done
	cat log >/dev/null
	wait $pid
	RC=$?
	[ $RC -eq 74 ]
	tap_result $? "a mapped file becomes shorter: 74" "exit $RC"
	check_err "and is named" 'ddm-sample: .*safetensors: cannot be read: it was cut short'
	check_absent "there is no output" m.tar
	check_clean "and nothing left behind" .
else
	kill -KILL $pid 2>/dev/null
	skip "a mapped file becomes shorter" "no /proc, or the weights are not mapped"
fi

# Text from a file is escaped in messages.
name=$(printf 'x\233\033y\303\251')
check_exit 66 "a name with controls" env LC_ALL=C ddm-info "$name"
check_err "is escaped" 'x\\x9b\\x1by\\xc3\\xa9'
check_exit 66 "in a locale of UTF-8" env LC_ALL=C.UTF-8 ddm-info "$name"
check_err "what is a letter there stays" "x.x9b.x1by$(printf '\303\251')"

# The message about a damaged tar is ours, not libarchive's.
gunzip -c a.tar.gz >whole.tar
cp whole.tar cut.tar
cut_to cut.tar 3000
check_exit 65 "a tar that is cut short" ddm-cluster -q -k 2 -o x.tsv cut.tar
check_err "says so" 'cut.tar: at byte [0-9]+ of the tar: cut short$'
