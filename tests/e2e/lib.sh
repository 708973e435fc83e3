# shellcheck shell=sh disable=SC2034
# What the end-to-end tests share; sourced, POSIX sh. A case is: run a program, test what it did, `verdict NAME`.
#
#	run batched -np 0
#	[ "$rc" = 2 ] && has err 'whole number'
#	verdict 'no sequences: refused'
#
# COHORT_BUILD, COHORT_SOURCE and COHORT_SHARED come from meson. Temporary files live in $tmp and go at the end.
set -u
LC_ALL=${E2E_LOCALE:-C}
export LC_ALL
: "${COHORT_BUILD:?}" "${COHORT_SOURCE:?}"
# Where programs run slowly, as under sanitizers, effort is short: `few A B` is A there, else B.
effort=${COHORT_EFFORT:-}
few() { if [ "$effort" = short ]; then printf '%s\n' "$1"; else printf '%s\n' "$2"; fi; }
# Options come from the tests alone, not from who runs them.
for v in $(env | sed -n 's/^\(COHORT_[A-Za-z0-9_]*\)=.*/\1/p'); do
	case $v in COHORT_BUILD | COHORT_SOURCE | COHORT_SHARED | COHORT_HIDE_ISA) ;; *) unset "$v" ;; esac
done
COHORT_CONFIG=/dev/null
# The C library fills new memory with 0xfe: what is read without having been written is no zero by chance.
MALLOC_PERTURB_=1
export MALLOC_PERTURB_
# As many tests run at once as there are processors: with two threads each they would wait for each other most of the
# time. What depends on threads says -threads; a run that looks for races sets E2E_THREADS to more, and a test of the
# defaults to nothing. E2E_LOCALE is that of a user elsewhere (tools/dev/machines.sh).
COHORT_THREADS=${E2E_THREADS-1}
# A text is that of seed 0 unless a test says otherwise: `drawn COMMAND...` runs without.
COHORT_SEED=0
export COHORT_CONFIG COHORT_THREADS COHORT_SEED
[ -n "$COHORT_THREADS" ] || unset COHORT_THREADS
shared=${COHORT_SHARED:-$COHORT_SOURCE/../shared}
model=$COHORT_SOURCE/models/cohort-tiny.gguf
tmp=$(mktemp -d "${TMPDIR:-/tmp}/cohort-e2e.XXXXXX") || exit 1
pids= # started in the background; ended with the script
n_case=0
n_bad=0
rc=0
ran=

# The programs find the built-in model beside the build directory. For a build directory elsewhere, copies stand beside one.
bin=$COHORT_BUILD
if [ ! -e "$COHORT_BUILD/../models/cohort-tiny.gguf" ]; then
	mkdir "$tmp/tree" "$tmp/tree/build"
	ln -s "$COHORT_SOURCE/models" "$tmp/tree/models"
	cp "$COHORT_BUILD/batched" "$COHORT_BUILD/cohort" "$tmp/tree/build/" || exit 1
	bin=$tmp/tree/build
fi

# random_models DIR [NAME...]: what tests/golden/make_models.py writes; copies where `./dev test --all` has let it write all.
random_models() {
	if [ -z "${TEST_MODELS:-}" ]; then
		python3 "$COHORT_SOURCE/tests/golden/make_models.py" "$@" >/dev/null
	elif [ $# = 1 ]; then
		cp -R "$TEST_MODELS" "$1"
	else
		models_to=$1
		shift
		mkdir "$models_to" || return 1
		for made; do cp "$TEST_MODELS/$made.gguf" "$models_to/" || return 1; done
	fi
}

finish() { # the plan, at the end; the exit code says whether all went well
	status=$?
	trap - EXIT
	if [ -n "${COHORT_COVERAGE:-}" ] && [ -n "$pids" ]; then # what was counted is written at a normal end
		for p in $pids; do kill "$p" 2>/dev/null; done
		sleep 1
	fi
	for p in $pids; do kill -9 "$p" 2>/dev/null; done
	rm -rf "$tmp"
	[ $status = 0 ] || exit $status
	echo "1..$n_case"
	[ $n_bad = 0 ] || exit 1 # a bare exit in a trap gives the status from before it
	exit 0
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

# run PROGRAM ARGUMENT...: exit code in $rc, output in $tmp/out and $tmp/err. PROGRAM is batched, cohort or a path.
run() {
	ran=$*
	case $1 in batched | cohort) prog=$bin/$1 ;; *) prog=$1 ;; esac
	shift
	rc=0
	"$prog" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null || rc=$?
}

