#!/bin/sh
# Options from the command line, the environment and the configuration file: which one counts, and every mistake.
# Shown red by reading the environment before the file (precedence), by letting a list of the file and one of the command
# line add up (lists), by skipping unknown names in a program's own section, and by not setting `given` (threads).
E2E_THREADS=
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
unset COHORT_SEED # sources of values are what is tested

unset COHORT_CONFIG XDG_CONFIG_HOME
HOME=$tmp/home
export HOME
mkdir -p "$HOME/.config/cohort"
file=$HOME/.config/cohort/config

config() { printf '%b' "$1" >"$file"; }
with() { # VARIABLE=VALUE... COMMAND...: run, with these
	(
		while case $1 in *=*) true ;; *) false ;; esac do
			export "${1?}"
			shift
		done
		prog=$bin/$1
		shift
		"$prog" "$@" </dev/null
	) >"$tmp/out" 2>"$tmp/err"
	rc=$?
	ran="with $*"
}
# value NAME VALUE SOURCE: so says the last -show-config.
value() {
	V=$2 S=$3 awk -v n="$1" '
	BEGIN { v = ENVIRON["V"]; s = ENVIRON["S"] }
	$1 == n { ok = substr($0, 24, length(v) + 1) == v " " && substr($0, length($0) - length(s) + 1) == s }
	END { exit !ok }' "$tmp/out"
}

# ---- where the file is ----

run batched -show-config
[ "$rc" = 0 ] && empty err && has out "it would be $file" && value temperature 0.8 default && value prompt '"Hello my name is"' default &&
	value model 'not set' default && value verbose false default
verdict 'no file: defaults'
config 'temperature = 0.5\n'
run batched -show-config
[ "$rc" = 0 ] && has out "# configuration file: $file" && value temperature 0.5 "$file:1"
verdict 'the file in ~/.config'
mkdir -p "$tmp/xdg/cohort"
echo 'temperature = 0.6' >"$tmp/xdg/cohort/config"
with XDG_CONFIG_HOME="$tmp/xdg" batched -show-config
[ "$rc" = 0 ] && value temperature 0.6 "$tmp/xdg/cohort/config:1"
verdict 'the file in XDG_CONFIG_HOME'
echo 'temperature = 0.7' >"$tmp/mine"
with XDG_CONFIG_HOME="$tmp/xdg" COHORT_CONFIG="$tmp/mine" batched -show-config
[ "$rc" = 0 ] && value temperature 0.7 "$tmp/mine:1"
verdict 'the file in COHORT_CONFIG'
echo 'temperature = 0.9' >"$tmp/other"
with COHORT_CONFIG="$tmp/mine" batched --config="$tmp/other" -show-config
[ "$rc" = 0 ] && value temperature 0.9 "$tmp/other:1"
verdict 'the file of -config'
with COHORT_CONFIG="$tmp/nothing" batched -config "$tmp/other" -show-config
[ "$rc" = 0 ] && value temperature 0.9 "$tmp/other:1"
verdict '-config: COHORT_CONFIG is not looked at'
with COHORT_CONFIG="$tmp/nothing" batched -no-config -show-config
[ "$rc" = 0 ] && has out 'no configuration file is read' && value temperature 0.8 default
verdict '-no-config'
with COHORT_CONFIG= batched -show-config
[ "$rc" = 0 ] && value temperature 0.5 "$file:1"
verdict 'an empty COHORT_CONFIG is none'
with COHORT_CONFIG="$tmp/nothing" batched
refused 4 "cannot read the configuration file: $tmp/nothing: No such file"
verdict 'COHORT_CONFIG must be there'
run batched -config "$tmp/nothing"
refused 4 "$tmp/nothing: No such file"
verdict 'the file of -config must be there'
run batched -config "$tmp"
refused 4 'configuration file'
verdict 'a directory'
run batched -config "$tmp/mine" -no-config
refused 2 'contradict'
verdict '-config and -no-config'
with HOME= batched -show-config
[ "$rc" = 0 ] && has out '# no configuration file' && value temperature 0.8 default
verdict 'no home'
with HOME="$file" batched -show-config
[ "$rc" = 0 ] && value temperature 0.8 default
verdict 'a home that is a file'

# ---- precedence ----

config 'temperature = 0.5\nseed = 1\nn-predict = 2\nthreads = 1\n\n[batched]\nseed = 2\nn-predict = 3\n[run]\nseed = 99\n[cohort]\nseed = 50\nn-predict = 51\n'
with COHORT_N_PREDICT=4 COHORT_CTX=300 batched -ctx 256 -show-config
[ "$rc" = 0 ] && value temperature 0.5 "$file:1" && value seed 2 "$file:7" && value n-predict 4 'environment (COHORT_N_PREDICT)' &&
	value ctx 256 'command line' && value threads 1 "$file:4" && value top-k 40 default
