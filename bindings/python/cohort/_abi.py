"""The declarations of cohort.h, cohort_engine.h and cohort_tools.h for ctypes, written by tools/bindings.sh.

STRUCTS and FUNCTIONS list all of them; cohort._lib binds the functions to the library."""

# ruff: noqa
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int,
                    c_int32, c_int64, c_size_t, c_uint, c_uint8, c_uint32, c_uint64, c_void_p)

VERSION = (0, 1, 0)

COHORT_VERSION_MAJOR = 0
COHORT_VERSION_MINOR = 1
COHORT_VERSION_PATCH = 0
COHORT_BATCH_INLINE = 32
COHORT_SEQ_ALL = -1
COHORT_ORDER_MAX = 32
COHORT_HISTORY_MAX = 1048576
COHORT_STRATEGY_ABI = 1
COHORT_OUTPUTS_MAX = 65536
COHORT_STOPS_MAX = 64
COHORT_STOP_BYTES_MAX = 1024
COHORT_TOP_MAX = 64
COHORT_SIM_BINS = 2369
COHORT_OK = 0
COHORT_NO_ROOM = 1
COHORT_ABORTED = 2
COHORT_E_ARG = -1
COHORT_E_BATCH = -2
COHORT_E_MEMORY = -3
COHORT_E_IO = -4
COHORT_E_FORMAT = -5
COHORT_E_UNSUPPORTED = -6
COHORT_E_LIMIT = -7
COHORT_E_NUMERIC = -8
COHORT_E_BUG = -9
COHORT_E_DEVICE = -10
COHORT_POOL_NONE = 0
COHORT_POOL_MEAN = 1
COHORT_POOL_CLS = 2
COHORT_POOL_LAST = 3
COHORT_TOKENIZE_BOS = 1
COHORT_TOKENIZE_NO_BOS = 2
COHORT_TOKENIZE_SPECIAL = 4
COHORT_BATCH_POS = 1
COHORT_BATCH_SEQ = 2
COHORT_BATCH_OUTPUT = 4
COHORT_ROW_EMBEDDING = 2
COHORT_KV_F16 = 0
COHORT_KV_F32 = 1
COHORT_KV_Q8_0 = 2
COHORT_SPLIT_SIMPLE = 0
COHORT_SPLIT_EQUAL = 1
COHORT_SPLIT_SEQ = 2
COHORT_OUTPUT_LOGITS = 1
COHORT_OUTPUT_EMBEDDINGS = 2
COHORT_STAGE_BIAS = 1
COHORT_STAGE_GRAMMAR = 2
COHORT_STAGE_PENALTIES = 3
COHORT_STAGE_DRY = 4
COHORT_STAGE_TOP_N_SIGMA = 5
COHORT_STAGE_TOP_K = 6
COHORT_STAGE_TYPICAL = 7
COHORT_STAGE_TOP_P = 8
COHORT_STAGE_MIN_P = 9
COHORT_STAGE_XTC = 10
COHORT_STAGE_TEMPERATURE = 11
COHORT_STAGE_MIROSTAT = 12
COHORT_SLOT_IDLE = 0
COHORT_SLOT_PREFILLING = 1
COHORT_SLOT_GENERATING = 2
COHORT_SLOT_PARKED = 3
COHORT_TASK_GENERATE = 0
COHORT_TASK_EMBED = 1
COHORT_FINISH_NONE = 0
COHORT_FINISH_EOG = 1
COHORT_FINISH_STOP = 2
COHORT_FINISH_LENGTH = 3
COHORT_FINISH_EMBEDDED = 4
COHORT_FINISH_CANCELLED = 5
COHORT_FINISH_TIMEOUT = 6
COHORT_FINISH_ERROR = 7
COHORT_FINISH_SHUTDOWN = 8
COHORT_EVENT_NONE = 0
COHORT_EVENT_PROMPT = 1
COHORT_EVENT_TOKEN = 2
COHORT_EVENT_EMBEDDING = 3
COHORT_EVENT_END = 4
COHORT_EVENT_DONE = 5
COHORT_ROOM_RESERVE = 0
COHORT_ROOM_OVERCOMMIT = 1
COHORT_GGUF_U8 = 0
COHORT_GGUF_I8 = 1
COHORT_GGUF_U16 = 2
COHORT_GGUF_I16 = 3
COHORT_GGUF_U32 = 4
COHORT_GGUF_I32 = 5
COHORT_GGUF_F32 = 6
COHORT_GGUF_BOOL = 7
COHORT_GGUF_STRING = 8
COHORT_GGUF_ARRAY = 9
COHORT_GGUF_U64 = 10
COHORT_GGUF_I64 = 11
COHORT_GGUF_F64 = 12

class cohort_err(Structure): ...

class cohort_device(Structure): ...

class cohort_model_params(Structure): ...

class cohort_model_info(Structure): ...

class cohort_detok(Structure): ...

class cohort_token_buf(Structure): ...

class cohort_batch_inline_rows(Structure): ...

class cohort_batch(Structure): ...

class cohort_batch_raw(Structure): ...

class cohort_chunk(Structure): ...

class cohort_packing(Structure): ...

class cohort_context_params(Structure): ...

class cohort_context_info(Structure): ...

class cohort_scratch(Structure): ...

class cohort_each_item(Structure): ...

class cohort_scatter_item(Structure): ...

class cohort_room_params(Structure): ...

class cohort_room_info(Structure): ...

class cohort_usage(Structure): ...

class cohort_counters(Structure): ...

class cohort_lexicon_token(Structure): ...

class cohort_logit_bias(Structure): ...

class cohort_sampler_params(Structure): ...

class cohort_sampler_rng(Structure): ...

class cohort_logprob(Structure): ...

class cohort_score(Structure): ...

class cohort_branch(Structure): ...

class cohort_forest_params(Structure): ...

class cohort_pressure(Structure): ...

class cohort_reseed(Structure): ...

class cohort_branch_span(Structure): ...

class cohort_branch_token(Structure): ...

class cohort_branch_info(Structure): ...

class cohort_slot(Structure): ...

class cohort_entry(Structure): ...

class cohort_plan(Structure): ...

class cohort_strategy(Structure): ...

class cohort_event(Structure): ...

class cohort_request_params(Structure): ...

class cohort_output(Structure): ...

class cohort_request_stats(Structure): ...

class cohort_tick(Structure): ...

class cohort_engine_stats(Structure): ...

class cohort_engine_params(Structure): ...

class cohort_cache_key(Structure): ...

class cohort_slot_info(Structure): ...

class cohort_sim_request(Structure): ...

class cohort_sim_params(Structure): ...

class cohort_sim_outcome(Structure): ...

class cohort_sim_totals(Structure): ...

class cohort_gguf_part(Structure): ...

class cohort_gguf_value(Structure): ...

class cohort_gguf_kv(Structure): ...

class cohort_gguf_cursor(Structure): ...

class cohort_gguf_tensor(Structure): ...

class cohort_synth_params(Structure): ...

class cohort_quantize_tensor(Structure): ...

class cohort_quantize_params(Structure): ...

class cohort_quantize_result(Structure): ...

class cohort_template_params(Structure): ...


