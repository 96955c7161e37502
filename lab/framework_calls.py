"""Ask agents of five frameworks the same ten questions, and count the tools that run: `scripts/long frameworks`.

The choice is each framework's default, `auto`. Each framework is asked twice: with and without `reads_drift`, which
reads calls that the model writes in another spelling than its template's.
"""

import argparse
import asyncio
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress

from ferrule.bench.tables import Table, markdown, print_table
from lab.environment import describe_environment, measured_environment
from lab.paths import CACHE, ROOT
from lab.results_page import publish
from lab.saved_parts import SavedParts
from lab.servers import LARGER_QWEN, QWEN

_SECTION: Final = "frameworks"
_HEADING: Final = "Agents of five frameworks on a small model, with their default choice"
_COMMAND: Final = "```sh\nscripts/setup-frameworks\nscripts/setup-weights {}\nscripts/long frameworks{}\n```"
_WORKER: Final = Path(__file__).parent / "peers" / "framework_worker.py"
_FRAMEWORKS: Final = ("langchain", "llamaindex", "crewai", "pydantic-ai", "openai-agents")
_MODELS: Final = {"qwen2.5-coder-0.5b": QWEN, "qwen2.5-coder-1.5b": LARGER_QWEN}
_QUIET: Final = {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
_NUMBERS: Final = {1: ("408",), 3: ("391",), 5: ("9999", "9,999"), 7: ("56",), 9: ("1000", "1,000")}
_WEATHER: Final = {0: ("shower", "21"), 2: ("snow", "2"), 4: ("sunny", "24"), 6: ("shower", "21"), 8: ("snow", "2")}
_EXPECTED: Final = {**_NUMBERS, **_WEATHER}
"""Words of which the right answer to each question holds one."""


@dataclass(frozen=True, slots=True)
class Row:
    framework: str
    model: str
    reads_drift: bool
    results: Sequence[dict[str, Any]]

    @property
    def ran(self) -> int:
        return sum(bool(result["ran"]) for result in self.results)

    @property
    def answered(self) -> int:
        """Questions whose tool ran and whose answer holds what the tool returned."""
        return sum(
            bool(result["ran"]) and any(word in result["answer"] for word in _EXPECTED[number])
            for number, result in enumerate(self.results)
        )

    @property
    def errors(self) -> int:
        return sum(bool(result["error"]) for result in self.results)


async def _row(framework: str, model: str, saved: SavedParts, *, reads_drift: bool) -> Row:
    async def measure() -> list[dict[str, Any]]:
        python = CACHE / "venvs" / f"framework-{framework}" / "bin" / "python"
        spec = f"llama:{_MODELS[model]}?threads=1&slots=1&context=4096{'' if reads_drift else '&reads_drift=false'}"
        environment = {**os.environ, **_QUIET, "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(
            [python, _WORKER, framework, spec], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        lines = [line.removeprefix("RESULT ") for line in done.stdout.splitlines() if line.startswith("RESULT ")]
        if len(lines) != len(_EXPECTED):
            raise SystemExit(
                f"{framework} answered {len(lines)} questions:\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
            )
        return [json.loads(line) for line in lines]

    return Row(framework, model, reads_drift, await saved.part(f"{model} {framework} {reads_drift}", measure))


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long frameworks", description=__doc__)
    parser.add_argument("--model", action="append", choices=tuple(_MODELS), help="default: qwen2.5-coder-0.5b")
    parser.add_argument("--framework", action="append", choices=_FRAMEWORKS, help="default: all")
    parser.add_argument("--print", action="store_true", help="do not write the page of results")
    arguments = parser.parse_args()
    models, console = arguments.model or ["qwen2.5-coder-0.5b"], Console()
    plan = [
        (framework, model, reads_drift)
        for model in models
        for framework in arguments.framework or _FRAMEWORKS
        for reads_drift in (False, True)
    ]
    rows: list[Row] = []
    saved = SavedParts(_SECTION)
    with Progress(console=console) as progress:
        task = progress.add_task("asking", total=len(plan))
        for framework, model, reads_drift in plan:
            rows.append(asyncio.run(_row(framework, model, saved, reads_drift=reads_drift)))
            progress.advance(task)
    table = _table(rows)
    print_table(table, console)
    if not arguments.print:
        names = "".join(f" --model {model}" for model in models)
        command = _COMMAND.format(" ".join(models), names)
        publish(_SECTION, _HEADING, [command, describe_environment(measured_environment()), markdown(table)])


def _table(rows: Sequence[Row]) -> Table:
    count = len(_EXPECTED)
    return Table(
        f"{count} questions, two tools, tool choice auto, temperature 0",
        "*tools run*: questions for which a tool ran. *answered*: of these, answers that hold what the tool returned. "
        "*errors*: questions that ended with an exception of the framework.",
        ("framework", "model", "reads_drift", "tools run", "answered", "errors"),
        [
            (
                *(row.framework, row.model, str(row.reads_drift).lower()),
                *(f"{row.ran} of {count}", str(row.answered), str(row.errors)),
            )
            for row in rows
        ],
        text_columns=3,
    )


if __name__ == "__main__":
    main()
