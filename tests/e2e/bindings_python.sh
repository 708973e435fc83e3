#!/bin/sh
# The Python bindings: bindings/python/tests, and the examples against the C programs.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
	skip 'bindings of Python' 'Python 3.9 is not there'
	exit 0
fi
# shellcheck source=tests/e2e/bindings_lib.sh
. "$(dirname "$0")/bindings_lib.sh"

run sh "$COHORT_SOURCE/tools/bindings.sh" --check
[ "$rc" = 0 ] && [ "$(grep -c '^ok' "$tmp/out")" = 3 ]
verdict 'the declarations of all bindings are those of the headers'
# Headers that grow: the check sees it, and what the tool does not understand is not left out.
mkdir "$tmp/grown"
(cd "$COHORT_SOURCE" && tar cf - include tools/bindings.awk tools/bindings.sh bindings/*/abi.js \
	bindings/python/cohort/_abi.py bindings/rust/cohort-sys/src/abi.rs) | tar xf - -C "$tmp/grown"
sed -i 's/^	int32_t n_checkpoints;/&\n	int32_t n_more;/' "$tmp/grown/include/cohort.h"
run sh "$tmp/grown/tools/bindings.sh" --check
[ "$rc" = 1 ] && [ "$(grep -c '^not ok' "$tmp/out")" = 3 ]
verdict 'a new field: all of them are out of date'
run sh "$tmp/grown/tools/bindings.sh"
[ "$rc" = 0 ] && grep -q '("n_more", c_int32)' "$tmp/grown/bindings/python/cohort/_abi.py"
verdict 'a new field: the tool writes it'
cp "$tmp/grown/include/cohort.h" "$tmp/grown.h"
for odd in '#define COHORT_ODD (1 << 20)' '#define COHORT_ODD_2 0x10' '#define COHORT_ODD 1.5'; do
	{ cat "$tmp/grown.h" && echo "$odd"; } >"$tmp/grown/include/cohort.h"
	run sh "$tmp/grown/tools/bindings.sh" --check
	[ "$rc" != 0 ] && has err 'no number: '
	verdict "a value that is not understood is refused: $odd"
done
cp "$tmp/grown.h" "$tmp/grown/include/cohort.h"
echo 'union cohort_odd { int32_t a; float b; };' >>"$tmp/grown/include/cohort.h"
run sh "$tmp/grown/tools/bindings.sh" --check
[ "$rc" != 0 ] && has err 'not understood: union cohort_odd'
verdict 'what is not understood is refused'

here=$COHORT_SOURCE/bindings/python
PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 COHORT_LIBRARY=$library COHORT_MODEL=$model COHORT_LAYOUT=$tmp/layout
COHORT_NPY=$tmp/vectors.npy
export PYTHONPATH PYTHONDONTWRITEBYTECODE COHORT_LIBRARY COHORT_MODEL COHORT_LAYOUT COHORT_NPY

example four python3 "$here/examples/four.py"
example stream python3 "$here/examples/stream.py"
example json python3 "$here/examples/json_schema.py"
example embeddings python3 "$here/examples/embeddings.py"

# The blocks of the README, as they stand there.
block python 1 "$here/README.md" >"$tmp/readme.py"
block python 2 "$here/README.md" >"$tmp/chat.py"
example chat python3 "$tmp/chat.py"
run python3 "$tmp/readme.py" "$model"
[ "$rc" = 0 ] && empty err && has out ', there was a'
verdict 'the example of the README runs'

run python3 "$here/tests/test_cohort.py"
verdicts

# Without COHORT_LIBRARY the loader finds it.
unset COHORT_LIBRARY
example four env LD_LIBRARY_PATH="$COHORT_BUILD" python3 "$here/examples/four.py"
COHORT_LIBRARY=$library
export COHORT_LIBRARY

# By pip, without a compiler and without the network, where setuptools and pip are there.
unset PYTHONPATH
python=
for p in python3 /usr/bin/python3; do
	[ -n "$python" ] || ! "$p" -c 'import setuptools, wheel, pip' 2>/dev/null || python=$p
done
if [ -n "$python" ]; then
	cp -R "$here" "$tmp/python"
	run "$python" -m pip install --quiet --no-index --no-build-isolation --no-deps \
		--target "$tmp/site" "$tmp/python"
	[ "$rc" = 0 ] && [ -f "$tmp/site/cohort/py.typed" ]
	verdict 'pip install: installs'
	PYTHONPATH=$tmp/site
	export PYTHONPATH
	cd /
	example four "$python" "$here/examples/four.py"
else
	skip 'pip install' 'pip, setuptools or wheel is not there'
fi
