//! Four continuations of a prompt, computed together: the prompt once, then a row of each sequence in every step.
//!
//! The texts are those of `batched -prompt PROMPT -n-predict 24 -seed 7`, byte for byte.
//!
//! usage: four MODEL.gguf [PROMPT]

use cohort::{Context, ContextParams, Model, Row, SamplerParams};
use std::io::Write;
use std::sync::Arc;

const N: usize = 4;
const N_PREDICT: usize = 24;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: four MODEL.gguf [PROMPT]")?;
    let prompt = std::env::args().nth(2).unwrap_or_else(|| "Once upon a time".into());
    let model = Arc::new(Model::load(path)?);
    let params = ContextParams { n_ctx: 1024, n_seq_max: N as i32, ..Default::default() };
    let mut ctx = Context::new(model.clone(), params)?;
    let tokens = model.tokenize(&prompt, true, false)?;

    ctx.decode(&tokens)?;
    let (mut samplers, mut detoks, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    for seq in 0..N {
        if seq > 0 {
            ctx.seq_cp(0, seq as i32, 0, -1)?; // a fork: shares the cells, copies nothing
        }
        let params = SamplerParams { seed: 7, stream: seq as u64, top_p: 0.9, ..Default::default() };
        samplers.push(params.build_chain(&model)?);
        detoks.push(model.detok(false, false));
        texts.push(prompt.clone().into_bytes());
    }
    let mut rows = [Some(-1); N]; // where the logits of each sequence are; those that have ended have none
    for i in 0..N_PREDICT {
        let mut step = Vec::new();
        for seq in 0..N {
            if let Some(row) = rows[seq] {
                let token = samplers[seq].sample(&ctx, row)?;
                if model.token_is_eog(token) {
                    rows[seq] = None;
                    continue;
                }
                texts[seq].extend(detoks[seq].push(token)?);
                rows[seq] = Some(step.len() as i32);
                step.push(Row { token, pos: (tokens.len() + i) as i32, seq: seq as i32, want: true });
            }
        }
        if step.is_empty() || i == N_PREDICT - 1 {
            break;
        }
        ctx.decode_each(&step)?;
    }
    let mut out = std::io::stdout().lock();
    for seq in 0..N {
        texts[seq].extend(detoks[seq].flush());
        write!(out, "Sequence {}:\n\n", seq)?;
        out.write_all(&texts[seq])?;
        out.write_all(b"\n\n")?;
    }
    Ok(())
}
