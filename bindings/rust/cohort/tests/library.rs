//! The safe layer against the library. COHORT_TEST_MODEL, _LAYOUT and _NPY come from tests/e2e/bindings_rust.sh.

use cohort::*;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

const PROMPT: &str = "Once upon a time";

fn file(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{} is not set", name))
}
fn model() -> Arc<Model> {
    Arc::new(Model::load(file("COHORT_TEST_MODEL")).unwrap())
}
fn context(model: &Arc<Model>) -> Context {
    Context::new(model.clone(), ContextParams { n_ctx: 256, n_seq_max: 4, ..Default::default() }).unwrap()
}
fn engine(model: &Arc<Model>) -> Engine {
    let context = ContextParams { n_ctx: 1024, outputs: Outputs::Both, ..Default::default() };
    Engine::new(model.clone(), EngineParams { n_slots: 4, context, ..Default::default() }).unwrap()
}

/// Every constant, size and offset is what the C compiler says. Seen red with a field of abi.rs left out, and with a u32
/// in the place of a u64.
#[test]
fn layout() {
    let theirs = std::fs::read_to_string(file("COHORT_TEST_LAYOUT")).unwrap();
    let ours = cohort::sys::layout();
    let (a, b): (BTreeSet<_>, BTreeSet<_>) = (ours.lines().collect(), theirs.lines().collect());
    assert!(b.len() > 500);
    assert_eq!(a.symmetric_difference(&b).collect::<Vec<_>>(), Vec::<&&str>::new());
    let planted = theirs.replace("COHORT_E_IO -4", "COHORT_E_IO -5");
    assert_eq!(a.symmetric_difference(&planted.lines().collect()).count(), 2);
    assert_eq!(cohort::sys::mismatch(), None);
}

/// Options may be asked for before anything is loaded. COHORT_TEST_MISFIT: the library's `_init` of a sampler's options
/// writes more than they have, and this is why it is refused.
#[test]
fn misfit() {
    let (params, loaded) = (SamplerParams::default(), Model::load(file("COHORT_TEST_MODEL")));
    match std::env::var("COHORT_TEST_MISFIT") {
        Ok(why) => {
            let e = loaded.err().unwrap();
            assert_eq!((e.status, e.text, params.top_k), (Status::Library, why, 0));
            assert_eq!(Batch::new(1, 0, 1).err().unwrap().status, Status::Library);
        }
        Err(_) => assert_eq!((loaded.is_ok(), params.top_k), (true, 40)),
    }
}

#[test]
fn templates() {
    let m = model();
    let t = ChatTemplate::new(m.clone(), Some("{{ bos_token }}{{ messages[0].content }}{{ word }}é")).unwrap();
    let said = [("user", "Ä \" \\ \n")];
    assert_eq!(t.render(&said).unwrap(), "<s>Ä \" \\ \né");
    let options = ChatOptions { variables: Some("{\"word\":\"x\"}".into()), ..Default::default() };
    assert_eq!(t.render_json("[{\"content\":\"y\"}]", &options).unwrap(), "<s>yxé");
    let bos = m.token_bos().unwrap();
    let tokens = t.tokens("<s>yxé").unwrap();
    assert!(tokens[0] == bos && !tokens[1..].contains(&bos));
    let own = ChatTemplate::new(m.clone(), None).unwrap();
    assert!(own.render(&said).unwrap().ends_with("<|assistant|>"));
    assert_eq!(own.tokens("x").unwrap()[0], bos);
    let e = ChatTemplate::new(m, Some("a\n{% if %}")).err().unwrap();
    assert_eq!((e.status, e.row), (Status::Format, 2));
}

#[test]
fn tokens() {
    let m = model();
    for text in [&b"Once upon a time"[..], b"", "Ä€ z".as_bytes(), b"\xff\x00\xfe", &[b'a'; 3000]] {
        assert_eq!(m.detokenize(&m.tokenize(text, false, false).unwrap(), false).unwrap(), text);
    }
    assert_eq!(m.tokenize(PROMPT, true, false).unwrap()[0], m.token_bos().unwrap());
    assert!(m.token_is_eog(m.token_eos().unwrap()) && !m.token_is_eog(300));
    assert_eq!(m.info().arch, "llama");
    let pieces = m.tokenize(PROMPT, false, false).unwrap();
    let pieces: Vec<_> = pieces.iter().map(|t| m.token_to_bytes(*t, true, false).unwrap()).collect();
    assert_eq!(pieces.concat(), b" Once upon a time");
    assert_eq!(m.token_to_bytes(-1, true, false).unwrap_err().status, Status::Arg);
    let mut d = m.detok(false, true);
    let text = "A \u{1f600} b";
    let mut out = Vec::new();
    for t in m.tokenize(text, false, false).unwrap() {
        out.extend(d.push(t).unwrap());
        std::str::from_utf8(&out).unwrap();
    }
    assert_eq!(out, text.as_bytes());
    assert!(d.flush().is_empty());
}

