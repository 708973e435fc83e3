"""What docs/server.md, docs/metrics.md and contrib/ say about the server, against the server.
serve_docs.py SOURCE URL CASE HELP: exits 1 and says what differs."""
import json, re, sys, urllib.error, urllib.request

SOURCE, URL, CASE, HELP = sys.argv[1:5]
wrong = []


def read(path):
    return open("%s/%s" % (SOURCE, path), encoding="utf-8").read()


def check(ok, *what):
    if not ok:
        wrong.append(" ".join(str(w) for w in what))


def post(path, body):
    r = urllib.request.Request(URL + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(r, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as e:
        return e.code, json.load(e)


def rows(text, heading):
    """Cells of the tables below a heading, up to the next one."""
    part = re.split(r"^#+ ", text.split("\n%s\n" % heading, 1)[1], maxsplit=1, flags=re.M)[0]
    for line in part.split("\n"):
        if line.startswith("| ") and not line.startswith("|--"):
            yield [c.strip() for c in line.strip("|").split(" | ")]


def served_metrics():
    text = urllib.request.urlopen(URL + "/metrics").read().decode()
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M)), text


def known(name, types):
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    return name in types if base == name or types.get(base) != "histogram" else True


def names_of(expr):
    return re.findall(r"\b(?:cohort|vllm|llamacpp):\w+", expr)


def metrics():
    types, text = served_metrics()
    doc = read("docs/metrics.md")
    listed = dict(re.findall(r"^\| `([a-z]+:\w+)` \| (\w+) \| [^|]+ \| [^|]+ \|$", doc, re.M))
    for name in types:
        check(name in listed, name, "is in /metrics, and not in docs/metrics.md")
    for name, kind in listed.items():
        check(name in types, name, "is in docs/metrics.md, and not in /metrics")
        check(types.get(name) in (None, kind), name, "is a", types.get(name), "and the doc says", kind)
    for line in re.findall(r"^    (.*)$", doc, re.M):
        for name in names_of(line):
            check(known(name, types), "docs/metrics.md asks for", name)
    for name, label, value in re.findall(r'^([a-z]+:\w+)\{(\w+)="([^"]+)"\}', text, re.M):
        if label in ("state", "kind", "reason"):
            row = re.search(r"^\| `%s` \|.*$" % re.escape(name), doc, re.M)
            check(row and "`%s`" % value in row.group(0), name, "has", value, "which its line does not name")
    check(len(listed) > 30, "only", len(listed), "names were found")


def dashboard():
    types = served_metrics()[0]
    d = json.loads(read("contrib/grafana-dashboard.json"))
    exprs = [t["expr"] for p in d["panels"] for t in p["targets"]]
    exprs += [v["query"]["query"] for v in d["templating"]["list"] if isinstance(v["query"], dict)]
    for e in exprs:
        check(names_of(e), "no name of ours in", e)
        for name in names_of(e):
            check(known(name, types), "the dashboard asks for", name)
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            check(types.get(base) != "histogram" or base != name, "a histogram has no value of its own:", e)
        check(e.count("(") == e.count(")") and e.count("{") == e.count("}"), "brackets:", e)
    all_of_it = " ".join(exprs)
    for name in ("cohort:rows_total", "vllm:time_to_first_token_seconds_bucket", "vllm:time_per_output_token_seconds_bucket",
                 "llamacpp:requests_deferred", "cohort:slots", "cohort:blocks", "cohort:prefix_hits_total",
                 "cohort:requests_refused_total", "cohort:parked_total"):
        check(name in all_of_it, "no panel shows", name)
    for p in "0.5", "0.95", "0.99":
        check("histogram_quantile(%s, sum by (le) (rate(vllm:time_to_first_token" % p in all_of_it, "no quantile", p)
    ids = [p["id"] for p in d["panels"]]
    check(len(set(ids)) == len(ids), "two panels have one id")


