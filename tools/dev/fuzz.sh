# shellcheck shell=sh
# A part of ./dev, which reads it in. Fuzzing: the targets, their corpora, the log of their runs.

fuzz_targets() { for f in tests/fuzz/fuzz_*.c; do [ ! -f "$f" ] || basename "$f" .c; done; }
# The build of the tests under sanitizers is theirs as well.
fuzz_build() {
	# shellcheck disable=SC2046,SC2086
	(configure build-clang clang $clang_options $(quick_link) && compile build-clang $(fuzz_targets))
}

# What earlier runs found worth keeping, a file a target; `fuzz --keep` writes them. A run without it would spend most of
# its time on the way to where the last one was.
fuzz_kept=tests/fuzz/found
fuzz_unpack() { [ ! -f "$fuzz_kept/$1.tar.xz" ] || tar -xJf "$fuzz_kept/$1.tar.xz" -C "$2"; }

# fuzz_run TARGET SECONDS: what it finds worth keeping stays in build-clang/corpus; tests/fuzz/corpus/TARGET seeds it, as
# does, for a run that is long enough to read all of it, what was kept. Its status and its seconds go to TARGET.end.
fuzz_run() {
	t=$1
	mkdir -p "build-clang/corpus/$t"
	[ "$2" -lt 60 ] || fuzz_unpack "$t" "build-clang/corpus/$t"
	set -- -max_total_time="$2" -rss_limit_mb=2048 -timeout=60 -print_final_stats=1 -artifact_prefix="build-clang/$t-" \
		"build-clang/corpus/$t"
	[ ! -d "tests/fuzz/corpus/$t" ] || set -- "$@" "tests/fuzz/corpus/$t"
	[ ! -f "tests/fuzz/$t.dict" ] || set -- -dict="tests/fuzz/$t.dict" "$@"
	# With threads one input takes other ways each time; counting how rare these are took nine tenths of the time.
	case $t in fuzz_http | fuzz_jobs) set -- -entropic=0 "$@" ;; esac
	rc=0
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 "build-clang/$t" "$@" >"build-clang/$t.log" 2>&1 || rc=$?
	# Seconds of the processor, not of the clock: a run beside other work counts for what it got.
	times >"build-clang/$t.times"
	awk -v rc=$rc 'NR == 2 { split($1, u, "m"); split($2, s, "m"); printf "%d %d\n", rc, (u[1] + s[1]) * 60 + u[2] + s[2] }' \
		"build-clang/$t.times" >"build-clang/$t.end"
}

# fuzz_keep TARGET: of what was kept and what this build's runs found, the smallest inputs that reach as much together.
fuzz_keep() {
	more=$(mktemp -d build-clang/keep.XXXXXX)
	mkdir "$more/old" "$more/new"
	fuzz_unpack "$1" "$more/old"
	rc=0
	"build-clang/$1" -merge=1 -rss_limit_mb=2048 -timeout=60 -artifact_prefix="build-clang/$1-" "$more/new" "$more/old" \
		"build-clang/corpus/$1" >"build-clang/$1-keep.log" 2>&1 || rc=$?
	# It passes over an input that ends the program, and says OK; here that is a finding.
	! grep -q '^SUMMARY: ' "build-clang/$1-keep.log" || rc=1
	if [ $rc = 0 ]; then
		mkdir -p $fuzz_kept
		# The same inputs give the same bytes: nobody's name and no date is in them.
		(cd "$more/new" && find . -type f | sed 's,^\./,,' | sort >../names) &&
			tar -cf "$more/tar" --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=644 -C "$more/new" -T "$more/names" &&
			xz -9e "$more/tar" && mv "$more/tar.xz" "$fuzz_kept/$1.tar.xz" || rc=1
	fi
	one_case "$1: $(find "$more/new" -type f | wc -l) inputs are kept" $rc "build-clang/$1-keep.log"
	rm -rf "$more"
}

# fuzz_all SECONDS TARGET...: as many at a time as there are CPUs.
fuzz_all() {
	fuzz_s=$1
	shift
	group=
	for f; do
		rm -f "build-clang/$f.end"
		(fuzz_run "$f" "$fuzz_s") &
		group="$group $f"
		# shellcheck disable=SC2086
		[ "$(printf '%s\n' $group | wc -l)" -lt "$(nproc)" ] || fuzz_wait $group
	done
	# shellcheck disable=SC2086
	[ -z "$group" ] || fuzz_wait $group
}

