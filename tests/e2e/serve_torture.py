"""A server whose calls to the system fail: see serve_torture.sh.

For each question, each kind of call and each k: the k-th call of the kind that the server makes while it answers fails,
once or from then on. The client gets a whole answer with the bits it always has, an error, or a connection that is
closed, never silence. Behind it the same question is answered as ever; behind all of a kind the server holds as many
blocks of memory, descriptors, slots and cached blocks as before.
"""
import json
import os
import time

from fault_box import KINDS, Box
from serve_client import FOLDER, Cases, Server, eventually, request

FULL = os.environ.get("TORTURE") == "full"
ONLY = os.environ.get("TORTURE_ONLY")  # "question" or "question kind"
PLACE = int(os.environ.get("TORTURE_K", "0"))  # this k only, once; where it was is on the server's standard error
POINTS = 4  # of a kind and a mode in a short run
PATIENCE_S = 20
# The least number of failures that a short run injects into each: half of the fewest that were seen.
FLOORS = {"completion": 7, "stream": 10, "chat": 7, "schema": 7, "native": 7, "embeddings": 8, "words": 14, "looking": 16,
          "slots": 27, "files": 34, "batches": 35, "starts": 15}
cases = Cases()


def too_few(name, n):
    """What is wrong with so few failures; one kind or one place alone has no floor."""
    return ["only %d failures; there should be %d" % (n, FLOORS[name])] if n < FLOORS[name] and ONLY in (None, name) else []


class Failed(Exception):
    """The server said so, or hung up."""


class Silent(Exception):
    """Nothing came."""


STORY = ("Once upon a time there was a little cat. The cat liked to play in the garden, and the dog liked the cat. One day the "
         "cat and the dog went to the park to play with a ball, and they had so much fun all day long.")
GOOD = {"prompt": STORY, "max_tokens": 3, "seed": 3}
CHAT = {"messages": [{"role": "user", "content": "Tell me of a cat."}], "max_tokens": 3, "seed": 1}


def whole(answer, status=200):
    """The JSON of an answer that is good."""
    if answer.status == -1:
        raise Silent()
    if answer.status != status:
        raise Failed(answer.status, answer)
    value = answer.json()
    return answer.body if value is None else value


def ask(server, method, path, body=None, headers=()):
    return whole(server.ask(method, path, body, headers, PATIENCE_S))


def completion(server):
    a = ask(server, "POST", "/v1/completions", {**GOOD, "n": 2, "logprobs": 2, "stop": ["zzz"]})
    return [(c["text"], c["logprobs"]) for c in a["choices"]]


def stream(server):
    with server.connect(PATIENCE_S) as c:
        c.send(request("POST", "/v1/completions", {**GOOD, "stream": True}))
        try:
            events = list(c.events())
        except AssertionError as e:
            raise Failed(0, e) from None
        except Exception as e:
            raise (Silent() if type(e).__name__ == "Late" else Failed(0, e)) from None
        if c.status != 200:
            raise Failed(c.status, events)
    values = [json.loads(e[6:]) for e in events if e.startswith("data: {")]
    if not events or events[-1] != "data: [DONE]" or any("error" in v for v in values):
        raise Failed(200, events)
    return "".join(c["text"] for v in values for c in v["choices"])


def chat(server):
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {
        "at": {"type": "string", "enum": ["cat", "dog"]}}, "required": ["at"]}}}
    a = ask(server, "POST", "/v1/chat/completions", {**CHAT, "max_tokens": 80, "tools": [tool], "tool_choice": "required"})
    calls = a["choices"][0]["message"]["tool_calls"]
    return calls[0]["function"]


def schema(server):
    wanted = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}}, "required": ["a", "b"]}
    a = ask(server, "POST", "/v1/chat/completions", {**CHAT, "max_tokens": 8, "response_format": {
        "type": "json_schema", "json_schema": {"name": "s", "schema": wanted}}})
    return a["choices"][0]["message"]


def native(server):
    a = ask(server, "POST", "/completion", {"prompt": STORY, "n_predict": 3, "seed": 3, "n_probs": 2, "grammar":
                                            'root ::= [a-z ]+ "."'})
    return a["content"], a["completion_probabilities"]


def embeddings(server):
    return ask(server, "POST", "/v1/embeddings", {"input": ["a cat", "a dog"]})["data"]


