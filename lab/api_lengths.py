"""Count what five small tasks need in Ferrule, Pydantic AI, LangChain and Ollama's client: statements, and names.

Each task is a real program of `lab/api_programs`. All run against one scripted server, and all must print the expected
text. The function that is the tool and the class that is the answer are not counted: they are the same everywhere.
"""

import argparse
import ast
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from ferrule.bench.tables import Table, markdown, print_table
from ferrule.errors import FerruleError
from lab.environment import describe_environment, measured_environment
from lab.paths import CACHE, ROOT
from lab.results_page import publish
from lab.scripted_chat_server import TEXT, scripted_chat_server

PROGRAMS: Final = ROOT / "lab" / "api_programs"
LIBRARIES: Final = {
    "ferrule": "Ferrule",
    "pydantic_ai": "Pydantic AI",
    "langchain": "LangChain",
    "ollama": "Ollama's client",
}
EXPECTED: Final = {
    "first_call": "get_weather {'city': 'Rome'}",
    "loop": TEXT,
    "approval": TEXT,
    "structured_answer": "Italy",
    "stream": TEXT,
}
_SECTION: Final = "api-lengths"
_HEADING: Final = "What a small program needs"
_COMMAND: Final = "```sh\nscripts/bench-api\n```"
_ABOUT: Final = (
    "Statements, and names imported from a package outside the standard library, of the shortest program that we found "
    "for each task. The tool's function and the answer's class are not counted. Every program was run and printed what "
    "it should: the call, the answer after the tool's result, the answer after a question in the terminal, a field of "
    "the parsed object, the text as it arrives. All talk to a scripted server, not to a model. Ollama's client has no "
    "loop and no approval: its programs contain them. Pydantic AI's first call also runs the tool, which is shorter "
    "there. LangChain 1.4.7 with langchain-openai 1.7.3, Pydantic AI 2.66.0, Ollama's client 0.6.3."
)


class ProgramFailedError(FerruleError):
    """A program did not print what it should."""

    code = "bench_program_failed"


@dataclass(frozen=True, slots=True)
class Length:
    """What one program needs."""

    statements: int
    names: int


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench-api", description=__doc__)
    parser.add_argument(
        "--python", action="append", default=[], metavar="LIBRARY=PATH", help="the interpreter that has a library"
    )
    parser.add_argument("--publish", action="store_true", help="write the table to docs/reference/results.md")
    arguments = parser.parse_args()
    peers = str(CACHE / "venvs" / "api-peers" / "bin" / "python")
    pythons = {**dict.fromkeys(LIBRARIES, peers), "ferrule": sys.executable}
    pythons.update(entry.split("=", 1) for entry in arguments.python)
    rows: list[list[str]] = []
    with scripted_chat_server() as url:
        for task, expected in EXPECTED.items():
            lengths: list[Length] = []
            for library in LIBRARIES:
                path = PROGRAMS / library / f"{task}.py"
                _run(path, pythons[library], url, expected)
                lengths.append(length_of(path.read_text(encoding="utf-8")))
            rows.append([task.replace("_", " "), *(f"{one.statements}, {one.names}" for one in lengths)])
    table = Table("Statements and names for five tasks", _ABOUT, ["task", *LIBRARIES.values()], rows)
    print_table(table, Console())
    if arguments.publish:
        publish(_SECTION, _HEADING, [_COMMAND, describe_environment(measured_environment()), markdown(table)])


def length_of(source: str) -> Length:
    """Count a program's statements and imported names, without top-level functions and classes."""
    statements = 0
    names: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        statements += sum(isinstance(each, ast.stmt) for each in ast.walk(node))
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] not in sys.stdlib_module_names:
            names.update(alias.name for alias in node.names)
    return Length(statements, len(names))


def _run(path: Path, python: str, url: str, expected: str) -> None:
    environment = {**os.environ, "URL": url}
    if python != sys.executable:
        # Another interpreter must not find this one's packages.
        environment.pop("PYTHONPATH", None)
    ended = subprocess.run(
        [python, str(path)], input="y\n", env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    if ended.returncode or expected not in ended.stdout:
        raise ProgramFailedError(
            f"{path.relative_to(ROOT)} printed {ended.stdout!r:.200}, expected {expected!r}: {ended.stderr[-800:]}",
            hint="run scripts/bench-api, which creates the venv of the other libraries",
        )


if __name__ == "__main__":
    main()
