#!/bin/sh
# The library as two files (./dev amalgamate): one line builds them, a program against them has the bits of the library
# at every level, and nothing but cohort_ is external. With COHORT_EFFORT=long also with -O2, with clang, and for another
# CPU (-march=native), which may not fuse what is not fused elsewhere.
#
# Seen red with a constant of kern_math.h changed (all logits), with the prototypes of headers left as they are by
# amalgamate_names.c (other names than cohort_), with the pragmas taken out of amalgamate_head.h (fused at -O2).
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

cc=$(command -v "${CC:-cc}" || command -v gcc || command -v clang)
if [ -z "$cc" ] || [ ! -x "$COHORT_BUILD/amalgamate" ]; then
	skip 'amalgamation' 'no compiler, or no build of tools/amalgamate.c'
	exit 0
fi
libs='-lpcre2-8 -lutf8proc -ljansson -lm -ldl -pthread'
cd "$tmp" || exit 1

run sh "$COHORT_SOURCE/tools/amalgamate.sh" "$tmp" "$COHORT_BUILD/amalgamate"
[ "$rc" = 0 ] && [ -s cohort.h ] && [ -s cohort.c ]
verdict 'cohort.c and cohort.h are made'
version=$("$bin/cohort" version)
grep -q "^/\* cohort.c: ${version% *} ${version##* } (" cohort.c && grep -q 'Permission is hereby granted' cohort.c &&
	grep -q 'Permission is hereby granted' cohort.h
verdict 'version and licence are in them'
mv cohort.c first.c
run sh "$COHORT_SOURCE/tools/amalgamate.sh" "$tmp" "$COHORT_BUILD/amalgamate"
cmp -s cohort.c first.c
verdict 'the same sources give the same bytes'

# From an archive of the sources, without a repository, there is nothing to compare them with.
mkdir plain
cp -R "$COHORT_SOURCE/src" "$COHORT_SOURCE/include" "$COHORT_SOURCE/tools" "$COHORT_SOURCE/meson.build" "$COHORT_SOURCE/LICENSE" plain/
run env "GIT_CEILING_DIRECTORIES=$tmp" sh plain/tools/amalgamate.sh "$tmp/plain/out" "$COHORT_BUILD/amalgamate"
[ "$rc" = 0 ] && head -n 1 plain/out/cohort.c | grep -q '(of no known commit), ' && sed 1d first.c >first.rest && sed 1d plain/out/cohort.c | cmp -s - first.rest
verdict 'without a repository: the same, and no word of changes'
rm -rf plain

cat >prog.c <<'C'
/* prog MODEL LEVEL ID...: the logits of every position of the ids, as float32. */
#include "cohort.h"
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
	struct cohort_model_params mp;
	struct cohort_context_params cp;
	struct cohort_model_info info;
	struct cohort_model *model;
	struct cohort_context *ctx;
	struct cohort_batch batch;
	struct cohort_err err;
	cohort_model_params_init(&mp);
	cohort_context_params_init(&cp);
	mp.isa = argv[2];
	if (argc < 4 || cohort_model_open(argv[1], &mp, &model, &err) || cohort_context_open(model, &cp, &ctx, &err) ||
			cohort_batch_init(&batch, 64, 0, 1, &err))
		return fprintf(stderr, "%s\n", err.text), 1;
	for (int i = 3; i < argc; i++)
		if (cohort_batch_add(&batch, atoi(argv[i]), i - 3, &(cohort_seq){0}, 1, true, &err))
			return fprintf(stderr, "%s\n", err.text), 1;
	if (cohort_decode(ctx, &batch, &err))
		return fprintf(stderr, "%s\n", err.text), 1;
	cohort_model_info_get(model, &info);
	for (int i = 0; i < argc - 3; i++)
		fwrite(cohort_logits_get(ctx, i, &err), sizeof(float), (size_t)info.n_vocab, stdout);
	cohort_batch_release(&batch);
	cohort_context_free(ctx);
	cohort_model_free(model);
	return 0;
}
C

"$bin/cohort" tokenize 'Once upon a time there was a little girl' >ids
for level in $(levels); do
	"$bin/cohort" logits --tokens ids --isa "$level" -o "want-$level" || exit 1
done

# logits_of TITLE: what ./prog computes at each level.
logits_of() {
	for level in $(levels); do
		# shellcheck disable=SC2046
		run ./prog "$model" "$level" $(cat ids)
		[ "$rc" = 0 ] && cmp -s out "want-$level"
		verdict "$1: logits of $level are those of the library"
	done
}

