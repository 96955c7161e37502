"""Runs the command line in this process and returns its output and exit code."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from ferrule.cli.main import main

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city"],
            },
        },
    }
]


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode("utf-8")

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class _Screen(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def run(*argv: str, stdin: str | bytes = "", on_terminal: bool = False) -> Ran:
    """Run one command; with `on_terminal` its output is a terminal."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    printed, complaints = io.BytesIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="ascii"))
        patch.setattr(sys, "stdout", (_Screen if on_terminal else io.TextIOWrapper)(printed, encoding="utf-8"))
        patch.setattr(sys, "stderr", complaints)
        code = main(argv)
        sys.stdout.flush()
        return Ran(code, printed.getvalue(), complaints.getvalue())
