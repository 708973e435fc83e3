#!/bin/sh
# Malformed and odd models as whole files (bad_models.py): cohort info and cohort run on each, with little memory and
# little time. Whatever is in a file, the programs end by themselves, with an exit code that docs/programs.md has, and
# what is wrong is one line that names the file and the cause; what is odd but good runs.
#
# Shown red by: tensors that are not looked for within the file or across each other ('ends ...', 'rows beyond the
# end', 'two tensors ...'); ids of roles that are not looked at ('... out of range'); outputs that are not looked at
# ('NaN ...', 'a Q8_0 scale ...'); err_show that shows all it gets ('... escape sequence', 'all that was said is text');
# logits looked at only when they are capped ('gemma2: infinity ...'); causality and pooling looked at in encoders only
# ('qwen2: ...'); heads, angles and byte tokens without their checks; room for as many weights as a tensor of an unknown
# format says.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

dir=$tmp/models
mkdir "$dir"
python3 "$COHORT_SOURCE/tests/e2e/bad_models.py" "$dir" || exit 1

# Address space in KiB, of which a good model needs a fifth, and a chat template may take half. Sanitizers take
# terabytes.
memory=1000000
grep -qE '__(asan|tsan)_' "$bin/cohort" && memory=unlimited
limited() { (ulimit -v $memory && exec timeout 60 "$bin/cohort" "$@"); }

# one_line FILE: standard error is one message with the file and what is expected.
one_line() { [ "$(wc -l <"$tmp/err")" = 1 ] && has err "$1" && has err "$text"; }

# try_run WHAT OPTION...: continues a prompt.
try_run() {
	ran_what=$1
	shift
	run limited run -m "$file" -p a -n 2 -t 1 "$@"
	cat "$tmp/err" >>"$tmp/said"
	case $level in
	file | model) [ "$rc" = 3 ] && empty out && one_line "$name" ;;
	load) [ "$rc" = 3 ] && empty out && one_line '' ;;
	usage) [ "$rc" = 2 ] && empty out && one_line '' ;;
	run) [ "$rc" = 1 ] && one_line '' ;;
	note) [ "$rc" = 0 ] && one_line 'note: ' ;;
	*) [ "$rc" = 0 ] && empty err && ! empty out ;;
	esac
	verdict "run: $ran_what"
}

: >"$tmp/said"
n_file=0
tab=$(printf '\t')
while IFS=$tab read -r file level text what; do
	[ "$text" != - ] || text=
	# A part of a split model may be named for another: what all of them begin with.
	name=${file##*/}
	name=${name%.gguf}
	name=$dir/${name%%-0*}

	n_file=$((n_file + 1))
	[ $((n_file % $(few 3 1))) = 0 ] || continue
	run limited info -m "$file" --tensors
	cat "$tmp/out" "$tmp/err" >>"$tmp/said"
	case $level in
	file) [ "$rc" = 3 ] && empty out && one_line "$name" ;;
	model)
		grep -F 'runs here   no: ' "$tmp/out" >"$tmp/why"
		[ "$rc" = 0 ] && empty err && has why "$text" && has why "$name"
		;;
	*) [ "$rc" = 0 ] && empty err && has out 'runs here   yes' ;;
	esac
	verdict "info: $what"
	if [ "$level" != file ] && [ $((n_case % $(few 5 1))) = 0 ]; then
		run limited info -m "$file" --json
		{ cat "$tmp/out" && echo ---; } >>"$tmp/json"
	fi

	try_run "$what"
	# What the weights are does not depend on how they are brought into memory; what the keys say is read as above.
	[ "$level" = model ] || [ $((n_case % $(few 5 1))) != 0 ] || try_run "$what, otherwise" --no-mmap --file-layout -isa ref
done <"$dir/table"

# ---- Chat templates ----

echo '[{"role": "user", "content": "hello"}]' >"$tmp/chat"
while IFS=$tab read -r file code text what; do
	[ "$text" != - ] || text=
	run limited template -m "$file" --messages "$tmp/chat"
	cat "$tmp/err" >>"$tmp/said"
	if [ "$code" = 0 ]; then
		[ "$rc" = 0 ] && empty err && ! empty out
	else
		[ "$rc" = "$code" ] && empty out && one_line "$file"
	fi
	verdict "template: $what"
done <"$dir/templates"

# ---- Adapters ----

while IFS=$tab read -r file code text what; do
	[ "$text" != - ] || text=
	run limited run -m "$dir/base.gguf" --lora "$file" -p a -n 2 -t 1
	cat "$tmp/err" >>"$tmp/said"
	case $code in
	0) [ "$rc" = 0 ] && empty err && ! empty out ;;
	1) [ "$rc" = 1 ] && one_line '' ;;
	*) [ "$rc" = "$code" ] && empty out && one_line "adapter $file" ;;
	esac
	verdict "an adapter: $what"
done <"$dir/adapters"

run python3 "$COHORT_SOURCE/tests/e2e/bad_models.py" --json "$tmp/json"
[ "$rc" = 0 ]
verdict 'info --json: objects, whatever is in the files'
run python3 "$COHORT_SOURCE/tests/e2e/bad_models.py" --said "$tmp/said"
[ "$rc" = 0 ] && empty out
verdict 'all that was said is text: what is none in a file is escaped'
