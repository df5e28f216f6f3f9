# ddm-synth glyphs: pictures of glyphs with known factors, through ddm-cluster, ddm-shard and ddm-exact.
. "$(dirname "$0")/tap.sh"

fonts=${DDM_TEST_FONTS:-/usr/share/fonts/truetype/dejavu}
if ! grep -q 'HAVE_FREETYPE 1' "$B/config.h"; then
	check_exit 69 "without FreeType" ddm-synth glyphs -o x.tar any.ttf
	check_err "said" 'any.ttf: this build cannot render fonts: configure it with FreeType \(Debian: libfreetype-dev\)'
	skip_all "this build has no FreeType"
fi
[ -e "$fonts/DejaVuSans.ttf" ] || skip_all "no fonts-dejavu-core, nor another folder of these fonts in DDM_TEST_FONTS"
ln -s "$fonts/DejaVuSans.ttf" sans.ttf
ln -s "$fonts/DejaVuSans-Bold.ttf" bold.ttf

draw="ddm-synth glyphs --script latin,digits,greek --factors position,scale,rotation,grey --size 24 --seed 3"
check "pictures" $draw -n 300 --threads 1 -o a.tar sans.ttf bold.ttf
check_err "told" '^a.tar: 300 pictures of 24 x 24, of [0-9]+ glyphs: [0-9]+ characters in 2 fonts$'
check_err "and what was left out" '^left out: [0-9]+ characters that a font lacks, 0 blank, [1-9][0-9]* with the outline of an earlier glyph$'
check "threads" $draw -n 300 --threads 3 -o b.tar sans.ttf bold.ttf
check_same "change nothing" a.tar b.tar
check "another seed" $draw -n 300 --seed 4 -o c.tar sans.ttf bold.ttf
check_differ "other pictures" a.tar c.tar
mkdir all few
check "fewer" $draw -n 20 -o few.tar sans.ttf bold.ttf
tar xf a.tar -C all && tar xf few.tar -C few
check "are the first ones" sh -c 'for f in few/*; do cmp -s "$f" "all/${f#few/}" || exit 1; done'
check_out "twenty, of three members each" 60 sh -c 'ls few | grep -c .'
check_stdout "a pipe" $draw -n 10 -o - sans.ttf
check_grep "the factors beside the picture" \
	'^\{"glyph":"U\+[0-9A-F]{4}","text":".+","script":"(latin|digits|greek)","font":"DejaVu Sans (Book|Bold)","weight":(400|700),"x":[0-9.]+,"y":[0-9.]+,"em":[0-9.]+,"rotation":-?[0-9.]+,"ink":[0-9]+,"ground":[0-9]+\}$' few/3-000000007.json
check_grep "names of the classes" '"class_names":\["U.0030",' a.tar
check "sound" ddm-check a.tar
for fact in script font weight; do
	check "clusters by $fact" ddm-cluster -q --by $fact -o $fact.tsv a.tar
done
check_out "as many scripts" 3 sh -c "grep -v '^#' script.tsv | cut -f 6 | sort -u | grep -c ."
check "the class by script" $draw -n 300 --classes script -o script.tar sans.ttf bold.ttf
check "agrees" ddm-cluster -q -k 3 --by script --against class --report script.json -o script2.tsv script.tar
check_grep "with the factor" '"adjusted_rand": 1.0' script.json
check "the class by font" $draw -n 300 --classes font -o font.tar sans.ttf bold.ttf
check_grep "by name" '"class_names":\["DejaVu Sans Book","DejaVu Sans Bold"\]' font.tar

