#!/bin/sh
# usage: check_format.sh FILE...    says where clang-format, columns or spaces at the end of lines want another text
set -eu
LC_ALL=C.UTF-8
export LC_ALL
have=$(mktemp)
said=$(mktemp)
trap 'rm -f "$have" "$said"' EXIT

# Differences to clang-format's layout, except hand-set columns and what was packed into lines by hand (tables of enums,
# structs, cases): there the text is the same and only the number of lines differs. Initialiser lists, whose lines all
# end in a comma, stand one tab in where clang-format wants two.
format_check() { # FILE
	squeeze='s/\([^	 ]\)[	 ][	 ]*/\1 /g'
	sed "$squeeze" "$1" >"$have"
	clang-format "$1" | sed "$squeeze" | diff "$have" - | awk -v file="$1" '
	function finish() {
		gsub(/[ \t]+/, "", old); gsub(/[ \t]+/, "", new)
		if (n_old + n_new && !(old == new && (n_old != n_new || n_comma == n_old) && !brace) && old !~ /^#define/)
			print file ":" at ": clang-format would write:\n" shown
		old = new = shown = ""
		n_old = n_new = n_comma = brace = 0
	}
	/^[0-9]/ { finish(); split($0, w, /[,acd]/); at = w[1] }
	/^</ { n_old++; old = old substr($0, 3) }
	/^>/ { n_new++; new = new substr($0, 3); shown = shown "    " substr($0, 3) "\n" }
	/^<.*,( \/\*.*\*\/)?$/ { n_comma++ }
	/^>[ \t]*{$/ { brace = 1 }
	END { finish() }'
}

for f; do
	format_check "$f"
	expand -t 8 "$f" | awk -v file="$f" '
	length > 120 { print file ":" NR ": " length " columns" }
	/[ \t]$/ { print file ":" NR ": space at the end" }'
done >"$said"
cat "$said"
[ ! -s "$said" ]
