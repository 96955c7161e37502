"""BFCL v4's questions as requests: the official messages and tools, nothing added.

Categories whose answer is a single call are asked with parallel calls off, as their answers expect. Independent of
engines.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from ferrule.bench.bfcl_tools import normalize_types
from ferrule.core.message import ChatMessage, Role, Text
from ferrule.core.request import ToolCallRequest, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.errors import FerruleError

RELEASE: Final = "bfcl-eval==2026.3.23"
"""The release of the official package that contains the questions."""
DATA: Final = Path(".cache") / "wheels" / "bfcl_eval" / "bfcl_eval" / "data"
"""Where scripts/setup-oracles unpacks the data, relative to the root of a checkout."""
_WHEEL: Final = f"{RELEASE.replace('-', '_').replace('==', '-')}-py3-none-any.whl"
_FETCH: Final = (
    f"`pip download --no-deps {RELEASE}`, then `python -m zipfile -e {_WHEEL} bfcl`, and pass --data bfcl; "
    "in a checkout, run scripts/setup-oracles --bfcl."
)
CATEGORIES: Final = ("simple_python", "multiple", "parallel", "live_simple")
_PARALLEL: Final = frozenset({"parallel", "parallel_multiple", "live_parallel", "live_parallel_multiple"})


class QuestionsMissingError(FerruleError):
    """BFCL's data is not available."""

    code = "bench_data_missing"
    hint = _FETCH


@dataclass(frozen=True, slots=True)
class Question:
    """One question of BFCL."""

    id: str
    category: str
    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolDefinition, ...]

    def request(self, choice: ToolChoice, max_tokens: int = 512, temperature: float = 0.0) -> ToolCallRequest:
        return ToolCallRequest(
            messages=self.messages,
            tools=self.tools,
            tool_choice=choice,
            parallel_tool_calls=self.category in _PARALLEL,
            max_tokens=max_tokens,
            temperature=temperature,
            seed=1,
        )


def load_questions(count: int, categories: Sequence[str] = CATEGORIES, data: Path = DATA) -> list[Question]:
    """Load `count` questions, taken from the categories in turn until they run out."""
    sources = [_of_category(category, data) for category in categories]
    questions: list[Question] = []
    while sources and len(questions) < count:
        for source in tuple(sources):
            question = next(source, None)
            if question is None:
                sources.remove(source)
            elif len(questions) < count:
                questions.append(question)
    return questions


def data_folder(folder: Path | None = None) -> Path:
    """The folder with the questions: the given one, or the data inside it if it is an unpacked wheel, or DATA."""
    if folder is None:
        return DATA
    inside = folder / "bfcl_eval" / "data"
    return inside if inside.is_dir() else folder


def _of_category(category: str, data: Path) -> Iterator[Question]:
    for entry in read_entries(category, data):
        yield question_of(entry, category)


def read_entries(category: str, data: Path, under: str = "") -> Iterator[Mapping[str, Any]]:
    """The lines of a category's file: its questions, or what is in the subfolder `under`."""
    path = data / under / f"BFCL_v4_{category}.json"
    if not path.is_file():
        raise QuestionsMissingError(f"BFCL's file {under}{'/' if under else ''}{path.name} is missing")
    # Not splitlines: it also splits at separators that JSON allows inside strings.
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line.strip():
            yield json.loads(line)


def question_of(entry: Mapping[str, Any], category: str) -> Question:
    turns = cast("list[list[Mapping[str, str]]]", entry["question"])
    messages = tuple(ChatMessage(Role(message["role"]), (Text(message["content"]),)) for message in turns[0])
    tools = tuple(
        ToolDefinition(function["name"], function.get("description", ""), normalize_types(function["parameters"])[0])
        for function in entry["function"]
    )
    return Question(entry["id"], category, messages, tools)