# Without other factors the law is a finite set, of which a pass over it has every picture once; its exact model is that of ddm-exact.
check "a whole law" ddm-synth glyphs --script digits --size 16 -n 20 -o law.tar sans.ttf bold.ttf
check_err "of twenty glyphs" 'of 20 glyphs: 10 characters in 2 fonts'
mkdir law
tar xf law.tar -C law
check_out "all different" 20 sh -c 'cat law/*.png >/dev/null; for f in law/*.png; do sha256sum <"$f"; done | sort -u | grep -c .'
check_out "each digit twice" "2 2 2 2 2 2 2 2 2 2" sh -c 'for f in law/*.cls; do cat "$f"; echo; done | sort | uniq -c | awk "{ print \$1 }" | paste -sd " "'
check "twice as many" ddm-synth glyphs --script digits --size 16 -n 40 -o twice.tar sans.ttf bold.ttf
mkdir twice
tar xf twice.tar -C twice
check_out "have each twice" 20 sh -c 'for f in twice/*.png; do sha256sum <"$f"; done | sort | uniq -c | grep -c "^ *2 "'
check "shards by font" sh -c 'ddm-cluster -q --by font -o law.tsv law.tar && ddm-shard -q -a law.tsv -o lawshards law.tar'
check "the exact model of the law" ddm-exact -o exact lawshards
check "is sampled" ddm-sample -q -n 4 --route full --steps 4 -o drawn.tar exact

check "again" ddm-synth glyphs --script digits --size 16 -n 20 -o law.tar sans.ttf bold.ttf
check_err "is done already" 'law.tar: complete, nothing to do'
check_exit 73 "with other options" ddm-synth glyphs --script digits --size 16 -n 21 -o law.tar sans.ttf bold.ttf
check_err "named" 'count: 20 -> 21'
check_exit 73 "with names of other classes" ddm-synth glyphs --size 16 -n 20 -o law.tar sans.ttf bold.ttf
check_err "which are counted" 'class_names: \["U.0030",.*\] -> \([0-9]+ values\)$'
check "latin" ddm-synth glyphs --size 16 -n 20 -o latin.tar sans.ttf
check "is the default" ddm-synth glyphs --script latin --size 16 -n 20 -o latin.tar sans.ttf
check_err "and nothing else" 'latin.tar: complete, nothing to do'
check_grep "it is in the stamp" '"script":\["latin"\]' latin.tar
check_out "ddm-info names the classes once" 1 sh -c 'ddm-info latin.tar | grep -c "U.0041"'
check_exit 73 "of another font" ddm-synth glyphs --script digits --size 16 -n 20 -o law.tar sans.ttf
check_err "named" 'inputs'
refuse() { # CODE NAME MESSAGE ARGUMENT...
	code=$1 name=$2 says=$3
	shift 3
	check_exit "$code" "$name" ddm-synth glyphs -o none.tar "$@"
	check_err "$name: why" "$says"
}
echo text >text.ttf
head -c 300 sans.ttf >cut.ttf
refuse 65 "not a font" 'text.ttf: not a font that FreeType reads' text.ttf
refuse 65 "a cut font" 'cut.ttf: ' sans.ttf cut.ttf
refuse 66 "no such font" 'nothing.ttf' nothing.ttf
refuse 65 "no glyph in the range" 'none of the 1 faces has any of the characters' --range 4e00-9fff sans.ttf
refuse 65 "blanks" 'are blank' --range 20 sans.ttf
refuse 2 "no font" 'glyphs needs font files'
refuse 2 "no character" "'xyz' is neither a character" --range xyz sans.ttf
refuse 2 "a range backwards" "'5a-41' is neither" --range 5a-41 sans.ttf
refuse 2 "beyond Unicode" "'110000' is neither" --range 110000 sans.ttf
refuse 2 "no script" 'klingon' --script latin,klingon sans.ttf
refuse 2 "no factor" "'colour' is not one of" --factors colour sans.ttf
refuse 2 "no factor beside others" "'none' stands alone" --factors grey,none sans.ttf
refuse 2 "too much of a factor" "grey: '2' is not a number" --factors position,grey:2 sans.ttf
refuse 2 "a law's option" '--rank' --rank 2 sans.ttf
check_absent "nothing made" none.tar
check_exit 2 "--factors of samples of a law" ddm-synth draw --factors grey -o none.tar law
check_clean "no temporary files" .
killed_after .05 $draw -n 300000 -o killed.tar sans.ttf
check_absent "killed: no tar" killed.tar
