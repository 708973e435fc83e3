"""A JSON document, by a schema: only tokens that lead to one are permitted.

The text is that of `cohort run -p "A pet:" -n 64 -seed 7 -json-schema SCHEMA`, byte for byte.

usage: json_schema.py MODEL.gguf"""

import sys

import cohort

SCHEMA = '{"type":"object","properties":{"name":{"type":"string","maxLength":8},"age":{"type":"integer"}},' \
         '"required":["name","age"]}'


def main(path: str) -> None:
    with cohort.Model(path) as model, cohort.Engine(model, n_slots=1, n_ctx=512) as engine, \
            cohort.Grammar.from_schema(model, SCHEMA) as grammar:
        with engine.submit("A pet:", max_tokens=64, seed=7, grammar=grammar) as request:
            print(request.text())


if __name__ == "__main__":
    main(sys.argv[1])
