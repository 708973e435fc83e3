// Models, batches, contexts, samplers and grammars; engine.js has the engine. index.d.ts says what each takes and
// gives.
'use strict';

const {
	C, CohortError, Handle, LibraryError, Struct, bytes, call, callAsync, callPointer, cstring, fill, floats, init, int32,
	koffi, lib, opened, openedAsync, pointers, samplerParams, sized, string, types, version,
} = require('./lib.js');

const free = (name) => (p) => lib[name](p);
const tokenArray = (tokens) => Int32Array.from(tokens, int32);
const ofBytes = (n) => Buffer.alloc(n);
const big = () => Buffer.alloc(8);
const size = (b) => Number(b.readBigUInt64LE(0));

// ---- Model ----

class Model extends Handle {
	static _params(options) {
		const { isa, adapters = [], ...rest } = options;
		const p = init('cohort_model_params');
		fill([p], rest);
		if (isa !== undefined) p.point('isa', cstring(isa));
		if (adapters.length > 0) {
			const pairs = adapters.map((a) => (Array.isArray(a) ? a : [a, 1]));
			p.point('adapters', pointers(pairs.map((a) => cstring(a[0]))));
			p.point('adapter_scales', Float32Array.from(pairs.map((a) => a[1])));
			p.set('n_adapters', pairs.length);
		}
		return p;
	}
	// Opens a GGUF file on another thread.
	static async open(path, options = {}) {
		const p = Model._params(options);
		return new Model(await openedAsync('cohort_model_open', cstring(path), p.buffer), path);
	}
	static openSync(path, options = {}) {
		return new Model(opened('cohort_model_open', cstring(path), Model._params(options).buffer), path);
	}
	constructor(pointer, path) {
		if (typeof pointer !== 'bigint') throw new TypeError('Model.open or Model.openSync opens a model');
		super('model', pointer, free('cohort_model_free'));
		this._path = path;
		const i = new Struct('cohort_model_info');
		lib.cohort_model_info_get(pointer, i.buffer);
		this.info = i.object();
		delete this.info.struct_size;
		for (const f of ['arch', 'name', 'isa', 'tokenizer', 'pretokenizer', 'note']) this.info[f] = i.text(f);
	}
	// A model is immutable: it may be used while other calls on it are under way.
	_pointer() {
		if (this.closed) throw new Error('the model is closed');
		return this._state.pointer;
	}
	get bos() { return lib.cohort_token_bos(this._pointer()); }
	get eos() { return lib.cohort_token_eos(this._pointer()); }
	isEog(token) { return lib.cohort_token_is_eog(this._pointer(), token); }

	tokenize(text, { bos, special = false } = {}) {
		const data = Buffer.from(text), bound = Number(lib.cohort_tokenize_bound(data.length));
		const flags = (special ? C.COHORT_TOKENIZE_SPECIAL : 0) |
			(bos === undefined ? 0 : bos ? C.COHORT_TOKENIZE_BOS : C.COHORT_TOKENIZE_NO_BOS);
		return Array.from(sized(bound, (n) => new Int32Array(n), (out, room, n) =>
			call('cohort_tokenize', this._pointer(), data, data.length, flags, out, room, n)));
	}
	detokenize(tokens, { special = false } = {}) {
		const list = tokenArray(tokens);
		return sized(8 * list.length, ofBytes, (out, room, n) =>
			call('cohort_detokenize', this._pointer(), list, list.length, special, out, room, n));
	}
	piece(token, { leadingSpace = true, special = false } = {}) {
		return sized(64, ofBytes, (out, room, n) =>
			call('cohort_token_piece', this._pointer(), token, leadingSpace, special, out, room, n));
	}
	detok(options) { return new Detok(this, options); }

	// What tokens say, for grammars: made once.
	_lexicon() {
		if (!this._words || this._words.closed) {
			const pointer = opened('cohort_lexicon_open', this._pointer());
			this._words = new Handle('lexicon', pointer, free('cohort_lexicon_free'));
		}
		return this._words;
	}
	close() {
		if (this._words) this._words.close();
		super.close();
	}
}