#[test]
fn errors() {
    let e = Model::load("/nowhere.gguf").err().unwrap();
    assert_eq!(e.status, Status::Io);
    let e = Model::load(file("COHORT_TEST_LAYOUT")).err().unwrap();
    assert_eq!((e.status, e.offset), (Status::Format, 0));
    let m = model();
    let mut ctx = context(&m);
    ctx.decode(&[1, 2, 3]).unwrap();
    let e = ctx.decode_one(5, 7, 0, true).unwrap_err();
    assert_eq!((e.status, e.rule.as_deref(), e.row, e.seq), (Status::Batch, Some("pos-start"), 0, 0));
    assert_eq!((e.expected, e.got), (3, 7));
    assert_eq!(ctx.decode(&[5; 400]).unwrap_err().status, Status::NoRoom);
    assert_eq!(ctx.seq_len(0), 3);
    assert!(ctx.logits(5).is_err());
    assert!(Model::load("a\0b").is_err());
}

#[test]
fn batches() {
    let m = model();
    let texts: Vec<_> = [PROMPT, "The cat", "One day, a bird sang"]
        .iter()
        .map(|t| m.tokenize(t, true, false).unwrap())
        .collect();
    let alone: Vec<Vec<f32>> = texts
        .iter()
        .map(|t| {
            let mut ctx = context(&m);
            ctx.decode(t).unwrap();
            ctx.logits(-1).unwrap().to_vec()
        })
        .collect();
    let mut batch = Batch::new(64, 0, 1).unwrap();
    assert!(batch.is_empty());
    for (seq, t) in texts.iter().enumerate() {
        for (pos, token) in t.iter().enumerate() {
            batch.add(*token, pos as i32, &[seq as i32], pos + 1 == t.len()).unwrap();
        }
    }
    let moved = std::thread::spawn(move || batch).join().unwrap();
    let mut ctx = context(&m);
    ctx.check(&moved).unwrap();
    ctx.decode_batch(&moved.try_clone().unwrap()).unwrap();
    assert_eq!(ctx.n_outputs(), 3);
    for (i, a) in alone.iter().enumerate() {
        assert_eq!(ctx.logits(i as i32 - 3).unwrap(), a);
    }
    let mut ctx = context(&m);
    let spans: Vec<_> =
        texts.iter().enumerate().map(|(i, t)| Span { tokens: t, pos: 0, seq: i as i32, want: true }).collect();
    for (i, at) in ctx.decode_scatter(&spans).unwrap().into_iter().enumerate() {
        assert_eq!(ctx.logits(at).unwrap(), alone[i]);
    }
    // Bare tokens, four ways.
    let mut buffer = TokenBuffer::new();
    buffer.extend(&texts[0]).unwrap();
    assert_eq!(buffer.as_slice(), texts[0]);
    for b in [
        Batch::from_tokens(&texts[0]).unwrap(),
        Batch::from_tokens_owned(texts[0].clone()).unwrap(),
        Batch::from_token_buffer(buffer).unwrap(),
        Batch::view(&texts[0]).unwrap(),
    ] {
        let mut ctx = context(&m);
        ctx.decode_batch(&b).unwrap();
        assert_eq!((b.len(), ctx.logits(-1).unwrap()), (texts[0].len(), &alone[0][..]));
    }
    let mut full = Batch::new(1, 0, 1).unwrap();
    full.add(1, 0, &[0], true).unwrap();
    assert_eq!(full.add(1, 1, &[0], true).unwrap_err().rule.as_deref(), Some("batch-full"));
    full.clear();
    assert_eq!(full.len(), 0);
    assert!(full.add_vector(&[1.0], 0, &[0], true).is_err());
    assert_eq!(Batch::default().len(), 0);
}

