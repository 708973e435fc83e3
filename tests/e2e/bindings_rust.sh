#!/bin/sh
# The Rust crates: their tests and documentation tests by cargo, without the network, and the examples against the C
# programs. Debian's own cargo is preferred: it is the oldest that has to do.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

if [ -x /usr/bin/cargo ]; then PATH=/usr/bin:$PATH; fi
if ! command -v cargo >/dev/null || ! command -v rustc >/dev/null; then
	skip 'bindings of Rust' 'cargo and rustc are not there'
	exit 0
fi
# shellcheck source=tests/e2e/bindings_lib.sh
. "$(dirname "$0")/bindings_lib.sh"

CARGO_TARGET_DIR=$COHORT_BUILD/bindings-rust COHORT_LIB_DIR=$COHORT_BUILD CARGO_TERM_COLOR=never RUSTFLAGS='-D warnings'
COHORT_TEST_MODEL=$model COHORT_TEST_LAYOUT=$tmp/layout COHORT_TEST_NPY=$tmp/vectors.npy
export CARGO_TARGET_DIR COHORT_LIB_DIR CARGO_TERM_COLOR RUSTFLAGS COHORT_TEST_MODEL COHORT_TEST_LAYOUT COHORT_TEST_NPY
# What debuggers and the next build would like takes half of the time.
CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0 CARGO_INCREMENTAL=0
export CARGO_PROFILE_DEV_DEBUG CARGO_PROFILE_TEST_DEBUG CARGO_INCREMENTAL
manifest=$COHORT_SOURCE/bindings/rust/Cargo.toml

run cargo build --offline --locked --quiet --examples --manifest-path "$manifest"
[ "$rc" = 0 ]
verdict 'the crates build, without warnings'

LD_LIBRARY_PATH=$COHORT_BUILD
export LD_LIBRARY_PATH
bins=$CARGO_TARGET_DIR/debug/examples
example four "$bins/four"
example stream "$bins/stream"
example json "$bins/json_schema"
example embeddings "$bins/embeddings"

# The blocks of the README are examples, too.
block rust 2 "$COHORT_SOURCE/bindings/rust/README.md" >"$tmp/readme"
sed 1,2d "$COHORT_SOURCE/bindings/rust/cohort/examples/chat.rs" | cmp -s - "$tmp/readme" && [ -s "$tmp/readme" ]
verdict 'the second example of the README is the one that runs'
example chat "$bins/chat"
block rust 1 "$COHORT_SOURCE/bindings/rust/README.md" >"$tmp/readme"
sed 1,2d "$COHORT_SOURCE/bindings/rust/cohort/examples/readme.rs" | cmp -s - "$tmp/readme" && [ -s "$tmp/readme" ] &&
	run "$bins/readme" "$model" && [ "$rc" = 0 ] && has out ', there was a'
verdict 'the example of the README runs'

# The lines of cargo's tests as those of the other languages; documentation tests show that misuse does not compile.
(cargo test --offline --locked --quiet --manifest-path "$manifest" -- --format=pretty) >"$tmp/cargo" 2>"$tmp/err"
rc=$?
sed -n 's/^test \(.*\) \.\.\. ok$/ok \1/p; s/^test \(.*\) \.\.\. FAILED$/bad \1/p' "$tmp/cargo" >"$tmp/out"
echo "plan $(sed -n 's/^running \([0-9]*\) tests*$/\1/p' "$tmp/cargo" | awk '{ n += $1 } END { print n }')" >>"$tmp/out"
[ $rc = 0 ] || grep -v '^ok' "$tmp/cargo" | sed 's/^/# /' | head -n 60
verdicts
[ "$(grep -c 'compile fail' "$tmp/cargo")" -ge 5 ]
verdict 'misuse that must not compile was tried'

# A library that does not fit is refused, and has written past nobody's options before. Seen red (a crash) when only
# loading a model looked.
if command -v "${CC:-cc}" >/dev/null; then
	cat >"$tmp/misfit.c" <<'C'
#include <cohort.h>
#include <string.h>
void cohort_sampler_params_init(struct cohort_sampler_params *p)
{
	memset((void *)p, 90, sizeof *p + 2048);
	p->struct_size = sizeof *p + 2048;
}
C
	"${CC:-cc}" -shared -fPIC "-I$COHORT_SOURCE/include" -o "$tmp/misfit.so" "$tmp/misfit.c"
	size=$(sed -n 's/^struct cohort_sampler_params //p' "$tmp/layout")
	why="struct cohort_sampler_params has $((size + 2048)) bytes in libcohort and $size in these bindings"
	run env LD_PRELOAD="$tmp/misfit.so" COHORT_TEST_MISFIT="$why" \
		cargo test --offline --locked --quiet --manifest-path "$manifest" --test library misfit
	[ "$rc" = 0 ] && has out ' 1 passed;'
	verdict 'a library whose options are larger: refused, and nothing is written over'
else
	skip 'a library whose options are larger' 'no C compiler'
fi

# What build.rs says where there is no library, and what it finds by pkg-config.
CARGO_TARGET_DIR=$tmp/target
unset COHORT_LIB_DIR PKG_CONFIG_PATH
mkdir "$tmp/pc"
run env COHORT_LIB_DIR=/nowhere cargo build --offline --quiet --manifest-path "$manifest" -p cohort-sys
[ "$rc" != 0 ] && has err 'there is no libcohort.so in COHORT_LIB_DIR (/nowhere)'
verdict 'no library in COHORT_LIB_DIR: said so'
run env COHORT_LIB_DIR=lib cargo build --offline --quiet --manifest-path "$manifest" -p cohort-sys
[ "$rc" != 0 ] && has err "there is no libcohort.so in COHORT_LIB_DIR ($COHORT_SOURCE/bindings/rust/cohort-sys/lib)"
verdict 'a relative COHORT_LIB_DIR: where that is'
if command -v pkg-config >/dev/null; then
	PKG_CONFIG_LIBDIR=$tmp/pc
	export PKG_CONFIG_LIBDIR
	run cargo build --offline --quiet --manifest-path "$manifest" -p cohort-sys
	[ "$rc" != 0 ] && has err 'libcohort was not found. Install it, or set COHORT_LIB_DIR'
	verdict 'no library by pkg-config: said so'
	printf 'Name: cohort\nDescription: x\nVersion: 0.1.0\nLibs: -L%s -lcohort\n' "$COHORT_BUILD" >"$tmp/pc/cohort.pc"
	run cargo build --offline --quiet --manifest-path "$manifest" -p cohort-sys
	[ "$rc" = 0 ] && cat "$tmp"/target/debug/build/cohort-sys-*/output >"$tmp/out" &&
		has out 'cargo:rustc-link-lib=dylib=cohort' && has out "cargo:rustc-link-search=native=$COHORT_BUILD"
	verdict 'the library by pkg-config: found'
	mkdir "$tmp/other"
	printf 'Name: cohort\nDescription: x\nVersion: 0.1.0\nLibs: -L/elsewhere -lcohort\n' >"$tmp/other/cohort.pc"
	PKG_CONFIG_LIBDIR=$tmp/other
	run cargo build --offline --quiet --manifest-path "$manifest" -p cohort-sys
	[ "$rc" = 0 ] && cat "$tmp"/target/debug/build/cohort-sys-*/output >"$tmp/out" &&
		has out 'cargo:rustc-link-search=native=/elsewhere'
	verdict 'pkg-config looks elsewhere: so does the next build'
else
	skip 'the library by pkg-config' 'no pkg-config'
fi
