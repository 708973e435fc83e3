# shellcheck shell=sh
# A part of ./dev, which reads it in. Coverage: which branches and lines the tests take.

# Not optimised and without asserts, so that a branch is one that the source has; but for what is not looked at, and with
# --all the loops of src/kern and src/quant: tests could not wait for these.
coverage_dir=build-coverage
coverage_options=
coverage_rooms='batch engine gguf kv'
# What takes every branch of the rooms, in little time.
coverage_tests='test_batch test_batch_check test_batch_random test_batch_split test_bin_pack test_gguf test_gguf_refuse test_gguf_split test_gguf_sweep test_gguf_tensors test_gguf_values test_gguf_write test_kv test_kv_model test_kv_shape test_memory test_recur test_row_embedding test_state_recur'
coverage_tests="$coverage_tests test_engine_adapter test_engine_api test_engine_books test_engine_cache test_engine_clients test_engine_counts test_engine_drain test_engine_edges test_engine_memory test_engine_module test_engine_paths test_engine_queue test_engine_ready test_engine_text test_engine_traces test_simulate test_strategy"
# Who makes writing fail or kills makes the counts fail; benchmarks measure, and what was installed is not what is counted.
coverage_not='bench|bench_branch|bench_peer|bench_threads|crash|install|prog_torture|serve_load|serve_torture|test_state_kill|torture|torture_full'
coverage_lines_min=90

coverage_compile() { # TARGET...: none is all
	# shellcheck disable=SC2046,SC2086
	(configure $coverage_dir gcc -Dbuildtype=debug -Ddebug=false -Db_coverage=true -Db_ndebug=true -Dtests=enabled $coverage_options $(quick_link) &&
		compile $coverage_dir "$@") || return 1
	find $coverage_dir \( -name '*.gcda' -o -name '*.gcov' \) -delete
}

# shellcheck disable=SC2086
coverage_build() {
	borrow libuncounted -v "/src_($(say $coverage_rooms | tr ' ' '|'))_" || return 1
	coverage_options=$borrowed
	coverage_compile $coverage_tests strategy_modules
}

# coverage_count DIRECTORY...: FILE.gcov for every source of the objects there, with sums in gcov.log. Objects that no
# test touched count, too. Sources are named as seen from the build directory.
coverage_count() {
	(cd $coverage_dir && find "$@" -name '*.gcno' -exec gcov -p -b -c {} +) >$coverage_dir/gcov.log 2>$coverage_dir/gcov.err
}

# The rooms that have to be whole: branches never taken, and lines of the list of exceptions that excuse nothing.
coverage_gate() {
	awk -v rooms="$coverage_rooms" -v list=tests/coverage-unreachable.txt '
	function trim(t) { gsub(/^[ \t]+|[ \t]+$/, "", t); return t }
	function finish() {
		if (mine) printf "%-28s %4d of %4d branches, %d explained\n", src, taken, total, excused
		t += taken; e += excused; n += total
		taken = total = excused = mine = 0
	}
	BEGIN {
		for (i = split(rooms, w, " "); i > 0; i--) room["src/" w[i]] = 1
		while ((getline l < list) > 0)
			if (l !~ /^#/ && split(l, w, " \\| ") >= 3) why[w[1] SUBSEP w[2]] = 1
	}
	FNR == 1 {
		finish()
		src = $0
		sub(/^.*:Source:(\.\.\/)*/, "", src)
		where = src
		sub(/\/[^\/]*\.c$/, "", where)
		mine = where in room
	}
	!mine { next }
	/^ *[-#=0-9*]+: *[0-9]+:/ { line = $0; sub(/^[^:]*: */, "", line); nr = line; sub(/:.*/, "", nr); sub(/^[0-9]+:/, "", line) }
	/^branch / {
		total++
		if ($0 !~ /never executed/ && $4 != 0) { taken++; next }
		key = src SUBSEP trim(line)
		if (key in why) { excused++; used[key] = 1; next }
		print src ":" nr ": a branch that no test takes: " trim(line)
		bad = 1
	}
	END {
		finish()
		for (key in why) if (!(key in used)) {
			split(key, w, SUBSEP)
			print list ": excuses nothing: " w[1] " | " w[2]
			bad = 1
		}
		gsub(/ /, ", src/", rooms)
		printf "branch coverage of src/%s: %d of %d, %d unreachable and explained\n", rooms, t, n, e
		exit bad || n == 0
	}' $coverage_dir/*.gcov
}

# Lines and branches of all sources, room by room.
coverage_sums() {
	awk -v lines_min=$coverage_lines_min '
	function share(a, n) { return n ? 100 * a / n : 100 }
	function show(what, l, nl, b, nb) {
		printf "%-16s %6d of %6d lines, %5.1f %%; %6d of %6d branches, %5.1f %%\n", what, l, nl, share(l, nl), b, nb, share(b, nb)
	}
	/^File / {
		room = ""
		if (!match($0, /\.\.\/(src\/[a-z]+|prog)\//)) next
		room = substr($0, RSTART + 3, RLENGTH - 4)
		if (!(room in seen)) { seen[room] = 1; order[++n] = room }
	}
	room == "" { next }
	/^Lines executed:/ { split($2, w, ":"); l[room] += w[2] * $4 / 100; nl[room] += $4 }
	/^Taken at least once:/ { split($4, w, ":"); b[room] += w[2] * $6 / 100; nb[room] += $6 }
	/^$/ { room = "" }
	END {
		for (i = 1; i <= n; i++) {
			room = order[i]
			show(room, l[room], nl[room], b[room], nb[room])
			L += l[room]; NL += nl[room]; B += b[room]; NB += nb[room]
		}
		show("all", L, NL, B, NB)
		exit !NL || share(L, NL) < lines_min
	}' $coverage_dir/gcov.log
}

coverage_all_tests() { meson test -C $coverage_dir --no-rebuild --list --no-suite house 2>/dev/null | sed -n 's/.* \/ //p' | grep -vxE "$coverage_not"; }

cmd_coverage() {
	# shellcheck disable=SC2086
	need $pkgs_build $pkgs_test
	rc=0
	case ${1:-} in
	'')
		coverage_build || die 'the coverage build failed'
		export COHORT_COVERAGE=1 COHORT_EFFORT=short COHORT_TRACES="${COHORT_TRACES:-2000}"
		# shellcheck disable=SC2086
		meson test -C $coverage_dir --no-rebuild --print-errorlogs --timeout-multiplier 5 $coverage_tests ||
			die 'a test failed that coverage is measured with'
		coverage_count libcohort_parts.a.p || die "gcov failed: see $coverage_dir/gcov.err"
		;;
	--all)
		coverage_dir=build-coverage-all
		coverage_options=-Dcount_all=true
		coverage_compile || die 'the coverage build failed'
		export COHORT_COVERAGE=1
		# A test that fails has been through its lines all the same; other legs tell of it.
		# shellcheck disable=SC2046
		meson test -C $coverage_dir --no-rebuild --timeout-multiplier 5 $(coverage_all_tests) || say 'dev: not all tests passed'
		coverage_count libcohort_parts.a.p libfast.a.p libprog.a.p batched.p cohort.p || die "gcov failed: see $coverage_dir/gcov.err"
		coverage_sums || { rc=1; say "fewer than $coverage_lines_min % of all lines"; }
		;;
	*) die "coverage: unknown option $1 (there is only --all)" ;;
	esac
	coverage_gate || rc=1
	return $rc
}
