//! Logits to tokens.

use crate::context::Context;
use crate::error::{call, count, defaults, Error, Result, Status};
use crate::model::{c_string, n_tokens, Grammar, Lexicon, Model};
use crate::Token;
use cohort_sys as sys;
use std::ffi::CString;
use std::os::raw::c_char;
use std::ptr;
use std::sync::Arc;

/// What a sampler does; see `struct cohort_sampler_params`. The default is the library's.
#[derive(Clone)]
pub struct SamplerParams {
    pub seed: u64,
    pub stream: u64,
    pub temperature: f32,
    pub top_k: i32,
    pub top_p: f32,
    pub min_p: f32,
    pub min_keep: i32,
    pub penalty_last_n: i32,
    pub repeat_penalty: f32,
    pub frequency_penalty: f32,
    pub presence_penalty: f32,
    pub dry_multiplier: f32,
    pub dry_base: f32,
    pub dry_allowed_length: i32,
    pub dry_penalty_last_n: i32,
    /// Texts that end a repetition. They need a lexicon.
    pub dry_breakers: Vec<String>,
    pub lexicon: Option<Arc<Lexicon>>,
    pub top_n_sigma: f32,
    pub typical_p: f32,
    pub xtc_probability: f32,
    pub xtc_threshold: f32,
    pub dynatemp_range: f32,
    pub dynatemp_exponent: f32,
    pub mirostat: i32,
    pub mirostat_tau: f32,
    pub mirostat_eta: f32,
    /// Added to the logits of tokens; minus infinity: never.
    pub bias: Vec<(Token, f32)>,
    pub grammar: Option<Arc<Grammar>>,
    /// Names of stages, in order ("top_k,temperature"); nothing: the default.
    pub order: Option<String>,
}

impl Default for SamplerParams {
    fn default() -> Self {
        // SAFETY: its own `_init`, here and below.
        let p = unsafe { defaults(sys::cohort_sampler_params_init) };
        SamplerParams {
            seed: p.seed,
            stream: p.stream,
            temperature: p.temperature,
            top_k: p.top_k,
            top_p: p.top_p,
            min_p: p.min_p,
            min_keep: p.min_keep,
            penalty_last_n: p.penalty_last_n,
            repeat_penalty: p.repeat_penalty,
            frequency_penalty: p.frequency_penalty,
            presence_penalty: p.presence_penalty,
            dry_multiplier: p.dry_multiplier,
            dry_base: p.dry_base,
            dry_allowed_length: p.dry_allowed_length,
            dry_penalty_last_n: p.dry_penalty_last_n,
            dry_breakers: Vec::new(),
            lexicon: None,
            top_n_sigma: p.top_n_sigma,
            typical_p: p.typical_p,
            xtc_probability: p.xtc_probability,
            xtc_threshold: p.xtc_threshold,
            dynatemp_range: p.dynatemp_range,
            dynatemp_exponent: p.dynatemp_exponent,
            mirostat: p.mirostat,
            mirostat_tau: p.mirostat_tau,
            mirostat_eta: p.mirostat_eta,
            bias: Vec::new(),
            grammar: None,
            order: None,
        }
    }
}

/// What the pointers of filled params point to.
pub(crate) struct Filled {
    pub(crate) p: sys::cohort_sampler_params,
    _bias: Vec<sys::cohort_logit_bias>,
    _breakers: Vec<CString>,
    _pointers: Vec<*const c_char>,
}

/// What a sampler, or a request, needs as long as it lives.
pub(crate) type Kept = (Option<Arc<Grammar>>, Option<Arc<Lexicon>>);

impl SamplerParams {
    pub(crate) fn fill(&self) -> Result<Filled> {
        let mut p = unsafe { defaults(sys::cohort_sampler_params_init) };
        p.seed = self.seed;
        p.stream = self.stream;
        p.temperature = self.temperature;
        p.top_k = self.top_k;
        p.top_p = self.top_p;
        p.min_p = self.min_p;
        p.min_keep = self.min_keep;
        p.penalty_last_n = self.penalty_last_n;
        p.repeat_penalty = self.repeat_penalty;
        p.frequency_penalty = self.frequency_penalty;
        p.presence_penalty = self.presence_penalty;
        p.dry_multiplier = self.dry_multiplier;
        p.dry_base = self.dry_base;
        p.dry_allowed_length = self.dry_allowed_length;
        p.dry_penalty_last_n = self.dry_penalty_last_n;
        p.top_n_sigma = self.top_n_sigma;
        p.typical_p = self.typical_p;
        p.xtc_probability = self.xtc_probability;
        p.xtc_threshold = self.xtc_threshold;
        p.dynatemp_range = self.dynatemp_range;
        p.dynatemp_exponent = self.dynatemp_exponent;
        p.mirostat = self.mirostat;
        p.mirostat_tau = self.mirostat_tau;
        p.mirostat_eta = self.mirostat_eta;
        if let Some(order) = &self.order {
            let names = c_string(order)?;
            // SAFETY: the names are good for the call.
            call(|e| unsafe { sys::cohort_sampler_order_parse(&mut p, names.as_ptr(), e) })?;
        }
        let bias: Vec<_> = self.bias.iter().map(|b| sys::cohort_logit_bias { token: b.0, bias: b.1 }).collect();
        if !bias.is_empty() {
            p.bias = bias.as_ptr();
            p.n_bias = count(bias.len())?;
        }
        let breakers = self.dry_breakers.iter().map(|b| c_string(b)).collect::<Result<Vec<_>>>()?;
        let pointers: Vec<_> = breakers.iter().map(|b| b.as_ptr()).collect();
        if !pointers.is_empty() {
            p.dry_breakers = pointers.as_ptr() as _;
            p.n_dry_breakers = count(pointers.len())?;
        }
        p.lexicon = self.lexicon.as_ref().map_or(ptr::null(), |x| x.as_raw());
        p.grammar = self.grammar.as_ref().map_or(ptr::null_mut(), |g| g.as_raw());
        Ok(Filled { p, _bias: bias, _breakers: breakers, _pointers: pointers })
    }
    pub(crate) fn kept(&self) -> Kept {
        (self.grammar.clone(), self.lexicon.clone())
    }

