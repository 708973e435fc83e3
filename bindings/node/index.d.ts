/** Many language-model sequences through one model at once. Meaning and units are those of cohort.h; options have the
 * names of its structs' fields. */

/** Numbers and flags of the C struct of that name, by field. */
export interface Options { [field: string]: unknown }

/** A call of the library failed: the fields of struct cohort_err. */
export class CohortError extends Error {
	status: number;
	rule: string | null;
	row: number;
	seq: number;
	expected: number;
	got: number;
	offset: number;
}

/** libcohort was not found, or is not the version that these bindings were made for. */
export class LibraryError extends Error {}

/** Something of the library's: freed when it is closed (or collected) and nothing uses it any more. */
declare class Handle {
	readonly closed: boolean;
	close(): void | Promise<void>;
}

export interface ModelInfo {
	arch: string; name: string; isa: string; tokenizer: string; pretokenizer: string; note: string;
	n_vocab: number; n_embd: number; n_layer: number; n_head: number; n_head_kv: number; n_ff: number;
	head_k: number; head_v: number; n_ctx_train: number; n_params: number;
	weight_bytes: number; packed_bytes: number;
	encoder: boolean; recurrent: boolean; pooling: number; n_window: number;
}

export interface ModelOptions extends Options {
	isa?: string;
	/** LoRA files, or pairs of a file and how strongly it is applied. */
	adapters?: Array<string | [string, number]>;
	n_threads?: number;
	vocab_only?: boolean;
	no_mmap?: boolean;
	mlock?: boolean;
}

export class Model extends Handle {
	private constructor();
	/** Opens a GGUF file on another thread. */
	static open(path: string, options?: ModelOptions): Promise<Model>;
	static openSync(path: string, options?: ModelOptions): Model;
	readonly info: ModelInfo;
	/** The token that begins a text; -1: none. */
	readonly bos: number;
	readonly eos: number;
	isEog(token: number): boolean;
	/** bos: in front always, never, or (left out) as the model wants it. */
	tokenize(text: string | Uint8Array, options?: { bos?: boolean; special?: boolean }): number[];
	/** The inverse of tokenize, byte for byte. */
	detokenize(tokens: Iterable<number>, options?: { special?: boolean }): Buffer;
	piece(token: number, options?: { leadingSpace?: boolean; special?: boolean }): Buffer;
	detok(options?: { special?: boolean; atStart?: boolean }): Detok;
	close(): void;
}

/** Tokens to bytes as they come, in whole characters. */
export class Detok {
	push(token: number): Buffer;
	flush(): Buffer;
}

/** {role: 'user', content: '...'}, and what else the template reads. */
export interface Message { role: string; content?: unknown; [field: string]: unknown }

/** How a model writes conversations: the chat template in its file, or the Jinja text that is given. */
export class ChatTemplate extends Handle {
	constructor(model: Model, source?: string | Uint8Array);
	readonly model: Model;
	/** The text of a conversation. now: '2025-01-02T03:04:05'; other options are variables of the template. */
	render(messages: Message[], options?: {
		tools?: unknown; documents?: unknown; addGenerationPrompt?: boolean; now?: string; [variable: string]: unknown;
	}): string;
	/** The same as tokens. A begin token that the template writes is not there twice. */
	tokens(messages: Message[], options?: object): number[];
	close(): void;
}

export class Grammar extends Handle {
	constructor(model: Model, gbnf: string, options?: { root?: string });
	static fromSchema(model: Model, schema: string | object): Grammar;
	match(text: string | Uint8Array): { matched: number; complete: boolean };
	close(): void;
}

export class Batch extends Handle {
	constructor(maxTokens?: number, nEmbd?: number, nSeqMax?: number);
	static fromTokens(tokens: Iterable<number>): Batch;
	add(token: number, pos: number, seqs?: number | number[], output?: boolean): void;
	addVector(vector: ArrayLike<number>, pos: number, seqs?: number | number[], output?: boolean): void;
	readonly length: number;
	reset(): void;
	close(): void;
}

export interface ContextOptions extends Options {
	n_ctx?: number; n_batch?: number; n_ubatch?: number; n_seq_max?: number; n_threads?: number; kv_type?: number;
	outputs?: number; pooling?: number; output_all?: boolean;
}
export interface Row { token: number; pos: number; seq: number; want?: boolean }
export interface Span { tokens: Iterable<number>; pos?: number; seq: number; want?: boolean }
export interface Usage {
	block_size: number; n_blocks: number; n_used: number; n_shared: number; n_free: number;
	block_bytes: number; used_bytes: number; n_seqs: number;
}

