#!/bin/sh
# What compiled programs depend on, compared with what is stored (docs/abi.md says what may change, and when).
# usage: abi.sh [APIDOC [SOURCE]]           compares; prints what changed, one line each; exit code 1 if anything did
#        abi.sh --update [APIDOC [SOURCE]]  stores what is there now, and says what changed
#        abi.sh --dump [APIDOC [SOURCE]]    prints it
# APIDOC is the build's tools/apidoc (default: that of build/). Sizes are those of x86-64: elsewhere there is nothing to
# compare, and the exit code is 77.
set -eu
LC_ALL=C
export LC_ALL
here=$(cd "$(dirname "$0")/.." && pwd)
mode=compare
case ${1:-} in
--update | --dump) mode=${1#--} && shift ;;
-*)
	echo "abi: unknown option $1 (there is --update)" >&2
	exit 2
	;;
esac
apidoc=${1:-$here/build/tools/apidoc}
source=${2:-$here}
stored=$source/tests/abi/x86_64.txt
if [ "$(uname -m)" != x86_64 ]; then
	echo 'abi: sizes are stored for x86-64 only'
	exit 77
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

dump() {
	"$apidoc" --abi "$source"/include/*.h >"$tmp/abi.c" &&
		${CC:-cc} -std=c11 "-I$source/include" -o "$tmp/abi" "$tmp/abi.c" && "$tmp/abi" | sed 's/[ 	]*$//' &&
		awk '/^[A-Z][A-Z0-9_.]* *\{/ { v = $1 } $1 == "local:" { v = "" } v && /^\tcohort_[a-z0-9_]*;$/ { gsub(/[\t;]/, ""); print "symbol " $0 "\t" v }' \
			"$source/src/cohort.map"
}

# What changed. Fields may only be appended, behind all that was there, to structs that say their size; values, functions,
# structs, types and symbols may be added; all else makes another library of it.
changes() { # OLD NEW
	awk -F '\t' '
	function offset_of(t, w) { split(t, w, " "); return w[2] }
	{ key = $1; if (key == "type ") key = "type " $2; text = $2 ($3 == "" ? "" : " " $3) }
	FNR == NR { old[key] = text; order[++n] = key; next }
	{ new[key] = text; later[++m] = key }
	END {
		for (i = 1; i <= n; i++) {
			k = order[i]
			if (!(k in new)) { print "incompatible: removed: " k; continue }
			if (old[k] == new[k]) continue
			if (k ~ /^struct /) {
				tag = substr(k, 8)
				split(old[k], a, " "); split(new[k], b, " ")
				if (("field " tag ".struct_size") in old && b[2] > a[2] && a[4] == b[4]) {
					print "compatible: grown: " k ": " old[k] " -> " new[k]
					continue
				}
			}
			print "incompatible: changed: " k ": " old[k] " -> " new[k]
		}
		for (i = 1; i <= m; i++) {
			k = later[i]
			if (k in old) continue
			if (k ~ /^field /) {
				tag = k
				sub(/^field /, "", tag); sub(/\..*/, "", tag)
				if (("struct " tag) in old) {
					split(old["struct " tag], a, " ")
					if (!(("field " tag ".struct_size") in old) || offset_of(new[k]) + 0 < a[2] + 0) {
						print "incompatible: added within what was there: " k ": " new[k]
						continue
					}
				}
			}
			print "compatible: added: " k ": " new[k]
		}
	}' "$1" "$2"
}

dump >"$tmp/now"
[ -s "$tmp/now" ]
if [ $mode = dump ]; then
	cat "$tmp/now"
	exit 0
fi
touch "$tmp/none"
[ -f "$stored" ] || stored_from=$tmp/none
changes "${stored_from:-$stored}" "$tmp/now" >"$tmp/changes"
if [ $mode = update ]; then
	[ -n "${stored_from:-}" ] || cat "$tmp/changes"
	if [ -z "${stored_from:-}" ] && grep -q '^incompatible' "$tmp/changes"; then
		echo 'abi: programs that were built before will not run with this: it takes another soversion, see docs/abi.md'
	fi
	cp "$tmp/now" "$stored"
	echo "abi: $(wc -l <"$stored") lines are stored in ${stored#"$source"/}"
	exit 0
fi
[ -s "$tmp/changes" ] || echo 'abi: nothing changed'
cat "$tmp/changes"
[ ! -s "$tmp/changes" ]
