# ddm-sample: the name of the output determines its format; options that may be left out.
. "$(dirname "$0")/tap.sh"

tar xf "$SRC/tests/golden/tiny-model.tar"
run="ddm-sample --steps 2"

# One picture of a model with one network
check "nothing is demanded" $run -o one.png guided
check_err "it is one picture" '^1 pictures, route expert:0'
[ "$(head -c 4 one.png | tail -c 3)" = PNG ]
tap_result $? "a PNG"
check "as a tar" $run -n 1 -o one.tar guided
mkdir tar
tar xf one.tar -C tar
check_same "it is that of a tar" one.png tar/000000.png
check "the route may be said" $run --route full -o full.tar guided
check_same "full is the one network" full.tar one.tar
check "so may its number" $run --route expert:0 -o said.tar guided
check_same "the same" said.tar one.tar
mkdir lone pipe
cp -R ensemble/expert_2 lone
check "the one expert of an ensemble's folder" $run -o lone.png lone
check_err "whatever its number" 'route expert:2'
cp -R ensemble several
rm -r several/router
check_exit 2 "several experts want a route" $run -o x.png several
check_err "which is told with the choices" '^ddm-sample: --route is missing: give one of full, top-K, threshold:P, .*expert:I, .*WEIGHTS.SELECTION'
cp -R guided pipe/transformer
check "a pipeline of one network" $run -o pipe.png pipe

for f in jpg jpeg JPG webp; do
	check "one .$f" $run -o one.$f guided
	check_grep "its stamp is beside it" '"program":"ddm-sample"' one.$f.json
	check "ddm-info reads it" ddm-info one.$f
done
check_same "one encoding" one.jpg one.jpeg
check_grep "a JPEG" "$(printf '^\377\330')" one.jpg
[ "$(head -c 4 one.webp)" = RIFF ]
tap_result $? "a WebP"
check "one .npy" $run -o one.npy guided
check "is a latent" $run --format latent -o latent.tar guided
tar xf latent.tar -C tar
check_same "as in a tar" one.npy tar/000000.npy
check "an array" $run -n 2 -o all.npz guided
check "by its name" $run -n 2 --format npz -o npz.npz guided
check_same "as by --format" all.npz npz.npz
check "JPEGs in a tar" $run -n 2 --format jpg -o jpg.tar guided
check_out "with stamps" "000000.jpg 000000.json 000001.jpg 000001.json" sh -c 'echo $(tar tf jpg.tar)'
tar xf jpg.tar -C tar
check_same "the same JPEG" tar/000000.jpg one.jpg

for f in one.png one.jpg one.npy; do
	touch -d 2001-01-01 $f
	check "again: $f" $run -o $f guided
	check_err "is complete" "^$f: complete, nothing to do"
	check_out "and not touched" "" find $f -newermt 2002-01-01
	check_exit 73 "another seed: $f" $run --seed 1 -o $f guided
	check_err "the option is named" 'seed'
done
check_exit 2 "more than one picture in one file" $run -n 3 -o x.png guided
check_err "and the way out" '-o x\.png holds one picture, and there will be 3: use -o DIR/ for a folder or -o FILE\.tar for a tar'
check_exit 2 "a name that says something else" $run --format webp -o x.png guided
check_err "both are named" '-o x\.png contradicts --format webp: that name means png'
check_absent "nothing was made" x.png

# A folder
check "a folder" $run -n 3 -o pics/ guided
check_out "holds the pictures" "000000.png 000001.png 000002.png SHA256SUMS" sh -c 'echo $(ls -A pics)'
check_same "the same pictures" pics/000000.png one.png
check "again" $run -n 3 -o pics/ guided
check_err "is complete" 'pics/: complete, nothing to do'
check_exit 73 "another seed" $run -n 3 --seed 1 -o pics/ guided
check_exit 73 "more" $run -n 4 -o pics/ guided
check_err "it does not hold all" 'not all of these pictures are in it'
check_exit 73 "fewer" $run -n 2 -o pics/ guided
check_err "it holds more" 'more than these pictures are in it'
check "a report that is missing" $run -n 3 --report r.json -o pics/ guided
check_grep "is made" '"n":3' r.json
check "WebP in a folder" $run -n 2 --format webp -o webp/ guided
check_out "with their stamps" "000000.json 000000.webp 000001.json 000001.webp SHA256SUMS" sh -c 'echo $(ls -A webp)'
check "again" $run -n 2 --format webp -o webp/ guided
check_err "is complete" 'complete'
mkdir taken
echo mine >taken/note
check_exit 73 "a folder of others" $run -n 2 -o taken/ guided
check_out "is left alone" note ls -A taken
check_exit 2 "no array in a folder" $run -n 2 --format npz -o x/ guided
check_exit 66 "no such folder" $run -o none/x.png guided

# Only a sheet
check "--grid alone" $run -n 3 --grid sheet.png guided
[ ! -s "$OUT" ]
tap_result $? "writes no tar"
check "with a tar" $run -n 3 --grid other.png -o sheet.tar guided
check_same "the same sheet" sheet.png other.png
check "again" $run -n 3 --grid sheet.png guided
check_err "is complete" 'sheet\.png: complete'
check_exit 73 "another seed" $run -n 3 --seed 1 --grid sheet.png guided
check_exit 2 "a format of no samples" $run -n 3 --format webp --grid x.png guided

# Quiet
check "-q" $run -q -n 2 -o quiet.tar guided
[ ! -s "$ERR" ]
tap_result $? "says nothing"
check "-q again" $run -q -n 2 -o quiet.tar guided
[ ! -s "$ERR" ]
tap_result $? "nor of what is complete"

# A terminal gets no binary data
cp -R "$SRC/tests/golden/autokl" vae
if command -v script >/dev/null && script -qec true /dev/null </dev/null >/dev/null 2>&1; then
	for cmd in "$run guided" "$run -o x.tar --grid - guided" "ddm-encode -m vae pics" "ddm-grid a=one.png" "ddm-ingest pics"; do
		command -v "${cmd%% *}" >/dev/null || continue
		script -qec "$cmd" /dev/null </dev/null >typed 2>&1
		[ $? -eq 2 ] && [ "$(wc -c <typed)" -lt 400 ]
		tap_result $? "not to a terminal: $cmd" "$(head -c 300 typed | tr -cd '[:print:]')"
		check_grep "and why" 'standard output is a terminal' typed
	done
else
	skip "a terminal" "no script"
fi
