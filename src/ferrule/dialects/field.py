"""Field: a value in a request body together with its path, so that an error names the field and says what to send.

Independent of any API. A null field counts as missing, because clients send null for fields that they did not set. With
`reads` it records which fields were asked for, so that the others are known; see `ignored_fields`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from ferrule.core.json_text import dumps
from ferrule.dialects.field_reads import FieldReads
from ferrule.errors import DefinitionError

T = TypeVar("T")

_TYPE_NAMES: dict[type, str] = {
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
    """A value and its path, such as `messages[2].content`."""

    value: object
    path: str = ""
    reads: FieldReads | None = None

    @property
    def is_given(self) -> bool:
        return self.value is not None

    def __getitem__(self, key: str) -> Field:
        fields, path, reads = self._fields(), self.path, self.reads
        if reads is not None:
            reads.record(path, fields, key)
        return Field(fields.get(key), f"{path}.{key}" if path else key, reads)

    def refusal(self, message: str, hint: str) -> DefinitionError:
        return DefinitionError(f"{self.path or 'the body'}: {message}", hint=hint, param=self.path)

    def optional(self, read: Callable[[Field], T]) -> T | None:
        return read(self) if self.is_given else None

    def or_else(self, read: Callable[[Field], T], default: T) -> T:
        return read(self) if self.is_given else default

    def object(self) -> dict[str, Any]:
        """Return the whole object. All of its fields count as read."""
        fields = self._fields()
        if self.reads is not None:
            self.reads.record_whole(self.path, fields)
        return fields

    def opened(self) -> Field:
        """Require an object, of which only those fields count as read that are asked for."""
        fields = self._fields()
        if self.reads is not None:
            self.reads.open(self.path, fields)
        return self

    def leave_out(self, name: str = "") -> None:
        """Report that this value is left out, in `ToolCallRequest.ignored`; with a name if the path says too little.

        What is inside it is not reported again.

        Example:
            tool.leave_out("web_search")  # reported as tools[]=web_search
        """
        if self.reads is not None:
            self.reads.leave_out(self.path, name)
            self._take()

    def items(self) -> list[Field]:
        """Return the entries of a list; none if the field is missing."""
        if not self.is_given:
            return []
        return [Field(item, f"{self.path}[{at}]", self.reads) for at, item in enumerate(self.list())]

    def list(self) -> list[Any]:
        """Return the list itself, without a `Field` for each entry: there may be a million."""
        return cast("list[Any]", self._require_type(list, "a list"))

    def entry(self, at: int) -> Field:
        """Return one entry of a list."""
        return Field(self.list()[at], f"{self.path}[{at}]", self.reads)

    def string(self) -> str:
        return cast(str, self._require_type(str, "a string"))

    def boolean(self) -> bool:
        return cast(bool, self._require_type(bool, "true or false"))

    def integer(self) -> int:
        number = self.number()
        if number != int(number):
            raise self._type_error("a whole number")
        return int(number)

    def positive(self) -> int:
        """Return a whole number of at least 1. Read here, an error has the name that the client wrote."""
        number = self.integer()
        if number < 1:
            raise self.refusal("must be at least 1", "Leave it out for the default.")
        return number

    def number(self) -> float:
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self._type_error("a number")
        if self.value != self.value or self.value in (float("inf"), float("-inf")):
            raise self._type_error("a finite number")
        return self.value

    def json(self) -> str:
        """Return the value as JSON text. Raises if a number was too large for a float when the body was read."""
        self._take()
        try:
            return dumps(self.value)
        except (ValueError, RecursionError) as error:
            raise self.refusal("contains a number that is too large, or is nested too deeply", "Send less.") from error

    def require_json(self) -> None:
        """Raise as `json` does, and count nothing as read: for what is sent back or stored as it came."""
        Field(self.value, self.path).json()

    def one_of(self, table: dict[str, T]) -> T:
        """Look this string up in a table of allowed values."""
        key = self.string()
        if key not in table:
            raise self.refusal(f"unknown value {key[:60]!r}", f"Use one of: {', '.join(table)}.")
        return table[key]

    def build(self, make: Callable[[], T]) -> T:
        """Call `make` and return its result; a `DefinitionError` is raised again with this field's path."""
        try:
            return make()
        except DefinitionError as refusal:
            raise self.refusal(refusal.message, refusal.hint) from refusal

    def _take(self) -> None:
        """Count everything inside as read."""
        if self.reads is not None and isinstance(self.value, dict):
            self.object()

    def _fields(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self._require_type(dict, "an object"))

    def _require_type(self, kind: type, expected: str) -> object:
        if not isinstance(self.value, kind):
            raise self._type_error(expected)
        return self.value

    def _type_error(self, expected: str) -> DefinitionError:
        actual = _TYPE_NAMES.get(self.value.__class__, "something else")
        return self.refusal(f"must be {expected}, got {actual}", f"Send {expected} here.")


def wants_stream(body: object) -> bool:
    """Whether the client asks for a stream. All APIs use the same field for it."""
    return Field(body)["stream"].or_else(Field.boolean, False)
