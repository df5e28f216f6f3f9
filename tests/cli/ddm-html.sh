# ddm-html: the page of a hand-made run; then the page in a browser, if there is one, without a network.
. "$(dirname "$0")/tap.sh"

check_program ddm-html
mkdir -p run/model run/samples p more none
tar xzf "$SRC/tests/golden/eval-a.tar.gz" -C p
ddm-cluster -q -k 2 --holdout .2 -o run/assign.tsv p
ddm-shard -q -a run/assign.tsv --holdout .2 -o run/shards p
ddm-grid --columns 20 -r 2 -s 2 --size 16 -o run/samples.png 'first <kind>=p' "second=p" 2>/dev/null
cp run/samples.png run/clusters.png
# Two films of a clip of four grey frames of 8 x 8.
mkdir run/films clip
{
	printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (4, 1, 8, 8), }"
	head -c 256 run/samples.png
} >clip/a@000000.npy
for f in 'one <film>' two; do ddm-play -q -o "run/films/$f.webp" clip 2>/dev/null; done
for arm in monolith top-1 top-2 full oracle a-rather-long-name-of-an-arm; do
	for s in 1 2; do
		echo "{\"kd\":0.${#arm}$s,\"fd\":${#arm}.$s,\"kd_heldout\":0.123456,\"fd_heldout\":12.3456,\"kd_floor\":0.001234,\"fd_floor\":1.2345,"\
"\"memorised\":0,\"gflop_per_image\":${#arm},\"images_per_second\":123.456}" >"$arm.$s"
	done
done
table() {
	ddm-report -q -t strategy -o "$2/report.tsv" monolith=monolith."$1" top-1=top-1."$1" top-2=top-2."$1" full=full."$1" oracle=oracle."$1" \
		'a<b>-rather-long-name-of-an-arm=a-rather-long-name-of-an-arm.'"$1"
}
table 1 run
table 2 more
set --
for arm in monolith top-1 top-2 full oracle a-rather-long-name-of-an-arm; do
	label=$arm
	[ "$arm" != a-rather-long-name-of-an-arm ] || label="a<b>-rather-long-name-of-an-arm"
	set -- "$@" "$label=$arm.1" "$label=$arm.2"
done
ddm-compare --tsv -k 'kd fd memorised' -o compare.tsv "$@"
log() { # DIRECTORY
	mkdir -p "run/$1"
	{
		echo '{"event":"start","step":0,"steps":600,"time":1700000000,"host":"secret","parameters":1921088,"samples":96,"gflop_per_image":0.5,'\
'"stamp":{"program":"ddm-train","version":"0.1","batch":128,"lr":0.001,"inputs":{"shards":"79b318f7674f4c52a353900df874ac04c0e442b5e017c0b92ff85a06c5b98fc1"}}}'
		awk -v k="${#1}" 'BEGIN { for (i = 1; i <= 60; i++) printf "{\"step\":%d,\"loss\":%.5g%s}\n", 10 * i, k / i, i % 20 ? "" : ",\"val_loss\":1" }'
	} >"run/$1/train.jsonl"
}
for d in monolith/expert_0 model/expert_0 model/expert_1 model/expert_10 model/router; do log $d; done
awk 'BEGIN { for (i = 0; i < 5; i++) { printf "{\"index\":%d,\"weights\":[", i; for (s = 0; s < 25; s++) printf "%s[%g,%g,%g]", s ? "," : "",
	.5 - s / 50, .25 + s / 100, .25 + s / 100; print "]}" } }' >run/samples/full.weights.jsonl

check "a page" ddm-html -t 'Title <1>' --settings "$(printf 'K = 3\nDATA = <photos>')" --compare compare.tsv -o page.html run more
check "the same" ddm-html -t 'Title <1>' --settings "$(printf 'K = 3\nDATA = <photos>')" --compare compare.tsv run more
check_same "the same bytes" "$OUT" page.html
for want in '<html lang="en">' '<title>Title &lt;1&gt;</title>' 'name="viewport"' '<th scope="col">strategy' '<th scope="row">a&lt;b&gt;-rather' \
	'DATA = &lt;photos&gt;' 'first &lt;kind&gt;' '<dt>kd_heldout</dt>' '>expert 10<' 'experts and router' 'Weights under full' '79b318f7' \
	'Means of 2 runs' '<th scope="row">1</th>' 'fd: mean over 2 seeds, difference from monolith' '<h3>The first run</h3>'; do
	check_grep "it has $want" "$want" page.html
