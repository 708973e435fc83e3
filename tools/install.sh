#!/bin/sh
# Installing and taking it away again; `./dev install` and `./dev uninstall`.
# usage: install.sh install   [--prefix DIR] [--destdir DIR] [--build DIR]
#        install.sh uninstall [--prefix DIR] [--destdir DIR]
# The build is a release of its own in build-install, or one that is there (--build; it has its prefix then). What `meson
# install` gives is copied to DESTDIR/PREFIX; PREFIX/share/cohort/installed.txt says what that was and which directories had
# to be made, and is what uninstall goes by. Nothing is copied before all places are known to be writable.
set -eu
LC_ALL=C.UTF-8
export LC_ALL
umask 022 # what is installed is for everybody, whoever installs it
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*"; }
die() { printf 'dev: %s\n' "$*" >&2; exit 1; }

what=${1:?usage: install.sh install|uninstall [OPTION...]}
shift
prefix= destdir= build=
while [ $# -gt 0 ]; do
	case $1 in
	--prefix=* | --destdir=* | --build=*) option=${1%%=*} value=${1#*=} ;;
	--prefix | --destdir | --build)
		[ $# -gt 1 ] || die "$what: $1 takes a directory"
		option=$1 value=$2
		shift
		;;
	*) die "$what: unknown option $1 (there are --prefix DIR and --destdir DIR)" ;;
	esac
	[ -n "$value" ] || die "$what: $option takes a directory"
	case $value in /*) ;; *) value=${DEV_FROM:-$PWD}/$value ;; esac
	# One spelling of a place: files are told from those of the list before by their names.
	value=$(realpath -m -s -- "$value")
	case $option in --prefix) prefix=$value ;; --destdir) destdir=${value%/} ;; --build) build=$value ;; esac
	shift
done
if [ -n "$build" ]; then
	[ -f "$build/build.ninja" ] || die "$what: $build is no build directory"
	[ -z "$prefix" ] || die "$what: --build has a prefix of its own"
	prefix=$(meson introspect --buildoptions "$build" | tr '{' '\n' | sed -n 's/.*"name": "prefix", "value": "\([^"]*\)".*/\1/p')
fi
prefix=${prefix:-/usr/local}
list=$destdir$prefix/share/cohort/installed.txt

