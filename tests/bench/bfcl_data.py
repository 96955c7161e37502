"""A folder like BFCL's own data, with sample questions, and the correct reply to each of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ferrule import Reply, ToolCall
from ferrule.core.request import ToolCallRequest

WEATHER: dict[str, Any] = {
    "name": "weather.get",
    "description": "The weather of a city.",
    "parameters": {
        "type": "dict",
        "properties": {
            "city": {"type": "string", "description": "Which."},
            "days": {"type": "integer", "description": "For how many days."},
        },
        "required": ["city"],
    },
}
CITIES = ("Rome", "Oslo", "Lima", "Bern", "Riga", "Kyiv")


def write_data(folder: Path) -> Path:
    """simple_python, parallel, irrelevance and live_relevance, six questions each."""
    answers = folder / "possible_answer"
    answers.mkdir(parents=True)
    for category in ("simple_python", "parallel", "irrelevance", "live_relevance"):
        lines = [_question(category, number, city) for number, city in enumerate(CITIES)]
        _write(folder / f"BFCL_v4_{category}.json", lines)
    for category, count in (("simple_python", 1), ("parallel", 2)):
        answer_lines = [_answer(category, number, city, count) for number, city in enumerate(CITIES)]
        _write(answers / f"BFCL_v4_{category}.json", answer_lines)
    return folder


def right_reply(request: ToolCallRequest) -> Reply:
    """A call for each city that the question names."""
    text = "".join(message.content for message in request.messages)
    name = request.tools[0].name
    return Reply.of(*(ToolCall.of(name, {"city": city}, id=city) for city in CITIES for _ in range(text.count(city))))


def _question(category: str, number: int, city: str) -> dict[str, Any]:
    prompts = {"irrelevance": "Hello.", "parallel": f"How is {city}, and {city} again?"}.get(
        category, f"How is {city}?"
    )
    question = [[{"role": "user", "content": prompts}]]
    return {"id": f"{category}_{number}", "question": question, "function": [WEATHER]}


def _answer(category: str, number: int, city: str, count: int) -> dict[str, Any]:
    call = {WEATHER["name"]: {"city": [city], "days": ["", 1]}}
    return {"id": f"{category}_{number}", "ground_truth": [call] * count}


def _write(path: Path, lines: list[dict[str, Any]]) -> None:
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
