#!/bin/sh
# A fresh Debian 12 under a directory, made by debootstrap with this machine's mirror and settings of apt; then
#   packages  the packages of build/deb are installed there: programs run, and a program in C (and in what there are
#             bindings for) is built against them and generates text
#   source    the source tree goes there; the two commands of README.md are run, and all of docs/tutorial.md, whose
#             programs are written where it says and whose outputs must be those it shows
# usage: root-test.sh DIR [packages|source]    as root; DIR/root is kept, and used again when it is there
set -eu
usage='usage: root-test.sh DIR [packages|source]'
dir=${1:?$usage}
mode=${2:-packages}
case $mode in packages | source) ;; *) echo "$usage" >&2; exit 2 ;; esac
[ "$(id -u)" = 0 ] || { echo 'root-test.sh: needs root, for chroot' >&2; exit 1; }
case $dir in /*) ;; *) dir=${DEV_FROM:-$PWD}/$dir ;; esac
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
cd "$(dirname "$0")/.."
root=$dir/root
mirror=$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] \)*\([^ ]*\).*/\2/p' /etc/apt/sources.list /etc/apt/sources.list.d/*.sources \
	/etc/apt/sources.list.d/*.list 2>/dev/null | grep '/debian/*$' | head -n 1)

say() { printf '== %s\n' "$*"; }
leave() {
	status=$?
	trap - EXIT
	for m in dev/shm dev/pts proc; do umount "$root/$m" 2>/dev/null || true; done
	exit $status
}
trap leave EXIT
trap 'exit 130' INT TERM HUP

if [ ! -f "$root/made" ]; then
	say "Debian 12 in $root${mirror:+, from $mirror}"
	rm -rf "$root"
	debootstrap --variant=minbase bookworm "$root" ${mirror:+"$mirror"} >"$dir/debootstrap.log" 2>&1 || { tail "$dir/debootstrap.log"; exit 1; }
	touch "$root/made"
fi
apt-config dump | grep '^Acquire::' >"$root/etc/apt/apt.conf.d/99host" || true
for f in resolv.conf hosts; do [ ! -f /etc/$f ] || cp -L /etc/$f "$root/etc/$f"; done
# What a machine that was started has.
mkdir -p "$root/dev/pts" "$root/dev/shm"
mount -t proc proc "$root/proc"
mount -t devpts -o ptmxmode=666 devpts "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"

inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
	${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} "$@"; }
get() { inside apt-get install -y -q --no-install-recommends "$@" >>"$dir/apt.log" 2>&1 || { tail "$dir/apt.log"; exit 1; }; }
inside apt-get update -q >"$dir/apt.log" 2>&1 || { cat "$dir/apt.log"; exit 1; }

if [ "$mode" = source ]; then
	rm -rf "$root/src"
	mkdir "$root/src"
	git ls-files -z | tar -c --null --files-from=- | tar -x -C "$root/src"
	say './dev demo'
	inside sh -c 'cd /src && ./dev demo </dev/null'
	say 'docs/tutorial.md'
	get curl # the page says that it is a package of its own
	rm -rf "$root/tutorial"
	mkdir "$root/tutorial"
	awk -v what=blocks -v dir="$root/tutorial" -f tools/md.awk docs/tutorial.md | awk -F '\t' -v root="$root" '
	BEGIN { print "set -eu; cd /src" }
	{ inside = substr($5, length(root) + 1) }
	$4 ~ /^file: / { print "cp " inside " " substr($4, 7) }
	$3 == "sh" { print "echo \"-- line " $2 "\" >&2; exec >/tutorial/said"; while ((getline l < $5) > 0) print l (l ~ /^\.\/dev/ ? " >&2" : "") }
	$4 == "output" { print "diff " inside " /tutorial/said >&2" }
	END { print "echo done >/tutorial/end" }' >"$root/tutorial.sh"
	inside sh -c 'sh /tutorial.sh </dev/null'
	[ -f "$root/tutorial/end" ] || { echo 'root-test.sh: the tutorial did not come to its end' >&2; exit 1; }
	say './dev test'
	inside sh -c 'cd /src && ./dev test </dev/null'
	say 'all done'
	exit 0
fi

ls build/deb/*.deb >/dev/null 2>&1 || { echo 'root-test.sh: no packages in build/deb: ./dev deb makes them' >&2; exit 1; }
rm -rf "$root/debs" "$root/try"
mkdir "$root/debs" "$root/try"
debs=
for d in build/deb/*.deb; do
	case $d in *-dbgsym_*) continue ;; esac
	cp "$d" "$root/debs/"
	debs="$debs /debs/${d##*/}"
done
cp -r debian/tests "$root/try/tests"
say 'packages'
get gcc libc6-dev pkg-config
# shellcheck disable=SC2086
get --reinstall $debs
# shellcheck disable=SC2016
inside dpkg-query -W -f '${Package} ${Version} ${Installed-Size} KiB\n' 'cohort*' 'libcohort*'
say 'programs'
inside batched -n-predict 8
inside sh /try/tests/programs
say 'C'
inside sh /try/tests/program
say 'Python'
inside sh /try/tests/python
# The bindings' example of four continuations, against the installed library.
model=/usr/share/cohort/cohort-tiny.gguf
for b in python node rust; do
	say "$b"
	rm -rf "$root/try/$b"
	git ls-files -z "bindings/$b" | tar -c --null --files-from=- | tar -x -C "$root/try"
	case $b in
	python)
		inside python3 /try/bindings/python/examples/four.py $model # with the package python3-cohort
		;;
	node)
		get nodejs npm ca-certificates
		# Registries are reached as from this machine: whom it trusts is trusted there.
		if [ -d /usr/local/share/ca-certificates ]; then cp -r /usr/local/share/ca-certificates "$root/usr/local/share/"; fi
		inside update-ca-certificates >>"$dir/apt.log" 2>&1
		inside sh -c "cd /try/bindings/node && NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt npm install --no-audit --no-fund &&
			node examples/four.js $model"
		;;
	rust)
		get cargo ca-certificates
		inside sh -c "cd /try/bindings/rust && cargo run --quiet --example four -- $model"
		;;
	esac
done
say 'all done'
