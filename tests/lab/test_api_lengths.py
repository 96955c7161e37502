"""The programs whose length is compared: how they are counted, and that ours print what they should."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lab.api_lengths import EXPECTED, LIBRARIES, PROGRAMS, Length, length_of
from lab.scripted_chat_server import scripted_chat_server


def test_statements_and_foreign_names_are_counted_and_the_tool_is_not() -> None:
    program = "import os\nfrom ferrule import a, b\ndef f() -> None:\n    return\nfor x in a():\n    print(x)\n"
    assert length_of(program) == Length(statements=4, names=2)


def test_every_library_has_every_task() -> None:
    files = {str(path.relative_to(PROGRAMS)) for path in PROGRAMS.rglob("*.py")}
    assert files == {f"{library}/{task}.py" for library in LIBRARIES for task in EXPECTED}


@pytest.mark.parametrize("task", EXPECTED)
def test_our_program_is_at_most_as_long_as_the_shortest_other(task: str) -> None:
    statements = {
        library: length_of((PROGRAMS / library / f"{task}.py").read_text(encoding="utf-8")).statements
        for library in LIBRARIES
    }
    assert statements["ferrule"] == min(statements.values())


@pytest.mark.parametrize("task", EXPECTED)
def test_our_program_prints_what_it_should(task: str) -> None:
    with scripted_chat_server() as url:
        ended = subprocess.run(
            [sys.executable, str(PROGRAMS / "ferrule" / f"{task}.py")],
            input="y\n",
            env={**os.environ, "URL": url},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert EXPECTED[task] in ended.stdout
    assert ended.stderr == ""
