#!/bin/sh
# Every Markdown page of the repository: links and anchors lead somewhere, fenced blocks have a language, JSON parses, C
# compiles. Commands are docs_commands.sh's; those that it leaves out are listed here, each with the reason that a
# comment before it gives.
#
# Seen red with: a link to a file that is not there, an anchor misspelt, a fence without a language, a call with an
# argument too few, JSON with a comma at its end, a mark without a reason, a command in an indented block, a page whose
# commands are said to be run by a test that does not know it, a figure of docs/performance.md changed.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/docs_lib.sh
. "$(dirname "$0")/docs_lib.sh"

cd "$COHORT_SOURCE" || exit 1
ran='tools/md.awk over all pages'
pages >"$tmp/pages"
[ "$(wc -l <"$tmp/pages")" -gt 25 ] && grep -qx README.md "$tmp/pages" && grep -qx docs/tutorial.md "$tmp/pages"
verdict "$(wc -l <"$tmp/pages") pages"

# ---- Links ----

md links >"$tmp/links"
md anchors >"$tmp/anchors"
[ "$(wc -l <"$tmp/links")" -gt 100 ] && [ "$(wc -l <"$tmp/anchors")" -gt 100 ]
verdict "$(wc -l <"$tmp/links") links, $(wc -l <"$tmp/anchors") headings"
while IFS='	' read -r page line target; do
	case $target in http://* | https://* | mailto:*) continue ;; esac
	case $target in
	\#*) path=$page ;;
	*)
		path=$(dirname "$page")/${target%%#*}
		[ -e "$path" ] || { echo "$page:$line: there is no $target"; continue; }
		# A page is known by its path from the root, without a way up and down again.
		path=$(printf '%s\n' "$path" | sed -e 's|^\./||' -e ':a' -e 's|[^/.][^/]*/\.\./||' -e 'ta')
		;;
	esac
	case $target in
	*\#*) grep -qxF "$path	${target#*#}" "$tmp/anchors" || echo "$page:$line: $path has no heading for #${target#*#}" ;;
	esac
done <"$tmp/links" >"$tmp/out"
empty out
verdict 'every relative link leads to a file, every anchor to a heading'

# ---- Blocks ----

mkdir "$tmp/blocks"
md blocks -v dir="$tmp/blocks" >"$tmp/list"
[ "$(wc -l <"$tmp/list")" -gt 40 ]
verdict "$(awk -F '\t' '$2 > 0' "$tmp/list" | wc -l) blocks"
awk -F '\t' '$2 > 0 && $3 !~ /^[a-z0-9]+$/ { print $1 ":" $2 ": a fence without a language" }' "$tmp/list" >"$tmp/out"
empty out
verdict 'every fenced block has a language'
md stray >"$tmp/out"
empty out
verdict 'no command stands in an indented block, where nobody would run it'

# Who runs the commands of a page, if not docs_commands.sh, knows the page; who is left out has a reason.
awk -F '\t' '$2 == 0 { print $1 "\t" $4 }' "$tmp/list" | while IFS='	' read -r page mark; do
	by=${mark#commands of this page are run by }
	grep -q "${page##*/}" "$by" 2>"$tmp/err" || echo "$page: $by does not run its commands"
done >"$tmp/out"
awk -F '\t' '$4 ~ /^not run/ && $4 !~ /^not run: .+/ { print $1 ":" $2 ": not run, and no reason" }
	$4 ~ /^(not run|file|output)/ { next } $2 > 0 && $4 != "-" { print $1 ":" $2 ": an unknown mark: " $4 }' "$tmp/list" >>"$tmp/out"
empty out
verdict 'marks before blocks are known ones, with a reason'
awk -F '\t' '$4 ~ /^not run/ { print "# " $1 ":" $2 ": " $4 }' "$tmp/list"
n_not=$(awk -F '\t' '$4 ~ /^not run/' "$tmp/list" | wc -l)
[ "$n_not" -le 40 ]
verdict "$n_not blocks are marked as not run"

# ---- Figures ----

# figures PAGE LEAST: the tables (LEAST figures or more) and the picture of docs/PAGE.md are those of the stored results:
# bench_peer tells them again.
figures() {
	if [ ! -x "$COHORT_BUILD/bench_peer" ]; then
		skip "docs/$1.md: figures as they were measured" 'bench_peer is not there'
		return 0
	fi
	run "$COHORT_BUILD/bench_peer" --append "docs/$1.json" --out "$tmp/bench"
	[ "$rc" = 0 ] && cmp -s "$tmp/bench/peer.svg" "docs/$1.svg"
	verdict "docs/$1.svg is the picture of docs/$1.json"
	awk -F '|' '
	function trim(t) { gsub(/^[ *]+|[ *]+$/, "", t); return t }
	function cell(shape, what, rows, format) { return shape " " what " " rows " " format }
	/^### Decode/ { what = "decode" }
	/^### Prefill/ { what = "prefill" }
	/^### Whole/ { what = "whole" }
	FNR == NR { # what was measured: shape, format, rows, ours, peer, ratio
		if (trim($4) ~ /^[0-9]+$/ && trim($5) ~ /^[0-9.]+$/)
			want[cell(trim($2), what, trim($4), trim($3))] = trim($5) " / " trim($6) " " trim($7)
		next
	}
	/^\*\*(smol-135m|tinyllama-1.1b), (prefill|decode) / {
		shape = $0
		sub(/^\*\*/, "", shape)
		sub(/,.*/, "", shape)
		what = $0 ~ /, prefill/ ? "prefill" : "decode"
	}
	/^\*\*32 continuations/ { what = "whole"; shape = "smol-135m" }
	/^\| rows \|/ { for (i = 3; i < NF; i++) format[i] = trim($i); next }
	shape == "" || /^\|-/ { next }
	what != "whole" && /^\| [0-9]+ \|/ { for (i = 3; i < NF; i++) check(cell(shape, what, trim($2), format[i]), $i) }
	what == "whole" && /^\| (Q|F)[0-9A-Z_]+ \|/ { check(cell(shape, what, 32, trim($2)), $3 " / " $4 ", " $5) }
	/^## Kernels/ { exit }
	function check(key, text,   a, b) {
		n++
		gsub(/[*,()-]/, " ", text)
		b = want[key]
		gsub(/[*,()-]/, " ", b)
		split(text, x, /[ \/]+/)
		split(" " b, y, /[ \/]+/)
		for (a = 2; a <= 6; a++)
			if (x[a] == "" || x[a] - y[a] > 0.5 + y[a] * 1e-3 || y[a] - x[a] > 0.5 + y[a] * 1e-3 || (a > 3 && x[a] != y[a])) {
				print FILENAME ":" FNR ": " key ": " text " is not " b
				break
			}
	}
	END { print n + 0 " figures" }' "$tmp/out" "docs/$1.md" >"$tmp/figures"
	grep -v ' figures$' "$tmp/figures" >"$tmp/out"
	empty out && [ "$(sed -n 's/ figures$//p' "$tmp/figures")" -ge "$2" ]
	verdict "docs/$1.md: $(tail -n 1 "$tmp/figures") as they were measured"
}
figures performance 90
figures performance-amx 50

# ---- JSON ----

if command -v python3 >/dev/null; then
	awk -F '\t' '$3 == "json" { print $1 ":" $2 "\t" $5 }' "$tmp/list" >"$tmp/json"
	cat >"$tmp/parse.py" <<'PY'
import json, sys
bad = 0
for line in open(sys.argv[1]):
    where, path = line.rstrip("\n").split("\t")
    try:
        json.load(open(path, encoding="utf-8"))
    except ValueError as e:
        bad = 1
        print("%s: %s" % (where, e))
sys.exit(bad)
PY
	run python3 "$tmp/parse.py" "$tmp/json"
	[ "$rc" = 0 ] && [ -s "$tmp/json" ]
	verdict "$(wc -l <"$tmp/json") blocks of JSON parse"
else
	skip 'blocks of JSON parse' 'python3 is not there'
fi

# ---- C ----

# A fragment stands within a function, behind the frame and what the same page defined before it. One that begins with
# static or COHORT_API is definitions, and #include lines go to the top.
cc=$(command -v "${CC:-cc}" || command -v gcc || command -v clang)
if [ -n "$cc" ]; then
	awk -F '\t' '$3 == "c" { print $1 "\t" $2 "\t" $5 }' "$tmp/list" >"$tmp/c"
	check_c() { "$cc" -std=c11 -fsyntax-only -Wall -Wextra -Wno-unused -Wno-unused-parameter -Wno-shadow -Werror -Iinclude "$1"; }
	last=
	while IFS='	' read -r page line file; do
		[ "$page" = "$last" ] || : >"$tmp/defined"
		last=$page
		if grep -q '^int main(' "$file"; then
			cp "$file" "$tmp/fragment.c"
		else
			case $(grep -v -e '^#include' -e '^$' -e '^/\*' "$file" | head -n 1) in
			'static '* | COHORT_API*)
				cat "$file" >>"$tmp/defined"
				{ echo "#include \"$COHORT_SOURCE/tests/e2e/docs_frame.h\""; cat "$tmp/defined"; } >"$tmp/fragment.c"
				;;
			*)
				{
					echo "#include \"$COHORT_SOURCE/tests/e2e/docs_frame.h\""
					grep '^#include' "$file"
					cat "$tmp/defined"
					echo 'int fragment(void);'
					echo 'int fragment(void) {'
					grep -v '^#include' "$file"
					echo 'return 0; }'
				} >"$tmp/fragment.c"
				;;
			esac
		fi
		run check_c "$tmp/fragment.c"
		[ "$rc" = 0 ]
		verdict "$page:$line: C that compiles"
	done <"$tmp/c"
	[ "$(wc -l <"$tmp/c")" -ge 10 ]
	verdict "$(wc -l <"$tmp/c") blocks of C"
else
	skip 'blocks of C compile' 'no compiler'
fi
