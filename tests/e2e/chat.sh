#!/bin/sh
# cohort chat: by a script of lines, and on a pseudo-terminal.
#
# Seen red with: answers tokenised again (nothing of them is reused); a pick that takes the first answer; a retry with
# the same seed; an interrupted answer that is lost; a message that does not fit and stays; a begin token twice; a
# session that is not written at the end; control characters of an answer sent to a terminal; old turns that stay hidden
# when nothing came of the message; a try for every turn to hide; a system prompt that a template refuses; no variables.
# shellcheck source=tests/e2e/talk_lib.sh
. "$(dirname "$0")/talk_lib.sh"

chat() { say cohort chat "$@"; }

# ---- The same text as run ----

lines 'Hello, who are you?\n'
chat -n 30 -seed 5
keep out answer
[ "$rc" = 0 ] && [ "$(wc -l <"$tmp/out")" -ge 1 ]
verdict 'a message: the answer, and nothing else, on standard output'
printf '[{"role":"user","content":"Hello, who are you?"}]' >"$tmp/m.json"
run cohort template --messages "$tmp/m.json"
keep out prompt
run cohort run -f "$tmp/prompt" -n 30 -seed 5
[ "$rc" = 0 ] && same out answer
verdict 'the text that run gives for the rendered prompt'
run batched -p "$(cat "$tmp/prompt")" -n 30 -np 1 -seed 5 -top-p 0.95
sequence 0 out | sed 's/.*<|assistant|>//' | sed '1d;$d' >"$tmp/a"
[ "$rc" = 0 ] && same a answer
verdict 'the text that batched gives for it'
printf '[{"role":"system","content":"Be brief."},{"role":"user","content":"Hello, who are you?"}]' >"$tmp/m.json"
run cohort template --messages "$tmp/m.json"
keep out prompt
run cohort run -f "$tmp/prompt" -n 30
keep out want
chat -n 30 -system 'Be brief.'
[ "$rc" = 0 ] && same out want
verdict '-system'
printf 'Be brief.\n' >"$tmp/system"
chat -n 30 -system-file "$tmp/system"
[ "$rc" = 0 ] && same out want
verdict '-system-file'
lines ':system Be brief.\nHello, who are you?\n:system\n:system none\n:system\n'
chat -n 30
[ "$rc" = 0 ] && same out want && has err 'system: Be brief.' && has err 'there is no system prompt'
verdict ':system'
printf '<s>{%% for m in messages %%}<|user|>{{ m.content }}{%% endfor %%}<|assistant|>' >"$tmp/bos.jinja"
lines 'Hello, who are you?\n'
chat -n 30 -seed 5 -template "$tmp/bos.jinja"
[ "$rc" = 0 ] && same out answer
verdict 'a template that writes the begin token: it is there once'
printf "{%% if messages[0].role == 'system' %%}{{ raise_exception('no system') }}{%% endif %%}{%% for m in messages %%}<|{{ m.role }}|>{{ m.content }}{%% endfor %%}<|assistant|>" >"$tmp/none.jinja"
printf '[{"role":"user","content":"Be brief.\\nHello, who are you?"}]' >"$tmp/m.json"
run cohort template --chat-template "$tmp/none.jinja" --messages "$tmp/m.json"
keep out prompt
run cohort run -f "$tmp/prompt" -n 30 -seed 5
keep out want
chat -n 30 -seed 5 -system 'Be brief.' -chat-template "$tmp/none.jinja"
[ "$rc" = 0 ] && ! empty out && same out want && has prompt '<|user|>Be brief.'
verdict 'a template without a system role: the first message has the system prompt'
printf "{{ '<|user|>Hello<|assistant|>' if enable_thinking and datetime and date_string == strftime_now('%%d %%b %%Y') else raise_exception('no variables') }}" >"$tmp/now.jinja"
chat -n 8 -chat-template "$tmp/now.jinja"
[ "$rc" = 0 ] && ! empty out
verdict 'a template has the variables that the server gives it'

# ---- Turns ----