// Tokens to bytes as they come, in whole characters.
class Detok {
	constructor(model, { special = false, atStart = false } = {}) {
		this._model = model;
		this._d = new Struct('cohort_detok');
		lib.cohort_detok_init(this._d.buffer, model._pointer(), special, atStart);
	}
	push(token) {
		this._model._pointer(); // throws when it is closed
		return sized(64, ofBytes, (out, room, n) =>
			call('cohort_detok_push', this._d.buffer, token, out, room, n));
	}
	flush() {
		const out = Buffer.alloc(4);
		this._model._pointer();
		return out.subarray(0, Number(lib.cohort_detok_flush(this._d.buffer, out)));
	}
}

// ---- Chat templates ----

// How a model writes conversations: the template of its file, or the Jinja text that is given.
class ChatTemplate extends Handle {
	constructor(model, source) {
		const data = source === undefined ? ChatTemplate._ofFile(model._path) : Buffer.from(source);
		super('chat template', opened('cohort_template_open', data, data.length), free('cohort_template_free'));
		this.model = model;
	}
	static _ofFile(path) {
		const g = opened('cohort_gguf_open', cstring(path)), kv = new Struct('cohort_gguf_kv');
		try {
			if (!lib.cohort_gguf_kv_find(g, cstring('tokenizer.chat_template'), kv.buffer))
				throw new Error(`${path} has no chat template: give the source of one`);
			const value = kv.sub('value');
			return bytes(value.get('str'), value.get('n_str'));
		} finally {
			lib.cohort_gguf_free(g);
		}
	}
	_special(token) { return token < 0 ? '' : this.model.piece(token, { special: true }).toString(); }
	// The text of a conversation; what is no option is a variable of the template.
	render(messages, { tools, documents, addGenerationPrompt = true, now, ...variables } = {}) {
		const p = init('cohort_template_params'), out = big(), n = big();
		const json = (x) => (x === undefined ? undefined : JSON.stringify(x));
		const texts = {
			messages: json(messages), tools: json(tools), documents: json(documents), now,
			extra: json(variables), bos_token: this._special(this.model.bos),
			eos_token: this._special(this.model.eos),
		};
		for (const [field, text] of Object.entries(texts))
			if (text !== undefined) p.point(field, cstring(text));
		p.set('add_generation_prompt', addGenerationPrompt);
		call('cohort_template_render', this._pointer(), p.buffer, out, n);
		const text = out.readBigUInt64LE(0);
		try {
			return string(text);
		} finally {
			lib.cohort_template_text_free(text);
		}
	}
	// The same as tokens, for a context or an engine. A begin token that the template writes is not there twice.
	tokens(messages, options) {
		const text = this.render(messages, options), bos = this._special(this.model.bos);
		return this.model.tokenize(text, { special: true, bos: bos && text.startsWith(bos) ? false : undefined });
	}
}

// ---- Grammar ----

class Grammar extends Handle {
	constructor(model, gbnf, { root, schema = false } = {}) {
		const lexicon = model._lexicon(), data = Buffer.from(gbnf);
		const start = root === undefined ? null : cstring(root);
		const p = schema ? opened('cohort_grammar_open_schema', lexicon._pointer(), data, data.length) :
			opened('cohort_grammar_open', lexicon._pointer(), data, data.length, start);
		super('grammar', p, free('cohort_grammar_free'), [lexicon]);
	}
	static fromSchema(model, schema) {
		const text = typeof schema === 'string' ? schema : JSON.stringify(schema);
		return new Grammar(model, text, { schema: true });
	}
	// How many bytes of a text can be followed, and whether it is a whole one.
	match(text) {
		const data = Buffer.from(text), n = big(), complete = Buffer.alloc(1);
		call('cohort_grammar_match', this._pointer(), data, data.length, n, complete);
		return { matched: size(n), complete: complete[0] !== 0 };
	}
}

// ---- Batch ----

