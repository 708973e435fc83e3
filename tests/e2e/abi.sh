#!/bin/sh
# What compiled programs depend on is what is stored in tests/abi: functions, structs with their sizes and offsets, values.
# Each kind of change is planted in a copy of the headers here, and has to be named.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

apidoc=$COHORT_BUILD/tools/apidoc
if [ ! -x "$apidoc" ] || ! command -v "${CC:-cc}" >/dev/null || [ "$(uname -m)" != x86_64 ]; then
	skip 'abi' 'no tools/apidoc, no compiler, or not x86-64'
	exit 0
fi
run "$apidoc" --self-test
if [ "$rc" != 0 ]; then
	skip 'abi' 'tools/apidoc does not run here: it is for another machine'
	exit 0
fi

run sh "$COHORT_SOURCE/tools/abi.sh" "$apidoc"
[ "$rc" = 0 ] && is out 'abi: nothing changed' && empty err
verdict 'the interface is the one that is stored (./dev abi shows what changed, ./dev abi --update stores it)'
for word in func struct field value const type symbol; do
	[ "$(grep -c "^$word " "$COHORT_SOURCE/tests/abi/x86_64.txt")" -ge 3 ]
	verdict "something is stored of each kind: $word"
done

# plant EXPECTED SED-SCRIPT FILE [more]: changes a copy of the tree and expects such lines, and no other change (but with more).
plant() {
	rm -rf "$tmp/tree"
	mkdir -p "$tmp/tree/src" "$tmp/tree/tests"
	cp -r "$COHORT_SOURCE/include" "$tmp/tree/"
	cp "$COHORT_SOURCE/src/cohort.map" "$tmp/tree/src/"
	cp -r "$COHORT_SOURCE/tests/abi" "$tmp/tree/tests/"
	sed -i "$2" "$tmp/tree/$3"
	! cmp -s "$tmp/tree/$3" "$COHORT_SOURCE/$3" || echo 'the fault was not planted'
	run sh "$COHORT_SOURCE/tools/abi.sh" "$apidoc" "$tmp/tree"
	[ "$rc" = 1 ] && matches out "$1" && { [ -n "${4:-}" ] || ! grep -vE -e "$1" "$tmp/out" >/dev/null; }
	verdict "planted: $1"
}
plant '^incompatible: changed: value COHORT_NO_ROOM: 1 -> 3$' 's/COHORT_NO_ROOM = 1,/COHORT_NO_ROOM = 3,/' include/cohort.h
plant '^incompatible: changed: field cohort_chunk\.(n_rows|oversized): offset' 's/^	int32_t n_rows;$/	bool oversized;/;t
	s/^	bool oversized;$/	int32_t n_rows;/' include/cohort.h
plant '^incompatible: (removed: (func|symbol) cohort_room_params_init$)' '/cohort_room_params_init/d' include/cohort.h
plant '^incompatible: removed: symbol cohort_room_params_init$' '/cohort_room_params_init/d' src/cohort.map
plant '^incompatible: changed: func cohort_version: const char \*cohort_version\(void\); -> const char \*cohort_version\(int full\);$' \
	's/cohort_version(void)/cohort_version(int full)/' include/cohort.h
plant '^incompatible: changed: const COHORT_ORDER_MAX: 32 -> 48$' 's/COHORT_ORDER_MAX 32 /COHORT_ORDER_MAX 48 /' include/cohort.h more
plant '^incompatible: removed: type typedef int32_t cohort_pos;$' 's/typedef int32_t cohort_pos;/typedef int64_t cohort_pos;/' include/cohort.h more
plant '^compatible: (grown: struct|added: field) cohort_forest_params' 's/^	int32_t n_seqs;       \/\* most .*/&\n	int64_t later;/' include/cohort.h
plant '^incompatible: added within what was there: field cohort_model_info.later: offset 132 ' \
	's/^	int32_t n_window; .*/&\n	int32_t later;/' include/cohort.h
plant '^incompatible: (changed: struct|added within what was there: field) cohort_score' 's/^	double perplexity; .*/&\n	double later;/' include/cohort.h
plant '^compatible: added: (func|symbol) cohort_later' 's|^/\* "0.1.0" \*/$|&\nCOHORT_API int cohort_later(void);|' include/cohort.h

# ---- A struct that grows, as docs/abi.md says ----

# An _init of two versions: the old program has the old struct, and what lies behind it stays as it is. Seen red with one
# function for both versions.
cd "$tmp" || exit 1
mkdir old new
cat >old/x.h <<'C'
#include <stddef.h>
struct params { size_t struct_size; long a; };
void params_init(struct params *p);
C
sed 's/long a;/long a, b;/' old/x.h >new/x.h
cat >v1.c <<'C'
#include "old/x.h"
void params_init(struct params *p) { *p = (struct params){sizeof *p, 1}; }
C
cat >v2.c <<'C'
#include "new/x.h"
struct params_0_1 { size_t struct_size; long a; };
void params_init_0_1(struct params_0_1 *p);
void params_init_0_2(struct params *p);
__asm__(".symver params_init_0_1, params_init@X_0.1");
__asm__(".symver params_init_0_2, params_init@@X_0.2");
void params_init_0_1(struct params_0_1 *p) { *p = (struct params_0_1){sizeof *p, 1}; }
void params_init_0_2(struct params *p) { *p = (struct params){sizeof *p, 1, 2}; }
C
cat >user.c <<'C'
#include "x.h"
#include <stdio.h>
int main(void)
{
	struct { struct params p; long behind; } x = {.behind = 7};
	params_init(&x.p);
	printf("%zu %ld %ld\n", x.p.struct_size, x.p.a, x.behind);
	return 0;
}
C
printf 'X_0.1 { global: params_init; local: *; };\n' >v1.map
printf 'X_0.1 { global: params_init; local: *; };\nX_0.2 { global: params_init; } X_0.1;\n' >v2.map
make_both() {
	"${CC:-cc}" -shared -fPIC -Wl,--version-script=v1.map -Wl,-soname,libx.so.0 -o libx.so v1.c &&
		"${CC:-cc}" -Iold -o old_user user.c ./libx.so &&
		"${CC:-cc}" -shared -fPIC -Wl,--version-script=v2.map -Wl,-soname,libx.so.0 -o libx.so.0 v2.c &&
		"${CC:-cc}" -Inew -o new_user user.c ./libx.so.0 && LD_LIBRARY_PATH=. ./old_user && LD_LIBRARY_PATH=. ./new_user
}
run make_both
[ "$rc" = 0 ] && [ "$(tr '\n' ' ' <out)" = '16 1 7 24 1 7 ' ]
verdict 'an _init of two versions: programs of both get their own'
