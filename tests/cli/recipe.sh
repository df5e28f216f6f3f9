# The demo at a tiny setting: its table, equal compute, and a second run that does nothing. kill.sh tests interruptions.
. "$(dirname "$0")/tap.sh"

need make
[ -x "$B/ddm-ingest" ] || skip_all "ddm-ingest is not built"

demo() { make -j2 -f "$SRC/share/recipes/demo.mk" BIN="$B" DEMO_TINY=1 PICTURES=drawn "$@"; }
check "undisturbed" demo DEMO=a
check_grep "a table" '^monolith +[0-9]' "$OUT"
check_out "its rows" "monolith top-1 top-2 full oracle prior" sh -c 'grep -v "^#" a/report.tsv | cut -f 1 | tr "\n" " " | sed "s/ $//"'

check_grep "a page" '<th scope="row">prior</th>' a/report.html
check_grep "that shows the routing" 'Weights under full' a/report.html
# The commands that the page lists give the same samples.
sed -n '/^<pre>RUN = /,/<\/pre>/p' a/report.html | sed 's/<[^>]*>//g; s/&lt;/</g; s/&gt;/>/g; s/&quot;/"/g; s/&amp;/\&/g' |
	sed "s|^include .*|include $SRC/share/recipes/ddm.mk|" >again.mk
make -n -f again.mk RUN=b BIN="$B" b/samples.tar 2>&1 | grep ddm-ingest >again.txt
make -n -f "$SRC/share/recipes/demo.mk" BIN="$B" DEMO_TINY=1 PICTURES=drawn DEMO=b b/samples.tar 2>&1 | grep ddm-ingest >first.txt
[ -s again.txt ] && cmp -s again.txt first.txt
tap_result $? "and how to do it again" "$(cat again.txt first.txt)"

# An arm with any policy and its own options; the page shows both.
any() {
	make -n -f "$SRC/share/recipes/demo.mk" BIN="$B" DEMO_TINY=1 PICTURES=drawn DEMO=b POLICIES=near ARMS='near monolith' ROUTE_near='full@1,distance|top-1@.5' \
		ROUTE_FLAGS_near='--centroids c.npy' "$@"
}
any b/samples/near.tar >near.txt 2>&1
check_grep "an arm of any policy" "--route 'full@1,distance.top-1@\.5' --centroids c\.npy" near.txt
# shellcheck disable=SC2016
any --eval='show:; $(info $(settings))' show >near.txt 2>&1
check_grep "its policy is a setting" '^ *ROUTE_near = full@1,distance.top-1@\.5$' near.txt
check_grep "and so are its options" '^ *ROUTE_FLAGS_near = --centroids c\.npy$' near.txt

# GFLOP that an arm's training took: gflop_per_image * steps * batch over its logs.
gflop() {
	cat "$@" | jq -s 'map(select(.event == "start") | .gflop_per_image * .steps * .stamp.batch) | add'
}
if command -v jq >/dev/null; then
	arms="$(gflop a/monolith/expert_0/train.jsonl) $(gflop a/model/expert_*/train.jsonl a/model/router/train.jsonl)"
	echo "$arms" | awk '{ exit !($2 > .9 * $1 && $2 < 1.1 * $1) }'
	tap_result $? "experts and router cost what the monolith does, but for rounding up to steps" "$arms"
else
	skip "equal compute" "no jq"
fi

# Networks that train on latents are measured and shown in pixels.
check "latents" demo DEMO=l VAE="$SRC/tests/golden/autokl" ARMS='monolith full'
check_grep "a table" '^full +[0-9]' "$OUT"
check_grep "of networks for latents" '"sample_size": 8' l/model/expert_3/config.json
check_out "whose samples are pictures of the size of the data" "$(ddm-info a/samples/full.tar | grep -E '^ +size')" sh -c \
	"ddm-info l/samples/full.tar | grep -E '^ +size'"
check_grep "the page can repeat it" '^ *VAE = .*autokl' l/report.html

# A budget that cannot be met is refused before anything is trained.
cp -Rp a c
rm -r c/monolith c/model c/samples c/eval
check_exit_any 2 "a router that costs more than the experts save" demo DEMO=c ROUTER_FLAGS='--steps 4000 --lr 1e-3 -q'
check_err "is told, with what to do" 'the router costs more than the experts save: .* Take a smaller ROUTER_NET'
check_absent "nothing was trained" c/monolith c/model
check_exit_any 2 "a batch smaller than the number of experts" demo DEMO=c BATCH=3
check_err "is told too" 'a BATCH of 3 has no picture for each of 4 experts'
check_absent "nothing was trained" c/monolith c/model
check_exit_any 2 "a network that is none" demo DEMO=c NET='--model no-such/4'
check_absent "nothing was trained" c/monolith c/model
check "the experts' epochs by hand" demo DEMO=c ROUTER_FLAGS='--steps 40 --lr 1e-3 -q' EXPERT_EPOCHS=1 c/model/expert_0/diffusion_pytorch_model.safetensors

touch stamp
sleep 0.1
check "again" demo DEMO=a
changed=$(find a -newer stamp -type f)
[ -z "$changed" ]
tap_result $? "does nothing" "$changed"

# The photographs of clothing
if [ -e /usr/share/datasets/fashion-mnist ]; then
	check "on photographs" make -j2 -f "$SRC/share/recipes/demo.mk" BIN="$B" DEMO_TINY=1 DEMO=d
	check_grep "a table" '^monolith +[0-9]' "$OUT"
	check_grep "of grey pictures" '"in_channels": 1' d/model/expert_3/config.json
	[ "$(ddm-info d/samples.tar | sed -n 's/^ *samples[^0-9]*\([0-9]*\).*/\1/p')" = 10000 ]
	tap_result $? "10,000 of them" "$(ddm-info d/samples.tar | head -n 5)"
else
	skip "on photographs" "dataset-fashion-mnist is not installed"
fi
