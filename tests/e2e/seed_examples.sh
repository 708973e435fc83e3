#!/bin/sh
# Every command that the page which asked for batched prints, as printed: alone and in its loops, with the built-in model and with -model. The
# page is not part of the repository; without it this is skipped. What it says about building and about model files is not run.
#
# Shown red by: an option renamed, a default changed (4 sequences), a sequence too few.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

page=$(grep -ls -e '-n-parallel' "$shared"/seeds/*.txt 2>/dev/null | head -n 1)
if [ -z "$page" ] || ! command -v bash >/dev/null; then
	n_case=1
	echo 'ok 1 - the examples of the page # SKIP there is no page, or no bash'
	exit 0
fi

# Each block of shell on the page becomes a file of its own.
awk -v dir="$tmp" '/^```bash$/ { n++; on = 1; next } /^```$/ { on = 0 } on && !/^(go build|ls) / { print > (dir "/block." n) }' "$page"

# What the blocks call as ./batched: the program, whose exit code and number of sequences are noted.
mkdir "$tmp/place"
cat >"$tmp/place/batched" <<EOF
#!/bin/sh
"$bin/batched" "\$@" \$MORE >"$tmp/said" 2>"$tmp/told"
rc=\$?
want=4
help=
while [ \$# -gt 0 ]; do
	case \$1 in
	-n-parallel) want=\$2 ;;
	-help) help=1 ;;
	esac
	shift
done
got=\$(grep -c '^Sequence [0-9]*:\$' "$tmp/said")
[ -n "\$help" ] && grep -q '^Usage: batched' "$tmp/said" && got=\$want
cat "$tmp/said"
echo "\$rc \$got \$want" >>"$tmp/calls"
exit \$rc
EOF
chmod +x "$tmp/place/batched"

for more in '' "-model $model"; do
	export MORE="$more"
	for block in "$tmp"/block.*; do
		: >"$tmp/calls"
		here() { cd "$tmp/place" && bash -eu "$block"; }
		run here
		[ "$rc" = 0 ] && [ -s "$tmp/calls" ] && ! awk '$1 != 0 || $2 != $3' "$tmp/calls" | grep -q .
		verdict "${more:+with -model: }$(wc -l <"$tmp/calls") calls: $(grep -m 1 batched "$block")"
	done
done
n_blocks=$(find "$tmp" -name 'block.*' | wc -l)
[ "$n_blocks" -gt 10 ]
verdict "the page has $n_blocks blocks"
