# shellcheck shell=sh disable=SC2034,SC2154
# What the tests share that need a package of npm's: tests/openai and tests/web. Sourced with the test's folder in $here
# and the build directory in $build; prints TAP where it skips.

skip() {
	echo "1..0 # SKIP $1"
	exit 77
}

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then skip 'node and npm are not there'; fi
[ "$(node -p 'parseInt(process.versions.node)')" -ge 18 ] || skip 'it needs node 18 or newer'

# npm_work NAME: makes $work, a folder NAME of the build directory, so that the tree stays clean, with what
# package-lock.json pins and the test's modules: they find the package beside themselves.
npm_work() {
	work=$build/$1
	mkdir -p "$work"
	# What was installed for these very files is there already.
	if ! cmp -s "$here/package-lock.json" "$work/installed.json"; then
		cp "$here/package.json" "$here/package-lock.json" "$work/"
		# A registry that cannot be reached is given seconds, not npm's minutes.
		(
			cd "$work"
			npm ci --no-audit --no-fund --ignore-scripts \
				--fetch-retry-mintimeout=2000 --fetch-retry-maxtimeout=8000
		) >"$work/npm.log" 2>&1 ||
			skip "npm ci failed: $(grep -v '^npm warn' "$work/npm.log" | head -n 1)"
		cp "$here/package-lock.json" "$work/installed.json"
	fi
	rm -f "$work"/*.mjs
	cp "$here"/*.mjs "$here"/../npm/*.mjs "$work/"
}