# Shown red by noting the tokens of an answer that shows nothing: each time they were part of the prompt.
lines 'Hi\n:retry\n:stats\n:retry\n:stats\n'
chat -n 3 -temp 0 -l 1+1000
[ "$rc" = 0 ] && [ "$(grep -c '^last answer: 4 prompt tokens' "$tmp/err")" = 2 ]
verdict 'an answer without text is not part of what is answered again'
lines 'Hello, who are you?\nWhere do you live?\n:stats\nTell me more.\n:stats\n'
chat -n 60 -seed 2
[ "$rc" = 0 ] && awk '/^last answer/ { if ($9 > 20 || $6 * 2 < $3) bad = 1; k++ } END { exit bad || k != 2 }' "$tmp/err" &&
	awk '/^last answer/ { print $3, $6, $9 }' "$tmp/err" >"$tmp/a"
verdict 'a turn computes only what is new'
keep out three
chat -n 60 -seed 2 -t 1
[ "$rc" = 0 ] && same out three
verdict 'same seed, same conversation'
lines 'Hello, who are you?\n:branch 3\n:pick 2\n:history\n'
chat -n 12
sed -n '/^\[2\]$/{n;p;}' "$tmp/out" >"$tmp/a"
sed -n 's/^2 assistant: //p' "$tmp/err" >"$tmp/b"
[ "$rc" = 0 ] && [ "$(grep -c '^\[[123]\]$' "$tmp/out")" = 3 ] && [ -s "$tmp/a" ] && same a b && ! has err '3 '
verdict ':branch and :pick'
head -n 1 "$tmp/out" >"$tmp/a"
sed -n '/^\[1\]$/{n;p;}' "$tmp/out" >"$tmp/b"
same a b
verdict 'the first branch is the answer that there was'
run batched -p '<|user|>Hello, who are you?<|assistant|>' -n 12 -np 3 -top-p 0.95
sequence 2 out | sed 's/.*<|assistant|>//;/^$/d' >"$tmp/b"
lines 'Hello, who are you?\n:branch 3\n:undo\n'
chat -n 12
sed -n '/^\[3\]$/{n;p;}' "$tmp/out" >"$tmp/a"
[ "$rc" = 0 ] && [ -s "$tmp/a" ] && same a b && has err 'messages left: 0'
verdict 'branches are the sequences of batched; :undo forgets them'
lines 'Hello\n:branch 1\n'
chat -n 6
[ "$rc" = 0 ] && [ "$(wc -l <"$tmp/out")" = 4 ] && [ "$(sed -n 1p "$tmp/out")" = "$(sed -n 3p "$tmp/out")" ]
verdict ':branch 1: one answer, printed once'
lines 'Hello\n'
chat -session "$tmp/none/s.json"
refused 4 "$tmp/none/s.json" && [ "$(wc -l <"$tmp/err")" = 1 ]
verdict 'a session that could not be written: refused before anything is said'
lines 'Hello\n:branch 2\nno\n:pick 3\n:pick 0\n:pick\n:branch 0\n:branch 65\n:branch x\n:pick 1\n:pick 1\n'
chat -n 5
[ "$rc" = 2 ] && has err "':pick K' first" && [ "$(grep -c 'a number from 1 to 2' "$tmp/err")" = 3 ] &&
	[ "$(grep -c 'expects how many answers' "$tmp/err")" = 3 ] && has err 'no answers to choose from'
verdict ':branch and :pick with what is not there'
lines 'Hello\n:branch 64\n'
chat -n 1
[ "$rc" = 0 ] && [ "$(grep -cE '^\[[0-9]+\]$' "$tmp/out")" = 64 ]
verdict ':branch with as many answers as there may be'
lines 'Hello\n:retry\n:retry\n:history\n'
chat -n 12
keep out got
for s in 0 1 2; do
	run cohort run '<|user|>Hello<|assistant|>' -n 12 -seed $s
	cat "$tmp/out"
done >"$tmp/want"
[ "$rc" = 0 ] && same got want
verdict ':retry: the next seed'
lines ':undo\n:retry\n:branch 2\nHello\n:undo\n:retry\n:history\n'
chat -n 5
[ "$rc" = 2 ] && has err 'nothing to take back' && [ "$(grep -c 'no message to answer' "$tmp/err")" = 3 ] && has err 'nothing has been said'
verdict ':undo, :retry and :branch without a message'

# ---- Files ----

