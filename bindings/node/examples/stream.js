// Many users of one engine: each task submits a request and reads its answer as it comes.
//
// The answers are those of `cohort run -n 24 -seed 7 PROMPT ...`, byte for byte: nobody's depends on who else is there.
//
// usage: node stream.js MODEL.gguf [PROMPT...]
'use strict';

const { Engine, Model } = require('..');

async function ask(engine, prompt) {
	const pieces = [];
	for await (const event of engine.submit(prompt, { max_tokens: 24, seed: 7 }))
		if (event.text) pieces.push(event.text); // could be shown at once
	return Buffer.concat(pieces);
}

async function main(path, ...prompts) {
	if (prompts.length === 0) prompts = ['Once upon a time', 'The cat', 'One day, a bird'];
	const model = await Model.open(path);
	const engine = new Engine(model, { n_slots: 4, n_ctx: 2048 });
	const answers = await Promise.all(prompts.map((p) => ask(engine, p)));
	answers.forEach((answer, i) => {
		const title = Buffer.from(`${i ? '\n' : ''}Prompt ${i} (${prompts[i]}):\n`);
		process.stdout.write(Buffer.concat([title, answer, Buffer.from('\n')]));
	});
	await engine.close();
	model.close();
}

main(...process.argv.slice(2));
