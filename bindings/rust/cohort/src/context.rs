//! Contexts: decoding, sequences, saved states.

use crate::batch::Batch;
use crate::error::{call, call_ptr, count, defaults, Result};
use crate::model::{c_path, n_tokens, Model, Pooling};
use crate::{Pos, Seq, Token};
use cohort_sys as sys;
use std::os::raw::c_void;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvType {
    F16 = sys::COHORT_KV_F16 as isize,
    F32 = sys::COHORT_KV_F32 as isize,
    Q8_0 = sys::COHORT_KV_Q8_0 as isize,
}

/// What rows that ask for output get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outputs {
    Logits = sys::COHORT_OUTPUT_LOGITS as isize,
    Embeddings = sys::COHORT_OUTPUT_EMBEDDINGS as isize,
    Both = (sys::COHORT_OUTPUT_LOGITS | sys::COHORT_OUTPUT_EMBEDDINGS) as isize,
}

/// How a context is opened; see `struct cohort_context_params`. The default is the library's.
#[derive(Clone, Debug)]
pub struct ContextParams {
    pub n_ctx: i32,
    pub n_batch: i32,
    pub n_ubatch: i32,
    pub n_seq_max: i32,
    pub n_threads: i32,
    pub kv_type: KvType,
    pub outputs: Outputs,
    pub pooling: Pooling,
    pub output_all: bool,
    pub n_checkpoints: i32,
    pub n_blocks: i32,
    /// Calls end with `Status::Aborted` while it is true.
    pub abort: Option<Arc<AtomicBool>>,
}

impl Default for ContextParams {
    fn default() -> Self {
        // SAFETY: its own `_init`, here and below.
        let p = unsafe { defaults(sys::cohort_context_params_init) };
        ContextParams {
            n_ctx: p.n_ctx,
            n_batch: p.n_batch,
            n_ubatch: p.n_ubatch,
            n_seq_max: p.n_seq_max,
            n_threads: p.n_threads,
            kv_type: KvType::F16,
            outputs: Outputs::Logits,
            pooling: Pooling::None,
            output_all: false,
            n_checkpoints: p.n_checkpoints,
            n_blocks: p.n_blocks,
            abort: None,
        }
    }
}

unsafe extern "C" fn asked(user: *mut c_void) -> bool {
    // SAFETY: the flag that the context holds.
    unsafe { &*(user as *const AtomicBool) }.load(Ordering::Relaxed)
}

impl ContextParams {
    pub(crate) fn fill(&self, p: &mut sys::cohort_context_params) {
        p.n_ctx = self.n_ctx;
        p.n_batch = self.n_batch;
        p.n_ubatch = self.n_ubatch;
        p.n_seq_max = self.n_seq_max;
        p.n_threads = self.n_threads;
        p.kv_type = self.kv_type as i32;
        p.outputs = self.outputs as u32;
        p.pooling = self.pooling as i32;
        p.output_all = self.output_all;
        p.n_checkpoints = self.n_checkpoints;
        p.n_blocks = self.n_blocks;
        if let Some(flag) = &self.abort {
            p.abort = Some(asked);
            p.abort_user = Arc::as_ptr(flag) as *mut c_void;
        }
    }
}

/// A token of a sequence, for `Context::decode_each`.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub token: Token,
    pub pos: Pos,
    pub seq: Seq,
    pub want: bool,
}

/// Tokens of a sequence, for `Context::decode_scatter`: `want` asks for the output of the last.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    pub tokens: &'a [Token],
    pub pos: Pos,
    pub seq: Seq,
    pub want: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    pub block_size: i32,
    pub n_blocks: i32,
    pub n_used: i32,
    pub n_shared: i32,
    pub n_free: i32,
}

/// Sequences of a model, and decoding them. A call that fails leaves every sequence as it was.
///
/// Outputs are borrowed until the next decode:
///
/// ```compile_fail
/// # fn f(ctx: &mut cohort::Context) -> cohort::Result<()> {
/// let logits = ctx.logits(-1)?;
/// ctx.decode_single(5)?;
/// println!("{}", logits[0]);
/// # Ok(()) }
/// ```
/// ```
/// # fn f(ctx: &mut cohort::Context) -> cohort::Result<()> {
/// let logits = ctx.logits(-1)?;
/// println!("{}", logits[0]);
/// ctx.decode_single(5)?;
/// # Ok(()) }
/// ```
///
/// It may be sent to another thread, but not be shared with one:
///
/// ```compile_fail
/// # fn f(ctx: cohort::Context) {
/// std::thread::scope(|s| {
///     s.spawn(|| ctx.n_outputs());
/// });
/// # drop(ctx) }
/// ```
/// ```
/// # fn f(ctx: cohort::Context) {
/// std::thread::scope(|s| {
///     s.spawn(move || ctx.n_outputs());
/// });
/// # }
/// ```
pub struct Context {
    raw: *mut sys::cohort_context,
    model: Arc<Model>,
    _abort: Option<Arc<AtomicBool>>,
}
// SAFETY: it belongs to one thread at a time, whichever that is.
unsafe impl Send for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: freed once, before the model and the flag.
        unsafe { sys::cohort_context_free(self.raw) }
    }
}

