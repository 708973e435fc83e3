"""cohort: many language-model sequences through one model at once.

    import cohort

    with cohort.Model("model.gguf") as model, cohort.Engine(model, n_slots=4) as engine:
        for event in engine.submit("Once upon a time", max_tokens=64, seed=7):
            print(event.text.decode("utf-8", "replace"), end="", flush=True)

The names and their meaning are those of cohort.h, cohort_engine.h and cohort_tools.h; cohort.abi has all of their declarations.
"""

from . import _abi as abi
from ._abi import (COHORT_KV_F16 as KV_F16, COHORT_KV_F32 as KV_F32, COHORT_KV_Q8_0 as KV_Q8_0,
                   COHORT_OUTPUT_EMBEDDINGS as OUTPUT_EMBEDDINGS, COHORT_OUTPUT_LOGITS as OUTPUT_LOGITS,
                   COHORT_POOL_CLS as POOL_CLS, COHORT_POOL_LAST as POOL_LAST, COHORT_POOL_MEAN as POOL_MEAN,
                   COHORT_POOL_NONE as POOL_NONE, COHORT_ROOM_OVERCOMMIT as ROOM_OVERCOMMIT)
from ._context import SEQ_ALL, Batch, Context, Counters, Row, Sampler, Span, Usage
from ._engine import Engine, Event, Output, Request, RequestStats, strategies
from ._lib import Aborted, Error, LibraryError, NoRoom, lib
from ._model import ChatTemplate, Detok, Grammar, Model, ModelInfo, schema_to_gbnf


def version() -> str:
    """Of the library."""
    return str(lib.cohort_version().decode())


__all__ = [
    "Aborted", "Batch", "ChatTemplate", "Context", "Counters", "Detok", "Engine", "Error", "Event", "Grammar",
    "KV_F16", "KV_F32", "KV_Q8_0", "LibraryError", "Model", "ModelInfo", "NoRoom", "OUTPUT_EMBEDDINGS", "OUTPUT_LOGITS", "Output",
    "POOL_CLS", "POOL_LAST", "POOL_MEAN", "POOL_NONE", "ROOM_OVERCOMMIT", "Request", "RequestStats", "Row", "SEQ_ALL",
    "Sampler", "Span", "Usage", "abi", "lib", "schema_to_gbnf", "strategies", "version",
]