#[test]
fn sequences_and_states() {
    let m = model();
    let mut ctx = context(&m);
    ctx.decode(&[1, 2, 3, 4]).unwrap();
    ctx.seq_cp(0, 1, 0, -1).unwrap();
    assert_eq!(ctx.usage().n_shared, 1);
    let rows = [0, 1].map(|seq| Row { token: 7, pos: 4, seq, want: true });
    ctx.decode_each(&rows).unwrap();
    assert_eq!(ctx.logits(0).unwrap(), ctx.logits(1).unwrap());
    let want = ctx.logits(0).unwrap().to_vec();
    ctx.seq_rm(0, 4, -1).unwrap();
    let all = ctx.save(None).unwrap();
    let one = ctx.save(Some(0)).unwrap();
    for (state, seq, to) in [(&all, None, 0), (&one, Some(2), 2)] {
        let mut other = context(&m);
        other.restore(state, seq).unwrap();
        other.decode_one(7, 4, to, true).unwrap();
        assert_eq!(other.logits(-1).unwrap(), want);
    }
    let mut bad = all.clone();
    bad[0] ^= 1;
    assert_eq!(ctx.restore(&bad, None).unwrap_err().status, Status::Format);
    ctx.seq_keep(1).unwrap();
    assert_eq!((ctx.seq_len(0), ctx.seq_len(1)), (0, 5));
    ctx.seq_clear();
    assert_eq!(ctx.usage().n_used, 0);
}

#[test]
fn aborted() {
    let m = model();
    let flag = Arc::new(AtomicBool::new(true));
    let params = ContextParams { n_ctx: 64, abort: Some(flag.clone()), ..Default::default() };
    let mut ctx = Context::new(m, params).unwrap(); // and lives as long as the context
    assert_eq!(ctx.decode(&[1, 2]).unwrap_err().status, Status::Aborted);
    flag.store(false, Ordering::Relaxed);
    drop(flag);
    ctx.decode(&[1, 2]).unwrap();
}

