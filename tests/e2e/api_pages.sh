#!/bin/sh
# The pages that are made from the headers: a manual page for every function, with its sections and clean roff; the
# reference in Markdown, in which every function has a place and every link leads to one.
# Seen red with: a page without SEE ALSO, an unescaped backslash, a .PP behind a .SH, a link to a page that is not there
# (manual); an anchor that is left out (Markdown). What is refused in headers is `apidoc --self-test`.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

pages=$COHORT_BUILD/tools api=$COHORT_BUILD/api
if [ ! -e "$pages/cohort.3" ]; then
	skip 'pages of the functions' 'this build makes none (sanitizers, or for another machine)'
	exit 0
fi
"$pages/apidoc" --list "$COHORT_SOURCE"/include/*.h | sort >"$tmp/functions"
grep -h '^COHORT_API ' "$COHORT_SOURCE"/include/*.h | sed 's/(.*//; s/.*[ *]//' | sort >"$tmp/marked"
[ "$(wc -l <"$tmp/marked")" -gt 200 ] && [ "$(comm -23 "$tmp/marked" "$tmp/functions")" = '' ]
verdict 'every function that is exported is found'
cd "$pages" || exit 1

lost=$(while read -r f; do
	if [ ! -s "$f.3" ]; then echo "$f"; continue; fi
	to=$(sed -n 's|^\.so man3/||p' "$f.3")
	[ -z "$to" ] || { [ -s "$to" ] && sed -n '/^\.SH "NAME"/,/^\.SH "SYNOPSIS"/p' "$to" | grep -q "^$f\(,\| \)"; } || echo "$f -> $to"
done <"$tmp/functions")
[ -z "$lost" ] || printf '# %s\n' "$lost"
[ -z "$lost" ]
verdict 'every function has a page, or a link to the page that names it'

grep -L '^\.so ' ./*.3 | sed 's|^\./||' >"$tmp/pages"
[ "$(wc -l <"$tmp/pages")" -ge 30 ]
verdict 'there are pages'
while read -r p; do
	want='NAME SYNOPSIS DESCRIPTION RETURN_VALUE SEE_ALSO '
	[ ! -f "$COHORT_SOURCE/include/${p%.3}.h" ] || want='NAME SYNOPSIS DESCRIPTION FUNCTIONS SEE_ALSO '
	[ "$(sed -n 's/^\.SH "\(.*\)"/\1/p' "$p" | tr ' ' '_' | grep -vx TYPES_AND_CONSTANTS | tr '\n' ' ')" = "$want" ] && ! grep -q '^$' "$p"
	verdict "$p: sections, no empty line"
done <"$tmp/pages"
# What a comment does not name may come all the same (cohort_decode_one has what cohort_decode has).
[ "$(grep -cx 'COHORT_OK, COHORT_[A-Z_, ]*\.' cohort_context_params_init.3)" -ge 3 ] && ! grep -lx 'COHORT_OK\.' ./*.3 >"$tmp/out"
verdict 'no function is said to return nothing but COHORT_OK'
if command -v groff >/dev/null; then
	# Each on its own, so that what is left open in one is not taken for the next one's.
	while read -r p; do groff -man -ww -Tutf8 "$p" 2>&1 >/dev/null; done <"$tmp/pages" >"$tmp/out"
	empty out
	verdict 'groff has nothing to say about them'
else
	skip 'groff' 'it is not installed'
fi
if command -v mandoc >/dev/null; then
	# Pages have no date, so that the same headers give the same bytes.
	xargs mandoc -Tlint -W warning <"$tmp/pages" 2>&1 | grep -v 'missing date' >"$tmp/out"
	empty out
	verdict 'mandoc has nothing to say about them'
else
	skip 'mandoc' 'it is not installed'
fi
if command -v man >/dev/null; then
	while read -r p; do man --warnings -E UTF-8 -l -Tutf8 -Z "$p" 2>&1 >/dev/null; done <"$tmp/pages" >"$tmp/out"
	empty out
	verdict 'man has nothing to say about them'
else
	skip 'man' 'it is not installed'
fi

# ---- Markdown ----

cd "$api" || exit 1
for h in "$COHORT_SOURCE"/include/*.h; do
	b=${h##*/}
	[ -s "${b%.h}.md" ] && grep -q "^# $b\$" "${b%.h}.md"
	verdict "api/${b%.h}.md"
done
cat ./*.md | grep -o '<a id="[A-Za-z0-9_]*"' | sed 's/.*"\(.*\)"/\1/' | sort >"$tmp/anchors"
[ "$(uniq -d <"$tmp/anchors")" = '' ] && [ "$(comm -23 "$tmp/functions" "$tmp/anchors")" = '' ]
verdict 'every function has its place, once'
lost=$(grep -ho '](cohort[a-z_]*\.md#[a-z0-9_]*)' ./*.md | sort -u | sed 's/](\(.*\)\.md#\(.*\))/\1 \2/' | while read -r page name; do
	grep -q "<a id=\"$name\"></a>" "$page.md" || echo "$page.md#$name"
done)
[ -z "$lost" ]
verdict "every link leads somewhere $lost"
# Code blocks are closed.
lost=$(for f in ./*.md; do [ $(($(grep -c '^```' "$f") % 2)) = 0 ] || echo "$f"; done)
[ -z "$lost" ]
verdict "code blocks have an end $lost"
