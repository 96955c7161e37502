"""Answers and the files that store them: JSON lines, one file per category, so that an interrupted run can resume.

Only answers are stored, not scores: a score can be computed again, an answer costs time. An incomplete last line is
removed, and its question is asked again.
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


class AnswersInvalidError(FerruleError):
    """A file of answers cannot be read, or belongs to another run."""

    code = "bench_answers_broken"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question. `error` is the reason if there was no reply."""

    id: str
    calls: tuple[FunctionCall, ...] = ()
    is_cut_off: bool = False
    refused: int = 0
    """Calls that the model wrote and Ferrule refused."""
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
        # ASCII only: a model can write half of a surrogate pair, which cannot be encoded as UTF-8.
        return json.dumps(asdict(self)) + "\n"

    @staticmethod
    def read(line: str) -> "Answer":
        document: dict[str, Any] = json.loads(line)
        calls: list[dict[str, str]] = document.pop("calls")
        return Answer(**document, calls=tuple(FunctionCall(**call) for call in calls))


class AnswerFolder:
    """The stored answers of one run. A folder that was written with other `settings` is refused."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / _SETTINGS).exists() and not self.has_settings(folder, settings):
            raise AnswersInvalidError(
                f"{folder} contains answers from a run with other settings: see {_SETTINGS} there",
                hint="Use the same options, or another --out folder.",
            )
        (folder / _SETTINGS).write_text(_settings_text(settings), encoding="utf-8")

    @staticmethod
    def has_settings(folder: Path, settings: Mapping[str, Any]) -> bool:
        """Whether the folder contains answers with exactly these settings."""
        path = folder / _SETTINGS
        return path.exists() and path.read_text(encoding="utf-8") == _settings_text(settings)

    def load(self, category: str) -> dict[str, Answer]:
        """The stored answers of a category, by question id."""
        path = self._path(category)
        _truncate_last_line(path)
        return answers_in(path)

    def save(self, category: str, answer: Answer) -> None:
        with self._path(category).open("a", encoding="utf-8") as file:
            file.write(answer.line())

    def _path(self, category: str) -> Path:
        return self._folder / f"{category}.jsonl"


def answers_in(path: Path) -> dict[str, Answer]:
    """The complete lines of a file, by question id; empty if there is no file."""
    answers: dict[str, Answer] = {}
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    for number, line in enumerate(lines, start=1):
        answer = _read(line, path, number)
        answers[answer.id] = answer
    return answers


def settings_in(folder: Path) -> dict[str, Any]:
    """The settings of the answers in a folder; empty if there are none."""
    path = folder / _SETTINGS
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _settings_text(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, indent=2, sort_keys=True) + "\n"


def _truncate_last_line(path: Path) -> None:
    """Remove an incomplete last line. Otherwise the next answer would be appended to it."""
    if path.exists():
        with path.open("rb+") as file:
            file.truncate(file.read().rfind(b"\n") + 1)


def _read(line: str, path: Path, number: int) -> Answer:
    try:
        return Answer.read(line)
    except (ValueError, TypeError, KeyError) as damage:
        raise AnswersInvalidError(
            f"line {number} of {path} is not a valid answer", hint="Remove the line: its question is then asked again."
        ) from damage
