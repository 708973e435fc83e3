#!/bin/sh
# What the libraries show to the linker.
# usage: check_symbols.sh BUILD_DIR [SOURCE]  libcohort.so exports what include/*.h marks with COHORT_API and nothing else,
#                                      each name with a version, and src/cohort.map lists the same; libcohort.a, where the
#                                      build makes it, shows the same names; in the archive of the parts every external name
#                                      is a room_verb or noun_verb, and no object outside src/backend, nor the plain
#                                      backend of the tests, refers to a symbol of a backend: only the registry's are
#                                      for others
#        check_symbols.sh --self-test  builds libraries with a violation each and expects them to be found
set -eu
LC_ALL=C
export LC_ALL
here=$(cd "$(dirname "$0")/.." && pwd)

# NAME@@VERSION of what is exported; the versions themselves are no names.
versioned() { nm -D --defined-only --with-symbol-versions "$1" | awk 'NF == 3 && $2 != "A" && $3 !~ /^(_init|_fini|_edata|_end|__bss_start)$/ { print $3 }' | sort -u; }
exported() { versioned "$1" | sed 's/@.*//' | sort -u; }
external() { nm -g --defined-only "$1" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u; }
# Names that the headers mark: the word before the first ( of a declaration.
marked() { cat "$1"/include/*.h | awk '/^COHORT_API / { sub(/\(.*/, ""); sub(/.*[ *]/, ""); print }' | sort -u; }
# NAME@@VERSION, by the version script.
listed() { awk '/^[A-Z][A-Z0-9_.]* *\{/ { v = $1 } $1 == "local:" { v = "" } v && /^\tcohort_[a-z0-9_]*;$/ { gsub(/[\t;]/, ""); print $0 "@@" v }' "$1/src/cohort.map" | sort -u; }

# only WHAT A B: lines of A that B has not.
only() {
	printf '%s\n--\n%s\n' "$3" "$2" |
		awk -v what="$1" '$0 == "--" { second = 1; next } !second { have[$0] = 1; next } $0 != "" && !($0 in have) { print what ": " $0 }'
}

# Symbols of backends that objects elsewhere refer to.
backend_users() { # ARCHIVE...
	nm -A -g "$@" 2>/dev/null | awk '
		NF < 2 { next }
		{ member = $1; sub(/:[0-9a-f]*$/, "", member); sub(/^.*[:\/]/, "", member); inside = member ~ /^src_backend_/ }
		$(NF - 1) == "U" { if (!inside) used[$NF] = used[$NF] " " member; next }
		inside && member !~ /^src_backend_registry/ { own[$NF] = 1 }
		END { for (s in own) if (s in used) print s " is used by" used[s] }'
}

tap_case() { # NUMBER TITLE OFFENDERS
	if [ -z "$3" ]; then
		echo "ok $1 - $2"
	else
		echo "not ok $1 - $2"
		printf '%s\n' "$3" | sed 's/^/# /'
		status=1
	fi
}

check() { # BUILD_DIR SOURCE
	status=0
	if [ ! -f "$1/libcohort.so" ] || [ ! -f "$1/libcohort_parts.a" ]; then
		echo "Bail out! no libcohort.so and libcohort_parts.a in $1"
		exit 1
	fi
	want=$(marked "$2")
	have=$(exported "$1/libcohort.so")
	map=$(listed "$2")
	names=$(printf '%s\n' "$map" | sed 's/@.*//')
	echo 1..7
	tap_case 1 'symbols: libcohort.so exports something' "$([ -n "$have" ] || echo 'no export at all')"
	tap_case 2 'symbols: libcohort.so exports what the headers mark, and nothing else' \
		"$(only 'not marked' "$have" "$want"; only 'not exported' "$want" "$have")"
	tap_case 3 'symbols: src/cohort.map lists what the headers mark, and nothing else, once' \
		"$(only 'not marked' "$names" "$want"; only 'not listed' "$want" "$names"; printf '%s\n' "$names" | sort | uniq -d)"
	tap_case 4 'symbols: libcohort.so has the versions of src/cohort.map' "$(only 'other version' "$(versioned "$1/libcohort.so")" "$map")"
	tap_case 5 'symbols: libcohort.a shows what libcohort.so shows' \
		"$([ ! -f "$1/libcohort.a" ] || { only 'not exported' "$(external "$1/libcohort.a")" "$have"; only 'not there' "$have" "$(external "$1/libcohort.a")"; })"
	tap_case 6 'symbols: external names in libcohort_parts.a have two parts' "$(external "$1/libcohort_parts.a" | grep -v '_' || true)"
	tap_case 7 'symbols: nothing outside src/backend refers to a backend but through its registry' \
		"$(backend_users "$1/libcohort_parts.a" "$1/libtests_plain_device.a")"
	return $status
}

