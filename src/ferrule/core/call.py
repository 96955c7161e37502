"""ToolCall and ToolResult: a call that a model makes, and its result.

Arguments are stored as JSON *text*. Parsing and printing it again would change what the model wrote (1.0 to 1, a large
integer to a float, one escape of a character to another), and approvals and receipts are about exact bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.json_text import dumps, loads
from ferrule.core.media import Media


class How(StrEnum):
    """GRAMMAR: the engine could write nothing else. VALIDATED: it could, and the call was validated afterwards.

    REPAIRED: the first arguments were invalid and were generated again. REFUSED: no valid call was produced, and the
    call is not passed on.
    """

    GRAMMAR = "grammar"
    VALIDATED = "validated"
    REPAIRED = "repaired"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """How a call was guaranteed, keyword by keyword.

    Each keyword of the schema is in exactly one of `enforced` (while decoding), `checked` (after decoding) and
    `unchecked` (not checked). `path` names the method that the engine used, such as "completion+gbnf".

    Example:
        for call in reply.calls:
            print(call.receipt)  # grammar by llama (completion+lark); enforced required, type; ...
    """

    how: How
    engine: str
    path: str
    format: str = ""
    rule: str = ""
    """The rule's fingerprint; empty if no rule was enforced."""
    enforced: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    seconds: float = 0.0
    tokens: int = 0
    """How many tokens were generated up to the end of the call; 0 if the engine reports only the total."""
    skipped: int = 0
    """How many more tokens were appended without generating them, because the rule left no choice."""
    drifted: str = ""
    """The format of the model and the spelling that it used instead, if it did: "hermes -> fenced_json"."""
    notes: tuple[str, ...] = ()
    """Notes for a person, such as a choice that was enforced in another way or a template that was not used."""

    @property
    def meaning(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What the call is known to satisfy, by any means, and what was not checked: the same on every engine."""
        return tuple(sorted({*self.enforced, *self.checked})), self.unchecked

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _RECEIPT_FIELDS}

    def __str__(self) -> str:
        parts = [f"{self.how} by {self.engine} ({self.path})"]
        parts += [f"{label} {', '.join(keywords)}" for label, keywords in self._lists() if keywords]
        parts += [f"format {self.format}"] * bool(self.format) + [f"rule {self.rule}"] * bool(self.rule)
        parts += [f"drifted: {self.drifted}"] * bool(self.drifted)
        duration = f"{self.seconds:.2f} s"
        skipped = f" and {self.skipped} skipped" if self.skipped else ""
        parts += [f"{self.tokens} tokens{skipped} in {duration}" if self.tokens or skipped else duration, *self.notes]
        return "; ".join(parts)

    def _lists(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return ("enforced", self.enforced), ("checked after", self.checked), ("checked by nobody", self.unchecked)


_RECEIPT_FIELDS = tuple(one.name for one in fields(Receipt))


TOOL_SEARCH = "tool_search"
"""The `type` of a call that searches among deferred tools. Only `run.deferring_engine` makes such calls: no client and
no saved text of a model can, so a tool of any name is never taken for the search."""


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A tool's name and its arguments as JSON text.

    Arguments that are given as a mapping are written as JSON.

    Example:
        FunctionCall("get_weather", '{"city": "Rome"}')
    """

    name: str
    arguments: str = "{}"

    if TYPE_CHECKING:
        # What the generated constructor accepts, which is more than the types of the fields.
        def __init__(self, name: str, arguments: Mapping[str, Any] | str = "{}") -> None: ...

    def __post_init__(self) -> None:
        if type(self.arguments) is not str:
            object.__setattr__(self, "arguments", dumps(self.arguments))


@dataclass(frozen=True, slots=True, init=False)
class ToolCall:
    """One tool call. Write it with a `function`, or with a `name` and `arguments`.

    `complete` is False if the model was cut off or wrote something unreadable; such a call is never run. `receipt` says
    how the engine guaranteed the call; it does not count when calls are compared.

    Example:
        call = ToolCall("call_1", name="get_weather", arguments={"city": "Rome"})
        assert call.arguments == {"city": "Rome"}
        assert call.function.arguments == '{"city": "Rome"}'
    """

    id: str
    function: FunctionCall
    type: str = "function"
    complete: bool = True
    receipt: Receipt | None = field(default=None, compare=False)

    def __init__(
        self,
        id: str,
        function: FunctionCall | None = None,
        type: str = "function",
        complete: bool = True,
        receipt: Receipt | None = None,
        *,
        name: str = "",
        arguments: Mapping[str, Any] | str = "{}",
    ) -> None:
        set_field = object.__setattr__
        set_field(self, "id", id)
        set_field(self, "function", FunctionCall(name, arguments) if function is None else function)
        set_field(self, "type", type)
        set_field(self, "complete", complete)
        set_field(self, "receipt", receipt)

    @staticmethod
    def of(name: str, arguments: Mapping[str, Any] | str = "{}", id: str = "") -> ToolCall:
        """Create a call from a name and arguments, which are a mapping or JSON text."""
        return ToolCall(id, FunctionCall(name, arguments))

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as values. Raises `ValueError` if they are not a JSON object, as in an incomplete call."""
        value = loads(self.function.arguments)
        if not isinstance(value, dict):
            raise ValueError(f"the arguments of {self.name!r} are not a JSON object")
        return cast("dict[str, Any]", value)

    def as_openai(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": self.type,
            "function": {"name": self.name, "arguments": self.function.arguments},
        }


@dataclass(frozen=True, slots=True, init=False)
class ToolResult:
    """The result of a call: text or a JSON value. With `is_error` the model learns that the call failed.

    A conversation fills in a `name` that is left out. `output` is another word for `content`. `media` are the images,
    recordings and files of the result; the model gets them after the content.

    Example:
        ToolResult(call.id, call.name, {"temperature": 21})
        ToolResult(call.id, content="the service is down", is_error=True)
        ToolResult(call.id, content="the page", media=[Media("image", "image/png", data=screenshot)])
    """

    tool_call_id: str
    name: str
    content: Any
    is_error: bool
    media: tuple[Media, ...]

    def __init__(
        self,
        tool_call_id: str,
        name: str = "",
        content: Any = None,
        is_error: bool = False,
        *,
        output: Any = None,
        media: Iterable[Media] = (),
    ) -> None:
        set_field = object.__setattr__
        set_field(self, "tool_call_id", tool_call_id)
        set_field(self, "name", name)
        set_field(self, "content", output if content is None else content)
        set_field(self, "is_error", is_error)
        set_field(self, "media", tuple(media))

    @property
    def output(self) -> Any:
        return self.content

    @property
    def text(self) -> str:
        """The content as the model reads it, without the media."""
        return self.content if isinstance(self.content, str) else dumps(self.content)
