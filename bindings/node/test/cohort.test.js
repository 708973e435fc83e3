// Tests of the Node bindings, for node:test. tests/e2e/bindings_node.sh runs them and sets COHORT_LIBRARY,
// COHORT_TEST_MODEL, COHORT_TEST_LAYOUT (what build/abi_layout prints) and COHORT_TEST_NPY (vectors of `cohort embed`).
'use strict';

const assert = require('node:assert');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { spawnSync } = require('node:child_process');
const { after, before, describe, it } = require('node:test');
const koffi = require('koffi');
const cohort = require('..');
const { lib, types } = require('../lib.js');

const { Batch, ChatTemplate, CohortError, Context, Engine, Grammar, Model, Sampler, abi, constants: C } = cohort;
const MODEL = process.env.COHORT_TEST_MODEL, PROMPT = 'Once upon a time';
const same = (a, b) => assert.ok(Buffer.compare(Buffer.from(a.buffer), Buffer.from(b.buffer)) === 0, 'other bits');

describe('declarations', () => {
	const ours = () => {
		const out = new Set();
		for (const [name, value] of Object.entries(abi.constants)) out.add(`const ${name} ${value}`);
		for (const [name, fields] of abi.structs) {
			const { type } = types[name];
			out.add(`struct ${name} ${koffi.sizeof(type)}`);
			for (const f of Object.keys(fields)) {
				const m = koffi.type(type).members[f];
				out.add(`field ${name}.${f} ${koffi.offsetof(type, f)} ${m.type.size}`);
			}
		}
		return out;
	};
	const differences = (a, b) => [...a].filter((x) => !b.has(x)).concat([...b].filter((x) => !a.has(x)));

	it('are what the C compiler says', () => {
		// Seen red with a field of abi.js left out, and with an int32_t in the place of an int64_t.
		const text = fs.readFileSync(process.env.COHORT_TEST_LAYOUT, 'utf8').trim();
		const theirs = new Set(text.split('\n'));
		assert.ok(theirs.size > 500);
		assert.deepStrictEqual(differences(ours(), theirs), []);
		const planted = new Set(text.replace('COHORT_E_IO -4', 'COHORT_E_IO -5').split('\n'));
		assert.strictEqual(differences(ours(), planted).length, 2);
	});

	it('index.d.ts names what is there', () => {
		const text = fs.readFileSync(path.join(__dirname, '..', 'index.d.ts'), 'utf8');
		const declared = [...text.matchAll(/^export (?:class|function|const) (\w+)/gm)].map((m) => m[1]);
		assert.deepStrictEqual(declared.sort(), Object.keys(cohort).sort());
		for (const [, name, body] of text.matchAll(/^export class (\w+)[^{]*\{\n([^]*?)^\}/gm)) {
			const all = Object.getOwnPropertyNames(cohort[name].prototype);
			for (const m of all.filter((x) => !/^_|^(constructor|name|closed)$/.test(x)))
				assert.match(body, new RegExp(`^\t(readonly )?${m}\\b`, 'm'), `no ${name}.${m}`);
			for (const [, m] of body.matchAll(/^\t(\w+)\(/gm))
				assert.ok(m in cohort[name].prototype, `${name}.${m} is not there`);
		}
	});

	// The package in a process of its own, changed: what it says when it is loaded.
	const loaded = (env, old = '', now = '') => {
		const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'cohort-node-'));
		try {
			for (const f of ['index.js', 'engine.js', 'lib.js', 'abi.js', 'package.json'])
				fs.copyFileSync(path.join(__dirname, '..', f), path.join(dir, f));
			const modules = path.join(path.dirname(require.resolve('koffi')), '..');
			fs.symlinkSync(modules, path.join(dir, 'node_modules'));
			const file = path.join(dir, 'abi.js'), text = fs.readFileSync(file, 'utf8');
			assert.ok(text.includes(old));
			fs.writeFileSync(file, text.replace(old, now));
			if (env.own) fs.copyFileSync(process.env.COHORT_LIBRARY, path.join(dir, 'libcohort.so.0'));
			const code = env.code || 'console.log(require(process.argv[1]).version())';
			const r = spawnSync(process.execPath, ['-e', code, dir],
				{ env: { ...process.env, ...env }, encoding: 'utf8' });
			return r.status === 0 ? r.stdout.trim() : r.stderr;
		} finally {
			fs.rmSync(dir, { recursive: true });
		}
	};
	it('a process can load two copies', () => { // a test runner that loads modules anew does
		const code = 'require(process.argv[1]); ' +
			'for (const f in require.cache) if (!f.includes("koffi")) delete require.cache[f]; ' +
			'console.log(require(process.argv[1]).version())';
		assert.match(loaded({ code }), /^0\.\d+\.\d+$/); // seen red: Duplicate type name
	});
	it('the library is looked for, and one that does not fit is named', () => {
		assert.match(loaded({ COHORT_LIBRARY: '/nowhere/x.so' }),
			/LibraryError: libcohort was not found: \/nowhere\/x\.so.*COHORT_LIBRARY/);
		assert.match(loaded({ COHORT_LIBRARY: 'libm.so.6' }),
			/LibraryError: libm\.so\.6 has no cohort_version: it is not libcohort/);
		assert.match(loaded({ COHORT_LIBRARY: '', own: '1' }), /^0\.\d+\.\d+$/);
		assert.match(loaded({}, 'version = [0, ', 'version = [0, 9'),
			/is version 0\.\d+\.\d+; these bindings are for 0\.9/);
		assert.match(loaded({}, '\t\tn_checkpoints: \'int32_t\',\n\t\tn_blocks: \'int32_t\',\n', ''),
			/struct cohort_context_params has \d+ bytes in .* and \d+ in these bindings/);
	});
});