if [ "${1:-}" = --self-test ]; then
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' EXIT
	cc=${CC:-cc}
	n=0
	result=0
	mkdir "$tmp/include" "$tmp/src"
	echo 1..12
	hidden='__attribute__((visibility("hidden")))'
	clean='int cohort_x(void) { return 1; } static int y(void) { return cohort_x(); } int cohort_y(void) { return y(); }'
	# expect red|green TITLE C-TEXT [NAMES-IN-HEADER [NAMES-IN-MAP [NAMES-IN-SCRIPT [plain]]]]
	expect() {
		n=$((n + 1))
		title=$2
		printf '%s\n' "$3" >"$tmp/x.c"
		printf 'COHORT_API int %s(void);\n' ${4-cohort_x cohort_y} >"$tmp/include/x.h"
		script() { printf 'COHORT_0.1 {\nglobal:\n'; printf '\t%s;\n' "$@"; printf 'local:\n\t*;\n};\n'; }
		script ${5-cohort_x cohort_y} >"$tmp/src/cohort.map"
		script ${6-cohort_x cohort_y} >"$tmp/linked.map"
		rm -f "$tmp"/*.a
		$cc -c -fPIC -o "$tmp/x.o" "$tmp/x.c"
		$cc -shared -Wl,--version-script="$tmp/linked.map" -Wl,--undefined-version -o "$tmp/libcohort.so" "$tmp/x.o" 2>/dev/null ||
			$cc -shared -Wl,--version-script="$tmp/linked.map" -o "$tmp/libcohort.so" "$tmp/x.o"
		ar rc "$tmp/libcohort_parts.a" "$tmp/x.o"
		if [ "${7:-}" = plain ]; then cp "$tmp/libcohort_parts.a" "$tmp/libcohort.a"; else sh "$here/tools/make_archive.sh" "$tmp/libcohort_parts.a" "$tmp/libcohort.a" ar objcopy $cc; fi
		if (check "$tmp" "$tmp") >"$tmp/out"; then got=green; else got=red; fi
		if [ $got = "$1" ]; then echo "ok $n - self-test: $title"; else echo "not ok $n - self-test: $title"; sed 's/^/# /' "$tmp/out"; result=1; fi
	}
	expect green 'a clean library' "$clean $hidden int tok_open(void) { return 2; }"
	expect red 'an exported internal name' "$clean int tok_open(void) { return 2; }" 'cohort_x cohort_y' 'cohort_x cohort_y' 'cohort_x cohort_y tok_open'
	expect red 'an exported name that no header has' "$clean int cohort_z(void) { return 2; }" 'cohort_x cohort_y' 'cohort_x cohort_y cohort_z' 'cohort_x cohort_y cohort_z'
	expect red 'a name of a header that the list leaves out' "$clean int cohort_z(void) { return 2; }" 'cohort_x cohort_y cohort_z' 'cohort_x cohort_y' 'cohort_x cohort_y cohort_z'
	expect red 'a name of the list that no header has' "$clean" 'cohort_x cohort_y' 'cohort_x cohort_y cohort_z'
	expect red 'a name of a header that is not exported' "$clean" 'cohort_x cohort_y cohort_z' 'cohort_x cohort_y cohort_z'
	expect red 'a library that exports nothing' 'static int cohort_x(void) { return 1; } static int (*volatile y)(void) = cohort_x;' cohort_x cohort_x cohort_x
	expect red 'a short external name' "$clean $hidden int run(void) { return 2; }"
	expect red 'an installed archive with an internal name' "$clean $hidden int tok_open(void) { return 2; }" 'cohort_x cohort_y' 'cohort_x cohort_y' 'cohort_x cohort_y' plain
	# users red|green TITLE C-TEXT: of an object of src/context, beside a backend and the registry
	users() {
		n=$((n + 1))
		rm -rf "$tmp/users"
		mkdir "$tmp/users"
		printf '%s\n' 'int be_planted(void) { return 1; }' >"$tmp/users/src_backend_planted.c"
		printf '%s\n' 'int be_get(void) { return 2; }' >"$tmp/users/src_backend_registry.c"
		printf '%s\n' "$3" >"$tmp/users/src_context_planted.c"
		(cd "$tmp/users" && for f in *.c; do $cc -c -o "$f.o" "$f"; done && ar rcT parts.a ./*.o) # thin, as the build makes it
		if [ -z "$(backend_users "$tmp/users/parts.a")" ]; then got=green; else got=red; fi
		if [ $got = "$1" ]; then echo "ok $n - self-test: $2"; else echo "not ok $n - self-test: $2"; result=1; fi
	}
	users green 'the registry is for all' 'int be_get(void); int x(void) { return be_get(); }'
	users red 'a symbol of a backend outside src/backend' 'int be_planted(void); int x(void) { return be_planted(); }'
	# Without a version script there are no versions.
	n=$((n + 1))
	$cc -shared -o "$tmp/libcohort.so" "$tmp/x.o"
	if (check "$tmp" "$tmp") | grep -q '^not ok 4'; then echo "ok $n - self-test: names without a version"; else echo "not ok $n - self-test: names without a version"; result=1; fi
	exit $result
fi
check "${1:?usage: check_symbols.sh BUILD_DIR [SOURCE] | --self-test}" "${2:-$here}"
