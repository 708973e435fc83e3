/* Every public function with NULL for each pointer and 0 for each number, and again with a valid handle first: a status
 * or a zero each time, as include/cohort.h promises for all of them. One row at least for every function of include/: a
 * new one without a row fails.
 *
 * Shown red by: the getters of cohort_gguf_* and cohort_synth_shape without a look at their arguments, which crashed; a
 * row left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cohort.h"
#include "cohort_engine.h"
#include "cohort_search.h"
#include "cohort_tools.h"

static struct cohort_model *model;
static struct cohort_context *ctx, *ctx_of_forest;
static struct cohort_lexicon *lexicon;
static struct cohort_grammar *grammar;
static struct cohort_sampler *sampler;
static struct cohort_forest *forest;
static struct cohort_engine *engine;
static struct cohort_gguf *gguf;
static struct cohort_template *template;
static struct cohort_batch batch;
static struct cohort_gguf_cursor cursor;
static struct cohort_gguf_writer *writer;
static char written[] = "test_null.XXXXXX";

enum { ROWS_MAX = 1000 };
static struct row {
	const char *name;
	void (*call)(void);
} rows[ROWS_MAX];
static size_t n_rows;

/* ROW(NAME, (ARGUMENTS)); */
#define JOIN(a, b) a##b
#define AT(name, line) JOIN(name, line)
#define ROW(name, arguments) \
	static void AT(row_, __LINE__)(void) \
	{ \
		(void)name arguments; \
	} \
	static void __attribute__((constructor)) AT(add_, __LINE__)(void) \
	{ \
		rows[n_rows++] = (struct row){#name, AT(row_, __LINE__)}; \
	} \
	struct row /* takes the semicolon */

ROW(cohort_adapter_free, (NULL));
ROW(cohort_adapter_open, (NULL, NULL, NULL, NULL));
ROW(cohort_adapter_open, (model, NULL, NULL, NULL));
ROW(cohort_batch_add, (NULL, 0, 0, NULL, 0, false, NULL));
ROW(cohort_batch_add, (&batch, 0, 0, NULL, 0, false, NULL));
ROW(cohort_batch_add_embd, (NULL, NULL, NULL, NULL, 0, false, NULL));
ROW(cohort_batch_add_embd, (&batch, NULL, NULL, NULL, 0, false, NULL));
ROW(cohort_batch_copy, (NULL, NULL, NULL));
ROW(cohort_batch_copy, (&batch, NULL, NULL));
ROW(cohort_batch_dump, (NULL, NULL, 0));
ROW(cohort_batch_dump, (&batch, NULL, 0));
ROW(cohort_batch_from_buffer, (NULL, NULL, NULL));
ROW(cohort_batch_from_buffer, (&batch, NULL, NULL));
ROW(cohort_batch_from_tokens, (NULL, NULL, 0, NULL));
ROW(cohort_batch_from_tokens, (&batch, NULL, 0, NULL));
ROW(cohort_batch_init, (NULL, 0, 0, 0, NULL));
ROW(cohort_batch_init, (&batch, 0, 0, 0, NULL));
ROW(cohort_batch_init_default, (NULL, NULL));
ROW(cohort_batch_init_pos, (NULL, 0, 0, 0, 0, NULL));
ROW(cohort_batch_init_pos, (&batch, 0, 0, 0, 0, NULL));
ROW(cohort_batch_is_empty, (NULL));
ROW(cohort_batch_leave_out, (NULL, 0));
ROW(cohort_batch_leave_out, (&batch, 0));
ROW(cohort_batch_raw_get, (NULL, NULL));
ROW(cohort_batch_raw_get, (&batch, NULL));
ROW(cohort_batch_release, (NULL));
ROW(cohort_batch_reset, (NULL));
ROW(cohort_batch_size, (NULL));
ROW(cohort_batch_take_tokens, (NULL, NULL, 0, NULL));
ROW(cohort_batch_take_tokens, (&batch, NULL, 0, NULL));
ROW(cohort_batch_view, (NULL, NULL, 0, NULL));
ROW(cohort_batch_view, (&batch, NULL, 0, NULL));
ROW(cohort_batch_view_raw, (NULL, NULL, NULL));
ROW(cohort_batch_view_raw, (&batch, NULL, NULL));
ROW(cohort_beam_params_init, (NULL));
ROW(cohort_beams_release, (NULL));
ROW(cohort_beams_search, (NULL, (struct cohort_branch){0}, NULL, NULL, NULL));
ROW(cohort_beams_search, (forest, (struct cohort_branch){0}, NULL, NULL, NULL));
ROW(cohort_bin_pack, (NULL, NULL, 0, 0, NULL));
ROW(cohort_branch_accept, (NULL, (struct cohort_branch){0}, 0, NULL));
ROW(cohort_branch_accept, (forest, (struct cohort_branch){0}, 0, NULL));
ROW(cohort_branch_bias_set, (NULL, (struct cohort_branch){0}, NULL, 0, NULL));
ROW(cohort_branch_bias_set, (forest, (struct cohort_branch){0}, NULL, 0, NULL));
ROW(cohort_branch_create, (NULL, NULL, NULL, NULL));
ROW(cohort_branch_create, (forest, NULL, NULL, NULL));
ROW(cohort_branch_decode_each, (NULL, NULL, 0, NULL));
ROW(cohort_branch_decode_each, (forest, NULL, 0, NULL));
ROW(cohort_branch_decode_scatter, (NULL, NULL, 0, NULL));
ROW(cohort_branch_decode_scatter, (forest, NULL, 0, NULL));
ROW(cohort_branch_detach, (NULL, (struct cohort_branch){0}, NULL));
ROW(cohort_branch_detach, (forest, (struct cohort_branch){0}, NULL));
ROW(cohort_branch_entropy_get, (NULL, (struct cohort_branch){0}, NULL, NULL));
ROW(cohort_branch_entropy_get, (forest, (struct cohort_branch){0}, NULL, NULL));
ROW(cohort_branch_fork, (NULL, (struct cohort_branch){0}, NULL, NULL, NULL));
ROW(cohort_branch_fork, (forest, (struct cohort_branch){0}, NULL, NULL, NULL));
ROW(cohort_branch_info_get, (NULL, (struct cohort_branch){0}, NULL, NULL));
ROW(cohort_branch_info_get, (forest, (struct cohort_branch){0}, NULL, NULL));
ROW(cohort_branch_is_legal, (NULL, (struct cohort_branch){0}, 0));
ROW(cohort_branch_is_legal, (forest, (struct cohort_branch){0}, 0));
ROW(cohort_branch_leaves_get, (NULL, (struct cohort_branch){0}, NULL, 0, NULL, NULL));
ROW(cohort_branch_leaves_get, (forest, (struct cohort_branch){0}, NULL, 0, NULL, NULL));
ROW(cohort_branch_legal_get, (NULL, (struct cohort_branch){0}, NULL, 0, NULL, NULL));
ROW(cohort_branch_legal_get, (forest, (struct cohort_branch){0}, NULL, 0, NULL, NULL));
ROW(cohort_branch_logits_get, (NULL, (struct cohort_branch){0}, NULL));
ROW(cohort_branch_logits_get, (forest, (struct cohort_branch){0}, NULL));
ROW(cohort_branch_logits_merge, (NULL, (struct cohort_branch){0}, (struct cohort_branch){0}, 0, NULL));
ROW(cohort_branch_logits_merge, (forest, (struct cohort_branch){0}, (struct cohort_branch){0}, 0, NULL));
ROW(cohort_branch_logits_set, (NULL, (struct cohort_branch){0}, NULL, NULL));
ROW(cohort_branch_logits_set, (forest, (struct cohort_branch){0}, NULL, NULL));
ROW(cohort_branch_prefill, (NULL, (struct cohort_branch){0}, NULL, 0, NULL));
ROW(cohort_branch_prefill, (forest, (struct cohort_branch){0}, NULL, 0, NULL));
ROW(cohort_branch_prune, (NULL, (struct cohort_branch){0}, NULL));
ROW(cohort_branch_prune, (forest, (struct cohort_branch){0}, NULL));
ROW(cohort_branch_prune_subtree, (NULL, (struct cohort_branch){0}, NULL));
ROW(cohort_branch_prune_subtree, (forest, (struct cohort_branch){0}, NULL));
ROW(cohort_branch_retain_only, (NULL, (struct cohort_branch){0}, NULL));
ROW(cohort_branch_retain_only, (forest, (struct cohort_branch){0}, NULL));
ROW(cohort_branch_sample, (NULL, (struct cohort_branch){0}, NULL, NULL));
ROW(cohort_branch_sample, (forest, (struct cohort_branch){0}, NULL, NULL));
ROW(cohort_branch_step, (NULL, NULL, 0, NULL));
ROW(cohort_branch_step, (forest, NULL, 0, NULL));
ROW(cohort_branch_surprisal_get, (NULL, (struct cohort_branch){0}, 0, NULL, NULL));
ROW(cohort_branch_surprisal_get, (forest, (struct cohort_branch){0}, 0, NULL, NULL));
ROW(cohort_cache_free, (NULL));
ROW(cohort_check, (NULL, NULL, NULL));
ROW(cohort_check, (ctx, NULL, NULL));
ROW(cohort_context_free, (NULL));
ROW(cohort_context_info_get, (NULL, NULL));
ROW(cohort_context_info_get, (ctx, NULL));
ROW(cohort_context_open, (NULL, NULL, NULL, NULL));
ROW(cohort_context_open, (model, NULL, NULL, NULL));
ROW(cohort_context_params_init, (NULL));
ROW(cohort_counters_get, (NULL, NULL));
ROW(cohort_counters_get, (ctx, NULL));
ROW(cohort_decode, (NULL, NULL, NULL));
ROW(cohort_decode, (ctx, NULL, NULL));
ROW(cohort_decode_each, (NULL, NULL, 0, NULL, NULL));
ROW(cohort_decode_each, (ctx, NULL, 0, NULL, NULL));
ROW(cohort_decode_many, (NULL, NULL, 0, 0, 0, NULL));
ROW(cohort_decode_many, (ctx, NULL, 0, 0, 0, NULL));
ROW(cohort_decode_one, (NULL, 0, 0, 0, false, NULL));
ROW(cohort_decode_one, (ctx, 0, 0, 0, false, NULL));
ROW(cohort_decode_scatter, (NULL, NULL, 0, NULL, NULL));
ROW(cohort_decode_scatter, (ctx, NULL, 0, NULL, NULL));
ROW(cohort_decode_scatter_to, (NULL, NULL, 0, NULL, NULL, NULL, NULL));
ROW(cohort_decode_scatter_to, (ctx, NULL, 0, NULL, NULL, NULL, NULL));
ROW(cohort_detok_flush, (NULL, NULL));
ROW(cohort_detok_init, (NULL, NULL, false, false));
ROW(cohort_detok_push, (NULL, 0, NULL, 0, NULL, NULL));
ROW(cohort_detokenize, (NULL, NULL, 0, false, NULL, 0, NULL, NULL));
ROW(cohort_detokenize, (model, NULL, 0, false, NULL, 0, NULL, NULL));
ROW(cohort_draw_params_init, (NULL));
ROW(cohort_embeddings_get, (NULL, 0, NULL));
ROW(cohort_embeddings_get, (ctx, 0, NULL));
ROW(cohort_embeddings_seq_get, (NULL, 0, NULL));
ROW(cohort_embeddings_seq_get, (ctx, 0, NULL));
ROW(cohort_encode, (NULL, NULL, NULL));
ROW(cohort_encode, (ctx, NULL, NULL));
ROW(cohort_engine_cache_clear, (NULL));
ROW(cohort_engine_cache_drop, (NULL, NULL, NULL, NULL));
ROW(cohort_engine_cache_drop, (engine, NULL, NULL, NULL));
ROW(cohort_engine_cache_load, (NULL, NULL, NULL, 0, NULL, NULL));
ROW(cohort_engine_cache_load, (engine, NULL, NULL, 0, NULL, NULL));
ROW(cohort_engine_cache_save, (NULL, NULL, NULL, NULL, NULL, NULL));
ROW(cohort_engine_cache_save, (engine, NULL, NULL, NULL, NULL, NULL));
ROW(cohort_engine_drain, (NULL, 0, NULL, NULL));
ROW(cohort_engine_drain, (engine, 0, NULL, NULL));
ROW(cohort_engine_free, (NULL));
ROW(cohort_engine_open, (NULL, NULL, NULL, NULL));
ROW(cohort_engine_open, (model, NULL, NULL, NULL));
ROW(cohort_engine_params_init, (NULL));
ROW(cohort_engine_slot_tokens, (NULL, 0, NULL, 0, NULL, NULL));
ROW(cohort_engine_slot_tokens, (engine, 0, NULL, 0, NULL, NULL));
ROW(cohort_engine_slots_get, (NULL, NULL, 0));
ROW(cohort_engine_slots_get, (engine, NULL, 0));
ROW(cohort_engine_stats_get, (NULL, NULL));
ROW(cohort_engine_stats_get, (engine, NULL));
ROW(cohort_engine_strategy_set, (NULL, NULL, NULL));
ROW(cohort_engine_strategy_set, (engine, NULL, NULL));
ROW(cohort_engine_submit, (NULL, NULL, NULL, NULL));
ROW(cohort_engine_submit, (engine, NULL, NULL, NULL));
ROW(cohort_engine_tick, (NULL, NULL, NULL));
ROW(cohort_engine_tick, (engine, NULL, NULL));
ROW(cohort_finish_name, ((enum cohort_finish)0));
ROW(cohort_forest_context_get, (NULL));
ROW(cohort_forest_free, (NULL));
ROW(cohort_forest_open, (NULL, NULL, NULL, NULL));
ROW(cohort_forest_open, (ctx, NULL, NULL, NULL));
ROW(cohort_forest_params_init, (NULL));
ROW(cohort_forest_pressure_get, (NULL, NULL));
ROW(cohort_forest_pressure_get, (forest, NULL));
ROW(cohort_gguf_alignment, (NULL));
ROW(cohort_gguf_cursor_init, (NULL, NULL));
ROW(cohort_gguf_cursor_init, (&cursor, NULL));
ROW(cohort_gguf_cursor_next, (NULL, NULL));
ROW(cohort_gguf_cursor_next, (&cursor, NULL));
ROW(cohort_gguf_cursor_seek, (NULL, 0));
ROW(cohort_gguf_cursor_seek, (&cursor, 0));
ROW(cohort_gguf_data_offset, (NULL));
ROW(cohort_gguf_file_bytes, (NULL));
ROW(cohort_gguf_format, (NULL, 0, NULL, 0));
ROW(cohort_gguf_free, (NULL));
ROW(cohort_gguf_kv_find, (NULL, NULL, NULL));
ROW(cohort_gguf_kv_find, (gguf, NULL, NULL));
ROW(cohort_gguf_kv_get, (NULL, 0, NULL));
ROW(cohort_gguf_kv_get, (gguf, 0, NULL));
ROW(cohort_gguf_n_kv, (NULL));
ROW(cohort_gguf_n_parts, (NULL));
ROW(cohort_gguf_n_tensors, (NULL));
ROW(cohort_gguf_open, (NULL, NULL, NULL));
ROW(cohort_gguf_part_get, (NULL, 0, NULL));
ROW(cohort_gguf_part_get, (gguf, 0, NULL));
ROW(cohort_gguf_tensor_get, (NULL, 0, NULL));
ROW(cohort_gguf_tensor_get, (gguf, 0, NULL));
ROW(cohort_gguf_type_name, ((enum cohort_gguf_type)0));
ROW(cohort_gguf_version, (NULL));
ROW(cohort_gguf_writer_begin, (NULL, NULL));
ROW(cohort_gguf_writer_begin, (writer, NULL));
ROW(cohort_gguf_writer_bool, (NULL, NULL, false, NULL));
ROW(cohort_gguf_writer_bool, (writer, NULL, false, NULL));
ROW(cohort_gguf_writer_data, (NULL, 0, NULL, 0, NULL));
ROW(cohort_gguf_writer_data, (writer, 0, NULL, 0, NULL));
ROW(cohort_gguf_writer_f32, (NULL, NULL, 0, NULL));
ROW(cohort_gguf_writer_f32, (writer, NULL, 0, NULL));
ROW(cohort_gguf_writer_f32s, (NULL, NULL, NULL, 0, NULL));
ROW(cohort_gguf_writer_f32s, (writer, NULL, NULL, 0, NULL));
ROW(cohort_gguf_writer_finish, (NULL, NULL));
ROW(cohort_gguf_writer_finish, (writer, NULL));
ROW(cohort_gguf_writer_free, (NULL));
ROW(cohort_gguf_writer_i32s, (NULL, NULL, NULL, 0, NULL));
ROW(cohort_gguf_writer_i32s, (writer, NULL, NULL, 0, NULL));
ROW(cohort_gguf_writer_kv, (NULL, NULL, NULL));
ROW(cohort_gguf_writer_kv, (writer, NULL, NULL));
ROW(cohort_gguf_writer_open, (NULL, NULL, NULL));
ROW(cohort_gguf_writer_str, (NULL, NULL, NULL, NULL));
ROW(cohort_gguf_writer_str, (writer, NULL, NULL, NULL));
ROW(cohort_gguf_writer_strs, (NULL, NULL, NULL, NULL, 0, NULL));
ROW(cohort_gguf_writer_strs, (writer, NULL, NULL, NULL, 0, NULL));
ROW(cohort_gguf_writer_tensor, (NULL, NULL, 0, 0, NULL, NULL));
ROW(cohort_gguf_writer_tensor, (writer, NULL, 0, 0, NULL, NULL));
ROW(cohort_gguf_writer_u32, (NULL, NULL, 0, NULL));
ROW(cohort_gguf_writer_u32, (writer, NULL, 0, NULL));
ROW(cohort_gguf_writer_u64, (NULL, NULL, 0, NULL));
ROW(cohort_gguf_writer_u64, (writer, NULL, 0, NULL));
ROW(cohort_grammar_free, (NULL));
ROW(cohort_grammar_match, (NULL, NULL, 0, NULL, NULL, NULL));
ROW(cohort_grammar_match, (grammar, NULL, 0, NULL, NULL, NULL));
ROW(cohort_grammar_open, (NULL, NULL, 0, NULL, NULL, NULL));
ROW(cohort_grammar_open, (lexicon, NULL, 0, NULL, NULL, NULL));
ROW(cohort_grammar_open_schema, (NULL, NULL, 0, NULL, NULL));
ROW(cohort_grammar_open_schema, (lexicon, NULL, 0, NULL, NULL));
ROW(cohort_isa_count, ());
ROW(cohort_isa_name, (0));
ROW(cohort_isa_usable, (0));
ROW(cohort_kv_block_count, (0, 0));
ROW(cohort_kv_block_size, ());
ROW(cohort_lexicon_free, (NULL));
ROW(cohort_lexicon_open, (NULL, NULL, NULL));
ROW(cohort_lexicon_open, (model, NULL, NULL));
ROW(cohort_lexicon_open_list, (NULL, 0, NULL, NULL));
ROW(cohort_logits_get, (NULL, 0, NULL));
ROW(cohort_logits_get, (ctx, 0, NULL));
ROW(cohort_logprobs_get, (NULL, 0, 0, NULL, NULL, 0, NULL, NULL));
ROW(cohort_mix_name, (0));
ROW(cohort_model_free, (NULL));
ROW(cohort_model_info_get, (NULL, NULL));
ROW(cohort_model_info_get, (model, NULL));
ROW(cohort_model_open, (NULL, NULL, NULL, NULL));
ROW(cohort_model_params_init, (NULL));
ROW(cohort_n_outputs, (NULL));
ROW(cohort_packing_init, (NULL));
ROW(cohort_packing_release, (NULL));
ROW(cohort_quantize_params_init, (NULL));
ROW(cohort_quantize_write, (NULL, NULL, NULL, NULL, NULL));
ROW(cohort_repack, (NULL, 0));
ROW(cohort_request_cancel, (NULL));
ROW(cohort_request_free, (NULL));
ROW(cohort_request_next, (NULL, 0, NULL, NULL));
ROW(cohort_request_output_get, (NULL, 0, NULL, NULL));
ROW(cohort_request_params_init, (NULL));
ROW(cohort_request_stats_get, (NULL, NULL));
ROW(cohort_request_wait, (NULL, 0, NULL, NULL));
ROW(cohort_sampler_accept, (NULL, 0, NULL));
ROW(cohort_sampler_accept, (sampler, 0, NULL));
ROW(cohort_sampler_clone, (NULL, NULL, NULL));
ROW(cohort_sampler_clone, (sampler, NULL, NULL));
ROW(cohort_sampler_draw, (NULL, NULL, NULL, NULL));
ROW(cohort_sampler_draw, (sampler, NULL, NULL, NULL));
ROW(cohort_sampler_free, (NULL));
ROW(cohort_sampler_is_complete, (NULL));
ROW(cohort_sampler_legal_get, (NULL, NULL, NULL));
ROW(cohort_sampler_legal_get, (sampler, NULL, NULL));
ROW(cohort_sampler_logprobs_get, (NULL, 0, NULL, NULL, 0, NULL, NULL));
ROW(cohort_sampler_logprobs_get, (sampler, 0, NULL, NULL, 0, NULL, NULL));
ROW(cohort_sampler_open, (NULL, 0, NULL, NULL));
ROW(cohort_sampler_order_parse, (NULL, NULL, NULL));
ROW(cohort_sampler_params_init, (NULL));
ROW(cohort_sampler_permits, (NULL, 0, NULL));
ROW(cohort_sampler_permits, (sampler, 0, NULL));
ROW(cohort_sampler_prompt, (NULL, NULL, 0, NULL));
ROW(cohort_sampler_prompt, (sampler, NULL, 0, NULL));
ROW(cohort_sampler_reseed, (NULL, 0, 0));
ROW(cohort_sampler_reseed, (sampler, 0, 0));
ROW(cohort_sampler_reset, (NULL));
ROW(cohort_sampler_rng_get, (NULL, NULL));
ROW(cohort_sampler_rng_get, (sampler, NULL));
ROW(cohort_sampler_rng_set, (NULL, NULL, NULL));
ROW(cohort_sampler_rng_set, (sampler, NULL, NULL));
ROW(cohort_sampler_sample, (NULL, NULL, NULL, NULL));
ROW(cohort_sampler_sample, (sampler, NULL, NULL, NULL));
ROW(cohort_schema_to_gbnf, (NULL, 0, NULL, 0, NULL, NULL));
ROW(cohort_score_text, (NULL, 0, NULL, 0, NULL, NULL, NULL));
ROW(cohort_score_text, (ctx, 0, NULL, 0, NULL, NULL, NULL));
ROW(cohort_scratch_init, (NULL));
ROW(cohort_scratch_release, (NULL));
ROW(cohort_seq_adapter_set, (NULL, 0, NULL, 0, NULL));
ROW(cohort_seq_adapter_set, (ctx, 0, NULL, 0, NULL));
ROW(cohort_seq_add, (NULL, 0, 0, 0, 0, NULL));
ROW(cohort_seq_add, (ctx, 0, 0, 0, 0, NULL));
ROW(cohort_seq_checkpoint, (NULL, 0, NULL));
ROW(cohort_seq_checkpoint, (ctx, 0, NULL));
ROW(cohort_seq_clear, (NULL));
ROW(cohort_seq_cp, (NULL, 0, 0, 0, 0, NULL));
ROW(cohort_seq_cp, (ctx, 0, 0, 0, 0, NULL));
ROW(cohort_seq_is_whole, (NULL, 0));
ROW(cohort_seq_is_whole, (ctx, 0));
ROW(cohort_seq_keep, (NULL, 0, NULL));
ROW(cohort_seq_keep, (ctx, 0, NULL));
ROW(cohort_seq_pos_max, (NULL, 0));
ROW(cohort_seq_pos_max, (ctx, 0));
ROW(cohort_seq_pos_min, (NULL, 0));
ROW(cohort_seq_pos_min, (ctx, 0));
ROW(cohort_seq_rm, (NULL, 0, 0, 0, NULL));
ROW(cohort_seq_rm, (ctx, 0, 0, 0, NULL));
ROW(cohort_sim_bin_s, (0));
ROW(cohort_sim_params_init, (NULL));
ROW(cohort_simulate, (NULL, NULL, 0, NULL, NULL, NULL));
ROW(cohort_stage_name, ((enum cohort_stage)0));
ROW(cohort_state_restore, (NULL, 0, NULL, 0, NULL));
ROW(cohort_state_restore, (ctx, 0, NULL, 0, NULL));
ROW(cohort_state_restore_file, (NULL, 0, NULL, NULL));
ROW(cohort_state_restore_file, (ctx, 0, NULL, NULL));
ROW(cohort_state_save, (NULL, 0, NULL, 0, NULL, NULL));
ROW(cohort_state_save, (ctx, 0, NULL, 0, NULL, NULL));
ROW(cohort_state_save_file, (NULL, 0, NULL, NULL));
ROW(cohort_state_save_file, (ctx, 0, NULL, NULL));
ROW(cohort_state_size, (NULL, 0));
ROW(cohort_state_size, (ctx, 0));
ROW(cohort_status_name, ((enum cohort_status)0));
ROW(cohort_strategy_count, ());
ROW(cohort_strategy_file_free, (NULL));
ROW(cohort_strategy_find, (NULL));
ROW(cohort_strategy_get, (0));
ROW(cohort_strategy_open, (NULL, NULL, NULL, NULL, NULL));
ROW(cohort_synth_params_init, (NULL));
ROW(cohort_synth_shape, (NULL, NULL));
ROW(cohort_synth_shape_name, (0));
ROW(cohort_synth_write, (NULL, NULL, NULL));
ROW(cohort_template_free, (NULL));
ROW(cohort_template_open, (NULL, 0, NULL, NULL));
ROW(cohort_template_params_init, (NULL));
ROW(cohort_template_render, (NULL, NULL, NULL, NULL, NULL));
ROW(cohort_template_render, (template, NULL, NULL, NULL, NULL));
ROW(cohort_template_text_free, (NULL));
ROW(cohort_texts_draw, (NULL, (struct cohort_branch){0}, NULL, NULL, NULL));
ROW(cohort_texts_draw, (forest, (struct cohort_branch){0}, NULL, NULL, NULL));
ROW(cohort_texts_release, (NULL));
ROW(cohort_token_bos, (NULL));
ROW(cohort_token_buf_append, (NULL, NULL, 0, NULL));
ROW(cohort_token_buf_get, (NULL));
ROW(cohort_token_buf_init, (NULL));
ROW(cohort_token_buf_release, (NULL));
ROW(cohort_token_buf_reset, (NULL));
ROW(cohort_token_bytes, (NULL, 0, false, NULL));
ROW(cohort_token_bytes, (model, 0, false, NULL));
ROW(cohort_token_eos, (NULL));
ROW(cohort_token_is_control, (NULL, 0));
ROW(cohort_token_is_control, (model, 0));
ROW(cohort_token_is_eog, (NULL, 0));
ROW(cohort_token_is_eog, (model, 0));
ROW(cohort_token_piece, (NULL, 0, false, false, NULL, 0, NULL, NULL));
ROW(cohort_token_piece, (model, 0, false, false, NULL, 0, NULL, NULL));
ROW(cohort_tokenize, (NULL, NULL, 0, 0, NULL, 0, NULL, NULL));
ROW(cohort_tokenize, (model, NULL, 0, 0, NULL, 0, NULL, NULL));
ROW(cohort_tokenize_bound, (0));
ROW(cohort_tokenize_least, (NULL, 1));
ROW(cohort_tree_grow, (NULL, (struct cohort_branch){0}, NULL, NULL, NULL));
ROW(cohort_tree_grow, (forest, (struct cohort_branch){0}, NULL, NULL, NULL));
ROW(cohort_tree_params_init, (NULL));
ROW(cohort_tree_release, (NULL));
ROW(cohort_usage_get, (NULL, NULL));
ROW(cohort_usage_get, (ctx, NULL));
ROW(cohort_version, ());
ROW(cohort_votes_count, (NULL, 0, NULL, NULL, NULL));
ROW(cohort_votes_release, (NULL));
ROW(cohort_warm_up, (NULL, 0, 0, NULL));
ROW(cohort_warm_up, (ctx, 0, 0, NULL));

static const char *path_of(const char *file)
{
	static char path[1024];
	const char *source = getenv("COHORT_SOURCE");

	snprintf(path, sizeof path, "%s/%s", source ? source : ".", file);
	return path;
}

/* An engine of its own: its thread needs the context that it opens. */
static int open_all(void **state)
{
	static const char text[] = "root ::= \"a\"";
	struct cohort_context_params cp;
	struct cohort_sampler_params sp;
	struct cohort_engine_params ep;
	struct cohort_err err;

	(void)state;
	const int fd = mkstemp(written);
	if (fd < 0)
		return -1;
	close(fd);
	cohort_context_params_init(&cp);
	cp.n_ctx = 64;
	cp.n_threads = 1;
	cohort_sampler_params_init(&sp);
	cohort_engine_params_init(&ep);
	ep.context = cp;
	if (cohort_model_open(path_of("models/cohort-tiny.gguf"), NULL, &model, &err) ||
			cohort_context_open(model, &cp, &ctx, &err) ||
			cohort_context_open(model, &cp, &ctx_of_forest, &err) ||
			cohort_lexicon_open(model, &lexicon, &err) ||
			cohort_grammar_open(lexicon, text, sizeof text - 1, NULL, &grammar, &err) ||
			cohort_sampler_open(&sp, 512, &sampler, &err) ||
			cohort_forest_open(ctx_of_forest, NULL, &forest, &err) ||
			cohort_engine_open(model, &ep, &engine, &err) ||
			cohort_gguf_open(path_of("models/cohort-tiny.gguf"), &gguf, &err) ||
			cohort_template_open("x", 1, &template, &err) ||
			cohort_gguf_writer_open(written, &writer, &err)) {
		print_error("%s\n", err.text);
		return -1;
	}
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	cohort_gguf_writer_free(writer);
	unlink(written);
	cohort_template_free(template);
	cohort_gguf_free(gguf);
	cohort_engine_free(engine);
	cohort_forest_free(forest);
	cohort_sampler_free(sampler);
	cohort_grammar_free(grammar);
	cohort_lexicon_free(lexicon);
	cohort_context_free(ctx_of_forest);
	cohort_context_free(ctx);
	cohort_model_free(model);
	return 0;
}

static void call(void **state)
{
	const struct row *r = *state;

	r->call();
}

static bool has_row(const char *name, size_t n)
{
	for (size_t i = 0; i < n_rows; i++)
		if (strlen(rows[i].name) == n && memcmp(rows[i].name, name, n) == 0)
			return true;
	return false;
}

/* The function that a line declares: the word before its first bracket. */
static void check_line(const char *line, int *n)
{
	const char *end = strncmp(line, "COHORT_API ", 11) == 0 ? strchr(line, '(') : NULL;
	const char *from = end;

	while (from && (isalnum((unsigned char)from[-1]) || from[-1] == '_'))
		from--;
	if (!end)
		return;
	if (!has_row(from, (size_t)(end - from)))
		fail_msg("no row for %.*s", (int)(end - from), from);
	++*n;
}

static void complete(void **state)
{
	static const char *const files[] = {"cohort.h", "cohort_engine.h", "cohort_search.h", "cohort_tools.h"};
	int n = 0;

	(void)state;
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		char file[64], line[256];
		snprintf(file, sizeof file, "include/%s", files[i]);
		FILE *f = fopen(path_of(file), "r");
		assert_non_null(f);
		while (fgets(line, sizeof line, f))
			check_line(line, &n);
		fclose(f);
	}
	assert_in_range(n, 200, ROWS_MAX);
}

int main(void)
{
	static struct CMUnitTest tests[ROWS_MAX + 1];

	tests[0] = (struct CMUnitTest){"every function has a row", complete, NULL, NULL, NULL};
	for (size_t i = 0; i < n_rows; i++)
		tests[i + 1] = (struct CMUnitTest){rows[i].name, call, NULL, NULL, &rows[i]};
	return _cmocka_run_group_tests("null", tests, n_rows + 1, open_all, close_all);
}
