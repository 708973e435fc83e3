// The declarations of cohort.h, cohort_engine.h and cohort_tools.h. Written by tools/bindings.sh from the headers.

use std::os::raw::{c_char, c_int, c_uint, c_void};

pub const COHORT_VERSION_MAJOR: i32 = 0;
pub const COHORT_VERSION_MINOR: i32 = 1;
pub const COHORT_VERSION_PATCH: i32 = 0;
pub const COHORT_BATCH_INLINE: i32 = 32;
pub const COHORT_SEQ_ALL: i32 = -1;
pub const COHORT_ORDER_MAX: i32 = 32;
pub const COHORT_HISTORY_MAX: i32 = 1048576;
pub const COHORT_STRATEGY_ABI: i32 = 1;
pub const COHORT_OUTPUTS_MAX: i32 = 65536;
pub const COHORT_STOPS_MAX: i32 = 64;
pub const COHORT_STOP_BYTES_MAX: i32 = 1024;
pub const COHORT_TOP_MAX: i32 = 64;
pub const COHORT_SIM_BINS: i32 = 2369;
pub const COHORT_OK: i32 = 0;
pub const COHORT_NO_ROOM: i32 = 1;
pub const COHORT_ABORTED: i32 = 2;
pub const COHORT_E_ARG: i32 = -1;
pub const COHORT_E_BATCH: i32 = -2;
pub const COHORT_E_MEMORY: i32 = -3;
pub const COHORT_E_IO: i32 = -4;
pub const COHORT_E_FORMAT: i32 = -5;
pub const COHORT_E_UNSUPPORTED: i32 = -6;
pub const COHORT_E_LIMIT: i32 = -7;
pub const COHORT_E_NUMERIC: i32 = -8;
pub const COHORT_E_BUG: i32 = -9;
pub const COHORT_E_DEVICE: i32 = -10;
pub const COHORT_POOL_NONE: i32 = 0;
pub const COHORT_POOL_MEAN: i32 = 1;
pub const COHORT_POOL_CLS: i32 = 2;
pub const COHORT_POOL_LAST: i32 = 3;
pub const COHORT_TOKENIZE_BOS: i32 = 1;
pub const COHORT_TOKENIZE_NO_BOS: i32 = 2;
pub const COHORT_TOKENIZE_SPECIAL: i32 = 4;
pub const COHORT_BATCH_POS: i32 = 1;
pub const COHORT_BATCH_SEQ: i32 = 2;
pub const COHORT_BATCH_OUTPUT: i32 = 4;
pub const COHORT_ROW_EMBEDDING: i32 = 2;
pub const COHORT_KV_F16: i32 = 0;
pub const COHORT_KV_F32: i32 = 1;
pub const COHORT_KV_Q8_0: i32 = 2;
pub const COHORT_SPLIT_SIMPLE: i32 = 0;
pub const COHORT_SPLIT_EQUAL: i32 = 1;
pub const COHORT_SPLIT_SEQ: i32 = 2;
pub const COHORT_OUTPUT_LOGITS: i32 = 1;
pub const COHORT_OUTPUT_EMBEDDINGS: i32 = 2;
pub const COHORT_STAGE_BIAS: i32 = 1;
pub const COHORT_STAGE_GRAMMAR: i32 = 2;
pub const COHORT_STAGE_PENALTIES: i32 = 3;
pub const COHORT_STAGE_DRY: i32 = 4;
pub const COHORT_STAGE_TOP_N_SIGMA: i32 = 5;
pub const COHORT_STAGE_TOP_K: i32 = 6;
pub const COHORT_STAGE_TYPICAL: i32 = 7;
pub const COHORT_STAGE_TOP_P: i32 = 8;
pub const COHORT_STAGE_MIN_P: i32 = 9;
pub const COHORT_STAGE_XTC: i32 = 10;
pub const COHORT_STAGE_TEMPERATURE: i32 = 11;
pub const COHORT_STAGE_MIROSTAT: i32 = 12;
pub const COHORT_SLOT_IDLE: i32 = 0;
pub const COHORT_SLOT_PREFILLING: i32 = 1;
pub const COHORT_SLOT_GENERATING: i32 = 2;
pub const COHORT_SLOT_PARKED: i32 = 3;
pub const COHORT_TASK_GENERATE: i32 = 0;
pub const COHORT_TASK_EMBED: i32 = 1;
pub const COHORT_FINISH_NONE: i32 = 0;
pub const COHORT_FINISH_EOG: i32 = 1;
pub const COHORT_FINISH_STOP: i32 = 2;
pub const COHORT_FINISH_LENGTH: i32 = 3;
pub const COHORT_FINISH_EMBEDDED: i32 = 4;
pub const COHORT_FINISH_CANCELLED: i32 = 5;
pub const COHORT_FINISH_TIMEOUT: i32 = 6;
pub const COHORT_FINISH_ERROR: i32 = 7;
pub const COHORT_FINISH_SHUTDOWN: i32 = 8;
pub const COHORT_EVENT_NONE: i32 = 0;
pub const COHORT_EVENT_PROMPT: i32 = 1;
pub const COHORT_EVENT_TOKEN: i32 = 2;
pub const COHORT_EVENT_EMBEDDING: i32 = 3;
pub const COHORT_EVENT_END: i32 = 4;
pub const COHORT_EVENT_DONE: i32 = 5;
pub const COHORT_ROOM_RESERVE: i32 = 0;
pub const COHORT_ROOM_OVERCOMMIT: i32 = 1;
pub const COHORT_GGUF_U8: i32 = 0;
pub const COHORT_GGUF_I8: i32 = 1;
pub const COHORT_GGUF_U16: i32 = 2;
pub const COHORT_GGUF_I16: i32 = 3;
pub const COHORT_GGUF_U32: i32 = 4;
pub const COHORT_GGUF_I32: i32 = 5;
pub const COHORT_GGUF_F32: i32 = 6;
pub const COHORT_GGUF_BOOL: i32 = 7;
pub const COHORT_GGUF_STRING: i32 = 8;
pub const COHORT_GGUF_ARRAY: i32 = 9;
pub const COHORT_GGUF_U64: i32 = 10;
pub const COHORT_GGUF_I64: i32 = 11;
pub const COHORT_GGUF_F64: i32 = 12;

#[repr(C)]
pub struct cohort_model { _opaque: [u8; 0] }

#[repr(C)]
pub struct cohort_adapter { _opaque: [u8; 0] }

#[repr(C)]
pub struct cohort_context { _opaque: [u8; 0] }

#[repr(C)]
pub struct cohort_lexicon { _opaque: [u8; 0] }

#[repr(C)]
pub struct cohort_grammar { _opaque: [u8; 0] }

#[repr(C)]
pub struct cohort_sampler { _opaque: [u8; 0] }

#[repr(C)]
pub struct cohort_forest { _opaque: [u8; 0] }

#[repr(C)]
pub struct cohort_engine { _opaque: [u8; 0] }

#[repr(C)]
pub struct cohort_request { _opaque: [u8; 0] }

#[repr(C)]
pub struct cohort_strategy_file { _opaque: [u8; 0] }

#[repr(C)]
pub struct cohort_gguf { _opaque: [u8; 0] }

#[repr(C)]
pub struct cohort_gguf_writer { _opaque: [u8; 0] }

