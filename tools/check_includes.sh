#!/bin/sh
# Who may include whom, and who may touch memory, the OS and intrinsics (docs/architecture.md).
# usage: check_includes.sh [ROOT]      checks the tree, prints TAP and file:line of every violation
#        check_includes.sh --self-test plants violations in a copy and expects each one to be found
set -eu
LC_ALL=C
export LC_ALL
here=$(cd "$(dirname "$0")/.." && pwd)

# The table: room, then the rooms it may include besides itself. Every room sees base and cohort.h.
rooms='
base
gguf     base
quant    base
tok      base gguf
model    base gguf quant
kern     base quant
backend  base quant model kern
batch    base
kv       base
sample   base kern
template base
forward  base model backend
context  base gguf quant tok model kern backend batch kv sample forward
branch   base
search   base
engine   base
prog     base
'
# Public headers beyond cohort.h: prog sees all of them, engine and search their own, branch none. The tools' header is implemented
# by the rooms it speaks of, so the others may include it.
check() { # ROOT: one line "kind file:line: text" per violation
	cd "$1"
	find src prog -type f \( -name '*.c' -o -name '*.h' -o -name '*.inc' -o -name '*.def' \) | sort | while read -r f; do
		awk -v file="$f" -v rooms="$rooms" '
		function exists(p,   line, r) { r = (getline line < p) >= 0; close(p); return r }
		function bad(kind, text) { print kind, file ":" FNR ": " text }
		BEGIN {
			n = split(rooms, row, "\n")
			for (i = 1; i <= n; i++) {
				k = split(row[i], w, " ")
				if (k) known[w[1]] = 1
				for (j = 1; j <= k; j++) may[w[1], w[j]] = 1
			}
			split(file, part, "/")
			room = part[1] == "prog" ? "prog" : part[2]
			home = room == "prog" ? "prog" : "src/" room
			dir = file; sub(/[^\/]*$/, "", dir)
			if (!(room in known)) bad("edge", "no such room: " room)
		}
		{
			# Comments and string contents out; include lines keep their quotes.
			line = ""; rest = $0
			while (rest != "") {
				if (in_comment) {
					p = index(rest, "*/")
					if (!p) break
					rest = substr(rest, p + 2); in_comment = 0; continue
				}
				if (!match(rest, /\/\*|\/\/|["\047]/)) { line = line rest; break }
				tok = substr(rest, RSTART, RLENGTH)
				line = line substr(rest, 1, RSTART - 1); rest = substr(rest, RSTART + RLENGTH)
				if (tok == "//") break
				if (tok == "/*") { in_comment = 1; line = line " "; continue }
				if (line ~ /^[ \t]*#[ \t]*include/) { line = line tok; continue }
				while (rest != "" && substr(rest, 1, 1) != tok)
					rest = substr(rest, substr(rest, 1, 1) == "\\" ? 3 : 2)
				rest = substr(rest, 2); line = line tok tok
			}
		}
		line ~ /^[ \t]*#[ \t]*include/ {
			h = line; quoted = line ~ /include[ \t]*"/
			sub(/^[^"<]*["<]/, "", h); sub(/[">].*/, "", h)
			top = h; sub(/\/.*/, "", top)
			if (h ~ /^([a-z]*mmintrin|immintrin|x86intrin|x86gprintrin|arm_[a-z]*)\.h$/) {
				if (file !~ /^src\/kern\/(x86|arm)\//) bad("intrinsics", h)
			} else if (h ~ /^(cuda|cublas|nvrtc)[a-z_]*(_v2)?\.h$/) {
				if (file !~ /^src\/backend\/cuda\//) bad("intrinsics", h)
			} else if (h ~ /^(sys|linux|netinet|arpa|net|asm)\// || h ~ /^(unistd|fcntl|pthread|sched|semaphore|threads|dlfcn|poll|signal|spawn|netdb|termios|dirent)\.h$/) {
				if (room != "base" && room != "prog") bad("os", h)
			} else if (h ~ /^cohort[a-z_]*\.h$/) {
				if (h != "cohort.h" && (room == "branch" || room == "base" ||
				    ((room == "engine" || room == "search") && h != "cohort_" room ".h") ||
				    (h ~ /^cohort_(engine|search)\.h$/ && h != "cohort_" room ".h" && room != "prog")))
					bad("edge", room " may not include " h)
			} else if (!quoted) {
				if (h ~ /\// && (top in known)) bad("edge", "rooms are included with quotes: <" h ">")
			} else if (h ~ /(^|\/)\.\.\//) {
				bad("edge", "no .. in includes: " h)
			} else if (h ~ /\// && (top in known) && top != "prog") {
				if (!((room, top) in may)) bad("edge", room " may not include " top ": " h)
				else if (room == "backend" && top == "model" && h != "model/weight.h")
					bad("edge", "a backend knows weights only: " h)
				else if (room != "backend" && top == "backend" && h != "backend/backend.h")
					bad("edge", "the interface is backend/backend.h: " h)
			} else if (!exists(dir h) && !exists(home "/" h)) {
				bad("edge", "not a file of this room: " h)
			}
			next
		}
		room != "backend" && line ~ /(^|[^A-Za-z0-9_])be_(cpu|cuda)([^A-Za-z0-9]|_|$)/ { bad("edge", "only src/backend names a backend: " line) }
		room != "base" {
			s = line
			while (match(s, /(malloc|calloc|realloc|reallocarray|free|aligned_alloc|posix_memalign|memalign|strdup|strndup|asprintf|vasprintf)[ \t]*\(/)) {
				before = RSTART > 1 ? substr(s, RSTART - 1, 1) : " "
				if (before !~ /[A-Za-z0-9_.>]/) bad("malloc", substr(s, RSTART, RLENGTH) ")")
				s = substr(s, RSTART + RLENGTH)
			}
		}' "$f"
	done
}

tap_case() { # NUMBER KIND TITLE
	if printf '%s\n' "$found" | grep -q "^$2 "; then
		echo "not ok $1 - $3"
		printf '%s\n' "$found" | sed -n "s/^$2 /# /p"
		status=1
	else
		echo "ok $1 - $3"
	fi
}

# FILE LINE TEXT TITLE: plants TEXT as FILE and expects a violation at LINE (- : none at all).
plant() {
	n=$((n + 1))
	mkdir -p "$copy/$(dirname "$1")"
	printf '%b\n' "$3" >"$copy/$1"
	got=$(check "$copy" | sed -n "s|^[a-z]* $1:\([0-9]*\):.*|\1|p")
	rm -f "$copy/$1"
	if [ "${got:--}" = "$2" ]; then echo "ok $n - self-test: $4"; else echo "not ok $n - self-test: $4"; status=1; fi
}

status=0
if [ "${1:-}" = --self-test ]; then
	copy=$(mktemp -d)
	trap 'rm -rf "$copy"' EXIT
	mkdir -p "$copy/src/base" "$copy/src/quant" "$copy/prog"
	: >"$copy/src/base/err.h"
	: >"$copy/src/quant/quant.h"
	n=0
	echo 1..22
	plant src/kv/planted.c 2 '/* x */\n#include "quant/quant.h"' 'kv may not see quant'
	plant src/engine/planted.c 1 '#include "context/context.h"' 'engine may not see context'
	plant src/branch/planted.c 1 '#include "cohort_engine.h"' 'branch may not see the engine header'
	plant src/search/planted.c 1 '#include "branch/branch.h"' 'search may not see branch'
	plant src/engine/planted.c 1 '#include "cohort_search.h"' 'engine may not see the header of searches'
	plant src/base/planted.c 1 '#include "quant/quant.h"' 'base sees no room'
	plant src/backend/planted.c 1 '#include "gguf/gguf.h"' 'backend may not see gguf'
	plant src/backend/planted.c 1 '#include "model/model.h"' 'a backend sees nothing of a model but its weights'
	plant src/context/planted.c 1 '#include "backend/cpu.h"' 'a header of one backend outside src/backend'
	plant src/context/planted.c 2 'int f(void)\n{ return be_cpu.name[0]; }' 'the name of a backend outside src/backend'
	plant prog/planted.c 1 '#include "gguf/gguf.h"' 'prog may not see gguf'
	plant src/tok/planted.c 1 '#include "../quant/quant.h"' 'no way round by ..'
	plant src/attic/planted.c 0 'int x;' 'a room the table does not name'
	plant src/kern/planted.c 1 '#include <immintrin.h>' 'intrinsics outside kern/x86'
	plant src/model/planted.c 1 '#include <arm_neon.h>' 'intrinsics outside kern/arm'
	plant src/tok/planted.c 1 '# include <sys/mman.h>' 'OS header outside base'
	plant src/context/planted.c 1 '#include <pthread.h>' 'threads outside base'
	plant src/tok/planted.c 3 'int f(void *p)\n{\n\tfree(p);' 'free outside base'
	plant prog/planted.c 1 'char *p = strdup("x");' 'strdup in a program'
	plant src/tok/planted.c - '/* malloc(1) */\n// free(p)\nchar *s = "calloc(";\nx->free(p); mem_free(p);' 'words in comments and strings are no calls'
	plant src/kern/x86/planted.c - '#include <immintrin.h>\n#include "quant/quant.h"\n#include "base/err.h"' 'allowed edges stay green'
	plant prog/planted.c - '#include <unistd.h>\n#include "cohort_engine.h"\n#include "base/err.h"' 'programs may use the OS and public headers'
	exit $status
fi

found=$(check "${1:-$here}")
echo 1..4
tap_case 1 edge 'includes: only the allowed edges between rooms'
tap_case 2 intrinsics 'includes: intrinsics only in kern/x86 and kern/arm, CUDA only in backend/cuda'
tap_case 3 os 'includes: OS headers only in base and prog'
tap_case 4 malloc 'memory: only base calls malloc and free'
exit $status