cohort_err._fields_ = [
    ("status", c_int),
    ("text", c_char * 768),
    ("rule", POINTER(c_char)),
    ("row", c_int64),
    ("seq", c_int64),
    ("expected", c_int64),
    ("got", c_int64),
    ("offset", c_int64),
]
cohort_device._fields_ = [
    ("name", c_char * 32),
    ("description", c_char * 128),
    ("total_bytes", c_uint64),
    ("free_bytes", c_uint64),
]
cohort_model_params._fields_ = [
    ("struct_size", c_size_t),
    ("isa", POINTER(c_char)),
    ("n_threads", c_int32),
    ("vocab_only", c_bool),
    ("file_layout", c_bool),
    ("progress", CFUNCTYPE(c_bool, c_float, c_void_p)),
    ("progress_user", c_void_p),
    ("no_mmap", c_bool),
    ("mlock", c_bool),
    ("adapters", POINTER(c_char_p)),
    ("adapter_scales", POINTER(c_float)),
    ("n_adapters", c_size_t),
    ("device", POINTER(c_char)),
]
cohort_model_info._fields_ = [
    ("struct_size", c_size_t),
    ("arch", POINTER(c_char)),
    ("name", POINTER(c_char)),
    ("isa", POINTER(c_char)),
    ("tokenizer", POINTER(c_char)),
    ("pretokenizer", POINTER(c_char)),
    ("note", POINTER(c_char)),
    ("n_vocab", c_int32),
    ("n_embd", c_int32),
    ("n_layer", c_int32),
    ("n_head", c_int32),
    ("n_head_kv", c_int32),
    ("n_ff", c_int32),
    ("head_k", c_int32),
    ("head_v", c_int32),
    ("n_ctx_train", c_int32),
    ("n_params", c_uint64),
    ("weight_bytes", c_uint64),
    ("packed_bytes", c_uint64),
    ("encoder", c_bool),
    ("recurrent", c_bool),
    ("pooling", c_int),
    ("n_window", c_int32),
    ("device", POINTER(c_char)),
]
cohort_detok._fields_ = [
    ("model", c_void_p),
    ("special", c_bool),
    ("at_start", c_bool),
    ("n_held", c_uint8),
    ("held", c_char * 4),
]
cohort_token_buf._fields_ = [
    ("n_tokens", c_int32),
    ("n_max", c_int32),
    ("heap", POINTER(c_int32)),
    ("inline_tokens", c_int32 * 32),
]
cohort_batch_inline_rows._fields_ = [
    ("tokens", c_int32 * 32),
    ("pos", c_int32 * 32),
    ("seq", c_int32 * 32),
    ("output", c_uint8 * 32),
]
cohort_batch._fields_ = [
    ("n_tokens", c_int32),
    ("n_max", c_int32),
    ("n_embd", c_int32),
    ("n_seq_row_max", c_int32),
    ("n_pos_row", c_int32),
    ("storage", c_int32),
    ("left_out", c_uint32),
    ("tokens", POINTER(c_int32)),
    ("embd", POINTER(c_float)),
    ("pos", POINTER(c_int32)),
    ("n_seq", POINTER(c_int32)),
    ("seq", POINTER(c_int32)),
    ("output", POINTER(c_uint8)),
    ("inline_rows", cohort_batch_inline_rows),
]
cohort_batch_raw._fields_ = [
    ("n_tokens", c_int32),
    ("n_embd", c_int32),
    ("n_seq_row_max", c_int32),
    ("n_pos_row", c_int32),
    ("tokens", POINTER(c_int32)),
    ("embd", POINTER(c_float)),
    ("pos", POINTER(c_int32)),
    ("n_seq", POINTER(c_int32)),
    ("seq", POINTER(c_int32)),
    ("output", POINTER(c_uint8)),
]
cohort_chunk._fields_ = [
    ("first", c_int32),
    ("n_items", c_int32),
    ("n_rows", c_int32),
    ("oversized", c_bool),
]
cohort_packing._fields_ = [
    ("chunks", POINTER(cohort_chunk)),
    ("n_chunks", c_int32),
    ("order", POINTER(c_int32)),
    ("chunks_max", c_size_t),
    ("order_max", c_size_t),
    ("tree_max", c_size_t),
    ("tree", POINTER(c_int32)),
]
cohort_context_params._fields_ = [
    ("struct_size", c_size_t),
    ("n_ctx", c_int32),
    ("n_batch", c_int32),
    ("n_ubatch", c_int32),
    ("n_seq_max", c_int32),
    ("n_threads", c_int32),
    ("kv_type", c_int),
    ("abort", CFUNCTYPE(c_bool, c_void_p)),
    ("abort_user", c_void_p),
    ("split", c_int),
    ("outputs", c_uint32),
    ("pooling", c_int),
    ("output_all", c_bool),
    ("trace", CFUNCTYPE(None, POINTER(c_char), c_void_p)),
    ("trace_user", c_void_p),
    ("n_checkpoints", c_int32),
    ("n_blocks", c_int32),
]
cohort_context_info._fields_ = [
    ("model", c_void_p),
    ("n_vocab", c_int32),
    ("n_ctx", c_int32),
    ("n_batch", c_int32),
    ("n_ubatch", c_int32),
    ("n_seq_max", c_int32),
    ("n_threads", c_int32),
    ("n_blocks", c_int32),
    ("outputs", c_uint32),
    ("output_all", c_bool),
]
cohort_scratch._fields_ = [
    ("packing", cohort_packing),
    ("lengths", POINTER(c_int32)),
    ("ranks", POINTER(c_int32)),
    ("lengths_max", c_size_t),
    ("ranks_max", c_size_t),
    ("tokens", POINTER(c_int32)),
    ("pos", POINTER(c_int32)),
    ("seq", POINTER(c_int32)),
    ("output", POINTER(c_uint8)),
    ("tokens_max", c_size_t),
    ("pos_max", c_size_t),
    ("seq_max", c_size_t),
    ("output_max", c_size_t),
]
cohort_each_item._fields_ = [
    ("token", c_int32),
    ("pos", c_int32),
    ("seq", c_int32),
    ("want", c_bool),
]
cohort_scatter_item._fields_ = [
    ("tokens", POINTER(c_int32)),
    ("n_tokens", c_int32),
    ("pos", c_int32),
    ("seq", c_int32),
    ("want", c_bool),
]
cohort_room_params._fields_ = [
    ("struct_size", c_size_t),
    ("model", c_void_p),
    ("n_ctx", c_int64),
    ("n_blocks", c_int64),
    ("n_seq_max", c_int64),
    ("n_seqs", c_int64),
    ("n_tokens", c_int64),
    ("n_prompt", c_int64),
    ("n_fork", c_int64),
    ("n_more", c_int64),
]
cohort_room_info._fields_ = [
    ("block_size", c_int32),
    ("n_blocks", c_int32),
    ("n_needed", c_int64),
    ("n_shared", c_int64),
    ("n_free", c_int64),
    ("n_fit", c_int32),
    ("n_pos_max", c_int32),
    ("n_ctx_needed", c_int64),
]
cohort_usage._fields_ = [
    ("block_size", c_int32),
    ("n_blocks", c_int32),
    ("n_used", c_int32),
    ("n_shared", c_int32),
    ("n_free", c_int32),
    ("block_bytes", c_uint64),
    ("used_bytes", c_uint64),
    ("n_seqs", c_int32),
]
cohort_counters._fields_ = [
    ("n_decode", c_uint64),
    ("n_prefill_rows", c_uint64),
    ("n_decode_rows", c_uint64),
    ("prefill_s", c_double),
    ("decode_s", c_double),
]
cohort_lexicon_token._fields_ = [
    ("bytes", POINTER(c_char)),
    ("n_bytes", c_size_t),
    ("is_text", c_bool),
    ("is_end", c_bool),
]
cohort_logit_bias._fields_ = [
    ("token", c_int32),
    ("bias", c_float),
]
cohort_sampler_params._fields_ = [
    ("struct_size", c_size_t),
    ("seed", c_uint64),
    ("stream", c_uint64),
    ("temperature", c_float),
    ("top_k", c_int32),
    ("top_p", c_float),
    ("min_p", c_float),
    ("min_keep", c_int32),
    ("order", c_int * 32),
    ("n_order", c_int32),
    ("bias", POINTER(cohort_logit_bias)),
    ("n_bias", c_int32),
    ("grammar", c_void_p),
    ("lexicon", c_void_p),
    ("history_max", c_int32),
    ("penalty_last_n", c_int32),
    ("repeat_penalty", c_float),
    ("frequency_penalty", c_float),
    ("presence_penalty", c_float),
    ("dry_multiplier", c_float),
    ("dry_base", c_float),
    ("dry_allowed_length", c_int32),
    ("dry_penalty_last_n", c_int32),
    ("dry_breakers", POINTER(c_char_p)),
    ("n_dry_breakers", c_int32),
    ("top_n_sigma", c_float),
    ("typical_p", c_float),
    ("xtc_probability", c_float),
    ("xtc_threshold", c_float),
    ("dynatemp_range", c_float),
    ("dynatemp_exponent", c_float),
    ("mirostat", c_int32),
    ("mirostat_tau", c_float),
    ("mirostat_eta", c_float),
]
cohort_sampler_rng._fields_ = [
    ("state", c_uint64),
    ("inc", c_uint64),
]
cohort_logprob._fields_ = [
    ("token", c_int32),
    ("logprob", c_float),
]
cohort_score._fields_ = [
    ("n", c_int64),
    ("logprob", c_double),
    ("perplexity", c_double),
]
cohort_branch._fields_ = [
    ("forest", c_uint32),
    ("index", c_uint32),
    ("generation", c_uint64),
]
cohort_forest_params._fields_ = [
    ("struct_size", c_size_t),
    ("first_seq", c_int32),
    ("n_seqs", c_int32),
]
cohort_pressure._fields_ = [
    ("n_seqs", c_int32),
    ("n_leased", c_int32),
    ("n_vacant", c_int32),
    ("block_size", c_int32),
    ("n_blocks", c_int32),
    ("n_blocks_used", c_int32),
    ("n_blocks_shared", c_int32),
    ("n_blocks_free", c_int32),
    ("n_leaves", c_int32),
]
cohort_reseed._fields_ = [
    ("seed", c_uint64),
    ("stream", c_uint64),
]
cohort_branch_span._fields_ = [
    ("branch", cohort_branch),
    ("tokens", POINTER(c_int32)),
    ("n_tokens", c_int32),
]
cohort_branch_token._fields_ = [
    ("branch", cohort_branch),
    ("token", c_int32),
]
cohort_branch_info._fields_ = [
    ("parent", cohort_branch),
    ("first_child", cohort_branch),
    ("next_sibling", cohort_branch),
    ("n_children", c_int32),
    ("depth", c_int32),
    ("seq", c_int32),
    ("n_past", c_int32),
    ("pending", c_int32),
    ("has_logits", c_bool),
    ("complete", c_bool),
    ("n_accepted", c_int64),
    ("n_drawn", c_int64),
    ("logprob", c_double),
    ("drawn_logprob", c_double),
    ("perplexity", c_double),
    ("drawn_perplexity", c_double),
]
cohort_slot._fields_ = [
    ("id", c_int32),
    ("state", c_int),
    ("prompt", POINTER(c_int32)),
    ("n_prompt", c_int32),
    ("n_prefilled", c_int32),
    ("pending", c_int32),
    ("pos", c_int32),
    ("batch_index", c_int32),
    ("n_planned", c_int32),
    ("client", c_uint64),
    ("priority", c_int32),
    ("age_s", c_float),
    ("n_generated", c_int32),
    ("n_left", c_int32),
]
cohort_entry._fields_ = [
    ("token", c_int32),
    ("pos", c_int32),
    ("seq", c_int32),
    ("logits", c_bool),
]
cohort_plan._fields_ = [
    ("slots", POINTER(cohort_slot)),
    ("n_slots", c_int32),
    ("budget", c_int32),
    ("chunk_size", c_int32),
    ("queue_depth", c_int32),
    ("tick", c_uint64),
    ("model", c_void_p),
    ("entries", POINTER(cohort_entry)),
    ("n_entries", c_int32),
]
cohort_strategy._fields_ = [
    ("struct_size", c_size_t),
    ("name", POINTER(c_char)),
    ("about", POINTER(c_char)),
    ("state_bytes", c_size_t),
    ("user", c_void_p),
    ("build_batch", CFUNCTYPE(c_int, POINTER(cohort_strategy), c_void_p, POINTER(cohort_plan))),
]
cohort_event._fields_ = [
    ("kind", c_int),
    ("output", c_int32),
    ("index", c_int32),
    ("token", c_int32),
    ("text", POINTER(c_char)),
    ("n_bytes", c_size_t),
    ("logprob", c_float),
    ("chain_logprob", c_float),
    ("top", POINTER(cohort_logprob)),
    ("n_top", c_int32),
    ("prompt_logprobs", POINTER(c_float)),
    ("prompt_top", POINTER(cohort_logprob)),
    ("n_prompt", c_int32),
    ("embedding", POINTER(c_float)),
    ("n_embd", c_int32),
    ("finish", c_int),
    ("error", POINTER(cohort_err)),
]
cohort_request_params._fields_ = [
    ("struct_size", c_size_t),
    ("task", c_int),
    ("prompt", POINTER(c_int32)),
    ("n_prompt", c_int32),
    ("n_outputs", c_int32),
    ("max_tokens", c_int32),
    ("sampler", cohort_sampler_params),
    ("ignore_eos", c_bool),
    ("stop_tokens", POINTER(c_int32)),
    ("n_stop_tokens", c_int32),
    ("stops", POINTER(c_char_p)),
    ("n_stops", c_int32),
    ("special", c_bool),
    ("text_start", c_bool),
    ("n_logprobs", c_int32),
    ("chain_logprobs", c_bool),
    ("prompt_logprobs", c_bool),
    ("pooling", c_int),
    ("priority", c_int32),
    ("client", c_uint64),
    ("session", c_uint64),
    ("salt", c_uint64),
    ("no_reuse", c_bool),
    ("adapter", c_void_p),
    ("adapter_scale", c_float),
    ("queue_limit_s", c_double),
    ("prefill_limit_s", c_double),
    ("decode_limit_s", c_double),
    ("total_limit_s", c_double),
    ("on_event", CFUNCTYPE(None, c_void_p, POINTER(cohort_event), c_void_p)),
    ("user", c_void_p),
    ("on_ready", CFUNCTYPE(None, c_void_p, c_void_p)),
    ("ready_at_end", c_bool),
]
cohort_output._fields_ = [
    ("tokens", POINTER(c_int32)),
    ("n_tokens", c_int32),
    ("text", POINTER(c_char)),
    ("n_bytes", c_size_t),
    ("logprobs", POINTER(c_float)),
    ("finish", c_int),
    ("error", POINTER(cohort_err)),
]
cohort_request_stats._fields_ = [
    ("id", c_uint64),
    ("queued_s", c_double),
    ("first_token_s", c_double),
    ("end_s", c_double),
    ("n_prompt", c_int32),
    ("n_cached", c_int32),
    ("n_generated", c_int32),
    ("n_parked", c_int32),
    ("tokens_per_s", c_double),
    ("finish", c_int),
]
cohort_tick._fields_ = [
    ("tick", c_uint64),
    ("n_decode_rows", c_int32),
    ("n_prefill_rows", c_int32),
    ("n_sampled", c_int32),
    ("n_idle", c_int32),
    ("n_prefilling", c_int32),
    ("n_generating", c_int32),
    ("n_parked", c_int32),
    ("n_queued", c_int32),
    ("n_queued_tokens", c_int64),
    ("n_blocks", c_int32),
    ("n_blocks_used", c_int32),
    ("n_blocks_cached", c_int32),
    ("n_blocks_free", c_int32),
    ("at_s", c_double),
    ("total_s", c_double),
    ("decode_s", c_double),
    ("sample_s", c_double),
    ("fallback", POINTER(c_char)),
]
cohort_engine_stats._fields_ = [
    ("last", cohort_tick),
    ("n_ticks", c_uint64),
    ("n_submitted", c_uint64),
    ("n_admitted", c_uint64),
    ("n_refused", c_uint64),
    ("n_ended", c_uint64 * 9),
    ("n_decode_rows", c_uint64),
    ("n_prefill_rows", c_uint64),
    ("n_sampled", c_uint64),
    ("n_prompt_tokens", c_uint64),
    ("n_cached_tokens", c_uint64),
    ("n_lookups", c_uint64),
    ("n_hits", c_uint64),
    ("n_evicted", c_uint64),
    ("n_parked", c_uint64),
    ("n_resumed", c_uint64),
    ("n_swapped", c_uint64),
    ("n_fallbacks", c_uint64),
    ("n_retries", c_uint64),
    ("total_s", c_double),
    ("decode_s", c_double),
    ("sample_s", c_double),
    ("strategy", POINTER(c_char)),
    ("fallback", cohort_err),
]
cohort_engine_params._fields_ = [
    ("struct_size", c_size_t),
    ("n_slots", c_int32),
    ("context", cohort_context_params),
    ("budget", c_int32),
    ("chunk_size", c_int32),
    ("strategy", POINTER(cohort_strategy)),
    ("queue_requests_max", c_int32),
    ("queue_tokens_max", c_int64),
    ("wait_max_s", c_double),
    ("room", c_int),
    ("swap_bytes", c_size_t),
    ("no_reuse", c_bool),
    ("manual", c_bool),
    ("on_tick", CFUNCTYPE(None, POINTER(cohort_tick), c_void_p)),
    ("on_tick_user", c_void_p),
    ("keep_tokens", c_bool),
]
cohort_cache_key._fields_ = [
    ("tokens", POINTER(c_int32)),
    ("n_tokens", c_int32),
    ("salt", c_uint64),
    ("session", c_uint64),
    ("adapter", c_void_p),
    ("adapter_scale", c_float),
]
cohort_slot_info._fields_ = [
    ("id", c_int32),
    ("state", c_int),
    ("request", c_uint64),
    ("output", c_int32),
    ("n_prompt", c_int32),
    ("n_cached", c_int32),
    ("n_generated", c_int32),
    ("n_blocks", c_int32),
    ("priority", c_int32),
    ("client", c_uint64),
    ("session", c_uint64),
    ("age_s", c_double),
]
cohort_sim_request._fields_ = [
    ("arrival_s", c_double),
    ("n_prompt", c_int32),
    ("n_output", c_int32),
    ("client", c_uint64),
    ("priority", c_int32),
    ("group", c_uint64),
    ("n_shared", c_int32),
]
cohort_sim_params._fields_ = [
    ("struct_size", c_size_t),
    ("n_slots", c_int32),
    ("n_ctx", c_int32),
    ("n_batch", c_int32),
    ("n_ubatch", c_int32),
    ("budget", c_int32),
    ("chunk_size", c_int32),
    ("n_pos_max", c_int32),
    ("strategy", POINTER(cohort_strategy)),
    ("queue_requests_max", c_int32),
    ("queue_tokens_max", c_int64),
    ("wait_max_s", c_double),
    ("room", c_int),
    ("no_reuse", c_bool),
    ("cost_s", CFUNCTYPE(c_double, c_void_p, c_int32, c_int32)),
    ("cost_user", c_void_p),
    ("on_tick", CFUNCTYPE(None, POINTER(cohort_tick), c_void_p)),
    ("on_tick_user", c_void_p),
    ("abort", CFUNCTYPE(c_bool, c_void_p)),
    ("abort_user", c_void_p),
]
cohort_sim_outcome._fields_ = [
    ("finish", c_int),
    ("refused", c_bool),
    ("queued_s", c_double),
    ("first_token_s", c_double),
    ("end_s", c_double),
    ("gap_max_s", c_double),
    ("n_generated", c_int32),
    ("n_cached", c_int32),
    ("n_parked", c_int32),
]
cohort_sim_totals._fields_ = [
    ("now_s", c_double),
    ("busy_s", c_double),
    ("real_s", c_double),
    ("n_ticks", c_uint64),
    ("n_ubatches", c_uint64),
    ("n_prefill_rows", c_uint64),
    ("n_decode_rows", c_uint64),
    ("n_tokens", c_uint64),
    ("n_done", c_uint64),
    ("n_refused", c_uint64),
    ("n_parked", c_uint64),
    ("n_prompt_tokens", c_uint64),
    ("n_cached_tokens", c_uint64),
    ("n_fallbacks", c_uint64),
    ("n_queued_max", c_int32),
    ("gaps", c_uint64 * 2369),
    ("gap_max_s", c_double),
]
cohort_gguf_part._fields_ = [
    ("path", POINTER(c_char)),
    ("version", c_uint32),
    ("alignment", c_uint32),
    ("data_offset", c_uint64),
    ("file_bytes", c_uint64),
    ("n_tensors", c_size_t),
]
cohort_gguf_value._fields_ = [
    ("type", c_int),
    ("u", c_uint64),
    ("i", c_int64),
    ("f", c_double),
    ("str", POINTER(c_char)),
    ("n_str", c_size_t),
    ("elem_type", c_int),
    ("n_elems", c_uint64),
    ("data", c_void_p),
    ("data_bytes", c_size_t),
]
cohort_gguf_kv._fields_ = [
    ("key", POINTER(c_char)),
    ("n_key", c_size_t),
    ("offset", c_uint64),
    ("value", cohort_gguf_value),
]
cohort_gguf_cursor._fields_ = [
    ("array", cohort_gguf_value),
    ("i_elem", c_uint64),
    ("at", c_size_t),
]
cohort_gguf_tensor._fields_ = [
    ("name", POINTER(c_char)),
    ("n_name", c_size_t),
    ("type", c_uint32),
    ("type_name", POINTER(c_char)),
    ("n_dims", c_uint32),
    ("ne", c_uint64 * 4),
    ("part", c_uint32),
    ("offset", c_uint64),
    ("n_bytes", c_uint64),
]
cohort_synth_params._fields_ = [
    ("struct_size", c_size_t),
    ("n_vocab", c_uint32),
    ("n_embd", c_uint32),
    ("n_layer", c_uint32),
    ("n_head", c_uint32),
    ("n_head_kv", c_uint32),
    ("n_ff", c_uint32),
    ("n_ctx", c_uint32),
    ("head_size", c_uint32),
    ("rope_base", c_float),
    ("tied", c_bool),
    ("pure", c_bool),
    ("type", POINTER(c_char)),
    ("name", POINTER(c_char)),
    ("seed", c_uint64),
    ("n_threads", c_int32),
    ("progress", CFUNCTYPE(c_bool, c_float, c_void_p)),
    ("progress_user", c_void_p),
]
cohort_quantize_tensor._fields_ = [
    ("name", POINTER(c_char)),
    ("n_name", c_size_t),
    ("n_dims", c_uint32),
    ("ne", c_uint64 * 4),
    ("from", POINTER(c_char)),
    ("to", POINTER(c_char)),
    ("instead_of", POINTER(c_char)),
    ("bytes_before", c_uint64),
    ("bytes_after", c_uint64),
    ("rms_error", c_double),
    ("max_error", c_double),
]
cohort_quantize_params._fields_ = [
    ("struct_size", c_size_t),
    ("type", POINTER(c_char)),
    ("token_embedding_type", POINTER(c_char)),
    ("output_tensor_type", POINTER(c_char)),
    ("pure", c_bool),
    ("allow_requantize", c_bool),
    ("dry_run", c_bool),
    ("n_threads", c_int32),
    ("progress", CFUNCTYPE(c_bool, c_float, c_void_p)),
    ("progress_user", c_void_p),
    ("report", CFUNCTYPE(None, POINTER(cohort_quantize_tensor), c_void_p)),
    ("report_user", c_void_p),
]
cohort_quantize_result._fields_ = [
    ("n_tensors", c_uint64),
    ("n_weights", c_uint64),
    ("n_converted", c_uint64),
    ("n_fallback", c_uint64),
    ("bytes_before", c_uint64),
    ("bytes_after", c_uint64),
]
cohort_template_params._fields_ = [
    ("struct_size", c_size_t),
    ("messages", POINTER(c_char)),
    ("tools", POINTER(c_char)),
    ("documents", POINTER(c_char)),
    ("extra", POINTER(c_char)),
    ("bos_token", POINTER(c_char)),
    ("eos_token", POINTER(c_char)),
    ("add_generation_prompt", c_bool),
    ("now", POINTER(c_char)),
    ("n_steps_max", c_uint64),
    ("n_out_max", c_size_t),
    ("n_bytes_max", c_size_t),
    ("depth_max", c_uint32),
]