verdict 'command line over environment over section over the rest of the file over default'
run cohort run -show-config
[ "$rc" = 0 ] && value seed 99 "$file:10" && value n-predict 51 "$file:13" && value temperature 0.5 "$file:1"
verdict 'a command: its own section over [cohort], wherever it stands'
run cohort tokenize x -show-config
[ "$rc" = 0 ] && has out '# line 1: temperature is not an option of cohort tokenize' && ! has out 'line 7'
verdict 'lines for others are skipped, and listed'
run batched -n-predict 3 -seed 2 -temperature 0.5 -threads 1 -no-config
keep out want
run batched
[ "$rc" = 0 ] && same out want && has err 'temperature 0.5' && has err 'seed 2' && has err 'threads 1'
verdict 'a run by the file is the run by the command line'
# More threads than there are CPUs are used only if they were asked for.
config 'threads = 200\nn-predict = 1'
run batched
[ "$rc" = 0 ] && has err 'threads 200'
verdict 'the file counts as given'
config ''
with COHORT_THREADS=200 COHORT_N_PREDICT=1 batched
[ "$rc" = 0 ] && has err 'threads 200'
verdict 'the environment counts as given'
# Shown red by the default of 4 that batched has.
if command -v taskset >/dev/null && run taskset -c "$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')" "$bin/cohort" run -show-config && [ "$rc" = 0 ]; then
	value threads 1 default
	verdict 'the default number of threads: the CPUs that the process may use'
else
	skip 'the default number of threads' 'there is no taskset, or the system refuses it'
fi
run cohort serve -show-config
[ "$rc" = 0 ] && n=$(awk '$1 == "threads" { print $2 }' "$tmp/out") && [ "$n" -ge 1 ] && [ "$n" -le "$(nproc)" ]
verdict 'serve: as many threads as there are CPUs'
run batched -show-config
[ "$rc" = 0 ] && value threads 4 default
verdict 'batched: 4'
with COHORT_MODEL="$tmp/none.gguf" batched
refused 3 "$tmp/none.gguf"
verdict 'COHORT_MODEL'
with COHORT_PROMPT='The cat' COHORT_N_PREDICT=2 COHORT_N_PARALLEL=2 batched
[ "$rc" = 0 ] && sequences 2 'The cat'
verdict 'COHORT_PROMPT with blanks'
config 'prompt = The cat\nn-predict = 2'
run batched
[ "$rc" = 0 ] && sequences 4 'The cat'
verdict 'a text of the file stays for the whole run'

# ---- kinds of options ----

for v in 1 true yes on; do
	with COHORT_VERBOSE=$v batched -show-config
	[ "$rc" = 0 ] && value verbose true 'environment (COHORT_VERBOSE)'
	verdict "a flag: $v"
done
config 'verbose = yes'
for v in 0 false no off; do
	with COHORT_VERBOSE=$v batched -show-config
	[ "$rc" = 0 ] && value verbose false 'environment (COHORT_VERBOSE)'
	verdict "a flag: $v"
done
run batched -show-config -verbose
[ "$rc" = 0 ] && value verbose true 'command line'
verdict 'a flag of the command line'
config 'logit-bias = 5+1\nlogit-bias = 6+1\n[batched]\nlogit-bias = 7+1\nlogit-bias = 8+1\n'
run cohort run -show-config
[ "$rc" = 0 ] && value logit-bias '"5+1" "6+1"' "$file:2"
verdict 'a list: lines add up'
run batched -show-config
[ "$rc" = 0 ] && value logit-bias '"7+1" "8+1"' "$file:5"
verdict 'a list: a section starts anew'
with COHORT_LOGIT_BIAS=9+1 batched -show-config
[ "$rc" = 0 ] && value logit-bias '"9+1"' 'environment (COHORT_LOGIT_BIAS)'
verdict 'a list: a variable is one item'
# Shown red by writing on while there are two bytes left: the text then has no end, and what lies behind it is printed.
long=$(printf '%0700d' 0)
run batched -show-config -l "$long" -l 1+1 -l 2+1
[ "$rc" = 0 ] && grep -q '^logit-bias  *"0*"\.\.\. \.\.\.  *command line$' "$tmp/out"
verdict 'a list that is longer than its line ends with dots'
with COHORT_LOGIT_BIAS=9+1 batched -show-config -l 1+1 --logit-bias=2+1
[ "$rc" = 0 ] && value logit-bias '"1+1" "2+1"' 'command line'
verdict 'a list: the command line starts anew'
config 'prompt = "Two\\nlines \\"q\\" \\\\"\n'
run batched -show-config
[ "$rc" = 0 ] && value prompt '"Two\nlines \"q\" \\"' "$file:1"
verdict 'quotes and escapes'
config 'prompt = "Two\\nlines"\nn-predict = 1\nn-parallel = 1'
run batched
[ "$rc" = 0 ] && [ "$(sequence 0 out | sed -n 2p)" = Two ] && sequence 0 out | sed -n 3p | grep -q '^lines'
verdict 'an escaped line end is one'
config 'lora-scaled = nowhere.gguf:0.5'
run batched
[ "$rc" != 0 ] && has err 'nowhere.gguf' && ! has err 'nowhere.gguf:0.5'
verdict 'a value that a program takes apart in place'

