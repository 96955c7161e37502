"""The first hour of a newcomer, run and timed: `scripts/long first-hour [--print]`.

Ferrule is installed from a wheel of this checkout, and the default model comes from a hub on this machine. Everything
else comes from its usual source. Two newcomers begin with an empty venv and empty caches: one reads the tutorial, the
other begins with `ferrule init`.
"""

import argparse
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from ferrule.bench.tables import Table, markdown, print_table
from lab.environment import measured_environment
from lab.first_hour.course import (
    PI_NOTE,
    PI_PROGRAM,
    URL,
    commands_not_run,
    follow_agent,
    follow_init,
    follow_tutorial,
)
from lab.first_hour.desk import Desk, Step
from lab.first_hour.pages import PageChangedError
from lab.first_hour.terminal import CommandFailedError
from lab.loopback_hub import Hub, loopback_hub
from lab.paths import ROOT
from lab.results_page import publish
from lab.servers import QWEN, answers

_SHORT: Final = 78
_COLUMNS: Final = ("page", "command", "seconds", "first output after")


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long first-hour", description=__doc__)
    parser.add_argument("--print", action="store_true", help="only print; docs/reference/results.md stays as it is")
    arguments = parser.parse_args()
    _check_machine()
    console = Console()
    with tempfile.TemporaryDirectory() as folder, loopback_hub(Hub({QWEN.name: QWEN})) as hub:
        wheels = Path(folder) / "wheels"
        uv = ROOT / ".venv" / "bin" / "uv"
        subprocess.run([uv, "build", "--quiet", "--wheel", "--out-dir", wheels, ROOT], check=True)
        tutorial, gateway = (Desk(Path(folder) / name, wheels, hub.url) for name in ("tutorial", "gateway"))
        try:
            follow_tutorial(tutorial)
            follow_init(gateway)
            follow_agent(gateway)
        finally:
            for step in (*tutorial.steps, *gateway.steps):
                seen = f"after {step.first_output:.1f} s: {step.first_line}"
                text = f"{step.page}\n$ {step.command}\n{seen}\n\n{step.output}"
                console.print(text, markup=False, highlight=False)
    if missing := commands_not_run([*tutorial.steps, *gateway.steps]):
        raise PageChangedError(f"the run has no step for {'; '.join(missing)}")
    tables = [
        _table(
            "The tutorial", tutorial, f"{tutorial.first_call:.0f} seconds from `pip install` to the first real call"
        ),
        _table(
            "ferrule init, the gateway, a chat and a coding agent",
            gateway,
            f"{gateway.first_call:.0f} seconds from `pip install` to the first real call, with the fetch of the model "
            f"({QWEN.stat().st_size / 1e6:.0f} MB) from the hub on this machine",
        ),
    ]
    for table in tables:
        print_table(table, console)
    if not arguments.print:
        _publish(tables)


def _check_machine() -> None:
    """The pages' commands name the port, and cannot run beside another gateway there."""
    if answers("/")(URL, Path()):
        raise CommandFailedError(f"something listens at {URL}", hint="End it; the pages' commands name this port.")
    for path, script in ((QWEN, "scripts/setup-weights"), (PI_PROGRAM, "scripts/setup-agents")):
        if not path.exists():
            raise CommandFailedError(f"there is no {path.name}", hint=f"Run {script}.")


def _table(title: str, desk: Desk, about: str) -> Table:
    whole = sum(step.seconds for step in desk.steps)
    about = f"{about}; {whole:.0f} seconds for all {len(desk.steps)} steps."
    return Table(title, about, _COLUMNS, [_row(step) for step in desk.steps], text_columns=2)


def _row(step: Step) -> Sequence[str]:
    command = step.command if len(step.command) <= _SHORT else f"{step.command[: _SHORT - 4]} ..."
    return (step.page.removeprefix("docs/"), command, f"{step.seconds:.1f}", f"{step.first_output:.1f}")


def _pi_version() -> str:
    return PI_PROGRAM.parents[2].joinpath(".pins").read_text(encoding="utf-8").strip().rpartition("/")[2]


def _publish(tables: Sequence[Table]) -> None:
    environment = measured_environment()
    versions = f"Python {environment['Python']}; Ferrule {environment['Ferrule']}"
    about = (
        "Every command of these pages as it is printed, in an empty venv with an empty cache of pip, in a terminal of "
        "80 columns. What a page promises is checked: calls with receipts, an approval, the answers of the gateway to "
        "the openai SDK and to pi, the console and its traces. Packages come from the index that pip has on this "
        "machine, and the model (Qwen2.5-Coder-0.5B, Q4_K_M) from a hub on "
        "loopback. The steps of `how-to/console.md` open the page at "
        f"`{URL}/console/` and what it loads. {PI_NOTE} Other work ran on the same cores."
    )
    publish(
        "first-hour",
        "The first hour",
        [
            "```sh\nscripts/setup-weights\nscripts/setup-agents\nscripts/long first-hour\n```",
            f"{environment['date']}; {environment['machine']}; {versions}; {_pi_version()}.",
            about,
            *map(markdown, tables),
        ],
    )


if __name__ == "__main__":
    main()