/** Calls that give a promise run on another thread, one after the other; the others throw while one is under way. */
export class Context extends Handle {
	constructor(model: Model, options?: ContextOptions);
	readonly model: Model;
	readonly info: { n_ctx: number; n_batch: number; n_ubatch: number; n_seq_max: number; n_threads: number };
	decode(batch: Batch): Promise<void>;
	encode(batch: Batch): Promise<void>;
	check(batch: Batch): void;
	decodeOne(token: number, pos: number, seq?: number, want?: boolean): Promise<void>;
	decodeMany(tokens: Iterable<number>, nPast?: number, seq?: number): Promise<void>;
	decodeEach(rows: Row[]): Promise<void>;
	/** The output index of each span's last token. */
	decodeScatter(spans: Span[]): Promise<number[]>;
	readonly nOutputs: number;
	/** Of row i of the last decode, copied; -1 is the last output. */
	logits(i?: number): Float32Array;
	embeddings(i?: number): Float32Array;
	embeddingsSeq(seq: number): Float32Array;
	seqRm(seq: number, p0?: number, p1?: number): void;
	seqCp(src: number, dst: number, p0?: number, p1?: number): void;
	seqKeep(seq: number): void;
	seqAdd(seq: number, p0: number, p1: number, delta: number): void;
	seqClear(): void;
	/** The position where a sequence goes on. */
	seqLength(seq: number): number;
	usage(): Usage;
	save(seq?: number): Buffer;
	restore(state: Uint8Array, seq?: number): void;
	saveFile(path: string, seq?: number): void;
	restoreFile(path: string, seq?: number): void;
	close(): void;
}

export interface SamplerOptions extends Options {
	seed?: number | bigint; stream?: number | bigint;
	temperature?: number; top_k?: number; top_p?: number; min_p?: number;
	repeat_penalty?: number; frequency_penalty?: number; presence_penalty?: number; penalty_last_n?: number;
	/** Names of stages, in order: "top_k,temperature". */
	order?: string;
	bias?: Map<number, number> | { [token: number]: number };
	grammar?: Grammar;
	dry_breakers?: string[];
}

export class Sampler extends Handle {
	constructor(model: Model, options?: SamplerOptions);
	clone(): Sampler;
	/** Picks a token from output i of a context, or from logits, and accepts it. */
	sample(source: Context | ArrayLike<number>, i?: number): number;
	/** The same without accepting it. */
	draw(source: Context | ArrayLike<number>, i?: number): number;
	accept(token: number): void;
	prompt(tokens: number[]): void;
	reset(): void;
	reseed(seed: number | bigint, stream?: number | bigint): void;
	readonly isComplete: boolean;
	close(): void;
}

export interface EngineOptions extends ContextOptions {
	n_slots?: number; budget?: number; chunk_size?: number; queue_requests_max?: number;
	/** The name of a strategy that is built in. */
	strategy?: string;
}
export interface RequestOptions extends SamplerOptions {
	max_tokens?: number; n_outputs?: number; ignore_eos?: boolean;
	n_logprobs?: number; chain_logprobs?: boolean; prompt_logprobs?: boolean;
	priority?: number; client?: number; session?: number;
	stop?: string[];
	stop_tokens?: number[];
}
/** The likeliest first, n_logprobs of them for each place. */
export interface Likely { token: number; logprob: number }
export type Event =
	| { kind: 'prompt'; logprobs: Float32Array; top: Likely[][]; text?: undefined }
	| { kind: 'token'; output: number; index: number; token: number; text: Buffer; logprob: number;
		chain_logprob: number; top: Likely[] }
	| { kind: 'embedding'; embedding: Float32Array; text?: undefined }
	| { kind: 'end'; output: number; text: Buffer; finish: string; error: CohortError | null };
export interface Output {
	text: Buffer; tokens: number[]; logprobs: Float32Array | null; finish: string; error: CohortError | null;
}

/** A request that was submitted: `for await` gives its events as they come; leaving the loop cancels it. */
export class Request extends Handle implements AsyncIterableIterator<Event> {
	private constructor();
	next(): Promise<IteratorResult<Event>>;
	return(): Promise<IteratorResult<Event>>;
	[Symbol.asyncIterator](): this;
	wait(): Promise<void>;
	/** The text of an output, when it has ended; rejects with what it failed with. */
	text(output?: number): Promise<string>;
	output(i?: number): Output;
	cancel(): void;
	stats(): { [field: string]: number };
	close(): void;
}

/** Many users of one model. */
export class Engine extends Handle {
	constructor(model: Model, options?: EngineOptions);
	readonly model: Model;
	submit(prompt: string | Buffer | number[], options?: RequestOptions): Request;
	embed(prompt: string | Buffer | number[], options?: RequestOptions): Promise<Float32Array>;
	stats(): { [field: string]: unknown };
	cacheClear(): void;
	/** Stops: what has not ended ends with "shutdown", and can be read to its end. */
	close(): Promise<void>;
}

export function strategies(): string[];
/** Of the library. */
export function version(): string;
/** COHORT_POOL_MEAN, COHORT_E_IO, ... */
export const constants: { readonly [name: string]: number };
/** The declarations of the C headers. */
export const abi: unknown;
