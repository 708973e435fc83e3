#!/bin/sh
# cohort template: the text of a conversation by a template file, a model's own, and what it refuses, with its exit codes.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

cat >"$tmp/chat.jinja" <<'EOF'
{{ bos_token }}{% for m in messages %}
[{{ m.role }}] {{ m.content }}{{ eos_token }}
{% endfor %}
{% if tools %}{{ tools|tojson }}{% endif %}
{% if documents %}{{ documents|length }}{% endif %}
{% if add_generation_prompt %}[assistant]{% endif %}
{% if day %}{{ strftime_now('%d %b %Y') }}{% endif %}
EOF
printf '[{"role": "user", "content": "Hé"}]' >"$tmp/m.json"
printf '{"model": "x", "messages": [{"role": "user", "content": "Hé"}], "tools": [{"b": 1.0, "a": 2}]}' >"$tmp/request.json"
printf '["t"]' >"$tmp/tools.json"
t=$tmp/chat.jinja

gives() { # NAME EXPECTED ARGUMENT...: the text and nothing else, no newline added
	what=$1
	printf '%b' "$2" >"$tmp/want"
	shift 2
	run cohort template "$@"
	[ "$rc" = 0 ] && empty err && same out want
	verdict "$what"
}
gives 'a template and messages' '[user] Hé\n[assistant]' --template "$t" --messages "$tmp/m.json"
gives 'no generation prompt' '[user] Hé\n' --template "$t" --messages "$tmp/m.json" --no-generation-prompt
gives 'BOS and EOS' '<s>[user] Hé</s>\n[assistant]' --template "$t" --messages "$tmp/m.json" --bos '<s>' --eos '</s>'
gives 'tools' '[user] Hé\n["t"][assistant]' --template "$t" --messages "$tmp/m.json" --tools "$tmp/tools.json"
gives 'documents' '[user] Hé\n1[assistant]' --template "$t" --messages "$tmp/m.json" --documents "$tmp/tools.json"
gives 'an object with messages and tools' '[user] Hé\n[{"b": 1.0, "a": 2}][assistant]' --template "$t" --messages "$tmp/request.json"
gives '--tools goes before the object' '[user] Hé\n["t"][assistant]' --template "$t" --messages "$tmp/request.json" --tools "$tmp/tools.json"
gives '--extra and --now' '[user] Hé\n[assistant]02 Jan 2025' --template "$t" --messages "$tmp/m.json" --extra '{"day": true}' --now 2025-01-02T03:04:05
gives 'one dash' '[user] Hé\n' -template "$t" -messages="$tmp/m.json" -no-generation-prompt
# By name: what the models of these names were trained on. Red with a name that is taken for a file, with a system message
# that is lost, and with content that is not trimmed.
printf '[{"role":"system","content":"S"},{"role":"user","content":" A "},{"role":"assistant","content":"B"},{"role":"user","content":"C"}]' >"$tmp/four.json"
named() { gives "-chat-template $1" "$2" -chat-template "$1" --messages "$tmp/four.json" --bos '<s>' --eos '</s>'; }
named chatml '<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n A <|im_end|>\n<|im_start|>assistant\nB<|im_end|>\n<|im_start|>user\nC<|im_end|>\n<|im_start|>assistant\n'
named gemma '<start_of_turn>user\nS\n\nA<end_of_turn>\n<start_of_turn>model\nB<end_of_turn>\n<start_of_turn>user\nC<end_of_turn>\n<start_of_turn>model\n'
named llama2 '[INST] <<SYS>>\nS\n<</SYS>>\n\nA [/INST] B </s><s>[INST] C [/INST]'
h() { printf '<|start_header_id|>%s<|end_header_id|>\\n\\n' "$1"; }
named llama3 "$(h system)S<|eot_id|>$(h user)A<|eot_id|>$(h assistant)B<|eot_id|>$(h user)C<|eot_id|>$(h assistant)"
named phi3 '<|system|>\nS<|end|>\n<|user|>\n A <|end|>\n<|assistant|>\nB<|end|>\n<|user|>\nC<|end|>\n<|assistant|>\n'
named plain 'S\n\nUser:  A \nAssistant: B\nUser: C\nAssistant:'
named vicuna 'S\n\nUSER:  A \nASSISTANT: B</s>\nUSER: C\nASSISTANT:'
named zephyr '<|system|>\nS</s>\n<|user|>\n A </s>\n<|assistant|>\nB</s>\n<|user|>\nC</s>\n<|assistant|>\n'
from_stdin() { "$bin/cohort" template --template "$t" --messages - <"$tmp/m.json"; }
run from_stdin
printf '[user] Hé\n[assistant]' >"$tmp/want"
[ "$rc" = 0 ] && same out want
verdict 'messages from standard input'
template_from_stdin() { "$bin/cohort" template --template - --messages "$tmp/m.json" <"$t"; }
run template_from_stdin
[ "$rc" = 0 ] && same out want
verdict 'the template from standard input'

# ---- A model's own ----