# ---- mistakes ----

wrong() { # NAME CONFIG TEXT [COMMAND...]
	config "$2"
	what=$1
	text=$3
	shift 3
	[ $# -gt 0 ] || set -- batched
	run "$@"
	refused 2 "$text" && has err "$file" && has err '-no-config'
	verdict "refused: $what"
}
wrong 'an unknown name in the own section' '[batched]\ntemprature = 1' ":2: 'temprature' is not an option of this program; did you mean 'temperature'?"
wrong 'an unknown name in the own section of a command' '\n[run]\nnpredict = 1' ":3: 'npredict' is not an option of this program; did you mean 'n-predict'?" cohort run x
# Shown red by skipping every name outside the own section, and by leaving a name out of opt_names.h (the comparison).
wrong 'an unknown name before any section' 'temprature = 1' ":1: 'temprature' is not an option of any program; did you mean 'temperature'?"
wrong 'an unknown name before any section, for a command without the option meant' 'temprature = 1' ":1: 'temprature' is not an option of any program; did you mean 'temperature'?" cohort info
wrong 'an unknown name in [cohort]' '[cohort]\nchunk-sise = 1' ":2: 'chunk-sise' is not an option of any program; did you mean 'chunk-size'?" cohort info
config 'chunk-size = 9\nper-window = 1\n[cohort]\nnpp = 8\n'
run batched -n 1
[ "$rc" = 0 ] && ! has err 'is not an option'
verdict 'names of other programs are skipped quietly'
{
	"$bin/batched" -no-config -show-config
	for c in $(sed -n 's/^int cmd_\([a-z]*\)(.*/\1/p' "$COHORT_SOURCE/prog/cmd.h"); do "$bin/cohort" "$c" -no-config -show-config; done
} 2>/dev/null </dev/null | sed -n 's/^\([a-z][a-z-]*\)  *[^ ].* default$/\1/p' | LC_ALL=C sort -u >"$tmp/names"
sed -n '/^static/,/^}/p' "$COHORT_SOURCE/prog/opt_names.h" | grep -o '"[a-z-]*"' | tr -d '"' | LC_ALL=C sort >"$tmp/listed"
[ "$(wc -l <"$tmp/names")" -gt 100 ] && diff "$tmp/names" "$tmp/listed" >"$tmp/out"
verdict 'opt_names.h has the names of all tables, and no other'
wrong 'a short form' 'temp = 1' ":1: 'temp' is another name of an option, which this file does not take; did you mean 'temperature'?"
wrong 'an unknown section' '[rnu]\nseed = 1' ":2: 'seed' is in section [rnu], which is no program or command; did you mean 'run'?"
wrong 'a number that is none' 'temperature = hot' ":1: 'temperature' expects a number from 0 to 100, got 'hot'"
wrong 'a number out of range' 'seed = 1\nn-parallel = 0' ":2: 'n-parallel' expects a whole number from 1 to 65536, got '0'"
wrong 'a comment behind a number' 'seed = 1 # one' ":1: 'seed' expects a number from 0 to 2^64 - 1, got '1 # one'"
wrong 'an empty number' 'seed =' "got ''"
wrong 'a flag that is none' 'verbose = maybe' ":1: 'verbose' expects 1, 0, true, false, yes, no, on or off, got 'maybe'"
wrong 'a value that the command line has better' 'seed = x' "'seed' expects" batched -seed 1
wrong 'no equals sign' 'verbose' 'line 1: expected name = value'
wrong 'dashes' '--verbose = 1' 'without dashes'
wrong 'an open quote' 'prompt = "x' 'closing quote is missing'
wrong 'an unknown escape' 'prompt = "\\q"' 'a backslash goes before'
wrong 'a NUL' 'a = 1\n\0000' 'line 2: control character 0x00'
wrong 'bytes that are no UTF-8' 'prompt = \0377' 'byte 0xff is not UTF-8'
wrong 'an escape sequence for the terminal' 'prompt = \0033[31m' 'control character 0x1b'
awk 'BEGIN { for (i = 0; i < 300; i++) print "logit-bias = 1+1" }' >"$file"
run batched
refused 2 ":257: 'logit-bias' is given more than 256 times"
verdict 'refused: a list without an end'
run batched -config "$model"
[ "$rc" = 4 ] && empty out && has err 'cohort-tiny.gguf'
verdict 'refused: a file that is too large'
{
	printf 'seed = 7\n#'
	head -c 1048566 /dev/zero | tr '\0' x
} >"$tmp/large"
run batched -config "$tmp/large" -show-config
[ "$rc" = 0 ] && [ "$(wc -c <"$tmp/large")" = 1048576 ] && value seed 7 "$tmp/large:1"
verdict 'a file of 1 MiB'
echo >>"$tmp/large"
run batched -config "$tmp/large" -show-config
refused 4 "$tmp/large"
verdict 'refused: a file of 1 MiB and a byte'
head -c 4000 "$model" >"$tmp/part"
run batched -config "$tmp/part"
refused 2 'line 1: '
verdict 'refused: a binary file'
head -c 20000 /dev/urandom >"$tmp/noise"
run batched -config "$tmp/noise"
[ "$rc" = 2 ] && empty out && has err 'line '
verdict 'refused: noise'
config 'temperature = hot'
for c in 'batched -help' 'cohort run --help' 'cohort help' 'cohort help config' 'cohort version' 'cohort man run' 'batched -no-config -n-predict 1'; do
	# shellcheck disable=SC2086
	run $c
	[ "$rc" = 0 ] && [ -s "$tmp/out" ]
	verdict "a broken file does not matter to: $c"
done
config ''

bad_variable() { # VARIABLE=VALUE TEXT
	with "$1" batched
	refused 2 "the environment variable ${1%%=*} $2" && has err 'unset it'
	verdict "refused: $1"
}
bad_variable COHORT_TEMPERATURE=hot "expects a number from 0 to 100, got 'hot'"
bad_variable COHORT_N_PARALLEL=0 'expects a whole number from 1 to 65536'
bad_variable COHORT_SEED=-1 'expects a number from 0 to 2^64 - 1'
bad_variable COHORT_SEED= "expects a number from 0 to 2^64 - 1, got ''"
bad_variable COHORT_VERBOSE=2 'expects 1, 0, true'
with COHORT_TEMPERATURE=hot batched -temperature 1
refused 2 'COHORT_TEMPERATURE'
verdict 'refused: a bad variable, whatever the command line says'
with COHORT_TEMP=9999 COHORT_VERSION=0.1 COHORT_BUILD=x COHORT_NOTHING=1 COHORT_HELP=1 COHORT_SHOW_CONFIG=1 batched -n-predict 1
[ "$rc" = 0 ] && sequences 4
verdict 'variables that are no option are ignored, and aliases are none'
run batched -show-confg
refused 2 "did you mean '-show-config'?"
verdict 'common options are suggested'
run batched -config
refused 2 '-config expects a value (FILE)'
verdict '-config without a file'
run batched -show-config -n-parallel 0
refused 2 '-n-parallel expects a whole number'
verdict '-show-config with a mistake'
if [ -w /dev/full ]; then
	full() { "$bin/batched" -show-config >/dev/full; }
	run full
	[ "$rc" = 4 ] && has err 'cannot write'
	verdict '-show-config to a full disk'
else
	skip '-show-config to a full disk' 'there is no /dev/full'
fi

# ---- topics ----

run cohort help
keep out list
for t in config environment sampling exit-codes formats; do
	matches list "^  $t "
	verdict "cohort help lists $t"
	run cohort help $t
	[ "$rc" = 0 ] && empty err && [ "$(wc -l <"$tmp/out")" -gt 5 ]
	verdict "cohort help $t"
done
run cohort help config
has out "the file is $file"
verdict 'help config tells where the file is'
run cohort help sampling
keep out topic
batched_options() { "$bin/batched" -help | grep -E '^  -(min-p|xtc-threshold|json-schema-file)'; }
run batched_options
[ "$(wc -l <"$tmp/out")" = 3 ] && ! grep -vxFf "$tmp/topic" "$tmp/out" >/dev/null
verdict 'help sampling is the table of the programs'
run cohort help enviroment
refused 2 "did you mean 'environment'?"
verdict 'a misspelt topic: a suggestion'
run cohort help run config
refused 2 "unexpected argument 'config'"
verdict 'one topic at a time'
# The file of the help text is one.
"$bin/cohort" help config | sed -n '/^  # A comment/,/^Names/p' | sed '/^Names/d' >"$file"
run batched -show-config
[ "$rc" = 0 ] && value n-parallel 8 "$file:6" && value model '"/models/a model.gguf"' "$file:3" && value prompt '"Two\nlines"' "$file:7"
verdict 'the example of help config works'
