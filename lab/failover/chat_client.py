"""A client of the chat API that sends a request again, with the same Idempotency-Key, until it is answered."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import aiohttp

_PAUSE: Final = 0.1
_SILENCE: Final = 30.0
RETRIED: Final = (409, 429)


@dataclass(slots=True)
class ChatClient:
    """One request. `refusals` are the errors before its answer, `unretryable` those that forbid to send it again."""

    task: str
    answer: str = ""
    attempts: int = 0
    refusals: Counter[str] = field(default_factory=Counter[str])
    unretryable: list[str] = field(default_factory=list[str])

    async def ask(self, session: aiohttp.ClientSession, urls: Sequence[str]) -> None:
        body = {"messages": [{"role": "user", "content": self.task}]}
        headers = {"Idempotency-Key": self.task}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_SILENCE, sock_read=_SILENCE)
        while not self.answer:
            self.attempts += 1
            url = f"{random.choice(urls)}/v1/chat/completions"
            try:
                async with session.post(url, json=body, headers=headers, timeout=timeout) as answer:
                    text = await answer.text()
                    if answer.status == 200:
                        self.answer = json.loads(text)["choices"][0]["message"]["content"]
                        return
                    self.refusals[f"{answer.status} {json.loads(text)['error']['code']}"] += 1
                    can_retry = answer.status in RETRIED or answer.status >= 500
                    if not can_retry or answer.headers.get("x-should-retry") != "true":
                        self.unretryable.append(f"{self.task}: {answer.status}: {text[:200]}")
            except (aiohttp.ClientError, TimeoutError) as error:
                self.refusals[type(error).__name__] += 1
            await asyncio.sleep(_PAUSE)