def words(server):
    tokens = ask(server, "POST", "/tokenize", {"content": STORY, "with_pieces": True})["tokens"]
    text = ask(server, "POST", "/detokenize", {"tokens": [t["id"] for t in tokens]})["content"]
    return tokens, text, ask(server, "POST", "/apply-template", {"messages": CHAT["messages"]})["prompt"]


def looking(server):
    ask(server, "GET", "/slots")
    ask(server, "GET", "/metrics")
    ask(server, "GET", "/")
    return ask(server, "GET", "/health"), ask(server, "GET", "/props")["n_ctx"], [m["id"] for m in
                                                                                ask(server, "GET", "/v1/models")["data"]]


def slots(server):
    """Saved, forgotten, brought back."""
    text = ask(server, "POST", "/v1/completions", {**GOOD, "n": 2})["choices"][0]["text"]
    ask(server, "POST", "/slots/0?action=save", {"filename": "slot.bin"})
    ask(server, "POST", "/slots/0?action=erase", {})
    n = ask(server, "POST", "/slots/0?action=restore", {"filename": "slot.bin"})["n_restored"]
    return text, n >= 32, ask(server, "POST", "/v1/completions", GOOD)["choices"][0]["text"]


def upload(server, content):
    head = '--xx\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--xx\r\nContent-Disposition: form-data; ' \
        'name="file"; filename="in.jsonl"\r\nContent-Type: application/octet-stream\r\n\r\n'
    raw = head.encode() + content + b"\r\n--xx--\r\n"
    lines = "POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=xx\r\nContent-Length: %d\r\n\r\n"
    with server.connect(PATIENCE_S) as c:
        c.send((lines % len(raw)).encode() + raw)
        return whole(c.answer())


LINES = b"".join(json.dumps({"custom_id": "r%d" % i, "method": "POST", "url": "/v1/completions", "body": {
    "prompt": "Tom", "max_tokens": 2, "seed": i}}).encode() + b"\n" for i in range(3))


def files(server):
    f = upload(server, LINES)
    try:
        n = len(ask(server, "GET", "/v1/files")["data"])
        content = server.ask("GET", "/v1/files/%s/content" % f["id"], None, (), PATIENCE_S)
        if content.status == 200:
            return n >= 1, content.body == LINES
        return whole(content)
    finally:
        ask(server, "DELETE", "/v1/files/" + f["id"])


TEMPLATE = """{% if tools %}Tools: {{ tools | tojson }} Call with <tool_call>
{}
</tool_call>.{% endif %}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}{% endfor %}<|assistant|>"""


