"""The result of parsing a text, in one form for all engines. Independent of the engines."""

from typing import TypedDict


class Call(TypedDict):
    name: str
    arguments: str


class Outcome(TypedDict):
    content: str
    calls: list[Call]
    error: str | None


class Sum:
    """Joins streamed deltas as an OpenAI client does: content in order, calls by their index."""

    def __init__(self) -> None:
        self._content: list[str] = []
        self._names: dict[int, str] = {}
        self._arguments: dict[int, list[str]] = {}

    def add_content(self, text: str | None) -> None:
        if text:
            self._content.append(text)

    def add_call(self, index: int, name: str | None, arguments: str | None) -> None:
        pieces = self._arguments.setdefault(index, [])
        if name:
            self._names[index] = name
        if arguments:
            pieces.append(arguments)

    def outcome(self) -> Outcome:
        calls: list[Call] = [
            {"name": self._names.get(index, ""), "arguments": "".join(self._arguments[index])}
            for index in sorted(self._arguments)
        ]
        return {"content": "".join(self._content), "calls": calls, "error": None}
