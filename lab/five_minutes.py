"""Run the commands of the README's quick start in an empty venv, exactly as printed, and time them.

Ferrule is installed from this checkout instead of from an index; everything else comes from its usual source.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from ferrule.bench.tables import Table, markdown, print_table
from ferrule.errors import FerruleError
from lab.environment import measured_environment
from lab.paths import ROOT
from lab.results_page import publish

_HEADING: Final = "## Five minutes"
_CODE: Final = re.compile(r"^```python live\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND: Final = re.compile(r"^\$ (.+)$", re.MULTILINE)


class CommandFailedError(FerruleError):
    """A command of the README failed, or there is none."""

    code = "bench_path_broken"


@dataclass(frozen=True, slots=True)
class CommandRun:
    command: str
    seconds: float
    output: str


def section_of(readme: str) -> str:
    """The section of the README under the quick start heading."""
    _, heading, rest = readme.partition(_HEADING)
    if not heading:
        raise CommandFailedError(
            "the README has no five minutes", hint=f"Give it a heading that begins with {_HEADING!r}."
        )
    return rest.partition("\n## ")[0]


def run_commands(folder: Path) -> list[CommandRun]:
    """Run each command in an empty venv in that folder; stop at the first that fails."""
    section = section_of((ROOT / "README.md").read_text(encoding="utf-8"))
    (code,) = _CODE.findall(section)
    (folder / "first_call.py").write_text(code, encoding="utf-8")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    return [_run_command(command, folder) for command in _COMMAND.findall(section)]


def _run_command(command: str, folder: Path) -> CommandRun:
    there = command.replace('"ferrule[llama]"', f'"{ROOT}[llama]"')
    script = f'export PATH="{folder}/venv/bin:$PATH"; {there}'
    started = time.monotonic()
    process = subprocess.run(["bash", "-c", script], check=False, cwd=folder, capture_output=True, text=True)
    if process.returncode:
        raise CommandFailedError(f"{command} ended with {process.returncode}: {process.stdout}{process.stderr}")
    return CommandRun(command, time.monotonic() - started, process.stdout)


def _table(steps: list[CommandRun]) -> Table:
    whole = sum(step.seconds for step in steps)
    return Table(
        f"{whole:.0f} seconds from an empty venv to a real call",
        "Includes downloads, at the speed of this machine's connection.",
        ("seconds", "command"),
        [(f"{step.seconds:.1f}", step.command) for step in steps],
        text_columns=2,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/five-minutes", description=__doc__)
    parser.add_argument("--publish", action="store_true", help="write the table to docs/reference/results.md")
    arguments = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory() as folder, console.status("running the README's quick start"):
        steps = run_commands(Path(folder))
    for step in steps:
        console.print(f"[bold]$ {step.command}[/]", highlight=False)
        console.print(step.output, markup=False, highlight=False)
    table = _table(steps)
    print_table(table, console)
    if arguments.publish:
        environment = measured_environment()
        versions = f"Python {environment['Python']}; Ferrule {environment['Ferrule']}"
        description = f"{environment['date']}; {environment['machine']}; {versions}."
        publish(
            "five-minutes",
            "The quick start, timed",
            ["```sh\nscripts/five-minutes\n```", description, markdown(table)],
        )


if __name__ == "__main__":
    main()
