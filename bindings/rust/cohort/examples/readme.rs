//! The example of the README, as it stands there.

use cohort::{Context, ContextParams, Model, SamplerParams};
use std::sync::Arc;

fn main() -> cohort::Result<()> {
    let model = Arc::new(Model::load(std::env::args().nth(1).expect("a model"))?);
    let mut ctx = Context::new(model.clone(), ContextParams { n_ctx: 1024, ..Default::default() })?;
    ctx.decode(&model.tokenize("Once upon a time", true, false)?)?;

    let mut sampler = SamplerParams { seed: 7, ..Default::default() }.build_chain(model.clone())?;
    let mut detok = model.detok(false, false);
    for _ in 0..16 {
        let token = sampler.sample(&ctx, -1)?; // and accepts it
        if model.token_is_eog(token) {
            break;
        }
        print!("{}", String::from_utf8_lossy(&detok.push(token)?));
        ctx.decode_single(token)?;
    }
    println!();
    Ok(())
}