lines 'Hello, who are you?\nTell me about "quotes" \\\\ \303\251\n:save %s\n' "$tmp/c.json"
chat -n 20
cp "$tmp/c.json" "$tmp/c1.json"
run cohort template --messages "$tmp/c.json"
[ "$rc" = 0 ] && has out 'Tell me about "quotes" \'
verdict ':save: messages that template takes'
lines ':load %s\n:history\n:save %s\n' "$tmp/c.json" "$tmp/c2.json"
chat
[ "$rc" = 0 ] && same c.json c2.json && has err '4 messages loaded' && has err '3 user: Tell me about "quotes"'
verdict ':load and :save: the same file'
lines 'Hello\n'
chat -n 20 -session "$tmp/s.json"
[ "$rc" = 0 ] && [ "$(grep -c '"role"' "$tmp/s.json")" = 2 ]
verdict '-session: written'
lines 'And you?\n'
chat -n 20 -session "$tmp/s.json" -system 'You are a cat.'
[ "$rc" = 0 ] && [ "$(grep -c '"role"' "$tmp/s.json")" = 5 ] && has err '2 messages loaded' && grep -q 'You are a cat' "$tmp/s.json"
verdict '-session: gone on with'
lines '\n'
cp "$tmp/s.json" "$tmp/before"
chat -session "$tmp/s.json"
[ "$rc" = 0 ] && same s.json before
verdict '-session: left alone when nothing is said'
lines ':load %s\n' "$tmp/c.json"
chat -session "$tmp/taken.json"
[ "$rc" = 0 ] && same c.json taken.json
verdict '-session: written at the end, too'
i=0
for bad in '' '[' '{}' '[1]' '[{"role":"tool","content":"x"}]' '[{"role":"assistant","content":"x"}]' '[{"role":"user","content":7}]'; do
	i=$((i + 1))
	printf '%s' "$bad" >"$tmp/bad.json"
	lines 'Hello\n:load %s\n:history\n' "$tmp/bad.json"
	chat -n 4
	[ "$rc" = 4 ] && has err 'cannot load' && has err '2 assistant:'
	verdict "a file that is no conversation ($i): refused, the old one stays"
	chat -n 4 -session "$tmp/bad.json"
	[ "$rc" = 4 ] && empty out && [ "$(cat "$tmp/bad.json")" = "$bad" ]
	verdict "a session that is none ($i): refused, and left alone"
done
head -c 100000 /dev/urandom >"$tmp/bad.json"
lines ':load %s\n:load %s/none\n:load %s\n:load\n' "$tmp/bad.json" "$tmp" "$tmp"
chat
[ "$rc" = 4 ] && has err 'not JSON' && has err "$tmp/none" && has err 'expects the name of a file'
verdict 'a file that is no text, none, a directory'
lines 'Hello\n'
chat -n 4 -session "$tmp/none/s.json"
[ "$rc" = 4 ] && has err "$tmp/none/s.json"
verdict 'a session that cannot be written: exit code 4'

# ---- What does not fit ----

awk 'BEGIN { for (i = 0; i < 500000; i++) printf "a "; print ""; print "Hello"; print ":history" }' >"$tmp/in"
chat -n 4
[ "$rc" = 2 ] && has err 'the context holds 1024' && matches err '^1 user: Hello$' && ! has err '3 user'
verdict 'a message of a megabyte: refused with both numbers, the session goes on'
# Shown red by calling it out of memory; and a branch that was picked was one message too many, so that the session could
# not be read again.
python3 - "$tmp" <<'PY' || exit 1
import json, sys
pair = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
system = [{"role": "system", "content": "s"}]
json.dump(50000 * pair, open(sys.argv[1] + "/full.json", "w"))
json.dump(system + 49999 * pair + pair[:1], open(sys.argv[1] + "/asked.json", "w"))
PY
lines 'Hello\n:system x\n'
chat -n 4 -session "$tmp/full.json"
[ "$rc" = 2 ] && empty out && [ "$(grep -c '100000 messages, and 100000 are the most' "$tmp/err")" = 2 ]
verdict 'a message too many: refused'
lines ':branch 2\n:pick 1\n:retry\n:system x\n'
chat -n 4 -session "$tmp/asked.json"
[ "$rc" = 2 ] && empty out && [ "$(grep -c 'are the most' "$tmp/err")" = 2 ] && has err 'there are no answers' && has err 'system prompt set' &&
	[ "$(grep -c '"role"' "$tmp/asked.json")" = 100000 ]
