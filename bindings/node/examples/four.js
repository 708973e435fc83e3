// Four continuations of a prompt, computed together: the prompt once, then a row of each sequence in every step.
//
// The texts are those of `batched -prompt PROMPT -n-predict 24 -seed 7`, byte for byte.
//
// usage: node four.js MODEL.gguf [PROMPT]
'use strict';

const { Context, Model, Sampler } = require('..');

const N = 4, N_PREDICT = 24;

async function main(path, prompt = 'Once upon a time') {
	const model = await Model.open(path);
	const ctx = new Context(model, { n_ctx: 1024, n_seq_max: N });
	const tokens = model.tokenize(prompt);
	await ctx.decodeMany(tokens);
	const seqs = Array.from({ length: N }, (_, seq) => {
		if (seq > 0) ctx.seqCp(0, seq); // a fork: shares the cells, copies nothing
		const sampler = new Sampler(model, { seed: 7, stream: seq, top_p: 0.9 });
		return { seq, sampler, detok: model.detok(), text: [Buffer.from(prompt)], row: -1 };
	});
	let going = seqs;
	for (let i = 0; i < N_PREDICT && going.length > 0; i++) {
		const step = [];
		going = going.filter((s) => {
			const token = s.sampler.sample(ctx, s.row);
			if (model.isEog(token)) return false;
			s.text.push(s.detok.push(token));
			s.row = step.length;
			step.push({ token, pos: tokens.length + i, seq: s.seq });
			return true;
		});
		if (i < N_PREDICT - 1) await ctx.decodeEach(step);
	}
	for (const s of seqs)
		process.stdout.write(Buffer.concat([Buffer.from(`Sequence ${s.seq}:\n\n`), ...s.text, s.detok.flush(), Buffer.from('\n\n')]));
	ctx.close();
	model.close();
}

main(...process.argv.slice(2));
