"""What clients ask: the message, the key, streamed or not, how often, and which answer is whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lab.operate.engine import text_answer
from lab.operate.tool_file import FIRST_LIST, SECOND_LIST, price_answer

CHAT_KEY, READER_KEY, PAYER_KEY, LEAVING_KEY = "chat", "reader", "payer", "leaving"
_UNKNOWN: Final = "unknown"
_QUOTA: Final = "quota_exceeded"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of request. `share` is its part of all requests, in percent; what is left is the first kind's."""

    name: str
    verb: str
    key: str
    share: float
    answers: Callable[[int], tuple[str, ...]]
    """The whole answers to a request with that number."""
    is_streamed: bool = False
    has_effect: bool = False
    is_stored: bool = False
    """Whether the gateway keeps its conversation in the ledger: it runs a tool for it."""

    def message(self, number: int) -> str:
        return f"{self.verb} {number}"

    def is_whole(self, number: int, answer: str) -> bool:
        return answer in self.answers(number) or (self.has_effect and (is_unknown(answer) or is_refused_call(answer)))


def is_unknown(answer: str) -> bool:
    """Whether the model was told that the outcome of its call is unknown."""
    return _UNKNOWN in answer


def is_refused_call(answer: str) -> bool:
    """Whether the model was told that a quota has refused its call."""
    return _QUOTA in answer


def _text(number: int) -> tuple[str, ...]:
    return (text_answer(number),)


def _price(number: int) -> tuple[str, ...]:
    return price_answer(number, FIRST_LIST), price_answer(number, SECOND_LIST)


def _paid(number: int) -> tuple[str, ...]:
    return (f"paid {number}",)


def _sum(number: int) -> tuple[str, ...]:
    return (f'{{"result": "sum {number + 1}"}}',)


CHAT: Final = Kind("chat", "say", CHAT_KEY, 0, _text)
STREAM: Final = Kind("chat, streamed", "tell", CHAT_KEY, 30, _text, is_streamed=True)
PRICE: Final = Kind("tool that reads", "price", READER_KEY, 4, _price, is_stored=True)
PRICE_STREAM: Final = Kind(
    "tool that reads, streamed", "price", READER_KEY, 2, _price, is_streamed=True, is_stored=True
)
PAY: Final = Kind("tool with an effect", "pay", PAYER_KEY, 2, _paid, has_effect=True, is_stored=True)
PAY_STREAM: Final = Kind(
    *("tool with an effect, streamed", "pay", PAYER_KEY, 2, _paid), is_streamed=True, has_effect=True, is_stored=True
)
SUM: Final = Kind("tool of the MCP server", "add", READER_KEY, 1, _sum, is_stored=True)
LEAVING: Final = Kind("chat with the key that is revoked", "say", LEAVING_KEY, 2, _text)
LEAVING_STREAM: Final = Kind("stream with the key that is revoked", "tell", LEAVING_KEY, 2, _text, is_streamed=True)
FROM_THE_START: Final = (CHAT, STREAM, PRICE, PRICE_STREAM, PAY, PAY_STREAM, LEAVING, LEAVING_STREAM)
