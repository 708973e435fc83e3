#!/bin/sh
# What the libraries show to the linker.
# usage: check_symbols.sh BUILD_DIR    libcohort.so exports cohort_* only; in libcohort.a every external name is a
#                                      room_verb or noun_verb, so that it does not take short names from its users
#        check_symbols.sh --self-test  builds libraries with a violation each and expects them to be found
set -eu
LC_ALL=C
export LC_ALL

exported() { nm -D --defined-only "$1" | awk 'NF == 3 && $3 !~ /^(_init|_fini|_edata|_end|__bss_start)$/ { print $3 }' | sort -u; }
external() { nm -g --defined-only "$1" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u; }

tap_case() { # NUMBER TITLE OFFENDERS
	if [ -z "$3" ]; then
		echo "ok $1 - $2"
	else
		echo "not ok $1 - $2"
		printf '%s\n' "$3" | sed 's/^/# /'
		status=1
	fi
}

check() { # BUILD_DIR
	status=0
	if [ ! -f "$1/libcohort.so" ] || [ ! -f "$1/libcohort.a" ]; then
		echo "Bail out! no libcohort.so and libcohort.a in $1"
		exit 1
	fi
	echo 1..3
	tap_case 1 'symbols: libcohort.so exports cohort_* only' "$(exported "$1/libcohort.so" | grep -v '^cohort_' || true)"
	tap_case 2 'symbols: libcohort.so exports something' "$([ -n "$(exported "$1/libcohort.so")" ] || echo 'no export at all')"
	tap_case 3 'symbols: external names in libcohort.a have two parts' "$(external "$1/libcohort.a" | grep -v '_' || true)"
	return $status
}

if [ "${1:-}" = --self-test ]; then
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' EXIT
	cc=${CC:-cc}
	n=0
	result=0
	echo 1..4
	build() { # C-TEXT
		printf '%s\n' "$1" >"$tmp/x.c"
		rm -f "$tmp/libcohort.a"
		$cc -c -fPIC -o "$tmp/x.o" "$tmp/x.c"
		$cc -shared -o "$tmp/libcohort.so" "$tmp/x.o"
		ar rc "$tmp/libcohort.a" "$tmp/x.o"
	}
	expect() { # red|green C-TEXT TITLE
		n=$((n + 1))
		build "$2"
		if (check "$tmp") >/dev/null; then got=green; else got=red; fi
		if [ $got = "$1" ]; then echo "ok $n - self-test: $3"; else echo "not ok $n - self-test: $3"; result=1; fi
	}
	expect green 'int cohort_x(void) { return 1; } static int y(void) { return cohort_x(); } int (*cohort_y)(void) = y;' 'a clean library'
	expect red 'int cohort_x(void) { return 1; } int tok_open(void) { return 2; }' 'an exported internal name'
	expect red 'static int x(void) { return 1; } static int (*volatile y)(void) = x;' 'a library that exports nothing'
	expect red 'int cohort_x(void) { return 1; } __attribute__((visibility("hidden"))) int run(void) { return 2; }' 'a short external name'
	exit $result
fi
check "${1:?usage: check_symbols.sh BUILD_DIR | --self-test}"