describe('with a model', () => {
	let model;
	before(async () => { model = await Model.open(MODEL); });
	after(() => model.close());
	const context = (options) => new Context(model, { n_ctx: 256, n_seq_max: 4, ...options });

	it('tokens', () => {
		for (const text of [PROMPT, '', 'Ä€ \u{1f600} z', Buffer.from([0xff, 0, 0xfe]), 'a'.repeat(5000)])
			assert.ok(model.detokenize(model.tokenize(text, { bos: false })).equals(Buffer.from(text)));
		assert.strictEqual(model.tokenize(PROMPT)[0], model.bos);
		assert.ok(model.isEog(model.eos) && !model.isEog(300));
		assert.strictEqual(model.info.arch, 'llama');
		const d = model.detok({ atStart: true }), text = 'A \u{1f600} b';
		const out = model.tokenize(text, { bos: false }).map((t) => d.push(t));
		out.forEach((b) => assert.ok(!b.toString().includes('\ufffd')));
		assert.strictEqual(Buffer.concat([...out, d.flush()]).toString(), text);
		assert.strictEqual(model.piece(model.tokenize(PROMPT)[2]).toString(), ' upon');
	});

	it('a token of any length', () => {
		const u32 = (x) => Buffer.from(Uint32Array.of(x).buffer);
		const u64 = (x) => Buffer.from(BigUint64Array.of(BigInt(x)).buffer);
		const text = (s) => Buffer.concat([u64(s.length), Buffer.from(s)]);
		const list = (kind, items) => Buffer.concat([u32(kind), u64(items.length), ...items]);
		const tokens = ['<unk>', '<s>', '</s>', 'a '.repeat(2500)]; // with spaces: it is in no text, and so not bounded
		const pairs = [['general.architecture', 8, text('llama')], ['tokenizer.ggml.model', 8, text('llama')],
			['tokenizer.ggml.tokens', 9, list(8, tokens.map(text))],
			['tokenizer.ggml.scores', 9, list(6, tokens.map(() => u32(0)))],
			['tokenizer.ggml.token_type', 9, list(5, [2, 3, 3, 1].map(u32))]];
		const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'cohort-node-')), file = path.join(dir, 'v.gguf');
		try {
			fs.writeFileSync(file, Buffer.concat([Buffer.from('GGUF'), u32(3), u64(0), u64(pairs.length),
				...pairs.flatMap(([key, kind, value]) => [text(key), u32(kind), value])]));
			const m = Model.openSync(file, { vocab_only: true });
			assert.strictEqual(m.piece(3).toString(), tokens[3]); // seen red: 4096 bytes were the most
			assert.strictEqual(m.detok().push(3).toString(), tokens[3]);
			m.close();
		} finally {
			fs.rmSync(dir, { recursive: true });
		}
	});

	it('errors carry their fields', async () => {
		await assert.rejects(Model.open('/nowhere.gguf'), { name: 'CohortError', status: C.COHORT_E_IO });
		assert.throws(() => Model.openSync(__filename),
			{ status: C.COHORT_E_FORMAT, offset: 0, message: /GGUF/ });
		assert.throws(() => new Context(model, { n_cxt: 5 }), TypeError);
		assert.throws(() => new Context(model, { n_ctx: 'many' }), TypeError);
		const ctx = context();
		await ctx.decodeMany([1, 2, 3]);
		await assert.rejects(ctx.decodeOne(5, 7), (e) => {
			assert.ok(e instanceof CohortError);
			const fields = [e.status, e.rule, e.row, e.seq, e.expected, e.got];
			assert.deepStrictEqual(fields, [C.COHORT_E_BATCH, 'pos-start', 0, 0, 3, 7]);
			return true;
		});
		await assert.rejects(ctx.decodeMany(Array(400).fill(5), 3),
			{ status: C.COHORT_NO_ROOM, rule: 'kv-room' });
		assert.strictEqual(ctx.seqLength(0), 3);
		assert.throws(() => ctx.logits(7), CohortError);
		ctx.close();
	});

	it('what is no whole number is not taken for one', async () => {
		const ctx = context(), row = { token: 5, pos: 0, seq: 0 };
		for (const bad of [undefined, NaN, null, 5.5, '5', 2 ** 32 + 5]) { // all but one were token 0 or 5
			for (const use of [() => ctx.decodeMany([bad]), () => ctx.decodeOne(bad, 0),
				async () => ctx.decodeEach([{ ...row, token: bad }]),
				async () => ctx.decodeScatter([{ tokens: [5], seq: bad }]),
				async () => new Batch(4).add(bad, 0), async () => Batch.fromTokens([bad]),
				async () => model.detokenize([bad]), async () => model.piece(bad)])
				await assert.rejects(async () => use(), /whole number/, `${bad}`);
		}
		assert.throws(() => new Context(model, { n_ctx: 64.5 }), /^TypeError: n_ctx: 64.5: a whole number/);
		assert.throws(() => new Sampler(model, { seed: -1 }), /^RangeError.*: seed: /); // seen red: "value"
		assert.strictEqual(ctx.seqLength(0), 0);
	});

	it('what is closed throws, what is in use lives on', async () => {
		// Seen red with an `end` that does not look at users: the process then dies.
		const m = await Model.open(MODEL), ctx = new Context(m, { n_ctx: 64 }), d = m.detok();
		m.close();
		m.close();
		assert.throws(() => m.tokenize('x'), /the model is closed/);
		assert.throws(() => new Context(m), /closed/);
		assert.throws(() => d.push(5), /closed/);
		const first = ctx.decodeMany([1, 2, 3]), second = ctx.decodeOne(5, 3);
		assert.throws(() => ctx.logits(), /busy/);
		ctx.close();
		assert.throws(() => ctx.decodeOne(5, 4), /closed/);
		await Promise.all([first, second]);
		assert.throws(() => ctx.logits(), /closed/);
	});

	it('what cannot be done holds nothing', () => {
		// Seen red with each held in turn: the context was never freed.
		const ctx = context(), b = new Batch(4);
		b.close();
		assert.throws(() => ctx.decode(b), /the batch is closed/);
		ctx.close();
		assert.ok(ctx._state.freed);
	});

	it('chat templates', () => {
		const messages = [{ role: 'user', content: 'Ä " \\ \n' }];
		const t = new ChatTemplate(model, '{{ bos_token }}{{ messages[0].content }}{{ word }}é');
		assert.strictEqual(t.render(messages, { word: 'x' }), '<s>Ä " \\ \nxé');
		const tokens = t.tokens(messages, { word: 'x' });
		assert.strictEqual(tokens.filter((k) => k === model.bos).length, 1);
		assert.strictEqual(tokens[0], model.bos);
		t.close();
		assert.throws(() => t.render(messages), /is closed/);
		const own = new ChatTemplate(model);
		assert.ok(own.render(messages).endsWith('<|assistant|>'));
		assert.ok(!own.render(messages, { addGenerationPrompt: false }).endsWith('<|assistant|>'));
		assert.strictEqual(own.tokens(messages)[0], model.bos);
		assert.throws(() => new ChatTemplate(model, 'a\n{% if %}'), { status: C.COHORT_E_FORMAT, row: 2 });
	});

	it('a grammar lives as long as its samplers, and their copies', () => {
		const g = new Grammar(model, 'root ::= "yes"'), a = new Sampler(model, { grammar: g });
		g.close();
		const b = a.clone();
		a.close();
		assert.ok(!g._state.freed && !b.isComplete);
		b.close();
		assert.ok(g._state.freed);
	});

	// In a process of its own, as it needs a flag.
	const withCollector = (code) => {
		const all = `const { Context, Engine, Model } = require(${JSON.stringify(path.join(__dirname, '..'))});
			const { Struct } = require(${JSON.stringify(path.join(__dirname, '..', 'lib.js'))});
			const collect = async () => {
				for (let i = 0; i < 5; i++) {
					gc();
					await new Promise((done) => setTimeout(done, 5));
				}
			};
			(async () => { ${code} })();`;
		const r = spawnSync(process.execPath, ['--expose-gc', '-e', all], { encoding: 'utf8' });
		return r.stdout.trim() + r.stderr;
	};
	it('what is not closed is freed when it was collected', () => {
		// Seen red with requests whose free function shared its scope with `this`.
		assert.strictEqual(withCollector(`
			const model = await Model.open(process.env.COHORT_TEST_MODEL);
			const engine = new Engine(model, { n_slots: 1, n_ctx: 64 });
			const states = [];
			for (let i = 0; i < 4; i++) {
				const r = engine.submit([5, 6], { max_tokens: 1 });
				const ctx = new Context(model, { n_ctx: 64 });
				states.push(r._state, ctx._state);
				for await (const e of r);
			}
			await collect();
			console.log(states.filter((s) => s.freed).length >= 6);`), 'true');
	});
	it('what a struct points to lives as long as its bytes', () => {
		assert.strictEqual(withCollector(`
			let there;
			const bytes = (() => {
				const s = new Struct('cohort_model_params'), isa = Buffer.from('ref');
				there = new WeakRef(isa);
				return s.point('isa', isa).buffer;
			})();
			await collect();
			console.log(there.deref() !== undefined, bytes.length > 0);`), 'true true');
	});

	it('batched is alone', async () => {
		const texts = [PROMPT, 'The cat', 'One day, a bird sang'].map((t) => model.tokenize(t)), alone = [];
		for (const t of texts) {
			const ctx = context();
			await ctx.decodeMany(t);
			alone.push(ctx.logits());
		}
		let ctx = context();
		const indexes = await ctx.decodeScatter(texts.map((tokens, seq) => ({ tokens, seq })));
		indexes.forEach((at, i) => same(ctx.logits(at), alone[i]));
		ctx = context();
		const b = new Batch(64);
		texts.forEach((t, seq) => t.forEach((token, pos) => b.add(token, pos, seq, pos === t.length - 1)));
		assert.strictEqual(b.length, texts.flat().length);
		ctx.check(b);
		const done = ctx.decode(b);
		assert.throws(() => b.add(1, 1), /busy/);
		await done;
		alone.forEach((a, i) => same(ctx.logits(i - 3), a));
		assert.strictEqual(ctx.nOutputs, 3);
		ctx = context();
		await ctx.decode(Batch.fromTokens(texts[0]));
		const kept = ctx.logits();
		await ctx.decodeOne(5, texts[0].length);
		same(kept, alone[0]);
	});

	it('sequences and states', async () => {
		const ctx = context();
		await ctx.decodeMany([1, 2, 3, 4]);
		ctx.seqCp(0, 1);
		assert.strictEqual(ctx.usage().n_shared, 1);
		await ctx.decodeEach([{ token: 7, pos: 4, seq: 0 }, { token: 7, pos: 4, seq: 1 }]);
		const want = ctx.logits(0);
		same(ctx.logits(1), want);
		ctx.seqRm(0, 4);
		for (const [state, seq, to] of [[ctx.save(), -1, 0], [ctx.save(0), 2, 2]]) {
			const other = context();
			other.restore(state, seq);
			await other.decodeOne(7, 4, to);
			same(other.logits(), want);
			state[0] ^= 1;
			assert.throws(() => other.restore(state, seq), { status: C.COHORT_E_FORMAT });
		}
		ctx.seqKeep(1);
		assert.deepStrictEqual([ctx.seqLength(0), ctx.seqLength(1)], [0, 5]);
		ctx.seqClear();
		assert.strictEqual(ctx.usage().n_used, 0);
	});

	it('the event loop goes on while the library computes', async () => {
		const ctx = context({ n_ctx: 1024, n_threads: 1 });
		let ticks = 0;
		const timer = setInterval(() => ticks++, 1);
		await ctx.decodeMany(Array(700).fill(5));
		clearInterval(timer);
		assert.ok(ticks > 3, `${ticks} ticks`); // seen red with the call made at once
	});

	it('samplers and grammars', async () => {
		const ctx = context();
		await ctx.decodeMany(model.tokenize(PROMPT));
		const five = (s) => Array.from({ length: 5 }, () => s.sample(ctx));
		const a = new Sampler(model, { seed: 5, stream: 1 }), first = five(a), b = a.clone();
		assert.deepStrictEqual(five(a), five(b));
		a.reset();
		assert.deepStrictEqual(five(a), first);
		b.reseed(5, 1);
		assert.strictEqual(b.sample(ctx.logits()), first[0]);
		const logits = ctx.logits(), best = logits.indexOf(Math.max(...logits));
		assert.strictEqual(new Sampler(model, { temperature: 0 }).sample(ctx), best);
		const never = new Sampler(model, { temperature: 0, bias: { [best]: -Infinity } });
		assert.notStrictEqual(never.sample(ctx), best);
		assert.throws(() => new Sampler(model, { order: 'none' }), CohortError);
		assert.throws(() => a.sample([1, 2]), RangeError);
		for (const name of ['n_bias', 'n_order', 'n_dry_breakers', 'lexicon', 'struct_size'])
			assert.throws(() => new Sampler(model, { [name]: 3 }), TypeError);
		new Sampler(model, { dry_multiplier: 1, dry_breakers: ['\n'] }).sample(ctx);
		const g = new Grammar(model, 'root ::= "yes" | "no"');
		assert.deepStrictEqual(g.match('ye'), { matched: 2, complete: false });
		const strict = new Sampler(model, { grammar: g, seed: 1 }), d = model.detok();
		g.close(); // the sampler keeps it, and its clones do
		const s = strict.clone();
		let text = '';
		for (let token; !model.isEog(token = s.draw(ctx)); text += d.push(token)) s.accept(token);
		assert.ok(['yes', 'no'].includes(text) && s.isComplete, text);
		assert.throws(() => new Grammar(model, 'root ::= ('), { status: C.COHORT_E_FORMAT });
		assert.throws(() => new Sampler(model, { grammar: g }), /closed/);
	});

	describe('an engine', () => {
		let engine;
		const outputs = C.COHORT_OUTPUT_LOGITS | C.COHORT_OUTPUT_EMBEDDINGS;
		before(() => {
			engine = new Engine(model, { n_slots: 4, n_ctx: 1024, outputs, strategy: 'balanced' });
		});
		after(() => engine.close());
		const ask = async (seed) => {
			let text = '';
			for await (const e of engine.submit(PROMPT, { max_tokens: 8, seed })) text += e.text;
			return text;
		};

		it('many at once read what each reads alone', async () => {
			const said = await Promise.all(Array.from({ length: 12 }, (_, i) => ask(i)));
			assert.strictEqual(said[5], await ask(5));
			assert.ok(new Set(said).size > 3);
			assert.strictEqual(engine.stats().strategy, 'balanced');
			assert.ok(cohort.strategies().includes('balanced'));
		});

		it('events', async () => {
			const r = engine.submit(PROMPT,
				{ max_tokens: 6, n_outputs: 2, seed: 3, n_logprobs: 2, prompt_logprobs: true,
					chain_logprobs: true });
			const events = [];
			for await (const e of r) events.push(e);
			const tokens = events.filter((e) => e.kind === 'token');
			assert.strictEqual(tokens.length, 12);
			assert.ok(tokens.every((e) => e.top.length === 2 && e.logprob <= 0));
			const ends = events.filter((e) => e.kind === 'end');
			const prompt = events.find((e) => e.kind === 'prompt');
			assert.deepStrictEqual(ends.map((e) => e.finish), ['length', 'length']);
			assert.ok(tokens.some((e) => e.chain_logprob > e.logprob) && // among fewer: likelier
				tokens.every((e) => e.chain_logprob <= 0));
			const n = model.tokenize(PROMPT).length;
			assert.deepStrictEqual([prompt.logprobs.length, prompt.top.length], [n, n]);
			assert.deepStrictEqual(prompt.top[0], Array(2).fill({ token: -1, logprob: -Infinity }));
			assert.ok(prompt.top.every(([a, b], i) => i === 0 ||
				(a.logprob >= b.logprob && a.logprob >= prompt.logprobs[i])));
			assert.ok(engine.stats().n_ended.length > 0);
			for (const i of [0, 1]) {
				const o = r.output(i), own = events.filter((e) => e.output === i);
				assert.deepStrictEqual(o.text, Buffer.concat(own.map((e) => e.text)));
				const told = own.filter((e) => e.kind === 'token').map((e) => e.token);
				assert.deepStrictEqual(o.tokens, told);
			}
			assert.strictEqual(r.stats().n_generated, 12);
			r.close();
			assert.throws(() => r.output(0), /closed/);
		});

		it('stops, grammars, refusals', async () => {
			const full = await engine.submit(PROMPT, { max_tokens: 20, temperature: 0 }).text();
			const cut = engine.submit(PROMPT, { max_tokens: 20, temperature: 0, stop: [' a '] });
			assert.strictEqual(await cut.text(), full.slice(0, full.indexOf(' a ')));
			assert.strictEqual(cut.output().finish, 'stop');
			const grammar = Grammar.fromSchema(model, { enum: ['red', 'green'] });
			const r = engine.submit('A colour:', { grammar });
			const given = engine.submit('A colour:', { grammar });
			given.close(); // before it has ended: the engine still uses the grammar
			grammar.close();
			assert.ok(['red', 'green'].includes(JSON.parse(await r.text())));
			assert.deepStrictEqual(await given.next(), { value: undefined, done: true });
			assert.throws(() => engine.submit(PROMPT, { max_tokens: 5000 }), { rule: 'context' });
			assert.throws(() => engine.submit(PROMPT, { max_token: 5 }), TypeError);
			assert.throws(() => engine.submit([]), CohortError);
			assert.throws(() => new Engine(model, { strategy: 'none' }), RangeError);
		});

		it('cancel', async () => {
			const r = engine.submit(PROMPT, { max_tokens: 900, ignore_eos: true });
			let end;
			for await (const e of r) {
				if (e.kind === 'token' && e.index === 2) r.cancel();
				end = e;
			}
			assert.strictEqual(end.finish, 'cancelled');
			for await (const e of engine.submit(PROMPT, { max_tokens: 900, ignore_eos: true }))
				if (e.index === 2) break; // leaves, which cancels it
			assert.strictEqual(await ask(1), await ask(1));
		});

		it('closed: its requests end', async () => {
			const e = new Engine(model, { n_slots: 2, n_ctx: 1024 });
			const r = e.submit(PROMPT, { max_tokens: 900, ignore_eos: true });
			await r.next();
			await e.close();
			let end;
			for await (const x of r) end = x;
			assert.strictEqual(end.finish, 'shutdown');
			assert.throws(() => e.submit(PROMPT), /closed/);
		});

		it('a tick that fails: its requests end, and the cause is named', async () => {
			const e = new Engine(model, { n_slots: 2, n_ctx: 1024 });
			const { async: tick } = lib.cohort_engine_tick;
			lib.cohort_engine_tick.async = (...args) => setImmediate(args.at(-1), new Error('no more'));
			const r = e.submit(PROMPT, { max_tokens: 5 });
			await r.wait();
			lib.cohort_engine_tick.async = tick;
			assert.strictEqual(r.output().finish, 'shutdown');
			assert.throws(() => e.submit(PROMPT), /the engine is closed: no more/);
			await e.close();
		});

		it('its requests hold the model', async () => {
			const m = await Model.open(MODEL), e = new Engine(m, { n_slots: 2, n_ctx: 1024 });
			const tokens = m.tokenize(PROMPT);
			m.close(); // the engine holds it
			const [a, b] = [0, 1].map(() => e.submit(tokens, { max_tokens: 8, seed: 3 }));
			const want = await a.text();
			await b.wait();
			a.close();
			await e.close();
			assert.strictEqual(m._state.freed, false); // text is made from its vocabulary as it is read
			assert.strictEqual(await b.text(), want);
			b.close();
			assert.strictEqual(m._state.freed, true);
		});

		it('embeddings', async () => {
			const want = fs.readFileSync(process.env.COHORT_TEST_NPY);
			const texts = ['a cat sat down', 'stock prices fell'];
			const got = await Promise.all(texts.map((t) => engine.embed(t)));
			const all = Buffer.concat(got.map((v) => Buffer.from(v.buffer)));
			assert.ok(want.subarray(want.length - all.length).equals(all));
			const e = new Engine(model, { n_ctx: 256 });
			await assert.rejects(e.embed('x'), CohortError);
			await e.close();
		});
	});
});