    /// The sampler of these, for a model's vocabulary.
    pub fn build_chain(&self, model: impl AsRef<Model>) -> Result<Sampler> {
        Sampler::new(model.as_ref(), self)
    }
}

/// A chain of stages, and what one sequence has said so far. The same logits, values and seed give the same token on every
/// machine.
pub struct Sampler {
    raw: *mut sys::cohort_sampler,
    n_vocab: usize,
    kept: Kept,
}
// SAFETY: it belongs to one thread at a time, whichever that is; what it shares has locks or is immutable.
unsafe impl Send for Sampler {}

impl Drop for Sampler {
    fn drop(&mut self) {
        // SAFETY: freed once, before its grammar.
        unsafe { sys::cohort_sampler_free(self.raw) }
    }
}

impl Sampler {
    pub fn new(model: &Model, params: &SamplerParams) -> Result<Sampler> {
        let filled = params.fill()?;
        let (mut raw, n_vocab) = (ptr::null_mut(), model.info().n_vocab);
        let n = count(n_vocab)?;
        // SAFETY: what params point to is good for the call, and what has to live longer is kept.
        call(|e| unsafe { sys::cohort_sampler_open(&filled.p, n, &mut raw, e) })?;
        Ok(Sampler { raw, n_vocab, kept: params.kept() })
    }

    fn fits(&self, n: usize) -> Result<()> {
        if n == self.n_vocab {
            return Ok(());
        }
        Err(Error::new(Status::Arg, format!("{} logits; the sampler is for {}", n, self.n_vocab)))
    }

    /// Picks a token from output i of a context, and accepts it: once, so `accept` is not for this one.
    pub fn sample(&mut self, ctx: &Context, i: i32) -> Result<Token> {
        self.sample_logits(ctx.logits(i)?)
    }
    pub fn sample_logits(&mut self, logits: &[f32]) -> Result<Token> {
        self.fits(logits.len())?;
        let mut token = -1;
        // SAFETY: n_vocab logits, here and below.
        call(|e| unsafe { sys::cohort_sampler_sample(self.raw, logits.as_ptr(), &mut token, e) })?;
        Ok(token)
    }
    /// The same without accepting it.
    pub fn draw(&mut self, ctx: &Context, i: i32) -> Result<Token> {
        let logits = ctx.logits(i)?;
        self.fits(logits.len())?;
        let mut token = -1;
        call(|e| unsafe { sys::cohort_sampler_draw(self.raw, logits.as_ptr(), &mut token, e) })?;
        Ok(token)
    }
    /// For tokens that others chose, or `draw` did.
    pub fn accept(&mut self, token: Token) -> Result<()> {
        call(|e| unsafe { sys::cohort_sampler_accept(self.raw, token, e) })
    }
    /// Penalties remember these; the grammar does not see them.
    pub fn prompt(&mut self, tokens: &[Token]) -> Result<()> {
        n_tokens(tokens)?;
        call(|e| unsafe { sys::cohort_sampler_prompt(self.raw, tokens.as_ptr(), tokens.len(), e) })
    }
    /// A second one that goes on exactly as this would.
    pub fn try_clone(&self) -> Result<Sampler> {
        let mut raw = ptr::null_mut();
        call(|e| unsafe { sys::cohort_sampler_clone(self.raw, &mut raw, e) })?;
        Ok(Sampler { raw, n_vocab: self.n_vocab, kept: self.kept.clone() })
    }
    pub fn reset(&mut self) {
        unsafe { sys::cohort_sampler_reset(self.raw) }
    }
    pub fn reseed(&mut self, seed: u64, stream: u64) {
        unsafe { sys::cohort_sampler_reseed(self.raw, seed, stream) }
    }
    /// Whether the grammar lets the text end here.
    pub fn is_complete(&self) -> bool {
        unsafe { sys::cohort_sampler_is_complete(self.raw) }
    }
}
