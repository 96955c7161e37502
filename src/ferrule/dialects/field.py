"""Field: a place in a request's body, read with its path, so that a refusal says where and what to do.

Knows no API. A field that is null counts as left out: clients send null for what they did not set.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from ferrule.core.json_text import dumps
from ferrule.errors import DefinitionError

T = TypeVar("T")

_WORDS: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "nothing",
}


@dataclass(frozen=True, slots=True)
class Field:
    """A value and the way to it, such as `messages[2].content`."""

    value: object
    path: str = ""

    @property
    def is_given(self) -> bool:
        return self.value is not None

    def __getitem__(self, key: str) -> Field:
        return Field(self.object().get(key), f"{self.path}.{key}" if self.path else key)

    def refusal(self, message: str, hint: str) -> DefinitionError:
        return DefinitionError(f"{self.path or 'the body'}: {message}", hint=hint)

    def optional(self, read: Callable[[Field], T]) -> T | None:
        return read(self) if self.is_given else None

    def or_else(self, read: Callable[[Field], T], default: T) -> T:
        return read(self) if self.is_given else default

    def object(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self._of(dict, "an object"))

    def items(self) -> list[Field]:
        """The entries of a list; none where it was left out."""
        if not self.is_given:
            return []
        held = cast("list[object]", self._of(list, "a list"))
        return [Field(item, f"{self.path}[{at}]") for at, item in enumerate(held)]

    def string(self) -> str:
        return cast(str, self._of(str, "a string"))

    def boolean(self) -> bool:
        return cast(bool, self._of(bool, "true or false"))

    def integer(self) -> int:
        number = self.number()
        if number != int(number):
            raise self._unexpected("a whole number")
        return int(number)

    def number(self) -> float:
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self._unexpected("a number")
        if self.value != self.value or self.value in (float("inf"), float("-inf")):
            raise self._unexpected("a finite number")
        return self.value

    def json(self) -> str:
        """The value as JSON text. A number that was too large when the body was read has none."""
        try:
            return dumps(self.value)
        except (ValueError, RecursionError) as error:
            raise self.refusal("holds a number that is too large, or is nested too deeply", "Send less.") from error

    def one_of(self, table: dict[str, T]) -> T:
        """What the table has for this string."""
        word = self.string()
        if word not in table:
            raise self.refusal(f"{word[:60]!r} is not known here", f"Use one of: {', '.join(table)}.")
        return table[word]

    def made(self, make: Callable[[], T]) -> T:
        """What `make` gives; where it refuses, the refusal is told with this path."""
        try:
            return make()
        except DefinitionError as refusal:
            raise self.refusal(refusal.message, refusal.hint) from refusal

    def _of(self, kind: type, words: str) -> object:
        if not isinstance(self.value, kind):
            raise self._unexpected(words)
        return self.value

    def _unexpected(self, words: str) -> DefinitionError:
        got = _WORDS.get(self.value.__class__, "something else")
        return self.refusal(f"must be {words}, got {got}", f"Send {words} here.")


def wants_stream(body: object) -> bool:
    """Every API of this family asks for a stream by the same field."""
    return Field(body)["stream"].or_else(Field.boolean, False)