# drawn COMMAND ARGUMENT...: with no seed from the environment, as programs draw one.
drawn() {
	unset COHORT_SEED
	"$@"
	COHORT_SEED=0
	export COHORT_SEED
}

# has FILE TEXT: the text is in $tmp/FILE. is FILE TEXT: it is all there is, one line.
has() { grep -qF -e "$2" "$tmp/$1"; }
matches() { grep -qE -e "$2" "$tmp/$1"; }
is() { [ "$(cat "$tmp/$1")" = "$2" ]; }
# fresh: nothing of the run before is there, when what comes next is looked at while it runs.
fresh() { : >"$tmp/out"; : >"$tmp/err"; }
empty() { [ ! -s "$tmp/$1" ]; }
same() { cmp -s "$tmp/$1" "$tmp/$2"; }
keep() { cp "$tmp/$1" "$tmp/$2"; }

# verdict NAME: the case passed if the command before it did.
verdict() {
	passed=$?
	n_case=$((n_case + 1))
	if [ $passed = 0 ]; then
		echo "ok $n_case - $1"
		return
	fi
	n_bad=$((n_bad + 1))
	echo "not ok $n_case - $1"
	printf '%.300s\n' "# ran: $ran" | head -n 1
	echo "# exit code: $rc"
	for f in out err; do
		[ ! -f "$tmp/$f" ] || head -n 12 "$tmp/$f" | cut -c 1-200 | tr -c '\11\12\40-\176' '?' | sed "s/^/# std$f: /"
	done
	return 0
}
skip() { # NAME WHY
	n_case=$((n_case + 1))
	echo "ok $n_case - $1 # SKIP $2"
}

# refused CODE TEXT: the last run ended so, wrote nothing to standard output and said TEXT.
refused() { [ "$rc" = "$1" ] && empty out && has err "$2"; }

# levels: the instruction-set levels that the programs run here, worst to best, each on a line. has_level NAME: one of them.
levels() { "$bin/cohort" info --levels | sed -n 's/^\([a-z0-9]*\) *usable.*/\1/p'; }
has_level() { levels | grep -qx -e "$1"; }

# sequences N [PROMPT]: standard output is N numbered sequences, each with an empty line and a text that starts with PROMPT.
sequences() {
	PROMPT=${2-} awk -v n="$1" '
	$0 == "Sequence " k ":" { k++; state = 1; next }
	/^Sequence [0-9]+:$/ { bad = 1 }
	state == 1 { if ($0 != "") bad = 1; state = 2; next }
	state == 2 { if (substr($0, 1, length(prompt)) != prompt) bad = 1; state = 3 }
	NR == 1 { bad = 1 }
	{ last = $0 }
	BEGIN { k = 0; prompt = ENVIRON["PROMPT"] }
	END { exit bad || k + 0 != n || last != "" }' "$tmp/out"
}

# sequence I FILE: the text of one sequence of $tmp/FILE.
sequence() { awk -v i="$1" '/^Sequence [0-9]+:$/ { on = $2 == i ":"; next } on' "$tmp/$2"; }

# until_true SECONDS COMMAND...: polls; false when the time is over.
until_true() {
	left=$(($1 * 20))
	shift
	until "$@"; do
		left=$((left - 1))
		[ $left -gt 0 ] || return 1
		sleep 0.05
	done
}
# Of process $pid: its state (Z until it is waited for, once it has ended) and the processor time it has used, in ticks.
state() { sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null | cut -d ' ' -f 1,12,13; }
ended() { case $(state) in '' | Z*) ;; *) false ;; esac; }
ticks() { state | awk '{ print $2 + $3 }'; }
computed() { ended || [ "$(ticks)" -ge "$1" ]; }
