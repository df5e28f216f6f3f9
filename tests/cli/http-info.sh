# ddm-info and ddm-check of files and SHARDS folders on a server: the facts of the files, by few bytes where those are enough.
. "$(dirname "$0")/tap.sh"
need_urls
need jq
small_pictures
mkdir there
ddm-ingest -q --size 32 -o there/p.tar pics || exit 1
ddm-cluster -q -k 2 --holdout .2 -o there/a.tsv there/p.tar || exit 1
ddm-shard -q -a there/a.tsv --holdout .2 -o there/s there/p.tar || exit 1
gzip -c there/p.tar >there/p.tar.gz
cp "$(find pics/a -type f | sort | head -n 1)" there/x.png || exit 1
# Larger than the first block that is asked for: only ranges show that little was read
python3 - <<'PY' || exit 1
import json, struct
head = json.dumps({"w": {"dtype": "F32", "shape": [1000, 1000], "data_offsets": [0, 4000000]}}).encode()
open("there/w.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + bytes(3999996) + struct.pack("<f", float("nan")))
tensors = {f"layer.{i}.weight": {"dtype": "F32", "shape": [10], "data_offsets": [40 * i, 40 * i + 40]} for i in range(3000)}
head = json.dumps(tensors).encode()
assert len(head) > 1 << 17
open("there/long.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + bytes(120000))
tensors["large"] = {"dtype": "U8", "shape": [1 << 26], "data_offsets": [120000, 120000 + (1 << 26)]}
head = json.dumps(tensors).encode()
with open("there/large.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(head)) + head)
    f.truncate(8 + len(head) + 120000 + (1 << 26))
open("there/false.safetensors", "wb").write(struct.pack("<Q", 90000000) + b"{" + bytes(300000))
text = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000, 1000), }"
text += " " * (117 - len(text)) + "\n"
open("there/x.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + bytes(4000000))
text = text.replace("(1000", "(9000")
with open("there/large.npy", "wb") as f:
    f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode())
    f.truncate(10 + len(text) + 36000000)
PY
range_server

facts() { # OPERAND, without what depends on the place
	ddm-info --json "$@" | jq -S 'del(.file, .error)'
}
same_facts() { # NAME WAY
	facts "there/$1" >want.json
	check_out "$1 on a server ($2): the facts of the file" "$(cat want.json)" facts "$at/$2/$1"
}
for f in w.safetensors long.safetensors x.npy x.png a.tsv p.tar.gz s s/MANIFEST.tsv s/cluster-0/000000.tar.zst; do
	same_facts $f good
done
for f in x.png p.tar.gz s s/cluster-0/000000.tar.zst; do
	same_facts $f cut
done
for f in w.safetensors x.npy x.png a.tsv s/MANIFEST.tsv; do
	same_facts $f plain
done
facts there/p.tar >want.json
check_out "a tar" "$(cat want.json)" facts "$at/good/p.tar"
check_out "of a server without ranges" "$(cat want.json)" facts "$at/plain/p.tar"
check_out "a shard of such a server is read as a tar" tar sh -c "ddm-info -j $at/plain/s/cluster-0/000000.tar.zst | jq -r .kind"
check_out "a query is not shown" "$at/good/x.npy" sh -c "ddm-info --json '$at/good/x.npy?secret=1' | jq -r .file"

# How much is read: what the cache holds then
for f in large.safetensors large.npy; do
	check "$f" env DDM_CACHE=cache ddm-info "$at/good/$f"
	check_out "$f: its head alone is read" few sh -c 'du -s -B 1 cache | awk "{ print \$1 < 12000000 ? \"few\" : \$1 }"'
	rm -r cache
done
: >log
check "a SHARDS folder" ddm-info "$at/good/s"
check_out "of all shards the first alone is asked for" 1 sh -c "grep -o '/good/s/[^ ]*zst' log | sort -u | wc -l"

# Everything is read, and what is wrong is named
check "broken answers: sound files" ddm-check "$at/cut/p.tar.gz" "$at/cut/a.tsv" "$at/cut/x.png"
for way in good plain; do
	check "$way: sound files" ddm-check "$at/$way/p.tar" "$at/$way/p.tar.gz" "$at/$way/a.tsv" "$at/$way/x.png" "$at/$way/long.safetensors"
	check_exit 65 "$way: weights with a NaN" ddm-check "$at/$way/w.safetensors"
	check_err "named" "^ddm-check: $at/$way/w.safetensors: 1 number is NaN or infinite"
done
facts --check there/p.tar >want.json
check_out "the digest of a tar" "$(cat want.json)" facts --check "$at/good/p.tar"
check_out "each shard of a SHARDS folder is read" "$(cd there && find s -name '*.zst' | sort | sed "s|^|$at/good/|")" ddm-check -v "$at/good/s"
check "one shard" ddm-check "$at/good/s/cluster-0/000000.tar.zst"
check_out "a query is not shown" "$at/good/p.tar" ddm-check -v "$at/good/p.tar?secret=1"
cp -r there/s there/t
flip there/t/cluster-1/000000.tar.zst 2000
flip there/t/cluster-0/000000.tar.zst 2000
check_exit_any 65 "altered shards" ddm-check "$at/good/t"
check_err "the first" "^ddm-check: $at/good/t/cluster-0/000000.tar.zst: SHA-256 [0-9a-f]* where the manifest says"
check_err "and the second" "^ddm-check: $at/good/t/cluster-1/000000.tar.zst: SHA-256 [0-9a-f]* where the manifest says"
check_exit 65 "an altered shard" ddm-check "$at/good/t/cluster-1/000000.tar.zst"
check_err "its frame" 'a frame is altered'
cp there/p.tar there/q.tar
flip there/q.tar 3000
check_exit 65 "an altered tar" ddm-check "$at/good/q.tar"
cp there/a.tsv there/b.tsv
flip there/b.tsv 400
check_exit 65 "an altered table" ddm-check "$at/good/b.tsv"
check_err "its hash" "$at/good/b.tsv:.*: altered: hash"
check_exit 65 "a header longer than the file" ddm-info "$at/good/false.safetensors"
check_err "its length" 'good/false.safetensors: '
rm there/t/cluster-1/000000.tar.zst
check_exit 66 "a shard is missing" ddm-check "$at/good/s" "$at/good/t/cluster-1/000000.tar.zst"
echo text >there/text
check_exit 65 "something else" ddm-info "$at/good/text"
check_err "is named" "good/text: not a file or folder that these programs read"

# Servers
DDM_HTTP_TIMEOUT=3
DDM_HTTP_TRIES=2
export DDM_HTTP_TIMEOUT DDM_HTTP_TRIES
bad() { # STATUS WAY REGEX
	for program in ddm-info ddm-check; do
		check_exit "$1" "$program, $2" timeout 60 $program "$at/$2/p.tar"
		check_err "the reason" "^$program: $at/$2/p.tar: $3"
		check_exit "$1" "$program, $2, shards" timeout 60 $program "$at/$2/s"
		check_err "the reason" "^$program: $at/$2/s"
	done
}
bad 65 resized 'has changed on the server while it was read'
bad 66 closed 'HTTP status 403$'
bad 69 silent 'fewer than 1000 bytes a second came for 3 seconds \(2 attempts\)'
bad 69 down 'HTTP status 503 \(2 attempts\)'
bad 65 header 'the header of the server.s answer is malformed or too large'
bad 69 loop 'more than 5 redirections'
check_exit 66 "nothing there" ddm-info "$at/good/none"
check_err "named" "^ddm-info: $at/good/none: HTTP status 404"
check_exit 66 "nothing there" ddm-check "$at/good/none.tar?secret=1"
check_err "named" "^ddm-check: $at/good/none.tar: HTTP status 404"
check_exit 69 "nobody there" env DDM_HTTP_TRIES=1 ddm-info http://127.0.0.1:1/p.tar

# S3
unset DDM_HTTP_TIMEOUT DDM_HTTP_TRIES
AWS_ENDPOINT_URL=$at/ AWS_REGION=eu-test-1 AWS_ACCESS_KEY_ID=AKIDEXAMPLE AWS_SECRET_ACCESS_KEY=secret+key/x
export AWS_ENDPOINT_URL AWS_REGION AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
facts there/s >want.json
check_out "shards in S3" "$(cat want.json)" facts s3://bucket/s
check "verified" ddm-check s3://bucket/s s3://bucket/p.tar s3://bucket/a.tsv
check_exit 66 "a wrong key" env AWS_SECRET_ACCESS_KEY=other ddm-info s3://bucket/w.safetensors
check_err "status" '^ddm-info: s3://bucket/w.safetensors: HTTP status 403$'

# libcurl is opened for the first URL: a machine without a working one reads files as before
mkdir none && : >none/libcurl.so.4 && : >none/libcurl-gnutls.so.4
facts there/x.png >want.json
check_out "a file, where libcurl cannot be opened" "$(cat want.json)" \
	sh -c "LD_LIBRARY_PATH=$PWD/none ddm-info --json there/x.png | jq -S 'del(.file, .error)'"
check_exit 69 "a URL there" env LD_LIBRARY_PATH="$PWD/none" ddm-info "$at/good/x.png"
check_err "names the library, the reason and the package" \
	'^ddm-info: .*libcurl, which reads URLs, cannot be opened \(tried libcurl.so.4, .*file too short.*libcurl4$'

# An older libcurl does not know the option that allows http and https alone
{
	echo 'static struct { int age; const char *version; unsigned number; } v = {0, "7.84.0", 0x075400};'
	echo 'void *curl_version_info(int now) { (void)now; return &v; }'
	for f in global_init easy_init easy_cleanup easy_reset easy_setopt easy_getinfo easy_pause easy_strerror multi_init multi_cleanup \
		multi_add_handle multi_remove_handle multi_perform multi_info_read multi_poll slist_append slist_free_all; do
		echo "void curl_$f(void) {}"
	done
} >old.c
cc=$(sed -n 's/^CC = //p' "$B/config.mak")
# shellcheck disable=SC2086
mkdir old && ${cc:-cc} -shared -fPIC -o old/libcurl.so.4 old.c || exit 1
check_exit 69 "a URL with libcurl 7.84" env LD_LIBRARY_PATH="$PWD/old" ddm-info "$at/good/x.png"
check_err "names both versions" '^ddm-info: .*: libcurl 7.84.0 is too old to read URLs: 7.85 is needed$'
