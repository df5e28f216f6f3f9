# Objects in S3, whose signatures a local server checks by the published algorithm; https.
. "$(dirname "$0")/tap.sh"
need_urls
small_pictures
mkdir there
ddm-ingest -q --size 32 -o there/p.tar pics || exit 1
ddm-cluster -q -k 2 --holdout .2 -o a.tsv there/p.tar || exit 1
ddm-shard -q -a a.tsv --holdout .2 -o there/s there/p.tar || exit 1
mkdir "there/odd =+%"
cp there/p.tar "there/odd =+%/p~q r.tar"
range_server
plain=$at
AWS_ENDPOINT_URL=$at/ AWS_REGION=eu-test-1 AWS_ACCESS_KEY_ID=AKIDEXAMPLE AWS_SECRET_ACCESS_KEY=secret+key/x
export AWS_ENDPOINT_URL AWS_REGION AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
cluster() { ddm-cluster -q -k 2 --holdout .2 -o "$@"; }

check "an object" cluster b.tsv s3://bucket/p.tar
check_same "that of the file" a.tsv b.tsv
check "a key of odd characters" cluster c.tsv "s3://bucket/odd =+%/p~q r.tar"
check_same "the same" a.tsv c.tsv
check_grep "percent-encoded" '^/bucket/odd%20%3D%2B%25/p~q%20r.tar ' log
ddm-train --cluster 1 --model dit-nano/4 --steps 3 --batch 4 -q -o m there/s || exit 1
check "training on shards" ddm-train --cluster 1 --model dit-nano/4 --steps 3 --batch 4 -q -o n s3://bucket/s
check_same "the weights of a training on the folder" m/diffusion_pytorch_model.safetensors n/diffusion_pytorch_model.safetensors
check "the default region's variable" env -u AWS_REGION AWS_DEFAULT_REGION=eu-test-1 ddm-select -q -o x.tar "width > 0" s3://bucket/p.tar
check "the endpoint of S3 alone" env AWS_ENDPOINT_URL_S3="$at" AWS_ENDPOINT_URL=http://127.0.0.1:1 ddm-select -q -o y.tar "width > 0" s3://bucket/p.tar
check_exit 66 "a wrong key" env AWS_SECRET_ACCESS_KEY=other ddm-select -q -o no.tar "width > 0" s3://bucket/p.tar
check_err "status" '^ddm-select: s3://bucket/p.tar: HTTP status 403$'
check_exit 66 "another region" env AWS_REGION=us-east-1 ddm-select -q -o no.tar "width > 0" s3://bucket/p.tar
check_exit 66 "no keys" env -u AWS_SECRET_ACCESS_KEY ddm-select -q -o no.tar "width > 0" s3://bucket/p.tar
check_err "told" 'HTTP status 403; no keys are set'
check_grep "and no signature is sent" '^/bucket/p.tar .* 403 10$' log
check_exit 66 "a token that is not expected" env AWS_SESSION_TOKEN=t ddm-select -q -o no.tar "width > 0" s3://bucket/p.tar
check_exit 66 "no such object" ddm-select -q -o no.tar "width > 0" s3://bucket/none.tar
check_exit 2 "no key" ddm-select -q -o no.tar "width > 0" s3://bucket/
check_exit 2 "no bucket" ddm-select -q -o no.tar "width > 0" "s3://A b/p.tar"
check_exit 2 "no endpoint" env AWS_ENDPOINT_URL=ftp://x ddm-select -q -o no.tar "width > 0" s3://bucket/p.tar
check_err "named" 'AWS_ENDPOINT_URL: ftp://x begins neither'
check_absent "no output of these" no.tar
TEST_TOKEN=token=
export TEST_TOKEN
range_server
check "a token" env AWS_SESSION_TOKEN=token= AWS_ENDPOINT_URL="$at" ddm-select -q -o z.tar "width > 0" s3://bucket/p.tar

# https
command -v openssl >/dev/null || { skip https "no openssl"; exit 0; }
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 -keyout key.pem \
	-out cert.pem 2>openssl.err || { skip https "$(tail -n 1 openssl.err)"; exit 0; }
cat cert.pem key.pem >both.pem
range_server both.pem
check_exit 69 "a server whose certificate nobody vouches for" ddm-select -q -o no.tar "width > 0" "$at/good/p.tar"
check_err "told" '^ddm-select: https://.*/good/p.tar: .*certificate'
SSL_CERT_FILE=$PWD/cert.pem
export SSL_CERT_FILE
check "trusted by SSL_CERT_FILE" cluster h.tsv "$at/good/p.tar"
check_same "the same" a.tsv h.tsv
check "after a redirection within https" cluster i.tsv "$at/moved/p.tar" || :
check_exit 65 "a redirection from https to http" ddm-select -q -o no.tar "width > 0" "$at/toplain/p.tar"
check_err "told" 'HTTP status 302, a redirection to http://.*, which is not followed'
check_absent "no output of these" no.tar
[ -n "$plain" ]
