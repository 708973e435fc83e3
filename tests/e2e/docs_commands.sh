#!/bin/sh
# The commands of every Markdown page, as printed: a page's sh blocks run one after the other in one shell, in a scratch
# directory that looks like a clone, beside files of the names that examples use. Blocks of C with the mark "file: NAME"
# are written there; a text block with the mark "output" is what the commands before it print on standard output.
# Left out are blocks marked "not run: REASON" (docs.sh lists them) and pages whose commands another test runs.
#
# Two programs stand in for others. ./dev knows the real one's commands and does nothing but `install`, which here copies
# what is built: a build within a test of that build proves nothing. curl asks the server that the page started, whatever
# port that got; a server that the page does not put into the background shows its settings instead of running.
#
# Seen red with: an option that does not exist, a wrong word in an output, a program on the page that does not compile,
# a command that ./dev has not.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
unset COHORT_SEED # as users have it
# shellcheck source=tests/e2e/docs_lib.sh
. "$(dirname "$0")/docs_lib.sh"

command -v bash >/dev/null || {
	skip 'the commands of the pages' 'there is no bash'
	exit 0
}
cd "$COHORT_SOURCE" || exit 1
pages >"$tmp/pages"
mkdir "$tmp/blocks" "$tmp/bin"
md blocks -v dir="$tmp/blocks" >"$tmp/list"

# ---- What stands in for others ----

# A function, as a page may put its own cohort first in PATH.
cat >"$tmp/prelude" <<END
set -e
cohort() {
	[ "\${1:-}" = serve ] && [ "\${2:-}" != -show-config ] || { command cohort "\$@"; return; }
	echo \$BASHPID >"$tmp/serve.pid"
	: >"$tmp/serve.err"
	COHORT_PORT=0 exec cohort "\$@" 2>"$tmp/serve.err"
}
END
cat >"$tmp/bin/curl" <<END
#!/bin/sh
i=0
until grep -q 'listening on' "$tmp/serve.err" 2>/dev/null; do
	i=\$((i + 1))
	[ \$i -lt 300 ] || exit 7
	sleep 0.1
done
port=\$(sed -n 's/.*listening on http.*:\([0-9]*\)\$/\1/p' "$tmp/serve.err")
for a; do
	case \$a in http://127.0.0.1:8080*) a=http://127.0.0.1:\$port\${a#http://127.0.0.1:8080} ;; esac
	set -- "\$@" "\$a"
	shift
done
exec $(command -v curl || echo false) --fail-with-body --max-time 60 "\$@"
END
sed -n 's/^  \([a-z]*\)\( .*\)\{0,1\}$/\1/p' "$COHORT_SOURCE/dev" | sort -u >"$tmp/dev.commands"
cat >"$tmp/bin/dev" <<END
#!/bin/sh
grep -qx "\${1:-}" "$tmp/dev.commands" || { echo "./dev has no command \${1:-}" >&2; exit 2; }
[ "\$1 \${2:-}" = 'install --prefix' ] || exit 0
rm -rf "$tmp/dest"
meson install -C "$COHORT_BUILD" --no-rebuild --destdir "$tmp/dest" >/dev/null || exit 1
prog=\$(find "$tmp/dest" -path '*/bin/batched')
mv "\${prog%/bin/batched}" "\$3"
sed -i "s|^prefix=.*|prefix=\$3|" "\$(find "\$3" -name cohort.pc)"
END
ln -s "$bin/batched" "$bin/cohort" "$tmp/bin/"
chmod +x "$tmp/bin"/*

# ---- A page ----

# place DIR: what looks like a clone, and the files that examples name.
place() {
	mkdir "$1" "$1/build" "$1/home"
	for f in "$COHORT_BUILD"/*; do
		[ ! -f "$f" ] || [ ! -x "$f" ] || ln -s "$f" "$1/build/"
	done
	for f in batched cohort; do ln -sf "$bin/$f" "$1/build/$f"; done
	for f in bench contrib docs examples include models src tests tools README.md; do ln -s "$COHORT_SOURCE/$f" "$1/$f"; done
	ln -s "$tmp/bin/dev" "$1/dev"
	(cd "$1" && example_files)
}

# script PAGE: its blocks as one program that notes each before it runs.
script() {
	cat "$tmp/prelude"
	awk -F '\t' -v page="$1" -v dir="$tmp" '
	$1 != page || $2 == 0 { next }
	$4 ~ /^file: / { print "cp " $5 " " substr($4, 7) }
	$3 == "sh" && $4 !~ /^not run/ {
		print "echo " $2 " >>" dir "/reached; exec >" dir "/said." $2
		while ((getline l < $5) > 0) {
			if (l ~ /^cohort serve/ && l !~ /&/)
				sub(/^cohort serve/, "cohort serve -show-config", l)
			print l
		}
	}
	END { print "echo end >>" dir "/reached" }' "$tmp/list"
}

page_run() { # PAGE DIR
	(
		cd "$2" || exit 1
		PATH=$tmp/bin:$PATH HOME=$2/home XDG_STATE_HOME=$2/home XDG_CONFIG_HOME=$2/home
		export PATH HOME XDG_STATE_HOME XDG_CONFIG_HOME
		unset COHORT_CONFIG
		exec timeout 250 bash "$tmp/script"
	)
}

n_pages=0
for page in $(awk -F '\t' '$2 == 0 { other[$1] = 1 } $3 == "sh" && $4 !~ /^not run/ && !($1 in other) { print $1 }' "$tmp/list" | uniq); do
	n_pages=$((n_pages + 1))
	rm -f "$tmp/reached" "$tmp"/said.* "$tmp/serve.pid" "$tmp/serve.err"
	: >"$tmp/reached"
	place "$tmp/place.$n_pages" 2>"$tmp/err"
	script "$page" >"$tmp/script"
	run page_run "$page" "$tmp/place.$n_pages"
	ran=$page
	tail -n 12 "$tmp/err" >"$tmp/last" && mv "$tmp/last" "$tmp/err" # why it ended is at the end
	[ ! -f "$tmp/serve.pid" ] || kill "$(cat "$tmp/serve.pid")" 2>/dev/null
	# The block that was reached last is the one that failed, unless the end was.
	last=$(tail -n 1 "$tmp/reached")
	awk -F '\t' -v page="$page" '$1 == page && $3 == "sh" && $4 !~ /^not run/ { print $2 }' "$tmp/list" >"$tmp/lines"
	while read -r line; do
		grep -qx "$line" "$tmp/reached" && [ "$line" != "$last" ]
		verdict "$page:$line: commands"
	done <"$tmp/lines"
	awk -F '\t' -v page="$page" '$1 != page { next } $3 == "sh" { at = $2 } $4 == "output" { print at "\t" $2 "\t" $5 }' "$tmp/list" >"$tmp/outputs"
	while IFS='	' read -r at line file; do
		keep "said.$at" out 2>/dev/null
		diff "$file" "$tmp/out" >"$tmp/err"
		verdict "$page:$line: what they print"
	done <"$tmp/outputs"
	rm -rf "$tmp/place.$n_pages"
done
[ "$n_pages" -ge 6 ]
verdict "$n_pages pages with commands"