#[repr(C)]
pub struct cohort_template { _opaque: [u8; 0] }

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_err {
    pub status: c_int,
    pub text: [c_char; 768],
    pub rule: *const c_char,
    pub row: i64,
    pub seq: i64,
    pub expected: i64,
    pub got: i64,
    pub offset: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_device {
    pub name: [c_char; 32],
    pub description: [c_char; 128],
    pub total_bytes: u64,
    pub free_bytes: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_model_params {
    pub struct_size: usize,
    pub isa: *const c_char,
    pub n_threads: i32,
    pub vocab_only: bool,
    pub file_layout: bool,
    pub progress: Option<unsafe extern "C" fn(f32, *mut c_void) -> bool>,
    pub progress_user: *mut c_void,
    pub no_mmap: bool,
    pub mlock: bool,
    pub adapters: *const *const c_char,
    pub adapter_scales: *const f32,
    pub n_adapters: usize,
    pub device: *const c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_model_info {
    pub struct_size: usize,
    pub arch: *const c_char,
    pub name: *const c_char,
    pub isa: *const c_char,
    pub tokenizer: *const c_char,
    pub pretokenizer: *const c_char,
    pub note: *const c_char,
    pub n_vocab: i32,
    pub n_embd: i32,
    pub n_layer: i32,
    pub n_head: i32,
    pub n_head_kv: i32,
    pub n_ff: i32,
    pub head_k: i32,
    pub head_v: i32,
    pub n_ctx_train: i32,
    pub n_params: u64,
    pub weight_bytes: u64,
    pub packed_bytes: u64,
    pub encoder: bool,
    pub recurrent: bool,
    pub pooling: c_int,
    pub n_window: i32,
    pub device: *const c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_detok {
    pub model: *const cohort_model,
    pub special: bool,
    pub at_start: bool,
    pub n_held: u8,
    pub held: [c_char; 4],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_token_buf {
    pub n_tokens: i32,
    pub n_max: i32,
    pub heap: *mut i32,
    pub inline_tokens: [i32; 32],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_batch_inline_rows {
    pub tokens: [i32; 32],
    pub pos: [i32; 32],
    pub seq: [i32; 32],
    pub output: [u8; 32],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_batch {
    pub n_tokens: i32,
    pub n_max: i32,
    pub n_embd: i32,
    pub n_seq_row_max: i32,
    pub n_pos_row: i32,
    pub storage: i32,
    pub left_out: u32,
    pub tokens: *mut i32,
    pub embd: *mut f32,
    pub pos: *mut i32,
    pub n_seq: *mut i32,
    pub seq: *mut i32,
    pub output: *mut u8,
    pub inline_rows: cohort_batch_inline_rows,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_batch_raw {
    pub n_tokens: i32,
    pub n_embd: i32,
    pub n_seq_row_max: i32,
    pub n_pos_row: i32,
    pub tokens: *mut i32,
    pub embd: *mut f32,
    pub pos: *mut i32,
    pub n_seq: *mut i32,
    pub seq: *mut i32,
    pub output: *mut u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_chunk {
    pub first: i32,
    pub n_items: i32,
    pub n_rows: i32,
    pub oversized: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_packing {
    pub chunks: *mut cohort_chunk,
    pub n_chunks: i32,
    pub order: *mut i32,
    pub chunks_max: usize,
    pub order_max: usize,
    pub tree_max: usize,
    pub tree: *mut i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_context_params {
    pub struct_size: usize,
    pub n_ctx: i32,
    pub n_batch: i32,
    pub n_ubatch: i32,
    pub n_seq_max: i32,
    pub n_threads: i32,
    pub kv_type: c_int,
    pub abort: Option<unsafe extern "C" fn(*mut c_void) -> bool>,
    pub abort_user: *mut c_void,
    pub split: c_int,
    pub outputs: u32,
    pub pooling: c_int,
    pub output_all: bool,
    pub trace: Option<unsafe extern "C" fn(*const c_char, *mut c_void)>,
    pub trace_user: *mut c_void,
    pub n_checkpoints: i32,
    pub n_blocks: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_context_info {
    pub model: *const cohort_model,
    pub n_vocab: i32,
    pub n_ctx: i32,
    pub n_batch: i32,
    pub n_ubatch: i32,
    pub n_seq_max: i32,
    pub n_threads: i32,
    pub n_blocks: i32,
    pub outputs: u32,
    pub output_all: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_scratch {
    pub packing: cohort_packing,
    pub lengths: *mut i32,
    pub ranks: *mut i32,
    pub lengths_max: usize,
    pub ranks_max: usize,
    pub tokens: *mut i32,
    pub pos: *mut i32,
    pub seq: *mut i32,
    pub output: *mut u8,
    pub tokens_max: usize,
    pub pos_max: usize,
    pub seq_max: usize,
    pub output_max: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_each_item {
    pub token: i32,
    pub pos: i32,
    pub seq: i32,
    pub want: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_scatter_item {
    pub tokens: *const i32,
    pub n_tokens: i32,
    pub pos: i32,
    pub seq: i32,
    pub want: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_room_params {
    pub struct_size: usize,
    pub model: *const cohort_model,
    pub n_ctx: i64,
    pub n_blocks: i64,
    pub n_seq_max: i64,
    pub n_seqs: i64,
    pub n_tokens: i64,
    pub n_prompt: i64,
    pub n_fork: i64,
    pub n_more: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_room_info {
    pub block_size: i32,
    pub n_blocks: i32,
    pub n_needed: i64,
    pub n_shared: i64,
    pub n_free: i64,
    pub n_fit: i32,
    pub n_pos_max: i32,
    pub n_ctx_needed: i64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_usage {
    pub block_size: i32,
    pub n_blocks: i32,
    pub n_used: i32,
    pub n_shared: i32,
    pub n_free: i32,
    pub block_bytes: u64,
    pub used_bytes: u64,
    pub n_seqs: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_counters {
    pub n_decode: u64,
    pub n_prefill_rows: u64,
    pub n_decode_rows: u64,
    pub prefill_s: f64,
    pub decode_s: f64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_lexicon_token {
    pub bytes: *const c_char,
    pub n_bytes: usize,
    pub is_text: bool,
    pub is_end: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_logit_bias {
    pub token: i32,
    pub bias: f32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_sampler_params {
    pub struct_size: usize,
    pub seed: u64,
    pub stream: u64,
    pub temperature: f32,
    pub top_k: i32,
    pub top_p: f32,
    pub min_p: f32,
    pub min_keep: i32,
    pub order: [c_int; 32],
    pub n_order: i32,
    pub bias: *const cohort_logit_bias,
    pub n_bias: i32,
    pub grammar: *mut cohort_grammar,
    pub lexicon: *const cohort_lexicon,
    pub history_max: i32,
    pub penalty_last_n: i32,
    pub repeat_penalty: f32,
    pub frequency_penalty: f32,
    pub presence_penalty: f32,
    pub dry_multiplier: f32,
    pub dry_base: f32,
    pub dry_allowed_length: i32,
    pub dry_penalty_last_n: i32,
    pub dry_breakers: *const *const c_char,
    pub n_dry_breakers: i32,
    pub top_n_sigma: f32,
    pub typical_p: f32,
    pub xtc_probability: f32,
    pub xtc_threshold: f32,
    pub dynatemp_range: f32,
    pub dynatemp_exponent: f32,
    pub mirostat: i32,
    pub mirostat_tau: f32,
    pub mirostat_eta: f32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_sampler_rng {
    pub state: u64,
    pub inc: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_logprob {
    pub token: i32,
    pub logprob: f32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_score {
    pub n: i64,
    pub logprob: f64,
    pub perplexity: f64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_branch {
    pub forest: u32,
    pub index: u32,
    pub generation: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_forest_params {
    pub struct_size: usize,
    pub first_seq: i32,
    pub n_seqs: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_pressure {
    pub n_seqs: i32,
    pub n_leased: i32,
    pub n_vacant: i32,
    pub block_size: i32,
    pub n_blocks: i32,
    pub n_blocks_used: i32,
    pub n_blocks_shared: i32,
    pub n_blocks_free: i32,
    pub n_leaves: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_reseed {
    pub seed: u64,
    pub stream: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_branch_span {
    pub branch: cohort_branch,
    pub tokens: *const i32,
    pub n_tokens: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_branch_token {
    pub branch: cohort_branch,
    pub token: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_branch_info {
    pub parent: cohort_branch,
    pub first_child: cohort_branch,
    pub next_sibling: cohort_branch,
    pub n_children: i32,
    pub depth: i32,
    pub seq: i32,
    pub n_past: i32,
    pub pending: i32,
    pub has_logits: bool,
    pub complete: bool,
    pub n_accepted: i64,
    pub n_drawn: i64,
    pub logprob: f64,
    pub drawn_logprob: f64,
    pub perplexity: f64,
    pub drawn_perplexity: f64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_slot {
    pub id: i32,
    pub state: c_int,
    pub prompt: *const i32,
    pub n_prompt: i32,
    pub n_prefilled: i32,
    pub pending: i32,
    pub pos: i32,
    pub batch_index: i32,
    pub n_planned: i32,
    pub client: u64,
    pub priority: i32,
    pub age_s: f32,
    pub n_generated: i32,
    pub n_left: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_entry {
    pub token: i32,
    pub pos: i32,
    pub seq: i32,
    pub logits: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_plan {
    pub slots: *mut cohort_slot,
    pub n_slots: i32,
    pub budget: i32,
    pub chunk_size: i32,
    pub queue_depth: i32,
    pub tick: u64,
    pub model: *const cohort_model,
    pub entries: *mut cohort_entry,
    pub n_entries: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_strategy {
    pub struct_size: usize,
    pub name: *const c_char,
    pub about: *const c_char,
    pub state_bytes: usize,
    pub user: *mut c_void,
    pub build_batch: Option<unsafe extern "C" fn(*const cohort_strategy, *mut c_void, *mut cohort_plan) -> c_int>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_event {
    pub kind: c_int,
    pub output: i32,
    pub index: i32,
    pub token: i32,
    pub text: *const c_char,
    pub n_bytes: usize,
    pub logprob: f32,
    pub chain_logprob: f32,
    pub top: *const cohort_logprob,
    pub n_top: i32,
    pub prompt_logprobs: *const f32,
    pub prompt_top: *const cohort_logprob,
    pub n_prompt: i32,
    pub embedding: *const f32,
    pub n_embd: i32,
    pub finish: c_int,
    pub error: *const cohort_err,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_request_params {
    pub struct_size: usize,
    pub task: c_int,
    pub prompt: *const i32,
    pub n_prompt: i32,
    pub n_outputs: i32,
    pub max_tokens: i32,
    pub sampler: cohort_sampler_params,
    pub ignore_eos: bool,
    pub stop_tokens: *const i32,
    pub n_stop_tokens: i32,
    pub stops: *const *const c_char,
    pub n_stops: i32,
    pub special: bool,
    pub text_start: bool,
    pub n_logprobs: i32,
    pub chain_logprobs: bool,
    pub prompt_logprobs: bool,
    pub pooling: c_int,
    pub priority: i32,
    pub client: u64,
    pub session: u64,
    pub salt: u64,
    pub no_reuse: bool,
    pub adapter: *const cohort_adapter,
    pub adapter_scale: f32,
    pub queue_limit_s: f64,
    pub prefill_limit_s: f64,
    pub decode_limit_s: f64,
    pub total_limit_s: f64,
    pub on_event: Option<unsafe extern "C" fn(*mut cohort_request, *const cohort_event, *mut c_void)>,
    pub user: *mut c_void,
    pub on_ready: Option<unsafe extern "C" fn(*mut cohort_request, *mut c_void)>,
    pub ready_at_end: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_output {
    pub tokens: *const i32,
    pub n_tokens: i32,
    pub text: *const c_char,
    pub n_bytes: usize,
    pub logprobs: *const f32,
    pub finish: c_int,
    pub error: *const cohort_err,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_request_stats {
    pub id: u64,
    pub queued_s: f64,
    pub first_token_s: f64,
    pub end_s: f64,
    pub n_prompt: i32,
    pub n_cached: i32,
    pub n_generated: i32,
    pub n_parked: i32,
    pub tokens_per_s: f64,
    pub finish: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_tick {
    pub tick: u64,
    pub n_decode_rows: i32,
    pub n_prefill_rows: i32,
    pub n_sampled: i32,
    pub n_idle: i32,
    pub n_prefilling: i32,
    pub n_generating: i32,
    pub n_parked: i32,
    pub n_queued: i32,
    pub n_queued_tokens: i64,
    pub n_blocks: i32,
    pub n_blocks_used: i32,
    pub n_blocks_cached: i32,
    pub n_blocks_free: i32,
    pub at_s: f64,
    pub total_s: f64,
    pub decode_s: f64,
    pub sample_s: f64,
    pub fallback: *const c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_engine_stats {
    pub last: cohort_tick,
    pub n_ticks: u64,
    pub n_submitted: u64,
    pub n_admitted: u64,
    pub n_refused: u64,
    pub n_ended: [u64; 9],
    pub n_decode_rows: u64,
    pub n_prefill_rows: u64,
    pub n_sampled: u64,
    pub n_prompt_tokens: u64,
    pub n_cached_tokens: u64,
    pub n_lookups: u64,
    pub n_hits: u64,
    pub n_evicted: u64,
    pub n_parked: u64,
    pub n_resumed: u64,
    pub n_swapped: u64,
    pub n_fallbacks: u64,
    pub n_retries: u64,
    pub total_s: f64,
    pub decode_s: f64,
    pub sample_s: f64,
    pub strategy: *const c_char,
    pub fallback: cohort_err,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_engine_params {
    pub struct_size: usize,
    pub n_slots: i32,
    pub context: cohort_context_params,
    pub budget: i32,
    pub chunk_size: i32,
    pub strategy: *const cohort_strategy,
    pub queue_requests_max: i32,
    pub queue_tokens_max: i64,
    pub wait_max_s: f64,
    pub room: c_int,
    pub swap_bytes: usize,
    pub no_reuse: bool,
    pub manual: bool,
    pub on_tick: Option<unsafe extern "C" fn(*const cohort_tick, *mut c_void)>,
    pub on_tick_user: *mut c_void,
    pub keep_tokens: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_cache_key {
    pub tokens: *const i32,
    pub n_tokens: i32,
    pub salt: u64,
    pub session: u64,
    pub adapter: *const cohort_adapter,
    pub adapter_scale: f32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_slot_info {
    pub id: i32,
    pub state: c_int,
    pub request: u64,
    pub output: i32,
    pub n_prompt: i32,
    pub n_cached: i32,
    pub n_generated: i32,
    pub n_blocks: i32,
    pub priority: i32,
    pub client: u64,
    pub session: u64,
    pub age_s: f64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_sim_request {
    pub arrival_s: f64,
    pub n_prompt: i32,
    pub n_output: i32,
    pub client: u64,
    pub priority: i32,
    pub group: u64,
    pub n_shared: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_sim_params {
    pub struct_size: usize,
    pub n_slots: i32,
    pub n_ctx: i32,
    pub n_batch: i32,
    pub n_ubatch: i32,
    pub budget: i32,
    pub chunk_size: i32,
    pub n_pos_max: i32,
    pub strategy: *const cohort_strategy,
    pub queue_requests_max: i32,
    pub queue_tokens_max: i64,
    pub wait_max_s: f64,
    pub room: c_int,
    pub no_reuse: bool,
    pub cost_s: Option<unsafe extern "C" fn(*mut c_void, i32, i32) -> f64>,
    pub cost_user: *mut c_void,
    pub on_tick: Option<unsafe extern "C" fn(*const cohort_tick, *mut c_void)>,
    pub on_tick_user: *mut c_void,
    pub abort: Option<unsafe extern "C" fn(*mut c_void) -> bool>,
    pub abort_user: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_sim_outcome {
    pub finish: c_int,
    pub refused: bool,
    pub queued_s: f64,
    pub first_token_s: f64,
    pub end_s: f64,
    pub gap_max_s: f64,
    pub n_generated: i32,
    pub n_cached: i32,
    pub n_parked: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_sim_totals {
    pub now_s: f64,
    pub busy_s: f64,
    pub real_s: f64,
    pub n_ticks: u64,
    pub n_ubatches: u64,
    pub n_prefill_rows: u64,
    pub n_decode_rows: u64,
    pub n_tokens: u64,
    pub n_done: u64,
    pub n_refused: u64,
    pub n_parked: u64,
    pub n_prompt_tokens: u64,
    pub n_cached_tokens: u64,
    pub n_fallbacks: u64,
    pub n_queued_max: i32,
    pub gaps: [u64; 2369],
    pub gap_max_s: f64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_gguf_part {
    pub path: *const c_char,
    pub version: u32,
    pub alignment: u32,
    pub data_offset: u64,
    pub file_bytes: u64,
    pub n_tensors: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_gguf_value {
    pub type_: c_int,
    pub u: u64,
    pub i: i64,
    pub f: f64,
    pub str: *const c_char,
    pub n_str: usize,
    pub elem_type: c_int,
    pub n_elems: u64,
    pub data: *const c_void,
    pub data_bytes: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_gguf_kv {
    pub key: *const c_char,
    pub n_key: usize,
    pub offset: u64,
    pub value: cohort_gguf_value,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_gguf_cursor {
    pub array: cohort_gguf_value,
    pub i_elem: u64,
    pub at: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_gguf_tensor {
    pub name: *const c_char,
    pub n_name: usize,
    pub type_: u32,
    pub type_name: *const c_char,
    pub n_dims: u32,
    pub ne: [u64; 4],
    pub part: u32,
    pub offset: u64,
    pub n_bytes: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_synth_params {
    pub struct_size: usize,
    pub n_vocab: u32,
    pub n_embd: u32,
    pub n_layer: u32,
    pub n_head: u32,
    pub n_head_kv: u32,
    pub n_ff: u32,
    pub n_ctx: u32,
    pub head_size: u32,
    pub rope_base: f32,
    pub tied: bool,
    pub pure: bool,
    pub type_: *const c_char,
    pub name: *const c_char,
    pub seed: u64,
    pub n_threads: i32,
    pub progress: Option<unsafe extern "C" fn(f32, *mut c_void) -> bool>,
    pub progress_user: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_quantize_tensor {
    pub name: *const c_char,
    pub n_name: usize,
    pub n_dims: u32,
    pub ne: [u64; 4],
    pub from: *const c_char,
    pub to: *const c_char,
    pub instead_of: *const c_char,
    pub bytes_before: u64,
    pub bytes_after: u64,
    pub rms_error: f64,
    pub max_error: f64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_quantize_params {
    pub struct_size: usize,
    pub type_: *const c_char,
    pub token_embedding_type: *const c_char,
    pub output_tensor_type: *const c_char,
    pub pure: bool,
    pub allow_requantize: bool,
    pub dry_run: bool,
    pub n_threads: i32,
    pub progress: Option<unsafe extern "C" fn(f32, *mut c_void) -> bool>,
    pub progress_user: *mut c_void,
    pub report: Option<unsafe extern "C" fn(*const cohort_quantize_tensor, *mut c_void)>,
    pub report_user: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_quantize_result {
    pub n_tensors: u64,
    pub n_weights: u64,
    pub n_converted: u64,
    pub n_fallback: u64,
    pub bytes_before: u64,
    pub bytes_after: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct cohort_template_params {
    pub struct_size: usize,
    pub messages: *const c_char,
    pub tools: *const c_char,
    pub documents: *const c_char,
    pub extra: *const c_char,
    pub bos_token: *const c_char,
    pub eos_token: *const c_char,
    pub add_generation_prompt: bool,
    pub now: *const c_char,
    pub n_steps_max: u64,
    pub n_out_max: usize,
    pub n_bytes_max: usize,
    pub depth_max: u32,
}

extern "C" {
    pub fn cohort_status_name(status: c_int) -> *const c_char;
    pub fn cohort_version() -> *const c_char;
    pub fn cohort_device_count() -> usize;
    pub fn cohort_device_get(i: usize, out: *mut cohort_device) -> bool;
    pub fn cohort_isa_count() -> usize;
    pub fn cohort_isa_name(i: usize) -> *const c_char;
    pub fn cohort_isa_usable(i: usize) -> bool;
    pub fn cohort_model_params_init(params: *mut cohort_model_params);
    pub fn cohort_model_open(path: *const c_char, params: *const cohort_model_params, out: *mut *mut cohort_model, err: *mut cohort_err) -> c_int;
    pub fn cohort_model_free(model: *mut cohort_model);
    pub fn cohort_adapter_open(model: *const cohort_model, path: *const c_char, out: *mut *mut cohort_adapter, err: *mut cohort_err) -> c_int;
    pub fn cohort_adapter_free(adapter: *mut cohort_adapter);
    pub fn cohort_model_info_get(model: *const cohort_model, info: *mut cohort_model_info);
    pub fn cohort_tokenize(model: *const cohort_model, text: *const c_char, n_bytes: usize, flags: c_uint, out: *mut i32, n_max: usize, n_out: *mut usize, err: *mut cohort_err) -> c_int;
    pub fn cohort_tokenize_bound(n_bytes: usize) -> usize;
    pub fn cohort_tokenize_least(model: *const cohort_model, n_bytes: usize) -> usize;
    pub fn cohort_token_bytes(model: *const cohort_model, token: i32, special: bool, n_bytes: *mut usize) -> *const c_char;
    pub fn cohort_token_piece(model: *const cohort_model, token: i32, leading_space: bool, special: bool, out: *mut c_char, n_max: usize, n_out: *mut usize, err: *mut cohort_err) -> c_int;
    pub fn cohort_detokenize(model: *const cohort_model, tokens: *const i32, n_tokens: usize, special: bool, out: *mut c_char, n_max: usize, n_out: *mut usize, err: *mut cohort_err) -> c_int;
    pub fn cohort_token_is_eog(model: *const cohort_model, token: i32) -> bool;
    pub fn cohort_token_is_control(model: *const cohort_model, token: i32) -> bool;
    pub fn cohort_token_bos(model: *const cohort_model) -> i32;
    pub fn cohort_token_eos(model: *const cohort_model) -> i32;
    pub fn cohort_detok_init(d: *mut cohort_detok, model: *const cohort_model, special: bool, at_start: bool);
    pub fn cohort_detok_push(d: *mut cohort_detok, token: i32, out: *mut c_char, n_max: usize, n_out: *mut usize, err: *mut cohort_err) -> c_int;
    pub fn cohort_detok_flush(d: *mut cohort_detok, out: *mut c_char) -> usize;
    pub fn cohort_token_buf_init(buf: *mut cohort_token_buf);
    pub fn cohort_token_buf_append(buf: *mut cohort_token_buf, tokens: *const i32, n_tokens: i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_token_buf_get(buf: *mut cohort_token_buf) -> *mut i32;
    pub fn cohort_token_buf_reset(buf: *mut cohort_token_buf);
    pub fn cohort_token_buf_release(buf: *mut cohort_token_buf);
    pub fn cohort_batch_init(b: *mut cohort_batch, max_tokens: i32, n_embd: i32, n_seq_max: i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_batch_init_default(b: *mut cohort_batch, err: *mut cohort_err) -> c_int;
    pub fn cohort_batch_init_pos(b: *mut cohort_batch, max_tokens: i32, n_embd: i32, n_seq_max: i32, n_pos_row: i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_batch_from_tokens(b: *mut cohort_batch, tokens: *const i32, n_tokens: i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_batch_take_tokens(b: *mut cohort_batch, tokens: *mut i32, n_tokens: i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_batch_from_buffer(b: *mut cohort_batch, buf: *mut cohort_token_buf, err: *mut cohort_err) -> c_int;
    pub fn cohort_batch_view(b: *mut cohort_batch, tokens: *const i32, n_tokens: i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_batch_add(b: *mut cohort_batch, token: i32, pos: i32, seqs: *const i32, n_seqs: i32, output: bool, err: *mut cohort_err) -> c_int;
    pub fn cohort_batch_add_embd(b: *mut cohort_batch, embd: *const f32, pos: *const i32, seqs: *const i32, n_seqs: i32, output: bool, err: *mut cohort_err) -> c_int;
    pub fn cohort_batch_leave_out(b: *mut cohort_batch, what: u32);
    pub fn cohort_batch_size(b: *const cohort_batch) -> i32;
    pub fn cohort_batch_is_empty(b: *const cohort_batch) -> bool;
    pub fn cohort_batch_copy(to: *mut cohort_batch, from: *const cohort_batch, err: *mut cohort_err) -> c_int;
    pub fn cohort_batch_reset(b: *mut cohort_batch);
    pub fn cohort_batch_release(b: *mut cohort_batch);
    pub fn cohort_batch_raw_get(b: *mut cohort_batch, raw: *mut cohort_batch_raw);
    pub fn cohort_batch_view_raw(b: *mut cohort_batch, raw: *const cohort_batch_raw, err: *mut cohort_err) -> c_int;
    pub fn cohort_batch_dump(b: *const cohort_batch, out: *mut c_char, n_max: usize) -> usize;
    pub fn cohort_packing_init(p: *mut cohort_packing);
    pub fn cohort_bin_pack(p: *mut cohort_packing, lengths: *const i32, n_items: i32, n_batch: i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_packing_release(p: *mut cohort_packing);
    pub fn cohort_context_params_init(params: *mut cohort_context_params);
    pub fn cohort_context_open(model: *const cohort_model, params: *const cohort_context_params, out: *mut *mut cohort_context, err: *mut cohort_err) -> c_int;
    pub fn cohort_context_free(ctx: *mut cohort_context);
    pub fn cohort_context_info_get(ctx: *const cohort_context, info: *mut cohort_context_info);
    pub fn cohort_check(ctx: *mut cohort_context, batch: *const cohort_batch, err: *mut cohort_err) -> c_int;
    pub fn cohort_decode(ctx: *mut cohort_context, batch: *const cohort_batch, err: *mut cohort_err) -> c_int;
    pub fn cohort_encode(ctx: *mut cohort_context, batch: *const cohort_batch, err: *mut cohort_err) -> c_int;
    pub fn cohort_decode_one(ctx: *mut cohort_context, token: i32, pos: i32, seq: i32, want: bool, err: *mut cohort_err) -> c_int;
    pub fn cohort_decode_many(ctx: *mut cohort_context, tokens: *const i32, n_tokens: i32, n_past: i32, seq: i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_scratch_init(s: *mut cohort_scratch);
    pub fn cohort_scratch_release(s: *mut cohort_scratch);
    pub fn cohort_decode_each(ctx: *mut cohort_context, items: *const cohort_each_item, n_items: i32, scratch: *mut cohort_scratch, err: *mut cohort_err) -> c_int;
    pub fn cohort_decode_scatter(ctx: *mut cohort_context, items: *const cohort_scatter_item, n_items: i32, scratch: *mut cohort_scratch, err: *mut cohort_err) -> c_int;
    pub fn cohort_decode_scatter_to(ctx: *mut cohort_context, items: *const cohort_scatter_item, n_items: i32, scratch: *mut cohort_scratch, take: Option<unsafe extern "C" fn(*mut c_void, i32, *const f32)>, user: *mut c_void, err: *mut cohort_err) -> c_int;
    pub fn cohort_repack(ctx: *mut cohort_context, seconds: f64) -> f64;
    pub fn cohort_warm_up(ctx: *mut cohort_context, n_seq_tokens: i32, n_seqs: i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_n_outputs(ctx: *const cohort_context) -> i32;
    pub fn cohort_logits_get(ctx: *const cohort_context, i: i32, err: *mut cohort_err) -> *const f32;
    pub fn cohort_embeddings_get(ctx: *const cohort_context, i: i32, err: *mut cohort_err) -> *const f32;
    pub fn cohort_embeddings_seq_get(ctx: *const cohort_context, seq: i32, err: *mut cohort_err) -> *const f32;
    pub fn cohort_seq_rm(ctx: *mut cohort_context, seq: i32, p0: i32, p1: i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_seq_cp(ctx: *mut cohort_context, src: i32, dst: i32, p0: i32, p1: i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_seq_keep(ctx: *mut cohort_context, seq: i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_seq_add(ctx: *mut cohort_context, seq: i32, p0: i32, p1: i32, delta: i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_seq_checkpoint(ctx: *mut cohort_context, seq: i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_seq_adapter_set(ctx: *mut cohort_context, seq: i32, adapter: *const cohort_adapter, scale: f32, err: *mut cohort_err) -> c_int;
    pub fn cohort_seq_pos_min(ctx: *const cohort_context, seq: i32) -> i32;
    pub fn cohort_seq_pos_max(ctx: *const cohort_context, seq: i32) -> i32;
    pub fn cohort_seq_is_whole(ctx: *const cohort_context, seq: i32) -> bool;
    pub fn cohort_seq_clear(ctx: *mut cohort_context);
    pub fn cohort_room_params_init(params: *mut cohort_room_params);
    pub fn cohort_room_needed(params: *const cohort_room_params, out: *mut cohort_room_info, err: *mut cohort_err) -> c_int;
    pub fn cohort_usage_get(ctx: *const cohort_context, usage: *mut cohort_usage);
    pub fn cohort_counters_get(ctx: *const cohort_context, counters: *mut cohort_counters);
    pub fn cohort_state_size(ctx: *mut cohort_context, seq: i32) -> usize;
    pub fn cohort_state_save(ctx: *mut cohort_context, seq: i32, out: *mut c_void, n_max: usize, n_out: *mut usize, err: *mut cohort_err) -> c_int;
    pub fn cohort_state_restore(ctx: *mut cohort_context, seq: i32, bytes: *const c_void, n_bytes: usize, err: *mut cohort_err) -> c_int;
    pub fn cohort_state_save_file(ctx: *mut cohort_context, seq: i32, path: *const c_char, err: *mut cohort_err) -> c_int;
    pub fn cohort_state_restore_file(ctx: *mut cohort_context, seq: i32, path: *const c_char, err: *mut cohort_err) -> c_int;
    pub fn cohort_lexicon_open(model: *const cohort_model, out: *mut *mut cohort_lexicon, err: *mut cohort_err) -> c_int;
    pub fn cohort_lexicon_open_list(tokens: *const cohort_lexicon_token, n_tokens: i32, out: *mut *mut cohort_lexicon, err: *mut cohort_err) -> c_int;
    pub fn cohort_lexicon_free(lexicon: *mut cohort_lexicon);
    pub fn cohort_grammar_open(lexicon: *const cohort_lexicon, text: *const c_char, n_bytes: usize, root: *const c_char, out: *mut *mut cohort_grammar, err: *mut cohort_err) -> c_int;
    pub fn cohort_grammar_open_schema(lexicon: *const cohort_lexicon, schema: *const c_char, n_bytes: usize, out: *mut *mut cohort_grammar, err: *mut cohort_err) -> c_int;
    pub fn cohort_schema_to_gbnf(schema: *const c_char, n_bytes: usize, out: *mut c_char, n_max: usize, n_out: *mut usize, err: *mut cohort_err) -> c_int;
    pub fn cohort_grammar_match(grammar: *mut cohort_grammar, text: *const c_char, n_bytes: usize, n_matched: *mut usize, complete: *mut bool, err: *mut cohort_err) -> c_int;
    pub fn cohort_grammar_free(grammar: *mut cohort_grammar);
    pub fn cohort_sampler_params_init(params: *mut cohort_sampler_params);
    pub fn cohort_stage_name(stage: c_int) -> *const c_char;
    pub fn cohort_sampler_order_parse(params: *mut cohort_sampler_params, names: *const c_char, err: *mut cohort_err) -> c_int;
    pub fn cohort_sampler_open(params: *const cohort_sampler_params, n_vocab: i32, out: *mut *mut cohort_sampler, err: *mut cohort_err) -> c_int;
    pub fn cohort_sampler_free(s: *mut cohort_sampler);
    pub fn cohort_sampler_clone(s: *const cohort_sampler, out: *mut *mut cohort_sampler, err: *mut cohort_err) -> c_int;
    pub fn cohort_sampler_reset(s: *mut cohort_sampler);
    pub fn cohort_sampler_reseed(s: *mut cohort_sampler, seed: u64, stream: u64);
    pub fn cohort_sampler_rng_get(s: *const cohort_sampler, rng: *mut cohort_sampler_rng);
    pub fn cohort_sampler_rng_set(s: *mut cohort_sampler, rng: *const cohort_sampler_rng, err: *mut cohort_err) -> c_int;
    pub fn cohort_sampler_sample(s: *mut cohort_sampler, logits: *const f32, out: *mut i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_sampler_draw(s: *mut cohort_sampler, logits: *const f32, out: *mut i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_sampler_accept(s: *mut cohort_sampler, token: i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_sampler_prompt(s: *mut cohort_sampler, tokens: *const i32, n_tokens: usize, err: *mut cohort_err) -> c_int;
    pub fn cohort_sampler_permits(s: *mut cohort_sampler, token: i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_sampler_legal_get(s: *mut cohort_sampler, legal: *mut u8, err: *mut cohort_err) -> c_int;
    pub fn cohort_sampler_is_complete(s: *const cohort_sampler) -> bool;
    pub fn cohort_logprobs_get(logits: *const f32, n_vocab: i32, token: i32, logprob: *mut f32, top: *mut cohort_logprob, n_top: i32, entropy: *mut f64, err: *mut cohort_err) -> c_int;
    pub fn cohort_sampler_logprobs_get(s: *mut cohort_sampler, token: i32, logprob: *mut f32, top: *mut cohort_logprob, n_top: i32, entropy: *mut f64, err: *mut cohort_err) -> c_int;
    pub fn cohort_score_text(ctx: *mut cohort_context, seq: i32, tokens: *const i32, n_tokens: i32, logprobs: *mut f32, score: *mut cohort_score, err: *mut cohort_err) -> c_int;
    pub fn cohort_forest_params_init(params: *mut cohort_forest_params);
    pub fn cohort_forest_open(ctx: *mut cohort_context, params: *const cohort_forest_params, out: *mut *mut cohort_forest, err: *mut cohort_err) -> c_int;
    pub fn cohort_forest_free(forest: *mut cohort_forest);
    pub fn cohort_forest_context_get(forest: *const cohort_forest) -> *mut cohort_context;
    pub fn cohort_forest_pressure_get(forest: *const cohort_forest, pressure: *mut cohort_pressure);
    pub fn cohort_branch_create(forest: *mut cohort_forest, sampler: *const cohort_sampler_params, out: *mut cohort_branch, err: *mut cohort_err) -> c_int;
    pub fn cohort_branch_fork(forest: *mut cohort_forest, parent: cohort_branch, reseed: *const cohort_reseed, out: *mut cohort_branch, err: *mut cohort_err) -> c_int;
    pub fn cohort_branch_prune(forest: *mut cohort_forest, branch: cohort_branch, err: *mut cohort_err) -> c_int;
    pub fn cohort_branch_prune_subtree(forest: *mut cohort_forest, branch: cohort_branch, err: *mut cohort_err) -> c_int;
    pub fn cohort_branch_retain_only(forest: *mut cohort_forest, winner: cohort_branch, err: *mut cohort_err) -> c_int;
    pub fn cohort_branch_detach(forest: *mut cohort_forest, branch: cohort_branch, err: *mut cohort_err) -> c_int;
    pub fn cohort_branch_decode_scatter(forest: *mut cohort_forest, spans: *const cohort_branch_span, n_spans: i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_branch_prefill(forest: *mut cohort_forest, branch: cohort_branch, tokens: *const i32, n_tokens: i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_branch_sample(forest: *mut cohort_forest, branch: cohort_branch, out: *mut i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_branch_accept(forest: *mut cohort_forest, branch: cohort_branch, token: i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_branch_step(forest: *mut cohort_forest, branches: *const cohort_branch, n_branches: i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_branch_decode_each(forest: *mut cohort_forest, items: *const cohort_branch_token, n_items: i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_branch_logits_get(forest: *const cohort_forest, branch: cohort_branch, err: *mut cohort_err) -> *const f32;
    pub fn cohort_branch_logits_set(forest: *mut cohort_forest, branch: cohort_branch, logits: *const f32, err: *mut cohort_err) -> c_int;
    pub fn cohort_branch_logits_merge(forest: *mut cohort_forest, dst: cohort_branch, src: cohort_branch, alpha: f32, err: *mut cohort_err) -> c_int;
    pub fn cohort_branch_bias_set(forest: *mut cohort_forest, branch: cohort_branch, bias: *const cohort_logit_bias, n_bias: i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_branch_legal_get(forest: *mut cohort_forest, branch: cohort_branch, out: *mut i32, n_max: i32, n_out: *mut i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_branch_is_legal(forest: *mut cohort_forest, branch: cohort_branch, token: i32) -> bool;
    pub fn cohort_branch_entropy_get(forest: *const cohort_forest, branch: cohort_branch, entropy: *mut f64, err: *mut cohort_err) -> c_int;
    pub fn cohort_branch_surprisal_get(forest: *const cohort_forest, branch: cohort_branch, token: i32, surprisal: *mut f64, err: *mut cohort_err) -> c_int;
    pub fn cohort_branch_info_get(forest: *const cohort_forest, branch: cohort_branch, info: *mut cohort_branch_info, err: *mut cohort_err) -> c_int;
    pub fn cohort_branch_leaves_get(forest: *const cohort_forest, branch: cohort_branch, out: *mut cohort_branch, n_max: i32, n_out: *mut i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_strategy_count() -> usize;
    pub fn cohort_strategy_get(i: usize) -> *const cohort_strategy;
    pub fn cohort_strategy_find(name: *const c_char) -> *const cohort_strategy;
    pub fn cohort_strategy_open(path: *const c_char, name: *const c_char, file: *mut *mut cohort_strategy_file, out: *mut *const cohort_strategy, err: *mut cohort_err) -> c_int;
    pub fn cohort_strategy_file_free(file: *mut cohort_strategy_file);
    pub fn cohort_finish_name(finish: c_int) -> *const c_char;
    pub fn cohort_request_params_init(params: *mut cohort_request_params);
    pub fn cohort_engine_submit(engine: *mut cohort_engine, params: *const cohort_request_params, out: *mut *mut cohort_request, err: *mut cohort_err) -> c_int;
    pub fn cohort_request_cancel(request: *mut cohort_request);
    pub fn cohort_request_free(request: *mut cohort_request);
    pub fn cohort_request_next(request: *mut cohort_request, timeout_s: f64, event: *mut cohort_event, err: *mut cohort_err) -> c_int;
    pub fn cohort_request_wait(request: *mut cohort_request, timeout_s: f64, done: *mut bool, err: *mut cohort_err) -> c_int;
    pub fn cohort_request_output_get(request: *mut cohort_request, i: i32, output: *mut cohort_output, err: *mut cohort_err) -> c_int;
    pub fn cohort_request_stats_get(request: *mut cohort_request, stats: *mut cohort_request_stats);
    pub fn cohort_engine_params_init(params: *mut cohort_engine_params);
    pub fn cohort_engine_open(model: *const cohort_model, params: *const cohort_engine_params, out: *mut *mut cohort_engine, err: *mut cohort_err) -> c_int;
    pub fn cohort_engine_drain(engine: *mut cohort_engine, timeout_s: f64, clean: *mut bool, err: *mut cohort_err) -> c_int;
    pub fn cohort_engine_free(engine: *mut cohort_engine);
    pub fn cohort_engine_tick(engine: *mut cohort_engine, idle: *mut bool, err: *mut cohort_err) -> c_int;
    pub fn cohort_engine_strategy_set(engine: *mut cohort_engine, strategy: *const cohort_strategy, err: *mut cohort_err) -> c_int;
    pub fn cohort_engine_cache_clear(engine: *mut cohort_engine);
    pub fn cohort_engine_cache_save(engine: *mut cohort_engine, key: *const cohort_cache_key, bytes: *mut *mut c_void, n_bytes: *mut usize, n_saved: *mut i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_cache_free(bytes: *mut c_void);
    pub fn cohort_engine_cache_load(engine: *mut cohort_engine, key: *const cohort_cache_key, bytes: *const c_void, n_bytes: usize, n_tokens: *mut i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_engine_cache_drop(engine: *mut cohort_engine, key: *const cohort_cache_key, n_tokens: *mut i32, err: *mut cohort_err) -> c_int;
    pub fn cohort_engine_slot_tokens(engine: *mut cohort_engine, slot: i32, tokens: *mut i32, n_max: usize, key: *mut cohort_cache_key, err: *mut cohort_err) -> c_int;
    pub fn cohort_engine_stats_get(engine: *mut cohort_engine, stats: *mut cohort_engine_stats);
    pub fn cohort_engine_slots_get(engine: *mut cohort_engine, slots: *mut cohort_slot_info, n_max: usize) -> usize;
    pub fn cohort_sim_params_init(params: *mut cohort_sim_params);
    pub fn cohort_sim_bin_s(bin: i32) -> f64;
    pub fn cohort_simulate(params: *const cohort_sim_params, requests: *const cohort_sim_request, n_requests: usize, outcomes: *mut cohort_sim_outcome, totals: *mut cohort_sim_totals, err: *mut cohort_err) -> c_int;
    pub fn cohort_gguf_type_name(type_: c_int) -> *const c_char;
    pub fn cohort_gguf_open(path: *const c_char, out: *mut *mut cohort_gguf, err: *mut cohort_err) -> c_int;
    pub fn cohort_gguf_free(g: *mut cohort_gguf);
    pub fn cohort_gguf_version(g: *const cohort_gguf) -> u32;
    pub fn cohort_gguf_alignment(g: *const cohort_gguf) -> u32;
    pub fn cohort_gguf_data_offset(g: *const cohort_gguf) -> u64;
    pub fn cohort_gguf_file_bytes(g: *const cohort_gguf) -> u64;
    pub fn cohort_gguf_n_parts(g: *const cohort_gguf) -> usize;
    pub fn cohort_gguf_n_kv(g: *const cohort_gguf) -> usize;
    pub fn cohort_gguf_n_tensors(g: *const cohort_gguf) -> usize;
    pub fn cohort_gguf_part_get(g: *const cohort_gguf, i: usize, out: *mut cohort_gguf_part) -> bool;
    pub fn cohort_gguf_kv_get(g: *const cohort_gguf, i: usize, out: *mut cohort_gguf_kv) -> bool;
    pub fn cohort_gguf_kv_find(g: *const cohort_gguf, key: *const c_char, out: *mut cohort_gguf_kv) -> bool;
    pub fn cohort_gguf_cursor_init(c: *mut cohort_gguf_cursor, array: *const cohort_gguf_value);
    pub fn cohort_gguf_cursor_next(c: *mut cohort_gguf_cursor, out: *mut cohort_gguf_value) -> bool;
    pub fn cohort_gguf_cursor_seek(c: *mut cohort_gguf_cursor, i: u64) -> bool;
    pub fn cohort_gguf_format(value: *const cohort_gguf_value, n_elems_max: usize, buf: *mut c_char, n_max: usize) -> usize;
    pub fn cohort_gguf_tensor_get(g: *const cohort_gguf, i: usize, out: *mut cohort_gguf_tensor) -> bool;
    pub fn cohort_gguf_writer_open(path: *const c_char, out: *mut *mut cohort_gguf_writer, err: *mut cohort_err) -> c_int;
    pub fn cohort_gguf_writer_free(w: *mut cohort_gguf_writer);
    pub fn cohort_gguf_writer_u32(w: *mut cohort_gguf_writer, key: *const c_char, v: u32, err: *mut cohort_err) -> c_int;
    pub fn cohort_gguf_writer_u64(w: *mut cohort_gguf_writer, key: *const c_char, v: u64, err: *mut cohort_err) -> c_int;
    pub fn cohort_gguf_writer_f32(w: *mut cohort_gguf_writer, key: *const c_char, v: f32, err: *mut cohort_err) -> c_int;
    pub fn cohort_gguf_writer_bool(w: *mut cohort_gguf_writer, key: *const c_char, v: bool, err: *mut cohort_err) -> c_int;
    pub fn cohort_gguf_writer_str(w: *mut cohort_gguf_writer, key: *const c_char, s: *const c_char, err: *mut cohort_err) -> c_int;
    pub fn cohort_gguf_writer_strs(w: *mut cohort_gguf_writer, key: *const c_char, v: *const *const c_char, n_bytes: *const usize, n: usize, err: *mut cohort_err) -> c_int;
    pub fn cohort_gguf_writer_f32s(w: *mut cohort_gguf_writer, key: *const c_char, v: *const f32, n: usize, err: *mut cohort_err) -> c_int;
    pub fn cohort_gguf_writer_i32s(w: *mut cohort_gguf_writer, key: *const c_char, v: *const i32, n: usize, err: *mut cohort_err) -> c_int;
    pub fn cohort_gguf_writer_kv(w: *mut cohort_gguf_writer, kv: *const cohort_gguf_kv, err: *mut cohort_err) -> c_int;
    pub fn cohort_gguf_writer_tensor(w: *mut cohort_gguf_writer, name: *const c_char, type_: u32, n_dims: u32, ne: *const u64, err: *mut cohort_err) -> c_int;
    pub fn cohort_gguf_writer_begin(w: *mut cohort_gguf_writer, err: *mut cohort_err) -> c_int;
    pub fn cohort_gguf_writer_data(w: *mut cohort_gguf_writer, i_tensor: usize, bytes: *const c_void, n_bytes: usize, err: *mut cohort_err) -> c_int;
    pub fn cohort_gguf_writer_finish(w: *mut cohort_gguf_writer, err: *mut cohort_err) -> c_int;
    pub fn cohort_mix_name(i: usize) -> *const c_char;
    pub fn cohort_synth_params_init(params: *mut cohort_synth_params);
    pub fn cohort_synth_shape_name(i: usize) -> *const c_char;
    pub fn cohort_synth_shape(params: *mut cohort_synth_params, name: *const c_char) -> bool;
    pub fn cohort_synth_write(path: *const c_char, params: *const cohort_synth_params, err: *mut cohort_err) -> c_int;
    pub fn cohort_quantize_params_init(params: *mut cohort_quantize_params);
    pub fn cohort_quantize_write(in_: *const c_char, out: *const c_char, params: *const cohort_quantize_params, result: *mut cohort_quantize_result, err: *mut cohort_err) -> c_int;
    pub fn cohort_template_open(source: *const c_char, n_bytes: usize, out: *mut *mut cohort_template, err: *mut cohort_err) -> c_int;
    pub fn cohort_template_free(t: *mut cohort_template);
    pub fn cohort_template_params_init(params: *mut cohort_template_params);
    pub fn cohort_template_render(t: *const cohort_template, params: *const cohort_template_params, out: *mut *mut c_char, n_out: *mut usize, err: *mut cohort_err) -> c_int;
    pub fn cohort_template_text_free(text: *mut c_char);
}

/// Sizes, offsets and constants as this crate has them, as the layout program of the tests writes them.
pub fn layout() -> String {
    use std::mem::{size_of, MaybeUninit};
    fn size_of_field<S, T>(_: fn(*const S) -> *const T) -> usize {
        size_of::<T>()
    }
    let mut out = String::new();
    macro_rules! constant {
        ($name:ident) => {
            out.push_str(&format!("const {} {}\n", stringify!($name), $name))
        };
    }
    macro_rules! layout {
        ($name:ident, $($field:ident),*) => {{
            let place = MaybeUninit::<$name>::uninit();
            let base = place.as_ptr();
            out.push_str(&format!("struct {} {}\n", stringify!($name), size_of::<$name>()));
            $(
                // SAFETY: only the address of the field is taken, within the struct.
                let at = unsafe { std::ptr::addr_of!((*base).$field) } as usize - base as usize;
                let size = size_of_field(|s: *const $name| unsafe { std::ptr::addr_of!((*s).$field) });
                let (name, field) = (stringify!($name), stringify!($field).trim_end_matches('_'));
                out.push_str(&format!("field {}.{} {} {}\n", name, field, at, size));
            )*
        }};
    }
    constant!(COHORT_VERSION_MAJOR);
    constant!(COHORT_VERSION_MINOR);
    constant!(COHORT_VERSION_PATCH);
    constant!(COHORT_BATCH_INLINE);
    constant!(COHORT_SEQ_ALL);
    constant!(COHORT_ORDER_MAX);
    constant!(COHORT_HISTORY_MAX);
    constant!(COHORT_STRATEGY_ABI);
    constant!(COHORT_OUTPUTS_MAX);
    constant!(COHORT_STOPS_MAX);
    constant!(COHORT_STOP_BYTES_MAX);
    constant!(COHORT_TOP_MAX);
    constant!(COHORT_SIM_BINS);
    constant!(COHORT_OK);
    constant!(COHORT_NO_ROOM);
    constant!(COHORT_ABORTED);
    constant!(COHORT_E_ARG);
    constant!(COHORT_E_BATCH);
    constant!(COHORT_E_MEMORY);
    constant!(COHORT_E_IO);
    constant!(COHORT_E_FORMAT);
    constant!(COHORT_E_UNSUPPORTED);
    constant!(COHORT_E_LIMIT);
    constant!(COHORT_E_NUMERIC);
    constant!(COHORT_E_BUG);
    constant!(COHORT_E_DEVICE);
    constant!(COHORT_POOL_NONE);
    constant!(COHORT_POOL_MEAN);
    constant!(COHORT_POOL_CLS);
    constant!(COHORT_POOL_LAST);
    constant!(COHORT_TOKENIZE_BOS);
    constant!(COHORT_TOKENIZE_NO_BOS);
    constant!(COHORT_TOKENIZE_SPECIAL);
    constant!(COHORT_BATCH_POS);
    constant!(COHORT_BATCH_SEQ);
    constant!(COHORT_BATCH_OUTPUT);
    constant!(COHORT_ROW_EMBEDDING);
    constant!(COHORT_KV_F16);
    constant!(COHORT_KV_F32);
    constant!(COHORT_KV_Q8_0);
    constant!(COHORT_SPLIT_SIMPLE);
    constant!(COHORT_SPLIT_EQUAL);
    constant!(COHORT_SPLIT_SEQ);
    constant!(COHORT_OUTPUT_LOGITS);
    constant!(COHORT_OUTPUT_EMBEDDINGS);
    constant!(COHORT_STAGE_BIAS);
    constant!(COHORT_STAGE_GRAMMAR);
    constant!(COHORT_STAGE_PENALTIES);
    constant!(COHORT_STAGE_DRY);
    constant!(COHORT_STAGE_TOP_N_SIGMA);
    constant!(COHORT_STAGE_TOP_K);
    constant!(COHORT_STAGE_TYPICAL);
    constant!(COHORT_STAGE_TOP_P);
    constant!(COHORT_STAGE_MIN_P);
    constant!(COHORT_STAGE_XTC);
    constant!(COHORT_STAGE_TEMPERATURE);
    constant!(COHORT_STAGE_MIROSTAT);
    constant!(COHORT_SLOT_IDLE);
    constant!(COHORT_SLOT_PREFILLING);
    constant!(COHORT_SLOT_GENERATING);
    constant!(COHORT_SLOT_PARKED);
    constant!(COHORT_TASK_GENERATE);
    constant!(COHORT_TASK_EMBED);
    constant!(COHORT_FINISH_NONE);
    constant!(COHORT_FINISH_EOG);
    constant!(COHORT_FINISH_STOP);
    constant!(COHORT_FINISH_LENGTH);
    constant!(COHORT_FINISH_EMBEDDED);
    constant!(COHORT_FINISH_CANCELLED);
    constant!(COHORT_FINISH_TIMEOUT);
    constant!(COHORT_FINISH_ERROR);
    constant!(COHORT_FINISH_SHUTDOWN);
    constant!(COHORT_EVENT_NONE);
    constant!(COHORT_EVENT_PROMPT);
    constant!(COHORT_EVENT_TOKEN);
    constant!(COHORT_EVENT_EMBEDDING);
    constant!(COHORT_EVENT_END);
    constant!(COHORT_EVENT_DONE);
    constant!(COHORT_ROOM_RESERVE);
    constant!(COHORT_ROOM_OVERCOMMIT);
    constant!(COHORT_GGUF_U8);
    constant!(COHORT_GGUF_I8);
    constant!(COHORT_GGUF_U16);
    constant!(COHORT_GGUF_I16);
    constant!(COHORT_GGUF_U32);
    constant!(COHORT_GGUF_I32);
    constant!(COHORT_GGUF_F32);
    constant!(COHORT_GGUF_BOOL);
    constant!(COHORT_GGUF_STRING);
    constant!(COHORT_GGUF_ARRAY);
    constant!(COHORT_GGUF_U64);
    constant!(COHORT_GGUF_I64);
    constant!(COHORT_GGUF_F64);
    layout!(cohort_err, status, text, rule, row, seq, expected, got, offset);
    layout!(cohort_device, name, description, total_bytes, free_bytes);
    layout!(cohort_model_params, struct_size, isa, n_threads, vocab_only, file_layout, progress, progress_user, no_mmap, mlock, adapters, adapter_scales, n_adapters, device);
    layout!(cohort_model_info, struct_size, arch, name, isa, tokenizer, pretokenizer, note, n_vocab, n_embd, n_layer, n_head, n_head_kv, n_ff, head_k, head_v, n_ctx_train, n_params, weight_bytes, packed_bytes, encoder, recurrent, pooling, n_window, device);
    layout!(cohort_detok, model, special, at_start, n_held, held);
    layout!(cohort_token_buf, n_tokens, n_max, heap, inline_tokens);
    layout!(cohort_batch_inline_rows, tokens, pos, seq, output);
    layout!(cohort_batch, n_tokens, n_max, n_embd, n_seq_row_max, n_pos_row, storage, left_out, tokens, embd, pos, n_seq, seq, output, inline_rows);
    layout!(cohort_batch_raw, n_tokens, n_embd, n_seq_row_max, n_pos_row, tokens, embd, pos, n_seq, seq, output);
    layout!(cohort_chunk, first, n_items, n_rows, oversized);
    layout!(cohort_packing, chunks, n_chunks, order, chunks_max, order_max, tree_max, tree);
    layout!(cohort_context_params, struct_size, n_ctx, n_batch, n_ubatch, n_seq_max, n_threads, kv_type, abort, abort_user, split, outputs, pooling, output_all, trace, trace_user, n_checkpoints, n_blocks);
    layout!(cohort_context_info, model, n_vocab, n_ctx, n_batch, n_ubatch, n_seq_max, n_threads, n_blocks, outputs, output_all);
    layout!(cohort_scratch, packing, lengths, ranks, lengths_max, ranks_max, tokens, pos, seq, output, tokens_max, pos_max, seq_max, output_max);
    layout!(cohort_each_item, token, pos, seq, want);
    layout!(cohort_scatter_item, tokens, n_tokens, pos, seq, want);
    layout!(cohort_room_params, struct_size, model, n_ctx, n_blocks, n_seq_max, n_seqs, n_tokens, n_prompt, n_fork, n_more);
    layout!(cohort_room_info, block_size, n_blocks, n_needed, n_shared, n_free, n_fit, n_pos_max, n_ctx_needed);
    layout!(cohort_usage, block_size, n_blocks, n_used, n_shared, n_free, block_bytes, used_bytes, n_seqs);
    layout!(cohort_counters, n_decode, n_prefill_rows, n_decode_rows, prefill_s, decode_s);
    layout!(cohort_lexicon_token, bytes, n_bytes, is_text, is_end);
    layout!(cohort_logit_bias, token, bias);
    layout!(cohort_sampler_params, struct_size, seed, stream, temperature, top_k, top_p, min_p, min_keep, order, n_order, bias, n_bias, grammar, lexicon, history_max, penalty_last_n, repeat_penalty, frequency_penalty, presence_penalty, dry_multiplier, dry_base, dry_allowed_length, dry_penalty_last_n, dry_breakers, n_dry_breakers, top_n_sigma, typical_p, xtc_probability, xtc_threshold, dynatemp_range, dynatemp_exponent, mirostat, mirostat_tau, mirostat_eta);
    layout!(cohort_sampler_rng, state, inc);
    layout!(cohort_logprob, token, logprob);
    layout!(cohort_score, n, logprob, perplexity);
    layout!(cohort_branch, forest, index, generation);
    layout!(cohort_forest_params, struct_size, first_seq, n_seqs);
    layout!(cohort_pressure, n_seqs, n_leased, n_vacant, block_size, n_blocks, n_blocks_used, n_blocks_shared, n_blocks_free, n_leaves);
    layout!(cohort_reseed, seed, stream);
    layout!(cohort_branch_span, branch, tokens, n_tokens);
    layout!(cohort_branch_token, branch, token);
    layout!(cohort_branch_info, parent, first_child, next_sibling, n_children, depth, seq, n_past, pending, has_logits, complete, n_accepted, n_drawn, logprob, drawn_logprob, perplexity, drawn_perplexity);
    layout!(cohort_slot, id, state, prompt, n_prompt, n_prefilled, pending, pos, batch_index, n_planned, client, priority, age_s, n_generated, n_left);
    layout!(cohort_entry, token, pos, seq, logits);
    layout!(cohort_plan, slots, n_slots, budget, chunk_size, queue_depth, tick, model, entries, n_entries);
    layout!(cohort_strategy, struct_size, name, about, state_bytes, user, build_batch);
    layout!(cohort_event, kind, output, index, token, text, n_bytes, logprob, chain_logprob, top, n_top, prompt_logprobs, prompt_top, n_prompt, embedding, n_embd, finish, error);
    layout!(cohort_request_params, struct_size, task, prompt, n_prompt, n_outputs, max_tokens, sampler, ignore_eos, stop_tokens, n_stop_tokens, stops, n_stops, special, text_start, n_logprobs, chain_logprobs, prompt_logprobs, pooling, priority, client, session, salt, no_reuse, adapter, adapter_scale, queue_limit_s, prefill_limit_s, decode_limit_s, total_limit_s, on_event, user, on_ready, ready_at_end);
    layout!(cohort_output, tokens, n_tokens, text, n_bytes, logprobs, finish, error);
    layout!(cohort_request_stats, id, queued_s, first_token_s, end_s, n_prompt, n_cached, n_generated, n_parked, tokens_per_s, finish);
    layout!(cohort_tick, tick, n_decode_rows, n_prefill_rows, n_sampled, n_idle, n_prefilling, n_generating, n_parked, n_queued, n_queued_tokens, n_blocks, n_blocks_used, n_blocks_cached, n_blocks_free, at_s, total_s, decode_s, sample_s, fallback);
    layout!(cohort_engine_stats, last, n_ticks, n_submitted, n_admitted, n_refused, n_ended, n_decode_rows, n_prefill_rows, n_sampled, n_prompt_tokens, n_cached_tokens, n_lookups, n_hits, n_evicted, n_parked, n_resumed, n_swapped, n_fallbacks, n_retries, total_s, decode_s, sample_s, strategy, fallback);
    layout!(cohort_engine_params, struct_size, n_slots, context, budget, chunk_size, strategy, queue_requests_max, queue_tokens_max, wait_max_s, room, swap_bytes, no_reuse, manual, on_tick, on_tick_user, keep_tokens);
    layout!(cohort_cache_key, tokens, n_tokens, salt, session, adapter, adapter_scale);
    layout!(cohort_slot_info, id, state, request, output, n_prompt, n_cached, n_generated, n_blocks, priority, client, session, age_s);
    layout!(cohort_sim_request, arrival_s, n_prompt, n_output, client, priority, group, n_shared);
    layout!(cohort_sim_params, struct_size, n_slots, n_ctx, n_batch, n_ubatch, budget, chunk_size, n_pos_max, strategy, queue_requests_max, queue_tokens_max, wait_max_s, room, no_reuse, cost_s, cost_user, on_tick, on_tick_user, abort, abort_user);
    layout!(cohort_sim_outcome, finish, refused, queued_s, first_token_s, end_s, gap_max_s, n_generated, n_cached, n_parked);
    layout!(cohort_sim_totals, now_s, busy_s, real_s, n_ticks, n_ubatches, n_prefill_rows, n_decode_rows, n_tokens, n_done, n_refused, n_parked, n_prompt_tokens, n_cached_tokens, n_fallbacks, n_queued_max, gaps, gap_max_s);
    layout!(cohort_gguf_part, path, version, alignment, data_offset, file_bytes, n_tensors);
    layout!(cohort_gguf_value, type_, u, i, f, str, n_str, elem_type, n_elems, data, data_bytes);
    layout!(cohort_gguf_kv, key, n_key, offset, value);
    layout!(cohort_gguf_cursor, array, i_elem, at);
    layout!(cohort_gguf_tensor, name, n_name, type_, type_name, n_dims, ne, part, offset, n_bytes);
    layout!(cohort_synth_params, struct_size, n_vocab, n_embd, n_layer, n_head, n_head_kv, n_ff, n_ctx, head_size, rope_base, tied, pure, type_, name, seed, n_threads, progress, progress_user);
    layout!(cohort_quantize_tensor, name, n_name, n_dims, ne, from, to, instead_of, bytes_before, bytes_after, rms_error, max_error);
    layout!(cohort_quantize_params, struct_size, type_, token_embedding_type, output_tensor_type, pure, allow_requantize, dry_run, n_threads, progress, progress_user, report, report_user);
    layout!(cohort_quantize_result, n_tensors, n_weights, n_converted, n_fallback, bytes_before, bytes_after);
    layout!(cohort_template_params, struct_size, messages, tools, documents, extra, bos_token, eos_token, add_generation_prompt, now, n_steps_max, n_out_max, n_bytes_max, depth_max);
    out
}
