#!/bin/sh
# Installed, moved, linked to: the programs find the built-in model, and programs build against the library by hand, by
# pkg-config and by CMake, shared and static. ./dev install puts the same files there, and ./dev uninstall takes them away.
# Seen red with: an archive of the parts in the place of libcohort.a; a version file that takes any version; paths that are
# not seen from the file (CMake, pkg-config); another bindir in the unit; uninstall that leaves directories, its own list or
# what only an older version had, and one that takes directories that were there before; an installation that made no
# directory, installed over (its files were all gone); another spelling of the prefix (the list was gone); a umask of 077; a
# libdir and an includedir outside of the prefix in cohort.pc.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

if ! command -v meson >/dev/null || [ ! -e "$COHORT_BUILD/libcohort.so" ] || [ ! -e "$COHORT_BUILD/libcohort_parts.a" ]; then
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
configured=${prefix#"$tmp/dest"}
(cd "$tmp/dest" && find . ! -type d | sort) >"$tmp/meson-set"
for f in README.md LICENSE docs/abi.md docs/server.md examples/tree.c; do
	[ -s "$prefix/share/doc/cohort/$f" ]
	verdict "install: share/doc/cohort/$f"
done
unit=$(find "$tmp/dest" -name cohort.service)
[ -n "$unit" ] && grep -q "^ExecStart=\"$configured/bin/cohort\" serve " "$unit" && ! grep -q '@bindir' "$unit"
verdict 'install: the unit runs the program that is installed'

# ---- ./dev install ----

mkdir "$tmp/dev"
run sh "$COHORT_SOURCE/tools/install.sh" install --build "$COHORT_BUILD" --destdir "$tmp/dev"
(cd "$tmp/dev" && find . ! -type d | grep -v '/share/cohort/installed.txt$' | sort) >"$tmp/dev-set"
[ "$rc" = 0 ] && has out "installed $(wc -l <"$tmp/meson-set") files to $tmp/dev$configured" && same dev-set meson-set &&
	cmp -s "$tmp/dev$configured/bin/cohort" "$prefix/bin/cohort"
verdict 'dev install: the files of meson install'
run "$tmp/dev$configured/bin/cohort" info
[ "$rc" = 0 ]
verdict 'dev install: the program runs'
# Over another version: what that had more of goes, what others put there stays.
echo mine >"$tmp/dev$configured/share/cohort/mine"
echo old >"$tmp/dev$configured/include/cohort_old.h"
echo "file $configured/include/cohort_old.h" >>"$tmp/dev$configured/share/cohort/installed.txt"
run sh "$COHORT_SOURCE/tools/install.sh" install --build "$COHORT_BUILD" --destdir "$tmp/dev"
[ "$rc" = 0 ] && [ ! -e "$tmp/dev$configured/include/cohort_old.h" ] && [ -e "$tmp/dev$configured/include/cohort.h" ]
verdict 'dev install: over an older version'
run sh "$COHORT_SOURCE/tools/install.sh" uninstall --prefix "$configured" --destdir "$tmp/dev"
[ "$rc" = 0 ] && [ "$(cd "$tmp/dev" && find . ! -type d)" = ".$configured/share/cohort/mine" ] &&
	[ "$(cd "$tmp/dev" && find . -type d -empty)" = '' ]
verdict 'dev uninstall: takes away what it put there, and leaves what is not its own'
rm "$tmp/dev$configured/share/cohort/mine"
mkdir -p "$tmp/dev2$configured/lib"
run sh "$COHORT_SOURCE/tools/install.sh" install --build "$COHORT_BUILD" "--destdir=$tmp/dev2"
run sh "$COHORT_SOURCE/tools/install.sh" uninstall --prefix "$configured" --destdir "$tmp/dev2"
[ "$rc" = 0 ] && [ "$(cd "$tmp/dev2" && find . ! -path ".$configured/lib" -type d -empty; find . ! -type d)" = '' ] && [ -d "$tmp/dev2$configured/lib" ]
verdict 'dev uninstall: leaves nothing but directories that were there before'
# Where all directories are there already, as after meson install, there is none to be noted.
cp -R "$tmp/dest" "$tmp/dev3"
for i in 1 2; do run sh "$COHORT_SOURCE/tools/install.sh" install --build "$COHORT_BUILD" --destdir "$tmp/dev3"; done
(cd "$tmp/dev3" && find . ! -type d | grep -v '/share/cohort/installed.txt$' | sort) >"$tmp/dev-set"
[ "$rc" = 0 ] && same dev-set meson-set
verdict 'dev install: twice over what meson installed'
# Places are spelt in more than one way.
run sh "$COHORT_SOURCE/tools/install.sh" install --build "$COHORT_BUILD" --destdir "$tmp//dev3/../dev3/"
[ "$rc" = 0 ] && [ -f "$tmp/dev3$configured/share/cohort/installed.txt" ] &&
	run sh "$COHORT_SOURCE/tools/install.sh" uninstall --prefix "$configured/" --destdir "$tmp/dev3" &&
	is out "removed $(($(wc -l <"$tmp/meson-set") + 1)) files from $tmp/dev3$configured" && [ "$(find "$tmp/dev3" ! -type d)" = '' ]
verdict 'dev install: another spelling of the same place'
# For all users, whatever the umask; and no half file stays behind when one cannot be written.
mkdir "$tmp/dev4" "$tmp/fake"
(umask 077 && sh "$COHORT_SOURCE/tools/install.sh" install --build "$COHORT_BUILD" --destdir "$tmp/dev4") >"$tmp/out" 2>"$tmp/err"
find "$tmp/dev4/" -mindepth 1 -type d ! -perm 755 >"$tmp/out"
find "$tmp/dev4" -type f ! -perm -444 >>"$tmp/out"
[ -x "$tmp/dev4$configured/bin/cohort" ] && empty out
verdict 'dev install: a umask of 077'
# shellcheck disable=SC2016
printf '#!/bin/sh\ncase $* in */cohort.h*) exit 1 ;; esac\nexec %s "$@"\n' "$(command -v mv)" >"$tmp/fake/mv"
chmod +x "$tmp/fake/mv"
echo old >"$tmp/dev4$configured/include/cohort_old.h"
echo "file $configured/include/cohort_old.h" >>"$tmp/dev4$configured/share/cohort/installed.txt"
run env "PATH=$tmp/fake:$PATH" sh "$COHORT_SOURCE/tools/install.sh" install --build "$COHORT_BUILD" --destdir "$tmp/dev4"
refused 1 "not all of the new files could be written to $tmp/dev4$configured/include" && [ "$(find "$tmp/dev4" -name '*.new~')" = '' ]
verdict 'dev install: a file cannot be written'
run sh "$COHORT_SOURCE/tools/install.sh" uninstall --prefix "$configured" --destdir "$tmp/dev4"
[ "$rc" = 0 ] && [ "$(find "$tmp/dev4" -mindepth 1)" = '' ]
verdict 'dev uninstall: after an installation that failed, also what the version before had'
rm -rf "$tmp/dev3" "$tmp/dev4"
run sh "$COHORT_SOURCE/tools/install.sh" uninstall --prefix "$configured" --destdir "$tmp/dev2"
refused 1 "nothing was installed to $tmp/dev2$configured"
verdict 'dev uninstall: nothing was installed'
: >"$tmp/file"
run sh "$COHORT_SOURCE/tools/install.sh" install --prefix "$tmp/file/usr"
refused 1 "$tmp/file is in the way"
verdict 'dev install: a file is in the way'
run sh "$COHORT_SOURCE/tools/install.sh" install --perfix /usr
refused 1 'unknown option --perfix'
verdict 'dev install: an unknown option'
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null && setpriv --reuid=65534 --regid=65534 --clear-groups test -r "$COHORT_SOURCE/tools/install.sh"; then
	run env TMPDIR=/tmp setpriv --reuid=65534 --regid=65534 --clear-groups sh "$COHORT_SOURCE/tools/install.sh" install --prefix /usr/cohort-test
	refused 1 'no permission to write to /usr (you are ' && has err 'run it as root, or choose another place with --prefix'
	verdict 'dev install: no permission'
elif [ "$(id -u)" != 0 ]; then
	run sh "$COHORT_SOURCE/tools/install.sh" install --prefix /usr/cohort-test
	refused 1 'no permission to write to /usr (you are '
	verdict 'dev install: no permission'
else
	skip 'dev install: no permission' 'root may write anywhere, and setpriv cannot be used'
fi

# ---- Found, moved, linked to ----

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
if [ ! -e "$COHORT_BUILD/libcohort.a" ]; then
	skip 'a program against the library' 'the library is built with sanitizers, or counts what runs'
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
if command -v cmake >/dev/null; then
	mkdir cmake
	cp prog.c cmake/
	cat >cmake/CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.13)
