//! Many language-model sequences through one model at once: a safe layer over libcohort.
//!
//! ```no_run
//! use cohort::{Context, ContextParams, Model, SamplerParams};
//! use std::sync::Arc;
//!
//! fn main() -> cohort::Result<()> {
//!     let model = Arc::new(Model::load("model.gguf")?);
//!     let mut ctx = Context::new(model.clone(), ContextParams::default())?;
//!     ctx.decode(&model.tokenize("Once upon a time", true, false)?)?;
//!
//!     let mut sampler = SamplerParams::default().build_chain(model.clone())?;
//!     let mut detok = model.detok(false, false);
//!     for _ in 0..50 {
//!         let token = sampler.sample(&ctx, -1)?; // and accepts it
//!         if model.token_is_eog(token) {
//!             break;
//!         }
//!         print!("{}", String::from_utf8_lossy(&detok.push(token)?));
//!         ctx.decode_single(token)?;
//!     }
//!     Ok(())
//! }
//! ```
//!
//! Meaning, units and errors are those of cohort.h, cohort_engine.h and cohort_tools.h. What this layer adds: handles are freed once and
//! not before what needs them; borrows keep outputs from being read after the next decode; what belongs to one thread at
//! a time is `Send` and not `Sync`.

#![deny(unsafe_op_in_unsafe_fn)]

mod batch;
mod chat;
mod context;
mod engine;
mod error;
mod model;
mod sampler;

pub use batch::{Batch, TokenBuffer};
pub use chat::{ChatOptions, ChatTemplate};
pub use cohort_sys as sys;
pub use context::{Context, ContextParams, KvType, Outputs, Row, Span, Usage};
pub use engine::{strategies, Canceller, Engine, EngineParams, Event, Finish, Request, RequestParams};
pub use error::{Error, Result, Status};
pub use model::{Detok, Grammar, Lexicon, Model, ModelInfo, ModelParams, Pooling};
pub use sampler::{Sampler, SamplerParams};

pub type Token = i32;
pub type Pos = i32;
pub type Seq = i32;

/// The version of the library.
pub fn version() -> String {
    // SAFETY: a static string.
    unsafe { std::ffi::CStr::from_ptr(sys::cohort_version()) }.to_string_lossy().into_owned()
}
