"""usage: add_flag.py IN.gguf OUT.gguf KEY [0]: the same model with KEY = true (0: false) added to its keys."""
import struct
import sys

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
ALIGNMENT = 32  # the built-in model has no other
with open(sys.argv[1], "rb") as f:
    data = f.read()
version, n_tensors, n_keys = struct.unpack_from("<IQQ", data, 4)
at = 24


def number(code):
    global at
    (value,) = struct.unpack_from("<" + code, data, at)
    at += struct.calcsize("<" + code)
    return value


def skip_text():
    global at
    n_bytes = number("Q")
    at += n_bytes


for _ in range(n_keys):
    skip_text()
    kind, n = number("I"), 1
    if kind == 9:
        kind, n = number("I"), number("Q")
    if kind == 8:
        for _ in range(n):
            skip_text()
    else:
        at += n * SIZES[kind]
keys_end = at
for _ in range(n_tensors):
    skip_text()
    n_dims = number("I")
    at += 8 * n_dims + 12

key = sys.argv[3].encode()
head = data[:4] + struct.pack("<IQQ", version, n_tensors, n_keys + 1) + data[24:keys_end]
head += struct.pack("<Q", len(key)) + key + struct.pack("<IB", 7, len(sys.argv) < 5) + data[keys_end:at]
with open(sys.argv[2], "wb") as f:
    f.write(head + bytes(-len(head) % ALIGNMENT) + data[at + -at % ALIGNMENT:])