gives "the built-in model's" '<|user|>Hé<|assistant|>' --messages "$tmp/m.json"
gives 'a model by name' '<|user|>Hé<|assistant|>' -m "$model" --messages "$tmp/m.json"
# Its tokens, in a template of the same length. Seen red with those that were given left out.
python3 - "$model" "$tmp" <<'PY'
import struct, sys
b = open(sys.argv[1], "rb").read()
key = b"tokenizer.chat_template" + struct.pack("<I", 8)
at = b.index(key) + len(key) + 8
n = struct.unpack_from("<Q", b, at - 8)[0]
b = b[:at] + b"{{ bos_token }} {{ eos_token }}{#".ljust(n - 2) + b"#}" + b[at + n:]
open(sys.argv[2] + "/own.gguf", "wb").write(b)
open(sys.argv[2] + "/no_bos.gguf", "wb").write(b.replace(b"ggml.bos_token_id", b"ggml.xxx_token_id"))
PY
gives "the model's own tokens" '<s> </s>' -m "$tmp/own.gguf" --messages "$tmp/m.json"
gives "--bos goes before the model's" '<X> </s>' -m "$tmp/own.gguf" --messages "$tmp/m.json" --bos '<X>'
gives "--eos goes before the model's" '<s> <X>' -m "$tmp/own.gguf" --messages "$tmp/m.json" --eos '<X>'
gives 'a model without a begin token' ' </s>' -m "$tmp/no_bos.gguf" --messages "$tmp/m.json"
run cohort template -m "$model" --name tool_use --messages "$tmp/m.json"
refused 3 'tokenizer.chat_template.tool_use'
verdict 'a named template that the model does not have'
run cohort template -m "$tmp/none.gguf" --messages "$tmp/m.json"
refused 3 'none.gguf'
verdict 'a model that is not there'

# ---- What is refused ----

no() { # NAME CODE TEXT ARGUMENT...
	what=$1
	code=$2
	say=$3
	shift 3
	run cohort template "$@"
	refused "$code" "$say"
	verdict "$what"
}
no 'no messages' 2 '--messages' --template "$t"
no 'a template and a model' 2 'without --model' --template "$t" -m "$model" --messages "$tmp/m.json"
no 'standard input twice' 2 'only one' --template - --messages -
no 'an option that is not there' 2 'Try' --template "$t" --messages "$tmp/m.json" --prompt x
no 'extra that is not JSON' 2 'extra' --template "$t" --messages "$tmp/m.json" --extra '{'
no 'a time that is none' 2 'now must' --template "$t" --messages "$tmp/m.json" --now yesterday
no 'a template that is not there' 4 'none.jinja' --template "$tmp/none.jinja" --messages "$tmp/m.json"
no 'messages that are not there' 4 'none.json' --template "$t" --messages "$tmp/none.json"
printf '[{]' >"$tmp/bad.json"
no 'messages that are not JSON' 4 'messages is not JSON' --template "$t" --messages "$tmp/bad.json"
printf '{"a": 1}' >"$tmp/bad.json"
no 'an object without messages' 4 'messages' --template "$t" --messages "$tmp/bad.json"
printf '"x"' >"$tmp/bad.json"
no 'messages that are no array' 4 'array' --template "$t" --messages "$tmp/bad.json"
printf 'a\n{%% if x %%}' >"$tmp/bad.jinja"
no 'a template that does not end' 4 'line 2' --template "$tmp/bad.jinja" --messages "$tmp/m.json"
printf "a\n\n{{ raise_exception('Roles must alternate') }}" >"$tmp/bad.jinja"
no 'a template that refuses' 1 'line 3: Roles must alternate' --template "$tmp/bad.jinja" --messages "$tmp/m.json"
# shellcheck disable=SC2016
printf '{%% macro m() %%}{{ m() }}{%% endmacro %%}{{ m() }}' >"$tmp/bad.jinja"
no 'a template without end' 1 'levels deep' --template "$tmp/bad.jinja" --messages "$tmp/m.json"
# What a terminal gets of texts that would steer it. Shown red with the bytes as they are.
cat >"$tmp/on_tty.py" <<'PY'
import os, pty, subprocess, sys
master, slave = pty.openpty()
p = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave)
os.close(slave)
try:
    while True:
        os.write(1, os.read(master, 1024))
except OSError: # the terminal is closed
    sys.exit(p.wait())
PY
printf '[{"role": "user", "content": "\\u001b[2J\\u009b31m\\u202e"}]' >"$tmp/odd.json"
printf '{{ messages[0].content }}' >"$tmp/odd.jinja"
printf '{{ raise_exception(messages[0].content) }}' >"$tmp/bad.jinja"
run python3 "$tmp/on_tty.py" "$bin/cohort" template --template "$tmp/odd.jinja" --messages "$tmp/odd.json"
[ "$rc" = 0 ] && is out '^[[2J<U+009B>31m<U+202E>'
verdict 'a text on a terminal does not steer it'
run python3 "$tmp/on_tty.py" "$bin/cohort" template --template "$tmp/bad.jinja" --messages "$tmp/odd.json"
[ "$rc" = 1 ] && has out 'line 1:  [2J<U+009B>31m<U+202E>'
verdict 'nor does what a template says against it'
printf '{\302\233' >"$tmp/bad.json"
run python3 "$tmp/on_tty.py" "$bin/cohort" template --template "$tmp/odd.jinja" --messages "$tmp/bad.json"
[ "$rc" = 4 ] && has out "expected near '<U+009B>', line 1"
verdict 'nor bytes that are not JSON'
run cohort template --help
[ "$rc" = 0 ] && has out '-no-generation-prompt' && has out 'cohort template --messages chat.json' && empty err
verdict 'help'