class Batch extends Handle {
	constructor(maxTokens = 512, nEmbd = 0, nSeqMax = 1, tokens) {
		const b = new Struct('cohort_batch');
		if (tokens) {
			const list = tokenArray(tokens);
			call('cohort_batch_from_tokens', b.buffer, list, list.length);
		} else
			call('cohort_batch_init', b.buffer, maxTokens, nEmbd, nSeqMax);
		super('batch', b.buffer, free('cohort_batch_release'));
		this._nEmbd = nEmbd;
	}
	static fromTokens(tokens) { return new Batch(0, 0, 1, tokens); }
	add(token, pos, seqs = 0, output = false) {
		const ids = tokenArray([].concat(seqs));
		call('cohort_batch_add', this._pointer(), token, pos, ids, ids.length, output);
	}
	addVector(vector, pos, seqs = 0, output = false) {
		const ids = tokenArray([].concat(seqs)), n = vector.length;
		if (n !== this._nEmbd)
			throw new RangeError(`a vector of ${n} floats; the batch has rows of ${this._nEmbd}`);
		const floats32 = Float32Array.from(vector);
		call('cohort_batch_add_embd', this._pointer(), floats32, tokenArray([pos]), ids, ids.length, output);
	}
	get length() { return lib.cohort_batch_size(this._pointer()); }
	reset() { lib.cohort_batch_reset(this._pointer()); }
}

// ---- Context ----

class Context extends Handle {
	constructor(model, options = {}) {
		const p = init('cohort_context_params');
		fill([p], options);
		const pointer = opened('cohort_context_open', model._pointer(), p.buffer);
		super('context', pointer, free('cohort_context_free'), [model]);
		this.model = model;
		const i = new Struct('cohort_context_info');
		lib.cohort_context_info_get(this._pointer(), i.buffer);
		this.info = i.object();
	}

	// On another thread; several calls wait for each other, in the order they were made.
	decode(batch) { return this._later((c, b) => callAsync('cohort_decode', c, b), [batch]); }
	encode(batch) { return this._later((c, b) => callAsync('cohort_encode', c, b), [batch]); }
	check(batch) { call('cohort_check', this._pointer(), batch._pointer()); }
	decodeOne(token, pos, seq = 0, want = true) {
		return this._later((c) => callAsync('cohort_decode_one', c, token, pos, seq, want));
	}
	decodeMany(tokens, nPast = 0, seq = 0) {
		const list = tokenArray(tokens);
		return this._later((c) => callAsync('cohort_decode_many', c, list, list.length, nPast, seq));
	}
	// A token of each of several sequences; row i has output i.
	decodeEach(rows) {
		const t = types.cohort_each_item, items = Buffer.alloc(t.size * rows.length + 1);
		rows.forEach(({ token, pos, seq, want = true }, i) => {
			const s = new Struct(t.name, items.subarray(i * t.size, (i + 1) * t.size));
			s.set('token', token).set('pos', pos).set('seq', seq).set('want', want);
		});
		return this._later((c) => callAsync('cohort_decode_each', c, items, rows.length, null));
	}
	// Tokens of several sequences; gives the output index of each span's last token. One without tokens is skipped, and
	// its index says nothing.
	decodeScatter(spans) {
		const t = types.cohort_scatter_item, items = Buffer.alloc(t.size * spans.length + 1);
		const lists = spans.map((s) => tokenArray(s.tokens)), indexes = [];
		let index = -1;
		spans.forEach(({ pos = 0, seq, want = true }, i) => {
			const s = new Struct(t.name, items.subarray(i * t.size, (i + 1) * t.size));
			s.set('tokens', koffi.address(lists[i])).set('n_tokens', lists[i].length);
			s.set('pos', pos).set('seq', seq).set('want', want);
			index += lists[i].length;
			indexes.push(index);
		});
		return this._later(async (c) => {
			await callAsync('cohort_decode_scatter', c, items, spans.length, null);
			return lists.length ? indexes : [];
		});
	}

	// Outputs of the last decode, copied.
	get nOutputs() { return lib.cohort_n_outputs(this._pointer()); }
	logits(i = -1) {
		return floats(callPointer('cohort_logits_get', this._pointer(), i), this.model.info.n_vocab);
	}
	embeddings(i = -1) {
		return floats(callPointer('cohort_embeddings_get', this._pointer(), i), this.model.info.n_embd);
	}
	embeddingsSeq(seq) {
		return floats(callPointer('cohort_embeddings_seq_get', this._pointer(), seq), this.model.info.n_embd);
	}

	seqRm(seq, p0 = 0, p1 = -1) { call('cohort_seq_rm', this._pointer(), seq, p0, p1); }
	seqCp(src, dst, p0 = 0, p1 = -1) { call('cohort_seq_cp', this._pointer(), src, dst, p0, p1); }
	seqKeep(seq) { call('cohort_seq_keep', this._pointer(), seq); }
	seqAdd(seq, p0, p1, delta) { call('cohort_seq_add', this._pointer(), seq, p0, p1, delta); }
	seqClear() { lib.cohort_seq_clear(this._pointer()); }
	seqLength(seq) { return lib.cohort_seq_pos_max(this._pointer(), seq) + 1; }
	usage() {
		const u = new Struct('cohort_usage');
		lib.cohort_usage_get(this._pointer(), u.buffer);
		return u.object();
	}
	save(seq = C.COHORT_SEQ_ALL) {
		const out = Buffer.alloc(Number(lib.cohort_state_size(this._pointer(), seq)) + 1), n = big();
		call('cohort_state_save', this._pointer(), seq, out, out.length - 1, n);
		return out.subarray(0, size(n));
	}
	restore(state, seq = C.COHORT_SEQ_ALL) {
		const data = Buffer.concat([state, Buffer.alloc(1)]);
		call('cohort_state_restore', this._pointer(), seq, data, state.length);
	}
	saveFile(path, seq = C.COHORT_SEQ_ALL) {
		call('cohort_state_save_file', this._pointer(), seq, cstring(path));
	}
	restoreFile(path, seq = C.COHORT_SEQ_ALL) {
		call('cohort_state_restore_file', this._pointer(), seq, cstring(path));
	}
}

// ---- Sampler ----

class Sampler extends Handle {
	constructor(model, options = {}, of) {
		if (of) {
			const pointer = opened('cohort_sampler_clone', of._pointer());
			super('sampler', pointer, free('cohort_sampler_free'), of._handles);
			this._handles = of._handles;
			this._model = of._model;
			return;
		}
		const p = init('cohort_sampler_params');
		const { rest, handles } = samplerParams(p, model, options);
		fill([p], rest);
		const pointer = opened('cohort_sampler_open', p.buffer, model.info.n_vocab);
		super('sampler', pointer, free('cohort_sampler_free'), handles);
		this._handles = handles;
		this._model = model;
	}
	clone() { return new Sampler(null, {}, this); }
	_pick(name, source, i) {
		const out = Buffer.alloc(4);
		let logits = source;
		const n = source instanceof Context ? source.model.info.n_vocab : source.length;
		if (n !== this._model.info.n_vocab)
			throw new RangeError(`${n} logits; the sampler is for ${this._model.info.n_vocab}`);
		if (source instanceof Context) logits = callPointer('cohort_logits_get', source._pointer(), i);
		else if (!(source instanceof Float32Array)) logits = Float32Array.from(source);
		call(name, this._pointer(), logits, out);
		return out.readInt32LE(0);
	}
	// Picks a token from output i of a context, or from logits, and accepts it.
	sample(source, i = -1) { return this._pick('cohort_sampler_sample', source, i); }
	// The same without accepting it.
	draw(source, i = -1) { return this._pick('cohort_sampler_draw', source, i); }
	accept(token) { call('cohort_sampler_accept', this._pointer(), token); }
	prompt(tokens) { call('cohort_sampler_prompt', this._pointer(), tokenArray(tokens), tokens.length); }
	reset() { lib.cohort_sampler_reset(this._pointer()); }
	reseed(seed, stream = 0) { lib.cohort_sampler_reseed(this._pointer(), BigInt(seed), BigInt(stream)); }
	get isComplete() { return lib.cohort_sampler_is_complete(this._pointer()); }
}

module.exports = {
	Batch, ChatTemplate, CohortError, Context, Detok, Grammar, LibraryError, Model, Sampler,
	abi: require('./abi.js'),
	constants: C,
	version: () => version,
	...require('./engine.js'),
};