#[test]
fn samplers() {
    let m = model();
    let mut ctx = context(&m);
    ctx.decode(&m.tokenize(PROMPT, true, false).unwrap()).unwrap();
    let params = SamplerParams { seed: 5, stream: 1, ..Default::default() };
    let mut a = params.build_chain(m.clone()).unwrap();
    let first: Vec<_> = (0..5).map(|_| a.sample(&ctx, -1).unwrap()).collect();
    let mut b = a.try_clone().unwrap();
    assert_eq!(a.sample(&ctx, -1).unwrap(), b.sample(&ctx, -1).unwrap());
    a.reset();
    assert_eq!((0..5).map(|_| a.sample(&ctx, -1).unwrap()).collect::<Vec<_>>(), first);
    let logits = ctx.logits(-1).unwrap();
    let best = (0..logits.len()).max_by(|x, y| logits[*x].total_cmp(&logits[*y])).unwrap() as i32;
    let greedy = SamplerParams { temperature: 0.0, ..Default::default() };
    assert_eq!(greedy.build_chain(&m).unwrap().sample(&ctx, -1).unwrap(), best);
    let other = SamplerParams { bias: vec![(best, f32::NEG_INFINITY)], ..greedy.clone() };
    assert_ne!(other.build_chain(&m).unwrap().sample(&ctx, -1).unwrap(), best);
    assert!(SamplerParams { order: Some("none".into()), ..greedy.clone() }.build_chain(&m).is_err());
    assert!(a.sample_logits(&[0.0; 5]).is_err());

    let grammar = Grammar::gbnf(&Lexicon::new(&m).unwrap(), r#"root ::= "yes" | "no""#).unwrap();
    assert_eq!(grammar.matches("no").unwrap(), (2, true));
    let mut s = SamplerParams { grammar: Some(grammar), ..params }.build_chain(&m).unwrap();
    let (mut text, mut d) = (Vec::new(), m.detok(false, false));
    loop {
        let token = s.draw(&ctx, -1).unwrap();
        if m.token_is_eog(token) {
            break;
        }
        s.accept(token).unwrap();
        text.extend(d.push(token).unwrap());
    }
    assert!(s.is_complete() && (text == b"yes" || text == b"no"));
}

#[test]
fn engines() {
    let m = model();
    let e = engine(&m);
    let prompt = m.tokenize(PROMPT, true, false).unwrap();
    let ask = |seed| {
        let sampler = SamplerParams { seed, ..Default::default() };
        let params = RequestParams { max_tokens: 8, sampler, ..Default::default() };
        let mut text = Vec::new();
        for event in e.submit(&prompt, &params).unwrap() {
            text.extend_from_slice(event.unwrap().text());
        }
        text
    };
    let said: Vec<_> = std::thread::scope(|s| {
        let threads: Vec<_> = (0..8).map(|i| s.spawn(move || ask(i))).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(said[3], ask(3));
    assert_eq!(e.stats().n_submitted, 9);

    // Cancelled by another thread; what came before stays.
    let long = RequestParams { max_tokens: 900, ignore_eos: true, ..Default::default() };
    let mut r = e.submit(&prompt, &long).unwrap();
    let c = r.canceller();
    assert!(matches!(r.next(), Some(Ok(Event::Token { output: 0, .. }))));
    std::thread::spawn(move || c.cancel());
    let last = r.by_ref().last().unwrap().unwrap();
    assert!(matches!(last, Event::End { finish: Finish::Cancelled, .. }), "{:?}", last);
    assert!(r.next().is_none());
    let c = r.canceller();
    drop(r);
    c.cancel(); // of one that is gone: nothing

    let stop = RequestParams { stops: vec![" a ".into()], max_tokens: 20, ..Default::default() };
    let (text, finish) = e.submit(&prompt, &stop).unwrap().finish(0).unwrap();
    assert_eq!((finish, text.windows(3).any(|w| w == b" a ")), (Finish::Stop, false));
    let e2 = e.submit(&prompt, &RequestParams { max_tokens: 5000, ..Default::default() }).err().unwrap();
    assert_eq!((e2.status, e2.rule.as_deref()), (Status::Limit, Some("context")));

    // A request that is dropped as it runs, and the last to hold its grammar.
    for _ in 0..10 {
        let grammar = Grammar::gbnf(&Lexicon::new(&m).unwrap(), "root ::= [a-z ]+").unwrap();
        let sampler = SamplerParams { grammar: Some(grammar), ..Default::default() };
        let params = RequestParams { sampler, max_tokens: 500, ..Default::default() };
        let mut r = e.submit(&prompt, &params).unwrap();
        drop(params);
        assert!(r.next().is_some());
    }

    // The engine goes first: its requests end, and can be read to the end.
    let mut left = e.submit(&prompt, &long).unwrap();
    assert!(e.drain(0.0).is_ok());
    drop(e);
    assert!(matches!(left.by_ref().last().unwrap().unwrap(), Event::End { finish: Finish::Shutdown, .. }));
    let none = EngineParams { strategy: Some("none".into()), ..Default::default() };
    assert!(Engine::new(m.clone(), none).is_err());
    assert!(strategies().contains(&"balanced".to_string()));
}

/// Texts are made from the vocabulary as they are read: what a request needs of the model it keeps.
#[test]
fn requests_left() {
    let m = model();
    let e = engine(&m);
    let prompt = m.tokenize(PROMPT, true, false).unwrap();
    let params = RequestParams { max_tokens: 8, ..Default::default() };
    let (want, _) = e.submit(&prompt, &params).unwrap().finish(0).unwrap();
    let mut left = e.submit(&prompt, &params).unwrap();
    assert!(e.drain(-1.0).unwrap());
    let there = Arc::downgrade(&m);
    drop(e);
    drop(m);
    assert!(there.upgrade().is_some());
    assert_eq!(left.by_ref().flat_map(|e| e.unwrap().text().to_vec()).collect::<Vec<_>>(), want);
    drop(left);
    assert!(there.upgrade().is_none());
}

#[test]
fn embeddings() {
    let m = model();
    let e = engine(&m);
    let want = std::fs::read(file("COHORT_TEST_NPY")).unwrap();
    let mut got = Vec::new();
    for text in ["a cat sat down", "stock prices fell"] {
        for x in e.embed(&m.tokenize(text, true, false).unwrap(), Pooling::Mean).unwrap() {
            got.extend(x.to_le_bytes());
        }
    }
    assert_eq!(want[want.len() - got.len()..], got);
}

#[test]
fn kinds() {
    fn send<T: Send>() {}
    fn sync<T: Sync>() {}
    send::<Context>();
    send::<Sampler>();
    send::<Request>();
    send::<Canceller>();
    sync::<Canceller>();
    sync::<Engine>();
    sync::<Model>();
    sync::<Grammar>();
    sync::<Batch<'static>>();
}
