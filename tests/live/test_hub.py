"""A model of a hub answers: downloaded whole from a hub on this machine, and again without any hub."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ferrule import load_engine
from lab.loopback_hub import Hub, loopback_hub
from lab.servers import QWEN

pytestmark = pytest.mark.live

REPOSITORY = "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF"
QUESTION = ("chat", "-e", f"hf:{REPOSITORY}?slots=1&context=512", "-m", "Say hello.", "--max-tokens", "4")


def get_weather(city: str, days: int = 1) -> str:
    """The weather of a city for some days."""
    return f"{city}: sunny, {days} days in a row"


def test_a_model_of_a_hub_calls_a_tool_and_then_needs_no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with loopback_hub(Hub({QWEN.name: QWEN, "qwen2.5-coder-0.5b-instruct-fp16.gguf": QWEN})) as hub:
        with load_engine(f"hf:{REPOSITORY}", hub=hub.url, cache=str(tmp_path / "hub"), slots=1, context=1024) as engine:
            reply = engine.ask_sync(
                "How will the weather be in Paris for 3 days?",
                tools=[get_weather],
                tool_choice="required",
                parallel_tool_calls=False,
                temperature=0,
            )
        assert [call.arguments for call in reply.calls] == [{"city": "Paris", "days": 3}]
        assert engine.startup_note.startswith("llama.cpp: ")
    environment = {**os.environ, "HF_HUB_CACHE": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "ferrule", *QUESTION]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip()
    assert "1 slot of 512 tokens" in answer.stderr
