#!/bin/sh
# The pages as a site: site.sh BUILD [OUT] copies every Markdown page and what it links to into OUT/site-src (OUT: BUILD,
# unless given), has mkdocs make OUT/site of it, and looks whether every anchor of the result is there. mkdocs' warnings
# are errors. Pages of the public headers, if BUILD/api has some, are a part of it.
set -eu
build=${1:?usage: site.sh BUILD [OUT]}
out=${2:-$build}
src=$out/site-src
rm -rf "$src" "$out/site"
mkdir -p "$src"

# put FILE: at the same place in the copy.
put() {
	mkdir -p "$src/$(dirname "$1")"
	cp "$1" "$src/$1"
}

pages=$(find . -name '*.md' ! -path './build*' ! -path './.*/*' ! -path '*/node_modules/*' ! -path './debian/*/*' | sed 's|^\./||' | sort)
for p in $pages; do put "$p"; done
# shellcheck disable=SC2086
awk -v what=links -f tools/md.awk $pages | while IFS='	' read -r page _ target; do
	case $target in *://* | mailto:* | \#*) continue ;; esac
	path=$(printf '%s\n' "$(dirname "$page")/${target%%#*}" | sed -e 's|^\./||' -e ':a' -e 's|[^/.][^/]*/\.\./||' -e 'ta')
	[ ! -f "$path" ] || put "$path"
done

# The reference of the headers has its place in the list when it was made.
nav=
for f in "$build"/api/index.md "$build"/api/[!i]*.md; do
	[ -f "$f" ] || continue
	mkdir -p "$src/api"
	cp "$f" "$src/api/"
	title=$(sed -n 's/^# //p' "$f" | head -n 1)
	nav="$nav    - '${title:-${f##*/}}': api/${f##*/}\\
"
done
sed "s|^  # API reference: .*|${nav:+  - Reference:\\
}${nav%??}|" mkdocs.yml | sed '/^$/d' >"$out/mkdocs.yml"
# A page of docs/ that the list does not name comes at its end.
for f in docs/*.md; do
	grep -q ": $f\$" mkdocs.yml || printf "    - '%s': %s\n" "$(sed -n 's/^# //p' "$f" | head -n 1)" "$f"
done | sed '1s/^/  - More:\n/' >>"$out/mkdocs.yml"
mkdocs build --strict --quiet -f "$out/mkdocs.yml"

# Every link with an anchor leads to an element with that id.
find "$out/site" -name '*.html' | sort | while read -r f; do
	grep -o -e ' id="[^"]*"' -e '<a [^>]*href="[^"#]*#[^"]*"' "$f" | sed "s|^|$f	|"
done | awk -F '\t' '
function place(from, to,   n, w, i, out, k) {
	if (to == "") return from
	sub(/[^\/]*$/, "", from)
	n = split(from to, w, "/")
	k = 0
	for (i = 1; i <= n; i++) {
		if (w[i] == "..") k--
		else if (w[i] != "." && (w[i] != "" || i == 1)) out[++k] = w[i]
	}
	to = out[1]
	for (i = 2; i <= k; i++) to = to "/" out[i]
	return to
}
$2 ~ /^ id=/ { id = substr($2, 6); sub(/".*/, "", id); has[$1, id] = 1; next }
{
	href = $2
	sub(/.*href="/, "", href)
	sub(/".*/, "", href)
	if (href ~ /^[a-z]+:/) next
	at = index(href, "#")
	if (substr(href, at + 1) == "") next
	n_links++
	page[n_links] = $1
	where[n_links] = place($1, substr(href, 1, at - 1))
	anchor[n_links] = substr(href, at + 1)
}
END {
	for (i = 1; i <= n_links; i++)
		if (!((where[i], anchor[i]) in has)) {
			print page[i] ": no #" anchor[i] " in " where[i]
			bad = 1
		}
	exit bad
}'
echo "$(find "$out/site" -name '*.html' | wc -l) pages: $out/site/index.html"
