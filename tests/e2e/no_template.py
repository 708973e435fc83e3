"""usage: no_template.py IN.gguf OUT.gguf: the same model with its chat template under another key."""
import sys

with open(sys.argv[1], "rb") as f:
    data = f.read()
with open(sys.argv[2], "wb") as f:
    f.write(data.replace(b"tokenizer.chat_template", b"tokenizer.chat_templxte", 1))
