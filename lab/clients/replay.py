"""Validate what a gateway sent against a client's own types, with Pydantic in strict mode."""

import importlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

# The module and name of the types by API, for one event of a stream and for a whole answer.
TYPES: Final[Mapping[str, tuple[str, str, str]]] = {
    "chat": ("openai.types.chat", "ChatCompletionChunk", "ChatCompletion"),
    "responses": ("openai.types.responses", "ResponseStreamEvent", "Response"),
    "messages": ("anthropic.types", "RawMessageStreamEvent", "Message"),
}


@cache
def _adapter(module: str, name: str) -> Any:
    adapter: Any = importlib.import_module("pydantic").TypeAdapter
    return adapter(getattr(importlib.import_module(module), name))


def check_answer(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Validate {"api", "events"} or {"api", "body"}; return the faults and the number of values."""
    module, event, whole = TYPES[request["api"]]
    name, values = (event, request["events"]) if "events" in request else (whole, [request["body"]])
    return {"read": len(values), "faults": _faults(_adapter(module, name), values)}


def _faults(adapter: Any, values: Sequence[Any]) -> list[str]:
    invalid: Any = importlib.import_module("pydantic").ValidationError
    faults: list[str] = []
    for value in values:
        try:
            # As JSON: in strict mode Pydantic accepts a Python list only for a list type, but JSON arrays for all.
            adapter.validate_json(json.dumps(value), strict=True)
        except invalid as fault:
            faults.append(f"{json.dumps(value)[:200]}: {str(fault)[:400]}")
    return faults
