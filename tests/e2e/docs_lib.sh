# shellcheck shell=sh disable=SC2154
# What the tests of pages, and of the examples of --help, share; behind lib.sh.

# pages: in the source directory, every Markdown page of the repository, by its path from the root.
pages() {
	find . -name '*.md' ! -path './build*' ! -path './.*/*' ! -path '*/node_modules/*' ! -path './debian/*/*' | sed 's|^\./||' | sort
}

# md KIND [-v NAME=VALUE]: tools/md.awk over all of them.
md() {
	kind=$1
	shift
	# shellcheck disable=SC2046
	awk -v what="$kind" "$@" -f tools/md.awk $(cat "$tmp/pages")
}

# example_files: the files that examples and pages may name, in the directory it is called in.
example_files() {
	mkdir notes
	ln -s "$model" model.gguf
	"$bin/cohort" synth -s n_layer=2,n_embd=64,n_ff=128,n_head=4,n_head_kv=2,n_vocab=512 -t F16 -o model-f16.gguf >/dev/null 2>&1
	ln -s model-f16.gguf f16.gguf
	for f in draft large small; do ln -s "$model" $f.gguf; done
	for i in 1 2 3 4 5 6; do echo 'Once upon a time there was a little cat. The cat liked to play in the garden, and the dog liked the cat.'; done >story.txt
	cp story.txt text.txt
	cp story.txt notes/story.txt
	echo 'The dog sleeps in the sun.' >notes/dog.md
	printf 'The cat\nThe dog\n' >prompts.txt
	cp prompts.txt lines.txt
	cp prompts.txt notes.txt
	cp prompts.txt questions.txt
	printf '{"messages":[{"role":"user","content":"Hello"}]}' >chat.json
	printf '{"messages":[{"role":"user","content":"What is the weather?"}],"tools":[]}' >request.json
	printf '{%% for m in messages %%}{{ m.role }}: {{ m.content }}\n{%% endfor %%}' >chat.jinja
	printf 'arrival_s,prompt_tokens,output_tokens\n0,10,5\n0.5,20,5\n1,30,6\n' >day.csv
	printf '{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"The cat","max_tokens":8}}\n' >jobs.jsonl
	cp jobs.jsonl batch.jsonl
	cp jobs.jsonl in.jsonl
	[ ! -e "$COHORT_BUILD/strategy_shortest_first.so" ] || ln -s "$COHORT_BUILD/strategy_shortest_first.so" mine.so
	printf 'root ::= "yes" | "no"\n' >answer.gbnf
	printf 'a-key-for-tests Ann admin\n' >keys.txt
}
