//! A JSON document, by a schema: only tokens that lead to one are permitted.
//!
//! The text is that of `cohort run -p "A pet:" -n 64 -seed 7 -json-schema SCHEMA`, byte for byte.
//!
//! usage: json_schema MODEL.gguf

use cohort::{ContextParams, Engine, EngineParams, Grammar, Lexicon, Model, RequestParams, SamplerParams};
use std::io::Write;
use std::sync::Arc;

const SCHEMA: &str = r#"{"type":"object","properties":{"name":{"type":"string","maxLength":8},"age":{"type":"integer"}},
"required":["name","age"]}"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: json_schema MODEL.gguf")?;
    let model = Arc::new(Model::load(path)?);
    let grammar = Grammar::json_schema(&Lexicon::new(&model)?, SCHEMA)?;
    let context = ContextParams { n_ctx: 512, ..Default::default() };
    let engine = Engine::new(model.clone(), EngineParams { n_slots: 1, context, ..Default::default() })?;
    let sampler = SamplerParams { seed: 7, grammar: Some(grammar), ..Default::default() };
    let params = RequestParams { max_tokens: 64, sampler, ..Default::default() };
    let (text, _) = engine.submit(&model.tokenize("A pet:", true, false)?, &params)?.finish(0)?;
    let mut out = std::io::stdout().lock();
    out.write_all(&text)?;
    out.write_all(b"\n")?;
    Ok(())
}
