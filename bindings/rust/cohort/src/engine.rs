//! Continuous batching: an engine with a thread of its own, requests from any number of threads.

use crate::context::ContextParams;
use crate::error::{call, count, defaults, Error, Result, Status};
use crate::model::{c_string, n_tokens, Model, Pooling};
use crate::sampler::{Kept, SamplerParams};
use crate::Token;
use cohort_sys as sys;
use std::ffi::CStr;
use std::os::raw::c_char;
use std::ptr;
use std::slice;
use std::sync::Arc;

/// How an engine is opened; see `struct cohort_engine_params`. The default is the library's.
#[derive(Clone, Debug)]
pub struct EngineParams {
    pub n_slots: i32,
    pub context: ContextParams,
    pub budget: i32,
    pub chunk_size: i32,
    /// The name of a strategy that is built in.
    pub strategy: Option<String>,
    pub queue_requests_max: i32,
    pub queue_tokens_max: i64,
    pub wait_max_s: f64,
    /// Room is given out as requests grow, and the youngest is parked when it runs out.
    pub overcommit: bool,
    pub no_reuse: bool,
}

impl Default for EngineParams {
    fn default() -> Self {
        // SAFETY: its own `_init`, here and below.
        let p = unsafe { defaults(sys::cohort_engine_params_init) };
        EngineParams {
            n_slots: p.n_slots,
            context: ContextParams::default(),
            budget: p.budget,
            chunk_size: p.chunk_size,
            strategy: None,
            queue_requests_max: p.queue_requests_max,
            queue_tokens_max: p.queue_tokens_max,
            wait_max_s: p.wait_max_s,
            overcommit: false,
            no_reuse: p.no_reuse,
        }
    }
}

/// What is asked; see `struct cohort_request_params`.
#[derive(Clone)]
pub struct RequestParams {
    pub n_outputs: i32,
    /// Of each output; -1: until the context is full.
    pub max_tokens: i32,
    pub sampler: SamplerParams,
    pub ignore_eos: bool,
    pub stop_tokens: Vec<Token>,
    pub stops: Vec<String>,
    pub special: bool,
    /// -1: none; 0: of each token; n: and of the n likeliest.
    pub n_logprobs: i32,
    pub priority: i32,
    pub client: u64,
    pub session: u64,
    pub salt: u64,
    pub no_reuse: bool,
    pub total_limit_s: f64,
}

impl Default for RequestParams {
    fn default() -> Self {
        RequestParams {
            n_outputs: 1,
            max_tokens: -1,
            sampler: SamplerParams::default(),
            ignore_eos: false,
            stop_tokens: Vec::new(),
            stops: Vec::new(),
            special: false,
            n_logprobs: -1,
            priority: 0,
            client: 0,
            session: 0,
            salt: 0,
            no_reuse: false,
            total_limit_s: 0.0,
        }
    }
}

/// Why an output ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Finish {
    Eog,
    Stop,
    Length,
    Embedded,
    Cancelled,
    Timeout,
    Error,
    Shutdown,
    Other(i32),
}

fn finish(f: i32) -> Finish {
    match f {
        sys::COHORT_FINISH_EOG => Finish::Eog,
        sys::COHORT_FINISH_STOP => Finish::Stop,
        sys::COHORT_FINISH_LENGTH => Finish::Length,
        sys::COHORT_FINISH_EMBEDDED => Finish::Embedded,
        sys::COHORT_FINISH_CANCELLED => Finish::Cancelled,
        sys::COHORT_FINISH_TIMEOUT => Finish::Timeout,
        sys::COHORT_FINISH_ERROR => Finish::Error,
        sys::COHORT_FINISH_SHUTDOWN => Finish::Shutdown,
        other => Finish::Other(other),
    }
}

/// What happened to a request. The bytes of `text` can be shown at once: whole characters, but for the last.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    Token { output: i32, index: i32, token: Token, text: Vec<u8>, logprob: f32, top: Vec<(Token, f32)> },
    Embedding(Vec<f32>),
    End { output: i32, text: Vec<u8>, finish: Finish, error: Option<Error> },
}

impl Event {
    /// The bytes that came with it.
    pub fn text(&self) -> &[u8] {
        match self {
            Event::Token { text, .. } | Event::End { text, .. } => text,
            _ => &[],
        }
    }
}

/// A copy: an event's pointers are good until the next is asked for.
/// SAFETY: the event is one that the library has just filled in.
unsafe fn event(e: &sys::cohort_event) -> Option<Event> {
    unsafe fn copy<T: Copy>(p: *const T, n: usize) -> Vec<T> {
        if n == 0 || p.is_null() {
            return Vec::new();
        }
        unsafe { slice::from_raw_parts(p, n) }.to_vec()
    }
    unsafe {
        match e.kind {
            sys::COHORT_EVENT_TOKEN => Some(Event::Token {
                output: e.output,
                index: e.index,
                token: e.token,
                text: copy(e.text as *const u8, e.n_bytes),
                logprob: e.logprob,
                top: copy(e.top, e.n_top.max(0) as usize).iter().map(|t| (t.token, t.logprob)).collect(),
            }),
            sys::COHORT_EVENT_EMBEDDING => Some(Event::Embedding(copy(e.embedding, e.n_embd.max(0) as usize))),
            sys::COHORT_EVENT_END => Some(Event::End {
                output: e.output,
                text: copy(e.text as *const u8, e.n_bytes),
                finish: finish(e.finish),
                error: e.error.as_ref().map(Error::of),
            }),
            _ => None,
        }
    }
}

