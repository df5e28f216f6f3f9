# Licences and sources of samples: from files beside pictures through ddm-ingest to the shards, to ddm-info, and to the expert's record.
. "$(dirname "$0")/tap.sh"

need jq
small_pictures
ddm-cluster -q -k 2 --holdout .3 --seed 2 -o a.tsv pics || exit 1
ddm-shard -q -a a.tsv -o plain pics
check_out "no metadata, no counts" "null null" sh -c 'ddm-info -j plain | jq -r "[.provenance, .stamp.provenance] | map(tostring) | join(\" \")"'

# Set a is CC0, set b CC-BY, set c of an unknown licence; one file is not JSON, one names a number.
for f in pics/a/*.png; do echo '{"license": "CC0-1.0", "source": "museum", "width": 3}' >"${f%.png}.json"; done
for f in pics/b/*.png; do echo '{"licence": "CC-BY-4.0", "source": "caf\u00e9"}' >"${f%.png}.json"; done
for f in pics/c/*.png; do echo '{"source": "museum"}' >"${f%.png}.json"; done
if command -v ddm-ingest >/dev/null; then
	ddm-ingest -q --size 8 -o all.tar pics
	check_out "ddm-ingest keeps the metadata" 70 sh -c 'tar tf all.tar | grep -c "json\$"'
else
	(cd pics && tar cf ../all.tar --sort=name a b c)
	skip "ddm-ingest" "not built (--without-media)"
fi
ddm-cluster -q -k 2 --holdout .3 --seed 2 -o a.tsv all.tar
check "shards" ddm-shard -q -a a.tsv -o s all.tar
# of SET CLUSTER: training samples
of() { grep -v '^#' a.tsv | awk -F '\t' -v s="$1" -v c="$2" 'index($1, s "/") == 1 && $2 ~ c && $4 == "train"' | grep -c .; }
check_out "counted by cluster" "[[$(of a 0),$(of a 1)],[$(of b 0),$(of b 1)]]" \
	sh -c 'ddm-info -j s | jq -c ".stamp.provenance.licence | [.[\"CC0-1.0\"], .[\"CC-BY-4.0\"]]"'
check_out "and in all" "$(of a .) $(of b .) $(($(of a .) + $(of c .))) $(of b .)" \
	sh -c 'ddm-info -j s | jq -r ".provenance | [.licence[\"CC0-1.0\"], .licence[\"CC-BY-4.0\"], .source.museum, .source[\"café\"]] | map(tostring) | join(\" \")"'
check "as text" ddm-info s
check_grep "a line" '^  provenance  *.*CC0-1.0 [0-9]+' "$OUT"
check "the same command again" ddm-shard -q -a a.tsv -o s all.tar

net="--model dit-nano/8 --hidden 16 --depth 1 --heads 2 --size 8 --batch 4 --threads 1"
ddm-train -q $net --predict x0 --steps 1 --cluster 1 -o m/expert_1 s || exit 1
check_out "in the expert's record" "$(of a 1) $(of b 1)" \
	jq -r '[.provenance.licence["CC0-1.0"] // 0, .provenance.licence["CC-BY-4.0"] // 0] | map(tostring) | join(" ")' m/expert_1/config.json
check_out "which ddm-info shows" "$(of a 1)" sh -c 'ddm-info -j m/expert_1 | jq -r ".provenance.licence[\"CC0-1.0\"] // 0"'
ddm-route-train -q $net --steps 1 -o m/router s || exit 1
check_out "the router's is of all" "$(of a .)" jq -r '.provenance.licence["CC0-1.0"]' m/router/config.json
check "they can be used" ddm-check m

key=$(grep -v '^#' a.tsv | awk -F '\t' '/^b/ && $4 == "train" { print $1; exit }')
check "a sample is forgotten" ddm-forget -o n s "$key"
check_out "and not counted" "$(of a .) $(($(of b .) - 1)) $(($(of b .) - 1))" \
	sh -c 'ddm-info -j n | jq -r ".provenance | [.licence[\"CC0-1.0\"], .licence[\"CC-BY-4.0\"], .source[\"café\"]] | map(tostring) | join(\" \")"'
held=$(grep -v '^#' a.tsv | awk -F '\t' '/^a/ && $4 == "holdout" { print $1; exit }')
check "a held-out one" ddm-forget -o h s "$held"
check_out "was not counted" "$(of a .)" sh -c 'ddm-info -j h | jq -r ".provenance.licence[\"CC0-1.0\"]"'

# Metadata of any other form are kept and not counted.
echo 'no JSON' >pics/a/0000.json
echo '{"license": 3, "source": ["x"]}' >pics/a/0001.json
printf '{"license": "%0300d"}' 0 >pics/a/0002.json
ddm-cluster -q -k 2 --seed 2 -o odd.tsv pics
check "odd metadata" ddm-shard -q -a odd.tsv -o odd pics
check_out "are not counted" 3 sh -c "ddm-info -j odd | jq '$(find pics/a -name '*.png' | grep -c .) - .provenance.licence[\"CC0-1.0\"]'"

# Many sources
rm -rf pics
mkdir many
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C many
one=$(find many -name '*.png' | head -n 1)
i=0
while [ $i -lt 1005 ]; do
	i=$((i + 1))
	ln "$one" many/x$i.png
	echo "{\"source\": \"http://example.org/$i\"}" >many/x$i.json
done
ddm-cluster -q -k 2 --features random -o many.tsv many
ddm-shard -q -a many.tsv -o m1 many
check_out "further ones are counted together" "1000 5" sh -c 'ddm-info -j m1 | jq -r "[(.provenance.source | length), .provenance.other_source] | map(tostring) | join(\" \")"'
ddm-forget -o m2 m1 x1 x999 >/dev/null
check_out "also when they are forgotten" 1003 sh -c 'ddm-info -j m2 | jq "[.provenance.source[], .provenance.other_source] | add"'
