# ddm-sample --class by name, and of several classes.
. "$(dirname "$0")/tap.sh"

tar xf "$SRC/tests/golden/tiny-model.tar"
cp -R guided named
sed 's/"num_classes"/"class_names": ["pants", "shirt", "a, b"], "num_classes"/' guided/config.json >named/config.json
run="ddm-sample -q --steps 2 -n 4"

# classes TAR: prints the classes of its pictures
classes() {
	echo $(grep -ao '"index":[0-9]*,"class":[0-9]*' "$1" | sed 's/.*://')
}

check "by number" $run --class 1 -o one.tar named
check "by name" $run --class shirt -o shirt.tar named
check_same "is the same request" one.tar shirt.tar
check "and complete" $run --class 1 -o shirt.tar named
check "two names" $run --class pants,shirt -o two.tar named
check_out "in turns" "0 1 0 1" classes two.tar
check "from another number" $run --class pants,shirt --first 3 -o three.tar named
check_out "by a picture's number" "1 0 1 0" classes three.tar
check "numbers and names" $run --class 1,pants,1 -o mixed.tar named
check_out "in turns" "1 0 1 1" classes mixed.tar
check_grep "the stamp has their numbers" '"class":"1,0,1"' mixed.tar
check "by number" $run --class 1,0,1 -o mixed.tar named
check "a name with a comma" $run --class "a, b" -o comma.tar named
check_out "is one" "2 2 2 2" classes comma.tar
check "guided" $run --class pants,shirt --cfg 2 -o guided.tar named
check "numbers of classes without names" $run --class 2,0 -o plain.tar guided
check_out "in turns" "2 0 2 0" classes plain.tar
mkdir a b
tar xf one.tar -C a
tar xf two.tar -C b
check_same "picture 1 is that of its class alone" a/000001.png b/000001.png

check_exit 2 "no such name" $run --class socks -o x.tar named
check_err "lists those there are" 'socks.*pants, shirt'
check_exit 2 "one of them" $run --class pants,socks -o x.tar named
check_err "is named" "'socks'"
check_exit 2 "an empty one" $run --class pants, -o x.tar named
check_exit 2 "no such number" $run --class 3 -o x.tar named
check_exit 2 "a name where there are none" $run --class shirt -o x.tar guided
check_err "says so" "classes have no names"
check_absent "nothing was made" x.tar
