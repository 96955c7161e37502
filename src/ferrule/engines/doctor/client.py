"""Asking: one question to an endpoint, and its answer as it came. Must not know what the answer should be."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, cast

from ferrule.core.call import ToolCall
from ferrule.core.ids import ANY_ID
from ferrule.core.json_text import canonical
from ferrule.core.reply import Reply, fold
from ferrule.dialects.json_stream import SseObjects
from ferrule.dialects.lenient_json import entries, mapping, text
from ferrule.dialects.openai_chat.reply_decoder import ReplyDecoder
from ferrule.engines.http import Http
from ferrule.errors import EngineError, EngineTimeoutError, EngineUnavailableError

PATH = "/v1/chat/completions"
_WIDTH = 4
# Http tells the status in words only.
_STATUS = re.compile(r" answered (\d{3}): (.*)", re.DOTALL)
_EMPTY = Reply()


@dataclass(frozen=True, slots=True)
class Question:
    """The body of a request, without model and seed. Questions that are equal are asked once.

    `again` makes another question of the same body; `may_break` is set where it may be too much for the endpoint, so
    that losing it is an answer too.
    """

    body: Mapping[str, Any]
    again: int = 0
    may_break: bool = False

    @property
    def is_streamed(self) -> bool:
        return bool(self.body.get("stream"))


@dataclass(frozen=True, slots=True)
class Answer:
    """`chunks` are the objects as they came, one for an answer that was not streamed, and `reply` their sum.

    `refusal` is what the endpoint said instead of answering, with its status; 0 where it had none.
    """

    reply: Reply = _EMPTY
    chunks: tuple[dict[str, Any], ...] = ()
    refusal: str = ""
    status: int = 200

    @property
    def finish(self) -> str:
        """The endpoint's own word for how the answer ended."""
        words = [text(choice.get("finish_reason")) for chunk in self.chunks for choice in entries(chunk.get("choices"))]
        return next((word for word in reversed(words) if word), "")

    @property
    def is_cut_off(self) -> bool:
        return self.finish == "length"

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Every call that was begun, whole or not."""
        return tuple(part for part in self.reply.parts if isinstance(part, ToolCall))

    @property
    def call_pieces(self) -> list[dict[str, Any]]:
        """What was said of calls, piece by piece."""
        said = [choice for chunk in self.chunks for choice in entries(chunk.get("choices"))]
        bodies = [mapping(choice.get("delta")) or mapping(choice.get("message")) for choice in said]
        return [piece for body in bodies for piece in entries(body.get("tool_calls"))]


@dataclass(slots=True)
class Asker:
    """Asks a few questions at once, and none twice."""

    http: Http
    model: str
    limit_field: str = "max_tokens"
    """What the endpoint calls the limit; OpenAI's newer models refuse the older name."""
    _gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_WIDTH))
    _asked: dict[str, asyncio.Future[Answer]] = field(default_factory=dict[str, "asyncio.Future[Answer]"])

    async def answer(self, question: Question, seed: int) -> Answer:
        key = canonical([question.body, question.again, seed])
        if key not in self._asked:
            self._asked[key] = asyncio.ensure_future(self._answered(question, seed))
        return await self._asked[key]

    async def _answered(self, question: Question, seed: int) -> Answer:
        renamed = {self.limit_field if name == "max_tokens" else name: value for name, value in question.body.items()}
        body = {"model": self.model, "seed": seed, **renamed}
        try:
            async with self._gate:
                chunks = await self._chunks(body, question.is_streamed)
        except EngineTimeoutError as late:
            return Answer(refusal=late.message, status=0)
        except EngineUnavailableError as gone:
            if question.may_break:
                return Answer(refusal=gone.message, status=0)
            raise
        except EngineError as refusal:
            found = _STATUS.search(refusal.message)
            return (
                Answer(refusal=found[2], status=int(found[1])) if found else Answer(refusal=refusal.message, status=0)
            )
        return Answer(_folded(chunks), tuple(chunks))

    async def _chunks(self, body: dict[str, Any], is_streamed: bool) -> list[dict[str, Any]]:
        if not is_streamed:
            whole = await self.http.post(PATH, body)
            if not isinstance(whole, dict):
                raise EngineError(f"it answered with JSON that is no object: {whole!r:.80}")
            return [cast("dict[str, Any]", whole)]
        framing, chunks = SseObjects(), list[dict[str, Any]]()
        async with aclosing(self.http.stream(PATH, body)) as received:
            async for data in received:
                chunks += framing.feed(data)
        return chunks + framing.close()


def _folded(chunks: list[dict[str, Any]]) -> Reply:
    # Without the tools: arguments that are missing must not be filled in.
    decoder = ReplyDecoder(make_id=ANY_ID.make)
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return fold([*events, *decoder.close()])
