"""Measure what the ledger costs, beside another checkout and beside bare commits: `scripts/bench-ledger`.

PostgreSQL is a private server that commits to disk; SQLite is a file. The ledger is used from outside, by conversations
and by a gateway, so that every version of it can be measured. Two checkouts are asked by turns. Without `--before`, the
figures of the ledger before are those of `lab/ledger_before.json`, measured by `--save-before` in a run of its own.
"""

import argparse
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from ferrule.bench.tables import markdown, print_table
from ferrule.errors import FerruleError
from lab.environment import describe_environment, measured_environment
from lab.ledger_gateway import measure_answers, measure_idle_gateway
from lab.ledger_growth import FOLDER, SIZES, fingerprint, measure_growth
from lab.ledger_server import PostgresServer, postgres_server
from lab.ledger_tables import PART_NAMES, growth_picture, length_picture, tables
from lab.ledger_turns import measure_calls, measure_counts, measure_held, measure_lengths
from lab.paths import CACHE, ROOT
from lab.results_page import PAGE, publish

BEFORE: Final = ROOT / "lab" / "ledger_before.json"
_AFTER: Final = CACHE / "results" / "ledger.json"
_BESIDE: Final = CACHE / "results" / "ledger-beside.json"
"""The figures of the other checkout, measured by turns with those of this one."""
_SECTION: Final = "ledger-costs"
_HEADING: Final = "What the ledger costs"
_COMMANDS: Final = {
    True: "```sh\ngit worktree add ../before {commit}\nscripts/bench-ledger --before ../before\n```",
    False: "```sh\nscripts/bench-ledger --save-before\n```",
}
"""With and without figures of this checkout beside those before."""
_PICTURES: Final = {
    "ledger-growth": (growth_picture, "CPU of lists, of a search and of a turn, by the number of conversations"),
    "ledger-length": (length_picture, "Cost of a turn with an effect, by the number of messages"),
}
Figures = dict[str, Any]


class CheckoutMissingError(FerruleError):
    """The path of the other checkout has no sources."""

    code = "bench_checkout_missing"


def measure(
    part: str, checkouts: Mapping[str, Path], options: argparse.Namespace, console: Console
) -> dict[str, Figures]:
    """One part, for each checkout."""
    if part == "growth":
        return measure_growth(checkouts, sorted(options.size or SIZES), options.rounds, console)
    with postgres_server() as server:
        match part:
            case "turns":
                return measure_counts(server, checkouts)
            case "length":
                return measure_lengths(server, checkouts, options.rounds)
            case "calls":
                return measure_calls(server, checkouts, options.rounds)
            case "answers":
                return _answers(server, checkouts, options.rounds)
            case _:
                return _idle(server, checkouts, options.held or (1_000,), options.idle_seconds)


def _idle(
    server: PostgresServer, checkouts: Mapping[str, Path], held: Sequence[int], seconds: float
) -> dict[str, Figures]:
    figures = measure_held(server, checkouts, held)
    return {
        label: {"gateway": measure_idle_gateway(server, checkout, seconds), "held": figures[label]}
        for label, checkout in checkouts.items()
    }


