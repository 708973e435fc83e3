#!/bin/sh
# The site of the pages is built without a warning, every anchor in it leads somewhere, and every page of docs/ is in its
# list.
# Seen red with: a page that mkdocs.yml names and that is not there, a page of docs/ that is left out, an anchor that code
# hosts and mkdocs name differently.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

# The extension is to be there for the Python that mkdocs runs in, which need not be the first one in PATH.
python=$(sed -n '1s/^#!//p' "$(command -v mkdocs || echo /dev/null)")
if [ -z "$python" ] || ! $python -c 'import pymdownx.slugs' 2>/dev/null; then
	skip 'the site' 'mkdocs or python3-pymdownx is not there'
	exit 0
fi
cd "$COHORT_SOURCE" || exit 1
run sh tools/site.sh "$COHORT_BUILD" "$tmp"
[ "$rc" = 0 ] && matches out '^[0-9]+ pages: ' && [ -f "$tmp/site/docs/tutorial.html" ] && [ -f "$tmp/site/index.html" ]
verdict 'the site is built'
# In the list itself: to its copy in $tmp site.sh has added what is missing.
for f in docs/*.md; do
	grep -q ": $f\$" mkdocs.yml || echo "$f is not in mkdocs.yml"
done >"$tmp/out"
empty out
verdict 'every page of docs/ is in the list'
