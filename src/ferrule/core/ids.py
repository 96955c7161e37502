"""Call ids: made here only where the wire has none, and always in the form that the family's template accepts.

An id that a model wrote goes through the loop and back verbatim; an id of the wrong form makes some templates refuse
the next turn (Mistral) or the model lose its way (Kimi).
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable
from dataclasses import dataclass

_ALNUM = string.ascii_letters + string.digits
_LOWER_ALNUM = string.ascii_lowercase + string.digits

IdMaker = Callable[[str, int], str]
"""From a tool's name and the number of calls so far in the conversation to an id."""


@dataclass(frozen=True, slots=True)
class IdPolicy:
    """How a family's ids look: `make` mints one, `fits` says whether the family's template would take it."""

    name: str
    make: IdMaker
    fits: Callable[[str, str], bool]


def _drawn(alphabet: str, length: int) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(length))


def _is_drawn(id: str, alphabet: str, length: int) -> bool:
    return len(id) == length and all(character in alphabet for character in id)


ANY_ID = IdPolicy("any", lambda name, count: "call_" + _drawn(_ALNUM, 24), lambda id, name: bool(id))
NINE_ALNUM = IdPolicy("nine_alnum", lambda name, count: _drawn(_ALNUM, 9), lambda id, name: _is_drawn(id, _ALNUM, 9))
TEN_LOWER = IdPolicy(
    "ten_lower", lambda name, count: _drawn(_LOWER_ALNUM, 10), lambda id, name: _is_drawn(id, _LOWER_ALNUM, 10)
)
COUNTER = IdPolicy("counter", lambda name, count: str(count), lambda id, name: id.isascii() and id.isdigit())
FUNCTION_COUNTER = IdPolicy(
    "function_counter",
    lambda name, count: f"functions.{name}:{count}",
    lambda id, name: id.startswith(f"functions.{name}:") and id.rpartition(":")[2].isdigit(),
)