verdict 'an answer too many: refused; another system prompt is not'
awk 'BEGIN { for (i = 0; i < 30; i++) print "Tell me more about " i; print ":stats"; print ":save '"$tmp/long.json"'" }' >"$tmp/in"
chat -n 60
[ "$rc" = 1 ] && has err 'the context is full: the conversation has' && matches err 'the 2 oldest messages would have to go' && has err 'context-shift'
verdict 'a full context: said, with how many messages would have to go'
chat -n 60 -context-shift
[ "$rc" = 0 ] && matches err 'the [0-9]+ oldest messages are hidden from the model' && matches err '60 messages \([1-9][0-9]* hidden\)' &&
	[ "$(grep -c '"role"' "$tmp/long.json")" = 60 ]
verdict '-context-shift: the oldest are hidden, and kept'
chat -n 60 -c 256 -context-shift -system 'Be brief.'
[ "$rc" = 0 ] && matches err 'of 256 tokens of context' && [ "$(grep -c '"role"' "$tmp/long.json")" = 61 ]
verdict '-ctx bounds it, too'
awk 'BEGIN {
	printf "["
	for (i = 0; i < 4000; i++)
		printf "%s{\"role\":\"user\",\"content\":\"What is number %d?\"},{\"role\":\"assistant\",\"content\":\"A number.\"}", i ? "," : "", i
	print "]"
}' >"$tmp/turns.json"
lines ':load %s\nHello\n:stats\n' "$tmp/turns.json"
rc=0
timeout 100 "$bin/cohort" chat -n 4 -context-shift <"$tmp/in" >"$tmp/out" 2>"$tmp/err" || rc=$?
[ "$rc" = 0 ] && matches err '8002 messages \(7[0-9]{3} hidden\)'
verdict 'a file of thousands of turns: what fits is found soon'
lines 'Hello\n'
chat -n -1
[ "$rc" = 0 ]
verdict 'until the model ends it'
chat -n 0
[ "$rc" = 0 ] && [ "$(cat "$tmp/out")" = '' ]
verdict 'no tokens at all'

# ---- Templates ----

"$bin/cohort" synth -s n_vocab=400,n_embd=64,n_layer=1,n_head=2,n_ff=64 -t f16 -o "$tmp/synth.gguf" 2>/dev/null
lines 'Hello\n'
chat -m "$tmp/synth.gguf"
[ "$rc" = 3 ] && empty out && { has err 'no chat template' || has err 'no tokeniser'; }
verdict 'a model without a template: refused'
python3 "$here/no_template.py" "$model" "$tmp/bare.gguf"
chat -m "$tmp/bare.gguf"
[ "$rc" = 3 ] && empty out && has err 'no chat template' && has err "'cohort run'" && has err '-chat-template FILE'
verdict 'without a template: says cohort run and -chat-template'
for t in chatml gemma llama2 llama3 phi3 plain vicuna zephyr; do
	chat -m "$tmp/bare.gguf" -chat-template $t -n 8 -temp 0
	[ "$rc" = 0 ] && ! empty out
	verdict "-chat-template $t"
