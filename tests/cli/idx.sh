# MNIST's idx files: read alone, in a folder and by ddm-ingest, with their labels; damaged ones.
. "$(dirname "$0")/tap.sh"

need python3
cat >make.py <<'END'
import gzip, os, struct
n, h, w = 7, 5, 6
pixels = bytes((17 * i + 3) % 256 for i in range(n * h * w))
images = struct.pack('>iiii', 2051, n, h, w) + pixels
labels = struct.pack('>ii', 2049, n) + bytes([3, 0, 1, 2, 9, 255, 4])
for d in ('gz', 'gz/below', 'plain', 'alone', 'bad'):
    os.makedirs(d, exist_ok=True)
def put(name, data):
    with open(name, 'wb') as f:
        f.write(gzip.compress(data, mtime=0) if name.endswith('.gz') else data)
put('gz/below/train-images-idx3-ubyte.gz', images)
put('gz/below/train-labels-idx1-ubyte.gz', labels)
put('plain/train-images.idx3-ubyte', images)
put('plain/train-labels.idx1-ubyte', labels)
put('alone/some', images)
put('mixed-images-idx3-ubyte', images)
put('mixed-labels-idx1-ubyte.gz', labels)
put('bad/short-images-idx3-ubyte', images[:-1])
put('bad/head-images-idx3-ubyte.gz', labels)
put('bad/empty-images-idx3-ubyte', struct.pack('>iiii', 2051, 3, 0, 6))
put('bad/few-images-idx3-ubyte', images)
put('bad/few-labels-idx1-ubyte', struct.pack('>ii', 2049, 6) + bytes(6))
put('bad/odd-images-idx3-ubyte', images)
put('bad/odd-labels-idx1-ubyte', labels[:-2])
with open('bad/torn-images-idx3-ubyte.gz', 'wb') as f:
    f.write(gzip.compress(images)[:-30])
with open('pixels', 'wb') as f:
    f.write(pixels)
END
python3 make.py || exit 1

check "ddm-ingest reads an idx file" ddm-ingest -q -o a.tar plain/train-images.idx3-ubyte
check_out "with a key, a class and a picture each" "train/000000.cls train/000000.png train/000001.cls" sh -c 'tar tf a.tar | grep -v "^\." | head -n 3 | xargs'
check_out "every label" "3 0 1 2 9 255 4" sh -c 'for i in 0 1 2 3 4 5 6; do tar xOf a.tar train/00000$i.cls; done | xargs'
check_out "the pixels" "same" sh -c 'ddm-eval-fid --features rgb8 --metrics memorised -q a.tar a.tar >/dev/null 2>&1; tar xf a.tar && python3 - <<END
import zlib, struct
want = open("pixels", "rb").read()
got = b""
for i in range(7):
    d = open("train/%06d.png" % i, "rb").read()
    at, data = 8, b""
    while at < len(d):
        n, kind = struct.unpack(">I4s", d[at:at + 8])
        if kind == b"IHDR":
            w, h, bits, colour = struct.unpack(">IIBB", d[at + 8:at + 18])
            assert (w, h, bits) == (6, 5, 8), (w, h, bits)
            step = {0: 1, 2: 3}[colour]
        if kind == b"IDAT":
            data += d[at + 8:at + 8 + n]
        at += n + 12
    raw = zlib.decompress(data)
    line = bytearray(w * step)
    for y in range(h):
        f, row = raw[y * (w * step + 1)], bytearray(raw[y * (w * step + 1) + 1:(y + 1) * (w * step + 1)])
        for x in range(w * step):
            a, b, c = row[x - step] if x >= step else 0, line[x], line[x - step] if x >= step else 0
            p = a + b - c
            paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            row[x] = (row[x] + (0, a, b, (a + b) // 2, paeth)[f]) % 256
        got += bytes(row[::step])
        line = row
print("same" if got == want else "differ")
END'
check "a folder, packed" ddm-ingest -q -o b.tar gz
check_same "gives the same samples" a.tar b.tar
check "files of which only the labels are packed" ddm-ingest -q -o c.tar mixed-images-idx3-ubyte
check_out "have them too" "mixed/000004 9" sh -c 'echo mixed/000004 $(tar xOf c.tar mixed/000004.cls)'
check "a file without labels, by its first bytes" ddm-ingest -q -o d.tar alone/some
check_out "has no classes" "7 0" sh -c 'echo $(tar tf d.tar | grep -c png) $(tar tf d.tar | grep -c cls)'
check "others in the folder are still counted as passed over" sh -c 'cp make.py gz/notes.x; ddm-ingest -o e.tar gz 2>&1 | grep -q " 7 samples, 1 other files passed over$"'
check "together with a tar and another one" ddm-ingest -q -o f.tar gz d.tar mixed-images-idx3-ubyte
check_out "of each all samples" "7 mixed 7 some 7 train" sh -c 'tar tf f.tar | sed -n "s,/.*png,,p" | sort | uniq -c | xargs'

check "ddm-cluster reads it" ddm-cluster -q -k 2 -o a.tsv gz
check_out "by the same keys" "train/000000 train/000006" sh -c 'grep -o "^train/00000[06]" a.tsv | xargs'
check "and ddm-shard" ddm-shard -q -a a.tsv -o s gz
check_grep "with the classes" '"classes":256' s/MANIFEST.tsv
check "ddm-info counts it" ddm-info gz
check_grep "the samples" "samples  *7" "$OUT"
check_grep "and the files" "idx files  *1" "$OUT"

check_exit 2 "--classes" ddm-ingest -q --classes -o g.tar gz
check_err "has no folder to number" "--classes numbers folders"
for bad in short:"damaged: 225 bytes, not 7 pictures of 6 x 5" head.gz:"it does not begin with the number 2051" empty:"damaged: 16 bytes, not 3 pictures of 6 x 0" \
	few:"few-labels-idx1-ubyte: 6 labels for 7 pictures" odd:"not an idx file of labels, or damaged" torn.gz:"torn-images-idx3-ubyte.gz"; do
	name=${bad%%:*}
	file=bad/${name%.gz}-images-idx3-ubyte
	[ "$name" = "${name%.gz}" ] || file=$file.gz
	check_exit 65 "$name" ddm-ingest -q -o bad.tar "$file"
	check_err "is refused with the reason" "${bad#*:}"
	check_absent "no output" bad.tar
done
