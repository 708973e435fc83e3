# shellcheck shell=sh
# A part of ./dev, which reads it in. Small faults are put into the code, one at a time, and the tests have to notice them.
# The tool is ../shared/mutate; tests/mutants.json says which files are changed and which tests run.

# The first three bytes of HEAD's hash: nobody chooses the faults.
cmd_mutate() {
	seed=${1:-$(git rev-parse HEAD | cut -c1-6)}
	tool=$PWD/../shared/mutate
	[ -f "$tool/mutate.py" ] || { say 'dev: skipped, as ../shared/mutate is not there'; return 0; }
	# shellcheck disable=SC2086
	need $pkgs_build $pkgs_test git python3
	out=$PWD/build/mutate/$seed
	[ ! -e "$out" ] || die "$out is there: a run of this seed; remove it to begin again"
	mkdir -p "$out"
	say "== seed $seed, the commit $(git rev-parse --short HEAD); results in build/mutate/$seed"
	ln -sfn "$PWD/../shared" "$PWD/build/mutate/shared" # tests look for ../shared
	workers=$(nproc)
	for w in $(seq "$workers"); do
		tree=$PWD/build/mutate/$w
		rm -rf "$tree"
		git clone -q . "$tree"
		PYTHONDONTWRITEBYTECODE=1 python3 "$tool/prepare.py" "$tree" >"$out/prepare.log" 2>&1 && ninja -C "$tree/build-mut" kern_test >>"$out/prepare.log" 2>&1 ||
			{ tail -n 20 "$out/prepare.log"; die 'a clone could not be built'; }
	done
	for w in $(seq "$workers"); do
		PYTHONDONTWRITEBYTECODE=1 python3 "$tool/mutate.py" run --conf "$PWD/tests/mutants.json" --seed "$seed" --tree "$PWD/build/mutate/$w" --out "$out" &
	done
	wait
	PYTHONDONTWRITEBYTECODE=1 python3 "$tool/summary.py" "$out"
	say "-- a survivor is a gap in the tests, or equivalent: look at each"
}