done
keep out want
chat -m "$tmp/bare.gguf" -template zephyr -n 8 -temp 0
[ "$rc" = 0 ] && same out want
verdict '-template is another name of it'
chat -chat-template nonsense
[ "$rc" = 4 ] && has err 'chatml, gemma, llama2'
verdict 'a template that is not there'
printf '{%% for %%}' >"$tmp/bad.jinja"
chat -template "$tmp/bad.jinja"
[ "$rc" = 4 ] && has err 'the chat template'
verdict 'a template that is none'
printf "{{ raise_exception('no') }}" >"$tmp/bad.jinja"
lines 'Hello\n:history\n'
chat -template "$tmp/bad.jinja"
[ "$rc" = 1 ] && has err 'refuses this conversation' && has err 'nothing has been said'
verdict 'a template that refuses: said, the message is taken back'
# A text that the model gives by itself as what the user says next: the answer ends before it.
lines 'Hello, who are you?\n'
chat -n 30 -temp 0
word=$(cut -d ' ' -f 6 "$tmp/out" | head -n 1)
before=$(cut -d ' ' -f 1-5 "$tmp/out" | head -n 1)
printf '{%% for m in messages %%}{%% if m.role == "user" %%}{%% if not loop.first %%} %s{%% endif %%}<|user|>{{ m.content }}{%% else %%}<|assistant|>{{ m.content }}{%% endif %%}{%% endfor %%}{%% if add_generation_prompt %%}<|assistant|>{%% endif %%}' "$word" >"$tmp/stop.jinja"
sed "s/<|user|>{{/{{/" "$tmp/stop.jinja" | sed "s/{% if m.role == \"user\" %}/{% if m.role == \"user\" %}{% if loop.first %}<|user|>{% endif %}/" >"$tmp/stop2.jinja"
chat -n 30 -temp 0 -template "$tmp/stop2.jinja"
[ "$rc" = 0 ] && [ -n "$word" ] && is out "$before"
verdict 'what the template writes behind an answer ends it'

# ---- Odd lines ----

lines 'a\0b \377\n:history\n'
chat -n 4
[ "$rc" = 0 ] && has err 'not UTF-8' && matches err '^1 user: a'
verdict 'bytes that are no text'
lines '\n  \n\t\n'
chat
[ "$rc" = 0 ] && empty out
verdict 'empty lines'
: >"$tmp/in"
chat
[ "$rc" = 0 ] && empty out
verdict 'no lines'
lines ':nonsense\n:set n-predict 3\n:set n-predict -2\n:set ctx 3\n:set context-shift maybe\n:set context-shift on\n:set\n:help\nHello\n'
chat
[ "$rc" = 2 ] && has err "unknown command ':nonsense'" && has err 'from -1 to' && has err 'cannot be changed while running' && has err 'on or off, got' &&
	matches err '^  n-predict +3$' && matches err '^  context-shift +on$' && has err ':branch N' && has err 'cut after 3 tokens'
verdict ':set, :help, unknown commands'
chat -system a -system-file b
refused 2 'give one of'
verdict '-system and -system-file: refused'
chat -system-file "$tmp/none"
refused 4 "$tmp/none"
verdict 'a system prompt from a file that is not there'
run cohort chat --help
[ "$rc" = 0 ] && has out 'Usage: cohort chat' && has out '-session FILE'
verdict '--help'
lines 'Hello\n'
rc=0
"$bin/cohort" chat -n 4 <"$tmp/in" >/dev/full 2>"$tmp/err" || rc=$?
[ "$rc" = 4 ] && has err 'cannot write to standard output'
verdict 'a full disk: exit code 4'

# A reader that has gone ends the answer, which is kept as far as it came, and nothing is said. Red when the answer is
# generated to its end, and when a reason is given that another call left behind.
lines 'Tell me a story.\n'
chat -n 200 -session "$tmp/whole.json"
n_whole=$(wc -c <"$tmp/whole.json")
rm -f "$tmp/gone"
{
	while [ ! -e "$tmp/gone" ]; do sleep 0.02; done
	"$bin/cohort" chat -n 200 -session "$tmp/gone.json" <"$tmp/in" 2>"$tmp/err"
	echo $? >"$tmp/rc"
} | {
	exec <&-
	: >"$tmp/gone"
}
ran='cohort chat -session gone.json | (gone)'
: >"$tmp/out"
rc=$(cat "$tmp/rc")
[ "$rc" = 4 ] && ! has err 'rite' && grep -q '"assistant"' "$tmp/gone.json" && [ "$(wc -c <"$tmp/gone.json")" -lt $((n_whole / 2)) ]
verdict 'a reader that has gone ends the answer'

# ---- On a terminal ----

if ! python3 -c 'import pty' 2>/dev/null; then
	skip 'terminal' 'no python3 with pty'
	exit 0
fi