STRUCTS = (
    cohort_err,
    cohort_device,
    cohort_model_params,
    cohort_model_info,
    cohort_detok,
    cohort_token_buf,
    cohort_batch_inline_rows,
    cohort_batch,
    cohort_batch_raw,
    cohort_chunk,
    cohort_packing,
    cohort_context_params,
    cohort_context_info,
    cohort_scratch,
    cohort_each_item,
    cohort_scatter_item,
    cohort_room_params,
    cohort_room_info,
    cohort_usage,
    cohort_counters,
    cohort_lexicon_token,
    cohort_logit_bias,
    cohort_sampler_params,
    cohort_sampler_rng,
    cohort_logprob,
    cohort_score,
    cohort_branch,
    cohort_forest_params,
    cohort_pressure,
    cohort_reseed,
    cohort_branch_span,
    cohort_branch_token,
    cohort_branch_info,
    cohort_slot,
    cohort_entry,
    cohort_plan,
    cohort_strategy,
    cohort_event,
    cohort_request_params,
    cohort_output,
    cohort_request_stats,
    cohort_tick,
    cohort_engine_stats,
    cohort_engine_params,
    cohort_cache_key,
    cohort_slot_info,
    cohort_sim_request,
    cohort_sim_params,
    cohort_sim_outcome,
    cohort_sim_totals,
    cohort_gguf_part,
    cohort_gguf_value,
    cohort_gguf_kv,
    cohort_gguf_cursor,
    cohort_gguf_tensor,
    cohort_synth_params,
    cohort_quantize_tensor,
    cohort_quantize_params,
    cohort_quantize_result,
    cohort_template_params,
)

