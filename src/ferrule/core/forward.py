"""ForwardRequest: a request that an engine answers in the client's own API, without messages and without tools.

Text completions and embeddings hold no tool calls, so nothing is rendered, constrained or parsed for them: the fields
go to the engine, and what it answers goes to the client as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ferrule.core.event import Finish


class ForwardApi(StrEnum):
    """An API whose requests are forwarded. The value is the last part of its path, after `/v1/`."""

    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardRequest:
    """One request, already checked. `fields` is the body without the model, which is the engine's to name."""

    api: ForwardApi
    fields: Mapping[str, Any]
    model: str | None = None
    """The name of the model in the client's request."""
    is_streamed: bool = False
    answers: int = 1
    """How many texts are generated: one for each prompt, times `n` or `best_of`."""
    ignored: tuple[str, ...] = ()
    """The paths of what the client sent and is not forwarded; as in `ToolCallRequest.ignored`."""


@dataclass(frozen=True, slots=True)
class ForwardedPart:
    """A part of the engine's answer: its whole body, or one server-sent event, byte for byte.

    `finish` is set on the part that ends the answer.
    """

    data: bytes
    finish: Finish | None = field(default=None, compare=False)
