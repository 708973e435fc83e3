#!/bin/sh
# The Debian packages, from debian/: built in build/deb from a copy of what git has (with changes to files that it knows),
# then looked at by lintian, which may find no error and no warning.
# usage: deb.sh [OPTION...]    options of dpkg-buildpackage beside -us -uc; DEB_BUILD_OPTIONS=nocheck leaves out the tests
set -eu
LC_ALL=C.UTF-8
export LC_ALL
cd "$(dirname "$0")/.."
version=$(sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog)
upstream=$(sed -n "s/^ *version: '\([0-9.]*\)',\$/\1/p" meson.build | head -n 1)
[ "${version%-*}" = "$upstream" ] || { echo "debian/changelog:1: version $version, but meson.build has $upstream" >&2; exit 1; }

top=$PWD/build/deb
tree=$top/cohort-$version
rm -rf "$top"
mkdir -p "$tree"
git ls-files -z | tar -c --null --files-from=- | tar -x -C "$tree"
# The home of a package's build is empty: the compiler's cache has to be named.
[ -z "${HOME:-}" ] || : "${CCACHE_DIR:=$HOME/.cache/ccache}"
export CCACHE_DIR CCACHE_BASEDIR="$tree" CCACHE_NOHASHDIR=1
(cd "$tree" && dpkg-buildpackage -us -uc "$@")
lintian --fail-on error,warning --tag-display-limit 0 "$top/cohort_${version}"_*.changes
ls -l "$top"/*.deb