# name: (what it returns, its parameters)
FUNCTIONS = {
    "cohort_status_name": (c_char_p, (c_int,)),
    "cohort_version": (c_char_p, ()),
    "cohort_device_count": (c_size_t, ()),
    "cohort_device_get": (c_bool, (c_size_t, POINTER(cohort_device))),
    "cohort_isa_count": (c_size_t, ()),
    "cohort_isa_name": (c_char_p, (c_size_t,)),
    "cohort_isa_usable": (c_bool, (c_size_t,)),
    "cohort_model_params_init": (None, (POINTER(cohort_model_params),)),
    "cohort_model_open": (c_int, (c_char_p, POINTER(cohort_model_params), POINTER(c_void_p), POINTER(cohort_err))),
    "cohort_model_free": (None, (c_void_p,)),
    "cohort_adapter_open": (c_int, (c_void_p, c_char_p, POINTER(c_void_p), POINTER(cohort_err))),
    "cohort_adapter_free": (None, (c_void_p,)),
    "cohort_model_info_get": (None, (c_void_p, POINTER(cohort_model_info))),
    "cohort_tokenize": (c_int, (c_void_p, c_char_p, c_size_t, c_uint, POINTER(c_int32), c_size_t, POINTER(c_size_t), POINTER(cohort_err))),
    "cohort_tokenize_bound": (c_size_t, (c_size_t,)),
    "cohort_tokenize_least": (c_size_t, (c_void_p, c_size_t)),
    "cohort_token_bytes": (c_char_p, (c_void_p, c_int32, c_bool, POINTER(c_size_t))),
    "cohort_token_piece": (c_int, (c_void_p, c_int32, c_bool, c_bool, c_void_p, c_size_t, POINTER(c_size_t), POINTER(cohort_err))),
    "cohort_detokenize": (c_int, (c_void_p, POINTER(c_int32), c_size_t, c_bool, c_void_p, c_size_t, POINTER(c_size_t), POINTER(cohort_err))),
    "cohort_token_is_eog": (c_bool, (c_void_p, c_int32)),
    "cohort_token_is_control": (c_bool, (c_void_p, c_int32)),
    "cohort_token_bos": (c_int32, (c_void_p,)),
    "cohort_token_eos": (c_int32, (c_void_p,)),
    "cohort_detok_init": (None, (POINTER(cohort_detok), c_void_p, c_bool, c_bool)),
    "cohort_detok_push": (c_int, (POINTER(cohort_detok), c_int32, c_void_p, c_size_t, POINTER(c_size_t), POINTER(cohort_err))),
    "cohort_detok_flush": (c_size_t, (POINTER(cohort_detok), c_void_p)),
    "cohort_token_buf_init": (None, (POINTER(cohort_token_buf),)),
    "cohort_token_buf_append": (c_int, (POINTER(cohort_token_buf), POINTER(c_int32), c_int32, POINTER(cohort_err))),
    "cohort_token_buf_get": (POINTER(c_int32), (POINTER(cohort_token_buf),)),
    "cohort_token_buf_reset": (None, (POINTER(cohort_token_buf),)),
    "cohort_token_buf_release": (None, (POINTER(cohort_token_buf),)),
    "cohort_batch_init": (c_int, (POINTER(cohort_batch), c_int32, c_int32, c_int32, POINTER(cohort_err))),
    "cohort_batch_init_default": (c_int, (POINTER(cohort_batch), POINTER(cohort_err))),
    "cohort_batch_init_pos": (c_int, (POINTER(cohort_batch), c_int32, c_int32, c_int32, c_int32, POINTER(cohort_err))),
    "cohort_batch_from_tokens": (c_int, (POINTER(cohort_batch), POINTER(c_int32), c_int32, POINTER(cohort_err))),
    "cohort_batch_take_tokens": (c_int, (POINTER(cohort_batch), POINTER(c_int32), c_int32, POINTER(cohort_err))),
    "cohort_batch_from_buffer": (c_int, (POINTER(cohort_batch), POINTER(cohort_token_buf), POINTER(cohort_err))),
    "cohort_batch_view": (c_int, (POINTER(cohort_batch), POINTER(c_int32), c_int32, POINTER(cohort_err))),
    "cohort_batch_add": (c_int, (POINTER(cohort_batch), c_int32, c_int32, POINTER(c_int32), c_int32, c_bool, POINTER(cohort_err))),
    "cohort_batch_add_embd": (c_int, (POINTER(cohort_batch), POINTER(c_float), POINTER(c_int32), POINTER(c_int32), c_int32, c_bool, POINTER(cohort_err))),
    "cohort_batch_leave_out": (None, (POINTER(cohort_batch), c_uint32)),
    "cohort_batch_size": (c_int32, (POINTER(cohort_batch),)),
    "cohort_batch_is_empty": (c_bool, (POINTER(cohort_batch),)),
    "cohort_batch_copy": (c_int, (POINTER(cohort_batch), POINTER(cohort_batch), POINTER(cohort_err))),
    "cohort_batch_reset": (None, (POINTER(cohort_batch),)),
    "cohort_batch_release": (None, (POINTER(cohort_batch),)),
    "cohort_batch_raw_get": (None, (POINTER(cohort_batch), POINTER(cohort_batch_raw))),
    "cohort_batch_view_raw": (c_int, (POINTER(cohort_batch), POINTER(cohort_batch_raw), POINTER(cohort_err))),
    "cohort_batch_dump": (c_size_t, (POINTER(cohort_batch), c_void_p, c_size_t)),
    "cohort_packing_init": (None, (POINTER(cohort_packing),)),
    "cohort_bin_pack": (c_int, (POINTER(cohort_packing), POINTER(c_int32), c_int32, c_int32, POINTER(cohort_err))),
    "cohort_packing_release": (None, (POINTER(cohort_packing),)),
    "cohort_context_params_init": (None, (POINTER(cohort_context_params),)),
    "cohort_context_open": (c_int, (c_void_p, POINTER(cohort_context_params), POINTER(c_void_p), POINTER(cohort_err))),
    "cohort_context_free": (None, (c_void_p,)),
    "cohort_context_info_get": (None, (c_void_p, POINTER(cohort_context_info))),
    "cohort_check": (c_int, (c_void_p, POINTER(cohort_batch), POINTER(cohort_err))),
    "cohort_decode": (c_int, (c_void_p, POINTER(cohort_batch), POINTER(cohort_err))),
    "cohort_encode": (c_int, (c_void_p, POINTER(cohort_batch), POINTER(cohort_err))),
    "cohort_decode_one": (c_int, (c_void_p, c_int32, c_int32, c_int32, c_bool, POINTER(cohort_err))),
    "cohort_decode_many": (c_int, (c_void_p, POINTER(c_int32), c_int32, c_int32, c_int32, POINTER(cohort_err))),
    "cohort_scratch_init": (None, (POINTER(cohort_scratch),)),
    "cohort_scratch_release": (None, (POINTER(cohort_scratch),)),
    "cohort_decode_each": (c_int, (c_void_p, POINTER(cohort_each_item), c_int32, POINTER(cohort_scratch), POINTER(cohort_err))),
    "cohort_decode_scatter": (c_int, (c_void_p, POINTER(cohort_scatter_item), c_int32, POINTER(cohort_scratch), POINTER(cohort_err))),
    "cohort_decode_scatter_to": (c_int, (c_void_p, POINTER(cohort_scatter_item), c_int32, POINTER(cohort_scratch), CFUNCTYPE(None, c_void_p, c_int32, POINTER(c_float)), c_void_p, POINTER(cohort_err))),
    "cohort_repack": (c_double, (c_void_p, c_double)),
    "cohort_warm_up": (c_int, (c_void_p, c_int32, c_int32, POINTER(cohort_err))),
    "cohort_n_outputs": (c_int32, (c_void_p,)),
    "cohort_logits_get": (POINTER(c_float), (c_void_p, c_int32, POINTER(cohort_err))),
    "cohort_embeddings_get": (POINTER(c_float), (c_void_p, c_int32, POINTER(cohort_err))),
    "cohort_embeddings_seq_get": (POINTER(c_float), (c_void_p, c_int32, POINTER(cohort_err))),
    "cohort_seq_rm": (c_int, (c_void_p, c_int32, c_int32, c_int32, POINTER(cohort_err))),
    "cohort_seq_cp": (c_int, (c_void_p, c_int32, c_int32, c_int32, c_int32, POINTER(cohort_err))),
    "cohort_seq_keep": (c_int, (c_void_p, c_int32, POINTER(cohort_err))),
    "cohort_seq_add": (c_int, (c_void_p, c_int32, c_int32, c_int32, c_int32, POINTER(cohort_err))),
    "cohort_seq_checkpoint": (c_int, (c_void_p, c_int32, POINTER(cohort_err))),
    "cohort_seq_adapter_set": (c_int, (c_void_p, c_int32, c_void_p, c_float, POINTER(cohort_err))),
    "cohort_seq_pos_min": (c_int32, (c_void_p, c_int32)),
    "cohort_seq_pos_max": (c_int32, (c_void_p, c_int32)),
    "cohort_seq_is_whole": (c_bool, (c_void_p, c_int32)),
    "cohort_seq_clear": (None, (c_void_p,)),
    "cohort_room_params_init": (None, (POINTER(cohort_room_params),)),
    "cohort_room_needed": (c_int, (POINTER(cohort_room_params), POINTER(cohort_room_info), POINTER(cohort_err))),
    "cohort_usage_get": (None, (c_void_p, POINTER(cohort_usage))),
    "cohort_counters_get": (None, (c_void_p, POINTER(cohort_counters))),
    "cohort_state_size": (c_size_t, (c_void_p, c_int32)),
    "cohort_state_save": (c_int, (c_void_p, c_int32, c_void_p, c_size_t, POINTER(c_size_t), POINTER(cohort_err))),
    "cohort_state_restore": (c_int, (c_void_p, c_int32, c_void_p, c_size_t, POINTER(cohort_err))),
    "cohort_state_save_file": (c_int, (c_void_p, c_int32, c_char_p, POINTER(cohort_err))),
    "cohort_state_restore_file": (c_int, (c_void_p, c_int32, c_char_p, POINTER(cohort_err))),
    "cohort_lexicon_open": (c_int, (c_void_p, POINTER(c_void_p), POINTER(cohort_err))),
    "cohort_lexicon_open_list": (c_int, (POINTER(cohort_lexicon_token), c_int32, POINTER(c_void_p), POINTER(cohort_err))),
    "cohort_lexicon_free": (None, (c_void_p,)),
    "cohort_grammar_open": (c_int, (c_void_p, c_char_p, c_size_t, c_char_p, POINTER(c_void_p), POINTER(cohort_err))),
    "cohort_grammar_open_schema": (c_int, (c_void_p, c_char_p, c_size_t, POINTER(c_void_p), POINTER(cohort_err))),
    "cohort_schema_to_gbnf": (c_int, (c_char_p, c_size_t, c_void_p, c_size_t, POINTER(c_size_t), POINTER(cohort_err))),
    "cohort_grammar_match": (c_int, (c_void_p, c_char_p, c_size_t, POINTER(c_size_t), POINTER(c_bool), POINTER(cohort_err))),
    "cohort_grammar_free": (None, (c_void_p,)),
    "cohort_sampler_params_init": (None, (POINTER(cohort_sampler_params),)),
    "cohort_stage_name": (c_char_p, (c_int,)),
    "cohort_sampler_order_parse": (c_int, (POINTER(cohort_sampler_params), c_char_p, POINTER(cohort_err))),
    "cohort_sampler_open": (c_int, (POINTER(cohort_sampler_params), c_int32, POINTER(c_void_p), POINTER(cohort_err))),
    "cohort_sampler_free": (None, (c_void_p,)),
    "cohort_sampler_clone": (c_int, (c_void_p, POINTER(c_void_p), POINTER(cohort_err))),
    "cohort_sampler_reset": (None, (c_void_p,)),
    "cohort_sampler_reseed": (None, (c_void_p, c_uint64, c_uint64)),
    "cohort_sampler_rng_get": (None, (c_void_p, POINTER(cohort_sampler_rng))),
    "cohort_sampler_rng_set": (c_int, (c_void_p, POINTER(cohort_sampler_rng), POINTER(cohort_err))),
    "cohort_sampler_sample": (c_int, (c_void_p, POINTER(c_float), POINTER(c_int32), POINTER(cohort_err))),
    "cohort_sampler_draw": (c_int, (c_void_p, POINTER(c_float), POINTER(c_int32), POINTER(cohort_err))),
    "cohort_sampler_accept": (c_int, (c_void_p, c_int32, POINTER(cohort_err))),
    "cohort_sampler_prompt": (c_int, (c_void_p, POINTER(c_int32), c_size_t, POINTER(cohort_err))),
    "cohort_sampler_permits": (c_int, (c_void_p, c_int32, POINTER(cohort_err))),
    "cohort_sampler_legal_get": (c_int, (c_void_p, POINTER(c_uint8), POINTER(cohort_err))),
    "cohort_sampler_is_complete": (c_bool, (c_void_p,)),
    "cohort_logprobs_get": (c_int, (POINTER(c_float), c_int32, c_int32, POINTER(c_float), POINTER(cohort_logprob), c_int32, POINTER(c_double), POINTER(cohort_err))),
    "cohort_sampler_logprobs_get": (c_int, (c_void_p, c_int32, POINTER(c_float), POINTER(cohort_logprob), c_int32, POINTER(c_double), POINTER(cohort_err))),
    "cohort_score_text": (c_int, (c_void_p, c_int32, POINTER(c_int32), c_int32, POINTER(c_float), POINTER(cohort_score), POINTER(cohort_err))),
    "cohort_forest_params_init": (None, (POINTER(cohort_forest_params),)),
    "cohort_forest_open": (c_int, (c_void_p, POINTER(cohort_forest_params), POINTER(c_void_p), POINTER(cohort_err))),
    "cohort_forest_free": (None, (c_void_p,)),
    "cohort_forest_context_get": (c_void_p, (c_void_p,)),
    "cohort_forest_pressure_get": (None, (c_void_p, POINTER(cohort_pressure))),
    "cohort_branch_create": (c_int, (c_void_p, POINTER(cohort_sampler_params), POINTER(cohort_branch), POINTER(cohort_err))),
    "cohort_branch_fork": (c_int, (c_void_p, cohort_branch, POINTER(cohort_reseed), POINTER(cohort_branch), POINTER(cohort_err))),
    "cohort_branch_prune": (c_int, (c_void_p, cohort_branch, POINTER(cohort_err))),
    "cohort_branch_prune_subtree": (c_int, (c_void_p, cohort_branch, POINTER(cohort_err))),
    "cohort_branch_retain_only": (c_int, (c_void_p, cohort_branch, POINTER(cohort_err))),
    "cohort_branch_detach": (c_int, (c_void_p, cohort_branch, POINTER(cohort_err))),
    "cohort_branch_decode_scatter": (c_int, (c_void_p, POINTER(cohort_branch_span), c_int32, POINTER(cohort_err))),
    "cohort_branch_prefill": (c_int, (c_void_p, cohort_branch, POINTER(c_int32), c_int32, POINTER(cohort_err))),
    "cohort_branch_sample": (c_int, (c_void_p, cohort_branch, POINTER(c_int32), POINTER(cohort_err))),
    "cohort_branch_accept": (c_int, (c_void_p, cohort_branch, c_int32, POINTER(cohort_err))),
    "cohort_branch_step": (c_int, (c_void_p, POINTER(cohort_branch), c_int32, POINTER(cohort_err))),
    "cohort_branch_decode_each": (c_int, (c_void_p, POINTER(cohort_branch_token), c_int32, POINTER(cohort_err))),
    "cohort_branch_logits_get": (POINTER(c_float), (c_void_p, cohort_branch, POINTER(cohort_err))),
    "cohort_branch_logits_set": (c_int, (c_void_p, cohort_branch, POINTER(c_float), POINTER(cohort_err))),
    "cohort_branch_logits_merge": (c_int, (c_void_p, cohort_branch, cohort_branch, c_float, POINTER(cohort_err))),
    "cohort_branch_bias_set": (c_int, (c_void_p, cohort_branch, POINTER(cohort_logit_bias), c_int32, POINTER(cohort_err))),
    "cohort_branch_legal_get": (c_int, (c_void_p, cohort_branch, POINTER(c_int32), c_int32, POINTER(c_int32), POINTER(cohort_err))),
    "cohort_branch_is_legal": (c_bool, (c_void_p, cohort_branch, c_int32)),
    "cohort_branch_entropy_get": (c_int, (c_void_p, cohort_branch, POINTER(c_double), POINTER(cohort_err))),
    "cohort_branch_surprisal_get": (c_int, (c_void_p, cohort_branch, c_int32, POINTER(c_double), POINTER(cohort_err))),
    "cohort_branch_info_get": (c_int, (c_void_p, cohort_branch, POINTER(cohort_branch_info), POINTER(cohort_err))),
    "cohort_branch_leaves_get": (c_int, (c_void_p, cohort_branch, POINTER(cohort_branch), c_int32, POINTER(c_int32), POINTER(cohort_err))),
    "cohort_strategy_count": (c_size_t, ()),
    "cohort_strategy_get": (POINTER(cohort_strategy), (c_size_t,)),
    "cohort_strategy_find": (POINTER(cohort_strategy), (c_char_p,)),
    "cohort_strategy_open": (c_int, (c_char_p, c_char_p, POINTER(c_void_p), POINTER(POINTER(cohort_strategy)), POINTER(cohort_err))),
    "cohort_strategy_file_free": (None, (c_void_p,)),
    "cohort_finish_name": (c_char_p, (c_int,)),
    "cohort_request_params_init": (None, (POINTER(cohort_request_params),)),
    "cohort_engine_submit": (c_int, (c_void_p, POINTER(cohort_request_params), POINTER(c_void_p), POINTER(cohort_err))),
    "cohort_request_cancel": (None, (c_void_p,)),
    "cohort_request_free": (None, (c_void_p,)),
    "cohort_request_next": (c_int, (c_void_p, c_double, POINTER(cohort_event), POINTER(cohort_err))),
    "cohort_request_wait": (c_int, (c_void_p, c_double, POINTER(c_bool), POINTER(cohort_err))),
    "cohort_request_output_get": (c_int, (c_void_p, c_int32, POINTER(cohort_output), POINTER(cohort_err))),
    "cohort_request_stats_get": (None, (c_void_p, POINTER(cohort_request_stats))),
    "cohort_engine_params_init": (None, (POINTER(cohort_engine_params),)),
    "cohort_engine_open": (c_int, (c_void_p, POINTER(cohort_engine_params), POINTER(c_void_p), POINTER(cohort_err))),
    "cohort_engine_drain": (c_int, (c_void_p, c_double, POINTER(c_bool), POINTER(cohort_err))),
    "cohort_engine_free": (None, (c_void_p,)),
    "cohort_engine_tick": (c_int, (c_void_p, POINTER(c_bool), POINTER(cohort_err))),
    "cohort_engine_strategy_set": (c_int, (c_void_p, POINTER(cohort_strategy), POINTER(cohort_err))),
    "cohort_engine_cache_clear": (None, (c_void_p,)),
    "cohort_engine_cache_save": (c_int, (c_void_p, POINTER(cohort_cache_key), POINTER(c_void_p), POINTER(c_size_t), POINTER(c_int32), POINTER(cohort_err))),
    "cohort_cache_free": (None, (c_void_p,)),
    "cohort_engine_cache_load": (c_int, (c_void_p, POINTER(cohort_cache_key), c_void_p, c_size_t, POINTER(c_int32), POINTER(cohort_err))),
    "cohort_engine_cache_drop": (c_int, (c_void_p, POINTER(cohort_cache_key), POINTER(c_int32), POINTER(cohort_err))),
    "cohort_engine_slot_tokens": (c_int, (c_void_p, c_int32, POINTER(c_int32), c_size_t, POINTER(cohort_cache_key), POINTER(cohort_err))),
    "cohort_engine_stats_get": (None, (c_void_p, POINTER(cohort_engine_stats))),
    "cohort_engine_slots_get": (c_size_t, (c_void_p, POINTER(cohort_slot_info), c_size_t)),
    "cohort_sim_params_init": (None, (POINTER(cohort_sim_params),)),
    "cohort_sim_bin_s": (c_double, (c_int32,)),
    "cohort_simulate": (c_int, (POINTER(cohort_sim_params), POINTER(cohort_sim_request), c_size_t, POINTER(cohort_sim_outcome), POINTER(cohort_sim_totals), POINTER(cohort_err))),
    "cohort_gguf_type_name": (c_char_p, (c_int,)),
    "cohort_gguf_open": (c_int, (c_char_p, POINTER(c_void_p), POINTER(cohort_err))),
    "cohort_gguf_free": (None, (c_void_p,)),
    "cohort_gguf_version": (c_uint32, (c_void_p,)),
    "cohort_gguf_alignment": (c_uint32, (c_void_p,)),
    "cohort_gguf_data_offset": (c_uint64, (c_void_p,)),
    "cohort_gguf_file_bytes": (c_uint64, (c_void_p,)),
    "cohort_gguf_n_parts": (c_size_t, (c_void_p,)),
    "cohort_gguf_n_kv": (c_size_t, (c_void_p,)),
    "cohort_gguf_n_tensors": (c_size_t, (c_void_p,)),
    "cohort_gguf_part_get": (c_bool, (c_void_p, c_size_t, POINTER(cohort_gguf_part))),
    "cohort_gguf_kv_get": (c_bool, (c_void_p, c_size_t, POINTER(cohort_gguf_kv))),
    "cohort_gguf_kv_find": (c_bool, (c_void_p, c_char_p, POINTER(cohort_gguf_kv))),
    "cohort_gguf_cursor_init": (None, (POINTER(cohort_gguf_cursor), POINTER(cohort_gguf_value))),
    "cohort_gguf_cursor_next": (c_bool, (POINTER(cohort_gguf_cursor), POINTER(cohort_gguf_value))),
    "cohort_gguf_cursor_seek": (c_bool, (POINTER(cohort_gguf_cursor), c_uint64)),
    "cohort_gguf_format": (c_size_t, (POINTER(cohort_gguf_value), c_size_t, c_void_p, c_size_t)),
    "cohort_gguf_tensor_get": (c_bool, (c_void_p, c_size_t, POINTER(cohort_gguf_tensor))),
    "cohort_gguf_writer_open": (c_int, (c_char_p, POINTER(c_void_p), POINTER(cohort_err))),
    "cohort_gguf_writer_free": (None, (c_void_p,)),
    "cohort_gguf_writer_u32": (c_int, (c_void_p, c_char_p, c_uint32, POINTER(cohort_err))),
    "cohort_gguf_writer_u64": (c_int, (c_void_p, c_char_p, c_uint64, POINTER(cohort_err))),
    "cohort_gguf_writer_f32": (c_int, (c_void_p, c_char_p, c_float, POINTER(cohort_err))),
    "cohort_gguf_writer_bool": (c_int, (c_void_p, c_char_p, c_bool, POINTER(cohort_err))),
    "cohort_gguf_writer_str": (c_int, (c_void_p, c_char_p, c_char_p, POINTER(cohort_err))),
    "cohort_gguf_writer_strs": (c_int, (c_void_p, c_char_p, POINTER(c_char_p), POINTER(c_size_t), c_size_t, POINTER(cohort_err))),
    "cohort_gguf_writer_f32s": (c_int, (c_void_p, c_char_p, POINTER(c_float), c_size_t, POINTER(cohort_err))),
    "cohort_gguf_writer_i32s": (c_int, (c_void_p, c_char_p, POINTER(c_int32), c_size_t, POINTER(cohort_err))),
    "cohort_gguf_writer_kv": (c_int, (c_void_p, POINTER(cohort_gguf_kv), POINTER(cohort_err))),
    "cohort_gguf_writer_tensor": (c_int, (c_void_p, c_char_p, c_uint32, c_uint32, POINTER(c_uint64), POINTER(cohort_err))),
    "cohort_gguf_writer_begin": (c_int, (c_void_p, POINTER(cohort_err))),
    "cohort_gguf_writer_data": (c_int, (c_void_p, c_size_t, c_void_p, c_size_t, POINTER(cohort_err))),
    "cohort_gguf_writer_finish": (c_int, (c_void_p, POINTER(cohort_err))),
    "cohort_mix_name": (c_char_p, (c_size_t,)),
    "cohort_synth_params_init": (None, (POINTER(cohort_synth_params),)),
    "cohort_synth_shape_name": (c_char_p, (c_size_t,)),
    "cohort_synth_shape": (c_bool, (POINTER(cohort_synth_params), c_char_p)),
    "cohort_synth_write": (c_int, (c_char_p, POINTER(cohort_synth_params), POINTER(cohort_err))),
    "cohort_quantize_params_init": (None, (POINTER(cohort_quantize_params),)),
    "cohort_quantize_write": (c_int, (c_char_p, c_char_p, POINTER(cohort_quantize_params), POINTER(cohort_quantize_result), POINTER(cohort_err))),
    "cohort_template_open": (c_int, (c_char_p, c_size_t, POINTER(c_void_p), POINTER(cohort_err))),
    "cohort_template_free": (None, (c_void_p,)),
    "cohort_template_params_init": (None, (POINTER(cohort_template_params),)),
    "cohort_template_render": (c_int, (c_void_p, POINTER(cohort_template_params), POINTER(c_char_p), POINTER(c_size_t), POINTER(cohort_err))),
    "cohort_template_text_free": (None, (c_void_p,)),
}
