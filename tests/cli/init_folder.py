"""A folder in which `ferrule init` runs as a process, and a model that calls each tool once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from live.scripted_model import Said, results_in

ADDRESS = "http://127.0.0.1:8000"


def init(
    folder: Path, *options: str, prefix: tuple[str, ...] = (), environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `ferrule init` without a terminal."""
    return subprocess.run(
        [*prefix, sys.executable, "-m", "ferrule", "init", *options],
        cwd=folder,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def reply(messages: list[dict[str, Any]], names: list[str]) -> Said:
    """Says hello, makes the doctor's call, and reads the notes for a question about them."""
    results = results_in(messages)
    if results:
        return Said(f"They say: {results[0]}")
    if "get_weather" in names:
        return Said("", [("get_weather", {"city": "Rome"})])
    return Said("", [("read_notes", {})]) if "read_notes" in names else Said("Hello.")


def printed_line(output: str, beginning: str) -> str:
    """The one command of the output that begins so."""
    (line,) = [line.strip() for line in output.splitlines() if line.startswith(f"  {beginning}")]
    return line


def contents(folder: Path) -> dict[str, str]:
    """All files of a folder, with links as what they point to."""
    return {
        str(path.relative_to(folder)): f"-> {path.readlink()}" if path.is_symlink() else path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }
