// Continuous batching. The engine has no thread of its own: its ticks run one after the other on a thread of the pool,
// and between two of them what happened is handed to the readers. So no reader takes a thread while it waits, and no
// call of the library waits for the event loop.
'use strict';

const {
	C, Handle, Struct, bytes, call, callAsync, cstring, errorAt, fill, floats, init, int32, ints, lib, opened,
	pointers, samplerParams, string, types,
} = require('./lib.js');

const kinds = {
	[C.COHORT_EVENT_PROMPT]: 'prompt', [C.COHORT_EVENT_TOKEN]: 'token', [C.COHORT_EVENT_EMBEDDING]: 'embedding',
	[C.COHORT_EVENT_END]: 'end',
};
const finish = (f) => (f ? string(lib.cohort_finish_name(f)) : '');

// Of each of n places the tokens that are likeliest there.
function topOf(p, n, nTop) {
	const t = types.cohort_logprob, all = bytes(p, n * nTop * t.size);
	return Array.from({ length: n }, (_, i) => Array.from({ length: nTop }, (__, k) => {
		const at = (i * nTop + k) * t.size, s = new Struct(t.name, all.subarray(at, at + t.size));
		return { token: s.get('token'), logprob: s.get('logprob') };
	}));
}

// A copy: what an event points to is good until the next is asked for.
function eventOf(e) {
	const kind = kinds[e.get('kind')], out = { kind };
	if (kind === 'token' || kind === 'end') {
		out.output = e.get('output');
		out.text = bytes(e.get('text'), e.get('n_bytes'));
	}
	if (kind === 'token') {
		for (const f of ['index', 'token', 'logprob', 'chain_logprob']) out[f] = e.get(f);
		[out.top] = topOf(e.get('top'), 1, e.get('n_top'));
	}
	if (kind === 'prompt') {
		out.logprobs = floats(e.get('prompt_logprobs'), e.get('n_prompt'));
		out.top = topOf(e.get('prompt_top'), e.get('n_prompt'), e.get('n_top'));
	}
	if (kind === 'embedding') out.embedding = floats(e.get('embedding'), e.get('n_embd'));
	if (kind === 'end') Object.assign(out, { finish: finish(e.get('finish')), error: errorAt(e.get('error')) });
	return out;
}

const freeRequest = (p) => lib.cohort_request_free(p);
const freeEngine = (p) => lib.cohort_engine_free(p);

// A request that was submitted: `for await` gives its events as they come.
class Request extends Handle {
	constructor(pointer, handles, engine) {
		// Text is made from the model's vocabulary as it is read.
		super('request', pointer, freeRequest, [engine.model, ...handles]);
		this._engine = engine;
		this._events = [];
		this._waiting = []; // readers
		this._done = false;
		this._left = false; // closed; freed when it has ended, as until then the engine uses its grammar
		this._ended = new Promise((resolve) => { this._end = resolve; });
	}
	// Takes what there is; called between two ticks.
	_pump() {
		const e = new Struct('cohort_event');
		while (!this._done) {
			call('cohort_request_next', this._state.pointer, 0, e.buffer);
			const kind = e.get('kind');
			if (kind === C.COHORT_EVENT_NONE) break;
			if (kind === C.COHORT_EVENT_DONE) this._done = true;
			else if (!this._left) this._events.push(eventOf(e));
		}
		if (this._done) {
			this._engine._live.delete(this);
			this._end();
			if (this._left) super.close();
		}
		this._wake();
	}
	get closed() { return this._left; }
	_pointer() {
		if (this._left) throw new Error('the request is closed');
		return super._pointer();
	}
	_wake() {
		while (this._waiting.length > 0 && (this._events.length > 0 || this._done || this._left)) {
			const value = this._events.shift();
			this._waiting.shift()(value === undefined ? { value, done: true } : { value, done: false });
		}
	}
	next() {
		return new Promise((resolve) => {
			this._waiting.push(resolve);
			this._wake();
		});
	}
	// A reader that leaves the loop wants no more.
	return() {
		this.close();
		return Promise.resolve({ value: undefined, done: true });
	}
	[Symbol.asyncIterator]() { return this; }

	// Waits for the end.
	wait() { return this._ended; }
	// The text of an output, when it has ended; throws what it failed with.
	async text(output = 0) {
		await this._ended;
		const o = this.output(output);
		if (o.error) throw o.error;
		return o.text.toString('utf8');
	}
	// An output that has ended.
	output(i = 0) {
		const o = new Struct('cohort_output');
		call('cohort_request_output_get', this._pointer(), i, o.buffer);
		const n = o.get('n_tokens'), logprobs = o.get('logprobs');
		return {
			text: bytes(o.get('text'), o.get('n_bytes')),
			tokens: ints(o.get('tokens'), n),
			logprobs: logprobs ? floats(logprobs, n) : null,
			finish: finish(o.get('finish')),
			error: errorAt(o.get('error')),
		};
	}
	// Ends it, within one ubatch; what was said before stays.
	cancel() {
		lib.cohort_request_cancel(this._pointer());
		this._engine._run();
	}
	stats() {
		const s = new Struct('cohort_request_stats');
		lib.cohort_request_stats_get(this._pointer(), s.buffer);
		return s.object();
	}
	close() {
		if (this._left) return;
		if (this._done) super.close();
		else this.cancel();
		this._left = true;
		this._events = [];
		this._wake();
	}
}

// Many users of one model.
class Engine extends Handle {
	constructor(model, options = {}) {
		const { strategy, ...rest } = options;
		const p = init('cohort_engine_params');
		fill([p, p.sub('context')], { ...rest, manual: true });
		if (strategy !== undefined) {
			const s = lib.cohort_strategy_find(cstring(strategy));
			const all = strategies().join(', ');
			if (!s) throw new RangeError(`no strategy is called ${strategy}; there are: ${all}`);
			p.set('strategy', s);
		}
		const pointer = opened('cohort_engine_open', model._pointer(), p.buffer);
		super('engine', pointer, freeEngine, [model]);
		this.model = model;
		this._live = new Set(); // requests that have not ended
		this._running = null;
		this._nSubmitted = 0;
	}
	// Its functions may be called while it ticks.
	_pointer() {
		const why = this._failure; // of a tick, which ended it
		if (why) throw new Error(`the engine is closed: ${why.message}`, { cause: why });
		if (this.closed) throw new Error('the engine is closed');
		return this._state.pointer;
	}
	// Ticks until there is nothing left to do.
	_run() {
		if (this._running || this.closed) return;
		this._running = this._later(async (engine) => {
			const idle = Buffer.alloc(1);
			let n;
			do {
				n = this._nSubmitted;
				await callAsync('cohort_engine_tick', engine, idle);
				this._hand();
			} while (!this.closed && (idle[0] === 0 || n !== this._nSubmitted));
		}).catch((e) => {
			this._failure = e;
			super.close();
		}).finally(() => {
			this._running = null;
			if (this.closed) this._hand();
			else if (this._live.size > 0) this._run();
		});
	}
	_hand() {
		for (const r of [...this._live]) r._pump();
	}

	// Queues a request: a text (tokenised as the model wants it) or tokens.
	submit(prompt, options = {}) {
		const { stop = [], stop_tokens: ends = [], ...more } = options;
		const isText = typeof prompt === 'string' || Buffer.isBuffer(prompt);
		const tokens = isText ? this.model.tokenize(prompt) : prompt;
		const p = init('cohort_request_params'), s = p.sub('sampler');
		const { rest, handles } = samplerParams(s, this.model, more);
		fill([p, s], rest);
		if (tokens.length > 0) p.point('prompt', Int32Array.from(tokens, int32)).set('n_prompt', tokens.length);
		if (stop.length > 0) p.point('stops', pointers(stop.map(cstring))).set('n_stops', stop.length);
		if (ends.length > 0)
			p.point('stop_tokens', Int32Array.from(ends, int32)).set('n_stop_tokens', ends.length);
		const r = new Request(opened('cohort_engine_submit', this._pointer(), p.buffer), handles, this);
		this._live.add(r);
		this._nSubmitted++;
		this._run();
		return r;
	}
	// The embedding of a text, not normalised. The engine needs outputs with COHORT_OUTPUT_EMBEDDINGS.
	async embed(prompt, options = {}) {
		const pooling = this.model.info.pooling || C.COHORT_POOL_MEAN;
		const r = this.submit(prompt, { pooling, ...options, task: C.COHORT_TASK_EMBED });
		for await (const e of r) {
			if (e.kind === 'embedding') return e.embedding;
			if (e.error) throw e.error;
		}
		throw new Error('the request ended without an embedding');
	}
	stats() {
		const s = new Struct('cohort_engine_stats');
		lib.cohort_engine_stats_get(this._pointer(), s.buffer);
		const at = s.type.offsets.n_ended, ended = {}; // by the name of the finish
		for (let i = C.COHORT_FINISH_NONE + 1; i <= C.COHORT_FINISH_SHUTDOWN; i++)
			ended[finish(i)] = Number(s.buffer.readBigUInt64LE(at + 8 * i));
		return { ...s.object(), strategy: s.text('strategy'), n_ended: ended, last: s.sub('last').object() };
	}
	cacheClear() { lib.cohort_engine_cache_clear(this._pointer()); }

	// Stops behind the tick that is under way: what has not ended ends with "shutdown", and can be read to its end.
	async close() {
		if (this.closed) return;
		super.close();
		while (this._running) await this._running;
		this._hand();
	}
}

function strategies() {
	const at = types.cohort_strategy.offsets.name;
	return Array.from({ length: Number(lib.cohort_strategy_count()) }, (_, i) => {
		const s = bytes(lib.cohort_strategy_get(i), types.cohort_strategy.size);
		return string(s.readBigUInt64LE(at));
	});
}

module.exports = { Engine, Request, strategies };
