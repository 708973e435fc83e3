#!/bin/sh
# Installed, moved, linked to: the programs find the built-in model, and a program builds against the library.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

if ! command -v meson >/dev/null || [ ! -e "$COHORT_BUILD/libcohort.so" ] || [ ! -e "$COHORT_BUILD/libcohort.a" ]; then
	skip 'install' 'meson or the libraries are not there'
	exit 0
fi

run meson install -C "$COHORT_BUILD" --no-rebuild --destdir "$tmp/dest"
[ "$rc" = 0 ]
verdict 'meson install --destdir'
prog=$(find "$tmp/dest" -path '*/bin/batched')
prefix=${prog%/bin/batched}
[ -n "$prog" ] && [ -x "$prefix/bin/cohort" ] && [ -f "$prefix/share/cohort/cohort-tiny.gguf" ] && [ -f "$prefix/include/cohort.h" ]
verdict 'install: programs, model and headers'
[ -n "$prog" ] || exit 0
mkdir "$tmp/elsewhere"
cd "$tmp/elsewhere" || exit 1

run "$bin/batched" -n-predict 4
keep out want
run "$prefix/bin/batched" -n-predict 4
[ "$rc" = 0 ] && sequences 4 'Hello my name is' && same out want
verdict 'installed batched finds the installed model'
run "$prefix/bin/cohort" info
[ "$rc" = 0 ] && has out "$prefix/bin/../share/cohort/cohort-tiny.gguf"
verdict 'installed cohort finds the installed model'
mv "$prefix" "$tmp/moved"
run "$tmp/moved/bin/batched" -n-predict 4
[ "$rc" = 0 ] && same out want
verdict 'an installation that was moved'
PATH=$tmp/moved/bin:$PATH sh -c 'batched -n-predict 4' >"$tmp/out" 2>"$tmp/err"
same out want
verdict 'found by way of PATH'
ln -s "$bin/batched" "$tmp/elsewhere/linked"
run ./linked -n-predict 4
[ "$rc" = 0 ] && same out want
verdict 'a symbolic link to the build directory'
ln -s "$tmp/moved/bin/batched" "$tmp/elsewhere/linked2"
run "$tmp/elsewhere/linked2" -n-predict 4
[ "$rc" = 0 ] && same out want
verdict 'a symbolic link to the installation'

for p in batched cohort; do cp "$COHORT_BUILD/$p" "$tmp/elsewhere/$p"; done
datadir=$(strings -a "$COHORT_BUILD/batched" 2>/dev/null | grep '/share/cohort$' | head -n 1)
if [ -e "${datadir:-/usr/local/share/cohort}/cohort-tiny.gguf" ]; then
	skip 'a lone copy says where it looked' 'a model is installed on this machine'
else
	run "$tmp/elsewhere/batched"
	refused 3 "$tmp/elsewhere/../models/cohort-tiny.gguf" && has err '../share/cohort/cohort-tiny.gguf' && has err "${datadir:-/share/cohort}" &&
		has err '-model FILE'
	verdict 'a lone copy says where it looked'
	for c in info 'tokenize hello'; do
		# shellcheck disable=SC2086
		run "$tmp/elsewhere/cohort" $c
		refused 3 'the built-in model was not found'
		verdict "a lone copy: cohort $c"
	done
fi
run "$tmp/elsewhere/batched" -model "$model" -n-predict 4
[ "$rc" = 0 ] && same out want
verdict 'a lone copy with -model'

# ---- The library ----

pc=$(find "$tmp/moved" -name cohort.pc)
[ -n "$pc" ] && grep -q '^Libs:.*-lcohort' "$pc"
verdict 'cohort.pc is installed'
cc=$(command -v "${CC:-cc}" || command -v gcc || command -v clang)
if [ -z "$cc" ]; then
	skip 'a program against the library' 'no compiler'
	exit 0
fi
if grep -qE '__(asan|tsan|ubsan)_' "$COHORT_BUILD/libcohort.a"; then
	skip 'a program against the library' 'the library is built with sanitizers'
	exit 0
fi
cat >prog.c <<'C'
#include <cohort.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	struct cohort_model_params p;
	struct cohort_model_info info;
	struct cohort_model *m;
	struct cohort_err err;
	cohort_model_params_init(&p);
	if (argc != 2 || cohort_model_open(argv[1], &p, &m, &err)) return 1;
	cohort_model_info_get(m, &info);
	printf("%s %d\n", cohort_version(), info.n_vocab);
	cohort_model_free(m);
	return 0;
}
C
libdir=$(dirname "$(find "$tmp/moved" -name libcohort.so | head -n 1)")
version=$("$bin/cohort" version)
run "$cc" -std=c11 -Wall -Wextra -Werror -pedantic "-I$tmp/moved/include" prog.c "-L$libdir" -lcohort -o shared_prog
[ "$rc" = 0 ]
verdict 'a program against the shared library: builds'
run env "LD_LIBRARY_PATH=$libdir" ./shared_prog "$model"
[ "$rc" = 0 ] && is out "${version#cohort } 8192"
verdict 'a program against the shared library: runs'
if command -v pkg-config >/dev/null; then
	PKG_CONFIG_PATH=$(dirname "$pc")
	export PKG_CONFIG_PATH
	# The file names the configured prefix; the installation stands elsewhere.
	flags=$(pkg-config --define-variable=prefix="$tmp/moved" --cflags --libs cohort)
	# shellcheck disable=SC2086
	run "$cc" prog.c $flags -o pc_prog
	[ "$rc" = 0 ] && [ "$(pkg-config --modversion cohort)" = "${version#cohort }" ]
	verdict 'a program by pkg-config: builds'
	run env "LD_LIBRARY_PATH=$libdir" ./pc_prog "$model"
	[ "$rc" = 0 ] && is out "${version#cohort } 8192"
	verdict 'a program by pkg-config: runs'
	rm "$libdir"/libcohort.so*
	flags=$(pkg-config --define-variable=prefix="$tmp/moved" --static --cflags --libs cohort)
	# shellcheck disable=SC2086
	run "$cc" prog.c $flags -o static_prog
	[ "$rc" = 0 ]
	verdict 'a program with the static library: builds'
	run ./static_prog "$model"
	[ "$rc" = 0 ] && is out "${version#cohort } 8192"
	verdict 'a program with the static library: runs'
else
	skip 'a program by pkg-config' 'no pkg-config'
fi
