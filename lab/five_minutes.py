"""A newcomer's five minutes: the README's own commands, run as they are printed in an empty venv, and timed.

Ferrule comes from this checkout instead of from an index; everything else comes from where the newcomer gets it.
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

from ferrule.bench.tables import Table, markdown, show
from ferrule.errors import FerruleError
from lab.environment import circumstances
from lab.paths import ROOT
from lab.results_page import publish

_HEADING: Final = "## Five minutes"
_CODE: Final = re.compile(r"^```python live\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND: Final = re.compile(r"^\$ (.+)$", re.MULTILINE)


class PathBroken(FerruleError):
    """A command of the README failed, or there is none."""

    code = "bench_path_broken"


@dataclass(frozen=True, slots=True)
class Step:
    command: str
    seconds: float
    printed: str


def section_of(readme: str) -> str:
    """The README from its heading of five minutes to the next heading."""
    _, heading, rest = readme.partition(_HEADING)
    if not heading:
        raise PathBroken("the README has no five minutes", hint=f"Give it a heading that begins with {_HEADING!r}.")
    return rest.partition("\n## ")[0]


def walked(folder: Path) -> list[Step]:
    """What each command took and printed, in an empty venv in that folder. The first that fails ends it."""
    section = section_of((ROOT / "README.md").read_text(encoding="utf-8"))
    (code,) = _CODE.findall(section)
    (folder / "first_call.py").write_text(code, encoding="utf-8")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    return [_step(command, folder) for command in _COMMAND.findall(section)]


def _step(command: str, folder: Path) -> Step:
    there = command.replace('"ferrule[llama]"', f'"{ROOT}[llama]"')
    script = f'export PATH="{folder}/venv/bin:$PATH"; {there}'
    started = time.monotonic()
    ran = subprocess.run(["bash", "-c", script], check=False, cwd=folder, capture_output=True, text=True)
    if ran.returncode:
        raise PathBroken(f"{command} ended with {ran.returncode}: {ran.stdout}{ran.stderr}")
    return Step(command, time.monotonic() - started, ran.stdout)


def _table(steps: list[Step]) -> Table:
    whole = sum(step.seconds for step in steps)
    return Table(
        f"{whole:.0f} seconds from an empty venv to a real call",
        "Downloads included, as fast as they came here.",
        ("seconds", "command"),
        [(f"{step.seconds:.1f}", step.command) for step in steps],
        words=2,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/five-minutes", description=__doc__)
    parser.add_argument("--publish", action="store_true", help="write the table to docs/reference/results.md")
    arguments = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory() as folder, console.status("walking the README's five minutes"):
        steps = walked(Path(folder))
    for step in steps:
        console.print(f"[bold]$ {step.command}[/]", highlight=False)
        console.print(step.printed, markup=False, highlight=False)
    table = _table(steps)
    show(table, console)
    if arguments.publish:
        found = circumstances()
        made = f"{found['date']}; {found['machine']}; Python {found['Python']}; Ferrule {found['Ferrule']}."
        publish(
            "five-minutes", "A newcomer's five minutes", ["```sh\nscripts/five-minutes\n```", made, markdown(table)]
        )


if __name__ == "__main__":
    main()
