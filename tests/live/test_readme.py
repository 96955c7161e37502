"""A newcomer's five minutes: the README's commands, run as they are printed, in a folder and a venv of their own."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FIVE_MINUTES = 300


def test_a_newcomer_gets_to_a_real_call_in_five_minutes(tmp_path: Path) -> None:
    section = README[README.index("## Five minutes") : README.index("## Conversations")]
    (code,) = re.findall(r"^```python live\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    commands = re.findall(r"^\$ (.+)$", section, re.MULTILINE)
    assert len(commands) == 5
    (tmp_path / "first_call.py").write_text(code, encoding="utf-8")
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    started = time.monotonic()
    printed = ""
    for command in commands:
        # Ferrule comes from this checkout instead of from an index.
        there = command.replace('"ferrule[llama]"', f'"{ROOT}[llama]"')
        script = f'export PATH="{tmp_path}/venv/bin:$PATH"; {there}'
        ran = subprocess.run(["bash", "-c", script], check=False, cwd=tmp_path, capture_output=True, text=True)
        assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
        printed += ran.stdout
    assert time.monotonic() - started < FIVE_MINUTES
    assert "get_weather {'city': " in printed
    assert "grammar by llama" in printed
    assert "sunny" in printed
