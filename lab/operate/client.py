"""One request of a client that has the settings of OpenAI's SDK: two retries, its pauses, its headers, the same body.

Read in the SDK (`openai/_base_client.py`): `x-should-retry` decides; else 408, 409, 429 and 5xx are sent again, and so
are broken connections. `retry-after` up to a minute is obeyed; else the pauses are 0.5 s, 1 s and so on, less a quarter
at random. A stream is not sent again once its head has come.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

from lab.operate.kinds import Kind

_RETRIES: Final = 2
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 8.0
_LONGEST_RETRY_AFTER: Final = 60.0
_RETRIED: Final = (408, 409, 429)
_SILENCE: Final = 120.0
"""Seconds. Not a measure of speed: it only ends a request that would wait forever."""
_SHOWN: Final = 160
_OK, _SERVER_ERROR = 200, 500


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt without a whole answer. `status` is 0 if no head came; `code` is the gateway's or what broke."""

    status: int
    code: str
    text: str = ""
    should_retry: bool = True
    retry_after: float = 0.0
    is_in_stream: bool = False

    def __str__(self) -> str:
        where = " in the stream" if self.is_in_stream else ""
        return f"{self.status or 'no answer'} {self.code}{where}"


@dataclass(slots=True)
class Exchange:
    """One request and what its client saw. `answer` is None if it was lost; then `failure` says why."""

    number: int
    kind: Kind
    key: str
    """The name of the key."""
    planned: float
    began: float = 0.0
    ended: float = 0.0
    attempts: int = 0
    refusals: list[Failure] = field(default_factory=list[Failure])
    """What came before the last attempt."""
    answer: str | None = None
    failure: Failure | None = None

    @property
    def is_over(self) -> bool:
        return self.ended > 0.0

    @property
    def is_whole(self) -> bool:
        return self.answer is not None and self.kind.is_whole(self.number, self.answer)


async def ask(session: aiohttp.ClientSession, urls: Sequence[str], exchange: Exchange, key: str) -> None:
    """Send a request until it is answered, or as often as the SDK does. Each attempt goes to the next address."""
    kind = exchange.kind
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": kind.message(exchange.number)}]}
    if kind.is_streamed:
        body["stream"] = True
    data = json.dumps(body).encode()
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    exchange.began = time.monotonic()
    for attempt in range(_RETRIES + 1):
        exchange.attempts += 1
        headers["x-stainless-retry-count"] = str(attempt)
        url = f"{urls[(exchange.number + attempt) % len(urls)]}/v1/chat/completions"
        answer = await _attempt(session, url, data, headers, is_streamed=kind.is_streamed)
        if isinstance(answer, str):
            exchange.answer, exchange.failure = answer, None
            break
        exchange.failure = answer
        if attempt == _RETRIES or not answer.should_retry:
            break
        exchange.refusals.append(answer)
        await asyncio.sleep(_pause(answer.retry_after, attempt))
    exchange.ended = time.monotonic()


async def _attempt(
    session: aiohttp.ClientSession, url: str, data: bytes, headers: Mapping[str, str], *, is_streamed: bool
) -> str | Failure:
    timeout = aiohttp.ClientTimeout(total=_SILENCE)
    status = 0
    try:
        async with session.post(url, data=data, headers=headers, timeout=timeout) as answer:
            status = answer.status
            text = await answer.text()
            if status != _OK:
                return _refusal(status, text, answer.headers)
            return _streamed_text(text) if is_streamed else _whole_text(text)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        # The SDK has handed the stream on by then.
        is_begun = is_streamed and status == _OK
        return Failure(status, type(error).__name__, str(error)[:_SHOWN], not is_begun, is_in_stream=is_begun)


def _refusal(status: int, text: str, headers: Mapping[str, str]) -> Failure:
    try:
        code = str(json.loads(text)["error"]["code"])
    except (ValueError, KeyError, TypeError):
        # Envoy's own, which ends in the reason.
        code = f"of the proxy: {text.rpartition('reset reason: ')[2][:60]}"
    verdict = headers.get("x-should-retry")
    should_retry = verdict == "true" if verdict else status in _RETRIED or status >= _SERVER_ERROR
    try:
        retry_after = float(headers.get("retry-after", "0"))
    except ValueError:
        retry_after = 0.0
    return Failure(status, code, text[:_SHOWN], should_retry, retry_after)


def _whole_text(text: str) -> str | Failure:
    try:
        return str(json.loads(text)["choices"][0]["message"]["content"] or "")
    except (ValueError, KeyError, IndexError, TypeError):
        return Failure(_OK, "not a completion", text[:_SHOWN], should_retry=False)


def _streamed_text(text: str) -> str | Failure:
    pieces: list[str] = []
    for line in text.splitlines():
        if line == "data: [DONE]":
            return "".join(pieces)
        if line.startswith("data: "):
            event: dict[str, Any] = json.loads(line.removeprefix("data: "))
            if "error" in event:
                code = str(event["error"].get("code"))
                return Failure(_OK, code, line[:_SHOWN], should_retry=False, is_in_stream=True)
            pieces += [choice["delta"].get("content") or "" for choice in event.get("choices", ())]
    return Failure(_OK, "the stream has no end", text[-_SHOWN:], should_retry=False, is_in_stream=True)


def _pause(retry_after: float, attempt: int) -> float:
    if 0 < retry_after <= _LONGEST_RETRY_AFTER:
        return retry_after
    return min(_FIRST_PAUSE * 2.0**attempt, _LONGEST_PAUSE) * (1 - 0.25 * random.random())
