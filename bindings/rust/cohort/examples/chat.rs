//! The second example of the README, as it stands there.

use cohort::{ChatTemplate, Engine, EngineParams, Model, RequestParams, SamplerParams};
use std::sync::Arc;

fn main() -> cohort::Result<()> {
    let model = Arc::new(Model::load(std::env::args().nth(1).expect("a model"))?);
    let template = ChatTemplate::new(model.clone(), None)?;
    let engine = Engine::new(model, EngineParams { n_slots: 1, ..Default::default() })?;
    let params = RequestParams {
        max_tokens: 24,
        sampler: SamplerParams { seed: 7, ..Default::default() },
        stops: vec!["<|user|>".into()],
        ..Default::default()
    };
    let mut said: Vec<(&str, String)> = Vec::new();
    for question in ["Tell me about a dog.", "What did he find?"] {
        said.push(("user", question.into()));
        let text = template.render(&said.iter().map(|(role, text)| (*role, text.as_str())).collect::<Vec<_>>())?;
        let (answer, _) = engine.submit(&template.tokens(&text)?, &params)?.finish(0)?;
        said.push(("assistant", String::from_utf8_lossy(&answer).into_owned()));
        println!("{}", said.last().unwrap().1);
    }
    Ok(())
}
