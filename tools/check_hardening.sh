#!/bin/sh
# What releases are built with against those who find a hole: read back from the binaries, whatever the build says.
# usage: check_hardening.sh BUILD_DIR    libcohort.so and the programs: position independent, addresses of functions read
#                                        only after the start, no stack that runs, stack protectors, checked calls of libc
#        check_hardening.sh --self-test  builds programs that lack one each and expects them to be found
set -eu
LC_ALL=C
export LC_ALL

# lacks FILE: a word for each protection that it does not have.
lacks() {
	headers=$(readelf -hlW "$1")
	dynamic=$(readelf -dW "$1")
	symbols=$(readelf --dyn-syms -W "$1")
	printf '%s\n' "$headers" | grep -q '^ *Type: *DYN ' || echo 'position independent code'
	case $headers in *GNU_RELRO*) ;; *) echo 'relro' ;; esac
	case $dynamic in *BIND_NOW* | *'Flags: NOW'*) ;; *) echo 'bind now' ;; esac
	case $headers in *GNU_STACK*) ;; *) echo 'a stack header' ;; esac
	! printf '%s\n' "$headers" | grep -q 'GNU_STACK.* RWE ' || echo 'a stack that does not run'
	case $symbols in *__stack_chk_fail*) ;; *) echo 'stack protectors' ;; esac
	printf '%s\n' "$symbols" | grep -Eq ' __[a-z]+_chk(@|$)' || echo 'checked calls of libc'
}

check() { # BUILD_DIR
	status=0
	n=0
	echo 1..3
	for f in libcohort.so batched cohort; do
		n=$((n + 1))
		missing=$([ -f "$1/$f" ] && lacks "$1/$f" || echo "the file itself")
		if [ -z "$missing" ]; then
			echo "ok $n - hardening: $f"
		else
			echo "not ok $n - hardening: $f"
			printf '%s\n' "$missing" | sed 's/^/# it lacks /'
			status=1
		fi
	done
	return $status
}

if [ "${1:-}" = --self-test ]; then
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' EXIT
	cc=${CC:-cc}
	cat >"$tmp/x.c" <<'C'
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
	char text[64];
	strncpy(text, argv[0], (size_t)argc * 8);
	snprintf(text + 8, sizeof text - (size_t)argc, "%s", argv[0]);
	return puts(text) < 0;
}
C
	n=0
	result=0
	set -- -O2 -fPIE -pie -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack
	echo 1..6
	expect() { # WHAT-IS-MISSING ARGUMENT...
		n=$((n + 1))
		want=$1
		shift
		$cc "$@" -w -o "$tmp/x" "$tmp/x.c"
		got=$(lacks "$tmp/x")
		if [ "$got" = "$want" ]; then echo "ok $n - self-test: ${want:-nothing is missing}"; else echo "not ok $n - self-test: ${want:-nothing is missing}: $got"; result=1; fi
	}
	expect '' "$@"
	expect 'position independent code' "$@" -fno-pie -no-pie
	expect 'bind now' "$@" -Wl,-z,lazy
	expect 'a stack that does not run' "$@" -Wl,-z,execstack
	expect 'stack protectors' "$@" -fno-stack-protector
	expect 'checked calls of libc' "$@" -U_FORTIFY_SOURCE
	exit $result
fi
check "${1:?usage: check_hardening.sh BUILD_DIR | --self-test}"
