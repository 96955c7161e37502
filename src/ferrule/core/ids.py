"""Call ids: made here only where the wire has none, and always in the form that the family's template accepts.

An id that a model wrote goes through the loop and back verbatim; an id of the wrong form makes some templates refuse
the next turn (Mistral) or the model lose its way (Kimi).
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable, Iterable
from dataclasses import dataclass

_ALNUM = string.ascii_letters + string.digits
_LOWER_ALNUM = string.ascii_lowercase + string.digits
_KINDS = (string.digits, string.ascii_lowercase, string.ascii_uppercase)

IdMaker = Callable[[str, int], str]
"""From a tool's name and the number of calls so far in the conversation to an id."""


@dataclass(frozen=True, slots=True)
class IdPolicy:
    """How a family's ids look.

    `make` mints a new one, `fits` says whether the family's template would take it, and `sample` is one of that form
    that is always the same, for examples and prompts.
    """

    name: str
    make: IdMaker
    fits: Callable[[str, str], bool]
    sample: IdMaker


def _drawn(alphabet: str, length: int) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(length))


def _is_drawn(id: str, alphabet: str, length: int) -> bool:
    return len(id) == length and all(character in alphabet for character in id)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _function_counter(name: str, count: int) -> str:
    return f"functions.{name}:{count}"


ANY_ID = IdPolicy(
    "any",
    make=lambda name, count: "call_" + _drawn(_ALNUM, 24),
    fits=lambda id, name: bool(id),
    sample=lambda name, count: f"call_{count}",
)
NINE_ALNUM = IdPolicy(
    "nine_alnum",
    make=lambda name, count: _drawn(_ALNUM, 9),
    fits=lambda id, name: _is_drawn(id, _ALNUM, 9),
    sample=lambda name, count: f"abcdefg{count % 100:02}",
)
TEN_LOWER = IdPolicy(
    "ten_lower",
    make=lambda name, count: _drawn(_LOWER_ALNUM, 10),
    fits=lambda id, name: _is_drawn(id, _LOWER_ALNUM, 10),
    sample=lambda name, count: f"abcdefgh{count % 100:02}",
)
COUNTER = IdPolicy(
    "counter",
    make=lambda name, count: str(count),
    fits=lambda id, name: _is_count(id),
    sample=lambda name, count: str(count),
)
FUNCTION_COUNTER = IdPolicy(
    "function_counter",
    make=_function_counter,
    fits=lambda id, name: id.startswith(f"functions.{name}:") and _is_count(id.removeprefix(f"functions.{name}:")),
    sample=_function_counter,
)


def apart(ids: Iterable[str]) -> tuple[str, ...]:
    """The same ids, but for those that came before: these get another of the same form, letter for letter."""
    taken: set[str] = set()
    found: list[str] = []
    for given in ids:
        id = given
        while id in taken:
            id = _next(id)
        taken.add(id)
        found.append(id)
    return tuple(found)


def _next(id: str) -> str:
    """Counts up like a meter, each character within its own kind; what cannot be counted grows."""
    turned = list(id)
    for place in range(len(id) - 1, -1, -1):
        kind = next((kind for kind in _KINDS if id[place] in kind), "")
        if not kind:
            continue
        at = kind.index(id[place]) + 1
        turned[place] = kind[at % len(kind)]
        if at < len(kind):
            return "".join(turned)
    return f"{id}x"
