"""BFCL v4's questions as requests: the official words and tools, nothing added.

A category whose answer is one call is asked with parallel calls off, as its answers expect. Must not know any engine.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from ferrule.bench.bfcl_tools import normalised
from ferrule.core.choice import ToolChoice
from ferrule.core.message import ChatMessage, Role, Text
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.errors import FerruleError

RELEASE: Final = "bfcl-eval==2026.3.23"
"""The release of the official package that the questions are read from."""
DATA: Final = Path(".cache") / "wheels" / "bfcl_eval" / "bfcl_eval" / "data"
"""Where scripts/setup-oracles unpacks the data, from the root of a checkout."""
_WHEEL: Final = f"{RELEASE.replace('-', '_').replace('==', '-')}-py3-none-any.whl"
_FETCH: Final = (
    f"`pip download --no-deps {RELEASE}`, then `python -m zipfile -e {_WHEEL} bfcl`, and give --data bfcl; "
    "in a checkout, run scripts/setup-oracles --bfcl."
)
CATEGORIES: Final = ("simple_python", "multiple", "parallel", "live_simple")
_PARALLEL: Final = frozenset({"parallel", "parallel_multiple", "live_parallel", "live_parallel_multiple"})


class QuestionsMissing(FerruleError):
    """BFCL's data was not fetched."""

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


def questions(count: int, categories: Sequence[str] = CATEGORIES, data: Path = DATA) -> list[Question]:
    """As many questions as asked for, taken in turn from each category until one after the other runs out."""
    sources = [_of_category(category, data) for category in categories]
    found: list[Question] = []
    while sources and len(found) < count:
        for source in tuple(sources):
            question = next(source, None)
            if question is None:
                sources.remove(source)
            elif len(found) < count:
                found.append(question)
    return found


def data_folder(given: Path | None = None) -> Path:
    """The folder with the questions: that one, also where it is what the wheel was unpacked to, or the checkout's."""
    if given is None:
        return DATA
    inside = given / "bfcl_eval" / "data"
    return inside if inside.is_dir() else given


def _of_category(category: str, data: Path) -> Iterator[Question]:
    for entry in entries(category, data):
        yield question_of(entry, category)


def entries(category: str, data: Path, under: str = "") -> Iterator[Mapping[str, Any]]:
    """The lines of a category's file, as they are: its questions, or what stands in the folder `under`."""
    path = data / under / f"BFCL_v4_{category}.json"
    if not path.is_file():
        raise QuestionsMissing(f"the file {under}{'/' if under else ''}{path.name} of BFCL is not there")
    # Not splitlines, which also cuts at separators that JSON lets stand inside a string.
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line.strip():
            yield json.loads(line)


def question_of(entry: Mapping[str, Any], category: str) -> Question:
    turns = cast("list[list[Mapping[str, str]]]", entry["question"])
    messages = tuple(ChatMessage(Role(said["role"]), (Text(said["content"]),)) for said in turns[0])
    tools = tuple(
        ToolDefinition(held["name"], held.get("description", ""), normalised(held["parameters"])[0])
        for held in entry["function"]
    )
    return Question(entry["id"], category, messages, tools)
