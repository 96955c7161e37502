"""The README's commands, run as they are printed, in a new folder and venv."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.five_minutes import run_commands

pytestmark = pytest.mark.live

FIVE_MINUTES = 300


def test_a_newcomer_gets_to_a_real_call_in_five_minutes(tmp_path: Path) -> None:
    steps = run_commands(tmp_path)
    printed = "".join(step.output for step in steps)
    assert len(steps) == 5
    assert sum(step.seconds for step in steps) < FIVE_MINUTES
    assert "get_weather {'city': " in printed
    assert "grammar by llama" in printed
    assert "sunny" in printed
