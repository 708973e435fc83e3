//! Texts to vectors, and how alike they are: cosines of all pairs, as `cohort embed -similarity TEXT ...` prints them.
//!
//! usage: embeddings MODEL.gguf [TEXT...]

use cohort::{ContextParams, Engine, EngineParams, Model, Outputs, Pooling, Result};
use std::sync::Arc;

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: embeddings MODEL.gguf [TEXT...]")?;
    let mut texts: Vec<String> = std::env::args().skip(2).collect();
    if texts.is_empty() {
        texts = ["a cat sat down", "a kitten sat", "stock prices fell"].map(String::from).to_vec();
    }
    let model = Arc::new(Model::load(path)?);
    let context = ContextParams { n_ctx: 1024, outputs: Outputs::Both, ..Default::default() };
    let engine = Engine::new(model.clone(), EngineParams { n_slots: 4, context, ..Default::default() })?;
    let vectors = texts
        .iter()
        .map(|t| engine.embed(&model.tokenize(t, true, false)?, Pooling::Mean))
        .collect::<Result<Vec<_>>>()?;
    for a in &vectors {
        let row: Vec<String> = vectors.iter().map(|b| format!("{:7.4}", cosine(a, b))).collect();
        println!("{}", row.join(" "));
    }
    Ok(())
}
