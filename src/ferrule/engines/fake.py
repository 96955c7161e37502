"""Fakes: a backend and an engine that give prepared answers, for tests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import replace
from typing import Any

from ferrule.core.call import How, Receipt, ToolCall
from ferrule.core.event import Event
from ferrule.core.reply import Reply, events_of
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import ALL_CHOICES, Engine, Traits
from ferrule.engines.generator import CompletionEnd, CompletionRequest, ModelFacts, Piece
from ferrule.errors import EngineError


class FakeGenerator:
    """Continues every prompt with the next of `texts`, a few characters at a time, and records the `requests`."""

    def __init__(
        self,
        texts: Iterable[str],
        facts: ModelFacts | None = None,
        *,
        targets: tuple[str, ...] = ("lark",),
        size: int = 3,
        is_cut_off: bool = False,
    ) -> None:
        self.traits = Traits(name="fake", targets=targets)
        self.requests: list[CompletionRequest] = []
        self.pieces_written = 0
        self.is_closed = False
        self._texts = iter(texts)
        self._facts = facts or ModelFacts()
        self._size = size
        self._is_cut_off = is_cut_off

    async def facts(self) -> ModelFacts:
        return self._facts

    async def apply_template(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> str | None:
        return None

    async def count_tokens(self, prompt: str) -> int | None:
        return len(prompt)

    async def tokenize(self, *pieces: str, is_prompt: bool) -> tuple[int, ...] | None:
        return None

    async def detokenize(self, tokens: tuple[int, ...]) -> str | None:
        return None

    async def generate(self, request: CompletionRequest) -> AsyncGenerator[Piece | CompletionEnd, None]:
        self.requests.append(request)
        text = next(self._texts, None)
        if text is None:
            raise EngineError("the fake generator has no text left", hint="Pass one text for each request.")
        try:
            for start in range(0, len(text), self._size):
                self.pieces_written += 1
                yield Piece(text[start : start + self._size])
            yield CompletionEnd(self._is_cut_off, len(request.prompt), self.pieces_written)
        finally:
            self.is_closed = True

    async def close(self) -> None:
        self.is_closed = True


class FakeEngine(Engine):
    """Answers each request with the next of `replies`, and records the `requests`."""

    traits = Traits(name="fake", honours=ALL_CHOICES)

    def __init__(self, replies: Sequence[Reply]) -> None:
        self.requests: list[ToolCallRequest] = []
        self._replies = iter(replies)

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        self.requests.append(request)
        reply = next(self._replies, None)
        if reply is None:
            raise EngineError("the fake engine has no reply left", hint="Pass one reply for each request.")
        for event in events_of(with_receipts(reply)):
            yield event

    async def close(self) -> None:
        return


def with_receipts(reply: Reply) -> Reply:
    """Return the reply with a receipt for each call that has none."""
    receipt = Receipt(how=How.VALIDATED, engine="fake", path="fake")
    parts = tuple(
        replace(part, receipt=receipt) if isinstance(part, ToolCall) and part.receipt is None else part
        for part in reply.parts
    )
    return replace(reply, parts=parts)