# Branches grow side by side while they are generated. Shown red by not opening the view, and by numbering from 0.
ran='chat: :branch on a terminal'
rc=0
TERM=xterm LC_ALL=C.UTF-8 python3 "$here/pty_screen.py" --rows 16 --cols 72 --state "$tmp/state" --wait '^>' --keys 'Hi\r' --wait 'cut after' \
	--wait '^>$' --keys ':branch 3\r' --wait '^\[3\] .' --wait 'of at most 120 tokens' --dump "$tmp/mid" --wait 'goes on with answer' --keys ':pick 3\r:quit\r' -- \
	"$bin/cohort" chat -n 40 -isa ref -t 1 -no-history -logit-bias 2-inf >"$tmp/out" 2>"$tmp/err" || rc=$?
[ "$rc" = 0 ] && matches mid '^\[1\] ' && matches mid '^\[2\] ' && ! matches mid '^\[0\]' && has out 'going on from answer 3' && matches out '^\[3\]$' &&
	has state 'cursor visible' && has state 'style plain'
verdict 'terminal: branches are shown while they are generated'
# Shown red with the answer's bytes as they are.
ran='chat: an answer on a narrow terminal'
rc=0
TERM=xterm LC_ALL=C.UTF-8 python3 "$here/pty_screen.py" --rows 24 --cols 30 --wait '^>' --keys 'Hi\r' --wait 'cut$|after 40' --keys ':quit\r' -- \
	"$bin/cohort" chat -n 40 -no-history -seed 0 -logit-bias 2-inf >"$tmp/out" 2>"$tmp/err" || rc=$?
printf 'Hi\n' | "$bin/cohort" chat -n 40 -no-history -seed 0 -logit-bias 2-inf >"$tmp/answer" 2>"$tmp/err"
[ "$rc" = 0 ] && python3 - "$tmp/out" "$tmp/answer" 2>"$tmp/err" <<'EOF'
import sys, textwrap
screen, text = (open(f).read() for f in sys.argv[1:])
want = "\n".join(l for part in text.strip().split("\n") for l in textwrap.wrap(part, 30, break_on_hyphens=False))
assert want.count("\n") > 1 and "\n" + want + "\n" in screen, (want, screen)
EOF
verdict 'terminal: lines of an answer end between words'
talk "$bin/cohort" chat -n 12 <<'EOF'
expect >
send Hello, who are you?
expect cut after 12 tokens
expect >
send :stats
expect last answer: 9 prompt tokens
expect >
type \x04
end 0
EOF
[ "$rc" = 0 ] && [ "$(cat "$HOME/.local/state/cohort/chat_history")" = "$(printf 'Hello, who are you?\n:stats')" ]
verdict 'terminal: a conversation, and its history'

