"""Call ids: created only where the model writes none, and always in the form that the family's template accepts.

An id that a model wrote is passed through the loop and back unchanged. With an id of the wrong form, some templates
refuse the next turn (Mistral) and some models get confused (Kimi).
"""

from __future__ import annotations

import hashlib
import secrets
import string
from collections.abc import Callable, Iterable
from dataclasses import dataclass

_ALNUM = string.ascii_letters + string.digits
_LOWER_ALNUM = string.ascii_lowercase + string.digits
_KINDS = (string.digits, string.ascii_lowercase, string.ascii_uppercase)

Derivation = Callable[[str, str, int], str]
"""Makes an id out of one in another form, a tool's name and the number of calls so far; the same for the same ones."""
IdMaker = Callable[[str, int], str]
"""Creates an id from a tool's name and the number of calls so far in the conversation."""


@dataclass(frozen=True, slots=True)
class IdPolicy:
    """The form of a family's ids.

    `make` creates a new id, `fits` says whether the family's template accepts one, `sample` returns one that is always
    the same, for examples and prompts, and `derive` makes one out of another family's.
    """

    name: str
    make: IdMaker
    fits: Callable[[str, str], bool]
    sample: IdMaker
    derive: Derivation


def _random_text(alphabet: str, length: int) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(length))


def _digest_text(id: str, alphabet: str, length: int) -> str:
    number = int.from_bytes(hashlib.sha256(id.encode("utf-8", "surrogatepass")).digest())
    return "".join(alphabet[number // len(alphabet) ** place % len(alphabet)] for place in range(length))


def _has_form(id: str, alphabet: str, length: int) -> bool:
    return len(id) == length and all(character in alphabet for character in id)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _function_counter(name: str, count: int) -> str:
    return f"functions.{name}:{count}"


ANY_ID = IdPolicy(
    "any",
    make=lambda name, count: "call_" + _random_text(_ALNUM, 24),
    fits=lambda id, name: bool(id),
    sample=lambda name, count: f"call_{count}",
    derive=lambda id, name, count: f"call_{count}",
)
NINE_ALNUM = IdPolicy(
    "nine_alnum",
    make=lambda name, count: _random_text(_ALNUM, 9),
    fits=lambda id, name: _has_form(id, _ALNUM, 9),
    sample=lambda name, count: f"abcdefg{count % 100:02}",
    derive=lambda id, name, count: _digest_text(id, _ALNUM, 9),
)
TEN_LOWER = IdPolicy(
    "ten_lower",
    make=lambda name, count: _random_text(_LOWER_ALNUM, 10),
    fits=lambda id, name: _has_form(id, _LOWER_ALNUM, 10),
    sample=lambda name, count: f"abcdefgh{count % 100:02}",
    derive=lambda id, name, count: _digest_text(id, _LOWER_ALNUM, 10),
)
COUNTER = IdPolicy(
    "counter",
    make=lambda name, count: str(count),
    fits=lambda id, name: _is_count(id),
    sample=lambda name, count: str(count),
    derive=lambda id, name, count: str(count),
)
FUNCTION_COUNTER = IdPolicy(
    "function_counter",
    make=_function_counter,
    fits=lambda id, name: id.startswith(f"functions.{name}:") and _is_count(id.removeprefix(f"functions.{name}:")),
    sample=_function_counter,
    derive=lambda id, name, count: _function_counter(name, count),
)


def make_unique(ids: Iterable[str]) -> tuple[str, ...]:
    """Return the ids, with repeated ones replaced by different ids of the same form, character for character."""
    taken: set[str] = set()
    unique: list[str] = []
    for original in ids:
        id = original
        while id in taken:
            id = _next(id)
        taken.add(id)
        unique.append(id)
    return tuple(unique)


def _next(id: str) -> str:
    """Count up like an odometer, each character within its own kind; an id that cannot be counted gets an "x"."""
    characters = list(id)
    for position in range(len(id) - 1, -1, -1):
        kind = next((kind for kind in _KINDS if id[position] in kind), "")
        if not kind:
            continue
        step = kind.index(id[position]) + 1
        characters[position] = kind[step % len(kind)]
        if step < len(kind):
            return "".join(characters)
    return f"{id}x"