done
check_exit_any 1 "nothing from elsewhere" grep -Eiq '(src|href|action|data)="?(https?:)?//|url\(|@import|<(script|link|iframe|object|embed)' page.html
check_exit_any 1 "no address at all" grep -Eiq 'https?:' page.html
check_exit_any 1 "no host, no directory" grep -Eq "secret|1700000000|$PWD" page.html
images=$(grep -o '<img ' page.html | wc -l)
[ "$images" -eq 4 ] && [ "$(grep -o '<img alt="[^"]' page.html | wc -l)" -eq 4 ]
tap_result $? "four pictures, all described" "$images"
grep -o 'src="data:image/png;base64,[^"]*' page.html | head -n 1 | sed 's/.*,//' | base64 -d >back.png
check_same "a picture as it was" back.png run/samples.png
sed -n 's/.*src="data:image\/webp;base64,\([^"]*\)".*/\1/p' page.html | head -n 1 | base64 -d >back.webp
check_same "a film as it was" back.webp 'run/films/one <film>.webp'
check_grep "under its name" '<figcaption>one &lt;film&gt;</figcaption>' page.html
check_exit 65 "a film that is too large" ddm-html --picture-size 16 -o large.html run
check_err "says what to do" 'two.webp|one <film>.webp: .* bytes are too many for a page: show fewer clips'
cp run/samples.png run/films/wrong.webp
check_exit 65 "a film that is none" ddm-html -o wrong.html run
check_err "is named" 'wrong.webp: not a WebP'
rm run/films/wrong.webp
awk -F '\t' '$1 == "fd" && $2 == "full" { print $6 }' compare.tsv | cut -c 1-4 >difference
check_grep "differences are in it" "<td class=\"n\">$(cat difference)" page.html
check_exit 65 "another table" ddm-html --compare run/report.tsv -o x.html run
check_err "is named" 'run/report.tsv: has no column "key", so it is not a table of ddm-compare'
check_exit 66 "no comparison" ddm-html --compare nowhere -o x.html run
check "smaller pictures" ddm-html --picture-size 2K -o small.html run
check_grep "are JPEG" 'src="data:image/jpeg;base64,/9j/' small.html
[ "$(size_of small.html)" -lt "$(size_of page.html)" ] && [ "$(size_of small.html)" -lt 200000 ]
tap_result $? "and small" "$(size_of small.html)"
cp run/report.tsv none/report.tsv
check "a table alone is enough" ddm-html -o little.html none
check_grep "and says what is not there" 'no sheet of samples' little.html
mkdir apart
cp page.html before.html
mv run/shards run/clusters.png run/assign.tsv apart
check "clusters elsewhere" ddm-html -t 'Title <1>' --settings "$(printf 'K = 3\nDATA = <photos>')" -p apart --compare compare.tsv -o page.html run more
check_same "make the same page" before.html page.html
check "a newer page replaces an older" ddm-html -t Other -o little.html none
check_grep "indeed" '<h1>Other</h1>' little.html
echo precious >mine
check_exit 73 "a file of another kind" ddm-html -o mine none
check_out "stands" precious cat mine
check_exit 66 "no run" ddm-html -o x.html nowhere
rm -r none/report.tsv
check_exit 66 "no table" ddm-html -o x.html none
cut_to run/samples.png 500
check_exit 65 "a cut picture" ddm-html -o x.html run
check_err "is named" samples.png
check_absent "nothing written" x.html
# A model's folder: only its training.
check "a model" ddm-html -o model.html run/model
check_grep "a page about it" '<h1>The training of a model</h1>' model.html
check_grep "its networks" '<th scope="row">expert 10</th>' model.html
check_grep "and its router" 'Loss of the router' model.html
check_exit_any 1 "no results" grep -q 'id="results"' model.html
check "with a title" ddm-html -t Mine -o titled.html run/model
check_grep "as was asked for" '<h1>Mine</h1>' titled.html
check_exit 2 "two models" ddm-html run/model run/model
check_exit 66 "a folder of neither" ddm-html p
check_stdout "the page" ddm-html -p apart more
check_clean "no temporary" .

browser=
for b in chromium chromium-browser google-chrome; do
	[ -n "$browser" ] || browser=$(command -v $b || :)
done
if [ -z "$browser" ]; then
	skip "the page in a browser" "no chromium"
	exit 0
fi
alone=
unshare -rn true 2>/dev/null && alone='unshare -rn'
# Faults that a reader would notice, found by a script in a copy of the page, because the page's own policy forbids scripts.
cat >probe.js <<'END'
addEventListener('load', () => {
	const wrong = [], html = document.documentElement, box = e => e.getBoundingClientRect(), say = (what, e) => wrong.push(what + ': ' + e);
	for (const i of document.images) if (!i.complete || !i.naturalWidth) say('a picture does not decode', i.alt);
	if (html.scrollWidth > innerWidth) say('wider than the window', html.scrollWidth + ' > ' + innerWidth);
	for (const e of document.querySelectorAll('p,h1,h2,h3,dd,pre,figure,img,svg'))
		if (box(e).right > innerWidth + 1) say('beyond the edge', e.tagName + ' ' + e.textContent.slice(0, 40));
	for (const s of document.querySelectorAll('svg')) {
		const text = [...s.querySelectorAll('text')], r = box(s);
		for (const t of text) {
			const b = box(t);
			if (b.left < r.left - 1 || b.right > r.right + 1 || b.top < r.top - 1 || b.bottom > r.bottom + 1) say('cut off', t.textContent);
		}
		for (let i = 0; i < text.length; i++) for (let j = 0; j < i; j++) {
			const a = box(text[i]), b = box(text[j]), x = Math.min(a.right, b.right) - Math.max(a.left, b.left),
				y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
			if (x > 1 && y > a.height / 4) say('one over the other', text[i].textContent + ' / ' + text[j].textContent);
		}
		if (!document.getElementById(s.getAttribute('aria-labelledby').split(' ')[1]).textContent) say('no description', s.textContent);
	}
	const lum = c => { const v = c.match(/[\d.]+/g).slice(0, 3).map(x => (x /= 255) <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
		return .2126 * v[0] + .7152 * v[1] + .0722 * v[2]; };
	const paper = lum(getComputedStyle(document.body).backgroundColor);
	const contrast = c => { const l = lum(c); return (Math.max(l, paper) + .05) / (Math.min(l, paper) + .05); };
	for (const e of document.querySelectorAll('p,dd,th,td,a,figcaption')) if (contrast(getComputedStyle(e).color) < 4.5) say('faint', e.textContent);
	for (const e of document.querySelectorAll('svg text')) if (contrast(getComputedStyle(e).fill) < 4.5) say('faint', e.textContent);
	for (const e of document.querySelectorAll('svg path[class]')) {
		const c = getComputedStyle(e), k = e.getAttribute('class');
		if (!/[lf](0|3)$/.test(k) && contrast(k[0] == 'l' ? c.stroke : c.fill) < 3) say('faint line', k);
	}
	html.setAttribute('data-probe', 'width ' + innerWidth + ', dark ' + matchMedia('(prefers-color-scheme: dark)').matches + ', pictures ' +
		document.images.length + ', charts ' + document.querySelectorAll('svg').length + ', rows ' +
		document.querySelector('table tbody').rows.length + ', wrong ' + wrong.length + ' ' + wrong.slice(0, 4).join('; '));
});
END
{
	sed "s/default-src 'none'/default-src 'none'; script-src 'unsafe-inline'/; s|</main>|&<script>|; /<script>/q" page.html
	cat probe.js
	echo '</script></body></html>'
} >probe.html
# opened WIDTH ARGUMENTS...: prints the findings of that script. The page is in a frame, because a browser's window may be wider than
# requested.
opened() {
	width=$1
	shift
	printf '<!DOCTYPE html><body style="margin:0"><iframe id="f" src="probe.html" style="border:0;width:%dpx;height:900px"></iframe>' "$width" >frame.html
	echo '<script>addEventListener("load",()=>setTimeout(()=>document.body.setAttribute("data-probe",
		document.getElementById("f").contentDocument.documentElement.getAttribute("data-probe")),200))</script>' >>frame.html
	# shellcheck disable=SC2086
	timeout 200 $alone "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --allow-file-access-from-files \
		--user-data-dir="$PWD/profile" --virtual-time-budget=4000 --window-size=1400,1000 "$@" --dump-dom "file://$PWD/frame.html" 2>browser.log |
		sed -n 's/.*<body [^>]*data-probe="\([^"]*\)".*/\1/p'
}
for width in 390 1280; do
	check_out "in a browser, $width pixels wide" "width $width, dark false, pictures 4, charts 8, rows 6, wrong 0 " opened $width
	check_out "and in the dark" "width $width, dark true, pictures 4, charts 8, rows 6, wrong 0 " opened $width --blink-settings=preferredColorScheme=0
done
# shellcheck disable=SC2086
check "on paper" timeout 200 $alone "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$PWD/profile" \
	--print-to-pdf=page.pdf "file://$PWD/page.html"
check_grep "a PDF" '^%PDF' page.pdf
