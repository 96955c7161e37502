"""Limits on the content of a request, the same for every API: messages, tools, schemas and the token budget.

They are checked before anything is rendered or sent to an engine. Checking a schema is work, and the client chooses how
much: it runs in a thread, so that other requests are served meanwhile, and once per schema. Must not know dialects or
engines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from ferrule.core.forward import ForwardRequest
from ferrule.core.history import is_encodable
from ferrule.core.json_text import dumps
from ferrule.core.media import require_sizes
from ferrule.core.named_media import all_media
from ferrule.core.request import ToolCallRequest
from ferrule.errors import DefinitionError, SchemaError, TooLargeError
from ferrule.schema.admission import admit
from ferrule.schema.admission_cache import admit_text
from ferrule.server.config.config import GatewayLimits

_CACHE_SIZE = 4_096
# Engines treat numbers outside these ranges differently, and some crash.
_RANGES = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    # Depending on the engine, -1 or 0 means no limit.
    "top_k": (-1, 1_000_000),
    "seed": (-(2**63), 2**63 - 1),
}
_MAX_STOPS = 64
_MAX_STOP_LENGTH = 1_000


class RequestLimits:
    """Checks each request before it is answered. `admissions` counts the schemas that were not in the cache."""

    __slots__ = ("_admitted_hashes", "_limits", "admissions")

    def __init__(self, limits: GatewayLimits) -> None:
        self._limits = limits
        self._admitted_hashes: dict[int, None] = {}
        self.admissions = 0

    @property
    def cache_size(self) -> int:
        return len(self._admitted_hashes)

    async def check(self, request: ToolCallRequest, may_defer: bool = False) -> None:
        """Raise if the request exceeds a limit or a schema is not admitted.

        `may_defer`: tools of the request may be deferred, so that a prompt lists few of them.
        """
        limits = self._limits
        _check_count(len(request.messages), limits.messages, "messages")
        most_tools = max(limits.tools, limits.deferred_tools) if may_defer else limits.tools
        _check_count(len(request.tools), most_tools, "tools")
        _check_range("max_tokens", request.max_tokens, 1, limits.most_tokens)
        require_sizes(
            [media for message in request.messages for media in all_media(message)],
            max_count=limits.media_parts,
            max_bytes=limits.media_bytes,
            max_total_bytes=limits.media_total_bytes,
        )
        for name, (minimum, maximum) in _RANGES.items():
            _check_range(name, getattr(request, name), minimum, maximum)
        _check_stops(request.stop)
        schemas = [(tool.name, tool.parameters) for tool in request.tools]
        if request.response_schema is not None:
            schemas.append(("", request.response_schema))
        if schemas:
            await self._admit([(name, _schema_text(name, schema)) for name, schema in schemas])

    def check_forwarded(self, request: ForwardRequest) -> None:
        """Raise if a forwarded request exceeds a limit. Its fields have been checked one by one where they were read.

        The token budget is that of all its texts together: one request may ask for thousands.
        """
        fields, limits = request.fields, self._limits
        _check_range("max_tokens", fields.get("max_tokens"), 1, limits.most_tokens)
        total = request.answers * fields.get("max_tokens", 0)
        if total > limits.most_tokens:
            raise TooLargeError(
                f"max_tokens for {request.answers} texts are {total} tokens; at most {limits.most_tokens} are allowed",
                hint="Send fewer prompts, a smaller n, best_of or max_tokens, or raise limits.most_tokens.",
            )
        _check_stops(fields.get("stop", ()))

    async def _admit(self, schemas: Sequence[tuple[str, str]]) -> None:
        if sum(len(text) for _, text in schemas) > self._limits.schema_bytes:
            raise TooLargeError(
                f"the schemas together are longer than {self._limits.schema_bytes} characters",
                hint="Send fewer tools, or raise limits.schema_bytes.",
            )
        new = {text: name for name, text in schemas if hash(text) not in self._admitted_hashes}
        if not new:
            return
        self.admissions += len(new)
        await asyncio.to_thread(_admit_schemas, new)
        for text in new:
            self._admitted_hashes[hash(text)] = None
        while len(self._admitted_hashes) > _CACHE_SIZE:
            del self._admitted_hashes[next(iter(self._admitted_hashes))]


def _admit_schemas(schemas: dict[str, str]) -> None:
    for text, name in schemas.items():
        try:
            admit_text(text)
        except SchemaError as error:
            raise _not_admitted(name, error) from error


def _schema_text(name: str, schema: dict[str, Any]) -> str:
    try:
        return dumps(schema)
    except (ValueError, RecursionError):
        # The body was JSON, so this is a number that no float can hold, such as 1e999. Admission says where it is.
        try:
            admit(schema)
        except SchemaError as error:
            raise _not_admitted(name, error) from error
        raise


def _not_admitted(name: str, error: SchemaError) -> SchemaError:
    subject = f"the schema of tool {name!r}" if name else "the response schema"
    return SchemaError(
        f"{subject} was not admitted: {error.message}", code=error.code, path=error.path, hint=error.hint
    )


def _check_stops(stops: Sequence[str]) -> None:
    _check_count(len(stops), _MAX_STOPS, "stop sequences")
    _check_count(max(map(len, stops), default=0), _MAX_STOP_LENGTH, "characters in a stop sequence")
    if not all(map(is_encodable, stops)):
        raise DefinitionError(
            "a stop sequence has half of a surrogate pair", hint="Send the whole pair, or another stop sequence."
        )


def _check_range(name: str, value: float | None, minimum: float, maximum: float) -> None:
    if value is not None and not minimum <= value <= maximum:
        raise DefinitionError(
            f"{name}: {value!s:.40} is not between {minimum} and {maximum}", hint="Omit it, or correct it."
        )


def _check_count(count: int, maximum: int, noun: str) -> None:
    if count > maximum:
        raise TooLargeError(
            f"the request has {count} {noun}; at most {maximum} are allowed", hint="Send fewer, or raise the limit."
        )


# Bound the cost of parsing a JSON text before it is parsed.
#
# A short text can hold a million lists, or lists nested a million deep. Parsing blocks the event loop, so the number
# of values and the depth are counted first, with byte searches only. Whether the text is JSON at all is left to the
# parser.

_OPENING = (b"{", b"[")
_QUOTES_PER_VALUE = 4
"""A string value under a key has four quotes."""
_NOT_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))
_TO_SQUARE = bytes.maketrans(b"{}", b"[]")


def check_json(text: bytes, depth: int, values: int) -> None:
    """Raise `TooLargeError` for a text that is nested more deeply than `depth` or holds more than `values` values."""
    brackets = sum(map(text.count, _OPENING))
    if brackets <= depth and brackets + text.count(b",") < values:
        # Brackets inside strings are counted too. The count is never too small, and good enough for most texts.
        return
    structure = _outside_strings(text, values)
    # Every value except the first of its list or object follows a comma.
    if structure is None or sum(map(structure.count, _OPENING)) + structure.count(b",") >= values:
        raise TooLargeError(
            f"the request body holds more than {values} values", hint="Send less, or raise limits.json_values."
        )
    if _is_deeper(structure.translate(_TO_SQUARE, _NOT_BRACKETS), depth):
        raise TooLargeError(
            f"the request body is nested more than {depth} deep", hint="Send flatter JSON, or raise limits.json_depth."
        )


def _outside_strings(text: bytes, values: int) -> bytes | None:
    """Remove the contents of strings. Returns None if there are more strings than `values` allows."""
    plain = text.replace(rb"\\", b"").replace(rb"\"", b"")
    if plain.count(b'"') > _QUOTES_PER_VALUE * values:
        return None
    return b"".join(plain.split(b'"')[::2])


def _is_deeper(brackets: bytes, depth: int) -> bool:
    """Remove empty brackets once per level. Each pass is one search, so the cost is bounded by `depth` passes."""
    for level in range(depth):
        remaining = brackets.replace(b"[]", b"")
        if len(remaining) == len(brackets):
            # Unbalanced brackets are not JSON, but a parser still descends as deep as they open.
            return level + remaining.count(b"[") > depth
        brackets = remaining
    return b"[" in brackets