def routes():
    doc = " ".join(r[0] for r in rows(read("docs/server.md"), "## Routes"))
    real = set(re.findall(r'\{"(GET|POST|DELETE|PUT)", "([^"]+)", run_', read("prog/serve_route.c")))
    told = set(re.findall(r"`(GET|POST|DELETE|PUT) ([^` ]+)`", doc))
    told |= {("GET", p) for p in re.findall(r"and `(/[^` ]+)`", doc)}
    for r in sorted(real - told):
        check(False, "%s %s is not in docs/server.md" % r)
    for r in sorted(told - real):
        check(False, "%s %s is in docs/server.md, and no route" % r)
    check(len(real) > 15, "only", len(real), "routes were found")


def options():
    text = re.sub(r"\n {4,}", " ", open(HELP, encoding="utf-8").read())  # long names have a line of their own
    real = set(re.findall(r"(?:^  |, )-([a-z][a-z0-9-]*)", text, re.M))
    doc = read("docs/server.md")
    for name in set(re.findall(r"`-([a-z][a-z0-9-]+)[` ]", doc)):
        check(name in real, "docs/server.md names -%s, which `cohort serve` has not" % name)
    for row in list(rows(doc, "## Limits"))[1:]:
        name, default = row[0].strip("`-"), re.match(r"(none|\d+)", row[1]).group(1)
        line = re.search(r"^  -%s[ ,].*$" % re.escape(name), text, re.M)
        want = "0" if default == "none" else default
        check(line and re.search(r"default: %s\b" % want, line.group(0)), "-%s: the doc says %s" % (name, row[1]))
    for name in real:
        if name.startswith("max-") or name.endswith("-timeout") or name in ("queue", "queue-tokens", "drain"):
            check("| `-%s`" % name in doc, "-%s is no line of the limits" % name)


BODIES = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hello"}], "max_completion_tokens": 1},
    "/v1/completions": {"prompt": "Hello", "max_tokens": 1},
    "/v1/embeddings": {"input": "Hello"},
}
BATCH = {"input_file_id": "file-none", "endpoint": "/v1/completions", "completion_window": "24h"}


def try_field(path, name, state):
    body = dict(BODIES.get(path, BATCH))
    body[name] = [[]] if state == "honoured" else ["x"]
    status, answer = post(path, body)
    param = (answer.get("error") or {}).get("param") or ""
    if state == "ignored":
        check(status == 200 or param == "input_file_id", path, name, "is not ignored:", status, answer)
    else:
        check(status == 400 and re.split(r"[\[.]", param)[0] == name, path, name, "is not", state + ":", status, param)
        code = (answer.get("error") or {}).get("code") or ""
        check((code.startswith("unsupported")) == (state == "refused"), path, name, "is not", state + ": code", code)


def fields():
    doc = read("docs/server.md")
    generate = ["/v1/chat/completions", "/v1/completions"]
    where = {"### Chat": generate[:1], "### Completions": generate[1:], "### Embeddings": ["/v1/embeddings"],
             "### Batches": ["/v1/batches"], "### Also in chats and completions": generate, "## Beyond OpenAI's API": list(BODIES)}
    named, n = set(), 0
    for heading, paths in where.items():
        for row in list(rows(doc, heading))[1:]:
            check(row[1] in ("honoured", "ignored", "refused"), row)
            for name in re.findall(r"`([a-z_]+)`", row[0]):
                named.add(name)
                for path in paths:
                    try_field(path, name, row[1])
                    n += 1
    for name in re.findall(r'\{"([a-z_]+)", (?:GENERATE|CHAT|LEGACY|1 <<)', read("prog/openai_params.c")):
        check(name in named, name, "of prog/openai_params.c is not in docs/server.md")
    check(n > 90, "only", n, "fields were tried")


globals()[CASE]()
for w in wrong:
    print(w, file=sys.stderr)
sys.exit(1 if wrong else 0)