# Shown red by not asking the terminal to mark pastes: three messages, the first answered before the others came.
talk "$bin/cohort" chat -n 4 -temp 0 -no-history <<'EOF'
expect >
type \x1b[200~one line\n:second\tline\rthird line\r\x1b[201~
sleep 0.3
never cut after
type !\r
expect cut after 4 tokens
expect >
send :history
expect 1 user: one line
expect :second
expect third line!
expect 2 assistant:
expect >
type \x15
type \x1b[200~Go on.\x1b[201~\r
expect cut after
send :history
expect 3 user: Go on.
expect 4 assistant:
type \x04
end 0
EOF
[ "$rc" = 0 ] && grep -q 'third line!$' "$tmp/out"
verdict 'terminal: lines that are pasted are one message, which Enter sends'
# Shown red by asking for marks of pastes whatever the terminal is.
cat >"$tmp/in" <<'EOF'
expect >
send Hello
expect cut after
unsent [?2004
type \x04
end 0
EOF
ran='chat: TERM=dumb'
rc=0
TERM=dumb python3 "$here/pty_talk.py" "$bin/cohort" chat -n 4 -no-history <"$tmp/in" >"$tmp/out" 2>"$tmp/err" || rc=$?
[ "$rc" = 0 ]
verdict 'terminal: one that knows no escape sequences gets none for pastes'
# Shown red by lines that go on which end their text, by quotes that are sent, and by words of other programs as messages.
talk "$bin/cohort" chat -n 4 -temp 0 -no-history <<'EOF'
expect >
send go on \\
expect ...
send to here \\\\
expect cut after
expect >
send """
expect ...
send :quit
expect ...
send end"""
expect cut after
expect >
send """exit"""
expect cut after
expect >
send exit
expect ':quit' or Ctrl-D ends
send half \\
expect ...
type \x03
expect >
send /?
expect :branch N
send :history
expect 1 user: go on
expect to here \\\\
expect 3 user: :quit
expect end
expect 5 user: exit
expect 6 assistant:
expect >
send /bye
end 0
EOF
[ "$rc" = 0 ]
verdict 'terminal: texts of several lines; /bye, /? and exit'
lines '/bye\nexit\n"""\na \\\n:history\n'
chat -n 2 -temp 0
[ "$rc" = 0 ] && matches err '^1 user: /bye$' && matches err '^3 user: exit$' && matches err '^5 user: """$' && matches err '^7 user: a .$'
verdict 'a pipe: each line is a message, whatever it looks like'

# The prompt takes several steps of the reference kernels.
talk "$bin/cohort" chat --isa ref -t 1 -context-shift -n 4 <<EOF
expect >
send :load $tmp/turns.json
expect messages loaded
send Hello
expect hidden from the model
type \x03
expect interrupted before an answer; the message is taken back
expect >
send :stats
expect 8000 messages (0 hidden)
expect >
type \x04
end 0
EOF
[ "$rc" = 0 ]
verdict 'terminal: Ctrl-C before an answer; nothing is hidden for it'

# The reference kernels with one thread are slow enough for the signal to come in the middle.
talk "$bin/cohort" chat --isa ref -t 1 -logit-bias 2-inf -session "$tmp/cut.json" <<'EOF'
expect >
send Tell me a story.
sleep 1.5
type \x03
expect interrupted; the answer is kept as far as it came
expect >
send :set n-predict 4
send Go on.
expect cut after 4 tokens
expect >
send :history
expect 1 user: Tell me a story.
expect 2 assistant:
expect 3 user: Go on.
expect 4 assistant:
expect >
type \x03
expect Ctrl-C again
expect >
type \x03
end 130
EOF
[ "$rc" = 0 ] && [ "$(grep -c '"role"' "$tmp/cut.json")" = 4 ]
verdict 'terminal: Ctrl-C keeps the partial answer and the session; twice ends, and the session is written'

talk "$bin/cohort" chat -n 4 -session "$tmp/term.json" <<'EOF'
expect >
send Hello
expect cut after
expect >
signal TERM
end 130
EOF
[ "$rc" = 0 ] && [ "$(grep -c '"role"' "$tmp/term.json")" = 2 ]
verdict 'terminal: SIGTERM ends, and the session is written'
# Shown red by waiting for the rest of a character first: the signal was taken, and forgotten.
talk "$bin/cohort" chat <<'EOF'
expect >
type \xe9
sleep 0.5
signal TERM
end 130
EOF
[ "$rc" = 0 ]
verdict 'terminal: SIGTERM ends, also within a character'

printf '{"messages":[{"role":"user","content":"\\u001b[2Jred"},{"role":"assistant","content":"\\u001b[31mx"}]}' >"$tmp/esc.json"
talk "$bin/cohort" chat -session "$tmp/esc.json" <<'EOF'
expect >
send :history
expect ^[[2Jred
expect ^[[31mx
expect >
type \x04
end 0
EOF
[ "$rc" = 0 ]
verdict 'terminal: no control characters from messages'

talk "$bin/cohort" chat -grammar 'root ::= "\x1b[31mred\x07"' <<'EOF'
expect >
send Hello
expect ^[[31mred^G
expect >
type \x04
end 0
EOF
[ "$rc" = 0 ]
verdict 'terminal: no control characters from answers'

# ---- A signal without a terminal ----

mkfifo "$tmp/fifo"
rm "$tmp/out"
fresh
"$bin/cohort" chat --isa ref -t 1 -logit-bias 2-inf -session "$tmp/sig.json" <"$tmp/fifo" >"$tmp/out" 2>"$tmp/err" &
pid=$!
pids="$pids $pid"
exec 9>"$tmp/fifo"
echo 'Tell me a story.' >&9
until_true 60 test -s "$tmp/out"
kill -TERM $pid
rc=0
wait $pid || rc=$?
exec 9>&-
ran='cohort chat, SIGTERM'
[ "$rc" = 130 ] && [ "$(grep -c '"role"' "$tmp/sig.json")" = 2 ] && ! empty out
verdict 'a signal during an answer from a pipe: exit code 130, the session is written'
