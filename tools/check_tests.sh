#!/bin/sh
# Each case of the C tests has a name that no other one has, and each group of cases has a name: those are what TAP tells.
# usage: check_tests.sh [ROOT]      prints TAP
#        check_tests.sh --self-test plants violations and expects each one to be found
set -eu
LC_ALL=C
export LC_ALL
here=$(cd "$(dirname "$0")/.." && pwd)

# A case is a function whose only argument is `void **state`.
twice() {
	find tests -name '*.[ch]' | sort | xargs grep -HoE '^static void [a-z0-9_]+\(void \*\*state\)$' | sed 's/:static void /(/' |
		awk -F '(' '{ where[$2] = where[$2] " " $1; n[$2]++ } END { for (c in n) if (n[c] > 1) print c " is a case of" where[c] }' | sort
}
unnamed() {
	find tests -name '*.[ch]' | sort | xargs grep -HnE 'cmocka_run_group_tests(_name)?\(' |
		grep -vE 'cmocka_run_group_tests_name\("[a-z0-9_]+",|_cmocka_run_group_tests\("[a-z0-9_]+",' || true
}

check() { # ROOT
	cd "$1"
	bad=0
	echo 1..2
	said() { # WHAT VIOLATIONS: one case
		n=$((${n:-0} + 1))
		[ -z "$2" ] && echo "ok $n - tests: $1" && return
		bad=1
		echo "not ok $n - tests: $1"
		printf '%s\n' "$2" | sed 's/^/# /'
	}
	said 'no name of a case occurs twice' "$(twice)"
	said 'every group of cases has a name' "$(unnamed)"
	return $bad
}

if [ "${1:-}" = --self-test ]; then
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' EXIT
	mkdir -p "$tmp/tests/unit"
	printf 'static void one(void **state)\n{\n}\n\tcmocka_run_group_tests_name("a", tests, NULL, NULL);\n' >"$tmp/tests/unit/a.c"
	printf 'static void two(void **state)\n{\n}\n\t_cmocka_run_group_tests("b", tests, 1, NULL, NULL);\n' >"$tmp/tests/unit/b.c"
	result=0
	k=0
	expect() { # NAME PATTERN: what a check of the planted tree says
		k=$((k + 1))
		if (check "$tmp") 2>&1 | grep -q "$2"; then echo "ok $k - self-test: $1"; else echo "not ok $k - self-test: $1"; result=1; fi
	}
	echo 1..4
	expect 'two names' '^ok 1 '
	expect 'two named groups' '^ok 2 '
	printf 'static void one(void **state)\n{\n}\n\tcmocka_run_group_tests(tests, NULL, NULL);\n' >"$tmp/tests/unit/c.c"
	expect 'a name twice' '^# one is a case of tests/unit/a.c tests/unit/c.c$'
	expect 'a group without a name' '^# tests/unit/c.c:4:'
	exit $result
fi
check "${1:-$here}"
