#!/bin/sh
# Memory at the end of tests, whose cases fail at every allocation and go through every refusal: as many blocks are left
# as those that the C library itself keeps (tests/guard.c counts them), which is what the test that leaves the fewest shows.
#
# Seen red with: a stream that is not released after a failed write (test_file), the table of keys of a refused file
# (test_gguf), an arena's scratch text (test_template_snippets), a grammar's states (fuzz_schema).
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$COHORT_SOURCE" || exit 1

# left TEST: the blocks that are left behind it, in $n.
left() {
	set -- "$1" "$COHORT_BUILD/$1"
	case $1 in fuzz_*) set -- "$1" "$2" "tests/fuzz/corpus/$1" ;; esac
	ran=$1
	shift
	COHORT_GUARD_LEFT=-1 CMOCKA_MESSAGE_OUTPUT=TAP "$@" >"$tmp/out" 2>"$tmp/err" </dev/null
	n=$(sed -n 's/^guard: \([0-9]*\) blocks are left.*/\1/p' "$tmp/err")
	[ -n "$n" ] && ! grep -q '^not ok' "$tmp/out"
}

if ! left test_kv_shape; then
	skip 'memory at the end of tests' 'this build has sanitizers'
	exit 0
fi
left test_kv_shape && least=$n && left test_gguf_values && [ "$n" = "$least" ]
verdict 'two that leave nothing'
# TEST or TEST:MORE, the blocks that the test or a library keeps for itself
for test in test_base:1 test_batch test_batch_check test_branch_refuse test_chat test_engine_books test_engine_text \
	test_file test_gguf test_gguf_refuse test_gguf_split test_gguf_tensors test_gguf_tools test_gguf_write test_kv \
	test_memory test_model:1 test_quantize_types test_recur test_score:3 test_search:132 test_state test_template:6 test_template_snippets test_tok_bpe \
	test_tok_detok test_tok_spm test_tok_unigram test_tok_vocab test_tok_wordpiece test_transaction:1 fuzz_gbnf:10 \
	fuzz_gguf fuzz_model fuzz_sampler:115 fuzz_schema:10 fuzz_state:100 fuzz_template fuzz_tok:112 fuzz_vocab:3; do
	left "${test%:*}" && case $test in *:*) [ "$n" -le $((least + ${test#*:})) ] ;; *) [ "$n" = "$least" ] ;; esac
	verdict "${test%:*}: $n blocks, $least expected"
done
