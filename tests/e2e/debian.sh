#!/bin/sh
# debian/ and the packages of the bindings say what the rest of the tree says, and the program of debian/tests runs.
# ./dev deb builds the packages.
#
# Seen red with another version in changelog and in Cargo.toml, a name less in libcohort0.symbols, a package less in
# Build-Depends (also one that libcohort-dev depends on).
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$COHORT_SOURCE" || exit 1

version=$(sed -n "s/^ *version: '\([0-9.]*\)',\$/\1/p" meson.build | head -n 1)
ran='debian/changelog'
[ "$(sed -n '1s/^cohort (\([^)-]*\)[-)].*/\1/p' debian/changelog)" = "$version" ]
verdict "changelog: version $version, as in meson.build"

ran='bindings'
for f in python/pyproject.toml node/package.json rust/cohort/Cargo.toml rust/cohort-sys/Cargo.toml; do
	[ "$(sed -n 's/^ *"*version"*[ :=]*"\([^"]*\)",*$/\1/p' "bindings/$f")" = "$version" ] || echo "bindings/$f"
done >"$tmp/out"
grep -q "^cohort-sys = .*version = \"$version\"" bindings/rust/cohort/Cargo.toml || echo 'cohort-sys in bindings/rust/cohort/Cargo.toml' >>"$tmp/out"
[ -n "$version" ] && empty out
verdict "packages of the bindings: version $version"

ran='debian/libcohort0.symbols'
sed -n 's/^[[:space:]]*\(cohort_[a-z0-9_]*\);.*/\1/p' src/cohort.map | sort >"$tmp/map"
sed -n 's/^ \(cohort_[a-z0-9_]*\)@COHORT_.*/\1/p' debian/libcohort0.symbols | sort >"$tmp/symbols"
diff "$tmp/map" "$tmp/symbols" >"$tmp/out"
[ -s "$tmp/map" ] && empty out
verdict "libcohort0.symbols: the $(wc -l <"$tmp/map") names of src/cohort.map"

ran='debian/control'
sed -n "s/^pkgs_build='\(.*\)'\$/\1/p" dev | tr ' ' '\n' | grep -v -x -e gcc -e libc6-dev -e ninja-build >"$tmp/needed"
sed -n '/^Build-Depends:/,/^[A-Z][A-Za-z-]*:/s/^ \([^ ,]*\).*/\1/p' debian/control >"$tmp/named"
grep -v -x -F -f "$tmp/named" "$tmp/needed" >"$tmp/out"
[ -s "$tmp/needed" ] && empty out
verdict 'control: what ./dev builds with is in Build-Depends'

for s in debian/tests/program debian/tests/programs debian/tests/python tools/deb.sh tools/root-test.sh; do
	run sh -n $s
	[ "$rc" = 0 ]
	verdict "$s is a script"
done

cc=$(command -v "${CC:-cc}" || command -v gcc || command -v clang)
if [ -z "$cc" ] || [ ! -e "$COHORT_BUILD/libcohort.so" ] || nm -D "$COHORT_BUILD/libcohort.so" | grep -qE '__(asan|tsan|ubsan|msan)_'; then
	skip 'the program of debian/tests' 'no compiler, or a library with sanitizers'
	exit 0
fi
run "$cc" -std=c11 -Wall -Wextra -Werror -Iinclude -o "$tmp/generate" debian/tests/generate.c "-L$COHORT_BUILD" -lcohort
[ "$rc" = 0 ]
verdict 'the program of debian/tests: builds'
run env "LD_LIBRARY_PATH=$COHORT_BUILD" "$tmp/generate" "$model" 'Once upon a time'
keep out said
"$bin/cohort" run -temp 0 -n 24 -ignore-eos 'Once upon a time' 2>/dev/null >"$tmp/want"
[ "$rc" = 0 ] && [ "$(cat "$tmp/said")" = "Once upon a time$(cat "$tmp/want")" ]
verdict 'the program of debian/tests: says what cohort run says'