/// Many users of one model. Threads may share it.
pub struct Engine {
    raw: *mut sys::cohort_engine,
    model: Arc<Model>,
}
// SAFETY: the library says that its functions may be called by any thread.
unsafe impl Send for Engine {}
unsafe impl Sync for Engine {}

impl Drop for Engine {
    /// Stops at once: what has not ended ends with `Finish::Shutdown`.
    fn drop(&mut self) {
        // SAFETY: nobody borrows it, so no call is under way.
        unsafe { sys::cohort_engine_free(self.raw) }
    }
}

impl Engine {
    pub fn new(model: Arc<Model>, params: EngineParams) -> Result<Engine> {
        let mut p = unsafe { defaults(sys::cohort_engine_params_init) };
        params.context.fill(&mut p.context);
        p.n_slots = params.n_slots;
        p.budget = params.budget;
        p.chunk_size = params.chunk_size;
        p.queue_requests_max = params.queue_requests_max;
        p.queue_tokens_max = params.queue_tokens_max;
        p.wait_max_s = params.wait_max_s;
        p.room = if params.overcommit { sys::COHORT_ROOM_OVERCOMMIT } else { sys::COHORT_ROOM_RESERVE };
        p.no_reuse = params.no_reuse;
        // These are the engine's own.
        p.context.abort = None;
        p.context.abort_user = ptr::null_mut();
        if let Some(name) = &params.strategy {
            let c_name = c_string(name)?;
            // SAFETY: strategies that are built in are static.
            p.strategy = unsafe { sys::cohort_strategy_find(c_name.as_ptr()) };
            if p.strategy.is_null() {
                return Err(Error::new(Status::Arg, format!("no strategy is called {}", name)));
            }
        }
        let mut raw = ptr::null_mut();
        // SAFETY: the engine holds the model.
        call(|e| unsafe { sys::cohort_engine_open(model.as_raw(), &p, &mut raw, e) })?;
        Ok(Engine { raw, model })
    }

    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// Queues a request for continuations of the prompt.
    pub fn submit(&self, prompt: &[Token], params: &RequestParams) -> Result<Request> {
        self.queue(prompt, params, None)
    }

    /// The embedding of a text, not normalised. The engine needs `Outputs::Both` (with an encoder `Embeddings`).
    pub fn embed(&self, prompt: &[Token], pooling: Pooling) -> Result<Vec<f32>> {
        for e in self.queue(prompt, &RequestParams::default(), Some(pooling))? {
            match e? {
                Event::Embedding(v) => return Ok(v),
                Event::End { error: Some(e), .. } => return Err(e),
                _ => {}
            }
        }
        Err(Error::new(Status::Aborted, "the request ended without an embedding"))
    }

    fn queue(&self, prompt: &[Token], params: &RequestParams, pooling: Option<Pooling>) -> Result<Request> {
        let filled = params.sampler.fill()?;
        let stops = params.stops.iter().map(|s| c_string(s)).collect::<Result<Vec<_>>>()?;
        let stop_pointers: Vec<*const c_char> = stops.iter().map(|s| s.as_ptr()).collect();
        let mut p = unsafe { defaults(sys::cohort_request_params_init) };
        p.sampler = filled.p;
        p.prompt = prompt.as_ptr();
        p.n_prompt = n_tokens(prompt)?;
        p.n_outputs = params.n_outputs;
        p.max_tokens = params.max_tokens;
        p.ignore_eos = params.ignore_eos;
        p.stop_tokens = params.stop_tokens.as_ptr();
        p.n_stop_tokens = n_tokens(&params.stop_tokens)?;
        p.stops = stop_pointers.as_ptr() as _;
        p.n_stops = count(stops.len())?;
        p.special = params.special;
        p.n_logprobs = params.n_logprobs;
        p.priority = params.priority;
        p.client = params.client;
        p.session = params.session;
        p.salt = params.salt;
        p.no_reuse = params.no_reuse;
        p.total_limit_s = params.total_limit_s;
        if let Some(pooling) = pooling {
            p.task = sys::COHORT_TASK_EMBED;
            p.pooling = pooling as i32;
        }
        let mut raw = ptr::null_mut();
        // SAFETY: what params point to is copied by the call; what has to live longer is kept.
        call(|e| unsafe { sys::cohort_engine_submit(self.raw, &p, &mut raw, e) })?;
        let handle = Handle { raw, kept: params.sampler.kept(), _model: self.model.clone() };
        Ok(Request { handle: Arc::new(handle), told: false })
    }