# fuzz_wait TARGET...: until those that were begun have ended; then each is a case.
fuzz_wait() {
	wait
	group=
	for f; do
		read -r rc spent_s <"build-clang/$f.end" || rc=1 spent_s=0
		[ "$fuzz_s" -lt 60 ] || fuzz_note "$f" "$spent_s" "$rc"
		one_case "$f: $(grep '^Done \|^SUMMARY: ' "build-clang/$f.log" | tail -n 1)" "$rc" "build-clang/$f.log"
	done
}

fuzz_log=tests/fuzz/log.tsv

# fuzz_note TARGET SECONDS STATUS: a line about a run. A finding ends a run, so there is at most one.
fuzz_note() {
	[ -f $fuzz_log ] || printf 'date\ttarget\tcommit\tseconds\texecutions\tfiles\tbytes\tfindings\n' >$fuzz_log
	commit=$(git rev-parse --short HEAD 2>/dev/null || say unknown)
	git diff --quiet HEAD -- . ":!$fuzz_log" 2>/dev/null || commit=$commit+
	n_execs=$(sed -n 's/^stat::number_of_executed_units: *//p' "build-clang/$1.log")
	# A run that found something has no statistics; its last line of progress says how far it came.
	[ -n "$n_execs" ] || n_execs=$(sed -n 's/^#\([0-9]*\)[[:space:]].*/\1/p' "build-clang/$1.log" | tail -n 1)
	printf '%s\t%s\t%s\t%d\t%s\t%d\t%d\t%d\n' "$(date -u +%Y-%m-%dT%H:%MZ)" "$1" "$commit" "$2" "${n_execs:-0}" \
		"$(find "build-clang/corpus/$1" -type f | wc -l)" \
		"$(find "build-clang/corpus/$1" -type f -exec cat {} + | wc -c)" "$([ "$3" = 0 ] && say 0 || say 1)" >>$fuzz_log
}

fuzz_totals() {
	[ -f $fuzz_log ] || die "there is no $fuzz_log yet: it is written by runs of 60 seconds or more"
	{ fuzz_targets; tail -n +2 $fuzz_log; } | awk -F '\t' '
	NF == 1 { order[++n] = $1; known[$1] = 1; next }
	!known[$2] { order[++n] = $2; known[$2] = 1 }
	{ runs[$2]++; seconds[$2] += $4; execs[$2] += $5; files[$2] = $6; bytes[$2] = $7; found[$2] += $8 }
	END {
		printf "%-16s %5s %8s %14s %7s %9s %9s\n", "target", "runs", "minutes", "executions", "files", "bytes", "findings"
		for (i = 1; i <= n; i++) {
			t = order[i]
			printf "%-16s %5d %8.1f %14d %7d %9d %9d\n", t, runs[t], seconds[t] / 60, execs[t], files[t], bytes[t], found[t]
			s += seconds[t]; e += execs[t]; f += found[t]; r += runs[t]
		}
		printf "%-16s %5d %8.1f %14d %7s %9s %9d\n", "all", r, s / 60, e, "", "", f
	}'
}

cmd_fuzz() {
	targets=
	seconds=60
	keep=
	for a; do
		case $a in
		--log) fuzz_totals; return ;;
		--keep) keep=1 ;;
		*[!0-9]*)
			t=fuzz_${a#fuzz_}
			[ -f "tests/fuzz/$t.c" ] || die "no fuzz target $t; there are: $(fuzz_targets | tr '\n' ' ')"
			targets="$targets $t"
			;;
		*) seconds=$a ;;
		esac
	done
	# shellcheck disable=SC2086
	need $pkgs_build $pkgs_clang libcmocka-dev
	fuzz_build
	if [ -n "$keep" ]; then
		for t in ${targets:-$(fuzz_targets)}; do [ ! -d "build-clang/corpus/$t" ] || fuzz_keep "$t"; done
	else
		# shellcheck disable=SC2046,SC2086
		fuzz_all "$seconds" ${targets:-$(fuzz_targets)}
	fi
	[ $n_fail = 0 ]
}
