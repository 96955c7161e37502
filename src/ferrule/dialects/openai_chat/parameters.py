"""Generation parameters that only change their name between a request and the body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferrule.core.request import ToolCallRequest
from ferrule.dialects.field import Field

# Our name, then the API's names, of which the first one present counts. top_k is not in OpenAI's API, but every open
# engine accepts it.
PARAMETERS: dict[str, tuple[Callable[[Field], Any], tuple[str, ...]]] = {
    "max_tokens": (Field.positive, ("max_completion_tokens", "max_tokens")),
    "temperature": (Field.number, ("temperature",)),
    "top_p": (Field.number, ("top_p",)),
    "top_k": (Field.integer, ("top_k",)),
    "seed": (Field.integer, ("seed",)),
}


def parameters_body(request: ToolCallRequest, max_tokens_field: str) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for ours, (_, theirs) in PARAMETERS.items():
        value = getattr(request, ours)
        if value is not None:
            body[max_tokens_field if ours == "max_tokens" else theirs[0]] = value
    if request.stop:
        body["stop"] = list(request.stop)
    return body


def read_parameters(body: Field) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    for ours, (kind, theirs) in PARAMETERS.items():
        field = next((body[name] for name in theirs if body[name].is_given), None)
        if field is not None:
            parameters[ours] = kind(field)
    return {**parameters, "stop": read_stop(body["stop"])}


def read_stop(field: Field) -> tuple[str, ...]:
    if isinstance(field.value, str):
        return (field.value,)
    return tuple(entry.string() for entry in field.items())
