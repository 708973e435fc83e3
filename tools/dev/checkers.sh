# shellcheck shell=sh
# A part of ./dev, which reads it in. Static analysis, MemorySanitizer and valgrind.

cmd_analyze() {
	# shellcheck disable=SC2086
	need $pkgs_build $pkgs_analyze
	configure build "$cc"
	compile build # some headers are made
	sh tools/analyze.sh --self-test && sh tools/analyze.sh build
}
analyze_leg() {
	say_leg 'static analysis (build)'
	rc=0
	(cmd_analyze) >build/dev-analyze.log 2>&1 || rc=$?
	one_case "static analysis: $(tail -n 1 build/dev-analyze.log)" $rc build/dev-analyze.log
}

# Origins are tracked; -O1, as more makes neither the build nor the run shorter.
# shellcheck disable=SC2046,SC2086
msan_build() { tests_build build-msan msan clang $checked -Doptimization=1 -Db_sanitize=memory -Db_lundef=false $(quick_link); }
msan_leg() {
	if leg msan build-msan 'MemorySanitizer, reference kernels'; then
		COHORT_EFFORT=short
		export COHORT_EFFORT
		run_tests build-msan --suite msan --timeout-multiplier 3
	fi
}
cmd_msan() {
	# shellcheck disable=SC2086
	need $pkgs_build $pkgs_test $pkgs_clang
	no_aslr=
	if setarch "$(uname -m)" -R true 2>/dev/null; then no_aslr="setarch $(uname -m) -R"; fi
	msan_leg
	say "$n_pass passed, $n_fail failed"
	[ $n_fail = 0 ]
}

# valgrind knows no AVX-512 and says so to who asks the CPU, so that levels up to AVX2 run. The first list is for CI: what
# takes less than ten seconds each and does not run under MemorySanitizer there. Left out of both are test_load_memory,
# which measures memory, what takes minutes, and test_pretok, whose long texts PCRE2's compiled patterns read 16 aligned
# bytes at a time: those around the end of a text are read and not used, which valgrind cannot know.
valgrind_short='
	test_base_math test_chat test_doc_index test_file_kill test_gguf_tools test_grammar_threads test_jobs_output
	test_openai test_opt_config test_opt_print test_pool test_serve_form test_serve_parts test_serve_web test_spec
	test_speculate_guess test_talk test_term test_thread
'
valgrind_more='
	test_base test_base_text test_batch test_batch_check test_batch_random test_batch_split test_batching_doc
	test_bin_pack test_engine_counts test_engine_queue test_engine_text test_file test_gguf test_gguf_refuse
	test_gguf_split test_gguf_sweep test_gguf_tensors test_gguf_values test_gguf_write test_json test_kv
	test_kv_shape test_memory test_model test_model_files test_openai_answer test_quant test_quantise test_recur
	test_repack test_sample_chain test_sampler test_score test_serve_store test_spec_check test_spec_decode test_spec_outcome
	test_spec_seq test_state test_strategy test_synth test_template test_template_limits test_tok_bpe
	test_tok_detok test_tok_norm test_tok_spm test_tok_unigram test_tok_vocab test_tok_wordpiece test_transaction
'
valgrind_with='valgrind -q --error-exitcode=99 --leak-check=full --show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite,indirect'

# valgrind_tests TEST...: in build, once it is seen that valgrind finds what it is to find.
valgrind_tests() {
	(compile build plant "$@") || { one_case 'valgrind: build' 1; return 0; }
	for what in none leak lost-list unwritten; do
		rc=0
		$valgrind_with build/plant $what >build/dev-valgrind.log 2>&1 || rc=$?
		[ $what = none ] || rc=$((rc != 99))
		one_case "valgrind: a program with this defect: $what" $rc build/dev-valgrind.log
	done
	log_of=-valgrind # as meson names it
	run_tests build --wrap "$valgrind_with" --timeout-multiplier 10 "$@"
	log_of=
}
valgrind_leg() {
	low_priority
	# shellcheck disable=SC2086
	valgrind_tests $valgrind_short
	valgrind_case batched -prompt 'Once upon a time' -n-parallel 2 -n-predict 4
	valgrind_case cohort info
}
cmd_valgrind() {
	# shellcheck disable=SC2086
	need $pkgs_build $pkgs_test valgrind
	configure build "$cc" -Dtests=enabled
	# shellcheck disable=SC2086
	case ${1:-} in
	'') set -- $valgrind_short $valgrind_more ;;
	short) set -- $valgrind_short ;;
	esac
	no_aslr=
	export COHORT_EFFORT=short
	valgrind_tests "$@"
	say "$n_pass passed, $n_fail failed"
	[ $n_fail = 0 ]
}