project(user C)
find_package(cohort ${WANT} REQUIRED CONFIG)
add_executable(user_shared prog.c)
target_link_libraries(user_shared cohort::cohort)
add_executable(user_static prog.c)
target_link_libraries(user_static cohort::static)
CMAKE
	by_cmake() { cmake -S cmake -B "cmake/$1" -DWANT="$1" "-DCMAKE_PREFIX_PATH=$tmp/moved" "-DCMAKE_C_COMPILER=$cc"; }
	run by_cmake "${version#cohort }"
	[ "$rc" = 0 ]
	verdict 'CMake finds the library'
	run cmake --build "cmake/${version#cohort }"
	[ "$rc" = 0 ]
	verdict 'CMake: builds'
	for p in shared static; do
		run "cmake/${version#cohort }/user_$p" "$model"
		[ "$rc" = 0 ] && is out "${version#cohort } 8192"
		verdict "CMake: the program with the $p library runs"
	done
	run by_cmake 0.99
	[ "$rc" != 0 ] && has err 'version: '
	verdict 'CMake: another version is refused'
else
	skip 'CMake' 'it is not installed'
fi
if command -v pkg-config >/dev/null; then
	PKG_CONFIG_PATH=$(dirname "$pc")
	export PKG_CONFIG_PATH
	# The installation was moved, and its paths with it.
	flags=$(pkg-config --cflags --libs cohort)
	case $flags in *"$tmp/moved/"*) ;; *) false ;; esac
	verdict 'cohort.pc is seen from where it is'
	# shellcheck disable=SC2086
	run "$cc" prog.c $flags -o pc_prog
	[ "$rc" = 0 ] && [ "$(pkg-config --modversion cohort)" = "${version#cohort }" ]
	verdict 'a program by pkg-config: builds'
	run env "LD_LIBRARY_PATH=$libdir" ./pc_prog "$model"
	[ "$rc" = 0 ] && is out "${version#cohort } 8192"
	verdict 'a program by pkg-config: runs'
	# Directories outside of the prefix, as packagers have them.
	run meson setup "$tmp/apart" "$COHORT_SOURCE" -Dtests=disabled -Dprefix=/opt/cohort -Dlibdir=/opt/libs/lib -Dincludedir=/opt/headers
	pc_says() { PKG_CONFIG_PATH=$tmp/apart/tools pkg-config "--variable=$1" cohort; }
	[ "$rc" = 0 ] && [ "$(pc_says libdir) $(pc_says includedir) $(pc_says prefix)" = '/opt/libs/lib /opt/headers /opt/cohort' ] &&
		grep -q 'get_filename_component(_cohort_includedir "/opt/headers" ' "$tmp/apart/tools/cohortConfig.cmake"
	verdict 'cohort.pc and CMake: directories outside of the prefix'
	rm -rf "$tmp/apart"
	rm "$libdir"/libcohort.so*
	flags=$(pkg-config --static --cflags --libs cohort)
	# shellcheck disable=SC2086
	run "$cc" prog.c $flags -o static_prog
	[ "$rc" = 0 ]
	verdict 'a program with the static library: builds'
	run ./static_prog "$model"
	[ "$rc" = 0 ] && is out "${version#cohort } 8192"
	verdict 'a program with the static library: runs'
	nm -g --defined-only "$COHORT_BUILD/libcohort_parts.a" 2>/dev/null | awk 'NF == 3 && $3 !~ /^cohort_/ { print $3 }' | sort -u >"$tmp/inner"
	nm -g --defined-only static_prog | awk 'NF == 3 { print $3 }' | sort -u >"$tmp/shown"
	[ "$(wc -l <"$tmp/inner")" -gt 100 ] && grep -qx main "$tmp/shown" && [ "$(comm -12 "$tmp/inner" "$tmp/shown")" = '' ]
	verdict 'a program with the static library: shows none of its inner names'
	# Functions of the program may have them.
	sed "s/int main/void *mem_alloc(int n); void *mem_alloc(int n) { return n ? 0 : (void *)1; }\nint err_set(void); int err_set(void) { return 1; }\n&/" prog.c >own_names.c
	grep -qx mem_alloc "$tmp/inner" && grep -qx err_set "$tmp/inner"
	verdict 'names for a program to have are there'
	# shellcheck disable=SC2086
	run "$cc" own_names.c $flags -o own_names
	[ "$rc" = 0 ] && run ./own_names "$model" && [ "$rc" = 0 ] && is out "${version#cohort } 8192"
	verdict 'a program whose functions have names that the library has inside'
else
	skip 'a program by pkg-config' 'no pkg-config'
fi

# ---- Manual pages ----

if [ ! -e "$COHORT_BUILD/tools/cohort.3" ]; then
	skip 'manual pages of the functions' 'this build makes none (for another machine)'
elif ! command -v man >/dev/null; then
	skip 'manual pages of the functions' 'man is not installed'
else
	for f in cohort_decode cohort_decode_many cohort_engine_submit cohort_plan_add; do
		run env MANWIDTH=120 man -M "$tmp/moved/share/man" 3 $f
		[ "$rc" = 0 ] && has out "$f(" && has out 'RETURN VALUE'
		verdict "man $f"
	done
	for f in cohort cohort_engine cohort_search cohort_tools; do
		run env MANWIDTH=120 man -M "$tmp/moved/share/man" 3 $f
		[ "$rc" = 0 ] && has out 'FUNCTIONS' && has out "#include <$f.h>"
		verdict "man 3 $f"
	done
fi
