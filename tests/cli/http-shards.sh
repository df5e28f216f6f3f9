# Tars and shards on a server: the results are those of files, with few requests.
. "$(dirname "$0")/tap.sh"
need_urls
small_pictures
mkdir there
ddm-ingest -q --size 32 -o there/p.tar pics || exit 1
ddm-cluster -q -k 2 --holdout .2 -o a.tsv there/p.tar || exit 1
ddm-shard -q -a a.tsv --holdout .2 -o there/s there/p.tar || exit 1
gzip -c there/p.tar >there/p.tar.gz
cp there/p.tar "there/odd name =+%.tar"
range_server

# In order, whatever the server can do
for way in good dated bare plain endless cut cutplain long moved; do
	check "a tar: $way" ddm-cluster -q -k 2 --holdout .2 -o "$way.tsv" "$at/$way/p.tar"
	check_same "the clusters are those of the file" a.tsv $way.tsv
done
check "once more, after 503" ddm-cluster -q -k 2 --holdout .2 -o busy.tsv "$at/busy/p.tar"
check_same "the same" a.tsv busy.tsv
check "compressed" ddm-cluster -q -k 2 --holdout .2 -o gz.tsv "$at/good/p.tar.gz"
check_same "the same" a.tsv gz.tsv
check "with a query" ddm-cluster -q -k 2 --holdout .2 -o query.tsv "$at/good/p.tar?a=b&c"
check_same "the same" a.tsv query.tsv
check "ddm-ingest" ddm-ingest -q -o i.tar "$at/good/p.tar"
ddm-ingest -q -o j.tar there/p.tar
check_same "the same" i.tar j.tar
: >log
check "a tar that is read once" ddm-ingest -q -o x.tar "$at/good/p.tar"
check_out "four requests: what it is, its stamp, its first bytes, the rest" 4 grep -c . log

# Shards: all of them, parts, one file
ddm-select -q -o want.tar "width > 0" there/s/holdout || exit 1
for part in s/holdout s/holdout/ s/cluster-1 s/holdout/cluster-0 s; do
	ddm-select -q -o want.tar "width > 0" "there/$part" || exit 1
	for way in good cut; do
		check "$part: $way" ddm-select -q -o got.tar "width > 0" "$at/$way/$part"
		check_same "the samples of the folder" want.tar got.tar
		rm got.tar
	done
	rm want.tar
done
ddm-select -q -o want.tar "width > 0" there/s/cluster-0/000000.tar.zst || exit 1
check "one shard" ddm-select -q -o got.tar "width > 0" "$at/good/s/cluster-0/000000.tar.zst"
check_same "the same" want.tar got.tar
rm got.tar
check "one shard of a server without ranges" ddm-select -q -o got.tar "width > 0" "$at/plain/s/cluster-0/000000.tar.zst"
check_same "read as a tar" want.tar got.tar
check_exit 65 "shards of such a server" ddm-select -q -o no.tar "width > 0" "$at/plain/s/cluster-0"
check_err "it says so" 'plain/s/cluster-0/000000.tar.zst: the server does not send ranges of a file'
check_exit 66 "no such part" ddm-select -q -o no.tar "width > 0" "$at/good/none"
check_err "the URL and the status" "$at/good/none: HTTP status 404"

# What is held out is known of shards on a server too
for where in there "$at/good"; do
	check "near duplicates of $where" ddm-dedup -q --table -o near.tsv "$where/s"
	grep -v '^#' near.tsv | cut -f 1,2,7 >"held.$(basename "$where")" && rm near.tsv
done
check_same "the same parts" held.there held.good
check_grep "one is held out" '	holdout$' held.good
check "metrics of a tar with a query" ddm-eval-fid --metrics kd -o query.json "$at/good/p.tar?a=b" there/p.tar
check "metrics of a held-out part" ddm-eval-fid --metrics kd -o part.json "$at/good/s:holdout" there/p.tar

# Training: the bytes of a training on the folder
train() { ddm-train --model dit-nano/4 --steps 4 --batch 4 --threads 2 --validate-samples 8 -q "$@"; }
train --cluster 1 -o m there/s || exit 1
for way in good cut; do
	check "training on a server: $way" train --cluster 1 -o m-$way "$at/$way/s"
	check_same "the weights of a training on the folder" m/diffusion_pytorch_model.safetensors m-$way/diffusion_pytorch_model.safetensors
done
cp -r there/s there/t
flip there/t/cluster-1/000000.tar.zst 2000
check_exit 65 "an altered shard" train --cluster 1 -o no "$at/good/t"
check_err "its hash is compared with the manifest's" 'good/t/cluster-1/000000.tar.zst: SHA-256 [0-9a-f]* where the manifest says'
cut_to there/t/cluster-1/000000.tar.zst 9000
check_exit 65 "a shard that is cut short" train --cluster 1 -o no "$at/good/t"
rm there/t/cluster-1/000000.tar.zst
check_exit 66 "a shard that is missing" train --cluster 1 -o no "$at/good/t"
check_err "named" 'good/t/cluster-1/000000.tar.zst: HTTP status 404'
check_absent "no network" no
check_exit 66 "no shards there" train --cluster 1 -o no "$at/good/none"
check_err "the manifest is named" 'good/none/MANIFEST.tsv: HTTP status 404'
