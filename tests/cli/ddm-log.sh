# ddm-log: logs as comma-separated values, for Prometheus and for TensorBoard, whose files tests/unit/test_tfevents.c decodes.
. "$(dirname "$0")/tap.sh"

check_program ddm-log

mkdir -p m/expert_0 m/expert_1/train m/router 'odd "\name'
cat >m/expert_0/train.jsonl <<'END'
{"event":"start","step":0,"steps":100,"time":1700000000,"host":"node-1","pid":7,"device":"cuda","stamp":{"program":"ddm-train","batch":4}}
{"step":10,"loss":2.5,"images_per_s":8,"percent_of_peak":42.5,"seconds":1.25,"memory_peak":12345678901}
{"step":20,"loss":null,"val_loss":3,"skipped":1,"part":{"a,b":0.1},"seconds":2.5}
{"event":"start","step":20,"steps":100,"time":1700000100,"host":"node-2","pid":8,"device":"cuda","stamp":{"program":"ddm-train","batch":4}}
{"step":30,"loss":1e-9,"images_per_s":8,"skipped":2,"seconds":1}
END
cp m/expert_0/train.jsonl 'odd "\name'
sed 's/"host":"node-2"/"host":"a\\"b\\\\c\\nd"/' m/expert_0/train.jsonl >m/router/train.jsonl

check_out "CSV" 'run,attempt,step,time,loss,images_per_s,percent_of_peak,seconds,memory_peak,val_loss,skipped,"part.a,b"
expert_0,1,10,1700000001.250,2.5,8,42.5,1.25,12345678901,,,
expert_0,1,20,1700000002.500,,,,2.5,,3,1,0.1
expert_0,2,30,1700000101.000,1e-09,8,,1,,,2,' ddm-log export --csv - m/expert_0
cp "$OUT" stdout.csv
check "in a file" ddm-log export --csv x.csv m/expert_0
check_same "the same bytes" x.csv stdout.csv
check "of several" ddm-log export --csv x.csv m 'odd "\name'
check_grep "names are quoted" '^"odd ""\\name",1,10,' x.csv
check_out "a row for each line" 9 grep -c '^"\?[mo]' x.csv

# Prometheus: promtool knows the syntax, but lets timestamps and series that come twice pass, with which a file or a scrape fails.
well_formed() { # FILE
	awk '
		/^# HELP / { if ($3 in help || NF < 4) print "HELP: " $0; help[$3]; next }
		/^# TYPE / { if ($3 in type || !($3 in help) || ($4 != "gauge" && $4 != "counter")) print "TYPE: " $0; type[$3] = $4; next }
		/^#/ || /^$/ || /\r/ { print "a line: " $0; next }
		{
			at = match($0, /} [^ {}]+$/)
			if (!at) { print "more than a value: " $0; next }
			name = substr($0, 1, index($0, "{") - 1)
			series = substr($0, 1, at)
			value = substr($0, at + 2)
			if (!(name in type)) print "no TYPE: " $0
			if (type[name] == "counter" && name !~ /_total$/) print "a counter: " $0
			if (series in seen) print "twice: " $0
			seen[series]
			if (value !~ /^([-+]?[0-9.]+(e[-+]?[0-9]+)?|NaN|[-+]Inf)$/) print "no number: " $0
		}' "$1"
	[ "$(tail -c 1 "$1" | od -An -tx1 | tr -d ' ')" = 0a ] || echo "no last newline"
}
check "Prometheus" ddm-log export --prometheus x.prom m 'odd "\name'
check_out "is well formed" "" well_formed x.prom
printf '# HELP a_total x\n# TYPE a_total counter\na_total{run="x"} 1 1700000000000\na_total{run="y"} 1\na_total{run="y"} 2' >wrong.prom
check_out "which a timestamp, a double and a lost newline are not" 'more than a value: a_total{run="x"} 1 1700000000000
twice: a_total{run="y"} 2
no last newline' well_formed wrong.prom
for want in 'step{run="m/expert_0"} 30' 'target_steps{run="m/expert_0"} 100' 'state{run="m/expert_0",state="stopped"} 1' \
	'state{run="m/expert_0",state="running"} 0' 'restarts_total{run="m/expert_0"} 1' 'skipped_steps_total{run="m/expert_0"} 2' \
	'seconds_total{run="m/expert_0"} 3.5' 'state{run="m/expert_1",state="failed to start"} 1' 'validation_loss{run="m/expert_0"} 3' \
	'loss{run="odd \"\\name"} 1e-09' 'info{run="m/router",network="router",host="a\"b\\c\nd",device="cuda"} 1'; do
	grep -qxF "ddm_training_$want" x.prom
	tap_result $? "it has a line of ${want%%\{*}"
