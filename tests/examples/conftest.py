"""Runs an example in this process, with scripted replies instead of a model."""

from __future__ import annotations

import importlib
import runpy
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ferrule import Reply
from ferrule.engines.fake import FakeEngine
from ferrule.wire import registry

EXAMPLES = Path(__file__).parents[2] / "examples"
Run = Callable[..., str]
Load = Callable[[str], dict[str, Any]]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The import path of `python examples/NAME.py`, and a format registry that is restored afterwards."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(registry, "_registered", {})


@pytest.fixture
def load() -> Load:
    """The definitions of an example, without running it."""
    return cache(lambda name: runpy.run_path(str(EXAMPLES / name), run_name=Path(name).stem))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The output of an example with these replies of the model."""

    def run_example(name: str, replies: Sequence[Reply], *arguments: str) -> str:
        option = importlib.import_module("engine_option")
        monkeypatch.setattr(option, "load_engine", lambda engine: FakeEngine(replies))
        monkeypatch.setattr(sys, "argv", [name, "--engine", "fake:made up", *arguments])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run_example