class Torture:
    def __init__(self, server, box):
        self.server, self.box = server, box
        self.n_all = 0

    def attempt(self, question):
        """What it answers; None: it failed, and self.refusal says how. What is wrong with that."""
        self.refusal = None
        try:
            return question(self.server), None
        except Silent:
            return None, "no answer"
        except Failed as e:
            self.refusal = e.args
            return None, "%s blames the client" % (e.args[1],) if 400 <= e.args[0] < 500 else None
        except (OSError, KeyError, TypeError) as e:
            return None, "%s: %s" % (type(e).__name__, e)

    def tidy(self):
        """Files whose answers were lost go; otherwise the list of all of them takes more and more calls."""
        for f in ask(self.server, "GET", "/v1/files")["data"]:
            ask(self.server, "DELETE", "/v1/files/" + f["id"])

    def held(self, question):
        """Blocks, descriptors, threads, cells in use: when nothing is under way, behind some good ones."""
        self.tidy()
        for _ in range(3):
            question(self.server)
        eventually(lambda: self.server.busy() == 0, 10)
        m = self.server.metrics()
        time.sleep(0.05)
        pid = self.server.process.pid
        return (self.box.live(), len(os.listdir("/proc/%d/fd" % pid)), len(os.listdir("/proc/%d/task" % pid)),
                m['cohort:blocks{state="used"}'])

    def question(self, name, question):
        want = question(self.server)
        wrong = []
        n = n_kept = 0
        for _ in range(10):
            question(self.server)  # what grows with use has grown
        before = self.held(question)
        self.box.arm()
        same = question(self.server) == want
        self.box.disarm()
        for kind, n_calls in enumerate(self.box.calls()):
            if ONLY and ONLY not in (name, name + " " + KINDS[kind]):
                continue
            stride = 1 if FULL else max(1, n_calls // POINTS)
            for lasting in (False, True):
                if KINDS[kind] == "accept" and lasting:
                    continue  # nobody can get in then: see crowd()
                for k in [PLACE] if PLACE else range(1 + (stride // 2 if lasting else 0), n_calls + 1, stride):
                    self.box.arm(kind, k, lasting)
                    self.box.map[12] = PLACE > 0
                    got, why = self.attempt(question)
                    self.box.disarm()
                    if question is files:
                        self.tidy()
                    n += self.box.failed() > 0
                    n_kept += got is not None
                    if got is not None and got != want:
                        why = "other bits: %.300r" % (got,)
                    if not why and not self.box.failed() and got is None:
                        why = "it failed without a failure: %r" % (self.refusal,)
                    try:
                        again = question(self.server)
                        if again != want:
                            why = why or "behind it other bits: %.300r" % (again,)
                    except Exception as e:
                        why = why or "behind it: %r" % e
                    if why:
                        if os.environ.get("TORTURE_SHOW"):
                            print("# %s %s, k = %d: %.400s" % (KINDS[kind], "from then on" if lasting else "once", k, why), flush=True)
                        wrong.append("%s %s, k = %d: %s" % (KINDS[kind], "from then on" if lasting else "once", k, why))
                        if self.server.process.poll() is not None:
                            cases.check(name, False, "\n".join(wrong + self.server.lines[-5:]))
                            cases.end()
        if PLACE:
            print("\n".join(self.server.lines))
        # Lists that grow by doubling may do so once more. On a busy machine the end of the last connection is seen late.
        for _ in range(4):
            after = self.held(question)
            lost = [b - a for a, b in zip(before, after)]
            kept = lost[0] > 4 or lost[1] > 0 or lost[2] > 0 or after[3] > 0
            if not kept:
                break
            time.sleep(0.5)
        if kept:
            wrong.append("left: %d blocks of memory, %d descriptors, %d threads, %d cached blocks in use" % (*lost[:3], after[3]))
        self.n_all += n
        wrong = ([] if PLACE else too_few(name, n)) + wrong
        cases.check("%s: %d failures, %d of no consequence" % (name, n, n_kept), same and not wrong, "\n".join(wrong[:12]))

    def batch_texts(self, b):
        """What a batch came to."""
        a = self.server.ask("GET", "/v1/files/%s/content" % b["output_file_id"])
        lines = [json.loads(line) for line in a.body.splitlines()]
        return sorted((v["custom_id"], v["response"]["body"]["choices"][0]["text"]) for v in lines)

    def batch_begin(self, file_id):
        """Its id, when it has been told of a failure, or is done; looked for on the disk, so that nothing is asked meanwhile."""
        b = ask(self.server, "POST", "/v1/batches", {"input_file_id": file_id, "endpoint": "/v1/completions",
                                                     "completion_window": "24h"})
        path = os.path.join(FOLDER, "data", "batches", b["id"] + ".json")

        def over():
            try:
                with open(path) as f:
                    return self.box.failed() > 0 or json.load(f)["batch"]["status"] in ("completed", "failed")
            except (OSError, ValueError):
                return False
        eventually(over, 3, 0.002)
        time.sleep(0.005)
        return b["id"]

    def batches(self):
        """A failure puts a batch off, and fails none: all that were begun have all results in the end."""
        file_id = upload(self.server, LINES)["id"]
        wrong, begun = [], {}
        self.box.arm()
        first = self.batch_begin(file_id)
        self.box.disarm()
        calls = self.box.calls()
        n = 0
        for kind, n_calls in enumerate(calls):
            if KINDS[kind] in ("accept", "recv", "send") or (ONLY and ONLY not in ("batches", "batches " + KINDS[kind])):
                continue
            stride = max(1, n_calls // (40 if FULL else POINTS))
            for lasting in (False, True):
                for k in range(1 + (stride // 2 if lasting else 0), n_calls + 1, stride):
                    name = "%s %s, k = %d" % (KINDS[kind], "from then on" if lasting else "once", k)
                    self.box.arm(kind, k, lasting)
                    try:
                        begun[self.batch_begin(file_id)] = name
                    except Silent:
                        wrong.append(name + ": no answer")
                    except (Failed, OSError):
                        pass
                    self.box.disarm()
                    n += self.box.failed() > 0
        ended = {}

        def all_over():
            for i in set(begun) | {first}:
                if i not in ended:
                    b = ask(self.server, "GET", "/v1/batches/" + i)
                    if b["status"] in ("completed", "failed", "cancelled", "expired"):
                        ended[i] = b
            return len(ended) == len(begun) + 1
        if not eventually(all_over, 60, 0.2):
            wrong += ["%s: it never ended" % begun[i] for i in begun if i not in ended]
        want = self.batch_texts(ended[first])
        for i, name in begun.items():
            b = ended.get(i)
            if b and b["status"] != "completed":
                wrong.append("%s: %s" % (name, b))
            elif b and self.batch_texts(b) != want:
                wrong.append("%s: other results" % name)
        self.n_all += n
        wrong = too_few("batches", n) + wrong
        cases.check("batches: %d failures, %d begun" % (n, len(begun)), len(want) == 3 and not wrong, "\n".join(wrong[:12]))

    def crowd(self):
        """Nobody can be let in for a while: they wait, and are answered then."""
        self.box.arm(KINDS.index("accept"), 1, True)
        with self.server.connect(PATIENCE_S) as one, self.server.connect(PATIENCE_S) as two:
            for c in (one, two):
                c.send(request("GET", "/health"))
            eventually(lambda: self.box.failed() > 0, 5)
            self.box.disarm()
            got = [c.answer().status for c in (one, two)]
        cases.check("accept, from then on: who waited is answered", got == [200, 200] and self.box.failed() > 0, got)
        self.n_all += 1


def begin(args, box, env, kind=len(KINDS), k=0, lasting=False):
    """Starts a server while calls fail. What is wrong with how it came up, or ended."""
    box.arm(kind, k, lasting)
    server = Server(args, env=env)
    box.disarm()
    try:
        if not server.up:
            code = server.wait(PATIENCE_S)
            return None if code and code > 0 and server.lines else "ended with %s: %s" % (code, server.lines)
        if server.get("/health").status != 200:
            return "it came up and does not answer"
        return None if server.stop() == 0 else "it came up and did not end well: %s" % server.lines[-3:]
    finally:
        server.__exit__()


def starts(args, box, env):
    """A server that cannot start says why; one that can serves."""
    wrong = [begin(args, box, env)]
    n = 0
    for kind, n_calls in enumerate(box.calls()):
        if KINDS[kind] in ("accept", "recv", "send"):
            continue
        stride = max(1, n_calls // (40 if FULL else 2))
        for lasting in (False, True):
            for k in range(1 + (stride // 2 if lasting else 0), n_calls + 1, stride):
                why = begin(args, box, env, kind, k, lasting)
                n += box.failed() > 0
                wrong += ["%s %s, k = %d: %s" % (KINDS[kind], "from then on" if lasting else "once", k, why)] if why else []
    wrong = too_few("starts", n) + [w for w in wrong if w]
    cases.check("starts: %d failures" % n, not wrong, "\n".join(wrong[:12]))
    return n


QUESTIONS = {f.__name__: f for f in (completion, stream, chat, schema, native, embeddings, words, looking, slots, files)}


def main():
    for name in ("slots", "data"):
        os.mkdir(os.path.join(FOLDER, name))
    box = Box(os.path.join(FOLDER, "box"))
    env = box.env()
    template = os.path.join(FOLDER, "template")
    with open(template, "w") as f:
        f.write(TEMPLATE)
    args = ["-np", "2", "-t", "2", "-chat-template", template, "-slot-save-path", os.path.join(FOLDER, "slots"), "-data",
            os.path.join(FOLDER, "data")]
    with Server(args, env=env) as server:
        t = Torture(server, box)
        cases.check("the server counts its calls", box.live() > 0, box.live())
        for name, question in QUESTIONS.items():
            if not ONLY or ONLY.split()[0] == name:
                t.question(name, question)
        if not ONLY or ONLY.startswith("batches"):
            t.batches()
        t.crowd()
        left = [f for d, _, names in os.walk(FOLDER) for f in names if f.endswith(".tmp")]
        cases.check("no file is left half written", not left, left)
        cases.check("and it ends as it should", server.stop() == 0, server.lines[-3:])
    n = starts(args, box, env) if not ONLY or ONLY == "starts" else 0
    print("# %d failures" % (t.n_all + n))
    cases.end()


main()
