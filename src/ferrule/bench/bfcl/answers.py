"""Answers, and the files that keep them: JSON lines, one file for each category, so that a run can be taken up again.

What was answered is kept, never how it was scored: a score can be made anew, an answer costs. A last line that was not
finished is cut away, and its question asked again.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.event import FinishReason
from ferrule.core.reply import Reply
from ferrule.errors import FerruleError

_SETTINGS: Final = "run.json"


class AnswersBroken(FerruleError):
    """A file of answers cannot be read, or holds another run's."""

    code = "bench_answers_broken"


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one question. `error` is why there was no reply."""

    id: str
    calls: tuple[FunctionCall, ...] = ()
    is_cut_off: bool = False
    refused: int = 0
    """Calls that were written and not handed on."""
    tokens: int = 0
    error: str = ""

    @staticmethod
    def of(id: str, reply: Reply) -> "Answer":
        calls = tuple(call.function for call in reply.calls)
        tokens = reply.usage.completion_tokens if reply.usage else 0
        return Answer(id, calls, reply.finish is FinishReason.LENGTH, len(reply.incomplete), tokens)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(ToolCall("", function) for function in self.calls)

    def line(self) -> str:
        # In ASCII: a model can write half of a surrogate pair, which has no UTF-8.
        return json.dumps(asdict(self)) + "\n"

    @staticmethod
    def read(line: str) -> "Answer":
        held: dict[str, Any] = json.loads(line)
        calls: list[dict[str, str]] = held.pop("calls")
        return Answer(**held, calls=tuple(FunctionCall(**call) for call in calls))


class AnswerFolder:
    """The answers of one run under one setting. `settings` says which; a folder of another setting is refused."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / _SETTINGS).exists() and not self.holds(folder, settings):
            raise AnswersBroken(
                f"{folder} holds answers that were made in another way: see {_SETTINGS} there",
                hint="Give the same options again, or another --out.",
            )
        (folder / _SETTINGS).write_text(_page(settings), encoding="utf-8")

    @staticmethod
    def holds(folder: Path, settings: Mapping[str, Any]) -> bool:
        """Whether answers of just these settings are there."""
        kept = folder / _SETTINGS
        return kept.exists() and kept.read_text(encoding="utf-8") == _page(settings)

    def answered(self, category: str) -> dict[str, Answer]:
        """The answers so far, by the question's id."""
        path = self._path(category)
        _cut_unfinished(path)
        return answers_in(path)

    def keep(self, category: str, answer: Answer) -> None:
        with self._path(category).open("a", encoding="utf-8") as file:
            file.write(answer.line())

    def _path(self, category: str) -> Path:
        return self._folder / f"{category}.jsonl"


def answers_in(path: Path) -> dict[str, Answer]:
    """The finished lines of a file, by the question's id; none where there is no file."""
    found: dict[str, Answer] = {}
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    for number, line in enumerate(lines, start=1):
        answer = _read(line, path, number)
        found[answer.id] = answer
    return found


def settings_in(folder: Path) -> dict[str, Any]:
    """How the answers of a folder were made; empty where there are none."""
    kept = folder / _SETTINGS
    return json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}


def _page(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, indent=2, sort_keys=True) + "\n"


def _cut_unfinished(path: Path) -> None:
    """Otherwise the next answer would go on in the middle of the line."""
    if path.exists():
        with path.open("rb+") as file:
            file.truncate(file.read().rfind(b"\n") + 1)


def _read(line: str, path: Path, number: int) -> Answer:
    try:
        return Answer.read(line)
    except (ValueError, TypeError, KeyError) as damage:
        raise AnswersBroken(
            f"line {number} of {path} is no answer", hint="Remove the line: its question is then asked again."
        ) from damage
