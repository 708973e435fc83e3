#!/bin/sh
# The Python bindings: bindings/python/tests, and the examples against the C programs.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

command -v python3 >/dev/null && python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || {
	skip 'bindings of Python' 'Python 3.9 is not there'
	exit 0
}
# shellcheck source=tests/e2e/bindings_lib.sh
. "$(dirname "$0")/bindings_lib.sh"

run sh "$COHORT_SOURCE/tools/bindings.sh" --check
[ "$rc" = 0 ] && [ "$(grep -c '^ok' "$tmp/out")" = 3 ]
verdict 'the declarations of all bindings are those of the headers'

here=$COHORT_SOURCE/bindings/python
PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 COHORT_LIBRARY=$library COHORT_MODEL=$model COHORT_LAYOUT=$tmp/layout
COHORT_NPY=$tmp/vectors.npy
export PYTHONPATH PYTHONDONTWRITEBYTECODE COHORT_LIBRARY COHORT_MODEL COHORT_LAYOUT COHORT_NPY

example four python3 "$here/examples/four.py"
example stream python3 "$here/examples/stream.py"
example json python3 "$here/examples/json_schema.py"
example embeddings python3 "$here/examples/embeddings.py"

# The block of the README, as it stands there.
awk '/^```python/ { on = 1; next } /^```/ { on = 0 } on' "$here/README.md" >"$tmp/readme.py"
run python3 "$tmp/readme.py" "$model"
[ "$rc" = 0 ] && empty err && has out ', there was a'
verdict 'the example of the README runs'

run python3 "$here/tests/test_cohort.py"
verdicts

# By pip, without a compiler and without the network, where setuptools and pip are there.
unset PYTHONPATH
python=
for p in python3 /usr/bin/python3; do
	[ -n "$python" ] || ! "$p" -c 'import setuptools, wheel, pip' 2>/dev/null || python=$p
done
if [ -n "$python" ]; then
	cp -R "$here" "$tmp/python"
	run "$python" -m pip install --quiet --no-index --no-build-isolation --no-deps --target "$tmp/site" "$tmp/python"
	[ "$rc" = 0 ] && [ -f "$tmp/site/cohort/py.typed" ]
	verdict 'pip install: installs'
	PYTHONPATH=$tmp/site
	export PYTHONPATH
	cd /
	example four "$python" "$here/examples/four.py"
else
	skip 'pip install' 'pip, setuptools or wheel is not there'
fi
