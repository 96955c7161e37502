"""`ferrule chat` in a real terminal with SmolLM2: a call by the grammar, its raw text, an answer that is stopped."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lab.servers import MODEL
from terminal_program import CTRL_C, CTRL_D, ENTER, in_terminal

pytestmark = pytest.mark.live

TOOLS = '''
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: sunny"
'''


def test_a_person_sees_the_call_its_receipt_and_the_raw_text_and_stops_the_answer(tmp_path: Path) -> None:
    (tmp_path / "weather.py").write_text(TOOLS, encoding="utf-8")
    command = [sys.executable, "-m", "ferrule", "chat", "-e", f"llama:{MODEL}?slots=1&context=2048"]
    options = ["-t", "weather.py:get_weather", "--policy", "required_first_hop", "--temperature", "0"]
    with in_terminal([*command, *options, "--max-tokens", "1500"], tmp_path) as program:
        assert "llama.cpp: " in program.wait_for_prompt()
        program.type(f"How is the weather in Rome?{ENTER}")
        program.wait_for("get_weather returned Rome: sunny")
        program.wait_for("writing")
        program.type(CTRL_C)
        program.wait_for("stopped")
        program.wait_for_prompt()
        assert "grammar by llama" in program.text
        assert "<tool_call>" in program.send("/raw")
        assert "get_weather" in program.send("/raw prompt")
        assert "saved" in program.send("/save talk.json")
        program.type(CTRL_D)
        assert program.wait_for_end() == 0