    /// Takes no more requests and waits until all have ended; whether they did within timeout_s seconds (below 0: as
    /// long as it takes).
    pub fn drain(&self, timeout_s: f64) -> Result<bool> {
        let mut clean = false;
        // SAFETY: the engine is good, here and below.
        call(|e| unsafe { sys::cohort_engine_drain(self.raw, timeout_s, &mut clean, e) })?;
        Ok(clean)
    }
    pub fn cache_clear(&self) {
        unsafe { sys::cohort_engine_cache_clear(self.raw) }
    }
    /// Everything since it was opened, as the library has it.
    pub fn stats(&self) -> sys::cohort_engine_stats {
        let mut s: sys::cohort_engine_stats = unsafe { std::mem::zeroed() };
        unsafe { sys::cohort_engine_stats_get(self.raw, &mut s) };
        s
    }
}

/// Names of the strategies that are built in; the first is the default.
pub fn strategies() -> Vec<String> {
    // SAFETY: static strings.
    unsafe {
        (0..sys::cohort_strategy_count())
            .map(|i| CStr::from_ptr((*sys::cohort_strategy_get(i)).name).to_string_lossy().into_owned())
            .collect()
    }
}

/// The library's handle: freed when neither the request nor a canceller needs it, and before its grammar and its model,
/// from whose vocabulary text is made as it is read.
struct Handle {
    raw: *mut sys::cohort_request,
    kept: Kept,
    _model: Arc<Model>,
}
// SAFETY: only cancelling is done through a shared one, which any thread may.
unsafe impl Send for Handle {}
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: freed once; good after the engine's end, too. Until it has ended the engine uses its grammar.
        unsafe {
            sys::cohort_request_cancel(self.raw);
            if self.kept.0.is_some() || self.kept.1.is_some() {
                sys::cohort_request_wait(self.raw, -1.0, ptr::null_mut(), ptr::null_mut());
            }
            sys::cohort_request_free(self.raw)
        }
    }
}

/// A request that was submitted: an iterator over its events, as they come. Dropping it cancels it.
///
/// One thread reads; it cannot be read by two:
///
/// ```compile_fail
/// # fn f(mut request: cohort::Request) {
/// std::thread::scope(|s| {
///     s.spawn(|| request.next());
///     s.spawn(|| request.next());
/// });
/// # }
/// ```
/// ```
/// # fn f(mut request: cohort::Request) {
/// std::thread::scope(|s| {
///     s.spawn(|| request.next());
/// });
/// # }
/// ```
pub struct Request {
    handle: Arc<Handle>,
    told: bool,
}

/// Ends a request, from any thread.
#[derive(Clone)]
pub struct Canceller {
    handle: Arc<Handle>,
}

impl Canceller {
    pub fn cancel(&self) {
        // SAFETY: any thread may, as long as the handle is there.
        unsafe { sys::cohort_request_cancel(self.handle.raw) }
    }
}

impl Request {
    pub fn canceller(&self) -> Canceller {
        Canceller { handle: self.handle.clone() }
    }

    /// The next event within timeout_s seconds (below 0: as long as it takes); nothing when none came, or none is left.
    pub fn next_within(&mut self, timeout_s: f64) -> Result<Option<Event>> {
        if self.told {
            return Ok(None);
        }
        // SAFETY: numbers and pointers, which the library fills in; one thread reads, as this is not shared.
        let mut e: sys::cohort_event = unsafe { std::mem::zeroed() };
        loop {
            call(|err| unsafe { sys::cohort_request_next(self.handle.raw, timeout_s, &mut e, err) })?;
            self.told = e.kind == sys::COHORT_EVENT_DONE;
            if self.told || e.kind == sys::COHORT_EVENT_NONE {
                return Ok(None);
            }
            if let Some(event) = unsafe { event(&e) } {
                return Ok(Some(event));
            }
        }
    }

    /// Waits for the end; the text of output i, and why it ended.
    pub fn finish(&mut self, i: i32) -> Result<(Vec<u8>, Finish)> {
        let mut done = false;
        // SAFETY: as above; the output is good until the request is freed.
        call(|e| unsafe { sys::cohort_request_wait(self.handle.raw, -1.0, &mut done, e) })?;
        let mut o: sys::cohort_output = unsafe { std::mem::zeroed() };
        call(|e| unsafe { sys::cohort_request_output_get(self.handle.raw, i, &mut o, e) })?;
        if let Some(e) = unsafe { o.error.as_ref() } {
            return Err(Error::of(e));
        }
        let text = unsafe { slice::from_raw_parts(o.text as *const u8, o.n_bytes) }.to_vec();
        Ok((text, finish(o.finish)))
    }
}

impl Iterator for Request {
    type Item = Result<Event>;
    fn next(&mut self) -> Option<Result<Event>> {
        let e = self.next_within(-1.0);
        if e.is_err() {
            self.told = true;
        }
        e.transpose()
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        // A canceller may keep the handle; the work ends here.
        self.canceller().cancel();
    }
}