impl Context {
    pub fn new(model: Arc<Model>, params: ContextParams) -> Result<Context> {
        let mut p = unsafe { defaults(sys::cohort_context_params_init) };
        params.fill(&mut p);
        let mut raw = ptr::null_mut();
        // SAFETY: the context holds the model and the flag.
        call(|e| unsafe { sys::cohort_context_open(model.as_raw(), &p, &mut raw, e) })?;
        Ok(Context { raw, model, _abort: params.abort })
    }

    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }
    /// For calls of cohort-sys.
    pub fn as_raw(&mut self) -> *mut sys::cohort_context {
        self.raw
    }

    // ---- Decoding. SAFETY, of all calls below: the context is good, and arrays are as long as is said. ----

    /// Any number of tokens that go on with sequence 0; output for the last.
    pub fn decode(&mut self, tokens: &[Token]) -> Result<()> {
        let n_past = self.seq_len(0);
        self.decode_many(tokens, n_past, 0)
    }

    /// One token that goes on with sequence 0, without any allocation.
    pub fn decode_single(&mut self, token: Token) -> Result<()> {
        let pos = self.seq_len(0);
        self.decode_one(token, pos, 0, true)
    }

    pub fn decode_batch(&mut self, batch: &Batch<'_>) -> Result<()> {
        call(|e| unsafe { sys::cohort_decode(self.raw, batch.as_raw(), e) })
    }

    /// Without cache and causality, for embeddings.
    pub fn encode(&mut self, batch: &Batch<'_>) -> Result<()> {
        call(|e| unsafe { sys::cohort_encode(self.raw, batch.as_raw(), e) })
    }

    /// Whether the batch would be taken, but for a lack of room.
    pub fn check(&mut self, batch: &Batch<'_>) -> Result<()> {
        call(|e| unsafe { sys::cohort_check(self.raw, batch.as_raw(), e) })
    }

    pub fn decode_one(&mut self, token: Token, pos: Pos, seq: Seq, want: bool) -> Result<()> {
        call(|e| unsafe { sys::cohort_decode_one(self.raw, token, pos, seq, want, e) })
    }

    pub fn decode_many(&mut self, tokens: &[Token], n_past: Pos, seq: Seq) -> Result<()> {
        let n = n_tokens(tokens)?;
        call(|e| unsafe { sys::cohort_decode_many(self.raw, tokens.as_ptr(), n, n_past, seq, e) })
    }

    /// A token of each of several sequences; row i has output i.
    pub fn decode_each(&mut self, rows: &[Row]) -> Result<()> {
        let items: Vec<_> = rows
            .iter()
            .map(|r| sys::cohort_each_item { token: r.token, pos: r.pos, seq: r.seq, want: r.want })
            .collect();
        let n = count(items.len())?;
        call(|e| unsafe { sys::cohort_decode_each(self.raw, items.as_ptr(), n, ptr::null_mut(), e) })
    }

    /// Tokens of several sequences. Returns the output index of each span's last token; a span without tokens is skipped,
    /// and its index says nothing.
    pub fn decode_scatter(&mut self, spans: &[Span<'_>]) -> Result<Vec<i32>> {
        let (mut items, mut indexes, mut index) = (Vec::new(), Vec::new(), -1);
        for s in spans {
            let n_tokens = n_tokens(s.tokens)?;
            index += n_tokens;
            indexes.push(index);
            let tokens = s.tokens.as_ptr();
            items.push(sys::cohort_scatter_item { tokens, n_tokens, pos: s.pos, seq: s.seq, want: s.want });
        }
        let n = count(items.len())?;
        call(|e| unsafe { sys::cohort_decode_scatter(self.raw, items.as_ptr(), n, ptr::null_mut(), e) })?;
        Ok(indexes)
    }

    // ---- Outputs of the last decode: good until the next, which the borrow forbids ----

    pub fn n_outputs(&self) -> usize {
        unsafe { sys::cohort_n_outputs(self.raw) as usize }
    }

    /// Of row i of the last decode; -1 is the last output.
    pub fn logits(&self, i: i32) -> Result<&[f32]> {
        let p = call_ptr(|e| unsafe { sys::cohort_logits_get(self.raw, i, e) })?;
        Ok(unsafe { std::slice::from_raw_parts(p, self.model.info().n_vocab) })
    }
    pub fn embeddings(&self, i: i32) -> Result<&[f32]> {
        let p = call_ptr(|e| unsafe { sys::cohort_embeddings_get(self.raw, i, e) })?;
        Ok(unsafe { std::slice::from_raw_parts(p, self.model.info().n_embd) })
    }
    /// The pooled embedding of a sequence.
    pub fn embeddings_seq(&self, seq: Seq) -> Result<&[f32]> {
        let p = call_ptr(|e| unsafe { sys::cohort_embeddings_seq_get(self.raw, seq, e) })?;
        Ok(unsafe { std::slice::from_raw_parts(p, self.model.info().n_embd) })
    }

    // ---- Sequences: ranges [p0, p1), p1 = -1 is to the end ----

    pub fn seq_rm(&mut self, seq: Seq, p0: Pos, p1: Pos) -> Result<()> {
        call(|e| unsafe { sys::cohort_seq_rm(self.raw, seq, p0, p1, e) })
    }
    pub fn seq_cp(&mut self, src: Seq, dst: Seq, p0: Pos, p1: Pos) -> Result<()> {
        call(|e| unsafe { sys::cohort_seq_cp(self.raw, src, dst, p0, p1, e) })
    }
    pub fn seq_keep(&mut self, seq: Seq) -> Result<()> {
        call(|e| unsafe { sys::cohort_seq_keep(self.raw, seq, e) })
    }
    pub fn seq_add(&mut self, seq: Seq, p0: Pos, p1: Pos, delta: Pos) -> Result<()> {
        call(|e| unsafe { sys::cohort_seq_add(self.raw, seq, p0, p1, delta, e) })
    }
    pub fn seq_clear(&mut self) {
        unsafe { sys::cohort_seq_clear(self.raw) }
    }
    /// The position where a sequence goes on.
    pub fn seq_len(&self, seq: Seq) -> Pos {
        unsafe { sys::cohort_seq_pos_max(self.raw, seq) + 1 }
    }
    pub fn usage(&self) -> Usage {
        // SAFETY: numbers, which the library fills in.
        let mut u: sys::cohort_usage = unsafe { std::mem::zeroed() };
        unsafe { sys::cohort_usage_get(self.raw, &mut u) };
        Usage {
            block_size: u.block_size,
            n_blocks: u.n_blocks,
            n_used: u.n_used,
            n_shared: u.n_shared,
            n_free: u.n_free,
        }
    }

    // ---- Saved states: of one sequence, or of all ----

    pub fn save(&mut self, seq: Option<Seq>) -> Result<Vec<u8>> {
        let seq = seq.unwrap_or(sys::COHORT_SEQ_ALL);
        let mut out = vec![0u8; unsafe { sys::cohort_state_size(self.raw, seq) }];
        let mut n = 0;
        call(|e| unsafe { sys::cohort_state_save(self.raw, seq, out.as_mut_ptr() as _, out.len(), &mut n, e) })?;
        out.truncate(n);
        Ok(out)
    }
    pub fn restore(&mut self, state: &[u8], seq: Option<Seq>) -> Result<()> {
        let seq = seq.unwrap_or(sys::COHORT_SEQ_ALL);
        call(|e| unsafe { sys::cohort_state_restore(self.raw, seq, state.as_ptr() as _, state.len(), e) })
    }
    pub fn save_file(&mut self, path: impl AsRef<Path>, seq: Option<Seq>) -> Result<()> {
        let (path, seq) = (c_path(path.as_ref())?, seq.unwrap_or(sys::COHORT_SEQ_ALL));
        call(|e| unsafe { sys::cohort_state_save_file(self.raw, seq, path.as_ptr(), e) })
    }
    pub fn restore_file(&mut self, path: impl AsRef<Path>, seq: Option<Seq>) -> Result<()> {
        let (path, seq) = (c_path(path.as_ref())?, seq.unwrap_or(sys::COHORT_SEQ_ALL));
        call(|e| unsafe { sys::cohort_state_restore_file(self.raw, seq, path.as_ptr(), e) })
    }
}