def _answers(server: PostgresServer, checkouts: Mapping[str, Path], rounds: int) -> dict[str, Figures]:
    """By turns; the round whose words waited the least at p95 counts."""
    figures: dict[str, Figures] = {label: {} for label in checkouts}
    for width, answers in ((50, 200), (200, 400)):
        runs: dict[str, list[dict[str, float]]] = {label: [] for label in checkouts}
        for _ in range(rounds):
            for label, checkout in checkouts.items():
                runs[label].append(measure_answers(server, checkout, width, answers))
        for label, each in runs.items():
            figures[label][str(width)] = min(each, key=lambda run: run["p95"])
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    reader = argparse.ArgumentParser(prog="scripts/bench-ledger", description=(__doc__ or "").partition("\n")[0])
    reader.add_argument("--before", type=Path, help="another checkout, measured by turns with this one")
    reader.add_argument("--part", action="append", choices=PART_NAMES, help="measure only this part; may be repeated")
    reader.add_argument("--rounds", type=int, default=3)
    reader.add_argument("--size", type=int, action="append", help="conversations in the ledger; may be repeated")
    reader.add_argument("--held", type=int, action="append", help="turns under way at once (1000); may be repeated")
    reader.add_argument("--idle-seconds", type=float, default=60.0, help="how long an idle gateway is watched (60)")
    reader.add_argument(
        "--save-before", action="store_true", help=f"keep the figures as those before, in {BEFORE.name}"
    )
    reader.add_argument("--forget", action="store_true", help="delete the filled ledgers at the end")
    reader.add_argument("--page", action="store_true", help="measure nothing: write the page from the figures kept")
    reader.add_argument("--print", action="store_true", help="publish nothing")
    options = reader.parse_args(arguments)
    console = Console(width=None if Console().is_terminal else 170)
    checkouts: dict[str, Path] = {} if options.before is None else {"before": _checkout(options.before)}
    checkouts["after"] = ROOT
    files = {"before": _BESIDE, "after": BEFORE if options.save_before else _AFTER}
    for part in () if options.page else options.part or PART_NAMES:
        console.print(f"ledger: {part}", markup=False, highlight=False)
        for label, figures in measure(part, checkouts, options, console).items():
            # Kept after each part: a part takes minutes.
            _keep(files[label], part, figures, checkouts[label])
        if options.before is None:
            _forget_beside(part)
    if options.forget:
        shutil.rmtree(FOLDER, ignore_errors=True)
    _publish(console, is_published=not options.print, has_after=not options.save_before)


def _checkout(path: Path) -> Path:
    path = path.resolve()
    if not (path / "src" / "ferrule").is_dir():
        raise CheckoutMissingError(f"{path} has no src/ferrule", hint="git worktree add ../before COMMIT")
    return path


def _keep(file: Path, part: str, figures: Figures, checkout: Path) -> None:
    """Replace one part of a file of figures. Figures of another commit are not mixed with these."""
    stored, commit = _stored(file), _commit(checkout)
    parts: dict[str, Figures] = stored["parts"] if stored.get("commit") == commit else {}
    if part == "growth":
        # A size that takes an hour is measured by itself.
        sizes = {**parts.get(part, {}), **figures}
        figures = {size: sizes[size] for size in sorted(sizes, key=int)}
    kept = {
        "commit": commit,
        "environment": describe_environment(measured_environment(CACHE / "none")),
        "load": round(os.getloadavg()[0], 1),
        "parts": {**parts, part: figures},
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def _forget_beside(part: str) -> None:
    """Remove a part of the other checkout that was not measured by turns with this checkout's latest figures."""
    stored = _stored(_BESIDE)
    if stored.get("parts", {}).pop(part, None) is not None:
        _BESIDE.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def _stored(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def _commit(checkout: Path) -> str:
    """The last commit that changed a checkout's sources, and whether the ledger has changed since."""
    commit = _git(checkout, "log", "-1", "--format=%h", "--", "src")
    return f"{commit}+{fingerprint(checkout)}" if _git(checkout, "status", "--porcelain", "--", "src") else commit


def _git(checkout: Path, *arguments: str) -> str:
    command = ["git", "-C", str(checkout), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _publish(console: Console, *, is_published: bool, has_after: bool) -> None:
    stored = {"before": _stored(BEFORE), **({"after": _stored(_AFTER)} if has_after else {})}
    versions: dict[str, Figures] = {label: one["parts"] for label, one in stored.items() if one}
    beside = _stored(_BESIDE) if has_after else {}
    if beside.get("parts"):
        versions["before"] = {**versions.get("before", {}), **beside["parts"]}
    made = tables(versions)
    for table in made:
        print_table(table, console)
    if not is_published:
        return
    lines = [
        f"*{label}* is commit {one['commit']}: {one['environment'][:-1]}; load average {one['load']}."
        for label, one in stored.items()
        if one
    ]
    if beside.get("parts"):
        by_turns = ", ".join(beside["parts"])
        lines.append(f"Measured by turns with commit {beside['commit']} as *before*: {by_turns}.")
    command = _COMMANDS["after" in versions].format(commit=stored["before"].get("commit", "COMMIT"))
    parts = [command, "\n".join(lines), *map(markdown, made)]
    for name, (draw, about) in _PICTURES.items():
        drawn = draw(versions)
        if drawn is not None:
            path = Path(f"images/{name}.svg")
            (PAGE.parent / path).write_text(drawn, encoding="utf-8")
            parts.append(f"![{about}]({path})")
    publish(_SECTION, _HEADING, parts)


if __name__ == "__main__":
    main()
