"""What a gateway sent, read again by a client's own types, as strictly as Pydantic can."""

import importlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

# By what was asked for: the module and the name of the type, for one event of a stream and for a whole answer.
TYPES: Final[Mapping[str, tuple[str, str, str]]] = {
    "chat": ("openai.types.chat", "ChatCompletionChunk", "ChatCompletion"),
    "responses": ("openai.types.responses", "ResponseStreamEvent", "Response"),
    "messages": ("anthropic.types", "RawMessageStreamEvent", "Message"),
}


@cache
def _adapter(module: str, name: str) -> Any:
    adapter: Any = importlib.import_module("pydantic").TypeAdapter
    return adapter(getattr(importlib.import_module(module), name))


def replayed(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """`given`: {"api", "events"} or {"api", "body"}. Tells what did not fit, and how many were read."""
    module, event, whole = TYPES[given["api"]]
    name, values = (event, given["events"]) if "events" in given else (whole, [given["body"]])
    return {"read": len(values), "faults": _faults(_adapter(module, name), values)}


def _faults(adapter: Any, values: Sequence[Any]) -> list[str]:
    invalid: Any = importlib.import_module("pydantic").ValidationError
    found: list[str] = []
    for value in values:
        try:
            # As JSON, since strict types take a list for a list and no more, and JSON has no others.
            adapter.validate_json(json.dumps(value), strict=True)
        except invalid as fault:
            found.append(f"{json.dumps(value)[:200]}: {str(fault)[:400]}")
    return found
