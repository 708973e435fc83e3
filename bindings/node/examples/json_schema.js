// A JSON document, by a schema: only tokens that lead to one are permitted.
//
// The text is that of `cohort run -p "A pet:" -n 64 -seed 7 -json-schema SCHEMA`, byte for byte.
//
// usage: node json_schema.js MODEL.gguf
'use strict';

const { Engine, Grammar, Model } = require('..');

const schema = {
	type: 'object',
	properties: { name: { type: 'string', maxLength: 8 }, age: { type: 'integer' } },
	required: ['name', 'age'],
};

async function main(path) {
	const model = await Model.open(path);
	const engine = new Engine(model, { n_slots: 1, n_ctx: 512 });
	const grammar = Grammar.fromSchema(model, schema);
	const request = engine.submit('A pet:', { max_tokens: 64, seed: 7, grammar });
	console.log(await request.text());
	request.close();
	grammar.close();
	await engine.close();
	model.close();
}

main(...process.argv.slice(2));