done
check_exit_any 1 "nothing for what is not known" grep -q 'checkpoint_written\|step{run="m/expert_1"' x.prom
cat >diverged.jsonl <<'END'
{"event":"start","step":0,"steps":9,"time":1}
{"step":1,"loss":null}
END
mkdir -p d/expert_0 && mv diverged.jsonl d/expert_0/train.jsonl
check_out "a loss that is not finite" 'ddm_training_loss{run="d/expert_0"} NaN' sh -c "ddm-log export --prometheus - d | grep '^ddm_training_loss'"
check_exit 2 "the same run twice" ddm-log export --prometheus y.prom m m/router
check_err "named" '^ddm-log: m/router: given twice'
if command -v promtool >/dev/null; then
	check "promtool finds no fault" sh -c 'promtool check metrics <x.prom'
else
	skip "promtool finds no fault" "no promtool (Debian: prometheus)"
fi

# TensorBoard
if grep -q 'HAVE_PROTOBUF 1' "$B/config.h"; then
	check "TensorBoard" ddm-log export --tensorboard tb m 'odd "\name'
	check_out "a folder for each run, a file for each attempt" 'tb/m/expert_0/events.out.tfevents.000001.node-1.7
tb/m/expert_0/events.out.tfevents.000002.node-2.8
tb/m/router/events.out.tfevents.000001.node-1.7
tb/m/router/events.out.tfevents.000002.a_b_c_d.8
tb/odd "\name/events.out.tfevents.000001.node-1.7
tb/odd "\name/events.out.tfevents.000002.node-2.8' sh -c 'find tb -type f | sort'
	cp -R tb before
	check "again" ddm-log export --tensorboard tb m 'odd "\name'
	check "nothing changes" diff -r tb before
	echo '{"step":40,"loss":1,"seconds":2}' >>m/expert_0/train.jsonl
	check "a line more" ddm-log export --tensorboard tb m 'odd "\name'
	new=tb/m/expert_0/events.out.tfevents.000002.node-2.8
	head -c "$(size_of before/${new#tb/})" $new >head
	check_same "is added behind the others" head before/${new#tb/}
	check_differ "in the file" $new before/${new#tb/}
	mkdir -p up/a
	cd up/a || exit 1
	check "runs above" ddm-log export --tensorboard here ../../m ../../d
	cd ../..
	check_out "are written below the folder" "up/a/here/d/expert_0
up/a/here/m/expert_0
up/a/here/m/router" sh -c 'find up -type d -links 2 | sort'
else
	check_exit 69 "TensorBoard" ddm-log export --tensorboard tb m
	check_err "what is missing is named" 'libprotobuf-c-dev and protobuf-c-compiler'
	check_absent "nothing is written" tb
fi

# Errors
check_exit 2 "no output" ddm-log export m
check_err "the choices are named" 'give --tensorboard DIR, --prometheus FILE or --csv FILE'
check_exit 2 "no command" ddm-log m --csv x.csv m
check_err "named" "'m' is not a command: expected export"
check_exit 2 "no run" ddm-log export --csv x.csv
check_exit 66 "no such run" ddm-log export --csv y.csv nowhere
check_exit 2 "two outputs of one name" ddm-log export --csv y --prometheus y m
echo mine >other
check_exit 73 "another file" ddm-log export --csv other m
check_exit 73 "stays" ddm-log export --prometheus other m
check_grep "as it was" '^mine$' other
check_exit 73 "a table is no state" ddm-log export --prometheus x.csv m
cp -R m bad
echo '{"step":50,' >>bad/expert_0/train.jsonl
check_exit 65 "a damaged log" ddm-log export --csv bad.csv bad
check_err "line by line" '^ddm-log: bad/expert_0/train.jsonl:[67]: not a JSON object$'
check_grep "the others are written" '^router,2,30,' bad.csv
check_stdout "CSV" ddm-log export --csv - m
check_stdout "Prometheus" ddm-log export --prometheus - m
[ "$FULL" -eq 1 ] && check_exit 74 "a full disk" ddm-log export --csv /dev/full m
check_clean "no temporary" .