# The first directory on the way up that is there.
standing() {
	at=$1
	until [ -e "${at:=/}" ]; do at=${at%/*}; done
	say "$at"
}
check_writable() { # DIRECTORY
	at=$(standing "$1")
	[ -d "$at" ] || die "$what: $at is in the way: it is no directory"
	[ -w "$at" ] && [ -x "$at" ] || die "$what: no permission to write to $at (you are $(id -un)): run it as root, or choose another place with --prefix"
}

# Where the loader has a list of libraries it has to see the change.
renew_loader() {
	case $destdir:$prefix in :/usr | :/usr/local) ;; *) return 0 ;; esac
	if [ "$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then ldconfig; fi
}

# take_away LIST KEEP: the files of a list that KEEP (another list) does not name, then the directories it made that are
# empty, from the deepest up.
take_away() {
	n_gone=0
	grep -vxF -f "$2" "$1" | sed -n 's/^file //p' >"$1.files"
	while IFS= read -r f; do
		if [ -e "$destdir$f" ] || [ -L "$destdir$f" ]; then
			say "$destdir$f" >&3
			n_gone=$((n_gone + 1))
		fi
	done <"$1.files" 3>"$1.gone"
	tr '\n' '\0' <"$1.gone" | xargs -0 -r rm -f --
	sed -n 's/^made //p' "$1" | sort -r >"$1.files"
	while IFS= read -r d; do rmdir "$destdir$d" 2>/dev/null || true; done <"$1.files"
	rm -f "$1.files" "$1.gone"
}

tmp=$(mktemp -d)
half= # a directory whose files are being written
trap 'rm -rf "$tmp" ${half:+"$half"}' EXIT
trap 'exit 130' INT TERM HUP

if [ "$what" = uninstall ]; then
	[ -f "$list" ] || die "uninstall: nothing was installed to $destdir$prefix by ./dev install ($list is not there); --prefix and --destdir have to be those of the installation"
	cp "$list" "$tmp/list"
	sed -n 's/^\(file\|made\) //p' "$tmp/list" | while IFS= read -r f; do
		d=$destdir${f%/*}
		[ ! -d "$d" ] || [ -w "$d" ] || { say "$d"; break; }
	done >"$tmp/stuck"
	[ ! -s "$tmp/stuck" ] || die "uninstall: no permission to write to $(cat "$tmp/stuck") (you are $(id -un)): run it as root"
	take_away "$tmp/list" /dev/null
	renew_loader
	say "removed $n_gone files from $destdir$prefix"
	exit 0
fi
[ "$what" = install ] || die "install.sh: $what is neither install nor uninstall"

check_writable "$destdir$prefix"
if [ -z "$build" ]; then
	build=$PWD/build-install
	say "building a release in ${build##*/} for $prefix"
	again=
	[ ! -f "$build/build.ninja" ] || again=--reconfigure
	mkdir -p "$build"
	# shellcheck disable=SC2086
	meson setup $again "$build" -Dbuildtype=release -Dtests=disabled "-Dprefix=$prefix" >"$build/dev-setup.log" 2>&1 ||
		{ cat "$build/dev-setup.log" >&2; die 'install: the build could not be set up'; }
	ninja -C "$build" >"$build/dev-build.log" 2>&1 || { tail -n 40 "$build/dev-build.log" >&2; die 'install: the build failed'; }
fi
meson install -C "$build" --no-rebuild --destdir "$tmp/stage" >"$tmp/log" 2>&1 || { cat "$tmp/log" >&2; die 'install: meson install failed'; }

(cd "$tmp/stage" && find . ! -type d) | sed 's/^\.//' | sort >"$tmp/files"
(cd "$tmp/stage" && find . -type d) | sed 's/^\.//; /^$/d' | sort >"$tmp/dirs"
while IFS= read -r d; do check_writable "$destdir$d"; done <"$tmp/dirs"
while IFS= read -r f; do [ ! -d "$destdir$f" ] || die "install: $destdir$f is in the way: it is a directory"; done <"$tmp/files"

# Directories that are not there yet, above all DESTDIR/PREFIX itself. What an installation before made is still ours.
{
	! [ -f "$list" ] || sed -n '/^made /p' "$list" # none of them is no failure
	{ say "$prefix/share/cohort"; cat "$tmp/dirs"; } | sort -u | while IFS= read -r d; do
		[ -e "$destdir$d" ] || say "made $d"
	done
	sed 's/^/file /' "$tmp/files"
	say "file ${list#"$destdir"}"
} | sort -u >"$tmp/list"
if [ -f "$list" ]; then cp "$list" "$tmp/before"; else : >"$tmp/before"; fi
while IFS= read -r d; do mkdir -p "$destdir$d"; done <"$tmp/dirs"
# The list is there before the first file: what is interrupted can be taken away, with what an older version had.
mkdir -p "${list%/*}"
sort -u "$tmp/before" "$tmp/list" >"$list.new" && mv -f "$list.new" "$list"
# Each file is whole, or as it was before: it is copied beside its place, then renamed.
while IFS= read -r d; do
	half=$destdir$d/cohort.new~
	[ "$(find "$tmp/stage$d" -maxdepth 1 ! -type d -print -quit)" ] || continue
	rm -rf "$half"
	mkdir "$half" && find "$tmp/stage$d" -maxdepth 1 ! -type d -exec cp -pP -t "$half" {} + &&
		find "$half" -mindepth 1 -exec mv -f -t "$destdir$d" {} + && rmdir "$half" ||
		die "install: not all of the new files could be written to $destdir$d"
done <"$tmp/dirs"
half=
# What an older version had and this one has not.
take_away "$tmp/before" "$tmp/list"
cp "$tmp/list" "$list.new" && mv -f "$list.new" "$list"
renew_loader
say "installed $(wc -l <"$tmp/files") files to $destdir$prefix; ./dev uninstall with the same options takes them away"
