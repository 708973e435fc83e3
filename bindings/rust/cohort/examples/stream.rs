//! Many users of one engine: each thread submits a request and reads its answer as it comes.
//!
//! The answers are those of `cohort run -n 24 -seed 7 PROMPT ...`, byte for byte: nobody's depends on who else is there.
//!
//! usage: stream MODEL.gguf [PROMPT...]

use cohort::{ContextParams, Engine, EngineParams, Model, RequestParams, Result, SamplerParams};
use std::io::Write;
use std::sync::Arc;

fn ask(engine: &Engine, prompt: &str) -> Result<Vec<u8>> {
    let tokens = engine.model().tokenize(prompt, true, false)?;
    let sampler = SamplerParams { seed: 7, ..Default::default() };
    let params = RequestParams { max_tokens: 24, sampler, ..Default::default() };
    let mut answer = Vec::new();
    for event in engine.submit(&tokens, &params)? {
        answer.extend_from_slice(event?.text()); // could be shown at once
    }
    Ok(answer)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: stream MODEL.gguf [PROMPT...]")?;
    let mut prompts: Vec<String> = std::env::args().skip(2).collect();
    if prompts.is_empty() {
        prompts = ["Once upon a time", "The cat", "One day, a bird"].map(String::from).to_vec();
    }
    let model = Arc::new(Model::load(path)?);
    let context = ContextParams { n_ctx: 2048, ..Default::default() };
    let engine = Engine::new(model, EngineParams { n_slots: 4, context, ..Default::default() })?;
    let answers: Vec<Result<Vec<u8>>> = std::thread::scope(|s| {
        let engine = &engine;
        let threads: Vec<_> = prompts.iter().map(|p| s.spawn(move || ask(engine, p))).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let mut out = std::io::stdout().lock();
    for (i, (prompt, answer)) in prompts.iter().zip(answers).enumerate() {
        let gap = if i > 0 { "\n" } else { "" };
        writeln!(out, "{}Prompt {} ({}):", gap, i, prompt)?;
        out.write_all(&answer?)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}