# try COMPILER FLAG...: builds with one line, and looks at names, warnings and bits.
try() {
	how="$(basename "$1") $2${3:+ $3}"
	# shellcheck disable=SC2086
	run "$@" -Wall -Wextra -c cohort.c
	[ "$rc" = 0 ] && empty err
	verdict "$how: builds without a warning"
	others=$(nm -g --defined-only cohort.o | awk '{ print $NF }' | grep -v '^cohort_')
	[ -z "$others" ] && nm -g --defined-only cohort.o | grep -q ' T cohort_decode$'
	verdict "$how: only cohort_ is external"
	# shellcheck disable=SC2086
	run "$@" -Wall -Wextra -o prog prog.c cohort.o $libs
	[ "$rc" = 0 ] && empty err
	verdict "$how: a program against it"
	logits_of "$how"
}
# Compiling takes longer than all the rest. A short run (CI's, with levels hidden) takes the program that the run before it
# built from the same bytes.
kept=$COHORT_BUILD/amalgamation-prog
{ "$cc" --version && cat cohort.c cohort.h prog.c; } | cksum >sum
if [ "$effort" = short ] && [ -x "$kept" ] && cmp -s sum "$kept.sum"; then
	cp "$kept" prog
	logits_of "kept program"
else
	try "$cc" -O0
	[ $n_bad != 0 ] || { cp prog "$kept" && cp sum "$kept.sum"; }
fi
if [ "$effort" = long ]; then
	try "$cc" -O2
	try "$cc" -O2 -march=native
	if command -v clang >/dev/null; then
		try clang -O1
		try clang -O2 -march=native
	else
		skip 'clang' 'not installed'
	fi
fi

# At -O0 nothing is ever fused; that nothing is at -O2 is seen from the head of the file and one function.
sed '/^\/\* ---- src\//,$d' cohort.c >head.c
echo 'float fused(float a, float b, float c); float fused(float a, float b, float c) { return a * b + c; }' >>head.c
for c in "$cc" clang; do
	if [ "$(uname -m)" != x86_64 ] || ! command -v "$c" >/dev/null; then
		skip "$(basename "$c") -O2 -mfma: nothing is fused" 'no such compiler, or another machine'
		continue
	fi
	run "$c" -O2 -mfma -S -o head.s head.c
	[ "$rc" = 0 ] && grep -q mulss head.s && ! grep -q fmadd head.s
	verdict "$(basename "$c") -O2 -mfma: nothing is fused"
done

# The head alone says so, before anything else is compiled.
for flag in -ffast-math -Ofast; do
	run "$cc" -O1 $flag -fsyntax-only head.c
	[ "$rc" != 0 ] && has err '-ffast-math'
	verdict "$flag is refused"
done

# What it cannot do, it says, with the place.
mkdir -p bad/src/room bad/include
cd bad || exit 1
: >title
printf '#ifndef A_H\n#define A_H\nstruct one { int x; };\nint room_one(void);\n#endif\n' >src/room/a.h
printf '#include "room/a.h"\nstatic int help(void) { return 1; }\nint room_one(void) { return help(); }\n' >src/room/a.c
printf '#include "room/a.h"\nstatic int help(void) { return 2; }\nstruct two { struct one help; };\nint room_two(void) { struct two t = {{help()}}; return t.help.x; }\n' >src/room/b.c
run "$COHORT_BUILD/amalgamate" title title -- src/room/a.c src/room/b.c
refused 1 'src/room/b.c:4: room_two is external and in no header'
verdict 'an external name in no header: refused with file and line'
sed -i 's/^int room_one.*/&\nint room_two(void);/' src/room/a.h
run "$COHORT_BUILD/amalgamate" title title -- src/room/a.c src/room/b.c
keep out both.c
printf 'int main(void) { return room_one() * 10 + room_two() != 12; }\n' >>../both.c
[ "$rc" = 0 ] && "$cc" -o both ../both.c && ./both && grep -q 'struct one help;' ../both.c
verdict 'a name of two files: two names, and a member keeps its own'
printf '#include "room/none.h"\n' >src/room/c.c
run "$COHORT_BUILD/amalgamate" title title -- src/room/c.c
refused 1 'src/room/c.c:1: "room/none.h" is neither in include nor in src'
verdict 'a header that is not there: refused with file and line'
