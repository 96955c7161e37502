"""What a request may bring, whichever API it came by: so many messages and tools, schemas that were admitted, a budget
with an end. Looked at before anything is rendered or sent on.

Admission is work, and a client chooses how much: it is done in a thread, so that others are served meanwhile, and once
for each schema. Must not know dialects or engines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ferrule.core.json_text import dumps
from ferrule.core.request import ToolCallRequest
from ferrule.errors import DefinitionError, SchemaError, TooLargeError
from ferrule.schema.admission_cache import admitted_text
from ferrule.server.config.config import Limits

_REMEMBERED = 4_096
# Engines differ in what they do with a number beyond these, and some fall over.
_RANGES = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    # -1 and 0 both say that there is no such limit, to one engine or the other.
    "top_k": (-1, 1_000_000),
    "seed": (-(2**63), 2**63 - 1),
}
_STOPS = 64
_STOP_LENGTH = 1_000


class Admission:
    """Asked before every answer. `admissions` counts the schemas that were looked at and not only remembered."""

    __slots__ = ("_known", "_limits", "admissions")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._known: dict[int, None] = {}
        self.admissions = 0

    @property
    def remembered(self) -> int:
        return len(self._known)

    async def check(self, request: ToolCallRequest) -> None:
        """Raises for what is too much, or not admitted."""
        limits = self._limits
        _at_most(len(request.messages), limits.messages, "messages")
        _at_most(len(request.tools), limits.tools, "tools")
        _within("max_tokens", request.max_tokens, 1, limits.most_tokens)
        for name, (least, most) in _RANGES.items():
            _within(name, getattr(request, name), least, most)
        _at_most(len(request.stop), _STOPS, "texts to stop at")
        _at_most(max(map(len, request.stop), default=0), _STOP_LENGTH, "characters in one of them")
        named = [(tool.name, tool.parameters) for tool in request.tools]
        if request.response_schema is not None:
            named.append(("", request.response_schema))
        if named:
            await self._admit([(name, dumps(schema)) for name, schema in named])

    async def _admit(self, named: Sequence[tuple[str, str]]) -> None:
        if sum(len(text) for _, text in named) > self._limits.schema_bytes:
            raise TooLargeError(
                f"the schemas together are longer than {self._limits.schema_bytes} characters",
                hint="Bring fewer tools, or raise the limit.",
            )
        new = {text: name for name, text in named if hash(text) not in self._known}
        if not new:
            return
        self.admissions += len(new)
        await asyncio.to_thread(_admitted, new)
        for text in new:
            self._known[hash(text)] = None
        while len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]


def _admitted(named: dict[str, str]) -> None:
    for text, name in named.items():
        try:
            admitted_text(text)
        except SchemaError as refusal:
            of = f"the schema of tool {name!r}" if name else "the schema of the answer"
            raise SchemaError(f"{of} was not admitted: {refusal.message}", code=refusal.code, hint=refusal.hint) from (
                refusal
            )


def _within(name: str, value: float | None, least: float, most: float) -> None:
    if value is not None and not least <= value <= most:
        raise DefinitionError(f"{name}: {value!s:.40} is not from {least} to {most}", hint="Leave it out, or mend it.")


def _at_most(count: int, most: int, what: str) -> None:
    if count > most:
        raise TooLargeError(f"there are {count} {what}, more than {most}", hint="Send fewer, or raise the limit.")
